"""Checks of serving configurations: vLLM command lines and MindIE's config.json.

Lists of serving options are not complete, so only what is known is judged, and names that are nearly so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from npudiag.advice import registry
from npudiag.advice.settings import Job, Setting
from npudiag.detectors.launch_hits import Params, found_jobs, hit
from npudiag.engine.hits import Hit

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_JSON_OPTIONS = (
    "--additional-config", "--compilation-config", "--speculative-config", "--kv-transfer-config",
    "--override-generation-config", "--hf-overrides",
)  # fmt: skip
_NOT_ON_NPU = ("fp8", "awq", "awq_marlin", "gptq", "gptq_marlin", "marlin", "bitsandbytes")
"""Kinds of quantisation that the platform plugin does not list as supported."""
_OTHER_PROGRAM = re.compile(r"bench|proxy|\bchat\b|complete|collect")
"""Programs beside the server, with options of their own."""
_NPU_MARKS = re.compile(r"ASCEND|HCCL|NPU")
_MINDIE_RANGES: dict[str, tuple[int, int, int]] = {
    "maxQueueDelayMicroseconds": (500, 1_000_000, 1), "cacheBlockSize": (16, 128, 16), "port": (1024, 65535, 1),
    "managementPort": (1024, 65535, 1), "metricsPort": (1024, 65535, 1),
}  # fmt: skip
"""Key to lowest value, highest value and what it must be a multiple of."""


def _served(store: Store) -> Iterator[Job]:
    for job in found_jobs(store):
        if job.stack in ("vllm", "vllm-ascend") and job.source == "script":
            yield job


def token_budgets(store: Store, params: Params) -> list[Hit]:
    """Token budgets of a vLLM engine step that cannot hold what they have to."""
    hits = []
    for job in found_jobs(store):
        if job.stack not in ("vllm", "vllm-ascend"):
            continue
        budget, sequences = job.find("--max-num-batched-tokens"), job.find("--max-num-seqs")
        length, chunked = job.find("--max-model-len"), job.find("--no-enable-chunked-prefill")
        if budget is None or not budget.number:
            continue
        if sequences is not None and sequences.number and budget.number < sequences.number:
            en = f"{budget.value} tokens per step, {sequences.value} sequences"
            zh = f"每步 {budget.value} 个 token，{sequences.value} 个序列"
            hits.append(hit(store, [budget, sequences], en=en, zh=zh, need=int(sequences.number)))
        elif chunked is not None and length is not None and length.number and budget.number < length.number:
            en = f"{budget.value} tokens per step, requests of {length.value}, no chunked prefill"
            zh = f"每步 {budget.value} 个 token，请求最长 {length.value}，且未启用 chunked prefill"
            hits.append(hit(store, [budget, length, chunked], en=en, zh=zh, need=int(length.number)))
    return hits


def memory_shares(store: Store, params: Params) -> list[Hit]:
    """A share of device memory that is none: the engine takes above 0 up to 1."""
    hits = []
    for job in _served(store):
        share = job.find("--gpu-memory-utilization")
        if share is not None and share.number is not None and not 0 < share.number <= 1:
            better = share.number / 100 if 1 < share.number <= 100 and share.number >= 10 else 0.9
            hits.append(hit(store, [share], option=share.key, value=share.value, better=f"{better:g}"))
    return hits


def card_counts(store: Store, params: Params) -> list[Hit]:
    """More ranks on one host than the cards that the process may see."""
    hits = []
    for job in _served(store):
        visible = job.env.get("ASCEND_RT_VISIBLE_DEVICES") or job.env.get("ASCEND_VISIBLE_DEVICES")
        if visible is None or not visible.known or not visible.sure:
            continue
        cards = len([part for part in visible.value.strip("'\"").split(",") if part.strip().isdigit()])
        if not cards or "-" in visible.value or job.find("--headless") or job.find("--distributed-executor-backend"):
            continue
        sizes = [job.number(option, 1) for option in ("--tensor-parallel-size", "--pipeline-parallel-size")]
        local = job.find("--data-parallel-size-local") or job.find("--data-parallel-size")
        sizes.append(int(local.number) if local is not None and local.number else None if local is not None else 1)
        if any(size is None for size in sizes):
            continue
        ranks = 1
        for size in sizes:
            ranks *= size or 1
        where = [s for name in ("--tensor-parallel-size", "--pipeline-parallel-size") if (s := job.find(name))]
        if ranks > cards and where:
            shown = [*where, *([local] if local is not None else []), visible]
            hits.append(hit(store, shown, ranks=ranks, cards=cards, variable=visible.key))
    return hits


def broken_json(store: Store, params: Params) -> list[Hit]:
    """Options that take JSON and are given something else."""
    hits = []
    for job in _served(store):
        for name in _JSON_OPTIONS:
            setting = job.find(name)
            if setting is None or not setting.known or not setting.value.lstrip().startswith(("{", "[")):
                continue
            try:
                json.loads(setting.value)
            except (ValueError, RecursionError) as exc:
                what = exc.msg if isinstance(exc, json.JSONDecodeError) else type(exc).__name__
                hits.append(hit(store, [setting], option=setting.key, value=setting.value[:120], what=what))
    return hits


def misspelt_options(store: Store, params: Params) -> list[Hit]:
    """Options of vLLM's server that are a slip of the pen away from real ones: it refuses what it does not know."""
    hits = []
    for job in _served(store):
        if _OTHER_PROGRAM.search(job.entry or ""):
            continue
        for setting in job.options.values():
            near = registry.engine_misspelt(setting.key) if setting.key.startswith("--") else None
            if near is not None:
                hits.append(hit(store, [setting], renamed=True, option=setting.key, nearest=near, value=setting.value))
    return hits


