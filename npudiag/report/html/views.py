"""What the template shows of evidence, inputs, ranks and facts, cut to a size that is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from npudiag.report import figures
from npudiag.report.html.charts import FLAGS, Plot, plot
from npudiag.report.safe_text import Segment, segments, split_lines, visible, visible_word
from npudiag.report.shell import show_lines
from npudiag.report.story import Story, severity_rank
from npudiag.result import Evidence, Finding, Input, Passed, Result, Skipped

_CONTEXT = 5
_CELL_CHARS = 160
_MAX_RANK_CELLS = 128
_NUMBER = re.compile(r"\d+")
_CODE = re.compile(r"([A-Z]{3})(\d{3})\Z")


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of the document is shown; pages of large jobs show less of each finding.

    Attributes:
        proofs: Pieces of evidence shown of a root cause, then in its fold.
        brief_proofs: The same for findings that are folded away.
        lines: Lines and characters per line of a root cause's evidence.
        brief_lines: The same for others.
        context: Lines around a folded finding's evidence.
        rows: Rows of a table, in a root cause and in others.
        whole: Findings of one code that are shown whole; others take a line each.
        in_line: Findings of one code in all.
        chart_rows: Rows of a chart's table.
        inputs: Input files listed.
        names: Whether rules that looked, or could not, are listed by name and not by code alone.
        commands: Whether folded findings show the command that prints their evidence.
        short_remedies: Whether remedies of folded findings stand without what they are expected to do.
        plots: Whether series that prove a folded finding are drawn.
        points: Points of a curve.
        facts: Facts about the job.
        charts: Charts beside the timeline.
    """

    proofs: tuple[int, int] = (3, 12)
    brief_proofs: tuple[int, int] = (2, 4)
    lines: tuple[int, int] = (40, 1200)
    brief_lines: tuple[int, int] = (12, 500)
    context: int = 5
    rows: tuple[int, int] = (24, 8)
    whole: int = 12
    in_line: int = 400
    chart_rows: int = 24
    inputs: int = 100
    names: bool = True
    commands: bool = True
    short_remedies: bool = False
    plots: bool = True
    points: int = 1000
    facts: int = 60
    charts: int = 24


DETAILS = (
    Detail(),
    Detail(
        proofs=(3, 6), brief_proofs=(1, 2), brief_lines=(6, 360), context=2, whole=6, chart_rows=20, inputs=60,
        names=False,
    ),
    Detail(
        proofs=(2, 3), brief_proofs=(1, 1), lines=(20, 600), brief_lines=(4, 240), context=1, rows=(12, 5), whole=4,
        in_line=200, chart_rows=12, inputs=30, names=False, short_remedies=True, points=160,
    ),
    Detail(
        proofs=(2, 2), brief_proofs=(1, 0), lines=(14, 500), brief_lines=(3, 200), context=0, rows=(10, 4), whole=3,
        in_line=150, chart_rows=8, inputs=20, names=False, commands=False, short_remedies=True, plots=False,
        points=110, facts=30, charts=8,
    ),
    Detail(
        proofs=(2, 0), brief_proofs=(1, 0), lines=(8, 400), brief_lines=(2, 160), context=0, rows=(6, 3), whole=1,
        in_line=100, chart_rows=4, inputs=8, names=False, commands=False, short_remedies=True, plots=False,
        points=70, facts=16, charts=5,
    ),
    Detail(
        proofs=(2, 0), brief_proofs=(1, 0), lines=(8, 400), brief_lines=(2, 160), context=0, rows=(6, 3), whole=0,
        in_line=100, chart_rows=4, inputs=8, names=False, commands=False, short_remedies=True, plots=False,
        points=60, facts=12, charts=2,
    ),
    Detail(
        proofs=(1, 0), brief_proofs=(1, 0), lines=(6, 300), brief_lines=(2, 160), context=0, rows=(4, 2), whole=0,
        in_line=60, chart_rows=3, inputs=4, names=False, commands=False, short_remedies=True, plots=False,
        points=50, facts=6, charts=1,
    ),
)  # fmt: skip
"""From all that is worth reading to the least, for documents that would not fit otherwise."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of an excerpt."""

    number: int | None
    runs: list[Segment]
    hit: bool
    """Whether the line is evidence rather than context."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows as text."""

    columns: list[str]
    numeric: list[bool]
    rows: list[tuple[bool, list[str]]]
    """Whether the row is about the culprit, and its cells."""
    more: int


