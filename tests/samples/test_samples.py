"""The sample jobs: they are what their generator writes, and npudiag finds in them what it should."""

from __future__ import annotations

import contextlib
import fnmatch
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from npudiag.result import SEVERITIES, Finding, Result, decode

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_logs"
CASES = sorted(path.parent.name for path in SAMPLES.glob("*/case.yaml"))
VARIED = (
    "hccl-notify-timeout-dead-peer",
    "aicore-exception-one-of-eight",
    "ecc-heartbeat-loss",
    "pipeline-chain-dead-peer",
    "skewed-clocks",
)
JUNK = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|[\x00-\x1f\x7f\ufeff]")


def analyze(target: Path, tmp: Path) -> Result:
    """Run ``npudiag analyze`` as a user would and return the result document."""
    out = tmp / "result.json"
    done = subprocess.run(
        [sys.executable, "-m", "npudiag", "analyze", str(target), "--json", str(out)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "NPUDIAG_LANG": "en"},
        check=False,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stderr[-2000:]}"
    return decode(out.read_bytes())


@cache
def expectation(name: str) -> dict[str, Any]:
    case: dict[str, Any] = yaml.safe_load((SAMPLES / name / "case.yaml").read_text(encoding="utf-8"))
    return case


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    """Results of the committed samples, each analysed once."""
    known: dict[str, Result] = {}

    def result(name: str) -> Result:
        if name not in known:
            target = SAMPLES / name / expectation(name)["input"]
            known[name] = analyze(target, tmp_path_factory.mktemp("result"))
        return known[name]

    return result


def failing(result: Result) -> list[Finding]:
    return [f for f in result.findings if f.status == "fail" and f.suppressed is None]


def describe(result: Result) -> str:
    """Return the findings in short form, for the message of a failed assertion."""
    return "; ".join(
        f"{f.role} {f.code} {f.name} [{f.category}, {f.severity}] ranks={f.scope.ranks} devices={f.scope.devices} "
        f"nodes={f.scope.nodes}"
        for f in result.findings
    )


def worse_than(severity: str, limit: str) -> bool:
    order: tuple[str, ...] = SEVERITIES
    return order.index(severity) > order.index(limit)


def squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", JUNK.sub(" ", text)).strip()


def readings(line: str) -> list[str]:
    """Return the line as it stands, and what a container runtime wrapped in it."""
    found = [squeeze(line)]
    if line.lstrip().startswith("{"):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            found.append(squeeze(str(json.loads(line)["log"])))
    return found


def lines_of(path: Path) -> list[str]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return data.decode("utf-8", "replace").split("\n")


def assert_true(finding: Finding, parent: Path) -> None:
    """Every piece of log evidence stands in its file at its line."""
    for evidence in finding.evidence:
        if evidence.kind != "log" or evidence.path is None or evidence.line is None:
            continue
        file = parent / evidence.path.split("!", 1)[0]
        assert file.is_file(), f"{finding.code}: no file {evidence.path}"
        lines = lines_of(file)
        assert 1 <= evidence.line <= len(lines), f"{finding.code}: {evidence.path} has no line {evidence.line}"
        wanted = squeeze((evidence.text or "").split("\n", 1)[0])
        assert wanted, f"{finding.code}: evidence without text"
        line = lines[evidence.line - 1]
        place = f"{finding.code}: {evidence.path}:{evidence.line}"
        assert any(wanted in reading for reading in readings(line)), f"{place} is {line[:160]!r}, not {wanted[:160]!r}"


def assert_root(root: Finding, wanted: dict[str, Any], shown: str) -> None:
    """The first finding is what the case asks for."""
    if "names" in wanted:
        assert root.name in wanted["names"], shown
    if "category" in wanted:
        assert root.category in wanted["category"], shown
    assert not worse_than(wanted["min_severity"], root.severity), shown
    assert root.role == "root", shown
    for key in ("ranks", "devices", "nodes"):
        if key in wanted:
            assert getattr(root.scope, key) == wanted[key], f"{key}: {shown}"
    for piece in wanted.get("evidence", []):
        texts = piece["contains"].split("|")
        assert any(
            fnmatch.fnmatch(e.path or "", piece["file"]) and any(text in (e.text or "") for text in texts)
            for e in root.evidence
        ), f"no evidence {piece}: {[(e.path, e.line, (e.text or '')[:120]) for e in root.evidence]}"
    if wanted.get("collect"):
        assert root.collect, f"nothing to collect: {shown}"
    else:
        assert root.remedies, f"no remedy: {shown}"


def test_there_are_samples() -> None:
    assert len(CASES) >= 14


