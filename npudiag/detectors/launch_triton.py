"""Checks of Triton's config.pbtxt: fields that the server refuses, and accelerators and parameters nobody reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from npudiag.advice import registry
from npudiag.advice.settings import Job
from npudiag.detectors.launch_hits import Params, found_jobs, hit
from npudiag.engine.hits import Hit

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_FIELDS: dict[str, frozenset[str]] = {
    "": frozenset(
        (
            "name", "platform", "backend", "runtime", "version_policy", "max_batch_size", "input", "output",
            "batch_input", "batch_output", "optimization", "dynamic_batching", "sequence_batching",
            "ensemble_scheduling", "instance_group", "default_model_filename", "cc_model_filenames", "metric_tags",
            "parameters", "model_warmup", "model_operations", "model_transaction_policy", "model_repository_agents",
            "response_cache", "model_metrics",
        )
    ),
    "dynamic_batching": frozenset(
        (
            "preferred_batch_size", "max_queue_delay_microseconds", "preserve_ordering", "priority_levels",
            "default_priority_level", "default_queue_policy", "priority_queue_policy",
        )
    ),
    "instance_group": frozenset(
        (
            "name", "kind", "count", "rate_limiter", "gpus", "secondary_devices", "profile", "passive", "host_policy",
        )
    ),
    "optimization": frozenset(
        (
            "graph", "priority", "cuda", "execution_accelerators", "input_pinned_memory", "output_pinned_memory",
            "gather_kernel_buffer_threshold", "eager_batching",
        )
    ),
    "execution_accelerators": frozenset(("gpu_execution_accelerator", "cpu_execution_accelerator")),
}  # fmt: skip
"""Message to the fields of its schema, as far as they are checked."""
_KINDS = ("KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL")
_ACCELERATORS = {
    "gpu_execution_accelerator": ("tensorrt", "cuda", "auto_mixed_precision", "gpu_io", "armnn"),
    "cpu_execution_accelerator": ("openvino", "xnnpack", "armnn"),
}
"""What the ONNX Runtime, TensorFlow and TensorFlow Lite backends know; no other backend reads the entries."""
_READERS = re.compile(r"onnxruntime|tensorflow|armnn")
_OWN_READERS = re.compile(r"python|custom|vllm|tensorrtllm", re.IGNORECASE)
_FOR_NPU = re.compile(r"(?i)(?<![a-z])(?:npu|ascend|cann|hccl)(?![a-z])")


def _configs(store: Store) -> Iterator[tuple[Job, str]]:
    """Yield Triton's configurations, each with its backend or platform in lower case."""
    for job in found_jobs(store):
        if job.stack == "Triton":
            named = [job.options[key].value for key in ("backend", "platform") if key in job.options]
            yield job, (named[0].lower() if named else "")


def _parent(key: str) -> tuple[str, str]:
    """Return the message that a key stands in, and the field: without numbers."""
    parts = [part for part in key.split(".") if not part.isdigit()]
    return (parts[-2] if len(parts) > 1 else ""), parts[-1]


def unknown_fields(store: Store, params: Params) -> list[Hit]:
    """Fields that the schema of a model configuration does not have."""
    import difflib

    hits = []
    for job, _ in _configs(store):
        seen: set[tuple[str, str]] = set()
        for key, setting in job.options.items():
            parts = [part for part in key.split(".") if not part.isdigit()]
            for depth, field in enumerate(parts):
                message = parts[depth - 1] if depth else ""
                known = _FIELDS.get(message)
                # Below a map or a message that is not checked, names are free.
                if known is None or (depth > 1 and parts[depth - 2] == "parameters"):
                    break
                if field in known or (message, field) in seen:
                    continue
                seen.add((message, field))
                near = difflib.get_close_matches(field, known, n=1, cutoff=0.8)
                hits.append(
                    hit(
                        store, [setting], renamed=True, field=field, message=message or "model",
                        nearest=near[0] if near else None, value=setting.value,
                    )
                )  # fmt: skip
    return hits


def wrong_values(store: Store, params: Params) -> list[Hit]:
    """Values with which Triton does not load the model."""
    hits = []
    for job, _ in _configs(store):
        largest = job.options.get("max_batch_size")
        for key, setting in job.options.items():
            message, field = _parent(key)
            if (message, field) == ("instance_group", "kind") and setting.value not in _KINDS:
                en = f"kind {setting.value} does not exist; instances run on CPU, GPU or where the model decides"
                zh = f"不存在的 kind：{setting.value}；实例只能位于 CPU、GPU 或由模型自行决定"
                hits.append(hit(store, [setting], en=en, zh=zh, key="kind", to="KIND_CPU"))
            elif (message, field) == ("dynamic_batching", "preferred_batch_size"):
                sizes = [int(part) for part in setting.value.split(",") if part.strip().isdigit()]
                limit = largest.number if largest is not None else 0
                if limit is None or not sizes or max(sizes) <= limit:
                    continue
                en = f"preferred_batch_size {max(sizes)} is above max_batch_size {limit:g}"
                zh = f"preferred_batch_size {max(sizes)} 大于 max_batch_size {limit:g}"
                where = [setting, *([largest] if largest is not None else [])]
                hits.append(hit(store, where, at=largest, en=en, zh=zh, key="max_batch_size", to=max(sizes)))
    return hits


def accelerators(store: Store, params: Params) -> list[Hit]:
    """Execution accelerators that the backend does not know, or does not look at."""
    hits = []
    for job, backend in _configs(store):
        for key, setting in job.options.items():
            parts = [part for part in key.split(".") if not part.isdigit()]
            if parts[-1] != "name" or len(parts) < 2 or parts[-2] not in _ACCELERATORS:
                continue
            known = _ACCELERATORS[parts[-2]]
            if setting.value in known and (not backend or _READERS.search(backend)):
                continue
            read = not backend or bool(_READERS.search(backend))
            hits.append(
                hit(
                    store, [setting], accelerator=setting.value, backend=backend or None,
                    en="the backend refuses to load the model" if read else "no such entry is read by this backend",
                    zh="后端会拒绝加载模型" if read else "该后端不读取此类配置",
                )
            )  # fmt: skip
    return hits


def unread_parameters(store: Store, params: Params) -> list[Hit]:
    """Parameters for NPUs that no backend reads."""
    hits = []
    for job, backend in _configs(store):
        for key, setting in job.options.items():
            if not re.fullmatch(r"parameters\.\d+\.key", key):
                continue
            made_up = registry.invented_name(setting.value)
            # A model's own code may read what it likes, except what articles made up.
            own = not backend or bool(_OWN_READERS.search(backend))
            if made_up is None and (own or not _FOR_NPU.search(setting.value.replace("_", " "))):
                continue
            hits.append(hit(store, [setting], parameter=setting.value, backend=backend or None))
    return hits
