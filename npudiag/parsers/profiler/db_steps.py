"""Whose a database is, and the split of its steps: as the profiler made it, or from the tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from npudiag.parsers.profiler.db_tables import Database, real
from npudiag.parsers.profiler.documents import metadata_of
from npudiag.parsers.profiler.plausible import MOST_NS, sound_step
from npudiag.parsers.profiler.raw import Raw
from npudiag.parsers.profiler.small_tables import note_stage
from npudiag.parsers.profiler.text import step_number
from npudiag.parsers.profiler.trace import GAP_US

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def facts(raw: Raw, db: Database) -> None:
    """Read whose capture it is and on what it ran."""
    if db.has("RANK_DEVICE_MAP", "rankId", "deviceId"):
        found = db.rows("SELECT rankId, deviceId FROM RANK_DEVICE_MAP LIMIT 2")
        if len(found) == 1:
            rank, device = found[0]
            if isinstance(rank, int) and 0 <= rank < 1_000_000:
                raw.facts["rank"] = rank
            if isinstance(device, int) and 0 <= device < 1024:
                raw.facts["device"] = device
    if db.has("NPU_INFO", "name"):
        found = db.rows("SELECT name FROM NPU_INFO LIMIT 1")
        if found:
            raw.facts["chip"] = str(found[0][0])[:40]
    if db.has("HOST_INFO", "hostName"):
        found = db.rows("SELECT hostName FROM HOST_INFO LIMIT 1")
        if found:
            raw.facts["host"] = str(found[0][0])[:80]
    if db.has("META_DATA", "name", "value"):
        metadata_of(raw, dict(db.rows("SELECT name, value FROM META_DATA LIMIT 200")))
    if db.has("TASK"):
        raw.facts.setdefault("framework", "torch_npu" if "PYTORCH_API" in db.tables else "msprof")


def _union(starts: npt.NDArray[np.float64], ends: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the union of intervals as an array of disjoint (start, end)."""
    import numpy as np

    if not len(starts):
        return np.empty((0, 2))
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    fresh = np.concatenate(([True], starts[1:] > reach[:-1]))
    begins = np.flatnonzero(fresh)
    closes = np.concatenate((begins[1:] - 1, [len(starts) - 1]))
    return np.stack((starts[begins], reach[closes]), axis=1)


def _length(spans: npt.NDArray[np.float64]) -> float:
    return float((spans[:, 1] - spans[:, 0]).sum()) if len(spans) else 0.0


