"""Single transfers between chips: how many bytes each moved, and whether whole 512-byte blocks."""

from __future__ import annotations

from npudiag.parsers.profiler.raw import Raw

_BLOCK = 512
"""Bytes that a copy engine moves at once; a remainder costs as much as a block."""


class Transfers:
    """Sums of the transfers of one file by kind of link."""

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}

    def add(self, transport: str, size: int, time_us: float) -> None:
        """Add a transfer of `size` bytes."""
        total = self._sums.setdefault(transport, [0, 0.0, 0.0, 0, 0.0])
        total[0] += 1
        total[1] += size / 1e6
        total[2] += time_us
        if size > _BLOCK and size % _BLOCK:
            total[3] += 1
            total[4] += time_us

    def hand_over(self, raw: Raw) -> None:
        """Add rows of ``prof_transfers``."""
        for transport, (count, size, time, odd, odd_time) in self._sums.items():
            raw.add(
                "prof_transfers",
                {
                    "transport": transport,
                    "count": int(count),
                    "size_mb": size,
                    "total_us": time,
                    "unaligned": int(odd),
                    "unaligned_us": odd_time,
                },
            )
