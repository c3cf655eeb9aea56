"""Detectors on the time of steps."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from npudiag.advice.settings import jobs
from npudiag.analyses import speed as judge
from npudiag.analyses import startup
from npudiag.analyses.series import Series, build, timed
from npudiag.detectors.series_hits import each, make
from npudiag.engine.hits import Hit
from npudiag.result import Evidence

if TYPE_CHECKING:
    from npudiag.analyses.series import Floats
    from npudiag.tables.store import Store

_RARELY = 10
"""Steps between two events from which on stalls can be told to be theirs and not to meet them by chance."""
_PLOT = ("step_time_ms", "tflops", "samples_per_s")
_MARKS = (
    "elapsed time per iteration",
    "per_step_time",
    "TFLOPs",
    "throughput per GPU",
    "samples per second",
    "s/it",
)


def _shift(store: Store, one: Series, found: judge.Shift) -> Hit:
    rate = "tflops" if one.has("tflops").any() else "samples_per_s"
    before, after = _rates(one.get(rate), found)
    known = before == before and after == after
    hit = make(
        store,
        one,
        found.index,
        {
            "usual_s": round(found.usual_ms / 1000, 3),
            "slow_s": round(found.slow_ms / 1000, 3),
            "slower": round(found.slower_pct, 1),
            "begin": one.step(found.begin) if one.has_steps else None,
            "end": one.step(found.end) if one.has_steps else None,
            "rate_before": round(before, 2) if known else None,
            "rate_after": round(after, 2) if known else None,
            "unit": "TFLOP/s" if rate == "tflops" else "samples/s",
        },
        shown=[(max(0, found.begin - 1), "before"), (found.begin, "where it begins"), (found.end, "the end")],
        plot=_PLOT,
        marks=_MARKS,
    )
    hit.lost_ms = round(found.lost_ms, 1)
    whole = float(np.nansum(one.get("step_time_ms")[judge.steady(one)])) * judge.interval(one)
    hit.lost_pct = round(100 * found.lost_ms / whole, 1) if whole > 0 else None
    hit.basis = "time above the usual step time, over the time of all steps"
    return hit


def _rates(speed: Floats, found: judge.Shift) -> tuple[float, float]:
    """Return the median throughput outside of a slow stretch and in it; of one that is everywhere, early and late."""
    inside = np.zeros(speed.size, dtype=bool)
    inside[found.begin : found.end + 1] = True
    if inside.all():
        part = max(1, speed.size // 8)
        inside[:] = False
        inside[-part:] = True
        outside = np.arange(speed.size) < part
    else:
        outside = ~inside
    told = np.isfinite(speed)
    if not (told & outside).any() or not (told & inside).any():
        return float("nan"), float("nan")
    return float(np.median(speed[told & outside])), float(np.median(speed[told & inside]))


def slow_stretch(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """A stretch of steps is slower than the rest."""
    return each(timed(store), judge.slow_stretch, lambda one, found: _shift(store, one, found))


def drift(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Steps get slower all along."""

    def find(one: Series) -> judge.Shift | None:
        return None if judge.slow_stretch(one) is not None else judge.drift(one)

    return each(timed(store), find, lambda one, found: _shift(store, one, found))


def _unpadded(store: Store) -> bool:
    """Whether sequences are not padded to one length, so that steps differ in tokens by nature."""
    return any(job.find("--variable-seq-lengths") is not None for job in jobs(store))


