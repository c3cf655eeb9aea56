"""The gate end to end: exit codes with every output, and what pipelines get by themselves."""

from __future__ import annotations

import gzip
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from gate_runs import SAMPLES, fault, npudiag, quiet, write_job

OUTPUTS = ("json", "html", "sarif", "junit", "markdown", "gitlab")
STEPS = "".join(
    f" [2026-01-02 03:{n // 60:02d}:{n % 60:02d}] iteration {n:8d}/    500 | consumed samples: {n * 8:12d} | "
    f"elapsed time per iteration (ms): {400 + n % 7:.1f} | learning rate: 1.000E-05 | global batch size:     8 | "
    f"lm loss: {3 - n / 500:.6E} | loss scale: 1.0 | grad norm: 1.000 | number of skipped iterations:   0 | "
    "number of nan iterations:   0 |\n"
    for n in range(1, 121)
)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    return write_job(tmp_path / "job", quiet() * 20 + fault() + quiet() * 5)


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    return write_job(tmp_path / "job", quiet() * 30)


@pytest.fixture
def unread(tmp_path: Path) -> Path:
    folder = write_job(tmp_path / "job", quiet() * 30)
    lines = "".join(quiet(4711 + n * 7919 % 9973) for n in range(3000))
    data = gzip.compress(lines.encode())
    (folder / "b.log.gz").write_bytes(data[: len(data) // 2])
    return folder


def targets(folder: Path) -> list[object]:
    return [word for name in OUTPUTS for word in (f"--{name}", folder / f"out.{name}")]


def check_outputs(folder: Path) -> None:
    assert json.loads((folder / "out.json").read_bytes())["schema"] == 1
    assert "<!doctype html>" in (folder / "out.html").read_text(encoding="utf-8")[:200].lower()
    assert json.loads((folder / "out.sarif").read_bytes())["version"] == "2.1.0"
    assert ElementTree.fromstring((folder / "out.junit").read_text(encoding="utf-8")).tag == "testsuites"
    assert (folder / "out.markdown").read_text(encoding="utf-8").startswith("### ")
    assert isinstance(json.loads((folder / "out.gitlab").read_bytes()), list)


@pytest.mark.parametrize(
    ("job", "arguments", "code", "status"),
    [
        ("healthy", [], 0, "passed"),
        ("broken", ["--fail-on", "never"], 0, "passed"),
        ("broken", [], 1, "failed"),
        ("broken", ["--fail-on", "never", "--fail-on-rule", "AIC"], 1, "failed"),
        ("unread", [], 4, "incomplete"),
        ("unread", ["--allow-incomplete"], 0, "passed"),
    ],
)
def test_the_exit_code_table(
    job: str, arguments: list[str], code: int, status: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = request.getfixturevalue(job)
    done = npudiag("gate", folder, *arguments, *targets(tmp_path), cwd=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    check_outputs(tmp_path)
    assert json.loads((tmp_path / "out.json").read_bytes())["facts"]["gate"]["status"] == status
    # What is written has no influence on it.
    assert npudiag("gate", folder, *arguments, "-q", cwd=tmp_path).returncode == code


def test_the_exit_codes_of_wrong_usage_and_unknown_input(tmp_path: Path, broken: Path) -> None:
    (tmp_path / "list.txt").write_text("milk\nbread\n")
    done = npudiag("gate", tmp_path / "list.txt", *targets(tmp_path))
    assert done.returncode == 3 and "recognised nothing" in done.stdout
    check_outputs(tmp_path)
    (tmp_path / "bad.json").write_text("{}]")
    (tmp_path / "old.json").write_text('{"schema": 99}')
    (tmp_path / "bad.toml").write_text('[gate.metrics]\nloss = "<= 2"\nmfu.p50 = "about 40"\ntflops.last = 2\n')
    for arguments in (
        ["--baseline", tmp_path / "not-there.json"],
        ["--baseline", tmp_path / "bad.json"],
        ["--baseline", tmp_path / "old.json"],
        ["--config", tmp_path / "bad.toml"],
        ["--sarif", "-", "--junit", "-"],
        ["--sarif", tmp_path / "x", "--junit", tmp_path / "x"],
        ["--gitlab", tmp_path / "no" / "folder"],
    ):
        assert npudiag("gate", broken, *arguments, cwd=tmp_path).returncode == 2, arguments
    faults = npudiag("gate", broken, "--config", tmp_path / "bad.toml").stderr
    assert "bad.toml:2:1: 'loss' must be a metric and a statistic" in faults
    assert "bad.toml:3:1: 'about 40' is no budget" in faults and "bad.toml:4:1: '2' is no budget" in faults


@pytest.mark.parametrize("name", OUTPUTS)
def test_each_output_can_go_to_stdout_alone(name: str, broken: Path) -> None:
    done = npudiag("gate", broken, f"--{name}", "-")
    assert done.returncode == 1
    assert "Gate failed" not in done.stdout or name in ("markdown", "html")
    if name in ("json", "sarif", "gitlab"):
        json.loads(done.stdout)
    if name == "junit":
        ElementTree.fromstring(done.stdout)


def test_the_terminal_says_why_it_failed(broken: Path) -> None:
    done = npudiag("gate", broken)
    assert re.search(r"^Gate failed: \d finding", done.stdout, re.MULTILINE)
    assert "门禁未通过" in npudiag("gate", broken, "--lang", "zh").stdout
    assert npudiag("gate", broken, "-q").stdout.count("\n") == 1
    assert "Gate" not in npudiag("analyze", broken).stdout


def test_outputs_named_in_the_configuration(broken: Path, tmp_path: Path) -> None:
    work = tmp_path / "repository" / "sub"
    work.mkdir(parents=True)
    (work.parent / "npudiag.toml").write_text(
        'sarif = "a.sarif"\njunit = "b.xml"\nhtml = "c.html"\ngitlab = "d.json"\n'
    )
    assert npudiag("analyze", broken, "--junit", "other.xml", cwd=work).returncode == 0
    assert {path.name for path in work.iterdir()} == {"a.sarif", "other.xml", "c.html", "d.json"}


def test_paths_are_those_of_the_repository(broken: Path, tmp_path: Path) -> None:
    done = npudiag("gate", "job", "--sarif", "-", cwd=tmp_path)
    place = json.loads(done.stdout)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place["uri"].startswith("job/worker-0/") and "uriBaseId" not in place
    sub = tmp_path / "sub"
    sub.mkdir()
    done = npudiag("gate", "../job", "--sarif", "-", cwd=sub)
    place = json.loads(done.stdout)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place["uriBaseId"] == "NPUDIAG_INPUT"
    done = npudiag("gate", "../job", "--gitlab", "-", cwd=sub, env={"CI_PROJECT_DIR": str(tmp_path)})
    assert json.loads(done.stdout)[0]["location"]["path"].startswith("job/worker-0/")


# GitHub


def test_github_gets_annotations_and_a_summary(broken: Path, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("earlier\n")
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    done = npudiag("gate", broken, env=env)
    assert done.returncode == 1
    assert re.search(r"^::error .*title=AIC", done.stdout, re.MULTILINE)
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("earlier\n") and "Gate failed" in text
    done = npudiag("gate", broken, "--json", "-", env=env)
    json.loads(done.stdout)
    assert "::error " in done.stderr
    assert "::error" not in npudiag("analyze", broken, env=env).stdout


def test_log_text_issues_no_workflow_commands(tmp_path: Path) -> None:
    evil = fault().replace("ProcessStars", "\n::add-mask::secret\n::error::mine ProcessStars")
    folder = write_job(tmp_path / "job", quiet() * 3 + evil)
    for verb in ("gate", "analyze"):
        lines = npudiag(verb, folder, "-vv", env={"GITHUB_ACTIONS": "true"}).stdout.splitlines()
        token = lines[0].removeprefix("::stop-commands::")
        assert len(token) == 32
        stopped = lines[1 : lines.index(f"::{token}::")]
        for line in lines[len(stopped) + 2 :]:
            assert line.startswith("::"), "text of a log stands outside"
            assert "add-mask::" not in line or not line.startswith("::add-mask")


def test_a_summary_that_cannot_be_written_changes_nothing(broken: Path, tmp_path: Path) -> None:
    done = npudiag("gate", broken, env={"GITHUB_STEP_SUMMARY": str(tmp_path / "no" / "folder")})
    assert done.returncode == 1 and "cannot write the step summary" in done.stderr


def test_a_full_summary_stays_below_the_limit(broken: Path, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_bytes(b"x" * 1_000_000)
    npudiag("gate", broken, env={"GITHUB_STEP_SUMMARY": str(summary)})
    assert summary.stat().st_size < 1 << 20


# Metric budgets


def gate_with(tmp_path: Path, budgets: str, *arguments: object) -> tuple[int, list[dict[str, object]]]:
    (tmp_path / "npudiag.toml").write_text(f"[gate.metrics]\n{budgets}\n")
    (tmp_path / "train.log").write_text(STEPS)
    done = npudiag("gate", "train.log", "--json", "out.json", "--fail-on", "never", *arguments, cwd=tmp_path)
    facts = json.loads((tmp_path / "out.json").read_bytes())["facts"]
    return done.returncode, facts["gate"]["budgets"]


def test_budgets_of_a_training_log(tmp_path: Path) -> None:
    code, (step, loss) = gate_with(tmp_path, 'step_time_ms.p50 = "<= 410"\nloss.last = "<= 2.8"')
    assert code == 0
    assert step["status"] == loss["status"] == "pass"
    assert step["value"] == pytest.approx(403, abs=1) and loss["value"] == pytest.approx(2.76)
    code, (step,) = gate_with(tmp_path, 'step_time_ms.p50 = "<= 390"')
    assert code == 1 and step["status"] == "fail"


def test_a_missing_metric_is_not_green(tmp_path: Path) -> None:
    code, (budget,) = gate_with(tmp_path, 'mfu.p50 = ">= 38"')
    assert code == 4 and budget["status"] == "missing"
    assert gate_with(tmp_path, 'mfu.p50 = ">= 38"', "--allow-incomplete")[0] == 0
    assert gate_with(tmp_path, 'mfu.p50 = ">= 38 or missing"')[0] == 0


def test_budgets_against_a_baseline(tmp_path: Path) -> None:
    relative = 'step_time_ms.p50 = "<= +5% of baseline"'
    assert gate_with(tmp_path, relative)[0] == 4, "there is no baseline"
    done = npudiag("baseline", "create", "train.log", "--baseline", "base.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert gate_with(tmp_path, relative, "--baseline", "base.json")[0] == 0
    base = json.loads((tmp_path / "base.json").read_text())
    base["metrics"]["step_time_ms"]["p50"] = 300
    (tmp_path / "base.json").write_text(json.dumps(base))
    code, (budget,) = gate_with(tmp_path, relative, "--baseline", "base.json")
    assert code == 1 and budget["limit"] == pytest.approx(315)


# Samples


@pytest.mark.parametrize("sample", ["healthy-8-ranks", "hccl-notify-timeout-dead-peer", "device-oom"])
def test_samples_with_every_output(sample: str, tmp_path: Path) -> None:
    done = npudiag("gate", SAMPLES / sample / "logs", *targets(tmp_path))
    assert done.returncode == (0 if sample.startswith("healthy") else 1), done.stdout
    check_outputs(tmp_path)
    again = tmp_path / "again"
    again.mkdir()
    assert npudiag("render", tmp_path / "out.json", *targets(again)).returncode == 0
    for name in OUTPUTS:
        assert (again / f"out.{name}").read_bytes() == (tmp_path / f"out.{name}").read_bytes(), name


def test_tables_as_csv(broken: Path, tmp_path: Path) -> None:
    assert npudiag("gate", broken, "--csv", tmp_path / "tables", "-q").returncode == 1
    names = {path.name for path in (tmp_path / "tables").iterdir()}
    assert {"log.csv", "files.csv", "log_counts.csv"} <= names
    first, second = (tmp_path / "tables" / "files.csv").read_text(encoding="utf-8").splitlines()
    assert first.startswith("file,kind,") and second.startswith("job/worker-0/debug/plog/")
    assert npudiag("analyze", broken, "--csv", tmp_path / "no" / "folder").returncode == 2
