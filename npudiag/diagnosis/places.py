"""Where and when a job ran: what broke elsewhere, or long before, is not why one of its ranks failed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from npudiag.analyses.clocks import Clocks
from npudiag.analyses.topology import Topology
from npudiag.diagnosis.moments import Spans, is_set, span
from npudiag.result import Finding, Scope
from npudiag.tables.records import LogRecord

_STALE_S = 8.5 * 3600
"""What ended this long before the job began is not of it; less may be a clock of another time zone."""
_OF_ONE_PLACE = frozenset(("aicore-exception", "device-fault", "graph-capture", "operator", "out-of-memory"))
"""Categories of what happens to one rank by itself or by what its own card and host do."""
_BREAKS_A_PLACE = frozenset((*_OF_ONE_PLACE, "host-fault"))


@dataclass(frozen=True, slots=True)
class Grounds:
    """Where and when the job ran.

    Attributes:
        homes: Nodes on which ranks of the job introduced themselves.
        begun_s: When the first of its processes logged, in seconds since 1970; None where that is not known.
    """

    homes: frozenset[str] = frozenset()
    begun_s: float | None = None


def grounds(topology: Topology, records: Iterable[LogRecord], clocks: Clocks) -> Grounds:
    """Return where and when the job ran."""
    homes = frozenset(process.node for process in topology.world.values() if process.node is not None)
    times = (
        clocks.corrected(record.node, record.time_us)
        for record in (records if homes else ())
        if topology.by_pid(record.node, record.pid, record.file_pid) is not None
    )
    begun = min((time / 1e6 for time in times if time is not None and is_set(time / 1e6)), default=None)
    return Grounds(homes, begun)


def stale(finding: Finding, spans: Spans | None, ran: Grounds) -> bool:
    """Whether a finding was over long before the job began."""
    last = span(finding, spans).last
    return ran.begun_s is not None and last is not None and is_set(last) and last < ran.begun_s - _STALE_S


def apart(one: Finding, other: Finding, ran: Grounds) -> bool:
    """Whether both are known to be about different ranks, cards or nodes of the job."""
    mine, theirs = one.scope, other.scope
    if _disjoint(mine.ranks, theirs.ranks):
        return True
    if _at_home(mine, ran) and _at_home(theirs, ran):
        if _disjoint(mine.nodes, theirs.nodes):
            return True
        # A card's number is one of the node only where the log says which rank has it.
        same_node = len(mine.nodes) == 1 and mine.nodes == theirs.nodes
        return same_node and bool(mine.ranks or theirs.ranks) and _disjoint(mine.devices, theirs.devices)
    return False


def unrelated(cause: Finding, effect: Finding, ran: Grounds) -> bool:
    """Whether `cause` broke another place than the one that `effect` is about, which waits for nobody else."""
    return (
        cause.category in _BREAKS_A_PLACE
        and effect.category in _OF_ONE_PLACE
        and effect.trust in ("cause", "specific")
        # A kernel that communicates may be late because of its peer.
        and "timeout" not in effect.name
        and apart(cause, effect, ran)
    )


def together(one: Finding, other: Finding) -> bool:
    """Whether both are known to be about a rank, or a card of one node, that they share."""
    mine, theirs = one.scope, other.scope
    if mine.ranks and theirs.ranks:
        return not _disjoint(mine.ranks, theirs.ranks)
    return (
        mine.nodes == theirs.nodes
        and bool(mine.devices and theirs.devices)
        and not _disjoint(mine.devices, theirs.devices)
    )


def _at_home(scope: Scope, ran: Grounds) -> bool:
    return bool(scope.nodes) and ran.homes.issuperset(scope.nodes)


def _disjoint(mine: Iterable[object], theirs: Iterable[object]) -> bool:
    one, other = set(mine), set(theirs)
    return bool(one) and bool(other) and not one & other
