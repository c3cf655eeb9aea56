"""Sorts the findings of a result into what a reader asks for, in that order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from npudiag.result import SEVERITIES, Finding, Result


@dataclass(slots=True)
class Cause:
    """A root cause and all that it brought about."""

    finding: Finding
    consequences: list[Finding] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Number of consequences."""
        return len(self.consequences)


@dataclass(slots=True)
class Story:
    """The findings of one result, each in exactly one place."""

    causes: list[Cause] = field(default_factory=list)
    """Root causes in the document's order; all of severity error or worse, or else the first one alone."""
    contributing: list[Finding] = field(default_factory=list)
    others: list[Finding] = field(default_factory=list)
    """Problems beside the root causes."""
    notes: list[Finding] = field(default_factory=list)
    """Findings of severity info."""
    suppressed: list[Finding] = field(default_factory=list)


def severity_rank(finding: Finding) -> int:
    """Return how bad a finding is: 0 (info) to 3 (critical)."""
    return SEVERITIES.index(finding.severity)


def tell(result: Result) -> Story:
    """Sort the findings of `result`."""
    story = Story()
    by_id = {finding.id: finding for finding in result.findings}
    causes: dict[str, Cause] = {}
    for finding in result.findings:
        if finding.suppressed is not None:
            story.suppressed.append(finding)
        elif finding.status == "info" or finding.severity == "info":
            story.notes.append(finding)
        elif finding.role == "root":
            if not causes or severity_rank(finding) >= SEVERITIES.index("error"):
                causes[finding.id] = cause = Cause(finding)
                story.causes.append(cause)
            else:
                story.others.append(finding)
        elif finding.role == "contributing":
            story.contributing.append(finding)
    for finding in result.findings:
        if finding.role != "consequence" or finding.suppressed is not None:
            continue
        if finding.status == "info" or finding.severity == "info":
            continue
        root = _root_of(finding, by_id, causes)
        if root is None:
            story.others.append(finding)
        else:
            causes[root].consequences.append(finding)
    return story


def _root_of(finding: Finding, by_id: dict[str, Finding], causes: dict[str, Cause]) -> str | None:
    """Follow `caused_by` to a shown root cause; a damaged document may hold cycles or unknown ids."""
    seen = {finding.id}
    queue = list(finding.caused_by)
    while queue:
        current = queue.pop(0)
        if current in causes:
            return current
        if current in seen or current not in by_id:
            continue
        seen.add(current)
        queue.extend(by_id[current].caused_by)
    return None


@dataclass(frozen=True, slots=True)
class Fold:
    """Many findings in one line."""

    count: int
    codes: tuple[tuple[str, int], ...]
    """Code and number of findings, most frequent first."""
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]


def fold(findings: Iterable[Finding]) -> Fold:
    """Sum up findings by code and by whom they are about."""
    every = list(findings)
    return Fold(
        count=len(every),
        codes=tuple(Counter(finding.code for finding in every).most_common()),
        ranks=tuple(sorted({rank for finding in every for rank in finding.scope.ranks})),
        nodes=tuple(dict.fromkeys(node for finding in every for node in finding.scope.nodes)),
    )
