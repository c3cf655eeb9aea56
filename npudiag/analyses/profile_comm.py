"""Communication over all ranks of a job: who waited for whom, and which link is slow.

All ranks of a communicator leave an operation at the same time, so the one that spent least in it came last and the
others waited for it. That holds also where the profiler counts transfer and waiting wrongly (on many chips the data
moves on planes that are not counted, and transfer and waiting are both zero).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median
from typing import TYPE_CHECKING, Any

from npudiag.analyses.profile_chips import link_gbps
from npudiag.parsers.profiler.raw import CommOps

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from npudiag.analyses.profile import Capture, Profiles

Groups = dict[str, tuple[str, tuple[int, ...]]]
Row = dict[str, Any]


def add(job: str, captures: list[Capture], groups: Groups, out: Profiles) -> None:
    """Add tables ``prof_comm`` and ``prof_links`` of a job."""
    chosen: list[tuple[Capture, str, CommOps]] = []
    for capture in captures:
        best: tuple[Capture, str, CommOps] | None = None
        for partial, raw in capture.files:
            ops = raw.comm
            if ops is not None and (best is None or len(ops.keys) > len(best[2].keys)):
                best = (capture, partial.source.path, ops)
        if best is not None and best[2].rank is not None:
            # Files of several ranks lie in one folder.
            chosen.extend(
                (capture, partial.source.path, raw.comm)
                for partial, raw in capture.files
                if raw.comm is not None and raw.comm.rank is not None
            )
        elif best is not None:
            chosen.append(best)
    own = [item for item in chosen if not item[0].cluster]
    if own or chosen:
        out.add("prof_comm", _operations(job, own or chosen, groups))
    out.add("prof_links", _links(job, captures, groups))


def _operations(job: str, chosen: list[tuple[Capture, str, CommOps]], groups: Groups) -> list[Row]:
    import numpy as np

    names: dict[str, int] = {}
    kinds: dict[str, int] = {}
    ranks = np.concatenate([_ranks(capture, order, ops) for order, (capture, _, ops) in enumerate(chosen)])
    keys = np.concatenate([ops.keys for _, _, ops in chosen])
    times = np.concatenate([ops.times for _, _, ops in chosen])
    group = np.concatenate([_codes(ops.groups, names)[ops.group] for _, _, ops in chosen])
    kind = np.concatenate([_codes(ops.ops, kinds)[ops.op] for _, _, ops in chosen])
    p2p = np.concatenate([ops.p2p for _, _, ops in chosen])
    late, caused, matched = _waits(keys, times[:, 0])
    which = (ranks.astype(np.int64) << 32) | (group.astype(np.int64) << 12) | kind
    cells, cell = np.unique(which, return_inverse=True)
    size = len(cells)

    def summed(values: npt.NDArray[Any]) -> list[float]:
        return [float(value) for value in np.bincount(cell, weights=values, minlength=size)]

    counts = np.bincount(cell, minlength=size)
    elapse, transit, wait, sync = (summed(times[:, column]) for column in range(4))
    late_of, caused_of = summed(late), summed(caused)
    step = np.concatenate([ops.step for _, _, ops in chosen])
    in_rank = np.concatenate([np.full(len(ops.keys), max(len(ops.steps), 1)) for _, _, ops in chosen])

    def per_step(values: npt.NDArray[Any]) -> list[float]:
        return _per_step(values, cell, size, step, in_rank)

    step_elapse, step_late, step_caused = map(per_step, (times[:, 0], late, caused))
    matched_of, culprit_of = summed(matched), summed(caused > 0)
    apart = summed(p2p)
    order = np.lexsort((times[:, 0], cell))
    longest = order[np.searchsorted(cell[order], np.arange(size), side="right") - 1]
    moved, files, steps = _sides(chosen)
    contention = _contention(chosen, np.concatenate([ops.speed for _, _, ops in chosen]), cell)
    group_names, kind_names = list(names), list(kinds)
    present: dict[int, set[int]] = {}
    for value in cells:
        present.setdefault(int(value >> 12) & 0xFFFFF, set()).add(int(value >> 32))
    rows = []
    for index, value in enumerate(cells):
        rank, where, what = int(value >> 32), int(value >> 12) & 0xFFFFF, int(value) & 0xFFF
        data = moved.get((rank, group_names[where], kind_names[what]), [0.0] * 5)
        rows.append(
            {
                "file": files[rank],
                "job": job,
                "rank": rank if rank < _UNKNOWN else None,
                "group": group_names[where],
                "parallel": groups.get(group_names[where], ("", ()))[0] or None,
                "op": kind_names[what],
                "p2p": apart[index] > 0,
                "count": int(counts[index]),
                "steps": steps[rank],
                "ranks": len(present[where]),
                "elapse_ms": elapse[index],
                "transit_ms": transit[index],
                "wait_ms": wait[index],
                "sync_ms": sync[index],
                "idle_ms": max(elapse[index] - transit[index] - wait[index], 0.0),
                "longest_ms": float(times[longest[index], 0]),
                "longest_transit_ms": float(times[longest[index], 1]),
                "late_ms": late_of[index],
                "caused_ms": caused_of[index],
                "step_ms": step_elapse[index],
                "step_late_ms": step_late[index],
                "step_caused_ms": step_caused[index],
                "culprit_of": int(culprit_of[index]),
                "matched": int(matched_of[index]),
                "size_mb": data[0],
                "bandwidth_gbps": data[0] / data[1] if data[1] > 0 else None,
                "small_share": data[2] / data[3] if data[3] else None,
                "rdma_transit_ms": data[4] or None,
                **contention.get(index, {}),
            }
        )
    return rows


_MOST_STEPS = 256
"""Steps of one file above which the mean over steps is taken instead of the median."""


def _per_step(
    values: npt.NDArray[Any],
    cell: npt.NDArray[np.intp],
    size: int,
    step: npt.NDArray[np.int32],
    steps: npt.NDArray[np.int64],
) -> list[float]:
    """Return the median over steps of the sums of each cell: a first step that warms up is no usual one.

    Args:
        values: A value for each operation.
        cell: What each operation is summed up in.
        size: Number of cells.
        step: Index of the step of each operation, within its file.
        steps: How many steps the file of each operation has.
    """
    import numpy as np

    count = np.zeros(size, dtype=np.int64)
    count[cell] = steps
    most = int(count.max(initial=1))
    if most > _MOST_STEPS:
        whole = np.bincount(cell, weights=values, minlength=size) / np.maximum(count, 1)
        return [float(value) for value in whole]
    sums = np.bincount(cell * most + step, weights=values, minlength=size * most).reshape(size, most)
    sums[np.arange(most) >= count[:, None]] = np.nan
    return [float(value) for value in np.nanmedian(sums, axis=1)]


_UNKNOWN = 1 << 24
"""Captures without a rank get numbers from here on."""


def _ranks(capture: Capture, order: int, ops: CommOps) -> npt.NDArray[np.int32]:
    import numpy as np

    number = capture.rank if capture.rank is not None else _UNKNOWN + order
    if ops.rank is None:
        return np.full(len(ops.keys), number, dtype=np.int32)
    return np.where(ops.rank >= 0, ops.rank, number).astype(np.int32)


def _codes(own: list[str], known: dict[str, int]) -> npt.NDArray[np.int32]:
    import numpy as np

    return np.array([known.setdefault(name, len(known)) for name in own], dtype=np.int32)


def _waits(
    keys: npt.NDArray[np.uint64], elapse: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Return per operation: how long it waited for others, how long others waited for it, whether it has partners."""
    import numpy as np

    order = np.lexsort((elapse, keys))
    sorted_keys, sorted_elapse = keys[order], elapse[order]
    first = np.concatenate(([True], sorted_keys[1:] != sorted_keys[:-1]))
    starts = np.flatnonzero(first)
    lengths = np.diff(np.concatenate((starts, [len(keys)])))
    least = np.repeat(sorted_elapse[starts], lengths)
    partners = np.repeat(lengths > 1, lengths)
    waiting = np.where(partners, sorted_elapse - least, 0.0).astype(np.float32)
    late = np.zeros(len(keys), dtype=np.float32)
    late[order] = waiting
    caused = np.zeros(len(keys), dtype=np.float32)
    # Shared by those who wait, so that a large group does not weigh more than it costs each of them.
    caused[order[starts]] = np.add.reduceat(waiting, starts) / np.maximum(lengths - 1, 1)
    matched = np.zeros(len(keys), dtype=bool)
    matched[order] = partners
    return late, caused, matched


