"""Jobs in which ranks wait for each other in vain."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from _gen import cann, console
from _gen.shapes import Clock, Folder, Job, case_text, ctime, make_ranks, name_stamp, slog


def hccl_link_timeout_dead_peer() -> Job:
    """Rank 2 stops before the first collective; its neighbours wait for the socket link."""
    rnd = random.Random("hccl-link-timeout-dead-peer")
    folder = Folder()
    ranks = make_ranks(rnd, nodes=("worker-0", "worker-1"), per_node=2)
    started = datetime(2026, 1, 22, 13, 2, 44, 90_377)
    root = cann.root_info(ranks, started)
    dead = ranks[2]
    consoles: list[str] = [*console.WARNINGS, *console.arguments(world_size=4, data_parallel_size=2)]
    consoles += console.setup(started + timedelta(seconds=19), 4)
    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=210 * process.rank), rnd)
        cann.start_up(process, clock, 4, root)
        if process is dead:
            continue
        clock.at(started + timedelta(seconds=171, milliseconds=130 * process.rank))
        if process.rank == 0:
            clock.skip(0.8)
            process.log(
                "ERROR",
                "HCCL",
                clock.tick(),
                f"[adapter_hccp.cc:1357] [{process.tid + 31}][Recv][RaSocket]errNo[0x000000000500000d] recv fail, "
                "data[0xfffddc0e6ef0], size[2239]",
            )
            process.log(
                "ERROR",
                "HCCL",
                clock.tick(),
                f"[transport_p2p.cc:139] [{process.tid + 31}][TransportP2p][Init] failed to recv exchangeData "
                "exchangeDataTotalSize[2239], custom exchange data size [1472].",
            )
            cann.transport_error(process, clock, ranks[1], root=root)
            block = [
                f"EI0009: [PID: {process.pid}] {clock.tick():%Y-%m-%d-%H:%M:%S}.402.118 Transport init error. Reason: "
                "[Create][DestLink]Create Dest error! createLink para:rank[0]-localUserrank[0], "
                "remoteRank[1]-remoteUserrank[1]"
            ]
        else:
            role = "server" if process.rank < dead.rank else "client"
            block = cann.link_timeout(process, clock, dead, role=role, timeout=120, root=root)
        if process.node == "worker-0":
            prefix = f"[rank{process.rank}]: "
            error = (
                "RuntimeError: InnerRunOpApi:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:287 OPS function error: "
                "HcclAllreduce, error code is 9"
            )
            frames = console.train_frames(
                (
                    f"{console.SITE}/torch/distributed/distributed_c10d.py",
                    2050,
                    "all_reduce",
                    "work = group.allreduce([tensor], opts)",
                )
            )
            consoles += console.prefixed(prefix, console.traceback(frames, error))
            consoles += console.prefixed(
                prefix, [console.pta_error(process, clock.now, "ERR02200 DIST call hccl api failed."), *block]
            )
    folder.plogs(ranks)
    end = started + timedelta(seconds=174)
    consoles += console.elastic("pretrain_gpt.py", [(ranks[1], 1, end), (ranks[0], 1, end)], ranks[0].pid - 31)
    folder.text("worker-0/train.log", consoles)
    return Job(
        "hccl-link-timeout-dead-peer",
        case_text(
            title="One rank vanished before the first collective",
            en=(
                "Four ranks on two nodes. Rank 2 (worker-1, device 0) joined the communicator and then fell "
                "silent: no error, no further record. Ranks 1 and 3 wait 120 s for a socket link to it and "
                "report EI0006 with a table that names it; rank 0 fails half a second later because rank 1 is "
                "gone. The culprit is rank 2, not one of those that complain. The console of worker-1 was not "
                "collected."
            ),
            zh=(
                "两个节点共四个 rank。rank 2（worker-1 的 device 0）加入通信域后再无任何日志。"
                "rank 1 和 rank 3 等待与其建链 120 s 后超时，上报 EI0006，表格中均指向 rank "
                "2；rank 0 因 rank 1 退出而随后失败。故障源是沉默的 rank 2，而不是报错的 rank。"
                "worker-1 的训练日志未收集。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [collective-link-timeout]
  category: [hccl-init, hccl-timeout]
  min_severity: critical
  ranks: [2]
  devices: [0]
  nodes: [worker-1]
  evidence:
    - {file: "**/debug/plog/plog-*.log", contains: "LINK_ERROR_INFO"}
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def hccl_notify_timeout_dead_peer() -> Job:
    """Rank 5 dies of a Python error; the others wait 1836 s for it."""
    rnd = random.Random("hccl-notify-timeout-dead-peer")
    folder = Folder()
    ranks = make_ranks(rnd)
    started = datetime(2026, 3, 11, 14, 20, 3, 481_902)
    root = cann.root_info(ranks, started)
    dead = ranks[5]
    steps, crash = console.iterations(started + timedelta(seconds=44), rnd, 44)
    launched = crash + timedelta(seconds=1.1)
    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=61 * process.rank), rnd)
        cann.start_up(process, clock, 8, root)
        cann.steady(process, clock, 1)
        lines = [*console.WARNINGS]
        if process.rank == 0:
            lines += [*console.arguments(), *console.setup(started + timedelta(seconds=25), 8)]
        if process.rank == 7:
            lines += steps
        if process is dead:
            frames = console.train_frames(
                (
                    "/workspace/MindSpeed-LLM/pretrain_gpt.py",
                    203,
                    "forward_step",
                    "tokens, labels, loss_mask, mask, ids = get_batch(data_iterator)",
                ),
                (f"{console.SITE}/torch/utils/data/dataloader.py", 1448, "_process_data", "data.reraise()"),
                ("/workspace/corpus/packed_dataset.py", 118, "__getitem__", "span = self.index['spans'][sample]"),
            )
            lines += [
                f"{crash + timedelta(seconds=0.4):%Y-%m-%d %H:%M:%S},211 - WARNING - packed_dataset: shard 17 has "
                f"no index"
            ]
            lines += console.prefixed("[rank5]: ", console.traceback(frames, "KeyError: 'spans'"))
        else:
            lost = crash + timedelta(seconds=31)
            informer = ranks[4 if process.rank <= 4 else 6]
            cann.heartbeat_event(process, lost + timedelta(milliseconds=process.rank), dead, informer, "LOST")
            clock.at(launched + timedelta(seconds=1836, milliseconds=90 * process.rank))
            remote = {4: 5, 6: 5}.get(process.rank, (process.rank + 1) % 8 if process.rank < 5 else 6)
            block = cann.notify_timeout(
                process,
                clock,
                8,
                root,
                remote,
                launched=launched,
                rnd=rnd,
                cluster=cann.location(dead, informer, lost, "Heartbeat Lost Occurred"),
            )
            error = (
                "RuntimeError: npuSynchronizeUsedDevices:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:472 NPU "
                "function error: "
                "c10_npu::npuSynchronizeUsedDevices(), error code is 507048"
            )
            prefix = f"[rank{process.rank}]: "
            lines += console.prefixed(prefix, console.traceback(console.train_frames(*console.SYNC_FRAMES), error))
            lines += console.prefixed(prefix, [console.pta_error(process, clock.now), *block])
        folder.text(f"node-a/train_rank{process.rank}.log", lines)
    folder.plogs(ranks)
    return Job(
        "hccl-notify-timeout-dead-peer",
        case_text(
            title="One rank died of a Python error, seven waited half an hour",
            en=(
                "Eight ranks started by a shell loop, one console file each. Rank 5 dies with a KeyError in its "
                "data set after iteration 44. Nobody stops the others: after 1836 s (HCCL_EXEC_TIMEOUT) all "
                "seven report EI0002. The cause is the Python error of rank 5; raising the time-out would only "
                "make the wait longer."
            ),
            zh=(
                "八个 rank 由 shell 循环启动，各有一个训练日志。第 44 步之后 rank 5 在数据集中抛出 "
                "KeyError 退出，其余 rank 无人终止，等待 1836 s（"
                "HCCL_EXEC_TIMEOUT）后全部上报 EI0002。根因是 rank 5 的 Python 异常，"
                "调大超时时间只会延长等待。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [exception-in-data-code]
  min_severity: error
  ranks: [5]
  evidence:
    - {file: "**/train_rank5.log", contains: "KeyError: 'spans'"}
consequences: [collective-notify-timeout]
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def rdma_cqe_link_down() -> Job:
    """A port of node-b goes down for good; RoCE retransmission runs out on node-a."""
    rnd = random.Random("rdma-cqe-link-down")
    folder = Folder()
    ranks = make_ranks(rnd, nodes=("node-a", "node-b"), per_node=4)
    started = datetime(2026, 4, 14, 6, 15, 29, 730_214)
    root = cann.root_info(ranks, started)
    steps, last = console.iterations(started + timedelta(seconds=52), rnd, 61)
    down = last + timedelta(seconds=0.9)
    bad, witness = ranks[5], ranks[1]
    boot = datetime(2026, 4, 9, 11, 20, 17, 11_800)
    lines: list[str] = [
        *console.WARNINGS,
        *console.arguments(),
        *console.setup(started + timedelta(seconds=30), 8),
        *steps,
    ]
    error = (
        "RuntimeError: npuSynchronizeUsedDevices:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:472 NPU function "
        "error: "
        "c10_npu::npuSynchronizeUsedDevices(), error code is 507048"
    )
    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=75 * process.rank), rnd)
        cann.start_up(process, clock, 8, root, exec_timeout=300)
        cann.steady(process, clock, 2)
        seen = down + timedelta(seconds=12)
        tid = process.tid
        if process is witness:
            clock.at(seen)
            p = process
            p.log(
                "ERROR",
                "ROCE",
                clock.tick(),
                "[hns_roce_lite.c:630]hns_roce_lite_handle_error_cqe(630) : error cqe status: 0x15",
            )
            for index in range(8):
                p.log(
                    "ERROR",
                    "ROCE",
                    clock.tick(2, 9),
                    f"[hns_roce_lite.c:747]dump_err_cqe(747) : CQ(0x10) CQE(0x5) INDEX(0x{index:08x}): "
                    f"0x{rnd.getrandbits(32):08x}",
                )
            p.log(
                "ERROR",
                "HCCP",
                clock.tick(2, 9),
                f"[ra_hdc_lite.c:794]tid:{tid + 50},ra_hdc_lite_period_poll_cqe : "
                f"[create][ra_hdc_period_poll]failed CQE status[12], wr[0]",
            )
            p.log(
                "ERROR",
                "HCCL",
                clock.tick(500_000, 900_000),
                f"[heartbeat.cc:1229] [{p.pid + 96}][TaskExecStage][HeartbeatAbnormal][ROCE CQE ERROR]cqe error "
                f"status[12], "
                f"time:[{seen:%Y-%m-%d %H:%M:%S.%f}],localInfo{{server[{p.host_ip}],deviceId[{p.device}],"
                f"deviceIp[{p.device_ip}]}}, "
                f"remoteIP{{server[{bad.host_ip}],deviceId[{bad.device}],deviceIp[{bad.device_ip}]}}",
            )
        cann.heartbeat_event(process, seen + timedelta(seconds=2, milliseconds=process.rank), bad, witness, "ERROR CQE")
        clock.at(down + timedelta(seconds=300.4, milliseconds=70 * process.rank))
        remote = {1: 5, 5: 1}.get(process.rank, (process.rank + 1) % 8)
        block = cann.notify_timeout(
            process,
            clock,
            8,
            root,
            remote,
            launched=down,
            rnd=rnd,
            cluster=cann.location(bad, witness, seen, "Error cqe Occurred"),
        )
        if process.node == "node-a":
            prefix = f"[rank{process.rank}]: "
            lines += console.prefixed(prefix, console.traceback(console.train_frames(*console.SYNC_FRAMES), error))
            lines += console.prefixed(prefix, [console.pta_error(process, clock.now), *block])
            if process is witness:
                lines += console.prefixed(
                    prefix,
                    [
                        f"[PID: {process.pid}] {clock.tick():%Y-%m-%d-%H:%M:%S}.604.911 "
                        f"Execution_Error_ROCE_CQE(EI0013): An error CQE "
                        f"occurred during operator execution. Local information: server {process.host_ip}, device ID "
                        f"{process.device}, device IP {process.device_ip}. Peer information: server {bad.host_ip}, "
                        f"device ID "
                        f"{bad.device}, device IP {bad.device_ip}.",
                        "        Possible Cause: 1. The network between two devices is abnormal. For example, the "
                        "network port is "
                        "intermittently disconnected.2. The peer process exits abnormally in advance. As a result, "
                        "the local end "
                        "cannot receive the response from the peer end.",
                        "        Solution: 1. Check whether the network devices between the two ends are "
                        "abnormal.2. Check whether "
                        "the peer process exits first. If yes, check the cause of the process exit.",
                    ],
                )
    folder.plogs(ranks)
    folder.text("node-a/train.log", lines)
    events = cann.boot_events(3391, boot, bad.device)
    events.append(
        cann.device_event(
            3391,
            down,
            event=0x81078603,
            device=bad.device,
            node="0x83[PORT]",
            kind="0x3[link status change]",
            severity="2[Alarm]",
            assertion="1[Event occur]",
            serial=2,
            description="PORT 0x3",
            uptime=(down - boot).total_seconds() + 61.2,
        )
    )
    folder.text(f"node-b/slog/dev-os-{bad.device}/run/event/event_{name_stamp(boot)}.log", events)
    now = down + timedelta(seconds=900)
    lines = []
    for device in range(4):
        head = f"[devid {device}]"
        lines.append(f"{head}current time        : {ctime(now)}")
        lines.append(f"{head}link up count       : 1")
        lines.append(f"{head}link down count     : {int(device == bad.device)}")
        lines.append(f"{head}link change records :")
        if device == bad.device:
            lines.append(f"{head}    {ctime(down)}    LINK DOWN")
        lines.append(f"{head}    {ctime(boot + timedelta(seconds=40))}    LINK UP")
        lines.append("")
    folder.text("node-b/hccn_link_stat.txt", lines)
    return Job(
        "rdma-cqe-link-down",
        case_text(
            title="A network port went down and stayed down",
            en=(
                "Two nodes of four ranks. Device 1 of node-b loses its port (event 0x81078603 without a resume, "
                "LINK DOWN in the link records). Rank 1 of node-a runs out of RoCE retransmissions (error CQE "
                "12, EI0013); all ranks time out in the next AllReduce."
            ),
            zh=(
                "两个节点各四个 rank。node-b 的 device 1 端口断开且未恢复（事件 0x81078603 "
                "没有对应的恢复记录，link 记录中为 LINK DOWN）。node-a 的 rank 1 出现 RoCE "
                "重传超次（error CQE 12，EI0013），随后所有 rank 在下一个 AllReduce 中超时。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [npu-link-down]
  category: [device-fault, hccl-timeout, host-fault]
  min_severity: error
  devices: [1]
  nodes: [node-b]
  evidence:
    - {file: "**/node-b/**", contains: "0x81078603|LINK DOWN"}
consequences: [collective-notify-timeout]
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def port_conflict() -> Job:
    """Torchrun cannot bind its rendezvous port."""
    folder = Folder()
    moment = datetime(2026, 2, 3, 10, 11, 52, 19_004)
    site = console.SITE
    lines = [
        f"[{moment:%Y-%m-%d %H:%M:%S},019] torch.distributed.run: [WARNING] ",
        f"[{moment:%Y-%m-%d %H:%M:%S},019] torch.distributed.run: [WARNING] *****************************************",
        f"[{moment:%Y-%m-%d %H:%M:%S},019] torch.distributed.run: [WARNING] Setting OMP_NUM_THREADS environment "
        f"variable for each "
        "process to be 1 in default, to avoid your system being overloaded, please further tune the variable for "
        "optimal "
        "performance in your application as needed. ",
        f"[{moment:%Y-%m-%d %H:%M:%S},019] torch.distributed.run: [WARNING] *****************************************",
        "[W socket.cpp:464] [c10d] The server socket has failed to bind to [::]:29512 (errno: 98 - Address already "
        "in use).",
        "[W socket.cpp:464] [c10d] The server socket has failed to bind to ?UNKNOWN? (errno: 98 - Address already "
        "in use).",
        "[E socket.cpp:500] [c10d] The server socket has failed to listen on any local network address.",
        *console.traceback(
            (
                ("/usr/local/bin/torchrun", 8, "<module>", "sys.exit(main())"),
                (
                    f"{site}/torch/distributed/elastic/multiprocessing/errors/__init__.py",
                    346,
                    "wrapper",
                    "return f(*args, **kwargs)",
                ),
                (f"{site}/torch/distributed/run.py", 806, "main", "run(args)"),
                (
                    f"{site}/torch/distributed/launcher/api.py",
                    134,
                    "__call__",
                    "return launch_agent(self._config, self._entrypoint, list(args))",
                ),
                (
                    f"{site}/torch/distributed/elastic/agent/server/api.py",
                    546,
                    "_rendezvous",
                    "store, group_rank, group_world_size = spec.rdzv_handler.next_rendezvous()",
                ),
                (
                    f"{site}/torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py",
                    54,
                    "next_rendezvous",
                    "self._store = TCPStore(  # type: ignore[call-arg]",
                ),
            ),
            "RuntimeError: The server socket has failed to listen on any local network address. The server socket "
            "has failed to "
            "bind to [::]:29512 (errno: 98 - Address already in use). The server socket has failed to bind to "
            "?UNKNOWN? "
            "(errno: 98 - Address already in use).",
        ),
    ]
    folder.text("node-a/train.log", lines)
    return Job(
        "port-conflict",
        case_text(
            title="The rendezvous port is taken",
            en=(
                "torchrun cannot bind port 29512, because another job or a leftover of the last one holds it. "
                "No rank was started."
            ),
            zh=("torchrun 无法绑定 29512 端口，该端口被其他作业或上次作业的残留进程占用，没有任何 rank 启动。"),
            expect="""\
