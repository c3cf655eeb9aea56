"""What a comparison needs of a run, small enough to be kept in its result document."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from npudiag.advice.settings import Job, Setting, jobs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from npudiag.analyses.series import Series
    from npudiag.tables.store import Store

VERSION = 1
_MOST_OPTIONS = 800
_MOST_POINTS = 320
_MOST_KERNELS = 60
_MOST_TALKS = 60
_VALUE_CHARS = 300
_UNSET = ("None", "none", "")


class Settings(msgspec.Struct, kw_only=True):
    """The settings of one place: a script's command, an argument dump, the environment."""

    source: str
    """``script``, ``dump``, ``yaml`` or ``env``."""
    file: str = ""
    values: dict[str, tuple[str, int]] = {}
    """Name to value (empty for an option without one) and line."""


class Pace(msgspec.Struct, kw_only=True):
    """How fast a run is by its log, in the middle of its steps."""

    step_ms: float
    p95_ms: float
    steps: int
    rates: dict[str, float] = {}
    """``samples_per_s``, ``tokens_per_s``, ``tflops`` (per card), ``mfu``, ``data_ms``."""


class Parts(msgspec.Struct, kw_only=True):
    """Where the time of a step goes by the profiler, in ms: means over ranks of the medians over steps."""

    step_ms: float
    computing: float
    communication: float
    """That no kernel covers, without waiting for pipeline stages."""
    pipeline: float
    free: float
    overlapped: float
    """Communication under kernels; no part of the step's length."""
    ranks: int
    steps: int


class Kernel(msgspec.Struct, kw_only=True):
    """One type of kernel, per step and rank."""

    type: str
    core: str
    count: float
    ms: float


class Talk(msgspec.Struct, kw_only=True):
    """One kind of communication, per step and rank."""

    parallel: str
    """``dp``, ``tp``, ...; empty where not known."""
    op: str
    count: float
    ms: float
    late_ms: float
    """Waiting for ranks that came later."""
    size_mb: float


class Losses(msgspec.Struct, kw_only=True):
    """The loss of a run over its steps."""

    file: str
    steps: list[float]
    losses: list[float]
    samples: list[float] = []
    """Samples consumed at each step; empty where not known."""
    whole: bool = True
    """False where steps were left out."""


class Snapshot(msgspec.Struct, kw_only=True):
    """A run, as far as a comparison looks at it."""

    version: int = VERSION
    cards: int | None = None
    batch: float | None = None
    """Samples per step over all cards."""
    settings: list[Settings] = []
    versions: dict[str, str] = {}
    pace: Pace | None = None
    parts: Parts | None = None
    kernels: list[Kernel] = []
    talks: list[Talk] = []
    memory: dict[str, float] = {}
    """Peaks in MB by what was measured."""
    losses: Losses | None = None


def take(store: Store, *, cards: int | None = None, points: int | None = _MOST_POINTS) -> Snapshot:
    """Return the snapshot of a run.

    Args:
        store: Its tables.
        cards: Ranks of the job, where the input tells.
        points: Most steps of the loss that are kept; None keeps all.
    """
    captured = store.size("prof_captures") > 0
    return Snapshot(
        cards=cards or _cards(store),
        batch=_batch(store),
        settings=_settings(store) if store.size("launch") or captured else [],
        versions=_versions(store),
        pace=_pace(store) if store.size("train_steps") else None,
        parts=_parts(store) if store.size("prof_steps") else None,
        kernels=_kernels(store) if store.size("prof_kernels") else [],
        talks=_talks(store) if store.size("prof_comm") else [],
        memory=_memory(store),
        losses=_losses(store, points) if store.size("train_steps") else None,
    )


TABLES = ("launch", "train_steps", "prof_captures", "prof_steps", "prof_kernels", "prof_memory")
"""Tables that give a comparison something to look at."""


def of_document(store: Store, cards: int | None) -> dict[str, Any]:
    """Return the snapshot as plain data for a result document; empty where the input has nothing to compare."""
    if all(store.size(table) == 0 for table in TABLES):
        return {}
    found: dict[str, Any] = msgspec.to_builtins(take(store, cards=cards))
    return found


def _cards(store: Store) -> int | None:
    worlds = [row["world_size"] for row in store.rows("prof_captures") if row["world_size"]]
    if worlds:
        return int(max(worlds))
    sizes = [world for job in jobs(store) if not job.tool and (world := job.world)]
    return max(sizes) if sizes else None


# Settings


