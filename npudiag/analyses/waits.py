"""Who waited for whom: the rank that everybody waited for and that waited for nobody.

When one rank stops, every other rank sooner or later reports a time-out and names its peer. Each such line
is an edge from the one that waits to the one it waits for. Following the edges leads to the culprit.

Peers are named by address and device (link set-up), or by their rank in a communicator (notify waits): the same
number is another process in another communicator, so it counts only in the one that the lines around it name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from npudiag.analyses.pattern import Pattern
from npudiag.analyses.topology import Key, Process, Topology
from npudiag.tables.records import LogRecord

_ADDRESS = r"(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]*(?::[0-9a-fA-F]*){2,})"
# Transport set-up names the peer's host address and its physical device; its first number counts inside a plane.
_TRANSPORT = Pattern(
    rf"(?:dst_rank|remoteRank)\[\d+\]-remoteUserrank\[(?P<rank>\d+)\]-remoteIpAddr\[(?P<server>{_ADDRESS})"
    r"(?:/(?P<device>\d+))?\]"
)
# A row of the link table: destination, source, roles; newer releases have port columns in between.
_LINK = Pattern(
    rf"\|\s*(?P<address>{_ADDRESS})\((?P<rank>\d+)\)\s*\|(?:\s*\d+\s*\|)?"
    rf"\s*(?P<own_address>{_ADDRESS})\((?P<own_rank>\d+)\)\s*\|"
)
# "remoteRank:" also stands in reports of copies that failed, which wait for nobody.
_NOTIFY = Pattern(
    r"(?:type:NOTIFY WAIT, localRank:(?P<own_rank>\d+), remoteRank:|(?:remote|peer) rank:? ?\[?)(?P<rank>\d+)\b"
)
_WAITING = Pattern(r"(?i)notify|time ?out|timed out|link")
_ELSEWHERE = Pattern(r"transport create fail in thread|SDMA|taskType\[(?:Memcpy|Reduce)|type:SDMA")
# Cards of one node that cannot reach each other's memory.
_P2P = Pattern(r"connected p2p timeout[^\n]*?remote physic id: ?(?P<device>\d{1,4})")
# Root of a new communicator: whom it has, or whom it lacks.
_LACKS = Pattern(r"Failed to connect agent\[([\d,\- ]+)\]")
_HAS = Pattern(r"connected rankinfo\[LINE \d+\]:\s*((?:\[\d{1,16}\](?::\[[^\]]*\])?[,; ]*)+)")
_NEEDS = Pattern(r"need connect rankNum is \[(\d{1,7})\]")
_BRACKETED = Pattern(r"\[(\d{1,16})\]")
# torch_npu's exception of a rank whose communication waited too long, and CANN's block of a notify that never came.
_GAVE_UP = Pattern(r"error code:?(?: is)?:? ?507048\b|\bEI0002\b|FFTS plus task timeout")
_GROUP = Pattern(r"\bgroup:\s?\[?(?P<group>[^\],\s]+)|\btag\[[A-Za-z]+_(?P<tag>[^\],\s]+)\]")
_OWN_GROUP = Pattern(r"\bgroup:\s?\[?([^\],\s]+)")
_SIZE = Pattern(r"\brankSize\[(\d{1,7})\]")
_CALM = ("DEBUG", "TRACE", "INFO", "EVENT", "NOTICE")
_NO_RANK = 0xFFFFFFFF
_NEAR_LINES = 12
_MOST_ABSENT = 4096
LITERALS = (
    "-remoteIpAddr[",
    "LINK_ERROR_INFO",
    "remoteRank:",
    "remote rank:",
    "peer rank:",
    "no connect",
    "time out |",
    "Failed to connect agent[",
    "connected rankinfo[LINE",
    "need connect rankNum is",
    "connected p2p timeout",
    "run failed, base information",
    "opData information is",
)
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
        untold: Those that waited for a peer of which the lines do not say who in the job it is. They are no culprits.
        unheard: Those that were waited for and say on the console that they gave up as well, where the plog that
            tells for whom they waited is not among the input. They are no culprits either.
        absent: Those that never joined a communicator, as its root tells.
        absent_record: The line that tells it.
    """

    edges: list[Wait] = field(default_factory=list)
    culprits: list[Party] = field(default_factory=list)
    circle: bool = False
    waiters: list[int] = field(default_factory=list)
    untold: list[Party] = field(default_factory=list)
    unheard: list[Party] = field(default_factory=list)
    absent: list[Party] = field(default_factory=list)
    absent_record: LogRecord | None = None

    def last_hops(self) -> list[LogRecord]:
        """Return the lines that name a culprit."""
        return [edge.record for edge in self.edges if edge.awaited in self.culprits]

    def silent(self) -> list[Party]:
        """Return those that were waited for and left no log, most waited for first."""
        return [party for party in (*self.culprits, *self.absent) if not party.logged]


