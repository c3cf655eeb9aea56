"""How much a MessagePack document unpacks to, told before it is: two kilobytes can stand for gigabytes of objects."""

from __future__ import annotations

MOST_VALUES = 6_000_000
"""Values that a partial may have; an empty list takes 64 bytes."""

_HARMLESS = 1 << 20
_FIXED = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8} | {
    0xD4 + power: (1 << power) + 1 for power in range(5)
}
_LONG = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)} | {
    0xD9: (1, 0),
    0xDA: (2, 0),
    0xDB: (4, 0),
}
_MANY = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}


def values(data: bytes, most: int) -> int:
    """Return how many values a document has; counting ends beyond `most`.

    Args:
        data: The document; one of less than a megabyte is not looked at, for it cannot unpack to much.
        most: Where to stop.
    """
    if len(data) < _HARMLESS:
        return 0
    at, left, count = 0, 1, 1
    size = len(data)
    while left and at < size and count <= most:
        code = data[at]
        at += 1
        left -= 1
        more = 0
        if code <= 0x7F or code >= 0xE0:
            continue
        if code <= 0x8F:
            more = 2 * (code & 0x0F)
        elif code <= 0x9F:
            more = code & 0x0F
        elif code <= 0xBF:
            at += code & 0x1F
        elif code in _MANY:
            width, times = _MANY[code]
            more = times * int.from_bytes(data[at : at + width], "big")
            at += width
        elif code in _LONG:
            width, extra = _LONG[code]
            at += width + extra + int.from_bytes(data[at : at + width], "big")
        else:
            at += _FIXED.get(code, 0)
        left += more
        count += more
    return count
