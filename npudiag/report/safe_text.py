r"""Makes log text harmless to look at and finds the parts worth marking.

Log text is written by whatever ran. Escape sequences, direction overrides and
invisible characters are shown as escapes such as ``\x1b``, so that what the
reader sees is what stands in the file.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Kind = Literal["plain", "mark", "control", "cut"]

_HIDDEN = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SHORT_HIGHLIGHT = 4
_MAX_MARKS = 40


class Segment(NamedTuple):
    """A run of text of one kind.

    ``plain`` and ``mark`` (what made the rule match) hold text as it stands,
    ``control`` an escape for a hidden character, ``cut`` the number of characters left out.
    """

    text: str
    kind: Kind


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible(text: str) -> str:
    """Return `text` on one line with every hidden character as an escape; tabs stay."""
    return _HIDDEN.sub(_escape, text)


def visible_word(text: str) -> str:
    """Return `text` like `visible`, tabs as escapes too: for paths and shell words."""
    return visible(text).replace("\t", "\\t")


def visible_block(text: str) -> str:
    """Return `text` like `visible`, keeping its line breaks."""
    return "\n".join(visible(line) for line in split_lines(text))


def split_lines(text: str) -> list[str]:
    """Split at line feeds only, as a file is; drop the carriage return before one."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def segments(line: str, highlights: list[str], *, limit: int) -> list[Segment]:
    """Cut one line into runs to show.

    Args:
        line: Text of one line, as it stands in the file.
        highlights: Substrings to mark.
        limit: Longest text to show, in characters; a longer line is cut around its first mark.

    Returns:
        Runs whose texts are safe to show.
    """
    marks = _marks(line, highlights)
    start, end = 0, len(line)
    if end > limit:
        first = marks[0][0] if marks else 0
        start = max(0, min(first - limit // 4, end - limit))
        end = start + limit
    runs: list[Segment] = []
    if start:
        runs.append(Segment(str(start), "cut"))
    at = start
    for low, high in marks:
        low, high = max(low, at), min(high, end)
        if low >= high:
            continue
        _add(runs, line[at:low], "plain")
        _add(runs, line[low:high], "mark")
        at = high
    _add(runs, line[at:end], "plain")
    if end < len(line):
        runs.append(Segment(str(len(line) - end), "cut"))
    return runs


def _add(runs: list[Segment], text: str, kind: Kind) -> None:
    at = 0
    for hidden in _HIDDEN.finditer(text):
        if hidden.start() > at:
            runs.append(Segment(text[at : hidden.start()], kind))
        if runs and runs[-1].kind == "control":
            runs[-1] = Segment(runs[-1].text + _escape(hidden), "control")
        else:
            runs.append(Segment(_escape(hidden), "control"))
        at = hidden.end()
    if at < len(text):
        runs.append(Segment(text[at:], kind))


def _marks(line: str, highlights: list[str]) -> list[tuple[int, int]]:
    """Return merged, sorted intervals of what to mark."""
    wanted = dict.fromkeys(part for text in highlights for part in split_lines(text) if part.strip())
    found: list[tuple[int, int]] = []
    for text in wanted:
        if len(text) >= _SHORT_HIGHLIGHT:
            at = line.find(text)
            while at >= 0 and len(found) < _MAX_MARKS:
                found.append((at, at + len(text)))
                at = line.find(text, at + len(text))
    anchors = list(found)
    for text in wanted:
        if len(text) < _SHORT_HIGHLIGHT:
            found.extend(_nearest(line, text, anchors))
    found.sort()
    merged: list[tuple[int, int]] = []
    for low, high in found:
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _nearest(line: str, text: str, anchors: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Find one whole-word place of a short capture such as ``3``.

    It stands in many places of a line (times, addresses): take the one closest to a longer mark,
    or the last one, because facts follow the header.
    """
    places = [m.span() for m in re.finditer(rf"(?<![\w.]){re.escape(text)}(?![\w.:-])", line)][:_MAX_MARKS]
    if not places:
        return []
    if not anchors:
        return [places[-1]]

    def distance(place: tuple[int, int]) -> int:
        return min(max(low - place[1], place[0] - high, 0) for low, high in anchors)

    return [min(places, key=distance)]