class People:
    """Finds a process by what a line tells of it."""

    def __init__(self, topology: Topology, records: Iterable[LogRecord] = ()) -> None:
        self._topology = topology
        self._devices: dict[Key, int] = {}
        for record in records:
            if record.device is not None and record.pid is not None and record.pid > 0:
                self._devices.setdefault((record.node, record.pid), record.device)
        self._by_rank: dict[int, list[Process]] = {}
        self._by_address: dict[str, list[Process]] = {}
        self._by_device: dict[tuple[str | None, int], list[Process]] = {}
        for process in (*topology.world.values(), *topology.listed):
            if process.rank is not None:
                self._by_rank.setdefault(process.rank, []).append(process)
            for address in {process.device_ip, (process.server or "").split("%")[0]} - {None, ""}:
                self._by_address.setdefault(address or "", []).append(process)
            if process.device is not None:
                self._by_device.setdefault((process.node, process.device), []).append(process)

    def waiter(self, record: LogRecord, rank: int | None, address: str | None) -> Party | None:
        """Return the process that wrote a record."""
        process = self._topology.by_pid(record.node, record.pid, record.file_pid)
        if process is None and (rank is not None or address is not None):
            process = self._find(rank, address, None, record.time_us)
        if process is not None:
            return self._party(process)
        if record.node is None and record.rank is None and record.device is None:
            return None
        device = record.device
        if device is None and record.pid is not None:
            device = self._devices.get((record.node, record.pid))
        return Party(record.node, device, record.rank if record.rank is not None else rank)

    def awaited(
        self, rank: int | None, address: str | None, device: int | None, time_us: int | None = None
    ) -> Party | None:
        """Return the process that a line names as its peer; None for a number that names nobody."""
        process = self._find(rank, address, device, time_us)
        if process is not None:
            return self._party(process)
        if address is None and self._topology.ranks is not None and (rank is None or rank >= self._topology.ranks):
            # A number of a communicator that the logs do not introduce.
            return None
        return Party(None, device, rank, address, logged=False)

    def neighbour(self, node: str | None, device: int, time_us: int | None) -> Party:
        """Return the process on a device of a node."""
        process = _latest(self._by_device.get((node, device), []), time_us)
        return self._party(process) if process is not None else Party(node, device, None, logged=False)

    def linked(self, record: LogRecord, rank: int | None, address: str) -> Party | None:
        """Return whom a row of the link table names; its addresses may be those of virtual ports of the node."""
        device = self._topology.vnics.get((record.node, address))
        if device is not None:
            return self.neighbour(record.node, device, record.time_us)
        return self.awaited(rank, address, None, record.time_us)

    def peer(self, group: str | None, rank: int, record: LogRecord) -> Party | None:
        """Return who has a rank in the communicator that a record is about."""
        topology = self._topology
        if group is not None and group in topology.groups:
            pid = record.pid if record.pid is not None and record.pid > 0 else record.file_pid
            process = topology.member(group, rank, (record.node, pid) if pid is not None else None)
            if process is not None:
                return self._party(process)
            if topology.size(group) != topology.ranks:
                # Its number is known; whose number in the job that is follows only where nobody else is left.
                left = topology.only_left(group)
                return self.awaited(left, None, None, record.time_us) if left is not None else None
        size = _SIZE.search(record.text)
        if size is not None and topology.ranks is not None and int(size[1]) != topology.ranks:
            return None
        return self.awaited(rank, None, None, record.time_us)

    def _party(self, process: Process) -> Party:
        device = process.device
        if device is None and process.key is not None:
            device = self._devices.get(process.key)
        if process.key is None:
            # Only the rank table tells of it.
            return Party(process.node, device, process.rank, None if process.node else process.server, logged=False)
        return Party(process.node, device, process.rank)

    def _find(
        self, rank: int | None, address: str | None, device: int | None, time_us: int | None = None
    ) -> Process | None:
        if address is not None:
            same = self._by_address.get(address, [])
            if device is not None:
                same = [p for p in same if p.device == device] or same
            elif len(same) > 1 and rank is not None:
                same = [p for p in same if p.rank == rank] or same
            if len(same) > 1 and not _one_place(same):
                return same[0] if device is not None else None
            return _latest(same, time_us)
        if rank is not None:
            same = self._by_rank.get(rank, [])
            # The number counts in some communicator; it names somebody only where all agree on one.
            return _latest(same, time_us) if len(same) < 2 or _one_place(same) else None
        return None


