"""The command line end to end: outputs, exit codes, hostile input."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from npudiag.result import SCHEMA_VERSION, json_schema

FAULT = (
    "[ERROR] RUNTIME(4711,python3):2026-01-02-03:04:05.123.456 [device_error_proc.cc:1434]4712 "
    "ProcessStarsCoreErrorInfo:The error from device(chipId:2, dieId:0), serial number is 3, there is an aivec error "
    "exception, core id is 16, error code = 0x200000000, dump info: pc start: 0x12c0c002e000, current: 0x12c0c002e5e8, "
    "vec error info: 0x51, mte error info: 0xb9, ifu error info: 0x29, ccu error info: 0xc7, cube error info: 0, "
    "biu error info: 0, aic error mask: 0x65, para base: 0x12c1.\n"
)
QUIET = "[INFO] HCCL(4711,python3):2026-01-02-03:04:05.123.456 [a.cc:1][4711]all is well\n"


def npudiag(
    *args: object, cwd: Path | None = None, stdin: bytes = b"", env: Mapping[str, str] | None = None, timeout: int = 120
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "npudiag", *map(str, args)],
        capture_output=True,
        cwd=cwd,
        input=stdin,
        env={**os.environ, "NPUDIAG_LANG": "en", "GITHUB_ACTIONS": "", **(env or {})},
        timeout=timeout,
        check=False,
    )


def analyze(path: Path, *args: object) -> tuple[int, dict[str, Any]]:
    done = npudiag("analyze", path, "--json", "-", *args)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    result = json.loads(done.stdout)
    jsonschema.validate(result, json_schema())
    return done.returncode, result


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    log = folder / "worker-0" / "debug" / "plog" / "plog-4711_20260102030405678.log"
    log.parent.mkdir(parents=True)
    log.write_text(QUIET * 20 + FAULT + QUIET * 5)
    return folder


def test_analyze_names_the_cause_and_exits_0(job: Path) -> None:
    code, result = analyze(job)
    assert code == 0
    assert result["schema"] == SCHEMA_VERSION
    root = result["findings"][0]
    assert root["category"] == "aicore-exception" and root["role"] == "root"
    proof = root["evidence"][0]
    assert (proof["path"], proof["line"]) == ("job/worker-0/debug/plog/plog-4711_20260102030405678.log", 21)
    assert proof["text"] in FAULT
    assert root["scope"]["nodes"] == ["worker-0"]
    assert any(remedy["text"] for remedy in root["remedies"])
    assert result["verdict"]["status"] == "findings"


def test_the_gate_fails_on_it_and_lets_the_quiet_pass(job: Path, tmp_path: Path) -> None:
    assert npudiag("gate", job).returncode == 1
    assert npudiag("gate", job, "--fail-on", "never").returncode == 0
    code = npudiag("gate", job, "--fail-on", "never", "--fail-on-rule", "AIC")
    assert code.returncode == 1
    quiet = tmp_path / "quiet.log"
    quiet.write_text(QUIET * 30)
    assert npudiag("gate", quiet).returncode == 0
    document = tmp_path / "result.json"
    assert npudiag("gate", job, "--json", document).returncode == 1
    assert json.loads(document.read_bytes())["findings"]


def test_nothing_recognised_is_never_green(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for path in (empty, tmp_path / "list.txt"):
        if path.suffix:
            path.write_text("milk\nbread\n")
        for verb in ("analyze", "gate"):
            document = tmp_path / "out.json"
            done = npudiag(verb, path, "--json", document)
            assert done.returncode == 3, done
            assert json.loads(document.read_bytes())["verdict"]["status"] == "nothing-recognised"
            document.unlink()


def test_usage_errors_exit_2(job: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "bad.toml").write_text("colour = 1\n")
    for args in (
        ["analyze"],
        ["analyze", tmp_path / "not-there"],
        ["analyze", job, "--nonsense"],
        ["analyze", job, "--json", "-", "--html", "-"],
        ["analyze", job, "--json", tmp_path / "no" / "folder.json"],
        ["analyze", job, "--select", "QQQ"],
        ["analyze", job, "--rules", tmp_path / "not-there"],
        ["analyze", job, "--config", tmp_path / "bad.toml"],
        ["gate", job, "--fail-on", "sometimes"],
        ["query", job, "drop table log"],
        ["query", job, "select * from read_csv('/etc/passwd')"],
        ["render", tmp_path / "bad.json"],
        ["frobnicate"],
        [],
    ):
        done = npudiag(*args)
        assert done.returncode == 2, (args, done)
        assert b"Traceback" not in done.stderr


def test_an_internal_error_exits_4_and_never_1(job: Path, tmp_path: Path) -> None:
    broken = tmp_path / "site" / "sitecustomize.py"
    broken.parent.mkdir()
    broken.write_text("import npudiag.analyze as a\ndef boom(*x, **y): raise ValueError('boom')\na.conclude = boom\n")
    done = npudiag("gate", job, env={"PYTHONPATH": os.pathsep.join([str(broken.parent), *sys.path])})
    assert done.returncode == 4
    assert b"boom" in done.stderr and b"Traceback" not in done.stderr


def test_incomplete_input_is_4_for_the_gate_and_under_strict_only(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "a.log").write_text(QUIET * 30)
    data = gzip.compress(b"".join(QUIET.encode()[:-1] + os.urandom(20).hex().encode() + b"\n" for _ in range(5000)))
    (folder / "b.log.gz").write_bytes(data[: len(data) // 2])
    code, result = analyze(folder)
    assert code == 0
    assert not result["coverage"]["complete"]
    assert [problem["path"] for problem in result["coverage"]["problems"]] == ["job/b.log.gz"]
    assert npudiag("analyze", folder, "--strict").returncode == 4
    assert npudiag("gate", folder).returncode == 4
    assert npudiag("gate", folder, "--allow-incomplete").returncode == 0


def test_several_outputs_at_once_and_rendering_again(job: Path, tmp_path: Path) -> None:
    document, page, again = tmp_path / "r.json", tmp_path / "r.html", tmp_path / "again.html"
    assert npudiag("analyze", job, "--json", document, "--html", page, "-q").returncode == 0
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")
    assert npudiag("render", document, "--html", again).returncode == 0
    assert again.read_text() == page.read_text()
    assert npudiag("render", document, "--json", tmp_path / "r2.json").returncode == 0
    assert json.loads((tmp_path / "r2.json").read_bytes()) == json.loads(document.read_bytes())


def test_stdout_is_plain_and_quiet_is_one_line(job: Path) -> None:
    done = npudiag("analyze", job)
    assert b"\x1b" not in done.stdout
    assert done.stderr == b""
    assert done.stdout.count(b"\n") <= 60
    assert npudiag("analyze", job, "-q").stdout.count(b"\n") == 1
    assert len(npudiag("analyze", job, "-vv").stdout) >= len(done.stdout)


def test_both_languages(job: Path) -> None:
    assert "任务失败" in npudiag("analyze", job, "--lang", "zh").stdout.decode()
    assert "任务失败" in npudiag("analyze", job, env={"NPUDIAG_LANG": "zh"}).stdout.decode()
    assert b"Job failed" in npudiag("analyze", job, "--lang", "en", env={"NPUDIAG_LANG": "zh"}).stdout


def test_standard_input(job: Path) -> None:
    done = npudiag("analyze", "-", "--json", "-", stdin=(QUIET + FAULT).encode())
    result = json.loads(done.stdout)
    assert result["findings"][0]["evidence"][0]["path"] == "-"
    assert result["findings"][0]["evidence"][0]["line"] == 2


def test_query(job: Path) -> None:
    done = npudiag(
        "query", job, "select level, sum(count) as n from log_counts group by level order by n", "--format", "csv"
    )
    assert done.stdout.decode().replace("\r", "") == "level,n\nERROR,1.0\nINFO,25.0\n"
    listing = npudiag("query", job)
    assert b"log_counts" in listing.stdout and listing.returncode == 0


def test_nothing_is_written_into_the_analysed_folder_and_no_config_read_from_it(job: Path) -> None:
    (job / "npudiag.toml").write_text('ignore = ["AIC"]\n')
    before = {path: path.stat().st_mtime_ns for path in job.rglob("*")}
    done = npudiag("gate", job, cwd=job)
    assert done.returncode == 1
    assert {path: path.stat().st_mtime_ns for path in job.rglob("*")} == before


def test_suppressions_and_selection_from_the_configuration(job: Path, tmp_path: Path) -> None:
    (tmp_path / "npudiag.toml").write_text(
        '[[suppress]]\nrule = "AIC"\nreason = "known kernel bug"\n[[suppress]]\nrule = "HCC"\nreason = "old"\n'
    )
    done = npudiag("gate", job, "--json", "-", cwd=tmp_path)
    result = json.loads(done.stdout)
    assert done.returncode == 0
    assert next(finding["suppressed"] for finding in result["findings"]) == {"reason": "known kernel bug"}
    assert result["facts"]["unused_suppressions"] == ["HCC (old): nothing to suppress"]
    chosen = json.loads(npudiag("gate", job, "--json", "-", "--select", "AIC", cwd=tmp_path).stdout)
    assert "unused_suppressions" not in chosen["facts"], "what was not to look may well be needed elsewhere"
    assert b"Unused suppression: HCC (old)" in npudiag("analyze", job, cwd=tmp_path).stdout
    assert npudiag("gate", job, "--no-config", cwd=tmp_path).returncode == 1


def test_hostile_files_leave_the_rest_analysed(job: Path, tmp_path: Path) -> None:
    (job / "nul.log").write_bytes(b"\0" * 100_000)
    (job / "endless.log").write_bytes(b"ERROR " + b"x" * (8 << 20))
    (job / "utf8.log").write_bytes(b"\xff\xfe\xfd ascend \xc3\x28 npu\n" * 100)
    (job / "utf16.log").write_bytes("torch_npu starts\n".encode("utf-16"))
    (job / "markup.log").write_text("npu </script><script>alert(1)</script>\x1b[31m\n" * 5)
    os.mkfifo(job / "pipe.log")
    (job / "loop").symlink_to(job)
    (job / "outside.log").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("ERROR npu secret")
    with zipfile.ZipFile(job / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("zeros.log", b"\0" * (200 << 20))
    with tarfile.open(job / "escape.tar", "w") as tar:
        info = tarfile.TarInfo("../../evil.log")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"npu!\n"))
    (job / "half.tar.gz").write_bytes(gzip.compress(b"not a tar" * 1000)[:50])
    code, result = analyze(job)
    assert code == 0
    assert result["findings"][0]["category"] == "aicore-exception"
    reasons = {problem["path"].split("!")[0]: problem["reason"] for problem in result["coverage"]["problems"]}
    assert reasons["job/pipe.log"] == "special"
    assert reasons["job/loop"] == "loop"
    assert "job/escape.tar" in reasons
    assert reasons["job/outside.log"] == "escape"
    assert "job/bomb.zip" in reasons or any("bomb" in item["path"] for item in result["inputs"])
    assert not (tmp_path / "evil.log").exists()
    assert "secret" not in json.dumps(list(result["findings"]))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_reported(job: Path) -> None:
    locked = job / "locked.log"
    locked.write_text(QUIET)
    locked.chmod(0)
    try:
        _, result = analyze(job)
    finally:
        locked.chmod(stat.S_IRUSR | stat.S_IWUSR)
    assert [problem["reason"] for problem in result["coverage"]["problems"]] == ["unreadable"]


def test_the_schema_command_line_and_python_agree(job: Path) -> None:
    import npudiag as package

    loaded = package.load(job)
    _, result = analyze(job)
    assert [finding.code for finding in loaded.findings] == [finding["code"] for finding in result["findings"]]
    table = loaded.table("log_counts")
    assert int(table["count"].sum()) == 26
    assert int(loaded.query("select count(*) as n from log where level = 'ERROR'")["n"][0]) == 1
