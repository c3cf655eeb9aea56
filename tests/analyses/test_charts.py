"""The numbers behind the charts: what is kept, what is left out, and when there is no chart."""

from __future__ import annotations

import base64
import datetime
from typing import Any

import numpy as np
import pytest

from npudiag.analyses import charts, runs
from npudiag.analyses.charts import activity, links, ranks, samples, thin, training
from npudiag.result import Chart
from npudiag.tables.store import Store

START = datetime.datetime(2026, 3, 4, 8, 0, 0)
NOISE = np.random.default_rng(3)


def store_of(**tables: list[dict[str, Any]]) -> Store:
    store = Store()
    for name, rows in tables.items():
        store.extend(name, rows)
    runs.number(store)
    return store


def steps(count: int, first: int = 1, **changed: Any) -> list[dict[str, Any]]:
    """Return the steps of a calm run; `changed` maps a column to a function of the step."""
    return [
        {
            "file": "job/train.log", "line": 10 + i, "framework": "megatron", "step": first + i, "total_steps": 10**6,
            "time": START + datetime.timedelta(seconds=2 * i), "loss": 2.5 + 0.01 * float(NOISE.random()),
            "grad_norm": 0.8 + 0.01 * float(NOISE.random()), "lr": 1e-4, "step_time_ms": 2000.0 + i % 5, "skipped": 0,
            **{name: value(first + i) for name, value in changed.items()},
        }
        for i in range(count)
    ]  # fmt: skip


def cells(chart: Chart) -> list[list[int]]:
    assert chart.grid is not None
    flat, width = list(base64.b64decode(chart.grid.cells)), len(chart.grid.columns)
    return [flat[at : at + width] for at in range(0, len(flat), width)]


def test_no_tables_no_charts() -> None:
    assert charts.build(Store()) == []


def test_thinning_keeps_the_extremes() -> None:
    values = np.sin(np.arange(100_000) / 50)
    values[[31_415, 77_777]] = [9.0, -9.0]
    values[500:700] = np.nan
    kept = thin.extremes(values, 200)
    assert {31_415, 77_777, 0, 99_999} <= kept and len(kept) <= 204
    assert not kept & set(range(500, 700))
    assert thin.evenly(list(range(100)), 5) == [0, 25, 50, 74, 99]


@pytest.mark.parametrize(("how", "wanted"), [("mean", [2.0, 5.0]), ("min", [1.0, 5.0]), ("max", [3.0, 5.0])])
def test_bins(how: str, wanted: list[float]) -> None:
    found = thin.bins(np.array([1.0, 3.0, np.nan, 5.0]), np.array([0, 0, 1, 1]), 3, how)
    assert found[:2].tolist() == wanted and np.isnan(found[2])


def test_a_loss_spike_is_marked_however_long_the_run() -> None:
    chart = training.loss(store_of(train_steps=steps(20_000, loss=lambda s: 9.0 if s == 12_345 else 2.5 + s % 7 / 100)))
    assert chart is not None and chart.rows == 20_000 and len(chart.x) < 800
    curve = chart.panels[0].curves[0]
    assert [(chart.x[at], curve.values[at]) for at in curve.marks] == [(12_345.0, 9.0)]
    assert [panel.name for panel in chart.panels] == ["loss", "grad_norm"]


def test_a_loss_that_is_no_number_is_marked_without_a_value() -> None:
    rows = steps(60, loss=lambda s: float("nan") if s >= 50 else 2.5)
    chart = training.loss(store_of(train_steps=rows))
    assert chart is not None
    curve = chart.panels[0].curves[0]
    assert [(chart.x[at], curve.values[at]) for at in curve.marks] == [(50.0, None)]


def test_starts_have_curves_of_their_own() -> None:
    again = [{**row, "line": row["line"] + 500} for row in steps(80, first=41)]
    chart = training.loss(store_of(train_steps=[*steps(80), *again]))
    assert chart is not None
    assert [curve.name for curve in chart.panels[0].curves] == ["loss 1", "loss 2"]
    assert chart.x == sorted(chart.x) and chart.x[-1] == 120


def test_pace_leaves_out_the_first_steps_and_marks_stalls() -> None:
    slow = {60, 61, 90, 120}
    took = {1: 90_000.0, **dict.fromkeys(slow, 5000.0)}
    chart = training.pace(store_of(train_steps=steps(150, step_time_ms=lambda s: took.get(s, 2000.0 + s % 3))))
    assert chart is not None
    curve = chart.panels[0].curves[0]
    assert max(value for value in curve.values if value) == 5000.0 and chart.panels[0].limit == 2001.0
    assert [chart.x[at] for at in curve.marks] == [60.0, 90.0, 120.0]


def test_the_job_is_cut_into_phases() -> None:
    rows = steps(100)
    for row in rows[60:]:
        row["time"] += datetime.timedelta(minutes=20)
    files = [{
        "file": "job/train.log", "kind": "console", "first_time": START - datetime.timedelta(minutes=3),
        "last_time": rows[-1]["time"] + datetime.timedelta(minutes=10),
    }]  # fmt: skip
    events = [
        {"file": "job/train.log", "line": 60, "kind": "save", "step": 50},
        {"file": "job/train.log", "line": 900, "kind": "failure", "time": rows[-1]["time"]},
        {"file": "job/train.log", "line": 61, "kind": "timer", "step": 50, "value": 3.0},
    ]
    chart = training.job(store_of(train_steps=rows, files=files, train_events=events))
    assert chart is not None and chart.start == "2026-03-04T07:57:00"
    found = [(phase.name, phase.first, phase.last) for phase in chart.phases]
    assert found == [
        ("starting", 0, 180), ("training", 180, 298), ("silent", 298, 1500), ("training", 1500, 1578),
        ("afterwards", 1578, 2178),
    ]  # fmt: skip
    assert [(item.kind, item.at) for item in chart.happenings] == [("save", 280), ("failure", 1578)]


def profiled(rank: int, step: int, computing: float, **more: Any) -> dict[str, Any]:
    row = {
        "job": "a", "rank": rank, "step": step, "computing_us": computing, "comm_not_overlapped_us": 9000.0,
        "free_us": 500.0, "e2e_us": computing + 9500.0, "last": False,
    }  # fmt: skip
    return {**row, **more}


def test_breakdown_is_the_mean_of_whole_steps() -> None:
    rows = [profiled(rank, step, 20_000 + 1000 * rank + 200 * step) for rank in (0, 1) for step in (0, 1)]
    rows += [profiled(0, 2, 99_000, last=True), profiled(1, 2, 99_000, last=True)]
    rows += [profiled(7, 0, 1.0, job="another")]
    chart = ranks.breakdown(store_of(prof_steps=[*rows, profiled(2, 0, 30_000, bubble_us=4000.0)]))
    assert chart is not None and chart.x == [0, 1, 2]
    parts = {curve.name: curve.values for curve in chart.panels[0].curves}
    assert parts == {
        "computing": [20.1, 21.1, 30.0], "communication": [9.0, 9.0, 5.0], "bubble": [0.0, 0.0, 4.0],
        "free": [0.5, 0.5, 0.5],
    }  # fmt: skip


def test_grids_of_the_profile_and_of_the_logs() -> None:
    rows = [
        profiled(rank, step, 30_000.0 if (rank, step) == (2, 1) else 20_000.0) for rank in range(3) for step in (0, 1)
    ]
    logged = [
        {"file": f"job/{rank}.log", "line": step, "worker": f"rank{rank}", "framework": "x", "step": step,
         "step_time_ms": 500.0 if (rank, step) == (1, 333) else 100.0}
        for rank in range(3) for step in range(1, 601)
    ]  # fmt: skip
    profile, steps_of = ranks.skew(store_of(prof_steps=rows, train_steps=logged))
    assert profile.name == "skew" and cells(profile) == [[0, 0], [0, 0], [0, 254]]
    assert steps_of.grid is not None and len(steps_of.grid.columns) == 200 and steps_of.grid.columns[110] == 331
    assert [(r, c) for r, row in enumerate(cells(steps_of)) for c, cell in enumerate(row) if cell == 254] == [(1, 110)]
    assert ranks.skew(store_of(train_steps=logged[:600])) == []


def test_links_are_weighed_by_their_data() -> None:
    def link(src: int, dst: int, size: float, speed: float, **more: Any) -> dict[str, Any]:
        row = {"job": "a", "src": src, "dst": dst, "transport": "HCCS", "size_mb": size, "bandwidth_gbps": speed}
        return {**row, **more}

    rows = [
        link(0, 1, 100, 20), link(1, 0, 100, 10), link(1, 0, 100, 5), link(0, 0, 9, 400, transport="LOCAL"),
        link(4, 5, 9, 1, group="123"), link(0, 1, 0, 0),
    ]  # fmt: skip
    (chart,) = links.matrices(store_of(prof_links=rows))
    assert chart.about == "HCCS" and chart.rows == 2
    assert cells(chart) == [[255, 254], [round(254 * (200 / 30) / 20), 255]]


def test_the_rank_that_fell_silent() -> None:
    files = [{"file": f"{rank}.log", "kind": "slog", "rank": rank} for rank in range(3)]
    counts = [
        {"file": f"{rank}.log", "level": "INFO", "minute": START + datetime.timedelta(minutes=minute), "count": 9}
        for rank in range(3) for minute in range(6 if rank == 1 else 10)
    ]  # fmt: skip
    counts.append({"file": "0.log", "minute": datetime.datetime(1970, 1, 1), "count": 1})
    chart = activity.activity(store_of(files=files, log_counts=counts))
    assert chart is not None and chart.start == "2026-03-04T08:00"
    assert [sum(cell != 255 for cell in row) for row in cells(chart)] == [10, 6, 10]
    assert activity.activity(store_of(files=files[:1], log_counts=counts)) is None


def readings(device: int, count: int = 30, **values: Any) -> list[dict[str, Any]]:
    return [
        {"file": "npu.log", "line": i, "device": device, "time": START + datetime.timedelta(seconds=10 * i),
         "util_pct": 80.0, "hbm_used_mb": 50_000.0, "hbm_total_mb": 65_536.0, "temp_c": 60.0, "clock_mhz": 1800.0,
         **values}
        for i in range(count)
    ]  # fmt: skip


def test_cards_and_their_memory() -> None:
    store = store_of(
        npu_samples=[
            row for device in range(20) for row in readings(device, clock_mhz=1300.0 if device == 7 else 1800.0)
        ]
    )
    chart = samples.cards(store)
    assert chart is not None and chart.x_name == "second" and len(chart.x) == 30
    clock = next(panel for panel in chart.panels if panel.name == "clock_mhz")
    assert len(clock.curves) == 8 and clock.curves[0].name == "median"
    assert [curve.name for curve in clock.curves if curve.values[0] == 1300.0] == ["7"]
    memory = samples.memory(store)
    assert memory is not None and memory.panels[0].limit == 65_536.0 and memory.panels[0].limit_name == "capacity"


def test_readings_without_times_are_numbered() -> None:
    rows = [{**row, "time": None} for row in readings(0)]
    chart = samples.cards(store_of(npu_samples=rows))
    assert chart is not None and chart.x_name == "reading" and chart.x == [float(i + 1) for i in range(30)]


def test_serving() -> None:
    rows = [
        {"file": "serve.log", "line": i, "framework": "vllm", "engine": "000", "running": 4, "waiting": i,
         "kv_usage_pct": 3.0 * i, "generation_tps": 900.0, "time": START + datetime.timedelta(seconds=10 * i)}
        for i in range(30)
    ]  # fmt: skip
    chart = samples.serving(store_of(serving=rows))
    assert chart is not None
    assert [panel.name for panel in chart.panels] == ["kv_usage_pct", "waiting", "running", "generation_tps"]
    assert chart.panels[0].curves[0].values[-1] == 87.0


def test_building_all_of_them_in_order() -> None:
    store = store_of(
        train_steps=steps(40), prof_steps=[profiled(rank, step, 20_000.0) for rank in (0, 1) for step in (0, 1)],
        npu_samples=readings(0), prof_memory=[
            {"job": "a", "rank": 0, "component": "PTA", "peak_allocated_mb": 10.0, "peak_reserved_mb": 12.0}
        ],
    )  # fmt: skip
    names = [chart.name for chart in charts.build(store)]
    assert names == ["job", "loss", "pace", "breakdown", "skew", "npu", "memory", "memory_peaks"]
