"""Who waited for whom: the rank that everybody waited for and that waited for nobody.

When one rank stops, every other rank sooner or later reports a time-out and names its peer. Each such line
is an edge from the one that waits to the one it waits for. Following the edges leads to the culprit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from npudiag.analyses.topology import Process, Topology
from npudiag.tables.records import LogRecord

_ADDRESS = r"(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]*(?::[0-9a-fA-F]*){2,})"
# Transport set-up names the peer's host address and its physical device.
_TRANSPORT = re.compile(
    rf"dst_rank\[(?P<rank>\d+)\]-remoteUserrank\[\d+\]-remoteIpAddr\[(?P<server>{_ADDRESS})(?:/(?P<device>\d+))?\]"
)
# A row of the link table: destination, source, roles; newer releases have port columns in between.
_LINK = re.compile(
    rf"\|\s*(?P<address>{_ADDRESS})\((?P<rank>\d+)\)\s*\|(?:\s*\d+\s*\|)?"
    rf"\s*(?P<own_address>{_ADDRESS})\((?P<own_rank>\d+)\)\s*\|"
)
# "remoteRank:" also stands in reports of copies that failed, which wait for nobody.
_NOTIFY = re.compile(r"(?:type:NOTIFY WAIT, localRank:(?P<own_rank>\d+), remoteRank:|remote rank:? ?\[)(?P<rank>\d+)\b")
_WAITING = re.compile(r"(?i)notify|time ?out|timed out|link|transport")
_NO_RANK = 0xFFFFFFFF
LITERALS = ("-remoteIpAddr[", "LINK_ERROR_INFO", "remoteRank:", "remote rank:", "no connect", "time out |")
"""Literals whose records this analysis reads; their records are kept for it."""


@dataclass(frozen=True, slots=True)
class Party:
    """One end of a wait, as far as it is known.

    Attributes:
        node, device, rank: Where and who it is.
        address: Address that names it where the topology does not know it.
        logged: Whether a log of its process is among the input.
    """

    node: str | None
    device: int | None
    rank: int | None
    address: str | None = None
    logged: bool = True

    def name(self) -> str:
        """Return what to call it."""
        parts = [f"rank {self.rank}"] if self.rank is not None else []
        if self.node is not None:
            parts.append(self.node)
        elif self.address is not None:
            parts.append(self.address)
        if self.device is not None:
            parts.append(f"device {self.device}")
        return ", ".join(parts) or "a peer"


@dataclass(frozen=True, slots=True)
class Wait:
    """One line in which somebody names whom it waited for."""

    waiter: Party
    awaited: Party
    record: LogRecord


@dataclass(slots=True)
class Waits:
    """The wait-for graph.

    Attributes:
        edges: Its edges, one for each pair.
        culprits: Those that were waited for and waited for nobody, most waited for first; the members of
            a circle where there are none.
        circle: Whether `culprits` wait for each other.
        waiters: For each culprit, how many wait for it, directly or through others.
    """

    edges: list[Wait] = field(default_factory=list)
    culprits: list[Party] = field(default_factory=list)
    circle: bool = False
    waiters: list[int] = field(default_factory=list)

    def last_hops(self) -> list[LogRecord]:
        """Return the lines that name a culprit."""
        return [edge.record for edge in self.edges if edge.awaited in self.culprits]


class People:
    """Finds a process by what a line tells of it."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._world = list(topology.world.values())

    def waiter(self, record: LogRecord, rank: int | None, address: str | None) -> Party | None:
        """Return the process that wrote a record."""
        process = self._topology.by_pid(record.node, record.pid, record.file_pid)
        if process is None and (rank is not None or address is not None):
            process = self._find(rank, address, None)
        if process is not None:
            return _party(process)
        if record.node is None and record.rank is None and record.device is None:
            return None
        return Party(record.node, record.device, record.rank if record.rank is not None else rank)

    def awaited(self, rank: int | None, address: str | None, device: int | None) -> Party | None:
        """Return the process that a line names as its peer; None for a number that names nobody."""
        process = self._find(rank, address, device)
        if process is not None:
            return _party(process)
        if address is None and self._topology.ranks is not None and (rank is None or rank >= self._topology.ranks):
            # A number of a communicator that the logs do not introduce.
            return None
        return Party(None, device, rank, address, logged=False)

    def _find(self, rank: int | None, address: str | None, device: int | None) -> Process | None:
        if address is not None:
            same = [p for p in self._world if address in ((p.device_ip or ""), (p.server or "").split("%")[0])]
            if device is not None:
                same = [p for p in same if p.device == device] or same
            elif len(same) > 1 and rank is not None:
                same = [p for p in same if p.rank == rank] or same
            return same[0] if len(same) == 1 or (same and device is not None) else None
        if rank is not None:
            same = [p for p in self._world if p.rank == rank]
            # The number counts in some communicator; it names somebody only where all agree on one.
            return same[0] if len(same) == 1 else None
        return None


def _party(process: Process) -> Party:
    return Party(process.node, process.device, process.rank)


def find(records: Iterable[LogRecord], topology: Topology) -> Waits:
    """Read the waits among `records` and follow them."""
    people = People(topology)
    edges: dict[tuple[Party, Party], Wait] = {}
    for record in records:
        for rank, address, device, own_rank, own_address in _named(record.text):
            waiter = people.waiter(record, own_rank, own_address)
            awaited = people.awaited(rank, address, device)
            if waiter is None or awaited is None or waiter == awaited:
                continue
            edges.setdefault((waiter, awaited), Wait(waiter, awaited, record))
    return _follow(list(edges.values()))


def _named(text: str) -> Iterable[tuple[int | None, str | None, int | None, int | None, str | None]]:
    """Yield rank, address and device of each awaited peer, and rank and address of the one that waits."""
    found = False
    for match in _TRANSPORT.finditer(text):
        found = True
        yield None, match["server"], _int(match["device"]), None, None
    for match in _LINK.finditer(text):
        found = True
        yield _int(match["rank"]), match["address"], None, _int(match["own_rank"]), match["own_address"]
    if not found and _WAITING.search(text):
        for match in _NOTIFY.finditer(text):
            rank = _int(match["rank"])
            if rank is not None and rank < _NO_RANK:
                yield rank, None, None, _int(match["own_rank"]), None


def _int(text: str | None) -> int | None:
    return int(text) if text and len(text) < 12 else None


def _follow(edges: Sequence[Wait]) -> Waits:
    waits = Waits(list(edges))
    waiting = {edge.waiter for edge in edges}
    sinks = list(dict.fromkeys(edge.awaited for edge in edges if edge.awaited not in waiting))
    behind: dict[Party, list[Party]] = {}
    for edge in edges:
        behind.setdefault(edge.awaited, []).append(edge.waiter)
    if not sinks:
        waits.circle = bool(edges)
        sinks = list(dict.fromkeys(edge.awaited for edge in edges))
    counted = sorted(((_count(sink, behind), -at, sink) for at, sink in enumerate(sinks)), key=lambda item: item[:2])
    for number, _, sink in reversed(counted):
        waits.culprits.append(sink)
        waits.waiters.append(number)
    return waits


def _count(party: Party, behind: dict[Party, list[Party]]) -> int:
    """Count who waits for `party`, directly or through others."""
    seen: set[Party] = set()
    stack = [party]
    while stack:
        for waiter in behind.get(stack.pop(), ()):
            if waiter not in seen and waiter != party:
                seen.add(waiter)
                stack.append(waiter)
    return len(seen)
