"""What chips can do: cores, clock, links. For captures that do not tell it themselves.

Cores and clocks are those of the platform files that CANN ships; a capture's own figures (its kernels' cycles, the
device's description) have the first word, since cards of one model are sold with different clocks. Links are one
direction of one link, as the profiler's own bandwidth judgement takes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FLOPS_PER_CYCLE = 2 * 16 * 16 * 16
"""Operations of one cube core in half precision per cycle: a product of two 16 x 16 blocks."""


@dataclass(frozen=True)
class Chip:
    """One model.

    Attributes:
        pattern: What its name, as databases and drivers write it, matches.
        cores: Cube cores; None where models that share the name differ.
        mhz: Rated clock.
        links: Transport to GB/s.
    """

    pattern: str
    cores: int | None = None
    mhz: float | None = None
    links: Mapping[str, float] = field(default_factory=dict)


_OLD = {"HCCS": 18.0, "RDMA": 12.5, "PCIE": 20.0}
_NEW = {"HCCS": 28.0, "RDMA": 25.0}
CHIPS = (
    Chip(r"910B1", 24, 1850.0, _NEW),
    Chip(r"910B2", 24, 1800.0, _NEW),
    Chip(r"910B3", 20, 1800.0, _NEW),
    Chip(r"910B4", 20, 1650.0, _NEW),
    Chip(r"910B", links=_NEW),
    Chip(r"910_?(?:93|C)", links=_NEW),
    Chip(r"910A|910(?:Pro)?$", 32, 1000.0, _OLD),
)


def chip_of(name: str | None) -> Chip | None:
    """Return what is known of the chip with this name."""
    return next((chip for chip in CHIPS if name and re.search(chip.pattern, name)), None)


def core_mhz(facts: Mapping[str, Any]) -> float | None:
    """Return cube cores times their clock (MHz): measured on the kernels, else as described, else as rated."""
    measured = facts.get("core_mhz")
    if isinstance(measured, float):
        return measured
    cores, mhz = facts.get("cores"), facts.get("rated_mhz")
    if not cores or not mhz:
        chip = chip_of(facts.get("chip"))
        cores, mhz = (chip.cores, chip.mhz) if chip is not None else (None, None)
    return float(cores * mhz) if cores and mhz else None


def peak_flops(facts: Mapping[str, Any]) -> float | None:
    """Return the half precision operations per second of the chip, None where neither cores nor clock are known."""
    speed = core_mhz(facts)
    return None if speed is None else speed * 1e6 * FLOPS_PER_CYCLE


def link_gbps(name: str | None, transport: str) -> float | None:
    """Return what one link of this kind can move in one direction (GB/s)."""
    chip = chip_of(name)
    return None if chip is None else chip.links.get(transport)
