"""Bounds for metrics: what can be written, and how it is judged."""

from __future__ import annotations

import math

import pytest

from npudiag.budget import judge, parse

METRICS = {"step_time_ms": {"p50": 400.0}, "loss": {"last": -2.0, "p50": math.nan}, "odd": {"p50": "x", "n": True}}


@pytest.mark.parametrize(
    ("metric", "text", "before", "status"),
    [
        ("step_time_ms.p50", "<= 400", None, "pass"),
        ("step_time_ms.p50", "< 400", None, "fail"),
        ("step_time_ms.p50", ">= 4e2", None, "pass"),
        ("step_time_ms.p50", "> 400.5", None, "fail"),
        ("step_time_ms.p50", "<= +5% of baseline", 381.0, "pass"),
        ("step_time_ms.p50", "<= +5% of baseline", 380.0, "fail"),
        ("step_time_ms.p50", "<= + 5 % of baseline", 381.0, "pass"),
        ("step_time_ms.p50", ">= -10% of baseline", 440.0, "pass"),
        ("step_time_ms.p50", ">= -10% of baseline", 450.0, "fail"),
        ("step_time_ms.p50", ">= 90% of baseline", 444.0, "pass"),
        ("step_time_ms.p50", "<= baseline", 400.0, "pass"),
        ("step_time_ms.p50", "<= baseline", None, "missing"),
        ("loss.last", "<= +10% of baseline", -2.2, "pass"),
        ("loss.last", "<= +10% of baseline", -2.3, "fail"),
        ("loss.p50", "<= 3", None, "fail"),
        ("mfu.p50", ">= 38", None, "missing"),
        ("mfu.p50", ">= 38 or missing", None, "pass"),
        ("mfu.p50", ">= baseline or missing", None, "pass"),
        ("step_time_ms.p50", ">= baseline or missing", None, "missing"),
        ("odd.p50", "<= 1", None, "missing"),
        ("odd.n", "<= 1", None, "missing"),
    ],
)
def test_judging(metric: str, text: str, before: float | None, status: str) -> None:
    name, _, statistic = metric.rpartition(".")
    baseline = None if before is None else {name: {statistic: before}}
    assert judge(parse(metric, text), METRICS, baseline).status == status  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        ("loss", "<= 1"),
        ("loss.p51", "<= 1"),
        (".p50", "<= 1"),
        ("loss.p50", "1"),
        ("loss.p50", "== 1"),
        ("loss.p50", "<= 5%"),
        ("loss.p50", "<= 5% of base"),
        ("loss.p50", "<= nan"),
        ("loss.p50", "<= 1 or not"),
        ("loss.p50", ""),
    ],
)
def test_what_is_no_budget_is_refused(metric: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"statistics|allowed"):
        parse(metric, text)


def test_a_missing_metric_says_why() -> None:
    relative = parse("step_time_ms.p50", "<= baseline")
    assert judge(relative, METRICS, None).note == "there is no baseline to compare with"
    assert judge(relative, METRICS, {}).note == "the baseline has no such metric"
    assert judge(relative, {}, {}).note == "the input has no such metric"
