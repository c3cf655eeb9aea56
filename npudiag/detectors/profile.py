"""Detectors on profiler captures: what bounds a job, who is late, which link is slow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npudiag.analyses.profile_bound import LOSSES, Job, Rank, jobs, primary
from npudiag.engine.hits import Hit
from npudiag.result import Evidence

if TYPE_CHECKING:
    from npudiag.tables.store import Store

Params = Mapping[str, Any]
SHOWN = 6
_SPREAD = 0.5
"""Percent of the step by which a rank differs from the mean to be told by itself."""
_COLUMNS = (
    ("computing_us", "Computing"),
    ("comm_not_overlapped_us", "Communication(Not Overlapped)"),
    ("overlapped_us", "Overlapped"),
    ("free_us", "Free"),
    ("bubble_us", "Bubble"),
    ("preparing_us", "Preparing"),
)


def jobs_of(store: Store) -> list[Job]:
    """Return the jobs in the captures, worked out once."""
    found = store.memo.get("profile-jobs")
    if found is None:
        found = store.memo["profile-jobs"] = jobs(store.rows("prof_steps"), store.rows("prof_comm"))
    known: list[Job] = found
    return known


def weigh(hits: Iterable[Hit], store: Store) -> None:
    """Set the milliseconds per step of findings that only know their share of the step."""
    by_name = {job.name: job for job in jobs_of(store)}
    for hit in hits:
        job = by_name.get(str(hit.captures.get("job") or ""))
        if job is not None and hit.lost_pct is not None and hit.lost_ms is None:
            hit.lost_ms = round(job.e2e_ms * hit.lost_pct / 100, 3)


def step_evidence(row: Mapping[str, Any]) -> Evidence:
    """Return a row of a step table as evidence: who, which step, and the numbers in the file's own words."""
    shown = {label: round(row[name], 3) for name, label in _COLUMNS if row.get(name) is not None}
    who = {name: row[name] for name in ("rank", "step", "pp_stage") if row.get(name) is not None}
    return Evidence(
        kind="rows",
        path=row.get("file"),
        line=row.get("line"),
        rows=[{**who, **{f"{label} (us)": value for label, value in shown.items()}}],
        label="step breakdown",
    )


def _worst(job: Job, cost: Callable[[Rank], float], column: str) -> list[Evidence]:
    """Return the step rows of the ranks where something costs most."""
    ranks = sorted(job.ranks, key=cost, reverse=True)[:SHOWN]
    return [step_evidence(max(rank.rows, key=lambda row: row.get(column) or 0.0)) for rank in ranks]


def _bound(
    store: Store,
    params: Params,
    kind: str,
    cost: Callable[[Rank], float],
    column: str,
) -> list[Hit]:
    hits = []
    several = len(jobs_of(store)) > 1
    for job in jobs_of(store):
        share = job.shares[kind]
        if share < params["notable_pct"]:
            continue
        place = sorted(LOSSES, key=lambda name: -job.shares[name]).index(kind) + 1
        severity = "warning" if share >= params["warning_pct"] else "info"
        hits.append(
            Hit(
                evidence=_worst(job, cost, column),
                captures={
                    "share": round(share, 1),
                    "computing": round(job.shares["computing"], 1),
                    "communication": round(job.shares["communication"], 1),
                    "free": round(job.shares["host"], 1),
                    "bubble": round(job.shares["pipeline"], 1),
                    "overlapped": round(job.shares["overlapped"], 1),
                    "step_ms": round(job.e2e_ms, 2),
                    "lost": round(job.e2e_ms * share / 100, 2),
                    **({"place": place} if place > 1 else {}),
                    **({"single": 1} if job.steps <= 1 else {}),
                    **({"job": job.name} if several else {}),
                },
                occurrences=sum(len(rank.rows) for rank in job.ranks),
                ranks=[rank.rank for rank in job.ranks if rank.rank is not None],
                steps=steps_of(job.ranks),
                severity=severity,
                confidence="medium" if job.steps <= 1 else None,
                lost_pct=round(share, 2),
                lost_ms=round(job.e2e_ms * share / 100, 3),
                basis="step breakdown, median over steps, mean over ranks",
            )
        )
    return hits


def steps_of(ranks: Sequence[Rank]) -> list[int]:
    """Return the steps of ranks, the first thousand."""
    return sorted({row["step"] for rank in ranks for row in rank.rows if row.get("step") is not None})[:1000]


def communication_bound(store: Store, params: Params) -> list[Hit]:
    """Uncovered communication takes a large part of the step."""
    hits = _bound(
        store,
        params,
        "communication",
        lambda rank: rank.communication,
        "comm_not_overlapped_us",
    )
    for job, hit in _of_jobs(store, hits):
        _name_worst(job, hit, _uncovered, job.shares["communication"])
        if job.steps <= 1:
            hit.captures.update(_one_long_operation(store, job))
    return hits


def _uncovered(rank: Rank) -> float:
    return rank.communication - rank.bubble


def _name_worst(job: Job, hit: Hit, cost: Callable[[Rank], float], mean: float) -> None:
    """Add to a finding on a job the rank where it costs most, where that differs from the mean."""
    worst = max((rank for rank in job.ranks if rank.rank is not None), key=cost, default=None)
    if worst is not None and cost(worst) >= mean + _SPREAD:
        hit.captures["worst"] = round(cost(worst), 1)
        hit.captures["worst_rank"] = worst.rank


