"""Whom the cluster heartbeat accuses: every rank is told who was lost or stuck, and by whom.

One rank that stops is reported by its neighbours and spread to all. A net that splits makes both sides accuse each
other, and when a job ends its ranks vanish one after the other. So what is told by most, of the gravest kind and
first, counts; HCCL itself ranks an error CQE above a stuck rank and that above a lost one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from npudiag.analyses.clocks import Clocks
from npudiag.analyses.pattern import Pattern
from npudiag.analyses.waits import Party, People
from npudiag.tables.records import LogRecord

_EVENT = Pattern(r"rank ?\[(?P<node>[^\]/]+)/(?P<device>\d{1,4})\] ?status\[(?P<kind>ERROR CQE|STUCK|LOST)\] ?by")
_PLACE = Pattern(
    r"Cluster Exception Location\[IP/ID\]:\[(?P<node>[^\]/]+)/(?P<device>\d{1,4})\][^\n]*?"
    r"ExceptionType:\[(?P<kind>Error (?:cqe|CQE)|Stuck|Heartbeat Lost) Occurred\]"
)
_GRAVITY = {"error cqe": 0, "stuck": 1, "heartbeat lost": 2, "lost": 2}
_TOGETHER_US = 60_000_000
"""Events within so many microseconds are one round of the heartbeat."""


@dataclass(slots=True)
class Accusation:
    """What is said of one rank.

    Attributes:
        party: Who is accused.
        gravity: 0 for an error CQE, 1 for stuck, 2 for lost.
        tellers: Node and process of those in whose logs it stands.
        first_us: When it was first told, on the clock that most hosts have; None where no time is known.
    """

    party: Party
    gravity: int
    tellers: set[tuple[str | None, int | None]] = field(default_factory=set)
    first_us: int | None = None


def find(records: Iterable[LogRecord], people: People, clocks: Clocks) -> list[Accusation]:
    """Return the accusations, the weightiest first."""
    found: dict[Party, Accusation] = {}
    for record in records:
        if "status[" not in record.text and "Cluster Exception Location" not in record.text:
            continue
        for match in (*_EVENT.finditer(record.text), *_PLACE.finditer(record.text)):
            party = people.awaited(None, match["node"], int(match["device"]), record.time_us)
            if party is None:
                continue
            gravity = _GRAVITY[match["kind"].lower()]
            known = found.setdefault(party, Accusation(party, gravity))
            known.gravity = min(known.gravity, gravity)
            known.tellers.add((record.node, record.pid))
            at = clocks.corrected(record.node, record.time_us)
            if at is not None and (known.first_us is None or at < known.first_us):
                known.first_us = at
    return _sorted(list(found.values()))


def _sorted(accusations: list[Accusation]) -> list[Accusation]:
    """Sort by the round of the heartbeat, then by gravity, then by how many tell it."""
    times = [accusation.first_us for accusation in accusations if accusation.first_us is not None]
    start = min(times, default=0)

    def weight(accusation: Accusation) -> tuple[int, int, int, int]:
        at = accusation.first_us if accusation.first_us is not None else start
        return ((at - start) // _TOGETHER_US, accusation.gravity, -len(accusation.tellers), at)

    return sorted(accusations, key=weight)


def culprit(accusations: list[Accusation]) -> Party | None:
    """Return whom the heartbeat means, None where two are accused alike."""
    if not accusations:
        return None
    if len(accusations) > 1:
        first, second = accusations[:2]
        alike = (first.gravity, len(first.tellers)) == (second.gravity, len(second.tellers))
        together = None not in (first.first_us, second.first_us) and (
            (second.first_us or 0) - (first.first_us or 0) < _TOGETHER_US
        )
        if alike and together:
            return None
    return accusations[0].party
