"""Detectors on loss, gradient norm, loss scale and learning rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from npudiag.analyses import loss as judge
from npudiag.analyses.series import Series, build, primary
from npudiag.detectors.series_hits import each, make
from npudiag.engine.hits import Hit
from npudiag.result import Evidence

if TYPE_CHECKING:
    from npudiag.tables.store import Store


def not_finite(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Loss or gradient became NaN or Inf, or the loss vanished."""

    def hit(one: Series, found: judge.NotFinite) -> Hit:
        norm = float(one.get("grad_norm")[found.index])
        shown = [(found.last_good, "the last finite loss")] if found.last_good is not None else []
        last = found.last_good
        if found.how == "zero" and found.index + 1 < len(one):
            shown.append((found.index + 1, "the loss afterwards"))
        return make(
            store,
            one,
            found.index,
            {
                "printed": str(float(one.get("loss")[found.index])) if found.how == "loss" else None,
                "skipped": 0 if found.how == "vanished" else None,
                "zero": 0.0 if found.how == "zero" else None,
                "norm": str(norm) if found.how == "gradient" else None,
                "rows": found.rows,
                "last_loss": float(one.get("loss")[last]) if last is not None else None,
            },
            shown=shown,
            marks=("nan", "NaN", "inf", "grad norm", "loss scale"),
            severity=None if found.sure else "warning",
            confidence=None if found.sure else "medium",
            occurrences=found.rows,
        )

    return each(build(store), judge.not_finite, hit) or _validated_nan(store)


def _validated_nan(store: Store) -> list[Hit]:
    """Return the first validation, or average at the end, that is NaN where no step showed it."""
    columns = store.columns("train_events")
    kinds = list(columns.texts("kind"))
    if "validation" not in kinds:
        return []
    values = columns.numbers("value")
    told = columns.present("value") & ~np.isfinite(values) & (columns.codes("kind") == kinds.index("validation"))
    rows = np.flatnonzero(told)
    if not rows.size:
        return []
    at = int(rows[0])
    file, line, step = (columns.value(name, at) for name in ("file", "line", "step"))
    text = store.quotes.get(file or "", {}).get(line or -1)
    name = columns.value("name", at) or "loss"
    evidence = (
        Evidence(kind="log", path=file, line=line, text=text) if text else Evidence(kind="rows", rows=[{name: "nan"}])
    )
    captures = {
        "printed": "nan",
        "rows": int(rows.size),
        "file": file or "",
        **({"step": step} if step is not None else {}),
    }
    return [Hit(evidence=[evidence], captures=captures, steps=[step] if step is not None else None)]


