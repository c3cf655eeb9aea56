"""Why a root finding is taken for the cause, why the next best is not, and what would settle it; in both languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npudiag.diagnosis.findings import severity_rank
from npudiag.diagnosis.moments import Spans, is_set, span
from npudiag.diagnosis.order import TRUST
from npudiag.diagnosis.places import Grounds, apart, stale
from npudiag.diagnosis.questions import COLLECT, COLLECT_ANY, SETTLE
from npudiag.engine.model import Text
from npudiag.result import Finding, RunnerUp

_APART_S = 1.0
_CONFIDENCE = {"high": 0, "medium": 1, "low": 2}
_EN_CONFIDENCE = {"high": "high", "medium": "medium", "low": "low"}
_ZH_CONFIDENCE = {"high": "高", "medium": "中", "low": "低"}
_ZH_SEVERITY = {"critical": "致命", "error": "错误", "warning": "警告", "info": "提示"}

_TRUSTED: Mapping[str, Text] = {
    "cause": Text("The message names its cause itself", "该信息本身即指明了原因"),
    "specific": Text("It is a specific message, not a catch-all code", "该信息指向明确，并非通用错误码"),
    "generic": Text(
        "It is a catch-all code, taken because nothing more specific was found",
        "这是通用错误码；未发现更明确的线索，故以此为准",
    ),
    "envelope": Text(
        "It only shows that something ended; nothing in the input says why",
        "它只说明有进程结束，输入中没有说明原因的信息",
    ),
}
_PLAIN_TRUST: Mapping[str, Text] = {
    "cause": Text("a message that names its cause", "指明原因的信息"),
    "specific": Text("a specific message", "指向明确的信息"),
    "generic": Text("a catch-all code", "通用错误码"),
    "envelope": Text("a mere sign that something ended", "仅表明有进程结束的现象"),
}


def explain(findings: Sequence[Finding], spans: Spans | None = None, ran: Grounds | None = None) -> None:
    """Fill in the reasons of the roots, in place.

    Args:
        findings: All findings in the order to tell them, roles and causes set.
        spans: When they happened, on one clock.
        ran: Where and when the job ran.
    """
    ran = ran or Grounds()
    roots = [finding for finding in findings if finding.role == "root" and severity_rank(finding) >= 1]
    for number, root in enumerate(roots):
        rival = next((other for other in (*roots[number + 1 :], *roots[:number]) if other is not root), None)
        effects = effects_of(root, findings)
        lines = [_why(root, effects, spans)]
        second = rival or next((other for other in effects if severity_rank(other) >= 2), None)
        if second is not None:
            why_not = _why_not(root, rival, spans, ran) if rival is not None else _why_effect(root, second, spans)
            en = f"Not {second.code} ({second.title}): {why_not.en}."
            lines.append(Text(en, f"而非 {second.code}（{_zh_title(second)}）：{why_not.zh}。"))
            if number == 0:
                root.runner_up = RunnerUp(code=second.code, why_not=why_not.en)
                _chinese(root)["runner_up"] = {"why_not": why_not.zh}
        settle = SETTLE.get(root.category, SETTLE["config"])
        root.reasons, root.settle = [line.en for line in lines], settle.en
        _chinese(root).update(reasons=[line.zh for line in lines], settle=settle.zh)
        if not root.collect and root.confidence != "high":
            wanted = COLLECT.get(root.category, COLLECT_ANY)
            root.collect = [wanted.en]
            _chinese(root)["collect"] = [wanted.zh]


def _chinese(finding: Finding) -> dict[str, object]:
    return finding.i18n.setdefault("zh", {})


def _zh_title(finding: Finding) -> str:
    return str(finding.i18n.get("zh", {}).get("title") or finding.title)


def _why(root: Finding, effects: Sequence[Finding], spans: Spans | None) -> Text:
    """Return what speaks for a root: how far its words are to be trusted, when it came, what follows from it."""
    trusted = _TRUSTED[root.trust]
    en, zh = trusted.en, trusted.zh
    first = span(root, spans).first
    later = [at for other in effects if (at := span(other, spans).first) is not None and is_set(at)]
    if first is not None and is_set(first) and later and first < min(later):
        gap = _span_text(min(later) - first)
        en += f"; it came {gap} before the first of what follows from it"
        zh += f"；比其引发的首个现象早 {gap}"
    if effects:
        number = len(effects)
        en += f"; {number} other finding{'s' if number > 1 else ''} follow{'' if number > 1 else 's'} from it"
        zh += f"；另有 {number} 项现象可由其解释"
    en += f". Confidence: {_EN_CONFIDENCE[root.confidence]}."
    zh += f"。置信度：{_ZH_CONFIDENCE[root.confidence]}。"
    return Text(en, zh)


def effects_of(root: Finding, findings: Sequence[Finding]) -> list[Finding]:
    """Return what follows from a root, directly or through others."""
    known = {root.id}
    found: list[Finding] = []
    grown = True
    while grown:
        grown = False
        for finding in findings:
            if finding.id not in known and known.intersection(finding.caused_by):
                known.add(finding.id)
                found.append(finding)
                grown = True
    return found


def _why_not(root: Finding, rival: Finding, spans: Spans | None, ran: Grounds) -> Text:
    """Return what speaks against another root."""
    if stale(rival, spans, ran):
        return Text("it was over many hours before the job began", "它在任务启动前数小时就已结束")
    early, late = span(root, spans).first, span(rival, spans).first
    if TRUST[rival.trust] > TRUST[root.trust]:
        mine, other = _PLAIN_TRUST[root.trust], _PLAIN_TRUST[rival.trust]
        return Text(
            f"it is {other.en}, while {root.code} is {mine.en}", f"它只是{other.zh}，而 {root.code} 是{mine.zh}"
        )
    if severity_rank(rival) < severity_rank(root):
        return Text(
            f"its severity is {rival.severity}, that of {root.code} is {root.severity}",
            f"其严重程度为{_ZH_SEVERITY[rival.severity]}，{root.code} 为{_ZH_SEVERITY[root.severity]}",
        )
    if early is not None and late is not None and is_set(early) and is_set(late) and late > early:
        gap = _span_text(late - early)
        return Text(f"it appears {gap} later", f"其出现时间晚 {gap}")
    if _CONFIDENCE[rival.confidence] > _CONFIDENCE[root.confidence]:
        return Text(
            f"its confidence is {rival.confidence}, that of {root.code} is {root.confidence}",
            f"其置信度为{_ZH_CONFIDENCE[rival.confidence]}，{root.code} 为{_ZH_CONFIDENCE[root.confidence]}",
        )
    if apart(root, rival, ran):
        return Text(
            "it is about another rank, card or node and explains none of this; it may be a fault of its own",
            "它发生在另一 rank、卡或节点上，无法解释上述现象，可能是另一处独立故障",
        )
    return Text(
        "nothing in the logs tells the two apart; it may be an independent fault",
        "日志不足以区分两者，也可能是相互独立的故障",
    )


def _why_effect(root: Finding, effect: Finding, spans: Spans | None) -> Text:
    """Return what speaks against a finding that a root explains."""
    early, late = span(root, spans).first, span(effect, spans).first
    if early is not None and late is not None and is_set(early) and is_set(late) and late - early >= _APART_S:
        gap = _span_text(late - early)
        return Text(
            f"it came {gap} later and is what {root.code} leads to", f"其晚 {gap} 出现，是 {root.code} 引发的结果"
        )
    mine, other = _PLAIN_TRUST[root.trust], _PLAIN_TRUST[effect.trust]
    if TRUST[effect.trust] > TRUST[root.trust]:
        return Text(
            f"it is {other.en}, while {root.code} is {mine.en}", f"它只是{other.zh}，而 {root.code} 是{mine.zh}"
        )
    return Text(
        f"it tells the same failure from where it was noticed, {root.code} from where it began",
        f"两者是同一故障：它描述的是发现处的现象，{root.code} 描述的是起因",
    )


def _span_text(seconds: float) -> str:
    """Return a duration: seconds with a unit that both languages share."""
    return (
        f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"
    )
