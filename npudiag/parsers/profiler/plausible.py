"""Which numbers can be true: damaged files hold negative, missing and astronomical ones."""

from __future__ import annotations

from typing import Any

MOST_US = 1e12
"""Eleven days: longer than any capture."""
MOST_NS = 10**15
"""The same in nanoseconds."""
_LEAST_US = -1.0
"""Differences of rounded times may fall a little below zero."""
_NEEDED = ("computing_us", "comm_not_overlapped_us", "free_us")
_PARTS = (
    *_NEEDED,
    "overlapped_us",
    "comm_us",
    "stage_us",
    "bubble_us",
    "comm_excl_receive_us",
    "e2e_us",
)


def sound_step(row: dict[str, Any], needed: tuple[str, ...] = _NEEDED) -> bool:
    """Whether a row of ``prof_steps`` can be true; what is rounded below zero in it is set to zero.

    Args:
        row: The row.
        needed: Columns without which the row says nothing.
    """
    for name in needed:
        if row.get(name) is None:
            return False
    for name in _PARTS:
        value = row.get(name)
        if value is None:
            continue
        if not _LEAST_US <= value < MOST_US:
            return False
        row[name] = max(value, 0.0)
    preparing = row.get("preparing_us")
    if preparing is not None and not 0 <= preparing < MOST_US:
        row["preparing_us"] = None
    return True


def sound_sum(count: int | None, total_us: float | None) -> bool:
    """Whether a number of calls or kernels and their time can be true."""
    return count is not None and total_us is not None and count >= 0 and 0 <= total_us < MOST_US
