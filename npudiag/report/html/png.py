"""Writes a grid of bytes as a PNG with a palette: it shows without scripts, on paper and at any size."""

from __future__ import annotations

import base64
import struct
import zlib

_STOPS = ("#2a1a5e", "#51127c", "#8c2981", "#c83e73", "#f1685f", "#fea772", "#fcfdbf")
"""Shades from dark to light that differ in lightness alone for whoever sees no colours."""
_EMPTY = 255


def _channel(colour: str, at: int) -> int:
    return int(colour[1 + 2 * at : 3 + 2 * at], 16)


def palette(*, bright_low: bool = False) -> list[tuple[int, int, int]]:
    """Return the colours of the bytes 0 to 254; with `bright_low` the low end is the one that catches the eye."""
    colours = []
    for value in range(_EMPTY):
        place = value / (_EMPTY - 1) * (len(_STOPS) - 1)
        if bright_low:
            place = len(_STOPS) - 1 - place
        left = min(int(place), len(_STOPS) - 2)
        part = place - left
        low, high = _STOPS[left], _STOPS[left + 1]
        red, green, blue = (round(_channel(low, at) * (1 - part) + _channel(high, at) * part) for at in range(3))
        colours.append((red, green, blue))
    return colours


def png(cells: bytes, width: int, *, bright_low: bool = False) -> bytes:
    """Return the picture: one pixel a cell, byte 255 transparent.

    Args:
        cells: One byte a cell, row by row.
        width: Cells in a row.
        bright_low: Whether low values are to catch the eye.
    """
    height = len(cells) // width
    rows = b"".join(b"\x00" + cells[y * width : (y + 1) * width] for y in range(height))
    colours = b"".join(bytes(colour) for colour in palette(bright_low=bright_low)) + b"\x00\x00\x00"
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", colours),
            _chunk(b"tRNS", b"\xff" * _EMPTY + b"\x00"),
            _chunk(b"IDAT", zlib.compress(rows, 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def data_address(picture: bytes) -> str:
    """Return a picture as a ``data:`` address."""
    return "data:image/png;base64," + base64.b64encode(picture).decode("ascii")
