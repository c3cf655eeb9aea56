"""Sets findings aside that the user's configuration knows and gives a reason for."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

from npudiag.config import Suppression
from npudiag.result import Finding, Passed


def apply(
    findings: Sequence[Finding], passed: Iterable[Passed], suppressions: Sequence[Suppression], today: datetime.date
) -> list[str]:
    """Mark the findings that a suppression covers; return the suppressions that covered none, as text.

    An expired suppression covers nothing and is named too; one whose rules could not judge this input, or were not
    chosen to, is not: it may be needed elsewhere. Suppressed findings stay in the document.

    Args:
        findings: All findings.
        passed: The rules that looked and found nothing.
        suppressions: What the configuration sets aside.
        today: The day that expiry is judged by.
    """
    looked = {(finding.code, finding.name) for finding in findings} | {(rule.code, rule.name) for rule in passed}
    unused = []
    for suppression in suppressions:
        name = f"{suppression.rule} ({suppression.reason})"
        if suppression.expired(today):
            unused.append(f"{name}: expired on {suppression.until}")
            continue
        covered = [finding for finding in findings if _covers(suppression, finding)]
        for finding in covered:
            finding.suppressed = {"reason": suppression.reason}
            if suppression.until is not None:
                finding.suppressed["until"] = suppression.until.isoformat()
        if not covered and any(suppression.names(code, name) for code, name in looked):
            unused.append(f"{name}: nothing to suppress")
    return unused


def _covers(suppression: Suppression, finding: Finding) -> bool:
    if not suppression.names(finding.code, finding.name) or not suppression.covers(finding.scope.ranks):
        return False
    texts = [finding.title, *(item.text or "" for item in finding.evidence)]
    return any(suppression.match in text for text in texts)
