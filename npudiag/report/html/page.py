"""Renders the page from the template."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from npudiag.report import figures, gate, preflight, readings
from npudiag.report.changes import before_after, merged, place
from npudiag.report.chart_texts import QUANTITY, Page, Say
from npudiag.report.html import charts, draw, views
from npudiag.report.html.bilingual import Bilingual, shown
from npudiag.report.html.island import embed
from npudiag.report.html.policy import content_security_policy
from npudiag.report.html.timeline import distinct, timeline
from npudiag.report.localise import verdict_text
from npudiag.report.safe_text import visible, visible_block, visible_word
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
)
from npudiag.result import Chart, Finding, Result

_MAX_HEADING = 500
_CHARTS = (
    "loss", "breakdown", "npu", "serving", "step_times", "links", "activity", "memory", "pace", "skew", "memory_peaks",
)  # fmt: skip
_MOST_RELATED = 3
_SEEN_IN = {
    "numerics": ("loss",),
    "performance": ("breakdown", "pace", "step_times", "npu", "serving"),
    "device-fault": ("npu",),
    "out-of-memory": ("memory", "memory_peaks"),
    "hccl-timeout": ("activity",),
    "kv-cache": ("serving",),
}
_ANCHOR = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}\Z")


def anchor(finding: Finding) -> str:
    """Return the id of a finding's element."""
    return finding.id if _ANCHOR.match(finding.id) else "x" + finding.id.encode("utf-8", "replace").hex()[:40]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A chart with its words and its table."""

    figure: draw.Figure
    question: Text
    answer: Markup
    twin: readings.Twin
    chart: Chart


def drawn(result: Result, detail: views.Detail, text: Bilingual) -> list[Drawn]:
    """Return the charts that can be drawn, but for the job's, which the timeline shows; those that tell most stay."""
    usable = [(at, chart) for at, chart in enumerate(result.charts) if chart.name != "job"]
    kept = sorted(sorted(usable, key=lambda item: _worth(item[1]))[: detail.charts])
    found = []
    for at, chart in kept:
        figure = draw.figure(at, chart, detail.points)
        if figure is not None:
            told = text.both(readings.answer(chart, "en"), readings.answer(chart, "zh"))
            found.append(Drawn(figure, readings.question(chart), told, readings.twin(chart, detail.chart_rows), chart))
    return found


def related(finding: Finding, charts: Sequence[Drawn]) -> list[Drawn]:
    """Return the charts in which a finding of this category is to be seen."""
    names = _SEEN_IN.get(finding.category, ())
    return [item for item in charts if item.chart.name in names][:_MOST_RELATED]


def _worth(chart: Chart) -> int:
    """Return the place of a chart among those that are shown where there is no room for all; 0 comes first."""
    return _CHARTS.index(chart.name) if chart.name in _CHARTS else len(_CHARTS)


def safe_link(address: str) -> bool:
    """Return whether an address may become a link."""
    return re.match(r"https?://[\w.-]+(/|\Z)", address) is not None and visible(address) == address


def _asset(name: str) -> str:
    return (files("npudiag.report.html") / "templates" / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _small(text: str) -> str:
    """Take comments and indentation out of a style sheet or script of ours."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return "\n".join(line for line in (line.strip() for line in text.splitlines()) if line)


_LITERAL = re.compile(
    r"""("(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|/(?![*/ ])(?:\\.|\[(?:\\.|[^\]])*\]|[^/\n])+/[a-z]*)"""
)
"""Strings and regular expressions of a script; a division has a blank behind it."""


def _small_js(text: str) -> str:
    """Take blanks around signs out of a script of ours; lines stay, and so does what is quoted."""
    parts = _LITERAL.split(_small(text))
    return "".join(
        part if at % 2 else re.sub(r" *([=*/%<>!&|?:;,{}()\[\]]) *", r"\1", part) for at, part in enumerate(parts)
    )


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
        UI=UI,
        SEVERITY=SEVERITY,
        CONFIDENCE=CONFIDENCE,
        DISPOSITION=DISPOSITION,
        REMEDY=REMEDY,
        ROLE=ROLE,
        STATUS=STATUS,
        CATEGORY=CATEGORY,
        REASON=REASON,
        anchor=anchor,
        proof=views.proof,
        before_after=before_after,
        related=related,
        place=place,
        fold=fold,
        by_code=views.by_code,
        ranges=figures.ranges,
        names=figures.names,
        span=figures.span,
        moment=figures.moment,
        seconds=figures.seconds,
        size=figures.size,
        safe_link=safe_link,
        visible_block=visible_block,
        distinct=distinct,
        number=figures.short_float,
        CHART_WIDTH=charts.WIDTH,
        W=draw.WIDTH,
        H=draw.HEIGHT,
        Page=Page,
        Say=Say,
        QUANTITY=QUANTITY,
    )
    environment.filters.update(shown=shown, word=visible_word, n=number)
    return environment


