"""Comparing what a sample gave with what a rule's test expects; the pipeline is played by a stand-in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import pytest

from npudiag.engine.load import RulePack
from npudiag.engine.model import Rule, RuleTest, Text
from npudiag.engine.testing import Mismatch, TestOutcome, run_rule_tests
from npudiag.errors import UsageError
from npudiag.result import (
    Confidence,
    Evidence,
    Finding,
    Passed,
    Result,
    RuleFailure,
    Scope,
    Skipped,
    Tool,
    Trust,
    Verdict,
)

TEXT = Text(en="x", zh="等")
Fake = Callable[..., Result]


def rule(code: str, name: str, *tests: RuleTest, trust: Trust = "specific") -> Rule:
    confidence: Confidence = "high"
    return Rule(
        code=code,
        name=name,
        category="moe",
        severity="error",
        confidence=confidence,
        trust=trust,
        title=TEXT,
        why=TEXT,
        tests=tests,
        path=f"moe/{code}-{name}.yaml",
    )


def finding(code: str, name: str, *, category: str = "moe", **values: Any) -> Finding:
    return Finding(
        id="f1",
        code=code,
        name=name,
        category=category,
        severity="error",
        confidence="high",
        title="It broke",
        **values,
    )


def result(*findings: Finding, **values: Any) -> Result:
    return Result(
        tool=Tool(version="0"), verdict=Verdict(text="", status="findings"), findings=list(findings), **values
    )


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[TestOutcome]]:
    """Return a function that runs the tests of a rule (MOE001 one) against a given result."""

    def runner(given: Result | Exception, *tests: RuleTest, others: Sequence[Rule] = ()) -> list[TestOutcome]:
        def analyze_texts(
            files: Mapping[str, str], pack: RulePack, *, tables: Mapping[str, Any] | None = None
        ) -> Result:
            assert len(pack.rules) == 1 + len(others)
            if isinstance(given, Exception):
                raise given
            return given

        fake = ModuleType("npudiag.analyze")
        fake.analyze_texts = analyze_texts  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "npudiag.analyze", fake)
        first = rule("MOE001", "one", *tests)
        return run_rule_tests(RulePack((first, *others), "0" * 12, {"one": "/rules/moe/MOE001-one.yaml"}), ["one"])

    return runner


Run = Callable[..., list[TestOutcome]]


def problems(outcomes: list[TestOutcome]) -> list[str]:
    return [str(mismatch) for outcome in outcomes for mismatch in outcome.mismatches]


def test_a_test_that_holds(run: Run) -> None:
    own = finding("MOE001", "one", captures={"a": 1, "b": 0.30000000000000004, "c": "x"}, role="consequence")
    own.scope = Scope(ranks=[3, 1], devices=[4], nodes=["w"])
    test = RuleTest(
        name="t", findings=1, captures={"a": 1, "b": 0.3, "c": "x"}, ranks=(1, 3), devices=(4,), nodes=("w",), line=7
    )
    [outcome] = run(result(own), test)
    assert outcome == TestOutcome("MOE001", "one", "t", "/rules/moe/MOE001-one.yaml", 7, ())
    assert outcome.passed


def test_findings_of_status_info_count(run: Run) -> None:
    assert run(result(finding("MOE001", "one", status="info")), RuleTest(name="t", findings=1))[0].passed


def test_the_number_of_findings(run: Run) -> None:
    test = RuleTest(name="t", findings=1)
    passed = [Passed(code="MOE001", name="one")]
    assert problems(run(result(passed=passed), test)) == [
        "findings: expected 1, got 0 (the rule looked and found nothing)"
    ]
    skipped = [Skipped(code="MOE001", name="one", missing=["log", "launch"])]
    assert problems(run(result(skipped=skipped), test)) == [
        "findings: expected 1, got 0 (the rule was skipped: no rows in log, launch)"
    ]
    assert problems(run(result(), test)) == ["findings: expected 1, got 0 (the rule is in no list of the result)"]
    own = finding("MOE001", "one", evidence=[Evidence(path="sample.log", line=3)])
    assert problems(run(result(own), RuleTest(name="t", findings=0))) == [
        "findings: expected 0, got 1\n  MOE001 one: It broke at sample.log:3"
    ]


def test_captures_and_scope(run: Run) -> None:
    own = finding("MOE001", "one", captures={"a": "1", "b": 1, "c": True}, scope=Scope(ranks=[1]))
    test = RuleTest(
        name="t",
        findings=1,
        captures={"a": 1, "b": 2.5, "c": 1, "d": None, "e": "x"},
        ranks=(2,),
        devices=(),
        nodes=("w",),
    )
    assert run(result(own), test)[0].mismatches == (
        Mismatch("captures.a", "1", "'1'"),
        Mismatch("captures.b", "2.5", "1"),
        Mismatch("captures.c", "1", "True"),
        Mismatch("captures.e", "'x'", "nothing"),
        Mismatch("ranks", "[2]", "[1]"),
        Mismatch("nodes", "['w']", "[]"),
    )


def test_of_several_findings_one_has_to_match(run: Run) -> None:
    several = [finding("MOE001", "one", captures={"a": number}, scope=Scope(ranks=[number])) for number in range(3)]
    test = RuleTest(name="t", findings=3, captures={"a": 1}, ranks=(1,))
    assert run(result(*several), test)[0].passed
    test = RuleTest(name="t", findings=3, captures={"a": 1}, ranks=(2,))
    assert len(problems(run(result(*several), test))) == 1


def test_cross_fire(run: Run) -> None:
    others = [
        rule("MOE002", "two"),
        rule("MOE003", "generic-one", trust="generic"),
        rule("MOE004", "envelope-one", trust="envelope"),
    ]
    found = result(
        finding("MOE001", "one"),
        finding("MOE002", "two"),
        finding("MOE003", "generic-one"),
        finding("MOE004", "envelope-one"),
        finding("GEN000", "no-explanation", category="insufficient-evidence"),
    )
    assert problems(run(found, RuleTest(name="t", findings=1), others=others)) == [
        "cross-fire: expected no finding of two (or list it in also), got MOE002 two: It broke"
    ]
    assert run(found, RuleTest(name="t", findings=1, also=("two",)), others=others)[0].passed
    near_miss = run(result(finding("MOE002", "two")), RuleTest(name="t", findings=0), others=others)
    assert [mismatch.what for mismatch in near_miss[0].mismatches] == ["cross-fire"]


def test_skip(run: Run) -> None:
    test = RuleTest(name="t", skip=True)
    assert run(result(skipped=[Skipped(code="MOE001", name="one", missing=["log"])]), test)[0].passed
    assert problems(run(result(passed=[Passed(code="MOE001", name="one")]), test)) == [
        "skipped: expected MOE001 is skipped, got the rule looked and found nothing"
    ]
    assert problems(run(result(finding("MOE001", "one")), test)) == [
        "skipped: expected MOE001 is skipped, got the rule has findings"
    ]


def test_rules_that_break(run: Run) -> None:
    broken = result(errors=[RuleFailure(code="MOE002", name="two", message="no such column")])
    assert problems(run(broken, RuleTest(name="t", findings=0))) == [
        "run: expected no rule breaks, got MOE002 two: no such column"
    ]
    assert (
        problems(run(ZeroDivisionError("by zero"), RuleTest(name="t", findings=0), RuleTest(name="u")))
        == ["run: expected an analysis to its end, got ZeroDivisionError: by zero"] * 2
    )


def test_names_are_chosen(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run(result())
    pack = RulePack(
        tuple(
            rule(code, name, RuleTest(name="t"))
            for code, name in (("MOE001", "one"), ("MOE002", "two"), ("MOE101", "three"))
        ),
        "0" * 12,
    )
    monkeypatch.setattr(sys.modules["npudiag.analyze"], "analyze_texts", lambda *_, **__: result())
    assert [outcome.rule for outcome in run_rule_tests(pack, ["moe0"])] == ["one", "two"]
    assert [outcome.rule for outcome in run_rule_tests(pack, ["MOE101", "one", "MOE001"])] == ["one", "three"]
    assert len(run_rule_tests(pack)) == 3
    with pytest.raises(UsageError) as caught:
        run_rule_tests(pack, ["tree"])
    assert (caught.value.message, caught.value.hint) == ("no rule is called 'tree'", "did you mean three?")
