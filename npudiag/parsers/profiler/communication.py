"""``communication.json`` and ``communication_matrix.json`` of one rank, and the cluster's, which hold many ranks."""

from __future__ import annotations

import hashlib
import json
import math
import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from npudiag.errors import SourceError
from npudiag.parsers.base import Context, Partial, Stream, feed
from npudiag.parsers.profiler.kinds import decoded
from npudiag.parsers.profiler.parser import damaged
from npudiag.parsers.profiler.plausible import MOST_US
from npudiag.parsers.profiler.raw import CommOps, Raw, add_link, of
from npudiag.parsers.profiler.text import number, step_number

_MOST_BYTES = 2 << 30
_MOST_MB = 1e12
"""Data beyond which a number is damage."""
_TIME = "Communication Time Info"
_BAND = "Communication Bandwidth Info"
_TOTAL = "Total Op Info"
_NAME = re.compile(r"(?:hcom_|hccl_)?([A-Za-z]+)_*")
_STEP = re.compile(r"step\d*$")
_RANKS = re.compile(r"\d+")
_PAIR = re.compile(r"(\d+)-(\d+)$")
_ANCHOR = re.compile(r'"(step\d*|p2p|collective|[^"\\]{1,300}@\d+|\(\d[\d, ]*\))"\s*:\s*(?=\{)')
_SMALL_MB = {"RDMA": 1.0, "HCCS": 16.0, "SIO": 16.0, "PCIE": 16.0}
_P2P = frozenset({"send", "receive", "recv", "batchsendrecv"})


def read(partial: Partial, stream: Stream, head: bytes, context: Context) -> None:
    """Read a document; of one that is cut off, all operations that are whole."""
    data, error = _all(stream, head)
    partial.bytes = len(data)
    partial.lines = data.count(b"\n") + 1
    if error is not None:
        partial.broke_off(error, partial.lines)
    raw = of(partial)
    collect = Matrix(raw) if partial.kind == "prof-communication-matrix" else Operations(raw)
    data = decoded(data)
    try:
        document = _fast(data) if isinstance(collect, Operations) else None
        if document is None:
            document = json.loads(data)
    except (ValueError, RecursionError) as exc:
        text = data.decode("utf-8", "replace")
        found = _salvage(text, collect)
        what = f"the document is damaged ({str(exc)[:80]}); {found} operations ahead of it were read"
        damaged(partial, what, reason="truncated", line=partial.lines)
    else:
        _walk(document, collect)
    bad = collect.finish()
    if bad and not partial.truncated:
        damaged(partial, f"the numbers of {bad} operations make no sense; they are left out")


def _all(stream: Stream, head: bytes) -> tuple[bytes, SourceError | None]:
    pieces = bytearray()
    try:
        for piece in feed(head, stream, 4 << 20):
            pieces += piece
            if len(pieces) > _MOST_BYTES:
                break
    except SourceError as exc:
        return bytes(pieces or head), exc
    return bytes(pieces), None


def _fast(data: bytes) -> Any:
    """Decode with the few keys that are used, several times faster; None where the document is not of the usual form.

    Only documents of one rank: their operations stand three levels deep.
    """
    import msgspec

    from npudiag.parsers.profiler.shapes import Operation

    try:
        return msgspec.json.decode(data, type=dict[str, dict[str, dict[str, Operation]]])
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None


def _walk(document: Any, collect: Operations | Matrix) -> None:
    """Go down to the operations; keys on the way tell step, kind, and, in cluster documents, ranks."""
    if not isinstance(document, dict):
        return
    stack: list[tuple[dict[str, Any], int | None, str, tuple[int, ...]]] = [(document, None, "", ())]
    depth = 0
    while stack and depth < 2_000_000:
        depth += 1
        node, step, way, ranks = stack.pop()
        for key, value in node.items():
            if key.startswith(_TOTAL):
                continue
            if collect.is_operation(value):
                collect.add(key, value, step, way, ranks)
            elif isinstance(value, dict):
                if _STEP.match(key):
                    stack.append((value, step_number(key), way, ranks))
                elif key in ("p2p", "collective"):
                    stack.append((value, step, key, ranks))
                elif key.startswith("("):
                    stack.append((value, step, way, tuple(int(n) for n in _RANKS.findall(key))))
                elif key.isdigit() or "@" in key:
                    collect.nested(key, value, step, way, ranks)
                else:
                    stack.append((value, step, way, ranks))


