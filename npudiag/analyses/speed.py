"""Time per step: level, spread, drift, stalls, silence.

* The first rows of every start are left out: graphs are compiled then, and healthy NPU runs take up to 444 times
  the median for the first step.
* Spread: coefficient of variation and 95th percentile over median. Healthy NPU reference runs have a CV of 0.7 % in
  the middle and of 5 % at the 90th percentile.
* Slow stretch: the median of nine rows lies 10 % above the usual level (its 20th percentile) for eight rows and 2 %
  of the run, everything else lies at the usual level, and fewer than a fifth of the steps elsewhere are as slow. In
  fewer than 32 rows: times that grow row after row (Kendall's tau) by 5 %, by 10 % at the start of a training, by 20 %
  where steps differ by nature.
* Drift: the medians of eight blocks grow (Kendall's tau of 0.85) by 10 %.
* Stall: a row of 1.5 times the median, standing apart from the others; periodic where the distances between stalls
  differ by less than 15 %. Megatron stops its clock while it saves or evaluates: there the time stamps tell.
* Where batches differ in tokens, step times are compared at the usual number of tokens, by a line through them.
* Silence: no step for 30 minutes and ten times the usual distance between lines, while the log goes on. What lies a
  fortnight apart was stamped by different clocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from npudiag.analyses.series import Series, groups, once

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudiag.analyses.series import Floats
    from npudiag.tables.store import Store

    Rows = npt.NDArray[np.int64]

UNEVEN = ("hf", "tqdm", "trainer-log", "trainer-state", "verl", "mindspeed-rl", "mmengine")
"""Kinds of run whose steps differ in tokens by nature."""


def steady(one: Series) -> Rows:
    """Return the rows whose step time counts: behind the first ones of the start."""
    took = one.get("step_time_ms")
    rows = np.flatnonzero(np.isfinite(took) & (took > 0))
    if one.from_start or one.run > 0:
        rows = rows[5:] if rows.size >= LEAST else rows[3:]
    return rows


LEAST = 32
_OTHER_CLOCK_S = 14 * 86_400.0
"""A silence longer than that: the stamps behind the last step are those of another clock or another run."""
_BLOCKS = 4096
_FEW_ROWS = 8


@once
def evened(one: Series) -> Floats:
    """Return step times in ms as they would be with the usual number of tokens.

    ``time = a + b * tokens`` by least squares, fitted again without what lies three deviations off. Taken where the
    tokens of a step vary by 5 % and the line explains half of the variation; step times as they are otherwise.
    """
    took, seen = one.get("step_time_ms"), one.get("consumed_tokens")
    if not one.has_steps or np.isfinite(seen).sum() < LEAST:
        return took
    ahead = np.diff(one.x)
    tokens = np.full(len(one), np.nan)
    tokens[1:][ahead > 0] = np.diff(seen)[ahead > 0] / ahead[ahead > 0]
    good = np.isfinite(tokens) & (tokens > 0) & np.isfinite(took) & (took > 0)
    good[:5] = False
    x, y = tokens[good], took[good]
    if x.size < LEAST or float(np.std(x)) < 0.05 * float(np.mean(x)):
        return took
    keep = np.ones(x.size, dtype=bool)
    for _ in range(2):
        slope, base = np.polyfit(x[keep], y[keep], 1)
        off = y - (base + slope * x)
        spread = 1.4826 * float(np.median(np.abs(off - np.median(off))))
        keep = np.abs(off - np.median(off)) <= 3 * max(spread, 1e-3 * float(np.median(y)))
    if slope <= 0 or float(np.var(off[keep])) > 0.5 * float(np.var(y[keep])):
        return took
    out = took.copy()
    out[good] = np.maximum(y - slope * (x - float(np.median(x))), 0.01 * float(np.median(y)))
    return out


@dataclass(slots=True)
class Pace:
    """How fast a run is.

    Attributes:
        median_ms: Median step time.
        p95_ms: 95th percentile, at the usual number of tokens.
        cv_pct: Coefficient of variation in %, at the usual number of tokens.
        rows: Rows that count.
    """

    median_ms: float
    p95_ms: float
    cv_pct: float
    rows: int


@once
def pace(one: Series) -> Pace | None:
    """Return the pace of a run, None where no step time is told."""
    rows = steady(one)
    if not rows.size:
        return None
    even = evened(one)[rows]
    return Pace(
        float(np.median(one.get("step_time_ms")[rows])),
        float(np.percentile(even, 95)),
        100.0 * float(np.std(even) / np.mean(even)),
        int(rows.size),
    )


@dataclass(slots=True)
class Shift:
    """A stretch of slow steps, or a pace that grows slower.

    Attributes:
        begin: First slow row.
        index: Row that shows it best.
        end: Last slow row.
        usual_ms: Step time elsewhere.
        slow_ms: Step time in the stretch.
        open_end: It lasts to the end of the log.
        lost_ms: Time lost.
    """

    begin: int
    index: int
    end: int
    usual_ms: float
    slow_ms: float
    open_end: bool
    lost_ms: float

    @property
    def slower_pct(self) -> float:
        """How much slower, in %."""
        return 100.0 * (self.slow_ms / self.usual_ms - 1.0)


@once
def slow_stretch(one: Series) -> Shift | None:
    """Find a stretch of steps that are slower than the rest."""
    rows = steady(one)
    took = evened(one)[rows]
    if rows.size < 5:
        return None
    if rows.size < LEAST:
        return _growing(one, rows, took)
    # Long runs are looked at in blocks: a stretch that matters is longer than one.
    size = -(-rows.size // _BLOCKS) if rows.size > 2 * _BLOCKS else 1
    blocks = np.median(took[: took.size // size * size].reshape(-1, size), axis=1) if size > 1 else took
    width = 9
    level = np.median(np.lib.stride_tricks.sliding_window_view(np.pad(blocks, width // 2, mode="edge"), width), axis=1)
    usual = float(np.percentile(level, 20))
    limit = 1.3 if one.framework in UNEVEN else 1.1
    slow = np.flatnonzero(level > limit * usual)
    found = [group for group in groups(slow, 2) if group[1] - group[0] + 1 >= max(8, blocks.size // 50)]
    if not found or len(found) > 4:
        return None
    outside = np.ones(blocks.size, dtype=bool)
    for first, last in found:
        outside[max(0, first - width) : last + width + 1] = False
    if outside.sum() < 8 or float(np.mean(level[outside] < (1 + (limit - 1) * 0.7) * usual)) < 0.9:
        return None
    if float(np.mean(blocks[outside] > limit * usual)) > 0.2:
        # Where every fifth step elsewhere is as slow, the steps vary; it is no stretch.
        return None
    found = [(first * size, min(rows.size - 1, (last + 1) * size - 1)) for first, last in found]
    first, last = max(found, key=lambda group: float(np.sum(took[group[0] : group[1] + 1] - usual)))
    part = took[first : last + 1]
    slow_ms = float(np.median(part))
    index = first + int(np.argmin(np.abs(part - slow_ms)))
    lost = sum(float(np.sum(took[a : b + 1] - usual)) for a, b in found) * interval(one)
    return Shift(
        int(rows[first]),
        int(rows[index]),
        int(rows[last]),
        usual,
        slow_ms,
        last >= rows.size - 3 * size,
        max(0.0, lost),
    )


def _growing(one: Series, rows: Rows, took: Floats) -> Shift | None:
    order = tau(took)
    if order < (0.99 if rows.size < 8 else 0.7):
        return None
    usual, slow = float(np.median(took[:2])), float(np.median(took[-2:]))
    calm = abs(took[1] - took[0]) <= 0.02 * usual
    least = 1.2 if one.framework in UNEVEN else 1.1 if one.from_start else 1.05
    # Without a level to begin with, only a pace that grows from row to row, and far, is one that gets slower.
    steep = order == 1.0 and rows.size >= 6 and slow >= 1.5 * usual and _even_batches(one)
    if slow < least * usual or not (calm or steep or one.framework in UNEVEN) or (one.has_steps and one.x[-1] < 32):
        return None
    begin = int(np.argmax(took > 1.02 * usual))
    lost = float(np.sum(took[begin:] - usual)) * interval(one)
    return Shift(int(rows[begin]), int(rows[-1]), int(rows[-1]), usual, slow, True, lost)


def _even_batches(one: Series) -> bool:
    """Whether lines tell that every step had as many samples and tokens: a growing batch takes longer by right."""
    size = one.get("global_batch_size")
    size = size[np.isfinite(size)]
    if not size.size or size.min() < size.max():
        return False
    seen = np.diff(one.get("consumed_tokens")) / np.diff(one.x)
    seen = seen[np.isfinite(seen)]
    return not seen.size or bool(seen.max() <= 1.05 * seen.min())


def interval(one: Series) -> float:
    """Return the steps per row."""
    if not one.has_steps or len(one) < 2:
        return 1.0
    return max(1.0, float(np.median(np.diff(one.x))))


def tau(values: Floats) -> float:
    """Return Kendall's rank correlation of values with their order."""
    n = values.size
    score = sum(float(np.sign(values[i + 1 :] - values[i]).sum()) for i in range(n - 1))
    return score / (n * (n - 1) / 2)


