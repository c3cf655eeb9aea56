"""verl and MindSpeed-RL: one line of key and value pairs per step."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from npudiag.parsers.metrics.base import Extractor, Sample, number, worker_of
from npudiag.parsers.prefixes import Peeled

_HEAD = re.compile(r"\bstep:(\d+) - ")
_RL_HEAD = re.compile(r"\biteration: *(\d+) */ *(\d+) *\|")
_UNIT = re.compile(r"\((1e-?\d+)\)$")
_PARTS = (
    "gen", "reward", "old_log_prob", "ref", "values", "adv", "update_critic", "update_actor",
    "rollout", "update", "old_log_p", "reference_model", "rule_reward", "resharding_to_infer", "resharding_to_train",
)  # fmt: skip
"""Parts of a step in verl and in MindSpeed-RL, for lines that do not tell its whole time."""


def _row(pairs: dict[str, float]) -> dict[str, Any]:
    """Return the fields of a step; the policy loss of PPO says nothing by its value and is left out."""
    row: dict[str, Any] = {}
    for names, field, factor in (
        (("train/loss",), "loss", 1.0),
        (("actor/grad_norm", "train/grad_norm", "grad_norm"), "grad_norm", 1.0),
        (("actor/lr", "train/lr", "lr"), "lr", 1.0),
        (("timing_s/step", "perf/time_per_step", "timing/step", "timing/all"), "step_time_ms", 1000.0),
        (("timing_s/gen", "timing/gen", "timing/rollout"), "generate_ms", 1000.0),
        (("timing_s/update_actor", "timing/update_actor", "timing/update"), "update_ms", 1000.0),
        (("perf/throughput", "e2e_tps"), "tokens_per_s", 1.0),
        (("perf/mfu/actor",), "mfu", 100.0),
        (("perf/max_memory_reserved_gb",), "memory_mb", 1024.0),
        (("critic/score/mean", "critic/rewards/mean", "grpo/score/mean", "grpo/rewards/mean"), "reward", 1.0),
        (("actor/entropy", "actor/entropy_loss"), "entropy", 1.0),
        (("actor/ppo_kl",), "policy_kl", 1.0),
        (("response_length/clip_ratio",), "cut_pct", 100.0),
    ):
        for name in names:
            if name in pairs:
                row[field] = pairs[name] * factor
                break
    if "step_time_ms" not in row:
        spent = [pairs[key] for part in _PARTS for key in (f"timing/{part}", f"timing_s/{part}") if key in pairs]
        if len(spent) > 1:
            row["step_time_ms"] = sum(spent) * 1000.0
    return row


def _pairs(parts: list[str], colon: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in parts[:400]:
        key, _, text = part.rpartition(colon)
        value = number(text)
        if value is None or not key:
            continue
        key = key.strip()
        unit = _UNIT.search(key)
        if unit:
            key = key[: unit.start()]
            value *= float(unit[1])
        found[key] = value
    return found


class Verl(Extractor):
    """``step:12 - key:value - key:value``."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "(main_task pid=549) step:7 - timing/gen:18.5 - timing/ref:5.5 - timing/update_actor:6.0 -"
            " critic/grad_norm:950.052 - actor/pg_loss:-0.02 - actor/grad_norm:8.138 - actor/lr(1e-4):0.010",
            "train_steps",
            (
                {
                    "step": 7,
                    "grad_norm": 8.138,
                    "lr": 1e-06,
                    "step_time_ms": 30000.0,
                    "generate_ms": 18500.0,
                    "loss": None,
                },
            ),
        ),
        Sample(
            "(TaskRunner pid=16) step:2 - global_seqlen/min:538646.000 - actor/grad_norm:0.069 -"
            " perf/mfu/actor:0.318 - timing_s/gen:74.020 - timing_s/step:96.551 - actor/entropy:0.412 -"
            " actor/ppo_kl:0.002 - critic/score/mean:0.25 - response_length/clip_ratio:0.125",
            "train_steps",
            (
                {
                    "step": 2,
                    "step_time_ms": 96551.0,
                    "mfu": 31.8,
                    "reward": 0.25,
                    "entropy": 0.412,
                    "policy_kl": 0.002,
                    "cut_pct": 12.5,
                },
            ),
        ),
        Sample(
            "(TaskRunner pid=16) step:3 - actor/grad_norm:np.float64(0.5) - actor/pg_loss:nan - perf/time_per_step:90.5"
            " - perf/max_memory_reserved_gb:52.5 - timing_s/gen:70.0 - timing_s/update_actor:12.0",
            "train_steps",
            (
                {
                    "step": 3,
                    "grad_norm": 0.5,
                    "step_time_ms": 90500.0,
                    "generate_ms": 70000.0,
                    "update_ms": 12000.0,
                    "memory_mb": 52.5 * 1024,
                    "loss": None,
                },
            ),
        ),
        Sample(
            "step:40 - val/loss:0.5 - train/grad_norm:1.25",
            "train_events",
            ({"kind": "validation", "step": 40, "value": 0.5},),
        ),
        Sample("step:1 - train/loss:0.031 - train/lr(1e-3):0.004", "train_steps", ({"loss": 0.031, "lr": 4e-06},)),
    )

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Take one step."""
        match = _HEAD.search(text)
        if match is None:
            return False
        pairs = _pairs(text[match.end() :].split(" - "), ":")
        validated = pairs.get("val/loss")
        if validated is not None:
            self.sink.add_event("validation", number_, step=int(match[1]), name="val/loss", value=validated)
        row = _row(pairs)
        if not row:
            return False
        row |= {"line": number_, "framework": "verl", "step": int(match[1])}
        if worker := worker_of(peeled):
            row["worker"] = worker
        self.sink.add_step(row)
        return False


class MindSpeedRl(Extractor):
    """``iteration: 3 / 100 | key : value | key : value``."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "2026-06-01 10:00:00,123 - INFO - iteration: 3 / 100 | timing/update : 12.5000 | timing/rollout : 40.0000 |"
            " timing/all : 60.0000 | e2e_tps : 512.0000 | actor/grad_norm : 0.1234 | lr : 1.000000e-06 |",
            "train_steps",
            (
                {
                    "step": 3,
                    "total_steps": 100,
                    "step_time_ms": 60000.0,
                    "generate_ms": 40000.0,
                    "grad_norm": 0.1234,
                    "lr": 1e-06,
                },
            ),
        ),
        Sample(
            "(RayGRPOTrainer pid=99) 2026-06-01 10:00:00,123 - INFO - iteration: 4 / 100 | grpo/score/mean : 0.5000 |"
            " actor/grad_norm : nan | lr : 1.000000e-06 | timing/rollout : 40.0000 | timing/update : 10.0000 |",
            "train_steps",
            ({"step": 4, "step_time_ms": 50000.0, "time": 1780308000123000},),
        ),
    )

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Take one step; a line without the whole time has that of its parts."""
        match = _RL_HEAD.search(text)
        if match is None:
            return False
        row = _row(_pairs(text[match.end() :].split("|"), " :"))
        if not row:
            return False
        time = self.sink.time_of(text, peeled, number_)
        if time is not None:
            row["time"] = time
        place = {"step": int(match[1]), "total_steps": int(match[2])}
        self.sink.add_step({**row, **place, "line": number_, "framework": "mindspeed-rl"})
        return False
