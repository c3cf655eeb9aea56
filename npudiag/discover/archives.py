"""Members of tar and zip archives, one after the other, without unpacking to disk or seeking where that is impossible.

The headers are read here rather than by `tarfile` and `zipfile`: these lose what stands ahead of damage, load hostile
headers into memory as a whole, and cannot read a zip that has lost its end or lies inside another archive.
"""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from npudiag.discover.inflate import Inflater
from npudiag.discover.names import display
from npudiag.discover.raw import Disk, Meter, Peekable, Reader, Slice, drop, read_exactly
from npudiag.discover.source import MIB, Limits
from npudiag.errors import SourceError

_BLOCK = 512
_ZEROS = bytes(_BLOCK)
_MOST_HEADER = MIB


@dataclass(slots=True)
class Member:
    """One entry of an archive.

    Attributes:
        name: As the archive has it, decoded.
        size: Unpacked bytes, None where the archive does not tell beforehand.
        kind: ``file``, ``folder`` or ``other`` (link, device, FIFO).
        body: Its bytes; None for folders and others, and where `refused` is set. Valid until the next entry is asked
            for; what is left of it is passed over then.
        refused: Reason (as in `Problem`) and message where it cannot be read.
    """

    name: str
    size: int | None
    kind: str
    body: Reader | None = None
    refused: tuple[str, str] | None = None


