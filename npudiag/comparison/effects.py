"""What settings are known to work on: which part of a step, and in which direction.

Only what their documentation and code state; how much they cost is measured, never taken from here.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from npudiag.comparison.model import Part, Setting

Target = Literal[Part, "memory", "loss", "workload"]


class Effect(NamedTuple):
    """One setting's effect on one target."""

    target: Target
    sign: int = 0
    """What turning it on, or raising it, does to the target: 1 more time, -1 less, 0 either."""
    parallel: str = ""
    """Kind of communication it works on."""


_COVERS = {"dp": (Effect("communication", -1, "dp"),), "tp": (Effect("communication", -1, "tp"),),
           "ep": (Effect("communication", -1, "ep"),), "pp": (Effect("pipeline", -1, "pp"),)}  # fmt: skip
_FUSES = (Effect("computing", -1), Effect("free", -1))
_HOST = (Effect("free", -1),)
_WORK = (Effect("workload"), Effect("computing", 1), Effect("memory", 1), Effect("loss"))

EFFECTS: dict[str, tuple[Effect, ...]] = {
    # Communication under computation
    "--overlap-grad-reduce": _COVERS["dp"],
    "--overlap-param-gather": _COVERS["dp"],
    "--use-ascend-coc": _COVERS["tp"],
    "--use-ascend-mc2": _COVERS["tp"],
    "--tp-comm-overlap": _COVERS["tp"],
    "--moe-alltoall-overlap-comm": _COVERS["ep"],
    "--moe-allgather-overlap-comm": _COVERS["ep"],
    "--moe-fb-overlap": _COVERS["ep"],
    "--no-overlap-p2p-communication": (Effect("pipeline", 1, "pp"),),
    "--num-layers-per-virtual-pipeline-stage": (Effect("pipeline"), Effect("communication", 0, "pp")),
    "--ddp-bucket-size": (Effect("communication", 0, "dp"),),
    "--use-distributed-optimizer": (Effect("communication", 0, "dp"), Effect("memory", -1)),
    # How the work is spread
    "--tensor-model-parallel-size": (Effect("communication", 1, "tp"), Effect("computing", -1), Effect("memory", -1)),
    "--pipeline-model-parallel-size": (Effect("pipeline", 1, "pp"), Effect("memory", -1)),
    "--context-parallel-size": (Effect("communication", 1, "cp"), Effect("computing", -1), Effect("memory", -1)),
    "--expert-model-parallel-size": (Effect("communication", 1, "ep"), Effect("memory", -1)),
    "--sequence-parallel": (Effect("communication", 0, "tp"), Effect("memory", -1)),
    # The work itself
    "--micro-batch-size": (Effect("computing"), Effect("memory", 1), Effect("pipeline")),
    "--global-batch-size": _WORK,
    "--seq-length": _WORK,
    "--num-layers": _WORK,
    "--hidden-size": _WORK,
    "--ffn-hidden-size": _WORK,
    "--num-experts": _WORK,
    "--moe-router-topk": _WORK,
    # Computing
    "--recompute-granularity": (Effect("computing", 1), Effect("memory", -1)),
    "--recompute-num-layers": (Effect("computing", 1), Effect("memory", -1)),
    "--recompute-method": (Effect("computing"), Effect("memory")),
    "--recompute-activation-function": (Effect("computing", 1), Effect("memory", -1)),
    "--use-flash-attn": (*_FUSES, Effect("memory", -1)),
    "--use-fused-rmsnorm": _FUSES,
    "--use-fused-swiglu": _FUSES,
    "--use-fused-rotary-pos-emb": _FUSES,
    "--moe-grouped-gemm": _FUSES,
    "--bf16": (Effect("computing", -1), Effect("loss")),
    "--fp16": (Effect("computing", -1), Effect("loss")),
    "--npu-deterministic": (Effect("computing", 1), Effect("communication", 1), Effect("loss")),
    "HCCL_DETERMINISTIC": (Effect("communication", 1), Effect("loss")),
    # Host
    "--num-workers": _HOST,
    "--manual-gc": _HOST,
    "--profile": (Effect("free", 1),),
    "TASK_QUEUE_ENABLE": _HOST,
    "CPU_AFFINITY_CONF": _HOST,
    "ACLNN_CACHE_LIMIT": _HOST,
    "ASCEND_LAUNCH_BLOCKING": (Effect("free", 1), Effect("communication", 1)),
    "ASCEND_GLOBAL_LOG_LEVEL": (Effect("free", -1),),
    "PYTORCH_NPU_ALLOC_CONF": (Effect("memory"), Effect("free")),
    # Network
    "HCCL_ALGO": (Effect("communication"),),
    "HCCL_BUFFSIZE": (Effect("communication"), Effect("memory", 1)),
    "HCCL_OP_EXPANSION_MODE": (Effect("communication"), Effect("free")),
    "HCCL_INTRA_ROCE_ENABLE": (Effect("communication", 1),),
    "HCCL_RDMA_TC": (Effect("communication"),),
    # Training
    "--lr": (Effect("loss"),),
    "--min-lr": (Effect("loss"),),
    "--lr-decay-style": (Effect("loss"),),
    "--lr-warmup-fraction": (Effect("loss"),),
    "--lr-warmup-iters": (Effect("loss"),),
    "--clip-grad": (Effect("loss"),),
    "--weight-decay": (Effect("loss"),),
    "--seed": (Effect("loss"),),
    "--init-method-std": (Effect("loss"),),
    "--adam-beta1": (Effect("loss"),),
    "--adam-beta2": (Effect("loss"),),
}
"""Effects by option or variable."""

