"""Finds the files under the paths a user names.

Decisions:

* Files come in the order of the arguments, within a folder by name, files ahead of subfolders.
* What is met twice (overlapping arguments, links) is read once, under the first path that is no link; hard links are
  files of their own.
* A symbolic link is followed once everything else was found, and only where it leads to something inside the
  arguments that was not found yet. One that leads to a folder it lies in is reported as ``loop``, one that leads
  outside as ``escape``, one that leads nowhere as ``vanished``. An argument may itself be a link.
* FIFOs, sockets and devices are reported and never opened.
* Folders of version control are passed over.
* A pattern that the shell did not expand (``'node-*/slog'``) is expanded, unless a file has that very name.
* Two arguments of the same name get their parents' names in front, so that no two files share an evidence path.
"""

from __future__ import annotations

import glob
import os
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from npudiag.discover import magic
from npudiag.discover.identity import identify
from npudiag.discover.inflate import Inflater
from npudiag.discover.names import VCS_FOLDERS, display_path
from npudiag.discover.raw import Meter, Peekable, open_regular
from npudiag.discover.remote import find, is_url
from npudiag.discover.source import Limits, Source
from npudiag.errors import SourceError, UsageError
from npudiag.result import Problem

STDIN = "-"

_Inode = tuple[int, int]
_MOST_TOLD = 200  # problems of one kind told one by one


@dataclass(slots=True)
class Discovery:
    """What there is to read, and what was passed over."""

    sources: list[Source] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def discover(paths: Sequence[str], limits: Limits | None = None) -> Discovery:
    """Find all files under `paths`.

    Args:
        paths: Files, folders, archives, patterns, URLs, or ``-`` for standard input.
        limits: Bounds; only `max_files` is used here.

    Raises:
        UsageError: A path does not exist, or a URL cannot be read.
    """
    limits = limits or Limits()
    arguments: list[tuple[str, os.stat_result | None]] = []
    has_stdin = False
    for path in expanded(paths):
        if path == STDIN:
            has_stdin = True
        elif is_url(path):
            arguments.append((path, None))
        else:
            try:
                arguments.append((place_of(path), Path(path).stat()))
            except (OSError, ValueError, RuntimeError) as exc:
                raise _unusable(path, exc) from None
    walk = _Walk(limits, [location for location, status in arguments if status])
    if has_stdin:
        walk.found.sources.append(Source(STDIN, None, None, None))
    for (location, status), name in zip(arguments, evidence_names([place for place, _ in arguments]), strict=True):
        if status:
            walk.argument(location, name, status)
        else:
            sources, problems = find(location, name, limits)
            walk.found.sources += sources
            walk.found.problems += problems
    walk.finish()
    return walk.found


def expanded(paths: Sequence[str]) -> list[str]:
    """Return the arguments with patterns replaced by what fits them."""
    out: list[str] = []
    for path in paths:
        pattern = glob.has_magic(path) and not is_url(path) and not os.path.lexists(path)
        # Path.glob takes no absolute patterns.
        out += (pattern and sorted(glob.glob(path))) or [path]  # noqa: PTH207
    return out


def place_of(path: str) -> str:
    """Return an argument as it is named in lists of places: absolute, or the URL that it is."""
    return path if is_url(path) else os.path.abspath(path)  # noqa: PTH100 - Path.absolute() keeps ".."


def _unusable(path: str, exc: Exception) -> UsageError:
    shown = display_path(path)
    if isinstance(exc, PermissionError):
        return UsageError(f"{shown}: permission denied", hint="run as a user who may read it")
    return UsageError(f"{shown}: no such file or folder", hint="check the path; a link may lead nowhere")


def evidence_names(locations: Sequence[str]) -> list[str]:
    """Return the first part of the evidence paths under each argument: its name, with parents where names collide."""
    parts = {location: PurePath(location).parts[1:] for location in locations}
    depth = dict.fromkeys(locations, 1)
    while True:
        names = {location: "/".join(parts[location][-depth[location] :]) for location in depth}
        counts = Counter(names.values())
        longer = [
            location for location, name in names.items() if counts[name] > 1 and depth[location] < len(parts[location])
        ]
        if not longer:
            return [display_path(names[location]) for location in locations]
        for location in longer:
            depth[location] += 1


