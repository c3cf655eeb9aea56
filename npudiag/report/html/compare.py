"""Renders a comparison as one page: no script, no network, light and dark by the reader's setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from npudiag.comparison.model import Comparison, Loss, Measure, Said, Setting, Side
from npudiag.report import compare_texts as texts
from npudiag.report.figures import short_float
from npudiag.report.html.policy import content_security_policy
from npudiag.report.safe_text import visible
from npudiag.report.texts import SEVERITY, Lang, as_lang, say
from npudiag.report.texts import Text as Words

_MOST_ROWS = 60
_WIDTH, _HEIGHT = 720, 200
_PARTS = ("computing", "communication", "pipeline", "free")
_TITLE = Words("npudiag comparison", "npudiag 对比报告")
_SPLIT = Words("The step, part by part", "单步时间构成")
_COLUMNS = (Words("", ""), Words("A", "A"), Words("B", "B"), Words("change", "变化"), Words("%", "%"))


@dataclass(frozen=True, slots=True)
class Bar:
    """One part of a stacked bar."""

    name: str
    label: str
    x: float
    width: float
    index: int


@dataclass(frozen=True, slots=True)
class Table:
    """Measures of one area."""

    title: str
    rows: Sequence[tuple[tuple[str, ...], texts.Judgement, str]]
    hidden: int


def render(comparison: Comparison, *, lang: str = "en") -> str:
    """Return the comparison as one HTML page in `lang`."""
    language = as_lang(lang)
    style = _style()

    def said(text: Said) -> str:
        return visible(text.zh if language == "zh" else text.en)

    return _environment().get_template("compare.html.j2").render(
        comparison=comparison,
        lang=language,
        policy=content_security_policy([], [style]),
        # Our own file.
        style=Markup(style),
        said=said,
        word=lambda text, **values: say(text, language, **values),
        tone=texts.tone(comparison),
        title=_TITLE,
        columns=_COLUMNS,
        sides=[(letter, side, texts.side_facts(side, language)) for letter, side in _sides(comparison)],
        bars=_bars(comparison.measures, language),
        split=_SPLIT,
        settings=_settings(comparison.settings, language),
        hidden_settings=max(0, len(comparison.settings) - _MOST_ROWS),
        tables=_tables(comparison, language, said),
        plot=_plot(comparison.loss) if comparison.loss is not None else None,
        words=texts,
        severity=SEVERITY,
        number=short_float,
        visible=visible,
        width=_WIDTH,
        height=_HEIGHT,
    ) + "\n"  # fmt: skip


def _sides(comparison: Comparison) -> Sequence[tuple[str, Side]]:
    return (("A", comparison.a), ("B", comparison.b))


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("npudiag.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _style() -> str:
    return (
        (files("npudiag.report.html") / "templates" / "compare.css").read_text(encoding="utf-8").replace("\r\n", "\n")
    )


def _settings(settings: Sequence[Setting], lang: Lang) -> list[tuple[Setting, str, str, str]]:
    return [
        (item, texts.value(item.a, lang), texts.value(item.b, lang), visible(item.at_b or item.at_a))
        for item in settings[:_MOST_ROWS]
    ]


def _tables(comparison: Comparison, lang: Lang, said: Callable[[Said], str]) -> list[Table]:
    found = []
    for area, title in texts.AREAS.items():
        measures = [item for item in comparison.measures if item.area == area]
        if not measures or area == "loss":
            continue
        rows = [
            (texts.row(item, lang), texts.judged(item), said(item.note) if item.note is not None else "")
            for item in measures[:_MOST_ROWS]
        ]
        found.append(Table(say(title, lang), rows, len(measures) - len(rows)))
    return found


def _bars(measures: Sequence[Measure], lang: Lang) -> list[tuple[str, str, list[Bar]]]:
    """Return the stacked bars of A and B: letter, length as text, parts; empty where there are no profiles."""
    parts = {item.name: item for item in measures if item.area == "step"}
    whole = parts.get("step")
    longest = max(whole.a or 0.0, whole.b or 0.0) if whole is not None else 0.0
    if whole is None or longest <= 0:
        return []
    found = []
    for letter in ("A", "B"):
        at, bars = 0.0, []
        for index, name in enumerate(_PARTS):
            part = parts.get(name)
            value = (part.a if letter == "A" else part.b) if part is not None else None
            size = max(value or 0.0, 0.0) / longest * _WIDTH
            if size > 0:
                bars.append(
                    Bar(say(texts.NAMES[name], lang), texts.number(value, "ms"), round(at, 2), round(size, 2), index)
                )
            at += size
        found.append((letter, texts.number(whole.a if letter == "A" else whole.b, "ms"), bars))
    return found


@dataclass(frozen=True, slots=True)
class Plot:
    """Two curves as SVG paths, and where they part."""

    a: str
    b: str
    low: float
    high: float
    first: float
    last: float
    mark: float | None


def _plot(loss: Loss) -> Plot | None:
    points = [point for point in loss.curve if _finite(point.a) and _finite(point.b)]
    if len(points) < 4:
        return None
    low = min(min(point.a, point.b) for point in points)
    high = max(max(point.a, point.b) for point in points)
    first, last = points[0].at, points[-1].at

    def path(values: Sequence[float]) -> str:
        spots = [
            f"{(point.at - first) / ((last - first) or 1) * _WIDTH:.1f},"
            f"{_HEIGHT - (value - low) / ((high - low) or 1) * _HEIGHT:.1f}"
            for point, value in zip(points, values, strict=True)
        ]
        return "M" + "L".join(spots)

    mark = None
    if loss.divergence is not None:
        mark = round((loss.divergence.at - first) / ((last - first) or 1) * _WIDTH, 1)
    return Plot(path([p.a for p in points]), path([p.b for p in points]), low, high, first, last, mark)


def _finite(value: float) -> bool:
    return value == value and abs(value) != float("inf")
