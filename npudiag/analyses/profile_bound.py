"""What a job's steps are bound by: the shares of the step time, per rank, stage and job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

Row = Mapping[str, Any]

_LITTLE = 10.0
"""Percent of the step below which a loss bounds nothing."""
LOSSES = ("communication", "host", "pipeline", "input")


@dataclass(slots=True)
class Rank:
    """Shares of one rank's step time in percent, the median over its steps.

    Attributes:
        e2e_ms: Length of a step.
        worst: The row with the largest uncovered communication, and so on, by name of the share.
    """

    rank: int | None
    stage: int | None
    steps: int
    e2e_ms: float
    computing: float
    communication: float
    overlapped: float
    free: float
    bubble: float
    preparing: float
    computing_ms: float
    free_ms: float
    communication_ms: float
    rows: list[Row] = field(default_factory=list)

    @property
    def own_ms(self) -> float:
        """Time that the rank does not spend in communication: what makes others wait for it."""
        return self.computing_ms + self.free_ms


@dataclass(slots=True)
class Job:
    """All ranks of a job with their mean shares in percent.

    Attributes:
        shares: communication, host, pipeline, input, computing, overlapped to percent of the step time.
        steps: Most steps that a rank has.
    """

    name: str
    ranks: list[Rank]
    shares: dict[str, float]
    e2e_ms: float
    steps: int

    def stage(self, number: int | None) -> list[Rank]:
        """Return the ranks of a pipeline stage."""
        return [rank for rank in self.ranks if rank.stage == number]


def jobs(steps: Iterable[Row], comm: Iterable[Row] = ()) -> list[Job]:
    """Return the jobs in the rows of ``prof_steps``.

    Args:
        steps: Rows of ``prof_steps``.
        comm: Rows of ``prof_comm``: point-to-point waiting between stages, which steps do not always count as bubble.
    """
    by_job: dict[str, dict[int | str, list[Row]]] = {}
    for row in steps:
        if row.get("e2e_us"):
            # Captures that do not tell their rank are still captures of several.
            who = row["rank"] if row.get("rank") is not None else str(row.get("file"))
            by_job.setdefault(str(row.get("job") or ""), {}).setdefault(who, []).append(row)
    waits: dict[str, dict[int | None, float]] = {}
    for row in comm:
        if row.get("late_pct") is not None and (row.get("parallel") == "pp" or (row.get("p2p") and _receives(row))):
            mine = waits.setdefault(str(row.get("job") or ""), {})
            mine[row.get("rank")] = mine.get(row.get("rank"), 0.0) + row["late_pct"]
    return [_job(name, ranks, waits.get(name, {})) for name, ranks in by_job.items()]


def _receives(row: Row) -> bool:
    return str(row.get("op") or "").lower() in ("batchsendrecv", "receive", "recv")


def _job(name: str, by_rank: Mapping[int | str, Sequence[Row]], waits: Mapping[int | None, float]) -> Job:
    ranks = [_rank(rows[0].get("rank"), rows) for rows in by_rank.values()]
    count = len(ranks)
    if sum(rank.bubble for rank in ranks) < count:
        # Batched send and receive are no bubble to the profiler. What a rank waits in them, beyond the rank of the pair
        # that spends least, is; but no more of it than no kernel covers.
        for rank in ranks:
            rank.bubble = max(rank.bubble, min(waits.get(rank.rank, 0.0), rank.communication))

    def mean(values: Iterable[float]) -> float:
        return sum(values) / count

    bubble = mean(rank.bubble for rank in ranks)
    shares = {
        # Waiting to receive is part of the uncovered communication, and told apart from it.
        "communication": mean(max(rank.communication - rank.bubble, 0.0) for rank in ranks),
        "host": mean(rank.free for rank in ranks),
        "pipeline": bubble,
        "input": mean(rank.preparing for rank in ranks),
        "computing": mean(rank.computing for rank in ranks),
        "overlapped": mean(rank.overlapped for rank in ranks),
    }
    return Job(name, ranks, shares, mean(rank.e2e_ms for rank in ranks), max(rank.steps for rank in ranks))


def _rank(rank: int | None, rows: Sequence[Row]) -> Rank:
    def share(column: str) -> float:
        return float(median(100 * (row.get(column) or 0.0) / row["e2e_us"] for row in rows))

    def length(column: str) -> float:
        return float(median((row.get(column) or 0.0) / 1e3 for row in rows))

    return Rank(
        rank=rank,
        stage=next((row["pp_stage"] for row in rows if row.get("pp_stage") is not None), None),
        steps=len({row.get("step") for row in rows}),
        e2e_ms=length("e2e_us"),
        computing=share("computing_us"),
        communication=share("comm_not_overlapped_us"),
        overlapped=share("overlapped_us"),
        free=share("free_us"),
        bubble=share("bubble_us"),
        preparing=median(
            100 * (row.get("preparing_us") or 0.0) / (row["e2e_us"] + (row.get("preparing_us") or 0.0)) for row in rows
        ),
        computing_ms=length("computing_us"),
        free_ms=length("free_us"),
        communication_ms=length("comm_not_overlapped_us"),
        rows=list(rows),
    )


def primary(job: Job) -> str:
    """Return what costs the job most: one of `LOSSES`."""
    return max(LOSSES, key=lambda name: job.shares[name])


def summary(
    steps: Iterable[Row], comm: Sequence[Row], captures: Iterable[Row], kernels: Iterable[Row]
) -> list[dict[str, Any]]:
    """Return what each job is bound by, its split in percent of the step time, and which export the numbers are from.

    Besides: what communicates and runs most, and how much of the chips' peak is used where that is known.

    A job that loses little to anything is bound by computing.
    """
    top = _top_kernels(kernels)
    talk = _communication(comm)
    forms: dict[str, dict[str, int]] = {}
    used: dict[str, list[float]] = {}
    for row in captures:
        if row.get("used") and row.get("form"):
            known = forms.setdefault(str(row.get("job") or ""), {})
            known[row["form"]] = known.get(row["form"], 0) + 1
        if row.get("used") and row.get("mfu_pct"):
            used.setdefault(str(row.get("job") or ""), []).append(row["mfu_pct"])
    out = []
    for job in jobs(steps, comm):
        worst = primary(job)
        bound = worst if job.shares[worst] >= _LITTLE else "computing"
        out.append(
            {
                "job": job.name,
                "bound": bound,
                "shares_pct": {name: round(value, 2) for name, value in job.shares.items()},
                "step_ms": round(job.e2e_ms, 3),
                "ranks": len(job.ranks),
                "steps": job.steps,
                "exports": forms.get(job.name, {}),
                "kernels": top.get(job.name, []),
                "communication": talk.get(job.name, []),
                **({"mfu_pct": round(sum(mfu) / len(mfu), 2)} if (mfu := used.get(job.name)) else {}),
            }
        )
    return out


def _communication(rows: Iterable[Row], most: int = 8) -> dict[str, list[dict[str, Any]]]:
    """Return what communicates longest by job, dimension and operation: mean over ranks, waiting told apart."""
    sums: dict[str, dict[tuple[str, str], list[float]]] = {}
    ranks: dict[str, set[int | None]] = {}
    for row in rows:
        job = str(row.get("job") or "")
        total = sums.setdefault(job, {}).setdefault((row.get("parallel") or "?", row.get("op") or "?"), [0.0, 0.0])
        total[0] += row.get("share_pct") or 0.0
        total[1] += row.get("late_pct") or 0.0
        ranks.setdefault(job, set()).add(row.get("rank"))
    return {
        job: [
            {
                "parallel": dimension,
                "op": op,
                "share_pct": round(share / len(ranks[job]), 2),
                "late_pct": round(late / len(ranks[job]), 2),
            }
            for (dimension, op), (share, late) in sorted(found.items(), key=lambda item: -item[1][0])[:most]
        ]
        for job, found in sums.items()
    }


def _top_kernels(rows: Iterable[Row], most: int = 8) -> dict[str, list[dict[str, Any]]]:
    """Return the operator types that take most time, by job."""
    sums: dict[str, dict[tuple[str, str], list[float]]] = {}
    totals: dict[str, float] = {}
    for row in rows:
        if row.get("core") == "COMMUNICATION":
            continue
        job = str(row.get("job") or "")
        total = sums.setdefault(job, {}).setdefault((row.get("type") or "?", row.get("core") or ""), [0.0, 0.0])
        total[0] += row.get("total_us") or 0.0
        total[1] += row.get("count") or 0
        totals[job] = totals.get(job, 0.0) + (row.get("total_us") or 0.0)
    return {
        job: [
            {
                "type": kind,
                "core": core,
                "count": int(count),
                "total_us": round(spent, 1),
                "of_kernels_pct": round(100 * spent / totals[job], 2) if totals[job] else 0.0,
            }
            for (kind, core), (spent, count) in sorted(found.items(), key=lambda item: -item[1][0])[:most]
        ]
        for job, found in sums.items()
    }
