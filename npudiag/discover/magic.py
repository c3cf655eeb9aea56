"""What a file is packed in, told by its first bytes. Names are not asked."""

from __future__ import annotations

import tarfile

HEAD_BYTES = 512
"""Bytes that are enough to tell."""

_PACKED: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b\x08", "gz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
)
_FIRST = frozenset(magic[0] for magic, _ in _PACKED) | {ord("B")}

_FOREIGN: tuple[tuple[bytes, str], ...] = (
    (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
    (b"Rar!\x1a\x07", "RAR"),
    (b"\x04\x22\x4d\x18", "LZ4"),
    (b"\x1f\x9d", "compress (.Z)"),
    (b"\x89LZO\x00\r\n\x1a\n", "lzop"),
    (b"LZIP\x01", "lzip"),
    (b"\xff\x06\x00\x00sNaPpY", "Snappy"),
    (b"MSCF\x00\x00\x00\x00", "Cabinet"),
)
_FOREIGN_MAGICS = tuple(magic for magic, _ in _FOREIGN)
_BZ2_BLOCK = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")


def sniff(head: bytes) -> str | None:
    """Return ``gz`` ``zst`` ``bz2`` ``xz`` ``tar`` ``zip``, or None for anything else.

    Args:
        head: The first `HEAD_BYTES` bytes, fewer where there are no more.
    """
    if not head:
        return None
    if head[0] in _FIRST:
        for magic, name in _PACKED:
            if head.startswith(magic):
                return name
        if head[:3] == b"BZh" and head[3:4] in b"123456789" and head[4:10] in _BZ2_BLOCK:
            return "bz2"
    if head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F:
        return "zst"  # a skippable frame, which some writers put first
    return "tar" if is_tar(head) else None


def foreign(head: bytes) -> str | None:
    """Return the name of a packing that cannot be read here, or None."""
    if head.startswith(_FOREIGN_MAGICS):
        for magic, name in _FOREIGN:
            if head.startswith(magic):
                return name
    return None


def is_tar(head: bytes) -> bool:
    """Say whether a tar header stands here; its checksum makes an accident impossible for text."""
    # The checksum field is octal digits: ruling out the rest here keeps this cheap for text.
    if len(head) < 512 or not head[148:155].strip(b" \x00").isdigit():
        return False
    try:
        tarfile.TarInfo.frombuf(head[:512], "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return False
    return True
