"""Collectives that cannot end: ranks in different operators, one that comes late, a peer of whom there is no log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from npudiag.analyses.job import MEMO, Job
from npudiag.analyses.operators import Odd
from npudiag.analyses.waits import Party
from npudiag.engine.hits import Hit
from npudiag.result import Evidence
from npudiag.tables.store import Store

_WHAT = {
    "op": ("operator", "算子类型"),
    "count": ("data count", "数据量"),
    "dtype": ("data type", "数据类型"),
    "index": ("position in the sequence of operators", "算子序号"),
}
_MOST_NAMED = 6


def _job(store: Store) -> Job | None:
    job = store.memo.get(MEMO)
    return job if isinstance(job, Job) else None


def _whom(parties: Iterable[Party]) -> dict[str, Any]:
    """Return the scope of a hit about these."""
    listed = list(parties)
    return {
        "ranks": sorted({party.rank for party in listed if party.rank is not None}),
        "devices": sorted({party.device for party in listed if party.device is not None}) if len(listed) < 3 else [],
        "nodes": sorted({party.node or party.address or "" for party in listed} - {""}),
    }


def _names(parties: Iterable[Party]) -> str:
    names = [party.name() for party in parties]
    return " / ".join(names[:_MOST_NAMED]) + (f" … ({len(names)})" if len(names) > _MOST_NAMED else "")


def differing(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Find ranks of one communicator that gave up in different operators."""
    job = _job(store)
    return [_differing(odd) for odd in job.operators.odd if not odd.linking] if job else []


def _differing(odd: Odd) -> Hit:
    what = _WHAT.get(odd.what, (odd.what, odd.what))
    return Hit(
        records=list(odd.records),
        captures={"who": _names(odd.parties), "odd": odd.odd, "others": odd.others, "compared": odd.size},
        words={"what": what},
        confidence="high" if odd.certain and odd.what != "index" else "medium",
        marks=tuple(
            f"{name}[{value}" for name in ("tag", "count", "dataType", "index") for value in (odd.odd, odd.others)
        ),
        **_whom(odd.parties),
    )


def late(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Find ranks that launched an operator long after the others of their communicator."""
    job = _job(store)
    if job is None or not job.operators.late:
        return []
    latest = job.operators.late[0]
    parties = list(dict.fromkeys(item.party for item in job.operators.late))
    setting = next(iter(job.timeouts.of("HCCL_EXEC_TIMEOUT")), None)
    captures: dict[str, Any] = {
        "who": _names(parties),
        "seconds": f"{latest.seconds:,.0f}",
        "others": latest.others,
        **({"op": latest.op} if latest.op else {}),
        **({"timeout": setting.seconds} if setting is not None else {}),
    }
    times = [record.time_us for record in latest.records if record.time_us is not None]
    return [
        Hit(
            records=list(latest.records),
            captures=captures,
            marks=("timeStamp:[",),
            # It began when the others were ready, long before anybody reported it.
            first_us=min(times, default=None),
            **_whom(parties),
        )
    ]


def silent_peers(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Find those that were waited for and of whom no log is among the input."""
    job = _job(store)
    silent = list(dict.fromkeys(job.waits.silent())) if job else []
    if job is None or not silent:
        return []
    records = [edge.record for edge in job.waits.edges if edge.awaited in silent]
    if job.waits.absent_record is not None and any(party in silent for party in job.waits.absent):
        records.insert(0, job.waits.absent_record)
    known = {process.rank for process in job.topology.world.values() if process.rank is not None}
    if not known:
        # Whose logs are there is not known either.
        return []
    label = f"no record of {_names(silent)} among the logs of {len(known)} rank(s)"
    return [
        Hit(
            records=records[:4],
            evidence=[Evidence(kind="absence", label=label)],
            captures={"who": _names(silent), "logged": len(known)},
            **_whom(silent),
        )
    ]


def tls_differs(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Find cards whose TLS switch differs from that of the others."""
    job = _job(store)
    odd = job.tls if job else None
    if odd is None:
        return []
    return [
        Hit(
            records=list(odd.records),
            captures={"who": _names(odd.parties), "odd": odd.odd, "others": odd.others, "compared": odd.size},
            confidence="high" if odd.told else "medium",
            marks=("ENABLE", "DISABLE", "TLS SWITCH"),
            **_whom(odd.parties),
        )
    ]


def super_pods_mixed(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Find a logical super pod that joins cards of several physical ones."""
    job = _job(store)
    mixed = job.superpods if job else None
    if mixed is None:
        return []
    return [
        Hit(
            records=list(mixed.records[:4]),
            captures={"logic": mixed.logic, "pods": ", ".join(map(str, mixed.pods))},
            marks=("logicSuperPodId[", "phySuperPodId["),
            **_whom(mixed.parties),
        )
    ]
