"""Numbers, ranges, sizes and times as people read them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

_FRACTION = re.compile(r"\.\d+")


def ranges(values: Iterable[int], *, most: int = 12) -> str:
    """Return ``0-3, 5`` for 0, 1, 2, 3, 5; at most `most` runs, then an ellipsis."""
    runs: list[list[int]] = []
    for value in sorted(set(values)):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    shown = [str(low) if low == high else f"{low}-{high}" for low, high in runs[:most]]
    if len(runs) > most:
        shown.append("…")
    return ", ".join(shown)


def names(values: Iterable[str], *, most: int = 6) -> str:
    """Return names separated by commas; at most `most`, then how many more."""
    every = list(dict.fromkeys(values))
    shown = ", ".join(name if len(name) <= 120 else name[:119] + "…" for name in every[:most])
    return f"{shown} +{len(every) - most}" if len(every) > most else shown


def size(count: int) -> str:
    """Return a number of bytes with a decimal unit."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def seconds(value: float) -> str:
    """Return a duration given in seconds."""
    if value < 0.0995:
        return f"{value * 1000:.0f} ms"
    if value < 120:
        return f"{value:.1f} s"
    minutes = value / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def short_float(value: float) -> str:
    """Return a number with as many digits as are worth reading."""
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def parse_time(text: str | None) -> datetime | None:
    """Read an ISO 8601 time without its zone; None where it is none."""
    if not text:
        return None
    # Python 3.10 reads a fraction of three or six digits only, and no Z.
    text = _FRACTION.sub(lambda match: match.group()[:7].ljust(7, "0"), text[:40].replace("Z", "+00:00"))
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return None


def moment(text: str | None) -> str:
    """Return a time as ``2026-01-02 03:04:05``, or the text itself where it is no time."""
    if not text:
        return ""
    time = parse_time(text)
    return time.strftime("%Y-%m-%d %H:%M:%S") if time else text[:40]


def span(first: str | None, last: str | None) -> str:
    """Return a time range, the date once where both ends share it."""
    low, high = moment(first), moment(last)
    if not low or not high or low == high:
        return low or high
    if len(low) == len(high) == 19 and low[:10] == high[:10]:
        return f"{low} - {high[11:]}"
    return f"{low} - {high}"
