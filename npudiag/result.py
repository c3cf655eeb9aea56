"""The result document: everything a run found out, as one typed, versioned value.

Every report, the gate and ``npudiag render`` are renderings of this document and
take nothing else. `schema` is raised when a field changes its meaning or goes;
new optional fields leave it as it is.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SCHEMA_VERSION = 1

Severity = Literal["critical", "error", "warning", "info"]
Confidence = Literal["high", "medium", "low"]
Role = Literal["root", "consequence", "contributing"]
Trust = Literal["cause", "specific", "generic", "envelope"]
Disposition = Literal["safe", "review", "risky"]
EvidenceKind = Literal["log", "rows", "series", "metric", "absence"]
RemedyKind = Literal["flag", "env", "config", "command", "code", "hardware", "collect"]
ChartKind = Literal["curves", "bars", "grid"]
AxisName = Literal["step", "second", "reading", "rank"]

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error", "critical")
"""Severities from the mildest to the worst."""

CATEGORIES: tuple[str, ...] = (
    "hccl-init",
    "hccl-timeout",
    "device-fault",
    "aicore-exception",
    "aicpu-exception",
    "operator",
    "graph-capture",
    "moe",
    "kv-cache",
    "kv-transfer",
    "out-of-memory",
    "process-conflict",
    "environment",
    "version-mismatch",
    "permission",
    "scheduling",
    "config",
    "data-pipeline",
    "checkpoint",
    "numerics",
    "performance",
    "host-fault",
    "insufficient-evidence",
)


class Tool(msgspec.Struct, kw_only=True):
    """What made the document."""

    name: str = "npudiag"
    version: str
    rules_version: str = ""
    """Hash of the rule pack in use, 12 hex digits."""
    rules: int = 0
    """Number of rules loaded."""


class Input(msgspec.Struct, kw_only=True):
    """One file that was looked at."""

    path: str
    """Relative to the input argument's parent, POSIX; ``a.tgz!/b.log`` inside an archive; ``-`` for stdin."""
    kind: str
    """Name of the parser that read it; ``unknown`` (not recognised) or ``skipped`` (not read)."""
    node: str | None = None
    rank: int | None = None
    device: int | None = None
    pid: int | None = None
    lines: int = 0
    bytes: int = 0
    unparsed: int = 0
    """Lines the parser could not assign to any record."""
    encoding: str = "utf-8"
    normalised: list[str] = []
    """What was undone before parsing: ``ansi``, ``crlf``, ``grep-prefix``, ``launcher-prefix``, ..."""
    truncated: bool = False
    note: str = ""
    """Why it was skipped, not fully read or not recognised; empty otherwise."""
    first_time: str | None = None
    last_time: str | None = None


class Problem(msgspec.Struct, kw_only=True):
    """Something that kept npudiag from seeing all of the input."""

    path: str
    reason: str
    """``unreadable`` ``truncated`` ``corrupt`` ``bomb`` ``vanished`` ``unsupported`` ``escape`` ``loop`` ``special``
    ``grew`` ``limit`` ``duplicate``"""
    message: str
    line: int | None = None
    lost: bool = True
    """Whether part of the input was not analysed because of it (makes a run incomplete)."""


class LevelMinute(msgspec.Struct, kw_only=True):
    """Line counts of one minute, for the log-level timeline."""

    minute: str
    """``YYYY-MM-DDTHH:MM``, clock of the log."""
    counts: dict[str, int]
    """Level to number of lines."""


class Coverage(msgspec.Struct, kw_only=True):
    """What was read, and what was not."""

    files: int = 0
    recognised: int = 0
    unknown: int = 0
    skipped: int = 0
    lines: int = 0
    bytes: int = 0
    unparsed: int = 0
    kept: int = 0
    """Rows kept in table ``log``."""
    folded: int = 0
    """Lines worth keeping that are represented by an equal one's count only."""
    ranks: list[int] = []
    ranks_expected: int | None = None
    ranks_missing: list[int] = []
    nodes: list[str] = []
    devices: list[int] = []
    first_time: str | None = None
    last_time: str | None = None
    levels: dict[str, int] = {}
    """Lines by level over all files."""
    timeline: list[LevelMinute] = []
    """At most 240 buckets; ``bucket_minutes`` wide each."""
    bucket_minutes: int = 1
    clock_notes: list[str] = []
    problems: list[Problem] = []
    complete: bool = True
    """False where a problem lost part of the input."""
    i18n: dict[str, dict[str, list[str]]] = {}
    """``{"zh": {"clock_notes": [..]}}``"""


class Impact(msgspec.Struct, kw_only=True):
    """What a finding cost."""

    fatal: bool = False
    lost_pct: float | None = None
    lost_ms: float | None = None
    basis: str = ""


class Scope(msgspec.Struct, kw_only=True):
    """Whom a finding is about: for a root cause the culprit, not the victims."""

    ranks: list[int] = []
    nodes: list[str] = []
    devices: list[int] = []
    steps: list[int] = []
    first: str | None = msgspec.field(name="from", default=None)
    last: str | None = msgspec.field(name="to", default=None)


class Evidence(msgspec.Struct, kw_only=True):
    """Proof: what stands where."""

    kind: EvidenceKind = "log"
    path: str | None = None
    line: int | None = None
    """1-based, in the file as it lies on disk."""
    highlights: list[str] = []
    """What made the rule match, and what it captured: substrings of `text`."""
    text: str | None = None
    rows: list[dict[str, Any]] | None = None
    value: float | int | str | None = None
    label: str = ""
    before: list[str] = []
    after: list[str] = []
    """Lines around `text`, as they stand in the file."""
    count: int | None = None
    """How many lines this one stands for."""


class Change(msgspec.Struct, kw_only=True):
    """One setting to change."""

    key: str
    to: str
    old: str | None = msgspec.field(name="from", default=None)


class Place(msgspec.Struct, kw_only=True):
    """Where a setting was made."""

    path: str
    line: int


class Remedy(msgspec.Struct, kw_only=True):
    """What to do about a finding."""

    kind: RemedyKind
    text: str
    change: Change | None = None
    command: str | None = None
    at: Place | None = None
    stack: list[str] = []
    disposition: Disposition = "review"
    expect: str = ""
    verify: str = ""


class RunnerUp(msgspec.Struct, kw_only=True):
    """The next best explanation, and why it was not taken."""

    code: str
    why_not: str


class Finding(msgspec.Struct, kw_only=True):
    """One problem, with proof and remedy."""

    id: str
    """Unique within the document: ``f1``, ``f2``, ..."""
    code: str
    name: str
    category: str
    severity: Severity
    confidence: Confidence
    trust: Trust = "specific"
    status: Literal["fail", "info"] = "fail"
    role: Role = "root"
    impact: Impact = msgspec.field(default_factory=Impact)
    title: str
    summary: str = ""
    scope: Scope = msgspec.field(default_factory=Scope)
    evidence: list[Evidence] = []
    remedies: list[Remedy] = []
    caused_by: list[str] = []
    """Ids of the findings that explain this one."""
    runner_up: RunnerUp | None = None
    reasons: list[str] = []
    """Why this is taken for the cause, and why the runner-up is not; for roots."""
    settle: str = ""
    """What would settle the matter; for roots."""
    collect: list[str] = []
    references: list[str] = []
    captures: dict[str, Any] = {}
    occurrences: int = 1
    suppressed: dict[str, str] | None = None
    fingerprint: str = ""
    i18n: dict[str, dict[str, Any]] = {}
    """``{"zh": {"title": .., "summary": .., "remedies": [{"text","expect","verify"}], "collect": [..],
    "reasons": [..], "settle": .., "runner_up": {"why_not": ..}}}``"""


class Passed(msgspec.Struct, kw_only=True):
    """A rule that looked and found nothing."""

    code: str
    name: str
    category: str = ""


class Skipped(msgspec.Struct, kw_only=True):
    """A rule that could not judge."""

    code: str
    name: str
    category: str = ""
    missing: list[str]
    """Tables without rows."""


class RuleFailure(msgspec.Struct, kw_only=True):
    """A rule that broke; never counted as passed."""

    code: str
    name: str
    category: str = ""
    message: str


