"""What can be told of a console line from its first bytes: the short way past lines nobody asks for.

Nearly all lines of a log repeat the same few beginnings, digits aside: launcher prefix, level, time, source. What the
long way found out for one of them (which process, which level, where the time stands) holds for all, so it is kept by
the beginning with its digits masked. A beginning is kept only when it settles the matter, that is when no text behind
it could lead to another answer; lines for which it cannot be settled go the long way each time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from npudiag.parsers import headers
from npudiag.parsers.base import LEVEL_RANK, WORTH_KEEPING, Row
from npudiag.parsers.metrics import MARKERS
from npudiag.parsers.metrics.base import short_time
from npudiag.parsers.prefixes import Peeled, peel, process_end

LENGTHS = range(16, 144, 8)
"""How many bytes of a line may be looked at."""
_MOST = 20_000
_TRIAL = 300
_WORTH = 20
"""Lines that each beginning must have spared on average, once `_TRIAL` were learnt, for more to be learnt."""

_BEGINS_RECORD = (
    rb"Traceback \(most recent call last\)",
    rb"Exception ignored |--- Logging error ---|Error in atexit\._run_exitfuncs",
    rb"File \"[^\"\n]{1,300}\", line [0-9]",
    rb"%\|",
    rb"[EW][A-Z0-9][0-9]{4}(: |\[PID|  |\): )",
)
"""Lines that the console parser must look at wherever in them this stands."""

_STAMP = re.compile(
    r"(?:\d{4}[-/]\d\d[-/]\d\d[T -]|(?:\d\d-\d\d|\d{4}|\d{8}|[A-Z][a-z]{2} +\d{1,2}(?: \d{4})?) )\d\d:\d\d:\d\d"
)
_FRACTION = re.compile(r"[.,](\d{1,9})(?:\.(\d{3}))?")
_WORDS = re.compile(r"[A-Za-z]*[ |:,-]*(?P<second>[\w./+:-]*)\]? ?[\[(]?")
_NAME = re.compile(r"[\w.]+")
_COMPARED = tuple(field.name for field in fields(Row) if field.name not in ("line", "text"))
_CANN_FAMILIES = ("slog", "torch-npu")


@dataclass(frozen=True, slots=True)
class Alike:
    """What lines with the same beginning have in common.

    Attributes:
        process: Offset behind the prefixes that tell the process.
        header: Whether the line has a header of its own behind its prefixes.
        families: Header families to be counted.
        level: Level, empty where none is told.
        module: Module, empty where none is told.
        start: Offset of the time stamp, -1 where there is none.
        stop: Offset behind its seconds.
        fraction: Offsets of the digits of its fraction, as far as microseconds.
        scale: Microseconds that the last digit of the fraction stands for.
    """

    process: int
    header: bool
    families: tuple[str, ...]
    level: str
    module: str
    start: int
    stop: int
    fraction: tuple[tuple[int, int], ...]
    scale: int

    def micro(self, text: str) -> int:
        """Return the microseconds of a line's time stamp."""
        return int("".join([text[start:stop] for start, stop in self.fraction])) * self.scale if self.fraction else 0


class Beginnings:
    """The beginnings seen so far.

    Attributes:
        known: Beginnings, masked, with what they tell; None for those that do not settle it.
    """

    def __init__(self) -> None:
        self.known: dict[bytes, Alike | None] = {}
        self.spared = 0
        self._learnt = 0
        self._lengths: list[int] = []

    def find(self, masked: bytes) -> Alike | None:
        """Return what is known of a line, digits masked; None where it must go the long way."""
        known = self.known
        for length in self._lengths:
            beginning = masked[:length]
            if beginning in known:
                return known[beginning]
        return None

    def learn(self, text: str, masked: bytes, year: int | None) -> None:
        """Take a line that went the long way as the model of those that begin like it."""
        learnt = self._learnt
        if learnt > _TRIAL and (learnt > _MOST or self.spared < _WORTH * learnt):
            return
        if any(masked[:length] in self.known for length in self._lengths):
            return
        self._learnt += 1
        length, alike = _settle(text, year)
        if length:
            self.known[masked[:length]] = alike
            if length not in self._lengths:
                self._lengths.append(length)


def _settle(text: str, year: int | None) -> tuple[int, Alike | None]:
    """Return how many characters settle what a line is, and what that is."""
    peeled = peel(text)
    at = len(text) - len(peeled.rest)
    header = headers.read(peeled.rest, 0, year)
    alike = _alike(text, peeled, at, header, year)
    need = at + _need(peeled.rest, header)
    for length in LENGTHS:
        if len(text) == length:
            continue  # a longer line could begin like this one
        cut = text[:length]
        if not cut.isascii():
            return 0, None
        if len(text) > length and need >= length:
            continue
        if _same(peel(cut), peeled, cut[at:]) and _same_header(headers.read(cut[at:], 0, year), header):
            return length, alike
    return 0, None


