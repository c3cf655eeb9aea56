"""MindFormers' step lines and MindSpore's plain loss monitor."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from npudiag.parsers.metrics.base import Extractor, Sample, number
from npudiag.parsers.prefixes import Peeled

_PLACE = re.compile(r"Epoch:\[ *(\d+)/ *(\d+)\], step:\[ *(\d+)/ *(\d+)\]")
_VALUE = r"\[? *(-?(?:[\d.]+(?:e[+-]?\d+)?|nan|inf))"
_FIELDS = tuple(
    (re.compile(pattern), name, factor)
    for pattern, name, factor in (
        (r"[\], ]loss: *" + _VALUE, "loss", 1.0),
        (r"per_step_time: *" + _VALUE + " *ms", "step_time_ms", 1.0),
        (r"\blr: *" + _VALUE, "lr", 1.0),
        (r"loss_scale: *" + _VALUE, "loss_scale", 1.0),
        (r"global_norm:? *\[ *(-?(?:[\d.]+(?:e[+-]?\d+)?|nan|inf)) *\]", "grad_norm", 1.0),
        (r"global_norm: *(-?(?:[\d.]+(?:e[+-]?\d+)?|nan|inf))(?=[,} ]|$)", "grad_norm", 1.0),
        (r"train_throughput_per_npu: *" + _VALUE + "T", "tflops", 1.0),
    )
)
_OVERFLOW = re.compile(r"overflow cond: *(True|False)")
_LOSS_MONITOR = re.compile(
    r"\bepoch: ?\[ *(\d+)/ *(\d+)\], step: ?\[ *(\d+)/ *(\d+)\], loss: ?\[ *(-?[\w.+-]+)/[^\]]*\]"
    r"(?:, time: ?\[? *([\d.]+)(?: ms)?\]?)?(?:, lr: ?\[? *([\d.e+-]+))?"
)
_SCALE = re.compile(r"overflow, still update, loss scale adjust to ([\d.]+)")
_MONITOR = re.compile(r"\bepoch:? *(\d+),? step:? *(\d+),? loss is (-?(?:[\d.]+(?:e[+-]?\d+)?|nan|inf))")


class MindFormers(Extractor):
    """``{ Epoch:[..], step:[..], loss: .., per_step_time: ..ms, ..`` and ``epoch: 1 step: 2, loss is 3``."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "2026-04-07 15:34:30,941 - [mindformers/core/callback/callback.py:529] - INFO - { Epoch:[  2/  2], step:["
            "    3/   19], loss: 9.673, per_step_time: 1754ms, lr: 9.981987e-06, overflow cond: False, loss_scale:"
            " 1.0, global_norm: [10.579812], train_throughput_per_npu: 170.523T",
            "train_steps",
            (
                {
                    "step": 22,
                    "total_steps": 38,
                    "loss": 9.673,
                    "step_time_ms": 1754.0,
                    "lr": 9.981987e-06,
                    "loss_scale": 1.0,
                    "grad_norm": 10.579812,
                    "tflops": 170.523,
                    "skipped": 0,
                },
            ),
        ),
        Sample(
            "- INFO - { Epoch:[  1/  2], step:[    1/ 6500], loss: nan, per_step_time: 166756ms, lr: 0.0, overflow"
            " cond: True, loss_scale: 65536.0, global_norm: [nan]",
            "train_steps",
            ({"step": 1, "skipped": 1, "step_time_ms": 166756.0},),
        ),
        Sample(
            "epoch:[  1/ 10], step:[  100/ 1875], loss:[2.302/2.305], time:12.500 ms, lr:0.01000",
            "train_steps",
            ({"step": 1975, "total_steps": 18750, "loss": 2.302, "step_time_ms": 12.5, "lr": 0.01},),
        ),
        Sample(
            "2026-04-07 15:34:30,941 [WARNING] overflow, still update, loss scale adjust to 1024.0",
            "train_events",
            ({"kind": "overflow", "value": 1024.0},),
        ),
        Sample("epoch: 1 step: 20, loss is 2.3025", "train_steps", ({"epoch": 1.0, "step": 20, "loss": 2.3025},)),
    )

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Take one step; steps count within the epoch and are numbered through."""
        sink = self.sink
        row: dict[str, Any]
        if scale := _SCALE.search(text):
            sink.add_event("overflow", number_, value=float(scale[1]))
            return False
        if monitored := _LOSS_MONITOR.search(text):
            loss = number(monitored[5])
            # Epochs count from 0 here.
            epoch, epochs, step, steps = map(int, monitored.group(1, 2, 3, 4))
            row = {"step": epoch * steps + step, "total_steps": epochs * steps, "epoch": float(epoch)}
            row |= {} if loss is None else {"loss": loss}
            for group, name in ((6, "step_time_ms"), (7, "lr")):
                value = number(monitored[group])
                if value is not None:
                    row[name] = value
        elif match := _PLACE.search(text):
            epoch, epochs, step, steps = map(int, match.groups())
            row = {"step": (epoch - 1) * steps + step, "total_steps": epochs * steps, "epoch": float(epoch)}
            for pattern, name, factor in _FIELDS:
                found = pattern.search(text)
                value = number(found[1]) if found else None
                if value is not None:
                    row[name] = value * factor
            if overflow := _OVERFLOW.search(text):
                row["skipped"] = int(overflow[1] == "True")
        elif match := _MONITOR.search(text):
            loss = number(match[3])
            if loss is None:
                return False
            row = {"epoch": float(match[1]), "step": int(match[2]), "loss": loss}
        else:
            return False
        time = sink.time_of(text, peeled, number_)
        if time is not None:
            row["time"] = time
        sink.add_step({**row, "line": number_, "framework": "mindformers"})
        return False
