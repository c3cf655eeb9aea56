"""Tables of text read row by row: columns by name, units normalised, what is no value turned to None."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npudiag.errors import SourceError
from npudiag.parsers.base import Partial, Stream
from npudiag.parsers.profiler.kinds import column_name
from npudiag.parsers.profiler.parser import damaged
from npudiag.result import Problem

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_FIELD_BYTES = 16 << 20
_NOT_A_VALUE = frozenset({"", "n/a", "na", "none", "null", "nan", "-", "inf", "-inf"})
_SENTINELS = frozenset({4294967295, 18446744073709551615})
_MOST = 1e20
"""Beyond what 64 bits hold: damage."""
_UNIT = re.compile(r"\(([a-z/%]+)\)\s*$", re.IGNORECASE)
_STEP = re.compile(r"\d+")
_MICROSECONDS = re.compile(r"(\d{1,16})(?:\.(\d*))?")

TIME = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
"""Factors to microseconds."""
SIZE = {"b": 1e-6, "byte": 1e-6, "kb": 1 / 1024, "mb": 1.0, "gb": 1024.0}
"""Factors to megabytes."""


class Pipe(io.RawIOBase):
    """A stream that begins with bytes read already; an error at its end is kept and ends it early."""

    def __init__(self, head: bytes, stream: Stream) -> None:
        self._ahead = head
        self._stream = stream
        self.taken = 0
        self.error: SourceError | None = None

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill `buffer`; 0 at the end."""
        view = memoryview(buffer)
        size = len(view)
        piece = self._ahead[:size]
        if piece:
            self._ahead = self._ahead[size:]
        elif self.error is None:
            try:
                piece = self._stream.read(size)
            except SourceError as exc:
                self.error = exc
        view[: len(piece)] = piece
        self.taken += len(piece)
        return len(piece)


@dataclass(slots=True)
class Table:
    """A table being read.

    Attributes:
        names: Normalised column name to index.
        factors: Column name to the factor that brings its unit to us or MB.
        above: Lines ahead of what is read now.
        line: Line of the row read last.
        short: Rows with fewer cells than the header.
        refused: Rows whose numbers make no sense.
        refused_line: Line of the first of them.
    """

    names: dict[str, int] = field(default_factory=dict)
    factors: dict[str, float] = field(default_factory=dict)
    width: int = 0
    above: int = 0
    line: int = 0
    short: int = 0
    refused: int = 0
    refused_line: int = 0

    def refuse(self) -> None:
        """Count the row read last as one that cannot be used."""
        self.refused += 1
        self.refused_line = self.refused_line or self.line

    def begin(self, header: Sequence[str]) -> None:
        """Take the header."""
        self.width = len(header)
        for index, cell in enumerate(header):
            name = column_name(cell)
            self.names.setdefault(name, index)
            unit = _UNIT.search(cell)
            word = unit[1].lower() if unit else ""
            self.factors.setdefault(name, TIME.get(word, SIZE.get(word, 1.0)))

    def index(self, *names: str) -> int | None:
        """Return the index of the first of these columns that there is."""
        return next((self.names[name] for name in names if name in self.names), None)

    def text(self, row: Sequence[str], *names: str) -> str | None:
        """Return a cell as text, None where it holds none."""
        index = self.index(*names)
        if index is None or index >= len(row):
            return None
        value = row[index].strip().strip('"').strip()
        return None if value.lower() in _NOT_A_VALUE else value

    def number(self, row: Sequence[str], *names: str) -> float | None:
        """Return a cell as number in us or MB where its column has such a unit."""
        for name in names:
            index = self.names.get(name)
            if index is not None:
                value = number(row[index]) if index < len(row) else None
                return None if value is None else value * self.factors[name]
        return None

    def whole(self, row: Sequence[str], *names: str) -> int | None:
        """Return a cell as whole number; ids that mean "none" are None."""
        value = self.number(row, *names)
        return None if value is None or int(value) in _SENTINELS else int(value)


def number(text: str | float | int | None) -> float | None:
    """Return a number as JSON and CSV deliverables write it, None for ``N/A``, words and what no counter reaches."""
    if isinstance(text, str):
        text = text.strip().strip('"').strip()
        if text.lower() in _NOT_A_VALUE:
            return None
    elif text is None or isinstance(text, bool):
        return None
    try:
        value = float(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if abs(value) < _MOST else None


def nanoseconds(text: str | None) -> int | None:
    """Return a time in microseconds, as deliverables write it, as whole nanoseconds; a float would lose digits.

    ``1764246877073569.640<TAB>`` gives 1764246877073569640.
    """
    if text is None:
        return None
    if text[-5:-4] == "." and text[-1:] == "\t":  # the usual form needs no pattern
        digits = text[:-5] + text[-4:-1]
        if digits.isdecimal():
            return int(digits)
    match = _MICROSECONDS.fullmatch(text.strip().strip('"').strip())
    return int(match[1]) * 1000 + int((match[2] or "").ljust(3, "0")[:3]) if match else None


def step_number(text: str | None) -> int | None:
    """Return 13 for ``13``, ``13.0`` and ``step13``."""
    match = _STEP.search(text) if text else None
    return int(match[0]) if match and len(match[0]) < 16 else None


def rows(partial: Partial, stream: Stream, head: bytes, table: Table) -> Iterator[list[str]]:
    """Yield the rows below the header; note in `partial` what was read and how it ended.

    Where `table` has its header already, all that is read are rows.
    """
    csv.field_size_limit(_FIELD_BYTES)
    marked = not table.above and head[:2] in (b"\xff\xfe", b"\xfe\xff")
    encoding = "utf-16" if marked else "utf-8-sig"
    partial.encoding = "utf-16" if encoding == "utf-16" else "utf-8"
    pipe = Pipe(head, stream)
    text = io.TextIOWrapper(io.BufferedReader(pipe, 1 << 20), encoding=encoding, errors="replace", newline="")
    reader = csv.reader(text)
    short_last = False
    try:
        for row in reader:
            if not row or not (row[0].strip() or any(cell.strip() for cell in row)):
                continue
            if not table.names:
                table.begin(row)
                continue
            table.line = table.above + reader.line_num
            short_last = len(row) < table.width
            if short_last:
                table.short += 1
            yield row
    except (csv.Error, UnicodeError) as exc:
        line = table.above + reader.line_num
        damaged(partial, f"the table breaks off at line {line}: {exc}", line=line)
    partial.lines = table.above + reader.line_num
    partial.bytes += pipe.taken
    partial.unparsed += table.short + table.refused
    if pipe.error is not None:
        partial.broke_off(pipe.error, partial.lines)
    elif short_last and not partial.truncated:
        damaged(partial, f"the last row (line {partial.lines}) is cut off", reason="truncated", line=partial.lines)
    elif table.refused:
        what = f"the numbers of {table.refused} rows make no sense, the first is line {table.refused_line}"
        damaged(partial, what, line=table.refused_line)
    elif table.short and not partial.truncated:
        damaged(partial, f"{table.short} rows have fewer cells than the header: they are cut off", line=partial.lines)
    if not table.line and not partial.truncated:
        partial.note = "a header without rows"
        message = f"{partial.source.path}: the table has a header and no rows: nothing was recorded, or it was cut"
        partial.problems.append(Problem(path=partial.source.path, reason="truncated", message=message, line=1))