def jitter(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Step times vary much."""
    events = judge.event_steps(store)

    def find(one: Series) -> judge.Pace | None:
        found = judge.pace(one)
        if found is None or found.rows < judge.LEAST or found.cv_pct < 20:
            return None
        uneven = one.framework in judge.UNEVEN or _unpadded(store)
        if found.cv_pct < (60 if uneven else 20):
            return None
        if found.p95_ms < (2.5 if uneven else 1.3) * found.median_ms:
            return None
        if judge.stalls(one, events.get(one.file, {})) or judge.slow_stretch(one) or judge.drift(one):
            return None
        return found

    def hit(one: Series, found: judge.Pace) -> Hit:
        took = one.get("step_time_ms")
        rows = judge.steady(one)
        worst = int(rows[int(np.argmax(took[rows]))])
        return make(
            store,
            one,
            worst,
            {
                "median_s": round(found.median_ms / 1000, 3),
                "p95_s": round(found.p95_ms / 1000, 3),
                "cv": round(found.cv_pct, 1),
                "worst_s": round(float(took[worst]) / 1000, 3),
            },
            plot=_PLOT,
            marks=_MARKS,
        )

    return each(timed(store), find, hit)


def _collected_every(store: Store) -> int | None:
    """Return how many steps lie between two collections of garbage, where the job was told to, and rarely enough."""
    for job in jobs(store):
        setting = job.find("--manual-gc-interval")
        if setting is not None and setting.number and _RARELY <= setting.number < 1e6 and job.find("--manual-gc"):
            return int(setting.number)
    return None


def _stalls(store: Store, what: tuple[str, ...]) -> list[Hit]:
    events = judge.event_steps(store)
    collected = _collected_every(store)

    def find(one: Series) -> judge.Stalls | None:
        known = events.get(one.file, {})
        if collected:
            last = int(one.x[-1]) if one.x.size else 0
            known = {**known, "gc": np.arange(0, last + collected, collected, dtype=np.float64)}
        found = judge.stalls(one, known)
        if found is not None and found.what in what:
            return None if judge.slow_stretch(one) is not None else found
        if "save" in what:
            return judge.stops(one, known, "save")
        return judge.stops(one, known, "validation") if "validation" in what else None

    def hit(one: Series, found: judge.Stalls) -> Hit:
        made = make(
            store,
            one,
            found.index,
            {
                "times": int(found.rows.size),
                "median_s": round(found.median_ms / 1000, 3),
                "worst_s": round(found.worst_ms / 1000, 3),
                "period": round(found.period) or None,
                "lost": round(found.lost_pct, 1),
            },
            shown=[(int(found.rows[0]), "the first one"), (int(found.rows[-1]), "the last one")],
            plot=_PLOT,
            marks=_MARKS,
            severity="warning" if found.lost_pct >= 5 else "info",
            occurrences=int(found.rows.size),
        )
        made.lost_pct, made.lost_ms = round(found.lost_pct, 1), round(found.lost_ms, 1)
        made.basis = "time above the median, over the time of all steps"
        return made

    return each(timed(store), find, hit)


def stalls(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Single steps take far longer, and nothing in the log says why."""
    return _stalls(store, ("",))


def stalls_collecting(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The steps that take far longer are those at which the job was told to collect Python's garbage."""
    return _stalls(store, ("gc",))


def stalls_saving(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The steps that take far longer are those of checkpoints."""
    return _stalls(store, ("save",))


def stalls_evaluating(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The steps that take far longer are those of evaluations."""
    return _stalls(store, ("validation",))


def stalls_epochs(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The steps that take far longer are the first ones of epochs."""
    return _stalls(store, ("epoch",))


def silence(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The log goes on, but there are no steps any more."""
    columns = store.columns("train_events")
    kinds = list(columns.texts("kind"))
    if "silence" not in kinds:
        return []
    last: dict[str, int] = {}
    for index in np.flatnonzero(columns.codes("kind") == kinds.index("silence")):
        last[columns.value("file", int(index)) or ""] = int(index)
    ended = {file for file, kinds_of in judge.event_steps(store).items() if "end" in kinds_of}
    series: dict[str, Series] = {}
    for one in build(store):
        if one.file not in series or one.line[-1] > series[one.file].line[-1]:
            series[one.file] = one
    hits = []
    for file, at in last.items():
        latest = series.get(file)
        if latest is None or file in ended:
            continue
        line, seconds = columns.value("line", at), columns.value("value", at)
        found = judge.silence(latest, seconds, line, columns.value("time", at))
        if found is None:
            continue
        hit = make(
            store,
            latest,
            found.index,
            {
                "minutes": round(found.seconds / 60, 1),
                "usual_s": round(found.usual_s, 1) if found.usual_s == found.usual_s else None,
            },
            plot=(),
            marks=("iteration", "elapsed time per iteration"),
        )
        hit.evidence.append(
            Evidence(
                kind="absence",
                path=file,
                label="seconds with other lines, but without a step",
                value=round(found.seconds),
            )
        )
        hit.lost_ms = found.seconds * 1000
        hit.first_us = found.start_us
        hits.append(hit)
    return hits[:4]


def pauses(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Time passed between steps that no step accounts for."""
    events = judge.event_steps(store)

    def find(one: Series) -> judge.Pause | None:
        kinds: tuple[Literal["save", "validation"], ...] = ("save", "validation")
        told = [judge.stops(one, events.get(one.file, {}), kind) for kind in kinds]
        rows = [found.rows for found in told if found is not None]
        return judge.pauses(one, np.concatenate(rows) if rows else None)

    def hit(one: Series, found: judge.Pause) -> Hit:
        captures = {
            "longest_s": round(found.longest_s),
            "total_s": round(found.total_s),
            "times": found.count,
            "lost": round(found.share_pct, 1),
        }
        made = make(
            store,
            one,
            found.index,
            captures,
            shown=[(found.index - 1, "before the gap")],
            plot=(),
            severity="warning" if found.share_pct >= 10 and found.longest_s >= 600 else "info",
            occurrences=found.count,
        )
        made.lost_pct, made.lost_ms = round(found.share_pct, 1), found.total_s * 1000
        return made

    return each(timed(store), find, hit)


_START_PARTS = {
    "load": ("loading the checkpoint", "加载 checkpoint"),
    "build": ("building the model", "构建模型"),
    "data": ("building the data sets", "构建数据集"),
}


def slow_starts(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Much time passes before the first step."""
    slow = [one for one in startup.starts(store) if one.seconds >= float(params.get("least_s", 600))]
    hits = []
    for one in sorted(slow, key=lambda item: -item.seconds)[:2]:
        quotes = store.quotes.get(one.file, {})
        shown = [
            Evidence(kind="log", path=one.file, line=line, text=quotes[line], label=label)
            for line, label in ((one.line, ""), (one.begin, "the first stamp of the start"))
            if line in quotes
        ]
        whole = Evidence(kind="metric", path=one.file, label="seconds to the start of training", value=one.seconds)
        hits.append(
            Hit(
                evidence=[*shown, whole],
                captures={
                    "file": one.file,
                    "line": one.line,
                    "minutes": round(one.seconds / 60, 1),
                    "longest": round(one.part_s / 60, 1),
                    "share": round(100 * one.part_s / one.seconds),
                },
                words={"part": _START_PARTS[one.part]},
                first_us=one.time_us,
                severity="warning" if one.seconds >= float(params.get("warning_s", 1800)) else "info",
            )
        )
        hits[-1].lost_ms = one.seconds * 1000
    return hits


def restarts(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The job was started again within the log."""
    by_file: dict[str, list[Series]] = {}
    for one in build(store):
        if one.framework != "tqdm" and one.has_steps:
            by_file.setdefault(one.file, []).append(one)
    hits = []
    for found in by_file.values():
        kinds = {one.framework for one in found}
        runs = sorted((one for one in found if one.framework == found[0].framework), key=lambda one: one.run)
        if len(runs) < 2 or not kinds:
            continue
        again = sum(max(0.0, float(a.x[-1] - b.x[0] + 1)) for a, b in pairwise(runs) if b.x[0] > 2)
        done = sum(float(one.x[-1] - one.x[0] + 1) for one in runs)
        share = 100 * again / max(done, 1.0)
        late = runs[-1]
        hits.append(
            make(
                store,
                late,
                0,
                {
                    "times": len(runs) - 1,
                    "again": int(again),
                    "share": round(share, 1),
                    "last_step": runs[-2].step(len(runs[-2]) - 1),
                },
                plot=(),
                severity="warning" if share >= 10 and again >= 50 and len(runs) > 2 else "info",
                occurrences=len(runs) - 1,
            )
        )
    return hits[:2]


def slower_starts(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The job was started again and is slower since."""
    starts: dict[tuple[str, str], list[Series]] = {}
    for one in timed(store):
        starts.setdefault((one.file, one.framework), []).append(one)
    hits = []
    for runs in starts.values():
        for before, after in pairwise(sorted(runs, key=lambda one: one.run)):
            found = judge.slower_start(before, after)
            if found is None:
                continue
            row, old, new = found
            captures = {
                "usual_s": round(old / 1000, 3),
                "slow_s": round(new / 1000, 3),
                "slower": round(100 * (new / old - 1), 1),
                "begin": after.step(0) if after.has_steps else None,
            }
            hit = make(store, after, row, captures, shown=[(0, "the first step since")], plot=_PLOT, marks=_MARKS)
            hit.lost_pct = round(100 * (1 - old / new), 1)
            hit.basis = "median step time above that of the start before, over the median step time"
            hits.append(hit)
    return hits[:2]


def _timers(store: Store, group: str, limit: float) -> list[Hit]:
    def find(one: Series) -> judge.Timers | None:
        # A few lines of a start say nothing of waiting for other ranks, but plainly where a batch is late.
        found = judge.timers(store, one, excerpt=group == "data")
        return found if found is not None and 100 >= found.share_pct.get(group, 0.0) >= limit else None

    def hit(one: Series, found: judge.Timers) -> Hit:
        made = make(
            store,
            one,
            len(one) - 1,
            {
                "share": round(found.share_pct[group], 1),
                "spent_s": round(found.ms[group] / 1000, 3),
                "step_s": round(found.step_ms / 1000, 3),
                "timer": found.worst[group],
            },
            plot=_PLOT,
            marks=_MARKS,
        )
        text = store.quotes.get(one.file, {}).get(found.line[group])
        if text is not None:
            made.evidence.insert(0, Evidence(kind="log", path=one.file, line=found.line[group], text=text))
        made.evidence.append(
            Evidence(
                kind="metric",
                path=one.file,
                label=f"part of the step in {found.worst[group]} and its like, %",
                value=round(found.share_pct[group], 1),
            )
        )
        made.lost_pct = round(found.share_pct[group], 1)
        made.basis = "time of these timers over the median step time"
        return made

    return each(timed(store), find, hit)


def communication(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Gradients and parameters travel for a large part of the step."""
    return _timers(store, "collective", float(params.get("share_pct", 20)))


def pipeline(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Stages of the pipeline wait for each other for a large part of the step."""
    return _timers(store, "pipeline", float(params.get("share_pct", 35)))


def data(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The next batch is not ready in time: by Megatron's timers, or by what the lines of steps tell of it."""
    limit = float(params.get("share_pct", 10))
    return _timers(store, "data", limit) or each(
        timed(store), lambda one: judge.data_share(one, limit), lambda one, found: _waits(store, one, found)
    )


def _waits(store: Store, one: Series, found: judge.DataShare) -> Hit:
    captures = {
        "share": round(found.share_pct, 1),
        "spent_s": round(found.data_ms / 1000, 3),
        "step_s": round(found.step_ms / 1000, 3),
    }
    made = make(store, one, found.index, captures, plot=("data_ms", "step_time_ms"), marks=("data_time",))
    made.lost_pct = round(found.share_pct, 1)
    made.basis = "waiting for data over the step time, summed over the steps"
    return made


def rollout(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Reinforcement learning spends most of its time generating."""

    def find(one: Series) -> float | None:
        spent, took = one.get("generate_ms"), one.get("step_time_ms")
        rows = np.flatnonzero(np.isfinite(spent) & np.isfinite(took) & (took > 0))
        share = spent[rows] / took[rows]
        if share.size < 5:
            return None
        typical = float(np.median(share))
        return typical if 0.6 <= typical <= 1.0 else None

    def hit(one: Series, found: float) -> Hit:
        rows = np.flatnonzero(np.isfinite(one.get("generate_ms")))
        plot = ("generate_ms", "update_ms", "step_time_ms")
        return make(
            store, one, int(rows[-1]), {"share": round(100 * found)}, plot=plot, marks=("timing_s/gen", "timing/gen")
        )

    return each(timed(store), find, hit)


def memory_grows(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Device memory grows from step to step."""

    def find(one: Series) -> tuple[int, float, float] | None:
        memory = one.get("memory_mb")
        rows = np.flatnonzero(np.isfinite(memory) & (memory > 0))[3:]
        if rows.size < judge.LEAST:
            return None
        blocks = np.array([float(np.median(part)) for part in np.array_split(memory[rows], 8)])
        if judge.tau(blocks) < 0.85 or blocks[-1] < 1.1 * blocks[1] or blocks[-1] < 1.02 * blocks[-3]:
            return None
        return int(rows[-1]), float(blocks[0]), float(blocks[-1])

    def hit(one: Series, found: tuple[int, float, float]) -> Hit:
        captures = {"low": round(found[1] / 1024, 2), "high": round(found[2] / 1024, 2)}
        return make(store, one, found[0], captures, plot=("memory_mb", "step_time_ms"), marks=("memory",))

    return each(build(store), find, hit)


def memory_pressure(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """PyTorch holds nearly all memory of a 64 GB card, or far more than it uses.

    PyTorch can have 60.96 GiB of such a card.
    """
    columns = store.columns("train_events")
    kinds, names = list(columns.texts("kind")), list(columns.texts("name"))
    if "memory" not in kinds:
        return []
    mine = columns.codes("kind") == kinds.index("memory")
    values, lines, ranks = columns.numbers("value"), columns.numbers("line"), columns.numbers("rank")
    best: tuple[float, int] | None = None
    for name in ("max reserved",):
        rows = np.flatnonzero(mine & (columns.codes("name") == (names.index(name) if name in names else -2)))
        for index in rows.tolist():
            if best is None or values[index] > best[0]:
                best = (float(values[index]), int(index))
    if best is None or not 0.93 * 62423 <= best[0] <= 66000:
        return []
    index = best[1]
    file = columns.value("file", index) or ""
    pair = np.flatnonzero(
        mine
        & (columns.codes("name") == (names.index("max allocated") if "max allocated" in names else -2))
        & (lines == lines[index])
        & (columns.codes("file") == columns.codes("file")[index])
    )
    used = float(values[pair[0]]) if pair.size else None
    line = int(lines[index]) if lines[index] == lines[index] else None
    text = store.quotes.get(file, {}).get(line or -1)
    return [
        Hit(
            evidence=[
                Evidence(kind="log", path=file, line=line, text=text)
                if text
                else Evidence(kind="metric", path=file, label="max reserved, MiB", value=round(best[0]))
            ],
            captures={
                "reserved": round(best[0] / 1024, 1),
                "allocated": round(used / 1024, 1) if used is not None else None,
            },
            ranks=[int(ranks[index])] if ranks[index] == ranks[index] else None,
        )
    ]
