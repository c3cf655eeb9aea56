"""Communication of a database: from ``analysis.db`` with its times, else from the tasks."""

from __future__ import annotations

import bisect
import math
from typing import Any

from npudiag.parsers.profiler.communication import Moved, Operations
from npudiag.parsers.profiler.db_tables import Database, real
from npudiag.parsers.profiler.plausible import MOST_NS
from npudiag.parsers.profiler.raw import Raw, add_link
from npudiag.parsers.profiler.text import step_number
from npudiag.parsers.profiler.transfers import Transfers

_LINKS = {1: "HCCS", 2: "PCIE", 3: "RDMA", 4: "SIO", 5: "HCCS", 6: "RDMA"}
"""Kinds of links by their number in ENUM_HCCL_LINK_TYPE; 0 is on the chip."""
_NO_RANK = 4294967295
_PARTS = ("transit_time", "wait_time", "synchronization_time")
_ANALYSES = (
    ("COMMANALYZERTIME", "COMMANALYZERBANDWIDTH"),
    ("CLUSTERCOMMUNICATIONTIME", "CLUSTERCOMMUNICATIONBANDWIDTH"),
    ("CLUSTERCOMMANALYZERTIME", "CLUSTERCOMMANALYZERBANDWIDTH"),
)
"""Tables of times and of bandwidths: of one capture, and of cluster analyses, which hold all ranks."""
_MATRICES = (
    ("COMMANALYZERMATRIX", False),
    ("CLUSTERCOMMUNICATIONMATRIX", True),
    ("CLUSTERCOMMANALYZERMATRIX", True),
)
"""Tables of links, and whether they number ranks globally."""
_TOTAL = "Total Op Info"


def operations(raw: Raw, db: Database) -> None:
    """Read the operations.

    Raises:
        ValueError: The times of some cannot be true; the others were taken.
    """
    collect = Operations(raw)
    analysis = next(
        (pair for pair in _ANALYSES if db.has(pair[0], "hccl_op_name", "group_name", "step", *_PARTS)), None
    )
    if analysis is not None:
        _analysed(collect, db, *analysis)
    elif db.has("COMMUNICATION_OP", "opName", "startNs", "endNs", "groupName") and db.has("STRING_IDS"):
        _timed(collect, db)
    bad = collect.finish()
    if bad:
        raise ValueError(f"the times of {bad} operations cannot be true")


def _timed(collect: Operations, db: Database) -> None:
    """Read operations of which only begin and end are known. Names come back in every step, so each needs its step."""
    texts = db.texts()
    begins: list[int] = []
    numbers: list[int] = []
    if db.has("STEP_TIME", "id", "startNs"):
        for number, begin in db.rows("SELECT id, startNs FROM STEP_TIME WHERE startNs IS NOT NULL ORDER BY startNs"):
            begins.append(begin)
            numbers.append(number)
    seen: dict[tuple[str, int | None], int] = {}
    for name, group, start, end in db.rows(
        "SELECT opName, groupName, startNs, endNs FROM COMMUNICATION_OP ORDER BY startNs"
    ):
        if start is None or end is None or end < start:
            continue
        place = bisect.bisect_right(begins, start) - 1
        step = numbers[place] if place >= 0 else None
        key = f"{texts.get(name, name)}@{texts.get(group, group)}"
        again = seen[key, step] = seen.get((key, step), -1) + 1
        op, _, where = key.partition("@")
        unique = f"{op}#{again}@{where}" if again else key
        collect.put(unique, step, "", [(end - start) / 1e6, 0.0, 0.0, 0.0], (), int(start))


