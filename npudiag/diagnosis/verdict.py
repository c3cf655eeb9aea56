"""The answer in one sentence, in both languages."""

from __future__ import annotations

from collections.abc import Sequence

from npudiag.diagnosis.findings import severity_rank
from npudiag.diagnosis.reasons import effects_of
from npudiag.result import Coverage, Finding, Verdict


def state(findings: Sequence[Finding], coverage: Coverage) -> Verdict:
    """Return the verdict over all findings."""
    failing = [
        finding
        for finding in findings
        if finding.status == "fail" and severity_rank(finding) >= 1 and finding.suppressed is None
    ]
    if not failing:
        return _nothing_found(coverage, sum(finding.suppressed is not None for finding in findings))
    root = failing[0]
    folded = len(effects_of(root, failing))
    others = sum(1 for finding in failing[1:] if finding.role == "root")
    if root.category == "insufficient-evidence":
        return Verdict(
            status="insufficient",
            confidence="low",
            text=f"Something failed, but the input does not show what: {root.title}. "
            "Collect what is listed and run again.",
            i18n={"zh": {"text": f"有故障发生，但现有日志不足以判断根因：{_zh(root)}。请按清单补充采集后重新分析。"}},
        )
    lead, lead_zh = ("Job failed: ", "任务失败：") if root.impact.fatal else ("Found: ", "发现问题：")
    if severity_rank(root) == 1:
        lead, lead_zh = "Warning: ", "警告："
    text = lead + root.title
    zh = lead_zh + _zh(root)
    ranks = root.scope.ranks
    everywhere = {rank for finding in failing for rank in finding.scope.ranks}
    if len(ranks) == 1 and len(everywhere) > 1 and "rank" not in root.title.lower():
        # Who broke first is half of the answer.
        text += f" (rank {ranks[0]})"
        zh += f"（rank {ranks[0]}）"
    if folded:
        text += f"; {folded} further finding{'s' if folded > 1 else ''} follow{'s' if folded == 1 else ''} from it"
        zh += f"；另有 {folded} 项现象由其引发"
    if others:
        text += f"; {others} independent problem{'s' if others > 1 else ''} as well"
        zh += f"；另有 {others} 个独立问题"
    return Verdict(status="findings", confidence=root.confidence, text=text + ".", i18n={"zh": {"text": zh + "。"}})


def _zh(finding: Finding) -> str:
    return str(finding.i18n.get("zh", {}).get("title") or finding.title)


def _nothing_found(coverage: Coverage, aside: int) -> Verdict:
    if not coverage.recognised:
        return Verdict(
            status="nothing-recognised",
            text="Nothing was recognised: none of the inputs is of a kind npudiag knows, so nothing can be said.",
            i18n={"zh": {"text": "未识别到任何输入：没有 npudiag 支持的文件类型，无法给出结论。"}},
        )
    errors = sum(coverage.levels.get(level, 0) for level in ("ERROR", "CRITICAL", "FATAL", "EXCEPTION"))
    text = f"No known problem found in {coverage.recognised} file(s), {coverage.lines:,} lines"
    zh = f"在 {coverage.recognised} 个文件、{coverage.lines:,} 行日志中未发现已知问题"
    if errors and not aside:
        text += f"; {errors:,} records of level ERROR or worse matched no rule that counts as a fault"
        zh += f"；其中 {errors:,} 条 ERROR 及以上级别的记录未命中任何故障规则"
    if aside:
        text += f"; {aside} known finding{'s were' if aside > 1 else ' was'} set aside, with a reason"
        zh += f"；另有 {aside} 项已知问题按既定理由忽略"
    if not coverage.complete:
        text += "; part of the input could not be read"
        zh += "；部分输入未能读取"
    return Verdict(status="healthy", text=text + ".", i18n={"zh": {"text": zh + "。"}})
