"""Detectors on profiler captures: what bounds a job, who is late, which link is slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from npudiag.analyses.profile_bound import LOSSES, Job, Rank, jobs, primary
from npudiag.engine.hits import Hit
from npudiag.result import Evidence

if TYPE_CHECKING:
    from npudiag.tables.store import Store

Params = Mapping[str, Any]
_SHOWN = 6
_COLUMNS = (
    ("computing_us", "Computing"),
    ("comm_not_overlapped_us", "Communication(Not Overlapped)"),
    ("overlapped_us", "Overlapped"),
    ("free_us", "Free"),
    ("bubble_us", "Bubble"),
    ("preparing_us", "Preparing"),
)


def _jobs(store: Store) -> list[Job]:
    found = store.memo.get("profile-jobs")
    if found is None:
        found = store.memo["profile-jobs"] = jobs(store.rows("prof_steps"), store.rows("prof_comm"))
    known: list[Job] = found
    return known


def _step_evidence(row: Mapping[str, Any]) -> Evidence:
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
    ranks = sorted(job.ranks, key=cost, reverse=True)[:_SHOWN]
    return [_step_evidence(max(rank.rows, key=lambda row: row.get(column) or 0.0)) for rank in ranks]


def _bound(
    store: Store,
    params: Params,
    kind: str,
    cost: Callable[[Rank], float],
    column: str,
) -> list[Hit]:
    hits = []
    several = len(_jobs(store)) > 1
    for job in _jobs(store):
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
                steps=_steps(job.ranks),
                severity=severity,
                confidence="medium" if job.steps <= 1 else None,
                lost_pct=round(share, 2),
                lost_ms=round(job.e2e_ms * share / 100, 3),
                basis="step breakdown, median over steps, mean over ranks",
            )
        )
    return hits


def _steps(ranks: Sequence[Rank]) -> list[int]:
    return sorted({row["step"] for rank in ranks for row in rank.rows if row.get("step") is not None})[:1000]


def communication_bound(store: Store, params: Params) -> list[Hit]:
    """Uncovered communication takes a large part of the step."""
    return _bound(
        store,
        params,
        "communication",
        lambda rank: rank.communication,
        "comm_not_overlapped_us",
    )


def host_bound(store: Store, params: Params) -> list[Hit]:
    """The device is idle for a large part of the step."""
    return _bound(store, params, "host", lambda rank: rank.free, "free_us")


def input_bound(store: Store, params: Params) -> list[Hit]:
    """Steps begin on the host long before the device gets anything to do."""
    return _bound(store, params, "input", lambda rank: rank.preparing, "preparing_us")


def pipeline_bound(store: Store, params: Params) -> list[Hit]:
    """Pipeline stages wait for each other."""
    hits = _bound(store, params, "pipeline", lambda rank: rank.bubble, "bubble_us")
    found = _jobs(store)
    by_name = {job.name: job for job in found}
    for hit in hits:
        job = by_name[hit.captures["job"]] if len(found) > 1 else found[0]
        stages = {rank.stage for rank in job.ranks if rank.stage is not None}
        if stages:
            worst = max(stages, key=lambda stage: _mean([rank.bubble for rank in job.stage(stage)]))
            hit.captures["stage"] = worst
            hit.captures["stage_share"] = round(_mean([rank.bubble for rank in job.stage(worst)]), 1)
    return hits


def compute_bound(store: Store, params: Params) -> list[Hit]:
    """Nothing but computing takes much of the step: kernels are what is left to improve."""
    hits = []
    for job in _jobs(store):
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
                steps=_steps(job.ranks),
            )
        )
    return hits


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def stage_imbalance(store: Store, params: Params) -> list[Hit]:
    """One pipeline stage computes longer than the mean of all; the others wait for it."""
    hits = []
    for job in _jobs(store):
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
                evidence=[_step_evidence(job.stage(stage)[0].rows[-1]) for stage in stages[:_SHOWN]],
                captures={
                    "stage": slowest,
                    "excess": round(100 * lost / mean, 1),
                    "slowest_ms": round(times[slowest], 2),
                    "mean_ms": round(mean, 2),
                    "cost": round(cost, 1),
                    "lost": round(lost, 2),
                },
                ranks=[rank.rank for rank in job.stage(slowest) if rank.rank is not None],
                severity="warning" if cost >= params["warning_pct"] else "info",
                lost_pct=round(cost, 2),
                lost_ms=round(lost, 3),
                basis="mean computing time of the stages",
            )
        )
    return hits


def slow_rank(store: Store, params: Params) -> list[Hit]:
    """One rank enters collectives late, and the others wait for it."""
    by_job = {job.name: job for job in _jobs(store)}
    hits = []
    seen = set()
    for name, late in _lateness(store).items():
        hit = _late_hit(by_job.get(name), late, params)
        if hit is not None:
            hits.append(hit)
            seen.add(name)
    hits.extend(
        hit for name, job in by_job.items() if name not in seen and (hit := _long_own_time(job, params)) is not None
    )
    return hits


class _Late:
    """What one rank costs the others."""

    def __init__(self) -> None:
        self.caused_ms = 0.0
        self.votes = 0
        self.matched = 0
        self.steps = 1
        self.rows: list[Mapping[str, Any]] = []


def _lateness(store: Store) -> dict[str, dict[int, _Late]]:
    found: dict[str, dict[int, _Late]] = {}
    for row in store.rows("prof_comm"):
        # Waiting between pipeline stages is their imbalance, not one rank's fault.
        if row["rank"] is None or not row["matched"] or row["p2p"] or row["parallel"] in ("pp", "embd"):
            continue
        late = found.setdefault(str(row["job"] or ""), {}).setdefault(row["rank"], _Late())
        late.caused_ms += row["caused_ms"] or 0.0
        late.votes += row["culprit_of"] or 0
        late.matched += row["matched"]
        late.steps = max(late.steps, row["steps"] or 1)
        late.rows.append(row)
    return found


def _late_hit(job: Job | None, late: Mapping[int, _Late], params: Params) -> Hit | None:
    if len(late) < 2 or job is None:
        return None
    total = sum(item.caused_ms for item in late.values())
    rank = max(late, key=lambda number: late[number].caused_ms)
    worst = late[rank]
    per_step = min(worst.caused_ms / worst.steps, _exposed(job, rank))
    cost = 100 * per_step / job.e2e_ms if job.e2e_ms else 0.0
    # Of two ranks one is always later: it has to be so clearly.
    needed = params["dominance"] if len(late) > 2 else max(params["dominance"], 0.8)
    if cost < params["material_pct"] or not total or worst.caused_ms < needed * total:
        return None
    if worst.votes < params["votes"]:
        return None
    rows = sorted(worst.rows, key=lambda row: -(row["caused_ms"] or 0.0))[:4]
    evidence = [
        Evidence(
            kind="rows",
            path=row["file"],
            rows=[
                {
                    "rank": rank,
                    "group": row["parallel"] or row["group"],
                    "operation": row["op"],
                    "entered last": f"{row['culprit_of']} of {row['matched']}",
                    "others waited (ms)": round(row["caused_ms"], 3),
                }
            ],
            label="who entered the collectives last",
        )
        for row in rows
    ]
    return _late(job, rank, per_step, cost, evidence, worst.votes, params)


def _exposed(job: Job, number: int) -> float:
    """Return how many ms per step the others wait at most: waiting under their own kernels costs nothing."""
    others = [rank.communication_ms for rank in job.ranks if rank.rank != number]
    own = next((rank.communication_ms for rank in job.ranks if rank.rank == number), 0.0)
    usual = median(others) if others else 0.0
    return usual - own if usual > own else usual


def _long_own_time(job: Job, params: Params) -> Hit | None:
    """Find a late rank by its steps: it computes or idles longer, and communicates less since nobody is late for it."""
    best: tuple[float, Rank] | None = None
    for stage in {rank.stage for rank in job.ranks}:
        ranks = [rank for rank in job.stage(stage) if rank.rank is not None]
        if len(ranks) < 3:
            continue
        middle = median(rank.own_ms for rank in ranks)
        spread = median(abs(rank.own_ms - middle) for rank in ranks)
        quiet = median(rank.communication_ms for rank in ranks)
        for rank in ranks:
            excess = rank.own_ms - middle
            if excess > 4 * spread and rank.communication_ms < quiet and (best is None or excess > best[0]):
                best = excess, rank
    if best is None or 100 * best[0] / job.e2e_ms < params["material_pct"]:
        return None
    excess, rank = best
    evidence = [_step_evidence(rank.rows[-1])]
    other = next((one for one in job.ranks if one is not rank and one.stage == rank.stage), None)
    if other is not None:
        evidence.append(_step_evidence(other.rows[-1]))
    assert rank.rank is not None
    return _late(job, rank.rank, excess, 100 * excess / job.e2e_ms, evidence, None, params)


def _late(
    job: Job, number: int, per_step: float, cost: float, evidence: list[Evidence], votes: int | None, params: Params
) -> Hit:
    rank = next((one for one in job.ranks if one.rank == number), None)
    reason: dict[str, Any] = {}
    if rank is not None:
        others = [one for one in job.ranks if one is not rank and one.stage == rank.stage] or job.ranks
        computing = rank.computing_ms - median(one.computing_ms for one in others)
        idle = rank.free_ms - median(one.free_ms for one in others)
        if computing >= max(idle, 0.3 * per_step):
            reason["computing_more"] = round(computing, 3)
        elif idle >= 0.3 * per_step:
            reason["idle_more"] = round(idle, 3)
        if votes is not None:
            evidence = [*evidence, _step_evidence(rank.rows[-1])]
    return Hit(
        evidence=evidence,
        captures={
            "cost": round(cost, 1),
            "lost": round(per_step, 3),
            **reason,
            **({"votes": votes} if votes is not None else {}),
        },
        ranks=[number],
        devices=_devices(rank),
        steps=_steps([rank]) if rank is not None else None,
        severity="warning" if cost >= params["warning_pct"] else "info",
        confidence="medium" if job.steps <= 1 else None,
        lost_pct=round(cost, 2),
        lost_ms=round(per_step, 3),
        basis="waiting of the other ranks in collectives" if votes is not None else "step breakdown of the ranks",
    )


def _devices(rank: Rank | None) -> list[int] | None:
    found = {row["device"] for row in rank.rows if row.get("device") is not None} if rank is not None else set()
    return sorted(found) if found else None


def slow_link(store: Store, params: Params) -> list[Hit]:
    """Links that move data slower than the median of the job's links of that kind."""
    by_job: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for row in store.rows("prof_links"):
        if row["src"] != row["dst"] and row["transport"] != "LOCAL" and row["bandwidth_gbps"]:
            by_job.setdefault(str(row["job"] or ""), {}).setdefault(row["transport"], []).append(row)
    steps = {job.name: job for job in _jobs(store)}
    hits = []
    for name, transports in by_job.items():
        for transport, rows in transports.items():
            if len(rows) < params["links"]:
                continue
            middle = median(row["bandwidth_gbps"] for row in rows)
            usual = median(row["size_mb"] for row in rows)
            slow = [
                row
                for row in rows
                # Small transfers are slow on any link.
                if row["bandwidth_gbps"] < params["ratio"] * middle and row["size_mb"] >= 0.1 * usual
            ]
            if slow and len(slow) <= params["most_share"] * len(rows):
                hit = _link_hit(steps.get(name), transport, rows, slow, middle, params)
                if hit is not None:
                    hits.append(hit)
    return hits


