"""Geometry of the small plots of evidence; the template draws them as SVG next to their numbers as a table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from npudiag.report import figures
from npudiag.report.html.draw import polyline

WIDTH = 1000
_PLOT_HEIGHT = 90
_MAX_POINTS = 160
_MAX_CURVES = 4
_ORDER = ("step", "iteration", "iter", "time", "second", "minute", "epoch", "index")
FLAGS = ("anomaly", "outlier", "spike", "flagged", "mark")
"""Columns whose truth marks a row of a series."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One quantity over another."""

    name: str
    path: str
    """SVG path data."""
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
    points = [(round(x(i)), round(4 + room - (ys[i] - low) * scale)) for i in _thinned(ys)]
    return Curve(
        name=name,
        path=polyline(points),
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
