"""Checks of variables and of what was left on: debugging, timeouts, allocator settings, addresses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from npudiag.advice import registry
from npudiag.detectors.launch_hits import Params, found_jobs, hit, judged, once
from npudiag.detectors.launch_sizes import sizes_of
from npudiag.engine.hits import Hit

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


def left_on(store: Store, params: Params) -> list[Hit]:
    """Options and variables that belong to debugging: `params["key"]`, set to one of `params["values"]`."""
    key, values = str(params["key"]), [str(value) for value in params.get("values", [])]
    hits = []
    seen: set[tuple[str, int]] = set()
    for job in found_jobs(store):
        for name in key.split("|"):
            setting = job.find(name) or job.env.get(name)
            if setting is None or not setting.known or (setting.file, setting.line) in seen:
                continue
            if params.get("scripts_only") and setting.source != "script":
                continue
            value = setting.value.strip("'\"").lower()
            if values and value not in values:
                continue
            if not values and value in ("false", "0", "none"):
                continue
            seen.add((setting.file, setting.line))
            hits.append(hit(store, [setting], option=name, value=setting.value or None))
    return hits


def master_addresses(store: Store, params: Params) -> list[Hit]:
    """Several nodes that are all told to find the master on themselves."""
    hits = []
    for job in found_jobs(store):
        nodes = job.launcher.get("--nnodes")
        master = job.launcher.get("--master_addr") or job.launcher.get("--master-addr") or job.env.get("MASTER_ADDR")
        if nodes is None or master is None or nodes.number is None or not master.known:
            continue
        if nodes.number > 1 and nodes.sure and master.value in _LOCAL:
            hits.append(hit(store, [master, nodes], address=master.value, nnodes=int(nodes.number)))
    return hits


def misspelt_variables(store: Store, params: Params) -> list[Hit]:
    """Variables that nothing reads and that are nearly the name of one that something does."""
    import difflib

    hits = []
    known = registry.variables()
    names = [
        name for name in known if re.match(r"ASCEND_|HCCL_|ACL_|TASK_|CPU_AFF|PYTORCH_NPU|MULTI_STREAM|TORCH_", name)
    ]
    for job in found_jobs(store):
        for name, setting in job.env.items():
            if name in known or not re.match(r"A?SCEND|HC?CL|ACL|TASK|CPU_AFF|PYTORCH_NPU|MULTI_STREAM|TORCH_", name):
                continue
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.9)
            if near and near[0] not in job.env and abs(len(near[0]) - len(name)) <= 2 and _typo(name, near[0]):
                hits.append(hit(store, [setting], renamed=True, variable=name, nearest=near[0], value=setting.value))
    return once(hits)


def _typo(given: str, known: str) -> bool:
    """Whether two names differ by letters only, not by a whole word that makes another name."""
    return len(given.split("_")) == len(known.split("_")) or given.replace("_", "") == known.replace("_", "")


_RANGES: dict[str, tuple[float, float]] = {
    "HCCL_CONNECT_TIMEOUT": (120, 7200), "HCCL_EXEC_TIMEOUT": (0, 2147483647), "HCCL_RDMA_SL": (0, 7),
    "HCCL_RDMA_TC": (0, 255), "HCCL_RDMA_TIMEOUT": (5, 24), "HCCL_RDMA_RETRY_CNT": (1, 7), "HCCL_BUFFSIZE": (1, 1e6),
    "HCCL_RDMA_QPS_PER_CONNECTION": (1, 32), "HCCL_IF_BASE_PORT": (1024, 65520), "TASK_QUEUE_ENABLE": (0, 2),
    "ASCEND_GLOBAL_LOG_LEVEL": (0, 4), "MULTI_STREAM_MEMORY_REUSE": (0, 3), "ASCEND_LAUNCH_BLOCKING": (0, 1),
}  # fmt: skip


def variable_ranges(store: Store, params: Params) -> list[Hit]:
    """Variables whose value lies outside of what is read."""
    hits = []
    for job in found_jobs(store):
        for name, (low, high) in _RANGES.items():
            setting = job.env.get(name)
            if setting is None or not setting.known or not setting.value:
                continue
            number = setting.number
            if number is None or not low <= number <= high or (name == "HCCL_RDMA_TC" and number % 4):
                allowed = f"{low:.0f} - {high:.0f}" + (", multiple of 4" if name == "HCCL_RDMA_TC" else "")
                hits.append(hit(store, [setting], variable=name, value=setting.value, allowed=allowed))
    return once(hits)


def timeout_order(store: Store, params: Params) -> list[Hit]:
    """Timeouts that fire before the ones they should outlast."""
    hits = []
    for job in found_jobs(store):
        for inner, outer, default in (
            ("HCCL_CONNECT_TIMEOUT", "HCCL_EXEC_TIMEOUT", 1836.0),
            ("HCCL_EXEC_TIMEOUT", "HCCL_EVENT_TIMEOUT", None),
        ):
            first, second = job.env.get(inner), job.env.get(outer)
            if first is None or first.number is None:
                continue
            limit = second.number if second is not None else default
            if limit is not None and limit > 0 and first.number >= limit:
                where = [first, *([second] if second else [])]
                one = hit(store, where, at=second, inner=inner, outer=outer, value=int(first.number), limit=int(limit))
                # Frameworks ship scripts that only raise the inner one, or both to the same.
                if second is None or first.number == limit:
                    one.severity = "info"
                hits.append(one)
    return once(hits)


def allocator_conflicts(store: Store, params: Params) -> list[Hit]:
    """Allocator settings that exclude each other."""
    hits = []
    for job in found_jobs(store):
        setting, other = job.env.get("PYTORCH_NPU_ALLOC_CONF"), job.env.get("PYTORCH_ALLOC_CONF")
        if setting is not None and other is not None:
            en, zh = (
                "PYTORCH_NPU_ALLOC_CONF and PYTORCH_ALLOC_CONF are both set",
                "同时设置了 PYTORCH_NPU_ALLOC_CONF 与 PYTORCH_ALLOC_CONF",
            )
            hits.append(hit(store, [setting, other], en=en, zh=zh))
        text = setting.value.replace(" ", "") if setting is not None and setting.known else ""
        if setting is not None and "expandable_segments:True" in text:
            for key in ("max_split_size_mb", "garbage_collection_threshold"):
                if key in text:
                    en, zh = f"expandable_segments:True excludes {key}", f"expandable_segments:True 与 {key} 互斥"
                    hits.append(hit(store, [setting], en=en, zh=zh, conf="expandable_segments:True"))
                    break
    return once(hits)


def connection_limits(store: Store, params: Params) -> list[Hit]:
    """CUDA_DEVICE_MAX_CONNECTIONS against what the kind of parallelism wants."""
    hits = []
    for job in judged(store):
        setting = job.env.get("CUDA_DEVICE_MAX_CONNECTIONS")
        sharded = job.find("--use-torch-fsdp2") or job.find("--use-custom-fsdp")
        if setting is None or not setting.known:
            continue
        if sharded and setting.value == "1":
            en, zh = f"it must not be 1 with {sharded.key}", f"使用 {sharded.key} 时不能为 1"
            hits.append(hit(store, [setting, sharded], en=en, zh=zh, to="2", value="1"))
        elif (
            not sharded
            and setting.value != "1"
            and (sizes := sizes_of(job))
            and sizes["tp"] > 1
            and job.find("--sequence-parallel")
        ):
            en, zh = "it must be 1 with tensor and sequence parallelism", "使用张量并行与序列并行时必须为 1"
            hits.append(hit(store, [setting], en=en, zh=zh, to="1", value=setting.value))
    return once(hits)
