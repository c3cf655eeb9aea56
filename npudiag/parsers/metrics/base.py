"""What extractors are and where they put what they find."""

from __future__ import annotations

import math
import re
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from npudiag.parsers import headers
from npudiag.parsers.metrics import years
from npudiag.parsers.metrics.prepared import JUMPS, Prepared
from npudiag.parsers.prefixes import Peeled
from npudiag.tables.columns import Columns

QUOTE_CHARS = 900
_EVEN = 512
_SPECIAL = 256
_PINNED = 32
_EVENTS = 60_000
_TAIL = 4
_TIMERS = 64

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

    def prepare(self, lines: str) -> Prepared | None:
        """Read many lines at once, where this kind of line is known well enough by now; None where it is not.

        Args:
            lines: Lines of the input as they stand in the file, with what other lines stand between them.
        """
        return None

    def finish(self) -> None:
        """Give out what is still held back at the end of the input."""


Place = tuple[int, int]
"""Where a quoted text stands: its line, and its step where a terminal showed several in that line (else -1)."""


@dataclass(slots=True)
class Quotes:
    """The text of lines that a finding may want to show: all of a short log, of a long one a sample.

    Evenly spread lines, the last ones, those where something jumped, and the first ones that are not finite.
    """

    even: dict[Place, str] = field(default_factory=dict)
    special: deque[tuple[Place, str]] = field(default_factory=lambda: deque(maxlen=_SPECIAL))
    pinned: dict[Place, str] = field(default_factory=dict)
    tail: deque[tuple[Place, str]] = field(default_factory=lambda: deque(maxlen=_TAIL))
    settings: dict[int, str] = field(default_factory=dict)
    timers: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=_TIMERS))
    stride: int = 1
    seen: int = 0

    def add(self, number: int, text: str, step: int = -1) -> None:
        """Offer a line, or the text of a step."""
        place = number, step
        self.tail.append((place, text))
        if self.seen % self.stride == 0:
            self._spread(place, text)
        self.seen += 1

    def add_many(self, lines: Sequence[tuple[int, str]]) -> None:
        """Offer lines, as `add` would one by one."""
        self.tail.extend(((number, -1), text) for number, text in lines[-_TAIL:])
        at = -self.seen % self.stride
        while at < len(lines):
            number, text = lines[at]
            self._spread((number, -1), text)
            at += 1
            at += -(self.seen + at) % self.stride
        self.seen += len(lines)

    def _spread(self, place: Place, text: str) -> None:
        self.even[place] = text[:QUOTE_CHARS]
        if len(self.even) > _EVEN:
            self.even = dict(list(self.even.items())[::2])
            self.stride *= 2

    def mark(self, number: int, text: str, pin: bool, step: int = -1) -> None:
        """Keep a line, or the text of a step, that stands out."""
        place = number, step
        if pin and len(self.pinned) < _PINNED:
            self.pinned[place] = text[:QUOTE_CHARS]
        else:
            self.special.append((place, text[:QUOTE_CHARS]))

    def all(self) -> dict[int, str]:
        """Return every kept line by number."""
        kept = {**self.settings}
        kept.update((number, text) for (number, _), text in self.even.items())
        kept.update(self.timers)
        kept.update((number, text) for (number, _), text in (*self.special, *self.pinned.items()))
        kept.update((number, text[:QUOTE_CHARS]) for (number, _), text in self.tail)
        return dict(sorted(kept.items()))

    def by_step(self) -> dict[int, dict[int, str]]:
        """Return, for each line in which several steps stand, their texts by step."""
        found: dict[int, dict[int, str]] = {}
        for (number, step), text in (*self.even.items(), *self.special, *self.pinned.items(), *self.tail):
            if step >= 0:
                found.setdefault(number, {})[step] = text[:QUOTE_CHARS]
        return {number: dict(sorted(texts.items())) for number, texts in sorted(found.items()) if len(texts) > 1}


