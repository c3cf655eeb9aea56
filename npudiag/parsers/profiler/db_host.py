"""What the host did, from a database: calls of CANN, operators of the framework, happenings that a trace shows too."""

from __future__ import annotations

from typing import Any

from npudiag.parsers.profiler.db_tables import Database
from npudiag.parsers.profiler.raw import Raw
from npudiag.parsers.profiler.small_tables import MOST_OPERATORS

_LEVELS = {20000: "acl", 15000: "model", 10000: "node", 5500: "communication", 5000: "runtime"}
_OPERATOR = 50001
_EVENTS = (
    ("compile", "aclopCompileAndExecute%"),
    ("synchronize", "aclrtSynchronize%"),
    ("malloc", "aclrtFree%"),
    ("malloc", "aclMallocMem%"),
    ("malloc", "aclrtMalloc%"),
)
_FRAMEWORK = (
    ("dataloader", "enumerate(DataLoader)%"),
    ("sync-batch-norm", "SyncBatchNorm%"),
    ("sync-batch-norm", "aten::batch_norm_gather_stats%"),
    ("sync-batch-norm", "aten::batch_norm_stats%"),
)


def calls(raw: Raw, db: Database) -> None:
    """Read the calls of CANN, summed up by name."""
    if not db.has("CANN_API", "startNs", "endNs", "type", "name") or not db.has("STRING_IDS"):
        return
    sql = (
        "SELECT a.type, s.value, COUNT(*), SUM(a.endNs - a.startNs) / 1e3, MAX(a.endNs - a.startNs) / 1e3"
        " FROM CANN_API a JOIN STRING_IDS s ON s.id = a.name GROUP BY 1, 2 ORDER BY 4 DESC LIMIT 500"
    )
    for kind, name, count, total, high in db.rows(sql):
        raw.add("prof_api", _call(_LEVELS.get(kind, str(kind)), str(name), count, total, high))


def _call(level: str, name: str, count: int, total: float, high: float) -> dict[str, Any]:
    return {
        "level": level,
        "api": name[:200],
        "count": count,
        "total_us": total,
        "avg_us": total / count,
        "max_us": high,
    }


def operators(raw: Raw, db: Database) -> None:
    """Read the framework's operators with their own time: what operators within them take is not theirs."""
    if not db.has("PYTORCH_API", "startNs", "endNs", "globalTid", "name", "type") or not db.has("STRING_IDS"):
        return
    texts = db.texts()
    sums: dict[int, list[float]] = {}
    open_: list[list[float]] = []
    thread: Any = None

    def close(until: float) -> None:
        while open_ and open_[-1][1] <= until:
            name, end, begin, inner = open_.pop()
            own = end - begin - inner
            total = sums.setdefault(int(name), [0, 0.0, 0.0])
            total[0] += 1
            total[1] += own
            total[2] = max(total[2], own)
            if open_:
                open_[-1][3] += end - begin

    # Times are declared as text.
    for name, start, end, tid in db.each(
        "SELECT name, CAST(startNs AS INTEGER) AS b, CAST(endNs AS INTEGER) AS e, globalTid FROM PYTORCH_API"
        f" WHERE type = {_OPERATOR} AND b > 0 AND e >= b ORDER BY globalTid, b, e DESC"
    ):
        if tid != thread:
            close(float("inf"))
            thread = tid
        if open_ and open_[-1][1] <= start:
            close(start)
        open_.append([name, end, start, 0])
    close(float("inf"))
    for name, (count, total, high) in sorted(sums.items(), key=lambda item: -item[1][1])[:MOST_OPERATORS]:
        raw.add("prof_api", _call("framework", texts.get(name, str(name)), int(count), total / 1e3, high / 1e3))


def events(raw: Raw, db: Database) -> None:
    """Count what a trace shows in its lanes of CANN, framework and garbage collection."""
    sums: dict[str, dict[str, Any]] = {}
    if db.has("CANN_API", "startNs", "endNs", "name") and db.has("STRING_IDS"):
        for kind, pattern in _EVENTS:
            _count(sums, db, "CANN_API", kind, pattern, "AscendCL@")
    if db.has("PYTORCH_API", "startNs", "endNs", "name") and db.has("STRING_IDS"):
        for kind, pattern in _FRAMEWORK:
            _count(sums, db, "PYTORCH_API", kind, pattern, "")
    for row in sums.values():
        raw.add("prof_events", row)
    if db.has("GC_RECORD", "startNs", "endNs"):
        count, total, high = db.rows(
            "SELECT COUNT(*), SUM(endNs - startNs) / 1e3, MAX(endNs - startNs) / 1e3 FROM GC_RECORD"
        )[0]
        if count:
            raw.add("prof_events", {"kind": "gc", "name": "GC", "count": count, "total_us": total, "max_us": high})


def _count(sums: dict[str, dict[str, Any]], db: Database, table: str, kind: str, pattern: str, prefix: str) -> None:
    length = "(CAST(a.endNs AS INTEGER) - CAST(a.startNs AS INTEGER)) / 1e3"
    sql = (
        f"SELECT s.value, COUNT(*), SUM({length}), MAX({length})"
        f" FROM {table} a JOIN STRING_IDS s ON s.id = a.name WHERE s.value LIKE ? GROUP BY 1"
    )
    for name, count, total, high in db.connection.execute(sql, (pattern,)).fetchmany(1000):
        row = sums.setdefault(kind, {"kind": kind, "name": "", "count": 0, "total_us": 0.0, "max_us": -1.0})
        row["count"] += count
        row["total_us"] += total
        if high > row["max_us"]:
            row["name"], row["max_us"] = f"{prefix}{name}"[:200], high
