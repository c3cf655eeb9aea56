"""What the template shows of evidence, inputs, ranks and facts, cut to a size that is read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from npudiag.report import figures
from npudiag.report.html.charts import FLAGS, Plot, plot
from npudiag.report.safe_text import Segment, segments, split_lines, visible, visible_word
from npudiag.report.shell import show_lines
from npudiag.report.story import Story
from npudiag.result import Evidence, Finding, Input, Result

_CONTEXT = 5
_CELL_CHARS = 160
_MAX_RANK_CELLS = 128


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


def proof(item: Evidence, finding: Finding, *, brief: bool) -> Proof:
    """Prepare a piece of evidence; `brief` for findings that are folded away."""
    most_lines, most_chars = (12, 500) if brief else (40, 1200)
    lines: list[LogLine] = []
    text = split_lines(item.text) if item.text is not None else []
    before, after = item.before[-_CONTEXT:], item.after[:_CONTEXT]
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
    if item.path is not None and start is not None:
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
        table=table(rows, finding.scope.ranks, 8 if brief else 24) if rows else None,
        plot=plot(rows) if item.kind == "series" else None,
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
        if isinstance(value, dict):
            rows += [(f"{cell(name)} · {cell(key)}", _fact(item)) for key, item in value.items()]
        else:
            rows.append((cell(name), _fact(value)))
    return rows[:most]


def _fact(value: object) -> str:
    if isinstance(value, list) and all(isinstance(item, (str, int, float)) for item in value):
        return ", ".join(cell(item) for item in value[:40]) + (" …" if len(value) > 40 else "")
    return cell(value)


def skipped_groups(result: Result) -> list[tuple[str, list[str]]]:
    """Return the rules that could not judge by what they missed, the largest group first."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for rule in result.skipped:
        groups.setdefault(tuple(rule.missing), []).append(f"{visible(rule.code)} {visible(rule.name)}")
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [(visible(", ".join(missing)), rules) for missing, rules in ordered]
