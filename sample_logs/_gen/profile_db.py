"""The same captures as databases, the other form of export. For tests only: SQLite's bytes vary by version."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from _gen.profiles import BEGIN_US, Rank, Simulation, host_name, memory_curve, split

_TABLES = """
CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE RANK_DEVICE_MAP (rankId INTEGER, deviceId INTEGER);
CREATE TABLE NPU_INFO (id INTEGER, name TEXT);
CREATE TABLE HOST_INFO (hostUid TEXT, hostName TEXT);
CREATE TABLE STEP_TIME (id INTEGER, startNs INTEGER, endNs INTEGER);
CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER,
  globalPid INTEGER, taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER);
CREATE TABLE COMPUTE_TASK_INFO (name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockDim INTEGER, mixBlockDim INTEGER,
  taskType INTEGER, opType INTEGER, inputFormats INTEGER, inputDataTypes INTEGER, inputShapes INTEGER,
  outputFormats INTEGER, outputDataTypes INTEGER, outputShapes INTEGER, attrInfo INTEGER);
CREATE TABLE COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER,
  groupName INTEGER, opId INTEGER PRIMARY KEY, relay INTEGER, retry INTEGER, dataType INTEGER, algType INTEGER,
  count NUMERIC, opType INTEGER);
CREATE TABLE MEMORY_RECORD (component INTEGER, timestamp INTEGER, totalAllocated INTEGER, totalReserved INTEGER,
  totalActive INTEGER, streamPtr INTEGER, deviceId INTEGER);
CREATE TABLE AICORE_FREQ (deviceId INTEGER, timestampNs NUMERIC, freq INTEGER);
"""
_ANALYSIS = """
CREATE TABLE StepTraceTime (step TEXT, computing NUMERIC, communication_not_overlapped NUMERIC, overlapped NUMERIC,
  communication NUMERIC, free NUMERIC, stage NUMERIC, bubble NUMERIC,
  communication_not_overlapped_and_exclude_receive NUMERIC, preparing NUMERIC);
"""


class _Texts:
    """Numbers for texts."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.ids.setdefault(text, len(self.ids))


def _ns(us: float) -> int:
    return BEGIN_US * 1000 + round(us * 1000)


def write_db(simulation: Simulation, target: Path, *, analysis: bool = True) -> None:
    """Write the captures of all ranks below `target`, each with its databases only."""
    for rank in simulation.ranks:
        out = target / host_name(rank) / "ASCEND_PROFILER_OUTPUT"
        out.mkdir(parents=True)
        _tasks(simulation, rank, out / f"ascend_pytorch_profiler_{rank.number}.db")
        if analysis:
            _steps(rank, out / "analysis.db")


def _steps(rank: Rank, path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(_ANALYSIS)
        for step in sorted({kernel.step for kernel in rank.kernels}):
            part = split(rank, step)
            values = (part.computing, part.uncovered, part.overlapped, part.comm, part.free, part.span - part.bubble)
            rest = (part.bubble, max(part.uncovered - part.bubble, 0.0), 140.25)
            db.execute(f"INSERT INTO StepTraceTime VALUES ({','.join('?' * 10)})", (str(step), *values, *rest))
        db.commit()


def _tasks(simulation: Simulation, rank: Rank, path: Path) -> None:
    text = _Texts()
    with closing(sqlite3.connect(path)) as db:
        db.executescript(_TABLES)
        db.execute("INSERT INTO RANK_DEVICE_MAP VALUES (?, ?)", (rank.number, rank.number))
        db.execute("INSERT INTO NPU_INFO VALUES (?, 'Ascend910B')", (rank.number,))
        db.execute("INSERT INTO HOST_INFO VALUES ('1', 'node-a')")
        for number, (begin, end) in enumerate(rank.steps):
            step = simulation.plan.first_step + number
            db.execute("INSERT INTO STEP_TIME VALUES (?, ?, ?)", (step, _ns(begin), _ns(end)))
            for part in range(8):
                mhz = 1100 if rank.number == simulation.plan.clock_drop and part else 1650
                when = _ns(begin + (end - begin) * part / 8)
                db.execute("INSERT INTO AICORE_FREQ VALUES (?, ?, ?)", (rank.number, when, mhz))
        for number, kernel in enumerate(rank.kernels):
            times = (_ns(kernel.start), _ns(kernel.end), rank.number, number, number)
            db.execute("INSERT INTO TASK VALUES (?, ?, ?, ?, ?, 1, 0, 0, 2, 0, 0)", times)
            db.execute(
                "INSERT INTO COMPUTE_TASK_INFO VALUES (?, ?, 20, 0, ?, ?, 0, 0, ?, 0, 0, 0, 0)",
                (text(kernel.name), number, text(kernel.core), text(kernel.type), text(kernel.inputs)),
            )
        for number, talk in enumerate(rank.talks):
            name = f"hcom_{talk.op}__{talk.group}_{talk.step}_{talk.index}"
            db.execute(
                "INSERT INTO COMMUNICATION_OP VALUES (?, ?, ?, 0, ?, ?, 0, 0, 0, 0, 1, ?)",
                (text(name), _ns(talk.start), _ns(talk.end), text(talk.group), number, text(talk.op)),
            )
        for when, allocated, reserved in memory_curve(simulation, rank):
            row = (text("PTA"), _ns(when), round(allocated * 2**20), round(reserved * 2**20), 0, 0, rank.number)
            db.execute("INSERT INTO MEMORY_RECORD VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        db.executemany("INSERT INTO STRING_IDS VALUES (?, ?)", [(number, value) for value, number in text.ids.items()])
        db.commit()
