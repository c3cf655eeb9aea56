"""Jobs on several hosts in which a host, a port or a card breaks first."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from _gen import cann, console, hccl
from _gen.shapes import Clock, Folder, Job, Process, case_text, ctime, make_ranks, name_stamp
from _gen.silence import SYNC_ERROR


def _next(rank: int, world: int, culprit: int) -> int:
    """Return the neighbour in the ring that a rank waits for: the way round that leads to the culprit."""
    ahead = (culprit - rank) % world <= world // 2
    return (rank + (1 if ahead else -1)) % world


def aicore_exception_one_of_64() -> Job:
    """A vector kernel of rank 37 fails; 63 ranks on eight nodes wait for it."""
    rnd = random.Random("aicore-exception-one-of-64")
    folder = Folder()
    nodes = tuple(f"node-{letter}" for letter in "abcdefgh")
    ranks = make_ranks(rnd, nodes=nodes, per_node=8)
    started = datetime(2026, 4, 27, 4, 30, 12, 88_123)
    root = cann.root_info(ranks, started)
    bad, crash = ranks[37], started + timedelta(seconds=614.2)
    lines = [*console.WARNINGS]
    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=21 * process.rank), rnd)
        hccl.introduce(process, clock, 64, root, exec_timeout=300)
        if process is bad:
            clock.at(crash)
            block = cann.vector_core_exception(process, clock, "GatherV3_9b1d_high_performance_41", rnd)
            error = SYNC_ERROR.replace("507048", "507035")
            prefix = f"[rank{process.rank}]: "
            lines += console.prefixed(prefix, console.traceback(console.train_frames(*console.SYNC_FRAMES), error))
            lines += console.prefixed(prefix, [console.pta_error(process, clock.now), *block])
            continue
        clock.at(crash + timedelta(seconds=300.4, milliseconds=11 * process.rank))
        hccl.gave_up(
            process,
            clock,
            root,
            64,
            process.rank,
            remote=_next(process.rank, 64, bad.rank),
            launched=crash + timedelta(milliseconds=process.rank),
            index=2304,
            rnd=rnd,
        )
    folder.plogs(ranks)
    end = crash + timedelta(seconds=3)
    others = [process for process in ranks if process.node == bad.node and process is not bad]
    lines += console.elastic("pretrain_gpt.py", [(bad, 1, end)], bad.pid - 60, terminated=others)
    folder.text(f"{bad.node}/train.log", lines)
    return Job(
        "aicore-exception-one-of-64",
        case_text(
            title="A kernel fails on one of 64 ranks",
            en=(
                "Eight nodes of eight ranks. A vector kernel of rank 37 (node-e, device 5) reads out of range "
                "(507035). The 63 others wait 300 s and report EI0002; only the two neighbours of rank 37 name it, the "
                "others name their own neighbour in the ring. Only the console of node-e was kept."
            ),
            zh=(
                "八个节点各八个 rank。rank 37（node-e 的 device 5）的 vector 算子访问越界（507035）。"
                "其余 63 个 rank 等待 300 s 后上报 EI0002，其中只有 rank 37 的两个邻居点名它，"
                "其余均指向各自环上的邻居。"
                "仅保留了 node-e 的训练日志。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [vector-core-exception, aicore-address-out-of-range]
  category: [aicore-exception]
  min_severity: critical
  ranks: [37]
  devices: [5]
  nodes: [node-e]
  evidence:
    - {file: "**/node-e/**", contains: "GatherV3|out of range|507035|vector core exception"}
consequences: [collective-notify-timeout]
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def host_oom_kill() -> Job:
    """The kernel of node-a kills rank 2; the ranks of node-b wait for the whole node."""
    rnd = random.Random("host-oom-kill")
    folder = Folder()
    ranks = make_ranks(rnd, nodes=("node-a", "node-b"), per_node=4)
    started = datetime(2026, 3, 2, 21, 19, 47, 310_882)
    root = cann.root_info(ranks, started)
    steps, last = console.iterations(started + timedelta(seconds=41), rnd, 71)
    killed, when = ranks[2], last + timedelta(seconds=0.6)
    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=64 * process.rank), rnd)
        hccl.introduce(process, clock, 8, root, exec_timeout=300)
        cann.steady(process, clock, 2)
        if process.node == killed.node:
            continue
        lost = when + timedelta(seconds=31)
        cann.heartbeat_event(process, lost + timedelta(milliseconds=process.rank), killed, ranks[6], "LOST")
        clock.at(when + timedelta(seconds=300.5, milliseconds=45 * process.rank))
        hccl.gave_up(
            process,
            clock,
            root,
            8,
            process.rank,
            remote=process.rank - 4,
            launched=when + timedelta(milliseconds=200),
            index=1450,
            rnd=rnd,
            cluster=cann.location(killed, ranks[6], lost, "Heartbeat Lost Occurred"),
        )
    folder.plogs(ranks)
    lines = [*console.WARNINGS, *console.arguments(), *console.setup(started + timedelta(seconds=26), 8), *steps]
    end = when + timedelta(seconds=2.2)
    others = [process for process in ranks[:4] if process is not killed]
    lines += console.elastic("pretrain_gpt.py", [(killed, -9, end)], killed.pid - 55, terminated=others)
    folder.text("node-a/train.log", lines)
    stamp = f"[{ctime(when)}]"
    folder.text(
        "node-a/dmesg.log",
        [
            f"[{ctime(started - timedelta(hours=61))}] Booting Linux on physical CPU 0x0000080000 [0x481fd010]",
            f"[{ctime(started - timedelta(hours=61))}] Linux version 5.10.0-182.0.0.95.oe2203sp3.aarch64",
            f"{stamp} python3 invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0",
            f"{stamp} CPU: 41 PID: {killed.pid} Comm: python3 Tainted: G           OE     5.10.0-182.0.0.95.oe2203sp3",
            f"{stamp} oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-7,global_oom,"
            f"task_memcg=/user.slice,task=python3,pid={killed.pid},uid=0",
            f"{stamp} Out of memory: Killed process {killed.pid} (python3) total-vm:918285284kB, anon-rss:618185280kB, "
            "file-rss:128kB, shmem-rss:2048kB, UID:0 pgtables:1220048kB oom_score_adj:0",
        ],
    )
    return Job(
        "host-oom-kill",
        case_text(
            title="The host runs out of memory and kills one rank",
            en=(
                "Two nodes of four ranks. The kernel of node-a kills rank 2 for want of memory; torchrun sees exit "
                "code -9 and stops the others of that node. The ranks of node-b lose the heartbeat of rank 2 and time "
                "out 300 s later. dmesg names only a process id; the plogs tell that it is rank 2."
            ),
            zh=(
                "两个节点各四个 rank。node-a 主机内存耗尽，内核杀死 rank 2；"
                "torchrun 看到退出码 -9 后终止该节点其余进程。"
                "node-b 的各 rank 心跳发现 rank 2 失联，300 s 后超时。dmesg 只有进程号，结合 plog 可知该进程是 rank 2。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [host-oom-killed]
  category: [host-fault, out-of-memory]
  min_severity: error
  ranks: [2]
  devices: [2]
  nodes: [node-a]
  evidence:
    - {file: "**/node-a/dmesg.log", contains: "Out of memory: Killed process|oom-kill"}
consequences: [collective-notify-timeout]
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def _link_stat(devices: int, bad: Process, down: datetime, up: datetime, boot: datetime) -> list[str]:
    now = up + timedelta(seconds=1200)
    lines = []
    for device in range(devices):
        head = f"[devid {device}]"
        flapped = device == bad.device
        lines.append(f"{head}current time        : {ctime(now)}")
        lines.append(f"{head}link up count       : {1 + flapped}")
        lines.append(f"{head}link down count     : {int(flapped)}")
        lines.append(f"{head}link change records :")
        if flapped:
            lines += [f"{head}    {ctime(up)}    LINK UP", f"{head}    {ctime(down)}    LINK DOWN"]
        lines += [f"{head}    {ctime(boot + timedelta(seconds=40))}    LINK UP", ""]
    return lines


def link_flap() -> Job:
    """A port of node-b is down for 47 s, longer than RoCE repeats its packets."""
    rnd = random.Random("link-flap")
    folder = Folder()
    ranks = make_ranks(rnd, nodes=("node-a", "node-b"), per_node=4)
    started = datetime(2026, 6, 18, 1, 4, 55, 600_271)
    root = cann.root_info(ranks, started)
    boot = datetime(2026, 6, 15, 7, 40, 2, 90_114)
    down = started + timedelta(seconds=1502.3)
    up, bad, witness = down + timedelta(seconds=47), ranks[6], ranks[2]
    seen = down + timedelta(seconds=33)
    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=81 * process.rank), rnd)
        hccl.introduce(process, clock, 8, root, exec_timeout=300)
        cann.steady(process, clock, 3)
        p = process
        if process is witness:
            clock.at(seen)
            p.log(
                "ERROR",
                "ROCE",
                clock.tick(),
                "[hns_roce_lite.c:630]hns_roce_lite_handle_error_cqe(630) : error cqe status: 0x15",
            )
            p.log(
                "ERROR",
                "HCCL",
                clock.tick(500_000, 900_000),
                f"[heartbeat.cc:1229] [{p.pid + 96}][TaskExecStage][HeartbeatAbnormal][ROCE CQE ERROR]cqe error "
                f"status[12], time:[{seen:%Y-%m-%d %H:%M:%S.%f}],localInfo{{server[{p.host_ip}],deviceId[{p.device}],"
                f"deviceIp[{p.device_ip}]}}, remoteIP{{server[{bad.host_ip}],deviceId[{bad.device}],"
                f"deviceIp[{bad.device_ip}]}}",
            )
        cann.heartbeat_event(p, seen + timedelta(seconds=2, milliseconds=9 * p.rank), bad, witness, "ERROR CQE")
        clock.at(down + timedelta(seconds=300.9, milliseconds=60 * p.rank))
        hccl.gave_up(
            p,
            clock,
            root,
            8,
            p.rank,
            remote={2: 6, 6: 2}.get(p.rank, (p.rank + 1) % 8),
            launched=down + timedelta(milliseconds=p.rank),
            index=7711,
            rnd=rnd,
            cluster=cann.location(bad, witness, seen, "Error cqe Occurred"),
        )
    folder.plogs(ranks)
    events = cann.boot_events(2917, boot, bad.device)
    for moment, assertion, severity in ((down, "1[Event occur]", "2[Alarm]"), (up, "0[Event resume]", "0[OK]")):
        events.append(
            cann.device_event(
                2917,
                moment,
                event=0x81078603,
                device=bad.device,
                node="0x83[PORT]",
                kind="0x3[link status change]",
                severity=severity,
                assertion=assertion,
                serial=2,
                description="PORT 0x3",
                uptime=(moment - boot).total_seconds() + 61.2,
            )
        )
    folder.text(f"node-b/slog/dev-os-{bad.device}/run/event/event_{name_stamp(boot)}.log", events)
    folder.text("node-b/hccn_link_stat.txt", _link_stat(4, bad, down, up, boot))
    return Job(
        "link-flap",
        case_text(
            title="A network port flaps in the middle of a job",
            en=(
                "Two nodes of four ranks. The port of device 2 of node-b is down for 47 s and comes back: the event is "
                "taken back, and the link is up when somebody looks. Rank 2 of node-a ran out of RoCE retransmissions "
                "meanwhile (error CQE 12), and every rank times out. The heartbeat names device 2 of node-b."
            ),
            zh=(
                "两个节点各四个 rank。node-b 的 device 2 端口闪断 47 s 后恢复：事件已恢复，事后查看端口为 UP。"
                "其间 node-a 的 rank 2 出现 RoCE 重传超次（error CQE 12），随后所有 rank 超时。"
                "心跳点名 node-b 的 device 2。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [rdma-error-cqe]
  category: [hccl-timeout, device-fault]
  min_severity: error
  ranks: [6]
  devices: [2]
  nodes: [node-b]
  evidence:
    - {file: "**/debug/plog/plog-*.log", contains: "cqe error status[12]|Error cqe Occurred"}
consequences: [collective-notify-timeout]
must_not: [insufficient-evidence, npu-link-down]
""",
        ),
        folder,
    )


