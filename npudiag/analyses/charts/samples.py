"""Charts of what is read at intervals: cards and serving engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from npudiag.analyses import npu
from npudiag.analyses import serving as engines
from npudiag.analyses.charts.thin import bins, short, shorts
from npudiag.result import AxisName, Chart, Curve, Panel
from npudiag.tables.store import moment

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudiag.tables.store import Store

    Floats = npt.NDArray[np.float64]

_BINS = 120
_FEW_BINS = 60
_MANY = 4
"""More sources than these are laid on fewer bins."""
_CURVES = 8
_DIGITS = 4
_LEAST = 4


@dataclass(slots=True)
class _Source:
    """One card or engine."""

    name: str
    time: Floats
    values: dict[str, Floats]


@dataclass(slots=True)
class _Axis:
    """A common axis."""

    name: AxisName
    start: str | None
    x: list[float]
    place: list[npt.NDArray[np.int64]]
    """Bin of each reading, by source."""


def _axis(sources: Sequence[_Source]) -> _Axis:
    """Lay all readings on one axis: of time where every source has it, of reading numbers otherwise."""
    most = max(source.time.size for source in sources)
    count = min(_BINS if len(sources) <= _MANY else _FEW_BINS, most)
    if all(np.isfinite(source.time).all() for source in sources):
        first = min(float(source.time.min()) for source in sources)
        width = (max(float(source.time.max()) for source in sources) - first) / max(count - 1, 1)
        if width > 0:
            place = [np.rint((source.time - first) / width).astype(np.int64) for source in sources]
            start = moment(int(first))
            return _Axis(
                "second",
                start.isoformat(timespec="seconds") if start else None,
                [round(i * width / 1e6, 1) for i in range(count)],
                place,
            )
    place = [np.arange(source.time.size) * count // most for source in sources]
    return _Axis("reading", None, [float(-(-i * most // count) + 1) for i in range(count)], place)


def _panel(
    axis: _Axis, sources: Sequence[_Source], column: str, unit: str, how: str, limit: float | None = None
) -> Panel | None:
    """Sum up a column; of many sources those farthest from the middle are shown, and the middle."""
    curves = [
        (source.name, bins(source.values[column], place, len(axis.x), how))
        for source, place in zip(sources, axis.place, strict=True)
    ]
    curves = [(name, values) for name, values in curves if np.isfinite(values).any()]
    if not curves:
        return None
    if len(curves) > _CURVES:
        together = np.stack([values for _, values in curves])
        filled = np.isfinite(together).any(axis=0)
        middle = np.full(len(axis.x), np.nan)
        middle[filled] = np.nanmedian(together[:, filled], axis=0)
        away = [float(np.nanmean(np.abs(values - middle))) for _, values in curves]
        far = sorted(sorted(range(len(curves)), key=lambda i: -away[i])[: _CURVES - 1])
        curves = [("median", middle), *(curves[i] for i in far)]
    return Panel(
        name=column,
        unit=unit,
        curves=[Curve(name=name, values=shorts(values, _DIGITS)) for name, values in curves],
        limit=limit,
        limit_name="capacity" if limit is not None else "",
    )


def _card_sources(store: Store) -> list[_Source]:
    found = npu.cards(store)
    chosen = [card for card in found if card.in_use] or found
    nodes = {card.node for card in chosen}
    return [
        _Source(f"{card.node} {card.device}" if len(nodes) > 1 else str(card.device), card.time, card.values)
        for card in chosen
        if len(card) >= _LEAST
    ]


def cards(store: Store) -> Chart | None:
    """Return utilisation, clock, temperature and power of the cards."""
    sources = _card_sources(store)
    if not sources:
        return None
    axis = _axis(sources)
    panels = [
        _panel(axis, sources, column, unit, how)
        for column, unit, how in (
            ("util_pct", "%", "mean"),
            ("clock_mhz", "MHz", "min"),
            ("temp_c", "°C", "max"),
            ("power_w", "W", "max"),
        )
    ]
    return _chart("npu", "npu_samples", store.size("npu_samples"), axis, panels)


def memory(store: Store) -> Chart | None:
    """Return the device memory in use against its capacity."""
    sources = _card_sources(store)
    if not sources:
        return None
    axis = _axis(sources)
    totals = np.concatenate([source.values["hbm_total_mb"] for source in sources])
    totals = totals[np.isfinite(totals)]
    used = _panel(axis, sources, "hbm_used_mb", "MB", "max", short(float(np.median(totals))) if totals.size else None)
    panel = used if used is not None and totals.size else _panel(axis, sources, "hbm_pct", "%", "max", 100.0) or used
    return _chart("memory", "npu_samples", store.size("npu_samples"), axis, [panel])


def serving(store: Store) -> Chart | None:
    """Return use of the KV cache, queue and throughput of serving engines."""
    found = [one for one in engines.engines(store) if len(one) >= _LEAST]
    if not found:
        return None
    sources = [_Source(one.name or str(number), one.time, one.values) for number, one in enumerate(found)]
    axis = _axis(sources)
    panels = [
        _panel(axis, sources, column, unit, how)
        for column, unit, how in (
            ("kv_usage_pct", "%", "max"),
            ("waiting", "", "max"),
            ("running", "", "max"),
            ("generation_tps", "tokens/s", "mean"),
        )
    ]
    return _chart("serving", "serving", store.size("serving"), axis, panels)


def _chart(name: str, table: str, rows: int, axis: _Axis, panels: Sequence[Panel | None]) -> Chart | None:
    shown = [panel for panel in panels if panel is not None]
    if not shown:
        return None
    return Chart(
        name=name, kind="curves", table=table, rows=rows, x_name=axis.name, start=axis.start, x=axis.x, panels=shown
    )
