"""Who is who: ranks, devices and communicators of the processes that logged.

Sources are the lines in which HCCL says who it is when a communicator is set up:
``SetupAgent`` (root-info detection), ``hcclCommInitInfo`` (torch) and ``hcom init by file`` (rank table).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from npudiag.tables.records import LogRecord

MARKERS = ("SetupAgent rankNum[", "hcclCommInitInfo:commId[", "hcom init by file success", "Entry-HcclCommInit")
"""Literals whose records this analysis reads; their records are kept for it."""

_FIELD = re.compile(
    r"(rankNum|ranks|totalRanks|rank|rootInfo identifier|identifier|commId|server|serverId|logicDevId|phydevId"
    r"|deviceLogicId|device|deviceIp)\s?\[([^\]]*)\]"
)
_WORLD = re.compile(r"hccl_world_group|_world|worldComm")
_DEVICE_IN_TEXT = re.compile(
    r"(?:device_id=|deviceLogicId\[|Device:|device id[ :=]|devId ?[:=] ?|deviceId ?[:=] ?)(\d{1,3})\b"
)


@dataclass(frozen=True, slots=True)
class Process:
    """One process in one communicator, as it introduced itself."""

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


@dataclass(frozen=True, slots=True)
class Topology:
    """What is known of the job's processes.

    Attributes:
        processes: Every introduction, in order of the records.
        world: The introduction that counts for each (node, pid): of the largest communicator.
        ranks: Size of the job, None when no line states it.
    """

    processes: tuple[Process, ...]
    world: dict[tuple[str | None, int], Process]
    ranks: int | None

    def by_pid(self, node: str | None, *pids: int | None) -> Process | None:
        """Return the process of the first of `pids` that is known on that node."""
        for pid in pids:
            if pid is not None and (process := self.world.get((node, pid))) is not None:
                return process
        return None


def _number(fields: dict[str, str], *names: str) -> int | None:
    for name in names:
        text = fields.get(name, "")
        if text.isdigit() and len(text) < 8:
            return int(text)
    return None


def find(records: Iterable[LogRecord]) -> Topology:
    """Read the introductions among `records`."""
    processes: list[Process] = []
    for record in records:
        if not any(marker in record.text for marker in MARKERS):
            continue
        fields = dict(_FIELD.findall(record.text))
        rank = _number(fields, "rank")
        size = _number(fields, "rankNum", "totalRanks", "ranks")
        if rank is None or size is None or rank >= size:
            continue
        processes.append(
            Process(
                node=record.node,
                pid=record.pid if record.pid is not None and record.pid > 0 else record.file_pid,
                rank=rank,
                ranks=size,
                logic_device=_number(fields, "logicDevId", "deviceLogicId", "device"),
                device=_number(fields, "phydevId", "logicDevId", "device"),
                device_ip=fields.get("deviceIp") or None,
                server=fields.get("server") or fields.get("serverId") or None,
                communicator=fields.get("rootInfo identifier") or fields.get("identifier") or fields.get("commId"),
                file=record.file,
                line=record.line,
            )
        )
    world: dict[tuple[str | None, int], Process] = {}
    for process in processes:
        if process.pid is None:
            continue
        key = (process.node, process.pid)
        known = world.get(key)
        if known is None or (process.ranks or 0) > (known.ranks or 0):
            world[key] = process
    sizes = [process.ranks for process in world.values() if process.ranks]
    return Topology(tuple(processes), world, max(sizes, default=None))


def place(records: Iterable[LogRecord], topology: Topology) -> None:
    """Fill in rank and device of the records whose process is known, in place.

    A pid in a record's header beats the one in the file's name. Where no line introduces the
    process, the device id that the record itself names (a logical one) is taken.
    """
    for record in records:
        process = topology.by_pid(record.node, record.pid, record.file_pid)
        if process is not None:
            if record.rank is None:
                record.rank = process.rank
            if record.device is None:
                record.device = process.device
        if record.device is None and record.kind in ("slog", "console"):
            match = _DEVICE_IN_TEXT.search(record.text, 0, 600)
            if match:
                record.device = int(match.group(1))
