"""Who is who: ranks, devices and communicators of the processes that logged.

Sources are the lines in which HCCL says who it is when a communicator is set up:
``SetupAgent`` and ``Entry-HcclCommInit`` (root-info detection), ``hcclCommInitInfo`` (torch), ``hcom init by file`` and
``Key Info`` (rank table). A task that failed names its communicator too (``groupRank information``), which tells the
members of a communicator where the run logs were not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from npudiag.analyses.pattern import Pattern
from npudiag.tables.records import LogRecord

MARKERS = (
    "SetupAgent rankNum[",
    "hcclCommInitInfo:commId[",
    "hcom init by file success",
    "Entry-HcclCommInit",
    "[LocalRank Key Info]",
    "[Communicator Key Info]",
    "groupRank information is",
    "[Vnic]Listen on ip[",
)
"""Literals whose records this analysis reads; their records are kept for it."""

_FIELD = Pattern(
    r"\b(rankNum|rankSize|ranks|totalRanks|rankId|rank|userRank|rootInfo identifier|identifier|commId|group:|serverId"
    r"|server|hostIp|logicDevId|phydevId|devicePhyId|deviceLogicId|device|deviceIp)\s?\[([^\]]*)\]"
)
_DEVICE_IN_TEXT = Pattern(
    r"(?:device_id=|\(device_id:|deviceLogicId\[|devicePhyId\[|Device:|device id[ :=]|devId ?[:=] ?|deviceId ?[:=] ?)"
    r"(\d{1,3})\b"
)
_DEVICE_OF_COMPONENT = Pattern(
    r"(?:\bAscend(?:310P?|910)[A-Z0-9]*-|\b[cC]ard(?: ?I[dD])?[ :=]{1,2}"
    r"|\b(?:[dD]eviceI[dD]|[lL]ogicI[dD]|[pP]hyI[dD])[:= ]{1,2}"
    r"|\breceive devFaultInfo: \{(?:EventID:)?\d+ )(\d{1,3})\b(?![.\w])"
)
"""How components of the cluster name a card."""
_VNIC = Pattern(r"\[Vnic\]Listen on ip\[([^\]]+)\][^\n]*?devPhyId\[(\d{1,4})\]")
_NAMES = ("rootInfo identifier", "identifier", "commId", "group:")
_NO_ADDRESS = ("", "0.0.0.0", "::")

Key = tuple["str | None", int]
"""Node and process id: what tells processes apart."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process in one communicator, as it introduced itself.

    Attributes:
        names: All names that it gives the communicator.
        stated: Whether it was said at set-up; False for what a failed task tells, which is no list of all ranks.
    """

    node: str | None
    pid: int | None
    rank: int | None
    ranks: int | None
    logic_device: int | None
    device: int | None
    device_ip: str | None
    server: str | None
    communicator: str | None
    file: str
    line: int
    names: frozenset[str] = frozenset()
    time_us: int | None = None
    stated: bool = True

    @property
    def key(self) -> Key | None:
        """Return what tells the process apart, None where its id is not known."""
        return None if self.pid is None else (self.node, self.pid)


@dataclass(frozen=True, slots=True)
class Topology:
    """What is known of the job's processes.

    Attributes:
        processes: Every introduction, in order of the records.
        world: The introduction that counts for each (node, pid): of the largest communicator.
        ranks: Size of the job, None when no line states it.
        groups: By name of a communicator and rank in it, the processes that claim that place.
        names: For each process, the names of each communicator that it is in.
        vnics: By node and address, the device behind a virtual port: cards of a node reach each other by addresses
            that every node has.
        listed: Ranks that the job's rank table lists, and of which none introduced itself.
    """

    processes: tuple[Process, ...]
    world: dict[Key, Process]
    ranks: int | None
    groups: dict[str, dict[int, list[Process]]] = field(default_factory=dict)
    names: dict[Key, list[frozenset[str]]] = field(default_factory=dict)
    vnics: dict[tuple[str | None, str], int] = field(default_factory=dict)
    listed: tuple[Process, ...] = ()

    def by_pid(self, node: str | None, *pids: int | None) -> Process | None:
        """Return the process of the first of `pids` that is known on that node."""
        for pid in pids:
            if pid is not None and (process := self.world.get((node, pid))) is not None:
                return process
        return None

    def member(self, group: str, rank: int, beside: Key | None = None) -> Process | None:
        """Return who has a rank in a communicator; None where it is not known or more than one could be meant.

        The rank it carries is that in the job, None where only its place in the communicator is known.

        Args:
            group: A name of the communicator. Names that frameworks give (``group_name_3``) may be used again in
                other processes for another communicator.
            rank: Rank within it.
            beside: A process of the same communicator, which tells namesakes apart.
        """
        claims = self.groups.get(group, {}).get(rank, [])
        keys = {claim.key for claim in claims}
        if len(keys) > 1 and beside is not None:
            own = {name for names in self.names.get(beside, ()) if group in names for name in names} - {group}
            claims = [claim for claim in claims if claim.names & own]
            keys = {claim.key for claim in claims}
        if len(keys) != 1:
            return None
        key = keys.pop()
        known = self.world.get(key) if key is not None else None
        return known or replace(claims[0], rank=None)

    def only_left(self, group: str) -> int | None:
        """Return the rank of the job that the last unknown member of a communicator must have.

        None unless all its members but one and all ranks of the job but one introduce themselves.
        """
        claims = self.groups.get(group, {})
        known = {process.rank for process in self.world.values()}
        size = self.size(group)
        if size is None or self.ranks is None or len(claims) != size - 1 or len(known) != self.ranks - 1:
            return None
        if any(len({claim.key for claim in same}) != 1 for same in claims.values()):
            return None
        return next((rank for rank in range(self.ranks) if rank not in known), None)

    def size(self, group: str) -> int | None:
        """Return the number of ranks of a communicator; None where the lines do not agree on one."""
        sizes = {p.ranks for claims in self.groups.get(group, {}).values() for p in claims if p.ranks}
        return sizes.pop() if len(sizes) == 1 else None


def _number(fields: dict[str, str], *names: str) -> int | None:
    for name in names:
        text = fields.get(name, "")
        if text.isdigit() and len(text) < 8:
            return int(text)
    return None


def _address(fields: dict[str, str], *names: str) -> str | None:
    return next((fields[name] for name in names if fields.get(name, "") not in _NO_ADDRESS), None)


def find(records: Iterable[LogRecord]) -> Topology:
    """Read the introductions among `records`."""
    processes: list[Process] = []
    announced: dict[tuple[str, int | None], dict[str, str]] = {}
    vnics: dict[tuple[str | None, str], int] = {}
    logged: set[tuple[str | None, int | None]] = set()
    for record in records:
        if record.kind == "slog":
            logged.add((record.node, record.file_pid if record.file_pid is not None else record.pid))
        if not any(marker in record.text for marker in MARKERS):
            continue
        if vnic := _VNIC.search(record.text):
            vnics[(record.node, vnic[1])] = int(vnic[2])
            continue
        fields = dict(_FIELD.pairs(record.text))
        if "[Communicator Key Info]" in record.text:
            # Its size and name stand in a line of their own, ahead of the one with rank and device.
            announced[(record.file, record.pid)] = fields
            continue
        if "[LocalRank Key Info]" in record.text:
            fields = {**announced.pop((record.file, record.pid), {}), **fields}
        process = _process(record, fields)
        if process is not None:
            processes.append(process)
    world = _world(processes, len(logged))
    sizes = [process.ranks for process in world.values() if process.ranks]
    names: dict[Key, list[frozenset[str]]] = {}
    for process in processes:
        if process.key is not None:
            names.setdefault(process.key, []).append(process.names)
    return Topology(tuple(processes), world, max(sizes, default=None), _groups(processes), names, vnics)


def with_table(topology: Topology, table: Sequence[Process]) -> Topology:
    """Return the topology with what a rank table adds to it: ranks without logs, and how many there are.

    A table that contradicts what the processes say of themselves is not that of this job.
    """
    if not table:
        return topology
    by_rank = {process.rank: process for process in table}
    nodes: dict[str, set[str | None]] = {}
    for known in topology.world.values():
        same = by_rank.get(known.rank)
        if same is None or topology.ranks != len(table) or not _agree(known, same):
            return topology
        nodes.setdefault(same.server or "", set()).add(known.node)
    heard = {process.rank for process in topology.world.values()}
    missing = (process for process in table if process.rank not in heard)
    only = {server: next(iter(found)) for server, found in nodes.items() if len(found) == 1}
    listed = tuple(replace(process, node=only.get(process.server or "")) for process in missing)
    return replace(topology, ranks=len(table), listed=listed)


def _agree(known: Process, listed: Process) -> bool:
    """Whether what a process says of its card is what the table says of it."""
    return all(
        one is None or other is None or one == other
        for one, other in ((known.device, listed.device), (known.device_ip, listed.device_ip))
    )


def _process(record: LogRecord, fields: dict[str, str]) -> Process | None:
    rank = _number(fields, "rank", "userRank", "rankId")
    size = _number(fields, "rankNum", "totalRanks", "ranks", "rankSize")
    if rank is None or size is None or rank >= size:
        return None
    names = [fields[name] for name in _NAMES if fields.get(name)]
    return Process(
        node=record.node,
        pid=record.pid if record.pid is not None and record.pid > 0 else record.file_pid,
        rank=rank,
        ranks=size,
        logic_device=_number(fields, "logicDevId", "deviceLogicId", "device"),
        device=_number(fields, "phydevId", "devicePhyId", "logicDevId", "device"),
        device_ip=_address(fields, "deviceIp"),
        server=_address(fields, "server", "serverId", "hostIp"),
        communicator=names[0] if names else None,
        file=record.file,
        line=record.line,
        names=frozenset(names),
        time_us=record.time_us,
        stated="groupRank information" not in record.text,
    )


def _world(processes: Sequence[Process], logged: int) -> dict[Key, Process]:
    """Return the introduction that counts for each process.

    A small communicator numbers its ranks from 0 like any other. What a failed task tells counts as a rank of the
    job only where it tells of one communicator, and that is as large as there are processes that logged.
    """
    told = [process for process in processes if not process.stated]
    if len({process.communicator for process in told}) > 1 or any((p.ranks or 0) < logged for p in told):
        processes = [process for process in processes if process.stated]
    world: dict[Key, Process] = {}
    for process in processes:
        key = process.key
        if key is None:
            continue
        known = world.get(key)
        better = known is None or (process.ranks or 0) > (known.ranks or 0)
        if known is None or better or (known.device is None and process.device is not None and _alike(known, process)):
            world[key] = process
    return world


def _alike(one: Process, other: Process) -> bool:
    return (one.rank, one.ranks) == (other.rank, other.ranks)


def _groups(processes: Sequence[Process]) -> dict[str, dict[int, list[Process]]]:
    groups: dict[str, dict[int, list[Process]]] = {}
    for process in processes:
        if process.rank is not None and process.pid is not None:
            for name in process.names:
                groups.setdefault(name, {}).setdefault(process.rank, []).append(process)
    return groups


def place(records: Sequence[LogRecord], topology: Topology) -> None:
    """Fill in rank and device of the records whose process is known, in place.

    A pid in a record's header beats the one in the file's name. Where no line introduces the process, what
    torch_npu prints of it on the console counts, then the device that the record itself or all others of its plog
    name (a logical one).
    """
    told = _told(records)
    for record in records:
        process = topology.by_pid(record.node, record.pid, record.file_pid)
        rank, device = (process.rank, process.device) if process is not None else (None, None)
        if process is None and record.kind == "slog":
            rank, device = next(
                (told[key] for pid in (record.pid, record.file_pid) if (key := (record.node, pid)) in told),
                (None, None),
            )
        if record.rank is None:
            record.rank = rank
        if record.device is None:
            record.device = device
        if record.device is None and record.kind in ("slog", "console"):
            match = _DEVICE_IN_TEXT.search(record.text, 0, 600)
            if match:
                record.device = int(match.group(1))
        elif record.device is None and record.kind == "cluster-component":
            cards = {int(match[1]) for match in _DEVICE_OF_COMPONENT.finditer(record.text, 0, 600)}
            if len(cards) == 1:
                # A list of cards is no statement about one of them.
                record.device = cards.pop()
    _share_devices(records)


def _told(records: Iterable[LogRecord]) -> dict[tuple[str | None, int | None], tuple[int | None, int | None]]:
    """Return rank and device by node and process id, as the console tells them (``PID:.., Device:.., RankID:..``)."""
    found: dict[tuple[str | None, int | None], set[tuple[int | None, int | None]]] = {}
    for record in records:
        if record.kind == "console" and record.pid is not None and record.rank is not None and "RankID:" in record.text:
            found.setdefault((record.node, record.pid), set()).add((record.rank, record.device))
    return {key: places.pop() for key, places in found.items() if len(places) == 1}


def _share_devices(records: Iterable[LogRecord]) -> None:
    """Give the records of a plog that name no device the one that all others of the same process name, in place."""
    named: dict[tuple[str, int | None], set[int]] = {}
    without: list[LogRecord] = []
    for record in records:
        if record.kind != "slog":
            continue
        if record.device is None:
            without.append(record)
        else:
            named.setdefault((record.file, record.pid), set()).add(record.device)
    for record in without:
        devices = named.get((record.file, record.pid), ())
        if len(devices) == 1:
            record.device = next(iter(devices))
