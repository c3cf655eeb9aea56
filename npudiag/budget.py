"""Bounds that a metric of a job must keep, absolute or against a baseline.

``step_time_ms.p50 = "<= 410"``, ``"<= +5% of baseline"``, ``">= 95% of baseline"``, ``"<= baseline"``; with
``or missing`` at the end it holds where the job has no such metric.

Metrics stand in the result document under ``facts.metrics`` as ``{name: {statistic: number}}``, with the statistics
``n``, ``first``, ``last``, ``min``, ``max``, ``mean``, ``p50`` and ``p95``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Metrics = Mapping[str, Mapping[str, float]]
Outcome = Literal["pass", "fail", "missing"]

STATISTICS = ("n", "first", "last", "min", "max", "mean", "p50", "p95")

_BUDGET = re.compile(
    r"\s*(?P<op><=|>=|<|>)\s*"
    r"(?:(?P<sign>[+-])?\s*(?P<percent>\d+(?:\.\d+)?)\s*%\s*of\s+baseline"
    r"|(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<same>baseline))"
    r"(?P<optional>\s+or\s+missing)?\s*"
)
ALLOWED = '"<= 410", "<= +5% of baseline", ">= 95% of baseline", "<= baseline", each with "or missing" at will'


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """One bound.

    Attributes:
        metric: Name of the metric and of the statistic, ``step_time_ms.p50``.
        text: The bound as it was written.
        op: ``<=``, ``<``, ``>=`` or ``>``.
        limit: The bound itself, in the metric's unit; None where it depends on the baseline.
        change: By how much of its own size the baseline may be passed, 0.05 for 5 %.
        optional: Whether it holds where the metric is missing.
    """

    metric: str
    text: str
    op: str
    limit: float | None = None
    change: float = 0.0
    optional: bool = False

    @property
    def relative(self) -> bool:
        """Whether it takes a baseline to judge it."""
        return self.limit is None


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a budget.

    Attributes:
        metric: Name of the metric and of the statistic.
        budget: The bound as it was written.
        status: ``missing`` where it could not be judged.
        value: The job's value.
        limit: The bound as a number.
        baseline: The baseline's value.
        note: Why it could not be judged.
    """

    metric: str
    budget: str
    status: Outcome
    value: float | None = None
    limit: float | None = None
    baseline: float | None = None
    note: str = ""


def parse(metric: str, text: str) -> Budget:
    """Return the budget that `text` states.

    Raises:
        ValueError: It states none; the message says what is allowed.
    """
    name, dot, statistic = metric.rpartition(".")
    if not name or not dot or statistic not in STATISTICS:
        raise ValueError(f"{metric!r} must be a metric and a statistic, like step_time_ms.p50; statistics: "
                         + ", ".join(STATISTICS))  # fmt: skip
    match = _BUDGET.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no budget; allowed: {ALLOWED}")
    common: dict[str, Any] = {
        "metric": metric,
        "text": text.strip(),
        "op": match["op"],
        "optional": match["optional"] is not None,
    }
    if match["number"] is not None:
        return Budget(**common, limit=float(match["number"]))
    if match["percent"] is None:
        return Budget(**common)
    share = float(match["percent"]) / 100
    return Budget(**common, change={"+": share, "-": -share, None: share - 1}[match["sign"]])


def judge(budget: Budget, metrics: Metrics, baseline: Metrics | None) -> Judged:
    """Hold a job's metrics against `budget`; `baseline` holds those of the baseline, None where there is none."""
    value = lookup(metrics, budget.metric)
    before = lookup(baseline or {}, budget.metric) if budget.relative else None
    limit = budget.limit
    if budget.relative and before is not None:
        limit = before + budget.change * abs(before)
    if value is None or limit is None:
        if value is None:
            note = "the input has no such metric"
        elif baseline is None:
            note = "there is no baseline to compare with"
        else:
            note = "the baseline has no such metric"
        kept = budget.optional and value is None
        return Judged(
            metric=budget.metric,
            budget=budget.text,
            status="pass" if kept else "missing",
            value=value,
            limit=limit,
            baseline=before,
            note=note,
        )
    # A loss that is not a number keeps no bound.
    kept = {
        "<=": value <= limit or math.isclose(value, limit, rel_tol=1e-9),
        "<": value < limit,
        ">=": value >= limit or math.isclose(value, limit, rel_tol=1e-9),
        ">": value > limit,
    }[budget.op]
    return Judged(
        metric=budget.metric,
        budget=budget.text,
        status="pass" if kept else "fail",
        value=value,
        limit=limit,
        baseline=before,
    )


def lookup(metrics: Metrics, path: str) -> float | None:
    """Return the number at ``name.statistic``; None where there is none."""
    name, _, statistic = path.rpartition(".")
    values = metrics.get(name)
    value = values.get(statistic) if isinstance(values, Mapping) else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
