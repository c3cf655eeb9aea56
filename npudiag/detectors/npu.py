"""Detectors on readings of the cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npudiag.analyses import npu as judge
from npudiag.analyses.npu import Card
from npudiag.engine.hits import Hit
from npudiag.result import Evidence

if TYPE_CHECKING:
    from npudiag.tables.store import Store


def _row(store: Store, card: Card, index: int) -> list[Evidence]:
    """Return the reading as it stands in the file, or as a row."""
    line = card.line[index]
    text = store.quotes.get(card.file, {}).get(int(line)) if line == line else None
    if text is not None:
        return [Evidence(kind="log", path=card.file, line=int(line), text=text)]
    row: dict[str, Any] = {"device": card.device}
    row.update({name: float(values[index]) for name, values in card.values.items() if np.isfinite(values[index])})
    return [Evidence(kind="rows", path=card.file or None, rows=[row])]


def _curve(card: Card, columns: Sequence[str]) -> list[Evidence]:
    names = [name for name in columns if np.isfinite(card.values[name]).any()]
    size = len(card)
    if size < 4 or not names:
        return []
    rows = []
    for index in np.unique(np.linspace(0, size - 1, min(size, 200)).astype(int)):
        row: dict[str, Any] = {"index": int(index)}
        row.update({name: float(card.values[name][index]) for name in names if np.isfinite(card.values[name][index])})
        rows.append(row)
    return [Evidence(kind="series", path=card.file or None, rows=rows, label=f"readings of card {card.device}")]


def _hit(
    store: Store,
    cards: Sequence[Card],
    index: int,
    captures: Mapping[str, Any],
    plot: Sequence[str],
    severity: str | None = None,
) -> Hit:
    """Return a hit about cards; the first one and its reading `index` are shown."""
    worst = cards[0]
    time = worst.time[index]
    return Hit(
        evidence=[*_row(store, worst, index), *_curve(worst, plot)],
        captures={name: value for name, value in captures.items() if value is not None and value == value},
        devices=sorted({card.device for card in cards}),
        nodes=sorted({card.node for card in cards if card.node}),
        first_us=int(time) if time == time else None,
        severity=severity,
        occurrences=len(cards),
    )


def low_use(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Cards that hold a job compute less than half of the time."""
    limit = float(params.get("below_pct", 50))
    found = [(card, use) for card in judge.cards(store) if card.in_use and (use := judge.use(card)) is not None]
    low = sorted(((card, use) for card, use in found if use.mean_pct < limit), key=lambda item: item[1].mean_pct)
    # A few cards below the others are another matter.
    if not low or len(low) * 2 < len(found):
        return []
    if not any(np.any(card.get("util_pct") > 0) for card, _ in low):
        return []
    mean = float(np.mean([use.mean_pct for _, use in low]))
    card = low[0][0]
    util = card.values["util_pct"]
    index = int(np.nanargmin(np.abs(util - np.nanmean(util))))
    captures = {
        "mean": round(mean, 1),
        "lowest": round(low[0][1].mean_pct, 1),
        "samples": int(sum(use.samples for _, use in low)),
        "cards": len(low),
        "all_cards": len(found),
    }
    return [_hit(store, [card for card, _ in low], index, captures, ("util_pct", "power_w", "hbm_pct"))]


def uneven(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Some cards of a job compute much less than the others."""
    found = [(card, use) for card in judge.cards(store) if card.in_use and (use := judge.use(card)) is not None]
    if len(found) < 3:
        return []
    middle = float(np.median([use.mean_pct for _, use in found]))
    low = sorted(
        ((card, use) for card, use in found if use.mean_pct < 0.7 * middle and middle - use.mean_pct >= 15),
        key=lambda item: item[1].mean_pct,
    )
    if not low or len(low) * 2 >= len(found):
        return []
    card, use = low[0]
    captures = {"mean": round(use.mean_pct, 1), "others": round(middle, 1), "cards": len(low), "all_cards": len(found)}
    util = card.values["util_pct"]
    return [
        _hit(store, [one for one, _ in low], int(np.nanargmin(util)), captures, ("util_pct", "clock_mhz", "temp_c"))
    ]


def idle(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Cards hold no memory and compute nothing while their neighbours work."""
    known = judge.cards(store)
    busy = [card for card in known if card.in_use and (use := judge.use(card)) is not None and use.mean_pct >= 20]
    rest = [
        card
        for card in known
        if not card.in_use and (use := judge.use(card)) is not None and use.mean_pct < 1 and card.get("hbm_pct").size
    ]
    if not rest or len(busy) < 2 or len(rest) > len(busy):
        return []
    return [_hit(store, rest, 0, {"cards": len(rest), "busy": len(busy)}, ("util_pct",))]


def clock(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Cards lower their clock while they work."""
    found = [(card, drop) for card in judge.cards(store) if (drop := judge.clock_drop(card)) is not None]
    if not found:
        return []
    found.sort(key=lambda item: item[1].low / item[1].high)
    _, drop = found[0]
    captures = {
        "high": drop.high,
        "low": drop.low,
        "drop": round(100 * (1 - drop.low / drop.high), 1),
        "rows": drop.rows,
        "temp": drop.temp_c,
        "power": drop.power_w,
    }
    return [_hit(store, [one for one, _ in found], drop.index, captures, ("clock_mhz", "temp_c", "power_w"))]


def hot(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Cards are hotter than they should be."""
    limit = float(params.get("above_c", 90))
    found = []
    for card in judge.cards(store):
        temp = card.values["temp_c"]
        if np.isfinite(temp).any() and float(np.nanmax(temp)) >= limit and float(np.nanmax(temp)) < 200:
            found.append((card, int(np.nanargmax(temp))))
    if not found:
        return []
    found.sort(key=lambda item: -item[0].values["temp_c"][item[1]])
    card, index = found[0]
    highest = float(card.values["temp_c"][index])
    captures = {"temp": highest, "limit": limit, "cards": len(found)}
    severity = "error" if highest >= float(params.get("error_c", 105)) else None
    return [_hit(store, [one for one, _ in found], index, captures, ("temp_c", "clock_mhz", "power_w"), severity)]


def full(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Device memory is as good as full."""
    limit = float(params.get("above_pct", 97))
    found = []
    for card in judge.cards(store):
        share = card.values["hbm_pct"]
        if np.isfinite(share).any() and float(np.nanmax(share)) >= limit:
            found.append((card, int(np.nanargmax(share))))
    if not found:
        return []
    found.sort(key=lambda item: -item[0].values["hbm_pct"][item[1]])
    card, index = found[0]
    used, total = card.values["hbm_used_mb"][index], card.values["hbm_total_mb"][index]
    captures = {
        "share": round(float(card.values["hbm_pct"][index]), 1),
        "used": round(float(used) / 1024, 1) if used == used else None,
        "total": round(float(total) / 1024, 1) if total == total else None,
        "cards": len(found),
    }
    return [_hit(store, [one for one, _ in found], index, captures, ("hbm_pct", "util_pct"))]
