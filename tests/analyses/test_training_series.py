"""What is said of series of steps, and what is not."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from npudiag.analyses import loss, npu, runs, serving, speed
from npudiag.analyses.series import Series, baseline, build, curve, groups, primary, quote, timed
from npudiag.tables.store import Store


def store_of(**columns: Any) -> Store:
    store = Store()
    size = max(len(values) for values in columns.values() if isinstance(values, (list, np.ndarray)))
    rows = [
        {name: values[i] if isinstance(values, (list, np.ndarray)) else values for name, values in columns.items()}
        for i in range(size)
    ]
    store.extend("train_steps", rows)
    runs.number(store)
    return store


def series(**columns: Any) -> Series:
    columns.setdefault("framework", "megatron")
    return build(store_of(**columns))[0]


def steps(size: int, first: int = 3000, by: int = 1) -> list[int]:
    return list(range(first, first + size * by, by))


NOISE = np.random.default_rng(5)


def test_baseline_of_long_series_agrees_with_that_of_short_ones() -> None:
    values = NOISE.normal(2.0, 0.1, 9000)
    middle, spread = baseline(values)
    exact = np.median(values[4872:5000])
    assert abs(middle[5000] - exact) < 0.03 and 0.06 < spread[5000] < 0.15
    assert math.isnan(middle[10])


def test_groups() -> None:
    assert groups(np.array([1, 2, 3, 9, 10]), 1) == [(1, 3), (9, 10)]
    assert groups(np.array([], dtype=np.int64), 1) == []
    assert groups(np.array([1, 2, 3, 9, 10]), 1, least=3) == [(1, 3)]


def test_a_restart_begins_another_run() -> None:
    found = build(store_of(file="a", framework="megatron", step=[*range(1, 61), *range(51, 81)], loss=2.0))
    assert [(one.run, len(one)) for one in found] == [(0, 60), (1, 30)]


def test_ranks_that_print_the_same_count_once() -> None:
    rows = [step for step in range(1, 41) for _ in range(2)]
    workers = ["default6", "default7"] * 40
    found = build(store_of(file="a", framework="megatron", step=rows, worker=workers, loss=2.0))
    assert [len(one) for one in found] == [40]


@pytest.mark.parametrize("size", [40, 200, 20_000])
def test_a_spike_is_found_at_any_length(size: int) -> None:
    values = NOISE.normal(2.0, 0.01, size)
    values[size - 8] = 5.0
    found = loss.spikes(series(step=steps(size), loss=values))
    assert [spike.index for spike in found] == [size - 8]
    assert found[0].fate == "recovered"


def test_the_lead_of_the_gradient_norm() -> None:
    values, norms = NOISE.normal(2.2, 0.01, 200), np.abs(NOISE.normal(0.24, 0.01, 200))
    norms[150:160] = [0.95, 2.4, 15.9, 145, 960, 353, 379, 650, 40, 3]
    values[154:158] = [5.1, 3.5, 3.2, 2.8]
    found = loss.spikes(series(step=steps(200), loss=values, grad_norm=norms))[0]
    assert found.lead in (3, 4) and found.norm_peak == 960


@pytest.mark.parametrize("seed", range(12))
def test_healthy_curves_are_quiet(seed: int) -> None:
    rnd = np.random.default_rng(seed)
    size = int(rnd.integers(15, 1500))
    trend = 2 + 8 * np.exp(-np.arange(size) / 60)
    values = trend * (1 + rnd.normal(0, 0.02 + 0.1 * rnd.random(), size))
    norms = (1 + 20 * np.exp(-np.arange(size) / 25)) * np.exp(rnd.normal(0, 0.2, size))
    took = np.concatenate(([60_000.0, 900.0, 800.0], 700 * np.exp(rnd.normal(0, 0.03, size - 3))))
    rate = 1e-4 * np.minimum(1, np.arange(1, size + 1) / 100)
    one = series(step=steps(size, 1), loss=values, grad_norm=norms, step_time_ms=took, lr=rate, skipped=0)
    assert loss.not_finite(one) is None and loss.spikes(one) == [] and loss.divergence(one) is None
    assert loss.oscillation(one) is None and loss.exploding(one) is None and loss.learning_rate(one) is None
    assert speed.slow_stretch(one) is None and speed.drift(one) is None and speed.stalls(one, {}) is None


@pytest.mark.parametrize("seed", range(8))
def test_noisy_fine_tunes_are_quiet(seed: int) -> None:
    rnd = np.random.default_rng(100 + seed)
    size = int(rnd.integers(64, 600))
    values = np.abs(0.65 - 0.0002 * np.arange(size) + rnd.normal(0, 0.15, size))
    one = series(step=steps(size, 1), loss=values, framework="trainer-log", lr=1e-5)
    assert loss.spikes(one) == [] and loss.divergence(one) is None and loss.oscillation(one) is None


def test_a_slow_stretch_in_a_million_steps() -> None:
    took = np.full(60_000, 500.0) + NOISE.normal(0, 5, 60_000)
    took[30_000:36_000] += 120
    found = speed.slow_stretch(series(step=steps(60_000), step_time_ms=took))
    assert found is not None and abs(found.begin - 30_000) < 200 and 18 < found.slower_pct < 30


def test_stalls_are_told_from_what_happens_at_them() -> None:
    took = np.full(200, 500.0)
    took[19::20] = 2000.0
    one = series(step=steps(200, 1), step_time_ms=took, file="a")
    plain = speed.stalls(one, {})
    saved = speed.stalls(one, {"save": np.arange(20, 201, 20, dtype=float)})
    assert plain is not None and plain.what == "" and plain.period == 20
    assert saved is not None and saved.what == "save"


@pytest.mark.parametrize(
    ("at", "found"), [({5: 91_000.0, 9: 60_000.0}, True), ({5: 91_000.0}, False), ({5: 9e3, 9: 7e3}, False)]
)
def test_two_steps_of_an_excerpt_stall_where_they_take_five_times(at: dict[int, float], found: bool) -> None:
    took = np.full(12, 5100.0) + np.arange(12)
    took[list(at)] = list(at.values())
    one = series(step=steps(12, 4000), step_time_ms=took, framework="megatron")
    assert (speed.stalls(one, {}) is not None) is found


def test_progress_bars_count_where_nothing_better_is_there() -> None:
    store = store_of(
        file=["a"] * 20 + ["b"] * 20,
        framework=["tqdm"] * 10 + ["hf"] * 10 + ["tqdm"] * 20,
        step=[*range(10), *range(10), *range(20)],
        step_time_ms=500.0,
    )
    assert sorted((one.file, one.framework) for one in timed(store)) == [("a", "hf"), ("b", "tqdm")]


def test_progress_bars_count_where_they_tell_steps_that_nothing_else_tells() -> None:
    store = store_of(
        file="a",
        framework=["tqdm"] * 40 + ["hf"] * 4,
        step=[*range(40), *range(0, 40, 10)],
        step_time_ms=500.0,
    )
    assert [one.framework for one in timed(store)] == ["tqdm"]
    assert [one.framework for one in primary(store)] == ["hf"]
    # Beside the lines of others a bar may be that of any loop.
    store = store_of(
        file="a",
        framework=["tqdm"] * 40 + ["megatron"] * 4,
        step=[*range(40), *range(0, 40, 10)],
        step_time_ms=500.0,
    )
    assert [one.framework for one in timed(store)] == ["megatron"]


def test_of_many_steps_in_one_line_the_right_one_is_quoted() -> None:
    store = store_of(file="a", framework="tqdm", line=2, step=steps(40, 1), step_time_ms=500.0)
    store.quotes["a"] = {2: "the last of the line"}
    store.quotes_by_step["a"] = {2: {9: "step nine", 38: "step thirty-eight"}}
    one = build(store)[0]
    found = [quote(store, one, index) for index in (8, 39)]
    assert [item and (item.line, item.text) for item in found] == [(2, "step nine"), (2, "step thirty-eight")]


def test_quotes_and_curves() -> None:
    store = store_of(file="a", framework="hf", line=list(range(1, 41)), step=steps(40, 1), loss=[2.0] * 40)
    store.quotes["a"] = {10: "loss of ten", 38: "near the end"}
    one = build(store)[0]
    exact, near = quote(store, one, 9), quote(store, one, 39)
    assert exact is not None and exact.text == "loss of ten" and exact.line == 10
    assert near is not None and near.line == 38
    drawn = curve(one, ["loss"], [5])
    assert drawn is not None and drawn.rows is not None and sum("anomaly" in row for row in drawn.rows) == 1


def test_series_without_steps_are_judged_all_the_same() -> None:
    one = series(loss=[1.4, 0.0, 0.0, 0.0], grad_norm=[math.nan] * 4, framework="hf")
    found = loss.not_finite(one)
    assert not one.has_steps and found is not None and found.how == "zero"


def readings(values: Iterable[dict[str, Any]]) -> Store:
    store = Store()
    store.extend("npu_samples", values)
    return store


def test_a_card_at_rest_lowers_its_clock_without_alarm() -> None:
    rest = [{"device": 0, "power_w": 70.0 + (i % 2), "clock_mhz": 800.0} for i in range(6)]
    work = [{"device": 0, "power_w": 200.0, "clock_mhz": 1000.0} for _ in range(6)]
    assert npu.clock_drop(npu.cards(readings([*rest, *work]))[0]) is None
    hot = [{"device": 0, "power_w": 190.0, "clock_mhz": 800.0, "temp_c": 101.0} for _ in range(6)]
    found = npu.clock_drop(npu.cards(readings([*rest, *work, *hot]))[0])
    assert found is not None and found.low == 800.0 and found.temp_c == 101.0


def test_engines_are_told_apart() -> None:
    store = Store()
    store.extend("serving", [{"engine": f"{i % 2}", "running": 4, "waiting": 9 * (i % 2)} for i in range(40)])
    found = serving.engines(store)
    assert [one.name for one in found] == ["0", "1"] and len(found[0]) == 20
