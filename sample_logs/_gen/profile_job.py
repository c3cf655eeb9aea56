"""A small simulated job, whose profiler captures are written from: every figure in them comes from the same intervals.

The job trains data parallel (and, with `stages`, in a pipeline): forward kernels, backward kernels with a gradient
reduction per bucket, an optimizer. `Plan` says what is wrong with it.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

Span = tuple[float, float]

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
NORM = (
    ("Pows", "AI_VECTOR_CORE", 60.0, "4096,1,2048", "4096,1,2048"),
    ("ReduceMean", "AI_VECTOR_CORE", 50.0, "4096,1,2048", "4096,1,1"),
    ("Adds", "AI_VECTOR_CORE", 12.0, "4096,1,1", "4096,1,1"),
    ("Rsqrt", "AI_VECTOR_CORE", 12.0, "4096,1,1", "4096,1,1"),
    ("Mul", "AI_VECTOR_CORE", 60.0, "4096,1,2048;4096,1,1", "4096,1,2048"),
    ("Mul", "AI_VECTOR_CORE", 60.0, "4096,1,2048;2048", "4096,1,2048"),
)
"""A normalisation written out instead of called."""
CHAIN = tuple((kind, "AI_VECTOR_CORE", 90.0, "4096,1,2048", "4096,1,2048") for kind in ("Exp", "Log", "Maximum", "Abs"))
"""Kernels that run one after the other over the same tensor."""
TOKENS = 8192
OPTIMIZER = ("ApplyAdamWV2", "AI_VECTOR_CORE", 300.0, "16777216;16777216", "16777216")
AI_CPU = ("Index", "AI_CPU", 420.0, "4096,2048;4096", "4096,2048")
MHZ = 1650.0
BEGIN_US = 1_772_614_000_000_000
"""When the capture begins; times of the simulation count from here, since a float does not hold both."""
CORES = 20
P2P_US = 80.0
SPEED_GBPS = 19.0
"""What a sound link moves."""


@dataclass(frozen=True)
class Plan:
    """What to simulate.

    Attributes:
        ranks: Ranks of the job.
        stages: Pipeline stages; ranks are spread over them in blocks.
        steps: Steps captured.
        micro: Micro batches per step.
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
        batched: Whether stages exchange with batched send and receive, which profilers count as no bubble.
        experts: Whether layers have experts, spread over the ranks of a stage.
        hot_rank: Its experts get `hot_factor` as many tokens.
        unfused: Whether the normalisation is written out.
        chain: Whether each layer ends with small kernels over one tensor.
        contended: Whether transfers under kernels take twice as long.
        odd_sizes: Whether transfers are no multiples of 512 bytes.
        fragment_growth_mb: What the pool takes more from the device in every step.
    """

    ranks: int = 4
    stages: int = 1
    steps: int = 3
    micro: int = 1
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
    batched: bool = False
    experts: bool = False
    hot_rank: int | None = None
    hot_factor: float = 2.5
    unfused: bool = False
    chain: bool = False
    contended: bool = False
    odd_sizes: bool = False
    fragment_growth_mb: float = 0.0
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
    inputs: str
    output: str


@dataclass
class Talk:
    """One communication operation as one rank saw it; `transfer` in us, `size` in MB."""

    step: int
    group: str
    op: str
    index: int
    start: float
    end: float
    transfer: float
    p2p: bool = False
    size: float = 0.0


@dataclass
class Rank:
    """One rank and what happened on it; `odd` where its transfers are no whole blocks."""

    number: int
    stage: int
    kernels: list[Kernel] = field(default_factory=list)
    talks: list[Talk] = field(default_factory=list)
    steps: list[Span] = field(default_factory=list)
    now: float = 0.0
    odd: bool = False


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
        self.ranks = [Rank(number, number // per_stage, odd=plan.odd_sizes) for number in range(plan.ranks)]
        self.groups: dict[str, tuple[str, list[int]]] = {}
        for stage in range(plan.stages):
            members = [rank.number for rank in self.ranks if rank.stage == stage]
            self.groups[f"group_name_{stage + 1}"] = ("dp", members)
            if plan.experts:
                self.groups[f"group_name_{40 + stage}"] = ("exp", members)
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
        rank.kernels.append(Kernel(step, full, name, core, start, end, inputs, output))
        rank.now = end

    def _collective(
        self, step: int, group: str, op: str, index: int, ready: dict[int, float], *, covered: bool = False
    ) -> float:
        plan = self.plan
        members = self.groups[group][1]
        transfer = plan.transfer_us * (2.0 if covered and plan.contended else 1.0)
        seen = transfer
        if plan.slow_link is not None and set(plan.slow_link) <= set(members):
            transfer /= plan.link_factor
        end = round(max(ready[number] for number in members) + transfer, 3)
        size = round(plan.transfer_us / 1e3 * SPEED_GBPS, 6)
        for number in members:
            talk = Talk(step, group, op, index, ready[number], end, seen, size=size)
            self.ranks[number].talks.append(talk)
        return end

    def _step(self, step: int) -> None:
        begin = {rank.number: rank.now for rank in self.ranks}
        last = self.plan.micro - 1
        for micro in range(self.plan.micro):
            self._pass(step, micro, FORWARD, backward=False)
        for micro in range(self.plan.micro):
            ends = self._pass(step, micro, BACKWARD, backward=True, reduce=micro == last)
        for rank in self.ranks:
            rank.now = max(rank.now, ends[rank.number])
            self._run(rank, step, OPTIMIZER)
            rank.steps.append((begin[rank.number], rank.now))
            rank.now = round(rank.now + 60.0, 3)

    def _pass(
        self,
        step: int,
        micro: int,
        kinds: tuple[tuple[str, str, float, str, str], ...],
        *,
        backward: bool,
        reduce: bool = False,
    ) -> dict[int, float]:
        """Run one micro batch through the stages, backward from the last to the first.

        Returns:
            When the last reduction of each rank ends, with `reduce`.
        """
        plan = self.plan
        order = range(plan.stages)
        last = dict.fromkeys((rank.number for rank in self.ranks), 0.0)
        for place, stage in enumerate(reversed(order) if backward else order):
            members = [rank for rank in self.ranks if rank.stage == stage]
            if place:
                self._receive(step, micro, members, -1 if backward else 1, backward)
            busy = 0.0
            for layer in range(plan.layers):
                for rank in members:
                    for kind in kinds:
                        for part in NORM if plan.unfused and kind[0] == "RmsNorm" else (kind,):
                            self._run(rank, step, part)
                    if plan.ai_cpu and not backward:
                        self._run(rank, step, AI_CPU)
                    for kind in CHAIN if plan.chain else ():
                        self._run(rank, step, kind)
                if plan.experts and not backward:
                    self._experts(step, stage, members, micro * plan.layers + layer)
                if reduce:
                    # The next bucket leaves once the one ahead of it is through.
                    ready = {rank.number: max(rank.now, busy) for rank in members}
                    covered = plan.overlap and layer + 1 < plan.layers
                    name = f"group_name_{stage + 1}"
                    busy = self._collective(step, name, "allReduce", layer, ready, covered=covered)
                    for rank in members:
                        last[rank.number] = busy
                        if not plan.overlap:
                            rank.now = busy
        return last

    def _experts(self, step: int, stage: int, members: list[Rank], layer: int) -> None:
        """Multiply what was routed to each rank, and exchange the results."""
        plan = self.plan
        for rank in members:
            share = plan.hot_factor if rank.number == plan.hot_rank else 1.0
            rows = int(TOKENS * share)
            inputs, output = f"{rows},2048;8,2048,1024", f"{rows},1024"
            self._run(rank, step, ("GroupedMatmul", "AI_CORE", 700.0 * share, inputs, output))
        ready = {rank.number: rank.now for rank in members}
        end = self._collective(step, f"group_name_{40 + stage}", "alltoallv", layer, ready)
        for rank in members:
            rank.now = end

    def _receive(self, step: int, micro: int, members: list[Rank], way: int, backward: bool) -> None:
        per_stage = self.plan.ranks // self.plan.stages
        there, back = ("batchSendRecv", "batchSendRecv") if self.plan.batched else ("receive", "send")
        for rank in members:
            sender = self.ranks[rank.number - way * per_stage]
            group = f"group_name_{10 + rank.number % per_stage}"
            start, sent = rank.now, sender.now
            end = round(max(start, sent) + P2P_US, 3)
            done = end if self.plan.batched else round(sent + P2P_US, 3)
            index = 2 * micro + (1 if backward else 0)
            size = round(P2P_US / 1e3 * SPEED_GBPS, 6)
            rank.talks.append(Talk(step, group, there, index, start, end, P2P_US, p2p=True, size=size))
            sender.talks.append(Talk(step, group, back, index, sent, done, P2P_US, p2p=True, size=size))
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
    preparing: float

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
    number = sorted({kernel.step for kernel in rank.kernels}).index(step)
    preparing = both[0][0] - rank.steps[number][0]
    return Split(computing, comm, overlapped, span - length(both), bubble, span, preparing)


def host_name(rank: Rank) -> str:
    """Return the name of the capture's folder."""
    return f"node-a_{41200 + rank.number}_20260304100{rank.number:04d}_ascend_pt"


