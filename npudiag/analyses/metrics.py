"""The numbers a job is judged by, summed up: ``facts.metrics`` of the result document.

``{name: {"n", "first", "last", "min", "max", "mean", "p50", "p95"}}``; the unit is in the name. A training metric is
that of the log with most steps, all its starts together, since every rank prints the same. A value that is not a
number shows in ``last`` only, so that a loss that ended so keeps no bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from npudiag.analyses import series

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudiag.tables.store import Store

    Floats = npt.NDArray[np.float64]

TABLES = ("train_steps", "serving", "npu_samples", "prof_steps")
"""Tables that metrics come from."""

_TRAINING = ("loss", "grad_norm", "samples_per_s", "tokens_per_s", "tflops", "mfu", "memory_mb")
_COLUMNS = {
    "serving": {name: name for name in ("prompt_tps", "generation_tps", "ttft_ms", "tpot_ms", "kv_usage_pct")},
    "npu_samples": {"util_pct": "npu_util_pct", "hbm_pct": "npu_hbm_pct"},
}
_DIGITS = 6


def summarise(store: Store) -> dict[str, dict[str, float]]:
    """Return the metrics of a job; empty where its input has none."""
    found: dict[str, Floats] = {}
    if store.size("train_steps"):
        found["step_time_ms"] = _longest(series.timed(store), "step_time_ms")
        for name in _TRAINING:
            found[name] = _longest(series.primary(store), name)
    for table, names in _COLUMNS.items():
        if store.size(table):
            columns = store.columns(table)
            for column, name in names.items():
                if columns.has(column):
                    found[name] = columns.numbers(column)[columns.present(column)]
    found.update(_profiled(store))
    return {name: summary for name, values in found.items() if (summary := _summary(values))}


def _longest(candidates: Iterable[series.Series], name: str) -> Floats:
    """Return the values of the file that has most of them."""
    by_file: dict[str, list[Floats]] = {}
    for one in candidates:
        by_file.setdefault(one.file, []).append(one.get(name)[one.has(name)])
    joined = [np.concatenate(parts) for parts in by_file.values()]
    return max(joined, key=len, default=np.empty(0))


def _profiled(store: Store) -> dict[str, Floats]:
    steps = [row for row in store.rows("prof_steps") if row["e2e_us"]] if store.size("prof_steps") else []
    if not steps:
        return {}
    whole = np.array([row["e2e_us"] for row in steps], dtype=np.float64)
    found = {"prof_step_ms": whole / 1000}
    for column, name in (("free_us", "prof_free_pct"), ("comm_not_overlapped_us", "prof_exposed_comm_pct")):
        part = np.array([math.nan if row[column] is None else row[column] for row in steps], dtype=np.float64)
        shares = part / whole * 100
        found[name] = shares[np.isfinite(shares)]
    return found


def _summary(values: Floats) -> dict[str, float]:
    finite = series.bounded(values[np.isfinite(values)])
    if not values.size:
        return {}
    out = {"n": float(values.size), "last": float(values[-1])}
    if finite.size:
        p50, p95 = np.percentile(finite, (50, 95))
        out |= {
            "first": float(finite[0]),
            "min": float(finite.min()),
            "max": float(finite.max()),
            "mean": float(finite.mean()),
            "p50": float(p50),
            "p95": float(p95),
        }
    return {name: value if math.isnan(value) else float(f"{value:.{_DIGITS}g}") for name, value in out.items()}
