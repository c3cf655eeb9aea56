"""The life of a baseline: created, matched, worsened, expired, stale, pruned."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from gate_runs import fault, npudiag, quiet, write_job

from npudiag.diagnosis import baseline as keeping
from npudiag.errors import ConfigError
from npudiag.result import Finding, Passed, Result, Skipped, Tool, Verdict

TODAY = datetime.date(2026, 11, 30)


def finding(mark: str = "v1:a", *, severity: Any = "error", occurrences: int = 10, name: str = "one-rule") -> Finding:
    return Finding(
        id="f1", code="HCC101", name=name, category="hccl-timeout", severity=severity, confidence="high",
        title=f"title of {mark}", occurrences=occurrences, fingerprint=mark,
    )  # fmt: skip


def run(*findings: Finding, **more: Any) -> Result:
    return Result(tool=Tool(version="0"), verdict=Verdict(text="", status="findings"), findings=list(findings), **more)


def accepted(*findings: Finding, until: datetime.date | None = None) -> keeping.Baseline:
    return keeping.create(run(*findings), reason="known", until=until, today=TODAY)


def compare(result: Result, base: keeping.Baseline, today: datetime.date = TODAY) -> keeping.Comparison:
    return keeping.apply(result, base, "b.json", today)


def test_the_known_is_set_aside_and_the_new_is_not() -> None:
    result = run(finding(), finding("v1:b"))
    comparison = compare(result, accepted(finding()))
    assert comparison.known == 1 and [item.fingerprint for item in comparison.new] == ["v1:b"]
    assert result.findings[0].suppressed == {"reason": "known", "by": "baseline"}
    assert result.findings[1].suppressed is None
    assert "title of v1:b" in result.verdict.text


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (finding(severity="critical"), "severity error -> critical"),
        (finding(occurrences=13), "occurrences 10 -> 13"),
        (finding(occurrences=12), ""),
        (finding(severity="warning", occurrences=3), ""),
    ],
)
def test_worse_than_known_fails(now: Finding, why: str) -> None:
    comparison = compare(run(now), accepted(finding()))
    assert [item.why for item in comparison.worsened] == ([why] if why else [])
    assert (now.suppressed is None) == bool(why)


def test_findings_of_one_fingerprint_are_counted_together() -> None:
    base = accepted(finding(), finding())
    assert base.findings[0].count == 20
    assert compare(run(finding(occurrences=5), finding(occurrences=15)), base).known == 2
    assert compare(run(finding(), finding(), finding()), base).worsened


def test_the_expired_counts_again() -> None:
    base = accepted(finding(), until=TODAY)
    assert compare(run(finding()), base).known == 1
    late = run(finding())
    comparison = compare(late, base, TODAY + datetime.timedelta(days=1))
    assert late.findings[0].suppressed is None and comparison.expired[0].why == "expired on 2026-11-30"


def test_only_a_rule_that_could_judge_makes_an_entry_stale() -> None:
    base = accepted(finding())
    assert compare(run(passed=[Passed(code="HCC101", name="one-rule")]), base).stale[0].code == "HCC101"
    assert compare(run(finding("v1:other")), base).stale
    assert not compare(run(skipped=[Skipped(code="HCC101", name="one-rule", missing=["log"])]), base).stale
    assert not compare(run(), base).stale, "the rule was not selected"
    assert keeping.stale(base, run(), rules={"another-rule"}), "the rule is gone"


def test_what_is_suppressed_otherwise_stays_out() -> None:
    other = finding()
    other.suppressed = {"reason": "config"}
    assert accepted(other).findings == []
    result = run(other)
    compare(result, accepted(finding()))
    assert result.findings[0].suppressed == {"reason": "config"}


def test_update_keeps_reasons_and_what_changed_little() -> None:
    base = accepted(finding(), finding("v1:b"))
    later = TODAY + datetime.timedelta(days=9)
    now = run(finding(occurrences=11), finding("v1:b", severity="critical"), finding("v1:c"))
    after, changed = keeping.update(base, now, reason="newer", until=None, today=later)
    entries = {entry.fingerprint: entry for entry in after.findings}
    assert changed == 2
    assert entries["v1:a"] == base.findings[0]
    assert (entries["v1:b"].severity, entries["v1:b"].reason, entries["v1:b"].first_seen) == (
        "critical", "known", "2026-11-30",
    )  # fmt: skip
    assert (entries["v1:c"].reason, entries["v1:c"].first_seen) == ("newer", "2026-12-09")


def test_update_renews_the_expired() -> None:
    base = accepted(finding(), until=TODAY)
    after, changed = keeping.update(
        base, run(finding()), reason="again", until=None, today=TODAY + datetime.timedelta(days=1)
    )
    assert changed == 1 and after.findings[0].reason == "again" and after.findings[0].until is None


def test_prune_drops_the_stale_and_the_expired() -> None:
    base = keeping.Baseline(
        findings=[*accepted(finding(), finding("v1:b")).findings, *accepted(finding("v1:c"), until=TODAY).findings]
    )
    tomorrow = TODAY + datetime.timedelta(days=1)
    after, dropped = keeping.prune(base, run(finding(), finding("v1:c")), {"one-rule"}, tomorrow)
    assert [entry.fingerprint for entry in after.findings] == ["v1:a"]
    assert {entry.fingerprint for entry in dropped} == {"v1:b", "v1:c"}


def test_the_file_is_sorted_and_has_one_entry_a_line(tmp_path: Path) -> None:
    base = accepted(finding("v1:b"), finding("v1:a"), finding("v1:c", name="aaa"))
    base.metrics = {"loss": {"p50": 2.0, "last": 1.5}, "a": {"n": 3.0}}
    data = keeping.dump(base)
    path = tmp_path / "b.json"
    path.write_bytes(data)
    loaded = keeping.load(path)
    assert [entry.fingerprint for entry in loaded.findings] == ["v1:c", "v1:a", "v1:b"]
    assert loaded.metrics == base.metrics and keeping.dump(loaded) == data
    lines = data.decode().splitlines()
    assert sum('"fingerprint"' in line for line in lines) == 3
    for line in lines:
        if '"fingerprint"' in line:
            json.loads(line.strip().rstrip(","))
    path.write_bytes(keeping.dump(keeping.Baseline()))
    assert keeping.load(path) == keeping.Baseline()


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"schema": 2}',
        '{"findings": [{"fingerprint": "v1:a"}]}',
        '{"findings": [{"fingerprint": "v0:a", "code": "A", "rule": "a", "title": "", "severity": "error", '
        '"first_seen": ""}]}',
        '{"findings": [{"fingerprint": "v1:a", "code": "A", "rule": "a", "title": "", "severity": "error", '
        '"first_seen": "", "until": "soon"}]}',
        "\ufeff\x00",
        "[" * 100_000,
    ],
)
def test_a_file_that_is_no_baseline_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError):
        keeping.load(path)


def test_the_life_cycle_on_the_command_line(tmp_path: Path) -> None:
    job = write_job(tmp_path / "job", quiet() * 20 + fault())
    file = tmp_path / "npudiag-baseline.json"
    assert npudiag("gate", job, cwd=tmp_path).returncode == 1
    done = npudiag("baseline", "create", job, "--reason", "kernel bug, ticket 12", cwd=tmp_path)
    assert done.returncode == 0 and "known findings" in done.stdout
    assert npudiag("baseline", "create", job, cwd=tmp_path).returncode == 2, "it is not overwritten"
    done = npudiag("gate", job, "--baseline", file, "--json", "out.json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "set aside" in done.stdout.splitlines()[0]
    document = json.loads((tmp_path / "out.json").read_bytes())
    assert document["findings"][0]["suppressed"] == {"reason": "kernel bug, ticket 12", "by": "baseline"}
    assert document["verdict"]["status"] == "healthy"

    # The same problem on another day, process, node and device, in other lines.
    moved = write_job(
        tmp_path / "again", quiet(815) * 7 + fault(chip=6, pid=815, minute=51), node="rack9-host-b", pid=815
    )
    assert npudiag("gate", moved, "--baseline", file, cwd=tmp_path).returncode == 0

    # More of it, and something else.
    more = write_job(tmp_path / "more", "".join(fault(minute=n) for n in range(30)))
    done = npudiag("gate", more, "--baseline", file, cwd=tmp_path)
    assert done.returncode == 1 and "worse than in the baseline" in done.stdout
    done = npudiag("baseline", "update", more, "--baseline", file, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert npudiag("gate", more, "--baseline", file, cwd=tmp_path).returncode == 0

    # Gone: listed, then pruned.
    fixed = write_job(tmp_path / "fixed", quiet() * 30)
    done = npudiag("gate", fixed, "--baseline", file, cwd=tmp_path)
    assert done.returncode == 0 and "found no more" in done.stdout
    done = npudiag("baseline", "prune", fixed, "--baseline", file, cwd=tmp_path)
    assert done.returncode == 0 and "dropped AIC" in done.stdout
    assert keeping.load(file).findings == []
    assert npudiag("gate", job, "--baseline", file, cwd=tmp_path).returncode == 1


def test_a_baseline_from_a_result_document(tmp_path: Path) -> None:
    job = write_job(tmp_path / "job", quiet() * 20 + fault())
    npudiag("gate", job, "--json", "out.json", cwd=tmp_path)
    assert npudiag("baseline", "create", "--result", "out.json", cwd=tmp_path).returncode == 0
    first = (tmp_path / "npudiag-baseline.json").read_bytes()
    npudiag("gate", job, "--baseline", "npudiag-baseline.json", "--json", "out.json", cwd=tmp_path)
    assert npudiag("baseline", "update", "--result", "out.json", cwd=tmp_path).returncode == 0
    assert (tmp_path / "npudiag-baseline.json").read_bytes() == first
    assert npudiag("baseline", "create", job, "--result", "out.json", cwd=tmp_path).returncode == 2
    assert npudiag("baseline", "create", cwd=tmp_path).returncode == 2
    done = npudiag("baseline", "create", job, "--until", "soon", "--force", cwd=tmp_path)
    assert done.returncode == 2 and "2027-03-01" in done.stderr


def test_the_configuration_names_the_baseline(tmp_path: Path) -> None:
    job = write_job(tmp_path / "job", quiet() * 20 + fault())
    (tmp_path / "npudiag.toml").write_text('baseline = "known.json"\n')
    assert npudiag("gate", job, cwd=tmp_path).returncode == 2, "it is named, but not there"
    assert npudiag("baseline", "create", job, cwd=tmp_path).returncode == 0
    assert (tmp_path / "known.json").is_file()
    assert npudiag("gate", job, cwd=tmp_path).returncode == 0
