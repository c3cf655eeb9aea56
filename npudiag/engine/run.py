"""Runs every rule over the store and says what came of each."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from npudiag.engine import signature
from npudiag.engine.hits import CannotJudge, Hit
from npudiag.engine.model import Rule
from npudiag.engine.signature import Corpus, LiteralTable
from npudiag.result import Evidence, Passed, RuleFailure, Skipped

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_MOST_HITS = 4096
_COSTS = frozenset(("performance", "numerics", "insufficient-evidence"))
"""Categories whose warnings explain no failure."""
_ABOUT = ("severity", "confidence", "lost_pct", "lost_ms", "basis")
"""Columns of a query that are about the finding: they override the rule's, or weigh its impact."""


@dataclass(slots=True)
class Outcome:
    """What all rules said.

    Attributes:
        hits: Rule and hit, in order of the rules.
        passed: Rules that looked and found nothing.
        skipped: Rules whose tables are empty.
        errors: Rules that broke; the others ran all the same.
        seconds: Time by rule code, for those that took more than a millisecond.
    """

    hits: list[tuple[Rule, Hit]] = field(default_factory=list)
    passed: list[Passed] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    errors: list[RuleFailure] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


def run(
    rules: Sequence[Rule],
    store: Store,
    table: LiteralTable,
    params: Mapping[str, Mapping[str, Any]] | None = None,
) -> Outcome:
    """Run `rules` over `store`.

    Args:
        rules: The rules.
        store: Filled tables.
        table: The literals the records were scanned for.
        params: Parameters by rule name that replace the rule's own.
    """
    outcome = Outcome()
    corpus = Corpus(store.log, table)
    for rule in sorted(rules, key=lambda rule: rule.fallback):
        missing = [name for name in rule.needs if store.empty(name)]
        if missing:
            outcome.skipped.append(Skipped(code=rule.code, name=rule.name, category=rule.category, missing=missing))
            continue
        if rule.fallback and any(_explains(*hit) for hit in outcome.hits):
            outcome.passed.append(Passed(code=rule.code, name=rule.name, category=rule.category))
            continue
        values = {**rule.params, **(params or {}).get(rule.name, {})}
        begin = time.perf_counter()
        try:
            hits = _detect(rule, store, corpus, values)
        except CannotJudge as exc:
            skipped = Skipped(code=rule.code, name=rule.name, category=rule.category, missing=exc.missing)
            outcome.skipped.append(skipped)
            continue
        except Exception as exc:
            message = f"{type(exc).__name__}: {exc}"[:500]
            outcome.errors.append(RuleFailure(code=rule.code, name=rule.name, category=rule.category, message=message))
            continue
        took = time.perf_counter() - begin
        if took > 0.001:
            outcome.seconds[rule.code] = round(took, 4)
        if hits:
            outcome.hits.extend((rule, hit) for hit in hits[:_MOST_HITS])
        else:
            outcome.passed.append(Passed(code=rule.code, name=rule.name, category=rule.category))
    return outcome


def _explains(rule: Rule, hit: Hit) -> bool:
    """Whether a hit says what failed, so that nothing has to be guessed."""
    if rule.trust == "envelope":
        return False
    severity = hit.severity or rule.severity
    if severity == "warning":
        return "log" in rule.needs and rule.category not in _COSTS
    return severity in ("error", "critical")


def _detect(rule: Rule, store: Store, corpus: Corpus, params: Mapping[str, Any]) -> list[Hit]:
    if rule.signatures:
        return signature.run(rule, corpus)
    if rule.query is not None:
        return _query(rule.query, store, params)
    if rule.python is not None:
        module, _, name = rule.python.partition(":")
        hits: list[Hit] = getattr(import_module(module), name)(store, params)
        return hits
    return []


def _query(sql: str, store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Run a query rule: one row is one finding, its columns are the captures."""
    used = {name: value for name, value in params.items() if f"${name}" in sql}
    frame = store.query(sql, used)
    hits = []
    for row in frame.to_dict("records"):
        values = {str(name): _python(value) for name, value in row.items() if name != "ranks"}
        about = {name: values.pop(name, None) for name in _ABOUT}
        ranks = _numbers(row.get("ranks")) if "ranks" in row else None
        evidence = Evidence(
            kind="rows",
            path=_text(values.get("file")),
            line=_whole(values.get("line")),
            text=_text(values.get("text")),
            value=values.get("value"),
            rows=[{name: value for name, value in values.items() if name not in ("file", "line", "text")}],
        )
        hits.append(
            Hit(
                evidence=[evidence],
                captures={name: value for name, value in {**values, **about}.items() if value is not None},
                severity=_text(about["severity"]),
                confidence=_text(about["confidence"]),
                lost_pct=about["lost_pct"],
                lost_ms=about["lost_ms"],
                basis=_text(about["basis"]) or "",
                ranks=ranks if ranks is not None else _one(values.get("rank"), int),
                devices=_one(values.get("device"), int),
                nodes=_one(values.get("node"), str),
                steps=_one(values.get("step"), int),
            )
        )
    return hits


def _numbers(value: Any) -> list[int]:
    """Return a list column as whole numbers: whom a finding about several ranks is about."""
    try:
        return sorted({int(item) for item in value if item is not None and item == item})
    except (TypeError, ValueError):
        return []


def _python(value: Any) -> Any:
    """Return a NumPy or pandas value as what JSON knows, missing values as None."""
    if value is None or value != value:
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "item"):
        return value.item()
    return value if isinstance(value, (str, int, float, bool)) else str(value)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) else None


def _one(value: Any, kind: type) -> list[Any] | None:
    return None if value is None else [kind(value)]