def _same(short: Peeled, whole: Peeled, rest: str) -> bool:
    """Whether the beginning of a line, `rest` behind its prefixes, has the prefixes of all of it."""
    return short.rest == rest and all(
        getattr(short, name) == getattr(whole, name) for name in Peeled.__struct_fields__ if name != "rest"
    )


def _same_header(short: tuple[Row, str] | None, whole: tuple[Row, str] | None) -> bool:
    if short is None or whole is None:
        return short is whole
    return short[1] == whole[1] and all(getattr(short[0], name) == getattr(whole[0], name) for name in _COMPARED)


def _need(rest: str, header: tuple[Row, str] | None) -> int:
    """Return how many characters tell that neither another prefix nor another header stands here."""
    first = rest[:1]
    if header is not None and header[1] == "python" and header[0].level is None:
        return 136  # a level may be printed well behind the time
    if first == "(":
        end = rest.find(")", 0, 120)
        return end + 3 if end > 0 else 136
    if first == "[":
        end = rest.find("]", 0, 120)
        # "[WORD] WORD(" may be CANN's own header, whose parts are long.
        return 136 if end < 0 else end + 80 if header is None and rest[1:end].isupper() else end + 16
    if first.isdigit():
        return 34
    if first.isalpha():
        words = _WORDS.match(rest)
        end = words.end() + 2 if words else 136
        if words and words["second"][:1].isdigit():
            end += 24
        name = _NAME.match(rest)
        return max(end, name.end() + 2 if name else 0)
    return 24 if first == "<" else 2


def _alike(text: str, peeled: Peeled, at: int, header: tuple[Row, str] | None, year: int | None) -> Alike | None:
    """Return what the line tells, None where lines like it must go the long way."""
    rest = peeled.rest
    if not rest or rest[0].isspace() or peeled.repeated != 1 or (peeled.level and not peeled.source):
        return None
    row, family = header or (Row(0, rest), "")
    if family in _CANN_FAMILIES:
        return None  # lines without a header may belong to these
    if header is None and headers.EXCEPTION.match(rest):
        return None
    families = (family,) if family else ()
    level = row.level or ""
    if not level and peeled.level:
        level = headers.level_name(peeled.level) or ""
        families = (*families, "launcher")
    if LEVEL_RANK.get(level, 1) >= WORTH_KEEPING:
        return None
    time_us = row.time_us
    if time_us is None and peeled.time:
        time_us = short_time(peeled.time, year)
    place: _Place | None = (-1, -1, (), 1)
    if time_us is not None:
        place = _place(text[: at + 80], time_us)
    elif _STAMP.search(text[: at + 80]):
        return None  # no such date, or no year; others may have one
    if place is None:
        return None
    start, stop, fraction, scale = place
    process = process_end(text)
    if start >= 0 and process > start:
        return None  # the prefix is another one every second
    return Alike(process, header is not None, families, level, row.module or "", start, stop, fraction, scale)


_Place = tuple[int, int, tuple[tuple[int, int], ...], int]


def _place(text: str, time_us: int) -> _Place | None:
    """Return where the stamp stands that gave `time_us`: start, end of the seconds, fraction and its scale."""
    for match in _STAMP.finditer(text):
        told = _FRACTION.match(text, match.end())
        spans = tuple(told.span(group) for group in (1, 2) if told[group]) if told else ()
        digits = "".join(text[start:stop] for start, stop in spans)
        if len(digits) > 6:
            spans, digits = ((spans[0][0], spans[0][0] + 6),), digits[:6]
        scale = 10 ** (6 - len(digits))
        # A fraction that the header does not read leaves whole seconds.
        for places, unit in ((spans, scale), ((), 1)):
            micro = int("".join(text[start:stop] for start, stop in places) or "0") * unit
            if (time_us - micro) % 1_000_000 == 0 and _clock(match[0]) == (time_us - micro) // 1_000_000 % 86_400:
                return match.start(), match.end(), places, unit
    return None


def _clock(stamp: str) -> int:
    """Return the second of the day at which a stamp ends."""
    return int(stamp[-8:-6]) * 3600 + int(stamp[-5:-3]) * 60 + int(stamp[-2:])


@lru_cache(maxsize=1)
def _watch() -> Any:
    """Return a database that finds what a line must not hold to be passed over, None without Hyperscan."""
    try:
        import hyperscan
    except ImportError:
        return None
    expressions = [*_BEGINS_RECORD, *(re.escape(marker) for marker in MARKERS)]
    database = hyperscan.Database()
    database.compile(expressions=expressions, ids=list(range(len(expressions))), elements=len(expressions))
    return database


def striking(data: bytes) -> list[int] | None:
    """Return offsets into all lines in `data` that must go the long way, whatever they begin with.

    Those are lines in which a metric may stand, and those that may begin a record; None: it cannot be told.
    """
    database = _watch()
    if database is None:
        return None
    found: list[int] = []
    add = found.append

    def matched(_id: int, _start: int, end: int, _flags: int, _context: object) -> None:
        add(end - 1)

    database.scan(data, match_event_handler=matched)
    return found
