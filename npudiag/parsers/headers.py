"""The first line of a record, in every spelling npudiag knows.

`slog_row` reads records whose header is known to be CANN's; `read` tries all families.
Times are the log's own clock, taken as they stand: no zone is added or removed.
"""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from npudiag.parsers.base import Row

# Three pids: "pid", "pid:tid", and MindSpore's "pid,thread in hex,process".
_SLOG = re.compile(
    r"\[([A-Z]+|\d+)\] ([A-Z0-9_]+)\((-?\d+)(?::(\d+))?,(?:([0-9a-f]{8,16}),)?([^)\n]{0,64})\): ?"
    r"(?:(\d{4})-(\d\d)-(\d\d)-(\d\d):(\d\d):(\d\d)\.(\d{3})\.(\d{1,3}))? ?"
)
_PLACE = re.compile(r"\[([\w./+-]+\.(?:cc|cpp|c|h|py|go|cxx|hpp|ts|tcc):\d+)\]")
_CODE = re.compile(
    r"(?<![A-Za-z0-9])(E[A-Z0-9]\d{4}|W[A-Z]\d{4}|ERR\d{5}|MIE\d\d[EW][0-9A-F]{6})(?![A-Za-z0-9])"
    r"|(?:ErrCode=|error code is |error code:|retcode:|runtime result = |retCode[ =:]+)(\d{6})(?!\d)"
)
_RECORD_LEVEL = {
    "WARN": "WARNING",
    "ERR": "ERROR",
    "W": "WARNING",
    "E": "ERROR",
    "F": "FATAL",
    "I": "INFO",
    "D": "DEBUG",
    "CRIT": "CRITICAL",
    "EMERG": "CRITICAL",
    "ALERT": "CRITICAL",
    "EXCEPTION": "EXCEPTION",
}
_LEVELS = frozenset(("DEBUG", "TRACE", "INFO", "EVENT", "NOTICE", "WARNING", "ERROR", "CRITICAL", "EXCEPTION", "FATAL"))
EXCEPTION = re.compile(
    r"(?:[\w.]+(?:Error|Exception|Exit|Interrupt|Warning|Failure|Timeout)|[\w.]+\.\w+|Exception): ?"
    r"|[A-Z]\w*(?:Error|Exception|Exit|Interrupt)$"
)
"""What an exception's message begins with, as Python prints it behind the traceback."""
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_MONTHS = {name: number for number, name in enumerate(calendar.month_abbr) if name}


def level_name(text: str) -> str | None:
    """Return the level `text` stands for, None when it is none."""
    upper = text.upper()
    upper = _RECORD_LEVEL.get(upper, upper)
    return upper if upper in _LEVELS else None


@lru_cache(maxsize=4096)
def _day_us(year: int, month: int, day: int) -> int | None:
    try:
        return (datetime.date(year, month, day).toordinal() - _EPOCH) * 86_400_000_000
    except (ValueError, OverflowError):
        return None


def stamp_us(*parts: int, micro: int = 0) -> int | None:
    """Return microseconds since 1970, None for a date that does not exist.

    Args:
        parts: Year, month, day, and as many of hour, minute and second as are known.
        micro: Microseconds.
    """
    year, month, day, hour, minute, second = (*parts, 0, 0, 0)[:6]
    start = _day_us(year, month, day)
    return None if start is None else start + (hour * 3600 + minute * 60 + second) * 1_000_000 + micro


