"""Geometry of the charts; the template draws them as SVG next to their numbers as a table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from npudiag.report import figures
from npudiag.result import Coverage

WIDTH = 1000
LANE = 44
_PLOT_HEIGHT = 90
_MAX_SLOTS = 960
_MAX_ROWS = 60
_MAX_POINTS = 300
_MAX_CURVES = 4
_ERRORS = {"ERROR", "CRITICAL", "FATAL", "EXCEPTION", "SEVERE"}
_WARNINGS = {"WARNING", "WARN"}
_ORDER = ("step", "iteration", "iter", "time", "second", "minute", "epoch", "index")
FLAGS = ("anomaly", "outlier", "spike", "flagged", "mark")
"""Columns whose truth marks a row of a series."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of bars: ``errors``, ``warnings`` or ``others``."""

    name: str
    path: str
    """SVG path data: one upright stroke per bar."""
    peak: int
    total: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """Lines over time in three lanes, each on its own scale."""

    lanes: tuple[Lane, ...]
    marker: float | None
    """Where the root cause was first seen, 0 to `WIDTH`."""
    bar_width: float
    ticks: tuple[str, ...]
    levels: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int, ...]], ...]
    """The numbers: time, then one count per level."""
    row_minutes: int
    """Minutes that a row of the numbers sums up; more than a bar's where there are many bars."""
    to_scale: bool


def lane_of(level: str) -> str:
    """Return the lane a log level is drawn in."""
    name = level.upper()
    return "errors" if name in _ERRORS else "warnings" if name in _WARNINGS else "others"


def timeline(coverage: Coverage, root_seen: str | None) -> Timeline | None:
    """Lay out the log-level timeline; None where there are fewer than two minutes to draw."""
    buckets: list[tuple[datetime, dict[str, int]]] = []
    for bucket in coverage.timeline:
        start = figures.parse_time(bucket.minute)
        if start is not None:
            buckets.append((start, bucket.counts))
    if len(buckets) < 2:
        return None
    buckets.sort(key=lambda item: item[0])
    width = max(1, coverage.bucket_minutes) * 60
    origin = buckets[0][0]
    slots = int((buckets[-1][0] - origin).total_seconds() // width) + 1
    to_scale = slots <= _MAX_SLOTS
    if not to_scale:
        slots = len(buckets)
    at = [int((time - origin).total_seconds() // width) if to_scale else i for i, (time, _) in enumerate(buckets)]
    step = WIDTH / slots
    levels = sorted({level for _, counts in buckets for level in counts}, key=lambda level: (lane_of(level), level))
    lanes = []
    for index, name in enumerate(("errors", "warnings", "others")):
        heights = [sum(n for level, n in counts.items() if lane_of(level) == name) for _, counts in buckets]
        peak = max(heights)
        path = "".join(
            f"M{(slot + 0.5) * step:.4g} {(index + 1) * LANE}v-{max(height / peak * (LANE - 10), 1.5):.3g}"
            for slot, height in zip(at, heights, strict=True)
            if height > 0
        )
        lanes.append(Lane(name, path, peak, sum(heights)))
    middle = origin + (buckets[-1][0] - origin) / 2
    ticks = [origin, middle, buckets[-1][0]] if to_scale else [origin, buckets[-1][0]]
    together = -(-len(buckets) // _MAX_ROWS)
    pattern = "%H:%M" if origin.date() == buckets[-1][0].date() else "%m-%d %H:%M"
    return Timeline(
        lanes=tuple(lanes),
        marker=_marker(buckets, at, step, width, root_seen),
        bar_width=round(min(max(step * 0.8, 0.8), 24), 2),
        ticks=tuple(time.strftime(pattern) for time in ticks),
        levels=tuple(levels),
        rows=tuple(_rows(buckets, levels, together)),
        row_minutes=max(1, coverage.bucket_minutes) * together,
        to_scale=to_scale,
    )


def _rows(
    buckets: list[tuple[datetime, dict[str, int]]], levels: list[str], together: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Sum up `together` buckets at a time."""
    for at in range(0, len(buckets), together):
        group = buckets[at : at + together]
        sums = tuple(sum(counts.get(level, 0) for _, counts in group) for level in levels)
        yield group[0][0].strftime("%Y-%m-%d %H:%M"), sums


def _marker(
    buckets: list[tuple[datetime, dict[str, int]]], at: list[int], step: float, width: int, root_seen: str | None
) -> float | None:
    time = figures.parse_time(root_seen)
    if time is None:
        return None
    for (start, _), slot in zip(buckets, at, strict=True):
        if 0 <= (time - start).total_seconds() < width:
            return round((slot + 0.5) * step, 1)
    return None


@dataclass(frozen=True, slots=True)
class Curve:
    """One quantity over another."""

    name: str
    points: str
    """SVG polyline points."""
    marks: tuple[float, ...]
    """x of the rows that are marked as anomalous."""
    first: str
    last: str
    low: str
    high: str


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves over a common x axis, one small chart each."""

    x_name: str
    x_first: str
    x_last: str
    curves: tuple[Curve, ...]
    height: int = _PLOT_HEIGHT


def plot(rows: list[dict[str, Any]]) -> Plot | None:
    """Lay out rows as curves: an ordered column as x, up to four numeric ones as y; None where that makes no chart."""
    if len(rows) < 4:
        return None
    columns = [name for name in rows[0] if all(_is_number(row.get(name)) for row in rows)]
    x_name = next((name for name in _ORDER if name in columns), columns[0] if columns else None)
    if x_name is None:
        return None
    xs = [float(row[x_name]) for row in rows]
    if any(b <= a for a, b in itertools.pairwise(xs)):
        return None
    flagged = [i for i, row in enumerate(rows) if any(row.get(name) is True for name in FLAGS)]

    def x(index: int) -> float:
        return round((xs[index] - xs[0]) / (xs[-1] - xs[0]) * WIDTH, 1)

    curves = [
        _curve(name, [float(row[name]) for row in rows], x, flagged)
        for name in [name for name in columns if name != x_name][:_MAX_CURVES]
    ]
    if not curves:
        return None
    return Plot(x_name, f"{xs[0]:.10g}", f"{xs[-1]:.10g}", tuple(curves))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _curve(name: str, ys: list[float], x: Callable[[int], float], flagged: list[int]) -> Curve:
    low, high = min(ys), max(ys)
    room = _PLOT_HEIGHT - 8
    scale = room / (high - low) if high > low else 0.0
    points = " ".join(f"{x(i):g},{4 + room - (ys[i] - low) * scale:.1f}" for i in _thinned(ys))
    return Curve(
        name=name,
        points=points,
        marks=tuple(x(i) for i in flagged[:50]),
        first=figures.short_float(ys[0]),
        last=figures.short_float(ys[-1]),
        low=figures.short_float(low),
        high=figures.short_float(high),
    )


def _thinned(ys: list[float]) -> list[int]:
    """Return indexes to draw: of many points the lowest and the highest of each slice, so that no peak is lost."""
    if len(ys) <= _MAX_POINTS:
        return list(range(len(ys)))
    chosen = {0, len(ys) - 1}
    size = len(ys) / (_MAX_POINTS / 2)
    for part in range(_MAX_POINTS // 2):
        indexes = range(int(part * size), min(int((part + 1) * size), len(ys)))
        if indexes:
            chosen.add(min(indexes, key=ys.__getitem__))
            chosen.add(max(indexes, key=ys.__getitem__))
    return sorted(chosen)
