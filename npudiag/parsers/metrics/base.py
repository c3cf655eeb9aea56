"""What extractors are and where they put what they find."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from npudiag.parsers import headers
from npudiag.parsers.prefixes import Peeled
from npudiag.tables.columns import Columns

QUOTE_CHARS = 900
_EVEN = 512
_SPECIAL = 256
_PINNED = 32
_EVENTS = 60_000
_TAIL = 4

Key = tuple[str | None, int | None, int | None]
"""Which process wrote a line: worker, rank, pid as the launcher's prefix tells."""

Follower = Callable[[int, str], bool]
"""Takes number and text of the next line of the same process; says whether it wants more."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Text an extractor is verified with.

    Attributes:
        text: Lines as a log holds them.
        table: Table that gets rows.
        rows: Values expected, row by row; fields not named are not compared.
    """

    text: str
    table: str
    rows: tuple[dict[str, Any], ...]


class Extractor:
    """Reads one kind of line.

    Attributes:
        samples: Texts it is verified with.
    """

    samples: ClassVar[tuple[Sample, ...]] = ()

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def read(self, number: int, text: str, peeled: Peeled) -> bool:
        """Take what a line tells.

        Args:
            number: Physical line.
            text: The line without its launcher prefixes.
            peeled: What the prefixes told.

        Returns:
            Whether the line is nothing but numbers that are now in a table.
        """
        raise NotImplementedError

    def finish(self) -> None:
        """Give out what is still held back at the end of the input."""


@dataclass(slots=True)
class Quotes:
    """The text of lines that a finding may want to show: all of a short log, of a long one a sample.

    Evenly spread lines, the last ones, those where something jumped, and the first ones that are not finite.
    """

    even: dict[int, str] = field(default_factory=dict)
    special: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=_SPECIAL))
    pinned: dict[int, str] = field(default_factory=dict)
    tail: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=_TAIL))
    settings: dict[int, str] = field(default_factory=dict)
    stride: int = 1
    seen: int = 0

    def add(self, number: int, text: str) -> None:
        """Offer a line."""
        self.tail.append((number, text))
        if self.seen % self.stride == 0:
            self.even[number] = text[:QUOTE_CHARS]
            if len(self.even) > _EVEN:
                self.even = dict(list(self.even.items())[::2])
                self.stride *= 2
        self.seen += 1

    def mark(self, number: int, text: str, pin: bool) -> None:
        """Keep a line that stands out."""
        if pin and len(self.pinned) < _PINNED:
            self.pinned[number] = text[:QUOTE_CHARS]
        else:
            self.special.append((number, text[:QUOTE_CHARS]))

    def all(self) -> dict[int, str]:
        """Return every kept line by number."""
        tail = ((number, text[:QUOTE_CHARS]) for number, text in self.tail)
        return dict(sorted({**self.settings, **self.even, **dict(self.special), **self.pinned, **dict(tail)}.items()))


