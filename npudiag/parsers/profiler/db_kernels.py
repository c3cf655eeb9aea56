"""Kernels of a database, in the order in which the table of kernels of a text export lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npudiag.parsers.profiler.db_tables import Database
from npudiag.parsers.profiler.kernel_sums import COMMUNICATION, Distinct, Kernels, told_by_ratio
from npudiag.parsers.profiler.plausible import MOST_NS
from npudiag.parsers.profiler.raw import Raw

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_RENAMED = {"aic_total_time": "aicore_time", "aiv_total_time": "aiv_time", "total_time": "aicore_time"}
"""Metrics that the table of kernels calls otherwise."""
_ABSENT, _COMMUNICATION = -1, -2
"""Ids of texts that are none of the database's."""
_NUMBERS = 5
_COLUMNS = _NUMBERS + 7
"""Columns of :func:`_statement`: begin, end, device, task, cores used, and seven ids of texts."""


def kernels(raw: Raw, db: Database) -> None:
    """Read the kernels, and communication as one of them, with the metrics of their cores.

    Raises:
        ValueError: The times of some cannot be true; the others were taken.
    """
    import numpy as np

    if not db.has("COMPUTE_TASK_INFO", "name", "globalTaskId", "opType", "taskType") or not db.has("STRING_IDS"):
        return
    texts = db.texts() | {_ABSENT: "", _COMMUNICATION: COMMUNICATION}
    tasks, metrics, values = _metrics(db, texts)
    sums = Kernels(metrics)
    reach: int | None = None
    bad = 0
    for block in db.whole_numbers(_statement(db), _COLUMNS):
        sound = (block[:, 0] > 0) & (block[:, 1] >= block[:, 0])
        sound[sound] = block[sound, 1] - block[sound, 0] <= MOST_NS
        bad += int((~sound).sum())
        block = block[sound]
        if not len(block):
            continue
        begin, end, device, task, blocks = block[:, :_NUMBERS].T
        before = np.concatenate(([begin[0] if reach is None else reach], end[:-1]))
        reach = int(end[-1])
        place = np.searchsorted(tasks, task).clip(max=max(len(tasks) - 1, 0))
        measured = tasks[place] == task if len(tasks) else np.zeros(len(task), dtype=bool)
        numbers = np.zeros((len(block), 3 + len(metrics)))
        numbers[:, 0] = (end - begin) / 1e3
        numbers[:, 1] = (begin - before).clip(min=0) / 1e3
        numbers[:, 2] = blocks
        numbers[measured, 3:] = values[place[measured]]
        *words, name = (_words(column, texts) for column in block[:, _NUMBERS:].T)
        devices = np.unique(device, return_inverse=True)
        where = (["" if number < 0 else str(number) for number in devices[0].tolist()], devices[1])
        sums.add_columns(words, name, where, begin.tolist(), numbers, None)
    if reach is not None:
        sums.hand_over(raw, "db")
    if bad:
        raise ValueError(f"the times of {bad} kernels cannot be true")


def _words(column: npt.NDArray[np.int64], texts: dict[int, str]) -> Distinct:
    import numpy as np

    known, which = np.unique(column, return_inverse=True)
    return [texts.get(number, "") for number in known.tolist()], which


def _statement(db: Database) -> str:
    info = "COMPUTE_TASK_INFO"

    def column(*names: str) -> str:
        name = db.first(info, *names)
        return name if name == "NULL" else f"c.{name}"

    def whole(name: str, absent: int = _ABSENT) -> str:
        return f"COALESCE(CAST({name} AS INTEGER), {absent})"

    device = db.first("TASK", "deviceId")
    words = (
        "c.opType",
        "c.taskType",
        *map(column, ("opState", "inputShapes", "inputFormats", "outputShapes")),
        "c.name",
    )
    listed = (
        f"SELECT {whole('t.startNs')} AS b, {whole('t.endNs')},"
        f" {whole(device if device == 'NULL' else 't.' + device)}, c.globalTaskId,"
        f" {whole(column('blockDim', 'blockNum', 'block_dim'), 0)}, {', '.join(map(whole, words))}"
        f" FROM {info} c JOIN TASK t ON t.globalTaskId = c.globalTaskId"
    )
    if db.has("COMMUNICATION_OP", "startNs", "endNs", "opName", "opType"):
        where = db.first("COMMUNICATION_OP", "deviceId")
        listed += (
            f" UNION ALL SELECT {whole('startNs')}, {whole('endNs')}, {whole(where)}, {_ABSENT}, 0,"
            f" {whole('opType')}, {_COMMUNICATION}, {_ABSENT}, {_ABSENT}, {_ABSENT}, {_ABSENT}, {whole('opName')}"
            " FROM COMMUNICATION_OP"
        )
    return f"SELECT * FROM ({listed}) ORDER BY 1"


def _metrics(db: Database, texts: dict[int, str]) -> tuple[npt.NDArray[np.int64], list[str], npt.NDArray[np.float64]]:
    """Return the tasks that have metrics, in order, the metrics' names, and a value for each of both."""
    import numpy as np

    nothing: tuple[npt.NDArray[np.int64], list[str], npt.NDArray[np.float64]] = (
        np.empty(0, dtype=np.int64),
        [],
        np.empty((0, 0)),
    )
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
    return tasks, out, np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
