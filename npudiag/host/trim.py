"""Copies a log as text: what is too old left out, no more than is asked for, everything redacted on the way."""

from __future__ import annotations

import codecs
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

from npudiag.errors import SourceError
from npudiag.parsers import headers
from npudiag.parsers.base import Stream
from npudiag.parsers.metrics.base import short_time
from npudiag.parsers.normalise import plan
from npudiag.parsers.prefixes import peel

_BLOCK = 1 << 20
_HEAD = 256 << 10
_IN_MEMORY = 4 << 20
_SEGMENTS = 8
_LINE = 1 << 20
_ALWAYS_LINES = 200
"""Lines at the start of a log that are kept whatever their age: they tell settings and versions."""


@dataclass(slots=True)
class Trimmed:
    """What came of one log.

    Attributes:
        parts: Temporary files that hold the copy, in order.
        bytes: Size of the copy.
        lines: Lines kept.
        old: Lines left out because they are too old.
        left_out: Bytes left out from the middle because the log is too large.
        binary: Whether it is no text; nothing is kept of it then.
        note: Why it ended early; empty otherwise.
    """

    parts: list[IO[bytes]]
    bytes: int = 0
    lines: int = 0
    old: int = 0
    left_out: int = 0
    binary: bool = False
    note: str = ""

    def close(self) -> None:
        """Give back the temporary files."""
        for part in self.parts:
            part.close()


def trim(
    stream: Stream, *, since_us: int | None, most: int, clean: Callable[[str], str], year: int | None = None
) -> Trimmed:
    """Copy `stream`.

    Args:
        stream: The log.
        since_us: Time by the log's own clock, microseconds since 1970, before which records are left out.
        most: Largest copy in bytes; of a longer log the start and the end are kept.
        clean: Takes whole lines, returns what may be kept of them.
        year: Year of stamps without one.
    """
    out = Trimmed([])
    copy = _Copy(out, most)
    age = _Age(since_us, year, out) if since_us is not None else None
    try:
        for text in _texts(stream, out):
            kept = age.young(text) if age else text
            if kept:
                out.lines += kept.count("\n")
                copy.write(clean(kept).encode("utf-8", "surrogateescape"))
    except SourceError as exc:
        out.note = exc.message
    copy.finish()
    return out


def _texts(stream: Stream, out: Trimmed) -> Iterator[str]:
    """Yield whole lines, a block at a time; bytes that are no UTF-8 come back as they were."""
    head = stream.read(_BLOCK)
    how = plan(head[: 256 << 10], complete=False)
    if how.binary:
        out.binary = True
        return
    wide = how.encoding.lower().startswith(("utf-16", "utf-32"))
    decoder = codecs.getincrementaldecoder(how.encoding if wide else "utf-8")("replace" if wide else "surrogateescape")
    rest = ""
    while head:
        rest += decoder.decode(head)
        end = rest.rfind("\n") + 1
        if not end and len(rest) > _LINE:
            end = len(rest)
        if end:
            yield rest[:end]
            rest = rest[end:]
        head = stream.read(_BLOCK)
    rest += decoder.decode(b"", True)
    if rest:
        yield rest


class _Age:
    """Leaves out lines that are too old; a line without a time stamp goes with the one above."""

    def __init__(self, since_us: int, year: int | None, out: Trimmed) -> None:
        self._since_us = since_us
        self._year = year
        self._out = out
        self._keeps = True
        self._seen = 0

    def young(self, text: str) -> str:
        kept = []
        for line in text.splitlines(keepends=True):
            self._seen += 1
            when = self._time(line)
            if when is not None:
                self._keeps = when >= self._since_us
            if self._keeps or self._seen <= _ALWAYS_LINES:
                kept.append(line)
            else:
                self._out.old += 1
        return "".join(kept)

    def _time(self, line: str) -> int | None:
        if ":" not in line[:160]:
            return None
        peeled = peel(line[:400].rstrip("\r\n"))
        found = headers.read(peeled.rest, self._seen, self._year)
        if found is not None and found[0].time_us is not None:
            return found[0].time_us
        return short_time(peeled.time, self._year) if peeled.time else None


class _Copy:
    """Keeps the start of what is written and, in segments that are thrown away as new ones come, its end."""

    def __init__(self, out: Trimmed, most: int) -> None:
        self._out = out
        self._most = most
        self._head = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - lives in `out`
        self._head_bytes = 0
        self._head_full = False
        self._tail: deque[tuple[IO[bytes], int]] = deque()
        self._segment = max(_BLOCK, (most - min(_HEAD, most)) // _SEGMENTS)

    def write(self, data: bytes) -> None:
        if not self._head_full and (self._head_bytes + len(data) <= _HEAD or not self._head_bytes):
            # A first block larger than the head is divided at a line.
            cut = len(data) if len(data) <= _HEAD else data.rfind(b"\n", 0, _HEAD) + 1 or _HEAD
            self._head.write(data[:cut])
            self._head_bytes += cut
            data = data[cut:]
        self._head_full = self._head_full or bool(data)
        if not data:
            return
        if not self._tail or self._tail[-1][1] >= self._segment:
            self._tail.append((tempfile.SpooledTemporaryFile(_IN_MEMORY), 0))  # noqa: SIM115 - lives in `out`
        file, size = self._tail.pop()
        file.write(data)
        self._tail.append((file, size + len(data)))
        while len(self._tail) > 1 and self._head_bytes + sum(size for _, size in self._tail) > self._most:
            old, size = self._tail.popleft()
            old.close()
            self._out.left_out += size

    def finish(self) -> None:
        """Put the copy together."""
        if self._out.left_out:
            self._head.write(f"[npudiag: {self._out.left_out} bytes left out]\n".encode())
        self._out.parts = [self._head, *(file for file, _ in self._tail)]
        for part in self._out.parts:
            self._out.bytes += part.tell()
            part.seek(0)
