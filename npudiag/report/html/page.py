"""Renders the page from the template."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from npudiag.report import figures
from npudiag.report.changes import before_after, merged, place
from npudiag.report.html import charts, views
from npudiag.report.html.island import embed
from npudiag.report.html.policy import content_security_policy
from npudiag.report.localise import verdict_text, words
from npudiag.report.safe_text import visible, visible_block
from npudiag.report.shell import quote
from npudiag.report.story import fold, tell
from npudiag.report.texts import (
    CATEGORY,
    CONFIDENCE,
    DISPOSITION,
    LANGS,
    REASON,
    REMEDY,
    ROLE,
    SEVERITY,
    STATUS,
    UI,
    Text,
    as_lang,
    number,
    say,
)
from npudiag.result import Finding, Result

_MAX_TEXT = 2000
_MAX_HEADING = 500
_ANCHOR = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}\Z")


def both(en: str, zh: str) -> Markup:
    """Return a text in both languages, of which the style sheet shows one."""
    if en == zh:
        return escape(en)
    return Markup('<span lang="en">{}</span><span lang="zh">{}</span>').format(en, zh)


def ui(text: Text, **values: object) -> Markup:
    """Return one of the report's own texts in both languages."""
    return both(say(text, "en", **values), say(text, "zh", **values))


def shown(text: str, most: int = _MAX_TEXT) -> str:
    """Return a text of the document, harmless and of a length that is read."""
    text = visible(text[: 2 * most])
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of one finding in both languages, ready for the template."""

    title: Markup
    summary: Markup
    remedies: list[tuple[Markup, Markup, Markup]]
    collect: list[Markup]
    why_not: Markup


def texts(finding: Finding) -> Texts:
    """Return the texts of a finding in both languages."""
    en, zh = words(finding, "en"), words(finding, "zh")

    def pair(left: str, right: str, most: int = _MAX_TEXT) -> Markup:
        return both(shown(left, most), shown(right, most))

    return Texts(
        title=pair(en.title, zh.title, _MAX_HEADING),
        summary=pair(en.summary, zh.summary),
        remedies=[
            (pair(a.text, b.text), pair(a.expect, b.expect), pair(a.verify, b.verify))
            for a, b in zip(en.remedies, zh.remedies, strict=True)
        ],
        collect=[pair(a, b) for a, b in zip(en.collect, zh.collect, strict=True)],
        why_not=pair(en.why_not, zh.why_not),
    )


def anchor(finding: Finding) -> str:
    """Return the id of a finding's element."""
    return finding.id if _ANCHOR.match(finding.id) else "x" + finding.id.encode("utf-8", "replace").hex()[:40]


def chips(finding: Finding) -> list[Markup]:
    """Return whom a finding is about and what it cost."""
    scope, impact = finding.scope, finding.impact
    found = [
        ui(text, n=len(values), list=figures.ranges(values))
        for text, values in ((UI.rank, scope.ranks), (UI.device, scope.devices))
        if values
    ]
    if scope.nodes:
        found.append(ui(UI.node, n=len(scope.nodes), list=shown(figures.names(scope.nodes))))
    if scope.steps:
        found.append(ui(UI.step, n=len(scope.steps), list=figures.ranges(scope.steps)))
    if impact.fatal:
        found.append(ui(UI.fatal))
    if impact.lost_pct is not None:
        found.append(ui(UI.lost_pct, pct=figures.short_float(impact.lost_pct)))
    if impact.lost_ms is not None:
        found.append(ui(UI.lost_time, time=figures.seconds(impact.lost_ms / 1000)))
    return found


def safe_link(address: str) -> bool:
    """Return whether an address may become a link."""
    return re.match(r"https?://[\w.-]+(/|\Z)", address) is not None and visible(address) == address


def _asset(name: str) -> str:
    return (files("npudiag.report.html") / "templates" / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _small(text: str) -> str:
    """Take comments and indentation out of a style sheet or script of ours."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return "\n".join(line for line in (line.strip() for line in text.splitlines()) if line)


def _small_css(text: str) -> str:
    return re.sub(r"\s*([{};,>])\s*|(?<=:)\s+|\n", r"\1", _small(text)).replace(";}", "}")


def _budget(result: Result) -> int:
    """Return how large the page may be, in bytes."""
    coverage = result.coverage
    ranks = max(len(coverage.ranks) + len(coverage.ranks_missing), coverage.ranks_expected or 0)
    return 150_000 if ranks <= 8 else 500_000 if ranks <= 64 else 2_000_000


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("npudiag.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        ui=ui,
        UI=UI,
        SEVERITY=SEVERITY,
        CONFIDENCE=CONFIDENCE,
        DISPOSITION=DISPOSITION,
        REMEDY=REMEDY,
        ROLE=ROLE,
        STATUS=STATUS,
        CATEGORY=CATEGORY,
        REASON=REASON,
        texts=texts,
        chips=chips,
        anchor=anchor,
        proof=views.proof,
        before_after=before_after,
        place=place,
        fold=fold,
        by_code=views.by_code,
        ranges=figures.ranges,
        names=figures.names,
        span=figures.span,
        moment=figures.moment,
        seconds=figures.seconds,
        size=figures.size,
        both=both,
        safe_link=safe_link,
        visible_block=visible_block,
        LANE=charts.LANE,
        CHART_WIDTH=charts.WIDTH,
    )
    environment.filters.update(shown=shown, n=number)
    return environment


@cache
def _assets() -> tuple[str, str, str]:
    return _small_css(_asset("style.css")), _small(_asset("boot.js")), _small(_asset("page.js"))


def render(result: Result, *, lang: str = "en") -> str:
    """Return the report as one HTML page.

    Args:
        result: The document.
        lang: Language shown at first, ``en`` or ``zh``; the page holds both.
    """
    style, boot, script = _assets()
    story = tell(result)
    top = story.causes[0].finding if story.causes else None
    changes = (merged(story, "en"), merged(story, "zh"))
    page = (
        _environment()
        .get_template("page.html.j2")
        .render(
            result=result,
            story=story,
            top=top,
            lang=as_lang(lang),
            policy=content_security_policy([boot, script], [style]),
            # Our own files.
            style=Markup(style),
            boot=Markup(boot),
            script=Markup(script),
            verdict=both(*(shown(verdict_text(result.verdict, code), _MAX_HEADING) for code in LANGS)),
            title={code: shown(verdict_text(result.verdict, code), 120) for code in LANGS},
            tone=top.severity if top else "ok" if result.verdict.status == "healthy" else "warning",
            changes=changes,
            timeline=charts.timeline(result.coverage, top.scope.first if top else None),
            rank_cells=views.rank_cells(result, story),
            inputs=views.sorted_inputs(result.inputs),
            facts=views.fact_rows(result.facts),
            skipped_groups=views.skipped_groups(result),
            command=" ".join(quote(word) for word in result.command),
        )
    )
    return page + embed(result, room=_budget(result) - len(page.encode("utf-8", "replace"))) + "\n</body>\n</html>\n"
