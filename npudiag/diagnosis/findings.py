"""Makes a finding of a hit: texts filled in, proof picked, culprit named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from npudiag.diagnosis.fingerprint import fingerprint
from npudiag.diagnosis.template import render
from npudiag.engine.hits import Hit
from npudiag.engine.model import Rule, RuleRemedy, Text
from npudiag.result import SEVERITIES, Change, Evidence, Finding, Impact, Place, Remedy, Scope
from npudiag.tables.records import LogRecord
from npudiag.tables.store import moment

EVIDENCE = 12
_LINES = 8
_CHARS = 900
_AHEAD = 120
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def severity_rank(finding: Finding) -> int:
    """Return 0 for info up to 3 for critical."""
    return SEVERITIES.index(finding.severity)


def time_text(time_us: int | None) -> str | None:
    """Return a time as ISO 8601 without zone, by the clock of the log."""
    when = moment(time_us)
    return when.isoformat(timespec="milliseconds") if when else None


def build(rule: Rule, hit: Hit) -> Finding:
    """Return the finding of one hit; id, role and causes are set later."""
    times = [record.time_us for record in hit.records if record.time_us is not None]
    first_us = hit.first_us if hit.first_us is not None else min(times, default=None)
    last_us = hit.last_us if hit.last_us is not None else max(times, default=None)
    scope = Scope(
        ranks=_values(hit.ranks, hit.records, "rank"),
        nodes=_values(hit.nodes, hit.records, "node"),
        devices=_values(hit.devices, hit.records, "device"),
        steps=sorted(hit.steps) if hit.steps else [],
        first=time_text(first_us),
        last=time_text(last_us),
    )
    decisive = hit.records[0] if hit.records else None
    values: dict[str, Any] = {
        "count": hit.occurrences,
        "ranks": scope.ranks,
        "devices": scope.devices,
        "nodes": scope.nodes,
        "first": scope.first,
        "last": scope.last,
        "file": decisive.file if decisive else None,
        "line": decisive.line if decisive else None,
        "device": scope.devices[0] if len(scope.devices) == 1 else None,
        "rank": scope.ranks[0] if len(scope.ranks) == 1 else None,
        "node": scope.nodes[0] if len(scope.nodes) == 1 else None,
        "steps": scope.steps,
        "process": decisive.process if decisive else None,
        "pid": decisive.pid if decisive else None,
        **rule.params,
        **hit.captures,
        **{name: pair[0] for name, pair in hit.words.items()},
    }
    chinese = {**values, **{name: pair[1] for name, pair in hit.words.items()}}
    severity: Any = hit.severity or rule.severity
    confidence: Any = hit.confidence or rule.confidence
    remedies = [_remedy(remedy, values, "en", hit.at) for remedy in rule.remedies]
    evidence = [*_log_evidence(hit), *hit.evidence][:EVIDENCE]
    return Finding(
        id="",
        code=rule.code,
        name=rule.name,
        category=hit.category or rule.category,
        severity=severity,
        confidence=confidence,
        trust=rule.trust,
        status="info" if severity == "info" else "fail",
        impact=Impact(
            fatal=rule.fatal if rule.fatal is not None else severity == "critical",
            lost_pct=hit.lost_pct,
            lost_ms=hit.lost_ms,
            basis=hit.basis,
        ),
        title=render(rule.title.en, values),
        summary=render(rule.why.en, values),
        scope=scope,
        evidence=evidence,
        remedies=remedies,
        collect=[render(text.en, values) for text in rule.collect],
        references=list(rule.references),
        captures={name: value for name, value in hit.captures.items() if _plain(value)},
        occurrences=hit.occurrences,
        fingerprint=fingerprint(rule, hit.captures, _message(hit), _hosts(hit, scope.nodes)),
        i18n={
            "zh": {
                "title": render(rule.title.zh, chinese),
                "summary": render(rule.why.zh, chinese),
                "remedies": [
                    {
                        "text": render(remedy.text.zh, chinese),
                        "expect": _render(remedy.expect, chinese, "zh"),
                        "verify": _render(remedy.verify, chinese, "zh"),
                    }
                    for remedy in rule.remedies
                ],
                "collect": [render(text.zh, chinese) for text in rule.collect],
            }
        },
    )


def _plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool))


def _values(given: Sequence[Any] | None, records: Sequence[LogRecord], name: str) -> list[Any]:
    if given is not None:
        return sorted(set(given))
    return sorted({value for record in records if (value := getattr(record, name)) is not None})


def _render(text: Text | None, values: dict[str, Any], lang: str) -> str:
    return render(getattr(text, lang), values) if text is not None else ""


def _remedy(remedy: RuleRemedy, values: dict[str, Any], lang: str, at: Place | None) -> Remedy:
    change = None
    if remedy.change is not None:
        change = Change(
            key=render(remedy.change.key, values),
            to=render(remedy.change.to, values),
            old=render(remedy.change.old, values) if remedy.change.old else None,
        )
    return Remedy(
        kind=remedy.kind,
        text=_render(remedy.text, values, lang),
        change=change,
        command=render(remedy.command, values) if remedy.command else None,
        # Where a variable is set, only the registry's own look-up can tell.
        at=at if remedy.kind in ("flag", "config", "code") else None,
        stack=list(remedy.stack),
        disposition=remedy.disposition,
        expect=_render(remedy.expect, values, lang),
        verify=_render(remedy.verify, values, lang),
    )


def _log_evidence(hit: Hit) -> list[Evidence]:
    """Pick the records to show: the decisive one, then one of each other file, then the rest."""
    first, others, seen = [], [], set()
    for record in hit.records:
        if record.file in seen:
            others.append(record)
        else:
            seen.add(record.file)
            first.append(record)
    # The second record of the decisive file often says more than the fifth victim.
    chosen = [*first[:1], *others[:3], *first[1:], *others[3:]][:EVIDENCE]
    shown = [log_evidence(record, hit.marks, hit.values) for record in chosen]
    code = chosen[0].code if chosen else None
    if code is not None and code not in (shown[0].text or ""):
        # The code that people search for stands in another line of a long block.
        shown.insert(1, log_evidence(chosen[0], (code,)))
    return shown[:EVIDENCE]


def log_evidence(record: LogRecord, marks: Sequence[str] = (), values: Sequence[str] = ()) -> Evidence:
    """Return the part of a record that says it: the line with most of what matched, and what follows.

    Args:
        record: The record.
        marks: Substrings that made the rule match.
        values: Those of them that it captured; a line that holds them says more than one that does not.
    """
    matched = record.text.split("\n")
    raw = (record.raw or record.text).split("\n")
    at = _telling(matched, marks, values)
    at = min(at, len(raw) - 1)
    number = record.physical_line(at)
    lines = [_cut(_CONTROL.sub("", raw[at]), marks)]
    chars = len(lines[0])
    for index in range(at + 1, min(len(raw), at + _LINES)):
        if record.physical_line(index) != number + len(lines) or chars > _CHARS:
            break
        lines.append(raw[index])
        chars += len(raw[index])
    text = _CONTROL.sub("", "\n".join(lines))[: _CHARS * 2]
    return Evidence(
        kind="log",
        path=record.file,
        line=number,
        text=text,
        highlights=_highlights(marks, text),
        before=[*record.before, *raw[:at]][-3:],
        after=list(record.after) if at + len(lines) >= len(raw) else raw[at + len(lines) : at + len(lines) + 2],
        count=record.count if record.count > 1 else None,
    )


def _cut(line: str, marks: Sequence[str]) -> str:
    """Return a line from shortly ahead of what matched, where that stands far behind its beginning."""
    told = max((mark for mark in marks if mark in line), key=len, default="")
    at = line.find(told) if told else 0
    # What the message begins with says more than the place of its longest word, as long as both are shown.
    places = [line.find(mark) for mark in marks if len(mark) > 4 and mark in line]
    at = min((place for place in places if at - place <= _CHARS // 4), default=at)
    if at <= _AHEAD * 2:
        return line
    blank = line.find(" ", at - _AHEAD, at)
    return line[blank + 1 if blank > 0 else at - _AHEAD :].lstrip()


def _telling(lines: Sequence[str], marks: Sequence[str], values: Sequence[str]) -> int:
    """Return the index of the line that says most, the first of several."""

    def weight(line: str) -> int:
        captured = sum(1 for value in set(values) if len(value) > 1 and value in line)
        return captured * 10_000 + sum(len(mark) for mark in set(marks) if mark in line)

    return max(range(len(lines)), key=lambda index: (weight(lines[index]), -index))


def _highlights(marks: Sequence[str], text: str) -> list[str]:
    """Return the marks that stand in `text`, without those that are part of another."""
    found = [mark for mark in dict.fromkeys(marks) if len(mark) > 1 and len(mark) <= 120 and mark in text]
    return [mark for mark in found if not any(mark != other and mark in other for other in found)][:8]


def _message(hit: Hit) -> str:
    """Return the line that made the rule match, or what stands for one."""
    if hit.records:
        lines = hit.records[0].text.split("\n")
        return lines[_telling(lines, hit.marks, hit.values)]
    return next((item.text or item.label for item in hit.evidence if item.text or item.label), "")


def _hosts(hit: Hit, nodes: Sequence[str]) -> set[str]:
    return {*nodes, *(record.node for record in hit.records if record.node)}