@dataclass(frozen=True, slots=True)
class Proof:
    """One piece of evidence."""

    where: str
    command: str | None
    label: str
    value: str
    count: int | None
    lines: list[LogLine]
    more_lines: int
    wide: bool
    """Whether the line numbers need much room."""
    table: Table | None
    plot: Plot | None


def proof(item: Evidence, finding: Finding, detail: Detail, *, brief: bool) -> Proof:
    """Prepare a piece of evidence; `brief` for findings that are folded away."""
    most_lines, most_chars = detail.brief_lines if brief else detail.lines
    around = detail.context if brief else _CONTEXT
    lines: list[LogLine] = []
    text = split_lines(item.text) if item.text is not None else []
    before, after = item.before[max(0, len(item.before) - around) :], item.after[:around]
    start = item.line
    if text:
        for offset, line in enumerate(before, -len(before)):
            lines.append(_log_line(start, offset, line, [], most_chars // 2))
        for offset, line in enumerate(text[:most_lines]):
            lines.append(_log_line(start, offset, line, item.highlights, most_chars, hit=True))
        if len(text) <= most_lines:
            for offset, line in enumerate(after, len(text)):
                lines.append(_log_line(start, offset, line, [], most_chars // 2))
    command = None
    if item.path is not None and start is not None and (detail.commands or not brief):
        command = show_lines(item.path, start - _CONTEXT, start + max(len(text), 1) - 1 + _CONTEXT)
    rows = item.rows or []
    return Proof(
        where=_where(item),
        command=command,
        label=visible(item.label)[:400],
        value="" if item.value is None else cell(item.value)[:400],
        count=item.count if item.count and item.count > 1 else None,
        lines=lines,
        more_lines=max(0, len(text) - most_lines),
        wide=any(line.number is not None and line.number >= 100_000 for line in lines),
        table=table(rows, finding.scope.ranks, detail.rows[brief]) if rows else None,
        plot=plot(rows) if item.kind == "series" and (detail.plots or not brief) else None,
    )


def _where(item: Evidence) -> str:
    if item.path is None:
        return ""
    return f"{visible_word(item.path)}:{item.line}" if item.line is not None else visible_word(item.path)


def _log_line(
    start: int | None, offset: int, text: str, highlights: list[str], limit: int, *, hit: bool = False
) -> LogLine:
    number = None if start is None or start + offset < 1 else start + offset
    return LogLine(number, segments(text, highlights, limit=limit), hit)


def cell(value: object) -> str:
    """Return a value of a table as text."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return figures.short_float(value)
    if isinstance(value, (dict, list)):
        value = json.dumps(value, ensure_ascii=False, default=str)
    text = visible(str(value)[: 4 * _CELL_CHARS])
    return text if len(text) <= _CELL_CHARS else text[: _CELL_CHARS - 1] + "…"


def table(rows: list[dict[str, Any]], culprits: Iterable[int], most: int) -> Table:
    """Prepare rows as a table of at most `most` rows, those about `culprits` kept."""
    columns = list(dict.fromkeys(name for row in rows[:50] for name in row))[:10]
    wanted = set(culprits)
    told = [row.get("rank") in wanted for row in rows]
    if all(told):
        told = [False] * len(rows)
    told = [hit or any(row.get(flag) is True for flag in FLAGS) for hit, row in zip(told, rows, strict=True)]
    chosen = [i for i, hit in enumerate(told) if hit][:most]
    chosen += [i for i in range(len(rows)) if not told[i]][: most - len(chosen)]
    return Table(
        columns=[cell(name) for name in columns],
        numeric=[all(_numeric(row.get(name)) for row in rows) for name in columns],
        rows=[(told[i], [cell(rows[i].get(name)) for name in columns]) for i in sorted(chosen)],
        more=len(rows) - len(chosen),
    )


def _numeric(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def by_code(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Group findings by code, in the order in which the codes come first."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.code, []).append(finding)
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class Cost:
    """What a finding costs."""

    finding: Finding
    pct: float | None
    ms: float | None


def costs(story: Story, most: int = 20) -> list[Cost]:
    """Return what costs time, by the part of the time lost, then by the time itself."""
    every = [cause.finding for cause in story.causes] + story.contributing + story.others + story.notes
    found = [
        Cost(finding, finding.impact.lost_pct, finding.impact.lost_ms)
        for finding in every
        if (finding.impact.lost_pct or 0) > 0 or (finding.impact.lost_ms or 0) > 0
    ]
    found.sort(key=lambda cost: (-(cost.pct or 0.0), -(cost.ms or 0.0), -severity_rank(cost.finding)))
    return found[:most]


def categories(story: Story) -> list[str]:
    """Return the categories of the findings shown, in alphabetical order."""
    return sorted({finding.category for finding in shown_findings(story)})


def shown_findings(story: Story) -> list[Finding]:
    """Return every finding in the order of the page."""
    found: list[Finding] = []
    for cause in story.causes:
        found += [cause.finding, *cause.consequences]
    return found + story.contributing + story.others + story.notes + story.suppressed


def sorted_inputs(inputs: list[Input]) -> list[Input]:
    """Return inputs with those that were not or not wholly read first."""
    return sorted(inputs, key=lambda item: (item.kind not in ("unknown", "skipped"), not item.truncated, not item.note))


def rank_cells(result: Result, story: Story) -> list[tuple[int, str]]:
    """Return each rank and its state (``culprit``, ``affected``, ``present`` or ``missing``); empty where too many."""
    coverage = result.coverage
    culprits = {rank for cause in story.causes for rank in cause.finding.scope.ranks}
    affected = {rank for cause in story.causes for item in cause.consequences for rank in item.scope.ranks}
    known = sorted({*coverage.ranks, *coverage.ranks_missing})
    if not known or len(known) > _MAX_RANK_CELLS:
        return []
    if culprits >= set(known):
        culprits = set()
    missing = set(coverage.ranks_missing)
    return [
        (
            rank,
            "culprit"
            if rank in culprits
            else "missing"
            if rank in missing
            else "affected"
            if rank in affected
            else "present",
        )
        for rank in known
    ]


def fact_rows(facts: dict[str, Any], most: int = 60) -> list[tuple[str, str]]:
    """Flatten the facts of a result into names and texts."""
    rows: list[tuple[str, str]] = []
    for name, value in facts.items():
        if name == "preflight":
            # Told as a table of checks.
            continue
        if isinstance(value, dict):
            rows += [(f"{cell(name)} · {cell(key)}", _fact(item)) for key, item in value.items()]
        else:
            rows.append((cell(name), _fact(value)))
    return rows[:most]


def _fact(value: object) -> str:
    if isinstance(value, list) and all(isinstance(item, (str, int, float)) for item in value):
        return ", ".join(cell(item) for item in value[:40]) + (" …" if len(value) > 40 else "")
    return cell(value)


def skipped_groups(result: Result, *, names: bool) -> list[tuple[str, str, int]]:
    """Return what rules missed, those rules, and how many they are, the largest group first."""
    groups: dict[tuple[str, ...], list[Skipped]] = {}
    for rule in result.skipped:
        groups.setdefault(tuple(rule.missing), []).append(rule)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [(visible(", ".join(missing)), rule_list(rules, names=names), len(rules)) for missing, rules in ordered]


def rule_list(rules: Sequence[Passed | Skipped], *, names: bool, most: int = 800) -> str:
    """Return rules as text: a line each, or codes that follow each other as ``AIC001-018``."""
    if names:
        return "\n".join(visible(f"{rule.code} {rule.name}"[:120]) for rule in rules[:most])
    areas: dict[str, list[int]] = {}
    others = []
    for rule in rules[:most]:
        match = _CODE.match(rule.code)
        if match:
            areas.setdefault(match[1], []).append(int(match[2]))
        else:
            others.append(visible(rule.code[:40]))
    runs = [
        area + _NUMBER.sub(lambda match: match.group().zfill(3), run.strip())
        for area, numbers in areas.items()
        for run in figures.ranges(numbers, most=len(numbers)).split(",")
    ]
    return "\n".join(runs + others)