def test_committed_samples_are_what_the_generator_writes(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, str(SAMPLES / "generate.py"), "--out", str(tmp_path)],
        check=True,
        capture_output=True,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "TZ": "Asia/Shanghai", "LC_ALL": "C"},
    )
    fresh = {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    kept = {
        str(p.relative_to(SAMPLES)): p.read_bytes()
        for name in CASES
        for p in (SAMPLES / name).rglob("*")
        if p.is_file()
    }
    assert sorted(fresh) == sorted(kept)
    assert [name for name in fresh if fresh[name] != kept[name]] == []


def test_samples_are_small() -> None:
    sizes = {name: sum(p.stat().st_size for p in (SAMPLES / name).rglob("*") if p.is_file()) for name in CASES}
    assert {name: size for name, size in sizes.items() if size > 400_000} == {}
    # Forty jobs are cloned and packed with every source archive.
    assert sum(sizes.values()) <= 3_600_000


@pytest.mark.parametrize("name", CASES)
def test_case_is_diagnosed(name: str, results: Callable[[str], Result]) -> None:
    expect = expectation(name)["expect"]
    result = results(name)
    shown = describe(result)
    assert result.errors == []
    assert result.coverage.complete, result.coverage.problems
    assert result.verdict.status == expect["verdict"], f"{result.verdict.text} | {shown}"
    found = failing(result)
    if "max_severity" in expect:
        limit = expect["max_severity"]
        loud = [f"{f.code} {f.name} {f.severity}: {f.title}" for f in found if worse_than(f.severity, limit)]
        assert loud == []
    if "root" in expect:
        assert found, "nothing found"
        assert_root(found[0], expect["root"], shown)
    for wanted in expect.get("consequences", []):
        assert any(wanted in (f.name, f.category) and f.role == "consequence" for f in found[1:]), f"{wanted}: {shown}"
    for unwanted in expect.get("must_not", []):
        blamed = [f for f in found if f.role != "consequence" and f.severity != "info"]
        assert not any(unwanted in (f.name, f.category) for f in blamed), f"{unwanted}: {shown}"


@pytest.mark.parametrize("name", CASES)
def test_evidence_is_true(name: str, results: Callable[[str], Result]) -> None:
    for finding in results(name).findings:
        assert_true(finding, SAMPLES / name)


@pytest.mark.parametrize("name", CASES)
def test_evidence_shows_what_matched(name: str, results: Callable[[str], Result]) -> None:
    """The first piece is one telling line, or an excerpt in which the words that matched can be seen."""
    for finding in failing(results(name)):
        quoted = [e for e in finding.evidence if e.kind == "log" and e.text]
        if quoted and "\n" in (quoted[0].text or ""):
            place = f"{finding.code}: {quoted[0].path}:{quoted[0].line} {quoted[0].text!r}"
            assert any(mark in (quoted[0].text or "") for mark in quoted[0].highlights), place


@pytest.mark.parametrize("name", CASES)
def test_texts_are_complete(name: str, results: Callable[[str], Result]) -> None:
    for finding in results(name).findings:
        chinese = finding.i18n["zh"]
        for text in (finding.title, finding.summary, chinese["title"], chinese["summary"]):
            assert text.strip()
            assert not re.search(r"\{[a-z_]+\}|\[\[|\]\]", text), f"{finding.code}: {text}"


def _renamed(source: Path, target: Path) -> None:
    """Other names, so that files are met in another order; ranks in names stay."""
    for file in sorted((p for p in source.rglob("*") if p.is_file()), reverse=True):
        name = re.sub(r"^plog-(\d+)_", lambda m: f"plog-{999_999 - int(m[1])}_", file.name)
        name = re.sub(r"^train\.log$", "00_console.log", name)
        other = target / file.relative_to(source).with_name(name)
        other.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, other)


def _crlf(source: Path, target: Path) -> None:
    """Windows line ends."""
    shutil.copytree(source, target)
    for file in (p for p in target.rglob("*") if p.is_file() and p.suffix != ".gz"):
        file.write_bytes(file.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))


def _gzipped(source: Path, target: Path) -> None:
    """Every file compressed."""
    shutil.copytree(source, target)
    for file in [p for p in target.rglob("*") if p.is_file() and p.suffix != ".gz"]:
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()


def _packed(source: Path, target: Path) -> None:
    """Everything in one archive."""
    target.mkdir()
    with tarfile.open(target / "job.tar.gz", "w:gz") as archive:
        archive.add(source, arcname="logs")


def _split(source: Path, target: Path) -> None:
    """Process logs cut in two at a line, as the log ring does; the console as logrotate does."""
    shutil.copytree(source, target)
    for file in sorted(p for p in target.rglob("*.log") if p.is_file()):
        lines = file.read_bytes().splitlines(keepends=True)
        starts = [n for n, line in enumerate(lines) if line.startswith((b"[", b" ["))]
        if len(starts) < 6:
            continue
        cut = starts[len(starts) // 2]
        head, tail = b"".join(lines[:cut]), b"".join(lines[cut:])
        ring = re.fullmatch(r"(.*_)(\d{17})(\.log)", file.name)
        if ring:
            file.write_bytes(head)
            file.with_name(f"{ring[1]}{int(ring[2]) + 1}{ring[3]}").write_bytes(tail)
        else:
            file.with_name(f"{file.name}.1").write_bytes(head)
            file.write_bytes(tail)


VARIATIONS = {"renamed": _renamed, "crlf": _crlf, "gzip": _gzipped, "tar": _packed, "split": _split}


@pytest.mark.slow
@pytest.mark.parametrize("variation", VARIATIONS)
@pytest.mark.parametrize("name", VARIED)
def test_the_answer_does_not_depend_on_packaging(
    name: str, variation: str, results: Callable[[str], Result], tmp_path: Path
) -> None:
    target = tmp_path / "job" / "logs"
    target.parent.mkdir()
    VARIATIONS[variation](SAMPLES / name / "logs", target)
    plain, varied = failing(results(name)), failing(analyze(target, tmp_path))
    assert varied, "nothing found"
    assert (varied[0].code, varied[0].scope.ranks, varied[0].scope.devices) == (
        plain[0].code,
        plain[0].scope.ranks,
        plain[0].scope.devices,
    )
    if variation != "tar":
        for finding in varied:
            assert_true(finding, target.parent)