def _salvage(text: str, collect: Operations | Matrix) -> int:
    """Read the operations of a document that is no JSON any more; return how many."""
    decoder = json.JSONDecoder()
    step: int | None = None
    way, found = "", 0
    ranks: tuple[int, ...] = ()
    for match in _ANCHOR.finditer(text):
        key = match[1]
        if _STEP.match(key):
            step = step_number(key)
        elif key in ("p2p", "collective"):
            way = key
        elif key.startswith("("):
            ranks = tuple(int(n) for n in _RANKS.findall(key))
        else:
            try:
                value, _ = decoder.raw_decode(text, match.end())
            except (ValueError, RecursionError):
                continue
            if collect.is_operation(value):
                collect.add(key, value, step, way, ranks)
            elif isinstance(value, dict):
                collect.nested(key, value, step, way, ranks)
            found += 1
    return found


def operation_kind(name: str) -> str:
    """Return ``allReduce`` for ``hcom_allReduce__346_3_1``."""
    match = _NAME.match(name)
    return match[1] if match else name[:40]


@dataclass(slots=True)
class Moved:
    """Data of one operation over one kind of link; `sizes`: size of a package (MB) to [how many, ...]."""

    size_mb: float
    time_ms: float
    sizes: dict[str, list[float]]


class Operations:
    """Collects operations into arrays."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw
        self._keys, self._group, self._op, self._step = array("Q"), array("i"), array("h"), array("i")
        self._p2p, self._rank = array("b"), array("i")
        self._times = array("f")
        self._start, self._speed = array("q"), array("f")
        self._groups: dict[str, int] = {}
        self._ops: dict[str, int] = {}
        self._steps: dict[int | None, int] = {}
        self._moved: dict[tuple[int, int, int], list[float]] = {}
        self._kinds: dict[str, str] = {}

    @staticmethod
    def is_operation(value: Any) -> bool:
        """Whether a value of the document is one operation."""
        return (isinstance(value, dict) and _TIME in value) or hasattr(value, "time")

    def nested(self, key: str, value: dict[str, Any], step: int | None, way: str, ranks: tuple[int, ...]) -> None:
        """Take an operation of a cluster document: rank to times."""
        for rank, operation in value.items():
            if self.is_operation(operation) and str(rank).isdigit():
                self.add(key, operation, step, way, ranks, int(rank))

    def add(self, key: str, value: Any, step: int | None, way: str, ranks: tuple[int, ...], rank: int = -1) -> None:
        """Take an operation of the document."""
        if key.startswith(_TOTAL):
            return
        moved = self._enter(key, step, way, ranks, rank)
        if isinstance(value, dict):
            self._slow(value, moved)
        else:
            time = value.time
            self._times.extend((time.elapse, time.transit, time.wait, time.sync))
            self._start.append(_start_ns(time.start))
            speed = 0.0
            for link, band in value.band.items():
                if link in _SMALL_MB and 0 < band.size < _MOST_MB and 0 <= band.time < MOST_US:
                    _count(moved, link, band.size, band.time, band.sizes)
                    if band.time > 0:
                        speed = max(speed, band.size / band.time)
            self._speed.append(speed)

    def put(
        self,
        key: str,
        step: int | None,
        way: str,
        times: list[float],
        bands: Iterable[tuple[str, Moved]],
        start_ns: int,
        rank: int = -1,
    ) -> None:
        """Take an operation of a database or table: elapse, transit, wait, sync (ms), data per link, its begin."""
        moved = self._enter(key, step, way, (), rank)
        self._times.extend(times)
        self._start.append(start_ns)
        speed = 0.0
        for link, band in bands:
            if link in _SMALL_MB and 0 < band.size_mb < _MOST_MB and 0 <= band.time_ms < MOST_US:
                _count(moved, link, band.size_mb, band.time_ms, band.sizes)
                speed = max(speed, band.size_mb / band.time_ms if band.time_ms > 0 else 0.0)
        self._speed.append(speed)

    def _enter(self, key: str, step: int | None, way: str, ranks: tuple[int, ...], rank: int) -> list[float]:
        """Note who and what; return the sums of data that the operation belongs to."""
        name, _, group = key.partition("@")
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = operation_kind(name)
        if ranks and group:
            self._raw.groups.setdefault(group, ("", ranks))
        op = self._ops.setdefault(kind, min(len(self._ops), 32_000))
        where = self._groups.setdefault(group, len(self._groups))
        digest = hashlib.blake2b(f"{step}|{key}".encode(), digest_size=8).digest()
        self._keys.append(int.from_bytes(digest, "little"))
        self._group.append(where)
        self._op.append(op)
        self._step.append(self._steps.setdefault(step, len(self._steps)))
        self._p2p.append(way == "p2p" or kind.lower() in _P2P)
        self._rank.append(rank)
        moved = self._moved.get((where, op, rank))
        if moved is None:
            moved = self._moved[where, op, rank] = [0.0, 0.0, 0.0, 0.0, 0.0]
        return moved

    def _slow(self, value: dict[str, Any], moved: list[float]) -> None:
        time = value.get(_TIME)
        time = time if isinstance(time, dict) else {}
        elapse = number(time.get("Elapse Time(ms)"))
        self._times.append(math.nan if elapse is None else elapse)
        for name in ("Transit", "Wait", "Synchronization"):
            self._times.append(number(time.get(f"{name} Time(ms)")) or 0.0)
        self._start.append(_start_ns(number(time.get("Start Timestamp(us)")) or 0.0))
        speed = 0.0
        bands = value.get(_BAND)
        for link, band in bands.items() if isinstance(bands, dict) else ():
            if link in _SMALL_MB and isinstance(band, dict):
                size, spent = number(band.get("Transit Size(MB)")), number(band.get("Transit Time(ms)"))
                if size and 0 < size < _MOST_MB and 0 <= (spent or 0.0) < MOST_US:
                    _count(moved, link, size, spent or 0.0, band.get("Size Distribution"))
                    speed = max(speed, size / spent if spent else 0.0)
        self._speed.append(speed)

    def finish(self) -> int:
        """Hand the arrays over; return how many operations were left out, since their length makes no sense."""
        import numpy as np

        if not self._keys:
            return 0
        times = np.array(self._times, dtype=np.float32).reshape(-1, 4)
        sound = (times >= 0) & (times < MOST_US / 1e3)  # neither is true of what is no number
        # An operation of unknown length would look like that of the rank that came last.
        kept = sound[:, 0]
        bad = int((~kept).sum())
        if not kept.any():
            return bad
        rank = np.array(self._rank, dtype=np.int32)[kept]
        self._raw.comm = CommOps(
            keys=np.array(self._keys, dtype=np.uint64)[kept],
            group=np.array(self._group, dtype=np.int32)[kept],
            op=np.array(self._op, dtype=np.int16)[kept],
            step=np.array(self._step, dtype=np.int32)[kept],
            p2p=np.array(self._p2p, dtype=bool)[kept],
            times=np.where(sound, times, np.float32(0.0))[kept],
            start_ns=np.array(self._start, dtype=np.int64)[kept],
            speed=np.array(self._speed, dtype=np.float32)[kept],
            groups=list(self._groups),
            ops=list(self._ops),
            steps=list(self._steps),
            moved=self._moved,
            rank=rank if (rank >= 0).any() else None,
        )
        return bad


def _start_ns(start_us: float) -> int:
    """Return a time in nanoseconds; JSON numbers hold a quarter of a microsecond there, operations last longer."""
    return round(start_us * 1000) if 0 < start_us < 1e16 else 0


def _count(moved: list[float], link: str, size: float, spent: float, sizes: Any) -> None:
    moved[0] += size
    moved[1] += spent
    if link == "RDMA":
        moved[4] = max(moved[4], spent)
    if isinstance(sizes, dict):
        limit = _SMALL_MB[link]
        for text, entry in sizes.items():
            packet = number(text)
            count = number(entry[0]) if isinstance(entry, (list, tuple)) and entry else None
            if packet is not None and count:
                moved[3] += count
                moved[2] += count if packet < limit else 0


class Matrix:
    """Collects links. The totals are taken where there are any, else the samples that stand for them."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw
        self._total: dict[tuple[int, int, str, str], list[float]] = {}
        self._sample: dict[tuple[int, int, str, str], list[float]] = {}
        self._bad = 0

    @staticmethod
    def is_operation(value: Any) -> bool:
        """Whether a value of the document holds links."""
        if not isinstance(value, dict):
            return False
        first = next(iter(value.values()), None)
        return isinstance(first, dict) and ("Transport Type" in first or "Transit Size(MB)" in first)

    def nested(self, key: str, value: dict[str, Any], step: int | None, way: str, ranks: tuple[int, ...]) -> None:
        """Nothing lies deeper."""

    def add(self, key: str, value: dict[str, Any], step: int | None, way: str, ranks: tuple[int, ...]) -> None:
        """Take the links of one operation."""
        name, _, group = key.partition("@")
        totals = name.endswith("-total")
        for pair, link in value.items():
            match = _PAIR.match(pair)
            if match is None or not isinstance(link, dict):
                continue
            size, spent = number(link.get("Transit Size(MB)")), number(link.get("Transit Time(ms)"))
            transport = str(link.get("Transport Type") or "")[:20]
            if size is None or spent is None or not (0 <= size < _MOST_MB and 0 <= spent < MOST_US):
                self._bad += 1
                continue
            if not size or not spent:
                continue
            # Cluster documents, which name the ranks of the group, number links by global rank.
            place = (int(match[1]), int(match[2]), transport, "" if ranks else group)
            add_link(self._total if totals else self._sample, place, size, spent)

    def finish(self) -> int:
        """Hand the links over; return how many were left out, since their numbers make no sense."""
        for place, (size, spent) in {**self._sample, **self._total}.items():
            add_link(self._raw.links, place, size, spent)
        return self._bad
