"""Workflow commands that GitHub Actions turns into annotations."""

from __future__ import annotations

from typing import Literal

from npudiag.report.gate import gate_of, repository_path
from npudiag.report.localise import verdict_text, words
from npudiag.report.safe_text import visible
from npudiag.report.texts import SEVERITY, UI, as_lang, say
from npudiag.result import SEVERITIES, Finding, Result

Level = Literal["error", "warning", "notice"]
LEVELS: tuple[Level, ...] = ("error", "warning", "notice")
MOST = 10
"""Annotations of one level that GitHub shows for a step; it drops the others in silence."""
_CHARS = 2_000


def render(result: Result, *, lang: str = "en") -> str:
    """Return one command a line: the worst findings, at most ten of a level, and a notice of what was left out.

    Findings that fail the gate are errors. Consequences are told after what caused them.
    """
    lang = as_lang(lang)
    found: dict[Level, list[str]] = {level: [] for level in LEVELS}
    gate = gate_of(result)
    for item in gate.budgets if gate else ():
        if item.status != "pass":
            found["error"].append(command("error", item.sentence(lang), title=f"budget {item.metric}"))
    if not result.coverage.complete:
        found["warning"].append(command("warning", say(UI.incomplete, lang), title="npudiag"))
    for broken in result.errors:
        found["warning"].append(command("warning", broken.message, title=f"rule {broken.code} broke"))
    failing = gate.failing if gate else frozenset()
    shown = [finding for finding in result.findings if finding.suppressed is None]
    shown.sort(key=lambda finding: (finding.id not in failing, -SEVERITIES.index(finding.severity),
                                    finding.role == "consequence"))  # fmt: skip
    for finding in shown:
        level = _level(finding, failing)
        found[level].append(_annotation(result, finding, level, lang))
    # The notice about the rest, and the verdict where nothing else is told, are notices themselves.
    out = [line for level in LEVELS[:2] for line in found[level][:MOST]]
    notices = found["notice"]
    rest = sum(max(0, len(found[level]) - MOST) for level in LEVELS[:2])
    if rest or len(notices) > MOST:
        kept = notices[: MOST - 1]
        rest += len(notices) - len(kept)
        notices = [*kept, command("notice", say(UI.more_json, lang, n=rest), title="npudiag")]
    elif not out and not notices:
        notices = [command("notice", verdict_text(result.verdict, lang), title="npudiag")]
    return "".join(f"{line}\n" for line in (*out, *notices))


def _level(finding: Finding, failing: frozenset[str]) -> Level:
    if finding.id in failing or finding.severity in ("critical", "error"):
        return "error"
    return "warning" if finding.severity == "warning" else "notice"


def _annotation(result: Result, finding: Finding, level: Level, lang: str) -> str:
    texts = words(finding, lang)
    lines = [texts.title, texts.summary]
    if texts.remedies:
        lines.append(f"{say(UI.first_step, lang)} {texts.remedies[0].text}")
    path, line = next(((r.at.path, r.at.line) for r in finding.remedies if r.at is not None), (None, None))
    proof = next((item for item in finding.evidence if item.path), None)
    if path is None and proof is not None:
        path, line = proof.path, proof.line
    own = repository_path(result, path) if path else None
    if own is None and path:
        lines.append(f"{path}:{line}" if line else path)
    return command(
        level,
        "\n".join(visible(text) for text in lines if text),
        title=f"{finding.code} {finding.name} ({say(SEVERITY[finding.severity], lang)})",
        file=own,
        line=line if own is not None else None,
    )


def command(level: Level, message: str, *, title: str = "", file: str | None = None, line: int | None = None) -> str:
    """Return one workflow command, on one line whatever the texts hold."""
    properties = []
    if file:
        properties.append(f"file={_property(file)}")
        if line is not None and line >= 1:
            properties.append(f"line={line}")
    if title:
        properties.append(f"title={_property(title)}")
    head = f"::{level} {','.join(properties)}" if properties else f"::{level}"
    return f"{head}::{_data(message[:_CHARS])}"


def _data(text: str) -> str:
    lines = (visible(line) for line in text.replace("%", "%25").replace("\r", "%0D").split("\n"))
    return "%0A".join(lines)


def _property(text: str) -> str:
    return _data(visible(text)).replace(":", "%3A").replace(",", "%2C")
