"""Markdown: for a step summary, a merge request or an issue."""

from __future__ import annotations

import re

from npudiag.report.changes import merged, place, setting
from npudiag.report.figures import ranges
from npudiag.report.framework import framework
from npudiag.report.gate import STATUS, gate_of, known_of, notes, reasons
from npudiag.report.localise import verdict_text, words
from npudiag.report.safe_text import split_lines, visible, visible_block
from npudiag.report.story import Cause, Story, tell
from npudiag.report.texts import CONFIDENCE, DISPOSITION, REASON, SEVERITY, UI, as_lang, labelled, say
from npudiag.result import Evidence, Finding, Result

BUDGET = 900 * 1024
"""Bytes; a step summary of more than 1 MiB is dropped as a whole."""

ICONS = {"critical": "🔴", "error": "🟠", "warning": "🟡", "info": "🔵", "ok": "🟢"}
_GATE_ICONS = {"passed": "🟢", "failed": "🔴"}
_SPECIAL = re.compile(r"[\\`*_\[\]|~#$]")
_MOST_EVIDENCE = 4
_MOST_LINES = 12
_MOST_ROWS = 200
_LINE_CHARS = 400


def render(result: Result, *, lang: str = "en", budget: int = BUDGET) -> str:
    """Return the document as Markdown of at most `budget` bytes; what does not fit is counted at the end."""
    lang = as_lang(lang)
    page = _Page(budget)
    story = tell(result)
    page.add(_head(result, story, lang))
    left_out = 0
    for index, cause in enumerate(story.causes):
        left_out += not page.add(_cause(cause, index, lang))
    for group in (story.contributing, story.others, story.notes, story.suppressed):
        for finding in group:
            left_out += not page.add(_finding(finding, lang))
    changes = merged(story, lang)
    if changes:
        page.add(_details(say(UI.all_changes, lang), _fence(changes, "sh")))
    page.add(_coverage(result, lang))
    if left_out:
        page.add(f"*{say(UI.more_json, lang, n=left_out)}*\n", last=True)
    return page.text()


class _Page:
    """Collects blocks as long as they fit."""

    _RESERVE = 200

    def __init__(self, budget: int) -> None:
        self._left = budget - self._RESERVE
        self._blocks: list[str] = []

    def add(self, block: str, *, last: bool = False) -> bool:
        """Add a block; False where there is no room for it."""
        size = len(block.encode("utf-8", "replace")) + 1
        if size > self._left + (self._RESERVE if last else 0):
            return False
        self._left -= size
        self._blocks.append(block)
        return True

    def text(self) -> str:
        return "\n".join(self._blocks)


def plain(text: str) -> str:
    """Return text that Markdown, HTML and mentions cannot do anything with, on one line."""
    text = visible(text).replace("\t", " ")
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _SPECIAL.sub(lambda match: "\\" + match.group(), text)
    # Neither @names nor :emoji: nor bare addresses are to come alive.
    return text.replace("@", "&#64;").replace("://", "&#58;//")


def _html(text: str) -> str:
    """Return text for inside an HTML element, where Markdown does not apply but mentions do."""
    text = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for char in "\\`*_[]|~@:#":
        text = text.replace(char, f"&#{ord(char)};") if char != "#" else text
    return text


def _code(text: str) -> str:
    """Return inline code."""
    text = visible(text).replace("\t", " ")
    fence = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else ""


def _cell(text: str) -> str:
    """Return inline code for a table, where a bar ends the cell even inside code."""
    return _code(text).replace("|", "\\|")


def _fence(text: str, language: str = "text") -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{visible_block(text)}\n{fence}\n"


def _details(summary: str, body: str, *, opened: bool = False) -> str:
    return f"<details{' open' if opened else ''}><summary>{_html(summary)}</summary>\n\n{body}\n</details>\n"


