"""What MindSpore up to 2.x wrote for MindInsight, and the lengths of steps, which msprof writes too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from npudiag.parsers.base import Partial
from npudiag.parsers.profiler.communication import Operations
from npudiag.parsers.profiler.raw import Raw, add_link
from npudiag.parsers.profiler.readings import Found, Readings, add_counters
from npudiag.parsers.profiler.text import Table, number, step_number

Rows = Iterable[list[str]]
_MOST = 20_000
_NUMBER = re.compile(r"\d+")


def cluster(raw: Raw, table: Table, lines: Rows, partial: Partial) -> None:
    """Read MindInsight's ``ascend_cluster_analyse_*``: milliseconds, one row per step, no step column."""
    raw.facts["framework"] = "mindspore"
    match = re.search(r"_(\d+)_(\d+)_(\d+)\.csv$", partial.source.path)
    rank = int(match[3]) if match else None
    stages, ranks = (int(match[1]), int(match[2])) if match else (1, 0)
    for order, row in enumerate(lines, 1):
        computing, alone = table.number(row, "computation_time"), table.number(row, "communication_alone_time")
        if computing is None or alone is None or order > _MOST:
            continue
        receive = table.number(row, "receive_alone_time")
        raw.add(
            "prof_steps",
            {
                "line": table.line,
                "rank": rank,
                "step": order,
                "pp_stage": rank * stages // ranks if rank is not None and ranks >= stages > 1 else None,
                "computing_us": computing * 1e3,
                "comm_not_overlapped_us": alone * 1e3,
                "stage_us": _thousand(table.number(row, "stage_time")),
                "bubble_us": _thousand(receive),
                "comm_excl_receive_us": _thousand(table.number(row, "collective_communication_alone_time")),
                "e2e_us": (computing + alone) * 1e3,
                "source": "mindspore-legacy",
            },
        )


def _thousand(value: float | None) -> float | None:
    return None if value is None else value * 1e3


def iterations(raw: Raw, table: Table, lines: Rows, partial: Partial) -> None:
    """Read msprof's ``step_trace``, and MindInsight's ``step_trace_raw_*`` (ticks of 10 ns): lengths of steps only."""
    lengths: Found = {}
    for row in lines:
        device = table.whole(row, "device_id")
        if partial.kind == "prof-mindspore-steps":
            total = table.number(row, "total")
            # The last row is the mean of the others.
            if total is not None and step_number(table.text(row, "step_num")) is not None:
                _reading(lengths, "iteration-time", device, total / 100, table.line)
            continue
        for name, column in (("iteration-time", "iteration time"), ("data-augmentation", "data aug bound")):
            value = table.number(row, column)
            if value is not None:
                _reading(lengths, name, device, value, table.line)
    legacy = partial.kind == "prof-mindspore-steps"
    add_counters(raw, lengths, _rank_in_name(partial.source.path) if legacy else None)


_NUMBERED = re.compile(r"_(\d{1,6})(?:_detail_time|_type|_detail)?\.csv$")


def _rank_in_name(path: str) -> int | None:
    """Return the number that MindInsight's files carry: they lie side by side, and hold no rank."""
    match = _NUMBERED.search(path)
    return int(match[1]) if match else None


def _reading(found: Found, name: str, device: int | None, value_us: float, line: int) -> None:
    found.setdefault((name, "us", device), Readings(line)).add(value_us)


def kernels(raw: Raw, table: Table, lines: Rows, partial: Partial) -> None:
    """Read ``aicore_intermediate_*_type``: milliseconds."""
    for row in lines:
        total, count = table.number(row, "execution_time"), table.whole(row, "execution_frequency")
        kind = table.text(row, "op_type")
        if total is None or not count or kind is None or len(raw.tables.get("prof_kernels", ())) >= _MOST:
            continue
        raw.add(
            "prof_kernels",
            {
                "line": table.line,
                "rank": _rank_in_name(partial.source.path),
                "type": kind,
                "core": "AI_CORE",
                "count": count,
                "total_us": total * 1e3,
                "avg_us": total * 1e3 / count,
                "source": "op_statistic",
            },
        )


def minddata(raw: Raw, table: Table, lines: Rows, partial: Partial) -> None:
    """Read ``minddata_pipeline_raw_*``: how full the queue behind each operation of the input pipeline is."""
    found: Found = {}
    for row in lines:
        used, kind = table.number(row, "output_queue_usage_rate"), table.text(row, "op_type")
        if used is not None and kind is not None and table.text(row, "parent_id") is not None:
            found.setdefault((f"minddata-queue {kind[:60]}", "", None), Readings(table.line)).add(used)
    add_counters(raw, found, _rank_in_name(partial.source.path))


def communication(raw: Raw, table: Table, lines: Rows, partial: Partial) -> None:
    """Read ``hccl_raw_*``: per step, milliseconds of transfer and waiting by operation, and data by link (KB)."""
    raw.facts["framework"] = "mindspore"
    collect = Operations(raw)
    rank = _rank_in_name(partial.source.path)
    for row in lines:
        step = step_number(table.text(row, "step_num"))
        if step is None:
            continue  # the last row is the mean of the others
        try:
            links, listed = (json.loads(table.text(row, name) or "{}") for name in _LEGACY)
        except (ValueError, RecursionError):
            partial.unparsed += 1
            continue
        for name, times in listed.items() if isinstance(listed, dict) else ():
            if isinstance(times, list) and len(times) >= 3:
                moved, waited = number(times[1]) or 0.0, number(times[2]) or 0.0
                # Numbers of operations differ between ranks, so they are matched with nobody's.
                kind = name.rpartition("_")[2].partition("-")[0]
                key = f"{kind}#{name}#{partial.source.path}@"
                collect.put(key, step, "", [moved + waited, moved, waited, 0.0], (), 0, -1 if rank is None else rank)
        _legacy_links(raw, links)
    collect.finish()


_LEGACY = ("link_info", "communication_operator_cost")


def _legacy_links(raw: Raw, links: Any) -> None:
    for pair, transports in links.items() if isinstance(links, dict) else ():
        ends = _NUMBER.findall(pair)
        for transport, numbers in transports.items() if isinstance(transports, dict) else ():
            spent, size = (number(value) or 0.0 for value in (*numbers, None, None)[:2]) if numbers else (0.0, 0.0)
            if len(ends) == 2 and spent > 0 and size > 0:
                kind = "LOCAL" if ends[0] == ends[1] else "HCCS" if transport == "SDMA" else str(transport)[:20]
                add_link(raw.links, (int(ends[0]), int(ends[1]), kind, ""), size / 1e3, spent)