def graph_sizes(store: Store, params: Params) -> list[Hit]:
    """Captured batch sizes that end below the number of sequences: larger batches run without a graph."""
    hits = []
    for job in _served(store):
        setting, sequences = job.find("--compilation-config"), job.find("--max-num-seqs")
        if setting is None or sequences is None or not sequences.number or job.find("--enforce-eager"):
            continue
        try:
            found = json.loads(setting.value)
        except (ValueError, RecursionError):
            continue
        sizes = found.get("cudagraph_capture_sizes") if isinstance(found, dict) else None
        if not isinstance(sizes, list) or not sizes or not all(isinstance(size, int) for size in sizes):
            continue
        if max(sizes) < sequences.number:
            captures = {"largest": max(sizes), "sequences": int(sequences.number), "option": setting.key}
            hits.append(hit(store, [setting, sequences], **captures))
    return hits


def quantisations(store: Store, params: Params) -> list[Hit]:
    """Kinds of quantised weights that vLLM serves on other devices only."""
    hits = []
    for job in _served(store):
        setting = job.find("--quantization") or job.find("-q")
        on_npu = any(_NPU_MARKS.search(name) for name in (*job.env, *job.variables))
        if setting is not None and setting.known and on_npu and setting.value.strip("'\"") in _NOT_ON_NPU:
            hits.append(hit(store, [setting], option=setting.key, value=setting.value))
    return hits


# -- MindIE


def _mindie(store: Store) -> Iterator[tuple[Job, dict[str, Setting]]]:
    """Yield MindIE's configurations with their settings by the last part of the key."""
    for job in found_jobs(store):
        if job.stack == "MindIE" and job.source == "yaml":
            yield job, {key.rpartition(".")[2]: setting for key, setting in job.options.items()}


def mindie_budgets(store: Store, params: Params) -> list[Hit]:
    """Token limits of a MindIE configuration that contradict each other."""
    hits = []
    for _, by_name in _mindie(store):
        prefill, longest, whole = (by_name.get(k) for k in ("maxPrefillTokens", "maxInputTokenLen", "maxSeqLen"))
        if longest and whole and longest.number and whole.number and longest.number > whole.number:
            en = f"maxInputTokenLen {longest.value} is above maxSeqLen {whole.value}"
            zh = f"maxInputTokenLen {longest.value} 大于 maxSeqLen {whole.value}"
            hits.append(hit(store, [whole, longest], en=en, zh=zh, key="maxSeqLen", need=int(longest.number)))
        elif prefill and longest and prefill.number and longest.number and prefill.number < longest.number:
            en = f"maxPrefillTokens {prefill.value} is below maxInputTokenLen {longest.value}"
            zh = f"maxPrefillTokens {prefill.value} 小于 maxInputTokenLen {longest.value}"
            hits.append(hit(store, [prefill, longest], en=en, zh=zh, key="maxPrefillTokens", need=int(longest.number)))
    return hits


