"""`host` and `collect` as people run them: exit codes, table, documents, and a bundle judged by `analyze`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from vendor_outputs import FakeTools, hccn

from npudiag.__main__ import main
from npudiag.report import preflight
from npudiag.result import Result


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTools:
    for name in list(os.environ):
        if name.startswith(("HCCL", "ASCEND", "MASTER", "VLLM")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    tools = FakeTools(tmp_path, monkeypatch)
    tools.machine()
    return tools


def host(*arguments: str) -> int:
    left_out = [word for code in ("PRE1", "PRE2", "PRE602") for word in ("--ignore", code)]
    return main(["host", "--no-config", "--lang", "en", *left_out, *arguments])


def checks(path: Path) -> dict[str, dict[str, Any]]:
    document = json.loads(path.read_text())
    return {check["code"]: check for check in document["facts"]["preflight"]}


def test_the_document_lists_every_check_with_what_it_measured(tools: FakeTools, tmp_path: Path) -> None:
    assert host("--json", "r.json", "--html", "r.html") == 0
    found = checks(tmp_path / "r.json")
    assert found["PRE401"]["status"] == "pass"
    assert found["PRE401"]["measured"]["en"] == "UP x4"
    assert found["DEV"]["status"] == "pass"
    assert found["PRE605"] == {
        "code": "PRE605", "name": "torch-npu-for-other-torch", "status": "skip", "findings": [],
        "missing": found["PRE605"]["missing"],
    }  # fmt: skip
    assert found["LNT"]["status"] == "pass"
    assert "Preflight of" in (tmp_path / "r.html").read_text()


def test_every_check_has_a_label_and_a_section() -> None:
    from npudiag.engine.load import load_pack

    codes = [rule.code for rule in load_pack().rules if rule.code.startswith("PRE")]
    assert set(codes) <= preflight.LABELS.keys()
    sections = tuple(prefix for _, prefixes in preflight.SECTIONS for prefix in prefixes)
    assert all(code.startswith(sections) for code in [*codes, *preflight.LABELS])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 0),
        (["--gate"], 1),
        (["--fail-on", "error"], 1),
        (["--fail-on", "critical"], 0),
        (["--fail-on", "never"], 0),
    ],
)
def test_exit_codes_are_those_of_a_gate(tools: FakeTools, options: list[str], code: int) -> None:
    tools.answer("hccn_tool -i 1 -link -g", "link status: DOWN\n")
    assert host("-q", *options) == code


def test_a_healthy_machine_passes_the_gate(tools: FakeTools) -> None:
    assert host("-q", "--gate") == 0


def test_the_table_names_what_failed_and_what_was_not_checked(
    tools: FakeTools, capsys: pytest.CaptureFixture[str]
) -> None:
    tools.answer("hccn_tool -i 1 -link -g", "link status: DOWN\n")
    assert host("--gate") == 1
    out = capsys.readouterr().out
    assert "FAIL  Ports" in out
    assert "1 of 4 NPU network ports are down" in out
    assert "hccn_tool -i <card> -cfg recovery" in out or "hccn_tool -i $i -link_stat -g" in out
    assert "Could not be checked" in out
    assert "no torch" in out
    assert "Gate failed" in out or "gate" in out.lower()
    assert not [line for line in out.split("\n") if len(line) > 140 and "$" not in line]


def test_the_table_is_told_in_chinese(tools: FakeTools, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["host", "--no-config", "--lang", "zh"]) == 0
    out = capsys.readouterr().out
    assert "环境预检" in out
    assert "未能检查" in out


def test_one_line(tools: FakeTools, capsys: pytest.CaptureFixture[str]) -> None:
    assert host("-q") == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_the_environment_of_a_file_is_linted(tools: FakeTools, tmp_path: Path) -> None:
    (tmp_path / "job.env").write_text("HCCL_CONNECT_TIMEOUT=3600\nHCCL_EXEC_TIMEOUT=1800\nHCCL_SOCKET_IFNAME=nosuch0\n")
    assert host("--env-file", "job.env", "--json", "r.json", "-q") == 0
    found = checks(tmp_path / "r.json")
    assert found["LNT"]["status"] == "warning"
    assert found["PRE501"]["status"] == "error"


def test_a_process_gives_its_environment(tools: FakeTools, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()"],
        env={**os.environ, "HCCL_CONNECT_TIMEOUT": "3600", "HCCL_EXEC_TIMEOUT": "1800"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        process.stdout.readline()
        assert host("--pid", str(process.pid), "--json", "r.json", "-q") == 0
    finally:
        process.communicate(b"\n")
    assert checks(tmp_path / "r.json")["LNT"]["status"] == "warning"
    assert checks(tmp_path / "r.json")["PRE504"]["status"] == "skip"


@pytest.mark.parametrize(
    "arguments",
    [
        ["host", "--env-file", "none"],
        ["host", "--pid", "4194305"],
        ["host", "--pid", "1", "--env-file", "x"],
        ["host", "--json", "-", "--html", "-"],
        ["collect", "-o", "b.rar"],
        ["collect", "-o", "b.tar.zst", "--last", "soon"],
        ["collect", "-o", "b.tar.zst", "--since", "yesterday"],
        ["collect", "-o", "b.tar.zst", "--since", "2026-01-01", "--last", "2h"],
        ["collect", "-o", "b.tar.zst", "--log", "none"],
        ["collect", "-o", "none/b.tar.zst"],
        ["collect", "-o", "b.tar.zst", "--device-logs"],
    ],
)
def test_wrong_usage_is_told_and_exits_2(tools: FakeTools, arguments: list[str], tmp_path: Path) -> None:
    assert main(arguments) == 2
    assert not list(tmp_path.glob("*.tar.zst"))


def test_what_was_gathered_can_be_kept_and_analysed(tools: FakeTools, tmp_path: Path) -> None:
    tools.answer("hccn_tool -i 1 -tls -g", hccn(1, "tls").replace("switch[0]", "switch[1]"))
    assert host("--save", "kept", "-q") == 0
    assert main(["analyze", "kept", "--no-config", "--json", "a.json", "-q"]) == 0
    document = msgspec.json.decode((tmp_path / "a.json").read_bytes(), type=Result)
    (tls,) = [finding for finding in document.findings if finding.name == "npu-tls-switch-differs"]
    assert tls.evidence[0].path == "kept/host/vendor-tools.txt"
    lines = (tmp_path / "kept/host/vendor-tools.txt").read_text().split("\n")
    assert tls.evidence[0].line is not None
    assert lines[tls.evidence[0].line - 1] == tls.evidence[0].text


def test_a_bundle_is_judged_like_the_machine(
    tools: FakeTools, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.answer("hccn_tool -i 1 -link -g", "link status: DOWN\n")
    monkeypatch.setenv("MASTER_ADDR", "gpu-box-17")
    monkeypatch.setenv("HCCL_CONNECT_TIMEOUT", "3600")
    monkeypatch.setenv("HCCL_EXEC_TIMEOUT", "1800")
    monkeypatch.setenv("HF_TOKEN", "hf_AbCdEfGhIjKlMnOpQrSt")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "train.log").write_text("[rank0]: gpu-box-17 10.20.30.40\nRuntimeError: out of luck\n")
    assert main(["collect", "-o", "b.tar.zst", "--log", "logs"]) == 0
    assert "keep it, do not send it" in capsys.readouterr().out
    assert main(["analyze", "b.tar.zst", "--no-config", "--json", "a.json", "-q"]) == 0
    text = (tmp_path / "a.json").read_text()
    document = msgspec.json.decode(text, type=Result)
    names = {finding.name: finding for finding in document.findings}
    assert names["npu-port-down"].severity == "warning"
    assert names["timeouts-out-of-order"].evidence[0].path == "b.tar.zst!/host/environment.sh"
    assert not [secret for secret in ("gpu-box-17", "10.20.30.40", "hf_AbCd") if secret in text]
    kinds = {item.path.rpartition("/")[2]: item.kind for item in document.inputs}
    assert kinds["snapshot.txt"] == "host-snapshot"
    assert kinds["manifest.json"] == "bundle-manifest"
    assert kinds["environment.sh"] == "launch-script"
    assert "unknown" not in kinds.values()


def test_two_bundles_with_one_key_name_the_same_things_alike(tools: FakeTools, tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("10.20.30.40\n")
    assert main(["collect", "-o", "a.tar", "--log", "x.log"]) == 0
    assert main(["collect", "-o", "b.tar", "--log", "x.log", "--key", "a.tar.key.json"]) == 0
    assert not (tmp_path / "b.tar.key.json").exists()
    import tarfile

    found = []
    for name in ("a.tar", "b.tar"):
        with tarfile.open(tmp_path / name) as tar:
            (member,) = [info for info in tar if info.name.endswith("x.log")]
            file = tar.extractfile(member)
            assert file is not None
            found.append((member.name, file.read()))
    assert found[0] == found[1]
    assert b"10.20.30.40" not in found[0][1]


def test_logs_of_the_cards_are_exported_when_asked_for(tools: FakeTools, tmp_path: Path) -> None:
    tools.script("msnpureport", "#!/bin/sh\nmkdir -p out/slog && echo 'card 10.20.30.40' > out/slog/device-os.log\n")
    assert main(["collect", "-o", "b.tar", "--device-logs"]) == 0
    data = (tmp_path / "b.tar").read_bytes()
    assert b"out/slog/device-os.log" in data
    assert b"10.20.30.40" not in data


def test_hostile_log_trees_are_survived(tools: FakeTools, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    os.mkfifo(logs / "pipe.log")
    (tmp_path / "outside.txt").write_text("not asked for")
    (logs / "escape.log").symlink_to(tmp_path / "outside.txt")
    (logs / "loop").symlink_to(logs)
    (logs / "bad.tar.gz").write_bytes(b"\x1f\x8b\x08\0broken")
    (logs / "a\nb\x1b[31m.log").write_text("x\n")
    assert main(["collect", "-o", "b.tar", "--log", "logs"]) == 0
    data = (tmp_path / "b.tar").read_bytes()
    assert b"not asked for" not in data
    assert main(["analyze", "b.tar", "--no-config", "-q"]) == 0


def test_the_output_of_a_running_job_is_found(tools: FakeTools, tmp_path: Path) -> None:
    log = tmp_path / "train.out"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", "print('iteration 1', flush=True); input()", "--password", "hunter2"],
            stdin=subprocess.PIPE, stdout=out,
        )  # fmt: skip
        try:
            while not log.stat().st_size:
                time.sleep(0.05)
            assert main(["collect", "-o", "b.tar", "--pid", str(process.pid)]) == 0
        finally:
            process.communicate(b"\n")
    data = (tmp_path / "b.tar").read_bytes()
    assert b"/train.out" in data
    assert b"hunter2" not in data
