"""Cause before consequence, whatever the order of the lines."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from npudiag.diagnosis.moments import Span
from npudiag.diagnosis.order import arrange
from npudiag.diagnosis.reasons import explain
from npudiag.diagnosis.verdict import state
from npudiag.engine.model import Rule, Text
from npudiag.result import Coverage, Evidence, Finding, Scope


def pair(
    name: str,
    category: str = "operator",
    *,
    severity: Any = "critical",
    trust: Any = "specific",
    at: str | None = None,
    caused_by: tuple[str, ...] = (),
    path: str = "a.log",
) -> tuple[Rule, Finding]:
    code = name[:3].upper() + "101"
    one = Rule(
        code=code,
        name=name,
        category=category,
        severity=severity,
        confidence="high",
        trust=trust,
        title=Text(name, name),
        why=Text("", ""),
        caused_by=caused_by,
    )
    finding = Finding(
        id="",
        code=code,
        name=name,
        category=category,
        severity=severity,
        confidence="high",
        trust=trust,
        title=name,
        scope=Scope(first=at, last=at),
        evidence=[Evidence(path=path, line=1, text=name)],
    )
    return one, finding


def names(found: list[tuple[Rule, Finding]]) -> list[str]:
    return [finding.name for finding in arrange(found)]


CRASH = ("aicore", "aicore-exception")
WAIT = ("notify", "hccl-timeout")


def test_the_crash_explains_the_time_outs_of_the_others() -> None:
    for order in itertools.permutations(range(3)):
        found = [
            pair(*CRASH, at="2026-01-01T10:00:00.000", path="rank1.log"),
            pair(*WAIT, at="2026-01-01T10:30:36.000", path="rank0.log"),
            pair("engine-dead", "insufficient-evidence", severity="warning", trust="envelope"),
        ]
        told = arrange([found[index] for index in order])
        assert told[0].name == "aicore"
        assert [finding.role for finding in told] == ["root", "consequence", "consequence"]
        assert told[1].caused_by == [told[0].id] and told[2].caused_by


def test_a_crash_after_the_time_out_does_not_explain_it() -> None:
    found = [pair(*CRASH, at="2026-01-01T12:00:00.000"), pair(*WAIT, at="2026-01-01T10:00:00.000")]
    told = arrange(found)
    assert told[0].name == "notify"
    assert all(finding.role == "root" for finding in told)
    explain(told)
    assert told[0].runner_up is not None and told[0].runner_up.code == "AIC101"


def test_a_named_cause_explains_even_what_looks_worse() -> None:
    found = [
        pair("memory", "out-of-memory", severity="error"),
        pair("crash", "operator", severity="critical", caused_by=("memory",)),
    ]
    assert names(found) == ["memory", "crash"]


def test_generic_codes_follow_specific_ones() -> None:
    found = [
        pair("inner-error", trust="generic", at="2026-01-01T10:00:00.000"),
        pair("specific", severity="error", at="2026-01-01T10:00:01.000"),
    ]
    assert names(found) == ["specific", "inner-error"]


def test_a_message_that_names_its_cause_is_told_first() -> None:
    found = [pair("specific"), pair("names-it", trust="cause")]
    assert names(found) == ["names-it", "specific"]


def test_several_envelopes_alone_are_one_answer() -> None:
    found = [
        pair("dead", "insufficient-evidence", severity="warning", trust="envelope"),
        pair("gone", "insufficient-evidence", severity="warning", trust="envelope"),
    ]
    told = arrange(found)
    assert [finding.role for finding in told] == ["root", "consequence"]


def test_circles_do_not_hang_and_leave_a_root() -> None:
    found = [
        pair("one", caused_by=("two",)),
        pair("two", caused_by=("three",)),
        pair("six", caused_by=("one",)),
        pair("three", caused_by=("one",)),
    ]
    told = arrange(found)
    assert told[0].role == "root"
    assert len(told) == 4


def test_independent_faults_are_several_roots_and_the_earlier_comes_first() -> None:
    found = [
        pair("late", at="2026-01-01T10:00:09.000"),
        pair("early", at="2026-01-01T10:00:00.000"),
    ]
    told = arrange(found)
    assert [finding.name for finding in told] == ["early", "late"]
    explain(told)
    assert told[0].runner_up is not None and "9.0 s later" in told[0].runner_up.why_not


def test_a_mild_finding_beside_a_grave_one_contributes() -> None:
    told = arrange([pair("mild", "performance", severity="warning"), pair("grave")])
    assert [(finding.name, finding.role) for finding in told] == [("grave", "root"), ("mild", "contributing")]


@pytest.mark.parametrize("at", ["1970-01-01T00:03:45.000", None])
def test_times_before_the_clock_was_set_are_not_compared(at: str | None) -> None:
    found = [
        pair("late-by-clock", trust="cause", at="2026-01-01T10:00:00.000"),
        pair("boot", caused_by=("late-by-clock",), at=at),
    ]
    assert names(found) == ["late-by-clock", "boot"]


def test_a_setting_that_costs_time_does_not_explain_a_crash() -> None:
    told = arrange(
        [
            pair("blocking-launch", "performance", severity="warning"),
            pair("engine-dead", "insufficient-evidence", severity="warning", trust="envelope"),
        ]
    )
    assert [finding.name for finding in told] == ["engine-dead", "blocking-launch"]
    assert told[0].role == "root" and not told[0].caused_by


def test_a_fault_of_the_card_explains_an_envelope_even_as_a_warning() -> None:
    told = arrange(
        [
            pair("engine-dead", "insufficient-evidence", severity="warning", trust="envelope"),
            pair("card-event", "device-fault", severity="warning"),
        ]
    )
    assert [finding.name for finding in told] == ["card-event", "engine-dead"]
    assert told[1].caused_by == ["f1"]


def test_a_profile_of_one_run_explains_none_of_another() -> None:
    found = [pair("profile-cause", "performance", severity="warning", at=None)]
    for job in ("a", "b"):
        found.append(pair("profile-effect", "performance", severity="warning", caused_by=("profile-cause",), path=job))
        found[-1][1].captures["job"] = job
    found[0][1].captures["job"] = "a"
    told = arrange(found)
    assert [(finding.name, finding.role) for finding in told if finding.evidence[0].path != "b"] == [
        ("profile-cause", "root"),
        ("profile-effect", "consequence"),
    ]
    assert [finding.role for finding in told if finding.evidence[0].path == "b"] == ["root"]
    assert "; 1 further finding follows from it; 1 independent problem as well" in state(told, Coverage()).text


def test_consequences_that_are_the_same_on_many_ranks_are_one() -> None:
    cause = pair("memory", "out-of-memory", at="2026-01-01T10:00:00.000")
    victims = [
        pair("python-exception", "insufficient-evidence", severity="warning", trust="envelope", path=f"{rank}.log")
        for rank in range(4)
    ]
    for rank, (_, finding) in enumerate(victims):
        finding.scope.ranks = [rank]
    told = arrange([cause, *victims])
    assert [finding.name for finding in told] == ["memory", "python-exception"]
    assert told[1].scope.ranks == [0, 1, 2, 3]
    assert told[1].occurrences == 4
    assert {item.path for item in told[1].evidence} == {f"{rank}.log" for rank in range(4)}


def test_the_root_of_several_envelopes_shows_what_the_others_saw() -> None:
    found = [
        pair("dead", "insufficient-evidence", severity="warning", trust="envelope", path="a.log"),
        pair("gone", "insufficient-evidence", severity="warning", trust="envelope", path="b.log"),
        pair("note", "insufficient-evidence", severity="info", trust="envelope", path="c.log"),
    ]
    told = arrange(found)
    assert [item.path for item in told[0].evidence] == ["a.log", "b.log"]


def test_corrected_times_decide_where_the_clocks_of_hosts_differ() -> None:
    """By the stamps the crash comes an hour after the time-out that it caused."""
    found = [pair(*CRASH, at="2026-01-01T11:00:00.000"), pair(*WAIT, at="2026-01-01T10:00:00.000")]
    crash, wait = (finding for _, finding in found)
    assert all(finding.role == "root" for finding in arrange(found))
    noon = 1_767_268_800.0
    told = arrange(found, {id(crash): Span(noon - 300, noon - 300), id(wait): Span(noon, noon)})
    assert [finding.name for finding in told] == ["aicore", "notify"]
    assert told[1].caused_by == [told[0].id]
