"""Detectors on ranks and links of a job against each other: who is late, which link is slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from npudiag.analyses.profile_bound import Job, Rank
from npudiag.detectors.profile import SHOWN, Params, jobs_of, step_evidence, steps_of
from npudiag.engine.hits import Hit
from npudiag.result import Evidence

if TYPE_CHECKING:
    from npudiag.tables.store import Store


def slow_rank(store: Store, params: Params) -> list[Hit]:
    """One rank enters collectives late, and the others wait for it."""
    by_job = {job.name: job for job in jobs_of(store)}
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
        self.per_step_ms = 0.0
        self.votes = 0
        self.matched = 0
        self.rows: list[Mapping[str, Any]] = []


def _lateness(store: Store) -> dict[str, dict[int, _Late]]:
    found: dict[str, dict[int, _Late]] = {}
    for row in store.rows("prof_comm"):
        # Waiting between pipeline stages is their imbalance, not one rank's fault.
        if row["rank"] is None or not row["matched"] or row["p2p"] or row["parallel"] in ("pp", "embd"):
            continue
        late = found.setdefault(str(row["job"] or ""), {}).setdefault(row["rank"], _Late())
        usual = row["step_caused_ms"]
        late.per_step_ms += (row["caused_ms"] or 0.0) / (row["steps"] or 1) if usual is None else usual
        late.votes += row["culprit_of"] or 0
        late.matched += row["matched"]
        late.rows.append(row)
    return found


def _late_hit(job: Job | None, late: Mapping[int, _Late], params: Params) -> Hit | None:
    if len(late) < 2 or job is None:
        return None
    total = sum(item.per_step_ms for item in late.values())
    rank = max(late, key=lambda number: late[number].per_step_ms)
    worst = late[rank]
    per_step = min(worst.per_step_ms, _exposed(job, rank))
    cost = 100 * per_step / job.e2e_ms if job.e2e_ms else 0.0
    # Of two ranks one is always later: it has to be so clearly.
    needed = params["dominance"] if len(late) > 2 else max(params["dominance"], 0.8)
    if cost < params["material_pct"] or not total or worst.per_step_ms < needed * total:
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
    evidence = [step_evidence(rank.rows[-1])]
    other = next((one for one in job.ranks if one is not rank and one.stage == rank.stage), None)
    if other is not None:
        evidence.append(step_evidence(other.rows[-1]))
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
            evidence = [*evidence, step_evidence(rank.rows[-1])]
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
        steps=steps_of([rank]) if rank is not None else None,
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
    steps = {job.name: job for job in jobs_of(store)}
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
            for row in slow[:SHOWN]
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
