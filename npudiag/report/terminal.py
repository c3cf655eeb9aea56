"""The answer on one screen of a terminal.

`render` makes styled lines; `print_plain` and `print_rich` write them. Colour
only repeats what an icon and a word say already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from io import StringIO
from typing import NamedTuple, TextIO

from npudiag.report import figures, gate
from npudiag.report.changes import before_after, place
from npudiag.report.framework import framework
from npudiag.report.localise import Words, clock_notes, verdict_text, words
from npudiag.report.safe_text import Segment, segments, split_lines, visible, visible_block, visible_word
from npudiag.report.shell import show_lines
from npudiag.report.story import Cause, Story, fold, tell
from npudiag.report.texts import (
    CONFIDENCE,
    DISPOSITION,
    REASON,
    SEVERITY,
    STATUS,
    UI,
    Text,
    as_lang,
    in_brackets,
    joined,
    labelled,
    say,
)
from npudiag.report.wrap import cut, text_width, wrap
from npudiag.result import Evidence, Finding, Remedy, Result

Span = tuple[str, str]
"""Text and the name of its style, a key of `STYLES`."""
Line = list[Span]

STYLES: dict[str, str] = {
    "": "",
    "critical": "bold red",
    "error": "red",
    "warning": "yellow",
    "info": "blue",
    "ok": "bold green",
    "heading": "bold",
    "strong": "bold",
    "dim": "bright_black",
    "path": "cyan",
    "mark": "bold reverse",
    "control": "magenta",
    "change": "bold green",
}
"""Style name to rich style."""

ICONS: dict[str, str] = {"critical": "✖", "error": "●", "warning": "▲", "info": "○", "ok": "✔"}

_ASCII = str.maketrans(
    {
        "✖": "X", "●": "*", "▲": "!", "○": "i", "✔": "+", "│": "|", "·": "-", "…": "...", "×": "x", "→": "->",
        "—": "-", "–": "-", "•": "*", "“": '"', "”": '"', "‘": "'", "’": "'", "≥": ">=", "≤": "<=", "µ": "u",
    }
)  # fmt: skip

SCREEN = 40
"""Lines that the answer takes at most where nothing more is asked for and the terminal is not narrow."""

MIN_WIDTH, MAX_WIDTH = 40, 120
_QUIET_CHARS = 500
_LOG_CHARS = 4000
_CHANGE_CHARS = 1000


class _Room(NamedTuple):
    """How much of each part is shown; None is all."""

    causes: int | None
    """Causes beside the first, told in short."""
    group: int | None
    """Findings of each further group."""
    summary: int | None
    """Lines of an explanation."""
    evidence: int | None
    """Pieces of evidence."""
    excerpt: int
    """Lines of a record."""
    rows: int
    """Rows of a table."""
    remedies: int | None
    said: int | None
    """Lines of a remedy."""
    collect: int | None
    remarks: int | None
    """Lines of a remark on the input, and of what else was considered."""
    notes: int
    """Remarks of one kind."""


_WIDE = _Room(
    causes=3, group=3, summary=3, evidence=2, excerpt=2, rows=4, remedies=3, said=3, collect=6, remarks=2, notes=3
)
_CLOSE = _WIDE._replace(group=2, excerpt=1, said=2, collect=5, remarks=1, notes=2)
_NARROW = _CLOSE._replace(summary=2, evidence=1, collect=4)
_TIGHT = _NARROW._replace(causes=2, group=1, rows=3, remedies=2, collect=3, notes=1)
_LEAST = _TIGHT._replace(causes=1, summary=1, rows=2, remedies=1, said=1, collect=2)
_ROOMS = (_WIDE, _CLOSE, _NARROW, _TIGHT, _LEAST)
"""Rooms for one screen; the first that fits is taken."""
_ALL = _Room(
    causes=None, group=50, summary=None, evidence=None, excerpt=12, rows=100, remedies=None, said=None, collect=None,
    remarks=None, notes=30,
)  # fmt: skip
_MORE = (_ALL._replace(evidence=10, rows=10), _ALL)
"""Rooms for more evidence, and for all."""


def render(result: Result, *, lang: str, width: int, verbosity: int) -> list[Line]:
    """Return the report as lines.

    Args:
        result: The document.
        lang: ``en`` or ``zh``.
        width: Columns of the terminal; lines holding a path may be longer, so that it can be copied whole.
        verbosity: -1 for one line, 0 for one screen, 1 for more evidence, 2 for everything but the numbers.

    Returns:
        Lines of (text, style) spans, free of control characters. What a gate judged stands beneath the rest.
    """
    if verbosity < 0:
        return [_one_line(result, as_lang(lang))]
    width = max(MIN_WIDTH, min(width, MAX_WIDTH))
    lines: list[Line] = []
    for room in _ROOMS if verbosity == 0 else (_MORE[min(verbosity, 2) - 1],):
        page = _Page(result, as_lang(lang), width, verbosity, room)
        page.write()
        lines = page.lines
        if len(lines) <= SCREEN:
            break
    return lines


def render_text(result: Result, *, lang: str = "en") -> str:
    """Return the report of verbosity 1 as plain text, 100 columns wide."""
    out = StringIO()
    print_plain(render(result, lang=lang, width=100, verbosity=1), out)
    return out.getvalue()


def print_plain(lines: Iterable[Line], file: TextIO) -> None:
    """Write lines without any escape sequence."""
    encode = _encoder(file)
    for line in lines:
        file.write(encode("".join(text for text, _ in line)).rstrip() + "\n")


def print_rich(lines: Iterable[Line], file: TextIO) -> None:
    """Write lines with colours, where `file` is a terminal that has them (``NO_COLOR`` is honoured)."""
    from rich.console import Console
    from rich.text import Text as RichText

    encode = _encoder(file)
    console = Console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for line in lines:
        styled = RichText.assemble(*((encode(text), STYLES.get(style, "")) for text, style in line), end="")
        styled.rstrip()
        console.print(styled, no_wrap=True, overflow="ignore", crop=False)


class _Encoder:
    """Spells what the stream's encoding lacks: glyphs in ASCII, other characters as escapes."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._ascii = not self._can("".join(ICONS.values()) + "│·…×→")

    def _can(self, text: str) -> bool:
        try:
            text.encode(self._encoding)
        except (UnicodeEncodeError, LookupError):
            return False
        return True

    def __call__(self, text: str) -> str:
        if self._ascii:
            text = text.translate(_ASCII)
        if self._can(text):
            return text
        return text.encode("ascii", "backslashreplace").decode("ascii")


