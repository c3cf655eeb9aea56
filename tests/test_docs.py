"""What the documentation says is so: commands, options, exit codes, paths."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.main import get_command

import npudiag
from npudiag.cli.app import app
from npudiag.errors import Exit

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CLI_PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def script(name: str) -> ModuleType:
    """Import a script of .ci, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COMMANDS: dict[tuple[str, ...], Any] = dict(script("cli_docs").commands(get_command(app)))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def options(command: Any) -> set[str]:
    return {
        name
        for param in command.params
        if not getattr(param, "hidden", False)
        for name in (*param.opts, *param.secondary_opts)
        if name.startswith("-")
    }


def shell_lines() -> Iterator[str]:
    for language, text in BLOCK.findall(README):
        if language == "sh":
            yield from text.splitlines()


def calls() -> list[list[str]]:
    """The calls of npudiag in README's shell blocks, as words after the program's name."""
    found = []
    for line in shell_lines():
        for part in re.split(r"&&|\|", line):
            words = shlex.split(part, comments=True)
            if words and words[0].rpartition("/")[2] == "npudiag":
                found.append(words[1:])
    return found


def resolve(words: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """Split words into the command they name and its arguments."""
    path: tuple[str, ...] = ()
    while words and (*path, words[0]) in COMMANDS:
        path, words = (*path, words[0]), words[1:]
    return path, words


def test_readme_calls_exist() -> None:
    assert len(calls()) >= 8
    for words in calls():
        path, arguments = resolve(words)
        assert path, f"README calls npudiag {shlex.join(words)}, whose command does not exist"
        assert not getattr(COMMANDS[path], "commands", {}), f"README calls the group npudiag {' '.join(path)}"
        if "--" in arguments:
            arguments = arguments[: arguments.index("--")]  # what follows is somebody else's
        used = {word.partition("=")[0] for word in arguments if re.match(r"--?[a-z]", word)}
        assert used <= options(COMMANDS[path]), f"README gives {path} options it does not have"


def test_commands_named_in_readme_prose_exist() -> None:
    for named in re.findall(r"`npudiag ([a-z]+(?: [a-z]+)?)", README):
        words = named.split()
        path, _ = resolve(words)
        assert path, f"README names npudiag {named}"
        if path == ("rules",):
            assert len(words) == 1, f"README names npudiag {named}"


def test_every_command_is_in_readme() -> None:
    for path in COMMANDS:
        if len(path) == 1:
            assert re.search(rf"npudiag {path[0]}\b", README), f"README does not mention npudiag {path[0]}"


def test_every_option_is_documented() -> None:
    for path, command in COMMANDS.items():
        for name in options(command):
            pattern = rf"(?<![\w-]){re.escape(name)}(?![\w-])"
            assert re.search(pattern, README + CLI_PAGE), f"{name} of npudiag {' '.join(path)} is documented nowhere"


def test_every_option_has_a_help_text() -> None:
    for path, command in COMMANDS.items():
        assert command.help, f"npudiag {' '.join(path)}"
        for param in command.params:
            assert getattr(param, "help", None), f"{param.name} of npudiag {' '.join(path)} has no help text"


def test_reference_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TERM", "COLUMNS", "TERMINAL_WIDTH"):
        monkeypatch.setenv(name, "")  # so that what the script sets is taken back
    assert script("cli_docs").page() == CLI_PAGE, "docs/cli.md is old: run python .ci/cli_docs.py"


def test_exit_codes_are_the_ones_in_readme() -> None:
    section = README.partition("## Exit codes")[2].partition("\n## ")[0]
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}
    assert documented == {int(code) for code in Exit}


def test_exit_codes_are_the_ones_in_the_help() -> None:
    epilog = str(get_command(app).epilog)
    assert {int(code) for code in re.findall(r"\d+", epilog)} == {int(code) for code in Exit}


def test_links_and_samples_exist() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    samples = re.findall(r"sample_logs/[\w./-]+", "\n".join(shell_lines()))
    assert links and samples
    for name in (*links, *samples):
        assert (ROOT / name).exists(), f"README points to {name}"


def test_configuration_example_is_valid(tmp_path: Path) -> None:
    from npudiag.config import load_config

    (example,) = [text for language, text in BLOCK.findall(README) if language == "toml"]
    path = tmp_path / "npudiag.toml"
    path.write_text(example, encoding="utf-8")
    config = load_config(explicit=path)
    assert config.lang == "zh"
    assert config.suppress


def test_configuration_example_names_existing_rules() -> None:
    from npudiag.engine.load import load_pack

    pack = load_pack()
    (example,) = [text for language, text in BLOCK.findall(README) if language == "toml"]
    for name in re.findall(r'^rule = "([^"]+)"', example, re.MULTILINE):
        assert name in pack.by_name, f"README suppresses {name}"
    for shown in re.findall(r"rules show (\w+)", README):
        assert shown in pack.by_code, f"README shows {shown}"
    for prefix in (*re.findall(r"^ignore = \[\"(\w+)\"\]", example, re.MULTILINE), "HCC1"):
        assert any(code.startswith(prefix) for code in pack.by_code), f"README selects {prefix}"


def test_python_example_runs() -> None:
    (example,) = [text for language, text in BLOCK.findall(README) if language == "python"]
    sample = ROOT / "sample_logs" / "hccl-notify-timeout-dead-peer" / "logs"
    names: dict[str, Any] = {}
    exec(compile(example.replace('"logs/"', repr(str(sample))), "README.md", "exec"), names)
    assert len(names["log"]) > 0
    assert list(names["slow"].columns) == ["rank", "first"]


def test_examples_of_the_python_page_run(tmp_path: Path) -> None:
    samples = ROOT / "sample_logs"
    (tmp_path / "my-rules").mkdir()
    rule = (ROOT / "rules" / "signals" / "SIG101-engine-dead.yaml").read_text(encoding="utf-8")
    own = rule.replace("SIG101", "OWN101").replace("engine-dead", "own-engine-dead")
    (tmp_path / "my-rules" / "OWN101-own-engine-dead.yaml").write_text(own, encoding="utf-8")
    names: dict[str, Any] = {}
    places = {
        '"logs/"': samples / "hccl-notify-timeout-dead-peer" / "logs",
        '"before/"': samples / "launch-script-clean" / "logs",
        '"after/"': samples / "launch-script-faults" / "logs",
        '"my-rules/"': tmp_path / "my-rules",
    }
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    examples = [text for language, text in BLOCK.findall(page) if language == "python"]
    for example in examples:
        for word, place in places.items():
            example = example.replace(word, repr(str(place)))
        exec(compile(example, "docs/python.md", "exec"), names)
    assert len(examples) == 4 and names["stricter"].findings
    assert len(names["errors"]) > 0 and list(names["first"].columns) == ["rank", "first"] and len(names["late"]) > 0


def test_query_example_runs() -> None:
    sample = ROOT / "sample_logs" / "hccl-notify-timeout-dead-peer" / "logs"
    job = npudiag.load(sample)
    for words in calls():
        if words[0] == "query" and len(words) > 2:
            assert job.query(words[2]) is not None


def test_scripts_of_the_test_command_exist() -> None:
    named = {word for line in shell_lines() for word in line.split() if word.startswith(".ci/")}
    assert ".ci/test" in named
    for name in named:
        assert (ROOT / name).is_file()
    assert sys.version_info >= (3, 10)
