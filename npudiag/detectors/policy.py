"""Detectors on reinforcement learning: entropy, size of updates, reward, length of rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from npudiag.analyses import policy as judge
from npudiag.analyses.series import Series, primary
from npudiag.detectors.series_hits import each, make
from npudiag.engine.hits import Hit

if TYPE_CHECKING:
    from npudiag.tables.store import Store


def _hit(
    store: Store, one: Series, found: judge.Change, column: str, marks: tuple[str, ...], severity: str | None = None
) -> Hit:
    return make(
        store,
        one,
        found.index,
        {"before": round(found.before, 4), "now": round(found.now, 4)},
        shown=[(found.top, "where it came from")],
        plot=(column, "reward") if column != "reward" else ("reward", "entropy"),
        marks=marks,
        severity=severity,
    )


def entropy(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The policy draws nothing but what it is sure of."""

    def hit(one: Series, found: judge.Change) -> Hit:
        severity = "warning" if judge.stands_still(one) else "info"
        return _hit(store, one, found, "entropy", ("actor/entropy",), severity)

    return each(primary(store), judge.entropy_gone, hit)


def update_size(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Updates move the policy too far."""
    return each(
        primary(store),
        judge.step_too_far,
        lambda one, found: _hit(store, one, found, "policy_kl", ("actor/ppo_kl",)),
    )


def reward(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The reward was lost again."""
    return each(
        primary(store),
        judge.reward_fell,
        lambda one, found: _hit(store, one, found, "reward", ("score/mean", "rewards/mean")),
    )


def cut(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Rollouts end at the longest length allowed."""
    return each(
        primary(store),
        judge.responses_cut,
        lambda one, found: _hit(store, one, found, "cut_pct", ("response_length/clip_ratio",)),
    )
