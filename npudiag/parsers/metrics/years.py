"""Gives time stamps that were printed without a year the right one, once the whole input was read.

While lines are read, such stamps get an assumed year. At the end more is known: another stamp of the file may have
told the year, nothing in a file is later than its last change, and times that jump back by most of a year have passed
into the next one.
"""

from __future__ import annotations

import datetime
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING

from npudiag.parsers import headers

if TYPE_CHECKING:
    from npudiag.tables.columns import Columns

_DAY_US = 86_400_000_000
_WRAP_US = 180 * _DAY_US
_EPOCH = datetime.datetime(1970, 1, 1)


def settle(
    columns: Mapping[str, Columns], rows: Mapping[str, array[int]], year: int | None, written_us: int | None
) -> None:
    """Put the times of rows into the years they belong to.

    Args:
        columns: The tables.
        rows: By table, the rows whose stamps had no year, in order of the lines.
        year: Year that other stamps of the input tell, None where none does.
        written_us: When the input was last written, microseconds since 1970; used where no year is told.
    """
    for name, indexes in rows.items():
        table = columns[name]
        times = [table.value("time", index) for index in indexes]
        known = [(index, time) for index, time in zip(indexes, times, strict=True) if time is not None]
        if not known:
            continue
        turns, turn, before = [], 0, known[0][1]
        for _, time in known:
            turn += before - time > _WRAP_US
            turns.append(turn)
            before = time
        last = year if year is not None else headers.year_of(known[-1][1])
        if year is None and written_us is not None and moved(known[-1][1], last) > written_us + _DAY_US:
            last -= 1
        for (index, time), turned in zip(known, turns, strict=True):
            table.change("time", index, moved(time, last - turn + turned))


def moved(time_us: int, year: int) -> int:
    """Return the same moment of another year; a leap day that the year does not have stays where it is."""
    try:
        moment = _EPOCH + datetime.timedelta(microseconds=time_us)
        return (moment.replace(year=year) - _EPOCH) // datetime.timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return time_us