class Sink:
    """Takes the findings of all extractors of one parse.

    Attributes:
        columns: Tables by name.
        year: Year of time stamps without one.
        last_us: Latest time stamp seen so far, whoever printed it.
        step: Step of the row above, for lines that do not tell theirs.
        raw: The line being read, as it stands in the file.
        follow: Who wants the next line of a process.
        bars: Step, total and time of the training loop's progress bar.
    """

    def __init__(self, year: int | None = None) -> None:
        self.columns: dict[str, Columns] = {}
        self.quotes = Quotes()
        self.year = year
        self.last_us: int | None = None
        self.step: int | None = None
        self.raw = ""
        self.follow: dict[Key, Follower] = {}
        self.bars: dict[str, tuple[int, int, float | None]] = {}
        self.rows = 0
        self._after_us: int | None = None
        self._step_us: int | None = None
        self._step_line = 0
        self._events = 0
        self._previous: dict[str, float] = {}
        self._highest: dict[str, float] = {}

    def table(self, name: str) -> Columns:
        """Return a table, made when first asked for."""
        found = self.columns.get(name)
        if found is None:
            found = self.columns[name] = Columns(name)
        return found

    def add_step(self, row: dict[str, Any], raw: str | None = None) -> None:
        """Add a row to ``train_steps``.

        Args:
            row: Its fields, `line` among them.
            raw: The physical lines it stands in; None: the line being read.
        """
        columns = self.columns.get("train_steps")
        if columns is None:
            columns = self.table("train_steps")
        columns.append(row)
        self.rows += 1
        line = row["line"]
        text = self.raw if raw is None else raw
        self.quotes.add(line, text)
        step = row.get("step")
        if step is not None:
            self.step = step
        self._step_line = line
        self._step_us = row.get("time")
        self._after_us = None
        # Lines that stand out are worth a quote, even if they turn out to be nothing.
        loss = row.get("loss")
        previous = self._previous
        if loss is None:
            if "loss" in previous:
                self.quotes.mark(line, text, True)
        elif loss != loss or math.isinf(loss):
            self.quotes.mark(line, text, True)
        else:
            before = previous.get("loss")
            if before is not None and loss > 1.25 * before:
                self.quotes.mark(line, text, False)
            previous["loss"] = loss
        norm = row.get("grad_norm")
        if norm is not None:
            if norm != norm:
                self.quotes.mark(line, text, True)
            elif norm > self._highest.get("grad_norm", 0.0) or norm > 3 * previous.get("grad_norm", norm):
                self._highest["grad_norm"] = max(norm, self._highest.get("grad_norm", 0.0))
                self.quotes.mark(line, text, False)
            previous["grad_norm"] = norm
        took = row.get("step_time_ms")
        if took is not None:
            if took > 1.15 * previous.get("step_time_ms", took):
                self.quotes.mark(line, text, False)
            previous["step_time_ms"] = took

    def add_event(self, kind: str, line: int, **fields: Any) -> None:
        """Add a row to ``train_events``; beyond a bound, only every sixteenth timer is kept."""
        self._events += 1
        if self._events > _EVENTS and (kind != "timer" or self._events % 16):
            return
        fields.setdefault("step", self.step)
        if kind not in ("timer", "argument"):
            self.quotes.mark(line, self.raw, False)
        self.table("train_events").append({"line": line, "kind": kind, **fields})

    def add(self, table: str, row: dict[str, Any]) -> None:
        """Add a row to another table."""
        self.table(table).append(row)
        self.rows += 1
        self.quotes.add(row["line"], self.raw)

    def time_of(self, text: str, peeled: Peeled, number: int) -> int | None:
        """Return the time stamp in front of a line."""
        header = headers.read(text, number, self.year) if text[:1] not in " \t" else None
        if header is not None and header[0].time_us is not None:
            return header[0].time_us
        if peeled.time:
            return short_time(peeled.time, self.year)
        return None

    def seen(self, time_us: int) -> None:
        """Note a time stamp of any line."""
        self.last_us = time_us
        if self._after_us is None:
            self._after_us = time_us

    def finish(self) -> None:
        """Say how long the input went on behind the last step."""
        if self._step_line and self.last_us is not None:
            start = self._step_us if self._step_us is not None else self._after_us
            if start is not None and self.last_us > start:
                self.add_event("silence", self._step_line, time=start, value=(self.last_us - start) / 1e6)


_SHORT = re.compile(r"(?:(\d{4})-)?(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d+))?$")


def short_time(text: str, year: int | None) -> int | None:
    """Read ``MM-DD HH:MM:SS``, with or without a year; a bare time of day says too little."""
    match = _SHORT.match(text)
    if not match:
        return None
    own_year = match.group(1) or year
    if own_year is None:
        return None
    return headers.stamp_us(int(own_year), *map(int, match.group(2, 3, 4, 5, 6)))


def worker_of(peeled: Peeled) -> str | None:
    """Return a name for the process that wrote a line, None where nothing tells."""
    return peeled.worker or (f"rank{peeled.rank}" if peeled.rank is not None else None)


def number(text: str | None) -> float | None:
    """Return a printed number; blanks inside, thousands separators and units of one sign are forgiven."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return float("".join(text.split()).replace(",", "").rstrip("%s|"))
    except ValueError:
        return None
