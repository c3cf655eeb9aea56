"""Jobs whose communicator is never built: a port is taken, a rank is missing, a table or an argument is wrong."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta

from _gen import cann, console, hccl
from _gen.shapes import Clock, Folder, Job, case_text, make_ranks


def _init_error(code: int, call: str = "hcclCommInitRootInfoConfig") -> str:
    return (
        "RuntimeError: create_config:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:102 HCCL function error: "
        f"{call}(numRanks, &rootInfo, rank, config, &(comm->hcclComm_)), error code is {code}"
    )


FRAMES = (
    ("/workspace/MindSpeed-LLM/pretrain_gpt.py", 291, "<module>", "main()"),
    (f"{console.SITE}/megatron/training/initialize.py", 96, "finish_mpu_init", "_initialize_distributed()"),
    (f"{console.SITE}/torch/distributed/distributed_c10d.py", 3703, "barrier", "work = group.barrier(opts=opts)"),
)


def rank_never_started() -> Job:
    """Rank 3 is missing from the start: the root waits for it and tells everybody."""
    rnd = random.Random("rank-never-started")
    folder = Folder()
    ranks = make_ranks(rnd, nodes=("worker-0", "worker-1"), per_node=2)
    started = datetime(2026, 1, 29, 8, 16, 2, 550_731)
    root = cann.root_info(ranks, started)
    consoles: dict[str, list[str]] = {"worker-0": [*console.WARNINGS], "worker-1": [*console.WARNINGS]}
    for process in ranks[:3]:
        clock = Clock(started + timedelta(milliseconds=140 * process.rank), rnd)
        hccl.introduce(process, clock, 4, root, connect_timeout=300, join=False)
        clock.at(started + timedelta(seconds=301.5, milliseconds=4 * process.rank))
        if process.rank == 0:
            hccl.root_waits(process, clock, [0, 1, 2], 4, timeout=300)
        hccl.agent_told(process, clock, [3])
        prefix = f"[rank{process.rank}]: "
        consoles[process.node] += console.prefixed(prefix, console.traceback(FRAMES, _init_error(9)))
        consoles[process.node] += console.prefixed(
            prefix, [console.pta_error(process, clock.now, "ERR02200 DIST call hccl api failed.")]
        )
    folder.plogs(ranks[:3])
    for node, lines in consoles.items():
        folder.text(f"{node}/train.log", lines)
    return Job(
        "rank-never-started",
        case_text(
            title="One rank was never started",
            en=(
                "Four ranks on two nodes are expected. Rank 3 never connects to the root and left no log at all: its "
                "process was not started. After 300 s (HCCL_CONNECT_TIMEOUT, set by environment) the root lists who is "
                "there and tells the others who is not."
            ),
            zh=(
                "两个节点应有四个 rank。rank 3 从未连接 root，也没有任何日志，其进程并未拉起。"
                "300 s（HCCL_CONNECT_TIMEOUT，环境变量设置）后，root 打印已连接的 rank，并将缺席的 rank 通知其余各方。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [topo-server-missing-ranks]
  category: [hccl-init]
  min_severity: critical
  ranks: [3]
  evidence:
    - {file: "**/debug/plog/plog-*.log", contains: "Failed to connect agent[3,]|connected rankinfo|get socket timeout"}
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def hccl_port_taken() -> Job:
    """The root cannot listen on port 60000; the others cannot reach it."""
    rnd = random.Random("hccl-port-taken")
    folder = Folder()
    ranks = make_ranks(rnd, nodes=("node-a", "node-b"), per_node=2)
    started = datetime(2026, 3, 24, 15, 2, 37, 901_440)
    root = cann.root_info(ranks, started)
    consoles: dict[str, list[str]] = {"node-a": [*console.WARNINGS], "node-b": [*console.WARNINGS]}
    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=95 * process.rank), rnd)
        prefix, block = f"[rank{process.rank}]: ", []
        if process.rank == 0:
            hccl.settings(process, clock)
            block = hccl.port_taken(process, clock)
            code = 11
        else:
            hccl.introduce(process, clock, 4, root, join=False)
            clock.at(started + timedelta(seconds=121, milliseconds=60 * process.rank))
            hccl.agent_alone(process, clock, ranks[0], timeout=120)
            code = 9
        consoles[process.node] += console.prefixed(prefix, console.traceback(FRAMES, _init_error(code)))
        consoles[process.node] += console.prefixed(
            prefix, [console.pta_error(process, clock.now, "ERR02200 DIST call hccl api failed."), *block]
        )
    folder.plogs(ranks)
    for node, lines in consoles.items():
        folder.text(f"{node}/train.log", lines)
    return Job(
        "hccl-port-taken",
        case_text(
            title="The port of the communicator's root is taken",
            en=(
                "Four ranks on two nodes. Rank 0 cannot listen on port 60000 of its host, because another process "
                "holds it (EI0019). The three others try for 120 s to reach the root and report that they cannot."
            ),
            zh=(
                "两个节点共四个 rank。rank 0 无法监听主机的 60000 端口，该端口被其他进程占用（EI0019）。"
                "其余三个 rank 尝试连接 root 120 s 后上报连接失败。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [hccl-host-port-in-use]
  category: [process-conflict]
  min_severity: error
  ranks: [0]
  nodes: [node-a]
  evidence:
    - {file: "**/node-a/**", contains: "60000"}
consequences: [topo-agent-cannot-reach-root]
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def wrong_rank_table() -> Job:
    """The rank table lists an old address for device 0 of node-b."""
    rnd = random.Random("wrong-rank-table")
    folder = Folder()
    ranks = make_ranks(rnd, nodes=("node-a", "node-b"), per_node=2)
    started = datetime(2026, 5, 8, 11, 33, 19, 61_204)
    wrong, listed = ranks[2], "198.51.100.200"
    consoles: dict[str, list[str]] = {"node-a": [*console.WARNINGS], "node-b": [*console.WARNINGS]}
    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=72 * process.rank), rnd)
        hccl.settings(process, clock)
        hccl.key_info(process, clock, ranks)
        prefix, block = f"[rank{process.rank}]: ", []
        if process is wrong:
            clock.skip(1.4)
            block = hccl.address_differs(process, clock, listed)
        else:
            clock.at(started + timedelta(seconds=121.3, milliseconds=50 * process.rank))
            role = "server" if process.rank < wrong.rank else "client"
            block = cann.link_timeout(process, clock, wrong, role=role, timeout=120, root="hccl_world_group")
        consoles[process.node] += console.prefixed(
            prefix, console.traceback(FRAMES, _init_error(9, "HcclCommInitClusterInfo"))
        )
        consoles[process.node] += console.prefixed(
            prefix, [console.pta_error(process, clock.now, "ERR02200 DIST call hccl api failed."), *block]
        )
    folder.plogs(ranks)
    for node, lines in consoles.items():
        folder.text(f"{node}/train.log", lines)
    servers = []
    for node in ("node-a", "node-b"):
        devices = [
            {
                "device_id": str(p.device),
                "device_ip": listed if p is wrong else p.device_ip,
                "rank_id": str(p.rank),
            }
            for p in ranks
            if p.node == node
        ]
        servers.append({"server_id": next(p.host_ip for p in ranks if p.node == node), "device": devices})
    table = {"status": "completed", "version": "1.0", "server_count": "2", "server_list": servers}
    folder.text("hccl_4p.json", json.dumps(table, indent=2).split("\n"))
    return Job(
        "wrong-rank-table",
        case_text(
            title="The rank table lists an address that the adapter does not have",
            en=(
                "Two nodes of two ranks, started with a rank table. For rank 2 (node-b, device 0) the table holds an "
                "old address; its process notices at once (EI0014). The three others wait 120 s for a link to it and "
                "report EI0006."
            ),
            zh=(
                "两个节点各两个 rank，使用 rank table 启动。表中 rank 2（node-b 的 device 0）的地址是旧地址，"
                "其进程立即报错（EI0014）。其余三个 rank 等待与其建链 120 s 后上报 EI0006。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [ranktable-device-ip-mismatch]
  category: [hccl-init, config]
  min_severity: error
  ranks: [2]
  nodes: [node-b]
  evidence:
    - {file: "**/node-b/**", contains: "198.51.100.200"}
consequences: [collective-link-timeout]
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def collective_size_mismatch() -> Job:
    """Rank 1 reduces another number of elements than the others."""
    rnd = random.Random("collective-size-mismatch")
    folder = Folder()
    ranks = make_ranks(rnd, per_node=4)
    started = datetime(2026, 2, 26, 19, 48, 30, 700_119)
    root = cann.root_info(ranks, started)
    lines = [*console.WARNINGS, *console.arguments(world_size=4), *console.setup(started + timedelta(seconds=20), 4)]
    odd, right, wrong = ranks[1], "33554432", "33521664"
    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=58 * process.rank), rnd)
        hccl.introduce(process, clock, 4, root)
        clock.at(started + timedelta(seconds=58, milliseconds=12 * process.rank))
        block: list[str] = []
        if process is odd:
            hccl.conflict(process, clock, ranks[0], "count", wrong, right, root)
            pair = (wrong, right)
        elif process.rank in (0, 2):
            hccl.conflict(process, clock, odd, "count", right, wrong, root)
            pair = (right, wrong)
        else:
            pair = None
            clock.skip(0.4)
            cann.transport_error(process, clock, ranks[2], root=root)
        if pair is not None:
            block = [
                f"EI0005: {clock.tick():%Y-%m-%d-%H:%M:%S}.781.599 The arguments for collective communication are "
                f"inconsistent between ranks:parameter count, local end {pair[0]}, remote end {pair[1]}"
            ]
        prefix = f"[rank{process.rank}]: "
        error = (
            "RuntimeError: InnerRunOpApi:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:287 OPS function error: "
            "HcclAllreduce, error code is 1"
        )
        lines += console.prefixed(prefix, console.traceback(console.train_frames(*console.SYNC_FRAMES), error))
        lines += console.prefixed(
            prefix, [console.pta_error(process, clock.now, "ERR02200 DIST call hccl api failed."), *block]
        )
    folder.plogs(ranks)
    folder.text("node-a/train.log", lines)
    return Job(
        "collective-size-mismatch",
        case_text(
            title="One rank reduces another number of elements",
            en=(
                "Four ranks. When the first AllReduce sets up its links, HCCL compares both ends: rank 1 brings "
                "33,521,664 elements, the others 33,554,432. Ranks 0 and 2 report EI0005 against rank 1, rank 1 "
                "against rank 0; rank 3 fails because rank 2 is gone. The value that only one rank has tells who is "
                "odd."
            ),
            zh=(
                "四个 rank。首个 AllReduce 建链时 HCCL 校验两端参数：rank 1 的数据量为 33521664，其余为 33554432。"
                "rank 0 与 rank 2 上报与 rank 1 不一致（EI0005），rank 1 上报与 rank 0 不一致；rank 3 因 rank 2 "
                "退出而失败。只有一个 rank 持有的值说明它才是异常方。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [collective-arguments-inconsistent]
  category: [hccl-timeout]
  min_severity: critical
  ranks: [1]
  devices: [1]
  nodes: [node-a]
  evidence:
    - {file: "**", contains: "33521664"}
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )
