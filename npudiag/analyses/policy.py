"""Reinforcement learning: whether the policy still explores, how far a step moves it, whether the reward holds.

Medians of nine rows at both ends are compared, so that single steps count for nothing; 40 rows are needed.

* Entropy: below a tenth of that at the start and below 0.03 per token, where no token is really drawn any more (Cui et
  al. 2025, arXiv 2505.22617: reward saturates as entropy is used up). A healthy PPO run of 435 steps ended at 0.055,
  a tenth of its start.
* Step of the policy: the KL divergence of old and new policy within one update. PPO implementations stop an update at
  1.5 times a target of 0.01 to 0.05 (OpenAI Spinning Up); 0.1 as the median of the last rows is beyond all of that.
* Reward: it had risen by six deviations of its own noise, and half of the rise is lost again.
* Responses cut: the share of rollouts that end at the longest length allowed instead of by themselves. Their reward is
  noise (DAPO, arXiv 2503.14476); 30 % is our own limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from npudiag.analyses.series import Series, once

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudiag.analyses.series import Floats

    Rows = npt.NDArray[np.int64]

LEAST = 40
_WIDTH = 9
_LAST = 16
_SIGMA = 6.0
_ENTROPY = 0.03
_ENTROPY_SHARE = 0.1
_POLICY_KL = 0.1
_CUT_PCT = 30.0


@dataclass(frozen=True, slots=True)
class Change:
    """How a quantity changed.

    Attributes:
        index: The row that shows it.
        before: Level at the start, or at its best.
        now: Level at the end.
        top: Row of `before`.
    """

    index: int
    before: float
    now: float
    top: int


def _told(one: Series, name: str, least: int = LEAST) -> tuple[Rows, Floats] | None:
    """Return rows and values of a column, None where fewer than `least` are told."""
    values = one.get(name)
    rows = np.flatnonzero(np.isfinite(values))
    return (rows, values[rows]) if rows.size >= least else None


def _levels(values: Floats) -> Floats:
    """Return the median of nine rows around each row; at the ends of the nearest nine."""
    inner = np.median(np.lib.stride_tricks.sliding_window_view(values, _WIDTH), axis=1)
    return np.pad(inner, _WIDTH // 2, mode="edge")


def _nearest(rows: Rows, values: Floats, level: float) -> int:
    """Return, of the last rows, the one closest to their level."""
    tail = values[-_WIDTH:]
    return int(rows[-tail.size :][int(np.argmin(np.abs(tail - level)))])


@once
def reward_fell(one: Series) -> Change | None:
    """Find a reward that had grown and was lost again."""
    told = _told(one, "reward")
    if told is None:
        return None
    rows, values = told
    levels = _levels(values)
    noise = 1.4826 * float(np.median(np.abs(values - levels)))
    top = int(np.argmax(levels))
    first, best, now = float(levels[0]), float(levels[top]), float(levels[-1])
    if best - first <= _SIGMA * noise or best - now <= _SIGMA * noise or best - now <= 0.5 * (best - first):
        return None
    return Change(_nearest(rows, values, now), best, now, int(rows[top]))


@once
def entropy_gone(one: Series) -> Change | None:
    """Find a policy whose entropy is used up."""
    told = _told(one, "entropy")
    if told is None:
        return None
    rows, values = told
    levels = _levels(values)
    first, now = float(levels[0]), float(levels[-1])
    if now >= _ENTROPY or now >= _ENTROPY_SHARE * first:
        return None
    return Change(_nearest(rows, values, now), first, now, int(rows[0]))


def stands_still(one: Series) -> bool:
    """Whether the reward of the last third is no better than that of the third before it."""
    told = _told(one, "reward")
    if told is None:
        return False
    parts = np.array_split(told[1], 3)
    spread = float(np.std(parts[1])) / max(1.0, float(np.sqrt(parts[1].size)))
    return float(np.mean(parts[2])) <= float(np.mean(parts[1])) + 2 * spread


@once
def step_too_far(one: Series) -> Change | None:
    """Find updates that move the policy far from the one that made the rollouts."""
    return _last_above(one, "policy_kl", _POLICY_KL)


@once
def responses_cut(one: Series) -> Change | None:
    """Find rollouts that mostly end at the longest length allowed."""
    return _last_above(one, "cut_pct", _CUT_PCT)


def _last_above(one: Series, name: str, limit: float) -> Change | None:
    told = _told(one, name, _LAST)
    if told is None:
        return None
    rows, values = told
    now = float(np.median(values[-_LAST:]))
    if now < limit:
        return None
    return Change(_nearest(rows, values, now), float(np.median(values[:_WIDTH])), now, int(rows[0]))
