"""Opens sources: plain files, compressed files, archives and archives in archives, as streams of bytes.

Nothing is unpacked to disk, and memory stays bounded. An error in a stream is a `SourceError` from ``read()``, raised
once all bytes ahead of it were delivered; the streams after it follow where the archive allows. What cannot be
opened at all, or is passed over, is reported as a `Problem`.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from npudiag.discover import magic
from npudiag.discover.archives import Member, tar_members, zip_members, zip_stream
from npudiag.discover.identity import identify
from npudiag.discover.inflate import Inflater
from npudiag.discover.names import VCS_FOLDERS, member_path
from npudiag.discover.raw import BLOCK, Disk, Meter, Peekable, Piped, Reader, Report
from npudiag.discover.remote import Remote, is_url
from npudiag.discover.source import Limits, Source
from npudiag.errors import SourceError
from npudiag.result import Problem

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_LONGEST_NAME = 4096
_MOST_TOLD = 50  # problems of one kind and archive told one by one
_HIDDEN = VCS_FOLDERS | {"__MACOSX"}


class Stream(io.RawIOBase):
    """One source's bytes, read from start to end once.

    `read` gives up to `size` bytes and is only empty at the end. Streams of archive members end when the next member
    is asked for.
    """

    def __init__(self, reader: Reader, close: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._reader = reader
        self._close = close
        self._fault: SourceError | None = None

    @property
    def fault(self) -> SourceError | None:
        """The error that ended the stream, once it was raised."""
        return self._fault

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes (all that are left for -1), empty at the end.

        Raises:
            SourceError: The rest cannot be read. Raised again on every later call.
            ValueError: The stream is closed.
        """
        if self.closed:
            raise ValueError("read of a closed stream")
        if self._fault:
            raise self._fault
        if size < 0:
            return self.readall()
        try:
            return self._reader.read(size)
        except SourceError as exc:
            self._fault = exc
            raise

    def readall(self) -> bytes:
        """Return all that is left. See `read`."""
        pieces = []
        try:
            while piece := self.read(4 * BLOCK):
                pieces.append(piece)
        except SourceError:
            if not pieces:
                raise
        return b"".join(pieces)

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill `buffer` from its start; return how many bytes were put there, 0 at the end."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Give back what the stream holds."""
        if not self.closed and self._close:
            self._close()
        super().close()


def open_streams(source: Source, limits: Limits, report: Report) -> Iterator[tuple[Source, Stream]]:
    """Yield what is to be read of a source, with the stream to read it from.

    A plain or compressed file yields itself; an archive yields one source per member, in order, those of archives
    inside it included. A file that is gone or unreadable yields itself with a stream that says so on the first read.

    Args:
        source: What `discover` found.
        limits: Bounds on what is unpacked.
        report: Called with what is passed over or could not be opened.
    """
    meter = Meter(limits, source.path, source.size)
    if source.location is None:
        yield from _open_stdin(source, limits, report, meter)
        return
    disk = (Remote if is_url(source.location) else Disk)(source, meter, report)
    try:
        if source.container is None:
            yield source, Stream(disk, disk.close)
        else:
            yield from _Opener(source, limits, report, meter).file(disk)
    finally:
        disk.close()


def _open_stdin(source: Source, limits: Limits, report: Report, meter: Meter) -> Iterator[tuple[Source, Stream]]:
    stdin = sys.stdin
    binary = getattr(stdin, "buffer", None)
    if binary is None:
        report(Problem(path=source.path, reason="unreadable", message="there is no standard input"))
        return
    yield from _Opener(source, limits, report, meter).pipe(Piped(binary, meter))


def open_range(source: Source, start: int, stop: int) -> Stream:
    """Return a stream of the bytes from `start` to `stop` (not included) of a plain file.

    Raises:
        ValueError: The source is packed or is no file, or the range is not inside it.
    """
    if source.container is not None or source.location is None:
        raise ValueError(f"{source.path}: only plain files have ranges")
    if not 0 <= start <= stop or (source.size is not None and stop > source.size):
        raise ValueError(f"{source.path}: no range {start} to {stop} in {source.size} bytes")
    disk = Disk(source, Meter(Limits(), source.path, source.size), None, start, stop)
    return Stream(disk, disk.close)