class Verdict(msgspec.Struct, kw_only=True):
    """The answer in one sentence."""

    text: str
    confidence: Confidence | None = None
    status: Literal["healthy", "findings", "insufficient", "nothing-recognised"]
    i18n: dict[str, dict[str, str]] = {}


class Curve(msgspec.Struct, kw_only=True):
    """One line of a chart, or one part of its bars."""

    name: str
    values: list[float | None]
    """One per place of the chart's `x`; None where there is nothing to show."""
    marks: list[int] = []
    """Places that stand out, as indexes into `values`; thinning keeps them."""


class Panel(msgspec.Struct, kw_only=True):
    """Curves of one quantity."""

    name: str
    """``loss``, ``grad_norm``, ``step_time_ms``, ``kv_usage_pct``, ...: mostly the column of the table."""
    unit: str = ""
    curves: list[Curve]
    limit: float | None = None
    """What the quantity is to be held against."""
    limit_name: Literal["", "capacity", "median"] = ""


class Grid(msgspec.Struct, kw_only=True):
    """A value for each pair of row and column, one byte each."""

    unit: str = ""
    row_name: str
    rows: list[int]
    column_name: str
    columns: list[int]
    """First number of each column; several are put together where there are too many."""
    low: float
    """Value of byte 0."""
    high: float
    """Value of byte 254; bytes between are linear."""
    cells: str
    """Base64, row by row; 255 where there is no value."""


class Phase(msgspec.Struct, kw_only=True):
    """A stretch of the job."""

    name: Literal["starting", "training", "silent", "afterwards"]
    first: float
    last: float
    """Seconds on the chart's axis."""


class Happening(msgspec.Struct, kw_only=True):
    """Something that happened at a moment of the job."""

    kind: str
    """``save``, ``load``, ``validation``, ``failure``, ``end``, ...: as in table ``train_events``."""
    at: float
    """Seconds on the chart's axis."""
    step: int | None = None
    path: str = ""
    line: int | None = None


class Chart(msgspec.Struct, kw_only=True):
    """The numbers behind one chart, thinned to what a screen can show; extremes and marks are always kept."""

    name: str
    """``job``, ``loss``, ``pace``, ``breakdown``, ``skew``, ``links``, ``memory``, ``npu``, ``serving``, ..."""
    kind: ChartKind
    about: str = ""
    """Which one it is of several: a transport, an engine, ..."""
    table: str = ""
    """Table that holds all the numbers."""
    file: str = ""
    """Input they come from; empty where they come from several."""
    rows: int = 0
    """Rows of the table that the chart stands for."""
    x_name: AxisName = "step"
    start: str | None = None
    """Time at second 0, clock of the log."""
    x: list[float] = []
    panels: list[Panel] = []
    grid: Grid | None = None
    phases: list[Phase] = []
    happenings: list[Happening] = []


class Result(msgspec.Struct, kw_only=True):
    """The whole document."""

    schema: int = SCHEMA_VERSION
    tool: Tool
    command: list[str] = []
    created: str = ""
    """UTC, ISO 8601."""
    verdict: Verdict
    inputs: list[Input] = []
    coverage: Coverage = msgspec.field(default_factory=Coverage)
    findings: list[Finding] = []
    """Roots first by impact, each followed by its consequences; ``findings[0]`` is the root cause."""
    passed: list[Passed] = []
    skipped: list[Skipped] = []
    errors: list[RuleFailure] = []
    charts: list[Chart] = []
    facts: dict[str, Any] = {}
    snapshot: dict[str, Any] = {}
    """What a comparison with another run needs; empty where the input has nothing to compare."""
    timings: dict[str, float] = {}
    """Seconds per stage."""


def encode(result: Result, *, indent: int = 1) -> bytes:
    """Return the document as UTF-8 JSON."""
    return msgspec.json.format(msgspec.json.encode(result), indent=indent) + b"\n"


def decode(data: bytes) -> Result:
    """Read a document.

    Raises:
        msgspec.ValidationError: `data` is not a result document.
        msgspec.DecodeError: `data` is not JSON.
    """
    return msgspec.json.decode(data, type=Result)


def json_schema() -> dict[str, Any]:
    """Return the JSON schema (2020-12) of the document."""
    return msgspec.json.schema(Result)
