"""The files for pipelines, and the examples of docs/ci.md: they are what the command line takes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gate_runs import ROOT, fault, quiet, write_job
from typer.main import get_command

from npudiag.cli.app import app
from npudiag.config import load_config
from npudiag.errors import Exit

ACTION = ROOT / ".github" / "actions" / "npudiag-gate" / "action.yml"
TEMPLATE = ROOT / "docs" / "ci" / "npudiag.gitlab-ci.yml"
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def options(*words: str) -> set[str]:
    command: Any = get_command(app)
    for word in words:
        command = command.commands[word]
    return {name for param in command.params for name in param.opts}


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(PAGE) if kind == language]


def shim(folder: Path) -> Path:
    """Put an npudiag on the PATH."""
    folder.mkdir()
    program = folder / "npudiag"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m npudiag "$@"\n')
    program.chmod(0o755)
    return folder


def step(name: str) -> dict[str, Any]:
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    (found,) = [item for item in action["runs"]["steps"] if item["name"] == name]
    return dict(found)


def run_action(tmp_path: Path, **inputs: str) -> tuple[int, str, str]:
    """Run the script of the action's step as the runner does; return exit code, stdout and its outputs."""
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    gate = step("Gate")
    given = {name: str(item.get("default", "")) for name, item in action["inputs"].items()}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "NPUDIAG_"))}
    for name, text in gate["env"].items():
        (key,) = re.findall(r"\$\{\{ inputs\.([\w-]+) \}\}", text)
        env[name] = given[key]
    output = tmp_path / "outputs"
    path = f"{shim(tmp_path / 'bin')}{os.pathsep}{os.environ['PATH']}"
    script = tmp_path / "script.sh"
    script.write_text(gate["run"])
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        env={**env, "PATH": path, "GITHUB_OUTPUT": str(output), "GITHUB_ACTIONS": "true"},
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr, output.read_text()


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="the action's script is for bash")


@needs_bash
def test_the_action_judges_and_leaves_reports(tmp_path: Path) -> None:
    write_job(tmp_path / "my job", quiet() * 20 + fault())
    code, out, outputs = run_action(tmp_path, paths="my job\n", fail_on="error")
    assert code == 1 and outputs == "exit-code=1\n", out
    assert "::error " in out
    names = {path.name for path in (tmp_path / "npudiag-reports").iterdir()}
    assert names == {"report.html", "result.json", "npudiag.sarif", "junit.xml", "summary.md"}
    gate = json.loads((tmp_path / "npudiag-reports" / "result.json").read_bytes())["facts"]["gate"]
    assert gate["status"] == "failed"


@needs_bash
def test_the_action_passes_its_inputs_on(tmp_path: Path) -> None:
    write_job(tmp_path / "job", quiet() * 20 + fault())
    (tmp_path / "empty.toml").write_text("")
    code, out, _ = run_action(
        tmp_path, paths="job", fail_on="never", fail_on_rule="AIC\nHCC1", config="empty.toml", allow_incomplete="true",
        lang="zh", reports="out",
    )  # fmt: skip
    assert code == 1 and "门禁未通过" in out
    document = json.loads((tmp_path / "out" / "result.json").read_bytes())
    assert document["facts"]["gate"]["fail_on_rules"] == ["AIC", "HCC1"]


@needs_bash
def test_inputs_of_the_action_never_run(tmp_path: Path) -> None:
    code, _, outputs = run_action(
        tmp_path, paths="$(touch owned); `touch owned`\n--html=owned", fail_on="$(touch owned)"
    )
    assert code == 2 and outputs == "exit-code=2\n"
    assert not (tmp_path / "owned").exists()
    for item in yaml.safe_load(ACTION.read_text(encoding="utf-8"))["runs"]["steps"]:
        assert "${{" not in item["run"], "an expression in a script is an injection"


def test_the_action_is_documented() -> None:
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    assert all(item.get("description") for item in (*action["inputs"].values(), *action["outputs"].values()))
    used = set(re.findall(r"(?<![\w-])--[a-z-]+", step("Gate")["run"]))
    assert used <= options("gate")


