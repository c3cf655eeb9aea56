"""Line shapes, clocks, processes and the in-memory folder that a job is built into."""

from __future__ import annotations

import random
import struct
import textwrap
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

JOB_GROUP = "group_name_0"


def stamp(moment: datetime) -> str:
    """Return a CANN time stamp: ``YYYY-mm-dd-HH:MM:SS.mmm.uuu``."""
    return f"{moment:%Y-%m-%d-%H:%M:%S}.{moment.microsecond // 1000:03d}.{moment.microsecond % 1000:03d}"


def name_stamp(moment: datetime) -> str:
    """Return the 17 digits that CANN puts into log file names."""
    return f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}"


def ctime(moment: datetime) -> str:
    """Return ``Wed Mar 11 09:29:13 2026``, independent of the locale."""
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[moment.weekday()]
    month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][moment.month - 1]
    return f"{day} {month} {moment.day:2d} {moment:%H:%M:%S} {moment.year}"


def slog(level: str, module: str, pid: int, process: str, moment: datetime, body: str) -> str:
    """Return one slog/plog line."""
    return f"[{level}] {module}({pid},{process}):{stamp(moment)} {body}"


class Clock:
    """A time that only moves when told to."""

    def __init__(self, start: datetime, rnd: random.Random) -> None:
        self.now = start
        self._rnd = rnd

    def tick(self, low_us: int = 20, high_us: int = 900) -> datetime:
        """Advance by a random number of microseconds and return the new time."""
        self.now += timedelta(microseconds=self._rnd.randint(low_us, high_us))
        return self.now

    def skip(self, seconds: float) -> datetime:
        """Advance by `seconds` and return the new time."""
        self.now += timedelta(seconds=seconds)
        return self.now

    def at(self, moment: datetime) -> datetime:
        """Set the time to `moment` and return it."""
        self.now = moment
        return moment


@dataclass
class Process:
    """One rank of a job, and what it logged."""

    pid: int
    rank: int
    device: int
    node: str
    host_ip: str
    device_ip: str
    name: str = "python3"
    debug: list[tuple[datetime, str]] = field(default_factory=list)
    run: list[tuple[datetime, str]] = field(default_factory=list)

    @property
    def tid(self) -> int:
        """Thread id of the thread that launches operators."""
        return self.pid + 412

    def log(self, level: str, module: str, moment: datetime, body: str) -> None:
        """Write a line to the log that CANN would choose: errors to debug, the rest to run."""
        target = self.debug if level in ("ERROR", "WARNING") else self.run
        target.append((moment, slog(level, module, self.pid, self.name, moment, body)))


class Folder:
    """Files of one job, in memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def text(self, path: str, lines: Iterable[str], *, newline: str = "\n") -> None:
        """Add a text file."""
        self.files[path] = "".join(f"{line}{newline}" for line in lines).encode()

    def gzip(self, path: str, lines: Iterable[str]) -> None:
        """Add a gzip file.

        It is written with stored blocks: compressed bytes differ between zlib builds, and the
        committed samples have to come out the same everywhere.
        """
        data = "".join(f"{line}\n" for line in lines).encode()
        body = bytearray(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")
        chunks = [data[i : i + 65535] for i in range(0, len(data), 65535)] or [b""]
        for number, chunk in enumerate(chunks):
            last = number == len(chunks) - 1
            body += struct.pack("<BHH", int(last), len(chunk), len(chunk) ^ 0xFFFF) + chunk
        body += struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)
        self.files[path] = bytes(body)

    def plogs(self, processes: Iterable[Process], root: str = "ascend/log") -> None:
        """Add the plog files of `processes` below ``<node>/<root>``."""
        for process in processes:
            for kind, records in (("debug", process.debug), ("run", process.run)):
                if not records:
                    continue
                records.sort(key=lambda item: item[0])
                name = f"plog-{process.pid}_{name_stamp(records[0][0])}.log"
                self.text(f"{process.node}/{root}/{kind}/plog/{name}", (line for _, line in records))

    def write(self, target: Path) -> None:
        """Write every file below `target`."""
        for path, data in sorted(self.files.items()):
            file = target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)


def make_ranks(
    rnd: random.Random,
    *,
    nodes: tuple[str, ...] = ("node-a",),
    per_node: int = 8,
    first_pid: int = 0,
    name: str = "python3",
) -> list[Process]:
    """Return the processes of a job, rank by rank; addresses are from the documentation ranges."""
    base = first_pid or rnd.randint(20_000, 300_000)
    ranks: list[Process] = []
    for number, node in enumerate(nodes):
        for device in range(per_node):
            ranks.append(
                Process(
                    pid=base + 7 * number + device,
                    rank=number * per_node + device,
                    device=device,
                    node=node,
                    host_ip=f"192.0.2.{21 + number}",
                    device_ip=f"198.51.100.{10 + 16 * number + device}",
                    name=name,
                )
            )
        base += 9_000
    return ranks


@dataclass(frozen=True)
class Job:
    """A sample job.

    Attributes:
        name: Folder name.
        case: Text of ``case.yaml``.
        folder: What lies below ``logs/``.
    """

    name: str
    case: str
    folder: Folder


def case_text(*, title: str, en: str, zh: str, expect: str) -> str:
    """Return the text of a ``case.yaml``.

    Args:
        title: One line.
        en: Description in English.
        zh: The same in Chinese; it stays on one line, because folding would put blanks between characters.
        expect: YAML mapping of what must be found, unindented.
    """
    english = textwrap.indent(textwrap.fill(en, 110, break_on_hyphens=False), "    ")
    wanted = textwrap.indent(expect, "  ")
    return f"title: {title}\ndescription:\n  en: >-\n{english}\n  zh: >-\n    {zh}\ninput: logs\nexpect:\n{wanted}"
