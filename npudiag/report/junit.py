"""JUnit XML: a suite per category, a case per rule, and what a gate judged beside the rules."""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from npudiag.report.figures import ranges
from npudiag.report.gate import Gate, fails, gate_of, notes
from npudiag.report.localise import verdict_text, words
from npudiag.report.safe_text import split_lines, visible, visible_block
from npudiag.report.texts import SEVERITY, UI, as_lang, joined, labelled, say
from npudiag.result import Finding, Result

_OTHER = "other"
_MOST = 20
"""Findings of one rule that are told in full."""
_CHARS = 4_000


@dataclass(slots=True)
class _Case:
    name: str
    kind: str
    """``passed``, ``failure``, ``error`` or ``skipped``."""
    message: str = ""
    type: str = ""
    body: str = ""


def render(result: Result, *, lang: str = "en") -> str:
    """Return the document as JUnit XML.

    Failures are the findings that fail the gate; without a gate, every problem that is not set aside.
    """
    lang = as_lang(lang)
    gate = gate_of(result)
    suites: dict[str, list[_Case]] = {}
    by_rule: dict[tuple[str, str], list[Finding]] = {}
    for finding in result.findings:
        by_rule.setdefault((finding.code, finding.name), []).append(finding)
    for (code, name), findings in by_rule.items():
        # What is left unexplained is put into another category than its rule; it is one case all the same.
        suites.setdefault(findings[0].category, []).append(_found(f"{code} {name}", findings, gate, lang))
    for passed in result.passed:
        suites.setdefault(passed.category or _OTHER, []).append(_Case(f"{passed.code} {passed.name}", "passed"))
    for skipped in result.skipped:
        reason = say(UI.no_data_for, lang, tables=", ".join(skipped.missing))
        suites.setdefault(skipped.category or _OTHER, []).append(
            _Case(f"{skipped.code} {skipped.name}", "skipped", reason)
        )
    for broken in result.errors:
        suites.setdefault(broken.category or _OTHER, []).append(
            _Case(f"{broken.code} {broken.name}", "error", broken.message, "rule-broke", broken.message)
        )
    if gate is not None:
        suites["gate"] = _gate_cases(result, gate, lang)
    everything = [case for cases in suites.values() for case in cases]
    seconds = f"{max(0.0, float(result.timings.get('total', 0.0))):.3f}"
    out = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="npudiag" {_counts(everything)} time="{seconds}">',
    ]
    for category in sorted(suites, key=lambda name: (name == "gate", name)):
        cases = sorted(suites[category], key=lambda case: case.name)
        out.append(f'  <testsuite name={_attr(f"npudiag.{category}")} {_counts(cases)} time="0"{_stamp(result)}>')
        out += _properties(result)
        out += [line for case in cases for line in _lines(category, case)]
        out.append("  </testsuite>")
    out.append("</testsuites>")
    return "\n".join(out) + "\n"


def _found(name: str, findings: list[Finding], gate: Gate | None, lang: str) -> _Case:
    counting = [finding for finding in findings if fails(finding, gate)]
    body = "\n\n".join(_tell(finding, lang) for finding in findings[:_MOST])
    if len(findings) > _MOST:
        body += "\n\n" + say(UI.more_json, lang, n=len(findings) - _MOST)
    if counting:
        message = words(counting[0], lang).title
        if len(counting) > 1:
            message += f" (+{len(counting) - 1})"
        return _Case(name, "failure", message, counting[0].severity, body)
    if all(finding.suppressed is not None for finding in findings):
        reason = str((findings[0].suppressed or {}).get("reason", ""))
        return _Case(name, "skipped", labelled(UI.suppressed, reason, lang))
    return _Case(name, "passed", body=body)


def _tell(finding: Finding, lang: str) -> str:
    texts = words(finding, lang)
    lines = [f"{say(SEVERITY[finding.severity], lang)}: {texts.title}"]
    if finding.suppressed is not None:
        lines.append(labelled(UI.suppressed, str(finding.suppressed.get("reason", "")), lang))
    scope = finding.scope
    whom = [
        say(text, lang, n=len(values), list=ranges(values))
        for text, values in ((UI.rank, scope.ranks), (UI.device, scope.devices))
        if values
    ]
    if whom:
        lines.append(joined(whom, lang))
    if texts.summary:
        lines.append(texts.summary)
    for item in finding.evidence[:3]:
        if item.path:
            lines.append(f"{item.path}:{item.line}" if item.line else item.path)
        lines += [f"    {line}" for line in split_lines((item.text or "")[:_CHARS])[:8] if line]
    lines += [f"- {remedy.text}" for remedy in texts.remedies]
    return "\n".join(lines)


def _gate_cases(result: Result, gate: Gate, lang: str) -> list[_Case]:
    cases = []
    for item in gate.budgets:
        kind = {"pass": "passed", "fail": "failure"}.get(item.status, "error")
        text = "" if kind == "passed" else item.sentence(lang)
        cases.append(_Case(f"metric {item.metric} {item.budget}", kind, text, f"budget-{item.status}", text))
    problems = [f"{problem.path}: {problem.message}" for problem in result.coverage.problems if problem.lost]
    kind, text = "passed", ""
    if result.verdict.status == "nothing-recognised":
        kind, text = "error", verdict_text(result.verdict, lang)
    elif not result.coverage.complete:
        kind = "error" if gate.status != "passed" else "passed"
        text = say(UI.incomplete, lang)
    cases.append(_Case("all input was read", kind, text, "incomplete", "\n".join([text, *problems[:_MOST]]).strip()))
    remarks = notes(result, lang)
    if remarks:
        cases.append(_Case("baseline and suppressions", "passed", body="\n".join(remarks)))
    return cases


def _counts(cases: list[_Case]) -> str:
    number = {kind: sum(case.kind == kind for case in cases) for kind in ("failure", "error", "skipped")}
    return (
        f'tests="{len(cases)}" failures="{number["failure"]}" errors="{number["error"]}" skipped="{number["skipped"]}"'
    )


def _stamp(result: Result) -> str:
    return f" timestamp={_attr(result.created[:19])}" if result.created else ""


def _properties(result: Result) -> list[str]:
    values = {
        "npudiag.version": result.tool.version,
        "npudiag.rules": result.tool.rules_version,
        "input.files": str(result.coverage.files),
        "input.ranks": ranges(result.coverage.ranks),
    }
    inner = [f"      <property name={_attr(name)} value={_attr(value)}/>" for name, value in values.items()]
    return ["    <properties>", *inner, "    </properties>"]


def _lines(category: str, case: _Case) -> list[str]:
    head = f'    <testcase classname={_attr(f"npudiag.{category}")} name={_attr(case.name)} time="0"'
    body = escape(visible_block(case.body))
    if case.kind == "passed":
        return [f"{head}><system-out>{body}</system-out></testcase>" if body else f"{head}/>"]
    message = f"message={_attr(case.message)}"
    if case.kind == "skipped":
        return [f"{head}><skipped {message}/></testcase>"]
    return [f"{head}><{case.kind} {message} type={_attr(case.type)}>{body}</{case.kind}></testcase>"]


def _attr(text: str) -> str:
    return quoteattr(visible(text).replace("\t", " "))
