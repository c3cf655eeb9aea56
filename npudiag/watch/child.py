"""Runs a command, passes its output on, and keeps a copy to be followed.

Whatever befalls the copy or the terminal, the command's pipes are emptied: a job must not hang since somebody looks on.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from npudiag.errors import UsageError

_PIECE = 1 << 16
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_LAST_WORDS_S = 2.0

Show = Callable[[bytes, bool], None]
"""Called with output, and whether it came from stderr."""


class Child:
    """A running command.

    Attributes:
        pid: Its process.
        copied: Bytes of its output in the copy.
        cut: Why the copy does not hold all of the output, empty where it does.
    """

    def __init__(self, command: Sequence[str], copy: Path, *, most: int, show: Show) -> None:
        """Start it.

        Args:
            command: Program and arguments.
            copy: File that gets its output, both streams in the order they come.
            most: Bytes to which the copy may grow.
            show: Passes the output on.

        Raises:
            CannotStart: It cannot be started; the exit code is the one a shell gives.
            UsageError: The copy cannot be written.
        """
        try:
            self._copy = copy.open("wb", buffering=0)
        except OSError as exc:
            raise UsageError(f"{copy} cannot be written: {exc.strerror or exc}") from None
        self._most = most
        self._show = show
        self._lock = threading.Lock()
        self.copied = 0
        self.cut = ""
        try:
            self._process = subprocess.Popen(list(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except OSError as exc:
            self._copy.close()
            code = _NOT_FOUND if isinstance(exc, FileNotFoundError) else _NOT_EXECUTABLE
            raise CannotStart(f"{command[0]}: {exc.strerror or exc}", code) from None
        self.pid = self._process.pid
        assert self._process.stdout is not None and self._process.stderr is not None
        self._threads = [
            threading.Thread(target=self._pump, args=(pipe, is_error), daemon=True)
            for pipe, is_error in ((self._process.stdout, False), (self._process.stderr, True))
        ]
        for thread in self._threads:
            thread.start()

    def _pump(self, pipe: IO[bytes], is_error: bool) -> None:
        handle = pipe.fileno()
        shown = True
        while piece := os.read(handle, _PIECE):
            if shown:
                try:
                    self._show(piece, is_error)
                except BrokenPipeError:
                    # The reader of our output went away: the command is to learn it as if it wrote there itself.
                    pipe.close()
                    return
                except (OSError, ValueError):
                    shown = False
            self._keep(piece)

    def _keep(self, piece: bytes) -> None:
        """Copy output, as long as there is room for it."""
        with self._lock:
            if self._copy.closed or self.cut:
                return
            room = self._most - self.copied
            try:
                self.copied += self._copy.write(piece[:room])
            except OSError as exc:
                self.cut = exc.strerror or str(exc)
                return
            if len(piece) > room:
                self.cut = "it is long"

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def send(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.running:
            self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end and return the exit code as a shell gives it."""
        code = self._process.wait()
        for thread in self._threads:
            # What it left behind may keep the pipes open for ever.
            thread.join(_LAST_WORDS_S)
        with self._lock:
            self._copy.close()
        return 128 - code if code < 0 else code


class CannotStart(UsageError):
    """A command that cannot be started.

    Attributes:
        code: Exit code of a shell for it.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, hint="what follows -- is the command to run")
        self.code = code