def _settings(store: Store) -> list[Settings]:
    """Return the settings of the run's main command, dump and configuration, and its environment."""
    found: list[Settings] = []
    every = [job for job in jobs(store) if not job.tool]
    env: dict[str, Setting] = {}
    for source in ("script", "dump", "yaml"):
        of_source = [job for job in every if job.source == source]
        if of_source:
            main = max(of_source, key=lambda job: len(job.options))
            if main.options:
                found.append(_of_job(main))
        for job in of_source:
            env.update(job.env)
    variables = {name: (_short(setting.value), setting.line) for name, setting in env.items() if setting.known}
    file = next((setting.file for setting in env.values()), "")
    for row in store.rows("prof_env") if store.size("prof_env") else ():
        if row["name"] and row["value"]:
            variables.setdefault(str(row["name"]), (_short(str(row["value"])), 0))
    if variables:
        found.append(Settings(source="env", file=file, values=_few(variables)))
    return found


def _of_job(job: Job) -> Settings:
    every = {**job.launcher, **job.options}
    values = {
        name: (_short(setting.value), setting.line)
        for name, setting in every.items()
        if setting.known and not (job.source == "dump" and setting.value in _UNSET)
    }
    return Settings(source=job.source, file=job.file, values=_few(values))


def _few(values: dict[str, tuple[str, int]]) -> dict[str, tuple[str, int]]:
    return dict(sorted(values.items())[:_MOST_OPTIONS])


def _short(value: str) -> str:
    return value if len(value) <= _VALUE_CHARS else value[: _VALUE_CHARS - 1] + "…"


def _versions(store: Store) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for row in store.rows("prof_captures") if store.size("prof_captures") else ():
        for name in ("torch_npu", "cann"):
            if row[name]:
                found.setdefault(name.replace("cann", "CANN"), set()).add(str(row[name]))
    for row in store.rows("host_facts") if store.size("host_facts") else ():
        if row["area"] in ("version", "wheel") and row["value"]:
            name = " ".join(str(row[part]) for part in ("name", "item") if row[part])
            found.setdefault(name, set()).add(str(row["value"]))
    return {name: ", ".join(sorted(values)) for name, values in sorted(found.items())}


# Speed


def _pace(store: Store) -> Pace | None:
    from npudiag.analyses import series, speed

    candidates = [(one, pace) for one in series.timed(store) if (pace := speed.pace(one)) is not None]
    if not candidates:
        return None
    one, pace = max(candidates, key=lambda item: item[1].rows)
    rates = {}
    for name in ("samples_per_s", "tokens_per_s", "tflops", "mfu"):
        for other in (one, *series.primary(store)):
            if (value := _median(other, name)) is not None:
                rates[name] = value
                break
    return Pace(
        step_ms=round(pace.median_ms, 3),
        p95_ms=round(pace.p95_ms, 3),
        steps=pace.rows,
        rates=rates,
    )


def _median(one: Series, name: str) -> float | None:
    import numpy as np

    values = one.get(name)
    values = values[np.isfinite(values)]
    return round(float(np.median(values)), 4) if values.size else None


def _batch(store: Store) -> float | None:
    if store.size("train_steps"):
        from npudiag.analyses import series

        told = [value for one in series.primary(store) if (value := _median(one, "global_batch_size")) is not None]
        if told:
            return told[0]
    numbers = [job.number("--global-batch-size") for job in jobs(store) if not job.tool]
    return next((float(number) for number in numbers if number), None)


def _parts(store: Store) -> Parts | None:
    from statistics import fmean  # loads half the numbers of Python; few runs have a profile

    from npudiag.analyses import profile_bound

    found = profile_bound.jobs(store.rows("prof_steps"), store.rows("prof_comm"))
    if not found:
        return None
    job = max(found, key=lambda item: len(item.ranks))
    step = fmean(rank.e2e_ms for rank in job.ranks)
    pipeline = job.shares["pipeline"] * step / 100
    uncovered = fmean(rank.communication_ms for rank in job.ranks)
    return Parts(
        step_ms=round(step, 4),
        computing=round(fmean(rank.computing_ms for rank in job.ranks), 4),
        communication=round(max(uncovered - pipeline, 0.0), 4),
        pipeline=round(min(pipeline, uncovered), 4),
        free=round(fmean(rank.free_ms for rank in job.ranks), 4),
        overlapped=round(fmean(rank.overlapped * rank.e2e_ms / 100 for rank in job.ranks), 4),
        ranks=len(job.ranks),
        steps=job.steps,
    )


