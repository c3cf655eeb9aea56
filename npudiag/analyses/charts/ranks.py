"""Charts that set ranks against each other: where the time of a step goes, who computes longer, who needs memory."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npudiag.analyses.charts.thin import bounds, packed, short
from npudiag.result import Chart, Curve, Grid, Panel

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudiag.tables.store import Store

    Floats = npt.NDArray[np.float64]

_COLUMNS = 200
_WORKER_RANK = re.compile(r"(?:rank\W?)?(\d{1,5})\Z", re.IGNORECASE)


def _of_largest_job(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the job with most ranks."""
    jobs: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        if row["rank"] is not None:
            jobs[row["job"] or ""].add(row["rank"])
    if not jobs:
        return []
    name = max(jobs, key=lambda job: len(jobs[job]))
    return [row for row in rows if row["rank"] is not None and (row["job"] or "") == name]


def breakdown(store: Store) -> Chart | None:
    """Return per rank how much of a step is computing, communication, pipeline bubble and free time, in ms.

    The mean over the steps captured; the last one, whose free time ends with the profiler, counts where it is alone.
    """
    rows = [
        row for row in _of_largest_job(store.rows("prof_steps")) if row["e2e_us"] and row["computing_us"] is not None
    ]
    by_rank: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_rank[row["rank"]].append(row)
    if not by_rank:
        return None
    ranks = sorted(by_rank)
    parts: dict[str, list[float]] = {"computing": [], "communication": [], "bubble": [], "free": []}
    for rank in ranks:
        own = [row for row in by_rank[rank] if not row["last"]] or by_rank[rank]
        means = {name: float(np.mean([row[name] or 0.0 for row in own])) for name in _PARTS}
        parts["computing"].append(means["computing_us"])
        parts["bubble"].append(means["bubble_us"])
        # Receiving from another stage is part of the communication that nothing covers.
        parts["communication"].append(max(0.0, means["comm_not_overlapped_us"] - means["bubble_us"]))
        parts["free"].append(means["free_us"])
    curves = [
        Curve(name=name, values=[short(value / 1000) for value in values])
        for name, values in parts.items()
        if any(values)
    ]
    return Chart(
        name="breakdown",
        kind="bars",
        table="prof_steps",
        rows=len(rows),
        x_name="rank",
        x=[float(rank) for rank in ranks],
        panels=[Panel(name="step_ms", unit="ms", curves=curves)],
    )


_PARTS = ("computing_us", "comm_not_overlapped_us", "bubble_us", "free_us")


def memory(store: Store) -> Chart | None:
    """Return per rank the most memory in use and what the framework held beyond it, in MiB."""
    rows = [
        row
        for row in _of_largest_job(store.rows("prof_memory"))
        if row["component"] == "PTA" and row["peak_reserved_mb"] is not None and row["peak_allocated_mb"] is not None
    ]
    peaks = {row["rank"]: (row["peak_allocated_mb"], row["peak_reserved_mb"]) for row in rows}
    if not peaks:
        return None
    ranks = sorted(peaks)
    return Chart(
        name="memory_peaks",
        kind="bars",
        table="prof_memory",
        rows=len(rows),
        x_name="rank",
        x=[float(rank) for rank in ranks],
        panels=[
            Panel(
                name="memory",
                unit="MB",
                curves=[
                    Curve(name="allocated", values=[short(peaks[rank][0]) for rank in ranks]),
                    Curve(name="reserved", values=[short(max(0.0, peaks[rank][1] - peaks[rank][0])) for rank in ranks]),
                ],
            )
        ],
    )


def skew(store: Store) -> list[Chart]:
    """Return rank by step: the time each rank computes in the profile, and the step time each rank logs itself."""
    found = [
        _grid("skew", "prof_steps", _profiled(store)) if store.size("prof_steps") else None,
        _grid("step_times", "train_steps", _logged(store)),
    ]
    return [chart for chart in found if chart is not None]


def _grid(name: str, table: str, cells: dict[tuple[int, int], float]) -> Chart | None:
    ranks, steps = sorted({rank for rank, _ in cells}), sorted({step for _, step in cells})
    if len(ranks) < 2 or len(steps) < 2:
        return None
    together = -(-len(steps) // _COLUMNS)
    place = {step: index // together for index, step in enumerate(steps)}
    row_of = {rank: index for index, rank in enumerate(ranks)}
    grid = np.full((len(ranks), place[steps[-1]] + 1), np.nan)
    for (rank, step), value in cells.items():
        at = row_of[rank], place[step]
        grid[at] = np.fmax(grid[at], value)
    low, high = bounds(grid)
    return Chart(
        name=name,
        kind="grid",
        table=table,
        rows=len(cells),
        grid=Grid(
            unit="ms",
            row_name="rank",
            rows=ranks,
            column_name="step",
            columns=steps[::together],
            low=short(low) or 0.0,
            high=short(high) or 0.0,
            cells=packed(grid, low, high),
        ),
    )


def _profiled(store: Store) -> dict[tuple[int, int], float]:
    return {
        (row["rank"], row["step"]): row["computing_us"] / 1000
        for row in _of_largest_job(store.rows("prof_steps"))
        if row["step"] is not None and row["computing_us"] is not None
    }


def _logged(store: Store) -> dict[tuple[int, int], float]:
    """Return step times by rank and step where several ranks log their own."""
    columns = store.columns("train_steps")
    if not columns.size or not columns.has("step_time_ms") or not columns.has("step"):
        return {}
    of_file = {row["file"]: row["rank"] for row in store.rows("files") if row["rank"] is not None}
    file_ranks = [of_file.get(name, -1) for name in columns.texts("file")]
    worker_ranks = [int(match[1]) if (match := _WORKER_RANK.search(name)) else -1 for name in columns.texts("worker")]
    by_file = np.array([*file_ranks, -1], dtype=np.int64)[columns.codes("file")]
    by_worker = np.array([*worker_ranks, -1], dtype=np.int64)[columns.codes("worker")]
    rank = np.where(by_worker >= 0, by_worker, by_file)
    took, step = columns.numbers("step_time_ms"), columns.numbers("step")
    good = (rank >= 0) & np.isfinite(took) & (took > 0) & np.isfinite(step)
    if np.unique(rank[good]).size < 2:
        return {}
    # Of a step that was done again after a restart, the last time counts.
    return {(int(a), int(b)): float(c) for a, b, c in zip(rank[good], step[good], took[good], strict=True)}