@cache
def _assets() -> tuple[str, str, str]:
    """Return the style sheet, what runs before the first paint, and the page's script."""
    return _small_css(_asset("style.css")), _small_js(_asset("boot.js")), _small_js(_asset("page.js"))


def render(result: Result, *, lang: str = "en") -> str:
    """Return the report as one HTML page.

    It shows as much of each finding as fits the size that its number of ranks allows.

    Args:
        result: The document.
        lang: Language shown at first, ``en`` or ``zh``; the page holds both.
    """
    budget = _budget(result)
    page = ""
    for detail in views.DETAILS:
        page = _page(result, as_lang(lang), detail)
        page += embed(result, room=budget - len(page.encode("utf-8", "replace"))) + "\n</body>\n</html>\n"
        if len(page.encode("utf-8", "replace")) <= budget:
            break
    return page


def _page(result: Result, lang: str, detail: views.Detail) -> str:
    """Return the page up to the embedded document."""
    style, boot, script = _assets()
    story = tell(result)
    top = story.causes[0].finding if story.causes else None
    shown_now = views.shown_findings(story)
    job = next((chart for chart in result.charts if chart.name == "job"), None)
    judged = gate.gate_of(result)
    text = Bilingual(lang, result.findings)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            result=result,
            story=story,
            top=top,
            lang=lang,
            text=text,
            ui=text.ui,
            both=text.both,
            texts=text.texts,
            clocks=text.clocks,
            chips=text.chips,
            long_title=text.title,
            detail=detail,
            cut=detail is not views.DETAILS[0],
            policy=content_security_policy([boot, script], [style]),
            # Our own files.
            style=Markup(style),
            boot=Markup(boot),
            script=Markup(script),
            verdict=text.headline(*(shown(verdict_text(result.verdict, code), _MAX_HEADING) for code in LANGS)),
            title={code: shown(verdict_text(result.verdict, code), 120) for code in LANGS},
            tone=top.severity if top else "ok" if result.verdict.status == "healthy" else "warning",
            changes=(merged(story, "en"), merged(story, "zh")),
            costs=views.costs(story),
            categories=views.categories(story),
            total=len(shown_now),
            gate=judged,
            gate_title=text.ui(gate.STATUS[judged.status]) if judged else "",
            gate_lines=[
                text.both(*pair)
                for pair in zip(
                    *([*gate.reasons(result, code), *gate.notes(result, code)] for code in LANGS), strict=False
                )
            ],
            timeline=timeline(
                result.coverage,
                top.scope.first if top else None,
                job=job,
                found=[(anchor(finding), finding) for finding in shown_now],
            ),
            drawn=drawn(result, detail, text),
            more_charts=max(0, sum(chart.name != "job" for chart in result.charts) - detail.charts),
            rank_cells=views.rank_cells(result, story),
            inputs=views.sorted_inputs(result.inputs),
            facts=views.fact_rows(result.facts, detail.facts),
            preflight=[(row, text.both(*row.told)) for row in preflight.rows(result)],
            skipped_groups=views.skipped_groups(result, names=detail.names),
            passed=views.rule_list(result.passed, names=detail.names),
            command=" ".join(quote(word) for word in result.command),
        )
    )
