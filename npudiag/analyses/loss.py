"""Loss, gradient norm, loss scale and learning rate: what is normal, what is not, and when it began.

Formulas, with where they come from:

* Baseline: median m and robust deviation s = 1.4826 x MAD of the 128 rows before (robust statistics; the window is
  that of OLMo-core's skip step optimizer, which asks for 64 of 128 rows; here 32 are enough to speak).
* Loss spike: x - m > max(6 s, 0.3 m) (6 sigma as in OLMo-core; the relative part keeps small batches quiet).
* Gradient spike: g > max(5 m, m + 8 s). Healthy NPU reference runs stay below 3 x their rolling median.
* Divergence: the median of the last blocks lies 25 % above the best block so far and goes on rising. Between the
  1.5 x of InternEvo's monitor (one step) and the 2 x sustained of LLM Foundry's loss-spike callback.
* Plateau: less than 0.1 % better over max(1000 steps, 5 % of the run).
* Start of a fine-tune near ln(vocabulary): cross entropy of guessing, so weights were not loaded.

Rows of the learning-rate warm-up are not judged by statistics. What is plain in a few lines is said of a few lines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from npudiag.analyses.series import Series, baseline, groups, once

if TYPE_CHECKING:
    from npudiag.analyses.series import Bools, Floats

LEAST = 32
"""Rows from which on statistics speak."""

_TRAINERS = ("hf", "trainer-log", "trainer-state", "tqdm", "mmengine")
"""Kinds of line whose gradient norm is NaN for a step that a scaler skipped, and whose loss may leave NaN out."""
RANDOM = 12.6
"""ln of 300,000: a loss above it is worse than guessing with any vocabulary in use."""


@once
def warm(one: Series) -> int:
    """Return the row from which on the run is judged: behind the learning rate's warm-up, at most half of the rows.

    An excerpt from the middle of a run has no warm-up.
    """
    if not one.from_start:
        return 0
    lr = one.get("lr")
    finite = np.flatnonzero(np.isfinite(lr))
    rows = min(100, len(one) // 4)
    if finite.size and lr[finite].max() > 0 and lr[finite[0]] < 0.9 * lr[finite].max():
        rows = int(finite[int(np.argmax(lr[finite] >= 0.99 * lr[finite].max()))])
    elif one.has_steps and len(one) > 1:
        rows = int(np.searchsorted(one.x, 100))
    return min(rows, len(one) // 2)


@dataclass(slots=True)
class NotFinite:
    """The first row whose loss or gradient is not finite, or whose loss vanished.

    Attributes:
        index: The row.
        how: What gave it away.
        rows: How many rows show it.
        last_good: The last row before with a finite loss, None where there is none.
        sure: Whether it lasts; False where only the last row of a log that breaks off shows it.
    """

    index: int
    how: Literal["loss", "gradient", "vanished", "zero"]
    rows: int
    last_good: int | None
    sure: bool = True


def not_finite(one: Series) -> NotFinite | None:
    """Find the first step whose loss was NaN or Inf.

    Megatron prints a loss only if it is above zero, so a row without one that skipped nothing had none to show.
    Steps that the search for the loss scale skips have no loss either; they are counted as skipped and are fine.
    HF's trainer filters NaN out of its average: what is left is 0.0 beside a gradient norm of NaN. A norm of NaN in
    the last row only, or in the last two of more than five, is told where the run breaks off there and no earlier
    step was skipped so: it is then no scaler.
    """
    loss, norm = one.get("loss"), one.get("grad_norm")
    has_loss, has_norm = one.has("loss"), one.has("grad_norm")
    skipped = np.nan_to_num(one.get("skipped"), nan=0.0)
    scale = one.get("loss_scale")
    bad_loss = has_loss & ~np.isfinite(loss)
    bad_norm = has_norm & ~np.isfinite(norm) & (skipped == 0)
    open_end = False
    if one.framework in _TRAINERS:
        tail = 2 if len(one) > 5 and bool(bad_norm[-2]) else 1
        open_end = bool(bad_norm.size and bad_norm[-1] and not bad_norm[:-tail].any() and _breaks_off(one))
        zero = (loss == 0.0) & bad_norm
        # Scalers of fp16 report single steps they skip; what stays so does not come back.
        lasting = np.zeros(len(one), dtype=bool)
        for first, last in groups(np.flatnonzero(bad_norm), 1):
            if (
                last - first + 1 >= 10
                or (last == len(one) - 1 and last - first + 1 >= 3)
                or zero[first : last + 1].any()
            ):
                lasting[first : last + 1] = True
        bad_norm = lasting
    else:
        zero = np.zeros(len(one), dtype=bool)
    vanished = np.zeros(len(one), dtype=bool)
    if one.framework == "megatron" and has_loss.any():
        vanished = ~has_loss & one.has("skipped") & (skipped == 0) & ~(scale < 0)
    bad = bad_loss | bad_norm | zero | vanished
    rows = np.flatnonzero(bad)
    open_end = open_end and not rows.size
    if open_end:
        rows = np.flatnonzero(has_norm & ~np.isfinite(norm))
    if not rows.size:
        return None
    index = int(rows[0])
    how: Literal["loss", "gradient", "vanished", "zero"] = (
        "loss" if bad_loss[index] else "vanished" if vanished[index] else "zero" if zero[rows].any() else "gradient"
    )
    good = np.flatnonzero(has_loss[:index] & np.isfinite(loss[:index]))
    return NotFinite(index, how, int(rows.size), int(good[-1]) if good.size else None, not open_end)


def _breaks_off(one: Series) -> bool:
    """Whether a series of more than three rows ends before the last step planned, as far as that is known."""
    return len(one) > 3 and not (one.has_steps and one.total == one.total and one.x[-1] >= one.total)


Fate = Literal["recovered", "lingering", "diverged", "open"]


@dataclass(slots=True)
class Spike:
    """A jump of the loss.

    Attributes:
        index: Row of the highest loss.
        begin: First row above the limit.
        base: Loss before.
        peak: Highest loss.
        fate: What became of it; ``open`` where the log ends too early.
        level: Loss afterwards, NaN where ``open``.
        lead: Steps by which the gradient norm jumped earlier, 0 where it did not.
        norm_base: Gradient norm before, NaN where unknown.
        norm_peak: Highest gradient norm around it, NaN where unknown.
        plain: Seen in a few lines, without statistics.
    """

    index: int
    begin: int
    base: float
    peak: float
    fate: Fate
    level: float
    lead: int
    norm_base: float
    norm_peak: float
    plain: bool = False


@once
def gradient_spikes(one: Series) -> Bools:
    """Return the rows where the gradient norm stands out from the 128 before."""
    norm = one.get("grad_norm")
    rows = np.flatnonzero(np.isfinite(norm))
    out = np.zeros(len(one), dtype=bool)
    rows = rows[rows >= warm(one)]
    if rows.size < LEAST + 4:
        return out
    middle, spread = baseline(norm[rows], least=LEAST)
    with np.errstate(invalid="ignore"):
        high = norm[rows] > np.maximum(5 * middle, middle + 8 * spread)
    out[rows[high & (middle > 1e-9)]] = True
    return out


@once
def spikes(one: Series) -> list[Spike]:
    """Find where the loss jumps; see the module for the limits."""
    loss = one.get("loss")
    rows = np.flatnonzero(np.isfinite(loss))
    found: list[Spike] = []
    judged = rows[rows >= warm(one)]
    if judged.size >= LEAST + 4:
        values = loss[judged]
        middle, spread = baseline(values, least=LEAST)
        with np.errstate(invalid="ignore"):
            high = (values - middle > np.maximum(6 * spread, 0.3 * middle)) & (middle > 0.1) & (values - middle > 0.1)
        early = gradient_spikes(one)
        for first, last in groups(np.flatnonzero(high), 50):
            top = first + int(np.argmax(values[first : last + 1]))
            base, noise = float(middle[first]), float(spread[first])
            found.append(_spike(one, judged, first, last, top, base, noise, early))
    if not found:
        plain = _plain(one, rows)
        if plain is not None:
            found.append(plain)
    return found


def _spike(
    one: Series, rows: np.ndarray, first: int, last: int, top: int, base: float, noise: float, early: Bools
) -> Spike:
    loss, norm = one.get("loss"), one.get("grad_norm")
    begin, index = int(rows[first]), int(rows[top])
    before = early[max(0, begin - 32) : begin + 1]
    lead = int(one.x[begin] - one.x[begin - before.size + 1 + int(np.argmax(before))]) if before.any() else 0
    near = norm[max(0, begin - 8) : int(rows[last]) + 9]
    past = norm[max(0, begin - 136) : max(0, begin - 8)]
    fate, level = _fate(loss[rows], last, base, noise)
    return Spike(
        index=index,
        begin=begin,
        base=base,
        peak=float(loss[index]),
        fate=fate,
        level=level,
        lead=max(0, lead),
        norm_base=_median(past),
        norm_peak=_highest(near),
    )


def _fate(values: Floats, last: int, base: float, noise: float) -> tuple[Fate, float]:
    after = values[last + 1 : last + 129]
    if after.size < 3:
        return "open", math.nan
    level = float(np.median(after[-min(32, after.size) :]))
    if level > 1.2 * base:
        return "diverged", level
    return ("lingering" if level > base + max(2 * noise, 0.02 * base) else "recovered"), level


def _plain(one: Series, rows: np.ndarray) -> Spike | None:
    """Find a loss that grows by half at least while the gradient norm explodes, in the first 160 rows.

    A norm counts as exploding at five times that of the rows before, or at a thousand: norms of language models in
    good health stay below a few dozen. A loss that doubles to more than guessing costs needs no gradient to tell, nor
    does one that was level for four rows, within a tenth, and stays 80 % above that for three.
    """
    loss, norm = one.get("loss"), one.get("grad_norm")
    rows = rows[:160]
    for place in range(1, rows.size):
        index = int(rows[place])
        past = loss[rows[max(0, place - 32) : place]]
        base = float(np.median(past))
        if base <= 0.05 or loss[index] < 1.5 * base or loss[index] - base < 0.5:
            # Losses near zero, of preference training for one, multiply by nature.
            continue
        before = norm[rows[max(0, place - 32) : place]]
        around = _highest(norm[max(0, index - 2) : index + 3])
        usual = float(np.nanmin(before)) if np.isfinite(before).any() else math.nan
        hopeless = loss[index] >= 2 * base and loss[index] > RANDOM
        later = loss[rows[place + 1 :]]
        step = bool(
            past.size >= 4
            and float(np.ptp(past)) <= 0.1 * base
            and later.size >= 2
            and min(loss[index], *later[:2]) >= 1.8 * base
        )
        if not (around >= 1000 or around >= 5 * _median(before) > 0 or hopeless or step):
            continue
        fate: Fate = "open"
        level = float(later[-1]) if later.size >= 2 else math.nan
        if later.size >= 2:
            fate = "recovered" if level <= 1.05 * base else "lingering"
        if fate == "recovered" and (one.from_start or one.run > 0) and place < 20:
            # The first steps of a training, or of one that was resumed, wobble while the optimizer's averages fill.
            continue
        rest = loss[rows[place:]]
        peak = int(rows[place + int(np.argmax(rest[:33]))])
        return Spike(index, index, base, float(loss[peak]), fate, level, 0, usual, around, plain=True)
    return None


@dataclass(slots=True)
class Divergence:
    """A loss that rises and does not come back.

    Attributes:
        best: Row of the best loss (of the best block).
        index: The last row.
        low: Loss at its best.
        high: Loss at the end.
        above_random: Worse than guessing.
    """

    best: int
    index: int
    low: float
    high: float
    above_random: bool


@once
def divergence(one: Series) -> Divergence | None:
    """Find a loss that ends well above its best."""
    loss = one.get("loss")
    rows = np.flatnonzero(np.isfinite(loss))
    if rows.size >= LEAST:
        judged = rows[rows >= warm(one)]
        if judged.size < LEAST:
            return None
        width = max(8, min(64, judged.size // 8))
        blocks = judged.size // width
        tail = judged[judged.size - blocks * width :]
        levels = np.median(loss[tail].reshape(blocks, width), axis=1)
        best = int(np.argmin(levels))
        low, high = float(levels[best]), float(levels[-1])
        rising = best < blocks - 2 and levels[-2:].min() > 1.25 * low and high >= 0.9 * levels[best:].max()
        if rising and high - low > 0.2 and low > 0.1:
            return Divergence(int(tail[best * width]), int(rows[-1]), low, high, high > RANDOM)
        return None
    if rows.size < 3:
        return None
    values = loss[rows]
    best = int(np.argmin(values))
    low, high = float(values[best]), float(values[-1])
    rises = float(np.mean(np.diff(values) > 0))
    grown = high >= 1.5 * low and high - low >= 1.0 and rises >= 0.7 and low > 0.5
    random = high > RANDOM + 0.4 and high >= 1.1 * low and rises >= 0.8 and rows.size >= 4
    if best < rows.size - 2 and high >= 0.98 * values.max() and (grown or random):
        return Divergence(int(rows[best]), int(rows[-1]), low, high, high > RANDOM)
    return None


@dataclass(slots=True)
class Oscillation:
    """A loss that swings.

    Attributes:
        amplitude_pct: Half the range between the 5th and the 95th percentile around the trend, in % of the loss.
        period: Steps of one swing; 0 where it is irregular.
        share_pct: Part of the variation that the period explains.
        level: Typical loss.
        rows: First and last row judged.
    """

    amplitude_pct: float
    period: float
    share_pct: float
    level: float
    rows: tuple[int, int]


@once
def oscillation(one: Series) -> Oscillation | None:
    """Find a loss that swings regularly around its trend by 5 % or more.

    The trend (a moving median over an eighth of the rows) is taken out; of what is left, the strongest frequency
    of the periodogram with its neighbours must explain a third of the variation (more in short series), or each
    row must swing back from the one before. Noise of small batches spreads over all frequencies.
    """
    loss = one.get("loss")
    rows = np.flatnonzero(np.isfinite(loss))
    rows = rows[rows >= warm(one)][-1024:]
    if rows.size < 64:
        return None
    values = loss[rows]
    level = float(np.median(values))
    if level < 0.05:
        return None
    width = max(9, (rows.size // 8) | 1)
    # The median of a row that swings back each time would swing with it: neighbours are averaged first.
    calm = np.convolve(np.pad(values, 1, mode="reflect"), (0.25, 0.5, 0.25), mode="valid")
    padded = np.pad(calm, width // 2, mode="reflect")
    trend = np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)
    rest = values - trend
    low, high = np.percentile(rest, [5, 95])
    amplitude = float(high - low) / 2 / level
    power = np.abs(np.fft.rfft((rest - rest.mean()) * np.hanning(rest.size))) ** 2
    power[:2] = 0
    top = int(np.argmax(power))
    share = float(power[max(0, top - 2) : top + 3].sum() / max(power.sum(), 1e-30))
    lag = _lag(rest)
    # What white noise stays below in all but one of a thousand series of this length, found by simulation.
    regular = share >= max(0.34, min(0.7, 55 / rows.size)) or lag <= -max(0.4, 4 / math.sqrt(rows.size))
    if amplitude >= 0.05 and top >= 4 and regular:
        interval = float(np.median(np.diff(one.x[rows])))
        period = rest.size / top * interval
        return Oscillation(100 * amplitude, period, 100 * share, level, (int(rows[0]), int(rows[-1])))
    half = rest.size // 2
    early, late = float(np.std(rest[:half])), float(np.std(rest[half:]))
    if amplitude >= 0.15 and late > 2.5 * max(early, 1e-9) and late / level > 0.1:
        return Oscillation(100 * amplitude, 0.0, 0.0, level, (int(rows[half]), int(rows[-1])))
    return None


def _lag(rest: Floats) -> float:
    """Return the correlation of neighbours."""
    centred = rest - rest.mean()
    power = float(np.dot(centred, centred))
    return float(np.dot(centred[:-1], centred[1:])) / power if power > 0 else 0.0


@dataclass(slots=True)
class Plateau:
    """A loss that does not get better.

    Attributes:
        begin: First row of the stretch.
        index: Last row.
        level: Loss in the stretch.
        change_pct: Improvement over it, negative where it got worse.
        start: Loss at the beginning of the run where it stands there still, else NaN.
    """

    begin: int
    index: int
    level: float
    change_pct: float
    start: float


def plateau(one: Series) -> Plateau | None:
    """Find a stretch of max(1000 steps, 5 % of the run), 64 rows at least, in which nothing is gained."""
    loss, lr = one.get("loss"), one.get("lr")
    rows = np.flatnonzero(np.isfinite(loss))
    rows = rows[rows >= warm(one)]
    if rows.size < 64 or not one.has_steps:
        return None
    span = max(1000.0, 0.05 * float(one.x[rows[-1]] - one.x[0]))
    begin = int(np.searchsorted(one.x[rows], one.x[rows[-1]] - span))
    if one.x[rows[-1]] - one.x[rows[0]] < span or rows.size - begin < 32:
        return None
    known = lr[np.isfinite(lr)]
    if known.size and lr[rows[-1]] < 0.2 * known.max():
        return None
    part = loss[rows[begin:]]
    quarter = max(8, part.size // 4)
    first, last = float(np.median(part[:quarter])), float(np.median(part[-quarter:]))
    noise = 1.4826 * float(np.median(np.abs(np.diff(part)))) / math.sqrt(quarter)
    gain = first - last
    if first <= 0.05 or gain / first > 0.001 or abs(gain) > max(0.005 * first, 3 * noise):
        return None
    head = float(np.median(loss[np.flatnonzero(np.isfinite(loss))[:5]]))
    untrained = one.from_start and last > 0.9 * head and last > 5.0
    return Plateau(int(rows[begin]), int(rows[-1]), last, 100 * gain / first, head if untrained else math.nan)


@dataclass(slots=True)
class Growth:
    """A gradient norm that grows row after row."""

    begin: int
    index: int
    low: float
    high: float


@once
def exploding(one: Series) -> Growth | None:
    """Find five or more rows in which the gradient norm grows without a break to ten times and above ten.

    Where 32 rows come before them, it also goes beyond twice the highest of the last 128: a norm that scatters over
    orders of magnitude climbs five times in a row now and then.
    """
    norm = one.get("grad_norm")
    rows = np.flatnonzero(np.isfinite(norm))
    rows = rows[rows >= min(warm(one), 8)]
    if rows.size < 5:
        return None
    values = norm[rows]
    up = np.concatenate(([False], np.diff(values) > 0))
    for first, last in groups(np.flatnonzero(up), 1, least=4):
        low, high = float(values[first - 1]), float(values[last])
        past = values[max(0, first - 129) : first - 1]
        if past.size >= 32 and high < 2 * float(past.max()):
            continue
        if high > 10 * max(low, 1e-6) and high > 10:
            return Growth(int(rows[first - 1]), int(rows[last]), low, high)
    return None


def vanishing(one: Series) -> tuple[int, int] | None:
    """Find five or more rows in a row with a gradient norm of nothing although a loss is there; first row, number."""
    norm, loss, lr = one.get("grad_norm"), one.get("loss"), one.get("lr")
    scale = one.get("loss_scale")
    dead = (norm >= 0) & (norm < 1e-7) & (loss > 0) & ~(scale < 0) & ~(lr == 0)
    for first, last in groups(np.flatnonzero(dead), 1):
        if last - first + 1 >= 5:
            return first, last - first + 1
    return None


@dataclass(slots=True)
class Scale:
    """What the loss scale did.

    Attributes:
        index: Row of the last halving, or of the end of the search.
        high: Scale it came from.
        low: Scale it went to.
        skipped: Steps skipped meanwhile.
        begin: Row it came from.
    """

    index: int
    high: float
    low: float
    skipped: int
    begin: int


@once
def scale_search(one: Series) -> Scale | None:
    """Return the search for the loss scale at the start of an fp16 run: it only falls, and steps are skipped."""
    scale, skipped = one.get("loss_scale"), np.nan_to_num(one.get("skipped"))
    if not len(one) or not np.isfinite(scale[0]) or skipped[0] <= 0 or scale[0] < 64:
        return None
    calm = np.flatnonzero(skipped == 0)
    end = int(calm[0]) if calm.size else len(one) - 1
    fell = scale[end] < scale[0]
    if np.any(np.diff(scale[: end + 1]) > 0) or not (fell or (not calm.size and skipped.sum() >= 2)):
        return None
    return Scale(end, float(scale[0]), float(scale[end]), int(skipped[: end + 1].sum()), 0)


@once
def scale_collapse(one: Series) -> Scale | None:
    """Find a loss scale that falls to an eighth or less, or to 16 or less, and stays there, after the search."""
    scale = one.get("loss_scale")
    rows = np.flatnonzero(np.isfinite(scale) & (scale > 0))
    if rows.size < 4:
        return None
    search = scale_search(one)
    if search is not None:
        rows = rows[rows >= search.index]
    loss = one.get("loss")
    if rows.size < 4 or not np.isfinite(loss).any():
        return None
    values = scale[rows]
    if values.max() < 32 or values.max() == values.min():
        return None
    top = values.size - 1 - int(np.argmax(values[::-1]))
    low_at = top + int(np.argmin(values[top:]))
    low, high = float(values[low_at]), float(values[top])
    halvings = int(np.sum(np.diff(values[top : low_at + 1]) < 0))
    end = float(values[-1])
    falls = low <= high / 8 and end <= high / 8 and (halvings >= 3 or low_at - top <= 3)
    if not falls and not (low <= 16 and end <= 16 and halvings >= 2):
        return None
    begin, index = int(rows[top]), int(rows[low_at])
    return Scale(index, high, low, int(np.nansum(one.get("skipped")[begin : index + 1])), begin)


def skipping(one: Series) -> tuple[int, float, int] | None:
    """Return steps skipped behind the search, their share in % and the row of the last, from 5 steps and 5 % on."""
    skipped = np.nan_to_num(one.get("skipped"))
    search = scale_search(one)
    begin = search.index + 1 if search is not None else 0
    part = skipped[begin:]
    if part.size < 20 or not one.has_steps:
        return None
    steps = max(1.0, float(one.x[-1] - one.x[begin]) + 1)
    total = float(part.sum())
    if total < 5 or total / steps < 0.05 or not np.isfinite(one.get("loss")).any():
        return None
    return int(total), 100 * total / steps, begin + int(np.flatnonzero(part > 0)[-1])


@dataclass(slots=True)
class LearningRate:
    """A learning rate that makes no sense.

    Attributes:
        how: ``zero``: it never leaves 0; ``ended``: it fell to 0 before the end; ``jump``: it grew at once.
        index: The row.
        old: Rate before.
        new: Rate then.
        rows: Rows it lasted.
    """

    how: Literal["zero", "ended", "jump"]
    index: int
    old: float
    new: float
    rows: int


def learning_rate(one: Series) -> LearningRate | None:
    """Find a schedule that is at fault."""
    lr = one.get("lr")
    skipped = np.nan_to_num(one.get("skipped"))
    rows = np.flatnonzero(np.isfinite(lr) & (skipped == 0))
    if rows.size < 10 or one.framework == "verl":
        return None
    values = lr[rows]
    if values.max() == 0:
        return LearningRate("zero", int(rows[-1]), 0.0, 0.0, int(rows.size))
    last = int(np.flatnonzero(values > 0)[-1])
    dead = values.size - 1 - last
    if dead >= 5 and one.has_steps and math.isfinite(one.total):
        left = one.total - float(one.x[rows[last]])
        if left > 0.05 * one.total:
            return LearningRate("ended", int(rows[last + 1]), float(values[last]), 0.0, dead)
    peak = int(np.argmax(values))
    behind = values[peak:]
    grown = np.flatnonzero((behind[1:] > 2 * behind[:-1]) & (behind[:-1] > 0))
    if grown.size and peak > 0:
        at = peak + int(grown[0]) + 1
        return LearningRate("jump", int(rows[at]), float(values[at - 1]), float(values[at]), values.size - at)
    # A peak that is reached in one jump, long after the warm-up ended, is a jump as well.
    if peak >= 10 and values[peak] > 2 * values[peak - 1] > 0 and values[peak - 1] < values[:peak].max():
        return LearningRate("jump", int(rows[peak]), float(values[peak - 1]), float(values[peak]), values.size - peak)
    return None


def near_random(one: Series, vocabulary: float | None) -> tuple[int, float, float] | None:
    """Return row, loss and ln(vocabulary) where the first losses are those of guessing.

    Without a known vocabulary, a loss between 9.8 and 12.6 stands for one of 18,000 to 300,000 words.
    """
    loss = one.get("loss")
    rows = np.flatnonzero(np.isfinite(loss))
    if not rows.size or not one.from_start or one.x[rows[0]] > 100:
        return None
    first = float(loss[rows[0]])
    if vocabulary and vocabulary > 1000:
        guess = math.log(vocabulary)
        return (int(rows[0]), first, guess) if abs(first - guess) <= 0.15 * guess else None
    return (int(rows[0]), first, first) if 9.8 <= first <= RANDOM else None


def _median(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else math.nan


def _highest(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size else math.nan