def year_of(time_us: int) -> int:
    """Return the year of a time, 0 for one that no calendar has."""
    try:
        return datetime.date.fromordinal(_EPOCH + time_us // 86_400_000_000).year
    except (ValueError, OverflowError):
        return 0


def minute_us(text: str) -> int | None:
    """Return the start of a minute written ``YYYY-MM-DDTHH:MM``."""
    try:
        return stamp_us(int(text[:4]), int(text[5:7]), int(text[8:10]), int(text[11:13]), int(text[14:16]))
    except ValueError:
        return None


def find_code(text: str) -> str | None:
    """Return the first error code in `text`: CANN, torch_npu, MindIE or a six-digit return code."""
    match = _CODE.search(text)
    return (match.group(1) or match.group(2)) if match else None


def slog_row(lines: Sequence[str], number: int) -> Row:
    """Return the row of a CANN record; `number` is the physical line of its first line."""
    row = Row(number, "\n".join(lines))
    match = _SLOG.match(lines[0])
    if match:
        _fill_slog(row, match)
        body = lines[0][match.end() : match.end() + 200]
        place = _PLACE.search(body)
        if place:
            row.source = place.group(1)
        if row.module == "KERNEL":
            _kernel_inside(row, body)
    row.code = find_code(row.text)
    return row


def _fill_slog(row: Row, match: re.Match[str]) -> None:
    level, module, pid, tid, hex_tid, process = match.group(1, 2, 3, 4, 5, 6)
    row.level = level_name(level) or level
    row.module = module
    row.pid = int(pid) if len(pid) < 12 else None
    if tid:
        row.tid = int(tid) if len(tid) < 20 else None
    elif hex_tid:
        row.tid = int(hex_tid, 16)
    row.process = process or None
    if match.group(7):
        year, month, day, hour, minute, second, milli, micro = map(int, match.group(7, 8, 9, 10, 11, 12, 13, 14))
        row.time_us = stamp_us(year, month, day, hour, minute, second, micro=milli * 1000 + micro)


# Other families ---------------------------------------------------------------------------------------------------

_TORCH_NPU = re.compile(
    r"\[(ERROR|WARNING|INFO)\] (\d{4})-(\d\d)-(\d\d)-(\d\d):(\d\d):(\d\d)(?:\.(\d+))? "
    r"\(PID:(\d+), Device:(-?\d+), RankID:(-?\d+)\) "
)
_KERNEL_RING = re.compile(
    r"\[(\d{4})-(\d\d)-(\d\d)-(\d\d):(\d\d):(\d\d)\.(\d{3,6})\d*\] \[(ascend)\] \[(\w+)\] \[([A-Z]+)\] \[(\w+ \d+)\]"
    r"(?: <([^>:]*):(\d+)[^>]*>)?"
)
_KERNEL_INSIDE = re.compile(r"\[ascend\] \[([A-Z]+)\] \[(\w+)\](?: \[(\w+ \d+)\])?")
KERNEL_LITERALS = ("[ascend] [ERROR]", "[ascend] [EMERG]", "[ascend] [CRIT]")
"""Driver lines that CANN's log passes on as EVENT though they are graver; their records are kept for these."""
_HISI_HISTORY = re.compile(r"\[(\d{4})-(\d\d)-(\d\d)-(\d\d):(\d\d):(\d\d)\.(\d{1,6})\d*\] ")
_HWLOG = re.compile(
    r"\[(DEBUG|INFO|WARN|ERROR|CRITICAL|FATAL)\] +(\d{4})/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,6})"
    r" +(\d+) +(\S+:\d+)"
)
_GLOG = re.compile(r"([IWEF])(?:(20\d\d))?(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{3,6})\d* +(\d+) +([\w./+-]+:\d+)\] ?")
_C10 = re.compile(r"\[([IWEF]) ?(?:(\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,9}) )?([\w./+-]+:\d+)\]")
_ISO = re.compile(
    r"\[?(?:([A-Za-z]+)[ |:,-]+(?:[\w./+-]+:\d+\] )?)?[\[(]?(\d{4})[-/](\d\d)[-/](\d\d)[T -]"
    r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?:Z| ?[+-]\d\d:?\d\d)?"
)
_SYSLOG = re.compile(r"([A-Z][a-z]{2}) +(\d{1,2}) (?:(\d{4}) )?(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:[+-]\d\d:\d\d)? ")
_DMESG_T = re.compile(r"\[([A-Z][a-z]{2}) ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})\] ")
_CTIME = re.compile(
    # date, with the zone or without
    r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?: [A-Z]{2,5})? (\d{4})(?!\d)"
)
_PRINTK = re.compile(r"(?:<\d+>)?\[ *(\d+\.\d{6})\] ")
_PLAIN_LEVEL = re.compile(r"\[?(DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b\]?[ :|,]")
_SOME_LEVEL = re.compile(
    r"(?:^|[\s\[|,(-])(DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|ERR|CRITICAL|FATAL|EVENT|debug|info|notice|warning|warn|error|err|crit"
    r"|critical|fatal)(?=[\s\]|:,)-])"
)
_SOURCE = re.compile(r"[\[ (]([\w./+-]+\.(?:py|cc|cpp|go|c|ts|h):\d+)[\])]?")


