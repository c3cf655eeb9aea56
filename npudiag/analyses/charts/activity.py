"""Who logged when: the rank that falls silent first is often the one that the others wait for."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from npudiag.analyses.charts.thin import packed, short
from npudiag.result import Chart, Grid

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_COLUMNS = 120
_LEAST_MINUTES = 4
_MOST_ROWS = 400_000
_EPOCH = datetime(1970, 1, 1)
_UNSET = timedelta(days=400)
_WIDTHS = (1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440)


def activity(store: Store) -> Chart | None:
    """Return rank by time: records per minute (log10 of one more, since bursts are a thousandfold)."""
    ranks = {row["file"]: row["rank"] for row in store.rows("files") if row["rank"] is not None}
    if len(set(ranks.values())) < 2 or store.size("log_counts") > _MOST_ROWS:
        return None
    counts: dict[tuple[int, int], int] = {}
    for row in store.rows("log_counts"):
        rank, minute = ranks.get(row["file"]), row["minute"]
        if rank is None or minute is None or minute - _EPOCH < _UNSET:
            continue
        key = rank, (minute - _EPOCH) // timedelta(minutes=1)
        counts[key] = counts.get(key, 0) + row["count"]
    if len({rank for rank, _ in counts}) < 2:
        return None
    first, last = min(minute for _, minute in counts), max(minute for _, minute in counts)
    span = last - first + 1
    if span < _LEAST_MINUTES or span > _WIDTHS[-1] * _COLUMNS:
        return None
    width = next(width for width in _WIDTHS if span <= width * _COLUMNS)
    rows = sorted({rank for rank, _ in counts})
    row_of = {rank: index for index, rank in enumerate(rows)}
    grid = np.full((len(rows), (span - 1) // width + 1), np.nan)
    for (rank, minute), number in counts.items():
        at = row_of[rank], (minute - first) // width
        grid[at] = number if np.isnan(grid[at]) else grid[at] + number
    shades = np.log10(grid / width + 1)
    high = float(np.nanmax(shades))
    return Chart(
        name="activity",
        kind="grid",
        table="log_counts",
        rows=len(counts),
        start=(_EPOCH + timedelta(minutes=first)).isoformat(timespec="minutes"),
        grid=Grid(
            unit="log10",
            row_name="rank",
            rows=rows,
            column_name="minute",
            columns=[index * width for index in range(grid.shape[1])],
            low=0.0,
            high=short(high) or 0.0,
            cells=packed(shades, 0.0, high),
        ),
    )
