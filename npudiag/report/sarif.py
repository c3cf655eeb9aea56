"""SARIF 2.1.0: findings where code scanning shows them."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from npudiag.report.changes import before_after
from npudiag.report.gate import gate_of, harmless, known_of, repository_path, uri
from npudiag.report.localise import Words, verdict_text, words
from npudiag.report.safe_text import split_lines, visible, visible_block
from npudiag.report.texts import ROLE, as_lang, say
from npudiag.result import Confidence, Evidence, Finding, Result, Severity

SCHEMA_URI = "https://json.schemastore.org/sarif-2.1.0.json"
BASE = "NPUDIAG_INPUT"
"""Stands for the folder that holds the input, where that is no part of a repository."""

LEVEL: dict[Severity, str] = {"critical": "error", "error": "error", "warning": "warning", "info": "note"}
_PROBLEM: dict[Severity, str] = {
    "critical": "error",
    "error": "error",
    "warning": "warning",
    "info": "recommendation",
}
_PRECISION: dict[Confidence, str] = {"high": "high", "medium": "medium", "low": "low"}

# What GitHub takes, or shows, at most.
MOST_RESULTS = 5_000
MOST_RELATED = 100
MOST_STEPS = 1_000
MOST_TAGS = 10
MOST_NOTIFICATIONS = 1_000
_SNIPPET_CHARS = 4_000

_ADDRESS = re.compile(r"https?://[A-Za-z0-9._~:/?#@!$&'()*+,;=%\[\]-]+")
_BRACES = re.compile(r"\{(\d+)\}")
_LINK = re.compile(r"\[(?=[^\[\]]*\]\()")


def render(result: Result, *, lang: str = "en") -> str:
    """Return the document as a SARIF log with one run."""
    document = harmless(_Log(result, as_lang(lang)).document())
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _message(text: str, markdown: str = "") -> dict[str, str]:
    """Return a message; braces and brackets that SARIF would read as places and links are escaped."""

    def plain(part: str) -> str:
        return _LINK.sub(r"\\[", _BRACES.sub(r"{{\1}}", part)) or "-"

    message = {"text": plain(visible_block(text))}
    if markdown:
        message["markdown"] = plain(markdown)
    return message


class _Log:
    """Builds the log of one result."""

    def __init__(self, result: Result, lang: str) -> None:
        self.result = result
        self.lang = lang
        self.by_id = {finding.id: finding for finding in result.findings}
        self.gate = gate_of(result)
        self.known = known_of(result)
        self.codes = list(dict.fromkeys(finding.code for finding in result.findings))
        self.repeats: Counter[str] = Counter()

    def document(self) -> dict[str, Any]:
        result = self.result
        worst_first = result.findings
        if len(worst_first) > MOST_RESULTS:
            order = list(LEVEL)
            worst_first = sorted(worst_first, key=lambda finding: order.index(finding.severity))[:MOST_RESULTS]
        driver = {
            "name": result.tool.name,
            "version": result.tool.version,
            "semanticVersion": result.tool.version,
            "rules": self.rules(),
        }
        run = {
            "tool": {"driver": driver},
            "language": "zh-CN" if self.lang == "zh" else "en",
            "columnKind": "unicodeCodePoints",
            "automationDetails": {"id": "npudiag/"},
            "originalUriBaseIds": {BASE: {"description": {"text": "The folder that holds the analysed input."}}},
            "invocations": [self.invocation()],
            "results": [self.finding(finding) for finding in worst_first],
            "properties": {
                "verdict": verdict_text(result.verdict, self.lang),
                "rulesVersion": result.tool.rules_version,
                "rules": result.tool.rules,
                "files": result.coverage.files,
                "lines": result.coverage.lines,
            },
        }
        return {"$schema": SCHEMA_URI, "version": "2.1.0", "runs": [run]}

    def rules(self) -> list[dict[str, Any]]:
        first: dict[str, Finding] = {}
        for finding in self.result.findings:
            first.setdefault(finding.code, finding)
        found = []
        for code, finding in first.items():
            texts = words(finding, self.lang)
            advice = [remedy.text for remedy in texts.remedies]
            rule: dict[str, Any] = {
                "id": code,
                "name": finding.name,
                "shortDescription": _message(finding.name.replace("-", " ")),
                "fullDescription": _message(texts.summary or texts.title),
                "help": _message("\n".join(advice) or texts.summary or texts.title),
                "defaultConfiguration": {"level": LEVEL[finding.severity]},
                "properties": {
                    "category": finding.category,
                    "precision": _PRECISION[finding.confidence],
                    "problem.severity": _PROBLEM[finding.severity],
                    "tags": ["ascend-npu", finding.category][:MOST_TAGS],
                },
            }
            if address := next((text for text in finding.references if _ADDRESS.fullmatch(text)), None):
                rule["helpUri"] = address
            found.append(rule)
        return found

    def invocation(self) -> dict[str, Any]:
        result = self.result
        notifications = []
        for problem in result.coverage.problems:
            notification = {
                "level": "error" if problem.lost else "warning",
                "message": _message(f"{problem.path}: {problem.reason}: {problem.message}"),
                "locations": [{"physicalLocation": self.place(problem.path, problem.line)}],
            }
            notifications.append(notification)
        for item in result.inputs:
            if item.kind in ("unknown", "skipped"):
                text = item.note or ("not recognised" if item.kind == "unknown" else "not read")
                notifications.append(
                    {
                        "level": "note",
                        "message": _message(f"{item.path}: {text}"),
                        "locations": [{"physicalLocation": self.place(item.path, None)}],
                    }
                )
        cut = len(notifications) - MOST_NOTIFICATIONS
        notifications = notifications[:MOST_NOTIFICATIONS]
        for name, number in (("notification", cut), ("finding", len(result.findings) - MOST_RESULTS)):
            if number > 0:
                text = f"{number} {name}s were left out here; the result document holds them"
                notifications.append({"level": "note", "message": _message(text)})
        for broken in result.errors:
            # A rule without a finding is not among the driver's rules, so it is named by its id alone.
            notifications.append(
                {
                    "level": "error",
                    "message": _message(f"rule {broken.code} {broken.name} broke: {broken.message}"),
                    "descriptor": {"id": broken.code},
                }
            )
        invocation: dict[str, Any] = {
            "executionSuccessful": result.coverage.complete and not result.errors,
            "toolExecutionNotifications": notifications,
        }
        if result.command:
            invocation["commandLine"] = " ".join(result.command)
            invocation["arguments"] = list(result.command[1:])
        if match := re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\+00:00|Z)", result.created):
            invocation["endTimeUtc"] = f"{match[1]}Z"
        settings = [{"level": "warning", "message": _message(text)} for text in self.settings()]
        if settings:
            invocation["toolConfigurationNotifications"] = settings
        return invocation

    def settings(self) -> list[str]:
        unused = self.result.facts.get("unused_suppressions")
        texts = [f"unused suppression: {text}" for text in unused] if isinstance(unused, list) else []
        if self.known is not None:
            texts += [f"in the baseline, but found no more: {text}" for text in self.known.stale]
        if self.gate is not None:
            texts += [item.sentence(self.lang) for item in self.gate.budgets if item.status != "pass"]
        return texts[:MOST_NOTIFICATIONS]

    def place(self, path: str, line: int | None, text: str | None = None) -> dict[str, Any]:
        """Return a physical location."""
        own = repository_path(self.result, path)
        artifact = {"uri": uri(own)} if own is not None else {"uri": uri(path), "uriBaseId": BASE}
        place: dict[str, Any] = {"artifactLocation": artifact}
        if line is not None and line >= 1:
            region: dict[str, Any] = {"startLine": line}
            if text:
                shown = visible_block(text[:_SNIPPET_CHARS])
                region["endLine"] = line + len(split_lines(shown)) - 1
                region["snippet"] = {"text": shown}
            place["region"] = region
        return place

    def proof(self, item: Evidence, text: str = "") -> dict[str, Any]:
        """Return the location of a piece of evidence."""
        location: dict[str, Any] = {"physicalLocation": self.place(item.path or "-", item.line, item.text)}
        if text or item.label:
            location["message"] = _message(text or item.label)
        return location

    def finding(self, finding: Finding) -> dict[str, Any]:
        texts = words(finding, self.lang)
        proofs = [item for item in finding.evidence if item.path]
        location, related = self.locations(finding, proofs)
        logical = self.logical(finding)
        if logical:
            location["logicalLocations"] = logical
        mark = finding.fingerprint.partition(":")[2] or finding.fingerprint or finding.name
        self.repeats[mark] += 1
        out: dict[str, Any] = {
            "ruleId": finding.code,
            "ruleIndex": self.codes.index(finding.code),
            "level": LEVEL[finding.severity],
            "message": _message(self.text(finding, texts), self.markdown(texts, finding)),
            "locations": [location],
            "partialFingerprints": {
                "npudiagFingerprint/v1": mark,
                # The one that GitHub goes by; the number tells equal ones of a run apart.
                "primaryLocationLineHash": f"{mark}:{self.repeats[mark]}",
            },
            "occurrenceCount": max(1, finding.occurrences),
            "properties": {
                "severity": finding.severity,
                "confidence": finding.confidence,
                "role": finding.role,
                "category": finding.category,
                "fatal": finding.impact.fatal,
                "ranks": finding.scope.ranks[:1000],
                "devices": finding.scope.devices[:1000],
                "nodes": finding.scope.nodes[:1000],
                "failsGate": self.gate is not None and finding.id in self.gate.failing,
            },
        }
        if related:
            out["relatedLocations"] = related
        flow = self.flow(finding)
        if len(flow) > 1:
            out["codeFlows"] = [
                {
                    "message": _message("from the root cause to what followed"),
                    "threadFlows": [{"locations": flow[:MOST_STEPS]}],
                }
            ]
        if finding.suppressed is not None:
            reason = str(finding.suppressed.get("reason", ""))
            out["suppressions"] = [{"kind": "external", "status": "accepted", "justification": visible(reason)}]
        if self.known is not None:
            out["baselineState"] = self.state(finding)
        return out

    def state(self, finding: Finding) -> str:
        known = self.known
        if known is None or finding.fingerprint in known.new:
            return "new"
        return "updated" if finding.fingerprint in known.worsened else "unchanged"

    def text(self, finding: Finding, texts: Words) -> str:
        role = say(ROLE[finding.role], self.lang)
        parts = [f"{texts.title} ({role})", texts.summary]
        return "\n\n".join(part for part in parts if part)

    def markdown(self, texts: Words, finding: Finding) -> str:
        lines = [visible(texts.title), "", visible_block(texts.summary)]
        for remedy, words_of in zip(finding.remedies, texts.remedies, strict=True):
            lines += ["", f"- {visible(words_of.text)}"]
            setting = before_after(remedy)
            code = setting[1] if setting else remedy.command or ""
            if code:
                lines.append(f"  `{visible(code).replace('`', chr(39))}`")
        return "\n".join(lines)

    def locations(self, finding: Finding, proofs: list[Evidence]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the primary location, the line to change where one is known, and the others."""
        at = next((remedy.at for remedy in finding.remedies if remedy.at is not None), None)
        if at is not None:
            first: dict[str, Any] = {"physicalLocation": self.place(at.path, at.line)}
            rest = proofs
        elif proofs:
            first, rest = self.proof(proofs[0]), proofs[1:]
        else:
            # Code scanning refuses a result that is nowhere.
            path = next((item.path for item in self.result.inputs if item.kind not in ("unknown", "skipped")), "-")
            first, rest = {"physicalLocation": self.place(path, None)}, []
        related = [self.proof(item, item.label or "evidence") for item in rest[:MOST_RELATED]]
        return first, [{"id": number, **location} for number, location in enumerate(related, 1)]

    def logical(self, finding: Finding) -> list[dict[str, str]]:
        scope = finding.scope
        named = [("rank", rank) for rank in scope.ranks] + [("device", device) for device in scope.devices]
        return [
            {"name": visible(f"{kind} {value}"), "kind": "resource"}
            for kind, value in [*named, *(("node", node) for node in scope.nodes)][:MOST_RELATED]
        ]

    def flow(self, finding: Finding) -> list[dict[str, Any]]:
        """Return the steps from the root cause over the finding to what it caused."""
        above: list[Finding] = []
        seen = {finding.id}
        current = finding
        while causes := [self.by_id[mark] for mark in current.caused_by if mark in self.by_id and mark not in seen]:
            current = causes[0]
            seen.add(current.id)
            above.insert(0, current)
        below = [
            other
            for other in self.result.findings
            if finding.id in other.caused_by and other.id not in seen and other.suppressed is None
        ]
        chain = [(item, level) for level, item in enumerate([*above, finding])]
        chain += [(item, len(above) + 1) for item in below[: MOST_STEPS - len(chain)]]
        steps = []
        for number, (item, level) in enumerate(chain, 1):
            proof = next((piece for piece in item.evidence if piece.path), None)
            if proof is None:
                continue
            text = f"{item.code} {words(item, self.lang).title}"
            steps.append(
                {
                    "location": self.proof(proof, text),
                    "executionOrder": number,
                    "nestingLevel": level,
                    "importance": "essential" if item is finding or level == 0 else "important",
                }
            )
        return steps
