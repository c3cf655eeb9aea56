"""The parts of ``communication.json`` that are used, typed for fast decoding."""

from __future__ import annotations

import math

import msgspec


class Time(msgspec.Struct, gc=False):
    """Times of one operation."""

    start: float = msgspec.field(name="Start Timestamp(us)", default=0.0)
    elapse: float = msgspec.field(name="Elapse Time(ms)", default=math.nan)
    transit: float = msgspec.field(name="Transit Time(ms)", default=0.0)
    wait: float = msgspec.field(name="Wait Time(ms)", default=0.0)
    sync: float = msgspec.field(name="Synchronization Time(ms)", default=0.0)


class Band(msgspec.Struct, gc=False):
    """Data over one kind of link."""

    size: float = msgspec.field(name="Transit Size(MB)", default=0.0)
    time: float = msgspec.field(name="Transit Time(ms)", default=0.0)
    sizes: dict[str, list[float]] = msgspec.field(name="Size Distribution", default_factory=dict)


class Operation(msgspec.Struct, gc=False):
    """One operation."""

    time: Time = msgspec.field(name="Communication Time Info")
    band: dict[str, Band] = msgspec.field(name="Communication Bandwidth Info", default_factory=dict)
