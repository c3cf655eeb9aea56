"""Tables that profilers write, other than the kernels: one reader per kind, each row or sum at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from npudiag.parsers.base import Context, Partial, Stream
from npudiag.parsers.profiler import mindinsight
from npudiag.parsers.profiler.plausible import sound_step, sound_sum
from npudiag.parsers.profiler.raw import Raw, of
from npudiag.parsers.profiler.readings import Found, Readings, add_counters
from npudiag.parsers.profiler.text import Table, number, rows, step_number
from npudiag.parsers.profiler.trends import Trend

Rows = Iterable[list[str]]
_MOST = 20_000
MOST_OPERATORS = 100
"""Operators of the framework that are kept, those with most time of their own."""
_RANKS = re.compile(r"\d+")


def read(partial: Partial, stream: Stream, head: bytes, context: Context) -> None:
    """Read a table of any kind in `_READERS`; others are only counted."""
    table = Table()
    lines = rows(partial, stream, head, table)
    raw = of(partial)
    reader = _READERS.get(partial.kind)
    if reader is None:
        for _ in lines:
            pass
        partial.note = partial.note or "recognised and counted; no rule looks at it"
        return
    reader(raw, table, lines, partial)


def _steps(raw: Raw, table: Table, lines: Rows, partial: Partial) -> None:
    for row in lines:
        if len(row) < 4 or len(raw.tables.get("prof_steps", ())) >= _MOST * 10:
            continue
        kind = table.text(row, "type")
        if kind == "stage":
            note_stage(raw, table.text(row, "index") or "")
            continue
        value = {
            "line": table.line,
            "device": table.whole(row, "device_id"),
            "step": step_number(table.text(row, "step")),
            "computing_us": table.number(row, "computing"),
            "comm_not_overlapped_us": table.number(row, "communication(not overlapped)"),
            "overlapped_us": table.number(row, "overlapped"),
            "comm_us": table.number(row, "communication"),
            "free_us": table.number(row, "free"),
            "stage_us": table.number(row, "stage"),
            "bubble_us": table.number(row, "bubble"),
            "comm_excl_receive_us": table.number(row, "communication(not overlapped and exclude receive)"),
            "preparing_us": table.number(row, "preparing"),
            "source": "cluster" if kind else "text",
        }
        if kind == "rank":
            value["rank"] = table.whole(row, "index")
            value["pp_stage"] = table.whole(row, "pp index")
        if sound_step(value):
            raw.add("prof_steps", value)
        else:
            table.refuse()


def note_stage(raw: Raw, text: str) -> None:
    """Note the ranks of a pipeline stage: cluster tables list stages in order."""
    ranks = tuple(int(number) for number in _RANKS.findall(text))
    known = raw.facts.setdefault("stages", [])
    if ranks and ranks not in known:  # each step lists them
        known.append(ranks)


def _op_statistic(raw: Raw, table: Table, lines: Rows, partial: Partial) -> None:
    for row in lines:
        count = table.whole(row, "count")
        total = table.number(row, "total time")
        if not sound_sum(count, total):
            table.refuse()
            continue
        if len(raw.tables.get("prof_kernels", ())) >= _MOST:
            continue
        raw.add(
            "prof_kernels",
            {
                "line": table.line,
                "device": table.whole(row, "device_id"),
                "type": table.text(row, "op type"),
                "core": table.text(row, "core type"),
                "count": count,
                "total_us": total,
                "avg_us": table.number(row, "avg time"),
                "min_us": table.number(row, "min time"),
                "max_us": table.number(row, "max time"),
                "source": "op_statistic",
            },
        )


def _api_statistic(raw: Raw, table: Table, lines: Rows, partial: Partial) -> None:
    for row in lines:
        if len(raw.tables.get("prof_api", ())) >= _MOST:
            continue
        count, total = table.whole(row, "count"), table.number(row, "time")
        if not sound_sum(count, total):
            table.refuse()
            continue
        level = (table.text(row, "level") or "").lower()
        raw.add(
            "prof_api",
            {
                "line": table.line,
                "level": "communication" if level == "hccl" else level,
                "api": table.text(row, "api name"),
                "count": count,
                "total_us": total,
                "avg_us": table.number(row, "avg"),
                "max_us": table.number(row, "max"),
            },
        )


def _memory_record(raw: Raw, table: Table, lines: Rows, partial: Partial) -> None:
    trends: dict[tuple[str, int | None], Trend] = {}
    for row in lines:
        component = table.text(row, "component")
        time = table.number(row, "timestamp")
        if component is None or time is None:
            table.refuse()
            continue
        device = _device(table.text(row, "device type", "device"), table.whole(row, "device_id"))
        trend = trends.setdefault((component, device), Trend(table.line))
        trend.add(time, table.number(row, "total allocated"), table.number(row, "total reserved"))
    for (component, device), trend in trends.items():
        raw.add("prof_memory", {"component": component, "device": device, **trend.row()})


def _device(text: str | None, given: int | None) -> int | None:
    return given if given is not None or text is None else step_number(text)


class Allocations:
    """What the operators of one capture allocated, by operator."""

    def __init__(self) -> None:
        self._sums: dict[str, dict[str, Any]] = {}

    def add(self, name: str, size_mb: float, kept: bool, line: int | None) -> None:
        """Add an allocation; `kept` where it was not given back within the capture."""
        if name not in self._sums and len(self._sums) >= _MOST:
            name = "(others)"
        total = self._sums.get(name)
        if total is None:
            total = self._sums[name] = {"line": line, "name": name, "count": 0, "size_mb": 0.0, "max_mb": 0.0}
            total |= {"kept": 0, "kept_mb": 0.0}
        total["count"] += 1
        total["size_mb"] += size_mb
        total["max_mb"] = max(total["max_mb"], size_mb)
        if kept:
            total["kept"] += 1
            total["kept_mb"] += size_mb

    def hand_over(self, raw: Raw) -> None:
        """Add rows of ``prof_allocations`` for the operators that allocate most."""
        for total in sorted(self._sums.values(), key=lambda item: -item["size_mb"])[:200]:
            raw.add("prof_allocations", total)


def _operator_memory(raw: Raw, table: Table, lines: Rows, partial: Partial) -> None:
    found = Allocations()
    for row in lines:
        size = table.number(row, "size")
        if size is None:
            table.refuse()
        elif size > 0:
            found.add(table.text(row, "name") or "?", size, table.text(row, "release time") is None, table.line)
    found.hand_over(raw)


def _l2_cache(raw: Raw, table: Table, lines: Rows, partial: Partial) -> None:
    found: Found = {}
    for row in lines:
        value = table.number(row, "hit rate")
        if value is not None:
            found.setdefault(("l2-hit-rate", "", None), Readings(table.line)).add(value)
    add_counters(raw, found)


_NETWORK = (
    ("rx-error", "%", "rxerror rate"),
    ("rx-dropped", "%", "rxdropped rate"),
    ("tx-error", "%", "txerror rate"),
    ("tx-dropped", "%", "txdropped rate"),
    ("rx-efficiency", "%", "rx bandwidth efficiency"),
    ("tx-efficiency", "%", "tx bandwidth efficiency"),
)


def _network(raw: Raw, table: Table, lines: Rows, partial: Partial) -> None:
    found: Found = {}
    for row in lines:
        device = table.whole(row, "device_id")
        for name, unit, column in _NETWORK:
            value = table.number(row, column)
            if value is not None:
                found.setdefault((f"net-{name}", unit, device), Readings(table.line)).add(value)
    add_counters(raw, found)


def _interconnect(raw: Raw, table: Table, lines: Rows, partial: Partial) -> None:
    for row in lines:
        mode = table.text(row, "mode")
        mean = table.number(row, "average", "avg")
        if mode is None or mean is None or len(raw.tables.get("prof_counters", ())) >= _MOST:
            continue
        raw.add(
            "prof_counters",
            {
                "line": table.line,
                "device": table.whole(row, "device_id"),
                "name": " ".join(mode.split())[:80],
                "unit": "MB/s",
                "samples": 1,
                "low": table.number(row, "min"),
                "high": table.number(row, "max"),
                "mean": mean,
            },
        )


def _data_preprocess(raw: Raw, table: Table, lines: Rows, partial: Partial) -> None:
    sums: dict[str, list[float]] = {}
    for row in lines:
        node = table.text(row, "node")
        total = table.number(row, "total_time") or table.number(row, "task_time")
        if node is None or total is None or (node not in sums and len(sums) >= _MOST):
            continue
        entry = sums.setdefault(node, [table.line, 0, 0.0, float("inf"), 0.0])
        entry[1] += 1
        entry[2] += total
        entry[3] = min(entry[3], total)
        entry[4] = max(entry[4], total)
    for node, (line, count, total, low, high) in sums.items():
        raw.add(
            "prof_kernels",
            {
                "line": int(line),
                "type": node,
                "core": "AI_CPU",
                "name": node,
                "count": int(count),
                "total_us": total,
                "avg_us": total / count,
                "min_us": low,
                "max_us": high,
                "source": "data_preprocess",
            },
        )


def _op_types(raw: Raw, table: Table, lines: Rows, partial: Partial) -> None:
    for row in lines:
        total, count = table.number(row, "total time"), table.whole(row, "count")
        if not sound_sum(count, total):
            table.refuse()
            continue
        if len(raw.tables.get("prof_kernels", ())) >= _MOST:
            continue
        raw.add(
            "prof_kernels",
            {
                "line": table.line,
                "device": table.whole(row, "device_id"),
                "type": table.text(row, "op type"),
                "core": "COMMUNICATION",
                "count": count,
                "total_us": total,
                "avg_us": table.number(row, "avg time"),
                "max_us": table.number(row, "max time"),
                "source": "communication_statistic",
            },
        )


def _operator_details(raw: Raw, table: Table, lines: Rows, partial: Partial) -> None:
    sums: dict[str, list[float]] = {}
    for row in lines:
        name = row[0] if row else ""
        if len(row) < table.width:
            continue
        host = number(row[table.names["host self duration"]])
        if not sound_sum(1, host):
            table.refuse()
            continue
        if host is None or (name not in sums and len(sums) >= _MOST):
            continue
        entry = sums.setdefault(name, [table.line, 0, 0.0, 0.0])
        entry[1] += 1
        entry[2] += host
        entry[3] = max(entry[3], host)
    for name, (line, count, total, high) in sorted(sums.items(), key=lambda item: -item[1][2])[:MOST_OPERATORS]:
        raw.add(
            "prof_api",
            {
                "line": int(line),
                "level": "framework",
                "api": name[:200],
                "count": int(count),
                "total_us": total,
                "avg_us": total / count,
                "max_us": high,
            },
        )


_READERS: dict[str, Callable[[Raw, Table, Rows, Partial], None]] = {
    "prof-step-trace": _steps,
    "prof-op-statistic": _op_statistic,
    "prof-api-statistic": _api_statistic,
    "prof-operator-details": _operator_details,
    "prof-memory-record": _memory_record,
    "prof-npu-module-mem": _memory_record,
    "prof-operator-memory": _operator_memory,
    "prof-l2-cache": _l2_cache,
    "prof-network": _network,
    "prof-interconnect": _interconnect,
    "prof-data-preprocess": _data_preprocess,
    "prof-communication-statistic": _op_types,
    "prof-mindspore-cluster": mindinsight.cluster,
    "prof-mindspore-steps": mindinsight.iterations,
    "prof-msprof-step-trace": mindinsight.iterations,
    "prof-mindspore-kernels": mindinsight.kernels,
    "prof-mindspore-communication": mindinsight.communication,
    "prof-minddata": mindinsight.minddata,
}
