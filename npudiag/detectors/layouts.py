"""Parallel layouts worth a try, where measurements say that the present one costs.

Nothing here is a fact about the run: what a neighbouring layout changes is arithmetic (`npudiag.advice.layout`), and
is told with the measurement that asks for a change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npudiag.advice import registry, stack
from npudiag.advice.layout import Layout, changed, neighbours, of_job
from npudiag.advice.settings import Job
from npudiag.advice.values import newly_refused
from npudiag.detectors.launch_hits import found_jobs, hit, judged
from npudiag.engine.hits import Hit
from npudiag.result import Evidence

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_OOM = re.compile(r"out of memory\.? Tried to allocate.*?; ([\d.]+) ([GM])iB total capacity", re.DOTALL)
_USABLE_64_MIB = 62423
"""What PyTorch can have of a card with 64 GB."""
_HALF_MIB = 32 << 10
_LOW, _HIGH, _ROOM = 0.55, 0.93, 0.92
"""Use of memory below which there is room, above which there is none, and that a suggestion may lead to."""
_MOST = 3
_NUMBERS = ("one", "two", "three")


@dataclass(slots=True)
class _Measured:
    """What a run says of its layout; shares are 0 to 1, None where not measured.

    Attributes:
        memory: Use of the fullest card; 1 where memory ran out.
        collective, pipeline: Parts of the step by Megatron's timers.
        evidence: Where that stands.
    """

    memory: float | None
    collective: float | None
    pipeline: float | None
    evidence: list[Evidence]


def _memory(store: Store) -> tuple[float | None, list[Evidence]]:
    """Return the use of the fullest card."""
    for record in store.log:
        if "out of memory" in record.text and _OOM.search(record.text):
            told = record.text.split("\n")[0][:400]
            return 1.0, [Evidence(kind="log", path=record.file, line=record.line, text=told)]
    cards = store.columns("npu_samples")
    capacity = 0.0
    if cards.size:
        import numpy as np

        totals = cards.numbers("hbm_total_mb")
        capacity = float(np.nanmax(totals)) if np.isfinite(totals).any() else 0.0
    best: tuple[float, dict[str, Any]] | None = None
    events = store.columns("train_events")
    if "memory" in events.texts("kind"):
        for row in events.rows():
            value = row["value"]
            if row["kind"] == "memory" and row["name"] == "max reserved" and value and (not best or value > best[0]):
                best = (float(value), row)
    if best is None:
        return None, []
    if capacity < best[0]:
        # Only a card of 64 GB holds more than 32; of less, the log does not say what it is part of.
        capacity = _USABLE_64_MIB if _HALF_MIB < best[0] < 66000 else 0.0
    if not capacity:
        return None, []
    path, line = best[1]["file"] or "", best[1]["line"]
    text = store.quotes.get(path, {}).get(line or 0)
    shown = (
        Evidence(kind="log", path=path, line=line, text=text)
        if text else Evidence(kind="metric", path=path, label="max reserved, MiB", value=round(best[0]))
    )  # fmt: skip
    return min(1.0, best[0] / capacity), [shown]


def _measure(store: Store) -> _Measured:
    memory, evidence = _memory(store)
    collective = pipeline = None
    if "timer" in store.columns("train_events").texts("kind"):
        from npudiag.analyses.series import timed
        from npudiag.analyses.speed import timers

        for one in timed(store):
            found = timers(store, one)
            if found is None:
                continue
            shares = found.share_pct
            # Above 100 % the timers do not belong to these steps.
            collective = shares["collective"] / 100 if 0 <= shares.get("collective", -1) <= 100 else collective
            pipeline = shares["pipeline"] / 100 if 0 <= shares.get("pipeline", -1) <= 100 else pipeline
            for group in ("collective", "pipeline"):
                text = store.quotes.get(one.file, {}).get(found.line.get(group, 0))
                if text:
                    evidence.append(Evidence(kind="log", path=one.file, line=found.line[group], text=text))
            break
    return _Measured(memory, collective, pipeline, evidence)


def _job(store: Store) -> tuple[Job, Layout] | None:
    """Return the training to look at: a script that is complete, else what the job printed of itself."""
    found = [(job, layout) for job in judged(store) if not job.tool and (layout := of_job(job)) is not None]
    found.sort(key=lambda item: item[0].source == "dump")
    return found[0] if found else None


def _taken(store: Store, job: Job, changes: Mapping[str, str]) -> bool:
    """Whether the release in use takes the options, and none of the others is in the way."""
    found = stack.of(store)
    releases: Sequence[str | None] = found.versions if found.narrowed and found.name == job.stack else [None]
    known = all(registry.accepts(job.stack or "", one, option) == "yes" for option in changes for one in releases)
    return known and not newly_refused(job, changes, companions=True)


def _reason(now: _Measured, here: Layout) -> tuple[str, str, str] | None:
    """Return what asks for another layout: a word for it, and the sentence in both languages."""
    if now.memory is not None and now.memory >= _HIGH:
        if now.memory >= 1:
            return "memory", "device memory ran out", "显存不足"
        return "memory", f"{now.memory:.0%} of device memory is reserved", f"显存占用已达 {now.memory:.0%}"
    if now.collective is not None and now.collective >= 0.2:
        return (
            "traffic", f"collectives take {now.collective:.0%} of the step", f"集合通信占步时的 {now.collective:.0%}",
        )  # fmt: skip
    waits = now.pipeline is not None and now.pipeline >= 0.2
    if here.bubble() >= 0.2 and (waits or now.pipeline is None):
        return (
            "bubble", f"{here.bubble():.0%} of the step is pipeline bubble by arithmetic",
            f"按公式估算流水线空泡占步时的 {here.bubble():.0%}",
        )  # fmt: skip
    return None


def _better(word: str, now: _Measured, here: Layout, there: Layout) -> float | None:
    """Return how good a neighbour is, smaller is better; None where it does not help or would not fit."""
    memory = max(there.static() / here.static(), there.activations() / here.activations())
    if word == "memory":
        both = (there.static() / here.static() + there.activations() / here.activations()) / 2
        if memory > 1.0 or both > 0.9:
            return None
        return both + there.bubble() - here.bubble() + 0.1 * _traffic(here, there)
    # Where memory was not measured, nothing may take more of it.
    if memory > 1.0 and (now.memory is None or now.memory * memory > _ROOM):
        return None
    if word == "traffic":
        gain = _traffic(here, there)
        return gain + there.bubble() - here.bubble() if gain <= 0.85 else None
    gain = there.bubble() / here.bubble()
    return gain + 0.1 * _traffic(here, there) if gain <= 0.8 else None


def _traffic(here: Layout, there: Layout) -> float:
    """Return the ratio of what is sent in a step, both kinds weighed by bytes."""

    def bytes_of(layout: Layout) -> float:
        # Two bytes per activation; four per gradient of about 12 * layers * h * h parameters.
        sent = layout.tensor_traffic() * layout.seq * layout.hidden * 2
        return sent + layout.gradient_traffic() * 12 * layout.layers * layout.hidden**2 * 4

    return bytes_of(there) / max(bytes_of(here), 1.0)


def _expected(here: Layout, there: Layout) -> tuple[str, str]:
    """Return what a neighbour would be expected to change, in both languages."""
    parts: list[tuple[str, str]] = []

    def ratio(before: float, after: float, en: str, zh: str) -> None:
        if before > 0 and abs(after / before - 1) >= 0.02:
            parts.append((f"{en} x{after / before:.2f}", f"{zh} x{after / before:.2f}"))
        elif before <= 0 < after:
            parts.append((f"{en} added", f"新增{zh}"))

    ratio(here.static(), there.static(), "weights and optimizer per card", "每卡权重与优化器显存")
    ratio(here.activations(), there.activations(), "activations per card", "每卡激活显存")
    if abs(here.bubble() - there.bubble()) >= 0.005:
        change = f"{here.bubble():.0%} -> {there.bubble():.0%}"
        parts.append((f"pipeline bubble {change}", f"流水线空泡 {change}"))
    ratio(here.tensor_traffic(), there.tensor_traffic(), "tensor-parallel traffic", "张量并行通信量")
    ratio(here.gradient_traffic(), there.gradient_traffic(), "gradient traffic", "梯度通信量")
    if here.ep != there.ep:
        change = f"{here.experts // here.ep} -> {there.experts // there.ep}"
        parts.append((f"experts per card {change}", f"每卡专家数 {change}"))
    return ", ".join(en for en, _ in parts), "，".join(zh for _, zh in parts)


def suggestions(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Name valid neighbouring layouts, and what each would be expected to change."""
    if not found_jobs(store):
        return []
    chosen = _job(store)
    if chosen is None:
        return []
    job, here = chosen
    if not here.valid():
        return []
    now = _measure(store)
    reason = _reason(now, here)
    if reason is None:
        return []
    word, en, zh = reason
    rated: dict[Layout, float] = {}
    for there in neighbours(here):
        if not _taken(store, job, {option: str(value) for option, value in changed(here, there).items()}):
            continue
        score = _better(word, now, here, there)
        if score is not None:
            rated[there] = score
    best = sorted(rated, key=lambda there: (rated[there], there.text()))[:_MOST]
    if not best:
        return []
    return [_hit(store, job, here, best, now, (en, zh))]


def _hit(store: Store, job: Job, here: Layout, best: Sequence[Layout], now: _Measured, reason: tuple[str, str]) -> Hit:
    captures: dict[str, Any] = {"present": here.text(), "reason_en": reason[0], "reason_zh": reason[1]}
    for name, there in zip(_NUMBERS, best, strict=False):
        en, zh = _expected(here, there)
        captures[name] = there.text()
        captures[f"{name}_expects_en"], captures[f"{name}_expects_zh"] = en, zh
        for letter, (option, value) in zip("abc", changed(here, there).items(), strict=False):
            captures[f"{name}_{letter}"] = option
            captures[f"{name}_{letter}_to"] = value
    where = [
        setting for option in (
            "--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--context-parallel-size",
        )
        if (setting := job.find(option)) is not None
    ]  # fmt: skip
    found = hit(store, where, **captures)
    found.evidence = [*now.evidence[:2], *found.evidence]
    found.at = None
    return found
