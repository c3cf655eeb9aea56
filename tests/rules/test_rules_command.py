"""``npudiag rules``: list, show, test, new, docs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from npudiag.cli import rule_docs
from npudiag.cli import rules as command
from npudiag.engine import load
from npudiag.engine.load import PackSource, RulePack, load_pack
from npudiag.errors import RuleError, UsageError
from npudiag.result import Finding, Passed, Skipped, Tool, Verdict
from npudiag.result import Result as Document

RULE = """\
code: {code}
name: {name}
category: hccl-timeout
severity: critical
confidence: high
title: {{en: "Rank {{peer}} <silent>[[ on {{node}}]]", zh: "rank {{peer}} 无响应[[（{{node}}）]]"}}
why: {{en: "It waits.", zh: "一直在等待。"}}
detect:
  signature:
    all: ["silent for too long"]
    regex: 'peer (?P<peer>\\d+)'
    types: {{peer: int}}
    near: {{lines: 5, any: ["hello"]}}
    count: ">= 2"
    within: 1m
    then: {{any: ["it ended"]}}
{more}remedies:
  - kind: env
    text: {{en: "Raise the limit.", zh: "调大上限。"}}
    change: {{key: HCCL_EXEC_TIMEOUT, to: "3600"}}
    disposition: safe
    expect: {{en: "Fewer", zh: "减少"}}
    verify: {{en: "Look", zh: "查看"}}
  - kind: command
    text: {{en: "Look at *it*.", zh: "查看。"}}
    command: npu-smi info
    stack: [torch_npu]
collect: [{{en: "The log", zh: "日志"}}]
references: ["https://example.org/x"]
tests:
  - name: fires
    log: "peer 3 is silent for too long ```"
    expect: {{findings: 1, captures: {{peer: 3}}}}
  - name: harmless
    log: "nobody is silent for too long"
    expect: {{findings: 0}}
  - {{name: no input, expect: skip}}
"""


@pytest.fixture(autouse=True)
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a small pack the shipped one, and a working directory without configuration."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NPUDIAG_LANG", "en")
    monkeypatch.delenv("NPUDIAG_CONFIG", raising=False)
    shipped = tmp_path / "shipped"
    put(shipped, "ABC001", "peer-silent")
    put(shipped, "ABC002", "peer-gone", more="caused_by: [peer-silent]\n", area="net")
    for module in (load, command):
        monkeypatch.setattr(module, "shipped_rules", lambda: shipped)
    (tmp_path / "work" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    return shipped


def put(folder: Path, code: str, name: str, *, more: str = "", area: str = "comm") -> Path:
    path = folder / area / f"{code}-{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(RULE.format(code=code, name=name, more=more), encoding="utf-8")
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command.app, [str(argument) for argument in arguments])


# -- list


def test_list_prints_a_plain_table() -> None:
    result = run("list")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "code    name         category      severity  confidence  trust",
        "ABC001  peer-silent  hccl-timeout  critical  high        specific",
        "ABC002  peer-gone    hccl-timeout  critical  high        specific",
    ]
    assert "2 of 2 rules" in result.stderr


def test_list_filters_and_prints_json(tmp_path: Path) -> None:
    put(tmp_path / "own", "OWN001", "mine")
    listed = json.loads(run("list", "--json", "--rules", tmp_path / "own").stdout)
    assert [rule["code"] for rule in listed] == ["ABC001", "ABC002", "OWN001"]
    assert listed[2]["title"]["zh"].startswith("rank {peer}")
    assert listed[2]["file"] == str(tmp_path / "own" / "comm" / "OWN001-mine.yaml")
    assert [rule["code"] for rule in json.loads(run("list", "--json", "--select", "abc002").stdout)] == ["ABC002"]
    assert json.loads(run("list", "--json", "--category", "moe").stdout) == []
    assert len(json.loads(run("list", "--json", "--severity", "critical", "--trust", "specific").stdout)) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--category", "mo"], "unknown category 'mo'"),
        (["--severity", "fatal"], "unknown severity 'fatal'"),
        (["--trust", "x"], "unknown trust 'x'"),
        (["--select", "XYZ"], "no rule is called 'XYZ'"),
    ],
)
def test_list_refuses_unknown_words(arguments: list[str], message: str) -> None:
    error = run("list", *arguments).exception
    assert isinstance(error, UsageError) and message in error.message


def test_rules_of_the_configuration_are_loaded(tmp_path: Path) -> None:
    put(tmp_path / "work" / "mine", "OWN001", "mine")
    Path("npudiag.toml").write_text('rules = ["mine"]\n')
    assert [rule["code"] for rule in json.loads(run("list", "--json").stdout)] == ["ABC001", "ABC002", "OWN001"]


# -- show


def test_show_says_all_of_a_rule() -> None:
    text = run("show", "abc002").stdout
    assert text.startswith("ABC002 peer-gone\n  Rank ‹peer› <silent> on ‹node›\n  hccl-timeout · critical · ")
    for part in (
        "  It waits.",
        "    regex: peer (?P<peer>\\d+)\n",
        "    within: 60s\n",
        "Explained by\n  peer-silent\n",
        "  - Raise the limit. (env, safe)\n      export HCCL_EXEC_TIMEOUT=3600\n    Fewer\n    Look\n",
        "(command, review, torch_npu)\n      npu-smi info\n",
        "  - The log\n",
        "  https://example.org/x\n",
        "  - harmless (findings: 0)\n      == sample.log\n      nobody is silent for too long\n  - no input (skip)\n",
    ):
        assert part in text
    assert "\x1b" not in text


def test_show_in_chinese_and_as_json() -> None:
    text = run("show", "peer-gone", "--lang", "zh").stdout
    assert "一直在等待。" in text and "处理建议" in text and "It waits." not in text
    assert json.loads(run("show", "peer-gone", "--json").stdout)["code"] == "ABC002"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no rule is called 'nothing'"),
        (["ABC"], "'ABC' stands for several rules: ABC001, ABC002"),
    ],
)
def test_show_refuses(arguments: list[str], message: str) -> None:
    error = run("show", *arguments).exception
    assert isinstance(error, UsageError) and error.message == message


def test_the_language_is_that_of_the_configuration_unless_given() -> None:
    Path("npudiag.toml").write_text('lang = "zh"\n')
    assert "一直在等待。" in run("show", "peer-gone").stdout
    assert "It waits." in run("show", "peer-gone", "--lang", "en").stdout
    assert "It waits." in run("show", "peer-gone", "--no-config").stdout
    assert run("show", "peer-gone", "--lang", "fr").exit_code == 2


# -- test


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Play the pipeline: rule ABC001 finds peers, no other rule finds anything."""

    def analyze_texts(files: Mapping[str, str], pack: RulePack, *, tables: Any = None) -> Document:
        document = Document(tool=Tool(version="0"), verdict=Verdict(text="", status="findings"))
        for rule in pack.rules:
            if not files:
                document.skipped.append(Skipped(code=rule.code, name=rule.name, missing=["log"]))
            elif rule.code == "ABC001" and "peer 3" in files["sample.log"]:
                found = Finding(
                    id="f1",
                    code=rule.code,
                    name=rule.name,
                    category=rule.category,
                    severity="error",
                    confidence="high",
                    title="Rank 3\x1b[31m",
                    captures={"peer": 3},
                )
                document.findings.append(found)
            else:
                document.passed.append(Passed(code=rule.code, name=rule.name))
        return document

    fake = ModuleType("npudiag.analyze")
    fake.analyze_texts = analyze_texts  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "npudiag.analyze", fake)