@once
def drift(one: Series) -> Shift | None:
    """Find a pace that gets slower all along."""
    rows = steady(one)
    if rows.size < 64:
        return None
    took = evened(one)[rows]
    blocks = np.array([float(np.median(part)) for part in np.array_split(took, 8)])
    limit = 1.25 if one.framework in UNEVEN else 1.1
    if tau(blocks) < 0.85 or blocks[-1] < limit * blocks[0]:
        return None
    lost = float(np.sum(np.maximum(took - blocks[0], 0))) * interval(one)
    near = rows.size - 1 - int(np.argmin(np.abs(took[::-1][: max(1, rows.size // 8)] - blocks[-1])))
    return Shift(int(rows[0]), int(rows[near]), int(rows[-1]), float(blocks[0]), float(blocks[-1]), True, lost)


What = Literal["save", "validation", "epoch", "gc", ""]


@dataclass(slots=True)
class Stalls:
    """Steps that take far longer than the others.

    Attributes:
        rows: The rows.
        index: The longest.
        median_ms: Usual step time.
        worst_ms: The longest step time.
        period: Steps from one to the next; 0 where they come irregularly.
        lost_pct: Part of the whole time they cost.
        lost_ms: The time they cost.
        what: What happens at these steps: ``save``, ``validation``, ``epoch`` (a new one begins) or nothing known.
    """

    rows: Rows
    index: int
    median_ms: float
    worst_ms: float
    period: float
    lost_pct: float
    lost_ms: float
    what: What


def _plain_stalls(one: Series, took: Floats, places: Rows, median: float) -> bool:
    """Tell whether a short excerpt shows two stalls at least that nobody would take for scatter."""
    if took.size >= 16 or places.size < 2 or places[0] == 0 or one.framework in UNEVEN:
        return False
    even = np.delete(took, places)
    return bool(np.all(took[places] > 5 * median) and np.ptp(even) <= 0.1 * median)


def stalls(one: Series, events: dict[str, Floats]) -> Stalls | None:
    """Find steps of 1.5 times the median, three at least; in an excerpt two of five times it among even ones.

    Args:
        one: The series.
        events: Steps at which checkpoints were saved, validations run, and Python's garbage was collected, by kind.
    """
    rows = steady(one)
    if rows.size < _FEW_ROWS:
        return None
    took, told = evened(one)[rows], one.get("step_time_ms")[rows]
    median = float(np.median(took))
    limit = 2.5 if one.framework in UNEVEN else 1.5
    places = np.flatnonzero(took > limit * median)
    if places.size > rows.size // 4 or (
        (rows.size < 16 or places.size < 3) and not _plain_stalls(one, took, places, median)
    ):
        return None
    where = one.x[rows[places]]
    gaps = np.diff(where)
    typical = float(np.median(gaps))
    period = typical if typical > 1 and float(np.median(np.abs(gaps - typical))) <= 0.15 * typical else 0.0
    lost = float(np.sum(took[places] - median))
    what: What = ""
    known: tuple[tuple[What, Floats | None], ...] = (
        ("save", events.get("save")),
        ("validation", events.get("validation")),
        ("epoch", _epoch_starts(one)),
        ("gc", events.get("gc") if period else None),
    )
    for kind, at in known:
        if at is not None and at.size:
            near = [bool(np.min(np.abs(at - step)) <= max(1.0, interval(one))) for step in where]
            if np.mean(near) >= 0.6:
                what = kind
                break
    if not what and float(np.percentile(np.delete(took, places), 95)) > (1 + 0.6 * (limit - 1)) * median:
        # Times without a gap between the quick ones and the slow ones scatter; nothing stalls.
        return None
    index = int(rows[places[int(np.argmax(took[places]))]])
    return Stalls(
        rows[places],
        index,
        float(np.median(told)),
        float(told[places].max()),
        period,
        100 * lost / float(took.sum()),
        lost * interval(one),
        what,
    )


def _epoch_starts(one: Series) -> Floats:
    """Return the steps at which a new epoch begins, the first one of the log left out."""
    epoch = one.get("epoch")
    rows = np.flatnonzero(np.isfinite(epoch))
    begun = np.flatnonzero(np.diff(np.floor(epoch[rows])) > 0) + 1
    return one.x[rows[begun]]


@dataclass(slots=True)
class DataShare:
    """Time spent waiting for data, as the lines of steps tell it.

    Attributes:
        index: A typical row.
        share_pct: Part of the time of all steps.
        data_ms: Mean wait per step.
        step_ms: Mean time of a step.
    """

    index: int
    share_pct: float
    data_ms: float
    step_ms: float


def data_share(one: Series, limit_pct: float) -> DataShare | None:
    """Return the share of waiting for data, of 16 rows or more, where it reaches a limit in %.

    Sums, not medians: few steps that wait long are what an empty queue looks like. Of four rows or more, what all of
    them spend half of their time with is said.
    """
    waited, took = one.get("data_ms"), one.get("step_time_ms")
    rows = steady(one)
    rows = rows[np.isfinite(waited[rows])]
    if rows.size < 4:
        return None
    share = 100.0 * float(waited[rows].sum()) / float(took[rows].sum())
    if rows.size < 16 and not bool(np.all(waited[rows] >= 0.5 * took[rows])):
        return None
    if not limit_pct <= share <= 100.0:
        return None
    parts = waited[rows] / took[rows]
    typical = int(rows[int(np.argmin(np.abs(parts - share / 100.0)))])
    return DataShare(typical, share, float(waited[rows].mean()), float(took[rows].mean()))


def slower_start(before: Series, after: Series) -> tuple[int, float, float] | None:
    """Say whether a start of a job is slower by 15 % (40 % where steps differ by nature) than the one before it.

    Both need 16 rows behind their first ones, and the same batch as far as it is told.

    Returns:
        A typical row of the later one, the median step times in ms of both.
    """
    old, new = pace(before), pace(after)
    if old is None or new is None or min(old.rows, new.rows) < 16:
        return None
    batches = [one.get("global_batch_size")[one.has("global_batch_size")] for one in (before, after)]
    if all(batch.size for batch in batches) and np.median(batches[0]) != np.median(batches[1]):
        return None
    limit = 1.4 if after.framework in UNEVEN else 1.15
    if new.median_ms < limit * old.median_ms:
        return None
    rows = steady(after)
    typical = int(np.argmin(np.abs(after.get("step_time_ms")[rows] - new.median_ms)))
    return int(rows[typical]), old.median_ms, new.median_ms


@dataclass(slots=True)
class Silence:
    """A log that goes on without steps.

    Attributes:
        index: Row of the last step.
        seconds: How long it went on.
        usual_s: Usual distance between two lines of steps, NaN where unknown.
        start_us: When the silence began.
    """

    index: int
    seconds: float
    usual_s: float
    start_us: int | None


def silence(one: Series, seconds: float, line: int, start_us: int | None) -> Silence | None:
    """Judge how long a log went on behind its last step.

    Args:
        one: The last series of the file.
        seconds: From the last step, or the first time stamp behind it, to the last time stamp.
        line: Line of the last step.
        start_us: Beginning of the silence.
    """
    at = np.flatnonzero(one.line == line)
    if not at.size or at[-1] != len(one) - 1:
        return None
    if one.total == one.total and one.has_steps and one.x[-1] >= one.total:
        return None
    usual = _cadence(one)
    limit = max(1800.0, (10 if len(one) > 1 else 5) * usual) if math.isfinite(usual) else 3600.0
    if not limit <= seconds < _OTHER_CLOCK_S:
        return None
    return Silence(int(at[-1]), seconds, usual, start_us)


def _cadence(one: Series) -> float:
    """Return the usual seconds from one line to the next, NaN where nothing tells."""
    gaps = np.diff(one.time) / 1e6
    gaps = gaps[np.isfinite(gaps) & (gaps > 0)]
    if gaps.size:
        return float(np.median(gaps))
    took = one.get("step_time_ms")
    took = took[np.isfinite(took)]
    if not took.size:
        return math.nan
    # With a single line, ten steps may lie between two of them.
    return float(np.median(took)) / 1000.0 * (interval(one) if len(one) > 1 else 10.0)


@dataclass(slots=True)
class Pause:
    """A gap in the middle of a log.

    Attributes:
        index: Row behind the longest gap.
        longest_s: The longest gap.
        total_s: All gaps together.
        count: Number of gaps.
        share_pct: Part of the whole time.
    """

    index: int
    longest_s: float
    total_s: float
    count: int
    share_pct: float


def _gaps(one: Series) -> tuple[Floats, Floats, float] | None:
    """Return the seconds from each line of a step to the next, those no step accounts for, and the usual distance."""
    if len(one) < 16 or not one.has_steps:
        return None
    gaps = np.diff(one.time) / 1e6
    took = one.get("step_time_ms")[1:] / 1000.0 * np.diff(one.x)
    usual = float(np.nanmedian(gaps)) if np.isfinite(gaps).any() else math.nan
    if not math.isfinite(usual) or usual <= 0:
        return None
    # A clock that is set forward by days is no pause of the job.
    gaps = np.where(gaps < 30 * 86400, gaps, np.nan)
    return gaps, gaps - np.where(np.isfinite(took), took, usual), usual


def pauses(one: Series, known: Rows | None = None) -> Pause | None:
    """Find time stamps that lie much farther apart than the steps between them took.

    Args:
        one: The series.
        known: Rows behind gaps of which something else is said.
    """
    found = _gaps(one)
    if found is None:
        return None
    gaps, spare, usual = found
    open_ = (gaps > 5 * usual + 60) & (spare > 3 * usual + 60)
    if known is not None:
        open_[known - 1] = False
    long = np.flatnonzero(open_)
    if not long.size:
        return None
    whole = float(np.nansum(np.maximum(gaps, 0)))
    total = float(spare[long].sum())
    return Pause(
        int(long[int(np.argmax(gaps[long]))]) + 1, float(gaps[long].max()), total, int(long.size), 100 * total / whole
    )


def stops(one: Series, events: dict[str, Floats], what: Literal["save", "validation"]) -> Stalls | None:
    """Find time that passes between lines of steps while a checkpoint is saved or a validation runs, twice at least.

    Megatron stops its clock meanwhile: steps look quick, and only their time stamps lie apart. Where both happen
    between two lines, the time is that of the save, less what validations alone take.

    Args:
        one: The series.
        events: Steps at which checkpoints were saved and validations run, by kind.
        what: Which of them.
    """
    found, usual_step = _gaps(one), pace(one)
    if found is None or usual_step is None or what not in events:
        return None
    gaps, spare, usual = found
    saves, validations = _within(one, events.get("save")), _within(one, events.get("validation"))
    alone = validations & ~saves & np.isfinite(spare)
    if what == "save":
        mine = saves
        spare = spare - np.where(validations, float(np.median(spare[alone])) if alone.any() else 0.0, 0.0)
    else:
        mine = alone
    # Stamps of whole seconds are one off at either end.
    places = np.flatnonzero(mine & (spare > 3) & (spare > 0.5 * usual))
    if places.size < 2:
        return None
    lost, longest = float(spare[places].sum()), float(spare[places].max())
    distance = np.diff(one.x[places])
    typical = float(np.median(distance))
    return Stalls(
        places + 1,
        int(places[int(np.argmax(spare[places]))]) + 1,
        usual_step.median_ms,
        1000 * longest + usual_step.median_ms,
        typical if float(np.median(np.abs(distance - typical))) <= 0.15 * typical else 0.0,
        100 * lost / float(np.nansum(np.maximum(gaps, 0))),
        1000 * lost,
        what,
    )


def _within(one: Series, at: Floats | None) -> npt.NDArray[np.bool_]:
    """Return between which lines of steps something happened, by the steps at which it did."""
    if at is None:
        return np.zeros(len(one) - 1, dtype=bool)
    at = np.sort(at[np.isfinite(at)])
    before = np.searchsorted(at, one.x)
    return np.asarray(before[1:] > before[:-1])


def event_steps(store: Store) -> dict[str, dict[str, Floats]]:
    """Return the steps of saves and validations, by file and kind."""
    known: dict[str, dict[str, Floats]] | None = store.memo.get("event_steps")
    if known is not None:
        return known
    columns = store.columns("train_events")
    out: dict[str, dict[str, Floats]] = {}
    kinds = list(columns.texts("kind"))
    if kinds and columns.size:
        codes, files, steps = columns.codes("kind"), columns.codes("file"), columns.numbers("step")
        names = columns.texts("file")
        for kind in ("save", "validation", "end"):
            if kind not in kinds:
                continue
            mine = codes == kinds.index(kind)
            for code in np.unique(files[mine]):
                if code >= 0:
                    out.setdefault(names[code], {})[kind] = np.unique(steps[mine & (files == code)])
    store.memo["event_steps"] = out
    return out


_COLLECTIVE = (
    "all-grads-sync",
    "params-all-gather",
    "grads-all-reduce",
    "grads-reduce-scatter",
    "backward-params-all-reduce",
    "layernorm-grads-all-reduce",
    "optimizer-allreduce",
)
_PIPELINE = (
    # First and last stage share the embedding: what they spend here is mostly waiting for each other.
    "backward-embedding-all-reduce",
    "embedding-grads-all-reduce",
    "forward-recv",
    "backward-recv",
    "forward-send",
    "backward-send",
    "forward-send-backward-recv",
    "backward-send-forward-recv",
    "forward-backward-send-forward-backward-recv",
)


@dataclass(slots=True)
class Timers:
    """What Megatron's timers say of a file.

    Attributes:
        step_ms: Time of a step.
        share_pct: Part of the step of each group: ``collective``, ``pipeline``, ``data``.
        ms: The same in ms.
        worst: The longest timer of each group.
        spread_pct: By how much the slowest rank's forward-backward time exceeds the fastest's; NaN where unknown.
        line: Line of the last timer of each group.
    """

    step_ms: float
    share_pct: dict[str, float]
    ms: dict[str, float]
    worst: dict[str, str]
    spread_pct: float
    line: dict[str, int]


def _usual_ms(one: Series, excerpt: bool) -> float | None:
    """Return the usual time of a step; of an excerpt of few lines, that of the last one behind the tenth step."""
    known = pace(one)
    if known is not None or not excerpt:
        return None if known is None else known.median_ms
    last = float(one.get("step_time_ms")[-1])
    return last if last > 0 and one.has_steps and one.x[-1] > 10 else None


def timers(store: Store, one: Series, *, excerpt: bool = False) -> Timers | None:
    """Read the timers of a file; those of its first lines are left out where there are more.

    Args:
        store: The tables.
        one: The series.
        excerpt: Take the time of the last step for the usual one where there are too few.
    """
    columns = store.columns("train_events")
    kinds, names = list(columns.texts("kind")), list(columns.texts("name"))
    files = list(columns.texts("file"))
    if "timer" not in kinds or one.file not in files:
        return None
    mine = (columns.codes("kind") == kinds.index("timer")) & (columns.codes("file") == files.index(one.file))
    step_ms = _usual_ms(one, excerpt)
    if step_ms is None or not mine.any():
        return None
    codes, values, low, lines = (
        columns.codes("name")[mine],
        columns.numbers("value")[mine],
        columns.numbers("low")[mine],
        columns.numbers("line")[mine],
    )
    typical: dict[str, float] = {}
    last: dict[str, int] = {}
    spread = math.nan
    for code in np.unique(codes):
        if code < 0:
            continue
        rows = np.flatnonzero(codes == code)
        rows = rows[1:] if rows.size > 2 else rows
        name = names[code]
        typical[name] = float(np.median(values[rows]))
        last[name] = int(lines[rows[-1]]) if np.isfinite(lines[rows[-1]]) else 0
        if name in ("forward-backward", "forward-compute") and np.isfinite(low[rows]).any():
            ratio = values[rows] / np.maximum(low[rows], 1e-9)
            spread = 100 * (float(np.nanmedian(ratio)) - 1)
    out = Timers(step_ms, {}, {}, {}, spread, {})
    for group, members in (("collective", _COLLECTIVE), ("pipeline", _PIPELINE), ("data", ("batch-generator",))):
        held = {name: typical[name] for name in members if name in typical}
        if held:
            worst = max(held, key=held.__getitem__)
            out.ms[group] = sum(held.values())
            out.share_pct[group] = 100 * out.ms[group] / step_ms
            out.worst[group] = worst
            out.line[group] = last[worst]
    return out
