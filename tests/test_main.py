"""Exit codes: whatever happens, a crash does not look like a failed gate."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from npudiag import __main__ as entry
from npudiag import __version__
from npudiag.errors import ConfigError, Exit, Fault, NothingRecognisedError, NpudiagError, RuleError, UsageError


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], int]:
    """Run `main` on an application whose only command is the given function."""

    def run(body: Callable[[], Any]) -> int:
        app = typer.Typer(rich_markup_mode=None)

        @app.callback()
        def root() -> None:
            """Test application."""

        @app.command()
        def act() -> Any:
            return body()

        monkeypatch.setattr("npudiag.cli.app.app", app)
        return entry.main(["act"])

    return run


def test_a_command_alone_is_the_command_it_is_among_all(capsys: pytest.CaptureFixture[str]) -> None:
    from typer.main import get_command

    from npudiag.cli.app import app, only

    for name in ("analyze", "rules", "watch"):
        whole: Any = get_command(app)
        alone: Any = get_command(only(name))
        assert list(alone.commands) == [name]
        assert [param.opts for param in alone.commands[name].params] == [
            param.opts for param in whole.commands[name].params
        ]
        assert (alone.epilog, alone.help, alone.params[0].opts) == (whole.epilog, whole.help, whole.params[0].opts)
    assert only("no-such-command") is app and only(None) is app
    assert entry.main(["analyse"]) == 2
    assert "analyse" in capsys.readouterr().err


def raising(exc: BaseException) -> Callable[[], Any]:
    def body() -> None:
        raise exc

    return body


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main([flag]) == 0
    assert capsys.readouterr().out == f"npudiag {__version__}\n"


@pytest.mark.parametrize(
    ("exc", "code"),
    [
        (UsageError("no such path"), 2),
        (ConfigError("bad key"), 2),
        (RuleError([Fault("a.yaml", 1, 2, "unknown key")]), 2),
        (NothingRecognisedError("nothing here"), 3),
        (NpudiagError("broken"), 4),
        (RuntimeError("boom"), 4),
        (MemoryError(), 4),
        (RecursionError("deep"), 4),
        (OSError(28, "No space left on device"), 4),
        (EOFError(), 130),
        (KeyboardInterrupt(), 130),
        (typer.Abort(), 130),
        (BrokenPipeError(32, "Broken pipe"), 141),
        (typer.Exit(1), 1),
        (typer.Exit(3), 3),
        (typer.BadParameter("not so"), 2),
        (SystemExit(3), 3),
        (SystemExit(None), 0),
        (SystemExit("a text"), 4),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_exit_codes(
    exc: BaseException, code: int, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(raising(exc)) == code
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(("value", "code"), [(None, 0), (0, 0), (1, 1), (Exit.NOTHING_RECOGNISED, 3), ("text", 0)])
def test_what_a_command_returns(value: Any, code: int, command: Callable[..., int]) -> None:
    assert command(lambda: value) == code


def test_message_and_hint(command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    command(raising(UsageError("there is no x", hint="use y")))
    assert capsys.readouterr().err == "npudiag: error: there is no x\nnpudiag: hint: use y\n"


def test_traceback_on_request(
    command: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPUDIAG_DEBUG", "1")
    assert command(raising(ValueError("boom"))) == 4
    text = capsys.readouterr().err
    assert "Traceback" in text
    assert "ValueError: boom" in text


@pytest.mark.parametrize(
    "arguments",
    [["no-such-command"], ["--no-such-option"], ["gate"], ["analyze", "--no-such-option", "."], []],
    ids=" ".join,
)
def test_usage_errors(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(arguments) == 2
    assert "Usage:" in "".join(capsys.readouterr())


def test_help_is_ok(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["--help"]) == 0
    assert "Exit codes" in capsys.readouterr().out


def child(program: str, **options: Any) -> subprocess.Popen[bytes]:
    prelude = (
        "import sys, typer, npudiag.cli.app as cli, npudiag.__main__ as entry\n"
        "app = typer.Typer(rich_markup_mode=None)\n"
        "cli.app = app\n"
        "@app.callback()\ndef root() -> None:\n    'Test application.'\n"
        "@app.command()\ndef act() -> None:\n"
    )
    body = "".join(f"    {line}\n" for line in program.splitlines())
    code = f"{prelude}{body}sys.exit(entry.main(['act']))\n"
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_reader_gone_is_quiet() -> None:
    with child("for i in range(200000): print('a line of some length', i)") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141


def test_reader_gone_before_the_last_flush() -> None:
    with child("import time\nprint('short')\ntime.sleep(0.5)") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141


def test_interrupt() -> None:
    # A test run in the background has the signal ignored, and hands that down.
    listening = "import signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    with child(listening + "print('ready', flush=True)\ntime.sleep(30)") as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert b"Traceback" not in process.stderr.read()


def test_a_request_to_end_is_an_interrupt() -> None:
    with child("import time\nprint('ready', flush=True)\ntime.sleep(30)") as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 130
        assert b"Traceback" not in process.stderr.read()


def test_terminal_without_unicode() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    with child("print('\\u96c6\\u5408 \\udcff')", env=environment) as process:
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"")
    assert out == b"\\u96c6\\u5408 \\udcff\n"


def test_as_a_module(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "npudiag", "analyze", str(tmp_path / "nothing-here")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