def _link_hit(
    job: Job | None,
    transport: str,
    rows: Sequence[Mapping[str, Any]],
    slow: Sequence[Mapping[str, Any]],
    middle: float,
    params: Params,
) -> Hit | None:
    slow = sorted(slow, key=lambda row: row["bandwidth_gbps"])
    lost = max(row["time_ms"] * (1 - row["bandwidth_gbps"] / middle) for row in slow)
    cost = 100 * lost / (job.e2e_ms * max(job.steps, 1)) if job is not None and job.e2e_ms else None
    culprit = _common_end(rows, slow)
    first = slow[0]
    ranks = [culprit] if culprit is not None else sorted({first["src"], first["dst"]})
    known = all(row["group"] is None for row in slow)
    captures: dict[str, Any] = {
        "transport": transport,
        "src": first["src"],
        "dst": first["dst"],
        "bandwidth": round(first["bandwidth_gbps"], 2),
        "median": round(middle, 2),
        "slow": len(slow),
        "links": len(rows),
    }
    if culprit is not None:
        captures["culprit"] = culprit
    if cost is not None:
        captures["cost"] = round(cost, 1)
    return Hit(
        evidence=[
            Evidence(
                kind="rows",
                path=row["file"],
                rows=[
                    {
                        "link": f"{row['src']}-{row['dst']}",
                        "transport": transport,
                        "Transit Size(MB)": round(row["size_mb"], 3),
                        "Transit Time(ms)": round(row["time_ms"], 4),
                        "Bandwidth(GB/s)": round(row["bandwidth_gbps"], 4),
                        "median (GB/s)": round(middle, 4),
                    }
                ],
                label="communication matrix",
            )
            for row in slow[:_SHOWN]
        ],
        captures=captures,
        occurrences=len(slow),
        ranks=ranks if known else [],
        # A link that costs next to nothing is still worth knowing.
        severity="warning" if cost is None or cost >= params["material_pct"] else "info",
        lost_pct=None if cost is None else round(cost, 2),
        lost_ms=round(lost / max(job.steps, 1), 3) if job is not None else None,
        basis="transfer time beyond that at the median bandwidth",
    )


def _common_end(rows: Sequence[Mapping[str, Any]], slow: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the rank whose links are all slow while others are not: then its port is the fault."""
    if len(slow) < 2:
        return None
    for end in ("src", "dst"):
        ranks = {row[end] for row in slow}
        if len(ranks) == 1:
            rank = ranks.pop()
            own = [row for row in rows if row[end] == rank]
            return int(rank) if len(slow) >= 0.6 * len(own) else None
    shared = set.intersection(*({row["src"], row["dst"]} for row in slow))
    return int(shared.pop()) if len(shared) == 1 else None
