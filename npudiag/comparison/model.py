"""The document of a comparison: everything it found out, as one typed, versioned value. Every report renders it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from npudiag.result import Severity

SCHEMA_VERSION = 1

Part = Literal["computing", "communication", "pipeline", "free"]
Better = Literal["lower", "higher", "neither"]


class Said(msgspec.Struct, frozen=True):
    """A text in both languages."""

    en: str
    zh: str


class Side(msgspec.Struct, kw_only=True):
    """One of the two."""

    name: str
    kind: Literal["run", "document"]
    verdict: Said
    cards: int | None = None
    stack: str = ""
    version: str = ""
    files: int = 0
    recognised: bool = True
    """False where nothing in it was of a kind that is known."""
    complete: bool = True
    """False where part of the input was not analysed."""
    untold: list[Said] = []
    """What it does not tell, so that it could not be compared."""


class Setting(msgspec.Struct, kw_only=True):
    """An option, a variable or a version that differs."""

    name: str
    kind: Literal["option", "env", "config", "version"]
    a: str | None = None
    """Value in A; empty for an option without one, None where it is not set."""
    b: str | None = None
    at_a: str = ""
    """``path:line``."""
    at_b: str = ""
    touches: list[str] = []
    """Parts of the step, ``memory``, ``loss`` or ``workload``: what it is known to change."""
    incidental: bool = False
    """Whether it differs between any two runs: paths, addresses, ports."""


class Measure(msgspec.Struct, kw_only=True):
    """A quantity that both sides tell."""

    area: Literal["speed", "step", "kernel", "communication", "memory", "loss"]
    name: str
    unit: str
    a: float | None
    b: float | None
    better: Better = "lower"
    note: Said | None = None
    whole: float | None = None
    """What it is a part of in A, which its change is held against; None: itself."""

    @property
    def change(self) -> float:
        """B minus A; what one side lacks counts as nothing."""
        return (self.b or 0.0) - (self.a or 0.0)

    @property
    def change_pct(self) -> float | None:
        """Change in percent of A; None where A has nothing."""
        return 100.0 * self.change / abs(self.a) if self.a else None


class Cause(msgspec.Struct, kw_only=True):
    """A share of the difference of the step time, and what explains it."""

    part: Part
    ms: float
    """Change per step in ms; below zero where B takes less."""
    share_pct: float | None = None
    """Of the whole change; None where that is next to nothing."""
    text: Said
    """What it is, and where it comes from as far as that is known."""
    settings: list[str] = []
    """Names of the settings that differ and touch this part."""
    certain: bool = False
    """Whether exactly one setting that differs works on this part in this direction."""


class LossPoint(msgspec.Struct, kw_only=True):
    """The loss of both at one place."""

    at: float
    a: float
    b: float


class Loss(msgspec.Struct, kw_only=True):
    """The two loss curves against each other."""

    by: Literal["step", "samples"]
    points: int
    state: Literal["identical", "within-noise", "diverged"]
    first_difference: LossPoint | None = None
    """First place at which the printed values differ."""
    divergence: LossPoint | None = None
    """First place from which on they stay apart by more than their own noise."""
    last: LossPoint
    curve: list[LossPoint] = []
    """At most 240 points for a plot."""
    text: Said


class FindingChange(msgspec.Struct, kw_only=True):
    """A problem that only one of the two has."""

    state: Literal["new", "gone"]
    code: str
    name: str
    severity: Severity
    role: str
    title: Said
    at: str = ""
    """``path:line`` of its first proof."""


class Scaling(msgspec.Struct, kw_only=True):
    """How well a larger job uses its cards."""

    cards_a: int
    cards_b: int
    basis: Literal["samples", "tflops"]
    """Samples per second by step time and batch, or the throughput per card that the log prints."""
    efficiency_pct: float
    ideal_ms: float | None = None
    """Step time of the larger job at perfect scaling."""
    lost_ms: float | None = None
    lost: list[Cause] = []
    text: Said


class Gate(msgspec.Struct, kw_only=True):
    """A judgement about B."""

    status: Literal["passed", "failed", "incomplete"]
    reasons: list[Said] = []


class Comparison(msgspec.Struct, kw_only=True):
    """The whole document."""

    schema: int = SCHEMA_VERSION
    version: str
    """Of npudiag."""
    command: list[str] = []
    created: str = ""
    """UTC, ISO 8601."""
    headline: Said
    a: Side
    b: Side
    step: Measure | None = None
    """What the two are judged by: time of a step, or per sample and card where the workloads differ."""
    causes: list[Cause] = []
    """Largest first."""
    scaling: Scaling | None = None
    settings: list[Setting] = []
    """Those that explain something first, incidental ones last."""
    measures: list[Measure] = []
    loss: Loss | None = None
    findings: list[FindingChange] = []
    notes: list[Said] = []
    """What to keep in mind when reading it."""
    gate: Gate | None = None
    seconds: float = 0.0


def encode(comparison: Comparison) -> bytes:
    """Return the document as UTF-8 JSON."""
    return msgspec.json.format(msgspec.json.encode(comparison), indent=1) + b"\n"


def decode(data: bytes) -> Comparison:
    """Read a document.

    Raises:
        msgspec.ValidationError: `data` is no comparison.
    """
    return msgspec.json.decode(data, type=Comparison)


def json_schema() -> dict[str, Any]:
    """Return the JSON schema (2020-12) of the document."""
    return msgspec.json.schema(Comparison)
