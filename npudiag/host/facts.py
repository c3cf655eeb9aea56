"""Facts of a machine as they are gathered, and as text."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from npudiag.parsers.snapshot import HEADER, fact_line

Value = str | int | float | bool
_VALUE_CHARS = 1000
_ITEM_CHARS = 400
"""A line of a snapshot is read up to 8,000 characters, and a character may be written as six."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is known.

    Attributes:
        area: What it belongs to: ``cpu``, ``disk``, ...
        name: What is told; the unit, where there is one, ends it (``free_bytes``).
        item: Of which one, where there are several.
        value: The value.
    """

    area: str
    name: str
    item: str | None
    value: Value


@dataclass(slots=True)
class Facts:
    """Facts in the order of their gathering."""

    facts: list[Fact] = field(default_factory=list)

    def add(self, area: str, name: str, value: Value | None, item: str | None = None) -> None:
        """Add a fact; what is None is not known and not added."""
        if value is not None:
            item = item[:_ITEM_CHARS] if item is not None else None
            self.facts.append(Fact(area, name, item, value[:_VALUE_CHARS] if isinstance(value, str) else value))

    def get(self, area: str, name: str, item: str | None = None) -> Value | None:
        """Return a value, None where it is not known."""
        for fact in self.facts:
            if (fact.area, fact.name, fact.item) == (area, name, item):
                return fact.value
        return None

    def __iter__(self) -> Iterator[Fact]:
        return iter(self.facts)

    def render(self) -> str:
        """Return all facts as a snapshot."""
        lines = [HEADER, *(fact_line(fact.area, fact.name, fact.item, fact.value) for fact in self.facts)]
        return "\n".join(lines) + "\n"


Probe = Callable[[Facts], None]


def run(facts: Facts, probes: list[Probe]) -> None:
    """Run probes one after the other; one that fails is noted, the others run all the same."""
    for probe in probes:
        try:
            probe(facts)
        except Exception as exc:  # kernels, containers and psutil fail in many ways
            facts.add("probe", "failed", f"{type(exc).__name__}: {exc}"[:200], probe.__name__)


def read(path: str, most: int = 65_536) -> str | None:
    """Return the text of a small file of the system, None where it cannot be read."""
    with contextlib.suppress(OSError, ValueError), Path(path).open("rb") as file:
        return file.read(most).decode("utf-8", "replace").strip()
    return None


def whole(text: str | None) -> int | None:
    """Return a text as a whole number, None where it is none."""
    with contextlib.suppress(ValueError):
        return int(text or "")
    return None
