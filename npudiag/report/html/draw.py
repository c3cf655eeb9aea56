"""Geometry of the charts: lines, bars and grids as SVG paths and pictures that the template puts into place.

A picture is stretched to the width there is, so that paths are laid out in a space of `WIDTH` by `HEIGHT` units
and everything with text or a shape of its own is placed in per cent.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from npudiag.report import figures, readings
from npudiag.report.chart_texts import AXIS, Say
from npudiag.report.html.png import data_address, png
from npudiag.report.texts import Text
from npudiag.result import Chart, Curve, Panel

WIDTH = 1000
HEIGHT = 200
_TICKS = 5
_YEAR = 300 * 86400
_LONGEST = 3e9
"""Seconds of a century: no clock time is put to a longer axis."""
_MOST_MARKS = 60
_MOST_OUTLIERS = 8
_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_PART_CSS = {"computing": "b1", "communication": "b2", "bubble": "b3", "allocated": "b1"}
_ROW_PX = (5, 24)
_GRID_PX = 320
_GRID_ROWS = 320
_EMPTY = 255
"""Height of a grid, and least and most of a row."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A label on an axis."""

    at: str
    """Place in per cent."""
    text: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True)
class Line:
    """One curve or one part of the bars."""

    css: str
    name: Text
    path: str


@dataclass(frozen=True, slots=True)
class Dot:
    """A place that stands out; one without a value is a line from top to bottom."""

    x: str
    y: str | None


@dataclass(frozen=True, slots=True)
class PanelView:
    """A panel ready to be drawn."""

    name: Text
    unit: str
    lines: list[Line]
    legend: list[Line]
    others: int
    """Curves that have no entry of their own in the legend."""
    dots: list[Dot]
    y_ticks: list[Tick]
    rules: str
    """Path of the lines at the ticks."""
    limit: Tick | None
    limit_name: Text | None


@dataclass(frozen=True, slots=True)
class Picture:
    """A grid as a picture."""

    address: str
    width: int | None
    """Pixels on the screen; None for all there is."""
    height: int
    row_ticks: list[Tick]
    column_ticks: list[Tick]
    row_name: Text
    column_name: Text
    low: str
    high: str
    unit: Text
    flipped: bool
    """Whether low values are bright."""
    inside: int
    """Columns."""
    group: int
    """Rows in one row of the picture."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart ready to be drawn."""

    number: int
    """Index into the document's charts."""
    name: str
    kind: str
    panels: list[PanelView]
    x_ticks: list[Tick]
    x_name: Text
    picture: Picture | None
    low: float
    high: float
    """Ends of the x axis."""


def percent(part: float) -> str:
    """Return a part of one as per cent for SVG."""
    return f"{100 * part:.4g}%"


def polyline(points: Iterable[tuple[int, int] | None]) -> str:
    """Return a polyline as relative moves, which take half the space; None breaks it."""
    out: list[str] = []
    run: list[tuple[int, int]] = []
    last: tuple[int, int] | None = None

    def flush() -> None:
        text = "".join(f"{'' if dx < 0 else ' '}{dx}{'' if dy < 0 else ' '}{dy}" for dx, dy in run)
        out.append(f"l{text[1:] if text.startswith(' ') else text}" if text else "")
        run.clear()

    for point in points:
        if point is None or last is None:
            flush()
            if point is not None:
                # A lone point is a dot by the round ends of its line.
                out.append(f"M{point[0]} {point[1]}h0")
        elif point != last:
            dx, dy = point[0] - last[0], point[1] - last[1]
            if run and dy == 0 == run[-1][1] and (dx > 0) == (run[-1][0] > 0):
                run[-1] = (run[-1][0] + dx, 0)
            else:
                run.append((dx, dy))
        last = point
    flush()
    return "".join(out)


