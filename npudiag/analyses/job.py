"""What the ranks of a job did to each other: one value that rules and diagnosis share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npudiag.analyses import clocks, heartbeat, operators, superpods, timeouts, tls, topology, waits
from npudiag.analyses.operators import Odd
from npudiag.tables.records import LogRecord

LITERALS = tuple(
    dict.fromkeys(
        (
            *topology.MARKERS,
            *waits.LITERALS,
            *clocks.LITERALS,
            *operators.LITERALS,
            *timeouts.LITERALS,
            *tls.LITERALS,
            *superpods.LITERALS,
        )
    )
)
"""Literals whose records these analyses read; their records are kept for them."""
MEMO = "job"
"""Name under which `Store.memo` holds it."""


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that follows from who waited for whom."""

    topology: topology.Topology
    people: waits.People
    clocks: clocks.Clocks
    waits: waits.Waits
    operators: operators.Operators
    timeouts: timeouts.Timeouts
    tls: Odd | None
    superpods: superpods.Mixed | None
    accused: list[heartbeat.Accusation]


def find(records: Sequence[LogRecord], known: topology.Topology, launch: Iterable[Mapping[str, Any]]) -> Job:
    """Work out what the ranks did to each other.

    Args:
        records: Kept log records, placed (`topology.place`).
        known: Who is who.
        launch: Rows of table ``launch``.
    """
    people = waits.People(known, records)
    skew = clocks.find(records, known)
    doing = operators.find(records, people, skew)
    return Job(
        topology=known,
        people=people,
        clocks=skew,
        waits=waits.find(records, known, people),
        operators=doing,
        timeouts=timeouts.find(records, launch, doing, skew),
        tls=tls.find(records, people),
        superpods=superpods.find(records, people),
        accused=heartbeat.find(records, people, skew),
    )
