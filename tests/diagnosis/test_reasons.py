"""Every root says why it is one, why the next best is not, and what would settle it, in both languages."""

from __future__ import annotations

from typing import Any

import pytest

from npudiag.diagnosis.moments import Span
from npudiag.diagnosis.progress import tell
from npudiag.diagnosis.questions import COLLECT, SETTLE
from npudiag.diagnosis.reasons import explain
from npudiag.result import CATEGORIES, Finding, Impact
from npudiag.tables.columns import Columns

NOON = 1_767_268_800.0


def finding(number: int, **changed: Any) -> Finding:
    values: dict[str, Any] = {
        "id": f"f{number}", "code": f"AAA10{number}", "name": f"rule-{number}", "category": "operator",
        "severity": "critical", "confidence": "high", "trust": "specific", "role": "root",
        "title": f"title {number}", "i18n": {"zh": {"title": f"\u6807\u9898 {number}"}},
    }  # fmt: skip
    return Finding(**{**values, **changed})


def explained(*findings: Finding, at: dict[int, float] | None = None) -> Finding:
    spans = {id(f): Span(NOON + at[n], NOON + at[n]) for n, f in enumerate(findings)} if at else None
    explain(findings, spans)
    return findings[0]


def test_two_lines_and_a_question_in_both_languages() -> None:
    root = explained(finding(1), finding(2, trust="generic"))
    assert len(root.reasons) == len(root.i18n["zh"]["reasons"]) == 2
    assert "AAA102" in root.reasons[1] and "catch-all" in root.reasons[1]
    assert (
        "AAA102" in root.i18n["zh"]["reasons"][1] and "\u901a\u7528\u9519\u8bef\u7801" in root.i18n["zh"]["reasons"][1]
    )
    assert root.settle == SETTLE["operator"].en
    assert root.i18n["zh"]["settle"] == SETTLE["operator"].zh
    assert root.runner_up is not None and root.runner_up.code == "AAA102"
    assert root.i18n["zh"]["runner_up"]["why_not"]


@pytest.mark.parametrize(
    ("changed", "at", "said"),
    [
        ({"severity": "error"}, None, "severity is error"),
        ({}, {0: 0.0, 1: 40.0}, "40 s later"),
        ({"confidence": "low"}, None, "confidence is low"),
        ({}, None, "independent fault"),
    ],
)
def test_what_speaks_against_the_runner_up(changed: dict[str, Any], at: dict[int, float] | None, said: str) -> None:
    root = explained(finding(1), finding(2, **changed), at=at)
    assert root.runner_up is not None
    assert said in root.runner_up.why_not


def test_what_follows_is_counted_and_the_head_start_is_told() -> None:
    effects = [finding(2, role="consequence", caused_by=["f1"]), finding(3, role="consequence", caused_by=["f2"])]
    root = explained(finding(1), *effects, at={0: 0.0, 1: 31.0, 2: 90.0})
    assert "31 s before" in root.reasons[0]
    assert "2 other findings follow" in root.reasons[0]
    assert "31 s later" in root.reasons[1]
    assert effects[0].reasons == []


def test_what_to_collect_is_named_where_the_rule_is_not_sure() -> None:
    assert explained(finding(1, category="device-fault", confidence="medium")).collect == [COLLECT["device-fault"].en]
    assert explained(finding(1, confidence="low", collect=["the dump"])).collect == ["the dump"]
    assert explained(finding(1)).collect == []


def test_every_category_has_a_question() -> None:
    assert set(SETTLE) == set(CATEGORIES)
    for text in (*SETTLE.values(), *COLLECT.values()):
        assert text.en.strip() and text.zh.strip() and not text.zh.isascii()


def test_mild_findings_are_not_argued_for() -> None:
    assert explained(finding(1, severity="info")).reasons == []


def steps(*rows: tuple[int, float]) -> Columns:
    table = Columns("train_steps")
    table.extend({"step": step, "time": round((NOON + at) * 1e6)} for step, at in rows)
    return table


def test_the_last_step_ahead_of_the_failure_is_told() -> None:
    root = finding(1, impact=Impact(fatal=True), summary="It broke.")
    tell([root], steps((43, -4.0), (44, -2.0)), {id(root): Span(NOON, NOON)})
    assert root.summary.endswith("is 44, 2.0 s before.")
    assert "44" in root.i18n["zh"]["summary"]


def test_no_step_is_told_where_training_went_on() -> None:
    root = finding(1, impact=Impact(fatal=True), summary="It broke.")
    tell([root], steps((43, -4.0), (44, 5.0)), {id(root): Span(NOON, NOON)})
    assert root.summary == "It broke."