class _Opener:
    """Opens one file on disk, or stdin, and all that is inside."""

    def __init__(self, source: Source, limits: Limits, report: Report, meter: Meter) -> None:
        self._outermost = source
        self._limits = limits
        self._report = report
        self._meter = meter
        self._members = 0
        self._told: Counter[str] = Counter()

    def file(self, disk: Disk) -> Iterator[tuple[Source, Stream]]:
        source = self._outermost
        if source.container == "zip":
            members = zip_members(disk, source.size or 0, source.path, self._limits, self._meter)
            yield from self._archive(members, source, depth=1)
            self._tell_rest()
        else:
            yield from self.pipe(disk)

    def pipe(self, reader: Reader) -> Iterator[tuple[Source, Stream]]:
        yield from self._any(Peekable(reader), self._outermost, depth=0)
        self._tell_rest()

    def _any(self, reader: Peekable, source: Source, depth: int) -> Iterator[tuple[Source, Stream]]:
        """Yield what is in `reader`, whatever it is; `depth` is how many containers it lies in."""
        head = reader.peek(magic.HEAD_BYTES)
        kind = magic.sniff(head)
        if kind is None:
            other = magic.foreign(head)
            if other:
                self._problem(source.path, "unsupported", f"{other} archives cannot be read")
                return
            with Stream(reader) as stream:
                yield source, stream
            return
        depth += 1
        if depth > self._limits.max_depth:
            self._problem(
                source.path, "limit", f"it is packed more than {self._limits.max_depth} times and was not opened"
            )
        elif kind == "zip":
            yield from self._archive(zip_stream(reader, source.path, self._limits, self._meter), source, depth)
        elif kind == "tar":
            yield from self._archive(tar_members(reader, source.path, self._limits), source, depth)
        else:
            inflater = Inflater(reader, kind, self._meter, source.path)
            inner = Peekable(inflater)
            if magic.is_tar(inner.peek(magic.HEAD_BYTES)):
                inflater.most = self._limits.max_total_bytes
                yield from self._archive(tar_members(inner, source.path, self._limits), source, depth)
            else:
                yield from self._any(inner, source, depth)
            if inflater.trailing:
                self._problem(
                    source.path, "corrupt", "bytes behind the end of the compressed data were ignored", lost=False
                )

    def _archive(self, members: Iterator[Member], source: Source, depth: int) -> Iterator[tuple[Source, Stream]]:
        """Yield what is in the members of an archive."""
        skipped: list[str] = []
        given: Stream | None = None
        try:
            for member in members:
                if self._members >= self._limits.max_members:
                    self._problem(source.path, "limit", f"only the first {self._limits.max_members} members were read")
                    return
                self._members += 1
                given = None
                for inner, stream in self._member(member, source, depth, skipped):
                    given = stream
                    yield inner, stream
        except SourceError as exc:
            # Who read the member has met the error that now ends the archive; telling once is enough.
            if given is None or given.fault is None or given.fault.reason != exc.reason:
                self._problem(source.path, exc.reason, exc.message)
        finally:
            if skipped:
                few = ", ".join(skipped[:3]) + (", ..." if len(skipped) > 3 else "")
                self._problem(
                    source.path, "special", f"{len(skipped)} link(s) or device(s) were passed over: {few}", lost=False
                )

    def _member(
        self, member: Member, archive: Source, depth: int, skipped: list[str]
    ) -> Iterator[tuple[Source, Stream]]:
        tidy = member_path(member.name)
        if tidy is None:
            if member.kind == "file":
                shown = member.name.lstrip("/")
                self._problem(
                    f"{archive.path}!/{shown}", "escape", f"the member {member.name} points outside the archive"
                )
            return
        tidy = tidy or "unnamed"
        if len(tidy) > _LONGEST_NAME:
            tidy = tidy[:_LONGEST_NAME] + "..."
        if member.kind == "folder" or _HIDDEN.intersection(tidy.split("/")):
            return
        path = f"{archive.path}!/{tidy}"
        if member.kind == "other":
            skipped.append(tidy)
            return
        if member.body is None:
            reason, why = member.refused or ("corrupt", "it has no content")
            self._problem(path, reason, f"{path}: {why}")
            return
        source = replace(
            self._outermost,
            path=path,
            size=member.size,
            container=self._outermost.container or "tar",
            identity=identify(path),
        )
        yield from self._any(Peekable(member.body), source, depth)

    def _problem(self, path: str, reason: str, message: str, *, lost: bool = True) -> None:
        self._told[reason] += 1
        if self._told[reason] <= _MOST_TOLD:
            self._report(Problem(path=path, reason=reason, message=message, lost=lost))

    def _tell_rest(self) -> None:
        for reason, count in self._told.items():
            if count > _MOST_TOLD:
                message = f"{count - _MOST_TOLD} more members with the same problem"
                self._report(Problem(path=self._outermost.path, reason=reason, message=message))
