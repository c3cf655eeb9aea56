"""Kernel lists: ``kernel_details.csv``, and msprof's ``op_summary``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from operator import itemgetter

from npudiag.parsers.base import Context, Partial, Stream
from npudiag.parsers.profiler.kernel_blocks import BLOCK, WORTH, Blocks, Lines
from npudiag.parsers.profiler.kernel_sums import Kernels, told_by_ratio
from npudiag.parsers.profiler.parser import damaged
from npudiag.parsers.profiler.raw import of
from npudiag.parsers.profiler.text import TIME, Table, number, rows

_TEXTS = re.compile(
    r"step id|device_id|model (?:id|name)|(?:task|stream|context|batch|subtask) id|(?:op )?(?:name|type|state)|"
    r"accelerator core|task type|(?:task )?(?:start time|duration|wait time)|(?:mix )?block (?:dim|num)|"
    r"hf32 eligible|(?:input|output) (?:shapes|data types|formats)|op_state|infer id|.*\(ns\)"
)
"""Columns that are no metric of the cores."""
_TIME = re.compile(r"(?:task )?(?:start time|duration|wait time)|.*_time")
_ABSENT = ("", "0")


def read(partial: Partial, stream: Stream, head: bytes, context: Context) -> None:
    """Sum up the kernels. Durations are those of the list; waits are the gaps ahead of each kernel."""
    table = Table()
    ahead = Lines(head, stream)
    reader: _Reader | None = None
    try:
        if ahead.fill(WORTH):
            header = ahead.header()
            if header is not None:
                table.begin(header)
                table.above = 1
                reader = _Reader(table)
                reader.blocks(ahead)
        partial.bytes = ahead.taken
        for row in rows(partial, ahead, ahead.rest, table):
            reader = reader or _Reader(table)
            reader.add(row)
    finally:
        if reader is not None:
            source = "op_summary" if partial.kind == "prof-op-summary" else "kernel_details"
            reader.kernels.hand_over(of(partial), source)
            _tell_bad(partial, reader.kernels.bad)


def _tell_bad(partial: Partial, bad: int) -> None:
    """Note how many kernels were left out because their duration is none."""
    partial.unparsed += bad
    if bad and not partial.truncated:
        damaged(partial, f"the durations of {bad} kernels make no sense; they are left out")


class _Reader:
    """Takes rows apart; column indexes are looked up once."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._width = width = table.width

        def at(missing: int, *names: str) -> int:
            index = table.index(*names)
            return missing if index is None else index

        # Two cells are added to each row: what an absent text and an absent number are.
        text, figure = width, width + 1
        texts = (
            at(text, "type", "op type"),
            at(text, "accelerator core", "task type"),
            at(text, "op state", "op_state"),
            at(text, "input shapes"),
            at(text, "input formats"),
            at(text, "output shapes"),
        )
        self._texts: Callable[[Sequence[str]], tuple[str, ...]] = itemgetter(*texts)
        self._name = at(text, "name", "op name")
        self._start = at(text, "start time", "task start time")
        self._device = at(text, "device_id")
        metrics = {
            name: index
            for name, index in table.names.items()
            if not _TEXTS.fullmatch(name) and not told_by_ratio(name, table.names)
        }
        cells = (
            at(figure, "duration", "task duration"),
            at(figure, "wait time", "task wait time"),
            at(figure, "block dim", "block num"),
            *metrics.values(),
        )
        # Times are in microseconds nearly always; then nothing is to be done.
        times = {index: table.factors[name] for name, index in table.names.items() if _TIME.fullmatch(name)}
        scale = [times.get(index, 1.0) for index in cells]
        self._scale = scale if set(scale) != {1.0} else None
        self._whole = times.get(self._start, 1.0) == TIME["ns"]
        self._cells: Callable[[Sequence[str]], tuple[str, ...]] = itemgetter(*cells)
        self._blocks = Blocks(width, cells, (*texts, self._name, self._device), self._start)
        self._device_cell = ""
        self._device_number: int | None = None
        self.kernels = Kernels(list(metrics))

    def blocks(self, lines: Lines) -> None:
        """Take blocks as long as they are plain; what is left stays in `lines`."""
        more = True
        while more:
            more = lines.fill(BLOCK)
            block = lines.take()
            columns = self._blocks.columns(block) if block else None
            if columns is None:
                lines.give_back(block)
                return
            *texts, names, devices = columns.texts
            numbers = columns.numbers if self._scale is None else columns.numbers * self._scale
            starts = [self._begin(start) for start in columns.starts] if self._whole else columns.starts
            self.kernels.add_columns(texts, names, devices, starts, numbers, self._table.above + 1)
            self._table.above += len(starts)
            self._table.line = self._table.above

    def add(self, row: list[str]) -> None:
        """Add one kernel; rows that are cut off were counted by the table."""
        if len(row) != self._width:
            if len(row) < self._width:
                return
            del row[self._width :]
        row += _ABSENT
        if row[self._device] != self._device_cell:
            self._device_cell = row[self._device]
            self._device_number = _device(self._device_cell)
        cells: Sequence[str | float] = self._cells(row)
        if self._scale is not None:
            given = zip(map(number, cells), self._scale, strict=True)
            cells = [math.nan if value is None else value * factor for value, factor in given]
        self.kernels.add(
            self._texts(row),
            row[self._name],
            self._begin(row[self._start]) if self._whole else row[self._start],
            cells,
            self._table.line,
            self._device_number,
        )

    @staticmethod
    def _begin(cell: str) -> int:
        """Return a begin in nanoseconds, 0 where it is none."""
        text = cell.strip().strip('"').strip()
        return int(text) if text.isdecimal() and len(text) < 20 else 0


def _device(cell: str) -> int | None:
    found = number(cell)
    return None if found is None else int(found)
