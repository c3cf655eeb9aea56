"""The file that holds partials: ``node17.npd``.

A line that names the format, then frames: kind, length, checksum, and Zstandard. First a header, then a frame for
each partial, at last a frame that says the file is complete and what could not be read where it was made. A file that
breaks off gives what it has.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec
import zstandard

from npudiag._version import __version__
from npudiag.errors import SourceError
from npudiag.parsers.base import Partial, Stream
from npudiag.parsers.scan import Literals
from npudiag.partials import MAGIC, codec
from npudiag.result import Problem

_FRAME = struct.Struct("<cI16s")
_HEADER, _PARTIAL, _END = b"H", b"P", b"E"
_LARGEST = 1 << 30
_LEVEL = 9


class Header(msgspec.Struct, kw_only=True):
    """What stands in front.

    Attributes:
        version: npudiag that wrote the file.
        layout: Fields of the partials in it; see `codec.layout`.
        created: When, ISO 8601 in UTC.
        partials: How many there are.
        texts: Strings that were looked for; the hits of rows are their numbers.
        nocase: Whether ASCII case was ignored, for each of them.
    """

    version: str
    layout: str
    created: str
    partials: int
    texts: tuple[str, ...]
    nocase: tuple[bool, ...]


class End(msgspec.Struct, kw_only=True):
    """What stands at the end: what kept the writer from seeing all of its input."""

    problems: list[Problem] = []


def write(path: str, partials: Sequence[Partial], literals: Literals, problems: Iterable[Problem], created: str) -> int:
    """Write a file of partials and return its size in bytes. It is there whole or not at all.

    Raises:
        OSError: It cannot be written.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with temporary.open("xb") as file:
            file.write(MAGIC)
            header = Header(
                version=__version__,
                layout=codec.layout(),
                created=created,
                partials=len(partials),
                texts=literals.texts,
                nocase=literals.nocase,
            )
            file.write(_frame(_HEADER, msgspec.msgpack.encode(header)))
            for partial in partials:
                file.write(_frame(_PARTIAL, codec.encode(partial)))
            file.write(_frame(_END, msgspec.msgpack.encode(End(problems=list(problems)))))
            size = file.tell()
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return size


def _frame(kind: bytes, data: bytes) -> bytes:
    packed = zstandard.ZstdCompressor(level=_LEVEL).compress(data)
    return _FRAME.pack(kind, len(packed), blake2b(packed, digest_size=16).digest()) + packed


class Reader:
    """Reads a file of partials.

    Attributes:
        header: What stands in front.
        end: What stands at the end, once all partials were read.
    """

    def __init__(self, stream: Stream, head: bytes) -> None:
        """Read the header.

        Args:
            stream: The rest of the file.
            head: Bytes read from it already, from its start on.

        Raises:
            SourceError: It is none, or was written by a release with other partials.
        """
        self._stream = stream
        self._rest = head[len(MAGIC) :]
        self.end: End | None = None
        kind, data = self._next()
        try:
            self.header = msgspec.msgpack.decode(data if kind == _HEADER else b"", type=Header)
        except msgspec.MsgspecError as exc:
            raise SourceError("its header cannot be read", reason="corrupt") from exc
        if self.header.layout != codec.layout():
            raise SourceError(
                f"it was written by npudiag {self.header.version}, whose partials this one ({__version__}) cannot read",
                reason="unsupported",
                hint="make it again with this release",
            )

    def __iter__(self) -> Iterator[Partial]:
        """Yield the partials.

        Raises:
            SourceError: The file is damaged or breaks off; what was yielded before is sound.
        """
        while True:
            kind, data = self._next()
            try:
                if kind == _END:
                    self.end = msgspec.msgpack.decode(data, type=End)
                    return
                if kind == _PARTIAL:
                    yield codec.decode(data)
            except (ValueError, msgspec.MsgspecError) as exc:
                raise SourceError(f"a partial in it cannot be read: {exc}", reason="corrupt") from exc

    def _next(self) -> tuple[bytes, bytes]:
        kind, size, digest = _FRAME.unpack(self._take(_FRAME.size))
        if size > _LARGEST:
            raise SourceError("a part of it is too large to be true", reason="corrupt")
        packed = self._take(size)
        if blake2b(packed, digest_size=16).digest() != digest:
            raise SourceError("its checksum does not fit", reason="corrupt")
        try:
            if not 0 <= zstandard.frame_content_size(packed) <= _LARGEST:
                raise SourceError("a part of it unpacks to too much", reason="bomb")
            return kind, zstandard.ZstdDecompressor().decompress(packed)
        except zstandard.ZstdError as exc:
            raise SourceError("a part of it cannot be unpacked", reason="corrupt") from exc

    def _take(self, size: int) -> bytes:
        pieces = [self._rest[:size]]
        self._rest = self._rest[size:]
        missing = size - len(pieces[0])
        while missing > 0:
            piece = self._stream.read(missing)
            if not piece:
                raise SourceError("it breaks off", reason="truncated")
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)