def _head(result: Result, story: Story, lang: str) -> str:
    worst = (
        story.causes[0].finding.severity if story.causes else "ok" if result.verdict.status == "healthy" else "error"
    )
    out = [f"### {ICONS[worst]} npudiag: {plain(verdict_text(result.verdict, lang))}", ""]
    gate = gate_of(result)
    if gate is not None:
        out.append(f"{_GATE_ICONS.get(gate.status, '🟡')} **{say(STATUS[gate.status], lang)}**")
        out += ["", *(f"- {plain(text)}" for text in (*reasons(result, lang), *notes(result, lang))), ""]
    counts = [
        say(text, lang, n=number)
        for text, number in (
            (UI.n_roots, len(story.causes)),
            (UI.n_consequences, sum(cause.size for cause in story.causes)),
            (UI.n_contributing, len(story.contributing)),
            (UI.n_others, len(story.others)),
            (UI.n_notes, len(story.notes)),
            (UI.n_suppressed, len(story.suppressed)),
        )
        if number
    ]
    if result.verdict.confidence:
        counts.insert(0, say(CONFIDENCE[result.verdict.confidence], lang))
    if counts:
        out += [" · ".join(counts), ""]
    if not result.coverage.complete:
        out += [f"> ⚠️ {say(UI.incomplete, lang)}", ""]
    if gate is not None and gate.budgets:
        out += ["| metric | value | budget | |", "|---|---:|---|---|"]
        for item in gate.budgets[:_MOST_ROWS]:
            value = "" if item.value is None else f"{item.value:,.6g}"
            icon = {"pass": "🟢", "fail": "🔴"}.get(item.status, "🟡")
            out.append(f"| {_cell(item.metric)} | {value} | {_cell(item.budget)} | {icon} {plain(item.note)} |")
        out.append("")
    return "\n".join(out)


def _cause(cause: Cause, index: int, lang: str) -> str:
    finding = cause.finding
    name = UI.unexplained if finding.category == "insufficient-evidence" else UI.root_cause
    label = say(name, lang) if index == 0 else say(UI.root_cause_n, lang, k=index + 1)
    body = _body(finding, lang)
    if cause.consequences:
        rows = [
            f"| {_cell(item.code)} | {plain(words(item, lang).title)} | {_whom(item, lang)} |"
            for item in cause.consequences[:_MOST_ROWS]
        ]
        if len(cause.consequences) > _MOST_ROWS:
            rows.append(f"| | {say(UI.more_json, lang, n=len(cause.consequences) - _MOST_ROWS)} | |")
        table = "\n".join(["| | | |", "|---|---|---|", *rows, ""])
        body += "\n" + _details(f"{say(UI.what_it_caused, lang)} ({cause.size})", table)
    return _details(f"{ICONS[finding.severity]} {label}: {_title(finding, lang)}", body, opened=index == 0)


def _finding(finding: Finding, lang: str) -> str:
    icon = "⚪" if finding.suppressed is not None else ICONS[finding.severity]
    return _details(f"{icon} {_title(finding, lang)}", _body(finding, lang))


def _title(finding: Finding, lang: str) -> str:
    return f"{finding.code} {words(finding, lang).title}"


def _whom(finding: Finding, lang: str) -> str:
    scope = finding.scope
    parts = [
        say(text, lang, n=len(values), list=ranges(values))
        for text, values in ((UI.rank, scope.ranks), (UI.device, scope.devices))
        if values
    ]
    if scope.nodes:
        more = f" +{len(scope.nodes) - 4}" if len(scope.nodes) > 4 else ""
        parts.append(say(UI.node, lang, n=len(scope.nodes), list=", ".join(scope.nodes[:4]) + more))
    return plain(" · ".join(parts))