def nice(low: float, high: float, most: int = _TICKS) -> list[float]:
    """Return round numbers that span `low` to `high`."""
    if not high > low:
        pad = abs(low) * 0.05 or 1.0
        low, high = low - pad, high + pad
    rough = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def inner(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers within `low` to `high`."""
    return [value for value in nice(low, high, most) if low <= value <= high]


def time_ticks(start: datetime, seconds: float, most: int = 6) -> list[Tick]:
    """Return round clock times within `seconds` from `start`."""
    if not 0 < seconds < _LONGEST:
        return []
    step = next((s for s in _SECONDS if seconds / s <= most), math.ceil(seconds / most / 86400) * 86400)
    pattern = ("%Y-%m-%d" if seconds > _YEAR else "%m-%d") if step >= 86400 else "%H:%M" if step >= 60 else "%H:%M:%S"
    if 60 <= step < 86400 and seconds > 86400:
        pattern = "%m-%d %H:%M"
    day = start.replace(hour=0, minute=0, second=0, microsecond=0)
    offset = (start - day).total_seconds()
    at = math.ceil(offset / step) * step
    found: list[Tick] = []
    while at <= offset + seconds and len(found) <= 2 * most:
        part = (at - offset) / seconds
        found.append(Tick(percent(part), (day + timedelta(seconds=at)).strftime(pattern), _anchor(part)))
        at += step
    return found


def _anchor(part: float) -> str:
    return "start" if part < 0.03 else "end" if part > 0.97 else "middle"


def figure(number: int, chart: Chart, points: int = WIDTH) -> Figure | None:
    """Lay out a chart; None where its parts do not fit together.

    Args:
        number: Its place in the document.
        chart: The chart.
        points: About how many points a curve may have.
    """
    if not readings.usable(chart):
        return None
    if chart.kind == "grid":
        return Figure(number, chart.name, "grid", [], [], AXIS["step"], _picture(chart), 0.0, 0.0)
    if chart.kind == "bars":
        panels = [view for panel in chart.panels if (view := _bars(chart, panel)) is not None]
        return Figure(number, chart.name, "bars", panels, _bar_ticks(chart), AXIS[chart.x_name], None, 0.0, 0.0)
    low, high = min(chart.x), max(chart.x)
    panels = [view for panel in chart.panels if (view := _curves(chart, panel, low, high, points)) is not None]
    return Figure(number, chart.name, "curves", panels, _x_ticks(chart, low, high), AXIS[chart.x_name], None, low, high)


def _x_ticks(chart: Chart, low: float, high: float) -> list[Tick]:
    start = readings.starts_at(chart)
    if start is not None:
        try:
            return time_ticks(start + timedelta(seconds=low), high - low)
        except OverflowError:
            return []
    if high <= low:
        return [Tick("50%", figures.short_float(low))]
    return [
        Tick(percent((value - low) / (high - low)), figures.short_float(value), _anchor((value - low) / (high - low)))
        for value in inner(low, high)
    ]


def _range(panel: Panel) -> tuple[list[float], float, float] | None:
    """Return the ticks of a panel's axis and its ends."""
    values = [value for curve in panel.curves for value in curve.values if value is not None and math.isfinite(value)]
    if not values:
        return None
    low, high = min(values), max(values)
    if panel.unit == "%" and low >= 0 and high <= 100:
        return [0.0, 50.0, 100.0], 0.0, 100.0
    if (
        panel.limit is not None
        and math.isfinite(panel.limit)
        and (panel.limit_name == "capacity" or low <= panel.limit <= high)
    ):
        low, high = min(low, panel.limit), max(high, panel.limit)
    if panel.limit_name == "median" and panel.limit and math.isfinite(panel.limit):
        # Noise is not to look like a mountain range.
        low, high = min(low, 0.9 * panel.limit), max(high, 1.1 * panel.limit)
    if 0 <= low < 0.4 * high or panel.limit_name == "capacity":
        low = 0.0
    ticks = nice(low, high, 4)
    return ticks, ticks[0], ticks[-1]


def _y_ticks(ticks: Sequence[float], low: float, high: float) -> list[Tick]:
    return [Tick(percent(1 - (value - low) / (high - low)), figures.short_float(value)) for value in ticks]


def _rules(ticks: Sequence[float], low: float, high: float) -> str:
    return "".join(f"M0 {round((1 - (value - low) / (high - low)) * HEIGHT)}h{WIDTH}" for value in ticks)


def _curves(chart: Chart, panel: Panel, low_x: float, high_x: float, most: int) -> PanelView | None:
    found = _range(panel)
    if found is None:
        return None
    ticks, low, high = found
    span = (high_x - low_x) or 1.0

    def x(at: float) -> float:
        return (at - low_x) / span if high_x > low_x else 0.5

    def y(value: float) -> float:
        return 1 - (value - low) / (high - low)

    apart = readings.far(panel)
    lines: list[Line] = []
    dots: list[Dot] = []
    for index, curve in enumerate(panel.curves):
        css = f"c{index + 1}" if len(panel.curves) <= 2 else _shade(apart, index)
        points = [
            None if value is None or not math.isfinite(value) else (round(x(at) * WIDTH), round(y(value) * HEIGHT))
            for at, value in zip(chart.x, curve.values, strict=True)
        ]
        lines.append(Line(css, readings.quantity(curve.name), polyline(_thinned(_bridged(points), most))))
        for at in curve.marks[:_MOST_MARKS]:
            if 0 <= at < len(chart.x):
                value = curve.values[at]
                dots.append(Dot(percent(x(chart.x[at])), None if value is None else percent(y(value))))
    legend = [line for line in lines if line.css != "rest"] if len(lines) > 1 else []
    rest = [curve for curve, line in zip(panel.curves, lines, strict=True) if line.css == "rest"]
    if len(rest) > 2:
        # Many curves that lie together are one band.
        band = _band(chart.x, rest, x, y)
        lines = [Line("band", readings.quantity(""), band), *(line for line in lines if line.css != "rest")]
    # What stands out is drawn over the rest.
    lines.sort(key=lambda line: line.css not in ("rest", "band"))
    limit = None
    if panel.limit is not None and low <= panel.limit <= high:
        limit = Tick(percent(y(panel.limit)), figures.short_float(panel.limit))
    return PanelView(
        name=readings.quantity(panel.name),
        unit=panel.unit,
        lines=lines,
        legend=legend,
        others=len(panel.curves) - len(legend) if len(panel.curves) > 1 else 0,
        dots=dots,
        y_ticks=_y_ticks(ticks, low, high),
        rules=_rules(ticks, low, high),
        limit=limit,
        limit_name=readings.quantity(panel.limit_name) if panel.limit_name else None,
    )


def _band(
    places: Sequence[float], curves: Sequence[Curve], x: Callable[[float], float], y: Callable[[float], float]
) -> str:
    """Return the area between the lowest and the highest of several curves."""
    pieces = []
    upper: list[tuple[int, int]] = []
    lower: list[tuple[int, int]] = []

    def close() -> None:
        if upper:
            pieces.append(polyline([*upper, *reversed(lower)]) + "z")
            upper.clear()
            lower.clear()

    for i, at in enumerate(places):
        values = [value for curve in curves if (value := curve.values[i]) is not None and math.isfinite(value)]
        if not values:
            close()
            continue
        left = round(x(at) * WIDTH)
        top, bottom = round(y(max(values)) * HEIGHT), round(y(min(values)) * HEIGHT)
        # Never thinner than can be seen.
        spare = max(0, 3 - (bottom - top))
        upper.append((left, top - spare // 2))
        lower.append((left, bottom + spare - spare // 2))
    close()
    return "".join(pieces)


def _shade(apart: Sequence[int], index: int) -> str:
    """Return the class of one of many curves: those that lie apart have colours."""
    return f"c{apart.index(index) + 2}" if index in apart else "rest"


def _bridged(points: Sequence[tuple[int, int] | None]) -> list[tuple[int, int] | None]:
    """Draw over places that a thinned neighbour left empty; a gap of three places and more stays one."""
    out: list[tuple[int, int] | None] = []
    empty = 0
    for point in points:
        if point is None:
            empty += 1
            continue
        if empty > 2 and out:
            out.append(None)
        empty = 0
        out.append(point)
    return out


def _thinned(points: list[tuple[int, int] | None], most: int) -> list[tuple[int, int] | None]:
    """Leave the lowest and the highest point of each slice of a long curve."""
    if len(points) <= most:
        return points
    out: list[tuple[int, int] | None] = []
    size = 2 * len(points) / most
    for part in range(most // 2):
        there = [point for point in points[int(part * size) : int((part + 1) * size)] if point is not None]
        if there:
            out += sorted({min(there, key=lambda point: point[1]), max(there, key=lambda point: point[1])})
    return out


def _bars(chart: Chart, panel: Panel) -> PanelView | None:
    count = len(chart.x)
    sums = [sum(curve.values[i] or 0.0 for curve in panel.curves) for i in range(count)]
    if not sums or not max(sums) > 0 or not math.isfinite(max(sums)):
        return None
    ticks = nice(0.0, max(sums), 4)
    high = ticks[-1]
    step = WIDTH / count
    width = max(1, round(step * (0.72 if count <= 64 else 1.0)))
    below = [0.0] * count
    lines = []
    for curve in panel.curves:
        pieces = []
        for i in range(count):
            value = max(0.0, curve.values[i] or 0.0)
            bottom = round((1 - below[i] / high) * HEIGHT)
            below[i] += value
            top = round((1 - below[i] / high) * HEIGHT)
            if bottom > top:
                pieces.append(
                    f"M{round(i * step + (step - width) / 2)} {bottom}v{top - bottom}h{width}v{bottom - top}z"
                )
        lines.append(Line(_PART_CSS.get(curve.name, "b4"), readings.quantity(curve.name), "".join(pieces)))
    return PanelView(
        name=readings.quantity(panel.name),
        unit=panel.unit,
        lines=lines,
        legend=lines,
        others=0,
        dots=[Dot(percent((i + 0.5) / count), percent(1 - value / high)) for i, value in _outliers(panel)],
        y_ticks=_y_ticks(ticks, 0.0, high),
        rules=_rules(ticks, 0.0, high),
        limit=None,
        limit_name=None,
    )


def _outliers(panel: Panel) -> list[tuple[int, float]]:
    """Return place and value of the few bars whose first part stands out: among a thousand they are hair-thin."""
    values = [value for value in panel.curves[0].values if value is not None]
    middle = statistics.median(values) if values else 0.0
    found = [
        (i, value)
        for i, value in enumerate(panel.curves[0].values)
        if value is not None and value > (1 + readings.NOTABLE) * middle > 0
    ]
    return found if len(found) <= _MOST_OUTLIERS else []


def _bar_ticks(chart: Chart) -> list[Tick]:
    count = len(chart.x)
    together = max(1, -(-count // 16))
    return [Tick(percent((i + 0.5) / count), figures.short_float(chart.x[i])) for i in range(0, count, together)]


def _picture(chart: Chart) -> Picture | None:
    grid = chart.grid
    cells = readings.cells_of(grid) if grid is not None else None
    if grid is None or cells is None:
        return None
    height, width = len(grid.rows), len(grid.columns)
    square = chart.name == "links"
    flipped = square
    row = min(max(_GRID_PX // height, _ROW_PX[0]), _ROW_PX[1])
    tall = min(max(row * height, 96 if square else 0), _GRID_PX + 160 if height > 100 else _GRID_PX)
    unit, low, high = readings.both_same(grid.unit), figures.short_float(grid.low), figures.short_float(grid.high)
    if chart.name == "activity":
        unit, low, high = Say.per_minute, "0", figures.short_float(round(10 ** min(grid.high, 18) - 1))
    group = -(-height // _GRID_ROWS)
    return Picture(
        address=data_address(png(_grouped(cells, width, group, lowest=flipped), width, bright_low=flipped)),
        group=group,
        width=tall if square else None,
        height=tall,
        row_ticks=_cell_ticks([str(value) for value in grid.rows], max(2, tall // 18)),
        column_ticks=_cell_ticks(
            [readings.minute_text(chart, value) if chart.name == "activity" else str(value) for value in grid.columns],
            max(2, min(8, tall // 34)) if square else 8,
        ),
        row_name=AXIS.get(grid.row_name, readings.both_same(grid.row_name)),
        column_name=AXIS.get(grid.column_name, readings.both_same(grid.column_name)),
        low=low,
        high=high,
        unit=unit,
        flipped=flipped,
        inside=width,
    )


def _grouped(cells: bytes, width: int, group: int, *, lowest: bool) -> bytes:
    """Put rows together that a screen cannot show one by one; of each column the value that catches the eye stays."""
    if group == 1:
        return cells
    out = bytearray()
    for top in range(0, len(cells), group * width):
        rows = [cells[at : at + width] for at in range(top, min(top + group * width, len(cells)), width)]
        for column in zip(*rows, strict=True):
            there = [cell for cell in column if cell != _EMPTY]
            out.append((min(there) if lowest else max(there)) if there else _EMPTY)
    return bytes(out)


def _cell_ticks(names: Sequence[str], most: int) -> list[Tick]:
    together = max(1, -(-len(names) // most))
    return [Tick(percent((i + 0.5) / len(names)), names[i]) for i in range(0, len(names), together)]