def _encoder(file: TextIO) -> _Encoder:
    return _Encoder(getattr(file, "encoding", None) or "utf-8")


def _where(item: Evidence) -> str:
    if item.path is None:
        return ""
    path = visible_word(item.path)
    return f"{path}:{item.line}" if item.line is not None else path


def _first_place(finding: Finding) -> str:
    return next((_where(item) for item in finding.evidence if item.path is not None), "")


def _one_line(result: Result, lang: str) -> Line:
    if gate.unexplained(result):
        return [(visible(gate.lines(result, lang)[0])[:_QUIET_CHARS], "strong")]
    story = tell(result)
    if not story.causes:
        style = "ok" if result.verdict.status == "healthy" else "warning"
        return [(f"{ICONS[style]} {visible(verdict_text(result.verdict, lang))[:_QUIET_CHARS]}", style)]
    top = story.causes[0].finding
    line: Line = [
        (f"{ICONS[top.severity]} {say(SEVERITY[top.severity], lang)}", top.severity),
        (f" {visible(top.code)} {visible(words(top, lang).title)[:_QUIET_CHARS]}", ""),
        (f" ({say(CONFIDENCE[top.confidence], lang)})", "dim"),
    ]
    where = _first_place(top)
    return [*line, (" ", ""), (where, "path")] if where else line


def scope_parts(finding: Finding, lang: str) -> list[str]:
    """Return whom a finding is about, as short texts: ``rank 5``, ``devices 0-7``, ``node worker-1``."""
    scope = finding.scope
    parts = [
        say(text, lang, n=len(values), list=figures.ranges(values))
        for text, values in ((UI.rank, scope.ranks), (UI.device, scope.devices))
        if values
    ]
    if scope.nodes:
        parts.append(say(UI.node, lang, n=len(scope.nodes), list=visible(figures.names(scope.nodes))))
    if scope.steps:
        parts.append(say(UI.step, lang, n=len(scope.steps), list=figures.ranges(scope.steps)))
    return parts


