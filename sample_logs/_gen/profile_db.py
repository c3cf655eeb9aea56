"""The same captures as databases, the other form of export. For tests only: SQLite's bytes vary by version."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from _gen.profile_host import MODULES, allocations, calls, modules, operators, transfers
from _gen.profile_job import BEGIN_US, Kernel, Rank, Simulation, Talk, group_hash, host_name, memory_curve, split
from _gen.profiles import METRICS, blocks_of, communication, matrix, metadata, metrics_of, talk_name

_TABLES = """
CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE META_DATA (name TEXT, value TEXT);
CREATE TABLE RANK_DEVICE_MAP (rankId INTEGER, deviceId INTEGER);
CREATE TABLE NPU_INFO (id INTEGER, name TEXT);
CREATE TABLE HOST_INFO (hostUid TEXT, hostName TEXT);
CREATE TABLE STEP_TIME (id INTEGER, startNs INTEGER, endNs INTEGER);
CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER,
  globalPid INTEGER, taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER);
CREATE TABLE COMPUTE_TASK_INFO (name INTEGER, globalTaskId INTEGER PRIMARY KEY, {blocks} INTEGER, mixBlockDim INTEGER,
  taskType INTEGER, opType INTEGER, inputFormats INTEGER, inputDataTypes INTEGER, inputShapes INTEGER,
  outputFormats INTEGER, outputDataTypes INTEGER, outputShapes INTEGER, attrInfo INTEGER, opState INTEGER);
CREATE TABLE TASK_PMU_INFO (globalTaskId INTEGER, name INTEGER, value NUMERIC);
CREATE TABLE COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER,
  groupName INTEGER, opId INTEGER PRIMARY KEY, relay INTEGER, retry INTEGER, dataType INTEGER, algType INTEGER,
  count NUMERIC, opType INTEGER);
CREATE TABLE COMMUNICATION_TASK_INFO (name INTEGER, globalTaskId INTEGER, taskType INTEGER, planeId INTEGER,
  groupName INTEGER, notifyId INTEGER, rdmaType INTEGER, srcRank INTEGER, dstRank INTEGER, transportType INTEGER,
  size INTEGER, dataType INTEGER, linkType INTEGER, opId INTEGER);
CREATE TABLE CANN_API (startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER,
  connectionId INTEGER PRIMARY KEY, name INTEGER);
CREATE TABLE PYTORCH_API (startNs TEXT, endNs TEXT, globalTid INTEGER, connectionId INTEGER, name INTEGER,
  sequenceNumber INTEGER, fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER,
  type INTEGER);
CREATE TABLE MEMORY_RECORD (component INTEGER, timestamp INTEGER, totalAllocated INTEGER, totalReserved INTEGER,
  totalActive INTEGER, streamPtr INTEGER, deviceId INTEGER);
CREATE TABLE OP_MEMORY (name INTEGER, size INTEGER, allocationTime INTEGER, releaseTime INTEGER,
  activeReleaseTime INTEGER, duration INTEGER, activeDuration INTEGER, deviceId INTEGER);
CREATE TABLE NPU_MEM (type INTEGER, ddr NUMERIC, hbm NUMERIC, timestampNs INTEGER, deviceId INTEGER);
CREATE TABLE ENUM_MODULE (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE NPU_MODULE_MEM (moduleId INTEGER, timestampNs INTEGER, totalReserved NUMERIC, deviceId INTEGER);
CREATE TABLE AICORE_FREQ (deviceId INTEGER, timestampNs NUMERIC, freq INTEGER);
"""
_ANALYSIS = """
CREATE TABLE StepTraceTime (step TEXT, computing NUMERIC, communication_not_overlapped NUMERIC, overlapped NUMERIC,
  communication NUMERIC, free NUMERIC, stage NUMERIC, bubble NUMERIC,
  communication_not_overlapped_and_exclude_receive NUMERIC, preparing NUMERIC);
CREATE TABLE CommAnalyzerTime (hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, elapse_time NUMERIC,
  transit_time NUMERIC, wait_time NUMERIC, synchronization_time NUMERIC, idle_time NUMERIC, step TEXT, type TEXT);
CREATE TABLE CommAnalyzerBandwidth (hccl_op_name TEXT, group_name TEXT, transport_type TEXT, transit_size NUMERIC,
  transit_time NUMERIC, bandwidth NUMERIC, large_packet_ratio NUMERIC, package_size NUMERIC, count NUMERIC,
  total_duration NUMERIC, step TEXT, type TEXT);
CREATE TABLE CommAnalyzerMatrix (hccl_op_name TEXT, group_name TEXT, src_rank TEXT, dst_rank TEXT,
  transport_type TEXT, transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC, step TEXT, type TEXT,
  op_name TEXT);
"""
_LEVELS = {"acl": 20000, "node": 10000, "runtime": 5000}
_OPERATOR = 50001
_FIRST_TRANSFER = 1_000_000


class _Texts:
    """Numbers for texts."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.ids.setdefault(text, len(self.ids))


def _ns(us: float) -> int:
    return BEGIN_US * 1000 + round(us * 1000)


def _insert(db: sqlite3.Connection, table: str, rows: Iterable[Sequence[object]]) -> None:
    listed = list(rows)
    if listed:
        db.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(listed[0]))})", listed)


