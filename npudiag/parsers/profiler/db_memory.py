"""Memory, clock and network counters of a database."""

from __future__ import annotations

from typing import Any

from npudiag.parsers.profiler.db_tables import Database, real
from npudiag.parsers.profiler.raw import Raw
from npudiag.parsers.profiler.small_tables import Allocations
from npudiag.parsers.profiler.trace import weighted
from npudiag.parsers.profiler.trends import Trend

_MEGABYTE = 1 << 20


def _megabytes(value: Any) -> float | None:
    number = real(value)
    return None if number is None else number / _MEGABYTE


def memory(raw: Raw, db: Database) -> None:
    """Read what the framework, the process and the modules of the driver hold."""
    trends: dict[tuple[str, int | None], Trend] = {}

    def add(component: str, device: Any, when: Any, used: Any, taken: Any) -> None:
        if isinstance(when, (int, float)):
            key = (component, device if isinstance(device, int) else None)
            trends.setdefault(key, Trend(None)).add(when / 1e3, _megabytes(used), _megabytes(taken))

    texts = db.texts()
    if db.has("MEMORY_RECORD", "timestamp", "component", "totalReserved"):
        device, used = db.first("MEMORY_RECORD", "deviceId"), db.first("MEMORY_RECORD", "totalAllocated")
        for when, what, where, allocated, taken in db.each(
            f"SELECT timestamp, component, {device}, {used}, totalReserved FROM MEMORY_RECORD"
        ):
            add(texts.get(what, str(what)), where, when, allocated, taken)
    if db.has("NPU_MODULE_MEM", "timestampNs", "moduleId", "totalReserved"):
        device = db.first("NPU_MODULE_MEM", "deviceId")
        names = dict(db.rows("SELECT id, name FROM ENUM_MODULE")) if db.has("ENUM_MODULE", "id", "name") else {}
        for when, what, where, taken in db.each(
            f"SELECT timestampNs, moduleId, {device}, totalReserved FROM NPU_MODULE_MEM"
        ):
            add(names.get(what, str(what)), where, when, None, taken)
    if db.has("NPU_MEM", "timestampNs", "type", "hbm"):
        device = db.first("NPU_MEM", "deviceId")
        for when, what, where, taken in db.each(f"SELECT timestampNs, type, {device}, hbm FROM NPU_MEM"):
            if texts.get(what) == "app":
                add("APP", where, when, None, taken)
    for (what, where), trend in trends.items():
        raw.add("prof_memory", {"component": what, "device": where, **trend.row()})


def allocations(raw: Raw, db: Database) -> None:
    """Read what operators allocated and did not give back."""
    if not db.has("OP_MEMORY", "name", "size", "releaseTime"):
        return
    texts = db.texts()
    found = Allocations()
    for name, size, released in db.each("SELECT name, size, releaseTime FROM OP_MEMORY ORDER BY rowid"):
        taken = _megabytes(size)
        if taken is not None and taken > 0:
            found.add(texts.get(name, str(name)), taken, released is None, None)
    found.hand_over(raw)


def clock(raw: Raw, db: Database) -> None:
    """Read the clock of the AI Cores."""
    if db.has("AICORE_FREQ", "timestampNs", "freq"):
        found = [
            (float(when), float(freq))
            for when, freq in db.each("SELECT timestampNs, freq FROM AICORE_FREQ")
            if when is not None and freq
        ]
        if found:
            raw.add("prof_counters", {"name": "aicore-freq", "unit": "MHz", **weighted(found)})


def network(raw: Raw, db: Database) -> None:
    """Read how many RoCE packets were sent again while the capture lasted: the counter runs from the port's start."""
    table = "NETDEV_STATS"
    name = db.first(table, "roceNewPktRty")
    if name == "NULL":
        return
    device = db.first(table, "deviceId")
    for where, count, low, high in db.rows(
        f'SELECT {device}, COUNT("{name}"), MIN("{name}"), MAX("{name}") FROM {table} GROUP BY 1'
    ):
        if count:
            row = {"name": "roce-retransmitted", "unit": "packets", "samples": count, "low": 0.0}
            rise = (real(high) or 0.0) - (real(low) or 0.0)
            raw.add("prof_counters", {**row, "device": where, "high": rise, "mean": rise})
