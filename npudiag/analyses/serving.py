"""Statistics of serving engines: queues, cache, speed.

Engines print averages over the last window, ten seconds as a rule. A prompt throughput of nothing in one of them
only means that no prefill ended in it; the hit rate of the prefix cache is a moving aggregate.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from npudiag.analyses.series import bounded, groups

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudiag.tables.store import Store

    Floats = npt.NDArray[np.float64]

_COLUMNS = (
    "running",
    "waiting",
    "swapped",
    "kv_usage_pct",
    "prefix_hit_pct",
    "prompt_tps",
    "generation_tps",
    "preemptions",
    "acceptance_pct",
)
_LATENCY = ("benchmark", "request")
"""Rows that tell latency, no state of an engine."""


@dataclass(slots=True)
class Engine:
    """The statistics of one engine, in order.

    Attributes:
        name: Engine or rank, None where the line does not say.
        framework: Kind of line.
        file: Where they stand.
        line: Lines.
        time: Microseconds since 1970, NaN where unknown.
        values: By column.
    """

    name: str | None
    framework: str
    file: str
    line: Floats
    time: Floats
    values: dict[str, Floats]

    def __len__(self) -> int:
        return int(self.line.size)


def engines(store: Store) -> list[Engine]:
    """Return the engines, worked out once."""
    known: list[Engine] | None = store.memo.get("engines")
    if known is not None:
        return known
    columns = store.columns("serving")
    out: list[Engine] = []
    if columns.size:
        files, names = columns.codes("file"), columns.codes("engine")
        values = {name: bounded(columns.numbers(name)) for name in _COLUMNS}
        lines, times = columns.numbers("line"), columns.numbers("time")
        kinds, kind_names = columns.codes("framework"), columns.texts("framework")
        key = ((files + 1) * (int(names.max()) + 2) + names + 1) * (int(kinds.max()) + 2) + kinds + 1
        for one in np.unique(key):
            rows = np.flatnonzero(key == one)
            first = int(rows[0])
            kind = kind_names[kinds[first]] if kinds[first] >= 0 else ""
            if kind in _LATENCY:
                continue
            out.append(
                Engine(
                    columns.texts("engine")[names[first]] if names[first] >= 0 else None,
                    kind,
                    columns.texts("file")[files[first]] if files[first] >= 0 else "",
                    lines[rows],
                    times[rows],
                    {name: column[rows] for name, column in values.items()},
                )
            )
    store.memo["engines"] = out
    return out


def queueing(one: Engine) -> tuple[int, int] | None:
    """Find the longest stretch of six statistics or more in which requests wait although the cache has room.

    Room: less than 70 % of the KV cache in use, the share below which memory does not hold requests back. Where the use
    is never told (MindIE's scheduler, a line per batch) as many must wait as run, for a minute.

    Returns:
        First and last row.
    """
    waiting, usage = one.values["waiting"], one.values["kv_usage_pct"]
    running = one.values["running"]
    if np.isfinite(usage).any():
        held = (waiting >= np.maximum(4, 0.25 * np.nan_to_num(running))) & (usage < 70) & (running > 0)
        long_us = 0.0
    else:
        held = (waiting >= np.maximum(4, running)) & (running > 0)
        long_us = 60e6
    found = [
        group
        for group in groups(np.flatnonzero(held), 1)
        if group[1] - group[0] >= 5 and not one.time[group[1]] - one.time[group[0]] < long_us
    ]
    return max(found, key=lambda group: group[1] - group[0], default=None)


def pressure(one: Engine) -> tuple[int, float, float] | None:
    """Find a KV cache that fills: 12 statistics or more, rising by 20 points to 90 % and more, nobody waiting yet.

    Returns:
        Row of the highest use, the use at first and at last.
    """
    usage = one.values["kv_usage_pct"]
    rows = np.flatnonzero(np.isfinite(usage))
    if rows.size < 12:
        return None
    blocks = [float(np.median(part)) for part in np.array_split(usage[rows], 4)]
    if blocks[-1] < 90 or blocks[-1] - blocks[0] < 20 or any(b < a - 2 for a, b in pairwise(blocks)):
        return None
    if float(np.nanmax(np.nan_to_num(one.values["waiting"][rows]))) > 0:
        return None
    return int(rows[int(np.argmax(usage[rows]))]), blocks[0], blocks[-1]


def single_stream(one: Engine) -> tuple[int, float, int] | None:
    """Return a slow decode: tokens per second and request while up to eight run and no prompt is read.

    Of larger batches only what is slow at any size counts: less than two tokens per second and request, up to 64.

    Returns:
        A typical row, tokens per second of one request, and the statistics it rests on: a single one where the
        log has hardly any others.
    """
    running, made, read = one.values["running"], one.values["generation_tps"], one.values["prompt_tps"]
    few = (running <= 8) | ((running <= 64) & (made < 2 * running))
    rows = np.flatnonzero((running >= 1) & few & (made > 0) & (np.nan_to_num(read) == 0))
    # A request that begins or ends within the window makes the average too low.
    same = [
        bool((i > 0 and running[i - 1] == running[i]) or (i + 1 < len(one) and running[i + 1] == running[i]))
        for i in rows
    ]
    if len(one) < 3 and rows.size == 1 and made[rows[0]] / running[rows[0]] < 5:
        return int(rows[0]), float(made[rows[0]] / running[rows[0]]), 1
    rows = rows[np.array(same, dtype=bool)]
    each = made[rows] / running[rows]
    # What is plain is said of two statistics: a few tokens per second and request are slow on any card.
    if rows.size < (2 if rows.size and float(each.max()) < 4 else 4):
        return None
    typical = float(np.median(each))
    return int(rows[int(np.argmin(np.abs(each - typical)))]), typical, int(rows.size)


def prefix_misses(one: Engine) -> tuple[int, float, float] | None:
    """Return row, hit rate and prompt tokens per second where a busy engine finds hardly any prefix again.

    Asked of 12 statistics or more with prompts being read.
    """
    hit, read = one.values["prefix_hit_pct"], one.values["prompt_tps"]
    rows = np.flatnonzero(np.isfinite(hit) & (read > 0))
    if rows.size < 12:
        return None
    last = float(np.median(hit[rows[-6:]]))
    return (int(rows[-1]), last, float(np.median(read[rows]))) if last < 1.0 else None


def preempting(one: Engine) -> tuple[int, int, int] | None:
    """Return row, preemptions in all and statistics with new ones, from three on."""
    told = one.values["preemptions"]
    rows = np.flatnonzero(np.isfinite(told))
    if rows.size < 2:
        return None
    counts = told[rows]
    cumulative = bool(np.all(np.diff(counts) >= 0)) and counts[-1] > 0
    fresh = np.diff(counts, prepend=counts[0] if cumulative else 0) if cumulative else counts
    total = float(counts[-1] - counts[0]) if cumulative else float(counts.sum())
    times = int(np.sum(fresh > 0))
    if total < 3 or times < 2:
        return None
    return int(rows[int(np.flatnonzero(fresh > 0)[-1])]), int(total), times


def slower(one: Engine) -> tuple[int, float, float] | None:
    """Find tokens per second that fall by 40 % while as many requests run, in 24 statistics or more.

    Returns:
        Row, tokens per second before and after.
    """
    running, made = one.values["running"], one.values["generation_tps"]
    rows = np.flatnonzero((running >= 1) & (made > 0))
    if rows.size < 24:
        return None
    third = rows.size // 3
    early, late = rows[:third], rows[-third:]
    before, after = float(np.median(made[early])), float(np.median(made[late]))
    load = float(np.median(running[late])) / float(np.median(running[early]))
    read = one.values["prompt_tps"]
    reading = float(np.nanmedian(read[late])) / max(float(np.nanmedian(read[early])), 1.0)
    if after > 0.6 * before or not 0.8 <= load <= 1.25 or reading > 1.3:
        return None
    return int(late[int(np.argmin(np.abs(made[late] - after)))]), before, after


def gap(one: Engine) -> tuple[int, float, float] | None:
    """Find statistics that stay away while requests run: ten times the usual distance and two minutes.

    Idle engines print nothing at level INFO, so the statistic before the gap must show running requests. SGLang prints
    by batches, not by time, and its last line before a rest shows running requests too.

    Returns:
        Row behind the gap, its seconds, the usual seconds.
    """
    gaps = np.diff(one.time) / 1e6
    good = gaps[np.isfinite(gaps) & (gaps > 0)]
    if good.size < 6 or one.framework == "sglang":
        return None
    usual = float(np.median(good))
    running = one.values["running"]
    rows = np.flatnonzero((gaps > max(120.0, 10 * usual)) & (gaps < 86400) & (running[:-1] > 0) & (running[1:] > 0))
    if not rows.size:
        return None
    worst = int(rows[int(np.argmax(gaps[rows]))])
    return worst + 1, float(gaps[worst]), usual


@dataclass(slots=True)
class Latency:
    """How long requests wait for their tokens.

    Attributes:
        file: Where it stands.
        line: Line of the benchmark, or of the slowest request.
        first_ms: Median time to the first token, NaN where unknown.
        next_ms: Median time per further token, NaN where unknown.
        requests: Requests it rests on; 0: the medians of a benchmark.
        at_once: Whether the benchmark sent all requests at once, so that they wait for each other by its nature.
    """

    file: str
    line: int
    first_ms: float
    next_ms: float
    requests: int
    at_once: bool


def latency(store: Store) -> list[Latency]:
    """Return the latency that benchmarks print, and that of the requests of a log, of eight or more."""
    columns = store.columns("serving")
    kinds = list(columns.texts("framework"))
    if not any(kind in kinds for kind in _LATENCY):
        return []
    codes, files, names = columns.codes("framework"), columns.codes("file"), columns.texts("file")
    first, following = bounded(columns.numbers("ttft_ms")), bounded(columns.numbers("tpot_ms"))
    lines = columns.numbers("line")
    out: list[Latency] = []
    if "benchmark" in kinds:
        rates = _request_rates(store)
        for row in np.flatnonzero(codes == kinds.index("benchmark")).tolist():
            file = names[files[row]] if files[row] >= 0 else ""
            rate = rates.get((file, int(lines[row])), np.inf)
            out.append(Latency(file, int(lines[row]), float(first[row]), float(following[row]), 0, not rate < np.inf))
    if "request" in kinds:
        mine = codes == kinds.index("request")
        for code in np.unique(files[mine]):
            rows = np.flatnonzero(mine & (files == code))
            if rows.size >= 8:
                told = first[rows]
                slowest = rows[int(np.nanargmax(told))] if np.isfinite(told).any() else rows[-1]
                file = names[code] if code >= 0 else ""
                medians = (float(_median(told)), float(_median(following[rows])))
                out.append(Latency(file, int(lines[slowest]), *medians, int(rows.size), False))
    return out


def _request_rates(store: Store) -> dict[tuple[str, int], float]:
    """Return the request rate of benchmarks, by file and line of their heading; one without is unlimited."""
    columns = store.columns("serving_events")
    heads = store.columns("serving")
    kinds = list(heads.texts("framework"))
    found: dict[tuple[str, int], float] = {}
    names = list(columns.texts("name"))
    rate = "Request rate configured (RPS)"
    if rate not in names or "benchmark" not in kinds:
        return found
    begins = np.flatnonzero(heads.codes("framework") == kinds.index("benchmark"))
    for row in np.flatnonzero(columns.codes("name") == names.index(rate)).tolist():
        file, line = columns.value("file", row) or "", columns.value("line", row) or 0
        above = [
            at
            for head in begins.tolist()
            if (heads.value("file", head) or "") == file and (at := heads.value("line", head) or 0) < line
        ]
        if above:
            found[file, max(above)] = float(columns.value("value", row))
    return found


def _median(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else float("nan")
