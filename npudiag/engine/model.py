"""A rule as the engine uses it: plain typed data, validated, free of YAML."""

from __future__ import annotations

from typing import Any

import msgspec

from npudiag.result import Confidence, Disposition, RemedyKind, Severity, Trust


class Text(msgspec.Struct, frozen=True):
    """A text for users in both languages; a template over captures."""

    en: str
    zh: str


class Near(msgspec.Struct, frozen=True, kw_only=True):
    """Companions that must (or must not) stand close to the record, in the same file."""

    lines: int = 30
    any: tuple[str, ...] = ()
    all: tuple[str, ...] = ()
    regex: str | None = None
    unless: tuple[str, ...] = ()
    optional: bool = False
    """The regex only adds captures; it need not match."""


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Filters on a record's columns. A record that lacks the column passes."""

    level: tuple[str, ...] = ()
    module: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """What a record must say. All given conditions hold together."""

    any: tuple[str, ...] = ()
    all: tuple[str, ...] = ()
    regex: str | None = None
    unless: tuple[str, ...] = ()
    where: Where = Where()
    near: Near | None = None
    types: dict[str, str] = {}
    """Capture name to ``int``, ``float``, ``hex`` or ``str``."""
    count: int = 1
    """At least so many records (repeats counted) ..."""
    within_s: float | None = None
    """... inside so many seconds (records without a time count as inside)."""
    per: tuple[str, ...] = ()
    """Group columns, one finding each: ``rank`` ``device`` ``node`` ``pid`` ``file``; empty: one finding."""
    then: Signature | None = None
    """A record that must follow later in the same group; its `within_s` is the longest gap."""
    cleared_by: Signature | None = None
    """A later record of the same file that takes the matter back, e.g. a resume event; such a match does not count."""
    same: tuple[str, ...] = ()
    """In `cleared_by`: captures that both records have in common."""
    nocase: bool = False


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A setting and its new value."""

    key: str
    to: str
    old: str | None = None


class RuleRemedy(msgspec.Struct, frozen=True, kw_only=True):
    """A remedy as a rule states it."""

    kind: RemedyKind
    text: Text
    change: Change | None = None
    command: str | None = None
    stack: tuple[str, ...] = ()
    disposition: Disposition = "review"
    expect: Text | None = None
    verify: Text | None = None


class RuleTest(msgspec.Struct, frozen=True, kw_only=True):
    """One test of a rule. `files` maps a relative path to its text."""

    name: str
    files: dict[str, str] = {}
    skip: bool = False
    findings: int = 0
    captures: dict[str, Any] = {}
    ranks: tuple[int, ...] | None = None
    devices: tuple[int, ...] | None = None
    nodes: tuple[str, ...] | None = None
    also: tuple[str, ...] = ()
    """Names of other rules that this sample may fire too."""
    tables: dict[str, list[dict[str, Any]]] = {}
    """Rows for query and python rules, by table."""
    line: int = 0


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule."""

    code: str
    name: str
    category: str
    severity: Severity
    confidence: Confidence
    trust: Trust = "specific"
    fatal: bool | None = None
    """None: fatal where severity is critical."""
    fallback: bool = False
    """Looks last, and only where no other rule explains a failure."""
    title: Text
    why: Text
    needs: tuple[str, ...] = ("log",)
    signatures: tuple[Signature, ...] = ()
    """Alternatives; empty for query and python rules."""
    query: str | None = None
    python: str | None = None
    params: dict[str, Any] = {}
    caused_by: tuple[str, ...] = ()
    remedies: tuple[RuleRemedy, ...] = ()
    collect: tuple[Text, ...] = ()
    references: tuple[str, ...] = ()
    tests: tuple[RuleTest, ...] = ()
    path: str = ""
    """Rule file, relative to its pack."""
