"""Jobs in which one rank keeps the others waiting: it hangs, comes late, or does something else than they."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from _gen import cann, console, hccl
from _gen.shapes import Clock, Folder, Job, case_text, make_ranks

SYNC_ERROR = (
    "RuntimeError: npuSynchronizeUsedDevices:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:472 NPU function error: "
    "c10_npu::npuSynchronizeUsedDevices(), error code is 507048"
)


def stuck_peer() -> Job:
    """Rank 6 hangs on the host; the heartbeat finds it and everybody else times out."""
    rnd = random.Random("stuck-peer")
    folder = Folder()
    ranks = make_ranks(rnd)
    started = datetime(2026, 2, 17, 22, 8, 11, 730_118)
    root = cann.root_info(ranks, started)
    steps, last = console.iterations(started + timedelta(seconds=40), rnd, 37)
    launched, hung = last + timedelta(seconds=0.8), ranks[6]
    found = launched + timedelta(seconds=231)
    lines = [*console.WARNINGS, *console.arguments(), *console.setup(started + timedelta(seconds=24), 8), *steps]
    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=53 * process.rank), rnd)
        hccl.introduce(process, clock, 8, root, exec_timeout=600)
        cann.steady(process, clock, 1)
        process.log(
            "INFO",
            "HCCL",
            found + timedelta(milliseconds=31 * process.rank),
            f"[heartbeat.cc:951] [{process.pid + 96}][TaskExecStage][HeartbeatAbnormal]local rank "
            f"[{process.host_ip}/{process.device}]: crimer rank [{hung.host_ip}/{hung.device}] status[STUCK] by "
            f"informer rank [{hung.host_ip}/{hung.device}]",
        )
        if process is hung:
            continue
        clock.at(launched + timedelta(seconds=600, milliseconds=70 * process.rank))
        remote = 6 if process.rank in (5, 7) else (process.rank + 1) % 8
        block = cann.notify_timeout(
            process, clock, 8, root, remote, launched=launched, rnd=rnd, cluster=hccl.stuck(hung, found)
        )
        if process.rank == 0:
            prefix = "[rank0]: "
            lines += console.prefixed(prefix, console.traceback(console.train_frames(*console.SYNC_FRAMES), SYNC_ERROR))
            lines += console.prefixed(prefix, [console.pta_error(process, clock.now), *block])
    folder.plogs(ranks)
    folder.text("node-a/train.log", lines)
    return Job(
        "stuck-peer",
        case_text(
            title="One rank hangs without a word",
            en=(
                "Eight ranks on one node, HCCL_EXEC_TIMEOUT set to 600 s. Rank 6 stops launching operators after "
                "iteration 37 and never reports anything. A third of the time-out later the heartbeat of every rank "
                "names device 6 as stuck; after 600 s the seven others report EI0002. The culprit is rank 6, of which "
                "there is no error at all."
            ),
            zh=(
                "单节点八个 rank，HCCL_EXEC_TIMEOUT 设置为 600 s。第 37 步之后 rank 6 不再下发算子，也没有任何报错。"
                "约三分之一超时时间后，各 rank 的心跳均上报 device 6 卡死；600 s 后其余七个 rank 上报 EI0002。"
                "故障源是没有任何报错的 rank 6。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [cluster-exception-location]
  category: [hccl-timeout]
  min_severity: critical
  ranks: [6]
  devices: [6]
  nodes: [node-a]
  evidence:
    - {file: "**/debug/plog/plog-*.log", contains: "Stuck Occurred"}
consequences: [collective-notify-timeout]
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def slow_data_one_rank() -> Job:
    """Rank 3 indexes its shard for twelve minutes; the others give up after ten."""
    rnd = random.Random("slow-data-one-rank")
    folder = Folder()
    ranks = make_ranks(rnd, nodes=("worker-0", "worker-1"), per_node=2)
    started = datetime(2026, 5, 20, 3, 41, 9, 118_402)
    root = cann.root_info(ranks, started)
    launched, late = started + timedelta(seconds=66), ranks[3]
    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=88 * process.rank), rnd)
        hccl.introduce(process, clock, 4, root, exec_timeout=600)
        cann.steady(process, clock, 1)
        mine = launched + timedelta(seconds=742.3 if process is late else 0.01 * process.rank)
        clock.at(mine + timedelta(seconds=600, milliseconds=9))
        remote = 3 if process.rank in (0, 2) else (process.rank + 1) % 4
        hccl.gave_up(
            process, clock, root, 4, process.rank, remote=remote, launched=mine, index=12, rnd=rnd, count=33_554_432
        )
        lines = [*console.WARNINGS]
        if process.rank == 0:
            lines += [*console.arguments(world_size=4), *console.setup(started + timedelta(seconds=30), 4)]
        if process is late:
            lines += [
                f"{launched + timedelta(seconds=62 * shard):%Y-%m-%d %H:%M:%S},{rnd.randint(0, 999):03d} - INFO - "
                f"packed_dataset: index of shard {shard:02d}/12 built in {61 + rnd.random():.2f} s"
                for shard in range(1, 13)
            ]
        prefix = f"[rank{process.rank}]: "
        lines += console.prefixed(prefix, console.traceback(console.train_frames(*console.SYNC_FRAMES), SYNC_ERROR))
        lines += console.prefixed(prefix, [console.pta_error(process, clock.tick(2_000, 9_000))])
        folder.text(f"{process.node}/train_rank{process.rank}.log", lines)
    folder.plogs(ranks)
    return Job(
        "slow-data-one-rank",
        case_text(
            title="One rank prepares its data longer than the others wait",
            en=(
                "Four ranks on two nodes, HCCL_EXEC_TIMEOUT set to 600 s. Rank 3 builds the index of its data shards "
                "for twelve minutes before it launches the first AllReduce; by then the others have waited 600 s and "
                "given up. Then rank 3 waits 600 s for them in turn. All four report the same error for the same "
                "operator; only the launch times tell that rank 3 was late."
            ),
            zh=(
                "两个节点共四个 rank，HCCL_EXEC_TIMEOUT 设置为 600 s。rank 3 为数据分片建立索引耗时 12 分钟才下发首个 "
                "AllReduce，此时其余 rank 已等待 600 s 超时退出；随后 rank 3 又等待它们 600 s。四个 rank "
                "对同一算子报同样的错误，只有下发时间能说明 rank 3 迟到。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [rank-late-to-collective]
  category: [hccl-timeout]
  min_severity: critical
  ranks: [3]
  devices: [1]
  nodes: [worker-1]
  evidence:
    - {file: "**/worker-1/**/debug/plog/plog-*.log", contains: "timeStamp:["}
consequences: [collective-notify-timeout]
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def collective_order_mismatch() -> Job:
    """Rank 2 takes a branch with an AllGather where the others reduce."""
    rnd = random.Random("collective-order-mismatch")
    folder = Folder()
    ranks = make_ranks(rnd, per_node=4)
    started = datetime(2026, 4, 2, 17, 55, 40, 20_871)
    root = cann.root_info(ranks, started)
    steps, last = console.iterations(started + timedelta(seconds=36), rnd, 19)
    launched, odd = last + timedelta(seconds=1.2), ranks[2]
    lines = [*console.WARNINGS, *console.arguments(world_size=4), *console.setup(started + timedelta(seconds=21), 4)]
    lines += steps
    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=47 * process.rank), rnd)
        hccl.introduce(process, clock, 4, root, exec_timeout=300)
        cann.steady(process, clock, 1)
        clock.at(launched + timedelta(seconds=300, milliseconds=40 * process.rank))
        hccl.gave_up(
            process,
            clock,
            root,
            4,
            process.rank,
            remote=(process.rank + 1) % 4,
            launched=launched + timedelta(milliseconds=3 * process.rank),
            index=611,
            rnd=rnd,
            op="AllGather" if process is odd else "AllReduce",
            count=4096,
        )
        prefix = f"[rank{process.rank}]: "
        lines += console.prefixed(prefix, console.traceback(console.train_frames(*console.SYNC_FRAMES), SYNC_ERROR))
        lines += console.prefixed(prefix, [console.pta_error(process, clock.tick(2_000, 9_000))])
    folder.plogs(ranks)
    folder.text("node-a/train.log", lines)
    return Job(
        "collective-order-mismatch",
        case_text(
            title="One rank is in another collective",
            en=(
                "Four ranks. After iteration 19 rank 2 takes a branch that gathers statistics while the others reduce "
                "gradients. All four wait 300 s and report the same error; the circle of waits tells nothing. The "
                "operator named in the reports does: AllGather on rank 2, AllReduce on the three others."
            ),
            zh=(
                "四个 rank。第 19 步之后 rank 2 走入汇总统计量的分支执行 AllGather，其余 rank 执行梯度 AllReduce。"
                "四个 rank 均等待 300 s 后报同样的错误，等待关系成环无法区分；报错中的算子名可以区分："
                "rank 2 为 AllGather，其余为 AllReduce。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [collectives-differ-between-ranks]
  category: [hccl-timeout]
  min_severity: critical
  ranks: [2]
  devices: [2]
  nodes: [node-a]
  evidence:
    - {file: "**/debug/plog/plog-*.log", contains: "AllGather_|AllReduce_|index[611]"}
consequences: [collective-notify-timeout]
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def pipeline_chain_dead_peer() -> Job:
    """Rank 5 of a pipeline dies; waits run through small communicators that number their ranks themselves."""
    rnd = random.Random("pipeline-chain-dead-peer")
    folder = Folder()
    ranks = make_ranks(rnd, nodes=("node-a", "node-b"), per_node=4)
    started = datetime(2026, 6, 3, 9, 27, 51, 402_190)
    root = cann.root_info(ranks, started)
    dead, crash = ranks[5], started + timedelta(seconds=131)
    tensor = [[ranks[2 * stage], ranks[2 * stage + 1]] for stage in range(4)]
    pipes = [[ranks[2 * stage + lane] for stage in range(4)] for lane in range(2)]

    def named(members: list[object], kind: int) -> str:
        first = members[0]
        return f"{first.host_ip}%eth0_{60001 + kind}_0_{1780478890000000 + first.rank * 977 + kind}"  # type: ignore[attr-defined]

    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=39 * process.rank), rnd)
        hccl.introduce(process, clock, 8, root, exec_timeout=300)
        pair, pipe = tensor[process.rank // 2], pipes[process.rank % 2]
        names = named(list(pair), 0), named(list(pipe), 1)
        hccl.subgroup(process, clock, pair, names[0], 1)
        hccl.subgroup(process, clock, pipe, names[1], 2)
        if process is dead:
            frames = console.train_frames(
                ("/workspace/MindSpeed-LLM/pretrain_gpt.py", 221, "forward_step", "output = model(tokens, position)"),
                ("/workspace/plugins/rope_cache.py", 77, "extend", "self.table = self.table[: self.limits[name]]"),
            )
            lines = console.prefixed("[rank5]: ", console.traceback(frames, "AttributeError: 'NoneType' object has no "
                                                                    "attribute 'limits'"))  # fmt: skip
            folder.text("node-b/train_rank5.log", [*console.WARNINGS, *lines])
            continue
        # The other half of the pair waits for the dead rank, everybody else for the next stage.
        if process.rank == 4:
            group, size, rank, remote = names[0], 2, 0, 1
        else:
            stage = process.rank // 2
            group, size, rank, remote = names[1], 4, stage, stage + 1 if stage < 3 else stage - 1
        clock.at(crash + timedelta(seconds=300.6, milliseconds=50 * process.rank))
        hccl.gave_up(
            process,
            clock,
            group,
            size,
            rank,
            remote=remote,
            launched=crash + timedelta(milliseconds=400 + process.rank),
            index=88 + process.rank // 2,
            rnd=rnd,
            op="AllReduce" if size == 2 else "Receive",
            count=16_777_216,
        )
    folder.plogs(ranks)
    return Job(
        "pipeline-chain-dead-peer",
        case_text(
            title="The waits run through pipeline and tensor groups",
            en=(
                "Eight ranks, four pipeline stages of two. Rank 5 (node-b, device 1) dies of a Python error. Every "
                "other rank names a peer by its number in a small communicator: rank 4 waits for rank 1 of its tensor "
                "pair, rank 3 for rank 2 of its pipeline, and so on. Taken as ranks of the job these numbers point at "
                "ranks 1, 2 and 3; taken in their communicators they all lead to rank 5."
            ),
            zh=(
                "八个 rank，四个流水线阶段、每阶段两个。rank 5（node-b 的 device 1）因 Python 异常退出。其余 rank "
                "报告的对端编号都是各自小通信域内的编号：rank 4 等待张量并行对内的 1 号，rank 3 等待流水线内的 2 号，"
                "依此类推。若当作全局 rank 会指向 1、2、3；按通信域换算后都指向 rank 5。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [python-exception]
  min_severity: critical
  ranks: [5]
  devices: [1]
  nodes: [node-b]
  evidence:
    - {file: "**/train_rank5.log", contains: "AttributeError"}
consequences: [collective-notify-timeout]
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )
