"""Makes hits of what an analysis found in a series of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from npudiag.analyses.series import Series, curve, present, quote
from npudiag.engine.hits import Hit
from npudiag.result import Evidence

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_MOST = 4
T = TypeVar("T")


def make(
    store: Store,
    one: Series,
    index: int,
    captures: Mapping[str, Any],
    *,
    shown: Sequence[tuple[int, str]] = (),
    plot: Sequence[str] = ("loss", "grad_norm"),
    marks: Sequence[str] = (),
    severity: str | None = None,
    confidence: str | None = None,
    occurrences: int = 1,
) -> Hit:
    """Return a hit about one row of a series.

    Args:
        store: The tables.
        one: The series.
        index: The decisive row.
        captures: Values for the texts; `step`, `file` and `line` are added.
        shown: Other rows worth a quote, and what they show.
        plot: Columns to draw.
        marks: What to highlight in the decisive line.
        severity: Overrides the rule's.
        confidence: Overrides the rule's.
        occurrences: How often it happened.
    """
    evidence = present(
        quote(store, one, index, marks=marks),
        *(quote(store, one, row, label) for row, label in shown if row != index),
    )
    unique: list[Evidence] = []
    for item in evidence:
        if all((item.path, item.line, item.text) != (other.path, other.line, other.text) for other in unique):
            unique.append(item)
    if not unique:
        unique = [Evidence(kind="rows", path=one.file or None, rows=[_row(one, index)])]
    drawn = curve(one, plot, [index])
    line = one.line[index]
    time = one.time[index]
    return Hit(
        evidence=[*unique, *present(drawn)],
        captures={
            **({"step": one.step(index)} if one.has_steps else {}),
            "file": one.file,
            **({"line": int(line)} if line == line else {}),
            **{name: value for name, value in captures.items() if value is not None and value == value},
        },
        steps=[one.step(index)] if one.has_steps else None,
        first_us=int(time) if time == time else None,
        severity=severity,
        confidence=confidence,
        occurrences=occurrences,
    )


def _row(one: Series, index: int) -> dict[str, Any]:
    row: dict[str, Any] = {"step": one.step(index)} if one.has_steps else {"row": int(one.x[index])}
    for name, values in one.values.items():
        if values[index] == values[index]:
            row[name] = float(values[index])
    return row


def each(series: Iterable[Series], judge: Callable[[Series], T | None], build: Callable[[Series, T], Hit]) -> list[Hit]:
    """Judge every series; the same step in several files (every rank's console holds it) is one hit."""
    hits: list[Hit] = []
    seen: set[Any] = set()
    for one in series:
        found = judge(one)
        if found is None:
            continue
        hit = build(one, found)
        key = tuple(hit.steps or ()) or (one.file, one.run)
        if key in seen:
            continue
        seen.add(key)
        hits.append(hit)
        if len(hits) == _MOST:
            break
    return hits
