"""Entry point of the command line: answers ``--version`` at once and maps what happens to exit codes.

Command-line frameworks end a crashed program with 1, which a pipeline would read as
"gate failed". Here a crash ends with 4, whatever it was.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from npudiag._version import __version__

_READER_GONE = 141
"""128 + SIGPIPE: what the shell reports for any program whose reader went away."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments without the program's name; those of the process when None.

    Returns:
        The exit code (see `npudiag.errors.Exit`), or 141 where the reader of the output went away.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    if args and args[0] in ("--version", "-V"):
        print(f"npudiag {__version__}")
        return 0
    for stream in (sys.stdout, sys.stderr):
        # File names and log lines may hold what the terminal's encoding lacks.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        with _stopped_alike():
            code = _run(args)
        # Left to the interpreter's end, a failing flush would change the exit code.
        sys.stdout.flush()
        if argv is None:
            # The process ends: the interpreter's last look for garbage would only go through what is let go anyway.
            gc.freeze()
    except BrokenPipeError:
        return _reader_gone()
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except SystemExit as exc:
        if isinstance(exc.__context__, BrokenPipeError):
            return _reader_gone()
        return _system_exit_code(exc)
    except Exception as exc:
        return _failed(exc)
    return code


@contextlib.contextmanager
def _stopped_alike() -> Iterator[None]:
    """Let whoever ends us with SIGTERM (`timeout`, a scheduler) get what Ctrl-C gives: partial results."""
    # Not at the top: --version answers before they are loaded.
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(args: list[str]) -> int:
    """Hand `args` to the command-line application and return its exit code."""
    # npudiag computes no matrices: the threads of BLAS cost memory and time to start, and make forking unsafe.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if args and args[0] == "explain":
        # Its question may begin with a dash, which a parser would take for an option; and it has to be instant.
        from npudiag.cli.explain import main as explain

        return explain(args[1:])
    if args and args[0] == "watch" and "--" in args:
        # What follows is a command with options of its own.
        at = args.index("--")
        args = [*args[:at], *(f"--command={word}" for word in args[at + 1 :])]
    from typer.main import get_command

    from npudiag.cli.app import only

    # Not standalone: the application's own handling would end with 1 for whatever is not a usage error.
    chosen: Any = get_command(only(args[0] if args else None))
    value = chosen.main(args=args, prog_name="npudiag", standalone_mode=False)
    return value if isinstance(value, int) else 0


def _failed(exc: Exception) -> int:
    """Report `exc` on stderr and return the exit code it stands for."""
    from npudiag.errors import Exit, NpudiagError

    names = {cls.__name__ for cls in type(exc).__mro__}
    if "ClickException" in names:
        # Named, not imported: Typer brings its own copy of Click in some versions and needs the real one in others.
        exc.show()  # type: ignore[attr-defined]
        return Exit.USAGE.value
    if "Abort" in names:
        _say("interrupted")
        return Exit.INTERRUPTED.value
    if isinstance(exc, NpudiagError):
        _say(f"error: {exc.message}")
        if exc.hint:
            _say(f"hint: {exc.hint}")
        code = exc.exit_code.value
    else:
        _say(f"internal error: {type(exc).__name__}: {exc}")
        if not os.environ.get("NPUDIAG_DEBUG"):
            _say("hint: NPUDIAG_DEBUG=1 shows where it happened; please report it with that output")
        code = Exit.INTERNAL.value
    if os.environ.get("NPUDIAG_DEBUG"):
        import traceback

        with contextlib.suppress(OSError):
            traceback.print_exception(exc)
    return code


def _system_exit_code(exc: SystemExit) -> int:
    """Return the code of a `SystemExit`; a text instead of a number is a failure of our own."""
    if exc.code is None:
        return 0
    if isinstance(exc.code, int):
        return exc.code
    _say(f"internal error: {exc.code}")
    return 4


def _reader_gone() -> int:
    """Silence stdout, so that nothing fails on it again at the interpreter's end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _READER_GONE


def _say(text: str) -> None:
    """Print to stderr; nothing is to be done where even that fails."""
    with contextlib.suppress(OSError):
        print(f"npudiag: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
