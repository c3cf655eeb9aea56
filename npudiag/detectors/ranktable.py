"""Rank tables that HCCL will refuse or that send ranks to the wrong card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from npudiag.analyses import ranktable
from npudiag.engine.hits import Hit
from npudiag.result import Evidence

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_EVIDENCE = 6
_KEYS = {
    "not-ready": '"status"',
    "servers": '"server_count"',
    "empty": '"server_list"',
}
"""What the line begins with that shows a fault of the table itself."""


def wrong(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Find what is wrong with rank tables, other than that they are not ready."""
    return [hit for fault, hit in _faults(store) if fault.kind != "not-ready"]


def not_ready(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Find rank tables that whoever writes them has not finished."""
    return [hit for fault, hit in _faults(store) if fault.kind == "not-ready"]


def _faults(store: Store) -> list[tuple[ranktable.Fault, Hit]]:
    # A job that trained has been served by its table, or did not use this one.
    trained = store.size("train_steps") > 0
    out = []
    for (file, _), table in ranktable.tables(store.rows("rank_table")).items():
        for fault in ranktable.check(table):
            hit = Hit(
                evidence=_evidence(store, file, fault),
                captures={"file": file},
                words={"problem": (fault.en, fault.zh)},
                ranks=list(fault.ranks),
                severity="info" if trained else None,
            )
            out.append((fault, hit))
    return out


def _evidence(store: Store, file: str, fault: ranktable.Fault) -> list[Evidence]:
    quotes = store.quotes.get(file, {})
    lines = [row["line"] for row in fault.rows]
    key = _KEYS.get(fault.kind)
    if key is not None:
        lines = [line for line, text in sorted(quotes.items()) if key in text][:1] or lines
    shown = [line for line in dict.fromkeys(lines) if line in quotes][:_EVIDENCE]
    return [Evidence(kind="log", path=file, line=line, text=quotes[line]) for line in shown]
