"""Known findings, and the metrics of a run that was good enough: what a gate compares with.

The file is JSON with one entry a line, sorted, so that a change to it reads well in a review.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from npudiag.diagnosis import fingerprint, verdict
from npudiag.errors import ConfigError, UsageError
from npudiag.result import SEVERITIES, Finding, Result, Severity

SCHEMA = 1
FILE_NAME = "npudiag-baseline.json"
SLACK = 0.2
"""A finding is worse than known when it stands in this much more lines than before: counts of lines vary from run
to run, since how long ranks wait and retry does."""
_MOST_BYTES = 32 << 20


class Entry(msgspec.Struct, kw_only=True):
    """One known finding."""

    fingerprint: str
    code: str
    rule: str
    title: str
    severity: Severity
    count: int = 1
    """How often it occurred, summed over the findings of this fingerprint."""
    first_seen: str
    """Day, ``YYYY-MM-DD``."""
    reason: str = ""
    until: str | None = None
    """Last day on which it is accepted."""

    def expired(self, today: datetime.date) -> bool:
        """Tell whether its last day has gone by."""
        return self.until is not None and today > datetime.date.fromisoformat(self.until)


class Baseline(msgspec.Struct, kw_only=True):
    """A baseline file."""

    schema: int = SCHEMA
    findings: list[Entry] = []
    metrics: dict[str, dict[str, float]] = {}


@dataclass(slots=True)
class Group:
    """The findings of a run that share a fingerprint, as one."""

    findings: list[Finding]
    severity: Severity
    count: int = 0


class Listed(msgspec.Struct, kw_only=True):
    """An entry, or a finding, that a report names."""

    fingerprint: str
    code: str
    rule: str
    title: str
    why: str = ""
    reason: str = ""


class Comparison(msgspec.Struct, kw_only=True):
    """A run against a baseline."""

    file: str
    known: int = 0
    """Findings set aside."""
    new: list[Listed] = []
    worsened: list[Listed] = []
    expired: list[Listed] = []
    stale: list[Listed] = []
    """Entries whose rule looked and found nothing of the kind."""


def load(path: Path) -> Baseline:
    """Read a baseline.

    Raises:
        UsageError: It cannot be read.
        ConfigError: It is no baseline of a schema that this version knows.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"cannot read baseline {path}: {error.strerror or error}", hint="npudiag baseline create PATH writes one"
        ) from None
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"baseline {path} is larger than {_MOST_BYTES >> 20} MiB")
    try:
        found = msgspec.json.decode(data, type=Baseline)
        for entry in found.findings:
            entry.expired(datetime.date.min)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no baseline: {error}", hint="npudiag baseline create PATH writes one") from None
    if found.schema != SCHEMA:
        raise ConfigError(f"baseline {path} has schema {found.schema}; this version reads schema {SCHEMA}")
    for entry in found.findings:
        version = entry.fingerprint.partition(":")[0]
        if version != fingerprint.VERSION:
            raise ConfigError(
                f"baseline {path} holds fingerprints {version}; this version makes {fingerprint.VERSION}",
                hint="write it anew: npudiag baseline create --force",
            )
    return found


def dump(baseline: Baseline) -> bytes:
    """Return the file's content."""
    entries = sorted(baseline.findings, key=lambda entry: (entry.code, entry.rule, entry.fingerprint))
    lines = [_line({k: v for k, v in msgspec.to_builtins(entry).items() if v is not None}) for entry in entries]
    metrics = [
        f"  {_line(name)}: {_line(dict(sorted(values.items())))}" for name, values in sorted(baseline.metrics.items())
    ]
    text = f'{{"schema": {baseline.schema},\n "findings": ['
    text += "".join(f"\n  {line}{',' * (n < len(lines))}" for n, line in enumerate(lines, 1))
    text += '\n ],\n "metrics": {'
    text += "".join(f"\n{line}{',' * (n < len(metrics))}" for n, line in enumerate(metrics, 1))
    return (text + "\n }}\n").encode("utf-8", "replace")


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def groups(findings: Sequence[Finding]) -> dict[str, Group]:
    """Return the findings that nothing else sets aside, by fingerprint."""
    found: dict[str, Group] = {}
    for finding in findings:
        if finding.suppressed is not None or not finding.fingerprint:
            continue
        group = found.setdefault(finding.fingerprint, Group([], finding.severity))
        group.findings.append(finding)
        group.severity = max(group.severity, finding.severity, key=SEVERITIES.index)
        group.count += finding.occurrences
    return found


def metrics_of(result: Result) -> dict[str, dict[str, float]]:
    """Return ``facts.metrics`` of a document, without what is no number."""
    metrics = result.facts.get("metrics")
    if not isinstance(metrics, dict):
        return {}
    found: dict[str, dict[str, float]] = {}
    for name, values in metrics.items():
        if isinstance(values, dict):
            numbers = {str(key): number for key, value in values.items() if (number := _finite(value)) is not None}
            if numbers:
                found[str(name)] = numbers
    return found


def _finite(value: Any) -> float | None:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if plain and abs(value) < float("inf") else None


