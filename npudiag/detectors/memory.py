"""What the figures of an allocator's message say: memory in pieces, or memory that the process never had."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npudiag.engine.hits import Hit

if TYPE_CHECKING:
    from npudiag.tables.records import LogRecord
    from npudiag.tables.store import Store

_MIB = {"B": 2.0**-20, "KiB": 2.0**-10, "MiB": 1.0, "GiB": 2.0**10, "TiB": 2.0**20}
_SIZE = r"[\d.]+ ?[KMGT]?i?B"
_MESSAGE = re.compile(
    rf"out of memory\. Tried to allocate (?P<tried>{_SIZE})[^\n]*?(?P<total>{_SIZE}) total capacity"
    rf"[^\n]*?(?P<allocated>{_SIZE}) already allocated(?:[^\n]*?(?P<active>{_SIZE}) current active)?"
    rf"[^\n]*?(?P<free>{_SIZE}) free[^\n]*?(?P<reserved>{_SIZE}) reserved"
)
_MOST = 64
"""Records a finding rests on, at most: thousands of ranks may say the same."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that an allocator refused.

    Attributes:
        record: Where it stands.
        told: The figures as printed.
        tried, total, allocated, free, reserved: The same in MiB; `allocated` includes what streams still use.
    """

    record: LogRecord
    told: dict[str, str]
    tried: float
    total: float
    allocated: float
    free: float
    reserved: float

    @property
    def unused(self) -> float:
        """Memory in MiB that the allocator holds and nothing uses."""
        return self.reserved - self.allocated

    @property
    def outside(self) -> float:
        """Memory of the card in MiB that is neither free nor the allocator's."""
        return self.total - self.free - self.reserved


def refusals(store: Store) -> Iterator[Refusal]:
    """Yield the refused requests whose figures are all told, one per text."""
    seen: set[str] = set()
    for record in store.log:
        if "ried to allocate" not in record.text or record.text in seen:
            continue
        seen.add(record.text)
        match = _MESSAGE.search(record.text)
        if match is None:
            continue
        told = {name: text for name, text in match.groupdict().items() if text is not None}
        sizes = {name: _mib(text) for name, text in told.items()}
        if any(size is None for size in sizes.values()):
            continue
        known = {name: size for name, size in sizes.items() if size is not None}
        yield Refusal(
            record,
            {name: text for name, text in told.items() if name != "active"},
            known["tried"],
            known["total"],
            max(known["allocated"], known.get("active", 0.0)),
            known["free"],
            known["reserved"],
        )


def _mib(text: str) -> float | None:
    number, unit = text.rstrip("KMGTiB "), text.lstrip("0123456789. ")
    try:
        return float(number) * _MIB[unit]
    except (ValueError, KeyError):
        return None


def fragmented(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Find requests that what the allocator holds unused would have satisfied; a tenth of its memory at least."""
    return _hit(
        store,
        lambda one: one.unused >= max(one.tried, 0.1 * one.reserved),
        lambda one: {"unused": round(one.unused / 1024, 1)},
    )


def held_elsewhere(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Find requests that failed while a quarter of the card or more was in other hands."""
    return _hit(
        store,
        lambda one: one.outside >= max(one.tried - one.free, 0.25 * one.total),
        lambda one: {"outside": round(one.outside / 1024, 1)},
    )


def _hit(store: Store, holds: Callable[[Refusal], bool], figures: Callable[[Refusal], dict[str, Any]]) -> list[Hit]:
    found = [one for one in refusals(store) if holds(one)]
    if not found:
        return []
    first = found[0]
    return [
        Hit(
            records=[one.record for one in found[:_MOST]],
            captures={**first.told, **figures(first)},
            occurrences=len(found),
            marks=tuple(first.told.values()),
            values=tuple(first.told.values()),
        )
    ]
