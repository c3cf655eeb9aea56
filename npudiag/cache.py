"""The user's cache folder: what was computed once need not be computed at every start.

Whatever is wrong with a cached file, it counts as absent; whatever keeps one from being written is ignored.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

_CHECKSUM = 16
_KEPT = 8


def folder() -> str | None:
    """Return the folder of npudiag's caches (it may not exist yet), None where the user has no home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # noqa: PTH117
        home = os.path.expanduser("~")  # noqa: PTH111
        if not os.path.isabs(home):  # noqa: PTH117
            return None
        base = f"{home}/.cache"
    return f"{base}/npudiag"


def load(path: str) -> bytes:
    """Return what `store` wrote.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is somebody else's, open to others' writing, or damaged.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(handle, "rb") as stream:
        stat = os.fstat(handle)
        if hasattr(os, "geteuid") and (stat.st_uid != os.geteuid() or stat.st_mode & 0o022):
            raise ValueError("not this user's cache")
        data = stream.read()
    if blake2b(data[_CHECKSUM:], digest_size=_CHECKSUM).digest() != data[:_CHECKSUM]:
        raise ValueError("damaged cache")
    return data[_CHECKSUM:]


def store(where: str, name: str, data: bytes) -> None:
    """Write a file whole or not at all, readable by its owner only.

    Raises:
        OSError: It cannot be written.
    """
    from tempfile import NamedTemporaryFile

    os.makedirs(where, mode=0o700, exist_ok=True)  # noqa: PTH103
    with NamedTemporaryFile(dir=where, prefix=".new-", delete=False) as stream:
        try:
            stream.write(blake2b(data, digest_size=_CHECKSUM).digest() + data)
            stream.close()
            os.replace(stream.name, f"{where}/{name}")  # noqa: PTH105
        except BaseException:
            stream.close()
            Path(stream.name).unlink(missing_ok=True)
            raise


def prune(where: str, pattern: str) -> None:
    """Keep the newest few files that match `pattern`: every change leaves an old one behind."""
    old = sorted(Path(where).glob(pattern), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in old[_KEPT:]:
        path.unlink(missing_ok=True)
