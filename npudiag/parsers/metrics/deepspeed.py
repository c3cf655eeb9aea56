"""DeepSpeed's own lines: step, speed, overflow."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from npudiag.parsers.metrics.base import Extractor, Sample, Sink, number
from npudiag.parsers.prefixes import Peeled

_STEP = re.compile(r"\bstep=(\d+), skipped=(\d+), lr=\[([^\],]*)")
_SPEED = re.compile(r"global_step=(\d+), RunningAvgSamplesPerSec=([\d.]+), CurrSamplesPerSec=([\d.]+)")
_MEMORY = re.compile(r"MaxMemAllocated=([\d.]+)GB")
_OVERFLOW = re.compile(
    r"OVERFLOW! Rank (\d+) Skipping step\. Attempted loss scale: ([\d.e+-]+)(?:, reducing to ([\d.e+-]+))?"
)


class DeepSpeed(Extractor):
    """Lines of the engine and of its timer."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "[2026-05-25 06:30:55,343] [INFO] [logging.py:60:log_dist] [Rank 0] step=10, skipped=2, lr=[5e-05],"
            " mom=[[0.9, 0.999]]",
            "train_steps",
            ({"step": 10, "skipped": 2, "lr": 5e-05, "framework": "deepspeed"},),
        ),
        Sample(
            "[2026-05-25 06:30:56,343] [INFO] [timer.py:181:stop] epoch=0/micro_step=80/global_step=10,"
            " RunningAvgSamplesPerSec=12.5, CurrSamplesPerSec=12.75, MemAllocated=9.4GB, MaxMemAllocated=20.5GB",
            "train_steps",
            ({"step": 10, "samples_per_s": 12.75, "memory_mb": 20.5 * 1024},),
        ),
        Sample(
            "[2026-05-25 06:38:10,754] [INFO] [loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping"
            " step. Attempted loss scale: 2048, reducing to 1024",
            "train_events",
            ({"kind": "overflow", "rank": 0, "value": 2048.0},),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._skipped = 0

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Take a step, a speed or an overflow."""
        row: dict[str, Any] | None = None
        if match := _OVERFLOW.search(text):
            scale = number(match[2])
            if scale is not None:
                self.sink.add_event("overflow", number_, rank=int(match[1]), value=scale)
            return False
        if match := _STEP.search(text):
            skipped = int(match[2])
            row = {"step": int(match[1]), "skipped": max(0, skipped - self._skipped)}
            self._skipped = skipped
            lr = number(match[3])
            if lr is not None:
                row["lr"] = lr
        elif match := _SPEED.search(text):
            row = {"step": int(match[1]), "samples_per_s": float(match[3])}
            if memory := _MEMORY.search(text):
                row["memory_mb"] = float(memory[1]) * 1024.0
        if row is None:
            return False
        time = self.sink.time_of(text, peeled, number_)
        if time is not None:
            row["time"] = time
        self.sink.add_step({**row, "line": number_, "framework": "deepspeed"})
        return False
