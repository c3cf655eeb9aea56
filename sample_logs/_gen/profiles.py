"""Profiler captures of a simulated job as text files, and the sample jobs made of them."""

from __future__ import annotations

import json

from _gen.profile_host import allocations, calls, modules, operators, transfers
from _gen.profile_job import (
    CORES,
    MHZ,
    SPEED_GBPS,
    Kernel,
    Plan,
    Rank,
    Simulation,
    Talk,
    gaps,
    group_hash,
    host_name,
    listed,
    memory_curve,
    split,
    stamp,
    union,
)
from _gen.shapes import Folder, Job, case_text

KERNEL_COLUMNS = (
    "Step Id,Device_id,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),"
    "Wait Time(us),Block Num,Mix Block Num,HF32 Eligible,Input Shapes,Input Data Types,Input Formats,Output Shapes,"
    "Output Data Types,Output Formats,Context ID,aicore_time(us),aic_total_cycles,aic_mac_ratio,aic_mte2_ratio,"
    "aiv_vec_ratio,aiv_mte2_ratio,aiv_mte3_ratio,cube_utilization(%)"
)
STEP_COLUMNS = (
    "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
    "Communication(Not Overlapped and Exclude Receive),Preparing"
)


def rows_of_steps(rank: Rank) -> list[str]:
    """Return ``step_trace_time.csv``."""
    rows = [STEP_COLUMNS]
    for step in sorted({kernel.step for kernel in rank.kernels}):
        part = split(rank, step)
        values = (part.computing, part.uncovered, part.overlapped, part.comm, part.free, part.span - part.bubble)
        rest = (part.bubble, max(part.uncovered - part.bubble, 0.0), part.preparing)
        rows.append(f"{rank.number},{step}," + ",".join(repr(round(value, 6)) for value in values + rest))
    return rows


def metrics_of(kernel: Kernel) -> dict[str, float]:
    """Return the metrics of a kernel's cores by the names in a table; what is absent is zero."""
    duration = kernel.end - kernel.start
    if kernel.core in ("AI_CORE", "MIX_AIC"):
        busy = round(duration * 0.96, 3)
        cycles = int(busy * MHZ * CORES)
        used = round(cycles / (MHZ * CORES * duration) * 100, 3)
        cube = {"aicore_time": busy, "aic_total_cycles": cycles, "aic_mac_ratio": 0.86, "aic_mte2_ratio": 0.52}
        return {**cube, "cube_utilization": used}
    if kernel.core == "AI_VECTOR_CORE":
        moved = 0.88 if kernel.type in ("Exp", "Log", "Maximum", "Abs") else 0.55
        return {"aiv_vec_ratio": 0.62, "aiv_mte2_ratio": moved, "aiv_mte3_ratio": 0.3}
    return {}


METRICS = (
    "aicore_time",
    "aic_total_cycles",
    "aic_mac_ratio",
    "aic_mte2_ratio",
    "aiv_vec_ratio",
    "aiv_mte2_ratio",
    "aiv_mte3_ratio",
    "cube_utilization",
)


def rows_of_kernels(rank: Rank) -> list[str]:
    """Return ``kernel_details.csv``, communication included."""
    rows = [KERNEL_COLUMNS]
    for number, (item, wait) in enumerate(listed(rank)):
        start, duration = stamp(item.start), f"{item.end - item.start:.3f}"
        if isinstance(item, Talk):
            rows.append(
                f"{item.step},{rank.number},4294967295,N/A,N/A,{talk_name(item)},hcom_{item.op}_,N/A,HCCL,"
                f"{start}\t,{duration},{wait:.3f},0,N/A,N/A" + ",N/A" * (7 + len(METRICS))
            )
            continue
        values = metrics_of(item)
        metrics = ",".join(str(values.get(name, 0)) for name in METRICS)
        if item.core == "AI_CPU":
            metrics = ",".join(["N/A"] * len(METRICS))
        types = ";".join("DT_BF16" for _ in item.inputs.split(";"))
        formats = ";".join("ND" for _ in item.inputs.split(";"))
        rows.append(
            f"{item.step},{rank.number},4294967295,{number},2,{item.name},{item.type},dynamic,{item.core},"
            f"{start}\t,{duration},{wait:.3f},{blocks_of(item)},0,NO,"
            f'"""{item.inputs}""",{types},{formats},"""{item.output}""",DT_BF16,ND,N/A,{metrics}'
        )
    return rows


