"""The step lines of MMEngine and of MMCV before it, which MMDetection, MMSegmentation and their kin print.

A norm that is NaN in the first lines is what the search for the loss scale of mixed precision leaves: lines are
averages, and one step that overflowed makes all of them NaN.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from npudiag.parsers.metrics.base import Extractor, Sample, Sink, number, worker_of
from npudiag.parsers.prefixes import Peeled

_NUMBER = r"(-?(?:[\d.]+(?:e[+-]?\d+)?|nan|inf))"
_EPOCH = re.compile(r"\bEpoch ?(?:\(train\))? *\[(\d+)\]\[ *(\d+)/ *(\d+)\]")
_ITER = re.compile(r"\bIter ?(?:\(train\))? *\[ *(\d+)/ *(\d+)\]")
_FIELDS = tuple(
    (re.compile(pattern + _NUMBER), name, factor)
    for pattern, name, factor in (
        (r"(?<![\w.])loss: *", "loss", 1.0),
        (r"(?<![\w.])grad_norm: *", "grad_norm", 1.0),
        (r"(?<![\w.])lr: *", "lr", 1.0),
        (r"(?<![\w.])time: *", "step_time_ms", 1000.0),
        (r"(?<![\w.])data_time: *", "data_ms", 1000.0),
        (r"(?<![\w.])memory: *", "memory_mb", 1.0),
    )
)
_SHORT = re.compile(r"(\d\d)/(\d\d) (\d\d:\d\d:\d\d) - ")


class MmEngine(Extractor):
    """``Epoch(train) [1][240/735] lr: .. eta: .. time: .. data_time: .. memory: .. grad_norm: .. loss: ..``."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "2026/01/02 03:04:05 - mmengine - INFO - Epoch(train)  [2][240/735]  lr: 2.0000e-04  eta: 1:02:03"
            "  time: 1.2345  data_time: 0.0123  memory: 20123  grad_norm: 12.5000  loss: 3.4567  loss_cls: 1.2",
            "train_steps",
            (
                {
                    "framework": "mmengine",
                    "step": 975,
                    "epoch": 2.0,
                    "lr": 2e-4,
                    "loss": 3.4567,
                    "grad_norm": 12.5,
                    "step_time_ms": 1234.5,
                    "data_ms": 12.3,
                    "memory_mb": 20123.0,
                    "time": 1767323045000000,
                },
            ),
        ),
        Sample(
            "01/02 03:04:05 - mmengine - INFO - Epoch(train)  [1][ 10/735]  base_lr: 2.0000e-04 lr: 1.0e-05  eta: 1"
            " day, 1:02:03  time: 1.5  data_time: 0.0123  memory: 20123  loss: 3.5  acc: 9",
            "train_steps",
            ({"step": 10, "lr": 1e-5, "loss": 3.5, "grad_norm": None},),
        ),
        Sample(
            "2026/01/02 03:05:05 - mmengine - INFO - Iter(train) [  100/80000]  lr: 9.9e-03  eta: 9:00:00  time: 0.5"
            "  data_time: 0.01  memory: 5000  loss: 2.5  decode.loss_ce: 1.2",
            "train_steps",
            ({"step": 100, "total_steps": 80000, "loss": 2.5, "step_time_ms": 500.0, "epoch": None},),
        ),
        Sample(
            "2026-01-02 03:04:05,123 - mmdet - INFO - Epoch [1][50/7330]\tlr: 1.978e-03, eta: 1 day, 2:03:04, time:"
            " 0.512, data_time: 0.050, memory: 3900, loss_rpn_cls: 0.5, loss: 3.2, grad_norm: 12.5",
            "train_steps",
            ({"step": 50, "loss": 3.2, "grad_norm": 12.5, "step_time_ms": 512.0},),
        ),
        Sample(
            "2026/01/02 03:05:05 - mmengine - INFO - Epoch(val)  [1][10/50]  eta: 0:00:10  time: 0.3  data_time: 0.1",
            "train_steps",
            (),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._per_epoch = 0

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Take one step; steps count within the epoch and are numbered through."""
        row: dict[str, Any]
        if match := _EPOCH.search(text):
            epoch, step, steps = map(int, match.groups())
            # The last line of an epoch may count fewer: the loader drops what fills no batch.
            self._per_epoch = max(self._per_epoch, steps)
            row = {"step": (epoch - 1) * self._per_epoch + step, "epoch": float(epoch)}
        elif match := _ITER.search(text):
            row = {"step": int(match[1]), "total_steps": int(match[2])}
        else:
            return False
        for pattern, name, factor in _FIELDS:
            found = pattern.search(text, match.end())
            value = number(found[1]) if found else None
            if value is not None:
                row[name] = value * factor
        if "loss" not in row:
            return False
        short = _SHORT.match(text)
        if short:
            time = self.sink.short_time(f"{short[1]}-{short[2]} {short[3]}")
        else:
            time = self.sink.time_of(text, peeled, number_)
        if time is not None:
            row["time"] = time
        if worker := worker_of(peeled):
            row["worker"] = worker
        self.sink.add_step({**row, "line": number_, "framework": "mmengine"})
        return True
