"""Readings of the cards, device by device.

Utilisation is that of the AI Cores as npu-smi reports it. A reading is one moment; five of a card are needed to say
anything about it, and a card without memory in use is not part of a job.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from npudiag.analyses.series import bounded

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudiag.tables.store import Store

    Floats = npt.NDArray[np.float64]

LEAST = 5
_BUSY_HBM_PCT = 8.0
_BUSY_HBM_MB = 6000.0
_COMPUTES_PCT = 2.0
"""Median use from which on something runs on a card; without a job it is 0, but for single readings."""


@dataclass(slots=True)
class Card:
    """The readings of one card, in order.

    Attributes:
        node: Node, None where unknown.
        device: Its number.
        chip: Chip within it, where `device` is the number of a card with several.
        file: Input of the readings.
        line: Lines of the readings.
        time: Microseconds since 1970, NaN where unknown.
        values: By column.
        health: Last health told.
    """

    node: str | None
    device: int
    chip: int
    file: str
    line: Floats
    time: Floats
    values: dict[str, Floats]
    health: str | None

    def __len__(self) -> int:
        return int(self.line.size)

    def get(self, name: str) -> Floats:
        """Return the readings of a column that are there."""
        found = self.values[name]
        return found[np.isfinite(found)]

    @property
    def in_use(self) -> bool:
        """Whether a job holds memory on it; without memory readings, whether it computes, be it little."""
        share, used = self.get("hbm_pct"), self.get("hbm_used_mb")
        if share.size or used.size:
            return bool(
                (
                    share.size
                    and np.median(share) >= _BUSY_HBM_PCT
                    and (not used.size or np.median(used) >= _BUSY_HBM_MB)
                )
                or (not share.size and np.median(used) >= _BUSY_HBM_MB)
            )
        util = self.get("util_pct")
        return bool(util.size and (util.max() >= 10 or np.median(util) >= _COMPUTES_PCT))


_COLUMNS = ("util_pct", "hbm_used_mb", "hbm_total_mb", "hbm_pct", "temp_c", "power_w", "clock_mhz")


def cards(store: Store) -> list[Card]:
    """Return the cards that were read, worked out once."""
    known: list[Card] | None = store.memo.get("cards")
    if known is not None:
        return known
    columns = store.columns("npu_samples")
    out: list[Card] = []
    if columns.size:
        devices = columns.numbers("device")
        files, nodes, healths = columns.codes("file"), columns.codes("node"), columns.codes("health")
        values = {name: bounded(columns.numbers(name)) for name in _COLUMNS}
        lines, times = columns.numbers("line"), columns.numbers("time")
        number = np.where(np.isfinite(devices), devices, -1).astype(np.int64)
        number = np.clip(number, -1, 1 << 20)
        chips = np.clip(np.nan_to_num(columns.numbers("chip")), 0, 63).astype(np.int64)
        key = ((files + 1) * (int(nodes.max()) + 2) + nodes + 1) * ((1 << 20) + 2) + number + 1
        key = key * 64 + chips
        for one in np.unique(key):
            rows = np.flatnonzero(key == one)
            first = int(rows[0])
            if number[first] < 0:
                continue
            told = healths[rows][healths[rows] >= 0]
            out.append(
                Card(
                    columns.texts("node")[nodes[first]] if nodes[first] >= 0 else None,
                    int(number[first]),
                    int(chips[first]),
                    columns.texts("file")[files[first]] if files[first] >= 0 else "",
                    lines[rows],
                    times[rows],
                    {name: column[rows] for name, column in values.items()},
                    columns.texts("health")[int(told[-1])] if told.size else None,
                )
            )
    store.memo["cards"] = out
    return out


@dataclass(slots=True)
class Use:
    """How much a card computes.

    Attributes:
        mean_pct: Mean AI Core utilisation.
        p90_pct: 90th percentile.
        samples: Readings.
    """

    mean_pct: float
    p90_pct: float
    samples: int


def use(card: Card) -> Use | None:
    """Return the use of a card, None where there are fewer than five readings."""
    util = card.get("util_pct")
    if util.size < LEAST:
        return None
    return Use(float(util.mean()), float(np.percentile(util, 90)), int(util.size))


@dataclass(slots=True)
class Drop:
    """A clock below the usual one while the card works.

    Attributes:
        index: The first reading below.
        high: Usual clock in MHz.
        low: Lowest clock in MHz.
        rows: Readings below.
        temp_c: Highest temperature meanwhile, NaN where unknown.
        power_w: Highest power meanwhile, NaN where unknown.
    """

    index: int
    high: float
    low: float
    rows: int
    temp_c: float
    power_w: float


def clock_drop(card: Card) -> Drop | None:
    """Find readings whose clock is 5 % below the highest; an idle card that saves power is let alone."""
    clock = card.values["clock_mhz"]
    known = np.isfinite(clock) & (clock > 0)
    if known.sum() < 3:
        return None
    high = float(np.max(clock[known]))
    low = known & (clock < 0.95 * high)
    util, power = card.values["util_pct"], card.values["power_w"]
    if np.isfinite(util).any():
        low &= ~(util < 10)
    elif np.isfinite(power).any():
        # Without utilisation, power tells work from rest.
        rest = float(np.nanpercentile(power, 10))
        if _highest(power) > 1.4 * rest:
            low &= ~(power < 1.2 * rest)
    rows = np.flatnonzero(low)
    if rows.size < 2:
        return None
    temp = card.values["temp_c"][rows]
    return Drop(int(rows[0]), high, float(clock[rows].min()), int(rows.size), _highest(temp), _highest(power[rows]))


def _highest(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size else math.nan
