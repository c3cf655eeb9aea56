"""SQLite captures: ``ascend_pytorch_profiler_*.db``, ``msprof_*.db``, ``analysis.db``, cluster databases.

They are opened read-only and immutable, so that no journal is replayed into the user's folder and no lock is taken.
Members of archives are spooled to a private temporary file first. Every table is asked for by name and skipped where
it, or a column of it, is missing: schemas differ by version.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import urllib.parse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from npudiag.errors import SourceError
from npudiag.parsers.base import Context, Partial, Stream, feed
from npudiag.parsers.profiler.communication import Operations
from npudiag.parsers.profiler.documents import metadata_of
from npudiag.parsers.profiler.kernels import SMALL_US, unaligned
from npudiag.parsers.profiler.parser import damaged
from npudiag.parsers.profiler.raw import Raw, add_link, of
from npudiag.parsers.profiler.text import step_number
from npudiag.parsers.profiler.trace import weighted
from npudiag.parsers.profiler.trends import Trend

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_MOST_BYTES = 16 << 30
_MOST_ROWS = 20_000_000
_API_LEVELS = {20000: "acl", 15000: "model", 10000: "node", 5500: "communication", 5000: "runtime"}


def read(partial: Partial, stream: Stream, head: bytes, context: Context) -> None:
    """Read a database."""
    source = context.source
    with _file(partial, stream, head) as (location, size):
        partial.bytes = size
        uri = f"file:{urllib.parse.quote(location)}?mode=ro&immutable=1"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                connection.text_factory = lambda data: data.decode("utf-8", "replace")
                connection.execute("PRAGMA query_only=ON")
                _read_all(partial, _Database(connection))
        except sqlite3.Error as exc:
            damaged(partial, f"the database is damaged: {exc}", reason="truncated")
    if not of(partial).tables and not partial.problems and not of(partial).facts:
        partial.note = f"a database without tables of a profiler: {source.path}"


@contextmanager
def _file(partial: Partial, stream: Stream, head: bytes) -> Iterator[tuple[str, int]]:
    """Give the place of the database on disk, and its size."""
    source = partial.source
    if source.location is not None and source.container is None:
        yield source.location, source.size or 0
        return
    handle, name = tempfile.mkstemp(prefix="npudiag-", suffix=".db")
    try:
        written = 0
        with os.fdopen(handle, "wb") as spool:
            try:
                for piece in feed(head, stream, 1 << 20):
                    spool.write(piece)
                    written += len(piece)
                    if written > _MOST_BYTES:
                        raise SourceError(f"{source.path}: the database is larger than can be spooled", reason="limit")
            except SourceError as exc:
                partial.broke_off(exc, 0)
        yield name, written
    finally:
        os.unlink(name)  # noqa: PTH108 - the name is ours


class _Database:
    """Tables and columns of one database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.tables: dict[str, dict[str, str]] = {}
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            quoted = str(name).replace('"', '""')
            columns = connection.execute(f'PRAGMA table_info("{quoted}")').fetchall()
            self.tables[str(name).upper()] = {str(column[1]).lower(): str(column[1]) for column in columns}

    def has(self, table: str, *columns: str) -> bool:
        """Whether a table with these columns is there."""
        known = self.tables.get(table)
        return known is not None and all(column.lower() in known for column in columns)

    def first(self, table: str, *columns: str) -> str:
        """Return the first of these columns that a table has, else NULL."""
        known = self.tables.get(table, {})
        return next((known[column.lower()] for column in columns if column.lower() in known), "NULL")

    def rows(self, sql: str) -> list[Any]:
        """Return the rows of a statement."""
        return self.connection.execute(sql).fetchmany(_MOST_ROWS)

    def numbers(self, sql: str, width: int) -> npt.NDArray[np.float64]:
        """Return the rows of a statement that gives numbers; those with a missing number are left out."""
        import numpy as np

        whole = (row for row in self.connection.execute(sql) if None not in row)
        return np.fromiter((value for row in whole for value in row), dtype=np.float64).reshape(-1, width)


def _read_all(partial: Partial, db: _Database) -> None:
    raw = of(partial)
    parts = (_facts, _breakdown, _analysed, _cluster, _kernels, _comm, _links, _api, _events, _memory, _clock, _gc)
    for part in parts:
        try:
            part(raw, db)
        except sqlite3.Error as exc:
            damaged(partial, f"part of the database cannot be read: {exc}", reason="truncated")
        except (TypeError, ValueError, OverflowError) as exc:
            damaged(partial, f"part of the database makes no sense: {exc}")


