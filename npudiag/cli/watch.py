"""``npudiag watch``: looks on while a job runs."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npudiag.cli import common
from npudiag.errors import Exit, NpudiagError, UsageError
from npudiag.report import live
from npudiag.watch.alerts import Alerts
from npudiag.watch.child import CannotStart, Child
from npudiag.watch.session import Session, State

if TYPE_CHECKING:
    from npudiag.result import Finding

_COPY_BYTES = 1 << 30
_COPY, _SAMPLES = "command.log", "samples.txt"
_REDRAW_S = 1.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for.

    Attributes:
        paths: Logs to follow.
        command: Command to run, empty for none.
        interval_s: Seconds between readings.
        for_s: Seconds after which the watch ends by itself.
        pid: Process whose end ends the watch.
        folder: Where to write, None for a new folder.
        view: Whether to draw a view; None decides by the terminal.
        fail_on: Severity from which on a watch without command ends with 1.
    """

    paths: Sequence[str]
    command: Sequence[str]
    interval_s: float
    for_s: float | None
    pid: int | None
    folder: Path | None
    view: bool | None
    fail_on: str


def run(wanted: Wanted, chosen: common.Settings, alerts: Alerts, targets: Mapping[str, str]) -> int:
    """Watch until the command, the process or the time is over, or the user stops it; return the exit code.

    Raises:
        UsageError: There is nothing to watch, or the command cannot be started.
    """
    if not wanted.paths and not wanted.command:
        raise UsageError("there is nothing to watch", hint="name a log or a folder, or give a command behind --")
    if "-" in wanted.paths:
        raise UsageError("standard input cannot be watched", hint="npudiag analyze - reads it to its end")
    folder = _folder(wanted.folder)
    copy = folder / _COPY if wanted.command else None
    targets = {"json": str(folder / "result.json"), "html": str(folder / "report.html"), **targets}
    screen = _Screen(chosen.lang, wanted.view)
    with _stopped_by_signals() as stopped:
        child: Child | None = None
        if copy is not None:
            try:
                child = Child(wanted.command, copy, most=_COPY_BYTES, show=screen.output)
            except CannotStart as exc:
                _clear(folder)
                _say(f"error: {exc.message}")
                return exc.code
        session: Session | None = None
        with _not_at_the_cost_of(child, "cannot look on any more, the command goes on"):
            looking = Session(
                wanted.paths,
                chosen.pack,
                common.options_of(chosen),
                samples=folder / _SAMPLES,
                output=copy,
                written=[*(Path(target) for target in targets.values() if target != "-"), *alerts.files],
                node=socket.gethostname(),
                job=child.pid if child else wanted.pid,
                tell=lambda finding: _tell(finding, screen, alerts),
            )
            with screen:
                looking.start()
                _watch(looking, wanted, child, stopped, screen)
                looking.finish()
            session = looking
        if child is not None:
            _let_end(child, stopped)
    code = child.wait() if child else None
    alerts.close()
    if alerts.failed:
        _say(alerts.failed)
    if child is not None and child.cut:
        _say(f"only the first {child.copied:,} bytes of the output were kept: {child.cut}")
    judged: int = Exit.INTERNAL
    with _not_at_the_cost_of(child, "cannot write what was seen"):
        if session is not None:
            judged = _conclude(session, wanted, chosen, targets)
    return judged if code is None else code


def _conclude(session: Session, wanted: Wanted, chosen: common.Settings, targets: Mapping[str, str]) -> int:
    """Judge, write and tell; return the exit code of a watch without command."""
    from npudiag.cli.gate import grave

    result = session.whole()
    if places := common.roots(wanted.paths):
        result.facts["roots"] = places
    common.write_outputs(result, chosen.lang, targets)
    print(f"{_last_line(result, chosen.lang)}\nnpudiag: see {targets['html']}", file=sys.stderr)
    if all(told.kind in ("unknown", "skipped", "host-snapshot") for told in result.inputs):
        return Exit.NOTHING_RECOGNISED
    return Exit.GATE_FAILED if grave(result, wanted.fail_on, ()) else Exit.OK


@contextlib.contextmanager
def _not_at_the_cost_of(child: Child | None, failed: str) -> Iterator[None]:
    """Report what goes wrong instead of raising it, where a command is run: its end and its code count more."""
    try:
        yield
    except Exception as exc:
        if child is None:
            raise
        told = exc.message if isinstance(exc, NpudiagError) else f"{type(exc).__name__}: {exc}"
        _say(f"{failed}: {told}")


