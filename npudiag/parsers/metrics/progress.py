"""Progress bars of training loops, as tqdm draws them: where a step stands in the run, and how long it took."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

from npudiag.parsers.bars import PERCENT, TRAINING, UNITS
from npudiag.parsers.metrics.base import Extractor, Key, Sample, Sink, worker_of
from npudiag.parsers.prefixes import Peeled

_BAR = re.compile(
    rf" *(?:{TRAINING}[ :]*)?{PERCENT}(?P<step>\d+)/(?P<total>\d+)"
    r" \[(?P<spent>[\d:]+)<(?P<left>[\d:?]+), *(?P<rate>[\d.]+|\?) ?"
    rf"(?P<unit>s/(?:{'|'.join(UNITS)})|(?:{'|'.join(UNITS)})/s)(?P<rest>[^\]]*)\]"
)
_POSTFIX_LOSS = re.compile(r"\b(?:step_|(?:reduced_)?train_)?loss=(-?[\d.]+(?:e-?\d+)?|nan|inf)")
_LEAST_MS = 5.0
"""A loop that is quicker trains nothing; it reads or converts data."""
_PROCESSES = 512
_MOST_BARS = 250_000
"""Rows that the bars of one loop give at most; those of a longer loop are thinned evenly."""


def _bar_ms(text: str) -> float:
    """Return the time of a bar, ``08:13`` or ``28:44:51``, in ms."""
    seconds = 0
    for part in text.split(":"):
        seconds = seconds * 60 + int(part)
    return seconds * 1000.0


class _Smoothed:
    """Gets the time of each step back from what tqdm prints.

    It prints the quotient of two moving averages, of the time and of the steps from one bar to the next, both with a
    weight of 0.3 (``tqdm.std.EMA``): ``S(n) = 0.3 x(n) + 0.7 S(n-1)``, so ``x(n) = (S(n) - 0.7 S(n-1)) / 0.3``. A stall
    of one step is there an ascent and a slow decline. The result is taken where the bar's own clock, which has whole
    seconds, confirms it; below three seconds it cannot, and the printed time stands.
    """

    _WEIGHT = 0.3
    _CLOCK_MS = 1000.0
    _LEAST_MS = 3000.0

    def __init__(self) -> None:
        self._at: tuple[int, float] | None = None
        self._steps: float | None = None
        self._time = 0.0

    def begin(self, step: int, spent_ms: float) -> None:
        """Note that a bar was drawn for the first time."""
        self._at = step, spent_ms
        self._steps = self._time = 0.0

    def take(self, step: int, spent_ms: float, told_ms: float) -> float:
        """Return the time per step in ms since the bar before, as told where that cannot be worked out."""
        before, self._at = self._at, (step, spent_ms)
        if before is None or step <= before[0] or spent_ms < before[1]:
            self._steps = None
            return told_ms
        ahead = step - before[0]
        keep = 1.0 - self._WEIGHT
        if self._steps is None:
            # Somewhere in the middle: the averages are taken to be those of steps like these.
            self._steps, self._time = float(ahead), told_ms * ahead
            return told_ms
        steps = self._WEIGHT * ahead + keep * self._steps
        time = told_ms * steps
        took = (time - keep * self._time) / self._WEIGHT
        self._steps, self._time = steps, time
        passed = spent_ms - before[1]
        if passed < self._LEAST_MS:
            return told_ms
        if abs(took - passed) > self._CLOCK_MS + 0.01 * passed:
            self._steps = None
            return told_ms
        return took / ahead


@dataclass(slots=True)
class _Loop:
    """The training loop of one process.

    Attributes:
        first_epoch: Number of the first epoch seen, where each epoch has a bar of its own.
        last: Step and total of the last bar.
        kept: Step of the last row.
        smoothed: Gets step times back.
    """

    first_epoch: int | None = None
    last: tuple[int, int] = (-1, -1)
    kept: int | None = None
    smoothed: _Smoothed = field(default_factory=_Smoothed)

    def of_all(self, match: re.Match[str], step: int, total: int) -> tuple[int, int]:
        """Return step and total counted through all epochs."""
        epoch = int(match["epoch"])
        if self.first_epoch is None or epoch < self.first_epoch:
            self.first_epoch = epoch
        done = epoch - self.first_epoch
        return done * total + step, max(int(match["epochs"] or 0), done + 1) * total


class ProgressBars(Extractor):
    """The bar of the training loop: steps and time, no label or one that says so."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "  0%|          | 57/13080 [08:13<28:44:51,  7.95s/it]",
            "train_steps",
            ({"step": 57, "total_steps": 13080, "step_time_ms": 7950.0, "framework": "tqdm"},),
        ),
        Sample(
            " 40%|####      | 400/1000 [03:20<05:00,  2.00it/s, loss=1.75]",
            "train_steps",
            ({"step": 400, "step_time_ms": 500.0, "loss": 1.75},),
        ),
        Sample(
            "Training Progress:   2%|#         | 2/105 [01:28<1:11:20, 41.50s/it]\n"
            "Loading checkpoint shards: 100%|####| 80/80 [00:10<00:00,  1.30s/it]",
            "train_steps",
            ({"step": 2, "total_steps": 105, "step_time_ms": 41500.0},),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._loops: dict[Key, _Loop] = {}

    def read(self, number: int, text: str, peeled: Peeled) -> bool:
        """Take a bar that moved on; the evaluation's bars are told apart by their smaller total."""
        match = _BAR.match(text)
        if match is None:
            return False
        key: Key = (peeled.worker, peeled.rank, peeled.pid)
        loop = self._loops.get(key)
        if loop is None:
            if len(self._loops) >= _PROCESSES:
                self._loops.clear()
            loop = self._loops[key] = _Loop()
        row = self._row(match, loop)
        if row is not None:
            row["line"] = number
            if worker := worker_of(peeled):
                row["worker"] = worker
            self.sink.add_step(row)
        return match.end() == len(text)

    def _row(self, match: re.Match[str], loop: _Loop) -> dict[str, Any] | None:
        """Return the fields that a bar tells, None where it is another loop's or did not move on."""
        place: dict[str, tuple[int, int, float | None]] = self.sink.bars
        held = place.get("train")
        at, of = int(match["step"]), int(match["total"])
        step, total = loop.of_all(match, at, of) if match["epoch"] else (at, of)
        if of < 8 or (step, total) == loop.last or (held is not None and total < held[1]):
            return None
        rate = float(match["rate"]) if match["rate"] != "?" else 0.0
        spent = _bar_ms(match["spent"])
        if at == 0 or rate <= 0:
            loop.smoothed.begin(at, spent)
            return None
        told = rate * 1000.0 if match["unit"].startswith("s/") else 1000.0 / rate
        if told < _LEAST_MS:
            return None
        loop.last = (step, total)
        place["train"] = (step, total, spent)
        took = loop.smoothed.take(at, spent, told)
        if loop.kept is not None and 0 <= step - loop.kept < -(-total // _MOST_BARS):
            return None
        loop.kept = step
        row: dict[str, Any] = {"framework": "tqdm", "step": step, "total_steps": total, "step_time_ms": took}
        if match["epoch"]:
            row["epoch"] = float(match["epoch"])
        loss = _POSTFIX_LOSS.search(match["rest"])
        if loss:
            row["loss"] = float(loss[1])
        return row