def _kernels(store: Store) -> list[Kernel]:
    """Return the kernels of a step, means over the ranks that were captured."""
    per_rank = _steps_of_ranks(store)
    ranks = max(len(per_rank), 1)
    sums: dict[tuple[str, str], list[float]] = {}
    for row in store.rows("prof_kernels"):
        if row["core"] == "COMMUNICATION":
            # Told by the communication itself.
            continue
        steps = per_rank.get((row["job"], row["rank"]), 1)
        total = sums.setdefault((row["type"] or "?", row["core"] or ""), [0.0, 0.0])
        total[0] += (row["count"] or 0) / steps / ranks
        total[1] += (row["total_us"] or 0.0) / 1e3 / steps / ranks
    found = [
        Kernel(type=kind, core=core, count=round(count, 2), ms=round(ms, 5))
        for (kind, core), (count, ms) in sums.items()
    ]
    return sorted(found, key=lambda kernel: -kernel.ms)[:_MOST_KERNELS]


def _steps_of_ranks(store: Store) -> dict[tuple[Any, Any], int]:
    """Return how many steps each captured rank has; one where the capture has none."""
    found: dict[tuple[Any, Any], set[Any]] = {}
    for row in store.rows("prof_steps") if store.size("prof_steps") else ():
        found.setdefault((row["job"], row["rank"]), set()).add(row["step"])
    for row in store.rows("prof_captures"):
        if row["used"] is not False:
            found.setdefault((row["job"], row["rank"]), {None})
    return {who: len(steps) for who, steps in found.items()}


def _talks(store: Store) -> list[Talk]:
    rows = store.rows("prof_comm")
    ranks = max(len({(row["job"], row["rank"]) for row in rows}), 1)
    sums: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        steps = max(row["steps"] or 1, 1)
        total = sums.setdefault((row["parallel"] or "", row["op"] or "?"), [0.0] * 4)
        for at, column in enumerate(("count", "elapse_ms", "late_ms", "size_mb")):
            total[at] += (row[column] or 0.0) / steps / ranks
    found = [
        Talk(
            parallel=parallel,
            op=op,
            count=round(total[0], 2),
            ms=round(total[1], 5),
            late_ms=round(total[2], 5),
            size_mb=round(total[3], 3),
        )
        for (parallel, op), total in sums.items()
    ]
    return sorted(found, key=lambda talk: -talk.ms)[:_MOST_TALKS]


def _memory(store: Store) -> dict[str, float]:
    """Return peaks in MB: of the worst rank."""
    found: dict[str, float] = {}

    def peak(name: str, values: Iterable[float | None]) -> None:
        known = [value for value in values if value is not None and math.isfinite(value)]
        if known:
            found[name] = round(max(known), 1)

    if store.size("prof_memory"):
        rows = store.rows("prof_memory")
        for component in sorted({row["component"] for row in rows if row["component"]}):
            of = [row for row in rows if row["component"] == component]
            peak(f"{component} reserved", (row["peak_reserved_mb"] for row in of))
            peak(f"{component} allocated", (row["peak_allocated_mb"] for row in of))
    for table, column, name in (
        ("train_steps", "memory_mb", "training log"),
        ("npu_samples", "hbm_used_mb", "npu-smi"),
    ):
        if store.size(table) and store.columns(table).has(column):
            values = store.columns(table).numbers(column)
            # Long logs have millions of rows: the maximum is found where they lie.
            peak(name, [float(values[values == values].max(initial=-math.inf))])
    return found


def _losses(store: Store, points: int | None) -> Losses | None:
    import numpy as np

    from npudiag.analyses import series

    found = [one for one in series.primary(store) if one.has_steps and np.isfinite(one.get("loss")).sum() > 1]
    if not found:
        return None
    one = max(found, key=len)
    kept = np.flatnonzero(one.has("loss"))
    steps = one.x[kept]
    stride = 1
    # Powers of two, so that of two runs one's steps are among the other's.
    while points is not None and kept.size // stride > points:
        stride *= 2
    if stride > 1:
        kept = kept[steps.astype(np.int64) % stride == 0]
    consumed = _consumed(store, one, kept)
    return Losses(
        file=one.file,
        steps=one.x[kept].tolist(),
        losses=one.get("loss")[kept].tolist(),
        samples=consumed.tolist() if consumed is not None else [],
        whole=stride == 1,
    )


def _consumed(store: Store, one: Series, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64] | None:
    """Return the samples consumed at rows of a series; None where the log does not tell."""
    import numpy as np

    columns = store.columns("train_steps")
    if not columns.has("consumed_samples") or one.file not in columns.texts("file"):
        return None
    mine = columns.codes("file") == list(columns.texts("file")).index(one.file)
    lines, consumed = columns.numbers("line")[mine], columns.numbers("consumed_samples")[mine]
    order = np.argsort(lines, kind="stable")
    at = np.searchsorted(lines[order], one.line[rows])
    values = consumed[order[np.minimum(at, order.size - 1)]]
    return values if np.isfinite(values).all() else None
