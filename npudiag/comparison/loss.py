"""Two loss curves, aligned by step or by samples consumed.

They are said to diverge where their distance, smoothed over eight points, leaves what their own noise explains and
stays outside for most of the rest. The noise is the spread of the differences between neighbouring points of each
curve (1.4826 x MAD / sqrt 2), so a run that is noisy by itself is given more room.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from npudiag.comparison import words
from npudiag.comparison.model import Loss, LossPoint, Said
from npudiag.comparison.snapshot import Losses

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_LEAST = 4
_WINDOW = 8
_RELATIVE = 0.01
_SIGMAS = 4.0
_STAYS = 0.75
_CURVE = 240

_BY: dict[str, Said] = {"step": Said("step", "第 {at} 步"), "samples": Said("sample", "第 {at} 个样本处")}


def compare(a: Losses | None, b: Losses | None, *, same_batch: bool) -> Loss | None:
    """Compare two curves; None where fewer than four points are common.

    Args:
        a: One curve.
        b: The other.
        same_batch: Whether a step is as many samples in both; if not, they are aligned by samples where both tell them.
    """
    import numpy as np

    if a is None or b is None:
        return None
    by: Literal["step", "samples"] = "samples" if not same_batch and a.samples and b.samples else "step"
    left = dict(zip(a.samples if by == "samples" else a.steps, a.losses, strict=True))
    right = dict(zip(b.samples if by == "samples" else b.steps, b.losses, strict=True))
    common = sorted(left.keys() & right.keys())
    if by == "samples" and len(common) < _LEAST:
        return _interpolated(left, right)
    if len(common) < _LEAST:
        return None
    return _judge(by, np.array(common), np.array([left[x] for x in common]), np.array([right[x] for x in common]))


def _interpolated(left: dict[float, float], right: dict[float, float]) -> Loss | None:
    """Compare curves whose batches differ, at the points of the one with fewer of them."""
    import numpy as np

    xa, xb = np.array(sorted(left)), np.array(sorted(right))
    ya, yb = np.array([left[x] for x in xa]), np.array([right[x] for x in xb])
    if xa.size < 2 or xb.size < 2:
        return None
    grid = xa if xa.size <= xb.size else xb
    grid = grid[(grid >= max(xa[0], xb[0])) & (grid <= min(xa[-1], xb[-1]))]
    if grid.size < _LEAST:
        return None
    return _judge("samples", grid, np.interp(grid, xa, ya), np.interp(grid, xb, yb))


def _judge(by: Literal["step", "samples"], x: Floats, a: Floats, b: Floats) -> Loss:
    import numpy as np

    def point(index: int) -> LossPoint:
        return LossPoint(at=float(x[index]), a=float(a[index]), b=float(b[index]))

    same = (a == b) | (np.isnan(a) & np.isnan(b))
    different = np.flatnonzero(~same)
    first = point(int(different[0])) if different.size else None
    apart = _apart(a, b)
    state: Literal["identical", "within-noise", "diverged"] = (
        "identical" if first is None else "within-noise" if apart is None else "diverged"
    )
    keep = np.unique(np.linspace(0, x.size - 1, min(_CURVE, x.size)).astype(int))
    divergence = point(apart) if apart is not None else None
    return Loss(
        by=by,
        points=int(x.size),
        state=state,
        first_difference=first,
        divergence=divergence,
        last=point(x.size - 1),
        curve=[point(int(index)) for index in keep],
        text=_text(by, int(x.size), first, divergence, point(x.size - 1)),
    )


def _apart(a: Floats, b: Floats) -> int | None:
    """Return the first point from which on the curves stay apart; None where they do not."""
    import numpy as np

    broken = ~np.isfinite(a) != ~np.isfinite(b)
    finite = np.isfinite(a) & np.isfinite(b)
    if not finite.any():
        return int(np.flatnonzero(broken)[0]) if broken.any() else None
    noise = math.hypot(_noise(a[finite]), _noise(b[finite]))
    width = min(_WINDOW, int(finite.sum()))
    distance = np.where(finite, b - a, 0.0)
    smooth = np.convolve(distance, np.ones(width) / width, mode="full")[: distance.size]
    # The first points are means over fewer values.
    smooth[: width - 1] *= width / np.arange(1, width)
    level = np.where(finite, np.abs(a), 0.0)
    room = np.maximum(_RELATIVE * level, _SIGMAS * noise / math.sqrt(width))
    outside = (np.abs(smooth) > room) | broken
    for index in np.flatnonzero(outside):
        if outside[index:].mean() >= _STAYS and (outside.size - index >= 3 or broken[index]):
            # The mean trails behind the point at which the distance itself opens.
            begin = max(0, int(index) - width + 1)
            early = np.flatnonzero(np.abs(distance[begin : index + 1]) > room[begin : index + 1])
            return begin + int(early[0]) if early.size else int(index)
    return None


def _noise(values: Floats) -> float:
    import numpy as np

    if values.size < 3:
        return 0.0
    steps = np.diff(values)
    return float(1.4826 * np.median(np.abs(steps - np.median(steps))) / math.sqrt(2))


def _at(by: str, at: float) -> Said:
    number = f"{at:,.0f}"
    return Said(f"{_BY[by].en} {number}", _BY[by].zh.format(at=number))


def _text(by: str, points: int, first: LossPoint | None, divergence: LossPoint | None, last: LossPoint) -> Said:
    count = f"{points:,}"
    if first is None:
        return words.both("The loss is the same at all {n} common points.", "loss 在全部 {n} 个公共点上相同。", n=count)
    where = _at(by, (divergence or first).at)
    change = 100 * (last.b - last.a) / abs(last.a) if last.a and math.isfinite(last.a) else math.nan
    ends = f"{last.a:.4g} -> {last.b:.4g}" + (f", {words.pct(change, signed=True)}" if math.isfinite(change) else "")
    if divergence is None:
        return words.both(
            "The loss differs from {where} on, within its own noise ({n} points; at the end {ends}).",
            "loss 自{zh}起数值不同，但在自身波动范围内（{n} 个点；末值 {ends}）。",
            where=where.en, zh=where.zh, n=count, ends=ends,
        )  # fmt: skip
    return words.both(
        "The loss diverges from {where} on: {a} in A, {b} in B (at the end {ends}).",
        "loss 曲线自{zh}起分离：A 为 {a}，B 为 {b}（末值 {ends}）。",
        where=where.en, zh=where.zh, a=f"{divergence.a:.4g}", b=f"{divergence.b:.4g}", ends=ends,
    )  # fmt: skip