def _body(finding: Finding, lang: str) -> str:
    texts = words(finding, lang)
    facts = [say(SEVERITY[finding.severity], lang), say(CONFIDENCE[finding.confidence], lang), _whom(finding, lang)]
    out = [f"{_code(finding.name)} · " + " · ".join(fact for fact in facts if fact), ""]
    if finding.suppressed is not None:
        parts = [f"{key}: {value}" for key, value in finding.suppressed.items()]
        out += [f"**{labelled(UI.suppressed, plain('; '.join(parts)), lang)}**", ""]
    if texts.summary:
        out += [plain(texts.summary), ""]
    for item in finding.evidence[:_MOST_EVIDENCE]:
        out += _proof(item, lang)
    if len(finding.evidence) > _MOST_EVIDENCE:
        out += [f"*{say(UI.more_json, lang, n=len(finding.evidence) - _MOST_EVIDENCE)}*", ""]
    if finding.remedies:
        out += [f"**{say(UI.what_to_do, lang)}**", ""]
    for remedy, text in zip(finding.remedies, texts.remedies, strict=True):
        where = f" ({_code(place(remedy))})" if remedy.at else ""
        out.append(f"- {plain(text.text)}{where} *{say(DISPOSITION[remedy.disposition], lang)}*")
        if remedy.change is not None:
            out.append(f"  {_code(setting(remedy.kind, remedy.change.key, remedy.change.to))}")
        elif remedy.command:
            out.append(f"  {_code(remedy.command)}")
    if texts.collect:
        out += ["", f"**{say(UI.collect, lang)}**", "", *(f"- {plain(text)}" for text in texts.collect)]
    return "\n".join(out) + "\n"


def _proof(item: Evidence, lang: str) -> list[str]:
    out = []
    if item.path:
        where = f"{item.path}:{item.line}" if item.line else item.path
        times = f" ×{item.count:,}" if item.count and item.count > 1 else ""
        out.append(f"{_code(where)}{times} {plain(item.label)}".rstrip())
    elif item.label:
        out.append(plain(item.label))
    if item.text:
        lines = split_lines(item.text)
        shown = [line if len(line) <= _LINE_CHARS else line[: _LINE_CHARS - 1] + "…" for line in lines[:_MOST_LINES]]
        if len(lines) > _MOST_LINES:
            shown.append("… " + say(UI.more_lines, lang, n=len(lines) - _MOST_LINES))
        out += ["", _fence("\n".join(shown))]
    elif item.value is not None:
        out.append(_code(str(item.value)))
    return [*out, ""]


def _coverage(result: Result, lang: str) -> str:
    cover = result.coverage
    out = [f"- {say(UI.n_files, lang, n=cover.files)}, {say(UI.n_lines, lang, n=cover.lines)}"]
    stack = framework(result, lang)
    if stack:
        out.append(f"- {plain(stack)}")
    if cover.ranks:
        out.append(f"- {say(UI.ranks, lang)}: {ranges(cover.ranks)}")
    if cover.ranks_missing:
        out.append(f"- {say(UI.ranks, lang)}: {say(UI.ranks_missing, lang, list=ranges(cover.ranks_missing))}")
    if cover.first_time:
        out.append(f"- {say(UI.time_range, lang)}: {plain(cover.first_time)} – {plain(cover.last_time or '')}")
    for problem in cover.problems[:20]:
        reason = say(REASON[problem.reason], lang) if problem.reason in REASON else problem.reason
        out.append(f"- ⚠️ {_code(problem.path)} {plain(reason)}: {plain(problem.message)}")
    checks = [
        say(text, lang, n=len(items))
        for text, items in (
            (UI.rules_passed, result.passed),
            (UI.rules_skipped, result.skipped),
            (UI.rules_broke, result.errors),
        )
        if items
    ]
    out.append(f"- {', '.join(checks)}")
    out += [f"- ⚠️ {_code(item.code)} {plain(item.message)}" for item in result.errors[:20]]
    tool = result.tool
    out.append(
        f"- npudiag {plain(tool.version)}, {say(UI.rules_value, lang, n=tool.rules, hash=plain(tool.rules_version))}"
    )
    known = known_of(result)
    if known is not None and known.new:
        out.append(f"- {say(UI.n_findings, lang, n=len(known.new))}: new")
    return _details(say(UI.coverage, lang), "\n".join(out) + "\n")
