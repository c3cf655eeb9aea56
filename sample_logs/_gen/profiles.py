"""Profiler captures whose numbers agree with each other: a small simulated job, written as a profiler would.

The job trains data parallel (and, with `stages`, in a pipeline): forward kernels, backward kernels with a gradient
reduction per bucket, an optimizer. Every figure in every file is computed from the same intervals.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

from _gen.shapes import Folder, Job, case_text

Span = tuple[float, float]

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
FORWARD = (
    ("RmsNorm", "AI_VECTOR_CORE", 60.0, "4096,1,2048;2048", "4096,1,2048"),
    ("MatMulV3", "AI_CORE", 640.0, "4096,2048;6144,2048", "4096,6144"),
    ("FlashAttentionScore", "MIX_AIC", 820.0, "4096,1,2048;4096,1,2048;4096,1,2048", "4096,1,2048"),
    ("MatMulV3", "AI_CORE", 980.0, "4096,2048;11008,2048", "4096,11008"),
    ("SwiGlu", "AI_VECTOR_CORE", 120.0, "4096,1,11008", "4096,1,5504"),
)
BACKWARD = (
    ("FlashAttentionScoreGrad", "MIX_AIC", 1900.0, "4096,1,2048;4096,1,2048;4096,1,2048", "4096,1,2048"),
    ("MatMulV3", "AI_CORE", 1960.0, "4096,11008;4096,2048", "11008,2048"),
    ("RmsNormGrad", "AI_VECTOR_CORE", 140.0, "4096,1,2048;2048", "4096,1,2048"),
)
OPTIMIZER = ("ApplyAdamWV2", "AI_VECTOR_CORE", 300.0, "16777216;16777216", "16777216")
AI_CPU = ("Index", "AI_CPU", 420.0, "4096,2048;4096", "4096,2048")
MHZ = 1650.0
BEGIN_US = 1_772_614_000_000_000
"""When the capture begins; times of the simulation count from here, since a float does not hold both."""
CORES = 20


@dataclass(frozen=True)
class Plan:
    """What to simulate.

    Attributes:
        ranks: Ranks of the job.
        stages: Pipeline stages; ranks are spread over them in blocks.
        steps: Steps captured.
        layers: Layers per rank.
        slow_rank: Its kernels take `slow_factor` as long.
        host_rank: Its host needs `host_gap_us` for each kernel; None: all ranks where the gap is larger than normal.
        overlap: Whether gradients are reduced while the backward pass goes on.
        transfer_us: Time of one gradient bucket on a sound link.
        slow_link: (source, target) whose bandwidth is `link_factor` of the others'.
        heavy_stage: Stage whose kernels take `heavy_factor` as long.
        clock_drop: Rank whose clock falls to two thirds.
        fragmented: Whether the pool of the framework is half empty.
        ai_cpu: Whether an operator runs on the AI CPU in every layer.
    """

    ranks: int = 4
    stages: int = 1
    steps: int = 3
    layers: int = 4
    slow_rank: int | None = None
    slow_factor: float = 1.3
    host_rank: int | None = None
    host_gap_us: float = 4.0
    overlap: bool = True
    transfer_us: float = 900.0
    slow_link: tuple[int, int] | None = None
    link_factor: float = 0.3
    heavy_stage: int | None = None
    heavy_factor: float = 1.6
    clock_drop: int | None = None
    fragmented: bool = False
    ai_cpu: bool = False
    first_step: int = 21
    seed: str = "profile"


@dataclass
class Kernel:
    """One kernel on the device."""

    step: int
    name: str
    type: str
    core: str
    start: float
    end: float
    wait: float
    inputs: str
    output: str


@dataclass
class Talk:
    """One communication operation as one rank saw it."""

    step: int
    group: str
    op: str
    index: int
    start: float
    end: float
    transfer: float
    p2p: bool = False


@dataclass
class Rank:
    """One rank and what happened on it."""

    number: int
    stage: int
    kernels: list[Kernel] = field(default_factory=list)
    talks: list[Talk] = field(default_factory=list)
    steps: list[Span] = field(default_factory=list)
    now: float = 0.0


def group_hash(name: str) -> int:
    """Return what communication files call a group."""
    high = low = 0
    for character in name:
        high = (high * 29 + ord(character)) & 0xFFFFFFFF
        low = (low * 131 + ord(character)) & 0xFFFFFFFF
    return high << 32 | low


class Simulation:
    """The job of a plan, run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._rnd = random.Random(plan.seed)
        per_stage = plan.ranks // plan.stages
        self.ranks = [Rank(number, number // per_stage) for number in range(plan.ranks)]
        self.groups: dict[str, tuple[str, list[int]]] = {}
        for stage in range(plan.stages):
            members = [rank.number for rank in self.ranks if rank.stage == stage]
            self.groups[f"group_name_{stage + 1}"] = ("dp", members)
        if plan.stages > 1:
            for offset in range(per_stage):
                members = [offset + per_stage * stage for stage in range(plan.stages)]
                self.groups[f"group_name_{10 + offset}"] = ("pp", members)
        for rank in self.ranks:
            rank.now = 0.0
        for step in range(plan.first_step, plan.first_step + plan.steps):
            self._step(step)

    def _factor(self, rank: Rank) -> float:
        plan = self.plan
        factor = plan.slow_factor if rank.number == plan.slow_rank else 1.0
        if rank.stage == plan.heavy_stage:
            factor *= plan.heavy_factor
        return factor * (1.5 if rank.number == plan.clock_drop else 1.0)

    def _run(self, rank: Rank, step: int, kind: tuple[str, str, float, str, str]) -> None:
        plan = self.plan
        slow_host = plan.host_gap_us if plan.host_rank in (None, rank.number) else 4.0
        wait = round(slow_host * self._rnd.uniform(0.8, 1.2), 3)
        name, core, length, inputs, output = kind
        duration = round(length * self._factor(rank) * self._rnd.uniform(0.99, 1.01), 3)
        start = round(rank.now + wait, 3)
        end = round(start + duration, 3)
        full = f"aclnn{name}_{name}AiCore_{name}"
        rank.kernels.append(Kernel(step, full, name, core, start, end, wait, inputs, output))
        rank.now = end

    def _collective(self, step: int, group: str, op: str, index: int, ready: dict[int, float]) -> float:
        plan = self.plan
        members = self.groups[group][1]
        transfer = plan.transfer_us
        if plan.slow_link is not None and set(plan.slow_link) <= set(members):
            transfer /= plan.link_factor
        end = round(max(ready[number] for number in members) + transfer, 3)
        for number in members:
            self.ranks[number].talks.append(Talk(step, group, op, index, ready[number], end, plan.transfer_us))
        return end

    def _step(self, step: int) -> None:
        begin = {rank.number: rank.now for rank in self.ranks}
        self._pass(step, FORWARD, backward=False)
        ends = self._pass(step, BACKWARD, backward=True)
        for rank in self.ranks:
            rank.now = max(rank.now, ends[rank.number])
            self._run(rank, step, OPTIMIZER)
            rank.steps.append((begin[rank.number], rank.now))
            rank.now = round(rank.now + 60.0, 3)

    def _pass(
        self, step: int, kinds: tuple[tuple[str, str, float, str, str], ...], *, backward: bool
    ) -> dict[int, float]:
        """Run one pass; stages one after the other, the way back in a pipeline from the last to the first."""
        plan = self.plan
        order = range(plan.stages)
        last = dict.fromkeys((rank.number for rank in self.ranks), 0.0)
        for place, stage in enumerate(reversed(order) if backward else order):
            members = [rank for rank in self.ranks if rank.stage == stage]
            if place:
                self._receive(step, members, -1 if backward else 1, backward)
            busy = 0.0
            for layer in range(plan.layers):
                for rank in members:
                    for kind in kinds:
                        self._run(rank, step, kind)
                    if plan.ai_cpu and not backward:
                        self._run(rank, step, AI_CPU)
                if backward:
                    # The next bucket leaves once the one ahead of it is through.
                    ready = {rank.number: max(rank.now, busy) for rank in members}
                    busy = self._collective(step, f"group_name_{stage + 1}", "allReduce", layer, ready)
                    for rank in members:
                        last[rank.number] = busy
                        if not plan.overlap:
                            rank.now = busy
        return last

    def _receive(self, step: int, members: list[Rank], way: int, backward: bool) -> None:
        per_stage = self.plan.ranks // self.plan.stages
        for rank in members:
            sender = self.ranks[rank.number - way * per_stage]
            group = f"group_name_{10 + rank.number % per_stage}"
            start, sent = rank.now, sender.now
            end = round(max(start, sent) + 80.0, 3)
            index = 1 if backward else 0
            rank.talks.append(Talk(step, group, "receive", index, start, end, 80.0, p2p=True))
            sender.talks.append(Talk(step, group, "send", index, sent, round(sent + 80.0, 3), 80.0, p2p=True))
            rank.now = end


def stamp(us: float) -> str:
    """Return a time of the simulation as profilers write it: microseconds since 1970 with three decimals."""
    ns = BEGIN_US * 1000 + round(us * 1000)
    return f"{ns // 1000}.{ns % 1000:03d}"


def union(spans: list[Span]) -> list[Span]:
    """Return disjoint spans that cover the same time."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def length(spans: list[Span]) -> float:
    """Return how long spans are together."""
    return sum(end - start for start, end in spans)


@dataclass(frozen=True)
class Split:
    """Where a step's time goes, in us."""

    computing: float
    comm: float
    overlapped: float
    free: float
    bubble: float
    span: float

    @property
    def uncovered(self) -> float:
        """Communication that no kernel covers."""
        return self.comm - self.overlapped


def split(rank: Rank, step: int) -> Split:
    """Return the breakdown of one step of one rank."""
    kernels = union([(kernel.start, kernel.end) for kernel in rank.kernels if kernel.step == step])
    talks = union([(talk.start, talk.end) for talk in rank.talks if talk.step == step])
    both = union(kernels + talks)
    computing, comm = length(kernels), length(talks)
    overlapped = computing + comm - length(both)
    span = both[-1][1] - both[0][0]
    bubble = sum(talk.end - talk.start for talk in rank.talks if talk.step == step and talk.op == "receive")
    return Split(computing, comm, overlapped, span - length(both), bubble, span)


def host_name(rank: Rank) -> str:
    """Return the name of the capture's folder."""
    return f"node-a_{41200 + rank.number}_20260304100{rank.number:04d}_ascend_pt"


def rows_of_steps(rank: Rank) -> list[str]:
    """Return ``step_trace_time.csv``."""
    rows = [STEP_COLUMNS]
    for step in sorted({kernel.step for kernel in rank.kernels}):
        part = split(rank, step)
        values = (part.computing, part.uncovered, part.overlapped, part.comm, part.free, part.span - part.bubble)
        rest = (part.bubble, max(part.uncovered - part.bubble, 0.0), 140.25)
        rows.append(f"{rank.number},{step}," + ",".join(repr(round(value, 6)) for value in values + rest))
    return rows


def rows_of_kernels(rank: Rank) -> list[str]:
    """Return ``kernel_details.csv``."""
    rows = [KERNEL_COLUMNS]
    for number, kernel in enumerate(rank.kernels):
        duration = kernel.end - kernel.start
        cube, vector = kernel.core in ("AI_CORE", "MIX_AIC"), kernel.core == "AI_VECTOR_CORE"
        busy = duration * 0.96
        cycles = int(busy * MHZ * CORES) if cube else 0
        metrics = (
            f"{busy if cube else 0.0:.3f},{cycles},{0.86 if cube else 0.0},{0.52 if cube else 0.0},"
            f"{0.62 if vector else 0.1},{0.55 if vector else 0.1},{0.3 if vector else 0.1},{94.0 if cube else 0.0}"
        )
        types = ";".join("DT_BF16" for _ in kernel.inputs.split(";"))
        formats = ";".join("ND" for _ in kernel.inputs.split(";"))
        rows.append(
            f"{kernel.step},{rank.number},4294967295,{number},2,{kernel.name},{kernel.type},dynamic,{kernel.core},"
            f"{stamp(kernel.start)}\t,{duration:.3f},{kernel.wait:.3f},{CORES if cube else 2 * CORES},0,NO,"
            f'"""{kernel.inputs}""",{types},{formats},"""{kernel.output}""",DT_BF16,ND,N/A,{metrics}'
        )
    return rows


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


def memory_curve(simulation: Simulation, rank: Rank) -> list[tuple[float, float, float]]:
    """Return time (us), allocated and reserved (MB) of the framework's pool: up in the forward pass, down again."""
    reserved = 46_080.0 if simulation.plan.fragmented else 24_576.0
    points = []
    for begin, end in rank.steps:
        for part in range(20):
            share = part / 19
            allocated = 18_000.0 + 5_000.0 * (1 - abs(2 * share - 1))
            points.append((begin + (end - begin) * share, round(allocated, 3), reserved))
    return points


def rows_of_memory(simulation: Simulation, rank: Rank) -> list[str]:
    """Return ``memory_record.csv``."""
    rows = ["Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type"]
    for when, allocated, reserved in memory_curve(simulation, rank):
        rows.append(f"PTA,{stamp(when)}\t,{allocated},{reserved},{allocated},281470000,NPU:{rank.number}")
        rows.append(f"APP,{stamp(when)}\t,,{reserved + 1600.0},,,NPU:{rank.number}")
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
        size = round(transit * 19.0, 6)
        zero = _band()
        full = _band(size, round(transit, 6))
        side = sides["p2p" if talk.p2p else "collective"]
        side[f"hcom_{talk.op}__{code % 1000:03d}_{talk.index}_1@{code}"] = {
            "Communication Time Info": {
                "Start Timestamp(us)": BEGIN_US + talk.start,
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
                speed = 390.0 if local else 19.0 * (plan.link_factor if slow else 1.0)
                size = round(spent * 19.0, 6)
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
    python, cann, device, clock, lanes = 41_000, 41_001, 41_002, 41_003, 41_004
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
    for tid, (name, spans) in enumerate((("Computing", kernels), ("Communication", talks))):
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
