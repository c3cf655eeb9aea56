"""What the machine and the job's processes have used so far, and what that is per second.

The machine's counters come from psutil. The job's processes are read from ``/proc`` here: psutil's walk to the
descendants of a process takes three times as long, and it is what sampling costs most.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_MB = 1e6
_MIB = 2**20
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_IDLE = ("idle", "iowait")
_COUNTED_TWICE = ("guest", "guest_nice")
"""Linux counts these in ``user`` and ``nice`` already."""


@dataclass(slots=True)
class Counters:
    """Counters of the machine at one moment.

    Attributes:
        at: The moment, in seconds of a clock that never goes back.
        cpu: Seconds by state, all CPUs together.
        bytes: Read from disks, written to disks, received, sent.
    """

    at: float
    cpu: dict[str, float]
    bytes: tuple[int, int, int, int]

    @classmethod
    def read(cls, at: float) -> Counters:
        """Read them now."""
        import psutil

        times = psutil.cpu_times()._asdict()
        disk = psutil.disk_io_counters()
        ports = [port for name, port in psutil.net_io_counters(pernic=True).items() if name != "lo"]
        return cls(
            at,
            {name: value for name, value in times.items() if name not in _COUNTED_TWICE},
            (
                disk.read_bytes if disk else 0,
                disk.write_bytes if disk else 0,
                sum(port.bytes_recv for port in ports),
                sum(port.bytes_sent for port in ports),
            ),
        )

    def since(self, before: Counters) -> dict[str, Any]:
        """Return columns of a reading: rates since an earlier moment."""
        row: dict[str, Any] = {}
        spent = {name: max(0.0, value - before.cpu.get(name, value)) for name, value in self.cpu.items()}
        total = sum(spent.values())
        if total > 0:
            row["cpu_pct"] = round(100 * (total - sum(spent.get(name, 0.0) for name in _IDLE)) / total, 1)
            row["iowait_pct"] = round(100 * spent.get("iowait", 0.0) / total, 1)
        seconds = self.at - before.at
        if seconds > 0:
            names = ("disk_read_mbps", "disk_write_mbps", "net_rx_mbps", "net_tx_mbps")
            for name, now, then in zip(names, self.bytes, before.bytes, strict=True):
                # A device that went away takes its counts with it.
                row[name] = round(max(0, now - then) / seconds / _MB, 3)
        return row


def memory() -> dict[str, Any]:
    """Return the memory columns of a reading."""
    import psutil

    now, swap = psutil.virtual_memory(), psutil.swap_memory()
    used = now.total - now.available
    return {
        "memory_total_mb": round(now.total / _MIB, 1),
        "memory_used_mb": round(used / _MIB, 1),
        "memory_pct": round(100 * used / now.total, 1),
        "swap_used_mb": round(swap.used / _MIB, 1),
    }


def descendants(root: int) -> Sequence[int]:
    """Return a process and all that descend from it."""
    children: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")  # noqa: PTH208
    except OSError:
        return ()
    for name in names:
        if name.isdecimal():
            fields = _stat(int(name))
            if fields:
                children.setdefault(int(fields[1]), []).append(int(name))
    found, waiting = [], [root] if _stat(root) else []
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, ())
    return found


def _stat(pid: int) -> list[str]:
    """Return the fields of a process behind its name: state, parent, ..."""
    return _text(f"/proc/{pid}/stat").rpartition(") ")[2].split()


def usage(pid: int) -> tuple[float, float] | None:
    """Return CPU seconds and resident bytes of a process, None where it is gone."""
    fields = _stat(pid)
    if len(fields) < 22 or fields[0] == "Z":
        return None
    return (int(fields[11]) + int(fields[12])) / _TICKS, int(fields[21]) * float(_PAGE)


def _text(path: str) -> str:
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        pieces = []
        while piece := os.read(handle, 1 << 16):
            pieces.append(piece)
        return b"".join(pieces).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(handle)
