"""Regular expressions that are compiled when first used: most analyses never meet the lines that theirs want."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property


class Pattern:
    """A regular expression for searching."""

    def __init__(self, expression: str) -> None:
        self._expression = expression

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._expression)

    def search(self, text: str, start: int = 0, stop: int = 1 << 62) -> re.Match[str] | None:
        """Return the first match between two places of a text."""
        return self._compiled.search(text, start, stop)

    def finditer(self, text: str, start: int = 0, stop: int = 1 << 62) -> Iterator[re.Match[str]]:
        """Yield the matches between two places of a text."""
        return self._compiled.finditer(text, start, stop)

    def groups(self, text: str) -> list[str]:
        """Return what the one group holds in each match."""
        return [match[1] for match in self._compiled.finditer(text)]

    def pairs(self, text: str) -> list[tuple[str, str]]:
        """Return what the two groups hold in each match."""
        return [(match[1], match[2]) for match in self._compiled.finditer(text)]
