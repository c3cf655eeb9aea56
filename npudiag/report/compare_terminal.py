"""A comparison on one screen of a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from npudiag.comparison.model import Comparison, Measure, Said, Setting
from npudiag.report import compare_texts as texts
from npudiag.report.safe_text import visible
from npudiag.report.terminal import ICONS, MAX_WIDTH, MIN_WIDTH, Line
from npudiag.report.texts import SEVERITY, as_lang, say
from npudiag.report.wrap import cut, text_width, wrap

_FEW = {"settings": 6, "kernel": 4, "communication": 3, "memory": 3, "findings": 5, "notes": 3, "speed": 4}
"""Rows of a part on one screen."""
_MANY = 60


def render(comparison: Comparison, *, lang: str, width: int, verbosity: int) -> list[Line]:
    """Return the comparison as lines of styled spans.

    Args:
        comparison: The document.
        lang: ``en`` or ``zh``.
        width: Columns of the terminal.
        verbosity: -1 for one line, 0 for one screen, more for all rows.
    """
    page = _Page(comparison, as_lang(lang), max(MIN_WIDTH, min(width, MAX_WIDTH)), verbosity)
    if verbosity < 0:
        return [[(page.icon(), page.tone()), (f" {page.said(comparison.headline)}", "strong")]]
    page.write()
    return page.lines


class _Page:
    """Writes one comparison."""

    def __init__(self, comparison: Comparison, lang: str, width: int, verbosity: int) -> None:
        self.comparison = comparison
        self.lang = lang
        self.width = width
        self.verbosity = verbosity
        self.lines: list[Line] = []

    def said(self, text: Said) -> str:
        """Return a text of the document in the page's language."""
        return visible(text.zh if self.lang == "zh" else text.en)

    def tone(self) -> str:
        """Return the style of the answer."""
        return texts.TONES[texts.tone(self.comparison)]

    def icon(self) -> str:
        """Return the icon of the answer."""
        return ICONS[self.tone()]

    def write(self) -> None:
        """Write all of it."""
        comparison = self.comparison
        self._wrapped(
            self.said(comparison.headline), first=[(f"{self.icon()} ", self.tone())], style="strong", indent=2
        )
        for letter, side in (("A", comparison.a), ("B", comparison.b)):
            facts = [visible(side.name), *texts.side_facts(side, self.lang)]
            self._wrapped(" · ".join(facts), first=[(f"  {letter}  ", "heading")], indent=5, style="dim")
        self._causes()
        self._settings(comparison.settings)
        for area in ("speed", "step", "kernel", "communication", "memory"):
            self._measures(area, [item for item in comparison.measures if item.area == area])
        if comparison.loss is not None:
            self._heading(say(texts.LOSS, self.lang))
            self._wrapped(self.said(comparison.loss.text), indent=2)
        self._findings()
        self._notes()
        self._gate()

    def _causes(self) -> None:
        causes = self.comparison.causes
        if not causes:
            return
        self._heading(say(texts.WHERE, self.lang))
        for cause in causes:
            share = f"{cause.share_pct:.0f} %" if cause.share_pct is not None and cause.share_pct > 0 else ""
            first: Line = [(f"  {texts.milliseconds(cause.ms):>10}  {share:>5}  ", "heading")]
            self._wrapped(self.said(cause.text), first=first, indent=21)

    def _settings(self, settings: Sequence[Setting]) -> None:
        shown = [item for item in settings if self.verbosity or not item.incidental]
        if not settings:
            return
        self._heading(say(texts.SETTINGS, self.lang))
        most = _MANY if self.verbosity else _FEW["settings"]
        for item in shown[:most]:
            place = item.at_b or item.at_a
            line: Line = [("  ", ""), (visible(item.name), "strong")]
            room = max(16, (self.width - text_width(item.name) - 8) // 2)
            a, b = (cut(texts.value(value, self.lang), room) for value in (item.a, item.b))
            line.append((f"  {a} → {b}", ""))
            if place and sum(text_width(text) for text, _ in line) + text_width(place) + 4 <= self.width:
                line.append((f"  ({visible(place)})", "dim"))
            self.lines.append(line)
        self._hidden(len(settings) - len(shown[:most]))

    def _measures(self, area: str, measures: Sequence[Measure]) -> None:
        if not measures:
            return
        most = _MANY if self.verbosity else _FEW.get(area, 8)
        shown = [item for item in measures if self.verbosity or texts.changed(item) or area in ("step", "speed")]
        if not shown:
            return
        self._heading(say(texts.AREAS[area], self.lang))
        rows = [texts.row(item, self.lang) for item in shown[:most]]
        widths = [max(text_width(row[column]) for row in rows) for column in range(5)]
        widths[0] = min(widths[0], max(8, self.width - sum(widths[1:]) - 12))
        for item, row in zip(shown, rows, strict=False):
            name, *numbers = [visible(cell) for cell in row]
            line: Line = [("  ", ""), (_left(cut(name, widths[0]), widths[0]), "")]
            line += [(f"  {_right(cell, size)}", "") for cell, size in zip(numbers[:3], widths[1:4], strict=True)]
            style = {"worse": "warning", "better": "ok"}.get(texts.judged(item), "dim")
            line.append((f"  {_right(numbers[3], widths[4])} {texts.MARKS[texts.judged(item)]}", style))
            note = self.said(item.note) if item.note is not None else ""
            if note and sum(text_width(text) for text, _ in line) + text_width(note) + 2 <= self.width:
                line.append((f"  {note}", "dim"))
            self.lines.append(line)
        self._hidden(len(shown) - len(rows))

    def _findings(self) -> None:
        findings = self.comparison.findings
        if not findings:
            return
        self._heading(say(texts.FINDINGS, self.lang))
        most = _MANY if self.verbosity else _FEW["findings"]
        for item in findings[:most]:
            label = f"{ICONS[item.severity]} {say(SEVERITY[item.severity], self.lang)}"
            state = say(texts.STATES[item.state], self.lang)
            first: Line = [
                ("  ", ""),
                (f"{state} ", "strong"),
                (label, item.severity),
                (f" {visible(item.code)} ", "dim"),
            ]
            self._wrapped(self.said(item.title), first=first, indent=4, most=None if self.verbosity else 2)
            if item.at and self.verbosity:
                self.lines.append([("    ", ""), (visible(item.at), "path")])
        self._hidden(len(findings) - len(findings[:most]))

    def _notes(self) -> None:
        comparison = self.comparison
        sides = (("A", comparison.a), ("B", comparison.b))
        untold = [text for letter, side in sides if (text := texts.untold(letter, side, self.lang))]
        notes = [self.said(note) for note in comparison.notes]
        if not (untold or notes):
            return
        self._heading(say(texts.NOTES, self.lang))
        for note in notes[: None if self.verbosity else _FEW["notes"]]:
            self._wrapped(note, indent=2, style="dim")
        for text in untold:
            self._wrapped(text, indent=2, style="dim")

    def _gate(self) -> None:
        gate = self.comparison.gate
        if gate is None:
            return
        self.lines.append([])
        head = say(texts.GATE[gate.status], self.lang)
        reasons = texts.semicolon(self.lang).join(self.said(text) for text in gate.reasons)
        colon = "：" if self.lang == "zh" else ": "
        self._wrapped(f"{head}{colon}{reasons}" if reasons else head, indent=2, first=[("", "")], style="strong")

    def _heading(self, text: str) -> None:
        self.lines += [[], [(text, "heading")]]

    def _hidden(self, count: int) -> None:
        if count > 0:
            self.lines.append(
                [("  ", ""), (say(texts.MORE if self.verbosity == 0 else texts.MORE_JSON, self.lang, n=count), "dim")]
            )

    def _wrapped(
        self, text: str, *, indent: int, first: Line | None = None, style: str = "", most: int | None = None
    ) -> None:
        start: Line = first if first is not None else [(" " * indent, "")]
        used = max(0, sum(text_width(part) for part, _ in start) - indent)
        lines = wrap(text, self.width - indent, used=used)
        if most is not None and len(lines) > most:
            lines = [*lines[: most - 1], cut(f"{lines[most - 1]} …", self.width - indent)]
        for number, line in enumerate(lines):
            self.lines.append([*(start if number == 0 else [(" " * indent, "")]), (line, style)])


def plain(lines: Iterable[Line]) -> str:
    """Return lines as text without styles."""
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines)


def _left(text: str, width: int) -> str:
    return text + " " * (width - text_width(text))


def _right(text: str, width: int) -> str:
    return " " * (width - text_width(text)) + text
