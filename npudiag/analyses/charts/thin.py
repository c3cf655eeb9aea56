"""Makes series and grids small without losing what matters: extremes, gaps and marked places stay."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_DIGITS = 5
_EMPTY = 255
_TOP = 254


def extremes(values: Floats, most: int) -> set[int]:
    """Return the places of the lowest and the highest value of each slice, and of the first and last value.

    Args:
        values: The series; NaN where there is nothing.
        most: About how many places to return.
    """
    there = np.flatnonzero(np.isfinite(values))
    if there.size <= most:
        return set(there.tolist())
    chosen = {int(there[0]), int(there[-1])}
    for part in np.array_split(there, max(1, most // 2)):
        here = values[part]
        chosen.add(int(part[int(np.argmin(here))]))
        chosen.add(int(part[int(np.argmax(here))]))
    return chosen


def evenly(places: list[int], most: int) -> list[int]:
    """Return at most `most` of `places`, the first and the last among them."""
    if len(places) <= most:
        return places
    return [places[round(i * (len(places) - 1) / (most - 1))] for i in range(most)]


def short(value: float, digits: int = _DIGITS) -> float | None:
    """Return a number with the digits that a chart can show, None where it is not finite."""
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None


def shorts(values: Iterable[float], digits: int = _DIGITS) -> list[float | None]:
    """Return numbers like `short`."""
    return [short(value, digits) for value in values]


def bins(values: Floats, place: npt.NDArray[np.int64], count: int, how: str) -> Floats:
    """Sum up values that fall into the same bin.

    Args:
        values: The values; NaN is left out.
        place: Bin of each value.
        count: Number of bins.
        how: ``mean``, ``min`` or ``max``.

    Returns:
        One value per bin, NaN where it is empty.
    """
    good = np.isfinite(values)
    values, place = values[good], place[good]
    out = np.full(count, np.nan)
    if how == "mean":
        number = np.bincount(place, minlength=count)
        total = np.bincount(place, weights=values, minlength=count)
        filled = number > 0
        out[filled] = total[filled] / number[filled]
        return out
    for at, value in zip(place.tolist(), values.tolist(), strict=True):
        held = out[at]
        if held != held or (value < held if how == "min" else value > held):
            out[at] = value
    return out


def packed(cells: Floats, low: float, high: float) -> str:
    """Return a grid as Base64 of one byte a cell: 0 for `low`, 254 for `high` and more, 255 for nothing."""
    span = high - low
    with np.errstate(invalid="ignore"):
        scaled = (cells - low) / span * _TOP if span > 0 else np.where(np.isfinite(cells), 0.0, np.nan)
    filled = np.where(np.isfinite(scaled), np.clip(np.rint(np.nan_to_num(scaled)), 0, _TOP), _EMPTY)
    return base64.b64encode(filled.astype(np.uint8).tobytes()).decode("ascii")


def bounds(cells: Floats) -> tuple[float, float]:
    """Return the values between which a grid is shaded; a few far outliers do not take the shades of the rest."""
    there = cells[np.isfinite(cells)]
    low, high = float(there.min()), float(there.max())
    usual = float(np.percentile(there, 99))
    return low, (1.5 * usual if usual > 0 and high > 3 * usual else high)
