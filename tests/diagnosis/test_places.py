"""What broke elsewhere, or long before the job, is not why a rank failed."""

from __future__ import annotations

from typing import Any

import pytest

from npudiag.analyses import topology
from npudiag.analyses.clocks import Clocks
from npudiag.diagnosis import places
from npudiag.diagnosis.moments import Span
from npudiag.diagnosis.order import arrange
from npudiag.diagnosis.places import Grounds
from npudiag.diagnosis.reasons import explain
from npudiag.engine.model import Rule, Text
from npudiag.result import Evidence, Finding, Scope
from npudiag.tables.records import LogRecord

RAN = Grounds(frozenset(("a", "b")), 1_780_000_000.0)


def pair(name: str, category: str, scope: Scope, *, trust: Any = "specific", causes: tuple[str, ...] = ()) -> Any:
    code = name[:3].upper() + "101"
    rule = Rule(
        code=code, name=name, category=category, severity="critical", confidence="high", trust=trust,
        title=Text(name, name), why=Text("", ""), caused_by=causes,
    )  # fmt: skip
    finding = Finding(
        id="", code=code, name=name, category=category, severity="critical", confidence="high", trust=trust,
        title=name, scope=scope, evidence=[Evidence(path=f"{name}.log", line=1, text=name)],
    )  # fmt: skip
    return rule, finding


def story(ecc: Scope, ecc_at: float = 1_780_000_290.0) -> list[Finding]:
    """A kernel fails on rank 10, everybody waits for it, and some card reports an ECC error."""
    whom = Scope(ranks=[10], nodes=["b"], devices=[2])
    found = [
        pair("ecc", "device-fault", ecc, trust="cause"),
        pair("kernel", "aicore-exception", whom, causes=("ecc",)),
        pair("notify", "hccl-timeout", Scope(ranks=[10], nodes=["b"], devices=[2]), causes=("ecc", "kernel")),
    ]
    times = (ecc_at, 1_780_000_300.0, 1_780_002_136.0)
    spans = {id(finding): Span(at, at) for (_, finding), at in zip(found, times, strict=True)}
    told = arrange(found, spans, RAN)
    explain(told, spans, RAN)
    return told


def test_an_error_of_the_same_card_is_the_cause() -> None:
    told = story(Scope(nodes=["b"], devices=[2]))
    assert [finding.name for finding in told if finding.role == "root"] == ["ecc"]


@pytest.mark.parametrize(
    "scope",
    [
        Scope(nodes=["b"], devices=[6]),
        Scope(nodes=["a"], devices=[2]),
        Scope(ranks=[3], nodes=["b"], devices=[2]),
    ],
    ids=["another card", "another node", "another rank"],
)
def test_an_error_elsewhere_is_not(scope: Scope) -> None:
    told = story(scope)
    assert [finding.name for finding in told if finding.role == "root"] == ["kernel", "ecc"]
    assert told[0].runner_up is not None and "another rank, card or node" in told[0].runner_up.why_not
    wait = next(finding for finding in told if finding.name == "notify")
    assert wait.caused_by == [told[0].id]


def test_a_node_that_is_no_home_of_ranks_may_be_the_same_machine() -> None:
    """Exports of the device logs lie in folders named after their time."""
    told = story(Scope(nodes=["2026-05-28-10-00-00"], devices=[2]))
    assert [finding.name for finding in told if finding.role == "root"] == ["ecc"]


def test_what_was_over_long_before_the_job_is_told_last() -> None:
    told = story(Scope(nodes=["b"], devices=[2]), RAN.begun_s - 9 * 3600 if RAN.begun_s else 0.0)
    assert [finding.name for finding in told if finding.role == "root"] == ["kernel", "ecc"]
    assert told[0].runner_up is not None and "before the job began" in told[0].runner_up.why_not


def test_a_clock_of_another_time_zone_is_not_long_before() -> None:
    told = story(Scope(nodes=["b"], devices=[2]), RAN.begun_s - 8 * 3600 if RAN.begun_s else 0.0)
    assert [finding.name for finding in told if finding.role == "root"] == ["ecc"]


def test_a_kernel_that_timed_out_may_have_waited_for_another_card() -> None:
    cause, effect = Scope(nodes=["a"], devices=[2]), Scope(ranks=[10], nodes=["b"], devices=[2])
    found = [
        pair("ecc", "device-fault", cause, trust="cause"),
        pair("kernel-timeout", "aicore-exception", effect, causes=("ecc",)),
    ]
    told = arrange(found, None, RAN)
    assert [finding.role for finding in told] == ["root", "consequence"]


def test_the_grounds_are_those_of_processes_that_introduced_themselves() -> None:
    def record(node: str, pid: int, text: str, time_us: int) -> LogRecord:
        return LogRecord(file=f"{node}.log", line=1, text=text, kind="slog", node=node, pid=pid, time_us=time_us)

    hello = "SetupAgent rankNum[2], rank[0], rootInfo identifier[x], server[192.0.2.1%eth0], logicDevId[0]"
    rows = [
        record("a", 7, hello, 1_780_000_005_000_000),
        record("a", 7, "first words", 1_780_000_001_000_000),
        record("a", 8, "somebody else", 1_700_000_000_000_000),
        record("c", 7, "another machine", 1_700_000_000_000_000),
    ]
    assert places.grounds(topology.find(rows), rows, Clocks()) == Grounds(frozenset(("a",)), 1_780_000_001.0)
    assert places.grounds(topology.find([]), rows, Clocks()) == Grounds()