class Sink:
    """Takes the findings of all extractors of one parse.

    Attributes:
        columns: Tables by name.
        year: Year assumed for time stamps without one, until the whole input was read.
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
        self._odd = False
        self._yearless = False
        self._assumed: dict[str, array[int]] = {}
        self._prepared: Prepared | None = None

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
        if self._prepared is not None:
            self.put_prepared()
        columns = self.columns.get("train_steps")
        if columns is None:
            columns = self.table("train_steps")
        columns.append(row)
        self.rows += 1
        if self._yearless:
            self._assume(columns)
        line = row["line"]
        text = self.raw if raw is None else raw
        step = row.get("step")
        place = step if isinstance(step, int) and step >= 0 else -1
        self.quotes.add(line, text, place)
        if step is not None:
            self.step = step
        self._step_line = line
        self._step_us = row.get("time")
        self._after_us = None
        if self._stands_out(row):
            self.quotes.mark(line, text, self._odd, place)

    def _stands_out(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is worth a quote, even if it turns out to be nothing; `_odd` says that it holds no number."""
        loss, norm, took = row.get("loss"), row.get("grad_norm"), row.get("step_time_ms")
        previous = self._previous
        jumped = False
        self._odd = norm is not None and norm != norm
        if loss is None:
            self._odd |= "loss" in previous
        elif math.isfinite(loss):
            jumped = loss > JUMPS["loss"] * previous.get("loss", loss)
            previous["loss"] = loss
        else:
            self._odd = True
        if norm is not None:
            highest = self._highest.get("grad_norm", 0.0)
            if norm > highest or norm > JUMPS["grad_norm"] * previous.get("grad_norm", norm):
                self._highest["grad_norm"] = max(norm, highest)
                jumped = True
            previous["grad_norm"] = norm
        if took is not None:
            jumped |= took > JUMPS["step_time_ms"] * previous.get("step_time_ms", took)
            previous["step_time_ms"] = took
        return jumped or self._odd

    def add_prepared(self, prepared: Prepared, row: int, line: int, worker: str | None) -> None:
        """Add a row to ``train_steps`` that was read ahead of its line.

        Args:
            prepared: Where it is.
            row: Which one.
            line: Its line.
            worker: Who printed it.
        """
        self._keep(prepared, [row], [(line, self.raw)], worker)
        self.quotes.add(line, self.raw)

    def add_run(self, prepared: Prepared, rows: list[int], lines: Sequence[tuple[int, str]]) -> None:
        """Add rows that were read ahead, all of one process without a name.

        Args:
            prepared: Where they are.
            rows: Which ones, in order.
            lines: Number and text of their lines.
        """
        self._keep(prepared, rows, lines, None)
        self.quotes.add_many(lines)

    def _keep(self, prepared: Prepared, rows: list[int], lines: Sequence[tuple[int, str]], worker: str | None) -> None:
        if prepared is not self._prepared:
            self.put_prepared()
            self._prepared = prepared
        above = prepared.rows[-1] if prepared.rows else -1
        prepared.rows.extend(rows)
        prepared.lines.extend(number for number, _ in lines)
        prepared.workers.extend([worker] * len(rows))
        self.rows += len(rows)
        for row, (number, text) in zip(rows, lines, strict=True):
            # The same line printed again does not stand out from itself.
            if prepared.striking[row] and row != above:
                self.quotes.mark(number, text, False)
            above = row
        last = rows[-1]
        self.step = int(prepared.columns["step"][last])
        self._step_line = lines[-1][0]
        self._step_us = prepared.time(last)
        if self._step_us is not None:
            self.last_us = self._step_us
        self._after_us = None

    def put_prepared(self) -> None:
        """Put the rows that were read ahead, and whose lines have come, into the table."""
        prepared, self._prepared = self._prepared, None
        if prepared is None or not prepared.rows:
            return
        last = prepared.rows[-1]
        for name in ("loss", "grad_norm", "step_time_ms"):
            values = prepared.columns.get(name)
            if values is not None:
                self._previous[name] = values[last]
                if name == "grad_norm":
                    first = prepared.rows[0]
                    self._highest[name] = max(self._highest.get(name, 0.0), *values[first : last + 1])
        prepared.give(self.table("train_steps"))

    def striking_after(self) -> tuple[Mapping[str, float], float]:
        """Return the values of the row above, and the highest gradient norm so far."""
        return self._previous, self._highest.get("grad_norm", 0.0)

    def add_event(self, kind: str, line: int, **fields: Any) -> None:
        """Add a row to ``train_events``; beyond a bound, only every sixteenth timer is kept."""
        self._events += 1
        if self._events > _EVENTS and (kind != "timer" or self._events % 16):
            return
        fields.setdefault("step", self.step)
        if kind == "timer":
            # The last block is quoted: there are too many to keep, and they say the same.
            self.quotes.timers.append((line, self.raw[:QUOTE_CHARS]))
        elif kind != "argument":
            self.quotes.mark(line, self.raw, False)
        self.table("train_events").append({"line": line, "kind": kind, **fields})

    def add(self, table: str, row: dict[str, Any]) -> None:
        """Add a row to another table."""
        columns = self.table(table)
        columns.append(row)
        self.rows += 1
        if self._yearless:
            self._assume(columns)
        self.quotes.add(row["line"], self.raw)

    def time_of(self, text: str, peeled: Peeled, number: int) -> int | None:
        """Return the time stamp in front of a line; where it has no year, the next row added is known to lack one."""
        header = headers.read(text, number, self.year) if text[:1] not in " \t" else None
        self._yearless = False
        if header is not None and header[0].time_us is not None:
            self._yearless = header[1] in headers.YEARLESS
            return header[0].time_us
        return self.short_time(peeled.time) if peeled.time else None

    def short_time(self, text: str) -> int | None:
        """Return the time ``MM-DD HH:MM:SS``, with or without a year in front."""
        time_us = short_time(text, self.year)
        self._yearless = time_us is not None and text[2:3] == "-"
        return time_us

    def _assume(self, columns: Columns) -> None:
        self._yearless = False
        self._assumed.setdefault(columns.table, array("q")).append(columns.size - 1)

    def seen(self, time_us: int) -> None:
        """Note a time stamp of any line."""
        self.last_us = time_us
        if self._after_us is None:
            self._after_us = time_us

    def finish(self, year: int | None = None, written_us: int | None = None) -> None:
        """Say how long the input went on behind the last step, and put times into the years they belong to.

        Args:
            year: Year that stamps of the input tell, None where none does.
            written_us: When the input was last written, microseconds since 1970.
        """
        self.put_prepared()
        years.settle(self.columns, self._assumed, year, written_us)
        if self._step_line and self.last_us is not None:
            start = self._step_us if self._step_us is not None else self._after_us
            if start is not None and self.last_us > start:
                self.add_event("silence", self._step_line, time=start, value=(self.last_us - start) / 1e6)


_WRAPPED = re.compile(r"(?:np\.float\d+|numpy\.float\d+|tensor)\((-?[\w.+-]+).*", re.DOTALL)
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
    """Return a printed number; blanks inside, thousands separators, units of one sign and NumPy's wrapping go."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    wrapped = _WRAPPED.fullmatch(text.strip())
    if wrapped:
        text = wrapped[1]
    try:
        return float("".join(text.split()).replace(",", "").rstrip("%s|"))
    except ValueError:
        return None