def blocks_of(kernel: Kernel) -> int:
    """Return how many cores a kernel uses."""
    return CORES if kernel.core in ("AI_CORE", "MIX_AIC") else 2 * CORES


def talk_name(talk: Talk) -> str:
    """Return the name of an operation: kind, end of the group's number, index."""
    return f"hcom_{talk.op}__{group_hash(talk.group) % 1000:03d}_{talk.index}_1"


def rows_of_operators(rank: Rank) -> list[str]:
    """Return ``op_statistic.csv``."""
    sums: dict[tuple[str, str], list[float]] = {}
    for kernel in rank.kernels:
        sums.setdefault((kernel.type, kernel.core), []).append(kernel.end - kernel.start)
    total = sum(map(sum, sums.values()))
    rows = ["Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)"]
    for (kind, core), times in sorted(sums.items(), key=lambda item: -sum(item[1])):
        rows.append(
            f"{rank.number},{kind},{core},{len(times)},{sum(times):.3f},{min(times):.3f},"
            f"{sum(times) / len(times):.3f},{max(times):.3f},{100 * sum(times) / total:.3f}"
        )
    return rows


def rows_of_memory(simulation: Simulation, rank: Rank) -> list[str]:
    """Return ``memory_record.csv``."""
    rows = ["Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type"]
    for when, allocated, reserved in memory_curve(simulation, rank):
        rows.append(f"PTA,{stamp(when)}\t,{allocated},{reserved},{allocated},281470000,NPU:{rank.number}")
        rows.append(f"APP,{stamp(when)}\t,,{reserved + 1600.0},,,NPU:{rank.number}")
    return rows


def rows_of_calls(rank: Rank) -> list[str]:
    """Return ``api_statistic.csv``."""
    sums: dict[str, list[float]] = {}
    for name, _, length in calls(rank):
        sums.setdefault(name, []).append(length)
    rows = ["Device_id,Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance"]
    for name, times in sums.items():
        level = "acl" if name.startswith("acl") else "node" if name == "launch" else "runtime"
        rows.append(
            f"host,{level},{name},{sum(times):.3f},{len(times)},{sum(times) / len(times):.3f},{min(times):.3f},"
            f"{max(times):.3f},0.0"
        )
    return rows


def rows_of_framework(rank: Rank) -> list[str]:
    """Return ``operator_details.csv``: one row per call of an operator."""
    rows = [
        "Name,Input Shapes,Call Stack,Host Self Duration(us),Host Total Duration(us),Device Self Duration(us),"
        "Device Total Duration(us),Device Self Duration With AICore(us),Device Total Duration With AICore(us)"
    ]
    for name, start, end, inner in operators(rank):
        rows.append(f"{name},,,{end - start - inner:.3f},{end - start:.3f},0,0,0,0")
    return rows


def rows_of_allocations(rank: Rank) -> list[str]:
    """Return ``operator_memory.csv``."""
    rows = [
        "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),Active Duration(us),"
        "Allocation Total Allocated(MB),Allocation Total Reserved(MB),Allocation Total Active(MB),"
        "Release Total Allocated(MB),Release Total Reserved(MB),Release Total Active(MB),Stream Ptr,Device Type"
    ]
    for name, size, taken, given in allocations(rank):
        back = f"{stamp(given)}\t,{stamp(given)}\t,{given - taken:.3f},{given - taken:.3f}" if given else ",,,"
        rows.append(f"{name},{size / 1024},{stamp(taken)}\t,{back},18000,24576,18000,,,,281470000,NPU:{rank.number}")
    return rows