def _micro(text: str | None) -> int:
    return int((text + "000000")[:6]) if text else 0


def _torch_npu(row: Row, text: str, _year: int | None) -> bool:
    match = _TORCH_NPU.match(text)
    if not match:
        return False
    row.level = match.group(1)
    row.time_us = stamp_us(*map(int, match.group(2, 3, 4, 5, 6, 7)), micro=_micro(match.group(8)))
    row.pid = int(match.group(9)[:12])
    row.device = _not_negative(match.group(10))
    row.rank = _not_negative(match.group(11))
    row.module = "TORCH_NPU"
    return True


def _not_negative(text: str) -> int | None:
    return int(text) if text.isdigit() and len(text) < 9 else None


def _slog(row: Row, text: str, _year: int | None) -> bool:
    match = _SLOG.match(text)
    if not match:
        return False
    _fill_slog(row, match)
    body = text[match.end() : match.end() + 200]
    place = _PLACE.search(body)
    if place:
        row.source = place.group(1)
    if row.module == "KERNEL":
        _kernel_inside(row, body)
    return True


def _kernel_inside(row: Row, body: str) -> None:
    """Take level and place from the driver's own line, which CANN passes on as an EVENT."""
    inner = _KERNEL_INSIDE.search(body)
    if inner:
        row.level = level_name(inner.group(1)) or row.level
        row.source = inner.group(3) or row.source


def _kernel_ring(row: Row, text: str, _year: int | None) -> bool:
    match = _KERNEL_RING.match(text)
    if not match:
        return False
    row.time_us = stamp_us(*map(int, match.group(1, 2, 3, 4, 5, 6)), micro=_micro(match.group(7)))
    row.module = match.group(9).upper()
    row.level = level_name(match.group(10))
    row.source = match.group(11)
    row.process = match.group(12)
    if match.group(13):
        row.pid = int(match.group(13)[:12])
    return True


def _hisi(row: Row, text: str, _year: int | None) -> bool:
    match = _HISI_HISTORY.match(text)
    if not match:
        return False
    row.time_us = stamp_us(*map(int, match.group(1, 2, 3, 4, 5, 6)), micro=_micro(match.group(7)))
    return True


def _hwlog(row: Row, text: str, _year: int | None) -> bool:
    match = _HWLOG.match(text)
    if not match:
        return False
    row.level = level_name(match.group(1))
    row.time_us = stamp_us(*map(int, match.group(2, 3, 4, 5, 6, 7)), micro=_micro(match.group(8)))
    row.source = match.group(10)
    return True


def _glog(row: Row, text: str, year: int | None) -> bool:
    match = _GLOG.match(text)
    if not match:
        return False
    row.level = level_name(match.group(1))
    own_year = match.group(2) or year
    if own_year:
        row.time_us = stamp_us(int(own_year), *map(int, match.group(3, 4, 5, 6, 7)), micro=_micro(match.group(8)))
    row.tid = int(match.group(9)[:18])
    row.source = match.group(10)
    return True