def mindie_ranges(store: Store, params: Params) -> list[Hit]:
    """Values that MindIE does not take."""
    hits = []
    for _, by_name in _mindie(store):
        for name, (low, high, unit) in _MINDIE_RANGES.items():
            setting = by_name.get(name)
            if setting is None or setting.number is None:
                continue
            if low <= setting.number <= high and not setting.number % unit:
                continue
            of = f"{low} - {high}" + (f", multiple of {unit}" if unit > 1 else "")
            of_zh = f"{low} - {high}" + (f"，须为 {unit} 的倍数" if unit > 1 else "")
            # Where only certain steps are allowed, the largest is the usual one.
            nearest = high if unit > 1 else min(max(int(setting.number), low), high)
            hits.append(
                hit(store, [setting], key=name, value=setting.value, better=nearest, allowed_en=of, allowed_zh=of_zh)
            )
    return hits


def mindie_contradictions(store: Store, params: Params) -> list[Hit]:
    """Settings of a MindIE configuration that cannot hold together."""
    hits = []
    checks: tuple[Callable[[dict[str, Setting]], tuple[list[Setting], dict[str, Any]] | None], ...] = (
        _mindie_cards, _mindie_ports, _mindie_batches, _mindie_swap,
    )  # fmt: skip
    for _, by_name in _mindie(store):
        for check in checks:
            found = check(by_name)
            if found is not None:
                hits.append(hit(store, found[0], **found[1]))
    return hits


def _mindie_cards(by_name: dict[str, Setting]) -> tuple[list[Setting], dict[str, Any]] | None:
    """Compare the cards of an instance with its number of ranks; with several nodes only a part stands here."""
    world, several = by_name.get("worldSize"), by_name.get("multiNodesInferEnabled")
    # One list per instance, numbered from 0; the reader joins a list of plain values.
    cards = by_name.get("0") or by_name.get("npuDeviceIds")
    if world is None or cards is None or not world.number or (several and several.value.lower() == "true"):
        return None
    number = len([part for part in cards.value.split(",") if part.strip().isdigit()])
    if not number or number == world.number:
        return None
    return [world, cards], {
        "en": f"worldSize is {world.value}, and {number} cards are listed in npuDeviceIds",
        "zh": f"worldSize 为 {world.value}，而 npuDeviceIds 列出 {number} 张卡",
        "key": "worldSize", "to": number,
    }  # fmt: skip


def _mindie_ports(by_name: dict[str, Setting]) -> tuple[list[Setting], dict[str, Any]] | None:
    seen: dict[str, Setting] = {}
    address, manager = by_name.get("ipAddress"), by_name.get("managementIpAddress")
    apart = address is not None and manager is not None and address.value != manager.value
    for name in ("port", "managementPort", "metricsPort"):
        setting = by_name.get(name)
        if setting is None or not setting.value:
            continue
        other = seen.setdefault(setting.value, setting)
        # The management endpoints may have an address of their own.
        if other is not setting and not (apart and other.key.endswith(".port")):
            en = f"{other.key.rpartition('.')[2]} and {name} are both {setting.value} on one address"
            zh = f"{other.key.rpartition('.')[2]} 与 {name} 在同一地址上均为 {setting.value}"
            return [setting, other], {"en": en, "zh": zh, "key": name, "to": int(setting.number or 0) + 1}
    return None


def _mindie_batches(by_name: dict[str, Setting]) -> tuple[list[Setting], dict[str, Any]] | None:
    prefill, whole = by_name.get("maxPrefillBatchSize"), by_name.get("maxBatchSize")
    if not prefill or not whole or not prefill.number or not whole.number or prefill.number <= whole.number:
        return None
    return [prefill, whole], {
        "en": f"maxPrefillBatchSize {prefill.value} is above maxBatchSize {whole.value}",
        "zh": f"maxPrefillBatchSize {prefill.value} 大于 maxBatchSize {whole.value}",
        "key": "maxPrefillBatchSize", "to": max(1, int(whole.number) // 2),
    }  # fmt: skip


def _mindie_swap(by_name: dict[str, Setting]) -> tuple[list[Setting], dict[str, Any]] | None:
    preempt, memory = by_name.get("maxPreemptCount"), by_name.get("cpuMemSize")
    if not preempt or not memory or not preempt.number or memory.number != 0:
        return None
    return [memory, preempt], {
        "en": f"maxPreemptCount is {preempt.value}, and cpuMemSize 0 leaves no room to swap to",
        "zh": f"maxPreemptCount 为 {preempt.value}，而 cpuMemSize 为 0，没有可换出的主机内存",
        "key": "cpuMemSize", "to": 5,
    }  # fmt: skip
