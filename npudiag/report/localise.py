"""The texts of a finding and of the verdict in one language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from npudiag.result import Coverage, Finding, Verdict


@dataclass(frozen=True, slots=True)
class RemedyWords:
    """Texts of one remedy."""

    text: str
    expect: str
    verify: str


@dataclass(frozen=True, slots=True)
class Words:
    """Texts of one finding; a text without translation stays English."""

    title: str
    summary: str
    remedies: tuple[RemedyWords, ...]
    collect: tuple[str, ...]
    why_not: str
    reasons: tuple[str, ...]
    settle: str


def verdict_text(verdict: Verdict, lang: str) -> str:
    """Return the verdict's sentence in `lang`."""
    return _text(verdict.i18n.get(lang), "text", verdict.text)


def words(finding: Finding, lang: str) -> Words:
    """Return the texts of `finding` in `lang`."""
    other: Mapping[str, Any] = finding.i18n.get(lang) or {}
    remedies = other.get("remedies")
    translated = remedies if isinstance(remedies, list) else []
    collect = other.get("collect")
    runner_up = other.get("runner_up")
    return Words(
        title=_text(other, "title", finding.title),
        summary=_text(other, "summary", finding.summary),
        remedies=tuple(
            RemedyWords(
                text=_text(zh, "text", remedy.text),
                expect=_text(zh, "expect", remedy.expect),
                verify=_text(zh, "verify", remedy.verify),
            )
            for remedy, zh in zip(finding.remedies, _padded(translated, len(finding.remedies)), strict=True)
        ),
        collect=_listed(finding.collect, collect),
        why_not=_text(runner_up, "why_not", finding.runner_up.why_not if finding.runner_up else ""),
        reasons=_listed(finding.reasons, other.get("reasons")),
        settle=_text(other, "settle", finding.settle),
    )


def clock_notes(coverage: Coverage, lang: str) -> tuple[str, ...]:
    """Return the notes on the clocks behind the time stamps in `lang`."""
    return _listed(coverage.clock_notes, (coverage.i18n.get(lang) or {}).get("clock_notes"))


def _listed(texts: list[str], translated: object) -> tuple[str, ...]:
    others = translated if isinstance(translated, list) else []
    return tuple(
        other if isinstance(other, str) and other else text
        for text, other in zip(texts, _padded(others, len(texts)), strict=True)
    )


def _padded(items: list[Any], length: int) -> list[Any]:
    return [*items[:length], *[None] * (length - len(items))]


def _text(texts: object, key: str, fallback: str) -> str:
    value = texts.get(key) if isinstance(texts, Mapping) else None
    return value if isinstance(value, str) and value else fallback
