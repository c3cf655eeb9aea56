"""Detectors on the statistics of serving engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npudiag.analyses import serving as judge
from npudiag.analyses.serving import Engine
from npudiag.engine.hits import Hit
from npudiag.result import Evidence

if TYPE_CHECKING:
    from npudiag.tables.store import Store


def _hit(
    store: Store,
    one: Engine,
    index: int,
    captures: Mapping[str, Any],
    plot: Sequence[str],
    severity: str | None = None,
    also: Sequence[int] = (),
) -> Hit:
    evidence = []
    for row in (index, *also):
        line = one.line[row]
        text = store.quotes.get(one.file, {}).get(int(line)) if line == line else None
        if text is not None:
            evidence.append(Evidence(kind="log", path=one.file, line=int(line), text=text))
    if not evidence:
        row_ = {name: float(values[index]) for name, values in one.values.items() if np.isfinite(values[index])}
        evidence.append(Evidence(kind="rows", path=one.file or None, rows=[row_]))
    rows = []
    if len(one) >= 4:
        for at in np.unique(np.linspace(0, len(one) - 1, min(len(one), 200)).astype(int)):
            row_ = {"index": int(at)}
            row_.update({name: float(one.values[name][at]) for name in plot if np.isfinite(one.values[name][at])})
            rows.append(row_)
        evidence.append(Evidence(kind="series", path=one.file or None, rows=rows, label=" and ".join(plot)))
    time = one.time[index]
    return Hit(
        evidence=evidence,
        captures={
            **{name: value for name, value in captures.items() if value is not None and value == value},
            **({"engine": one.name} if one.name is not None else {}),
            "file": one.file,
        },
        first_us=int(time) if time == time else None,
        severity=severity,
    )


def queueing(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Requests wait although the cache has room."""
    hits = []
    for one in judge.engines(store):
        found = judge.queueing(one)
        if found is None:
            continue
        first, last = found
        waiting = one.values["waiting"][first : last + 1]
        index = first + int(np.argmax(waiting))
        captures = {
            "waiting": int(waiting.max()),
            "running": int(one.values["running"][index]),
            "usage": float(one.values["kv_usage_pct"][index]),
            "rows": last - first + 1,
        }
        hits.append(
            _hit(store, one, index, captures, ("waiting", "running", "kv_usage_pct", "generation_tps"), also=[first])
        )
    return hits[:4]


def pressure(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The cache fills up."""
    hits = []
    for one in judge.engines(store):
        found = judge.pressure(one)
        if found is not None:
            captures = {"first": round(found[1], 1), "usage": round(found[2], 1)}
            captures = {"from_usage": captures["first"], "usage": captures["usage"]}
            hits.append(_hit(store, one, found[0], captures, ("kv_usage_pct", "running", "generation_tps"), also=[0]))
    return hits[:4]


def single_stream(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """One request gets few tokens per second."""
    hits = []
    for one in judge.engines(store):
        found = judge.single_stream(one)
        if found is not None and found[1] < float(params.get("below_tps", 10)):
            index, speed, rows = found
            captures = {"tps": round(speed, 1), "running": int(one.values["running"][index]), "rows": rows}
            hits.append(_hit(store, one, index, captures, ("generation_tps", "running")))
            if rows == 1:
                hits[-1].confidence = "low"
    return hits[:4]


def prefix_misses(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The prefix cache is of no use."""
    hits = []
    for one in judge.engines(store):
        found = judge.prefix_misses(one)
        if found is not None:
            captures = {"hit": round(found[1], 1), "prompt_tps": round(found[2])}
            hits.append(_hit(store, one, found[0], captures, ("prefix_hit_pct", "prompt_tps")))
    return hits[:1]


def preempting(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Requests are thrown out of the cache and computed again."""
    hits = []
    for one in judge.engines(store):
        found = judge.preempting(one)
        if found is not None:
            captures = {"preemptions": found[1], "times": found[2]}
            hits.append(_hit(store, one, found[0], captures, ("preemptions", "kv_usage_pct", "running")))
    return hits[:4]


def slower(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The engine makes fewer tokens with as many requests."""
    hits = []
    for one in judge.engines(store):
        found = judge.slower(one)
        if found is not None:
            before, after = found[1], found[2]
            captures = {"before": round(before, 1), "after": round(after, 1), "drop": round(100 * (1 - after / before))}
            hits.append(_hit(store, one, found[0], captures, ("generation_tps", "running", "kv_usage_pct"), also=[0]))
    return hits[:4]


def gap(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The engine printed nothing for minutes while requests ran."""
    hits = []
    for one in judge.engines(store):
        found = judge.gap(one)
        if found is not None:
            captures = {
                "seconds": round(found[1]),
                "usual": round(found[2], 1),
                "running": int(one.values["running"][found[0] - 1]),
            }
            hits.append(_hit(store, one, found[0] - 1, captures, ("running", "generation_tps"), also=[found[0]]))
    return hits[:4]


def _late(store: Store, params: Mapping[str, Any], which: str, limit: float) -> list[Hit]:
    """Return hits about requests whose first, or next, token takes longer than a limit in ms."""
    hits = []
    for one in judge.latency(store):
        took = one.first_ms if which == "first" else one.next_ms
        if not took > limit:
            continue
        text = store.quotes.get(one.file, {}).get(one.line)
        captures: dict[str, Any] = {
            "took_ms": round(took, 1),
            "limit_ms": round(limit),
            "requests": one.requests or None,
            "line": one.line,
            "file": one.file,
        }
        row = {"ttft_ms": one.first_ms, "tpot_ms": one.next_ms}
        evidence = [
            Evidence(kind="log", path=one.file, line=one.line, text=text)
            if text
            else Evidence(kind="rows", path=one.file or None, rows=[row])
        ]
        metric = "median time to the first token, ms" if which == "first" else "median time per further token, ms"
        evidence.append(Evidence(kind="metric", path=one.file or None, label=metric, value=round(took, 1)))
        severity = "info" if one.at_once and which == "first" else None
        captures = {name: value for name, value in captures.items() if value is not None}
        hits.append(Hit(evidence=evidence, captures=captures, severity=severity))
    return hits[:4]


def first_token_late(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Half of the requests wait long for their first token."""
    return _late(store, params, "first", float(params.get("above_ms", 10_000)))


def next_token_late(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Half of the requests get their further tokens slowly."""
    return _late(store, params, "next", float(params.get("above_ms", 150)))
