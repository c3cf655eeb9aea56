"""Checks of training configurations that are no options: DeepSpeed's JSON, LLaMA-Factory's YAML, verl's keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from npudiag.advice.settings import Job, Setting
from npudiag.detectors.launch_hits import Params, found_jobs, hit
from npudiag.engine.hits import Hit

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_Found = tuple[list[Setting], dict[str, Any]] | None


def contradictions(store: Store, params: Params) -> list[Hit]:
    """Settings of a configuration that the framework refuses together."""
    checks: dict[str, tuple[Callable[[Job], _Found], ...]] = {
        "DeepSpeed": (_deepspeed_batches, _deepspeed_precision),
        "LLaMA-Factory": (_trainer_precision,),
        "verl": (_verl_batches, _verl_ranks, _verl_rollout),
    }
    hits = []
    for job in found_jobs(store):
        for check in checks.get(job.stack or "", ()):
            found = check(job)
            if found is not None and all(setting.known and setting.sure for setting in found[0]):
                hits.append(hit(store, found[0], **found[1]))
    return hits


def _on(setting: Setting | None) -> bool:
    return setting is not None and setting.value.strip("'\"").lower() == "true"


def _whole(job: Job, key: str) -> int | None:
    """Return a key as a whole number, None where it is not given or is none (``auto``)."""
    setting = job.find(key)
    value = setting.number if setting is not None else None
    return int(value) if value is not None and value == int(value) and value > 0 else None


def _deepspeed_batches(job: Job) -> _Found:
    keys = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    total, micro, steps = (_whole(job, key) for key in keys)
    if not total or not micro or not steps or total % (micro * steps) == 0:
        return None
    return [setting for key in keys if (setting := job.find(key))], {
        "en": f"train_batch_size {total} is no multiple of {micro} x {steps}",
        "zh": f"train_batch_size {total} 不是 {micro} x {steps} 的整数倍",
    }


def _deepspeed_precision(job: Job) -> _Found:
    half, brain = job.find("fp16.enabled"), job.find("bf16.enabled")
    if half is None or brain is None or not (_on(half) and _on(brain)):
        return None
    return [half, brain], {"en": "fp16 and bf16 are both enabled", "zh": "同时启用了 fp16 与 bf16"}


def _trainer_precision(job: Job) -> _Found:
    half, brain = job.find("fp16"), job.find("bf16")
    if half is None or brain is None or not (_on(half) and _on(brain)):
        return None
    return [half, brain], {"en": "fp16 and bf16 are both on", "zh": "同时打开了 fp16 与 bf16"}


def _verl_world(job: Job) -> int | None:
    each, nodes = _whole(job, "trainer.n_gpus_per_node"), job.find("trainer.nnodes")
    count = _whole(job, "trainer.nnodes") if nodes is not None else 1
    return each * count if each and count else None


def _verl_batches(job: Job) -> _Found:
    total, mini = _whole(job, "data.train_batch_size"), _whole(job, "actor_rollout_ref.actor.ppo_mini_batch_size")
    where = [
        setting for key in ("actor_rollout_ref.actor.ppo_mini_batch_size", "data.train_batch_size")
        if (setting := job.find(key))
    ]  # fmt: skip
    # Batches by tokens are put together in another way.
    if not total or not mini or mini <= total or _on(job.find("actor_rollout_ref.actor.use_dynamic_bsz")):
        return None
    return where, {
        "en": f"ppo_mini_batch_size {mini} is above train_batch_size {total}",
        "zh": f"ppo_mini_batch_size {mini} 大于 train_batch_size {total}",
    }


def _verl_ranks(job: Job) -> _Found:
    total, world = _whole(job, "data.train_batch_size"), _verl_world(job)
    answers = job.find("actor_rollout_ref.rollout.n")
    each = _whole(job, "actor_rollout_ref.rollout.n") if answers is not None else 1
    strategy = job.find("actor_rollout_ref.actor.strategy")
    megatron = strategy is not None and strategy.value.strip("'\"") == "megatron"
    # Megatron's data parallel ranks are fewer than its ranks.
    if not total or not world or not each or megatron or total * each % world == 0:
        return None
    keys = ("data.train_batch_size", "actor_rollout_ref.rollout.n", "trainer.n_gpus_per_node", "trainer.nnodes")
    return [setting for key in keys if (setting := job.find(key))], {
        "en": f"{total} prompts x {each} answers cannot be dealt out to {world} ranks",
        "zh": f"{total} 条 prompt x {each} 个回答无法平均分给 {world} 个 rank",
    }


def _verl_rollout(job: Job) -> _Found:
    size, world = _whole(job, "actor_rollout_ref.rollout.tensor_model_parallel_size"), _verl_world(job)
    if not size or not world or world % size == 0:
        return None
    keys = ("actor_rollout_ref.rollout.tensor_model_parallel_size", "trainer.n_gpus_per_node", "trainer.nnodes")
    return [setting for key in keys if (setting := job.find(key))], {
        "en": f"{world} ranks cannot be divided by a rollout tensor parallel size of {size}",
        "zh": f"{world} 个 rank 无法被 rollout 的张量并行度 {size} 整除",
    }