class _Walk:
    def __init__(self, limits: Limits, locations: Sequence[str]) -> None:
        self.found = Discovery()
        self._limits = limits
        self._roots = [os.path.realpath(location) for location in locations]
        self._files: set[tuple[object, ...]] = set()
        self._folders: set[_Inode] = set()
        self._links: list[tuple[str, str]] = []
        self._full = False
        self._told: Counter[tuple[str, bool]] = Counter()

    def argument(self, location: str, name: str, status: os.stat_result) -> None:
        if stat.S_ISDIR(status.st_mode):
            self._folder(location, name, status)
        elif stat.S_ISREG(status.st_mode):
            self._file(location, name, status)
        else:
            self._special(name, status)

    def finish(self) -> None:
        """Follow the links met on the way, which may lead to more of them; sum up problems that are many."""
        while self._links and not self._is_full():
            links, self._links = self._links, []
            for location, path in links:
                self._link(location, path)
        for (reason, lost), count in self._told.items():
            if count > _MOST_TOLD:
                message = f"{count - _MOST_TOLD} more files with the same problem"
                self.found.problems.append(Problem(path="", reason=reason, message=message, lost=lost))

    def _folder(self, location: str, path: str, status: os.stat_result) -> None:
        """Walk a folder without recursion: trees may be deeper than the interpreter's stack."""
        waiting = [(location, path, _inode(status))]
        while waiting and not self._is_full():
            location, path, inode = waiting.pop()
            if inode in self._folders:
                continue
            if inode:
                self._folders.add(inode)
            try:
                with os.scandir(location) as scan:
                    entries = sorted(scan, key=_name)
            except (OSError, ValueError) as exc:
                self._unreadable(path, exc)
                continue
            start = location if location.endswith(os.sep) else location + os.sep
            prefix = f"{path}/" if path else ""
            subfolders: list[tuple[str, str, _Inode | None]] = []
            for entry in entries:
                shown = prefix + display_path(entry.name)
                try:
                    if entry.is_symlink():
                        self._links.append((start + entry.name, shown))
                    elif entry.is_dir(follow_symlinks=False):
                        if entry.name not in VCS_FOLDERS:
                            subfolders.append((start + entry.name, shown, _inode_of_entry(entry)))
                    else:
                        info = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(info.st_mode):
                            self._file(start + entry.name, shown, info)
                        else:
                            self._special(shown, info)
                except OSError as exc:
                    self._unreadable(shown, exc)
                if self._is_full():
                    return
            waiting.extend(reversed(subfolders))

    def _file(self, location: str, path: str, status: os.stat_result) -> None:
        inode = _inode(status)
        if inode:
            # Hard links are files of their own: two ranks may share one file, and each is a rank.
            key = inode if status.st_nlink < 2 else (*inode, os.path.realpath(location))
            if key in self._files:
                return
            self._files.add(key)
        if len(self.found.sources) >= self._limits.max_files:
            self._full = True
            self._problem(path, "limit", f"only the first {self._limits.max_files} files were looked at")
            return
        if status.st_size == 0:
            self.found.sources.append(Source(path, location, 0, None, identify(path)))
            return
        try:
            container, other = _container(location, path, status.st_size)
        except SourceError as exc:
            self._problem(path, exc.reason, exc.message)
            return
        if other:
            self._problem(path, "unsupported", f"{path}: {other} archives cannot be read; unpack it first")
            return
        self.found.sources.append(Source(path, location, status.st_size, container, identify(path)))

    def _link(self, location: str, path: str) -> None:
        try:
            target = os.path.realpath(location, strict=True)
            status = Path(target).stat()
        except (OSError, ValueError, RuntimeError) as exc:
            # A circle of links and one that leads nowhere hold nothing that could be lost.
            if isinstance(exc, PermissionError):
                self._unreadable(path, exc)
            elif isinstance(exc, FileNotFoundError):
                self._problem(path, "vanished", f"{path}: the link leads nowhere", lost=False)
            else:
                self._problem(path, "loop", f"{path}: the link leads in a circle", lost=False)
            return
        if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
            self._special(path, status)
        elif not any(_inside(target, root) for root in self._roots):
            self._problem(path, "escape", f"{path}: the link leads outside the input and was not followed")
        elif stat.S_ISREG(status.st_mode):
            self._file(location, path, status)
        elif _inside(os.path.realpath(location.rpartition(os.sep)[0]), target):
            self._problem(path, "loop", f"{path}: the link leads back to a folder it lies in", lost=False)
        elif not VCS_FOLDERS.intersection(PurePath(target).parts):
            self._folder(location, path, status)

    def _is_full(self) -> bool:
        return self._full

    def _special(self, path: str, status: os.stat_result) -> None:
        mode = status.st_mode
        what = "FIFO" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
        self._problem(path, "special", f"{path}: a {what} is not read", lost=False)

    def _unreadable(self, path: str, exc: Exception) -> None:
        if isinstance(exc, FileNotFoundError):
            self._problem(path, "vanished", f"{path}: it is gone")
            return
        why = (exc.strerror or type(exc).__name__) if isinstance(exc, OSError) else str(exc)
        self._problem(path, "unreadable", f"{path}: cannot be read: {why}")

    def _problem(self, path: str, reason: str, message: str, *, lost: bool = True) -> None:
        self._told[reason, lost] += 1
        if self._told[reason, lost] <= _MOST_TOLD:
            self.found.problems.append(Problem(path=path, reason=reason, message=message, lost=lost))


def _container(location: str, path: str, size: int) -> tuple[str | None, str | None]:
    """Return what a file is packed in, and the name of a packing that cannot be read."""
    handle, _ = open_regular(location, path)
    try:
        head = os.read(handle, magic.HEAD_BYTES)
        kind = magic.sniff(head)
        if kind in ("gz", "zst", "bz2", "xz"):
            os.lseek(handle, 0, os.SEEK_SET)
            inner = Inflater(_Handle(handle), kind, Meter(Limits(), path, size), path)
            if magic.is_tar(Peekable(inner).peek(magic.HEAD_BYTES)):
                kind = "tar"
        return kind, None if kind else magic.foreign(head)
    except OSError as exc:
        raise SourceError(f"{path}: cannot be read: {exc.strerror}", reason="unreadable") from None
    finally:
        os.close(handle)


class _Handle:
    """An open file as a reader."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def read(self, size: int, /) -> bytes:
        return os.read(self._handle, size)

    def skip(self, count: int, /) -> int:
        return len(os.read(self._handle, count))


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


def _inode(status: os.stat_result) -> _Inode | None:
    """Return what tells a file from all others; None where the file system does not."""
    return (status.st_dev, status.st_ino) if status.st_ino else None


def _inode_of_entry(entry: os.DirEntry[str]) -> _Inode | None:
    return _inode(entry.stat(follow_symlinks=False))


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name