def _analysed(collect: Operations, db: Database, times_of: str, bandwidths: str) -> None:
    bands: dict[tuple[Any, ...], dict[str, Moved]] = {}
    link = db.first(bandwidths, "transport_type", "band_type")
    if link != "NULL" and db.has(bandwidths, "hccl_op_name", "group_name", "step", "transit_size", "transit_time"):
        size, count, rank = (db.first(bandwidths, name) for name in ("package_size", "count", "rank_id"))
        for step, name, group, whose, transport, moved, spent, package, packages in db.each(
            f"SELECT step, hccl_op_name, group_name, {rank}, {link}, transit_size, transit_time, {size}, {count}"
            f" FROM {bandwidths}"
        ):
            # One row per size of package; size and time of the whole transfer stand in each of them.
            band = bands.setdefault((step, name, group, whose), {}).setdefault(
                str(transport), Moved(real(moved) or 0.0, real(spent) or 0.0, {})
            )
            if package is not None and packages:
                band.sizes[str(package)] = [real(packages) or 0.0]
    kind, start, rank = (db.first(times_of, name) for name in ("type", "start_timestamp", "rank_id"))
    lasted = db.first(times_of, "elapse_time", "elapsed_time")
    for name, group, step, whose, way, begin, *times in db.each(
        f"SELECT hccl_op_name, group_name, step, {rank}, {kind}, {start}, {lasted}, {', '.join(_PARTS)} FROM {times_of}"
    ):
        if str(name).startswith(_TOTAL):
            continue
        elapse, *parts = map(real, times)
        values = [math.nan if elapse is None else elapse, *(part or 0.0 for part in parts)]
        found = bands.get((step, name, group, whose), {})
        when = round((real(begin) or 0.0) * 1000)
        number = step_number(str(whose))
        collect.put(
            f"{name}@{group}",
            step_number(str(step)),
            str(way or ""),
            values,
            found.items(),
            when,
            -1 if number is None else number,
        )


def links(raw: Raw, db: Database) -> None:
    """Read the links, and single transfers."""
    for table, globally in _MATRICES:
        if not db.has(table, "hccl_op_name", "group_name", "src_rank", "dst_rank", "transport_type", "transit_size"):
            continue
        sql = (
            "SELECT src_rank, dst_rank, transport_type, group_name, SUM(transit_size), SUM(transit_time)"
            f" FROM {table} WHERE hccl_op_name LIKE '%total%' = (SELECT COUNT(*) > 0 FROM {table}"
            " WHERE hccl_op_name LIKE '%total%') GROUP BY 1, 2, 3, 4"
        )
        for src, dst, transport, group, size, spent in db.rows(sql)[:1_000_000]:
            one, other = step_number(str(src)), step_number(str(dst))
            if one is not None and other is not None and real(size) and real(spent):
                where = "" if globally else str(group)
                add_link(raw.links, (one, other, str(transport)[:20], where), float(size), float(spent))
    _tasks(raw, db)


def _tasks(raw: Raw, db: Database) -> None:
    """Read the transfers; their sums by link stand in for the matrix where a capture has none."""
    if not db.has(
        "COMMUNICATION_TASK_INFO", "globalTaskId", "groupName", "srcRank", "dstRank", "size", "linkType", "opId"
    ) or not db.has("TASK", "globalTaskId", "startNs", "endNs"):
        return
    texts = db.texts()
    transfers = Transfers()
    alone = not raw.links
    for group, src, dst, size, link, start, end in db.each(
        "SELECT c.groupName, c.srcRank, c.dstRank, c.size, c.linkType, t.startNs, t.endNs"
        " FROM COMMUNICATION_TASK_INFO c JOIN TASK t ON t.globalTaskId = c.globalTaskId WHERE c.size > 0"
    ):
        transport = _LINKS.get(link)
        if transport is None or start is None or end is None or not 0 < end - start <= MOST_NS:
            continue
        transfers.add(transport, int(size), (end - start) / 1e3)
        if alone and isinstance(src, int) and isinstance(dst, int) and _NO_RANK not in (src, dst):
            key = (src, dst, transport, str(texts.get(group, group)))
            add_link(raw.links, key, size / 1e6, (end - start) / 1e6)
    transfers.hand_over(raw)