@pytest.mark.usefixtures("pipeline")
def test_tests_that_hold() -> None:
    result = run("test", "ABC001")
    assert (result.exit_code, result.stdout) == (0, "3 tests of 1 rules: 3 passed, 0 failed\n")


@pytest.mark.usefixtures("pipeline")
def test_tests_that_fail_are_shown_with_their_place(world: Path) -> None:
    result = run("test")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{world}/net/ABC002-peer-gone.yaml:32: ABC002 fires",
        "  findings",
        "    - expected 1",
        "    + got      0 (the rule looked and found nothing)",
        "  cross-fire",
        "    - expected no finding of peer-silent (or list it in also)",
        "    + got      ABC001 peer-silent: Rank 3\\x1b[31m",
        "6 tests of 2 rules: 5 passed, 1 failed",
    ]


@pytest.mark.usefixtures("pipeline")
def test_a_folder_of_ones_own_is_tested_alone(tmp_path: Path) -> None:
    put(tmp_path / "work" / "own", "OWN001", "mine")
    result = run("test", "--rules", "own")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "own/comm/OWN001-mine.yaml:31: OWN001 fires"
    assert result.stdout.splitlines()[-1] == "3 tests of 1 rules: 2 passed, 1 failed"


def test_faulty_files_are_shown_with_the_line_and_end_with_2(tmp_path: Path) -> None:
    path = put(tmp_path / "work" / "own", "OWN001", "mine")
    path.write_text(path.read_text().replace("severity: critical", 'severity: "显存" # x').replace("OWN001", "own"))
    result = run("test", "--rules", "own")
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        "own/comm/OWN001-mine.yaml:1:7: code 'own' must be 3 capital letters and 3 digits, like HCC104",
        "    code: own",
        "          ^",
        "own/comm/OWN001-mine.yaml:4:11: unknown severity '显存'; allowed: critical, error, warning, info",
        '    severity: "显存" # x',
        "              ^",
    ]
    assert "2 fault(s) in rule files; no test was run" in result.stderr
    assert isinstance(run("list", "--rules", "own").exception, RuleError)


# -- new