def apply(result: Result, baseline: Baseline, file: str, today: datetime.date) -> Comparison:
    """Set aside what the baseline knows, state the verdict anew and note the comparison in ``facts.baseline``.

    A finding that is worse than known (a higher severity, or clearly more occurrences) stays, as does one whose
    entry is expired.
    """
    known = {entry.fingerprint: entry for entry in baseline.findings}
    current = groups(result.findings)
    comparison = Comparison(file=file)
    for mark, group in current.items():
        entry = known.get(mark)
        if entry is None:
            comparison.new.append(_listed(group.findings[0]))
        elif entry.expired(today):
            comparison.expired.append(_listed(group.findings[0], f"expired on {entry.until}", entry.reason))
        elif why := worse(entry, group):
            comparison.worsened.append(_listed(group.findings[0], why, entry.reason))
        else:
            comparison.known += len(group.findings)
            for finding in group.findings:
                finding.suppressed = {"reason": entry.reason or "known since " + entry.first_seen, "by": "baseline"}
                if entry.until:
                    finding.suppressed["until"] = entry.until
    comparison.stale = [_of_entry(entry) for entry in stale(baseline, result)]
    result.facts["baseline"] = msgspec.to_builtins(comparison)
    result.verdict = verdict.state(result.findings, result.coverage)
    return comparison


def worse(entry: Entry, group: Group) -> str:
    """Say in which way findings are worse than the entry allows; empty where they are not."""
    if SEVERITIES.index(group.severity) > SEVERITIES.index(entry.severity):
        return f"severity {entry.severity} -> {group.severity}"
    if group.count > entry.count * (1 + SLACK):
        return f"occurrences {entry.count} -> {group.count}"
    return ""


def stale(baseline: Baseline, result: Result, rules: Collection[str] | None = None) -> list[Entry]:
    """Return the entries that nothing in the run matches, though their rule could judge.

    Args:
        baseline: The baseline.
        result: The run.
        rules: Names of all rules there are; with them, the entries of rules that are gone count as stale.
    """
    everything = {finding.fingerprint for finding in result.findings}
    judged = {item.name for item in result.passed} | {finding.name for finding in result.findings}
    return [
        entry
        for entry in baseline.findings
        if entry.fingerprint not in everything
        and (entry.rule in judged or (rules is not None and entry.rule not in rules))
    ]


def create(result: Result, *, reason: str, until: datetime.date | None, today: datetime.date) -> Baseline:
    """Return a baseline of everything in a run that is not set aside otherwise."""
    return Baseline(
        findings=[_entry(mark, group, reason, until, today) for mark, group in groups(result.findings).items()],
        metrics=metrics_of(result),
    )


def update(
    baseline: Baseline, result: Result, *, reason: str, until: datetime.date | None, today: datetime.date
) -> tuple[Baseline, int]:
    """Return the baseline with a run's new findings added and its known ones as they are now; and how many changed.

    Entries keep their reason and first day; one that expired gets the new reason and day. Entries without a finding
    stay (see `prune`). Metrics are those of the run, where it has them.
    """
    known = {entry.fingerprint: entry for entry in baseline.findings}
    changed = 0
    for mark, group in groups(result.findings).items():
        entry = known.get(mark)
        fresh = _entry(mark, group, reason, until, today)
        if entry is not None:
            fresh.first_seen = entry.first_seen
            if not entry.expired(today):
                fresh.reason, fresh.until = entry.reason, entry.until
            if not worse(entry, group) and group.severity == entry.severity:
                # Within the slack nothing changed; a file that changes with every run is not read in reviews.
                fresh.count, fresh.title = entry.count, entry.title
        if fresh != entry:
            changed += 1
            known[mark] = fresh
    return Baseline(findings=list(known.values()), metrics={**baseline.metrics, **metrics_of(result)}), changed


def prune(
    baseline: Baseline, result: Result, rules: Collection[str], today: datetime.date
) -> tuple[Baseline, list[Entry]]:
    """Return the baseline without stale and expired entries, and those entries."""
    gone = {entry.fingerprint for entry in stale(baseline, result, rules)}
    kept = [e for e in baseline.findings if e.fingerprint not in gone and not e.expired(today)]
    dropped = [e for e in baseline.findings if e.fingerprint in gone or e.expired(today)]
    return Baseline(findings=kept, metrics=baseline.metrics), dropped


def _entry(mark: str, group: Group, reason: str, until: datetime.date | None, today: datetime.date) -> Entry:
    first = group.findings[0]
    return Entry(
        fingerprint=mark,
        code=first.code,
        rule=first.name,
        title=first.title,
        severity=group.severity,
        count=group.count,
        first_seen=today.isoformat(),
        reason=reason,
        until=until.isoformat() if until else None,
    )


def _listed(finding: Finding, why: str = "", reason: str = "") -> Listed:
    return Listed(
        fingerprint=finding.fingerprint,
        code=finding.code,
        rule=finding.name,
        title=finding.title,
        why=why,
        reason=reason,
    )


def _of_entry(entry: Entry) -> Listed:
    return Listed(
        fingerprint=entry.fingerprint, code=entry.code, rule=entry.rule, title=entry.title, reason=entry.reason
    )
