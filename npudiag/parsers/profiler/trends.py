"""A memory curve in a few numbers: peaks, ends, and whether its floor rises."""

from __future__ import annotations

import itertools
from array import array
from typing import Any

_EIGHTHS = 8
_MOST_POINTS = 2_000_000


class Trend:
    """The memory of one component; records may come in any order.

    Attributes:
        line: Line of the first record.
    """

    def __init__(self, line: int | None) -> None:
        self.line = line
        self._times = array("d")
        self._allocated = array("d")
        self._reserved = array("d")

    def add(self, time_us: float, allocated_mb: float | None, reserved_mb: float | None) -> None:
        """Add a record; beyond a bound records are left out."""
        if len(self._times) < _MOST_POINTS:
            self._times.append(time_us)
            self._allocated.append(float("nan") if allocated_mb is None else allocated_mb)
            self._reserved.append(float("nan") if reserved_mb is None else reserved_mb)

    def row(self) -> dict[str, Any]:
        """Return the columns of table ``prof_memory``."""
        import numpy as np

        times = np.frombuffer(self._times)
        order = np.argsort(times, kind="stable")
        allocated = np.frombuffer(self._allocated)[order]
        reserved = np.frombuffer(self._reserved)[order]
        idle = reserved - allocated
        idle = idle[~np.isnan(idle)]
        allocated = allocated[~np.isnan(allocated)]
        reserved = reserved[~np.isnan(reserved)]
        out: dict[str, Any] = {
            "line": self.line,
            "samples": len(times),
            "span_ms": float(times.max() - times.min()) / 1e3,
        }
        if len(reserved):
            out["peak_reserved_mb"] = float(reserved.max())
            out["reserved_rise_mb"] = float(reserved[-1] - reserved[0])
        if len(allocated):
            out["peak_allocated_mb"] = float(allocated.max())
            out["first_allocated_mb"] = float(allocated[0])
            out["last_allocated_mb"] = float(allocated[-1])
        if len(idle) >= _EIGHTHS * 4:
            # What the pool holds and nobody uses: at its least in each eighth, when most of it is in use.
            floors = [float(part.min()) for part in np.array_split(idle, _EIGHTHS)]
            out["idle_rise_mb"] = floors[-1] - floors[0]
            out["idle_rises"] = sum(later > earlier for earlier, later in itertools.pairwise(floors))
        curve = allocated if len(allocated) else reserved
        if len(curve) >= _EIGHTHS * 4:
            floors = [float(part.min()) for part in np.array_split(curve, _EIGHTHS)]
            out["floor_rise_mb"] = floors[-1] - floors[0]
            out["floor_rises"] = sum(later > earlier for earlier, later in itertools.pairwise(floors))
        return out