def impact_parts(finding: Finding, lang: str) -> list[str]:
    """Return what a finding cost, as short texts."""
    impact = finding.impact
    parts = [say(UI.fatal, lang)] if impact.fatal else []
    if impact.lost_pct is not None:
        parts.append(say(UI.lost_pct, lang, pct=figures.short_float(impact.lost_pct)))
    if impact.lost_ms is not None:
        parts.append(say(UI.lost_time, lang, time=figures.seconds(impact.lost_ms / 1000)))
    if impact.basis:
        parts.append(visible(impact.basis))
    return parts


class _Page:
    """Writes the report of one result."""

    def __init__(self, result: Result, lang: str, width: int, verbosity: int, room: _Room) -> None:
        self.result = result
        self.lang = lang
        self.width = width
        self.verbosity = verbosity
        self.room = room
        self.lines: list[Line] = []

    # What the page consists of

    def write(self) -> None:
        story = tell(self.result)
        self._verdict(story)
        full = len(story.causes) if self.verbosity else 1
        for index, cause in enumerate(story.causes):
            title = UI.root_cause if index == 0 else UI.root_cause_n
            if cause.finding.category == "insufficient-evidence":
                title = UI.unexplained
            if index < full:
                self._cause(cause, say(title, self.lang, k=index + 1))
            elif self.room.causes is None or index < full + self.room.causes:
                self._blank()
                self._brief(cause.finding, say(title, self.lang, k=index + 1))
        if self.room.causes is not None:
            self._hidden(len(story.causes) - full - self.room.causes)
        most = self.room.group
        for text, group in (
            (UI.contributing, story.contributing),
            (UI.other_findings, story.others),
            (UI.notes, story.notes if self.verbosity or not story.causes else []),
            (UI.suppressed, story.suppressed if self.verbosity else []),
        ):
            if group:
                self._heading(say(text, self.lang))
                for finding in group[:most]:
                    self._brief(finding)
                self._hidden(len(group) - len(group[:most]))
        self._coverage()
        self._gate()

    def _gate(self) -> None:
        """Write the judgement of the gate, or what is to be said of suppressions where there was none."""
        judged = gate.lines(self.result, self.lang)
        if judged:
            self._blank()
            self._wrapped(judged[0], style="strong", indent=2, first=[("", "")], most=self.room.said)
        rest = judged[1:] or ([] if judged else gate.notes(self.result, self.lang))
        for text in rest[: None if self.verbosity else self.room.notes + 2]:
            self._wrapped(text.strip(), indent=2, most=self.room.remarks)
        if not self.verbosity:
            self._hidden(len(rest) - self.room.notes - 2)

    def _verdict(self, story: Story) -> None:
        verdict = self.result.verdict
        style = "ok" if verdict.status == "healthy" else "warning"
        if story.causes:
            style = story.causes[0].finding.severity
        self._wrapped(
            visible(verdict_text(verdict, self.lang)), style="strong", first=[(f"{ICONS[style]} ", style)], indent=2
        )
        lang = self.lang
        parts = [say(CONFIDENCE[verdict.confidence], lang)] if verdict.confidence else []
        if verdict.status in ("insufficient", "nothing-recognised"):
            # The sentence may not say it in as many words.
            parts.insert(0, say(STATUS[verdict.status], lang))
        consequences = sum(len(cause.consequences) for cause in story.causes)
        for text, count in (
            (UI.n_roots, sum(cause.finding.category != "insufficient-evidence" for cause in story.causes)),
            (UI.n_consequences, consequences),
            (UI.n_contributing, len(story.contributing)),
            (UI.n_others, len(story.others)),
            (UI.n_notes, len(story.notes)),
            (UI.n_suppressed, len(story.suppressed)),
        ):
            if count:
                parts.append(say(text, lang, n=count))
        self._wrapped(" · ".join(parts), style="dim", first=[("  ", "")], indent=2)

    def _cause(self, cause: Cause, heading: str) -> None:
        finding = cause.finding
        texts = words(finding, self.lang)
        self._blank()
        self.lines.append(
            [
                (heading, "heading"),
                ("  ", ""),
                (f"{ICONS[finding.severity]} {say(SEVERITY[finding.severity], self.lang)}", finding.severity),
                (f"  {visible(finding.code)} {visible(finding.name)}", "dim"),
            ]
        )
        self._wrapped(visible(texts.title), style="strong", indent=2)
        facts = scope_parts(finding, self.lang) + impact_parts(finding, self.lang)
        when = figures.span(finding.scope.first, finding.scope.last)
        if when:
            facts.append(visible(when))
        if finding.confidence != self.result.verdict.confidence:
            facts.append(say(CONFIDENCE[finding.confidence], self.lang))
        self._wrapped(" · ".join(facts), style="dim", indent=2)
        self._wrapped(visible(texts.summary), indent=2, most=self.room.summary)
        self._evidence(finding)
        self._consequences(cause.consequences)
        self._remedies(finding, texts)
        if texts.reasons and self.verbosity:
            self._label(UI.why_this)
            for text in (*texts.reasons, f"{say(UI.settle, self.lang)} {texts.settle}"):
                self._wrapped(visible(text), first=[("    - ", "dim")], indent=6, most=self.room.said)
        elif finding.runner_up:
            why = say(UI.not_taken, self.lang, why=visible(texts.why_not))
            self._wrapped(
                f"{visible(finding.runner_up.code)} {why}",
                first=self._inline(UI.runner_up),
                indent=4,
                most=self.room.remarks,
            )
        if texts.collect:
            self._label(UI.collect)
            shown = texts.collect[: self.room.collect]
            for text in shown:
                self._wrapped(visible(text), first=[("    - ", "dim")], indent=6, most=self.room.said)
            self._hidden(len(texts.collect) - len(shown), indent=4)
        if finding.references and self.verbosity > 0:
            self._label(UI.references)
            for address in finding.references:
                self.lines.append([("    ", ""), (visible(address), "path")])

    def _evidence(self, finding: Finding) -> None:
        if not finding.evidence:
            return
        self._label(UI.evidence)
        shown = finding.evidence[: self.room.evidence]
        for index, item in enumerate(shown):
            # The first piece is the best; on one screen the others are there to be looked up.
            self._proof(item, lines=self.room.excerpt if self.verbosity or index == 0 else 1)
        self._hidden(len(finding.evidence) - len(shown), indent=4)

    def _proof(self, item: Evidence, *, lines: int) -> None:
        head: Line = [("    ", "")]
        where, label = _where(item), visible(item.label)
        if where:
            head.append((where, "path"))
        if item.count and item.count > 1:
            head.append((f" ×{item.count:,}", "dim"))
        if label and where and sum(text_width(text) for text, _ in head) + 2 + text_width(label) <= self.width:
            head.append((f"  {label}", "dim"))
            label = ""
        if len(head) > 1:
            self.lines.append(head)
        if label:
            self._wrapped(label, style="dim", indent=4, most=self.room.remarks)
        if item.value is not None:
            value = figures.short_float(item.value) if isinstance(item.value, float) else visible(str(item.value))
            self._wrapped(value, style="strong", indent=4, most=2)
        if item.text is not None:
            self._excerpt(item, lines)
        if item.rows:
            self._rows(item.rows)
        if self.verbosity > 0 and item.path is not None and item.line is not None:
            last = item.line + (len(split_lines(item.text)) - 1 if item.text else 0) + 5
            command = show_lines(item.path, item.line - 5, last)
            if command:
                self.lines.append([("    ", ""), (f"$ {command}", "dim")])

    def _excerpt(self, item: Evidence, most: int) -> None:
        text = split_lines(item.text or "")
        context = self.verbosity > 0
        for line in item.before[-5:] if context else []:
            self.lines.append([("    │ ", "dim"), (cut(visible(line).replace("\t", " "), self.width - 6), "dim")])
        shown = _most_telling(text, item.highlights, most)
        for line in shown:
            self._quoted(segments(line, item.highlights, limit=self._log_limit()))
        if len(text) > len(shown):
            self.lines.append(
                [("    │ ", "dim"), (f"… {say(UI.more_lines, self.lang, n=len(text) - len(shown))}", "dim")]
            )
        for line in item.after[:5] if context else []:
            self.lines.append([("    │ ", "dim"), (cut(visible(line).replace("\t", " "), self.width - 6), "dim")])

    def _log_limit(self) -> int:
        # Two lines of the screen hold a usual log line; more is for -v.
        return max(60, 2 * (self.width - 6)) - 8 if self.verbosity == 0 else _LOG_CHARS

    def _quoted(self, runs: list[Segment]) -> None:
        """Write one log line behind a bar, broken where the terminal ends."""
        room = self.width - 6
        line: Line = [("    │ ", "dim")]
        used = 0
        for text, kind in runs:
            style = {"plain": "", "mark": "mark", "control": "control", "cut": "dim"}[kind]
            for char in "…" if kind == "cut" else text.replace("\t", "  "):
                size = text_width(char)
                if used + size > room:
                    self.lines.append(_joined(line))
                    line, used = [("    │ ", "dim")], 0
                line.append((char, style))
                used += size
        self.lines.append(_joined(line))

    def _rows(self, rows: list[dict[str, object]]) -> None:
        most = self.room.rows
        columns = list(rows[0])[:8]
        table = [[visible(str(name)) for name in columns]]
        for row in rows[:most]:
            table.append([_cell(row.get(name)) for name in columns])
        widths = [min(24, max(text_width(line[i]) for line in table)) for i in range(len(columns))]
        for index, cells in enumerate(table):
            text = "  ".join(_padded(cut(cell, size), size) for cell, size in zip(cells, widths, strict=True))
            self.lines.append([("    ", ""), (cut(text, self.width - 4), "dim" if index == 0 else "")])
        self._hidden(len(rows) - most, indent=4)

    def _consequences(self, consequences: list[Finding]) -> None:
        if not consequences:
            return
        total = fold(consequences)
        codes = ", ".join(f"{visible(code)} ×{n}" if n > 1 else visible(code) for code, n in total.codes[:8])
        parts = [say(UI.n_findings, self.lang, n=total.count), codes]
        if total.ranks:
            parts.append(say(UI.rank, self.lang, n=len(total.ranks), list=figures.ranges(total.ranks)))
        if total.nodes:
            parts.append(say(UI.node, self.lang, n=len(total.nodes), list=visible(figures.names(total.nodes))))
        self._wrapped(" · ".join(parts), first=self._inline(UI.what_it_caused), indent=4)
        if self.verbosity > 0:
            most = 20 if self.verbosity == 1 else len(consequences)
            for finding in consequences[:most]:
                self._brief(finding, indent=4)
            self._hidden(len(consequences) - most, indent=4)

    def _remedies(self, finding: Finding, texts: Words) -> None:
        if not finding.remedies:
            return
        self._label(UI.what_to_do)
        shown = finding.remedies[: self.room.remedies]
        for index, (remedy, said) in enumerate(zip(shown, texts.remedies, strict=False), 1):
            tag = say(DISPOSITION[remedy.disposition], self.lang)
            self._wrapped(
                f"[{tag}] {visible(said.text)}", first=[(f"    {index}. ", "heading")], indent=7, most=self.room.said
            )
            self._change(remedy)
            for label, text in ((UI.expect, said.expect), (UI.verify, said.verify)):
                if text and self.verbosity:
                    self._wrapped(labelled(label, visible(text), self.lang), style="dim", indent=7)
        self._hidden(len(finding.remedies) - len(shown), indent=4)

    def _change(self, remedy: Remedy) -> None:
        change = before_after(remedy)
        if change is not None:
            old, new = change
            line: Line = [("       ", ""), (new[:_CHANGE_CHARS], "change")]
            notes = (
                []
                if old is None
                else [say(UI.changes_was, self.lang, old=cut(visible((remedy.change and remedy.change.old) or ""), 60))]
            )
            if remedy.at:
                notes.append(place(remedy))
            if notes:
                line.append((" " + in_brackets(joined(notes, self.lang), self.lang), "dim"))
            self.lines.append(line)
        if remedy.command:
            for text in visible_block(remedy.command).replace("\t", "    ").split("\n")[:10]:
                self.lines.append([("       ", ""), (f"$ {text[:_CHANGE_CHARS]}", "change")])

    def _brief(self, finding: Finding, heading: str = "", indent: int = 2) -> None:
        """Write one finding in a line or two, and where its proof stands."""
        first: Line = [(f"{heading}  ", "heading")] if heading else [(" " * indent, "")]
        label = f"{ICONS[finding.severity]} {say(SEVERITY[finding.severity], self.lang)}"
        first += [(label, finding.severity), (f" {visible(finding.code)} ", "dim")]
        self._wrapped(visible(words(finding, self.lang).title), first=first, indent=indent + 2)
        where = _first_place(finding)
        if where:
            self.lines.append([(" " * (indent + 2), ""), (where, "path")])
        if finding.suppressed:
            reasons = joined((f"{key}: {value}" for key, value in finding.suppressed.items()), self.lang)
            self._wrapped(visible(reasons), style="dim", indent=indent + 2)
        if heading and finding.remedies:
            self._wrapped(
                labelled(UI.what_to_do, visible(words(finding, self.lang).remedies[0].text), self.lang),
                indent=indent + 2,
                most=min(2, self.room.said or 2),
            )
            self._change(finding.remedies[0])

    def _coverage(self) -> None:
        coverage, lang = self.result.coverage, self.lang
        self._heading(say(UI.coverage, lang))
        parts = [
            say(UI.n_files, lang, n=coverage.files),
            say(UI.n_lines, lang, n=coverage.lines),
            figures.size(coverage.bytes),
        ]
        if coverage.ranks:
            parts.append(say(UI.rank, lang, n=len(coverage.ranks), list=figures.ranges(coverage.ranks)))
            if coverage.ranks_expected:
                of = say(UI.ranks_of, lang, n=len(coverage.ranks), total=coverage.ranks_expected)
                parts[-1] += in_brackets(of, lang)
        when = figures.span(coverage.first_time, coverage.last_time)
        if when:
            parts.append(visible(when))
        self._wrapped(" · ".join(parts), indent=2)
        stack = framework(self.result, lang)
        if stack:
            self._wrapped(stack, indent=2)
        if coverage.ranks_missing:
            missing = say(UI.ranks_missing, lang, list=figures.ranges(coverage.ranks_missing))
            self._warn(f"{say(UI.ranks, lang)} {missing}")
        if not coverage.complete:
            self._warn(say(UI.incomplete, lang))
        self._problems()
        for text, paths in self._unread():
            listed = visible(figures.names(paths, most=self.room.notes))
            self._wrapped(say(text, lang, n=len(paths), list=listed), style="dim", indent=2, most=self.room.remarks)
        if coverage.unparsed:
            self._wrapped(say(UI.n_unparsed, lang, n=coverage.unparsed), style="dim", indent=2)
        for note in clock_notes(coverage, lang)[: self.room.notes]:
            self._wrapped(labelled(UI.clock, visible(note), lang), style="dim", indent=2, most=self.room.remarks)
        self._rules()

    def _problems(self) -> None:
        problems = self.result.coverage.problems
        most = self.room.notes
        for problem in problems[:most]:
            reason = say(REASON[problem.reason], self.lang) if problem.reason in REASON else visible(problem.reason)
            line = f":{problem.line}" if problem.line else ""
            self._warn(f"{visible(problem.path)}{line}: {joined((reason, visible(problem.message)), self.lang)}")
        self._hidden(len(problems) - most, indent=4)

    def _unread(self) -> list[tuple[Text, list[str]]]:
        inputs = self.result.inputs
        told = {problem.path for problem in self.result.coverage.problems}
        groups = (
            (UI.n_not_recognised, [item.path for item in inputs if item.kind == "unknown"]),
            (UI.n_not_read, [item.path for item in inputs if item.kind == "skipped" and item.path not in told]),
            (UI.n_truncated, [item.path for item in inputs if item.truncated and item.path not in told]),
        )
        return [(text, paths) for text, paths in groups if paths]

    def _rules(self) -> None:
        result, lang = self.result, self.lang
        if not (result.passed or result.skipped or result.errors):
            return
        counts = ((UI.rules_passed, result.passed), (UI.rules_skipped, result.skipped), (UI.rules_broke, result.errors))
        summary = joined((say(text, lang, n=len(rules)) for text, rules in counts if rules), lang)
        missing = Counter(table for rule in result.skipped for table in rule.missing)
        if missing:
            tables = visible(figures.names((name for name, _ in missing.most_common()), most=6))
            summary += in_brackets(say(UI.no_data_for, lang, tables=tables), lang)
        self._wrapped(summary, style="dim", indent=2, most=self.room.remarks)
        for failure in result.errors[: self.room.notes]:
            self._warn(f"{visible(failure.code)} {visible(failure.name)}: {visible(failure.message)}")
        if self.verbosity > 1 and result.skipped:
            for rule in result.skipped:
                self._wrapped(
                    f"{visible(rule.code)} {visible(rule.name)}: "
                    + say(UI.no_data_for, lang, tables=visible(", ".join(rule.missing))),
                    style="dim",
                    indent=4,
                )

    # How lines are made

    def _blank(self) -> None:
        self.lines.append([])

    def _heading(self, text: str) -> None:
        self._blank()
        self.lines.append([(text, "heading")])

    def _label(self, text: Text) -> None:
        self.lines.append([(f"  {say(text, self.lang)}", "heading")])

    def _inline(self, text: Text) -> Line:
        return [(f"  {say(text, self.lang)}  ", "heading")]

    def _warn(self, text: str) -> None:
        self._wrapped(text, first=[(f"  {ICONS['warning']} ", "warning")], indent=4, most=self.room.remarks)

    def _hidden(self, count: int, indent: int = 2) -> None:
        if count > 0:
            text = UI.more_verbose if self.verbosity == 0 else UI.more_json
            self.lines.append([(" " * indent, ""), (f"… {say(text, self.lang, n=count)}", "dim")])

    def _wrapped(
        self,
        text: str,
        *,
        style: str = "",
        first: Line | None = None,
        indent: int = 0,
        most: int | None = None,
    ) -> None:
        """Write text behind `first`, later lines indented; at most `most` lines (None: no few), the last one cut."""
        if not text:
            return
        start: Line = first if first is not None else [(" " * indent, "")]
        lead = sum(text_width(part) for part, _ in start)
        most = most or (6 if self.verbosity == 0 else 20)
        text = text[: most * self.width].replace("\t", " ")
        lines = wrap(text, self.width - indent, used=max(0, lead - indent))
        if len(lines) > most:
            # A long path that does not fit is better cut than left out.
            last, room = lines[most - 1], self.width - indent
            whole = text_width(last) * 3 > room * 2
            lines = [*lines[: most - 1], cut(f"{last} …" if whole else f"{last} {lines[most]} …", room)]
        for index, line in enumerate(lines):
            self.lines.append([*(start if index == 0 else [(" " * indent, "")]), (line, style)])


def _joined(line: Line) -> Line:
    """Join neighbouring spans of one style."""
    joined: Line = []
    for text, style in line:
        if joined and joined[-1][1] == style:
            joined[-1] = (joined[-1][0] + text, style)
        else:
            joined.append((text, style))
    return joined


def _most_telling(lines: list[str], highlights: list[str], most: int) -> list[str]:
    """Choose at most `most` lines of a record, those that made the rule match before others, in their order."""
    if len(lines) <= most:
        return lines
    telling = [i for i, line in enumerate(lines) if any(text and text in line for text in highlights)]
    chosen = telling[:most]
    chosen += [i for i in range(len(lines)) if i not in chosen][: most - len(chosen)]
    return [lines[i] for i in sorted(chosen)]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return figures.short_float(value) if isinstance(value, float) else visible(str(value)).replace("\t", " ")


def _padded(text: str, width: int) -> str:
    return text + " " * (width - text_width(text))
