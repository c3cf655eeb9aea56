"""``npudiag rules new --from-line``: a pasted line becomes a rule that passes its own tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from npudiag.cli import rule_scaffold
from npudiag.cli import rules as command
from npudiag.engine.load import PackSource, load_pack, shipped_pack
from npudiag.engine.model import Rule
from npudiag.engine.testing import run_rule_test
from npudiag.errors import UsageError

SLOG = (
    "[ERROR] ACME(4711,python3):2026-01-02-03:04:05.123.456 [acme_link.cc:88] [4712][Wait][Acme]fabric lane(chipId:2) "
    "fell silent, lane id is 16, peer address 192.0.2.7:16666, mask: 0x51, waited 30.5 s"
)
LINES = {
    "slog": SLOG,
    "vllm": "(Worker_TP3 pid=5511) ERROR 07-11 02:18:40 [kv_store.py:212] Acme segment 7 lost its lease, retry 3 of 5",
    "logging": "2026-07-11 02:18:40,118 - acme.loader - ERROR - shard reader stalled: queue depth 0 for 61 s",
    "plain": "rank 3: acme fabric flap detected on port 2, lost 17 frames of file /data/acme/part-7.bin",
    "no number": "[WARNING] 2026-01-02 03:04:05 the acme daemon gave up without saying why",
    "exception": "[rank1]: RuntimeError: acme_plan:build/acme/plan.ts:102 planner refused it, error code is 507035",
    "traceback": "Traceback (most recent call last):\n"
    '  File "/opt/acme/run.py", line 12, in <module>\n'
    "    main()\n"
    "acme.errors.PlanError: no plan fits 17 lanes",
    "quotes": "[ERROR] 2026-01-02 03:04:05 it's \"quoted\": {braces} [[twice]] # hash \\d+ 'acme' took 5 ms",
    "tab": "\t[ERROR] 2026-01-02 03:04:05 acme cannot bind\tport 17",
    "chinese": "[ERROR] 2026-01-02 03:04:05 加速卡链路中断，端口 17",
}


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(command.app, ["new", "net", "ACM001", "lane-silent", *arguments], input=stdin)


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(line: str, *arguments: str) -> Rule:
    """Return the rule that is made of a line; its tests hold against all shipped rules."""
    result = run("--from-line", "-", *arguments, stdin=line)
    assert result.exit_code == 0, result.exception
    pack = load_pack([shipped_pack(), PackSource(Path("rules"), None, "command-line")], with_tests=True)
    rule = pack.by_code["ACM001"]
    for test in rule.tests:
        outcome = run_rule_test(pack, rule, test)
        assert outcome.passed, (outcome.test, outcome.mismatches)
    return rule


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_every_line_becomes_a_rule_that_passes_its_tests(line: str) -> None:
    rule = made(line)
    assert [test.findings for test in rule.tests if not test.skip] == [1, 0]
    near_miss = rule.tests[1].files[rule_scaffold.FILE]
    assert near_miss.strip() != line.strip()
    text = Path("rules/net/ACM001-lane-silent.yaml").read_text(encoding="utf-8")
    assert text.count("# fill in") == 3


def test_a_line_of_cann_gives_texts_captures_level_and_module() -> None:
    rule = made(SLOG)
    (signature,) = rule.signatures
    assert signature.where.level == ("ERROR",) and signature.where.module == ("ACME",)
    assert all(text in SLOG and not re.search(r"\d", text) for text in signature.all)
    captures = rule.tests[0].captures
    assert captures == {"chip_id": 2, "lane_id": 16, "address": "192.0.2.7:16666", "mask": "0x51", "waited": 30.5}
    assert signature.types["lane_id"] == "int" and "4711" not in (signature.regex or "")
    assert rule.severity == "error" and "{lane_id}" in rule.title.en and "{lane_id}" in rule.title.zh
    assert rule.tests[1].files[rule_scaffold.FILE].startswith("[INFO] ACME(")


def test_a_known_code_stays_and_a_source_line_does_not_count() -> None:
    (signature,) = made(LINES["exception"]).signatures
    assert any("507035" in text for text in signature.all)
    assert "102" not in "".join(signature.all) + (signature.regex or "")


def test_captures_do_not_say_whom_it_is_about_by_accident() -> None:
    rule = made(LINES["plain"])
    assert "rank_seen" in rule.tests[0].captures and "file_seen" in rule.tests[0].captures


def test_rare_texts_are_preferred() -> None:
    line = "[ERROR] 2026-01-02 03:04:05 run task failed on lane, the acme weaver lost its thread 7"
    plain = rule_scaffold.read(line, [])
    drilled = rule_scaffold.read(line, ["the acme weaver lost its thread"] * 3)
    assert plain.literals != drilled.literals
    assert not any("weaver lost" in text for text in drilled.literals[:1])


def test_a_line_that_is_known_already_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    known = load_pack([shipped_pack()], with_tests=True).by_name["vector-core-exception"]
    sample = next(test for test in known.tests if test.findings == 1 and test.files)
    line = next(iter(sample.files.values())).splitlines()[0]
    result = run("--from-line", line)
    assert result.exit_code == 0, result.exception
    assert f"{known.code} {known.name} reports this line already" in result.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("\n \n", "there is no line to begin with"),
        ("12 34 0x5", "nothing in this line"),
        ("[ERROR] 2026-01-02 03:04:05 acme\n" * 100, "this is more than one record"),
    ],
)
def test_what_makes_no_rule_is_refused(line: str, message: str) -> None:
    error = run("--from-line", "-", stdin=line).exception
    assert isinstance(error, UsageError) and message in error.message
    assert not Path("rules").exists()


def test_without_a_line_the_scaffold_passes_too() -> None:
    assert run().exit_code == 0
    pack = load_pack([shipped_pack(), PackSource(Path("rules"), None, "command-line")], with_tests=True)
    rule = pack.by_code["ACM001"]
    assert all(run_rule_test(pack, rule, test).passed for test in rule.tests)
