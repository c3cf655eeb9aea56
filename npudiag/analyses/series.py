"""Training steps as series: one per start of a job, with what is needed to judge and to quote them.

Where several ranks print the same line, the rank with most lines speaks for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from npudiag.result import Evidence

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudiag.tables.store import Store

    Floats = npt.NDArray[np.float64]
    Bools = npt.NDArray[np.bool_]

_POINTS = 160
_AROUND = 24
_HUGE = 1e100
_MEMO = "series"
_SECONDARY = ("tqdm", "deepspeed")
"""Kinds of line that only repeat, or complete, what another kind in the same file tells."""
_BARS = "tqdm"
_FINER = 4
"""How many times the rows of the trainer a progress bar must have for its step times to be taken instead."""


@dataclass(slots=True)
class Series:
    """The steps of one start of a job, in order.

    Attributes:
        file: Where they stand.
        framework: Kind of line.
        run: Number of the start in the file.
        line: Line of each step.
        x: Step number; where the lines have none, their position from 1.
        has_steps: Whether `x` are step numbers.
        time: Microseconds since 1970, NaN where there is none.
        told: By column, which rows have a value; NaN is a value.
        values: By column, the values.
        memo: What analyses found out already.
    """

    file: str
    framework: str
    run: int
    line: Floats
    x: Floats
    has_steps: bool
    time: Floats
    total: float
    told: dict[str, Bools]
    values: dict[str, Floats]
    memo: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.x.size)

    def get(self, name: str) -> Floats:
        """Return a column, NaN where missing."""
        found = self.values.get(name)
        return found if found is not None else np.full(len(self), np.nan)

    def has(self, name: str) -> Bools:
        """Return which rows have a value in a column."""
        found = self.told.get(name)
        return found if found is not None else np.zeros(len(self), dtype=bool)

    def step(self, index: int) -> int:
        """Return the step number at a row."""
        return int(self.x[index])

    @property
    def from_start(self) -> bool:
        """Whether it begins with the first steps of a training, not with a later excerpt."""
        if not self.has_steps:
            return False
        interval = float(np.median(np.diff(self.x))) if len(self) > 1 else 1.0
        return bool(self.x[0] <= max(2.0, interval))


T = TypeVar("T")


def once(analyse: Callable[[Series], T]) -> Callable[[Series], T]:
    """Make an analysis remember its answer with the series: several rules ask."""

    @wraps(analyse)
    def answer(one: Series) -> T:
        name = f"{analyse.__module__}.{analyse.__name__}"
        if name not in one.memo:
            one.memo[name] = analyse(one)
        found: T = one.memo[name]
        return found

    return answer


_WANTED = (
    "loss",
    "grad_norm",
    "lr",
    "loss_scale",
    "step_time_ms",
    "data_ms",
    "samples_per_s",
    "tokens_per_s",
    "tflops",
    "mfu",
    "skipped",
    "nan_iterations",
    "memory_mb",
    "generate_ms",
    "update_ms",
    "reward",
    "entropy",
    "policy_kl",
    "cut_pct",
    "epoch",
    "global_batch_size",
    "consumed_tokens",
)


def build(store: Store) -> list[Series]:
    """Return all series of the store, worked out once."""
    known: list[Series] | None = store.memo.get(_MEMO)
    if known is None:
        known = store.memo[_MEMO] = _build(store)
    return known


def primary(store: Store) -> list[Series]:
    """Return the series without those that only repeat what another kind of line in the same file tells."""
    found = build(store)
    rich = {one.file for one in found if one.framework not in _SECONDARY and len(one) > 1}
    return [one for one in found if one.framework not in _SECONDARY or one.file not in rich]


def timed(store: Store) -> list[Series]:
    """Return, per file, the series that tell the time of a step best."""
    found = [one for one in build(store) if one.has("step_time_ms").sum() > 0]
    rows: dict[str, Counter[str]] = {}
    for one in found:
        rows.setdefault(one.file, Counter())[one.framework] += len(one)
    bars, rich = set(), set()
    for file, counts in rows.items():
        told = {kind: count for kind, count in counts.items() if kind not in _SECONDARY}
        if told:
            rich.add(file)
        # HF's trainer logs every tenth step, say, and its bar tells each of them.
        if set(told) == {"hf"} and counts[_BARS] >= _FINER * told["hf"]:
            bars.add(file)
    return [
        one
        for one in found
        if (one.framework == _BARS if one.file in bars else one.framework not in _SECONDARY or one.file not in rich)
    ]


def _build(store: Store) -> list[Series]:
    columns = store.columns("train_steps")
    if not columns.size:
        return []
    files, frameworks = columns.codes("file"), columns.codes("framework")
    workers = columns.codes("worker")
    numbered = columns.numbers("run")
    runs = np.where(np.isnan(numbered), 0, numbered).astype(np.int64)
    names, kinds = columns.texts("file"), columns.texts("framework")
    steps = columns.numbers("step")
    lines = columns.numbers("line")
    times = columns.numbers("time")
    totals = columns.numbers("total_steps")
    told = {name: columns.present(name) for name in _WANTED if columns.has(name)}
    values = {name: bounded(columns.numbers(name)) for name in told}
    out: list[Series] = []
    stream = (files + 1) * (frameworks.max() + 2) + frameworks + 1
    stream = stream * (int(runs.max()) + 1) + runs
    for key in np.unique(stream):
        rows = np.flatnonzero(stream == key)
        spoken = workers[rows]
        if spoken.size and spoken.min() != spoken.max():
            kept, counts = np.unique(spoken, return_counts=True)
            rows = rows[spoken == kept[int(np.argmax(counts))]]
        here = steps[rows]
        has_steps = bool(np.isfinite(here).all())
        if has_steps and rows.size > 1:
            # The same step twice is the same line printed twice, except where lines have different columns.
            fresh = np.concatenate(([True], np.diff(here) != 0))
            if not fresh.all() and _same_columns(told, rows, fresh):
                rows, here = rows[fresh], here[fresh]
        code, kind = int(files[rows[0]]), int(frameworks[rows[0]])
        total = totals[rows]
        total = total[np.isfinite(total)]
        # The rows of one start stand together as a rule: views of them cost no memory.
        together = int(rows[-1] - rows[0]) == rows.size - 1
        part: slice | npt.NDArray[np.int64] = slice(int(rows[0]), int(rows[-1]) + 1) if together else rows
        one = Series(
            file=names[code] if code >= 0 else "",
            framework=kinds[kind] if kind >= 0 else "",
            run=int(runs[rows[0]]),
            line=lines[part],
            x=here if has_steps else np.arange(1, rows.size + 1, dtype=np.float64),
            has_steps=has_steps,
            time=times[part],
            total=float(total[-1]) if total.size else float("nan"),
            told={name: mask[part] for name, mask in told.items()},
            values={name: column[part] for name, column in values.items()},
        )
        out.append(_paced(one))
    return out


def _paced(one: Series) -> Series:
    """Give a series without step times those that its time stamps tell; stamps of whole seconds tell too little."""
    size = len(one)
    if not one.has_steps or size < 3 or one.has("step_time_ms").any() or not np.isfinite(one.time).all():
        return one
    if not (one.time % 1_000_000 != 0).any():
        return one
    ahead, took = np.diff(one.x), np.diff(one.time) / 1000.0
    good = (ahead > 0) & (took > 0)
    values = np.full(size, np.nan)
    values[1:][good] = took[good] / ahead[good]
    one.values = {**one.values, "step_time_ms": values}
    one.told = {**one.told, "step_time_ms": np.isfinite(values)}
    return one


def _same_columns(told: Mapping[str, Bools], rows: npt.NDArray[np.int64], fresh: Bools) -> bool:
    """Whether rows that repeat a step have no column the first one lacks."""
    again = np.flatnonzero(~fresh)
    return all(not (mask[rows[again]] & ~mask[rows[again - 1]]).any() for mask in told.values())


def quote(store: Store, one: Series, index: int, label: str = "", marks: Sequence[str] = ()) -> Evidence | None:
    """Return the log line of a step, or the nearest one whose text was kept.

    Args:
        store: The tables.
        one: The series.
        index: Row in it.
        label: What the line shows.
        marks: What to highlight in it.
    """
    kept = store.quotes.get(one.file)
    if not kept or not np.isfinite(one.line[index]):
        return None
    line = int(one.line[index])
    if line not in kept:
        nearest = min(kept, key=lambda other: abs(other - line))
        at = np.flatnonzero(one.line == nearest)
        if not at.size:
            return None
        line = nearest
    text = kept[line]
    shown = store.quotes_by_step.get(one.file, {}).get(line)
    if shown and one.has_steps:
        text = shown[min(shown, key=lambda step: abs(step - one.x[index]))]
    return Evidence(
        kind="log",
        path=one.file,
        line=line,
        text=text,
        label=label,
        highlights=[mark for mark in marks if mark in text],
    )


def curve(one: Series, columns: Sequence[str], flagged: Sequence[int] = (), label: str = "") -> Evidence | None:
    """Return a plot of columns over the steps: evenly thinned, whole around what is flagged."""
    if len(one) < 4:
        return None
    keep = np.ones(len(one), dtype=bool)
    names = [name for name in columns if one.has(name).any()]
    for name in names[:1]:
        keep &= np.isfinite(one.get(name))
    usable = np.flatnonzero(keep)
    if not names or usable.size < 4:
        return None
    chosen = set(usable[np.linspace(0, usable.size - 1, min(_POINTS, usable.size)).astype(int)].tolist())
    for index in list(flagged)[:8]:
        chosen.update(usable[(usable >= index - _AROUND) & (usable <= index + _AROUND)].tolist())
    marked = set(flagged)
    rows: list[dict[str, Any]] = []
    previous = float("-inf")
    for index in sorted(chosen):
        step = float(one.x[index])
        if step <= previous:
            continue
        previous = step
        row: dict[str, Any] = {"step": int(step)}
        for name in names:
            value = float(one.get(name)[index])
            if np.isfinite(value):
                row[name] = round(value, 9)
        if index in marked:
            row["anomaly"] = True
        rows.append(row)
    return Evidence(kind="series", path=one.file, rows=rows, label=label or " and ".join(names))


def present(*items: Evidence | None) -> list[Evidence]:
    """Return the evidence that there is."""
    return [item for item in items if item is not None]


def baseline(values: Floats, window: int = 128, least: int = 16) -> tuple[Floats, Floats]:
    """Return median and robust deviation (1.4826 x MAD) of the values before each row.

    Short series get a window that slides by one row, long ones by a quarter of the window: a spike of a few rows
    moves neither. Rows with fewer than `least` values before them get NaN.

    Args:
        values: Finite values.
        window: Rows looked back at.
        least: Fewest rows to judge by.
    """
    n = values.size
    middle = np.full(n, np.nan)
    spread = np.full(n, np.nan)
    stride = 1 if n <= 8192 else window // 4
    for at in range(least, min(window, n), stride):
        past = values[:at]
        middle[at : at + stride] = np.median(past)
        spread[at : at + stride] = 1.4826 * np.median(np.abs(past - np.median(past)))
    if n > window:
        windows = np.lib.stride_tricks.sliding_window_view(values, window)[: n - window : stride]
        for begin in range(0, windows.shape[0], 4096):
            part = windows[begin : begin + 4096]
            medians = np.median(part, axis=1)
            deviations = 1.4826 * np.median(np.abs(part - medians[:, None]), axis=1)
            start = window + begin * stride
            stop = min(n, start + part.shape[0] * stride)
            middle[start:stop] = np.repeat(medians, stride)[: stop - start]
            spread[start:stop] = np.repeat(deviations, stride)[: stop - start]
    return middle, spread


def bounded(values: Floats) -> Floats:
    """Return values of which none is so large that its square overflows; what is not finite stays so."""
    huge = (np.abs(values) > _HUGE) & np.isfinite(values)
    return np.where(huge, np.copysign(_HUGE, values), values) if huge.any() else values


def groups(rows: npt.NDArray[np.int64], gap: int, least: int = 1) -> list[tuple[int, int]]:
    """Return first and last of each group of row numbers that lie no more than `gap` apart.

    Args:
        rows: Row numbers, upwards.
        gap: Farthest that neighbours in a group are apart.
        least: Row numbers that a group must have.
    """
    if not rows.size:
        return []
    cuts = np.flatnonzero(np.diff(rows) > gap)
    starts = np.concatenate(([0], cuts + 1))
    stops = np.concatenate((cuts, [rows.size - 1]))
    large = stops - starts + 1 >= least
    starts, stops = starts[large], stops[large]
    return [(int(rows[a]), int(rows[b])) for a, b in zip(starts, stops, strict=True)]
