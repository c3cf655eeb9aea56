"""How well the larger of two jobs uses its cards.

Efficiency = (throughput of B / throughput of A) / (cards of B / cards of A), with throughput = samples per step / step
time. Where the batch is not known, the throughput per card that frameworks print (TFLOP/s) says the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from npudiag.comparison import speed, words
from npudiag.comparison.model import Cause, Said, Scaling, Setting
from npudiag.comparison.snapshot import Snapshot


def compare(a: Snapshot, b: Snapshot, settings: Sequence[Setting], *, same_samples: bool = True) -> Scaling | None:
    """Return the scaling from A to B; None where the cards are the same or the throughput is not known.

    Args:
        a: The job on the one number of cards.
        b: The job on the other.
        settings: What differs in their settings.
        same_samples: Whether both compute the same for a sample; if not, only throughput in FLOP/s can tell.
    """
    if not a.cards or not b.cards or a.cards == b.cards:
        return None
    took = speed.lengths(a, b)
    ideal: float | None = None
    lost: list[Cause] = []
    if same_samples and took is not None and a.batch and b.batch:
        efficiency = (b.batch / took[1]) / (a.batch / took[0]) / (b.cards / a.cards)
        scale = (b.batch / b.cards) / (a.batch / a.cards)
        ideal = took[0] * scale
        lost = speed.causes(a, b, settings, scale=scale)
    elif a.pace and b.pace and a.pace.rates.get("tflops") and b.pace.rates.get("tflops"):
        efficiency = b.pace.rates["tflops"] / a.pace.rates["tflops"]
    else:
        return None
    missing = took[1] - ideal if took is not None and ideal is not None else None
    return Scaling(
        cards_a=a.cards,
        cards_b=b.cards,
        basis="samples" if ideal is not None else "tflops",
        efficiency_pct=round(100 * efficiency, 2),
        ideal_ms=None if ideal is None else round(ideal, 3),
        lost_ms=None if missing is None else round(missing, 3),
        lost=lost,
        text=_text(a.cards, b.cards, efficiency, missing, lost),
    )


def _text(cards_a: int, cards_b: int, efficiency: float, missing: float | None, lost: Sequence[Cause]) -> Said:
    text = words.both(
        "{a} to {b} NPUs: {pct} of linear",
        "NPU 由 {a} 张变为 {b} 张：达到线性扩展的 {pct}",
        a=f"{cards_a:,}", b=f"{cards_b:,}", pct=words.pct(100 * efficiency),
    )  # fmt: skip
    costs = [cause for cause in lost if cause.ms > 0]
    if missing is None or missing <= 0:
        return words.both("{en}.", "{zh}。", en=text.en, zh=text.zh)
    if not costs:
        return words.both(
            "{en}; {ms} per step are lost.", "{zh}；每步损失 {ms}。", en=text.en, zh=text.zh, ms=words.ms(missing)
        )
    told = words.listed(
        [
            words.both("{ms} {en}", "{zh} {ms}", ms=words.ms(cause.ms), en=cause.text.en, zh=cause.text.zh)
            for cause in costs[:2]
        ]
    )
    return words.both(
        "{en}; of {ms} per step lost: {c}.", "{zh}；每步损失 {ms}，其中：{czh}。",
        en=text.en, zh=text.zh, ms=words.ms(missing), c=told.en, czh=told.zh,
    )  # fmt: skip
