"""What is said of a job by its numbers: for each statement a series that must raise it and a like one that must not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from npudiag.analyze import analyze_texts
from npudiag.engine.load import RulePack, load_pack

Rows = list[dict[str, Any]]
Tables = Mapping[str, Rows]
FILE = "a.log"


@lru_cache(maxsize=1)
def pack() -> RulePack:
    return load_pack()


def said(tables: Tables) -> dict[str, str]:
    """Return name and severity of what is found."""
    return {found.name: found.severity for found in analyze_texts({}, pack(), tables=tables).findings}


def rows(size: int, **columns: Any) -> Rows:
    """Return rows of columns; a value that is no array stands in all of them, NaN in an array is a missing value."""
    out = []
    for at in range(size):
        row = {name: value[at] if isinstance(value, (list, np.ndarray)) else value for name, value in columns.items()}
        out.append({name: value.item() if isinstance(value, np.generic) else value for name, value in row.items()})
    return out


def steps(size: int = 200, first: int = 3000, **columns: Any) -> Tables:
    """Return steps from the middle of a run in good health, with other values in some columns."""
    rnd = np.random.default_rng(11)
    known: dict[str, Any] = {
        "file": FILE,
        "framework": "megatron",
        "step": np.arange(first, first + size),
        "line": np.arange(1, size + 1),
        "loss": rnd.normal(2.0, 0.01, size),
        "grad_norm": np.abs(rnd.normal(0.5, 0.02, size)),
        "lr": 1e-4,
        "loss_scale": 1.0,
        "skipped": 0,
        "step_time_ms": rnd.normal(500.0, 3.0, size),
    }
    return {"train_steps": rows(size, **{**known, **columns})}


def changed(size: int, base: float, noise: float, at: Any, value: Any) -> np.ndarray:
    values = np.random.default_rng(7).normal(base, noise, size)
    values[at] = value
    return values


def without(tables: Tables, column: str, where: range) -> Tables:
    for at in where:
        del tables["train_steps"][at][column]
    return tables


def hf(size: int, **columns: Any) -> Tables:
    return steps(size, 1, framework="hf", loss_scale=None, skipped=None, **columns)


def events(tables: Tables, *new: dict[str, Any]) -> Tables:
    return {**tables, "train_events": [{"file": FILE, "line": 1, **event} for event in new]}


def timer(name: str, value: float, low: float | None = None) -> Rows:
    return [{"kind": "timer", "name": name, "value": value, "low": low, "step": 3000 + at} for at in range(4)]


NAN = float("nan")
RISING = np.concatenate([np.random.default_rng(3).normal(2.0, 0.01, 100), np.linspace(2.0, 3.2, 100)])
SWING = 2.0 + 0.3 * np.sin(np.arange(400) / 3.0)
BACK_AND_FORTH = 2.0 + 0.2 * np.where(np.arange(400) % 2, 1.0, -1.0)
SCATTER = np.random.default_rng(6).permutation(np.linspace(0.3, 15.0, 195))
SEARCH = np.concatenate([2.0 ** np.arange(32, 12, -1), np.full(80, 8192.0)])
VALIDATION = [(3000 + 20 * at, 2.0 + 0.06 * abs(at - 3)) for at in range(9)]


def validated(falling: float) -> Tables:
    tables = steps(loss=np.linspace(2.2, 2.2 - falling, 200))
    told = [{"kind": "validation", "name": "lm loss", "step": at, "value": value} for at, value in VALIDATION]
    return events(tables, *told)


def stalled(where: range, kind: str | None) -> Tables:
    tables = steps(step_time_ms=changed(200, 500.0, 3.0, list(where), 2500.0))
    return events(tables, *({"kind": kind, "step": 3000 + at, "value": 2.0} for at in where)) if kind else tables


def clocked(gap_s: float) -> Tables:
    time = 1_700_000_000_000_000 + np.arange(200) * 500_000
    time[100:] += int(gap_s * 1e6)
    return steps(time=time)


def saved(kind: str, took_s: float, others_s: float = 0.0) -> Tables:
    """Return a run of 0.5 s per step that stops its clock every 40 steps while something of a kind happens.

    In the middle between two of them a validation runs.
    """
    time = 1_700_000_000_000_000 + np.arange(200) * 500_000
    told: list[dict[str, Any]] = []
    for at in range(39, 199, 20):
        mine = at % 40 == 39
        time[at + 1 :] += int((took_s if mine else others_s) * 1e6)
        told.append({"kind": kind if mine else "validation", "name": "lm loss", "value": 2.0, "step": 3000 + at})
    return events(steps(time=time), *told)


def unequal(stall_ms: float) -> Tables:
    """Return a run whose batches differ in tokens, and its step times with them."""
    tokens = np.random.default_rng(3).lognormal(8.0, 0.4, 200).astype(int)
    took = 300.0 + 0.25 * tokens
    took[[50, 90, 130, 170]] += stall_ms
    return steps(consumed_tokens=np.cumsum(tokens), step_time_ms=took)


def restarted(jump: float) -> Tables:
    """Return a run that went on from its checkpoint at step 3080; the first rows behind it are off."""
    first, second = steps(100)["train_steps"], steps(120, 3080)["train_steps"]
    for row in second[:4]:
        row["loss"] *= jump
        row["grad_norm"] *= jump
    return {"train_steps": first + second}


def started_twice(factor: float) -> Tables:
    first, second = steps(60)["train_steps"], steps(60, 3040)["train_steps"]
    for row in second:
        row["step_time_ms"] *= factor
    return {"train_steps": first + second}


def serving(size: int = 40, **columns: Any) -> Tables:
    known: dict[str, Any] = {
        "file": FILE, "framework": "vllm", "engine": "000", "line": np.arange(1, size + 1),
        "time": 1_700_000_000_000_000 + np.arange(size) * 10_000_000,
        "running": 8, "waiting": 0, "kv_usage_pct": 40.0, "prefix_hit_pct": 50.0, "prompt_tps": 900.0,
        "generation_tps": 400.0,
    }  # fmt: skip
    return {"serving": rows(size, **{**known, **columns})}


def requests(first_ms: float, next_ms: float) -> Tables:
    return {"serving": rows(12, file=FILE, framework="request", line=np.arange(12), ttft_ms=first_ms, tpot_ms=next_ms)}


def cards(size: int = 10, each: Callable[[int], dict[str, Any]] = lambda device: {}) -> Tables:
    out: Rows = []
    for sample in range(size):
        for device in range(4):
            known = {"util_pct": 85.0, "hbm_pct": 70.0, "hbm_used_mb": 45000.0, "temp_c": 55.0, "clock_mhz": 1800.0}
            own = {name: value[sample] if isinstance(value, list) else value for name, value in each(device).items()}
            out.append({"file": FILE, "line": len(out) + 1, "sample": sample, "device": device, **known, **own})
    return {"npu_samples": out}


CLAUSES: list[tuple[str, Tables, Tables]] = [
    ("loss-not-finite", steps(loss=changed(200, 2.0, 0.01, slice(150, 200), NAN)), steps()),
    # The loss vanished although nothing was skipped; skipped steps have none either.
    (
        "loss-not-finite",
        without(steps(), "loss", range(150, 200)),
        without(steps(skipped=[int(at in (20, 90)) for at in range(200)]), "loss", range(20, 21)),
    ),
    # The trainer leaves NaN out of its average: 0.0 remains. One step that a scaler skipped is nothing.
    (
        "loss-not-finite",
        hf(60, loss=changed(60, 2.0, 0.01, slice(40, 60), 0.0), grad_norm=changed(60, 1.0, 0.1, slice(40, 60), NAN)),
        hf(60, grad_norm=changed(60, 1.0, 0.1, [7, 30], NAN)),
    ),
    # Only the last row of a run that breaks off; a run that came to its end is let alone.
    (
        "loss-not-finite",
        hf(60, total_steps=900, grad_norm=changed(60, 1.0, 0.1, 59, NAN)),
        hf(60, total_steps=60, grad_norm=changed(60, 1.0, 0.1, 59, NAN)),
    ),
    # Averages over a window in which mixed precision searched for its scale; a norm that stays NaN is another thing.
    (
        "loss-not-finite",
        hf(60, grad_norm=changed(60, 1.0, 0.1, slice(45, 60), NAN)),
        {"train_steps": [{**row, "framework": "mmengine", "grad_norm": NAN if row["step"] < 3 else 1.0}
                         for row in hf(60)["train_steps"]]},
    ),
    ("loss-spike", steps(loss=changed(200, 2.0, 0.01, 120, 5.0)), steps(loss=changed(200, 2.0, 0.01, 120, 2.2))),
    ("loss-divergence", steps(loss=RISING), steps(loss=RISING[::-1].copy())),
    ("loss-oscillation", steps(400, loss=SWING), steps(400, loss=2.0 + 0.02 * (SWING - 2.0))),
    ("loss-oscillation", steps(400, loss=BACK_AND_FORTH), steps(400, loss=2.0 + 0.1 * (BACK_AND_FORTH - 2.0))),
    (
        "loss-plateau",
        steps(1500, 1, loss=changed(1500, 10.4, 0.01, 0, 10.4), total_steps=9000),
        steps(1500, 1, loss=2.0 + 8.4 * np.exp(-np.arange(1500) / 300.0), total_steps=9000),
    ),
    (
        "gradient-norm-exploding",
        steps(grad_norm=np.concatenate([np.full(194, 0.5), [1.5, 6.0, 25.0, 110.0, 450.0, 1900.0]])),
        steps(grad_norm=np.concatenate([np.full(194, 0.5), [0.6, 0.7, 0.8, 0.9, 1.0, 1.1]])),
    ),
    (
        "gradient-norm-exploding",
        steps(grad_norm=np.concatenate([SCATTER, [0.3, 2.0, 9.0, 60.0, 500.0]])),
        steps(grad_norm=np.concatenate([SCATTER, [0.3, 2.0, 4.0, 8.0, 14.0]])),
    ),
    ("gradient-norm-spikes", steps(grad_norm=changed(200, 0.5, 0.02, [60, 90, 130, 170], 9.0)), steps()),
    ("gradient-norm-zero", steps(grad_norm=changed(200, 0.5, 0.02, slice(100, 130), 0.0)), steps()),
    (
        "loss-scale-collapse",
        steps(loss_scale=np.concatenate([np.full(150, 65536.0), 65536.0 / 2.0 ** np.arange(1, 13), np.full(38, 16.0)])),
        steps(loss_scale=np.where(np.arange(200) % 60 == 59, 32768.0, 65536.0)),
    ),
    ("loss-scale-search", without(steps(100, 1, loss_scale=SEARCH, skipped=[int(at < 19) for at in range(100)]), "loss",
                                  range(19)), steps(100, 1)),
    ("steps-skipped-often", steps(skipped=[int(at % 8 == 0) for at in range(200)], loss_scale=512.0), steps()),
    ("validation-loss-rises", validated(0.4), events(steps(), {"kind": "validation", "name": "lm loss", "value": 2.0})),
    ("learning-rate-zero", steps(lr=0.0), steps()),
    (
        "learning-rate-ended-early",
        steps(total_steps=9000, lr=np.concatenate([np.full(150, 1e-4), np.zeros(50)])),
        steps(total_steps=3199, lr=np.concatenate([np.linspace(1e-4, 1e-6, 195), np.zeros(5)])),
    ),
    (
        "learning-rate-jump",
        steps(lr=np.concatenate([np.linspace(1e-4, 5e-5, 100), np.full(100, 3e-4)])),
        steps(lr=np.linspace(1e-4, 5e-5, 200)),
    ),
    (
        "finetune-starts-at-random-loss",
        events(
            steps(20, 1, loss=np.linspace(12.0, 11.4, 20)),
            {"kind": "argument", "name": "finetune", "value": 1.0},
            {"kind": "argument", "name": "padded_vocab_size", "value": 152064.0},
        ),
        events(
            steps(20, 1, loss=np.linspace(1.9, 1.5, 20)),
            {"kind": "argument", "name": "finetune", "value": 1.0},
            {"kind": "argument", "name": "padded_vocab_size", "value": 152064.0},
        ),
    ),
    # Time per step.
    ("step-time-slow-stretch", steps(step_time_ms=changed(200, 500.0, 3.0, slice(90, 140), 700.0)), steps()),
    ("step-time-drift", steps(step_time_ms=np.linspace(500.0, 620.0, 200)), steps()),
    (
        "step-time-jitter",
        steps(step_time_ms=np.where(np.random.default_rng(2).random(200) < 0.4, 700.0, 440.0)),
        steps(),
    ),
    ("step-time-stalls", stalled(range(10, 200, 37), None), stalled(range(10, 60, 37), None)),
    (
        "checkpoint-stalls-training",
        stalled(range(19, 200, 20), "save"),
        events(steps(), {"kind": "save", "step": 3050}),
    ),
    ("evaluation-stalls-training", stalled(range(19, 200, 20), "validation"), validated(0.0)),
    # Megatron's timer stands still meanwhile: only time stamps show it.
    ("checkpoint-stalls-training", saved("save", 30.0), saved("save", 1.0)),
    ("evaluation-stalls-training", saved("validation", 30.0, 30.0), saved("save", 30.0)),
    ("training-paused", clocked(1500.0), saved("save", 900.0)),
    (
        "step-time-stalls",
        steps(step_time_ms=changed(200, 500.0, 3.0, list(range(10, 200, 37)), 2500.0), consumed_tokens=np.arange(200)),
        steps(step_time_ms=np.random.default_rng(4).lognormal(6.2, 0.35, 200)),
    ),
    (
        "data-loading-slows-steps",
        steps(framework="mmengine", data_ms=180.0),
        steps(framework="mmengine", data_ms=9.0),
    ),
    (
        "communication-bound-steps",
        events(steps(), *timer("all-grads-sync", 160.0)),
        events(steps(), *timer("all-grads-sync", 20.0)),
    ),
    (
        "pipeline-stages-wait",
        events(steps(), *timer("forward-recv", 230.0)),
        events(steps(), *timer("forward-recv", 30.0)),
    ),
    ("training-paused", clocked(1500.0), clocked(-7200.0)),
    ("steps-slower-after-restart", started_twice(1.3), started_twice(1.05)),
    ("rollout-dominates", steps(40, generate_ms=400.0), steps(40, generate_ms=100.0)),
    ("device-memory-grows", steps(memory_mb=np.linspace(30000.0, 45000.0, 200)), steps(memory_mb=45000.0)),
    (
        "device-memory-pressure",
        events(steps(), {"kind": "memory", "name": "max reserved", "value": 61000.0, "rank": 0}),
        events(steps(), {"kind": "memory", "name": "max reserved", "value": 41000.0, "rank": 0}),
    ),
    # Serving.
    ("requests-queue-with-free-cache", serving(waiting=20), serving(waiting=1)),
    # MindIE's scheduler tells no use of the cache, and prints a line per batch.
    (
        "requests-queue-with-free-cache",
        serving(framework="mindie", waiting=20, kv_usage_pct=NAN),
        serving(framework="mindie", waiting=20, kv_usage_pct=NAN, time=1_700_000_000_000_000 + np.arange(40) * 50_000),
    ),
    (
        "kv-cache-fills-up",
        serving(kv_usage_pct=np.linspace(50.0, 99.0, 40)),
        serving(kv_usage_pct=np.linspace(50.0, 70.0, 40)),
    ),
    ("requests-preempted", serving(preemptions=[at // 4 for at in range(40)]), serving(preemptions=0)),
    ("prefix-cache-misses", serving(prefix_hit_pct=0.1), serving()),
    (
        "decode-slow-per-request",
        serving(running=1, prompt_tps=0.0, generation_tps=5.0),
        serving(running=1, prompt_tps=0.0, generation_tps=45.0),
    ),
    (
        "generation-gets-slower",
        serving(generation_tps=np.linspace(800.0, 200.0, 40)),
        serving(generation_tps=np.linspace(800.0, 200.0, 40), running=np.linspace(16, 4, 40).astype(int)),
    ),
    ("first-token-late", requests(15_000.0, 30.0), requests(900.0, 30.0)),
    ("next-tokens-late", requests(900.0, 250.0), requests(900.0, 30.0)),
    # Cards.
    ("npu-utilisation-low", cards(each=lambda _: {"util_pct": 31.0}), cards()),
    ("npu-utilisation-uneven", cards(each=lambda device: {"util_pct": 40.0} if device == 2 else {}), cards()),
    (
        "npu-idle-card",
        cards(each=lambda device: {"util_pct": 0.0, "hbm_pct": 4.0, "hbm_used_mb": 2800.0} if device == 3 else {}),
        cards(),
    ),
    ("npu-clock-drop", cards(each=lambda _: {"clock_mhz": [1800.0] * 6 + [1200.0] * 4}), cards()),
    ("npu-temperature-high", cards(each=lambda device: {"temp_c": 98.0} if device == 1 else {}), cards()),
    ("npu-memory-full", cards(each=lambda device: {"hbm_pct": 99.0} if device == 0 else {}), cards()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "ill", "well"), CLAUSES, ids=[f"{number}-{name}" for number, (name, _, _) in enumerate(CLAUSES)]
)
def test_clause(name: str, ill: Tables, well: Tables) -> None:
    assert name in said(ill)
    assert name not in said(well)


@pytest.mark.parametrize("size", [260, 300, 340, 380])
def test_a_loss_that_swings_back_each_step_is_measured_at_any_length(size: int) -> None:
    loss = 2.0 + 0.2 * np.where(np.arange(size) % 2, 1.0, -1.0)
    found = analyze_texts({}, pack(), tables=steps(size, loss=loss)).findings
    swing = next(one for one in found if one.name == "loss-oscillation").captures
    assert swing["amplitude"] == pytest.approx(10.0, abs=0.5)
    assert swing["period"] == pytest.approx(2.0, abs=0.1)


def test_batches_of_different_sizes_stall_nothing() -> None:
    assert not {"step-time-stalls", "step-time-jitter", "step-time-slow-stretch"} & said(unequal(0.0)).keys()
    assert "step-time-stalls" in said(unequal(6000.0))


def test_steps_of_unpadded_sequences_may_scatter() -> None:
    took = np.random.default_rng(4).lognormal(6.2, 0.35, 200)
    option = {"file": "run.sh", "line": 3, "key": "--variable-seq-lengths", "value": "", "kind": "flag",
              "source": "script", "command": 0, "known": True, "sure": True, "stack": "MindSpeed-LLM"}  # fmt: skip
    assert "step-time-jitter" in said(steps(step_time_ms=took))
    assert "step-time-jitter" not in said({**steps(step_time_ms=took), "launch": [option]})


def test_the_time_of_saves_is_told_in_seconds() -> None:
    found = analyze_texts({}, pack(), tables=saved("save", 30.0, 4.0)).findings
    stall = next(one for one in found if one.name == "checkpoint-stalls-training")
    assert stall.captures["times"] == 4
    assert stall.captures["period"] == 40
    assert stall.captures["worst_s"] == pytest.approx(30.5, abs=0.2)
    assert stall.impact.lost_ms == pytest.approx(120_000, abs=500)


def test_a_run_in_good_health_raises_nothing() -> None:
    for tables in (steps(), hf(120), serving(), cards(), requests(500.0, 25.0)):
        assert {name for name, severity in said(tables).items() if severity != "info"} == set()


@pytest.mark.parametrize(("behind", "severity"), [(2.0, "warning"), (2.15, "error")], ids=["recovered", "lingering"])
def test_what_became_of_a_spike_sets_its_severity(behind: float, severity: str) -> None:
    loss = np.random.default_rng(5).normal(2.0, 0.01, 300)
    loss[150] = 6.0
    loss[151:] += behind - 2.0
    assert said(steps(300, loss=loss))["loss-spike"] == severity


def test_a_spike_that_does_not_come_back_is_a_divergence() -> None:
    loss = np.random.default_rng(5).normal(2.0, 0.01, 300)
    loss[150:] += 2.0
    assert said(steps(300, loss=loss)).keys() & {"loss-divergence", "loss-spike"}


def test_the_last_row_alone_is_a_warning() -> None:
    found = said(hf(60, total_steps=900, grad_norm=changed(60, 1.0, 0.1, 59, NAN)))
    assert found["loss-not-finite"] == "warning"


def test_warm_up_and_resume_are_muted() -> None:
    rate = np.minimum(1.0, np.arange(1, 201) / 120) * 1e-4
    rough = changed(200, 2.0, 0.01, [40, 70, 100], 4.0)
    assert "loss-spike" not in said(steps(200, 1, lr=rate, loss=rough))
    assert "loss-spike" in said(steps(200, 1, lr=1e-4, loss=changed(200, 2.0, 0.01, 170, 4.0)))
    assert "loss-spike" not in said(restarted(1.6))


def test_statistics_need_32_rows() -> None:
    short, long = changed(34, 2.0, 0.01, 30, 3.0), changed(60, 2.0, 0.01, 50, 3.0)
    assert "loss-spike" not in said(steps(34, loss=short))
    assert "loss-spike" in said(steps(60, loss=long))


def test_what_is_plain_is_said_of_a_few_lines() -> None:
    doubled = steps(4, loss=[2.1, 2.1, 2.2, 5.3], grad_norm=[0.5, 40.0, 9000.0, 8000.0])
    assert said(doubled)["loss-spike"] == "error"
    assert "loss-spike" not in said(steps(4, loss=[2.1, 2.1, 2.2, 2.3]))
    assert said(steps(2, loss=[2.1, NAN]))["loss-not-finite"] == "critical"


@pytest.mark.parametrize("by_s", [-7200.0, 3 * 86400.0 * 400, 40 * 86400.0])
def test_clocks_that_are_set_alarm_nobody(by_s: float) -> None:
    assert {name for name, severity in said(clocked(by_s)).items() if severity != "info"} == set()


def test_throughput_is_that_outside_of_the_stretch_and_in_it() -> None:
    slow = changed(400, 500.0, 3.0, slice(190, 260), 700.0)
    tables = steps(400, step_time_ms=slow, tflops=70_000 / slow)
    (found,) = (item for item in analyze_texts({}, pack(), tables=tables).findings if item.code == "PRF101")
    assert found.captures["rate_before"] == pytest.approx(140, abs=1)
    assert found.captures["rate_after"] == pytest.approx(100, abs=1)


def test_clocks_that_jump_make_no_pause_of_days() -> None:
    assert "training-paused" not in said(clocked(60 * 86400.0))


ODD = np.array([0.0, -1.0, 1e-12, 1.0, 2.0, 3e8, 1.7e308, -1.7e308, math.inf, -math.inf, math.nan])


@pytest.mark.parametrize("seed", range(24))
def test_no_values_break_a_rule(seed: int) -> None:
    rnd = np.random.default_rng(seed)

    def odd(size: int, among: int = ODD.size) -> np.ndarray:
        return np.where(rnd.random(size) < 0.5, rnd.choice(ODD[:among], size), rnd.normal(2.0, 0.5, size))

    size = int(rnd.choice([1, 2, 3, 5, 8, 20, 40, 150]))
    place = {"file": FILE, "line": np.arange(1, size + 1), "time": rnd.integers(0, 2**50, size)}
    train = {name: odd(size) for name in ("loss", "grad_norm", "lr", "loss_scale", "step_time_ms", "memory_mb")}
    train |= {name: odd(size) for name in ("data_ms", "generate_ms", "epoch", "samples_per_s", "tflops")}
    serve = {name: odd(size) for name in ("kv_usage_pct", "prefix_hit_pct", "prompt_tps", "generation_tps", "ttft_ms")}
    card = {name: odd(size) for name in ("util_pct", "hbm_used_mb", "hbm_pct", "temp_c", "power_w", "clock_mhz")}
    whole = rnd.integers(-3, 60, (7, size))
    tables = {
        "train_steps": rows(size, **place, **train, framework=str(rnd.choice(["megatron", "hf", "verl", "mmengine"])),
                            step=np.sort(whole[0]) if seed % 2 else whole[0], skipped=whole[1], total_steps=whole[2]),
        "train_events": rows(size, **place, step=whole[0], value=odd(size), low=odd(size),
                             kind=str(rnd.choice(["validation", "timer", "memory", "save", "silence"])),
                             name=str(rnd.choice(["lm loss", "all-grads-sync", "max reserved"]))),
        "serving": rows(size, **place, **serve, running=whole[3], waiting=whole[4], preemptions=whole[5],
                        framework=str(rnd.choice(["vllm", "request", "benchmark", "sglang"]))),
        "npu_samples": rows(size, **place, **card, device=whole[6]),
    }  # fmt: skip
    result = analyze_texts({}, pack(), tables=tables)
    assert [(broken.code, broken.message) for broken in result.errors] == []
    assert result.facts is not None
