"""What profiler parsers hand to the analysis of profiles: rows per table, not yet known whose they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# Partials are written to disk by the types of their fields, so these must be there at run time.
import numpy as np
import numpy.typing as npt

from npudiag.parsers.base import Partial

KEY = "profile"
"""Name in `Partial.packed`."""


@dataclass(slots=True)
class CommOps:
    """All communication operations of one file, one array element each.

    Attributes:
        keys: 64-bit hash of step and operation: the same on all ranks of a communicator.
        group, op, step: Indexes into `groups`, `ops`, `steps`.
        p2p: Whether the operation is point to point.
        times: Columns elapse, transit, wait, sync (ms).
        start_ns: When it began, 0 where unknown.
        speed: Bandwidth of its fastest kind of link (GB/s), 0 where it moved nothing that was counted.
        moved: (group, op, rank) to data (MB), transfer time (ms), small transfers, all transfers, longest RDMA (ms).
        rank: Rank of each operation where one file holds several ranks, else None.
    """

    keys: npt.NDArray[np.uint64]
    group: npt.NDArray[np.int32]
    op: npt.NDArray[np.int16]
    step: npt.NDArray[np.int32]
    p2p: npt.NDArray[np.bool_]
    times: npt.NDArray[np.float32]
    start_ns: npt.NDArray[np.int64]
    speed: npt.NDArray[np.float32]
    groups: list[str]
    ops: list[str]
    steps: list[int | None]
    moved: dict[tuple[int, int, int], list[float]]
    rank: npt.NDArray[np.int32] | None = None


@dataclass(slots=True)
class Raw:
    """What one file of a capture tells.

    Attributes:
        tables: Table name to rows; `line` is set where the file has lines.
        comm: Communication operations.
        links: (source, target, transport, group) to data (MB) and time (ms); numbers within the group, or global ranks
            where group is empty.
        groups: Group id or hash to (kind, global ranks).
        facts: rank, device, host, level, versions, sizes, ...
        env: Environment variables that were recorded.
        products: Disjoint (start, end) in nanoseconds during which matrix products or attention ran.
    """

    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    comm: CommOps | None = None
    links: dict[tuple[int, int, str, str], list[float]] = field(default_factory=dict)
    groups: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    products: npt.NDArray[np.int64] | None = None

    def add(self, table: str, row: dict[str, Any]) -> None:
        """Add a row."""
        self.tables.setdefault(table, []).append(row)


def of(partial: Partial) -> Raw:
    """Return what `partial` holds, made on the first call."""
    raw = partial.packed.get(KEY)
    if not isinstance(raw, Raw):
        raw = partial.packed[KEY] = Raw()
    return raw


def add_link(
    links: dict[tuple[int, int, str, str], list[float]],
    key: tuple[int, int, str, str],
    size_mb: float,
    time_ms: float,
) -> None:
    """Add a transfer to the sums of its link."""
    total = links.setdefault(key, [0.0, 0.0])
    total[0] += size_mb
    total[1] += time_ms


def group_hash(group_id: str) -> str:
    """Return what communication files call a group: two polynomial hashes of its id, 32 bits each."""
    high = low = 0
    for character in group_id:
        high = (high * 29 + ord(character)) & 0xFFFFFFFF
        low = (low * 131 + ord(character)) & 0xFFFFFFFF
    return str(high << 32 | low)
