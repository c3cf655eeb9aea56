"""Decompression as a one-way reader: bounded memory, bounded output, nothing lost ahead of an error."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Protocol

from npudiag.discover.raw import BLOCK, Meter, Peekable, Reader, drop
from npudiag.discover.source import MIB
from npudiag.errors import SourceError

_OUT = 256 * 1024
_STEP = 4096  # input per call where output cannot be bounded, and where an error throws away a call's output
_XZ_MEMORY = 512 * MIB
_ZST_WINDOW = 128 * MIB


class _Codec(Protocol):
    """One compressed stream; many formats allow several in a row."""

    eof: bool

    def feed(self, data: bytes) -> bytes:
        """Return what `data` unpacks to, in part: call with empty data while `hungry` is False."""

    @property
    def hungry(self) -> bool:
        """Whether it needs more input to go on."""

    @property
    def unused(self) -> bytes:
        """Input behind the end of the stream, once `eof` is set."""


class _Zlib:
    """gzip (31) or raw deflate (-15).

    zlib throws away a call's output when it finds an error in it, and a wrong check sum at the end is such an error.
    So the state is kept before each piece of input, and after an error the piece is replayed in small bites.
    """

    def __init__(self, wbits: int) -> None:
        self._state = zlib.decompressobj(wbits)
        self._input = b""
        self._saved: Any = None
        self._piece = b""
        self._given = 0
        self.eof = False

    def feed(self, data: bytes) -> bytes:
        if data:
            self._saved = self._state.copy()
            self._piece = data
            self._given = 0
            self._input = data
        try:
            out = self._state.decompress(self._input, _OUT)
        except zlib.error as exc:
            rest = self._replay()
            raise _Broken(str(exc), rest) from None
        self._input = self._state.unconsumed_tail
        self._given += len(out)
        self.eof = self._state.eof
        return out

    @property
    def hungry(self) -> bool:
        return not self._input

    @property
    def unused(self) -> bytes:
        return self._state.unused_data

    def _replay(self) -> bytes:
        """Return the output of the current piece up to the error, without what was given already."""
        state = self._saved
        out = bytearray()
        at = 0
        bite = 256
        while at < len(self._piece):
            before = state.copy()
            try:
                out += state.decompress(self._piece[at : at + bite])
            except zlib.error:
                if bite == 1:
                    break
                state, bite = before, 1
                continue
            at += bite
        return bytes(out[self._given :])


class _Standard:
    """bz2 and xz: the decompressors of the standard library share one interface."""

    def __init__(self, state: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._state = state
        self.eof = False

    def feed(self, data: bytes) -> bytes:
        try:
            out = self._state.decompress(data, _OUT)
        except (OSError, ValueError, EOFError, lzma.LZMAError) as exc:
            raise _Broken(str(exc), b"", too_big="limit" in str(exc).lower()) from None
        self.eof = self._state.eof
        return out

    @property
    def hungry(self) -> bool:
        return self._state.needs_input

    @property
    def unused(self) -> bytes:
        return self._state.unused_data


class _Zstd:
    def __init__(self) -> None:
        import zstandard

        self._error = zstandard.ZstdError
        self._state = zstandard.ZstdDecompressor(max_window_size=_ZST_WINDOW).decompressobj()
        self.eof = False

    def feed(self, data: bytes) -> bytes:
        try:
            out = self._state.decompress(data)
        except self._error as exc:
            raise _Broken(str(exc), b"", too_big="requires too much memory" in str(exc)) from None
        self.eof = self._state.eof
        return out

    @property
    def hungry(self) -> bool:
        return True

    @property
    def unused(self) -> bytes:
        return self._state.unused_data


class _Broken(Exception):
    """The compressed data is damaged; `rest` is what could be unpacked before."""

    def __init__(self, message: str, rest: bytes, *, too_big: bool = False) -> None:
        super().__init__(message)
        self.rest = rest
        self.too_big = too_big


_CODECS: dict[str, tuple[Callable[[], _Codec], int, tuple[bytes, ...]]] = {
    # how to begin a stream, input per call, what a further stream begins with
    "gz": (lambda: _Zlib(31), BLOCK, (b"\x1f\x8b",)),
    "deflate": (lambda: _Zlib(-15), BLOCK, ()),
    "bz2": (lambda: _Standard(bz2.BZ2Decompressor()), _STEP, (b"BZh",)),
    "xz": (
        lambda: _Standard(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)),
        _STEP,
        (b"\xfd7zXZ\x00",),
    ),
    "zst": (
        _Zstd,
        _STEP,
        (b"\x28\xb5\x2f\xfd", *(bytes((first, 0x2A, 0x4D, 0x18)) for first in range(0x50, 0x60))),
    ),
}


class Inflater:
    """What a compressed reader unpacks to.

    Several streams in a row are one, zero bytes between and behind them are padding, and other bytes behind the last
    one are left alone.

    Attributes:
        most: How many bytes it may unpack to.
        trailing: Whether bytes behind the end were ignored.
        ended: Whether the last stream was unpacked to its end.
    """

    def __init__(self, reader: Reader, kind: str, meter: Meter, path: str) -> None:
        self.most = meter.limits.max_member_bytes
        self.trailing = False
        self.ended = False
        self._begin, self._step, self._magics = _CODECS[kind]
        self._kind = kind
        self._source = reader if isinstance(reader, Peekable) else Peekable(reader)
        self._meter = meter
        self._path = path
        self._since = meter.taken
        self._out = 0
        self._codec: _Codec | None = None
        self._ready = b""
        self._fault: SourceError | None = None

    def read(self, size: int, /) -> bytes:
        """See `Reader`."""
        if len(self._ready) >= size:
            piece, self._ready = self._ready[:size], self._ready[size:]
            return piece
        pieces = [self._ready]
        have = len(self._ready)
        while have < size and not self.ended and not self._fault:
            try:
                piece = self._more()
            except SourceError as exc:
                self._fault = exc
                break
            pieces.append(piece)
            have += len(piece)
        whole = b"".join(pieces)
        self._ready = whole[size:]
        if not whole and self._fault:
            raise self._fault
        return whole[:size]

    def skip(self, count: int, /) -> int:
        """See `Reader`."""
        return drop(self, count)

    @property
    def unread(self) -> Peekable:
        """The reader below, at the first byte behind the compressed data; valid once `ended`."""
        return self._source

    def _more(self) -> bytes:
        """Unpack a little more; may be empty without being the end."""
        try:
            codec = self._codec = self._codec or self._begin()
        except ImportError:
            raise SourceError(f"{self._path}: package zstandard is needed to read it", reason="unsupported") from None
        data = b""
        if codec.hungry:
            data = self._source.read(self._step)
            if not data:
                raise SourceError(f"{self._path}: the compressed data ends too early", reason="truncated")
        try:
            piece = codec.feed(data)
        except _Broken as exc:
            what = "needs too much memory to unpack" if exc.too_big else "the compressed data is damaged"
            self._fault = SourceError(
                f"{self._path}: {what} ({exc})", reason="unsupported" if exc.too_big else "corrupt"
            )
            self._out += len(exc.rest)
            return exc.rest
        self._out += len(piece)
        if codec.eof:
            self._next_stream(codec.unused)
        self._meter.count(len(piece), self._out, self._since, self.most)
        return piece

    def _next_stream(self, unused: bytes) -> None:
        """Go on with the stream behind the one that ended, if there is any."""
        self._codec = None
        source = self._source
        source.put_back(unused)
        if not self._magics:
            self.ended = True
            return
        while True:
            head = source.peek(6)
            if head[:1] != b"\x00":
                break
            source.read(len(head) - len(head.lstrip(b"\x00")))
        if head.startswith(self._magics):
            return
        self.ended = True
        self.trailing = bool(head)
        if len(head) < 6:
            # Peeking stops ahead of a fault as it does at the end; reading on tells them apart.
            drop(source, len(head) + 1)
