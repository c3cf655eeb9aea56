"""``trace_view.json`` and msprof's timelines: hundreds of megabytes of events, of which few kinds matter.

The bytes are scanned for the names of those kinds, and only what follows such a name is looked at. So a document
that breaks off, ends with ``,]`` or lacks its bracket is read like a whole one, in bounded memory.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

from npudiag.discover.source import Source
from npudiag.errors import SourceError
from npudiag.parsers.base import Context, Partial, Stream, feed
from npudiag.parsers.profiler.parser import damaged
from npudiag.parsers.profiler.plausible import sound_step
from npudiag.parsers.profiler.raw import of
from npudiag.parsers.profiler.transfers import Transfers
from npudiag.parsers.scan import Literals, Scanner

_PIECE = 1 << 22
_OVERLAP = 64 << 10
_BETWEEN = (b"}, {", b"},{", b"},\n")
"""What stands between two events, by the JSON writer in use."""
GAP_US = 1000.0
"""Idle time of the device from which on a gap counts."""

_EVENT = re.compile(
    rb'"name": ?"(?:'
    rb"(?P<lane>Computing|Communication(?:\(Not Overlapped\))?|Free)"
    rb"|(?P<freq>AI Core Freq)"
    rb"|(?P<call>AscendCL@acl(?:opCompileAndExecute|rtSynchronize|rtFree|MallocMem|rtMalloc)[A-Za-z0-9]*)"
    rb"|(?P<gc>Python GC|GC|gc\.collect)"
    rb"|(?P<load>enumerate\(DataLoader\)[^\"\\]{0,80})"
    rb"|(?P<bn>(?:SyncBatchNorm|aten::batch_norm_gather_stats|aten::batch_norm_stats)[^\"\\]{0,60})"
    rb')"(?P<rest>[^{}]{0,400}(?:\{[^{}]{0,200})?)'
)
_TS = re.compile(rb'"ts": ?"?(\d+(?:\.\d+)?)')
_DUR = re.compile(rb'"dur": ?"?(\d+(?:\.\d+)?)')
_MHZ = re.compile(rb'"MHz": ?"?(\d+)')
_RARE = (
    '"AI Core Freq"',
    '"Free"',
    '"AscendCL@aclopCompile',
    '"AscendCL@aclrtSynchronize',
    '"AscendCL@aclrtFree',
    '"AscendCL@aclMallocMem',
    '"AscendCL@aclrtMalloc',
    '"Python GC"',
    '"GC"',
    '"gc.collect"',
    '"enumerate(DataLoader)',
    '"SyncBatchNorm',
    '"aten::batch_norm_gather_stats',
    '"aten::batch_norm_stats',
)
_FREQUENT = ('"Computing"', '"Communication"', '"Communication(Not Overlapped)"')
"""Needed only where no table of steps lies beside the trace."""
_MOVED = tuple(f'"size(Byte)": {digit}' for digit in range(1, 10))
"""Transfers between chips; notifications have size 0."""
_TRANSFER = re.compile(
    rb'"dur": ?"?(?P<dur>\d+(?:\.\d+)?)[^{}]*\{[^{}]*"size\(Byte\)": ?(?P<size>\d+)[^{}]*'
    rb'"link type": ?"(?P<link>[A-Z_]{3,20})"'
)
_LINKS = {
    b"HCCS": "HCCS",
    b"HCCS_SW": "HCCS",
    b"PCIE": "PCIE",
    b"SIO": "SIO",
    b"ROCE": "RDMA",
    b"STANDARD_ROCE": "RDMA",
}
_STEP_TABLE = "step_trace_time.csv"
_BACK = 800
"""Bytes from the name of a transfer to its size, and from there to its end."""
_AHEAD = 12
"""Bytes between the quote of a name and the one of its key, blanks included."""
_LANES = {
    b"Computing": "computing",
    b"Communication": "communication",
    b"Communication(Not Overlapped)": "uncovered",
    b"Free": "free",
}


@dataclass(slots=True)
class _Sum:
    name: str = ""
    line: int = 0
    count: int = 0
    total: float = 0.0
    high: float = 0.0

    def add(self, name: bytes, duration: float, line: int) -> None:
        self.count += 1
        self.total += duration
        if duration >= self.high:
            self.high, self.line = duration, line
            self.name = name.decode("utf-8", "replace")[:200]


class _Scan:
    """What was seen so far."""

    def __init__(self, *, lanes: bool) -> None:
        texts = _RARE + _MOVED + (_FREQUENT if lanes else ())
        self.scanner = Scanner(Literals(texts, (False,) * len(texts)))
        self.lengths = [len(text) for text in texts]
        self.events: dict[str, _Sum] = {}
        self.lanes: dict[str, list[float]] = {name: [0, 0.0] for name in _LANES.values()}
        self.first, self.last = float("inf"), float("-inf")
        self.freq: list[tuple[float, float]] = []
        self.transfers = Transfers()
        self.transfer_ids = range(len(_RARE), len(_RARE) + len(_MOVED))

    def move(self, event: re.Match[bytes]) -> None:
        """Take a transfer between chips."""
        transport = _LINKS.get(event["link"])
        if transport is not None:
            self.transfers.add(transport, int(event["size"]), float(event["dur"]))

    def take(self, match: re.Match[bytes], line: int) -> None:
        rest = match["rest"]
        for kind in ("lane", "freq", "call", "gc", "load", "bn"):
            name = match[kind]
            if name is not None:
                break
        else:
            return
        duration = _DUR.search(rest)
        length = float(duration[1]) if duration else 0.0
        if kind == "lane":
            self._lane(name, length, rest, line)
        elif kind == "freq":
            mhz, when = _MHZ.search(rest), _TS.search(rest)
            if mhz and when and len(self.freq) < 500_000:
                self.freq.append((float(when[1]), float(mhz[1])))
        elif kind == "call":
            self._event(_call(name), name, length, line)
        elif duration is not None:
            self._event({"gc": "gc", "load": "dataloader", "bn": "sync-batch-norm"}[kind], name, length, line)

    def _event(self, kind: str, name: bytes, length: float, line: int) -> None:
        self.events.setdefault(kind, _Sum()).add(name, length, line)

    def _lane(self, name: bytes, length: float, rest: bytes, line: int) -> None:
        when = _TS.search(rest)
        if when is None or b'"dur"' not in rest:
            return
        lane = self.lanes[_LANES[name]]
        lane[0] += 1
        lane[1] += length
        start = float(when[1])
        self.first = min(self.first, start)
        self.last = max(self.last, start + length)
        if name == b"Free" and length >= GAP_US:
            self._event("gap", name, length, line)


def _call(name: bytes) -> str:
    if b"Compile" in name:
        return "compile"
    return "synchronize" if b"Synchronize" in name else "malloc"


def read(partial: Partial, stream: Stream, head: bytes, context: Context) -> None:
    """Scan a trace. Lines are counted: most traces are one line, then every event stands in line 1."""
    scan = _Scan(lanes=not _has_steps(context.source))
    # One buffer for all of it: to join and cut pieces would copy each byte twice.
    block = bytearray(_OVERLAP + max(_PIECE, len(head)))
    view = memoryview(block)
    ahead = 0
    line = 1
    tail = b""
    try:
        for piece in feed(head, stream, _PIECE):
            partial.bytes += len(piece)
            size = ahead + len(piece)
            view[ahead:size] = piece
            # An event that the block cuts is left for the next one. None is longer than the part that is searched for
            # its begin: the separators a trace does not have would be sought through all of it.
            low = max(0, size - _OVERLAP)
            cut = max(block.rfind(between, low, size) for between in _BETWEEN) + 1 or low
            line = _take(scan, block, cut, line)
            tail = bytes(view[max(0, size - 200) : size])
            ahead = size - cut
            view[:ahead] = bytes(view[cut:size])
    except SourceError as exc:
        partial.broke_off(exc, line)
    line = _take(scan, block, ahead, line)
    partial.lines = line
    end = tail.rstrip()
    if not partial.truncated and not end.endswith((b"]", b"}")):
        damaged(partial, "the trace breaks off inside an event", reason="truncated", line=line)
    elif not partial.truncated and not end.endswith(b"]"):
        damaged(
            partial,
            "the trace has no closing bracket: the process ended while it was written",
            reason="truncated",
            line=line,
        )
    _hand_over(partial, scan)


def _has_steps(source: Source) -> bool:
    """Whether the table of steps lies beside a trace on disk: then the trace need not be asked for them."""
    if source.location is None or source.container is not None:
        return False
    try:
        return (Path(source.location).parent / _STEP_TABLE).stat().st_size > 0
    except (OSError, ValueError):
        return False


def _take(scan: _Scan, block: bytearray, size: int, line: int) -> int:
    """Look at the events in the first `size` bytes of a block; return the line they end in."""
    # To look for one is many times faster than to count, and most traces are one line.
    breaks = block.count(b"\n", 0, size) if block.find(b"\n", 0, size) >= 0 else 0
    at, here = 0, line
    for literal, end in zip(*scan.scanner.scan(memoryview(block)[:size]), strict=True):
        if literal in scan.transfer_ids:
            start = block.rfind(b'"name"', max(end - _BACK, 0), end)
            event = _TRANSFER.search(block, start, min(end + _BACK, size)) if start >= 0 else None
            if event is not None:
                scan.move(event)
            continue
        quote = end - scan.lengths[literal]
        start = block.rfind(b'"name"', max(quote - _AHEAD, 0), quote)
        match = _EVENT.match(block, start, size) if start >= 0 else None
        if match is None:
            continue
        if breaks:
            here += block.count(b"\n", at, start)
            at = start
        scan.take(match, here)
    return line + breaks


def _hand_over(partial: Partial, scan: _Scan) -> None:
    raw = of(partial)
    for kind, total in scan.events.items():
        raw.add(
            "prof_events",
            {
                "line": total.line,
                "kind": kind,
                "name": total.name,
                "count": total.count,
                "total_us": total.total,
                "max_us": total.high,
            },
        )
    scan.transfers.hand_over(raw)
    lanes = scan.lanes
    if lanes["computing"][0] and scan.last > scan.first:
        computing, covered = lanes["computing"][1], lanes["communication"][1]
        uncovered = lanes["uncovered"][1]
        if covered and not lanes["uncovered"][0] and lanes["free"][0]:
            uncovered = max(scan.last - scan.first - computing - lanes["free"][1], 0.0)
        row = {
            "line": 1,
            "step": None,
            "computing_us": computing,
            "comm_us": covered,
            "comm_not_overlapped_us": uncovered,
            "overlapped_us": max(covered - uncovered, 0.0),
            "free_us": max(scan.last - scan.first - computing - uncovered, 0.0),
            "e2e_us": scan.last - scan.first,
            "source": "trace",
        }
        if sound_step(row):
            raw.add("prof_steps", row)
        else:
            damaged(partial, "the times of the lanes make no sense")
    if scan.freq:
        raw.add("prof_counters", {"line": 1, "name": "aicore-freq", "unit": "MHz", **weighted(scan.freq)})


def weighted(readings: list[tuple[float, float]]) -> dict[str, float | int]:
    """Return samples, low, high and mean of (time, value) readings; each value holds until the next reading."""
    readings = sorted(readings)
    values = [value for _, value in readings]
    span = readings[-1][0] - readings[0][0]
    if span > 0:
        area = sum(value * (later - when) for (when, value), (later, _) in itertools.pairwise(readings))
        mean = area / span
    else:
        mean = sum(values) / len(values)
    return {"samples": len(values), "low": min(values), "high": max(values), "mean": mean}
