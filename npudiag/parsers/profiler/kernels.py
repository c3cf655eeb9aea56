"""Kernel lists (``kernel_details.csv``, msprof's ``op_summary``): many rows, summed up by type and core."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from npudiag.parsers.base import Context, Partial, Stream
from npudiag.parsers.profiler.raw import Raw, of
from npudiag.parsers.profiler.text import Table, number, rows

SMALL_US = 10.0
_MOST = 5000
_MATRIX = re.compile(r"(?i)mat_?mul|gemm|^mm$|linear")
_RATIOS = ("mac", "vec", "mte2", "mte3", "cube")
_COLUMNS: dict[str, tuple[str, ...]] = {
    "mac": ("aic_mac_ratio", "mac_ratio", "aic_mac_fp16_ratio"),
    "vec": ("aiv_vec_ratio", "vec_ratio"),
    "mte2": ("aic_mte2_ratio", "mte2_ratio"),
    "mte2v": ("aiv_mte2_ratio",),
    "mte3": ("aiv_mte3_ratio", "mte3_ratio"),
    "cube": ("cube_utilization",),
}


@dataclass(slots=True)
class _Sum:
    """What is known of the kernels of one type on one kind of core."""

    line: int
    name: str
    device: int | None
    count: int = 0
    total: float = 0.0
    low: float = float("inf")
    high: float = 0.0
    wait: float = 0.0
    small: int = 0
    dynamic: int = 0
    stated: int = 0
    mac: float = 0.0
    vec: float = 0.0
    mte2: float = 0.0
    mte3: float = 0.0
    cube: float = 0.0
    unaligned: float = 0.0
    unaligned_high: float = 0.0
    unaligned_shape: str | None = None
    blocks: int | None = None


def read(partial: Partial, stream: Stream, head: bytes, context: Context) -> None:
    """Sum up the kernels. Durations are those of the list; waits are the gaps ahead of each kernel."""
    table = Table()
    sums: dict[tuple[str, str], _Sum] = {}
    lines = rows(partial, stream, head, table)
    first = next(lines, None)
    if first is None:
        return
    raw = of(partial)
    loads = _Loader(table)
    try:
        loads.add(sums, first)
        for row in lines:
            loads.add(sums, row)
    finally:
        partial.unparsed += loads.bad
        source = "op_summary" if partial.kind == "prof-op-summary" else "kernel_details"
        for (kind, core), total in sums.items():
            raw.add("prof_kernels", row_of(kind, core, total, source, loads.has))
        _frequency(raw, loads)


class _Loader:
    """Adds rows to sums; column indexes are looked up once."""

    def __init__(self, table: Table) -> None:
        def at(*names: str) -> int:
            index = table.index(*names)
            return -1 if index is None else index

        self._table = table
        self._name = at("name", "op name")
        self._type = at("type", "op type")
        self._core = at("accelerator core", "task type")
        self._state = at("op state")
        self._duration = at("duration", "task duration")
        self._wait = at("wait time", "task wait time")
        self._shapes = at("input shapes")
        self._blocks = at("block dim", "block num")
        self._device = at("device_id")
        self._cycles = at("aic_total_cycles", "total_cycles")
        self._core_time = at("aicore_time")
        self._ratios = [(name, index) for name, names in _COLUMNS.items() if (index := at(*names)) >= 0]
        self._width = max(self._name, self._type, self._duration)
        self.has = {name for name, _ in self._ratios}
        self.bad = 0
        self.clock: list[float] = []

    def add(self, sums: dict[tuple[str, str], _Sum], row: Sequence[str]) -> None:
        """Add one kernel."""
        if len(row) <= self._width:
            self.bad += 1
            return
        try:
            duration = float(row[self._duration])
        except ValueError:
            value = number(row[self._duration])
            if value is None:
                self.bad += 1
                return
            duration = value
        if not 0.0 <= duration < 1e15:
            self.bad += 1
            return
        core = row[self._core] if 0 <= self._core < len(row) else ""
        key = (row[self._type], core)
        total = sums.get(key)
        if total is None:
            if len(sums) >= _MOST:
                key = ("(others)", core)
            device = number(row[self._device]) if 0 <= self._device < len(row) else None
            total = sums.setdefault(
                key, _Sum(self._table.line, row[self._name], None if device is None else int(device))
            )
        total.count += 1
        total.total += duration
        if duration < total.low:
            total.low = duration
        if duration > total.high:
            total.high = duration
            total.name = row[self._name]
            if 0 <= self._blocks < len(row):
                blocks = number(row[self._blocks])
                total.blocks = None if not blocks else int(blocks)
        if duration < SMALL_US:
            total.small += 1
        if len(row) < self._table.width:
            return
        if self._wait >= 0:
            wait = _float(row[self._wait])
            if wait > 0:
                total.wait += wait
        if self._state >= 0:
            state = row[self._state]
            if state == "dynamic":
                total.dynamic += 1
                total.stated += 1
            elif state == "static":
                total.stated += 1
        self._details(total, row, core, duration)

    def _details(self, total: _Sum, row: Sequence[str], core: str, duration: float) -> None:
        if core in ("AI_CPU", "HCCL", "COMMUNICATION", "N/A"):
            return
        for name, index in self._ratios:
            value = _float(row[index]) * duration
            if name == "mac":
                total.mac += value
            elif name == "vec":
                total.vec += value
            elif name == "cube":
                total.cube += value
            elif name == "mte3":
                total.mte3 += value
            elif (name == "mte2v") == (core in ("AI_VECTOR_CORE", "MIX_AIV")) or "mte2v" not in self.has:
                total.mte2 += value
        if self._shapes >= 0 and core in ("AI_CORE", "MIX_AIC") and unaligned(row[self._type], row[self._shapes]):
            total.unaligned += duration
            if duration > total.unaligned_high:
                total.unaligned_high = duration
                total.unaligned_shape = row[self._shapes].strip('"')[:120]
        if self._cycles >= 0 and self._core_time >= 0 and core in ("AI_CORE", "MIX_AIC") and len(self.clock) < 20_000:
            time, blocks = _float(row[self._core_time]), _float(row[self._blocks]) if self._blocks >= 0 else 0.0
            cycles = _float(row[self._cycles])
            if time > 5.0 and blocks > 0 and cycles > 0:
                self.clock.append(cycles / time / blocks)


def _float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if value == value and abs(value) < 1e15 else 0.0


@lru_cache(maxsize=4096)
def unaligned(kind: str, shapes: str) -> bool:
    """Whether a matrix product has an inner dimension (the last of an input) that is no multiple of 16."""
    if not _MATRIX.search(kind):
        return False
    for shape in shapes.strip('"').split(";")[:2]:
        sizes = [size for size in shape.split(",") if size.strip().isdigit()]
        if len(sizes) >= 2 and int(sizes[-1]) > 1 and int(sizes[-1]) % 16:
            return True
    return False


def row_of(kind: str, core: str, total: _Sum, source: str, has: set[str]) -> dict[str, Any]:
    """Return the columns of table ``prof_kernels``."""
    scale = 1.0 / total.total if total.total else 0.0
    return {
        "line": total.line,
        "device": total.device,
        "type": kind or total.name,
        "core": core or None,
        "name": total.name[:200],
        "count": total.count,
        "total_us": total.total,
        "avg_us": total.total / total.count,
        "min_us": total.low,
        "max_us": total.high,
        "wait_us": total.wait,
        "small": total.small,
        "dynamic": total.dynamic,
        "stated": total.stated,
        "mac_ratio": total.mac * scale if "mac" in has else None,
        "vec_ratio": total.vec * scale if "vec" in has else None,
        "mte2_ratio": total.mte2 * scale if "mte2" in has or "mte2v" in has else None,
        "mte3_ratio": total.mte3 * scale if "mte3" in has else None,
        "cube_pct": total.cube * scale if "cube" in has else None,
        "unaligned_us": total.unaligned,
        "unaligned_shape": total.unaligned_shape,
        "blocks": total.blocks,
        "source": source,
    }


def _frequency(raw: Raw, loads: _Loader) -> None:
    """Add the clock of the cube cores as cycles and time of the kernels tell it, where they agree with each other."""
    clock = sorted(loads.clock)
    if len(clock) < 20:
        return
    low, middle, high = (clock[int(len(clock) * share)] for share in (0.05, 0.5, 0.95))
    if not 300 <= middle <= 4000 or high > middle * 1.6:
        return
    raw.add(
        "prof_counters",
        {
            "name": "aicore-clock",
            "unit": "MHz",
            "samples": len(clock),
            "low": low,
            "high": high,
            "mean": sum(clock) / len(clock),
        },
    )