def _facts(raw: Raw, db: _Database) -> None:
    if db.has("RANK_DEVICE_MAP", "rankId", "deviceId"):
        found = db.rows("SELECT rankId, deviceId FROM RANK_DEVICE_MAP LIMIT 2")
        if len(found) == 1:
            rank, device = found[0]
            if isinstance(rank, int) and 0 <= rank < 1_000_000:
                raw.facts["rank"] = rank
            if isinstance(device, int) and 0 <= device < 1024:
                raw.facts["device"] = device
    if db.has("NPU_INFO", "name"):
        found = db.rows("SELECT name FROM NPU_INFO LIMIT 1")
        if found:
            raw.facts["chip"] = str(found[0][0])[:40]
    if db.has("HOST_INFO", "hostName"):
        found = db.rows("SELECT hostName FROM HOST_INFO LIMIT 1")
        if found:
            raw.facts["host"] = str(found[0][0])[:80]
    if db.has("META_DATA", "name", "value"):
        metadata_of(raw, dict(db.rows("SELECT name, value FROM META_DATA LIMIT 200")))
    if db.has("TASK"):
        raw.facts.setdefault("framework", "torch_npu" if "PYTORCH_API" in db.tables else "msprof")


def _union(starts: npt.NDArray[np.float64], ends: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the union of intervals as an array of disjoint (start, end)."""
    import numpy as np

    if not len(starts):
        return np.empty((0, 2))
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    fresh = np.concatenate(([True], starts[1:] > reach[:-1]))
    begins = np.flatnonzero(fresh)
    closes = np.concatenate((begins[1:] - 1, [len(starts) - 1]))
    return np.stack((starts[begins], reach[closes]), axis=1)


def _length(spans: npt.NDArray[np.float64]) -> float:
    return float((spans[:, 1] - spans[:, 0]).sum()) if len(spans) else 0.0


def _common(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float:
    """Return how long both unions hold: |A| + |B| - |A or B|."""
    import numpy as np

    both = np.concatenate((one, other))
    return _length(one) + _length(other) - _length(_union(both[:, 0], both[:, 1]))


def _breakdown(raw: Raw, db: _Database) -> None:
    """Split the steps as the profiler's own text export does; ``analysis.db`` holds the same, made by the profiler."""
    import numpy as np

    if not db.has("TASK", "startNs", "endNs", "globalTaskId") or not db.has("COMPUTE_TASK_INFO", "globalTaskId"):
        return
    base = db.rows("SELECT MIN(startNs) FROM TASK")[0][0]
    if base is None:
        return
    base = int(base)
    compute = db.numbers(
        f"SELECT t.startNs - {base}, t.endNs - {base} FROM TASK t JOIN COMPUTE_TASK_INFO c"
        " ON c.globalTaskId = t.globalTaskId",
        2,
    )
    comm = np.empty((0, 2))
    if db.has("COMMUNICATION_OP", "startNs", "endNs"):
        comm = db.numbers(f"SELECT startNs - {base}, endNs - {base} FROM COMMUNICATION_OP", 2)
    if not len(compute):
        return
    steps: list[tuple[int | None, float, float]] = []
    if db.has("STEP_TIME", "id", "startNs", "endNs"):
        found = db.rows(f"SELECT id, startNs - {base}, endNs - {base} FROM STEP_TIME ORDER BY startNs")
        steps = [(int(number), float(begin), float(end)) for number, begin, end in found if None not in (begin, end)]
    if not steps:
        steps = [(None, float(compute[:, 0].min()), float(compute[:, 1].max()))]
    for place, (number, begin, _end) in enumerate(steps):
        # The device runs behind the host: a step lasts until the next one begins.
        limit = steps[place + 1][1] if place + 1 < len(steps) else float("inf")
        one = compute[(compute[:, 0] >= begin) & (compute[:, 0] < limit)]
        other = comm[(comm[:, 0] >= begin) & (comm[:, 0] < limit)]
        if not len(one):
            continue
        all_of = np.concatenate((one, other))
        computing, talking = _union(one[:, 0], one[:, 1]), _union(other[:, 0], other[:, 1])
        shared = _common(computing, talking) if len(talking) else 0.0
        span = float(all_of[:, 1].max() - all_of[:, 0].min())
        work, talk = _length(computing), _length(talking)
        raw.add(
            "prof_steps",
            {
                "step": number,
                "computing_us": work / 1e3,
                "comm_us": talk / 1e3,
                "overlapped_us": shared / 1e3,
                "comm_not_overlapped_us": (talk - shared) / 1e3,
                "free_us": max(span - work - talk + shared, 0.0) / 1e3,
                "stage_us": span / 1e3,
                "e2e_us": span / 1e3,
                "preparing_us": (float(all_of[:, 0].min()) - begin) / 1e3 if number is not None else None,
                "source": "db-tasks",
            },
        )


_STEP_COLUMNS = {
    "computing": "computing_us",
    "communication_not_overlapped": "comm_not_overlapped_us",
    "overlapped": "overlapped_us",
    "communication": "comm_us",
    "free": "free_us",
    "stage": "stage_us",
    "bubble": "bubble_us",
    "communication_not_overlapped_and_exclude_receive": "comm_excl_receive_us",
    "preparing": "preparing_us",
}


def _analysed(raw: Raw, db: _Database) -> None:
    """Read the step table of ``analysis.db`` or of a cluster database."""
    for table in ("STEPTRACETIME", "CLUSTERSTEPTRACETIME"):
        if not db.has(table, "computing", "free"):
            continue
        names = [name for name in _STEP_COLUMNS if db.has(table, name)]
        listed = ", ".join(names)
        kind, index = db.first(table, "type"), db.first(table, "index", "rank")
        quoted = "NULL" if index == "NULL" else f'"{index}"'
        sql = (
            f'SELECT step, "{kind}", {quoted}, {listed} FROM {table}'
            if kind != "NULL"
            else (f"SELECT step, NULL, NULL, {listed} FROM {table}")
        )
        for step, what, whom, *values in db.rows(sql)[:200_000]:
            if what == "stage":
                continue
            row: dict[str, Any] = {
                _STEP_COLUMNS[name]: _float(value) for name, value in zip(names, values, strict=True)
            }
            row |= {"step": step_number(str(step)), "source": "cluster" if what else "db"}
            if what == "rank":
                row["rank"] = step_number(str(whom))
            raw.add("prof_steps", row)


def _float(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _cluster(raw: Raw, db: _Database) -> None:
    """Read the groups of a cluster database."""
    table = "COMMUNICATIONGROUPMAPPING"
    if not db.has(table, "group_name", "rank_set"):
        return
    name = db.first(table, "pg_name", "type")
    for group, ranks, kind in db.rows(f"SELECT group_name, rank_set, {name} FROM {table}")[:100_000]:
        numbers = tuple(
            int(text)
            for text in str(ranks).replace("(", " ").replace(")", " ").replace(",", " ").split()
            if text.isdigit()
        )
        raw.groups[str(group)] = (str(kind or "")[:40], numbers)


def _kernels(raw: Raw, db: _Database) -> None:
    if not db.has("COMPUTE_TASK_INFO", "name", "globalTaskId", "opType", "taskType") or not db.has("STRING_IDS"):
        return
    shapes = db.first("COMPUTE_TASK_INFO", "inputShapes")
    state = db.first("COMPUTE_TASK_INFO", "opState")
    blocks = db.first("COMPUTE_TASK_INFO", "blockDim", "blockNum", "block_dim")
    texts: dict[int, str] = dict(db.rows("SELECT id, value FROM STRING_IDS"))
    found = db.connection.execute(
        f"SELECT c.opType, c.taskType, c.name, (t.endNs - t.startNs) / 1e3, c.{shapes if shapes != 'NULL' else 'name'},"
        f" {state if state == 'NULL' else 'c.' + state}, {blocks if blocks == 'NULL' else 'c.' + blocks}"
        " FROM COMPUTE_TASK_INFO c JOIN TASK t ON t.globalTaskId = c.globalTaskId"
    )
    sums: dict[tuple[int, int], dict[str, Any]] = {}
    for kind, core, name, duration, shape, op_state, block in found:
        if duration is None or duration < 0:
            continue
        total = sums.get((kind, core))
        if total is None:
            text = texts.get(core, str(core))
            total = sums[kind, core] = {
                "type": texts.get(kind, str(kind))[:200],
                "core": text,
                "count": 0,
                "total_us": 0.0,
                "min_us": duration,
                "max_us": -1.0,
                "small": 0,
                "dynamic": 0,
                "stated": 0,
                "unaligned_us": 0.0,
                "source": "db",
            }
        total["count"] += 1
        total["total_us"] += duration
        total["min_us"] = min(total["min_us"], duration)
        if duration > total["max_us"]:
            total["max_us"], total["name"] = duration, texts.get(name, "")[:200]
            total["blocks"] = block if isinstance(block, int) and block > 0 else None
        total["small"] += duration < SMALL_US
        word = texts.get(op_state) if op_state is not None else None
        if word in ("dynamic", "static"):
            total["stated"] += 1
            total["dynamic"] += word == "dynamic"
        if total["core"] in ("AI_CORE", "MIX_AIC") and unaligned(total["type"], texts.get(shape, "")):
            total["unaligned_us"] += duration
            total.setdefault("unaligned_shape", texts.get(shape, "")[:120])
    for total in list(sums.values())[:5000]:
        raw.add("prof_kernels", {**total, "avg_us": total["total_us"] / total["count"]})


def _comm(raw: Raw, db: _Database) -> None:
    """Read the operations, from ``analysis.db`` with their times, else from the task database with their length."""
    collect = Operations(raw)
    names = ("elapse_time", "transit_time", "wait_time", "synchronization_time")
    if db.has("COMMANALYZERTIME", "hccl_op_name", "group_name", "step", *names):
        bands: dict[tuple[str, str, str], list[tuple[str, float, float]]] = {}
        if db.has("COMMANALYZERBANDWIDTH", "hccl_op_name", "transport_type", "transit_size", "transit_time"):
            sql = (
                "SELECT DISTINCT step, hccl_op_name, group_name, transport_type, transit_size, transit_time"
                " FROM COMMANALYZERBANDWIDTH"
            )
            for step, name, group, link, size, spent in db.rows(sql):
                bands.setdefault((step, name, group), []).append((link, _float(size) or 0.0, _float(spent) or 0.0))
        kind = db.first("COMMANALYZERTIME", "type")
        sql = f"SELECT hccl_op_name, group_name, step, {kind}, {', '.join(names)} FROM COMMANALYZERTIME"
        for name, group, step, way, *times in db.rows(sql):
            values = [_float(value) or 0.0 for value in times]
            collect.put(
                f"{name}@{group}", step_number(str(step)), str(way or ""), values, bands.get((step, name, group))
            )
    elif db.has("COMMUNICATION_OP", "opName", "startNs", "endNs", "groupName") and db.has("STRING_IDS"):
        sql = (
            "SELECT s.value, o.groupName, (o.endNs - o.startNs) / 1e6 FROM COMMUNICATION_OP o"
            " JOIN STRING_IDS s ON s.id = o.opName ORDER BY o.startNs"
        )
        texts: dict[int, str] = dict(db.rows("SELECT id, value FROM STRING_IDS"))
        for name, group, elapse in db.rows(sql):
            if elapse is not None and elapse >= 0:
                collect.put(f"{name}@{texts.get(group, group)}", None, "", [elapse, 0.0, 0.0, 0.0], None)
    collect.finish()


def _links(raw: Raw, db: _Database) -> None:
    table = "COMMANALYZERMATRIX"
    if not db.has(table, "hccl_op_name", "group_name", "src_rank", "dst_rank", "transport_type", "transit_size"):
        return
    sql = (
        "SELECT src_rank, dst_rank, transport_type, group_name, SUM(transit_size), SUM(transit_time)"
        f" FROM {table} WHERE hccl_op_name LIKE '%total%' = (SELECT COUNT(*) > 0 FROM {table}"
        " WHERE hccl_op_name LIKE '%total%') GROUP BY 1, 2, 3, 4"
    )
    for src, dst, transport, group, size, spent in db.rows(sql)[:1_000_000]:
        one, other = step_number(str(src)), step_number(str(dst))
        if one is not None and other is not None and _float(size) and _float(spent):
            add_link(raw.links, (one, other, str(transport)[:20], str(group)), float(size), float(spent))


def _api(raw: Raw, db: _Database) -> None:
    if not db.has("CANN_API", "startNs", "endNs", "type", "name") or not db.has("STRING_IDS"):
        return
    sql = (
        "SELECT a.type, s.value, COUNT(*), SUM(a.endNs - a.startNs) / 1e3, MAX(a.endNs - a.startNs) / 1e3"
        " FROM CANN_API a JOIN STRING_IDS s ON s.id = a.name GROUP BY 1, 2 ORDER BY 4 DESC LIMIT 500"
    )
    for kind, name, count, total, high in db.rows(sql):
        raw.add(
            "prof_api",
            {
                "level": _API_LEVELS.get(kind, str(kind)),
                "api": str(name)[:200],
                "count": count,
                "total_us": total,
                "avg_us": total / count,
                "max_us": high,
            },
        )


_EVENTS = (
    ("compile", "aclopCompileAndExecute%"),
    ("synchronize", "aclrtSynchronize%"),
    ("malloc", "aclrtFree%"),
    ("malloc", "aclMallocMem%"),
    ("malloc", "aclrtMalloc%"),
)


def _events(raw: Raw, db: _Database) -> None:
    """Count what a trace shows in its CANN lane."""
    if not db.has("CANN_API", "startNs", "endNs", "name") or not db.has("STRING_IDS"):
        return
    sums: dict[str, dict[str, Any]] = {}
    for kind, pattern in _EVENTS:
        sql = (
            "SELECT s.value, COUNT(*), SUM(a.endNs - a.startNs) / 1e3, MAX(a.endNs - a.startNs) / 1e3"
            " FROM CANN_API a JOIN STRING_IDS s ON s.id = a.name WHERE s.value LIKE ? GROUP BY 1"
        )
        for name, count, total, high in db.connection.execute(sql, (pattern,)).fetchmany(1000):
            row = sums.setdefault(kind, {"kind": kind, "name": "", "count": 0, "total_us": 0.0, "max_us": -1.0})
            row["count"] += count
            row["total_us"] += total
            if high > row["max_us"]:
                row["name"], row["max_us"] = f"AscendCL@{name}"[:200], high
    for row in sums.values():
        raw.add("prof_events", row)


def _memory(raw: Raw, db: _Database) -> None:
    for table, time, component in (
        ("MEMORY_RECORD", "timestamp", "component"),
        ("NPU_MODULE_MEM", "timestampNs", "moduleId"),
    ):
        if not db.has(table, time, component, "totalReserved") or not db.has("STRING_IDS"):
            continue
        allocated = db.first(table, "totalAllocated")
        if table == "NPU_MODULE_MEM":
            names: dict[int, str] = dict(db.rows("SELECT id, name FROM ENUM_MODULE")) if db.has("ENUM_MODULE") else {}
        else:
            names = dict(
                db.rows(f"SELECT s.id, s.value FROM STRING_IDS s WHERE s.id IN (SELECT component FROM {table})")
            )
        trends: dict[tuple[str, int | None], Trend] = {}
        device = db.first(table, "deviceId")
        for when, what, where, used, taken in db.rows(
            f"SELECT {time}, {component}, {device}, {allocated}, totalReserved FROM {table}"
        ):
            key = (names.get(what, str(what)), where if isinstance(where, int) else None)
            trend = trends.setdefault(key, Trend(None))
            trend.add(when / 1e3, _megabytes(used), _megabytes(taken))
        for (what, where), trend in trends.items():
            raw.add("prof_memory", {"component": what, "device": where, **trend.row()})


def _megabytes(value: Any) -> float | None:
    number = _float(value)
    return None if number is None else number / (1 << 20)


def _clock(raw: Raw, db: _Database) -> None:
    if db.has("AICORE_FREQ", "timestampNs", "freq"):
        found = [
            (float(when), float(freq))
            for when, freq in db.rows("SELECT timestampNs, freq FROM AICORE_FREQ")
            if when is not None and freq
        ]
        if found:
            raw.add("prof_counters", {"name": "aicore-freq", "unit": "MHz", **weighted(found)})


def _gc(raw: Raw, db: _Database) -> None:
    if db.has("GC_RECORD", "startNs", "endNs"):
        count, total, high = db.rows(
            "SELECT COUNT(*), SUM(endNs - startNs) / 1e3, MAX(endNs - startNs) / 1e3 FROM GC_RECORD"
        )[0]
        if count:
            raw.add(
                "prof_events",
                {"kind": "gc", "name": "GC", "count": count, "total_us": total, "max_us": high},
            )