def _common(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float:
    """Return how long both unions hold: |A| + |B| - |A or B|."""
    import numpy as np

    both = np.concatenate((one, other))
    return _length(one) + _length(other) - _length(_union(both[:, 0], both[:, 1]))


_SOUND = f"{{0}}.startNs > 0 AND {{0}}.endNs - {{0}}.startNs BETWEEN 0 AND {MOST_NS}"
"""What the times of a task have to be like; :func:`db_kernels.kernels` tells how many are not."""


def breakdown(raw: Raw, db: Database) -> None:
    """Split the steps as the profiler's own text export does; ``analysis.db`` holds the same, made by the profiler."""
    import numpy as np

    if not db.has("TASK", "startNs", "endNs", "globalTaskId") or not db.has("COMPUTE_TASK_INFO", "globalTaskId"):
        return
    base = db.rows("SELECT MIN(startNs) FROM TASK WHERE startNs > 0")[0][0]
    if base is None:
        return
    base = int(base)
    compute = db.numbers(
        f"SELECT t.startNs - {base}, t.endNs - {base} FROM TASK t JOIN COMPUTE_TASK_INFO c"
        f" ON c.globalTaskId = t.globalTaskId WHERE {_SOUND.format('t')}",
        2,
    )
    comm = np.empty((0, 3))
    if db.has("COMMUNICATION_OP", "startNs", "endNs", "opName") and db.has("STRING_IDS"):
        comm = db.numbers(
            f"SELECT o.startNs - {base}, o.endNs - {base}, s.value LIKE 'hcom_receive%' FROM COMMUNICATION_OP o"
            f" JOIN STRING_IDS s ON s.id = o.opName WHERE {_SOUND.format('o')}",
            3,
        )
    if not len(compute):
        return
    _gaps(raw, np.concatenate((compute, comm[:, :2])))
    steps: list[tuple[int | None, float, float]] = []
    if db.has("STEP_TIME", "id", "startNs", "endNs"):
        found = db.rows(f"SELECT id, startNs - {base}, endNs - {base} FROM STEP_TIME ORDER BY startNs")
        steps = [(int(number), float(begin), float(end)) for number, begin, end in found if None not in (begin, end)]
    if not steps:
        steps = [(None, float(compute[:, 0].min()), float(compute[:, 1].max()))]
    split: list[dict[str, Any]] = []
    for place, (number, begin, _end) in enumerate(steps):
        # The device runs behind the host: a step lasts until the next one begins.
        limit = steps[place + 1][1] if place + 1 < len(steps) else float("inf")
        one = compute[(compute[:, 0] >= begin) & (compute[:, 0] < limit)]
        other = comm[(comm[:, 0] >= begin) & (comm[:, 0] < limit)]
        if not len(one):
            continue
        all_of = np.concatenate((one, other[:, :2]))
        computing, talking = _union(one[:, 0], one[:, 1]), _union(other[:, 0], other[:, 1])
        shared = _common(computing, talking) if len(talking) else 0.0
        span = float(all_of[:, 1].max() - all_of[:, 0].min())
        work, talk = _length(computing), _length(talking)
        received = other[other[:, 2] > 0]
        bubble = float((received[:, 1] - received[:, 0]).sum())
        split.append(
            {
                "step": number,
                "computing_us": work / 1e3,
                "comm_us": talk / 1e3,
                "overlapped_us": shared / 1e3,
                "comm_not_overlapped_us": (talk - shared) / 1e3,
                "free_us": max(span - work - talk + shared, 0.0) / 1e3,
                "stage_us": (span - bubble) / 1e3,
                "bubble_us": bubble / 1e3,
                "comm_excl_receive_us": max(talk - shared - bubble, 0.0) / 1e3,
                "e2e_us": span / 1e3,
                "preparing_us": (float(all_of[:, 0].min()) - begin) / 1e3 if number is not None else None,
                "source": "db-tasks",
            }
        )
    _add(raw, split)


def _gaps(raw: Raw, spans: npt.NDArray[np.float64]) -> None:
    """Note when the device has nothing to do for a millisecond or more, as the lane Free of a trace shows it."""
    union = _union(spans[:, 0], spans[:, 1])
    gaps = (union[1:, 0] - union[:-1, 1]) / 1e3
    gaps = gaps[gaps >= GAP_US]
    if len(gaps):
        row = {"kind": "gap", "name": "Free", "count": len(gaps), "total_us": float(gaps.sum())}
        raw.add("prof_events", {**row, "max_us": float(gaps.max())})


def _add(raw: Raw, rows: Iterable[dict[str, Any]]) -> None:
    """Add steps.

    Raises:
        ValueError: The times of some cannot be true; the others were added.
    """
    bad = 0
    for row in rows:
        if sound_step(row):
            raw.add("prof_steps", row)
        else:
            bad += 1
    if bad:
        raise ValueError(f"the times of {bad} steps cannot be true")


_STEP_COLUMNS = {
    "computing": "computing_us",
    "communication_not_overlapped": "comm_not_overlapped_us",
    "overlapped": "overlapped_us",
    "communication": "comm_us",
    "free": "free_us",
    "stage": "stage_us",
    "bubble": "bubble_us",
    "communication_not_overlapped_and_exclude_receive": "comm_excl_receive_us",
    "preparing": "preparing_us",
}


def analysed(raw: Raw, db: Database) -> None:
    """Read the step table of ``analysis.db`` or of a cluster database."""
    for table in ("STEPTRACETIME", "CLUSTERSTEPTRACETIME"):
        if not db.has(table, "computing", "free"):
            continue
        names = [name for name in _STEP_COLUMNS if db.has(table, name)]
        listed = ", ".join(names)
        kind, index, stage = (
            name if name == "NULL" else f'"{name}"'
            for name in (
                db.first(table, "type"),
                db.first(table, "index", "rank"),
                db.first(table, "pp_index", "pp index"),
            )
        )
        rows = []
        for step, what, whom, where, *values in db.rows(
            f"SELECT step, {kind}, {index}, {stage}, {listed} FROM {table}"
        ):
            if what == "stage":
                note_stage(raw, str(whom))
                continue
            row: dict[str, Any] = {_STEP_COLUMNS[name]: real(value) for name, value in zip(names, values, strict=True)}
            row |= {"step": step_number(str(step)), "source": "cluster" if what else "db"}
            if what == "rank":
                row["rank"] = step_number(str(whom))
                row["pp_stage"] = step_number(str(where))
            rows.append(row)
        _add(raw, rows)


def cluster(raw: Raw, db: Database) -> None:
    """Read the groups of a cluster database."""
    table = "COMMUNICATIONGROUPMAPPING"
    if not db.has(table, "group_name", "rank_set"):
        return
    name = db.first(table, "pg_name", "type")
    for group, ranks, kind in db.rows(f"SELECT group_name, rank_set, {name} FROM {table}")[:100_000]:
        numbers = tuple(
            int(text)
            for text in str(ranks).replace("(", " ").replace(")", " ").replace(",", " ").split()
            if text.isdigit()
        )
        raw.groups[str(group)] = (str(kind or "")[:40], numbers)
