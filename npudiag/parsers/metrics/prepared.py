"""Rows of steps that were read many at a time, ahead of the line-by-line pass that puts them into order.

A million lines built alike are read with one regular expression and turned into columns; each line then costs a look
into a dictionary. What a line means must not depend on the way it was read: `tests/parsers/test_metrics_bulk.py`
compares both.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npudiag.tables.columns import NO_INT

if TYPE_CHECKING:
    from npudiag.tables.columns import Columns

JUMPS: Mapping[str, float] = {"loss": 1.25, "grad_norm": 3.0, "step_time_ms": 1.15}
"""By how much a value must exceed the one above to be worth a quote, even if it turns out to be nothing."""
LEAST = 256
"""Lines of a batch from which on reading ahead pays."""


@dataclass(slots=True)
class Prepared:
    """Rows that wait for their lines.

    Attributes:
        places: Row by line, as the line stands in the file.
        columns: Values by column of ``train_steps``, without line and worker.
        striking: Which rows stand out from the one above, and are worth a quote.
        framework: Kind of line.
    """

    framework: str
    places: dict[str, int]
    columns: Mapping[str, array[int] | array[float]]
    striking: bytes
    rows: list[int] = field(default_factory=list)
    lines: array[int] = field(default_factory=lambda: array("q"))
    workers: list[str | None] = field(default_factory=list)

    def time(self, row: int) -> int | None:
        """Return the time of a row in microseconds since 1970."""
        times = self.columns.get("time")
        if times is None or times[row] == NO_INT:
            return None
        return int(times[row])

    def give(self, target: Columns) -> None:
        """Put the rows whose lines have come into the table."""
        rows = self.rows
        if not rows:
            return
        whole = rows == list(range(rows[0], rows[-1] + 1))
        numbers: dict[str, array[int] | array[float]] = {
            name: values[rows[0] : rows[-1] + 1] if whole else array(values.typecode, [values[row] for row in rows])
            for name, values in self.columns.items()
        }
        numbers["line"] = self.lines
        texts: dict[str, Sequence[str | None]] = {"framework": [self.framework] * len(rows)}
        if any(self.workers):
            texts["worker"] = self.workers
        target.extend_columns(len(rows), numbers, texts)
        self.rows, self.lines, self.workers = [], array("q"), []


def striking(
    columns: Mapping[str, Sequence[float]], size: int, before: Mapping[str, float], highest: float
) -> bytes | None:
    """Return which rows stand out: 1 where loss, gradient norm or step time jump; None where they are not finite.

    Args:
        columns: Values by column.
        size: Number of rows.
        before: Values in the row above the first.
        highest: Highest gradient norm so far.
    """
    import numpy as np

    out = np.zeros(size, dtype=bool)
    for name, factor in JUMPS.items():
        values = columns.get(name)
        if values is not None:
            now = np.asarray(values, dtype=np.float64)
            if not np.isfinite(now).all():
                return None
            above = np.concatenate(([before.get(name, now[0])], now[:-1]))
            out |= now > factor * above
            if name == "grad_norm":
                out |= now > np.maximum.accumulate(np.concatenate(([highest], now[:-1])))
    return out.astype(np.uint8).tobytes()
