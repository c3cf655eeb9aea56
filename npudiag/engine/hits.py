"""What a detector yields: a rule matched, here is whom and what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from npudiag.result import Evidence, Place
from npudiag.tables.records import LogRecord


@dataclass(slots=True)
class Hit:
    """One match of one rule.

    Attributes:
        records: The log records that made it match, the decisive one first.
        evidence: Evidence other than log records.
        captures: Named values for the texts.
        occurrences: How often it happened, repeats counted.
        ranks, devices, nodes, steps: Whom it is about; where None, the records tell.
        first_us, last_us: When; where None, the records tell.
        confidence: Overrides the rule's.
        category: Overrides the rule's.
        severity: Overrides the rule's.
        marks: Substrings of the records to highlight.
        values: Those of them that were captured.
        at: Where the setting stands that the remedies change.
        words: Values for the texts that differ by language: English and Chinese.
    """

    records: list[LogRecord] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    captures: dict[str, Any] = field(default_factory=dict)
    occurrences: int = 1
    ranks: list[int] | None = None
    devices: list[int] | None = None
    nodes: list[str] | None = None
    steps: list[int] | None = None
    first_us: int | None = None
    last_us: int | None = None
    confidence: str | None = None
    category: str | None = None
    severity: str | None = None
    lost_pct: float | None = None
    lost_ms: float | None = None
    basis: str = ""
    marks: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    at: Place | None = None
    words: dict[str, tuple[str, str]] = field(default_factory=dict)


class CannotJudge(Exception):
    """A detector found its table, but not what it needs in it: the rule is skipped, never passed.

    Attributes:
        missing: What would have let it judge: a tool, a file, a fact.
    """

    def __init__(self, *missing: str) -> None:
        super().__init__(", ".join(missing))
        self.missing = list(missing)


class Detector(Protocol):
    """The signature of a Python detector."""

    def __call__(self, store: Any, params: Mapping[str, Any]) -> list[Hit]:
        """Return what was found in the tables of `store` (`npudiag.tables.store.Store`).

        Raises:
            CannotJudge: What it needs is not there.
        """
