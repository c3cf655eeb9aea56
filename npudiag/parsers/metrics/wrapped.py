"""Puts lines together again that something cut at a fixed width: terminals, mails, tools that collect logs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from npudiag.parsers.metrics.base import Sink
from npudiag.parsers.prefixes import Peeled

_NARROWEST = 60
_WIDEST = 512
_PIECES = 64
_EDGE = 6
_NEAR = 8
_HEAD = 24
_LOOKED_AT = 400
_TABLE = frozenset("|+")
_OWN = re.compile(
    r"\s*(?:\[?\d{4}[-/]\d\d[-/]\d\d|\[?(?:DEBUG|INFO|WARN|ERROR)|\(\w+ (?:rank=\d+ )?pid=|\[(?:rank|default)\d"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} )"
    r"|[^|]{0,80}%\|"
)
"""How a line begins, or what stands in it, that is none's rest: a stamp, a level, a launcher's prefix, a bar."""

Read = Callable[[int, str, Peeled], bool]
Asked = Sequence[tuple[str, int]]
"""What lines with a metric hold, each with the number of the kind it belongs to."""


def width(lines: Sequence[str], asked: Asked) -> int:
    """Return the width at which lines were cut, 0 where they were not.

    Cut lines are exactly so long, hardly any a little shorter, most of them go on in the next line, and what they go
    on with ends in a shorter one. Lines of one kind may all be equally long, and so may the rows below a header, but
    what follows them begins anew.

    Args:
        lines: Lines of the input, in order.
        asked: Markers that stand in the input, of kinds that may be longer than a terminal is wide.
    """
    if not asked:
        return 0
    counts = Counter(map(len, lines))
    longest = max(counts, default=0)
    almost = sum(counts[longest - less] for less in range(1, _EDGE + 1))
    if not _NARROWEST <= longest <= _WIDEST or counts[longest] < max(2, 2 * almost):
        return 0
    full = going_on = ended = rests = 0
    for line, behind in pairwise(lines):
        if len(line) == longest and line[:1] not in _TABLE:
            full += 1
            goes_on = bool(behind) and not begins(behind, places(line, asked))
            going_on += goes_on
            if len(behind) < longest:
                ended += 1
                rests += goes_on
            if full == _LOOKED_AT:
                break
    return longest if rests > 1 and rests * 2 > ended and going_on * 2 > full else 0


def places(text: str, asked: Asked) -> list[tuple[str, int]]:
    """Return the markers by which the next line can be told from the rest of this one, and where they stand in it.

    Of a kind that stands in the line, the other markers may follow in its rest; they tell nothing.
    """
    here = {kind for marker, kind in asked if marker in text}
    return [(marker, text.find(marker)) for marker, kind in asked if kind not in here or marker in text]


def begins(text: str, known: Iterable[tuple[str, int]]) -> bool:
    """Say whether a line is one of its own, not the rest of the line above.

    Args:
        text: The line.
        known: Markers, and where the line above has them: -1 where it does not.
    """
    if _OWN.match(text):
        return True
    for marker, above in known:
        at = text.find(marker)
        if at >= 0 and (abs(at - above) <= _NEAR if above >= 0 else at < _HEAD):
            return True
    return False


class Joiner:
    """Holds one line that was cut until the rest of it has come.

    Args:
        sink: Where findings go; it holds the line being read.
        size: Width at which lines were cut.
        known: Markers of other lines, and where this one has them; see `places`.
        readers: Who wants the line once it is whole.
        number: Its first physical line.
        text: What stands in that line, without prefixes.
        peeled: What the prefixes told.

    Attributes:
        last: The last physical line that belongs to it.
    """

    def __init__(
        self,
        sink: Sink,
        size: int,
        known: Sequence[tuple[str, int]],
        readers: Sequence[Read],
        number: int,
        text: str,
        peeled: Peeled,
    ) -> None:
        self._sink = sink
        self._size = size
        self._known = known
        self._readers = readers
        self._first = number
        self.last = number
        self._peeled = peeled
        self._texts = [text]
        self._raws = [sink.raw]

    def take(self, number: int, text: str) -> bool:
        """Take the next line of the file; says whether the held one is still not whole."""
        if number != self._first + len(self._texts) or begins(text, self._known):
            self.give()
            return False
        self.last = number
        self._texts.append(self._sink.raw)
        self._raws.append(self._sink.raw)
        if len(self._sink.raw) == self._size and len(self._texts) < _PIECES:
            return True
        self.give()
        return False

    def give(self) -> None:
        """Hand out what is held, as one line."""
        sink, text = self._sink, "".join(self._texts)
        now, sink.raw = sink.raw, "\n".join(self._raws)
        for read in self._readers:
            read(self._first, text, self._peeled)
        sink.raw = now
        self._readers = ()