def rows_of_modules(rank: Rank) -> list[str]:
    """Return ``npu_module_mem.csv``."""
    rows = ["Device_id,Component,Timestamp(us),Total Reserved(MB),Device"]
    for name, when, taken in modules(rank):
        rows.append(f"{rank.number},{name},{stamp(when)}\t,{taken / 2**20},NPU:{rank.number}")
    return rows


def _band(size: float = 0.0, spent: float = 0.0) -> dict[str, object]:
    speed = round(size / spent, 4) if spent else 0
    sizes = {str(round(size / 4, 6)): [4, spent]} if size else {}
    return {
        "Transit Size(MB)": size,
        "Transit Time(ms)": spent,
        "Bandwidth(GB/s)": speed,
        "Large Packet Ratio": 1.0 if size else 0,
        "Size Distribution": sizes,
    }


def communication(rank: Rank) -> dict[str, object]:
    """Return ``communication.json``."""
    out: dict[str, dict[str, dict[str, object]]] = {}
    for talk in rank.talks:
        sides = out.setdefault(f"step{talk.step}", {"p2p": {}, "collective": {}})
        code = group_hash(talk.group)
        elapse, transit = (talk.end - talk.start) / 1e3, talk.transfer / 1e3
        wait = max(elapse - transit, 0.0)
        zero = _band()
        full = _band(talk.size, round(transit, 6))
        side = sides["p2p" if talk.p2p else "collective"]
        side[f"{talk_name(talk)}@{code}"] = {
            "Communication Time Info": {
                "Start Timestamp(us)": float(stamp(talk.start)),
                "Elapse Time(ms)": round(elapse, 6),
                "Transit Time(ms)": round(transit, 6),
                "Wait Time(ms)": round(wait, 6),
                "Synchronization Time(ms)": round(wait, 6),
                "Idle Time(ms)": 0.0,
                "Wait Time Ratio": round(wait / elapse, 4) if elapse else 0.0,
                "Synchronization Time Ratio": round(wait / elapse, 4) if elapse else 0.0,
            },
            "Communication Bandwidth Info": {"RDMA": zero, "HCCS": full, "PCIE": zero, "SDMA": full, "SIO": zero},
        }
    return dict(out)


def matrix(simulation: Simulation, rank: Rank) -> dict[str, object]:
    """Return ``communication_matrix.json``: numbers within each group, as the profiler writes them."""
    plan = simulation.plan
    out: dict[str, dict[str, dict[str, object]]] = {}
    for step in sorted({talk.step for talk in rank.talks}):
        sides = out.setdefault(f"step{step}", {"p2p": {}, "collective": {}})
        for name, (kind, members) in simulation.groups.items():
            if rank.number not in members or len(members) < 2:
                continue
            spent = sum(t.transfer for t in rank.talks if t.step == step and t.group == name) / 1e3
            links: dict[str, object] = {}
            for place, other in enumerate(members):
                local = other == rank.number
                slow = plan.slow_link == (rank.number, other)
                speed = 390.0 if local else SPEED_GBPS * (plan.link_factor if slow else 1.0)
                size = round(spent * SPEED_GBPS, 6)
                links[f"{members.index(rank.number)}-{place}"] = {
                    "Transport Type": "LOCAL" if local else "HCCS",
                    "Transit Size(MB)": size,
                    "Transit Time(ms)": round(size / speed, 6),
                    "Bandwidth(GB/s)": round(speed, 4),
                }
            label = "send" if kind == "pp" else "allreduce"
            side = sides["p2p" if kind == "pp" else "collective"]
            side[f"{label}-total@{group_hash(name)}"] = links
    return dict(out)


