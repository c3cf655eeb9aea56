"""What a walk finds: sources, who they belong to, and how much of them may be read.

All of it is plain data and picklable, because reading happens in other processes.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class Identity:
    """Who wrote a file, as far as its path tells.

    Attributes:
        node: Name of the collector folder (``worker-1``).
        host: Host name written into a profiler folder's name.
        device: Device id of the path (physical or logical: the path does not say).
        rank: Global rank.
        pid: Process id on the host.
        role: ``debug``, ``run``, ``security`` (kind of slog tree), ``device-os`` or ``event``.
    """

    node: str | None = None
    host: str | None = None
    device: int | None = None
    rank: int | None = None
    pid: int | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """One file (or one member of an archive) to read.

    Attributes:
        path: Evidence path: relative to the input argument's parent, POSIX (``input/worker-0/a.log``),
            ``bundle.tar.gz!/a.log`` for members, ``-`` for stdin. For people: bytes that are no text and control
            characters are replaced, so do not open files by it.
        location: Absolute path of the file (of the outermost archive for members); None for stdin.
        size: Bytes on disk; for members the unpacked size where the archive tells it, else None.
        container: None for plain bytes, else ``gz`` ``zst`` ``bz2`` ``xz`` ``tar`` ``zip``. Compressed tars are
            ``tar`` too. For members: what `location` is.
        identity: What the path tells about the writer.
    """

    path: str
    location: str | None
    size: int | None
    container: str | None
    identity: Identity = Identity()


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of an input is read before it counts as hostile.

    Attributes:
        max_member_bytes: Unpacked bytes of one member or one compressed file.
        max_total_bytes: Unpacked bytes of one archive, all members together.
        max_ratio: Unpacked bytes per byte on disk; checked once `ratio_grace_bytes` were unpacked.
        ratio_grace_bytes: Unpacked bytes that may have any ratio.
        max_members: Members of one archive, nested ones included.
        max_depth: Containers inside each other; a compressed tar is one.
        max_files: Files of a whole walk.
    """

    max_member_bytes: int = 64 * GIB
    max_total_bytes: int = 256 * GIB
    max_ratio: int = 2000
    ratio_grace_bytes: int = 64 * MIB
    max_members: int = 200_000
    max_depth: int = 3
    max_files: int = 500_000
