"""What a chart asks and answers, and its numbers as a table."""

from __future__ import annotations

import base64
import binascii
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from npudiag.report import figures
from npudiag.report.chart_texts import AXIS, QUANTITY, QUESTION, Say
from npudiag.report.safe_text import visible
from npudiag.report.texts import LANGS, Text, say
from npudiag.result import Chart, Curve, Grid, Panel

NOTABLE = 0.05
"""Part by which one of several must differ from the middle to be named."""
_APART = 0.02
"""Part of the usual value by which a curve must lie off the others to be drawn in a colour."""
_FEW_LINKS = 4
"""Links from which on one of them can be called slow."""
_EMPTY = 255
_TOP = 254


@dataclass(frozen=True, slots=True)
class Twin:
    """The numbers of a chart: heads in both languages, then rows of texts."""

    heads: list[Text]
    rows: list[tuple[bool, list[str]]]
    """Whether the row stands out, and its cells."""
    more: int


def number(value: float) -> str:
    """Return a value with the digits that a chart can show."""
    return figures.short_float(float(f"{value:.6g}"))


def both_same(text: str) -> Text:
    """Return a name that is the same in both languages."""
    return Text(visible(text), visible(text))


def question(chart: Chart) -> Text:
    """Return what a chart answers."""
    asked = QUESTION.get(chart.name)
    if asked is None:
        return both_same(chart.name)
    about = f" ({visible(chart.about)})" if chart.about else ""
    return Text(asked.en + about, asked.zh + about)


def quantity(name: str) -> Text:
    """Return the name of a quantity or a part; ``loss 2`` is that of the second start."""
    if name in QUANTITY:
        return QUANTITY[name]
    base, _, number = name.rpartition(" ")
    if base in QUANTITY and number.isdigit():
        return Text(*(f"{say(QUANTITY[base], lang)}, {say(Say.start_n, lang, n=number)}" for lang in LANGS))
    return both_same(name)


def usable(chart: Chart) -> bool:
    """Whether a chart's parts fit together: a document from elsewhere may hold anything."""
    if chart.kind == "grid":
        return chart.grid is not None and cells_of(chart.grid) is not None
    lengths = {len(curve.values) for panel in chart.panels for curve in panel.curves}
    if not chart.x or lengths != {len(chart.x)} or not all(map(math.isfinite, chart.x)):
        return False
    return any(value is not None for panel in chart.panels for curve in panel.curves for value in curve.values)


def cells_of(grid: Grid) -> bytes | None:
    """Return the bytes of a grid, None where they are not as many as its rows and columns say."""
    try:
        cells = base64.b64decode(grid.cells, validate=True)
    except (binascii.Error, ValueError):
        return None
    return cells if cells and len(cells) == len(grid.rows) * len(grid.columns) else None


def value_of(grid: Grid, cell: int) -> float | None:
    """Return the value of a byte, None for an empty cell."""
    return None if cell == _EMPTY else grid.low + cell / _TOP * (grid.high - grid.low)


def place_text(chart: Chart, at: float) -> str:
    """Return a place on a chart's axis as text: a clock time or a number."""
    start = figures.parse_time(chart.start)
    if chart.x_name == "second" and start is not None:
        try:
            return (start + timedelta(seconds=at)).strftime("%H:%M:%S")
        except OverflowError:
            return figures.short_float(at)
    return figures.short_float(at)


def far(panel: Panel) -> list[int]:
    """Return the curves of a panel that lie apart from the others, the farthest first; at most three."""
    curves = panel.curves
    if len(curves) < 3:
        return []
    middle = [_median([c.values[i] for c in curves]) for i in range(len(curves[0].values))]
    level = statistics.median([abs(value) for value in middle if value is not None] or [0.0])
    away = [_distance(curve, middle) for curve in curves]
    usual = statistics.median(away)
    limit = max(4 * usual, _APART * level)
    apart = [i for i in range(len(curves)) if away[i] > limit > 0]
    return sorted(apart, key=lambda i: -away[i])[:3]


