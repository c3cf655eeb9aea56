"""Exceptions that the job got over: told as a note, not as what ended it."""

from __future__ import annotations

from collections.abc import Sequence

from npudiag.analyses.survival import went_on
from npudiag.engine.hits import Hit
from npudiag.engine.model import Rule
from npudiag.result import Finding
from npudiag.tables.store import Store

_ENDS = frozenset(
    ("launcher-child-failed", "worker-process-failed", "ray-actor-died", "process-aborted", "launcher-step-exited")
)
"""Rules that tell of a process that ended; one behind the exception and ahead of the next step means a new start."""
_GENERAL = ("generic", "envelope")


def apply(found: Sequence[tuple[Rule, Finding]], hits: Sequence[Hit], store: Store) -> None:
    """Lower findings about Python exceptions behind which the job went on, in place.

    Args:
        found: Rules and findings.
        hits: The hit of each, in the same order.
        store: The tables.
    """
    if store.empty("train_steps") and store.empty("serving"):
        return
    ends = [
        (record.file, record.line)
        for (rule, _), hit in zip(found, hits, strict=True)
        if rule.name in _ENDS
        for record in hit.records
    ]
    for (rule, finding), hit in zip(found, hits, strict=True):
        if rule.trust in _GENERAL and rule.name not in _ENDS and "exc" in hit.captures and _all(hit, ends, store):
            _lower(finding)


def _all(hit: Hit, ends: Sequence[tuple[str, int]], store: Store) -> bool:
    for record in hit.records:
        line = went_on(store, record)
        if line is None or any(file == record.file and record.line < end < line for file, end in ends):
            return False
    return bool(hit.records)


def _lower(finding: Finding) -> None:
    # A checkpoint that was not written is a loss even where the training goes on.
    finding.severity = "warning" if finding.category == "checkpoint" else "info"
    finding.status = "fail" if finding.severity == "warning" else "info"
    finding.impact.fatal = False
    finding.summary += " The log shows the same job at work behind it, so this did not end the job."
    zh = finding.i18n.get("zh")
    if zh is not None:
        zh["summary"] = f"{zh.get('summary', '')}日志显示此后作业仍在运行，因此它并未终止作业。"