def _clear(folder: Path) -> None:
    """Take back what was made before it turned out that there is nothing to watch."""
    with contextlib.suppress(OSError):
        for name in (_COPY, _SAMPLES):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def _say(text: str) -> None:
    """Tell something on stderr, if anybody can still be told."""
    with contextlib.suppress(OSError):
        print(f"npudiag: {text}", file=sys.stderr, flush=True)


def _last_line(result: Any, lang: str) -> str:
    from npudiag.report import terminal

    return "".join(text for text, _ in terminal.render(result, lang=lang, width=200, verbosity=-1)[0])


def _folder(named: Path | None) -> Path:
    """Make the folder for what is written.

    Raises:
        UsageError: It cannot be made, or holds a watch already.
    """
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    folder = named or Path(f"npudiag-watch-{stamp}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _SAMPLES).open("xb").close()
    except FileExistsError:
        raise UsageError(f"{folder} holds another watch", hint="name another folder with --output") from None
    except OSError as exc:
        raise UsageError(f"{folder} cannot be written to: {exc.strerror or exc}") from None
    return folder


def _tell(finding: Finding, screen: _Screen, alerts: Alerts) -> None:
    alerts.send(finding)
    screen.finding(finding)


def _watch(session: Session, wanted: Wanted, child: Child | None, stopped: list[int], screen: _Screen) -> None:
    begin = due = time.monotonic()
    while True:
        session.step()
        screen.draw(session.state)
        now = time.monotonic()
        if child is not None:
            if not child.running:
                return
            _pass_on(child, stopped)
        elif stopped or _over(wanted, now - begin):
            return
        due = max(due + wanted.interval_s, now)
        end = time.monotonic() + max(0.0, due - now)
        while (left := end - time.monotonic()) > 0 and not (stopped or (child and not child.running)):
            time.sleep(min(left, 0.2))


def _pass_on(child: Child, stopped: list[int]) -> None:
    """Send the signals that came on to the command."""
    while stopped:
        number = stopped.pop(0)
        # Ctrl-C goes from the terminal to all processes in its foreground; other signals came to us alone.
        if number != signal.SIGINT or not _in_foreground():
            child.send(number)


def _let_end(child: Child, stopped: list[int]) -> None:
    """Wait for the command, signals passed on."""
    while child.running:
        _pass_on(child, stopped)
        time.sleep(0.1)


def _over(wanted: Wanted, seconds: float) -> bool:
    if wanted.for_s is not None and seconds >= wanted.for_s:
        return True
    return wanted.pid is not None and not _alive(wanted.pid)


def _in_foreground() -> bool:
    """Whether the terminal sends us its signals; standard input need not be it."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _alive(pid: int) -> bool:
    import psutil

    return psutil.pid_exists(pid)


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[list[int]]:
    """Give a list that gets the signals that ask to stop, instead of being ended by them."""
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda received, _frame: came.append(received))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Screen:
    """Where findings, the view and a command's output are shown, without getting into each other's way.

    A view takes stderr. Output of the command goes to stdout and stderr as it comes, above the view where both are one
    terminal.
    """

    def __init__(self, lang: str, view: bool | None) -> None:
        self._lang = lang
        self._wanted = sys.stderr.isatty() if view is None else view
        self._forced = view
        self._live: Any = None
        self._drawn = 0.0

    def __enter__(self) -> _Screen:
        if self._wanted:
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True, force_terminal=self._forced)
            self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        live_view, self._live = self._live, None
        if live_view is not None:
            live_view.stop()

    def draw(self, state: State) -> None:
        """Draw the view anew, once a second at most."""
        if self._live is None or time.monotonic() - self._drawn < _REDRAW_S:
            return
        self._drawn = time.monotonic()
        now = live.Now(
            elapsed_s=time.time() - state.started,
            quiet_s=state.quiet_s,
            lines=state.lines,
            size=state.size,
            training={
                name: getattr(state, name) for name in ("step", "total_steps", "loss", "grad_norm", "step_time_ms")
            },
            host=state.host,
            npus=state.npus,
            findings=state.findings,
        )
        self._live.update(live.view(now, self._lang), refresh=True)

    def finding(self, finding: Finding) -> None:
        """Print a finding."""
        if self._live is None:
            print(f"npudiag: {live.line(finding, self._lang)}", file=sys.stderr, flush=True)

    def output(self, data: bytes, is_error: bool) -> None:
        """Pass a command's output on."""
        stream = sys.stderr if is_error else sys.stdout
        if self._live is not None and stream.isatty():
            from rich.text import Text

            self._live.console.print(Text.from_ansi(data.decode("utf-8", "replace")), end="")
            return
        stream.buffer.write(data)
        stream.buffer.flush()
