"""Readings of counters, summed up."""

from __future__ import annotations

from npudiag.parsers.profiler.raw import Raw

Found = dict[tuple[str, str, int | None], "Readings"]


class Readings:
    """Sums of one counter."""

    def __init__(self, line: int) -> None:
        self.line, self.samples, self.total = line, 0, 0.0
        self.low, self.high = float("inf"), float("-inf")

    def add(self, value: float) -> None:
        """Take a reading."""
        self.samples += 1
        self.total += value
        self.low = min(self.low, value)
        self.high = max(self.high, value)


def add_counters(raw: Raw, found: dict[tuple[str, str, int | None], Readings], rank: int | None = None) -> None:
    """Add rows of ``prof_counters``; counters are told by name, unit and device."""
    for (name, unit, device), readings in found.items():
        raw.add(
            "prof_counters",
            {
                "line": readings.line,
                "rank": rank,
                "device": device,
                "name": name,
                "unit": unit,
                "samples": readings.samples,
                "low": readings.low,
                "high": readings.high,
                "mean": readings.total / readings.samples,
            },
        )