def memory_curve(simulation: Simulation, rank: Rank) -> list[tuple[float, float, float]]:
    """Return time (us), allocated and reserved (MB) of the framework's pool: up in the forward pass, down again."""
    reserved = 46_080.0 if simulation.plan.fragmented else 24_576.0
    points = []
    growth = simulation.plan.fragment_growth_mb
    for number, (begin, end) in enumerate(rank.steps):
        for part in range(20):
            share = part / 19
            allocated = 18_000.0 + 5_000.0 * (1 - abs(2 * share - 1))
            points.append((begin + (end - begin) * share, round(allocated, 3), reserved + growth * number))
    return points


def gaps(rank: Rank) -> list[Span]:
    """Return when the device has nothing to do, from its first task to its last."""
    spans = [(kernel.start, kernel.end) for kernel in rank.kernels] + [(talk.start, talk.end) for talk in rank.talks]
    both = union(spans)
    return [(earlier[1], later[0]) for earlier, later in itertools.pairwise(both) if later[0] > earlier[1]]


def listed(rank: Rank) -> list[tuple[Kernel | Talk, float]]:
    """Return kernels and communication in the order of their start, each with the gap ahead of it (us)."""
    out: list[tuple[Kernel | Talk, float]] = []
    reach: float | None = None
    for item in sorted((*rank.kernels, *rank.talks), key=lambda one: one.start):
        out.append((item, 0.0 if reach is None else max(round(item.start - reach, 3), 0.0)))
        reach = item.end
    return out
