"""Kernel lists: ``kernel_details.csv``, and msprof's ``op_summary``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import itemgetter

from npudiag.parsers.base import Context, Partial, Stream
from npudiag.parsers.profiler.kernel_sums import Kernels, told_by_ratio
from npudiag.parsers.profiler.raw import of
from npudiag.parsers.profiler.text import Table, number, rows

_TEXTS = re.compile(
    r"step id|device_id|model (?:id|name)|(?:task|stream|context|batch|subtask) id|(?:op )?(?:name|type|state)|"
    r"accelerator core|task type|(?:task )?(?:start time|duration|wait time)|(?:mix )?block (?:dim|num)|"
    r"hf32 eligible|(?:input|output) (?:shapes|data types|formats)|op_state|infer id|.*\(ns\)"
)
"""Columns that are no metric of the cores."""
_ABSENT = ("", "0")


def read(partial: Partial, stream: Stream, head: bytes, context: Context) -> None:
    """Sum up the kernels. Durations are those of the list; waits are the gaps ahead of each kernel."""
    table = Table()
    lines = rows(partial, stream, head, table)
    first = next(lines, None)
    if first is None:
        return
    reader = _Reader(table)
    try:
        reader.add(first)
        for row in lines:
            reader.add(row)
    finally:
        source = "op_summary" if partial.kind == "prof-op-summary" else "kernel_details"
        reader.kernels.hand_over(of(partial), source)
        partial.unparsed += reader.kernels.bad


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
        self._texts: Callable[[Sequence[str]], tuple[str, ...]] = itemgetter(
            at(text, "type", "op type"),
            at(text, "accelerator core", "task type"),
            at(text, "op state", "op_state"),
            at(text, "input shapes"),
            at(text, "input formats"),
            at(text, "output shapes"),
        )
        self._name = at(text, "name", "op name")
        self._start = at(text, "start time", "task start time")
        self._device = table.index("device_id")
        metrics = {
            name: index
            for name, index in table.names.items()
            if not _TEXTS.fullmatch(name) and not told_by_ratio(name, table.names)
        }
        self._cells: Callable[[Sequence[str]], tuple[str, ...]] = itemgetter(
            at(figure, "duration", "task duration"),
            at(figure, "wait time", "task wait time"),
            at(figure, "block dim", "block num"),
            *metrics.values(),
        )
        self._device_cell = ""
        self._device_number: int | None = None
        self.kernels = Kernels(list(metrics))

    def add(self, row: list[str]) -> None:
        """Add one kernel; rows that are cut off were counted by the table."""
        if len(row) != self._width:
            if len(row) < self._width:
                return
            del row[self._width :]
        if self._device is not None and row[self._device] != self._device_cell:
            self._device_cell = row[self._device]
            device = number(self._device_cell)
            self._device_number = None if device is None else int(device)
        row += _ABSENT
        self.kernels.add(
            self._texts(row),
            row[self._name],
            row[self._start],
            self._cells(row),
            self._table.line,
            self._device_number,
        )