exit: 0
verdict: findings
root:
  names: [master-port-in-use, rendezvous-port-in-use]
  category: [process-conflict]
  min_severity: error
  evidence:
    - {file: "**/train.log", contains: "Address already in use"}
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def process_conflict() -> Job:
    """The previous job still holds the devices."""
    rnd = random.Random("process-conflict")
    folder = Folder()
    ranks = make_ranks(rnd, per_node=2)
    started = datetime(2026, 6, 8, 16, 44, 21, 300_512)
    root = cann.root_info(ranks, started)
    lines = [*console.WARNINGS]
    for process in ranks:
        p = process
        clock = Clock(started + timedelta(milliseconds=44 * p.rank), rnd)
        cann.start_up(p, clock, 2, root, join=False)
        clock.skip(0.7)
        for module, body in (
            (
                "TDT",
                f"[process_mode_manager.cpp:332][WaitRsp][tid:{p.tid}] tsd client wait response fail, "
                f"hostpid:{p.pid}, device response code[1]. unknown device error.",
            ),
            (
                "HCCL",
                f"[adapter_tdt.cc:117] [{p.pid}][Open][TsdClient]errNo[0x0000000005000007] Open TsdClient failed, "
                f"rankSize[2], devicePhyId[{p.device}], ret[31]",
            ),
            ("HCCL", f"[network_manager.cc:64] [{p.pid}]call trace: hcclRet -> 7"),
            ("HCCL", f"[hccl_comm.cc:100] [{p.pid}][HcclComm][Init]errNo[0x0000000005000007] hccl initialize failed"),
            (
                "HCCL",
                f"[op_base.cc:644] [{p.pid}][Init][CommRootInfo]errNo[0x0000000005000007] HcclCommInitRootInfo "
                f"failed, rankNum[2], rank[{p.rank}], server[{p.host_ip}%eth0], return[0x0000000005000007]",
            ),
        ):
            p.log("ERROR", module, clock.tick(), body)
        prefix = f"[rank{p.rank}]: "
        frames = (
            ("/workspace/MindSpeed-LLM/pretrain_gpt.py", 291, "<module>", "main()"),
            (f"{console.SITE}/megatron/training/initialize.py", 96, "finish_mpu_init", "_initialize_distributed()"),
            (
                f"{console.SITE}/torch/distributed/distributed_c10d.py",
                3703,
                "barrier",
                "work = group.barrier(opts=opts)",
            ),
        )
        error = (
            "RuntimeError: create_config:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:102 HCCL function error: "
            "hcclCommInitRootInfoConfig(numRanks, &rootInfo, rank, config, &(comm->hcclComm_)), error code is 7"
        )
        lines += console.prefixed(prefix, console.traceback(frames, error))
        lines += console.prefixed(
            prefix,
            [
                console.pta_error(p, clock.now, "ERR02200 DIST call hccl api failed."),
                f"EJ0001: [PID: {p.pid}] {clock.tick():%Y-%m-%d-%H:%M:%S}.112.310 Failed to initialize the HCCP "
                f"process. Reason: Maybe "
                "the last training process is running.",
                "        Solution: Wait for 10s after killing the last training process and try again.",
                "        TraceBack (most recent call last):",
                f"        tsd client wait response fail, hostpid:{p.pid}, device response code[1]. unknown device "
                f"error."
                "[FUNC:WaitRsp][FILE:process_mode_manager.cpp][LINE:332]",
            ],
        )
    end = started + timedelta(seconds=9)
    lines += console.elastic("pretrain_gpt.py", [(ranks[0], 1, end), (ranks[1], 1, end)], ranks[0].pid - 22)
    folder.plogs(ranks)
    folder.text("node-a/train.log", lines)
    return Job(
        "process-conflict",
        case_text(
            title="The previous job still holds the devices",
            en=(
                "Both ranks fail in the first communicator with EJ0001: the HCCP process of an earlier job is "
                "still running on the devices. Stop the leftovers, wait ten seconds, start again."
            ),
            zh=(
                "两个 rank 均在创建首个通信域时上报 EJ0001：上一个作业的 HCCP 进程仍占用设备。清理残留进程，"
                "等待 10 s 后重新启动。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [process-still-holds-device]
  category: [process-conflict]
  min_severity: error
  evidence:
    - {file: "**/train.log", contains: "EJ0001"}
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def missing_cann() -> Job:
    """The shell has no CANN environment."""
    folder = Folder()
    site = console.SITE
    moment = datetime(2026, 1, 9, 9, 2, 14)
    message = (
        "ImportError: libhccl.so: cannot open shared object file: No such file or directory. Please check that the "
        "cann package "
        "is installed. Please run 'source set_env.sh' in the CANN installation path."
    )
    lines = [
        f"+ [{moment:%H:%M:%S}] bash pretrain_llama2_7b.sh",
        "+ export MASTER_PORT=6000",
        "+ torchrun --nproc_per_node 8 pretrain_gpt.py",
    ]
    inner = console.traceback(
        (
            (f"{site}/torch/__init__.py", 2475, "_import_device_backends", "entrypoint = backend_extension.load()"),
            (f"{site}/torch_npu/__init__.py", 40, "<module>", "import torch_npu.npu"),
            (f"{site}/torch_npu/npu/__init__.py", 122, "<module>", "import torch_npu._C"),
        ),
        message,
    )
    lines += inner
    lines += ["", "The above exception was the direct cause of the following exception:", ""]
    lines += console.traceback(
        (
            ("/usr/local/bin/torchrun", 5, "<module>", "from torch.distributed.run import main"),
            (f"{site}/torch/__init__.py", 2486, "<module>", "_import_device_backends()"),
            (f"{site}/torch/__init__.py", 2479, "_import_device_backends", "raise RuntimeError("),
        ),
        "RuntimeError: Failed to load the backend extension: torch_npu. You can disable extension auto-loading with "
        "TORCH_DEVICE_BACKEND_AUTOLOAD=0.",
    )
    folder.text("node-a/train.log", lines)
    folder.text(
        "node-a/ascend/log/run/plog/plog-40112_20260109090105117.log",
        [
            slog(
                "INFO",
                "ATRACE",
                40112,
                "npu-smi",
                moment - timedelta(seconds=69),
                "[trace_attr.c:189](tid:40112) attr init success, timeout=0ms.",
            )
        ],
    )
    return Job(
        "missing-cann",
        case_text(
            title="The CANN environment was not loaded",
            en=(
                "importing torch_npu fails because libhccl.so is not found: the shell that started torchrun had "
                "not sourced set_env.sh of the CANN toolkit."
            ),
            zh=("导入 torch_npu 时找不到 libhccl.so：启动 torchrun 的 shell 没有执行 CANN 的 set_env.sh。"),
            expect="""\
exit: 0
verdict: findings
root:
  names: [cann-not-sourced, cann-library-missing]
  category: [environment]
  min_severity: error
  evidence:
    - {file: "**/train.log", contains: "libhccl.so"}
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )
