"""Plain facts about a job for the result: how it trained or served and who failed first, whatever the rules say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npudiag.analyses import failures

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_MOST = 8


def facts(store: Store) -> dict[str, Any]:
    """Return facts ``training``, ``serving``, ``npus`` and ``worker_failures``, as far as there are rows."""
    out: dict[str, Any] = {}
    failed = failures.first(store)
    if failed is not None:
        out["worker_failures"] = failed
    for name, table, make in (
        ("training", "train_steps", _training),
        ("serving", "serving", _serving),
        ("npus", "npu_samples", _npus),
    ):
        if not store.empty(table):
            found = make(store)
            if found:
                out[name] = found[:_MOST]
    return out


def _training(store: Store) -> list[dict[str, Any]]:
    import numpy as np

    from npudiag.analyses import speed
    from npudiag.analyses.series import primary

    out = []
    for one in primary(store)[:_MOST]:
        row: dict[str, Any] = {"file": one.file, "framework": one.framework, "run": one.run, "rows": len(one)}
        if one.has_steps:
            row["first_step"], row["last_step"] = one.step(0), one.step(len(one) - 1)
        if one.total == one.total:
            row["total_steps"] = int(one.total)
        loss = one.get("loss")
        loss = loss[np.isfinite(loss)]
        if loss.size:
            row["loss_first"], row["loss_last"] = round(float(loss[0]), 6), round(float(loss[-1]), 6)
            row["loss_best"] = round(float(loss.min()), 6)
        pace = speed.pace(one)
        if pace is not None:
            row["step_ms_median"], row["step_ms_p95"] = round(pace.median_ms, 1), round(pace.p95_ms, 1)
            row["step_variation_pct"] = round(pace.cv_pct, 2)
            first = float(one.get("step_time_ms")[0])
            if one.from_start and first == first and pace.median_ms > 0:
                # Graphs are compiled in the first step.
                row["first_step_ratio"] = round(first / pace.median_ms, 1)
        for name in ("samples_per_s", "tokens_per_s", "tflops", "mfu"):
            values = one.get(name)
            values = values[np.isfinite(values)]
            if values.size:
                row[name] = round(float(np.median(values)), 3)
        mfu = row.get("mfu")
        if mfu is not None and mfu > 100:
            # Peak rates that frameworks assume are not those of every card.
            row["mfu_note"] = "above 100 %: the log assumes another card's peak"
        row.update(_memory(store, one.file))
        out.append(row)
    return out


def _memory(store: Store, file: str) -> dict[str, Any]:
    """Return the model's size and its memory, measured and by arithmetic, as a training log tells them."""
    columns = store.columns("train_events")
    kinds, names = list(columns.texts("kind")), list(columns.texts("name"))
    files = list(columns.texts("file"))
    out: dict[str, Any] = {}
    if file not in files:
        return out
    mine = columns.codes("file") == files.index(file)
    values = columns.numbers("value")
    for kind, name, key in (
        ("model", "parameters", "parameters"),
        ("theory", "weight and optimizer", "theory_weights_mb"),
        ("theory", "total", "theory_total_mb"),
        ("memory", "max reserved", "max_reserved_mb"),
    ):
        if kind in kinds and name in names:
            rows = mine & (columns.codes("kind") == kinds.index(kind)) & (columns.codes("name") == names.index(name))
            told = values[rows]
            if told.size:
                out[key] = round(float(told.max()), 1)
    return out


def _serving(store: Store) -> list[dict[str, Any]]:
    import numpy as np

    from npudiag.analyses.serving import engines, latency

    out = []
    for one in engines(store)[:_MOST]:
        row: dict[str, Any] = {"file": one.file, "engine": one.name, "rows": len(one)}
        for name in ("running", "waiting", "kv_usage_pct"):
            values = one.values[name][np.isfinite(one.values[name])]
            if values.size:
                row[f"{name}_max"] = float(values.max())
        for name in ("generation_tps", "prompt_tps"):
            values = one.values[name][np.isfinite(one.values[name]) & (one.values[name] > 0)]
            if values.size:
                row[f"{name}_median"] = round(float(np.median(values)), 1)
        out.append(row)
    for late in latency(store)[:_MOST]:
        row = {"file": late.file, "requests": late.requests or None, "ttft_ms": late.first_ms, "tpot_ms": late.next_ms}
        out.append({name: value for name, value in row.items() if value is not None and value == value})
    return out + _limits(store)


def _limits(store: Store) -> list[dict[str, Any]]:
    """Return what fits into the cache of each engine, as its start says."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for told in store.columns("serving_events").rows():
        if told["kind"] in ("cache-tokens", "cache-blocks", "concurrency", "request-tokens"):
            row = rows.setdefault((told["file"] or "", told["engine"] or ""), {"file": told["file"]})
            if told["engine"]:
                row["engine"] = told["engine"]
            row[told["kind"].replace("-", "_")] = told["value"]
        if len(rows) > _MOST:
            break
    return list(rows.values())[:_MOST]


def _npus(store: Store) -> list[dict[str, Any]]:
    import numpy as np

    from npudiag.analyses.npu import cards

    out = []
    for card in cards(store)[:_MOST]:
        row: dict[str, Any] = {"node": card.node, "device": card.device, "readings": len(card)}
        for name, how in (("util_pct", np.mean), ("hbm_pct", np.max), ("temp_c", np.max), ("clock_mhz", np.min)):
            values = card.get(name)
            if values.size:
                row[name] = round(float(how(values)), 1)
        out.append(row)
    return out
