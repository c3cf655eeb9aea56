"""Turns collective time-outs from "these ranks gave up" into "this rank was waited for"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from npudiag.analyses.waits import Party, People, Wait, Waits
from npudiag.diagnosis.findings import EVIDENCE, log_evidence, severity_rank
from npudiag.result import Finding

_CATEGORIES = ("hccl-timeout", "hccl-init")
_MOST = 2
_EXCEPTION = "python-exception"
_WAITED = re.compile(r"(?i)hccl|time ?out|timed out|EI00\d\d|connection (?:reset|refused|closed)|broken pipe")
_ORIGINS = (
    (re.compile(r"(?i)data_?loader|data_?set|torch/utils/data|collat|tokeniz|\bsampler"), "data-pipeline"),
    (re.compile(r"(?i)checkpoint|state_dict|safetensors|torch/serialization"), "checkpoint"),
)
"""What the frames of a traceback are about, and the category of a failure there."""


def apply(findings: Sequence[Finding], waits: Waits, people: People) -> None:
    """Set the scope of collective time-outs to the culprit, in place.

    A message that names the culprit itself is trusted first, then the wait-for graph. Nothing is changed where more
    than two could be it.
    """
    named = _named(findings, people)
    if named is not None:
        _promote_all(findings, [named])
        return
    if not waits.culprits:
        return
    top = waits.waiters[0]
    culprits = [party for party, number in zip(waits.culprits, waits.waiters, strict=True) if number == top]
    if len(culprits) > _MOST or not any(_known(party) for party in culprits):
        return
    hops = [edge for edge in waits.edges if edge.awaited in culprits]
    _promote_all(findings, culprits)
    for finding in findings:
        if finding.category in _CATEGORIES and finding.trust not in ("cause", "envelope"):
            _point_at(finding, culprits, hops)
            _explain(finding, culprits, top, circle=waits.circle)


def _named(findings: Sequence[Finding], people: People) -> Party | None:
    """Return the one culprit that messages name by address and device; their scopes get its rank and node."""
    parties: set[Party] = set()
    for finding in findings:
        address, device = finding.captures.get("node"), finding.captures.get("device")
        if finding.category not in _CATEGORIES or not isinstance(address, str) or not isinstance(device, int):
            continue
        party = people.awaited(None, address, device)
        if party is None:
            continue
        finding.scope.ranks = [party.rank] if party.rank is not None else []
        if party.node is not None:
            finding.scope.nodes = [party.node]
        if finding.trust == "cause":
            parties.add(party)
    return parties.pop() if len(parties) == 1 else None


def _point_at(finding: Finding, culprits: Sequence[Party], hops: Sequence[Wait]) -> None:
    """Put the culprits into the scope, and the lines that name them first among the evidence."""
    scope = finding.scope
    scope.ranks = sorted({party.rank for party in culprits if party.rank is not None})
    scope.nodes = sorted({party.node or party.address or "" for party in culprits} - {""})
    scope.devices = sorted({party.device for party in culprits if party.device is not None})
    proof = [log_evidence(edge.record, ("remote", "dst_rank", "|")) for edge in hops[:3]]
    known = {(item.path, item.line) for item in proof}
    rest = (item for item in finding.evidence if (item.path, item.line) not in known)
    finding.evidence = [*proof, *rest][:EVIDENCE]


def _explain(finding: Finding, culprits: Sequence[Party], waiters: int, *, circle: bool) -> None:
    """Say in the summary why the culprits are the ones."""
    names = " and ".join(party.name() for party in culprits)
    zh_names = " 与 ".join(party.name() for party in culprits)
    if circle:
        text = f" {names} wait for each other, so none of them is told apart as the first."
        note = f" {zh_names} 互相等待，日志无法区分谁先出错。"
    else:
        text = f" {waiters} rank(s) waited, directly or through others, for {names}, which waited for nobody."
        note = f" 有 {waiters} 个 rank 直接或间接在等待 {zh_names}，而它没有等待任何对端。"
    silent = [party for party in culprits if not party.logged]
    if silent:
        who = " and ".join(party.name() for party in silent)
        text += " No log of it is among the input: it never got that far, or its log was not collected."
        note += " 输入中没有它的日志：它可能未运行到该阶段，或日志未被采集。"
        finding.collect.append(f"plog of {who}")
        finding.i18n.get("zh", {}).setdefault("collect", []).append(f"{who} 的 plog 日志")
    finding.summary += text
    zh = finding.i18n.get("zh")
    if zh is not None:
        zh["summary"] = f"{zh.get('summary', '')}{note}"


def _promote_all(findings: Sequence[Finding], culprits: Sequence[Party]) -> None:
    if not any(_breaks(finding, culprit) for finding in findings for culprit in culprits):
        for finding in findings:
            _promote(finding, culprits)


def _breaks(finding: Finding, culprit: Party) -> bool:
    """Whether a finding says more of why the culprit stopped than an exception could."""
    return (
        finding.trust in ("cause", "specific")
        and severity_rank(finding) >= 2
        and finding.category not in _CATEGORIES
        and (culprit.rank in finding.scope.ranks or (culprit.device in finding.scope.devices))
    )


def _promote(finding: Finding, culprits: Sequence[Party]) -> None:
    """Make the cause of an exception that otherwise only says that something failed.

    An exception on the very rank that everybody waited for is why it stopped, unless it speaks of waiting itself.
    """
    if finding.name != _EXCEPTION or len(culprits) != 1:
        return
    culprit = culprits[0]
    if culprit.rank is None or finding.scope.ranks != [culprit.rank]:
        return
    text = "\n".join(item.text or "" for item in finding.evidence[:3])
    if _WAITED.search(text):
        return
    whole = "\n".join("\n".join((*item.before, item.text or "")) for item in finding.evidence[:3])
    finding.category = next((category for words, category in _ORIGINS if words.search(whole)), "config")
    finding.trust = "specific"
    finding.severity = "critical"
    finding.confidence = "medium"
    finding.impact.fatal = True
    if not finding.scope.devices and culprit.device is not None:
        finding.scope.devices = [culprit.device]
    if not finding.scope.nodes and culprit.node is not None:
        finding.scope.nodes = [culprit.node]
    finding.summary = (
        f"All ranks that gave up were waiting for {culprit.name()}, and this exception ended it. " + finding.summary
    )
    zh = finding.i18n.get("zh")
    if zh is not None:
        zh["summary"] = f"其余 rank 均在等待 {culprit.name()}，而该异常使其退出。{zh.get('summary', '')}"


def _known(party: Party) -> bool:
    return party.node is not None or party.rank is not None or party.address is not None
