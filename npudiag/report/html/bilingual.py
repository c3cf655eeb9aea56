"""Texts in two languages: the page holds one as text and the other beside it, for the script to exchange.

Holding both in place would cost a third of the page, and a search in the browser would find what is not shown.
Texts of findings stand in the embedded document in both languages, so that the page names their place in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from npudiag.report import figures
from npudiag.report.html.island import packed
from npudiag.report.localise import clock_notes, words
from npudiag.report.safe_text import visible
from npudiag.report.texts import LANGS, UI, Text, say
from npudiag.result import Coverage, Finding

_MAX_TEXT = 2000
_MAX_HEADING = 500
_LONG_WORD = re.compile(r"\S{28,}")


def _headline(text: str) -> Markup:
    out, at = Markup(""), 0
    for word in _LONG_WORD.finditer(text):
        out += escape(text[at : word.start()]) + Markup('<code class="tok">{}</code>').format(word.group())
        at = word.end()
    return out + escape(text[at:])


def shown(text: str, most: int = _MAX_TEXT) -> str:
    """Return a text of the document, harmless and of a length that is read."""
    text = visible(text[: 2 * most])
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of one finding, ready for the template."""

    title: Markup
    summary: Markup
    remedies: list[tuple[Markup, Markup, Markup]]
    collect: list[Markup]
    why_not: Markup
    reasons: list[Markup]
    settle: Markup


class Bilingual:
    """Makes the texts of one page, and keeps those of the other language."""

    def __init__(self, lang: str, findings: Sequence[Finding] = ()) -> None:
        self.zh = lang == "zh"
        self._others: dict[tuple[str, str], int] = {}
        self._index = {id(finding): number for number, finding in enumerate(findings)}

    def pick(self, en: str, zh: str) -> str:
        """Return the text that is shown."""
        return zh if self.zh else en

    def number(self, en: str, zh: str) -> int:
        """Return the number under which the text of the other language is kept."""
        pair = (zh, en) if self.zh else (en, zh)
        return self._others.setdefault(pair, len(self._others))

    def both(self, en: str, zh: str, tag: str = "span") -> Markup:
        """Return a text that the script can exchange for its translation."""
        if en == zh:
            return escape(en)
        return Markup("<{0} data-t={1}>{2}</{0}>").format(Markup(tag), self.number(en, zh), self.pick(en, zh))

    def ui(self, text: Text, **values: object) -> Markup:
        """Return one of the report's own texts."""
        return self.both(say(text, "en", **values), say(text, "zh", **values))

    def drawn(self, text: Text) -> Markup:
        """Return a short text inside a picture."""
        return self.both(text.en, text.zh, "tspan")

    def headline(self, en: str, zh: str) -> Markup:
        """Return a sentence whose long words, such as names of kernels, are set smaller than the rest."""
        out = _headline(self.pick(en, zh))
        return Markup("<span data-t={}>{}</span>").format(self.number(en, zh), out) if en != zh else out

    def title(self, finding: Finding) -> Markup:
        """Return a finding's title as a headline."""
        en, zh = (shown(words(finding, lang).title, _MAX_HEADING) for lang in LANGS)
        return self._placed(finding, "title", en, zh, _headline(self.pick(en, zh)))

    def _placed(self, finding: Finding, place: str, en: str, zh: str, out: Markup | None = None) -> Markup:
        """Return a text of a finding, with its place in the document where the languages differ."""
        out = escape(self.pick(en, zh)) if out is None else out
        if en == zh:
            return out
        return Markup("<span data-f={}.{}>{}</span>").format(self._index[id(finding)], place, out)

    def texts(self, finding: Finding) -> Texts:
        """Return the texts of a finding."""
        en, zh = words(finding, "en"), words(finding, "zh")

        def pair(place: str, left: str, right: str, most: int = _MAX_TEXT) -> Markup:
            return self._placed(finding, place, shown(left, most), shown(right, most))

        return Texts(
            title=pair("title", en.title, zh.title, _MAX_HEADING),
            summary=pair("summary", en.summary, zh.summary),
            remedies=[
                (
                    pair(f"remedies.{i}.text", a.text, b.text),
                    pair(f"remedies.{i}.expect", a.expect, b.expect),
                    pair(f"remedies.{i}.verify", a.verify, b.verify),
                )
                for i, (a, b) in enumerate(zip(en.remedies, zh.remedies, strict=True))
            ],
            collect=[pair(f"collect.{i}", a, b) for i, (a, b) in enumerate(zip(en.collect, zh.collect, strict=True))],
            why_not=pair("runner_up.why_not", en.why_not, zh.why_not),
            reasons=[pair(f"reasons.{i}", a, b) for i, (a, b) in enumerate(zip(en.reasons, zh.reasons, strict=True))],
            settle=pair("settle", en.settle, zh.settle),
        )

    def clocks(self, coverage: Coverage) -> list[Markup]:
        """Return the notes on the clocks behind the time stamps."""
        english, chinese = (clock_notes(coverage, lang) for lang in LANGS)
        return [self.both(shown(en), shown(zh)) for en, zh in zip(english, chinese, strict=True)]

    def chips(self, finding: Finding) -> list[Markup]:
        """Return whom a finding is about and what it cost."""
        scope, impact = finding.scope, finding.impact
        found = [
            self.ui(text, n=len(values), list=figures.ranges(values))
            for text, values in ((UI.rank, scope.ranks), (UI.device, scope.devices))
            if values
        ]
        if scope.nodes:
            found.append(self.ui(UI.node, n=len(scope.nodes), list=shown(figures.names(scope.nodes))))
        if scope.steps:
            found.append(self.ui(UI.step, n=len(scope.steps), list=figures.ranges(scope.steps)))
        if impact.fatal:
            found.append(self.ui(UI.fatal))
        if impact.lost_pct is not None:
            found.append(self.ui(UI.lost_pct, pct=figures.short_float(impact.lost_pct)))
        if impact.lost_ms is not None:
            found.append(self.ui(UI.lost_time, time=figures.seconds(impact.lost_ms / 1000)))
        return found

    def island(self) -> Markup:
        """Return the script element that holds the texts of the other language, a packed JSON list."""
        others = json.dumps([other for _, other in self._others], ensure_ascii=False).encode("utf-8", "replace")
        return Markup('<script type="text/plain" id="words">{}</script>').format(packed(others))
