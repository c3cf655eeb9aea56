"""Recorded problem reports and healthy runs, where a folder with them is at hand.

Set ``NPUDIAG_CASES`` to a folder whose subfolders hold an input and an ``expected.json``:

``input``
    Name of the file or folder to analyse.
``category``, ``severity_floor``, ``severity_ceiling``
    What the first finding must be of, and how grave at least and at most.
``quiet``, ``max_severity``
    Nothing graver than that may be reported, and the input must have been recognised.

Whatever is found, its proof must be true: quoted text stands in that line of that file.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from npudiag.__main__ import main
from npudiag.result import SEVERITIES, Evidence, Result, decode

MIN_SHARE = 0.90
"""Share of cases that must be right; raised as the rules grow, never lowered."""

JUNK = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\^\[\[[0-9;]*m|\^M|[\x00-\x1f\x7f\ufeff]")
CASES = Path(os.environ.get("NPUDIAG_CASES") or "no-such-folder")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CASES.is_dir(), reason="NPUDIAG_CASES names no folder of recorded cases"),
]


def squeezed(text: str) -> str:
    """Text without colours, control characters and runs of white space."""
    return " ".join(JUNK.sub(" ", text).split())


def lines_of(path: Path) -> list[str]:
    data = path.read_bytes()
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace").split("\n")
    try:
        return data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return data.decode("gb18030", "replace").split("\n")


def untrue(evidence: Evidence, base: Path) -> str:
    """Say what is wrong with a piece of evidence; empty where it is true."""
    if evidence.kind != "log" or evidence.path is None or evidence.line is None:
        return ""
    path = base / evidence.path
    if not path.is_file():
        return f"there is no file {evidence.path}"
    lines = lines_of(path)
    if not 0 < evidence.line <= len(lines):
        return f"{evidence.path} has no line {evidence.line}"
    quoted = squeezed(evidence.text or "").removesuffix("…").strip()
    there = squeezed("\n".join(lines[evidence.line - 1 : evidence.line + 29]))
    if quoted[:80] not in there:
        return f"{evidence.path}:{evidence.line} does not say {quoted[:60]!r}"
    return ""


def miss(expected: dict[str, Any], result: Result, base: Path) -> str:
    """Say what is wrong with an answer; empty where it is right."""
    findings = [finding for finding in result.findings if finding.status == "fail"]
    for finding in findings:
        for evidence in finding.evidence[:20]:
            if false := untrue(evidence, base):
                return f"{finding.code}: {false}"
    if expected.get("quiet"):
        limit = SEVERITIES.index(expected.get("max_severity", "info"))
        loud = [finding for finding in findings if SEVERITIES.index(finding.severity) > limit]
        if loud:
            return "should be quiet, but: " + ", ".join(f"{finding.code} {finding.severity}" for finding in loud[:3])
        known = any(each.kind not in ("", "unknown", "skipped") for each in result.inputs)
        return "" if known else "quiet only because the input was not recognised"
    wanted = "/".join(expected["category"])
    if not findings:
        return f"nothing found, want {wanted}"
    first = findings[0]
    if first.category not in expected["category"]:
        return f"first finding is {first.code} {first.category}, want {wanted}"
    severity = SEVERITIES.index(first.severity)
    if severity < SEVERITIES.index(expected["severity_floor"]):
        return f"{first.code} is {first.severity}, want at least {expected['severity_floor']}"
    if severity > SEVERITIES.index(expected.get("severity_ceiling", "critical")):
        return f"{first.code} is {first.severity}, want at most {expected['severity_ceiling']}"
    return ""


def test_share_of_cases_that_are_right(tmp_path: Path) -> None:
    cases = sorted(path.parent for path in CASES.glob("*/expected.json"))
    assert cases, f"no case in {CASES}"
    misses: dict[str, str] = {}
    broken: dict[str, int] = {}
    for case in cases:
        expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))
        target = case / expected["input"]
        out = tmp_path / f"{case.name}.json"
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = main(["analyze", str(target), "--json", str(out), "--no-config"])
        if code not in (0, 3) or not out.is_file():
            broken[case.name] = code
        elif wrong := miss(expected, decode(out.read_bytes()), target.parent):
            misses[case.name] = wrong
    right = len(cases) - len(misses) - len(broken)
    for name, wrong in misses.items():
        print(f"{name}: {wrong}")
    print(f"{right} of {len(cases)} cases right ({100 * right / len(cases):.1f} %)")
    assert not broken, f"exit codes of cases whose analysis broke: {broken}"
    assert right >= MIN_SHARE * len(cases), f"{right} of {len(cases)} right, want {MIN_SHARE:.0%}"
