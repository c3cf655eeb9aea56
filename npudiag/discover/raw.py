"""Bytes from disk or stdin, and what all readers of this package have in common.

A reader has ``read(size)``: up to `size` bytes, empty at the end; where the rest is lost it raises `SourceError`, but
only once everything before was handed out. So no layer above loses bytes to an error below.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from typing import BinaryIO, Protocol

from npudiag.discover.source import Limits, Source
from npudiag.errors import SourceError
from npudiag.result import Problem

BLOCK = 64 * 1024

# Never wait for a FIFO, never make a terminal ours.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)

Report = Callable[[Problem], None]


class Reader(Protocol):
    """A one-way source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, empty at the end.

        Raises:
            SourceError: The rest is lost. Raised again on every later call.
        """

    def skip(self, count: int, /) -> int:
        """Pass over up to `count` bytes; return how many there were."""


def drop(reader: Reader, count: int) -> int:
    """Pass over up to `count` bytes by reading them; return how many there were."""
    left = count
    while left:
        piece = reader.read(min(left, BLOCK))
        if not piece:
            break
        left -= len(piece)
    return count - left


class Meter:
    """Counts what comes off the disk and what is unpacked from it, and stops bombs.

    The ratio is taken against the bytes on disk, however many layers lie between: a bomb inside a bomb has a modest
    ratio in each.

    Attributes:
        taken: Bytes read off the disk so far.
        total: Bytes unpacked so far, over all members.
        path: Evidence path for messages.
    """

    def __init__(self, limits: Limits, path: str, size: int | None) -> None:
        self.limits = limits
        self.path = path
        self.taken = 0
        self.total = 0
        self._size = size

    def count(self, piece: int, out: int, since: int, most: int) -> None:
        """Count `piece` more bytes, with which a stream has given `out` of at most `most`.

        Args:
            piece: Bytes just unpacked.
            out: Bytes this stream unpacked so far.
            since: `taken` when it began.
            most: How many it may.

        Raises:
            SourceError: It is a bomb.
        """
        limits = self.limits
        self.total += piece
        if out > most:
            raise self._bomb(f"unpacks to more than {most} bytes")
        if self.total > limits.max_total_bytes:
            raise self._bomb(f"unpacks to more than {limits.max_total_bytes} bytes in all")
        # Blocks are read ahead, so up to one more than was counted may be in use.
        near = self.taken - since + BLOCK
        if self._size is not None:
            near = min(near, self._size)
            if self.total > limits.ratio_grace_bytes and self.total > limits.max_ratio * max(self._size, 1):
                raise self._bomb(f"unpacks to more than {limits.max_ratio} times its size")
        if out > limits.ratio_grace_bytes and out > limits.max_ratio * max(near, 1):
            raise self._bomb(f"unpacks to more than {limits.max_ratio} times its size")

    def _bomb(self, what: str) -> SourceError:
        return SourceError(f"{self.path}: {what}; the rest was not read", reason="bomb")


def open_regular(location: str, path: str) -> tuple[int, os.stat_result]:
    """Open a file for reading, sure not to wait for a FIFO or to wake a device that took its place.

    Returns:
        File descriptor (the caller closes it) and status.

    Raises:
        SourceError: ``vanished``, ``unreadable``.
    """
    try:
        handle = os.open(location, _FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        raise SourceError(f"{path}: the file is gone", reason="vanished") from None
    except (OSError, ValueError) as exc:
        raise SourceError(f"{path}: cannot be opened: {_why(exc)}", reason="unreadable") from None
    try:
        status = os.fstat(handle)
    except OSError as exc:
        os.close(handle)
        raise SourceError(f"{path}: cannot be opened: {_why(exc)}", reason="unreadable") from None
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise SourceError(f"{path}: is no regular file any more", reason="vanished")
    return handle, status


def _why(exc: Exception) -> str:
    return (exc.strerror or type(exc).__name__) if isinstance(exc, OSError) else str(exc)


class Disk:
    """The bytes of a file from `start` to `stop`. Opens the file on the first read, so opening cannot fail.

    A file that grew meanwhile is read to the size it had when it was found.
    """

    def __init__(
        self, source: Source, meter: Meter, report: Report | None, start: int = 0, stop: int | None = None
    ) -> None:
        self._source = source
        self._meter = meter
        self._report = report
        self._at = start
        self._stop = stop if stop is not None else source.size
        self._handle: int | None = None
        self._fault: SourceError | None = None

    def read(self, size: int, /) -> bytes:
        """See `Reader`."""
        if self._fault:
            raise self._fault
        if self._stop is not None:
            size = min(size, self._stop - self._at)
        if size <= 0:
            self._finished()
            return b""
        try:
            piece = self._piece(size)
        except SourceError as exc:
            self._fault = exc
            raise
        except OSError as exc:
            self._fault = SourceError(f"{self._source.path}: cannot be read: {_why(exc)}", reason="unreadable")
            raise self._fault from None
        if not piece and self._stop is not None:
            self._fault = SourceError(
                f"{self._source.path}: the file was cut to {self._at} bytes while it was read", reason="truncated"
            )
            raise self._fault
        self._at += len(piece)
        self._meter.taken += len(piece)
        return piece

    def skip(self, count: int, /) -> int:
        """See `Reader`."""
        if self._stop is not None:
            count = max(0, min(count, self._stop - self._at))
        self._at += count
        return count

    def move(self, offset: int) -> None:
        """Go on reading at `offset`."""
        self._at = offset

    def close(self) -> None:
        """Give the file back."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        # Errors are of no use here: the interpreter may be going down.
        with contextlib.suppress(Exception):
            self.close()

    def _open(self) -> int:
        if self._handle is None:
            assert self._source.location is not None
            self._handle, _ = open_regular(self._source.location, self._source.path)
        return self._handle

    def _piece(self, size: int) -> bytes:
        """Return up to `size` bytes from where the reader stands."""
        handle = self._open()
        if hasattr(os, "pread"):
            return os.pread(handle, size, self._at)
        os.lseek(handle, self._at, os.SEEK_SET)
        return os.read(handle, size)

    def _finished(self) -> None:
        """Tell, once, that the file has more by now."""
        if self._report is None or self._handle is None or self._source.size is None:
            return
        report, self._report = self._report, None
        with contextlib.suppress(OSError):
            now = os.fstat(self._handle).st_size
            if now > self._source.size:
                report(
                    Problem(
                        path=self._source.path,
                        reason="grew",
                        message=f"the file grew while it was read; the first {self._source.size} bytes were analysed",
                        lost=False,
                    )
                )


class Piped:
    """Standard input."""

    def __init__(self, stream: BinaryIO, meter: Meter) -> None:
        self._stream = stream
        self._meter = meter
        self._fault: SourceError | None = None

    def read(self, size: int, /) -> bytes:
        """See `Reader`."""
        if self._fault:
            raise self._fault
        try:
            piece = self._stream.read(size) or b""  # None where nothing is there yet
        except (OSError, ValueError) as exc:
            self._fault = SourceError(f"-: standard input cannot be read: {_why(exc)}", reason="unreadable")
            raise self._fault from None
        self._meter.taken += len(piece)
        return piece

    def skip(self, count: int, /) -> int:
        """See `Reader`."""
        return drop(self, count)


class Peekable:
    """A reader whose next bytes can be looked at."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes without passing them; fewer at the end or ahead of a fault."""
        while len(self._ahead) < size:
            try:
                piece = self._reader.read(size - len(self._ahead))
            except SourceError:
                break  # reading past these bytes raises it again
            if not piece:
                break
            self._ahead += piece
        return self._ahead[:size]

    def put_back(self, data: bytes) -> None:
        """Make `data` the next bytes."""
        self._ahead = data + self._ahead

    def read(self, size: int, /) -> bytes:
        """See `Reader`."""
        if self._ahead:
            piece, self._ahead = self._ahead[:size], self._ahead[size:]
            return piece
        return self._reader.read(size)

    def skip(self, count: int, /) -> int:
        """See `Reader`."""
        ahead = min(count, len(self._ahead))
        self._ahead = self._ahead[ahead:]
        return ahead + (self._reader.skip(count - ahead) if count > ahead else 0)


class Slice:
    """The next `size` bytes of a reader, as long as nobody moved it on.

    Attributes:
        left: Bytes not read yet.
    """

    def __init__(self, reader: Reader, size: int, path: str) -> None:
        self.left = size
        self._reader = reader
        self._path = path

    def read(self, size: int, /) -> bytes:
        """See `Reader`."""
        size = min(size, self.left)
        if size <= 0:
            return b""
        piece = self._reader.read(size)
        if not piece:
            raise SourceError(f"{self._path}: the archive ends inside it", reason="truncated")
        self.left -= len(piece)
        return piece

    def skip(self, count: int, /) -> int:
        """See `Reader`."""
        passed = self._reader.skip(min(count, self.left))
        self.left -= passed
        return passed


def read_exactly(reader: Reader, size: int) -> bytes:
    """Return `size` bytes, fewer only at the end."""
    pieces = []
    while size:
        piece = reader.read(size)
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