def _one_place(processes: Sequence[Process]) -> bool:
    """Whether it is one place in the job, taken again after a restart."""
    return len({(p.node, p.rank, p.ranks, p.device) for p in processes}) == 1


def _latest(processes: Sequence[Process], time_us: int | None) -> Process | None:
    """Return the process that had the place at a time."""
    if len(processes) < 2:
        return processes[0] if processes else None
    begun = [p for p in processes if p.time_us is not None and (time_us is None or p.time_us <= time_us)]
    return max(begun, key=lambda p: p.time_us or 0) if begun else processes[0]


class Groups:
    """Tells which communicator a line is about: the lines beside it name it."""

    def __init__(self, records: Iterable[LogRecord], topology: Topology) -> None:
        self._lines: dict[tuple[str, int | None], list[tuple[int, str]]] = {}
        if topology.groups:
            for record in records:
                if "information is" in record.text or "group:" in record.text:
                    for match in _GROUP.finditer(record.text, 0, 4000):
                        name = match["group"] or match["tag"]
                        if name in topology.groups:
                            self._lines.setdefault((record.file, record.pid), []).append((record.line, name))
                            break
        for places in self._lines.values():
            places.sort()

    def of(self, record: LogRecord) -> str | None:
        """Return the name of the communicator, None where no line close by states a known one."""
        places = self._lines.get((record.file, record.pid), [])
        at = bisect_left(places, (record.line, ""))
        near = [place for place in places[max(at - 1, 0) : at + 1] if abs(place[0] - record.line) <= _NEAR_LINES]
        return min(near, key=lambda place: abs(place[0] - record.line))[1] if near else None


def find(records: Sequence[LogRecord], topology: Topology, people: People | None = None) -> Waits:
    """Read the waits among `records` and follow them.

    Args:
        records: Kept log records. What is said at level INFO and below is no complaint.
        topology: Who is who.
        people: Finds processes; made where None.
    """
    people = people or People(topology, records)
    records = [record for record in records if record.level not in _CALM]
    groups = Groups(records, topology)
    edges: dict[tuple[Party, Party], Wait] = {}
    untold: dict[Party, None] = {}
    # These name the peer by host and device, which says more than the address in a row of the table.
    exact = {(record.file, record.pid) for record in records if "-remoteIpAddr[" in record.text}
    for record in records:
        for waiter, awaited in _named(record, people, groups):
            if awaited is not None and not awaited.logged and "|" in record.text and (record.file, record.pid) in exact:
                continue
            if waiter is not None and awaited is None:
                untold[waiter] = None
            elif waiter is not None and awaited is not None and waiter != awaited:
                edges.setdefault((waiter, awaited), Wait(waiter, awaited, record))
    waits = _follow(list(edges.values()), list(untold), gave_up(records) - _told_errors(records))
    _absent(waits, records, topology, people)
    return waits


def gave_up(records: Iterable[LogRecord]) -> set[int]:
    """Return the ranks of the job that say on the console that they gave up waiting for others."""
    return {
        record.rank
        for record in records
        if record.kind == "console" and record.rank is not None and _GAVE_UP.search(record.text)
    }


def _told_errors(records: Iterable[LogRecord]) -> set[int]:
    """Return the ranks of whose errors there is a plog."""
    return {record.rank for record in records if record.kind == "slog" and record.rank is not None}


