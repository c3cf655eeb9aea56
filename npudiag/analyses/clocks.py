"""How far the clocks of the hosts are apart, so that what happened first is told by more than its stamps.

Two things happen on all hosts at one moment: the members of a communicator get its rank table from the root together
(``hcclCommInitInfo`` follows at once), and the heartbeat spreads what it found within a second or two. For each such
event the stamps of two hosts differ by the difference of their clocks and a little delay; the median over events is
taken. Start-up lines (``SetupAgent``) are no such event: ranks may start minutes apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from npudiag.analyses.pattern import Pattern
from npudiag.analyses.topology import Topology
from npudiag.tables.records import LogRecord

LITERALS = ("hcclCommInitInfo:commId[", "status[LOST]", "status[STUCK]", "status[ERROR CQE]")
"""Literals whose records this analysis reads; their records are kept for it."""

_JOINED = "hcclCommInitInfo:commId["
_SPREAD = Pattern(
    r"rank ?\[(?P<culprit>[^\]]+)\] ?status\[(?P<status>[A-Z ]+)\] ?by (?:informer )?rank ?\[(?P<teller>[^\]]+)\]"
)
_ROOT = Pattern(r"rootInfo identifier\[([^\]]+)\]")
_SIZE = Pattern(r"totalRanks\[(\d{1,7})\]")
_NAMES = Pattern(r"\b(?:commId|identifier)\[([^\]]+)\]")
LEAST_S = 5.0
"""Differences below are within what messages need to spread, in seconds."""
_AGREE_S = 3.0
"""How far estimates from several events may lie apart, in seconds."""
_AGREE_SHARE = 0.1
_UNSET_US = 365 * 86_400_000_000
_HOUR_S = 3600.0
_ZONE_SLACK_S = 90.0


@dataclass(frozen=True, slots=True)
class Offset:
    """The clock of a host against that of the reference.

    Attributes:
        node: The host.
        seconds: How far its clock is ahead (negative: behind).
        events: Events the estimate rests on.
        spread_s: Difference between the highest and the lowest estimate, in seconds.
    """

    node: str
    seconds: float
    events: int
    spread_s: float

    @property
    def zone(self) -> bool:
        """Whether it is whole hours: another time zone rather than a wrong clock."""
        hours = round(self.seconds / _HOUR_S)
        return hours != 0 and abs(self.seconds - hours * _HOUR_S) <= _ZONE_SLACK_S


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of the hosts.

    Attributes:
        reference: Host whose clock the others are compared with.
        offsets: Those that differ enough to matter, by host.
        compared: Hosts whose clocks could be compared with the reference.
    """

    reference: str | None = None
    offsets: dict[str, Offset] = field(default_factory=dict)
    compared: tuple[str, ...] = ()

    def corrected(self, node: str | None, time_us: int | None) -> int | None:
        """Return a time on the reference's clock."""
        offset = self.offsets.get(node or "")
        if time_us is None or offset is None or time_us < _UNSET_US:
            return time_us
        return time_us - round(offset.seconds * 1e6)

    def facts(self) -> dict[str, Any]:
        """Return it for the document; empty where no two hosts could be compared."""
        if not self.compared:
            return {}
        offsets = [{"node": o.node, "ahead_s": round(o.seconds, 1), "events": o.events} for o in self.offsets.values()]
        return {"reference": self.reference, "compared": len(self.compared), "offsets": offsets}


def median(values: Iterable[float]) -> float:
    """Return the middle of some values; the library's function is too slow to import for so little."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def find(records: Iterable[LogRecord], topology: Topology) -> Clocks:
    """Estimate how far the clocks of the hosts are apart."""
    events: dict[tuple[str, ...], dict[str, list[int]]] = {}
    roots: dict[tuple[str, int | None], str] = {}
    for record in records:
        if record.node is None or record.kind != "slog" or record.time_us is None or record.time_us < _UNSET_US:
            continue
        for event in _events(record, roots, topology.ranks):
            events.setdefault(event, {}).setdefault(record.node, []).append(record.time_us)
    shared = [stamps for stamps in events.values() if len(stamps) > 1]
    return _compare([{node: median(times) for node, times in stamps.items()} for stamps in shared])


def _events(
    record: LogRecord, roots: dict[tuple[str, int | None], str], ranks: int | None
) -> Iterator[tuple[str, ...]]:
    """Yield the names of what a record tells that all hosts see at one moment."""
    place, text = (record.file, record.pid), record.text
    if "SetupAgent rankNum[" in text:
        if root := _ROOT.search(text):
            roots[place] = root[1]
    elif _JOINED in text:
        # Communicators of a few ranks are set up one after the other; that of the whole job is one event.
        size = _SIZE.search(text)
        if size is not None and int(size[1]) == ranks:
            root_name = roots.pop(place, None)
            names = {root_name, *_NAMES.groups(text)} - {None, ""}
            yield from (("joined", str(name)) for name in names)
    elif match := _SPREAD.search(text):
        yield ("heartbeat", match["culprit"], match["status"], match["teller"])


def _compare(events: Sequence[dict[str, float]]) -> Clocks:
    """Return the offsets against the hosts that agree with most others."""
    shares = Counter(node for stamps in events for node in stamps)
    if not shares:
        return Clocks()
    base = min(shares, key=lambda node: (-shares[node], node))
    found: dict[str, tuple[float, list[float]]] = {base: (0.0, [])}
    for node in sorted(shares):
        gaps = [(stamps[node] - stamps[base]) / 1e6 for stamps in events if node in stamps and base in stamps]
        if node != base and gaps and max(gaps) - min(gaps) <= max(_AGREE_S, _AGREE_SHARE * abs(median(gaps))):
            found[node] = (median(gaps), gaps)
    # The clock that most hosts have is taken for right.
    seconds = [value for value, _ in found.values()]
    right = max(seconds, key=lambda value: (sum(abs(other - value) < LEAST_S for other in seconds), -abs(value)))
    reference = next(node for node, (value, _) in found.items() if value == right)
    offsets = {
        node: Offset(node, value - right, max(len(gaps), 1), max(gaps) - min(gaps) if gaps else 0.0)
        for node, (value, gaps) in found.items()
        if abs(value - right) >= LEAST_S
    }
    return Clocks(reference, offsets, tuple(node for node in found if node != reference))