def trace(simulation: Simulation, rank: Rank) -> str:
    """Return ``trace_view.json``."""
    python, cann, device, clock, lanes, planes = range(41_000, 41_006)
    events: list[str] = []

    def add(**values: object) -> None:
        events.append(json.dumps(values))

    for pid, name in ((python, "Python"), (cann, "CANN"), (device, "Ascend Hardware"), (clock, "AI Core Freq")):
        add(name="process_name", pid=pid, tid=0, args={"name": name}, ph="M")
    add(name="process_name", pid=lanes, tid=0, args={"name": "Overlap Analysis"}, ph="M")
    for number, (begin, end) in enumerate(rank.steps):
        add(
            ph="X",
            name=f"ProfilerStep#{simulation.plan.first_step + number}",
            pid=python,
            tid=python,
            ts=stamp(begin),
            dur=round(end - begin, 3),
            cat="user_annotation",
            args={},
        )
        low = rank.number == simulation.plan.clock_drop
        for part in range(8):
            mhz = 1100 if low and part else 1650
            add(
                name="AI Core Freq",
                ts=stamp(begin + (end - begin) * part / 8),
                pid=clock,
                tid=0,
                args={"MHz": mhz},
                ph="C",
            )
    for kernel in rank.kernels:
        add(
            name=kernel.name,
            pid=device,
            tid=2,
            ts=stamp(kernel.start),
            dur=round(kernel.end - kernel.start, 3),
            args={"Task Type": kernel.core, "Stream Id": 2},
            ph="X",
        )
    kernels = union([(kernel.start, kernel.end) for kernel in rank.kernels])
    talks = union([(talk.start, talk.end) for talk in rank.talks])
    for name, start, length in calls(rank):
        if name.startswith("acl"):
            lane = {"pid": cann, "tid": 7, "ts": stamp(start), "dur": length}
            add(name=f"AscendCL@{name}", **lane, args={"Mode": "ACL_OP", "level": "acl", "id": name}, ph="X")
    for start, length, size, peer in transfers(rank):
        lane = {"pid": planes, "tid": 3, "ts": stamp(start), "dur": length}
        said = {"src rank": 0, "dst rank": peer, "transport type": "SDMA", "size(Byte)": size, "link type": "HCCS"}
        add(name="Memcpy", **lane, args=said, ph="X")
    free = gaps(rank)
    for tid, (name, spans) in enumerate((("Computing", kernels), ("Communication", talks), ("Free", free))):
        for start, end in spans:
            add(name=name, pid=lanes, tid=tid, ts=stamp(start), dur=round(end - start, 3), ph="X")
    return "[" + ", ".join(events) + "]"


def info(rank: Rank) -> dict[str, object]:
    """Return ``profiler_info_<rank>.json``."""
    return {
        "config": {
            "common_config": {
                "activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"],
                "schedule": {"wait": 1, "active": 3, "warmup": 1, "repeat": 1, "skip_first": 19},
                "record_shapes": True,
                "profile_memory": True,
                "with_stack": False,
                "with_flops": False,
                "with_modules": False,
            },
            "experimental_config": {
                "_profiler_level": "Level1",
                "_aic_metrics": "ACL_AICORE_PIPE_UTILIZATION",
                "_l2_cache": False,
                "_export_type": ["text"],
            },
        },
        "start_info": {"syscnt_enable": True, "freq": 100, "start_cnt": 1, "start_monotonic": 1},
        "end_info": {"collectionTimeEnd": 1_772_614_009_000_000_000, "MonotonicTimeEnd": 2},
        "torch_npu_version": "2.7.1",
        "cann_version": "8.3.RC1",
        "rank_id": str(rank.number),
    }


def metadata(simulation: Simulation, rank: Rank) -> dict[str, object]:
    """Return ``profiler_metadata.json``."""
    plan = simulation.plan
    return {
        "distributed_args": {
            "tensor_model_parallel_size": 1,
            "pipeline_model_parallel_size": plan.stages,
            "data_parallel_size": plan.ranks // plan.stages,
            "rank": rank.number,
            "world_size": plan.ranks,
        },
        "ENV_VARIABLES": {
            "ASCEND_GLOBAL_LOG_LEVEL": "3",
            "HCCL_RDMA_TC": "",
            "ACLNN_CACHE_LIMIT": "100000",
            "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True",
            "ASCEND_LAUNCH_BLOCKING": "",
        },
        "parallel_group_info": {
            name: {"group_name": kind, "group_rank": members.index(rank.number), "global_ranks": members}
            for name, (kind, members) in simulation.groups.items()
            if rank.number in members
        },
    }


