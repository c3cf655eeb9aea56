"""Turns collective time-outs from "these ranks gave up" into "this rank was waited for"."""

from __future__ import annotations

from collections.abc import Sequence

from npudiag.analyses.waits import Party, Waits
from npudiag.diagnosis.findings import EVIDENCE, log_evidence
from npudiag.result import Finding

_CATEGORIES = ("hccl-timeout", "hccl-init")
_MOST = 2


def apply(findings: Sequence[Finding], waits: Waits) -> None:
    """Set the scope of collective time-outs to the culprit that the wait-for graph names, in place.

    Nothing is changed where a message itself names its culprit, or where more than two could be it.
    """
    if not waits.culprits:
        return
    top = waits.waiters[0]
    culprits = [party for party, number in zip(waits.culprits, waits.waiters, strict=True) if number == top]
    if len(culprits) > _MOST or not any(_known(party) for party in culprits):
        return
    hops = [edge for edge in waits.edges if edge.awaited in culprits]
    for finding in findings:
        if finding.category not in _CATEGORIES or finding.trust in ("cause", "envelope"):
            continue
        scope = finding.scope
        scope.ranks = sorted({party.rank for party in culprits if party.rank is not None})
        scope.nodes = sorted({party.node or party.address or "" for party in culprits} - {""})
        scope.devices = sorted({party.device for party in culprits if party.device is not None})
        proof = [log_evidence(edge.record, ("remote", "dst_rank", "|")) for edge in hops[:3]]
        known = {(item.path, item.line) for item in proof}
        finding.evidence = [
            *proof,
            *(item for item in finding.evidence if (item.path, item.line) not in known),
        ][:EVIDENCE]
        names, zh_names = _names(culprits)
        if waits.circle:
            finding.summary += f" {names} wait for each other, so none of them is told apart as the first."
            note = f" {zh_names} 互相等待，日志无法区分谁先出错。"
        else:
            finding.summary += f" {top} rank(s) waited, directly or through others, for {names}, which waited for nobody."
            note = f" 有 {top} 个 rank 直接或间接在等待 {zh_names}，而它没有等待任何对端。"
        silent = [party for party in culprits if not party.logged]
        if silent:
            who = " and ".join(party.name() for party in silent)
            finding.summary += " No log of it is among the input: it never got that far, or its log was not collected."
            note += " 输入中没有它的日志：它可能未运行到该阶段，或日志未被采集。"
            finding.collect.append(f"plog of {who}")
            finding.i18n.get("zh", {}).setdefault("collect", []).append(f"{who} 的 plog 日志")
        zh = finding.i18n.get("zh")
        if zh is not None:
            zh["summary"] = f"{zh.get('summary', '')}{note}"


def _known(party: Party) -> bool:
    return party.node is not None or party.rank is not None or party.address is not None


def _names(parties: Sequence[Party]) -> tuple[str, str]:
    named = [party.name() for party in parties]
    return " and ".join(named), " 与 ".join(named)
