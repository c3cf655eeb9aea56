"""Measures and wraps text for a terminal, Chinese included."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_TOKEN = re.compile(r"\s+|\S+")
_NOT_FIRST = set("，。；：、！？）》」』】〕…—,.;:!?)]}%")
_NOT_LAST = set("（《「『【〔([{")


@lru_cache(maxsize=4096)
def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def text_width(text: str) -> int:
    """Return how many terminal columns `text` takes."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def cut(text: str, width: int) -> str:
    """Return `text` cut to `width` columns, with an ellipsis where something is missing."""
    if text_width(text) <= width:
        return text
    taken, used = [], 0
    for char in text:
        used += _char_width(char)
        if used > width - 1:
            break
        taken.append(char)
    return "".join(taken).rstrip() + "…"


def _pieces(text: str) -> list[str]:
    """Split into what a line may be broken between: words, and single wide characters."""
    pieces: list[str] = []
    for token in _TOKEN.findall(text):
        if token.isascii() or token.isspace():
            pieces.append(token)
            continue
        word = ""
        for char in token:
            glue = bool(word) and (char in _NOT_FIRST or word[-1] in _NOT_LAST)
            if not glue and word and (_char_width(char) == 2 or _char_width(word[-1]) == 2):
                pieces.append(word)
                word = char
            else:
                word += char
        pieces.append(word)
    return pieces


def wrap(text: str, width: int, *, used: int = 0) -> list[str]:
    """Break `text` into lines of at most `width` columns; a word that is longer than a line is cut up.

    Args:
        text: Text without control characters.
        width: Columns of a line.
        used: Columns of the first line that are taken already.

    Returns:
        The lines; the first one is empty where its room does not hold the first word.
    """
    lines: list[str] = []
    line = ""
    empty = used == 0
    for piece in _pieces(text):
        size = text_width(piece)
        if piece.isspace():
            if line:
                line, used = line + " ", used + 1
            continue
        if used + size > width and not empty:
            lines.append(line.rstrip())
            line, used = "", 0
        while size > width:
            head = _take(piece, width)
            lines.append(head)
            piece = piece[len(head) :]
            size = text_width(piece)
        line, used, empty = line + piece, used + size, False
    if line.strip():
        lines.append(line.rstrip())
    return lines


def _take(text: str, width: int) -> str:
    used = 0
    for index, char in enumerate(text):
        used += _char_width(char)
        if used > width and index:
            return text[:index]
    return text
