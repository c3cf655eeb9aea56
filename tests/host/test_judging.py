"""How facts become verdicts: skipped without facts, graver before a job than after, each machine for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from npudiag.advice import compatibility
from npudiag.analyses.host import hosts
from npudiag.analyze import Options, inspect_texts
from npudiag.detectors.preflight.network import _chosen
from npudiag.engine.hits import CannotJudge, Hit
from npudiag.engine.load import RulePack, load_pack
from npudiag.engine.run import run
from npudiag.engine.signature import LiteralTable
from npudiag.parsers.snapshot import HEADER
from npudiag.report import preflight
from npudiag.report.html import render
from npudiag.result import Result
from npudiag.tables.store import Store


@pytest.fixture(scope="module")
def pack() -> RulePack:
    return load_pack()


def judged(pack: RulePack, files: Mapping[str, Sequence[str]]) -> Result:
    rules = [rule for rule in pack.rules if rule.code.startswith("PRE")]
    texts = {f"{name}/host/snapshot.txt": "\n".join([HEADER, *lines, ""]) for name, lines in files.items()}
    return inspect_texts(texts, pack, rules, Options())[0]


FULL = (
    'disk.role[/ckpt] = "checkpoint"',
    "disk.free_bytes[/ckpt] = 1048576",
    "disk.total_bytes[/ckpt] = 4000000000000",
    'network.asked[HCCL_SOCKET_IFNAME] = "enp67s0f5"',
    "network.up[eth0] = true",
)


@pytest.mark.parametrize(("purpose", "severity"), [("preflight", "error"), ("collect", "warning")])
def test_what_stops_a_job_is_an_error_before_it_only(pack: RulePack, purpose: str, severity: str) -> None:
    result = judged(pack, {"a": [f'snapshot.purpose = "{purpose}"', *FULL]})
    found = {finding.name: finding.severity for finding in result.findings}
    assert found == {"disk-space-short": severity, "hccl-interface-missing": severity}


def test_machines_are_judged_each_for_itself(pack: RulePack) -> None:
    result = judged(
        pack,
        {
            "a": ['snapshot.node = "node-1"', "limit.nofile[soft] = 1024", 'python.package[torch] = "2.7.1"'],
            "b": ['snapshot.node = "node-2"', "limit.nofile[soft] = 1048576", 'python.package[torch] = "2.6.0"'],
        },
    )
    found = {finding.name: finding for finding in result.findings}
    assert found["open-file-limit-low"].scope.nodes == ["node-1"]
    assert found["open-file-limit-low"].evidence[0].text == "limit.nofile[soft] = 1024"
    assert found["software-differs-between-machines"].captures["component"] == "torch"


def test_a_rule_without_its_fact_is_skipped_not_passed(pack: RulePack) -> None:
    result = judged(pack, {"a": ["cpu.count = 2"]})
    skipped = {item.name: item.missing for item in result.skipped}
    assert skipped["clock-not-synchronised"] == ["adjtimex"]
    assert "clock-not-synchronised" not in {item.name for item in result.passed}


def test_the_engine_takes_cannot_judge_for_a_skip(monkeypatch: pytest.MonkeyPatch, pack: RulePack) -> None:
    def unable(store: Store, params: Mapping[str, Any]) -> list[Hit]:
        raise CannotJudge("a tool", "a file")

    monkeypatch.setattr("npudiag.detectors.preflight.machine.clock", unable)
    rule = next(rule for rule in pack.rules if rule.name == "clock-not-synchronised")
    store = Store()
    store.extend("host_facts", [{"area": "x", "name": "y"}])
    outcome = run([rule], store, LiteralTable(()))
    assert not outcome.passed
    assert not outcome.errors
    assert outcome.skipped[0].missing == ["a tool", "a file"]


def test_the_last_of_several_facts_counts() -> None:
    store = Store()
    store.extend("host_facts", [{"area": "version", "name": "toolkit", "item": "version", "value": v} for v in "ab"])
    (host,) = hosts(store)
    assert host.value("version", "toolkit", "version") == "b"
    assert host.versions() == {"toolkit": "b"}
    assert host.npus is None


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("eth", ["eth0", "eth1"]),
        ("eth0,docker", ["docker0", "eth0"]),
        ("=eth0", ["eth0"]),
        ("=eth", []),
        ("^docker,lo", ["eth0", "eth1"]),
        ("^=eth0", ["docker0", "eth1", "lo"]),
        ("", []),
    ],
)
def test_interfaces_are_chosen_as_hccl_does(value: str, left: list[str]) -> None:
    assert _chosen(value, ["docker0", "eth0", "eth1", "lo"]) == left


@pytest.mark.parametrize(
    ("older", "newer"),
    [("8.0.RC3", "8.0.0"), ("8.3.RC1", "8.3.RC2"), ("8.3.RC2", "8.3.0"), ("8.5.0", "8.5.1"), ("8.5.1", "9.0.0")],
)
def test_releases_of_cann_are_in_order(older: str, newer: str) -> None:
    assert compatibility.order(older) < compatibility.order(newer)
    assert compatibility.order(f"CANN-{older}") == compatibility.order(older)


def test_every_line_of_the_compatibility_table_is_whole() -> None:
    path = Path(compatibility.__file__).with_name("data") / "compatibility.tsv"
    lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line and not line.startswith("#")]
    assert len(lines) > 300
    for line in lines:
        package, release, needs, allowed = line.split("\t")
        assert compatibility.needs(package, release, needs) == tuple(allowed.split())
        assert all(compatibility.fits(one, tuple(allowed.split()), needs) for one in allowed.split())


def test_the_page_shows_the_checks(pack: RulePack) -> None:
    result = judged(pack, {"a": ["cpu.count = 2"]})
    result.facts["preflight"] = [
        {"code": "PRE107", "name": "x", "status": "warning", "findings": [], "measured": {"en": "<b>12", "zh": "十二"}},
        {"code": "PRE401", "name": "y", "status": "skip", "findings": [], "missing": ["hccn_tool"]},
        {"code": "ACM001", "name": "of-another-pack", "status": "pass", "findings": []},
        {"code": 5, "name": "{0}", "status": None, "findings": 5, "measured": [], "missing": 7},
        {"code": "PRE402", "status": "skip", "missing": {"a": 1}},
        "nonsense",
    ]
    page = render(result, lang="en")
    text = page if isinstance(page, str) else page.decode()
    assert "&lt;b&gt;12" in text
    assert "十二" in text
    assert "no hccn_tool" in text
    assert "Open files" in text
    assert "of-another-pack" in text
    for lang in ("en", "zh"):
        assert preflight.render(result, lang=lang, width=80, verbosity=2)