def _of_jobs(store: Store, hits: Sequence[Hit]) -> Iterator[tuple[Job, Hit]]:
    """Yield each finding on a job with its job."""
    found = jobs_of(store)
    by_name = {job.name: job for job in found}
    for hit in hits:
        yield (by_name[hit.captures["job"]] if len(found) > 1 else found[0]), hit


def _one_long_operation(store: Store, job: Job) -> dict[str, Any]:
    """Return the operation that most of the uncovered communication is, where it hardly moves data: it waits."""
    rows = [row for row in store.rows("prof_comm") if (row["job"] or "") == job.name and row["longest_ms"]]
    longest = max(rows, key=lambda row: row["longest_ms"], default=None)
    lost = job.e2e_ms * job.shares["communication"] / 100
    if longest is None or longest["longest_ms"] < lost / 2 or not longest["transit_ms"]:
        return {}
    moved = longest["longest_transit_ms"] or 0.0
    if moved > 0.1 * longest["longest_ms"]:
        return {}
    return {"op": longest["op"], "op_ms": round(longest["longest_ms"], 2), "moved_ms": round(moved, 2)}


def host_bound(store: Store, params: Params) -> list[Hit]:
    """The device is idle for a large part of the step."""
    return _worst_told(store, _bound(store, params, "host", _idle, "free_us"), "host", _idle)


def _idle(rank: Rank) -> float:
    return rank.free


def _worst_told(store: Store, hits: list[Hit], kind: str, cost: Callable[[Rank], float]) -> list[Hit]:
    for job, hit in _of_jobs(store, hits):
        _name_worst(job, hit, cost, job.shares[kind])
    return hits


def input_bound(store: Store, params: Params) -> list[Hit]:
    """Steps begin on the host long before the device gets anything to do."""
    return _worst_told(store, _bound(store, params, "input", _preparing, "preparing_us"), "input", _preparing)


def _preparing(rank: Rank) -> float:
    return rank.preparing


def pipeline_bound(store: Store, params: Params) -> list[Hit]:
    """Pipeline stages wait for each other."""
    hits = _bound(store, params, "pipeline", lambda rank: rank.bubble, "bubble_us")
    for job, hit in _of_jobs(store, hits):
        stages = {rank.stage for rank in job.ranks if rank.stage is not None}
        if stages:
            worst = max(stages, key=lambda stage: _mean([rank.bubble for rank in job.stage(stage)]))
            hit.captures["stage"] = worst
            hit.captures["stage_share"] = round(_mean([rank.bubble for rank in job.stage(worst)]), 1)
        hit.evidence.extend(_exchanges(store, job))
    return hits


def _exchanges(store: Store, job: Job) -> list[Evidence]:
    """Return the exchanges between stages that wait longest: the step table may count no bubble for them."""
    rows = [
        row
        for row in store.rows("prof_comm")
        if (row["job"] or "") == job.name and row["late_ms"] and (row["p2p"] or row["parallel"] == "pp")
    ]
    return [
        Evidence(
            kind="rows",
            path=row["file"],
            rows=[
                {
                    "rank": row["rank"],
                    "operation": row["op"],
                    "count": row["count"],
                    "elapse (ms)": round(row["elapse_ms"], 3),
                    "waiting for the other stage (ms)": round(row["late_ms"], 3),
                }
            ],
            label="exchanges between stages",
        )
        for row in sorted(rows, key=lambda row: -row["late_ms"])[:2]
    ]


def compute_bound(store: Store, params: Params) -> list[Hit]:
    """Nothing but computing takes much of the step: kernels are what is left to improve."""
    hits = []
    for job in jobs_of(store):
        if job.shares["computing"] < params["computing_pct"] or job.shares[primary(job)] >= params["loss_pct"]:
            continue
        hits.append(
            Hit(
                evidence=_worst(job, lambda rank: rank.computing, "computing_us"),
                captures={
                    "computing": round(job.shares["computing"], 1),
                    "communication": round(job.shares["communication"], 1),
                    "free": round(job.shares["host"], 1),
                    "step_ms": round(job.e2e_ms, 2),
                },
                ranks=[rank.rank for rank in job.ranks if rank.rank is not None],
                steps=steps_of(job.ranks),
            )
        )
    return hits


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def stage_imbalance(store: Store, params: Params) -> list[Hit]:
    """One pipeline stage computes longer than the mean of all; the others wait for it."""
    hits = []
    for job in jobs_of(store):
        stages = sorted({rank.stage for rank in job.ranks if rank.stage is not None})
        if len(stages) < 2:
            continue
        times = {stage: _mean([rank.computing_ms for rank in job.stage(stage)]) for stage in stages}
        slowest = max(stages, key=lambda stage: times[stage])
        mean = _mean(list(times.values()))
        lost = times[slowest] - mean
        if mean <= 0 or 100 * lost / mean < params["imbalance_pct"]:
            continue
        cost = 100 * lost / job.e2e_ms
        if cost < params["material_pct"]:
            continue
        hits.append(
            Hit(
                evidence=[step_evidence(job.stage(stage)[0].rows[-1]) for stage in stages[:SHOWN]],
                captures={
                    "stage": slowest,
                    "excess": round(100 * lost / mean, 1),
                    "slowest_ms": round(times[slowest], 2),
                    "mean_ms": round(mean, 2),
                    "cost": round(cost, 1),
                    "lost": round(lost, 2),
                    "job": job.name,
                },
                ranks=[rank.rank for rank in job.stage(slowest) if rank.rank is not None],
                severity="warning" if cost >= params["warning_pct"] else "info",
                lost_pct=round(cost, 2),
                lost_ms=round(lost, 3),
                basis="mean computing time of the stages",
            )
        )
    return hits
