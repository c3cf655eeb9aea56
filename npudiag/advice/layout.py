"""Parallel layouts of Megatron-based trainings: which ones hold, which are next to one, what a move changes.

Whether a layout holds follows the frameworks' own checks. What it costs is arithmetic, with sources:

* static memory: 18 bytes per parameter, or 6 + 12 / DP with the distributed optimizer, of parameters / (TP * PP)
  (Megatron-LM, ``theoretical_memory_usage.py``);
* activations per layer: s*b*h * (10 + 24 / TP), or 34 / TP with sequence parallelism (Korthikanti et al., 2022,
  "Reducing Activation Recomputation in Large Transformer Models"); a stage of 1F1B holds min(m, PP) micro-batches of
  its layers, an interleaved one 1 + (PP - 1) / (PP * v) times as many (same places);
* pipeline bubble: (PP - 1) / (v * m + PP - 1) of the step (Narayanan et al., 2021, "Efficient Large-Scale Language
  Model Training on GPU Clusters Using Megatron-LM"), m micro-batches, v virtual stages;
* traffic: four all-reduces of s*b*h per layer and micro-batch for tensor parallelism (Shoeybi et al., 2019), one ring
  all-reduce of the gradients per step for data parallelism.

These are ratios between layouts, not predictions of time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from npudiag.advice.settings import Job

OPTIONS = {
    "tp": "--tensor-model-parallel-size", "pp": "--pipeline-model-parallel-size", "cp": "--context-parallel-size",
    "ep": "--expert-model-parallel-size", "chunk": "--num-layers-per-virtual-pipeline-stage",
    "micro": "--micro-batch-size", "batch": "--global-batch-size",
}  # fmt: skip
"""Field of a layout to the option that sets it."""
_FIXED_STAGES = (
    "--num-layer-list", "--noop-layers", "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers",
    "--pipeline-model-parallel-layout", "--pipeline-num-transformer-layers", "--schedules-method",
    "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split", "--mtp-num-layers",
    "--num-virtual-stages-per-pipeline-rank",
)  # fmt: skip
"""Options that spell out the stages, so that their number cannot be changed alone."""
_OTHER_MODELS = ("--use-torch-fsdp2", "--use-custom-fsdp", "--tp-2d", "--enable-zero3")


@dataclass(frozen=True, slots=True)
class Layout:
    """How a training is split.

    Attributes:
        tp, pp, cp, ep, dp: Tensor, pipeline, context, expert and data parallel size.
        chunk: Layers per virtual pipeline stage, 0 where there are none.
        micro, batch: Samples per micro-batch and per step.
        layers, heads, groups, hidden, seq, experts: The model; groups are those of keys and values.
        node: Cards per node.
        sharded: Whether the optimizer is sharded over data parallel ranks.
        sequence: Whether activations are split along the sequence.
        ulysses: Whether context parallelism deals out heads.
        extended: Whether experts are dealt out over tensor parallel ranks too.
        fixed: Whether the stages are spelled out.
    """

    tp: int
    pp: int
    cp: int
    ep: int
    dp: int
    chunk: int
    micro: int
    batch: int
    layers: int
    heads: int
    groups: int
    hidden: int
    seq: int
    experts: int
    node: int
    sharded: bool
    sequence: bool
    ulysses: bool
    extended: bool
    fixed: bool

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.tp * self.pp * self.cp * self.dp

    @property
    def steps(self) -> int:
        """Micro-batches per step and data parallel rank."""
        return max(1, self.batch // (self.micro * self.dp))

    @property
    def virtual(self) -> int:
        """Virtual stages per rank."""
        return self.layers // self.pp // self.chunk if self.chunk else 1

    def valid(self) -> bool:
        """Whether the framework would accept it."""
        if min(self.tp, self.pp, self.cp, self.ep, self.dp, self.micro) < 1:
            return False
        if self.heads % self.tp or self.hidden % self.tp or (self.groups % self.tp and self.tp % self.groups):
            return False
        if self.layers % self.pp or self.batch % (self.micro * self.dp):
            return False
        if self.chunk:
            each = self.layers // self.pp
            # Interleaving deals micro-batches out in rounds of as many as there are stages.
            if self.pp < 2 or each % self.chunk or self.chunk >= each or self.steps % self.pp:
                return False
        if self.sequence and self.seq % self.tp:
            return False
        if self.cp > 1:
            if self.ulysses and (self.heads % (self.tp * self.cp) or self.seq % self.cp):
                return False
            if not self.ulysses and self.seq % (2 * self.cp):
                return False
        if self.ep > 1:
            over = self.cp * self.dp * (self.tp if self.extended else 1)
            if not self.experts or self.experts % self.ep or over % self.ep:
                return False
        return True

    # -- what it costs, in units that compare layouts of one model

    def static(self) -> float:
        """Bytes per rank and parameter for weights, gradients and optimizer."""
        each = 6 + 12 / self.dp if self.sharded else 18.0
        return each / (self.tp * self.pp)

    def activations(self) -> float:
        """Activation memory of the first stage, in units of s*b*h."""
        per_layer = 34 / self.tp if self.sequence else 10 + 24 / self.tp
        held = min(self.steps, self.pp) * self.layers / self.pp
        if self.virtual > 1:
            held *= 1 + (self.pp - 1) / (self.pp * self.virtual)
        return per_layer * held * self.micro / self.cp

    def bubble(self) -> float:
        """Part of a step in which a stage waits for the others, 0 to 1."""
        return (self.pp - 1) / (self.virtual * self.steps + self.pp - 1)

    def tensor_traffic(self) -> float:
        """What a rank sends for tensor parallelism in a step, in units of s*h."""
        return 4 * (self.tp - 1) / self.tp * self.steps * self.micro * self.layers / self.pp / self.cp

    def gradient_traffic(self) -> float:
        """What a rank sends for gradients in a step, in units of all parameters."""
        peers = self.dp * self.cp
        return 2 * (peers - 1) / peers / (self.tp * self.pp)

    def text(self) -> str:
        """Return the sizes in short."""
        out = f"TP {self.tp} PP {self.pp}"
        if self.chunk:
            out += f" (chunks of {self.chunk})"
        if self.cp > 1:
            out += f" CP {self.cp}"
        if self.experts:
            out += f" EP {self.ep}"
        return f"{out} DP {self.dp}"


def of_job(job: Job) -> Layout | None:
    """Return the layout of a launch; None where one of its numbers is not known or it is split in another way."""
    if any(job.find(option) for option in _OTHER_MODELS):
        return None
    setting = [job.find(option) for option in OPTIONS.values()]
    if not all(one.known and (one.sure or one.source == "dump") for one in setting if one is not None):
        return None
    tp, pp, cp, ep = (job.number(OPTIONS[name], 1) for name in ("tp", "pp", "cp", "ep"))
    world, micro, batch = job.world, job.number(OPTIONS["micro"]), job.number(OPTIONS["batch"])
    layers, heads, hidden = (
        job.number(name) for name in ("--num-layers", "--num-attention-heads", "--hidden-size")
    )  # fmt: skip
    seq, chunk, experts = job.number("--seq-length"), job.number(OPTIONS["chunk"], 0), job.number("--num-experts", 0)
    groups = job.number("--num-query-groups") if job.find("--group-query-attention") else heads
    if not (tp and pp and cp and ep and world and micro and batch and layers and heads and hidden and seq and groups):
        return None
    if world % (tp * pp * cp) or chunk is None or experts is None:
        return None
    per_node = job.launcher.get("--nproc_per_node") or job.launcher.get("--nproc-per-node")
    node = int(per_node.number) if per_node is not None and per_node.number else min(world, 8)
    algorithm = job.find("--context-parallel-algo")
    return Layout(
        tp=tp, pp=pp, cp=cp, ep=ep, dp=world // (tp * pp * cp), chunk=chunk, micro=micro, batch=batch,
        layers=layers, heads=heads, groups=groups, hidden=hidden, seq=seq, experts=experts, node=node,
        sharded=job.find("--use-distributed-optimizer") is not None,
        sequence=job.find("--sequence-parallel") is not None and tp > 1,
        # MindSpeed-LLM deals out heads unless told otherwise, Megatron-LM passes keys and values round.
        ulysses=algorithm is not None and algorithm.value == "ulysses_cp_algo",
        extended=job.find("--moe-tp-extend-ep") is not None or job.number("--expert-tensor-parallel-size") == 1,
        fixed=any(job.find(option) for option in _FIXED_STAGES),
    )  # fmt: skip


def neighbours(here: Layout) -> Iterator[Layout]:
    """Yield the valid layouts one step away: a size doubled and another halved, experts or virtual stages changed."""
    sizes = ("tp", "pp", "cp", "dp")
    for up in sizes:
        for down in sizes:
            before = {name: getattr(here, name) for name in (up, down)}
            if up == down or before[down] % 2:
                continue
            if here.fixed and "pp" in (up, down):
                continue
            after = _sized(here, {up: before[up] * 2, down: before[down] // 2})
            if "pp" in (up, down) and here.chunk:
                after = replace(after, chunk=_chunk(after))
                if not after.chunk:
                    continue
            # Tensor parallelism across nodes is never worth it; a first split of sequences only for long ones.
            if after.tp > max(here.node, here.tp) or (up == "cp" and here.cp == 1 and here.seq < 16384):
                continue
            if here.sequence and after.tp == 1:
                after = replace(after, sequence=False)
            if after.valid():
                yield after
    if here.experts:
        for ep in (here.ep * 2, here.ep // 2):
            after = replace(here, ep=ep)
            if ep >= 1 and after.valid():
                yield after
    if here.pp > 1 and not here.fixed:
        chunk = _chunk(here) if not here.chunk else here.chunk // 2 if here.chunk % 2 == 0 else 0
        after = replace(here, chunk=chunk)
        if chunk and chunk != here.chunk and after.valid():
            yield after


def _sized(layout: Layout, sizes: Mapping[str, int]) -> Layout:
    """Return a layout with other sizes, by field."""
    changes: dict[str, Any] = dict(sizes)
    return replace(layout, **changes)


def _chunk(layout: Layout) -> int:
    """Return a number of layers for two virtual stages per rank, 0 where they do not divide."""
    each = layout.layers // max(1, layout.pp)
    if layout.pp < 2 or layout.layers % layout.pp or each < 2 or each % 2:
        return 0
    return each // 2


def two_virtual_stages(here: Layout) -> int:
    """Return how many layers make two virtual stages per rank, 0 where that does not divide or is spelled out."""
    chunk = 0 if here.fixed or here.chunk else _chunk(here)
    return chunk if chunk and replace(here, chunk=chunk).valid() else 0


def changed(before: Layout, after: Layout) -> dict[str, int]:
    """Return the options to set, with their new values; data parallelism follows from the others."""
    fields = ("tp", "pp", "cp", "ep", "chunk", "micro", "batch")
    return {
        OPTIONS[name]: getattr(after, name) for name in fields if getattr(before, name) != getattr(after, name)
    }  # fmt: skip


def with_value(here: Layout, option: str, value: int) -> Layout | None:
    """Return a layout with one option changed, data parallelism following; None where ranks do not divide."""
    field = next((name for name, known in OPTIONS.items() if known == option), None)
    if field is None:
        return here
    after = _sized(here, {field: value})
    product = after.tp * after.pp * after.cp
    if product < 1 or here.world % product:
        return None
    return replace(after, dp=here.world // product)
