"""The matrix of links between ranks."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from npudiag.analyses.charts.thin import packed, short
from npudiag.result import Chart, Grid

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_RANKS = 256
_LEAST = 2


def matrices(store: Store) -> list[Chart]:
    """Return, per transport, the bandwidth between each two ranks in GB/s: all data by all transfer time.

    Where ranks are too many, neighbours share a cell, which shows the slowest of their links.
    """
    sums: dict[tuple[str, str], dict[tuple[int, int], list[float]]] = defaultdict(dict)
    for row in store.rows("prof_links"):
        src, dst, speed = row["src"], row["dst"], row["bandwidth_gbps"]
        # Ranks numbered within a group are not those of the job.
        if row["group"] is not None or row["transport"] in (None, "LOCAL") or src is None or dst is None or src == dst:
            continue
        if not speed or not row["size_mb"]:
            continue
        size = float(row["size_mb"])
        held = sums[row["job"] or "", row["transport"]].setdefault((src, dst), [0.0, 0.0])
        held[0] += size
        held[1] += size / float(speed)
    best: dict[str, dict[tuple[int, int], list[float]]] = {}
    for (_, transport), links in sums.items():
        if len(links) > len(best.get(transport, ())):
            best[transport] = links
    return [_matrix(name, links) for name, links in sorted(best.items()) if len(links) >= _LEAST]


def _matrix(transport: str, links: dict[tuple[int, int], list[float]]) -> Chart:
    ranks = sorted({rank for pair in links for rank in pair})
    together = -(-len(ranks) // _RANKS)
    place = {rank: index // together for index, rank in enumerate(ranks)}
    side = place[ranks[-1]] + 1
    grid = np.full((side, side), np.nan)
    for (src, dst), (size, took) in links.items():
        at = place[src], place[dst]
        grid[at] = np.fmin(grid[at], size / took)
    high = float(np.nanmax(grid))
    named = ranks[::together]
    return Chart(
        name="links",
        kind="grid",
        about=transport,
        table="prof_links",
        rows=len(links),
        grid=Grid(
            unit="GB/s",
            row_name="sender",
            rows=named,
            column_name="receiver",
            columns=named,
            low=0.0,
            high=short(high) or 0.0,
            cells=packed(grid, 0.0, high),
        ),
    )
