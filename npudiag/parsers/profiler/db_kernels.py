"""Kernels of a database, in the order in which the table of kernels of a text export lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npudiag.parsers.profiler.db_tables import Database
from npudiag.parsers.profiler.kernel_sums import COMMUNICATION, Kernels, told_by_ratio
from npudiag.parsers.profiler.raw import Raw

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_RENAMED = {"aic_total_time": "aicore_time", "aiv_total_time": "aiv_time", "total_time": "aicore_time"}
"""Metrics that the table of kernels calls otherwise."""


def kernels(raw: Raw, db: Database) -> None:
    """Read the kernels, and communication as one of them, with the metrics of their cores."""
    if not db.has("COMPUTE_TASK_INFO", "name", "globalTaskId", "opType", "taskType") or not db.has("STRING_IDS"):
        return
    texts = db.texts()
    tasks, metrics, values = _metrics(db, texts)
    sums = Kernels(metrics)
    none = (0.0,) * len(metrics)
    places = {task: place for place, task in enumerate(tasks)}
    reach: int | None = None
    found = False
    for start, end, device, task, kind, core, name, state, shapes, formats, made, blocks in db.each(_statement(db)):
        if start is None or end is None or end < start:
            continue
        gap = max(start - reach, 0) / 1e3 if reach is not None else 0.0
        reach = end
        place = places.get(task) if task is not None else None
        words = tuple(texts.get(word, "") for word in (kind, core, state, shapes, formats, made))
        if task is None:
            words = (words[0], COMMUNICATION, "", "", "", "")
        sums.add(
            words,
            texts.get(name, ""),
            int(start),
            ((end - start) / 1e3, gap, float(blocks or 0), *(none if place is None else values[place].tolist())),
            None,
            device if isinstance(device, int) else None,
        )
        found = True
    if found:
        sums.hand_over(raw, "db")


def _statement(db: Database) -> str:
    info = "COMPUTE_TASK_INFO"

    def column(*names: str) -> str:
        name = db.first(info, *names)
        return name if name == "NULL" else f"c.{name}"

    device = db.first("TASK", "deviceId")
    listed = (
        f"SELECT t.startNs, t.endNs, {device if device == 'NULL' else 't.' + device}, c.globalTaskId, c.opType,"
        f" c.taskType, c.name, {column('opState')}, {column('inputShapes')}, {column('inputFormats')},"
        f" {column('outputShapes')}, {column('blockDim', 'blockNum', 'block_dim')}"
        f" FROM {info} c JOIN TASK t ON t.globalTaskId = c.globalTaskId"
    )
    if db.has("COMMUNICATION_OP", "startNs", "endNs", "opName", "opType"):
        where = db.first("COMMUNICATION_OP", "deviceId")
        listed += (
            f" UNION ALL SELECT startNs, endNs, {where}, NULL, opType, NULL, opName, NULL, NULL, NULL, NULL, 0"
            " FROM COMMUNICATION_OP"
        )
    return f"SELECT * FROM ({listed}) ORDER BY 1"


def _metrics(db: Database, texts: dict[int, str]) -> tuple[list[int], list[str], npt.NDArray[np.float64]]:
    """Return the tasks that have metrics, the metrics' names, and a value for each of both."""
    import numpy as np

    nothing: tuple[list[int], list[str], npt.NDArray[np.float64]] = ([], [], np.empty((0, 0)))
    if not db.has("TASK_PMU_INFO", "globalTaskId", "name", "value"):
        return nothing
    listed = (number for (number,) in db.rows("SELECT DISTINCT name FROM TASK_PMU_INFO"))
    names = {number: texts[number] for number in listed if number in texts}
    all_of = set(names.values())
    kept = {number: name for number, name in names.items() if not told_by_ratio(name, all_of)}
    if not kept:
        return nothing
    columns = ", ".join(str(int(number)) for number in kept)
    data = db.numbers(f"SELECT globalTaskId, name, value FROM TASK_PMU_INFO WHERE name IN ({columns})", 3)
    tasks, row = np.unique(data[:, 0].astype(np.int64), return_inverse=True)
    order = sorted(kept)
    column = np.searchsorted(np.array(order), data[:, 1].astype(np.int64))
    values = np.zeros((len(tasks), len(order)))
    values[row, column] = data[:, 2]
    out = []
    for index, number in enumerate(order):
        name = kept[number]
        if name.endswith("_time"):
            values[:, index] /= 1e3  # nanoseconds, where tables hold microseconds
        out.append(_RENAMED.get(name, name))
    return tasks.tolist(), out, np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
