"""What the metrics of reinforcement learning say of a policy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from npudiag.analyses import policy
from npudiag.analyses.series import Series, build
from npudiag.tables.store import Store

NOISE = np.random.default_rng(7).normal(0, 0.01, 400)


def series(**columns: list[float]) -> Series:
    store = Store()
    size = len(next(iter(columns.values())))
    store.columns("train_steps").extend_columns(
        size,
        {"step": list(range(1, size + 1)), "line": list(range(1, size + 1)), **columns},
        {"framework": ["verl"] * size, "file": ["a.log"] * size},
    )
    return build(store)[0]


def noisy(*levels: float) -> list[float]:
    return [level + float(NOISE[index]) for index, level in enumerate(levels)]


RISE = [0.1 + min(index, 30) / 60 for index in range(60)]


def test_a_reward_that_is_lost_again() -> None:
    found = policy.reward_fell(series(reward=noisy(*RISE, *(0.15,) * 20)))
    assert found is not None
    assert found.before == pytest.approx(0.6, abs=0.03) and found.now == pytest.approx(0.15, abs=0.03)
    assert 28 <= found.top <= 60 and found.index >= 70


@pytest.mark.parametrize(
    "reward",
    [
        noisy(*RISE, *(0.5,) * 20),  # a part of the rise only
        noisy(*(0.3,) * 80),  # it never rose
        noisy(*reversed(RISE)),  # it only fell: nothing was learned that could be lost
        noisy(*RISE[:35], 0.1, *RISE[36:]),  # one bad step
        noisy(*RISE[:20], *(0.1,) * 15),  # too few
    ],
)
def test_a_reward_that_is_not(reward: list[float]) -> None:
    assert policy.reward_fell(series(reward=reward)) is None


def test_entropy_that_is_used_up() -> None:
    gone = [max(0.01, 0.6 * math.exp(-index / 8)) for index in range(80)]
    found = policy.entropy_gone(series(entropy=gone))
    assert found is not None and found.now == 0.01 and found.before > 0.3
    assert policy.entropy_gone(series(entropy=[value + 0.04 for value in gone])) is None
    # It began low: nothing was used up.
    assert policy.entropy_gone(series(entropy=[0.02] * 80)) is None


def test_a_reward_stands_still_where_its_last_third_is_no_better() -> None:
    assert policy.stands_still(series(reward=noisy(*RISE, *(0.6,) * 60)))
    assert not policy.stands_still(series(reward=noisy(*(index / 90 for index in range(90)))))
    assert not policy.stands_still(series(entropy=[0.5] * 60))


@pytest.mark.parametrize(
    ("column", "judge", "limit"),
    [("policy_kl", policy.step_too_far, 0.1), ("cut_pct", policy.responses_cut, 30.0)],
)
def test_the_last_rows_decide(column: str, judge: Any, limit: float) -> None:
    assert judge(series(**{column: [limit * 1.5] * 30})) is not None
    assert judge(series(**{column: [limit * 0.9] * 30})) is None
    assert judge(series(**{column: [limit * 1.5] * 30 + [0.0] * 16})) is None
    assert judge(series(**{column: [limit * 1.5] * 15})) is None