def write_db(
    simulation: Simulation,
    target: Path,
    *,
    analysis: bool = True,
    name: str = "ascend_pytorch_profiler_{rank}.db",
    blocks: str = "blockDim",
) -> None:
    """Write the captures of all ranks below `target`, each with its databases only.

    Args:
        simulation: The job.
        target: Folder to write to.
        analysis: Whether ``analysis.db`` lies beside.
        name: Name of the database, which varies by profiler.
        blocks: Name of the column that holds how many cores a kernel uses, which varies by version.
    """
    for rank in simulation.ranks:
        out = target / host_name(rank) / "ASCEND_PROFILER_OUTPUT"
        out.mkdir(parents=True)
        _tasks(simulation, rank, out / name.format(rank=rank.number), blocks)
        if analysis:
            _analysed(simulation, rank, out / "analysis.db")


def _analysed(simulation: Simulation, rank: Rank, path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(_ANALYSIS)
        for step in sorted({kernel.step for kernel in rank.kernels}):
            part = split(rank, step)
            values = (part.computing, part.uncovered, part.overlapped, part.comm, part.free, part.span - part.bubble)
            rest = (part.bubble, max(part.uncovered - part.bubble, 0.0), part.preparing)
            _insert(db, "StepTraceTime", [(str(step), *values, *rest)])
        for step, sides in communication(rank).items():
            for side, found in sides.items():
                for key, parts in found.items():
                    _operation(db, key, step, side, parts)
        for step, sides in matrix(simulation, rank).items():
            for side, found in sides.items():
                for key, links in found.items():
                    op, _, group = key.partition("@")
                    for pair, link in links.items():
                        src, dst = pair.split("-")
                        moved = (link["Transport Type"], link["Transit Size(MB)"], link["Transit Time(ms)"])
                        row = (op, group, src, dst, *moved, link["Bandwidth(GB/s)"], step, side, op)
                        _insert(db, "CommAnalyzerMatrix", [row])
        db.commit()


def _operation(db: sqlite3.Connection, key: str, step: str, side: str, parts: dict[str, dict[str, object]]) -> None:
    op, _, group = key.partition("@")
    times = parts["Communication Time Info"]
    listed = ("Start Timestamp(us)", *(f"{word} Time(ms)" for word in _WORDS))
    _insert(db, "CommAnalyzerTime", [(op, group, *(times[name] for name in listed), step, side)])
    for link, band in parts["Communication Bandwidth Info"].items():
        assert isinstance(band, dict)
        moved = (band["Transit Size(MB)"], band["Transit Time(ms)"], band["Bandwidth(GB/s)"])
        for size, (count, spent) in band["Size Distribution"].items():
            row = (op, group, link, *moved, band["Large Packet Ratio"], float(size), count, spent, step, side)
            _insert(db, "CommAnalyzerBandwidth", [row])


_WORDS = ("Elapse", "Transit", "Wait", "Synchronization", "Idle")


def _tasks(simulation: Simulation, rank: Rank, path: Path, blocks: str) -> None:
    text = _Texts()
    device = rank.number
    with closing(sqlite3.connect(path)) as db:
        db.executescript(_TABLES.format(blocks=blocks))
        about = metadata(simulation, rank)
        _insert(db, "META_DATA", [(name, json.dumps(value)) for name, value in about.items()])
        _insert(db, "RANK_DEVICE_MAP", [(device, device)])
        _insert(db, "NPU_INFO", [(device, "Ascend910B")])
        _insert(db, "HOST_INFO", [("1", "node-a")])
        for number, (begin, end) in enumerate(rank.steps):
            _insert(db, "STEP_TIME", [(simulation.plan.first_step + number, _ns(begin), _ns(end))])
            for part in range(8):
                mhz = 1100 if device == simulation.plan.clock_drop and part else 1650
                _insert(db, "AICORE_FREQ", [(device, _ns(begin + (end - begin) * part / 8), mhz)])
        for number, kernel in enumerate(rank.kernels):
            _kernel(db, number, kernel, device, text)
        _insert(db, "COMMUNICATION_OP", [_talk(number, talk, text) for number, talk in enumerate(rank.talks)])
        for number, (start, length, size, peer) in enumerate(transfers(rank)):
            task, group = _FIRST_TRANSFER + number, text(str(group_hash(rank.talks[number].group)))
            begin = _ns(start)
            _insert(db, "TASK", [(begin, begin + round(length * 1000), device, 0, task, 1, 0, 0, 3, 0, 0)])
            row = (text(talk_name(rank.talks[number])), task, text("Memcpy"), 0, group, 0, 65535, 0, peer, 0, size)
            _insert(db, "COMMUNICATION_TASK_INFO", [(*row, 65535, 1, number)])
        _host(db, rank, text)
        _memory(db, simulation, rank, text)
        _insert(db, "STRING_IDS", [(number, value) for value, number in text.ids.items()])
        db.commit()


def _kernel(db: sqlite3.Connection, number: int, kernel: Kernel, device: int, text: _Texts) -> None:
    _insert(db, "TASK", [(_ns(kernel.start), _ns(kernel.end), device, number, number, 1, 0, 0, 2, 0, 0)])
    listed = (text(kernel.inputs), text("ND"), 0, text(kernel.output), 0, text("dynamic"))
    formats = text(";".join("ND" for _ in kernel.inputs.split(";")))
    row = (text(kernel.name), number, blocks_of(kernel), 0, text(kernel.core), text(kernel.type), formats, 0, *listed)
    _insert(db, "COMPUTE_TASK_INFO", [row])
    values = metrics_of(kernel)
    if kernel.core != "AI_CPU":
        for name in METRICS:
            # The core time is written under another name and in nanoseconds.
            renamed, scale = ("aic_total_time", 1000) if name == "aicore_time" else (name, 1)
            _insert(db, "TASK_PMU_INFO", [(number, text(renamed), values.get(name, 0) * scale)])


def _talk(number: int, talk: Talk, text: _Texts) -> tuple[object, ...]:
    group, kind = text(str(group_hash(talk.group))), text(f"hcom_{talk.op}_")
    return (text(talk_name(talk)), _ns(talk.start), _ns(talk.end), 0, group, number, 0, 0, 0, 0, 1, kind)


def _host(db: sqlite3.Connection, rank: Rank, text: _Texts) -> None:
    for number, (name, start, length) in enumerate(calls(rank)):
        level = "acl" if name.startswith("acl") else "node" if name == "launch" else "runtime"
        row = (_ns(start), _ns(start) + round(length * 1000), _LEVELS[level], 1, number, text(name))
        _insert(db, "CANN_API", [row])
    for name, start, end, _ in operators(rank):
        times = (str(_ns(start)), str(_ns(end)))
        _insert(db, "PYTORCH_API", [(*times, 1, 0, text(name), None, None, None, None, None, _OPERATOR)])


def _memory(db: sqlite3.Connection, simulation: Simulation, rank: Rank, text: _Texts) -> None:
    device = rank.number
    for when, allocated, reserved in memory_curve(simulation, rank):
        pool = (text("PTA"), _ns(when), round(allocated * 2**20), round(reserved * 2**20), 0, 0, device)
        _insert(db, "MEMORY_RECORD", [pool])
        _insert(db, "NPU_MEM", [(text("app"), 0, round((reserved + 1600.0) * 2**20), _ns(when), device)])
    for name, size, taken, given in allocations(rank):
        back = None if given is None else _ns(given)
        length = None if given is None else round((given - taken) * 1000)
        _insert(db, "OP_MEMORY", [(text(name), size, _ns(taken), back, back, length, length, device)])
    places = {name: number for number, (name, _) in enumerate(MODULES)}
    _insert(db, "ENUM_MODULE", [(number, name) for name, number in places.items()])
    _insert(db, "NPU_MODULE_MEM", [(places[name], _ns(when), size, device) for name, when, size in modules(rank)])
