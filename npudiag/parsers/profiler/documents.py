"""Small JSON documents of a capture: how it was taken, which ranks form which group, what the device is."""

from __future__ import annotations

import json
from typing import Any

from npudiag.errors import SourceError
from npudiag.parsers.base import Context, Partial, Stream, feed
from npudiag.parsers.profiler.kinds import decoded
from npudiag.parsers.profiler.parser import damaged
from npudiag.parsers.profiler.raw import Raw, group_hash, of
from npudiag.parsers.profiler.text import number

_MOST_BYTES = 64 << 20
_MOST_ENV = 200


def read(partial: Partial, stream: Stream, head: bytes, context: Context) -> None:
    """Read a document of any of the kinds."""
    data = bytearray()
    try:
        for piece in feed(head, stream, 1 << 20):
            data += piece
            if len(data) > _MOST_BYTES:
                damaged(partial, "the document is larger than any of its kind", reason="limit")
                return
    except SourceError as exc:
        partial.broke_off(exc, 0)
    partial.bytes = len(data)
    partial.lines = data.count(b"\n") + 1
    try:
        document = json.loads(decoded(bytes(data)))
    except (ValueError, RecursionError) as exc:
        damaged(partial, f"the document is damaged: {str(exc)[:100]}", reason="truncated", line=partial.lines)
        return
    if not isinstance(document, dict):
        damaged(partial, "the document is no JSON object")
        return
    raw = of(partial)
    {
        "prof-info": _info,
        "prof-metadata": _metadata,
        "prof-groups": _groups,
        "prof-device-info": _device,
        "prof-mindspore-flops": _flops,
    }[partial.kind](raw, document)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _whole(value: Any) -> int | None:
    found = number(value)
    return int(found) if found is not None and 0 <= found < 1_000_000 else None


def _info(raw: Raw, document: dict[str, Any]) -> None:
    config = _dict(document.get("config"))
    common = _dict(config.get("common_config")) or _dict(document.get("common_config"))
    special = _dict(config.get("experimental_config")) or _dict(document.get("experimental_config"))
    level = special.get("_profiler_level") or special.get("profiler_level")
    schedule = _dict(common.get("schedule"))
    facts: dict[str, Any] = {
        "framework": "mindspore" if document.get("ms_version") or document.get("mindspore_version") else "torch_npu",
        "rank": _whole(document.get("rank_id")),
        "level": str(level)[:40] if level is not None else None,
        "aic_metrics": str(special.get("_aic_metrics") or special.get("aic_metrics") or "")[:60] or None,
        "profile_memory": _flag(common.get("profile_memory")),
        "with_stack": _flag(common.get("with_stack")),
        "torch_npu": str(document.get("torch_npu_version") or "")[:60] or None,
        "cann": str(document.get("cann_version") or "")[:60] or None,
        "active": _whole(schedule.get("active")),
        "metrics_l2": _flag(special.get("_l2_cache")),
    }
    raw.facts.update({name: value for name, value in facts.items() if value is not None})


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


_SIZES = {
    "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size",
    "dp": "data_parallel_size",
    "cp": "context_parallel_size",
    "ep": "expert_model_parallel_size",
    "world_size": "world_size",
}


def _metadata(raw: Raw, document: dict[str, Any]) -> None:
    sizes = _dict(document.get("distributed_args"))
    for name, key in _SIZES.items():
        value = _whole(sizes.get(key))
        if value is not None:
            raw.facts[name] = value
    rank = _whole(sizes.get("rank"))
    if rank is not None:
        raw.facts["rank"] = rank
    for group_id, group in list(_dict(document.get("parallel_group_info")).items())[:100_000]:
        group = _dict(group)
        ranks = tuple(n for item in group.get("global_ranks") or () if (n := _whole(item)) is not None)
        entry = (str(group.get("group_name") or "")[:40], ranks)
        # The group's id and its hash both occur in files of communication.
        raw.groups[group_hash(str(group_id))] = entry
        raw.groups[str(group_id)] = entry
    for name, value in list(_dict(document.get("ENV_VARIABLES")).items())[:_MOST_ENV]:
        if isinstance(value, (str, int, float)):
            raw.env[str(name)[:100]] = str(value)[:500]


def metadata_of(raw: Raw, rows: dict[Any, Any]) -> None:
    """Take what table META_DATA holds: parts of ``profiler_metadata.json``, each as JSON text."""
    document: dict[str, Any] = {}
    for name in ("distributed_args", "parallel_group_info", "ENV_VARIABLES"):
        try:
            document[name] = json.loads(str(rows.get(name) or "{}"))
        except (ValueError, RecursionError):
            continue
    _metadata(raw, document)


def _groups(raw: Raw, document: dict[str, Any]) -> None:
    infos = document.get("comm_group_parallel_info")
    for info in infos if isinstance(infos, list) else ():
        info = _dict(info)
        ranks = tuple(n for item in info.get("rank_set") or () if (n := _whole(item)) is not None)
        name = str(info.get("pg_name") or info.get("type") or "")[:40]
        for key in (info.get("group_name"), info.get("group_id")):
            if key:
                raw.groups[str(key)] = (name, ranks)
    stages = document.get("p2p")
    if isinstance(stages, list) and len(stages) > 1 and "stages" not in raw.facts:
        found = [tuple(n for item in stage if (n := _whole(item)) is not None) for stage in stages if stage]
        flat = [rank for stage in found for rank in stage]
        if len(flat) == len(set(flat)):
            raw.facts["p2p_sets"] = found


def _device(raw: Raw, document: dict[str, Any]) -> None:
    devices = document.get("DeviceInfo")
    first = _dict(devices[0]) if isinstance(devices, list) and devices else {}
    for name, key in (("cores", "ai_core_num"), ("vector_cores", "aiv_num"), ("rated_mhz", "aic_frequency")):
        value = _whole(first.get(key))
        if value:
            raw.facts[name] = value
    chip = document.get("platform_version")
    if chip is not None:
        raw.facts["platform"] = str(chip)[:20]
    rank = _whole(document.get("rank_id"))
    if rank is not None:
        raw.facts["rank"] = rank


def _flops(raw: Raw, document: dict[str, Any]) -> None:
    used = number(document.get("FLOPS_Utilization"))
    if used is not None:
        raw.add(
            "prof_counters",
            {
                "line": 1,
                "name": "flops-utilisation",
                "unit": "%",
                "samples": 1,
                "low": used,
                "high": used,
                "mean": used,
            },
        )
