"""Checks of sizes: what is split must divide."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from npudiag.advice.settings import Job, Setting
from npudiag.detectors.launch_hits import Params, hit, judged
from npudiag.engine.hits import Hit

if TYPE_CHECKING:
    from npudiag.tables.store import Store

ROUTE = {
    "tp": "--tensor-model-parallel-size", "pp": "--pipeline-model-parallel-size",
    "ep": "--expert-model-parallel-size",
}  # fmt: skip
"""Short name of a parallel size to its option."""


def sizes_of(job: Job) -> dict[str, int] | None:
    """Return parallel sizes by short name; None where one is not known."""
    out: dict[str, int] = {}
    for short, option in (*ROUTE.items(), ("cp", "--context-parallel-size")):
        setting = job.find(option)
        value = job.number(option, 1)
        if value is None or value < 1 or (setting is not None and not setting.sure):
            return None
        out[short] = value
    return out


def _at(job: Job, *options: str) -> list[Setting]:
    return [setting for option in options if (setting := job.find(option) or job.launcher.get(option)) is not None]


def world_sizes(store: Store, params: Params) -> list[Hit]:
    """Parallel sizes whose product does not divide the number of ranks."""
    hits = []
    for job in judged(store):
        sizes, world = sizes_of(job), job.world
        if sizes is None or world is None or job.source == "dump":
            continue
        if job.find("--use-torch-fsdp2") or job.find("--tp-2d"):
            continue
        product = sizes["tp"] * sizes["pp"] * sizes["cp"]
        if product < 2 or world % product == 0:
            continue
        where = _at(
            job, "--pipeline-model-parallel-size", "--tensor-model-parallel-size", "--context-parallel-size",
            "--nproc_per_node", "--nnodes",
        )  # fmt: skip
        hits.append(
            hit(
                store,
                where,
                world=world,
                product=product,
                tp=sizes["tp"],
                pp=sizes["pp"],
                cp=sizes["cp"],
                stack=job.stack,
            )
        )
    return hits


def layer_splits(store: Store, params: Params) -> list[Hit]:
    """Layers that cannot be dealt out to pipeline stages evenly."""
    hits = []
    for job in judged(store):
        sizes, layers = sizes_of(job), job.number("--num-layers")
        setting = job.find("--num-layers")
        if sizes is None or not layers or setting is None or not setting.sure or job.source == "dump":
            continue
        stages = sizes["pp"]
        listed = job.find("--num-layer-list")
        if listed is not None:
            numbers = [int(part) for part in re.findall(r"\d+", listed.value)]
            if listed.known and numbers and (sum(numbers) != layers or len(numbers) != stages):
                hits.append(
                    hit(
                        store, [listed, setting, *_at(job, "--pipeline-model-parallel-size")], layers=layers, pp=stages,
                        en=f"--num-layer-list has {len(numbers)} entries with {sum(numbers)} layers",
                        zh=f"--num-layer-list 共 {len(numbers)} 项、{sum(numbers)} 层",
                    )
                )  # fmt: skip
            continue
        uneven = (
            "--noop-layers", "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers",
            "--pipeline-model-parallel-layout", "--pipeline-num-transformer-layers", "--mtp-num-layers",
            "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split", "--use-torch-fsdp2",
            "--schedules-method",
        )  # fmt: skip
        if any(job.find(option) for option in uneven):
            continue
        where = [setting, *_at(job, "--pipeline-model-parallel-size", "--num-layers-per-virtual-pipeline-stage")]
        chunk = job.number("--num-layers-per-virtual-pipeline-stage", 0)
        if layers % stages:
            hits.append(
                hit(
                    store, where, layers=layers, pp=stages, en=f"{layers} layers, {stages} pipeline stages",
                    zh=f"{layers} 层，{stages} 个流水线 stage",
                )
            )  # fmt: skip
        elif chunk and stages > 1 and layers // stages % chunk:
            hits.append(
                hit(
                    store, where, layers=layers, pp=stages,
                    en=f"{layers // stages} layers per stage, virtual stages of {chunk}",
                    zh=f"每个 stage {layers // stages} 层，虚拟 stage 每块 {chunk} 层",
                )
            )  # fmt: skip
    return hits


def head_splits(store: Store, params: Params) -> list[Hit]:
    """Attention heads that cannot be dealt out, and hidden sizes that heads do not divide."""
    hits = []
    for job in judged(store):
        sizes, heads = sizes_of(job), job.number("--num-attention-heads")
        setting = job.find("--num-attention-heads")
        if sizes is None or not heads or setting is None or not setting.sure or job.source == "dump":
            continue
        where = [setting, *_at(job, "--tensor-model-parallel-size", "--context-parallel-size", "--num-query-groups")]
        algorithm = job.find("--context-parallel-algo")
        hidden, groups = job.number("--hidden-size"), job.number("--num-query-groups")
        ulysses = sizes["cp"] > 1 and (algorithm.value if algorithm else "ulysses_cp_algo") == "ulysses_cp_algo"
        found: tuple[str, str] | None = None
        if heads % sizes["tp"]:
            found = (
                f"{heads} heads, tensor parallel size {sizes['tp']}",
                f"{heads} 个注意力头，张量并行度 {sizes['tp']}",
            )
        elif ulysses and algorithm is not None and heads % (sizes["tp"] * sizes["cp"]):
            both = sizes["tp"] * sizes["cp"]
            found = (
                f"{heads} heads, tensor times Ulysses size {both}",
                f"{heads} 个注意力头，张量并行与 Ulysses 乘积 {both}",
            )
        elif groups and job.find("--group-query-attention") and groups % sizes["tp"] and sizes["tp"] % groups:
            found = (
                f"{groups} query groups, tensor parallel size {sizes['tp']}",
                f"{groups} 个 query group，张量并行度 {sizes['tp']}",
            )
        elif hidden and hidden % heads and not job.find("--kv-channels") and not job.find("--multi-latent-attention"):
            found = f"hidden size {hidden}, {heads} heads", f"hidden size {hidden}，{heads} 个注意力头"
            where += _at(job, "--hidden-size")
        if found:
            hits.append(hit(store, where, heads=heads, en=found[0], zh=found[1]))
    return hits


def batch_sizes(store: Store, params: Params) -> list[Hit]:
    """Global batches that are no multiple of what the ranks take at once."""
    hits = []
    for job in judged(store):
        sizes, world = sizes_of(job), job.world
        total, each = job.number("--global-batch-size"), job.number("--micro-batch-size")
        where = _at(job, "--global-batch-size", "--micro-batch-size")
        if sizes is None or world is None or not total or not each or not all(s.sure for s in where):
            continue
        product = sizes["tp"] * sizes["pp"] * sizes["cp"]
        if world % product or job.source == "dump" or job.find("--rampup-batch-size"):
            continue
        share = world // product
        if total % (each * share):
            unit = each * share
            better = max(unit, (total + unit // 2) // unit * unit)
            hits.append(hit(store, where, total=total, each=each, dp=share, unit=unit, better=better))
    return hits


def expert_splits(store: Store, params: Params) -> list[Hit]:
    """Experts that cannot be dealt out over the expert parallel ranks."""
    hits = []
    for job in judged(store):
        sizes, experts = sizes_of(job), job.number("--num-experts")
        setting = job.find("--num-experts")
        if sizes is None or not experts or setting is None or not setting.sure or job.source == "dump":
            continue
        top = job.number("--moe-router-topk")
        where = [setting, *_at(job, "--expert-model-parallel-size", "--moe-router-topk")]
        if experts % sizes["ep"]:
            en, zh = (
                f"{experts} experts, expert parallel size {sizes['ep']}",
                f"{experts} 个专家，专家并行度 {sizes['ep']}",
            )
        elif top and top > experts:
            en, zh = f"{experts} experts, top {top} of them", f"{experts} 个专家，却选择 top {top}"
        else:
            continue
        hits.append(hit(store, where, experts=experts, en=en, zh=zh))
    return hits


def sequence_splits(store: Store, params: Params) -> list[Hit]:
    """Sequences that cannot be split, or are longer than the positions."""
    hits = []
    for job in judged(store):
        sizes, length = sizes_of(job), job.number("--seq-length")
        setting = job.find("--seq-length")
        if sizes is None or not length or setting is None or not setting.sure or job.source == "dump":
            continue
        positions = job.number("--max-position-embeddings", 0)
        algorithm = job.find("--context-parallel-algo")
        ring = sizes["cp"] > 1 and (algorithm is None or algorithm.value == "megatron_cp_algo")
        where = [
            setting,
            *_at(job, "--context-parallel-size", "--max-position-embeddings", "--tensor-model-parallel-size"),
        ]
        if positions and positions < length:
            en = f"sequences of {length} tokens, {positions} positions"
            zh = f"序列长度 {length}，位置编码仅 {positions}"
        elif ring and length % (2 * sizes["cp"]):
            en = f"sequences of {length} tokens, twice the context parallel size is {2 * sizes['cp']}"
            zh = f"序列长度 {length}，上下文并行度的两倍为 {2 * sizes['cp']}"
        elif sizes["cp"] > 1 and length % sizes["cp"]:
            en = f"sequences of {length} tokens, context parallel size {sizes['cp']}"
            zh = f"序列长度 {length}，上下文并行度 {sizes['cp']}"
        elif job.find("--sequence-parallel") and length % sizes["tp"] and not job.find("--variable-seq-lengths"):
            en = f"sequences of {length} tokens, tensor parallel size {sizes['tp']} with --sequence-parallel"
            zh = f"序列长度 {length}，启用 --sequence-parallel 的张量并行度 {sizes['tp']}"
        else:
            continue
        hits.append(hit(store, where, length=length, en=en, zh=zh))
    return hits


def learning_rates(store: Store, params: Params) -> list[Hit]:
    """Learning-rate schedules that end before they begin."""
    hits = []
    for job in judged(store):
        if job.source == "dump":
            continue
        high, low = job.find("--lr"), job.find("--min-lr")
        steps, warm = job.find("--train-iters"), job.find("--lr-warmup-iters")
        if high and low and high.number is not None and low.number is not None and low.number > high.number:
            hits.append(
                hit(
                    store, [low, high], en=f"--min-lr {low.value} is above --lr {high.value}",
                    zh=f"--min-lr {low.value} 大于 --lr {high.value}",
                )
            )  # fmt: skip
        elif steps and warm and steps.number and warm.number is not None and warm.number >= steps.number > 0:
            hits.append(
                hit(
                    store, [warm, steps], en=f"warm-up of {warm.value} steps, {steps.value} steps in all",
                    zh=f"预热 {warm.value} 步，而总步数为 {steps.value}",
                )
            )  # fmt: skip
    return hits
