"""One stream of bytes in, one partial out; texts held in memory are read as files are."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from npudiag.discover.identity import identify
from npudiag.discover.source import Source
from npudiag.errors import SourceError
from npudiag.parsers import HEAD_BYTES, choose, parser_named
from npudiag.parsers.base import Budget, Context, Partial, Stream
from npudiag.parsers.scan import Literals, Scanner
from npudiag.result import Problem


@dataclass(slots=True)
class Ingested:
    """What came of all units.

    Attributes:
        partials: In order of discovery; ranges of one file are joined.
        problems: What kept parts of the input from being read.
    """

    partials: list[Partial] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    workers: int = 1


def parse(
    source: Source, stream: Stream, scanner: Scanner, budget: Budget, name: str | None, year: int | None = None
) -> Partial:
    """Read one stream.

    Args:
        source: What it is.
        stream: Its bytes.
        scanner: Marks the records that rules ask for.
        budget: How much may be kept.
        name: Parser to use; None chooses by content.
        year: Year of time stamps without one; None takes that of the file's last change.
    """
    head, broken = head_of(stream)
    return parsed(source, stream, head, broken, scanner, budget, name, year)


def head_of(stream: Stream) -> tuple[bytes, SourceError | None]:
    """Return the first bytes of a stream, and the error that ended it among them."""
    pieces: list[bytes] = []
    size = 0
    broken: SourceError | None = None
    try:
        while size < HEAD_BYTES:
            piece = stream.read(HEAD_BYTES - size)
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
    except SourceError as exc:
        broken = exc
    return b"".join(pieces), broken


def parsed(
    source: Source,
    stream: Stream,
    head: bytes,
    broken: SourceError | None,
    scanner: Scanner,
    budget: Budget,
    name: str | None,
    year: int | None = None,
) -> Partial:
    """Read a stream whose first bytes, and the error that ended it among them, are known; see `parse`."""
    if not head:
        empty = Partial(source, kind="skipped", identity=source.identity, note="empty file")
        if broken:
            empty.broke_off(broken, 0)
        return empty
    if broken is not None:
        stream = Broken(broken)
    parser = parser_named(name) if name else choose(head, source.path)
    if parser is None:
        # Only its first bytes were looked at; what is no text and no known file is not worth reading.
        return Partial(source, identity=source.identity, bytes=source.size or len(head), note="binary data")
    written = _written(source) if year is None else None
    context = Context(source, scanner, budget, year)
    if written is not None:
        context.year = written.year
        context.written_us = (written - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    return parser.parse(stream, head, context)


class Broken:
    """A stream that has given all it could."""

    def __init__(self, error: SourceError) -> None:
        self._error = error

    def read(self, size: int, /) -> bytes:
        """Say why there is no more.

        Raises:
            SourceError: Always.
        """
        raise self._error


def _written(source: Source) -> datetime.datetime | None:
    """Return when the file was last written, by the local clock."""
    if source.location is None:
        return None
    try:
        return datetime.datetime.fromtimestamp(Path(source.location).stat().st_mtime)
    except (OSError, ValueError, OverflowError):
        return None


class _Memory:
    """A text held in memory, read like a file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, size: int, /) -> bytes:
        piece = self._data[self._at : self._at + size]
        self._at += len(piece)
        return piece


def texts(files: Mapping[str, str], literals: Literals, *, year: int = 2026) -> Ingested:
    """Parse texts held in memory as `ingest` parses files.

    Args:
        files: Relative path to content.
        literals: Strings whose records are to be kept.
        year: Year of time stamps without one.
    """
    scanner = _cached_scanner(literals)
    out = Ingested()
    for path, text in files.items():
        source = Source(path, None, None, None, identify(path))
        stream = _Memory(text.encode("utf-8", "surrogatepass"))
        out.partials.append(parse(source, stream, scanner, Budget(), None, year))
    return out


@lru_cache(maxsize=4)
def _cached_scanner(literals: Literals) -> Scanner:
    return Scanner(literals)