def tar_members(reader: Reader, path: str, limits: Limits) -> Iterator[Member]:
    """Yield the members of a tar that is read from its start.

    Tars in a row count as one, as with ``tar --ignore-zeros``.

    Raises:
        SourceError: The tar is damaged or ends too early.
    """
    long_name: str | None = None
    fields: dict[str, str] = {}
    shared: dict[str, str] = {}
    ended = False
    while True:
        header = read_exactly(reader, _BLOCK)
        if header == _ZEROS:
            ended = True
            continue
        if len(header) < _BLOCK:
            if not ended or header.strip(b"\x00"):
                raise SourceError(f"{path}: the archive ends too early", reason="truncated")
            return
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        except (tarfile.TarError, ValueError):
            if ended:
                return  # what follows the end of an archive is nobody's
            raise SourceError(f"{path}: the archive is damaged", reason="corrupt") from None
        ended = False
        size = info.size
        if info.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, *_PAX):
            if not 0 <= size <= _MOST_HEADER:
                raise SourceError(f"{path}: the archive has a header of {size} bytes", reason="corrupt")
            data = read_exactly(reader, -(-size // _BLOCK) * _BLOCK)[:size]
            if info.type == tarfile.GNUTYPE_LONGNAME:
                long_name = display(data.rstrip(b"\x00"))
            elif info.type == tarfile.XGLTYPE:
                shared |= _pax_fields(data)
            elif info.type != tarfile.GNUTYPE_LONGLINK:
                fields = _pax_fields(data)
            continue
        fields = {**shared, **fields}
        name = fields.get("path") or long_name or display(info.name.encode("utf-8", "surrogateescape"))
        if fields.get("size", "").isdigit():
            size = int(fields["size"])
        sparse = info.type == tarfile.GNUTYPE_SPARSE or any(key.startswith("GNU.sparse") for key in fields)
        long_name, fields = None, {}
        if size < 0:
            raise SourceError(f"{path}: the archive is damaged", reason="corrupt")
        if info.type in tarfile.SUPPORTED_TYPES and not info.isreg():
            size = 0  # links, devices and folders have no body, whatever their header says
        if info.type == tarfile.GNUTYPE_SPARSE:
            _pass_sparse_map(reader, header)
        if info.isdir() or (info.type == tarfile.AREGTYPE and name.endswith("/")):
            member = Member(name, None, "folder")
        elif not info.isreg():
            member = Member(name, None, "other")
        else:
            member = Member(name, size, "file")
            if sparse:
                member.refused = "unsupported", "sparse members cannot be read"
            else:
                member.refused = _too_large(size, limits)
        body = Slice(reader, size, path)
        if member.kind == "file" and not member.refused:
            member.body = body
        yield member
        left = body.left + -size % _BLOCK
        passed = reader.skip(left)
        if passed < left:
            raise SourceError(f"{path}: the archive ends too early", reason="truncated")


def _pass_sparse_map(reader: Reader, header: bytes) -> None:
    """Pass over the blocks that continue the list of data areas of an old GNU sparse member."""
    more = header[482:483]
    while more and more != b"\x00":
        more = read_exactly(reader, _BLOCK)[504:505]


_PAX = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)


def _pax_fields(data: bytes) -> dict[str, str]:
    """Read the records of a pax header, ``<length> <key>=<value>`` and a newline; stop at the first that is none."""
    fields: dict[str, str] = {}
    at = 0
    while at < len(data):
        digits, blank, _ = data[at : at + 12].partition(b" ")
        if not blank or not digits.isdigit():
            break
        stop = at + int(digits)
        key, equals, value = data[at + len(digits) + 1 : stop].rstrip(b"\n").partition(b"=")
        if not equals or stop <= at:
            break
        fields[display(key)] = display(value)
        at = stop
    return fields


_LOCAL = struct.Struct("<4s5H3L2H")  # signature, version, flags, method, time, date, crc, packed, size, name, extra
_METHODS = {0: "stored", 8: "deflate", 12: "bz2", 93: "zst"}
_ENCRYPTED = 0x1
_DESCRIPTOR = 0x8
_UTF8 = 0x800
_UNIX = 3
_MOST_DIRECTORY = 48 * MIB


def zip_members(disk: Disk, size: int, path: str, limits: Limits, meter: Meter) -> Iterator[Member]:
    """Yield the members of a zip file on disk by its directory; by its local headers where the directory is lost.

    Raises:
        SourceError: The zip is damaged or ends too early. Raised after the members that can be read.
    """
    handle = _Seekable(disk, size)
    try:
        if _directory_bytes(handle, size) > _MOST_DIRECTORY:
            raise SourceError(f"{path}: the directory of the archive is too large", reason="bomb")
        with zipfile.ZipFile(handle) as archive:
            entries = archive.infolist()
    except SourceError:
        raise
    except Exception:
        # Whatever the standard library makes of a hostile directory: the local headers may still be good.
        disk.move(0)
        yield from zip_stream(Peekable(disk), path, limits, meter)
        raise SourceError(
            f"{path}: the directory at the end of the archive is missing or damaged", reason="truncated"
        ) from None
    last_stop = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < last_stop:
            raise SourceError(f"{path}: members of the archive overlap", reason="bomb")
        last_stop = entry.header_offset + entry.compress_size
    for entry in entries:
        raw_name = entry.orig_filename.encode("utf-8" if entry.flag_bits & _UTF8 else "cp437", "replace")
        name = display(raw_name)
        member = Member(name, entry.file_size, "folder" if name.endswith(("/", "\\")) else "file")
        unix_kind = entry.external_attr >> 28
        if member.kind == "file" and entry.create_system == _UNIX and unix_kind not in (0, 8):
            member.kind = "other"
        if member.kind != "file":
            yield member
            continue
        member.refused = _refused(entry.flag_bits, entry.compress_type, entry.file_size, limits)
        if not member.refused:
            disk.move(entry.header_offset)
            header = read_exactly(disk, _LOCAL.size)
            if len(header) < _LOCAL.size or header[:4] != b"PK\x03\x04":
                raise SourceError(f"{path}: the archive is damaged", reason="corrupt")
            disk.skip(sum(_LOCAL.unpack(header)[9:11]))
            packed = Slice(disk, entry.compress_size, path)
            where = f"{path}!/{member.name}"
            member.body = _Checked(_unpacked(packed, entry.compress_type, meter, where), entry.CRC, where)
        yield member


def zip_stream(reader: Peekable, path: str, limits: Limits, meter: Meter) -> Iterator[Member]:
    """Yield the members of a zip by its local headers, in one pass. Ends at the directory, or at the end.

    Raises:
        SourceError: The zip is damaged, or a member does not tell where it ends.
    """
    while True:
        if reader.peek(4) != b"PK\x03\x04":
            if reader.peek(2) not in (b"PK", b""):
                raise SourceError(f"{path}: the archive is damaged", reason="corrupt")
            if not reader.peek(1):
                reader.read(1)  # raises what ended it, if anything did
            return
        header = read_exactly(reader, _LOCAL.size)
        if len(header) < _LOCAL.size:
            raise SourceError(f"{path}: the archive ends too early", reason="truncated")
        _, _, flags, method, _, _, crc, packed, size, name_length, extra_length = _LOCAL.unpack(header)
        name = display(read_exactly(reader, name_length))
        extra = read_exactly(reader, extra_length)
        packed, size = _zip64_sizes(extra, packed, size)
        kind = "folder" if name.endswith(("/", "\\")) else "file"
        open_end = bool(flags & _DESCRIPTOR) and not packed and (kind == "file" or method != 0)
        member = Member(name, None if open_end else size, kind)
        if open_end and (flags & _ENCRYPTED or method != 8):
            raise SourceError(f"{path}: a member does not tell where it ends", reason="unsupported")
        where = f"{path}!/{name}"
        body = Slice(reader, packed, path)
        inflater: Inflater | None = None
        if open_end:
            inflater = Inflater(reader, "deflate", meter, where)
            member.body = inflater
        elif kind == "file":
            member.refused = _refused(flags, method, size, limits)
            if not member.refused:
                plain = _unpacked(body, method, meter, where)
                member.body = plain if flags & _DESCRIPTOR else _Checked(plain, crc, where)
        yield member
        if inflater is not None:
            while inflater.read(1 << 16):
                pass
            reader = inflater.unread
        elif body.left and reader.skip(body.left) < body.left:
            raise SourceError(f"{path}: the archive ends too early", reason="truncated")
        if flags & _DESCRIPTOR:
            _pass_descriptor(reader, wide=len(extra) >= 20 and b"\x01\x00" in extra)


def _zip64_sizes(extra: bytes, packed: int, size: int) -> tuple[int, int]:
    at = 0
    while at + 4 <= len(extra):
        tag, length = struct.unpack_from("<HH", extra, at)
        if tag == 1:
            values = iter(struct.unpack_from(f"<{length // 8}Q", extra.ljust(at + 4 + length, b"\x00"), at + 4))
            if size == 0xFFFFFFFF:
                size = next(values, size)
            if packed == 0xFFFFFFFF:
                packed = next(values, packed)
        at += 4 + length
    return packed, size


def _pass_descriptor(reader: Peekable, *, wide: bool) -> None:
    """Pass over the sizes that follow a member: 12 or 20 bytes, with or without a signature."""
    if reader.peek(4) == b"PK\x07\x08":
        reader.read(4)
    for length in (20, 12) if wide else (12, 20):
        ahead = reader.peek(length + 4)
        if len(ahead) <= length or ahead[length : length + 2] == b"PK":
            drop(reader, length)
            return
    drop(reader, 12)


def _refused(flags: int, method: int, size: int, limits: Limits) -> tuple[str, str] | None:
    if flags & _ENCRYPTED:
        return "unsupported", "it is encrypted"
    if method not in _METHODS:
        return "unsupported", f"compression method {method} cannot be read"
    return _too_large(size, limits)


def _too_large(size: int, limits: Limits) -> tuple[str, str] | None:
    return ("limit", f"it is larger than {limits.max_member_bytes} bytes") if size > limits.max_member_bytes else None


def _unpacked(reader: Slice, method: int, meter: Meter, path: str) -> Reader:
    return reader if method == 0 else Inflater(reader, _METHODS[method], meter, path)


class _Checked:
    """A member's bytes; says so at the end where their check sum is wrong."""

    def __init__(self, reader: Reader, crc: int, path: str) -> None:
        self._reader = reader
        self._expected = crc
        self._crc = 0
        self._path = path

    def read(self, size: int, /) -> bytes:
        piece = self._reader.read(size)
        if piece:
            self._crc = zlib.crc32(piece, self._crc)
        elif size and self._crc != self._expected:
            raise SourceError(f"{self._path}: the check sum is wrong", reason="corrupt")
        return piece

    def skip(self, count: int, /) -> int:
        return drop(self, count)


class _Seekable(io.RawIOBase):
    """A file on disk as `zipfile` wants it."""

    def __init__(self, disk: Disk, size: int) -> None:
        self._disk = disk
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError("negative position")
        self._at = base + offset
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        left = max(0, self._size - self._at)
        self._disk.move(self._at)
        data = read_exactly(self._disk, left if size < 0 else min(size, left))
        self._at += len(data)
        return data


def _directory_bytes(handle: _Seekable, size: int) -> int:
    """Return how large the directory claims to be, 0 where there is none."""
    tail_bytes = min(size, 65_535 + 22 + 20)
    handle.seek(size - tail_bytes)
    tail = handle.read(tail_bytes)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + 22 > len(tail):
        return 0
    claimed = int(struct.unpack_from("<L", tail, at + 12)[0])
    if claimed != 0xFFFFFFFF or at < 20 or tail[at - 20 : at - 16] != b"PK\x06\x07":
        return claimed
    (offset,) = struct.unpack_from("<Q", tail, at - 12)
    handle.seek(min(offset, size))
    record = handle.read(56)
    return int(struct.unpack_from("<Q", record, 40)[0]) if len(record) == 56 else 0
