"""Tells others of findings: a command to run, a file to write to."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from pathlib import Path

import msgspec

from npudiag.errors import UsageError
from npudiag.result import Finding

_AT_ONCE = 4


class Alerts:
    """Where findings go.

    Args:
        command: Words of a shell-like command line, run without a shell; it gets the finding as JSON on its standard
            input, and code, severity and title in variables.
        file: Gets a line of JSON for each finding.

    Raises:
        UsageError: The command line has an open quote, or the file cannot be written.
    """

    def __init__(self, command: str | None, file: Path | None) -> None:
        try:
            self._words = shlex.split(command) if command else []
        except ValueError as exc:
            raise UsageError(f"--alert-command: {exc}", hint="close the quote") from None
        try:
            self._file = file.open("ab", buffering=0) if file else None
        except OSError as exc:
            raise UsageError(f"{file} cannot be written: {exc.strerror or exc}") from None
        self._running: list[subprocess.Popen[bytes]] = []
        self.files: tuple[Path, ...] = (file,) if file else ()
        """What is written to."""
        self.failed = ""
        """Why somebody was not told, empty where all were."""

    def send(self, finding: Finding) -> None:
        """Tell of a finding; waits for nobody."""
        data = msgspec.json.encode(finding)
        if self._file is not None:
            try:
                self._file.write(data + b"\n")
            except OSError as exc:
                self.failed = f"{self.files[0]}: {exc.strerror or exc}"
        if not self._words:
            return
        self._running = [process for process in self._running if process.poll() is None]
        if len(self._running) >= _AT_ONCE:
            self.failed = f"{_AT_ONCE} alert commands are still running; {finding.code} was not told"
            return
        environment = {
            **os.environ,
            "NPUDIAG_CODE": finding.code,
            "NPUDIAG_SEVERITY": finding.severity,
            "NPUDIAG_TITLE": "".join(sign if sign.isprintable() else " " for sign in finding.title),
        }
        try:
            process = subprocess.Popen(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as exc:
            self.failed = f"{self._words[0]}: {exc.strerror or exc}"
            return
        self._running.append(process)
        assert process.stdin is not None
        try:
            # A pipe takes 64 KiB at once; a reader that does not read must not hold up the watch.
            os.set_blocking(process.stdin.fileno(), False)
            process.stdin.write(data[:60_000])
            process.stdin.close()
        except OSError:
            pass

    def close(self, patience_s: float = 5.0) -> None:
        """Wait a moment for commands that still run, all together, then stop them."""
        end = time.monotonic() + patience_s
        for process in self._running:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self.failed = f"{self._words[0]}: an alert command did not end and was stopped"
        if self._file is not None:
            self._file.close()
