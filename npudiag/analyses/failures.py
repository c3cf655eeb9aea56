"""Which worker failed first, as launchers tell it: by time, not by the order in which they print it.

A worker that SIGTERM ended was ended by the launcher because another one had failed; it comes first only where all of
them were. Of failures in the same second, the one that the launcher names as the first it observed counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_ENDED_BY_LAUNCHER = "SIGTERM"
_LATEST = float("inf")


def first(store: Store) -> dict[str, Any] | None:
    """Return the first observed failure of a worker with the number of all; None where no launcher tells of any."""
    columns = store.columns("worker_failures")
    if not columns.size:
        return None
    rows = list(columns.rows())

    def order(row: dict[str, Any]) -> tuple[bool, float, bool]:
        time = row["time"]
        return row["signal"] == _ENDED_BY_LAUNCHER, _LATEST if time is None else time, not row["named"]

    earliest = min(rows, key=order)
    workers = {(row["host"], row["pid"], row["file"]) for row in rows}
    told = ("file", "line", "host", "rank", "local_rank", "pid", "exit_code", "signal", "traceback")
    return {
        "workers": len(workers),
        "first": {name: earliest[name] for name in told if earliest[name] is not None},
        "by": "time" if earliest["time"] is not None else "order in the log",
    }
