"""The job over time: phases, events, findings, time per step and log lines by level, all on one axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from npudiag.report import figures
from npudiag.report.chart_texts import HAPPENING, PHASE
from npudiag.report.html.draw import HEIGHT, WIDTH, Tick, percent, polyline, time_ticks
from npudiag.report.readings import both_same
from npudiag.report.texts import Text
from npudiag.result import Chart, Coverage, Finding, Severity

_MAX_SLOTS = 960
_MAX_ROWS = 60
_MAX_FINDINGS = 60
_NARROW = 0.07
_ERRORS = {"ERROR", "CRITICAL", "FATAL", "EXCEPTION", "SEVERE"}
_WARNINGS = {"WARNING", "WARN"}


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of bars: ``errors``, ``warnings`` or ``others``."""

    name: str
    path: str
    """SVG path data: one upright stroke per bar, in `WIDTH` by `HEIGHT`."""
    peak: int
    total: int


@dataclass(frozen=True, slots=True)
class Block:
    """A phase of the job."""

    css: str
    name: Text
    x: str
    width: str
    labelled: bool
    """Whether its name fits."""


@dataclass(frozen=True, slots=True)
class Sign:
    """An event or a finding on the axis."""

    css: str
    at: str
    text: Text
    anchor: str
    """Id of the element it leads to, empty for none."""


T = TypeVar("T", Block, Sign)


@dataclass(frozen=True, slots=True)
class Pace:
    """Time per step."""

    path: str
    high: str
    median: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """All lanes."""

    lanes: tuple[Lane, ...]
    blocks: tuple[Block, ...]
    signs: tuple[Sign, ...]
    findings: tuple[Sign, ...]
    pace: Pace | None
    marker: float | None
    """Where the root cause was first seen, 0 to 100."""
    bar_width: float
    ticks: tuple[Tick, ...]
    levels: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int, ...]], ...]
    """The numbers: time, then one count per level."""
    row_minutes: int
    """Minutes that a row of the numbers sums up; more than a bar's where there are many bars."""
    bucket_minutes: int
    to_scale: bool
    start: str
    """Time at the left edge."""
    seconds: float
    """Length of the axis; 0 where it is not to scale."""


def lane_of(level: str) -> str:
    """Return the lane a log level is drawn in."""
    name = level.upper()
    return "errors" if name in _ERRORS else "warnings" if name in _WARNINGS else "others"


@dataclass(frozen=True, slots=True)
class _Axis:
    first: datetime
    seconds: float

    def part(self, time: datetime | None) -> float | None:
        """Return the place of a time, 0 to 1; None outside."""
        if time is None:
            return None
        part = (time - self.first).total_seconds() / self.seconds
        return part if 0 <= part <= 1 else None


def timeline(
    coverage: Coverage, root_seen: str | None, *, job: Chart | None = None, found: Sequence[tuple[str, Finding]] = ()
) -> Timeline | None:
    """Lay out the job over time; None where there is nothing to draw.

    Args:
        coverage: Holds the lines by level.
        root_seen: When the root cause was first seen.
        job: Chart ``job``, where there is one.
        found: Findings to mark, with the id of their element.
    """
    buckets = _buckets(coverage)
    begin = figures.parse_time(job.start) if job is not None else None
    if begin is None:
        job = None
    if len(buckets) < 2 and job is None:
        return None
    minutes = max(1, coverage.bucket_minutes)
    width = timedelta(minutes=minutes)
    axis, to_scale = _axis(buckets, width, job, begin)
    count = len(buckets)
    places = [axis.part(time + width / 2) if to_scale else (i + 0.5) / count for i, (time, _) in enumerate(buckets)]
    slot = width.total_seconds() / axis.seconds if to_scale else 1 / max(count, 1)
    together = max(1, -(-count // _MAX_ROWS))
    levels = sorted({level for _, counts in buckets for level in counts}, key=lambda level: (lane_of(level), level))
    return Timeline(
        lanes=tuple(_lanes(buckets, places)) if buckets else (),
        blocks=tuple(_blocks(axis, job, begin)) if to_scale else (),
        signs=tuple(_signs(axis, job, begin)) if to_scale else (),
        findings=tuple(_found(axis, found)) if to_scale else (),
        pace=_pace(axis, job, begin) if to_scale else None,
        marker=_marker(axis, buckets, places, width, root_seen, to_scale=to_scale),
        bar_width=round(min(max(slot * WIDTH * 0.8, 1), 30), 1),
        ticks=tuple(time_ticks(axis.first, axis.seconds) if to_scale else _ends(axis)),
        levels=tuple(levels),
        rows=tuple(_rows(buckets, levels, together)),
        row_minutes=minutes * together,
        bucket_minutes=minutes,
        to_scale=to_scale,
        start=axis.first.isoformat(timespec="seconds"),
        seconds=round(axis.seconds, 1) if to_scale else 0.0,
    )


def _ends(axis: _Axis) -> list[Tick]:
    last = axis.first + timedelta(seconds=axis.seconds)
    return [Tick("0%", f"{axis.first:%Y-%m-%d %H:%M}", "start"), Tick("100%", f"{last:%Y-%m-%d %H:%M}", "end")]


def _buckets(coverage: Coverage) -> list[tuple[datetime, dict[str, int]]]:
    found = []
    for bucket in coverage.timeline:
        start = figures.parse_time(bucket.minute)
        if start is not None:
            found.append((start, bucket.counts))
    return sorted(found, key=lambda item: item[0])


def _axis(
    buckets: Sequence[tuple[datetime, dict[str, int]]], width: timedelta, job: Chart | None, begin: datetime | None
) -> tuple[_Axis, bool]:
    """Return the axis, and whether it is to scale: long gaps between few bars are left out."""
    ends: list[datetime] = []
    if buckets:
        ends += [buckets[0][0], buckets[-1][0] + width]
    slots = (ends[1] - ends[0]) / width if buckets else 0
    if slots > _MAX_SLOTS:
        return _Axis(ends[0], (ends[1] - ends[0]).total_seconds()), False
    if job is not None and begin is not None:
        seconds = [*job.x, *(phase.last for phase in job.phases), 0.0]
        ends += [begin, _later(begin, max(seconds)) or begin]
    span = (max(ends) - min(ends)).total_seconds()
    if span > _MAX_SLOTS * width.total_seconds() and buckets:
        # The job's clock lies far from that of the other logs.
        return _Axis(ends[0], (ends[1] - ends[0]).total_seconds()), True
    return _Axis(min(ends), max(span, 1.0)), True


def _lanes(buckets: Sequence[tuple[datetime, dict[str, int]]], places: Sequence[float | None]) -> Iterator[Lane]:
    for name in ("errors", "warnings", "others"):
        heights = [sum(n for level, n in counts.items() if lane_of(level) == name) for _, counts in buckets]
        peak = max(heights)
        strokes = "".join(
            f"M{round(at * WIDTH)} {HEIGHT}v-{max(round(height / peak * HEIGHT), 7)}"
            for at, height in zip(places, heights, strict=True)
            if height > 0 and at is not None
        )
        yield Lane(name, strokes, peak, sum(heights))


def _blocks(axis: _Axis, job: Chart | None, begin: datetime | None) -> Iterator[Block]:
    if job is None or begin is None:
        return
    for phase in job.phases[:80]:
        low = axis.part(_later(begin, phase.first))
        high = axis.part(_later(begin, phase.last))
        if low is not None and high is not None and high > low:
            yield Block(phase.name, PHASE[phase.name], percent(low), percent(high - low), high - low > _NARROW)


def _later(begin: datetime, seconds: float) -> datetime | None:
    """Return a time that many seconds later, None where the calendar ends before."""
    try:
        return begin + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return None


def _signs(axis: _Axis, job: Chart | None, begin: datetime | None) -> Iterator[Sign]:
    if job is None or begin is None:
        return
    for item in job.happenings[:200]:
        at = axis.part(_later(begin, item.at))
        if at is not None:
            text = HAPPENING.get(item.kind, both_same(item.kind))
            css = item.kind if item.kind in HAPPENING else "other"
            yield Sign(css, percent(at), text, "")


def _found(axis: _Axis, found: Sequence[tuple[str, Finding]]) -> Iterator[Sign]:
    """Yield the findings in the order of drawing: the gravest last, on top."""
    order: dict[Severity, int] = {"info": 0, "warning": 1, "error": 2, "critical": 3}
    shown = sorted(found[:_MAX_FINDINGS], key=lambda item: order[item[1].severity])
    for anchor, finding in shown:
        at = axis.part(figures.parse_time(finding.scope.first))
        if at is not None:
            yield Sign(finding.severity, percent(at), both_same(f"{finding.code} {finding.name}"), anchor)


def _pace(axis: _Axis, job: Chart | None, begin: datetime | None) -> Pace | None:
    if job is None or begin is None or not job.panels or not job.panels[0].curves:
        return None
    panel = job.panels[0]
    values = panel.curves[0].values
    if len(values) != len(job.x):
        return None
    there = [value for value in values if value is not None]
    if len(there) < 4:
        return None
    # The first steps compile graphs and may take hundreds of times as long as the others.
    high = sorted(there)[int(0.99 * (len(there) - 1))] * 1.05 or 1.0
    points = []
    for second, value in zip(job.x, values, strict=True):
        at = axis.part(_later(begin, second))
        points.append(
            None if at is None or value is None else (round(at * WIDTH), round((1 - min(value / high, 1.0)) * HEIGHT))
        )
    median = figures.short_float(panel.limit) if panel.limit is not None else ""
    return Pace(polyline(points), figures.short_float(max(there)), median)


def _rows(
    buckets: Sequence[tuple[datetime, dict[str, int]]], levels: Sequence[str], together: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Sum up `together` buckets at a time."""
    for at in range(0, len(buckets), together):
        group = buckets[at : at + together]
        sums = tuple(sum(counts.get(level, 0) for _, counts in group) for level in levels)
        yield group[0][0].strftime("%Y-%m-%d %H:%M"), sums


def _marker(
    axis: _Axis,
    buckets: Sequence[tuple[datetime, dict[str, int]]],
    places: Sequence[float | None],
    width: timedelta,
    root_seen: str | None,
    *,
    to_scale: bool,
) -> float | None:
    time = figures.parse_time(root_seen)
    if time is None:
        return None
    part = (
        axis.part(time)
        if to_scale
        else next((at for (start, _), at in zip(buckets, places, strict=True) if start <= time < start + width), None)
    )
    return None if part is None else round(100 * part, 2)


def distinct(marks: Sequence[T]) -> list[T]:
    """Return one mark of each kind, for the legend, in the order of appearance."""
    first: dict[str, T] = {}
    for mark in marks:
        first.setdefault(mark.css, mark)
    return list(first.values())