def test_the_gitlab_template_calls_what_exists() -> None:
    job = yaml.safe_load(TEMPLATE.read_text(encoding="utf-8"))[".npudiag-gate"]
    (call,) = [line for line in job["script"] if line.startswith("npudiag")]
    words = shlex.split(call)
    assert set(re.findall(r"(?<![\w-])--[a-z-]+", call)) <= options("gate")
    written = {word for word in words if word.startswith("npudiag-reports/")}
    assert set(job["artifacts"]["reports"].values()) <= written
    assert job["artifacts"]["when"] == "always"
    assert {"NPUDIAG_PATHS", "NPUDIAG_OPTIONS", "NPUDIAG_INSTALL"} <= job["variables"].keys()


def test_hooks_call_what_exists() -> None:
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")):
        assert {"id", "name", "entry", "language"} <= hook.keys()
        program, *words = hook["entry"].split()
        assert program == "npudiag"
        options(*words)
        assert f"id: {hook['id']}" in PAGE


# docs/ci.md


def calls() -> Iterator[list[str]]:
    for text in blocks("sh"):
        for line in text.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["npudiag"]:
                yield words[1:]


def test_examples_call_what_exists() -> None:
    assert len(list(calls())) >= 6
    for words in calls():
        path = words[:2] if words[0] == "baseline" else words[:1]
        used = {word for word in words if word.startswith("--")}
        assert used <= options(*path), words
    named = set(re.findall(r"`npudiag ((?:baseline )?[a-z]+)", PAGE))
    for words in named:
        options(*words.split())
    for name in re.findall(r"`(--[a-z-]+)", PAGE):
        assert any(name in options(*path) for path in (("gate",), ("analyze",), ("baseline", "update"))), name


def test_yaml_and_json_examples_are_valid() -> None:
    for text in blocks("yaml"):
        assert yaml.safe_load(text)
    for text in blocks("json"):
        assert json.loads(text)
    (action,) = [
        item
        for text in blocks("yaml")
        if "npudiag-gate@" in text
        for item in yaml.safe_load(text)["jobs"]["train"]["steps"]
        if "npudiag-gate@" in item.get("uses", "")
    ]
    known = yaml.safe_load(ACTION.read_text(encoding="utf-8"))["inputs"]
    assert action["with"].keys() <= known.keys()


def test_configuration_examples_are_valid(tmp_path: Path) -> None:
    found = []
    for number, text in enumerate(blocks("toml")):
        path = tmp_path / f"{number}.toml"
        path.write_text(text, encoding="utf-8")
        found.append(load_config(explicit=path))
    assert any(len(config.budgets) >= 4 for config in found) and any(config.sarif for config in found)


def test_the_baseline_example_can_be_read(tmp_path: Path) -> None:
    from npudiag.diagnosis.baseline import dump, load

    (text,) = [text for text in blocks("json") if '"fingerprint"' in text]
    path = tmp_path / "b.json"
    path.write_text(text, encoding="utf-8")
    base = load(path)
    assert len(base.findings) == 1 and base.metrics
    assert [line.strip() for line in dump(base).decode().splitlines()] == [line.strip() for line in text.splitlines()]


def test_both_exit_code_tables_are_complete() -> None:
    tables = re.findall(r"(?:^\| \d+ \|.*\n)+", PAGE, re.MULTILINE)
    assert len(tables) == 2
    for table in tables:
        assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == {int(code) for code in Exit}


def test_links_lead_somewhere() -> None:
    for name in re.findall(r"\]\((?!https?:|#)([^)#]+)", PAGE):
        assert (ROOT / "docs" / name).exists(), name


def test_metrics_named_in_the_page_are_those_there_are() -> None:
    source = (ROOT / "npudiag" / "analyses" / "metrics.py").read_text(encoding="utf-8")
    section = PAGE.partition("| metric | from |")[2].partition("\n## ")[0]
    for name in re.findall(r"`([a-z0-9_]+)`", section):
        assert f'"{name}"' in source, name