def write_text(simulation: Simulation, folder: Folder, root: str = "profile") -> None:
    """Add the captures of all ranks as text files."""
    for rank in simulation.ranks:
        base = f"{root}/{host_name(rank)}"
        out = f"{base}/ASCEND_PROFILER_OUTPUT"
        folder.text(f"{base}/profiler_info_{rank.number}.json", [json.dumps(info(rank), indent=4)])
        folder.text(f"{base}/profiler_metadata.json", [json.dumps(metadata(simulation, rank), indent=4)])
        folder.text(f"{out}/step_trace_time.csv", rows_of_steps(rank))
        folder.text(f"{out}/kernel_details.csv", rows_of_kernels(rank))
        folder.text(f"{out}/op_statistic.csv", rows_of_operators(rank))
        folder.text(f"{out}/memory_record.csv", rows_of_memory(simulation, rank))
        folder.text(f"{out}/api_statistic.csv", rows_of_calls(rank))
        folder.text(f"{out}/operator_memory.csv", rows_of_allocations(rank))
        folder.text(f"{out}/npu_module_mem.csv", rows_of_modules(rank))
        folder.text(f"{out}/operator_details.csv", rows_of_framework(rank))
        folder.text(f"{out}/communication.json", [json.dumps(communication(rank))])
        folder.text(f"{out}/communication_matrix.json", [json.dumps(matrix(simulation, rank))])
        folder.text(f"{out}/trace_view.json", [trace(simulation, rank)])


def _job(name: str, plan: Plan, case: str) -> Job:
    folder = Folder()
    write_text(Simulation(plan), folder)
    return Job(name, case, folder)


def profile_healthy_4_ranks() -> Job:
    """Four ranks, well overlapped."""
    return _job(
        "profile-healthy-4-ranks",
        Plan(seed="healthy", layers=3),
        case_text(
            title="Profiler captures of four ranks, nothing to gain",
            en=(
                "Text exports of the Ascend PyTorch Profiler: data parallel training whose gradient reduction runs "
                "under the backward pass. Nothing above info may be reported."
            ),
            zh="Ascend PyTorch Profiler 文本交付件，数据并行训练，梯度归约与反向计算重叠。不应报告 info 以上的问题。",
            expect="exit: 0\nverdict: healthy\nmax_severity: info\n",
        ),
    )


def profile_comm_bound() -> Job:
    """Four ranks whose reductions run after the backward pass of each layer, on nobody's time but the step's."""
    return _job(
        "profile-comm-bound",
        Plan(seed="comm", layers=3, overlap=False, transfer_us=6000.0),
        case_text(
            title="Profiler captures of four ranks, half the step is communication",
            en=(
                "No gradient bucket overlaps with computation, and each takes longer than the layer that made it. "
                "All ranks are alike: nobody is late, and no link is slower than another."
            ),
            zh="梯度桶与计算完全不重叠，且单桶通信时间长于产生它的层。各 rank 表现一致，没有慢卡，也没有慢链路。",
            expect=(
                "exit: 0\nverdict: findings\nroot:\n  names: [communication-bound]\n  category: [performance]\n"
                "  min_severity: warning\nconsequences: [communication-not-overlapped]\n"
                "must_not: [slow-rank, slow-link]\n"
            ),
        ),
    )


def profile_slow_rank() -> Job:
    """Rank 2 computes a third longer."""
    return _job(
        "profile-slow-rank",
        Plan(seed="slow", layers=3, slow_rank=2, slow_factor=1.35),
        case_text(
            title="Profiler captures of four ranks, rank 2 is late",
            en=(
                "The kernels of rank 2 take 35 % longer than the same kernels elsewhere. The other three wait for it "
                "in every reduction: their communication is a symptom."
            ),
            zh="rank 2 的算子比其他 rank 上的相同算子慢 35 %，其余三个 rank 在每次归约中等待它，通信时间只是表象。",
            expect=(
                "exit: 0\nverdict: findings\nroot:\n  names: [slow-rank]\n  category: [performance]\n"
                "  min_severity: warning\n  ranks: [2]\nconsequences: [communication-bound]\n"
                "must_not: [slow-link]\n"
            ),
        ),
    )
