"""Whether a job went on behind a place in its log: it printed more steps, or served more requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npudiag.tables.columns import Columns
from npudiag.tables.records import LogRecord

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_LEAST = 3
"""So many steps or lines of statistics must follow: a few may be printed while a job ends."""
_FRONT = ("", "APIServer")
"""Processes of a server that may refuse a request and serve the next; an engine that stops does not come back."""


def went_on(store: Store, record: LogRecord) -> int | None:
    """Return the line at which the job of a record is seen to go on behind it, None where it is not.

    Args:
        store: The tables.
        record: A record that tells of a failure.
    """
    line = _next(store.columns("train_steps"), record, same_run=True)
    if line is None and (record.worker or "") in _FRONT:
        line = _next(store.columns("serving"), record, same_run=False)
    return line


def _next(rows: Columns, record: LogRecord, *, same_run: bool) -> int | None:
    """Return the line of the first row behind the record, where enough follow.

    Where a run had begun ahead of the record, it has to be the one that goes on: steps of a later start are a restart.
    """
    if not rows.size or record.file not in rows.texts("file"):
        return None
    import numpy as np

    lines = rows.numbers("line")
    here = rows.codes("file") == list(rows.texts("file")).index(record.file)
    ahead, behind = here & (lines < record.line), here & (lines > record.line)
    if int(behind.sum()) < _LEAST:
        return None
    first = np.flatnonzero(behind)[np.argmin(lines[behind])]
    if same_run:
        runs = np.nan_to_num(rows.numbers("run"))
        if int((behind & (runs == runs[first])).sum()) < _LEAST:
            return None
        if ahead.any() and runs[np.flatnonzero(ahead)[np.argmax(lines[ahead])]] != runs[first]:
            return None
    return int(lines[first])