def _contention(
    chosen: list[tuple[Capture, str, CommOps]], speed: npt.NDArray[np.float32], cell: npt.NDArray[np.intp]
) -> dict[int, Row]:
    """Return, by cell, the bandwidth of operations under matrix products and of those that ran alone."""
    import numpy as np

    parts = [_covered(capture, ops) for capture, _, ops in chosen]
    if all(part is None for part in parts):
        return {}
    share = np.concatenate(
        [
            part if part is not None else np.full(len(ops.keys), np.nan)
            for part, (_, _, ops) in zip(parts, chosen, strict=True)
        ]
    )
    known = (speed > 0) & np.isfinite(share)
    out: dict[int, Row] = {}
    for index in map(int, np.unique(cell[known])):
        mine = known & (cell == index)
        under, apart = speed[mine & (share >= _UNDER)], speed[mine & (share <= _ALONE)]
        out[index] = {
            "covered": len(under),
            "covered_gbps": float(np.median(under)) if len(under) else None,
            "alone_gbps": float(np.median(apart)) if len(apart) else None,
        }
    return out


_UNDER, _ALONE = 0.5, 0.1
"""Share of an operation under matrix products from which on it counts as covered, and up to which as alone."""


def _covered(capture: Capture, ops: CommOps) -> npt.NDArray[np.float64] | None:
    """Return the share of each operation during which matrix products ran, None where no kernels are known."""
    import numpy as np

    spans = max((raw.products for _, raw in capture.files if raw.products is not None), key=len, default=None)
    if spans is None or not len(spans) or not ops.start_ns.any():
        return None
    edges = spans.reshape(-1)
    busy = np.concatenate(([0], np.cumsum(np.diff(edges) * (np.arange(len(edges) - 1) % 2 == 0))))
    length = np.maximum(ops.times[:, 0].astype(np.float64) * 1e6, 1.0)

    def until(when: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        # Counted from the first edge: as floats, times since 1970 would lose their nanoseconds.
        found: npt.NDArray[np.float64] = np.interp(
            (when - edges[0]).astype(np.float64), (edges - edges[0]).astype(np.float64), busy
        )
        return found

    share = (until(ops.start_ns + length.astype(np.int64)) - until(ops.start_ns)) / length
    return np.where(ops.start_ns > 0, share, np.nan)


def _sides(
    chosen: list[tuple[Capture, str, CommOps]],
) -> tuple[dict[tuple[int, str, str], list[float]], dict[int, str], dict[int, int]]:
    """Return data moved, file and number of steps by rank."""
    moved: dict[tuple[int, str, str], list[float]] = {}
    files: dict[int, str] = {}
    steps: dict[int, int] = {}
    for order, (capture, path, ops) in enumerate(chosen):
        for rank in map(int, set(_ranks(capture, order, ops).tolist())):
            files[rank], steps[rank] = path, max(len(ops.steps), 1)
        number = capture.rank if capture.rank is not None else _UNKNOWN + order
        for (where, what, rank), data in ops.moved.items():
            moved[rank if rank >= 0 else number, ops.groups[where], ops.ops[what]] = data
    return moved, files, steps


def _links(job: str, captures: list[Capture], groups: Groups) -> list[Row]:
    sums: dict[tuple[int, int, str, str | None], list[float]] = {}
    files: dict[tuple[int, int, str, str | None], str] = {}
    own = [capture for capture in captures if not capture.cluster and any(raw.links for _, raw in capture.files)]
    global_names = _numbered_globally(own)
    for capture in own or captures:
        for path, (src, dst, transport, group), (size, spent) in _links_of(capture):
            ranks = groups.get(group, ("", ()))[1]
            named: str | None = None
            if group and ranks:
                if max(src, dst) >= len(ranks):
                    continue
                src, dst = ranks[src], ranks[dst]
            elif group and group not in global_names:
                named = group
            key = (src, dst, transport, named)
            total = sums.setdefault(key, [0.0, 0.0])
            total[0] += size
            total[1] += spent
            files.setdefault(key, path)
    rows = [
        {
            "file": files[key],
            "job": job,
            "src": key[0],
            "dst": key[1],
            "transport": key[2],
            "group": key[3],
            "size_mb": size,
            "time_ms": spent,
            "bandwidth_gbps": size / spent if spent > 0 else None,
        }
        for key, (size, spent) in sums.items()
    ]
    _medians(rows)
    chip = next((capture.facts["chip"] for capture in captures if capture.facts.get("chip")), None)
    for row in rows:
        row["ideal_gbps"] = link_gbps(chip, str(row["transport"]))
    return rows


def _links_of(capture: Capture) -> Iterator[tuple[str, tuple[int, int, str, str], list[float]]]:
    """Yield file, link and sums: of one export, or of the files of several ranks that lie in one folder."""
    partial, raw = max(capture.files, key=lambda item: len(item[1].links))
    several = raw.comm is not None and raw.comm.rank is not None
    for other, found in capture.files if several else [(partial, raw)]:
        for link, sums in found.links.items():
            yield other.source.path, link, sums


def _numbered_globally(captures: Iterable[Capture]) -> set[str]:
    """Return the groups whose links start at the own rank in every capture: their numbers are global ones.

    One capture alone does not tell: rank 0 is number 0 of any group.
    """
    local: set[str] = set()
    seen: dict[str, int] = {}
    for capture in captures:
        sources: dict[str, set[int]] = {}
        for _, raw in capture.files:
            for src, _, _, group in raw.links:
                sources.setdefault(group, set()).add(src)
        for group, found in sources.items():
            seen[group] = seen.get(group, 0) + 1
            if found != {capture.rank}:
                local.add(group)
    return {group for group, count in seen.items() if count > 1 and group not in local}


def _medians(rows: list[Row]) -> None:
    by_transport: dict[str, list[float]] = {}
    for row in rows:
        if row["src"] != row["dst"] and row["bandwidth_gbps"]:
            by_transport.setdefault(row["transport"], []).append(row["bandwidth_gbps"])
    usual = {transport: (median(values), len(values)) for transport, values in by_transport.items()}
    for row in rows:
        if row["transport"] in usual:
            row["median_gbps"], row["links"] = usual[row["transport"]]
