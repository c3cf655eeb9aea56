"""Inputs that lie elsewhere: URLs of fsspec (extra ``npudiag[remote]``), read only where a user names one."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from npudiag.discover import magic
from npudiag.discover.identity import identify
from npudiag.discover.names import VCS_FOLDERS, display_path, walk_order
from npudiag.discover.raw import Disk
from npudiag.discover.source import Limits, Source
from npudiag.errors import SourceError, UsageError
from npudiag.result import Problem

_URL = re.compile(r"[a-z][a-z0-9+.-]*://")
_BLOCK = 4 << 20


def is_url(path: str) -> bool:
    """Whether a path is a URL and no local file."""
    return _URL.match(path) is not None


def find(url: str, name: str, limits: Limits) -> tuple[list[Source], list[Problem]]:
    """Return what lies under a URL, in order of path.

    Args:
        url: A file, a folder or a pattern.
        name: First part of its evidence paths.
        limits: Only `max_files` is used here.

    Raises:
        UsageError: fsspec or the package for this kind of URL is missing, or nothing is there.
    """
    system, base = _system(url)
    try:
        files: dict[str, Any] = (
            system.glob(base, detail=True) if any(sign in base for sign in "*?[") else system.find(base, detail=True)
        )
    except Exception as exc:  # each kind of storage has errors of its own
        raise UsageError(f"{url}: cannot be listed: {exc}", hint="check the URL and its credentials") from None
    files = {path: told for path, told in files.items() if told.get("type", "file") == "file"}
    if not files:
        raise UsageError(f"{url}: nothing is there", hint="check the URL")
    root = base.rstrip("/") if set(files) != {base} else posixpath.dirname(base)
    sources: list[Source] = []
    problems: list[Problem] = []
    for path in sorted(files, key=walk_order):
        inner = posixpath.relpath(path, root) if root else path
        if VCS_FOLDERS.intersection(inner.split("/")[:-1]):
            continue
        shown = name if path == base else f"{name}/{display_path(inner)}"
        if len(sources) >= limits.max_files:
            message = f"only the first {limits.max_files} files were looked at"
            problems.append(Problem(path=shown, reason="limit", message=message))
            break
        size = files[path].get("size")
        location = system.unstrip_protocol(path)
        try:
            kind = magic.sniff(system.cat_file(path, start=0, end=magic.HEAD_BYTES)) if size else None
        except Exception as exc:
            message = f"{shown}: cannot be read: {exc}"
            problems.append(Problem(path=shown, reason="unreadable", message=message))
            continue
        sources.append(Source(shown, location, size, kind, identify(shown)))
    return sources, problems


def _system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise UsageError(f"{url}: URLs need fsspec", hint="pip install 'npudiag[remote]'") from None
    try:
        system, base = url_to_fs(url)
    except (ImportError, ValueError) as exc:
        raise UsageError(f"{url}: {exc}", hint="install the fsspec package for this kind of URL") from None
    return system, str(base)


class Remote(Disk):
    """The bytes of a remote file."""

    _file: Any = None

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _piece(self, size: int) -> bytes:
        """Return up to `size` bytes.

        Raises:
            SourceError: The storage refuses.
        """
        try:
            if self._file is None:
                system, path = _system(self._source.location or "")
                self._file = system.open(path, "rb", block_size=_BLOCK)
            self._file.seek(self._at)
            return bytes(self._file.read(size))
        except Exception as exc:
            raise SourceError(f"{self._source.path}: cannot be read: {exc}", reason="unreadable") from None
