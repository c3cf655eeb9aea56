"""What the shapes of a matrix product, an attention or a grouped product say."""

from __future__ import annotations

import math
import re
from functools import lru_cache

_MATRIX = re.compile(r"(?i)mat_?mul|gemm|^mm$|linear")
_GROUPED = re.compile(r"(?i)grouped_?mat_?mul")
_ATTENTION = re.compile(r"(?i)flash_?attention|fused_?infer_?attention|prompt_?flash")
_BACKWARD = re.compile(r"(?i)grad|backward")
_MOST_DIMENSIONS = 8
_FRACTAL = 16
"""Rows and columns of the block that a cube core multiplies at once."""


def _sizes(shapes: str) -> list[list[int]]:
    """Return ``[[4096, 1024], [1024, 4096]]`` for ``"4096,1024;1024,4096"``; an absent input is an empty list."""
    out = []
    for shape in shapes.strip('"').split(";"):
        sizes = [size.strip() for size in shape.split(",")]
        out.append([int(size) for size in sizes] if all(size.isdigit() and len(size) < 12 for size in sizes) else [])
    return out


@lru_cache(maxsize=4096)
def unaligned(kind: str, shapes: str) -> bool:
    """Whether a matrix product has an inner dimension (the last of an input) that is no multiple of 16."""
    if not _MATRIX.search(kind):
        return False
    return any(len(sizes) >= 2 and sizes[-1] > 1 and sizes[-1] % _FRACTAL for sizes in _sizes(shapes)[:2])


def tokens(kind: str, shapes: str) -> int | None:
    """Return how many rows a grouped product of experts multiplies, None for other kernels."""
    if not _GROUPED.search(kind):
        return None
    first = next(iter(_sizes(shapes)), [])
    return first[0] if len(first) >= 2 else None


def flops(kind: str, inputs: str, formats: str, outputs: str) -> float | None:
    """Return the floating point operations of one kernel, None where its shapes do not tell.

    A product of (m, k) and (k, n) takes 2 m n k, which is 2 sqrt(|A| |B| |C|) whichever operand is transposed. An
    attention takes 2 b n s_q s_k (d_q + d_k) as if nothing were masked, its backward pass 2.5 times as much.
    """
    given, made = _sizes(inputs), _sizes(outputs)
    if any(len(sizes) > _MOST_DIMENSIONS for sizes in (*given, *made)):
        return None
    if _ATTENTION.search(kind):
        return _attention(given, 2.5 if _BACKWARD.search(kind) else 1.0)
    if len(given) < 2 or not made or not _MATRIX.search(kind):
        return None
    one, other, out = given[0], given[1], made[0]
    if min(map(len, (one, other, out))) < 2:
        return None
    if _GROUPED.search(kind):
        return 2.0 * math.prod(out) * one[-1]
    second = formats.strip('"').split(";")[1:2]
    blocked = bool(second) and "NZ" in second[0].upper()
    batch = math.prod(other[:-2]) if len(other) > 2 and not blocked else 1
    sizes = float(math.prod(one)) * math.prod(other) * math.prod(out)
    return 2.0 * batch * math.sqrt(sizes / batch**3) if sizes > 0 else None


def _attention(given: list[list[int]], passes: float) -> float | None:
    """Return the operations of an attention from the shapes of query and key.

    Layouts are told by their sizes: in the three-dimensional ones the sequence is the longer of the first two
    dimensions, in the four-dimensional ones of the middle two.
    """
    if len(given) < 2 or len(given[0]) != len(given[1]):
        return None
    query, key = given[0], given[1]
    if len(query) == 3:
        place = 0 if query[0] >= query[1] else 1
        batch, width = query[1 - place], query[2]
    elif len(query) == 4:
        place = 1 if query[1] >= query[2] else 2
        batch, width = query[0], query[3 - place] * query[3]
    else:
        return None
    return 4.0 * batch * query[place] * key[place] * width * passes
