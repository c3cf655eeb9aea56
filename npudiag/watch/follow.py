"""Follows growing logs: what is appended is parsed by itself and joined to what was read before."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from npudiag.discover.source import Source
from npudiag.discover.walk import discover
from npudiag.host.resources import Resources
from npudiag.ingest import append, ingest
from npudiag.parsers import HEAD_BYTES, choose
from npudiag.parsers.base import Budget, Partial
from npudiag.parsers.scan import Literals, Scanner
from npudiag.reading import Ingested, parse
from npudiag.result import Problem
from npudiag.tables.columns import Columns

_APPENDED = ("slog", "console", "host-snapshot")
"""Parsers whose files may be read piece by piece; the others' files are read when all is over."""

_MOST_AT_ONCE = 8 << 20
_LONGEST_LINE = 1 << 20
_ROWS = 4000
_TAIL = 1 << 16
_OPENING = b"Traceback (most recent call last)"
_OPENING_BYTES = 1 << 10
_COMPRESSED = (".gz", ".xz", ".bz2", ".zst", ".zip")


class _Bytes:
    """Bytes as a stream."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int, /) -> bytes:
        piece, self._data = self._data[:size], self._data[size:]
        return piece


class Follower:
    """One log.

    Attributes:
        source: The log.
        partial: What was read of it.
        opening: How it begins, for its copies to be known by.
    """

    def __init__(self, source: Source, partial: Partial, offset: int, inode: int, opening: bytes = b"") -> None:
        self.source = source
        self.partial = partial
        self.inode = inode
        self.opening = opening
        self.offset = offset
        """Bytes read so far."""
        self._held = b""
        self._parser: str | None = None
        self._decided = False

    def poll(self, size: int, scanner: Scanner) -> bool:
        """Read what was appended up to `size`; say whether it holds something that a rule may want.

        The end of what is there is held back until more follows or nothing does: a record may not be whole yet.
        """
        data = b""
        if size > self.offset:
            data = self._read(min(size - self.offset, _MOST_AT_ONCE))
            if not self.offset:
                self.opening = data[:_OPENING_BYTES]
            self.offset += len(data)
        ready, self._held = self._cut(self._held + data, quiet=not data)
        return bool(ready) and self._take(ready, scanner)

    def _read(self, size: int) -> bytes:
        try:
            with Path(self.source.location or "").open("rb") as file:
                file.seek(self.offset)
                return file.read(size)
        except OSError:
            return b""

    def _cut(self, data: bytes, *, quiet: bool) -> tuple[bytes, bytes]:
        """Return what can be parsed now, and what is held back."""
        end = data.rfind(b"\n") + 1
        if len(data) - end > _LONGEST_LINE:
            end = len(data)
        if not quiet:
            opening = data.rfind(_OPENING, max(0, end - _TAIL), end)
            if opening >= 0:
                end = data.rfind(b"\n", 0, opening) + 1
        return data[:end], data[end:]

    def finish(self, scanner: Scanner) -> None:
        """Take what is held back."""
        ready, self._held = self._held, b""
        if ready:
            self._take(ready, scanner)

    def _take(self, data: bytes, scanner: Scanner) -> bool:
        if not self._decided:
            self._decided = True
            head = data[:HEAD_BYTES] if not self.partial.bytes else self._head()
            parser = choose(head, self.source.path)
            self._parser = parser.name if parser is not None and parser.name in _APPENDED else None
        if self._parser is None:
            return False
        piece = parse(self.source, _Bytes(data), scanner, Budget(rows=_ROWS), self._parser)
        notable = any(row.hits or row.level in ("ERROR", "CRITICAL", "FATAL") for row in piece.rows)
        if self.partial.lines or self.partial.rows:
            append(self.partial, piece)
        else:
            self.partial = piece
        _thin(self.partial)
        return notable

    def _head(self) -> bytes:
        try:
            with Path(self.source.location or "").open("rb") as file:
                return file.read(HEAD_BYTES)
        except OSError:
            return b""


def _thin(partial: Partial) -> None:
    """Keep the memory of a log that grows for weeks bounded: old records go first that no rule asks for."""
    if len(partial.rows) > 2 * _ROWS:
        wanted = [row for row in partial.rows if row.hits]
        rest = [row for row in partial.rows if not row.hits]
        kept = [*wanted[-_ROWS:], *rest[-max(0, _ROWS - len(wanted)) :]] if len(wanted) < _ROWS else wanted[-_ROWS:]
        partial.folded += len(partial.rows) - len(kept)
        partial.rows = sorted(kept, key=lambda row: row.line)


class Following:
    """All logs under some paths.

    Args:
        paths: What to follow; a path may not exist yet.
        literals: Strings whose records are to be kept.
        own: Files of the watch itself that are followed too; nothing else in their folders is.
        written: Further files that the watch writes; they are not followed.
    """

    def __init__(
        self, paths: Sequence[str], literals: Literals, own: Sequence[Path] = (), written: Sequence[Path] = ()
    ) -> None:
        self._paths = [*paths, *map(str, own)]
        self._scanner = Scanner(literals)
        self._literals = literals
        self._own = {str(path.resolve()) for path in own}
        self._folders = tuple({str(path.resolve().parent) + os.sep for path in own})
        self._followers: dict[str, Follower] = {}
        self._written = {str(path.resolve()) for path in written}
        self._others: dict[str, Partial] = {}
        self._ended: dict[str, Follower] = {}
        self._set_aside = 0
        self._old: set[str] = set()
        self.problems: list[Problem] = []

    @property
    def followers(self) -> list[Follower]:
        """Every log that is followed, in order of path."""
        return [self._followers[path] for path in sorted(self._followers)]

    def start(self, resources: Callable[[], Resources]) -> None:
        """Read what is there already."""
        there = [path for path in self._paths if Path(path).exists()]
        if not there:
            return
        # Sizes first: what is written meanwhile is read later.
        sizes = {source.location: source.size or 0 for source in self._found(there)}
        self._old = {location for location in sizes if location}
        read = ingest(there, self._literals, resources)
        self.problems += read.problems
        for partial in read.partials:
            location = partial.source.location
            if location is None or partial.source.container or location not in sizes:
                if not self.is_left_out(location):
                    self._others[partial.source.path] = partial
                continue
            inode = _inode(location)
            whole = partial.bytes >= sizes[location] and not partial.truncated
            self._followers[partial.source.path] = Follower(
                partial.source,
                partial,
                partial.bytes if whole else sizes[location],
                inode,
                _opening(Path(location)),
            )

    def look_for_new(self) -> None:
        """Find logs that were not there before; one that a rotation renamed goes on under its new name."""
        known = {follower.inode: path for path, follower in self._followers.items()}
        for source in self._found([path for path in self._paths if Path(path).exists()]):
            if source.path in self._followers or source.path in self._others or source.location is None:
                continue
            inode = _inode(source.location)
            before = known.get(inode)
            if before is not None and _inode(self._followers[before].source.location or "") != inode:
                moved = self._followers.pop(before)
                moved.source = source
                moved.partial.source = source
                self._followers[source.path] = moved
            else:
                empty = Partial(source, identity=source.identity)
                self._followers[source.path] = Follower(source, empty, 0, inode)

    def poll(self) -> bool:
        """Read what was appended; say whether any of it may matter to a rule."""
        notable = False
        for path, follower in list(self._followers.items()):
            try:
                status = Path(follower.source.location or "").stat()
            except OSError:
                continue  # gone, or about to be made anew
            if status.st_ino != follower.inode or status.st_size < follower.offset:
                follower.finish(self._scanner)
                follower = self._begun_anew(path, follower, status.st_ino)
            notable |= follower.poll(status.st_size, self._scanner)
        return notable

    def _begun_anew(self, path: str, old: Follower, inode: int) -> Follower:
        """Set what was read of a log aside whose file was replaced or cut, and begin with the new one."""
        if old.partial.lines:
            self._set_aside += 1
            name = f"{path} (earlier, {self._set_aside})"
            aside = dataclasses.replace(old.source, path=name)
            old.source = old.partial.source = aside
            if inode != old.inode:
                # Renamed, most likely: `look_for_new` finds it under its new name.
                self._followers[name] = old
            else:
                self._ended[name] = old
        source = dataclasses.replace(old.source, path=path)
        fresh = Follower(source, Partial(source, identity=source.identity), 0, inode)
        self._followers[path] = fresh
        return fresh

    def finish(self) -> None:
        """Take what is held back."""
        for follower in self.followers:
            follower.finish(self._scanner)

    def ingested(self) -> Ingested:
        """Return a copy of what was read, for an analysis to use up."""
        followed = (*self.followers, *self._ended.values())
        partials = [*(follower.partial for follower in followed), *self._others.values()]
        return Ingested(partials=[_copy(partial) for partial in partials], problems=list(self.problems))

    def _found(self, paths: Sequence[str]) -> Iterator[Source]:
        if not paths:
            return
        for source in discover(paths).sources:
            if not source.container and not self.is_left_out(source.location):
                yield source

    def gone(self) -> list[Partial]:
        """Return a copy of what was read of logs that are nowhere on the disk any more."""
        lost = [follower for follower in self.followers if not Path(follower.source.location or "").exists()]
        return [
            _copy(follower.partial)
            for follower in (*lost, *self._ended.values())
            if follower.partial.lines and not self._is_kept(follower)
        ]

    def _is_kept(self, follower: Follower) -> bool:
        """Whether a rotation made a copy of a log beside it: compressed, or one that begins alike."""
        log = Path(follower.source.location or "")
        try:
            beside = [path for path in log.parent.iterdir() if path.name.startswith(log.name) and path != log]
        except OSError:
            return False
        for path in beside:
            if path.suffix in _COMPRESSED and str(path) not in self._old:
                return True
            if follower.opening and _opening(path).startswith(follower.opening):
                return True
        return False

    def is_left_out(self, location: str | None) -> bool:
        """Whether a file is the watch's own and no log."""
        if location is None or location in self._own:
            return False
        return location in self._written or location.startswith(self._folders)


def _opening(path: Path) -> bytes:
    """Return the first bytes of a file."""
    try:
        with path.open("rb") as file:
            return file.read(_OPENING_BYTES)
    except OSError:
        return b""


def _inode(location: str) -> int:
    try:
        return Path(location).stat().st_ino
    except OSError:
        return 0


def _copy(partial: Partial) -> Partial:
    columns = {}
    for name, table in partial.columns.items():
        columns[name] = Columns(name)
        columns[name].merge(table)
    rows = [dataclasses.replace(row) for row in partial.rows]
    return dataclasses.replace(partial, columns=columns, rows=rows)