def _named(record: LogRecord, people: People, groups: Groups) -> Iterator[tuple[Party | None, Party | None]]:
    """Yield who waits and for whom."""
    text, found = record.text, False
    if "-remoteIpAddr[" in text:
        for match in _TRANSPORT.finditer(text):
            found = True
            awaited = people.awaited(None, match["server"], _int(match["device"]), record.time_us)
            yield people.waiter(record, None, None), awaited
    if "|" in text:
        for match in _LINK.finditer(text):
            found = True
            awaited = people.linked(record, _int(match["rank"]), match["address"])
            yield people.waiter(record, _int(match["own_rank"]), match["own_address"]), awaited
    for match in _P2P.finditer(text) if "connected p2p timeout" in text else ():
        found = True
        yield people.waiter(record, None, None), people.neighbour(record.node, int(match["device"]), record.time_us)
    if found or "rank" not in text.lower() or not _WAITING.search(text) or _ELSEWHERE.search(text):
        return
    for match in _NOTIFY.finditer(text):
        rank = _int(match["rank"])
        if rank is not None and rank < _NO_RANK:
            group = _own_group(text) if "EI0002" in text else None
            awaited = people.peer(group or groups.of(record), rank, record)
            yield people.waiter(record, _int(match["own_rank"]), None), awaited


def _own_group(text: str) -> str | None:
    """Return the communicator that a whole block names."""
    match = _OWN_GROUP.search(text)
    return match[1] if match else None


def _int(text: str | None) -> int | None:
    return int(text) if text and len(text) < 12 else None


def _absent(waits: Waits, records: Iterable[LogRecord], topology: Topology, people: People) -> None:
    """Fill in who never joined, where the root of a communicator of the whole job tells."""
    present: set[int] = set()
    teller: LogRecord | None = None
    lacking: list[int] = []
    size = topology.ranks
    for record in records:
        match = _LACKS.search(record.text) if "Failed to connect agent[" in record.text else None
        if match is not None:
            lacking = _ranks(match[1])
            teller = record
            break
        if needs := _NEEDS.search(record.text) if "need connect rankNum" in record.text else None:
            size = int(needs[1])
        if "connected rankinfo[LINE" in record.text:
            for line in _HAS.finditer(record.text):
                present |= {int(text) for text in _BRACKETED.groups(line[1])}
                teller = teller or record
    if not lacking and present and size is not None and max(present) < size <= _MOST_ABSENT:
        lacking = [rank for rank in range(size) if rank not in present]
    if lacking and len(lacking) <= _MOST_ABSENT and (size is None or topology.ranks in (None, size)):
        parties = (people.awaited(rank, None, None) for rank in lacking)
        waits.absent = [party for party in parties if party is not None]
        waits.absent_record = teller


def _ranks(text: str) -> list[int]:
    """Return the numbers of a list with ranges: ``1,3,5-7``."""
    ranks: set[int] = set()
    for part in text.replace(" ", "").split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and len(first) < 8:
            stop = int(last) if last.isdigit() and len(last) < 8 else int(first)
            ranks.update(range(int(first), min(stop, int(first) + _MOST_ABSENT) + 1))
    return sorted(ranks)


def _follow(edges: Sequence[Wait], untold: Sequence[Party] = (), quitters: Collection[int] = ()) -> Waits:
    waits = Waits(list(edges))
    waiting = {edge.waiter for edge in edges}
    waits.untold = [party for party in untold if party not in waiting]
    waiting.update(untold)
    awaited = dict.fromkeys(edge.awaited for edge in edges)
    waits.unheard = [party for party in awaited if party not in waiting and party.rank in quitters]
    waiting.update(waits.unheard)
    sinks = list(dict.fromkeys(edge.awaited for edge in edges if edge.awaited not in waiting))
    behind: dict[Party, list[Party]] = {}
    for edge in edges:
        behind.setdefault(edge.awaited, []).append(edge.waiter)
    if not sinks:
        sinks = _last_circle(edges)
        waits.circle = bool(sinks)
    counted = sorted(((_count(sink, behind), -at, sink) for at, sink in enumerate(sinks)), key=lambda item: item[:2])
    for number, _, sink in reversed(counted):
        waits.culprits.append(sink)
        waits.waiters.append(number)
    return waits


def _last_circle(edges: Sequence[Wait]) -> list[Party]:
    """Return the members of the circles that all waits lead into: whoever only waits for a circle is not of it."""
    ahead: dict[Party, set[Party]] = {}
    for edge in edges:
        ahead.setdefault(edge.waiter, set()).add(edge.awaited)
    left = dict.fromkeys(edge.awaited for edge in edges)
    while True:
        # Nobody waits for those that drop out, so they close no circle.
        wanted = {party for waiter in left for party in ahead.get(waiter, ())}
        kept = {party: None for party in left if party in wanted}
        if len(kept) == len(left):
            return list(left)
        left = kept


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