def skewed_clocks() -> Job:
    """The clock of node-b is 23 minutes ahead: what happened first seems to have happened last."""
    rnd = random.Random("skewed-clocks")
    folder = Folder()
    ranks = make_ranks(rnd, nodes=("node-a", "node-b", "node-c"), per_node=2)
    started = datetime(2026, 2, 9, 12, 50, 4, 417_260)
    root = cann.root_info(ranks, started)
    ahead = timedelta(seconds=1380.4)
    bad, crash = ranks[3], started + timedelta(seconds=402)
    for process in ranks:
        skew = ahead if process.node == bad.node else timedelta(0)
        clock = Clock(started + skew + timedelta(milliseconds=66 * process.rank), rnd)
        hccl.introduce(process, clock, 6, root, exec_timeout=300, join=False)
        # The root sends the table of ranks to everybody at one moment.
        clock.at(started + skew + timedelta(seconds=2.2, milliseconds=7 * process.rank))
        hccl.joined(process, clock, 6, root)
        if process is bad:
            clock.at(crash + skew)
            cann.vector_core_exception(process, clock, "MaskedScatter_55a0_high_performance_3", rnd)
            continue
        cann.heartbeat_event(
            process, crash + skew + timedelta(seconds=32, milliseconds=15 * process.rank), bad, ranks[2], "LOST"
        )
        clock.at(crash + skew + timedelta(seconds=300.3, milliseconds=52 * process.rank))
        hccl.gave_up(
            process,
            clock,
            root,
            6,
            process.rank,
            remote=_next(process.rank, 6, bad.rank),
            launched=crash + skew + timedelta(milliseconds=process.rank),
            index=977,
            rnd=rnd,
        )
    folder.plogs(ranks)
    return Job(
        "skewed-clocks",
        case_text(
            title="The clock of the failing host is 23 minutes ahead",
            en=(
                "Three nodes of two ranks. A vector kernel of rank 3 (node-b, device 1) fails and the others time out "
                "five minutes later. The clock of node-b is 1380 s ahead, so by the stamps the exception comes 18 "
                "minutes after the time-outs that it caused. The set-up of the communicator and the heartbeat, which "
                "all nodes see at one moment, give the difference away."
            ),
            zh=(
                "三个节点各两个 rank。rank 3（node-b 的 device 1）的 vector 算子异常，其余 rank 五分钟后超时。"
                "node-b 的时钟快 1380 s，按时间戳看异常反而比它引发的超时晚 18 分钟。"
                "通信域建立与心跳是各节点同时发生的事件，"
                "由此可估出时钟偏差。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [vector-core-exception, aicore-address-out-of-range]
  category: [aicore-exception]
  min_severity: critical
  ranks: [3]
  devices: [1]
  nodes: [node-b]
  evidence:
    - {file: "**/node-b/**", contains: "MaskedScatter|out of range|507035|vector core exception"}
consequences: [collective-notify-timeout]
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )
