"""Charts of training logs: the job over time, loss and gradient norm, time per step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from npudiag.analyses import loss as losses
from npudiag.analyses import series, speed
from npudiag.analyses.charts.thin import evenly, extremes, short, shorts
from npudiag.analyses.series import Series
from npudiag.result import Chart, Curve, Happening, Panel, Phase
from npudiag.tables.store import moment

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudiag.tables.store import Store

    Rows = npt.NDArray[np.int64]

_POINTS = 160
_MARKS = 40
_RUNS = 4
_HAPPENINGS = 24
_KINDS = ("start", "load", "save", "saved", "validation", "overflow", "failure", "end")
_EPOCH = datetime(1970, 1, 1)


def _longest(candidates: Iterable[Series], counts: Callable[[Series], int]) -> list[Series]:
    """Return the starts of the file that has most rows, at most four of them, in order."""
    by_file: dict[str, list[Series]] = {}
    for one in candidates:
        if counts(one):
            by_file.setdefault(one.file, []).append(one)
    runs = max(by_file.values(), key=lambda found: sum(map(counts, found)), default=[])
    kind = max(runs, key=counts).framework if runs else ""
    runs = [one for one in runs if one.framework == kind]
    if not all(one.has_steps for one in runs):
        runs = [max(runs, key=counts)]
    return sorted(sorted(runs, key=counts)[-_RUNS:], key=lambda one: one.run)


def _finite(column: str) -> Callable[[Series], int]:
    return lambda one: int(np.isfinite(one.get(column)).sum())


def _dated(one: Series) -> int:
    return int(np.isfinite(one.time).sum())


def _curves(
    runs: Sequence[Series],
    columns: Sequence[tuple[str, str, Callable[[Series], Iterable[int]]]],
    rows: Callable[[Series], Rows] | None = None,
) -> tuple[list[float], list[Panel]]:
    """Lay the starts of a job on one axis of steps.

    Args:
        runs: The starts.
        columns: Column, unit, and what finds the rows that stand out.
        rows: Returns the rows that count; all of them without it.
    """
    thinned: list[tuple[Series, list[int], dict[str, list[int]]]] = []
    for one in runs:
        counted = rows(one) if rows is not None else np.arange(len(one))
        allowed = set(counted.tolist())
        marks = {name: evenly(sorted(allowed & set(find(one))), _MARKS) for name, _, find in columns}
        chosen: set[int] = set()
        for name, _, _ in columns:
            told = np.full(len(one), np.nan)
            told[counted] = one.get(name)[counted]
            chosen |= extremes(told, _POINTS // len(runs)) | set(marks[name])
        thinned.append((one, sorted(chosen), marks))
    x = sorted({float(one.x[row]) for one, chosen, _ in thinned for row in chosen})
    place = {step: index for index, step in enumerate(x)}
    panels = []
    for name, unit, _ in columns:
        curves = []
        for number, (one, kept, marks) in enumerate(thinned, 1):
            values: list[float | None] = [None] * len(x)
            for row in kept:
                values[place[float(one.x[row])]] = short(float(one.get(name)[row]))
            if any(value is not None for value in values) or marks[name]:
                flagged = sorted({place[float(one.x[row])] for row in marks[name]})
                title = name if len(thinned) == 1 else f"{name} {number}"
                curves.append(Curve(name=title, values=values, marks=flagged))
        if curves:
            panels.append(Panel(name=name, unit=unit, curves=curves))
    return x, panels


def _loss_marks(one: Series) -> set[int]:
    marks = {spike.index for spike in losses.spikes(one)}
    for found in (losses.not_finite(one), losses.divergence(one)):
        if found is not None:
            marks.add(found.index)
    return marks


def _norm_marks(one: Series) -> set[int]:
    norm = one.get("grad_norm")
    high = series.groups(np.flatnonzero(losses.gradient_spikes(one)), 8)
    marks = {first + int(np.argmax(norm[first : last + 1])) for first, last in high}
    growth = losses.exploding(one)
    return marks | {growth.index} if growth is not None else marks


def loss(store: Store) -> Chart | None:
    """Return loss and gradient norm over the steps."""
    runs = _longest(series.primary(store), _finite("loss"))
    if sum(map(len, runs)) < 4:
        return None
    x, panels = _curves(runs, [("loss", "", _loss_marks), ("grad_norm", "", _norm_marks)])
    return Chart(
        name="loss",
        kind="curves",
        table="train_steps",
        file=runs[0].file,
        rows=sum(map(len, runs)),
        x_name="step" if runs[0].has_steps else "reading",
        x=x,
        panels=panels,
    )


def _slow(one: Series) -> set[int]:
    rows = speed.steady(one)
    took = one.get("step_time_ms")[rows]
    marks: set[int] = set()
    if rows.size >= 16:
        limit = (2.5 if one.framework in speed.UNEVEN else 1.5) * float(np.median(took))
        groups = series.groups(np.flatnonzero(took > limit), 2)
        marks = {int(rows[first + int(np.argmax(took[first : last + 1]))]) for first, last in groups}
    stretch = speed.slow_stretch(one)
    return marks | {stretch.begin, stretch.end} if stretch is not None else marks


def pace(store: Store) -> Chart | None:
    """Return the time of the steps behind the first ones, in which graphs are compiled."""
    runs = _longest(series.timed(store), lambda one: int(speed.steady(one).size))
    if sum(int(speed.steady(one).size) for one in runs) < 4:
        return None
    x, panels = _curves(runs, [("step_time_ms", "ms", _slow)], speed.steady)
    for panel in panels:
        everything = np.concatenate([one.get("step_time_ms")[speed.steady(one)] for one in runs])
        panel.limit, panel.limit_name = short(float(np.median(everything))), "median"
    return Chart(
        name="pace",
        kind="curves",
        table="train_steps",
        file=runs[0].file,
        rows=sum(map(len, runs)),
        x_name="step" if runs[0].has_steps else "reading",
        x=x,
        panels=panels,
    )


def job(store: Store) -> Chart | None:
    """Return the job over time: phases, what happened, and the time per step."""
    runs = [one for one in _longest(series.primary(store), _dated) if _dated(one)]
    times = np.concatenate([one.time for one in runs]) if runs else np.empty(0)
    times = times[np.isfinite(times)]
    if times.size < 4 or times.max() <= times.min():
        return None
    file = runs[0].file
    first, last = _span(store, file, float(times.min()), float(times.max()))
    x, panels = _pace_over_time(runs, first)
    return Chart(
        name="job",
        kind="curves",
        table="train_events",
        file=file,
        rows=int(times.size),
        x_name="second",
        start=(moment(int(first)) or _EPOCH).isoformat(timespec="seconds"),
        x=x,
        panels=panels,
        phases=_phases(runs, first, last),
        happenings=_happenings(store, runs, first, last),
    )


def _span(store: Store, file: str, first: float, last: float) -> tuple[float, float]:
    """Return the first and last time of a log; time stamps of another day's clock do not stretch it."""
    length = max(last - first, 60e6)
    for row in store.rows("files"):
        if row["file"] == file:
            for value in (row["first_time"], row["last_time"]):
                if isinstance(value, datetime):
                    us = (value - _EPOCH).total_seconds() * 1e6
                    if first - 20 * length <= us <= last + 20 * length:
                        first, last = min(first, us), max(last, us)
    return first, last


def _pace_over_time(runs: Sequence[Series], first: float) -> tuple[list[float], list[Panel]]:
    at = np.concatenate([one.time for one in runs])
    took = np.concatenate([one.get("step_time_ms") for one in runs])
    good = np.isfinite(at)
    at, took = at[good], took[good]
    if not np.isfinite(took).any():
        return [], []
    order = np.argsort(at, kind="stable")
    at, took = at[order], took[order]
    chosen = np.array(sorted(extremes(took, _POINTS)), dtype=np.int64)
    seconds = [round(float(us - first) / 1e6, 1) for us in at[chosen]]
    curve = Curve(name="step_time_ms", values=shorts(took[chosen]))
    middle = short(float(np.nanmedian(took)))
    return seconds, [Panel(name="step_time_ms", unit="ms", curves=[curve], limit=middle, limit_name="median")]


def _phases(runs: Sequence[Series], first: float, last: float) -> list[Phase]:
    """Cut the job into starting, training, silence and what came after the last step."""
    cuts: list[tuple[str, float, float]] = []
    begin = first
    usual = 0.0
    for one in runs:
        at = one.time[np.isfinite(one.time)]
        gaps = np.diff(at)
        gaps = gaps[gaps > 0]
        usual = float(np.median(gaps)) if gaps.size else usual
        if at[0] > begin:
            cuts.append(("starting", begin, float(at[0])))
        start = float(at[0])
        for place in np.flatnonzero(np.diff(at) > 5 * usual + 60e6).tolist():
            cuts += [("training", start, float(at[place])), ("silent", float(at[place]), float(at[place + 1]))]
            start = float(at[place + 1])
        begin = float(at[-1])
        cuts.append(("training", start, begin))
    if last > begin + max(3 * usual, 10e6):
        cuts.append(("afterwards", begin, last))
    return [
        Phase(name=name, first=round((low - first) / 1e6, 1), last=round((high - first) / 1e6, 1))  # type: ignore[arg-type]
        for name, low, high in cuts
        if high > low
    ][:60]


def _happenings(store: Store, runs: Sequence[Series], first: float, last: float) -> list[Happening]:
    """Return what the log tells beside its steps, placed by its own time or by that of its step."""
    columns = store.columns("train_events")
    names, kinds = columns.texts("file"), columns.texts("kind")
    if runs[0].file not in names:
        return []
    mine = columns.codes("file") == list(names).index(runs[0].file)
    codes, steps = columns.codes("kind"), columns.numbers("step")
    times, lines = columns.numbers("time"), columns.numbers("line")
    out: list[Happening] = []
    for kind in _KINDS:
        if kind not in kinds:
            continue
        for row in evenly(np.flatnonzero(mine & (codes == list(kinds).index(kind))).tolist(), _HAPPENINGS):
            at = float(times[row]) if np.isfinite(times[row]) else _time_of(runs, float(steps[row]), float(lines[row]))
            if at is None or not first <= at <= last:
                continue
            out.append(
                Happening(
                    kind=kind,
                    at=round((at - first) / 1e6, 1),
                    step=int(steps[row]) if np.isfinite(steps[row]) else None,
                    path=runs[0].file,
                    line=int(lines[row]) if np.isfinite(lines[row]) else None,
                )
            )
    return sorted(out, key=lambda item: item.at)


def _time_of(runs: Sequence[Series], step: float, line: float) -> float | None:
    """Return the time of the row of steps nearest above a line, which an event without a time belongs to."""
    best: tuple[float, float] | None = None
    for one in runs:
        place = int(np.searchsorted(one.line, line, side="right")) - 1
        if place >= 0 and np.isfinite(one.time[place]) and (best is None or one.line[place] > best[0]):
            best = (float(one.line[place]), float(one.time[place]))
    return best[1] if best is not None and np.isfinite(step) else None
