"""Tells profiler files by their first bytes: the columns of a table, the keys of a JSON document, a database.

Names are not asked: deliverables are renamed, cut out and put into tickets. Loaded at every start, so it is small.
"""

from __future__ import annotations

import re

SQLITE_MAGIC = b"SQLite format 3\x00"
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_UNIT = re.compile(r"\((?:ns|us|ms|s|b|kb|mb|gb|%|mb/s|gb/s|mhz|byte)\)$")

_TABLES: tuple[tuple[str, frozenset[str]], ...] = tuple(
    (kind, frozenset(columns.split("|")))
    for kind, columns in (
        ("prof-step-trace", "computing|communication(not overlapped)|free"),
        ("prof-operator-details", "name|host self duration|device self duration"),
        ("prof-kernel-details", "name|type|start time|duration"),
        ("prof-op-summary", "op name|op type|task start time|task duration"),
        ("prof-op-summary", "op name|op type|task type|task duration"),
        ("prof-op-statistic", "op type|core type|count|total time"),
        ("prof-communication-statistic", "op type|count|total time|avg time|ratio"),
        ("prof-api-statistic", "level|api name|time|count"),
        ("prof-memory-record", "component|timestamp|total allocated|total reserved"),
        ("prof-operator-memory", "name|size|allocation time|allocation total allocated"),
        ("prof-npu-module-mem", "component|timestamp|total reserved"),
        ("prof-l2-cache", "stream id|task id|hit rate|victim rate"),
        ("prof-data-preprocess", "node|compute_time|memcpy_time|total_time"),
        ("prof-task-time", "kernel_name|kernel_type|task_time"),
        ("prof-network", "timestamp|bandwidth|rx bandwidth efficiency"),
        ("prof-interconnect", "mode|max|min|average"),
        ("prof-interconnect", "mode|max|min|avg"),
        ("prof-msprof-step-trace", "iteration id|fp start|bp end|iteration time"),
        ("prof-mindspore-cluster", "computation_time|communication_alone_time|stage_time"),
        ("prof-mindspore-steps", "step_num|start_point|end_point|total|fp_point|bp_point"),
        ("prof-mindspore-communication", "step_num|communication_cost|wait_cost"),
        ("prof-mindspore-kernels", "op_type|execution_time|execution_frequency"),
        ("prof-minddata", "op_id|op_type|num_workers|output_queue_usage_rate"),
        ("prof-other", "full_op_name|execution_time"),
        ("prof-other", "op_names|pipeline_ops|num_workers"),
        ("prof-other", "device_id|op name|model name|graph id"),
        ("prof-other", "device_id|model name|model id|fusion op"),
    )
)

_DOCUMENTS: tuple[tuple[str, re.Pattern[bytes]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("prof-communication", rb'"Communication Time Info"'),
        ("prof-communication-matrix", rb'"Transport Type"\s*:|"Transit Size\(MB\)"\s*:'),
        ("prof-communication", rb'^\s*\{\s*"step\d*"\s*:\s*\{\s*"(?:p2p|collective)"'),
        ("prof-info", rb'"common_config"\s*:|"experimental_config"\s*:|"start_info"\s*:\s*\{[^{}]*"(?:syscnt|freq)'),
        ("prof-metadata", rb'"parallel_group_info"\s*:|"distributed_args"\s*:|"ENV_VARIABLES"\s*:\s*\{'),
        ("prof-groups", rb'"comm_group_parallel_info"\s*:|^\s*\{\s*"(?:collective|p2p)"\s*:\s*\[\s*\[\s*\d'),
        ("prof-device-info", rb'"DeviceInfo"\s*:\s*\['),
        ("prof-mindspore-flops", rb'^\s*\{\s*"FLOPs"\s*:'),
    )
)
_TRACE = re.compile(rb'"ph"\s*:\s*"[MXCBEsfit]"')
_EVENT_KEYS = re.compile(rb'"(?:ts|pid)"\s*:')


def column_name(header: str) -> str:
    """Return a header in the form that names are compared in: lower case, without its unit."""
    name = " ".join(header.replace('"', "").split()).lower()
    return _UNIT.sub("", name)


def decoded(head: bytes) -> bytes:
    """Return the first bytes as UTF-8 without a mark, whatever encoding they announce."""
    if head[:2] in _BOMS[1:]:
        return head[: len(head) // 2 * 2].decode("utf-16", "replace").encode()
    return head[3:] if head.startswith(_BOMS[0]) else head


def kind_of(head: bytes, path: str = "") -> str | None:
    """Return the kind of profiler file these first bytes belong to, None where it is none."""
    if path.endswith((".db-shm", ".db-wal", ".db-journal")):
        return "prof-db-journal"
    if head.startswith(SQLITE_MAGIC):
        return "prof-db"
    if head[:3] == _BOMS[0] or head[:2] in _BOMS[1:]:
        head = decoded(head[: 64 << 10])
    start = head[:64].lstrip()
    if start[:1] in (b"[", b"{"):
        return _document(head, start)
    return _table(head)


def _document(head: bytes, start: bytes) -> str | None:
    inner = start[1:].lstrip()
    if inner and inner[:1] not in (b'"', b"{", b"}", b"]"):
        return None  # a log line: [ERROR] HCCL(...)
    if start[:1] == b"[":
        events = head[: 16 << 10]
        return "prof-trace" if _TRACE.search(events) and _EVENT_KEYS.search(events) else None
    begin = head[: 64 << 10]
    for kind, pattern in _DOCUMENTS:
        if pattern.search(begin):
            return kind
    return None


def _table(head: bytes) -> str | None:
    line = head[: 16 << 10].lstrip(b"\r\n").partition(b"\n")[0]
    if line.count(b",") < 2 or b"," not in line[:400]:
        return None
    names = frozenset(column_name(cell) for cell in line.decode("utf-8", "replace").split(","))
    for kind, wanted in _TABLES:
        if wanted <= names:
            return kind
    # What else msprof writes: counters of caches, buses, processors.
    return "prof-other" if line.startswith(b"Device_id,") else None
