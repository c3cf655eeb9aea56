"""A fingerprint is the same wherever and whenever a problem happens, and another for another problem."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from npudiag.analyze import analyze_texts
from npudiag.diagnosis.fingerprint import fingerprint, masked
from npudiag.engine.load import load_pack
from npudiag.engine.model import Rule, Text
from npudiag.result import Result

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"
JOBS = (
    "aicore-exception-one-of-eight",
    "hccl-notify-timeout-dead-peer",
    "device-oom",
    "port-conflict",
    "missing-cann",
    "process-conflict",
    "launch-script-faults",
    "profile-comm-bound",
    "slow-stretch",
)


def rule(trust: Any = "specific") -> Rule:
    return Rule(
        code="OPR101", name="op-failed", category="operator", severity="error", confidence="high", trust=trust,
        title=Text("", ""), why=Text("", ""),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "[ERROR] HCCL(4711,python3):2026-01-02-03:04:05.123.456 [a.cc:12][4712]no answer from rank[3]",
            "[ERROR] HCCL(9,python3.10):2027-12-31-23:59:59.000.001 [a.cc:12][10]no answer from rank[127]",
        ),
        ("dial 10.1.2.3:60000 failed", "dial 192.168.100.7:2 failed"),
        ("dial fe80::1:2%eth0 failed", "dial 2001:db8:0:1::5%eth0 failed"),
        ("at 2026-01-02 03:04:05,678 lost", "at 2026-11-12T13:14:15.678901+08:00 lost"),
        ("File /home/ann/run/train.py, line 7", "File /data/b/c/train.py, line 1234"),
        ("kernel MatMul_7c01f3ab done", "kernel MatMul_99e4d210 done"),
        ("id 0x12c0c002e000", "id 0x7f"),
        ("run 123e4567-e89b-12d3-a456-426614174000 ended", "run 00000000-0000-4000-8000-00000000abcd ended"),
        ("a  b\tc", "a b c"),
    ],
)
def test_what_differs_from_run_to_run_is_masked(one: str, other: str) -> None:
    assert masked(one) == masked(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("KeyError: 'spans'", "KeyError: 'tokens'"),
        ("cannot open /data/a/train.bin", "cannot open /data/a/valid.bin"),
        ("operator Add failed", "operator MatMul failed"),
        ("feedface", "deadbeef"),
    ],
)
def test_what_tells_problems_apart_is_kept(one: str, other: str) -> None:
    assert masked(one) != masked(other)


def test_hosts_do_not_count() -> None:
    assert masked("node rack9-b lost", ["rack9-b"]) == masked("node worker-0 lost", ["worker-0"])


def test_a_specific_rule_goes_by_what_its_message_names() -> None:
    def mark(**captures: Any) -> str:
        return fingerprint(rule(), captures, "whatever")

    first = mark(op="MatMul", errcode=507015, rank=3, peer_ip="10.0.0.1", step=7, node="a", seconds=1.5)
    assert first == mark(op="MatMul", errcode=507015, rank=5, peer_ip="10.0.0.9", step=8, node="b", seconds=9.5)
    assert first != mark(op="Add", errcode=507015) and first != mark(op="MatMul", errcode=507018)
    assert re.fullmatch(r"v1:[0-9a-f]{32}", first)


def test_a_catch_all_goes_by_its_wording() -> None:
    one = fingerprint(rule("envelope"), {}, "KeyError: 'spans'")
    assert one == fingerprint(rule("envelope"), {"step": 3}, "KeyError: 'spans'")
    assert one != fingerprint(rule("envelope"), {}, "KeyError: 'tokens'")


def texts(name: str) -> dict[str, str]:
    root = SAMPLES / name / "logs"
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.suffix not in (".gz", ".zip")
    }


def moved(files: dict[str, str]) -> dict[str, str]:
    """Return the same job as it would look on other machines, a year later, with lines before it."""

    def pid(match: re.Match[str]) -> str:
        return str(int(match[0]) + 1_000)

    pids = sorted({p for name in files for p in re.findall(r"plog-(\d{4,7})_", name)}, key=len, reverse=True)
    numbers = re.compile(r"(?<!\d)(?:" + "|".join(pids) + r")(?!\d)") if pids else None
    out = {}
    for name, text in files.items():
        text = re.sub(r"\b2026-", "2027-", text).replace("192.0.2.", "198.51.100.").replace("node-a", "rack7-q")
        if numbers is not None:
            name, text = numbers.sub(pid, name), numbers.sub(pid, text)
        out["other/" + name.replace("node-a", "rack7-q")] = text.replace("/home/", "/mnt/data/")
    return out


@pytest.fixture(scope="module")
def pack() -> Any:
    return load_pack()


@pytest.mark.parametrize("name", JOBS)
def test_a_job_keeps_its_fingerprints_on_other_machines(name: str, pack: Any) -> None:
    def marks(result: Result) -> dict[tuple[str, str], set[str]]:
        found: dict[tuple[str, str], set[str]] = {}
        for finding in result.findings:
            found.setdefault((finding.code, finding.name), set()).add(finding.fingerprint)
        return found

    files = texts(name)
    before, after = marks(analyze_texts(files, pack)), marks(analyze_texts(moved(files), pack))
    assert before and after == before