def nan_steps(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Steps that the framework counted as NaN."""

    def find(one: Series) -> tuple[int, int] | None:
        counted = np.nan_to_num(one.get("nan_iterations"))
        rows = np.flatnonzero(counted > 0)
        return (int(rows[0]), int(counted.sum())) if rows.size else None

    def hit(one: Series, found: tuple[int, int]) -> Hit:
        return make(store, one, found[0], {"nans": found[1]}, marks=("number of nan iterations",), occurrences=found[1])

    return each(build(store), find, hit)


def spike(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The loss jumped."""

    def find(one: Series) -> tuple[judge.Spike, list[judge.Spike]] | None:
        found = judge.spikes(one)
        if not found or (not found[0].plain and judge.divergence(one) is not None):
            return None
        graver = [item for item in found if item.fate != "recovered"]
        return max(graver or found, key=lambda item: item.peak / item.base), found

    def hit(one: Series, found: tuple[judge.Spike, list[judge.Spike]]) -> Hit:
        worst, all_of_them = found
        norm = one.get("grad_norm")
        window = range(max(0, worst.begin - 8), min(len(one), worst.index + 9))
        tallest = max((i for i in window if norm[i] == norm[i]), key=lambda i: norm[i], default=worst.index)
        return make(
            store,
            one,
            worst.index,
            {
                "base": worst.base,
                "peak": worst.peak,
                "ratio": round(worst.peak / worst.base, 2),
                "back": worst.level if worst.fate == "recovered" else None,
                "stays": worst.level if worst.fate in ("lingering", "diverged") else None,
                "lead": worst.lead or None,
                "norm_base": worst.norm_base,
                "norm_peak": worst.norm_peak,
                "times": len(all_of_them),
            },
            shown=[
                (max(0, worst.begin - 1), "before"),
                (tallest, "the highest gradient norm"),
                (len(one) - 1, "the end"),
            ],
            marks=("lm loss", "loss", "grad norm", "grad_norm"),
            severity="warning" if worst.fate == "recovered" else "error",
            confidence="high" if worst.fate in ("diverged", "recovered") or worst.plain else "medium",
            occurrences=len(all_of_them),
        )

    return each(primary(store), find, hit)


def diverges(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The loss rises and stays up."""

    def find(one: Series) -> judge.Divergence | None:
        found = judge.divergence(one)
        if found is None:
            return None
        jumps = judge.spikes(one)
        return None if jumps and jumps[0].plain else found

    def hit(one: Series, found: judge.Divergence) -> Hit:
        return make(
            store,
            one,
            found.index,
            {
                "low": found.low,
                "high": found.high,
                "best_step": one.step(found.best) if one.has_steps else None,
                "guessing": judge.RANDOM if found.above_random else None,
            },
            shown=[(found.best, "the best loss")],
            marks=("lm loss", "loss", "grad norm"),
        )

    return each(primary(store), find, hit)


def oscillates(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The loss swings."""

    def hit(one: Series, found: judge.Oscillation) -> Hit:
        loss = one.get("loss")
        first, last = found.rows
        part = loss[first : last + 1]
        top, bottom = first + int(np.nanargmax(part)), first + int(np.nanargmin(part))
        return make(
            store,
            one,
            top,
            {
                "amplitude": round(found.amplitude_pct, 1),
                "period": round(found.period, 1) or None,
                "level": round(found.level, 4),
                "share": round(found.share_pct),
            },
            shown=[(bottom, "the lowest loss")],
            marks=("lm loss", "loss"),
        )

    return each(primary(store), judge.oscillation, hit)


def stands_still(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The loss gets no better."""

    def hit(one: Series, found: judge.Plateau) -> Hit:
        return make(
            store,
            one,
            found.index,
            {
                "level": round(found.level, 4),
                "begin": one.step(found.begin),
                "change": round(found.change_pct, 2),
                "start": found.start,
            },
            shown=[(found.begin, "where it begins")],
            plot=("loss", "lr"),
            severity="warning" if found.start == found.start else "info",
        )

    return each(primary(store), judge.plateau, hit)


def norm_explodes(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The gradient norm grows row after row."""

    def hit(one: Series, found: judge.Growth) -> Hit:
        return make(
            store,
            one,
            found.index,
            {"low": found.low, "high": found.high, "rows": found.index - found.begin + 1},
            shown=[(found.begin, "before")],
            plot=("grad_norm", "loss"),
            marks=("grad norm", "grad_norm"),
        )

    def find(one: Series) -> judge.Growth | None:
        # A loss that jumps or rises with it is told by that rule.
        found = judge.exploding(one)
        return None if found is None or judge.spikes(one) or judge.divergence(one) else found

    return each(primary(store), find, hit)


def norm_jumps(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The gradient norm stands out time and again, without a loss that jumps."""

    def find(one: Series) -> tuple[int, int, float] | None:
        rows = np.flatnonzero(judge.gradient_spikes(one))
        if not rows.size or judge.spikes(one) or judge.divergence(one) or judge.exploding(one):
            return None
        norm = one.get("grad_norm")
        top = int(rows[int(np.argmax(norm[rows]))])
        past = norm[max(0, top - 128) : top]
        return top, int(rows.size), float(np.nanmedian(past))

    def hit(one: Series, found: tuple[int, int, float]) -> Hit:
        top, times, base = found
        often = times >= max(3, 0.01 * len(one))
        return make(
            store,
            one,
            top,
            {"times": times, "norm": float(one.get("grad_norm")[top]), "base": round(base, 4)},
            plot=("grad_norm", "loss"),
            marks=("grad norm", "grad_norm"),
            severity="warning" if often else "info",
            occurrences=times,
        )

    return each(primary(store), find, hit)


def norm_zero(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The gradient norm is nothing although there is a loss."""

    def hit(one: Series, found: tuple[int, int]) -> Hit:
        loss = float(one.get("loss")[found[0]])
        return make(store, one, found[0], {"rows": found[1], "loss": loss}, plot=("grad_norm", "loss"))

    return each(primary(store), judge.vanishing, hit)


def scale_collapses(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The loss scale fell and stayed down."""

    def hit(one: Series, found: judge.Scale) -> Hit:
        return make(
            store,
            one,
            found.index,
            {"high": found.high, "low": found.low, "skipped": found.skipped},
            shown=[(found.begin, "before")],
            plot=("loss_scale", "loss", "grad_norm"),
            marks=("loss scale", "loss_scale"),
        )

    return each(primary(store), judge.scale_collapse, hit)


def scale_searched(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The start of an fp16 run skips steps until the loss scale fits."""

    def hit(one: Series, found: judge.Scale) -> Hit:
        shown = [(found.begin, "the start")]
        captures = {"high": found.high, "low": found.low, "skipped": found.skipped}
        return make(store, one, found.index, captures, shown=shown, plot=("loss_scale",), marks=("loss scale",))

    return each(primary(store), judge.scale_search, hit)


def skips(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Steps are skipped again and again."""

    def find(one: Series) -> tuple[int, float, int] | None:
        return None if judge.scale_collapse(one) is not None else judge.skipping(one)

    def hit(one: Series, found: tuple[int, float, int]) -> Hit:
        captures = {"skipped": found[0], "share": round(found[1], 1)}
        marks = ("number of skipped iterations",)
        return make(store, one, found[2], captures, plot=("loss_scale", "grad_norm"), marks=marks, occurrences=found[0])

    return each(primary(store), find, hit)


def not_loaded(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """A fine-tune begins with the loss of guessing."""
    known = _arguments(store)

    def find(one: Series) -> tuple[int, float, float] | None:
        told = known.get(one.file, {})
        tuned = told.get("finetune") == 1.0 or one.framework in ("trainer-log", "trainer-state")
        if not tuned:
            return None
        return judge.near_random(one, told.get("padded_vocab_size") or told.get("vocab_size"))

    def hit(one: Series, found: tuple[int, float, float]) -> Hit:
        index, first, guess = found
        captures = {"loss": first, "guess": round(guess, 2) if guess != first else None}
        return make(store, one, index, captures, plot=("loss",), confidence=None if guess != first else "medium")

    return each(primary(store), find, hit)


def _arguments(store: Store) -> dict[str, dict[str, float]]:
    """Return the numeric arguments that training logs print, by file and name."""
    columns = store.columns("train_events")
    out: dict[str, dict[str, float]] = {}
    kinds = list(columns.texts("kind"))
    if "argument" not in kinds:
        return out
    for index in np.flatnonzero(columns.codes("kind") == kinds.index("argument")):
        file, name = columns.value("file", int(index)), columns.value("name", int(index))
        value = columns.value("value", int(index))
        if value is not None:
            out.setdefault(file or "", {})[name] = value
    return out


def validation_gap(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The validation loss rises while the training loss falls."""
    columns = store.columns("train_events")
    kinds = list(columns.texts("kind"))
    if "validation" not in kinds:
        return []
    series = {one.file: one for one in primary(store) if np.isfinite(one.get("loss")).any()}
    points: dict[tuple[str, str], list[tuple[float, float, int]]] = {}
    for index in np.flatnonzero(columns.codes("kind") == kinds.index("validation")):
        at = int(index)
        step, value = columns.value("step", at), columns.value("value", at)
        if step is None or value is None or value != value:
            continue
        key = (columns.value("file", at) or "", columns.value("name", at) or "")
        points.setdefault(key, []).append((float(step), value, columns.value("line", at) or 0))
    hits: list[Hit] = []
    for (file, name), held in points.items():
        one = series.get(file)
        held = sorted({step: (step, value, line) for step, value, line in held}.values())
        if one is None or len(held) < 4 or "loss" not in name:
            continue
        values = [value for _, value, _ in held]
        best = min(range(len(values)), key=values.__getitem__)
        if best > len(values) - 4 or values[-1] < 1.05 * values[best] or min(values[-2:]) < 1.03 * values[best]:
            continue
        loss = one.get("loss")

        def near(step: float, one: Series = one, loss: Any = loss) -> float:
            rows = np.flatnonzero(np.isfinite(loss))
            at = int(np.searchsorted(one.x[rows], step))
            return float(np.median(loss[rows[max(0, at - 8) : at + 1]]))

        then, now = near(held[best][0]), near(held[-1][0])
        if now > then:
            continue
        text = store.quotes.get(file, {}).get(held[-1][2])
        evidence = [Evidence(kind="log", path=file, line=held[-1][2], text=text)] if text else []
        rows = [{"step": int(step), "validation": value, "training": round(near(step), 6)} for step, value, _ in held]
        hits.append(
            Hit(
                evidence=[
                    *evidence,
                    Evidence(kind="series", path=file, rows=rows[-200:], label="validation and training"),
                ],
                captures={
                    "best": values[best],
                    "best_step": int(held[best][0]),
                    "last": values[-1],
                    "step": int(held[-1][0]),
                    "train": round(now, 4),
                },
                steps=[int(held[best][0]), int(held[-1][0])],
            )
        )
    return hits[:2]


def _rate(store: Store, how: str) -> list[Hit]:
    def find(one: Series) -> judge.LearningRate | None:
        found = judge.learning_rate(one)
        return found if found is not None and found.how == how else None

    def hit(one: Series, found: judge.LearningRate) -> Hit:
        captures = {
            "old": found.old,
            "new": found.new,
            "rows": found.rows,
            "total": int(one.total) if one.total == one.total else None,
        }
        shown = [(max(0, found.index - 1), "before")]
        return make(store, one, found.index, captures, shown=shown, plot=("lr", "loss"), marks=("learning rate", "lr"))

    return each(primary(store), find, hit)


def rate_zero(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The learning rate never leaves zero."""
    return _rate(store, "zero")


def rate_ended(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The learning rate reached zero long before the end."""
    return _rate(store, "ended")


def rate_jumps(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """The learning rate grew from one row to the next behind its peak."""
    return _rate(store, "jump")
