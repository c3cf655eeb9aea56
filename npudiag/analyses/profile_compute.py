"""Kernels against what the chip can do, and experts against each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npudiag.analyses.profile_chips import peak_flops

if TYPE_CHECKING:
    from npudiag.analyses.profile import Capture

Row = dict[str, Any]
Groups = Mapping[str, tuple[str, tuple[int, ...]]]
_TOLD = 0.8
"""Share of the cube kernels' time whose operations have to be known: convolutions, for one, are not counted."""
_EXPERTS = re.compile(r"(?i)^(?:ep|exp|expert|moe)")


def against_peak(
    captures: Iterable[Capture], kernels: Iterable[Row], spans: Mapping[int | None, tuple[float, int]]
) -> None:
    """Set how much of the chip's peak kernels and whole captures reach, where shapes and chip are known.

    Args:
        captures: Captures of one job.
        kernels: Rows of ``prof_kernels`` of that job.
        spans: Rank to the length of all its steps (us) and their number.
    """
    peaks: dict[int | None, float] = {}
    cores: dict[int | None, tuple[int | None, int | None]] = {}
    for capture in captures:
        peak = peak_flops(capture.facts)
        if peak is not None:
            peaks[capture.rank] = peak
            capture.facts["peak_tflops"] = peak / 1e12
        cores[capture.rank] = capture.facts.get("cores"), capture.facts.get("vector_cores")
    done: dict[int | None, float] = {}
    told: dict[int | None, float] = {}
    busy: dict[int | None, float] = {}
    for row in kernels:
        if row.get("core") in ("AI_CORE", "MIX_AIC"):
            busy[row["rank"]] = busy.get(row["rank"], 0.0) + row["total_us"]
        cube, vector = cores.get(row["rank"], (None, None))
        row["cores"] = vector if row.get("core") in ("AI_VECTOR_CORE", "MIX_AIV") else cube
        peak = peaks.get(row["rank"])
        if not row.get("flops") or peak is None:
            continue
        done[row["rank"]] = done.get(row["rank"], 0.0) + row["flops"]
        if row.get("flops_us"):
            told[row["rank"]] = told.get(row["rank"], 0.0) + row["flops_us"]
            row["peak_pct"] = 100 * row["flops"] / (row["flops_us"] / 1e6 * peak)
    for capture in captures:
        total, count = spans.get(capture.rank, (0.0, 0))
        known = told.get(capture.rank, 0.0) >= _TOLD * busy.get(capture.rank, 0.0)
        if total and count and capture.rank in done and known:
            capture.facts["mfu_pct"] = 100 * done[capture.rank] / (total / 1e6 * peaks[capture.rank])


def experts(job: str, kernels: Sequence[Row], groups: Groups) -> list[Row]:
    """Return the rows of ``prof_experts``: what each rank of an expert parallel group had to multiply."""
    mine: dict[int, Row] = {}
    for row in kernels:
        if row.get("tokens") and row.get("rank") is not None:
            total = mine.setdefault(row["rank"], {"file": row["file"], "tokens": 0, "total_us": 0.0, "share_pct": 0.0})
            total["tokens"] += row["tokens"]
            total["total_us"] += row["total_us"]
            total["share_pct"] += row.get("share_pct") or 0.0
    out: list[Row] = []
    seen: set[tuple[int, ...]] = set()
    for name, ranks in groups.values():
        if not _EXPERTS.search(name) or ranks in seen or len(ranks) < 2 or not all(rank in mine for rank in ranks):
            continue
        seen.add(ranks)
        mean = sum(mine[rank]["tokens"] for rank in ranks) / len(ranks)
        for rank in ranks:
            row = mine[rank]
            over = row["tokens"] / mean - 1 if mean else 0.0
            out.append(
                {
                    **row,
                    "job": job,
                    "rank": rank,
                    "group": ",".join(map(str, ranks))[:200],
                    "ranks": len(ranks),
                    "over_pct": 100 * over,
                    # The share of its products beyond the mean is what the others of the group wait for.
                    "cost_pct": row["share_pct"] * over / (1 + over) if over > 0 else 0.0,
                }
            )
    return out
