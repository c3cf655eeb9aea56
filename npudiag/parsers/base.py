"""What every parser takes and gives.

A parser turns one stream of bytes into one `Partial`: a small value that can be
pickled, merged with others and knows nothing of rules. Everything it holds is
bounded, whatever the size of the stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from npudiag.discover.source import Identity, Source
from npudiag.errors import SourceError
from npudiag.parsers.scan import Scanner
from npudiag.result import Problem
from npudiag.tables.columns import Columns

LEVEL_RANK = {
    "DEBUG": 0,
    "TRACE": 0,
    "INFO": 1,
    "EVENT": 1,
    "NOTICE": 1,
    "WARNING": 2,
    "ERROR": 3,
    "CRITICAL": 4,
    "EXCEPTION": 4,
    "FATAL": 4,
}
"""How grave a level is; levels not named here (numbers, NULL) count as 1."""

WORTH_KEEPING = 2
"""Records of this rank and above are kept even when no rule asks for them."""


class Stream(Protocol):
    """The part of a binary file that parsers use."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, empty at the end.

        Raises:
            SourceError: The rest cannot be read.
        """


@dataclass(slots=True)
class Row:
    """One record worth keeping.

    Attributes:
        line: 1-based physical line of the record's first line.
        text: The record, prefixes peeled, lines joined by a newline.
        raw: The record's lines as they stand in the file (without terminal codes), where they differ from `text`.
        numbers: Physical line of each line of `text`, where they are not consecutive.
        time_us: Microseconds since 1970 by the log's own clock, or None.
        hits: Ids of the literals that stand in it.
        before: Up to three lines ahead of it.
        after: Up to three lines behind it.
    """

    line: int
    text: str
    time_us: int | None = None
    level: str | None = None
    module: str | None = None
    pid: int | None = None
    tid: int | None = None
    process: str | None = None
    rank: int | None = None
    device: int | None = None
    worker: str | None = None
    source: str | None = None
    code: str | None = None
    hits: tuple[int, ...] = ()
    group: int = -1
    raw: str | None = None
    numbers: tuple[int, ...] | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(slots=True)
class Group:
    """All records of one file that read alike once numbers are masked."""

    index: int
    text: str
    level: str | None
    module: str | None
    count: int = 0
    kept: int = 0
    first_line: int = 0
    last_line: int = 0
    first_us: int | None = None


@dataclass(slots=True)
class Partial:
    """What a parser found in one stream or one byte range of it."""

    source: Source
    kind: str = "unknown"
    identity: Identity = field(default_factory=Identity)
    lines: int = 0
    bytes: int = 0
    unparsed: int = 0
    encoding: str = "utf-8"
    normalised: tuple[str, ...] = ()
    truncated: bool = False
    note: str = ""
    counts: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """(level, module, minute ``YYYY-MM-DDTHH:MM``) to number of records; empty strings where unknown."""
    rows: list[Row] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    folded: int = 0
    first_us: int | None = None
    last_us: int | None = None
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Rows for other tables than ``log``; `file` is filled in on merging, `line` counts as in `Row`."""
    packed: dict[str, Any] = field(default_factory=dict)
    """What an analysis is to make rows of, in a form of its own: arrays, sums. It can be pickled."""
    columns: dict[str, Columns] = field(default_factory=dict)
    """Rows for tables that are kept column by column; `file` and `run` are filled in later."""
    quotes: dict[int, str] = field(default_factory=dict)
    """Text of lines that hold a metric, by line, as many as are kept for evidence."""
    quotes_by_step: dict[int, dict[int, str]] = field(default_factory=dict)
    """The same by line and step, of lines in which a terminal showed several steps, one over the other."""
    assumed_year: int | None = None
    """Year that was given to time stamps without one, where no other stamp of the file tells it."""
    problems: list[Problem] = field(default_factory=list)
    part: int = 0
    """Index of the byte range this is, 0 for a whole stream."""
    origin: str = ""
    """Names the log this was made of, where it was read elsewhere and carried here; empty where this run read it."""
    home: str = ""
    """Evidence path the log had where it was read."""
    carrier: str = ""
    """Name of the file of partials that brought it here first."""

    def broke_off(self, error: SourceError, line: int) -> None:
        """Note that the stream ended early, behind physical line `line`."""
        self.truncated = True
        self.note = error.message
        self.problems.append(
            Problem(path=self.source.path, reason=error.reason, message=error.message, line=line or None)
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """How much one parse may keep.

    Attributes:
        rows: Records kept in all.
        groups: Distinct messages told apart; later ones are counted under one heading.
        samples: Records kept of a message that no rule asks for.
        hit_samples: Records kept of a message that a rule asks for.
        record_lines: Lines kept of one record.
        record_chars: Characters kept of one record.
        carried: Records taken from one file of partials.
    """

    rows: int = 4000
    groups: int = 4000
    samples: int = 2
    hit_samples: int = 48
    record_lines: int = 60
    record_chars: int = 8000
    carried: int = 120_000


@dataclass(slots=True)
class Context:
    """What a parser is handed beside the stream."""

    source: Source
    scanner: Scanner
    budget: Budget = field(default_factory=Budget)
    year: int | None = None
    """Year to assume where a time stamp has none."""
    written_us: int | None = None
    """When the file was last written, microseconds since 1970 by the local clock; nothing in it can be later."""


class Parser(Protocol):
    """One log or file family."""

    name: str
    """Becomes the input's `kind`."""

    def recognise(self, head: bytes, path: str) -> float:
        """Say how sure the parser is that it can read this, 0 to 1, from the first bytes."""

    def parse(self, stream: Stream, head: bytes, context: Context) -> Partial:
        """Read the stream to its end. `head` was read from it already and comes first.

        A `SourceError` from the stream ends the parse early; the partial then has `truncated` and `note` set.
        """


def feed(head: bytes, stream: Stream, size: int) -> Iterable[bytes]:
    """Yield `head` and then the stream, in pieces of about `size` bytes."""
    if head:
        rest = stream.read(size - len(head)) if len(head) < size else b""
        yield head + rest
        if len(head) < size and not rest:
            return
    while True:
        piece = stream.read(size)
        if not piece:
            return
        yield piece