_INCIDENTAL = re.compile(
    r"--(?:world-size|.*-file|master[-_]addr|master[-_]port|node[-_]rank|rank|local[-_]rank|rdzv.*|save|load|log[-_]dir|tensorboard-dir|"
    r"wandb-.*|data-path|data-cache-path|tokenizer-name-or-path|output.*dir|profile-save-path|exit-.*|train-iters|"
    r"save-interval|eval-interval|eval-iters|log-interval)\Z"
    r"|(?:MASTER_ADDR|MASTER_PORT|NODE_RANK|RANK|LOCAL_RANK|HCCL_IF_IP|HCCL_SOCKET_IFNAME|GLOO_SOCKET_IFNAME|"
    r"ASCEND_PROCESS_LOG_PATH|PWD|HOSTNAME|.*_(?:DIR|PATH|HOME))\Z"
)
"""Settings that differ from run to run and change nothing about a step."""


def of(name: str) -> tuple[Effect, ...]:
    """Return what a setting is known to work on."""
    return EFFECTS.get(name, ())


def overlaps(name: str) -> bool:
    """Whether a setting lets communication run under computation."""
    return of(name) in _COVERS.values()


def per_sample(name: str) -> bool:
    """Whether a setting changes what is computed for a sample, so that speeds cannot be compared."""
    return name != "--global-batch-size" and any(effect.target == "workload" for effect in of(name))


def incidental(name: str) -> bool:
    """Whether a setting says only where and for how long, not how."""
    return _INCIDENTAL.match(name) is not None


def direction(setting: Setting) -> int:
    """Return 1 where a setting was turned on or raised, -1 where turned off or lowered, 0 where neither can be said."""
    a, b = _strength(setting.a), _strength(setting.b)
    if a is None or b is None or a == b:
        return 0
    return 1 if b > a else -1


def _strength(value: str | None) -> float | None:
    if value is None or value.lower() in ("false", "off", "none"):
        return 0.0
    if value == "" or value.lower() in ("true", "on"):
        return 1.0
    try:
        return float(value)
    except ValueError:
        # A method or an algorithm is on, but not more or less so than another.
        return None


def expected(setting: Setting, target: Target) -> list[int]:
    """Return what a change of a setting does to a target, a sign for each effect; 0 where it may be either."""
    turned = direction(setting)
    if turned == 0 and (setting.a is None) != (setting.b is None):
        turned = 1 if setting.a is None else -1
    return [effect.sign * turned for effect in of(setting.name) if effect.target == target]
