"""When a gate fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from npudiag.result import SEVERITIES, Finding, Result

if TYPE_CHECKING:
    from pathlib import Path

    from npudiag.budget import Budget, Metrics


def grave(result: Result, level: str, codes: Sequence[str]) -> list[Finding]:
    """Return the findings as grave as `level` or with a code that begins with one of `codes`.

    Suppressed findings do not count.
    """
    least = len(SEVERITIES) if level == "never" else [str(name) for name in SEVERITIES].index(level)
    return [
        finding
        for finding in result.findings
        if finding.suppressed is None
        and (SEVERITIES.index(finding.severity) >= least or (bool(codes) and finding.code.startswith(tuple(codes))))
    ]


def settle(
    result: Result,
    *,
    level: str,
    codes: Sequence[str],
    budgets: Sequence[Budget],
    baseline: Path | None,
    allow_incomplete: bool,
) -> bool:
    """Set aside what the baseline file knows, then judge; see `judge`.

    Raises:
        UsageError: The baseline cannot be read.
        ConfigError: It is no baseline.
    """
    metrics: Metrics | None = None
    if baseline is not None:
        import datetime

        from npudiag.diagnosis.baseline import apply, load

        known = load(baseline)
        apply(result, known, baseline.name, datetime.date.today())
        metrics = known.metrics
    return judge(result, level=level, codes=codes, budgets=budgets, baseline=metrics, allow_incomplete=allow_incomplete)


def judge(
    result: Result,
    *,
    level: str,
    codes: Sequence[str],
    budgets: Sequence[Budget],
    baseline: Metrics | None,
    allow_incomplete: bool,
) -> bool:
    """Judge a job, and note the judgement in ``facts.gate``, where every report reads it.

    Args:
        result: The job; findings that a baseline knows are set aside already.
        level: Severity from which on a finding fails the gate, or ``never``.
        codes: Prefixes of codes that fail it whatever their severity.
        budgets: Bounds of metrics.
        baseline: Metrics of the baseline; None without one.
        allow_incomplete: Whether unread input and missing metrics are accepted.

    Returns:
        Whether the gate failed, that is whether the exit code is 1.
    """
    import msgspec

    from npudiag.account import incomplete
    from npudiag.budget import judge as judge_budget

    failing = grave(result, level, codes)
    metrics = result.facts.get("metrics")
    metrics = metrics if isinstance(metrics, dict) else {}
    judged = [judge_budget(budget, metrics, baseline) for budget in budgets]
    failed = bool(failing) or any(item.status == "fail" for item in judged)
    missing = any(item.status == "missing" for item in judged)
    unread = incomplete(result)
    if failed:
        status = "failed"
    elif result.verdict.status == "nothing-recognised":
        status = "nothing-recognised"
    elif (unread or missing) and not allow_incomplete:
        status = "incomplete"
    else:
        status = "passed"
    facts: dict[str, Any] = {
        "status": status,
        "fail_on": level,
        "fail_on_rules": list(codes),
        "failing": [finding.id for finding in failing],
        "budgets": [
            {name: value for name, value in msgspec.to_builtins(item).items() if value not in (None, "")}
            for item in judged
        ],
        "incomplete": unread or missing,
    }
    result.facts["gate"] = facts
    return failed


def missing_metrics(result: Result) -> bool:
    """Whether a budget could not be judged."""
    budgets = result.facts.get("gate", {}).get("budgets", [])
    return any(item["status"] == "missing" for item in budgets)
