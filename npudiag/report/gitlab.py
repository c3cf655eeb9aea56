"""GitLab's code quality report."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from npudiag.report.gate import harmless, repository_path
from npudiag.report.localise import words
from npudiag.report.safe_text import visible, visible_block
from npudiag.report.texts import as_lang
from npudiag.result import Finding, Result


def render(result: Result, *, lang: str = "en") -> str:
    """Return the findings that nothing sets aside as a JSON array."""
    lang = as_lang(lang)
    taken: set[str] = set()
    issues = [_issue(result, finding, lang, taken) for finding in result.findings if finding.suppressed is None]
    return json.dumps(harmless(issues), ensure_ascii=False, indent=1) + "\n"


def _issue(result: Result, finding: Finding, lang: str, taken: set[str]) -> dict[str, Any]:
    texts = words(finding, lang)
    path, line = _place(finding)
    own = repository_path(result, path) if path else None
    advice = "\n".join(f"- {remedy.text}" for remedy in texts.remedies)
    return {
        # The name of a check is not shown, so the code stands in the description.
        "description": visible(f"{finding.code} {texts.title}"),
        "check_name": finding.name,
        "fingerprint": _unique(finding, taken),
        "severity": _severity(finding),
        "location": {"path": own or path or "-", "lines": {"begin": max(1, line)}},
        "categories": ["Performance" if finding.category == "performance" else "Bug Risk"],
        "content": {"body": visible_block(f"{texts.summary}\n\n{advice}".strip())},
    }


def _place(finding: Finding) -> tuple[str, int]:
    for remedy in finding.remedies:
        if remedy.at is not None:
            return remedy.at.path, remedy.at.line
    for item in finding.evidence:
        if item.path:
            return item.path, item.line or 1
    return "", 1


def _severity(finding: Finding) -> str:
    if finding.severity == "critical":
        return "blocker" if finding.impact.fatal else "critical"
    return {"error": "major", "warning": "minor"}.get(finding.severity, "info")


def _unique(finding: Finding, taken: set[str]) -> str:
    """Return a fingerprint that no other issue has: GitLab drops all but one of those that share one."""
    base = finding.fingerprint or finding.name
    mark, salt = base.rpartition(":")[2], 0
    while mark in taken:
        salt += 1
        mark = hashlib.blake2b(f"{base}/{salt}".encode("utf-8", "replace"), digest_size=16).hexdigest()
    taken.add(mark)
    return mark