def test_new_writes_a_valid_rule_that_is_never_overwritten(tmp_path: Path) -> None:
    result = run("new", "net", "OWN001", "link-flaps", "--rules", "own", "--category", "hccl-init")
    assert (result.exit_code, result.stdout) == (0, "own/net/OWN001-link-flaps.yaml\n")
    [rule] = load_pack([PackSource(Path("own"), None, "command-line")], with_tests=True).rules
    assert (rule.code, rule.name, rule.category, len(rule.tests)) == ("OWN001", "link-flaps", "hccl-init", 3)
    before = Path("own/net/OWN001-link-flaps.yaml").read_bytes()
    error = run("new", "net", "OWN001", "link-flaps", "--rules", "own").exception
    assert isinstance(error, UsageError) and "is there already; it is left alone" in error.message
    assert Path("own/net/OWN001-link-flaps.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["../x", "OWN001", "a"], "area '../x' must be kebab-case, like hccl"),
        (["net", "own1", "a"], "code 'own1' must be 3 capital letters and 3 digits, like ACM001"),
        (["net", "OWN001", "A_b"], "name 'A_b' must be kebab-case, like link-flaps"),
        (["net", "OWN001", "a", "--category", "x"], "unknown category 'x'"),
        (["net", "ABC003", "a"], "codes ABC... belong to the shipped rules"),
        (["net", "OWN001", "peer-gone"], "ABC002 peer-gone is a shipped rule"),
    ],
)
def test_new_refuses(arguments: list[str], message: str) -> None:
    error = run("new", *arguments).exception
    assert isinstance(error, UsageError) and error.message.startswith(message)
    assert not Path("rules").exists()


def test_new_replaces_a_shipped_rule_and_adds_to_the_shipped_pack_at_home(world: Path) -> None:
    assert run("new", "net", "ABC002", "peer-gone", "--rules", "own").exit_code == 0
    assert run("new", "net", "ABC003", "third", "--rules", world).exit_code == 0
    assert len(load_pack([PackSource(world, None, "shipped")]).rules) == 3


# -- docs


def test_docs_are_written_once_and_checked(tmp_path: Path, world: Path) -> None:
    def pages() -> list[str]:
        return sorted(path.relative_to(out).as_posix() for path in out.rglob("*.md"))

    out = tmp_path / "docs"
    assert run("docs", "--out", out, "--check").exit_code == 1
    assert not out.exists()
    assert run("docs", "--out", out).exit_code == 0
    assert pages() == ["comm/ABC001-peer-silent.md", "index.md", "net/ABC002-peer-gone.md"]
    assert run("docs", "--out", out, "--check").exit_code == 0
    (out / "net" / "notes.md").write_text("# My own\n")
    (out / "net.md").write_text(rule_docs.MARK + "\n# Of an earlier release\n")
    (world / "net" / "ABC002-peer-gone.yaml").unlink()
    checked = run("docs", "--out", out, "--check")
    assert checked.exit_code == 1
    assert [line.split(" is not")[0] for line in checked.stdout.splitlines()] == [
        str(out / "index.md"),
        str(out / "net" / "ABC002-peer-gone.md"),
        str(out / "net.md"),
    ]
    assert run("docs", "--out", out).exit_code == 0
    assert pages() == ["comm/ABC001-peer-silent.md", "index.md", "net/notes.md"]


def test_docs_leave_files_of_others_alone(tmp_path: Path) -> None:
    (tmp_path / "docs" / "comm").mkdir(parents=True)
    own = tmp_path / "docs" / "comm" / "ABC001-peer-silent.md"
    own.write_text("# My own\n")
    error = run("docs", "--out", tmp_path / "docs").exception
    assert isinstance(error, UsageError) and "was not made by npudiag rules docs" in error.message
    assert own.read_text() == "# My own\n"


def test_the_pages_say_what_the_rules_say(world: Path) -> None:
    pages = rule_docs.pages(load_pack([PackSource(world, None, "shipped")], with_tests=True))
    assert pages == rule_docs.pages(load_pack([PackSource(world, None, "shipped")], with_tests=True))
    row = "| [ABC002](net/ABC002-peer-gone.md) | peer-gone | Rank ‹peer› \\<silent\\> on ‹node› |"
    assert row in pages["index.md"]
    page = pages["net/ABC002-peer-gone.md"]
    assert page.startswith(rule_docs.MARK + "\n\n# ABC002 peer-gone\n")
    for part in (
        "**rank ‹peer› 无响应（‹node›）**\n",
        "hccl-timeout · critical · confidence high · trust specific · ends the job · reads `log`\n",
        "found too: [peer-silent](../comm/ABC001-peer-silent.md).\n",
        "1. Raise the limit. (env, safe)  \n   调大上限。\n   - Expect: Fewer / 减少\n",
        "   ```shell\n   export HCCL_EXEC_TIMEOUT=3600\n   ```\n",
        "2. Look at \\*it\\*. (command, review, for torch_npu)  \n",
        "````text\npeer 3 is silent for too long ```\n````\n",
        "- <https://example.org/x>\n",
    ):
        assert part in page