def _median(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return statistics.median(there) if there else None


def _distance(curve: Curve, middle: Sequence[float | None]) -> float:
    gaps = [abs(a - b) for a, b in zip(curve.values, middle, strict=True) if a is not None and b is not None]
    return sum(gaps) / len(gaps) if gaps else 0.0


# Answers


def answer(chart: Chart, lang: str) -> str:
    """Return what the numbers of a chart say, in a sentence or two; empty where there is nothing to say."""
    tell = _ANSWERS.get(chart.name)
    parts = list(tell(chart, lang)) if tell is not None else []
    return ("" if lang == "zh" else " ").join(parts)


def _points(chart: Chart, curve: Curve) -> list[tuple[float, float]]:
    return [(x, value) for x, value in zip(chart.x, curve.values, strict=True) if value is not None]


def _axis(chart: Chart, lang: str) -> str:
    return say(AXIS[chart.x_name], lang)


def _loss(chart: Chart, lang: str) -> Iterator[str]:
    points = sorted(point for curve in chart.panels[0].curves for point in _points(chart, curve))
    if points:
        at, low = min(points, key=lambda point: point[1])
        first, last = points[0][1], points[-1][1]
        yield say(
            Say.loss, lang, first=number(first), last=number(last), low=number(low), axis=_axis(chart, lang),
            at=place_text(chart, at),
        )  # fmt: skip
    marks = sum(len(curve.marks) for panel in chart.panels for curve in panel.curves)
    if marks:
        yield say(Say.marks, lang, n=marks)


def _pace(chart: Chart, lang: str) -> Iterator[str]:
    panel = chart.panels[0]
    points = [point for curve in panel.curves for point in _points(chart, curve)]
    if points and panel.limit:
        at, high = max(points, key=lambda point: point[1])
        if high < (1 + NOTABLE) * panel.limit:
            yield say(Say.even_pace, lang, median=number(panel.limit))
            return
        yield say(
            Say.pace, lang, median=number(panel.limit), high=number(high),
            times=f"{high / panel.limit:.2g}", axis=_axis(chart, lang), at=place_text(chart, at),
        )  # fmt: skip


def _breakdown(chart: Chart, lang: str) -> Iterator[str]:
    curves = chart.panels[0].curves
    sums = [sum(value or 0.0 for value in curve.values) for curve in curves]
    if sum(sums) <= 0:
        return
    shares = [
        say(Say.share, lang, pct=f"{100 * part / sum(sums):.0f}", name=say(quantity(curve.name), lang))
        for curve, part in zip(curves, sums, strict=True)
        if part >= 0.005 * sum(sums)
    ]
    yield say(Say.shares, lang, parts=("，" if lang == "zh" else ", ").join(shares))
    own = next((curve for curve in curves if curve.name == "computing"), None)
    points = _points(chart, own) if own is not None else []
    if len(points) < 2:
        return
    middle = statistics.median(value for _, value in points)
    rank, value = max(points, key=lambda point: point[1])
    if middle > 0 and value > (1 + NOTABLE) * middle:
        pct = f"{100 * (value / middle - 1):.0f}"
        yield say(Say.outlier, lang, rank=number(rank), value=number(value), pct=pct, median=number(middle))
    else:
        yield say(Say.even, lang)


def _skew(chart: Chart, lang: str) -> Iterator[str]:
    grid, cells = chart.grid, cells_of(chart.grid) if chart.grid else None
    if grid is None or cells is None:
        return
    width = len(grid.columns)
    rows = [
        (row, [v for cell in cells[i * width : (i + 1) * width] if (v := value_of(grid, cell)) is not None])
        for i, row in enumerate(grid.rows)
    ]
    medians = [(row, statistics.median(values)) for row, values in rows if values]
    if len(medians) < 2:
        return
    slowest, value = max(medians, key=lambda item: item[1])
    others = statistics.median(middle for row, middle in medians if row != slowest)
    if others > 0 and value > (1 + NOTABLE) * others:
        yield say(
            Say.slow_row,
            lang,
            row=str(slowest),
            value=number(value),
            median=number(others),
            unit=grid.unit,
        )
        return
    at = max(range(len(cells)), key=lambda i: cells[i] if cells[i] != _EMPTY else -1)
    peak = value_of(grid, cells[at]) or 0.0
    yield say(
        Say.highest, lang, value=number(peak), unit=grid.unit, row=str(grid.rows[at // width]),
        column=str(grid.columns[at % width]), median=number(others),
    )  # fmt: skip


def _ends(grid: Grid, cells: bytes) -> list[tuple[int, int, int]]:
    """Return row, first and last column with records."""
    width = len(grid.columns)
    found = []
    for i, row in enumerate(grid.rows):
        filled = [at for at in range(width) if cells[i * width + at] != _EMPTY]
        if filled:
            found.append((row, filled[0], filled[-1]))
    return found


def _activity(chart: Chart, lang: str) -> Iterator[str]:
    grid, cells = chart.grid, cells_of(chart.grid) if chart.grid else None
    if grid is None or cells is None:
        return
    ends = _ends(grid, cells)
    last = [grid.columns[end] for _, _, end in ends]
    early, late = min(last), statistics.median(last)
    silent = [row for row, _, end in ends if grid.columns[end] == early]
    if late - early >= 1 and len(silent) <= len(ends) // 2:
        yield say(Say.silent, lang, rows=figures.ranges(silent), time=minute_text(chart, early), n=int(late - early))
    elif late == early:
        yield say(Say.all_log, lang)


def minute_text(chart: Chart, minute: int) -> str:
    """Return a column of minutes as a clock time."""
    start = figures.parse_time(chart.start)
    try:
        return (start + timedelta(minutes=minute)).strftime("%H:%M") if start is not None else str(minute)
    except OverflowError:
        return str(minute)


def _links(chart: Chart, lang: str) -> Iterator[str]:
    links = link_values(chart)
    if len(links) < 2:
        return
    middle = statistics.median(value for _, _, value in links)
    src, dst, value = links[0]
    if len(links) < _FEW_LINKS:
        yield say(Say.few_links, lang, n=len(links), low=number(value), high=number(links[-1][2]))
    elif value < 0.8 * middle:
        yield say(
            Say.slow_link,
            lang,
            src=str(src),
            dst=str(dst),
            value=number(value),
            n=len(links),
            median=number(middle),
        )
    else:
        yield say(Say.even_links, lang, n=len(links), median=number(middle))


def link_values(chart: Chart) -> list[tuple[int, int, float]]:
    """Return sender, receiver and bandwidth of each link, the slowest first."""
    grid, cells = chart.grid, cells_of(chart.grid) if chart.grid else None
    if grid is None or cells is None:
        return []
    width = len(grid.columns)
    found = [
        (grid.rows[at // width], grid.columns[at % width], value)
        for at, cell in enumerate(cells)
        if (value := value_of(grid, cell)) is not None
    ]
    return sorted(found, key=lambda link: link[2])


def _extreme(chart: Chart, name: str, *, lowest: bool = False) -> tuple[float, str] | None:
    """Return the highest (or lowest) value of a panel and whose it is."""
    panel = next((panel for panel in chart.panels if panel.name == name), None)
    if panel is None:
        return None
    found = [(v, c.name) for c in panel.curves for v in c.values if v is not None and c.name != "median"]
    if not found:
        return None
    return min(found, key=lambda item: item[0]) if lowest else max(found, key=lambda item: item[0])


def _memory(chart: Chart, lang: str) -> Iterator[str]:
    panel = chart.panels[0]
    if chart.kind == "bars":
        sums = [sum(curve.values[i] or 0.0 for curve in panel.curves) for i in range(len(chart.x))]
        at = max(range(len(sums)), key=sums.__getitem__)
        peak, whose = sums[at], say(Say.rank, lang, name=figures.short_float(chart.x[at]))
    else:
        found = _extreme(chart, panel.name)
        if found is None:
            return
        peak, whose = found[0], say(Say.card, lang, name=visible(found[1]))
    if panel.limit and panel.unit != "%":
        pct = f"{100 * peak / panel.limit:.0f}"
        yield say(
            Say.peak_of, lang, value=number(peak), limit=number(panel.limit), unit=panel.unit, pct=pct, whose=whose
        )
    else:
        yield say(Say.peak, lang, value=number(peak), unit=visible(panel.unit), whose=whose)


def _npu(chart: Chart, lang: str) -> Iterator[str]:
    for panel in chart.panels:
        values = [value for curve in panel.curves for value in curve.values if value is not None]
        if not values:
            continue
        if panel.name == "util_pct":
            yield say(Say.mean_util, lang, value=f"{sum(values) / len(values):.0f}")
        elif panel.name == "clock_mhz":
            low, name = _extreme(chart, "clock_mhz", lowest=True) or (0.0, "")
            if low >= (1 - NOTABLE / 5) * max(values):
                yield say(Say.steady_clock, lang, value=number(low))
            else:
                yield say(Say.clock, lang, value=number(low), whose=say(Say.card, lang, name=visible(name)))
        elif panel.name == "temp_c":
            high, name = _extreme(chart, "temp_c") or (0.0, "")
            yield say(Say.heat, lang, value=number(high), whose=say(Say.card, lang, name=visible(name)))


def _serving(chart: Chart, lang: str) -> Iterator[str]:
    used, queue = _extreme(chart, "kv_usage_pct"), _extreme(chart, "waiting")
    if used is not None:
        yield say(Say.kv, lang, value=figures.short_float(used[0]))
    if queue is not None:
        yield say(Say.queue, lang, n=int(queue[0])) if queue[0] >= 1 else say(Say.no_queue, lang)


_ANSWERS: dict[str, Callable[[Chart, str], Iterator[str]]] = {
    "loss": _loss,
    "pace": _pace,
    "breakdown": _breakdown,
    "skew": _skew,
    "step_times": _skew,
    "activity": _activity,
    "links": _links,
    "memory": _memory,
    "memory_peaks": _memory,
    "npu": _npu,
    "serving": _serving,
}


# Tables


def twin(chart: Chart, most: int) -> Twin:
    """Return the numbers of a chart in at most `most` rows: what stands out first, the rest evenly spread."""
    if chart.kind == "grid":
        return _link_twin(chart, most) if chart.name == "links" else _grid_twin(chart, most)
    columns = [(panel, curve) for panel in chart.panels for curve in panel.curves][:10]
    heads = [AXIS[chart.x_name], *(_head(chart, panel, curve) for panel, curve in columns)]
    marked = {at for _, curve in columns for at in curve.marks if 0 <= at < len(chart.x)}
    chosen = _spread(len(chart.x), marked, most)
    rows = [
        (at in marked, [place_text(chart, chart.x[at]), *(_cell(curve.values[at]) for _, curve in columns)])
        for at in chosen
    ]
    return Twin(heads, rows, len(chart.x) - len(rows))


def _head(chart: Chart, panel: Panel, curve: Curve) -> Text:
    name, unit = quantity(curve.name), f" ({visible(panel.unit)})" if panel.unit else ""
    if len(chart.panels) > 1 and len(panel.curves) > 1:
        of = quantity(panel.name)
        return Text(f"{of.en} {name.en}{unit}", f"{of.zh} {name.zh}{unit}")
    return Text(name.en + unit, name.zh + unit)


def _cell(value: float | None) -> str:
    return "-" if value is None else figures.short_float(value)


def _spread(count: int, marked: set[int], most: int) -> list[int]:
    """Return the marked places and others evenly spread, `most` in all."""
    kept = set(sorted(marked)[:most])
    rest = [at for at in range(count) if at not in kept]
    room = most - len(kept)
    if len(rest) > room:
        rest = [rest[at * (len(rest) - 1) // max(room - 1, 1)] for at in range(room)]
    return sorted(kept | set(rest))


def _grid_twin(chart: Chart, most: int) -> Twin:
    grid, cells = chart.grid, cells_of(chart.grid) if chart.grid else None
    if grid is None or cells is None:
        return Twin([], [], 0)
    if chart.name == "activity":
        ends = sorted(_ends(grid, cells), key=lambda item: item[2])
        heads = [AXIS["rank"], Say.first_seen, Say.last_seen]
        early = ends[0][2] if ends and ends[0][2] < ends[-1][2] else -1
        timed = [
            (end == early, [str(row), minute_text(chart, grid.columns[first]), minute_text(chart, grid.columns[end])])
            for row, first, end in ends
        ]
        return Twin(heads, timed[:most], max(0, len(timed) - most))
    width = len(grid.columns)
    rows: list[tuple[float, list[str]]] = []
    for i, row in enumerate(grid.rows):
        values = {at: value for at in range(width) if (value := value_of(grid, cells[i * width + at])) is not None}
        if values:
            at = max(values, key=values.__getitem__)
            middle = statistics.median(values.values())
            numbers = (min(values.values()), middle, values[at])
            rows.append(
                (middle, [str(row), *(figures.short_float(round(v, 3)) for v in numbers), str(grid.columns[at])])
            )
    rows.sort(key=lambda item: -item[0])
    usual = statistics.median(middle for middle, _ in rows) if rows else 0.0
    unit = f" ({visible(grid.unit)})" if grid.unit else ""
    heads = [
        AXIS.get(grid.row_name, both_same(grid.row_name)),
        *(Text(head.en + unit, head.zh + unit) for head in (Say.lowest, Say.middle, Say.highest_column)),
        Text(
            f"{Say.where.en} ({say(AXIS.get(grid.column_name, both_same(grid.column_name)), 'en')})",
            f"{Say.where.zh}（{say(AXIS.get(grid.column_name, both_same(grid.column_name)), 'zh')}）",
        ),
    ]
    told = [(usual > 0 and middle > (1 + NOTABLE) * usual, texts) for middle, texts in rows]
    return Twin(heads, told[:most], max(0, len(told) - most))


def _link_twin(chart: Chart, most: int) -> Twin:
    links = link_values(chart)
    middle = statistics.median(value for _, _, value in links) if links else 0.0
    unit = chart.grid.unit if chart.grid else ""
    rows = [
        (value < 0.8 * middle, [str(src), str(dst), figures.short_float(round(value, 3))])
        for src, dst, value in links[:most]
    ]
    return Twin([AXIS["sender"], AXIS["receiver"], both_same(unit)], rows, max(0, len(links) - most))


def starts_at(chart: Chart) -> datetime | None:
    """Return the time at second 0 of a chart's axis."""
    return figures.parse_time(chart.start) if chart.x_name == "second" else None
