"""Settings, effects and loss curves by themselves."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from npudiag.advice import registry
from npudiag.comparison import effects, loss, scaling, settings, speed
from npudiag.comparison.model import Setting
from npudiag.comparison.snapshot import Losses, Pace, Parts, Settings, Snapshot, Talk


def side(source: str, **values: str) -> Snapshot:
    named = {name.replace("__", "--").replace("_", "-") if name.startswith("__") else name: (value, 7)
             for name, value in values.items()}  # fmt: skip
    return Snapshot(settings=[Settings(source=source, file="run.sh", values=named)])


def changed(a: Snapshot, b: Snapshot) -> dict[str, tuple[str | None, str | None]]:
    return {item.name: (item.a, item.b) for item in settings.differing(a, b)}


def test_settings_that_differ() -> None:
    a = side("script", __overlap_grad_reduce="", __lr="1e-4", __save="/a")
    b = side("script", __lr="2e-4", __save="/b", __bf16="")
    assert changed(a, b) == {
        "--overlap-grad-reduce": ("", None), "--lr": ("1e-4", "2e-4"), "--bf16": (None, ""), "--save": ("/a", "/b"),
    }  # fmt: skip
    found = settings.differing(a, b)
    assert found[-1].name == "--save" and found[-1].incidental, "what differs from run to run comes last"
    assert found[0].at_a == "run.sh:7" or found[0].at_b == "run.sh:7"


def test_a_dump_says_false_where_a_script_says_nothing() -> None:
    a = side("dump", __overlap_grad_reduce="True", __profile="False")
    b = side("dump", __overlap_grad_reduce="False", __profile="False")
    assert changed(a, b) == {"--overlap-grad-reduce": ("", None)}


def test_a_script_is_looked_up_in_a_dump() -> None:
    a = side("script", __overlap_grad_reduce="", __lr="1e-4")
    b = side("dump", __overlap_grad_reduce="False", __lr="1e-4", __seed="1234", __bf16="True")
    assert changed(a, b) == {"--overlap-grad-reduce": ("", None)}
    assert changed(b, a) == {"--overlap-grad-reduce": (None, "")}


def test_sides_without_a_common_source_are_not_compared() -> None:
    assert changed(side("script", __lr="1"), side("env", HCCL_ALGO="x")) == {}


def test_versions() -> None:
    a, b = Snapshot(versions={"CANN": "8.2.RC1", "torch_npu": "2.7.1"}), Snapshot(versions={"CANN": "8.3.RC1"})
    assert changed(a, b) == {"CANN": ("8.2.RC1", "8.3.RC1")}


@pytest.mark.parametrize(
    ("a", "b", "direction"),
    [("", None, -1), (None, "", 1), ("1", "2", 1), ("8", "2", -1), ("full", "selective", 0), ("1", "1.0", 0)],
)
def test_direction(a: str | None, b: str | None, direction: int) -> None:
    assert effects.direction(Setting(name="x", kind="option", a=a, b=b)) == direction


def test_effects_are_of_options_that_exist() -> None:
    unknown = [
        name
        for name in effects.EFFECTS
        if name.startswith("--") and all(registry.lookup(name, stack) is None for stack in registry.STACKS)
    ]
    assert unknown == []


# Explanations


def parts(**values: float) -> Parts:
    given = {"computing": 100.0, "communication": 20.0, "pipeline": 0.0, "free": 5.0, "overlapped": 30.0, **values}
    step = sum(given[name] for name in ("computing", "communication", "pipeline", "free"))
    return Parts(step_ms=step, ranks=2, steps=2, **given)  # type: ignore[arg-type]


def setting(name: str, a: str | None, b: str | None) -> Setting:
    return Setting(name=name, kind="option", a=a, b=b)


def test_only_a_setting_that_works_that_way_is_said_to_be_the_reason() -> None:
    a, b = Snapshot(parts=parts()), Snapshot(parts=parts(communication=60.0, overlapped=0.0))
    (cause,) = speed.causes(a, b, [setting("--overlap-grad-reduce", None, "")])
    assert cause.settings == [] and "since" not in cause.text.en, "turning it on cannot make it slower"
    gone = setting("--overlap-grad-reduce", "", None)
    (cause,) = speed.causes(a, b, [gone, setting("--lr", "1", "2")])
    assert cause.certain and cause.settings == ["--overlap-grad-reduce"]
    (cause,) = speed.causes(a, b, [gone, setting("--unheard-of", None, "")])
    assert cause.certain, "the profiles show that what ran under kernels no longer does"
    slower = Snapshot(parts=parts(computing=140.0))
    flash = setting("--use-flash-attn", "", None)
    (cause,) = speed.causes(a, slower, [flash])
    assert cause.certain and "since --use-flash-attn is gone" in cause.text.en
    (cause,) = speed.causes(a, slower, [flash, Setting(name="CANN", kind="version", a="8.2", b="8.3")])
    assert not cause.certain and "may come from" in cause.text.en, "another version may be the reason as well"
    (cause,) = speed.causes(a, b, [gone, setting("HCCL_ALGO", "x", "y")])
    assert not cause.certain and "may come from" in cause.text.en, "either may be it"


def test_waiting_for_late_ranks_is_told_apart() -> None:
    talk = Talk(parallel="dp", op="allReduce", count=4, ms=50.0, late_ms=0.0, size_mb=1.0)
    late = Talk(parallel="dp", op="allReduce", count=4, ms=90.0, late_ms=38.0, size_mb=1.0)
    a = Snapshot(parts=parts(), talks=[talk])
    b = Snapshot(parts=parts(communication=60.0), talks=[late])
    (cause,) = speed.causes(a, b, [])
    assert "38.0 ms of it waiting for ranks that come late" in cause.text.en.replace("+", "")
    assert "dp communication" in cause.text.en


def test_small_changes_are_no_causes() -> None:
    assert speed.causes(Snapshot(parts=parts()), Snapshot(parts=parts(free=5.1)), []) == []
    assert speed.causes(Snapshot(parts=parts()), Snapshot(), []) == []


def paced(step_ms: float, cards: int, batch: float | None, **rates: float) -> Snapshot:
    return Snapshot(cards=cards, batch=batch, pace=Pace(step_ms=step_ms, p95_ms=step_ms, steps=100, rates=rates))


def test_scaling_by_samples_and_by_throughput_per_card() -> None:
    found = scaling.compare(paced(1000, 8, 64), paced(1150, 16, 128), [])
    assert found is not None and found.efficiency_pct == pytest.approx(86.96, abs=0.01)
    assert found.ideal_ms == 1000 and found.lost_ms == pytest.approx(150)
    found = scaling.compare(paced(1000, 8, 64), paced(540, 16, 64), [])
    assert found is not None and found.efficiency_pct == pytest.approx(92.59, abs=0.01) and found.ideal_ms == 500
    found = scaling.compare(paced(1000, 8, None, tflops=180.0), paced(1150, 16, None, tflops=160.0), [])
    assert found is not None and found.basis == "tflops" and found.efficiency_pct == pytest.approx(88.89, abs=0.01)
    assert scaling.compare(paced(1000, 8, None), paced(1150, 16, None), []) is None
    profiled = [
        Snapshot(cards=cards, batch=64.0, parts=parts(communication=more)) for cards, more in ((8, 20), (16, 40))
    ]
    found = scaling.compare(*profiled, [])
    assert found is not None and found.basis == "samples", "by the profiles where there are no logs"
    assert found.ideal_ms == pytest.approx(62.5) and found.lost_ms == pytest.approx(82.5)
    assert [cause.part for cause in found.lost] == ["computing", "communication", "free"]
    assert scaling.compare(paced(1000, 8, 64), paced(1000, 8, 64), []) is None


def test_different_models_are_not_called_slow() -> None:
    found = scaling.compare(paced(1000, 8, 64), paced(3000, 16, 64), [], same_samples=False)
    assert found is None, "samples of different models say nothing"
    pair = [paced(1000, 8, 64, tflops=180.0), paced(3000, 16, 64, tflops=171.0)]
    found = scaling.compare(*pair, [], same_samples=False)
    assert found is not None and found.basis == "tflops" and found.efficiency_pct == pytest.approx(95)
    assert effects.per_sample("--hidden-size") and not effects.per_sample("--global-batch-size")


def test_step_times_of_different_work_are_not_compared_as_they_are() -> None:
    found = speed.step(paced(1000, 8, 64), paced(2000, 8, 128))
    assert found is not None and found.name == "card time per sample" and found.change == 0
    assert speed.step(paced(1000, 8, None), paced(600, 16, None)) is None


# Loss


def curve(values: list[float], **more: Any) -> Losses:
    return Losses(file="train.log", steps=[float(n) for n in range(1, len(values) + 1)], losses=values, **more)


def noisy(seed: int, length: int = 300, drift_from: int | None = None, drift: float = 0.01) -> list[float]:
    rnd = random.Random(seed)
    return [
        2
        + 6 / (1 + 0.05 * n)
        + 0.03 * rnd.gauss(0, 1)
        + (drift * (n - drift_from) if drift_from and n > drift_from else 0)
        for n in range(1, length + 1)
    ]


def test_noise_is_no_divergence() -> None:
    for seed in range(20):
        found = loss.compare(curve(noisy(seed)), curve(noisy(seed + 100)), same_batch=True)
        assert found is not None and found.state == "within-noise", (seed, found.divergence)


def test_a_drift_is_found_where_it_begins() -> None:
    for seed in range(10):
        found = loss.compare(curve(noisy(seed)), curve(noisy(seed + 100, drift_from=150)), same_batch=True)
        assert found is not None and found.divergence is not None and 150 <= found.divergence.at <= 175


def test_a_spike_that_heals_is_no_divergence() -> None:
    values = noisy(1)
    spiked = [value + (3 if 100 <= n < 106 else 0) for n, value in enumerate(values)]
    found = loss.compare(curve(values), curve(spiked), same_batch=True)
    assert found is not None and found.state == "within-noise"
    assert found.first_difference is not None and found.first_difference.at == 101


def test_not_a_number_is_one() -> None:
    values = noisy(1, 50)
    found = loss.compare(curve(values), curve([*values[:40], *[math.nan] * 10]), same_batch=True)
    assert found is not None and found.divergence is not None and found.divergence.at == 41


def test_curves_are_aligned_by_samples_where_batches_differ() -> None:
    rule = lambda samples: 2 + 6 / (1 + 0.001 * samples)  # noqa: E731
    a = curve([rule(64 * n) for n in range(1, 201)], samples=[64.0 * n for n in range(1, 201)])
    b = curve([rule(96 * n) for n in range(1, 201)], samples=[96.0 * n for n in range(1, 201)])
    found = loss.compare(a, b, same_batch=False)
    assert found is not None and found.by == "samples" and found.state != "diverged"
    by_step = loss.compare(a, b, same_batch=True)
    assert by_step is not None and by_step.by == "step" and by_step.state == "diverged"


def test_too_few_points_say_nothing() -> None:
    assert loss.compare(curve([1.0, 2.0]), curve([1.0, 2.0]), same_batch=True) is None
    assert loss.compare(None, curve([1.0] * 9), same_batch=True) is None
