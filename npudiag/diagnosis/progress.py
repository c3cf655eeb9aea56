"""How far training had come when it broke: the last step ahead of a fatal root finding."""

from __future__ import annotations

from collections.abc import Sequence

from npudiag.diagnosis.moments import Spans, is_set, span
from npudiag.result import Finding
from npudiag.tables.columns import Columns

_ABOUT_STEPS = ("numerics", "performance", "insufficient-evidence")
"""Categories whose findings name their steps themselves."""
_LONGEST_S = 6 * 3600.0
"""A failure that comes longer after the last step belongs to something else, in seconds."""


def tell(findings: Sequence[Finding], steps: Columns, spans: Spans | None = None) -> None:
    """Say in the summary of the root cause which step was the last one before it, in place.

    Args:
        findings: Findings in the order to tell them.
        steps: Table ``train_steps``.
        spans: When they happened, on one clock.
    """
    root = findings[0] if findings else None
    if root is None or not root.impact.fatal or root.category in _ABOUT_STEPS or root.scope.steps:
        return
    at = span(root, spans).first
    if at is None or not is_set(at) or not steps.has("time") or not steps.has("step"):
        return
    import numpy as np

    times, numbers = steps.numbers("time") / 1e6, steps.numbers("step")
    before = np.flatnonzero(np.isfinite(times) & np.isfinite(numbers) & (times <= at) & (times >= at - _LONGEST_S))
    if not before.size:
        return
    last = int(before[np.lexsort((numbers[before], times[before]))[-1]])
    step, gap = int(numbers[last]), at - float(times[last])
    if (np.isfinite(numbers) & (times > at) & (numbers > step)).any():
        # Training went on: it is not what ended it.
        return
    ago = f"{gap:,.0f} s" if gap >= 10 else f"{gap:.1f} s"
    root.summary += f" The last step ahead of it in the training log is {step}, {ago} before."
    zh = root.i18n.get("zh")
    if zh is not None:
        zh["summary"] = f"{zh.get('summary', '')}训练日志中在此之前的最后一步是第 {step} 步，早 {ago}。"