def _c10(row: Row, text: str, year: int | None) -> bool:
    match = _C10.match(text)
    if not match:
        return False
    row.level = level_name(match.group(1))
    if match.group(2) and year:
        row.time_us = stamp_us(year, *map(int, match.group(2, 3, 4, 5, 6)), micro=_micro(match.group(7)))
    row.source = match.group(8)
    return True


def _iso(row: Row, text: str, _year: int | None) -> bool:
    match = _ISO.match(text)
    if not match:
        return False
    row.time_us = stamp_us(*map(int, match.group(2, 3, 4, 5, 6, 7)), micro=_micro(match.group(8)))
    named = match.group(1)
    row.level = level_name(named) if named else None
    if row.level is None:
        level = _SOME_LEVEL.search(text, match.end(), match.end() + 90)
        row.level = level_name(level.group(1)) if level else None
    return True


def _syslog(row: Row, text: str, year: int | None) -> bool:
    match = _SYSLOG.match(text)
    if not match or match.group(1) not in _MONTHS:
        return False
    own_year = match.group(3) or year
    if own_year:
        row.time_us = stamp_us(
            int(own_year),
            _MONTHS[match.group(1)],
            *map(int, match.group(2, 4, 5, 6)),
            micro=_micro(match.group(7)),
        )
    return True


def _dmesg(row: Row, text: str, _year: int | None) -> bool:
    match = _DMESG_T.match(text)
    if not match or match.group(2) not in _MONTHS:
        return False
    day, hour, minute, second = map(int, match.group(3, 4, 5, 6))
    row.time_us = stamp_us(int(match.group(7)), _MONTHS[match.group(2)], day, hour, minute, second)
    return True


def _ctime(row: Row, text: str, _year: int | None) -> bool:
    match = _CTIME.match(text)
    if not match or match.group(1) not in _MONTHS:
        return False
    day, hour, minute, second = map(int, match.group(2, 3, 4, 5))
    row.time_us = stamp_us(int(match.group(6)), _MONTHS[match.group(1)], day, hour, minute, second)
    return True


def _printk(row: Row, text: str, _year: int | None) -> bool:
    # Seconds since boot: no wall-clock time can be told from them.
    return _PRINTK.match(text) is not None


def _plain_level(row: Row, text: str, _year: int | None) -> bool:
    match = _PLAIN_LEVEL.match(text)
    if not match:
        return False
    row.level = level_name(match.group(1))
    return True


Reader = Callable[[Row, str, "int | None"], bool]

YEARLESS = ("glog", "c10", "syslog")
"""Families whose time stamps have no year as a rule."""

_BRACKET: tuple[tuple[str, Reader], ...] = (
    ("slog", _slog),
    ("torch-npu", _torch_npu),
    ("kernel-ring", _kernel_ring),
    ("hwlog", _hwlog),
    ("c10", _c10),
    ("hisi", _hisi),
    ("python", _iso),
    ("dmesg", _dmesg),
    ("printk", _printk),
    ("plain", _plain_level),
)
_LETTER: tuple[tuple[str, Reader], ...] = (
    ("glog", _glog),
    ("syslog", _syslog),
    ("ctime", _ctime),
    ("python", _iso),
    ("plain", _plain_level),
)
_DIGIT: tuple[tuple[str, Reader], ...] = (("python", _iso),)


def read(text: str, number: int, year: int | None) -> tuple[Row, str] | None:
    """Return the row that begins with this line and its header family, None when the line has no header.

    Only the header's own fields are filled in; the caller sets the rest.
    """
    first = text[:1]
    if first == "[":
        readers = _BRACKET
    elif first.isdigit():
        readers = _DIGIT
    elif first.isalpha():
        readers = _LETTER
    elif first == "<":
        readers = (("printk", _printk),)
    else:
        return None
    row = Row(number, text)
    for family, reader in readers:
        if reader(row, text, year):
            return row, family
    return None


def find_source(text: str) -> str | None:
    """Return the first ``file:line`` in a line, as loggers print it."""
    match = _SOURCE.search(text, 0, 160)
    return match.group(1) if match else None
