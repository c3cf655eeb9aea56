"""torchtitan's step lines."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from npudiag.parsers.metrics.base import Extractor, Sample, number
from npudiag.parsers.prefixes import Peeled

_NUMBER = r"(-?(?:[\d.,]+(?:e[+-]?\d+)?|nan|inf))"
_STEP = re.compile(r"\bstep: *(\d+) +loss: *" + _NUMBER)
_FIELDS = tuple(
    (re.compile(pattern), name, factor)
    for pattern, name, factor in (
        (r"grad_norm: *" + _NUMBER, "grad_norm", 1.0),
        (r"memory: *" + _NUMBER + "GiB", "memory_mb", 1024.0),
        (r"\btps: *" + _NUMBER, "tokens_per_s", 1.0),
        (r"tflops: *" + _NUMBER, "tflops", 1.0),
        (r"mfu: *" + _NUMBER + "%", "mfu", 1.0),
    )
)


class TorchTitan(Extractor):
    """``step:  1  loss:  8.04  grad_norm:  1.5  memory: 20.1GiB(31.40%)  tps: 3,120  tflops: 80.1  mfu: 25.6%``."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "[rank0]:[titan] 2026-05-01 10:00:00,120 - root - INFO - step: 10  loss:  4.58028  grad_norm:  1.5120"
            "  memory: 20.50GiB(31.40%)  tps: 3,120  tflops: 80.15  mfu: 25.69%",
            "train_steps",
            (
                {
                    "step": 10,
                    "loss": 4.58028,
                    "grad_norm": 1.512,
                    "memory_mb": 20.5 * 1024,
                    "tokens_per_s": 3120.0,
                    "tflops": 80.15,
                    "mfu": 25.69,
                },
            ),
        ),
        Sample(
            "[titan] 2026-05-01 10:00:01,120 - root - INFO - validate step: 10  loss:  4.5000  memory: 1.0GiB(1.0%)"
            "  tps: 900",
            "train_events",
            ({"kind": "validation", "step": 10, "value": 4.5},),
        ),
        Sample(
            "step: 20  loss:      nan  grad_norm:     nan  memory: 20.50GiB(31.40%)  tps: 3,120  tflops: 1,080.15",
            "train_steps",
            ({"step": 20, "tflops": 1080.15, "tokens_per_s": 3120.0},),
        ),
        Sample("step:  2  loss:  7.75  memory: 1.00GiB(2.00%)  tps: 90  mfu: N/A", "train_steps", ({"mfu": None},)),
    )

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Take one step."""
        match = _STEP.search(text)
        if match is None:
            return False
        if text[: match.start()].rstrip().endswith("validate"):
            value = number(match[2])
            if value is not None:
                self.sink.add_event("validation", number_, step=int(match[1]), name="loss", value=value)
            return False
        row: dict[str, Any] = {"step": int(match[1])}
        loss = number(match[2])
        if loss is not None:
            row["loss"] = loss
        for pattern, name, factor in _FIELDS:
            found = pattern.search(text, match.end())
            value = number(found[1]) if found else None
            if value is not None:
                row[name] = value * factor
        time = self.sink.time_of(text.removeprefix("[titan] "), peeled, number_)
        if time is not None:
            row["time"] = time
        self.sink.add_step({**row, "line": number_, "framework": "torchtitan"})
        return False
