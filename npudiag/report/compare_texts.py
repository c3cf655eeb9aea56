"""Words and rows of the reports about a comparison."""

from __future__ import annotations

from typing import Literal

from npudiag.comparison.model import Comparison, Measure, Side
from npudiag.report.figures import short_float
from npudiag.report.safe_text import visible
from npudiag.report.texts import Text, say

ALIKE_PCT = 1.0
"""Changes below this are not marked."""

WHERE = Text("Where the difference lies", "差异所在")
SETTINGS = Text("Settings that differ", "不同的配置")
LOSS = Text("Loss", "Loss")
FINDINGS = Text("Findings", "诊断发现")
NOTES = Text("To keep in mind", "注意事项")
UNTOLD = Text("Not told by {who}: {what}", "{who} 未提供：{what}")
MORE = Text("… {n} more (-v shows them)", "… 另有 {n} 项（加 -v 显示）")
MORE_JSON = Text("… {n} more in the JSON document", "… 其余 {n} 项见 JSON 文档")
AREAS = {
    "speed": Text("Speed", "速度"),
    "step": Text("Step by the profiles", "单步构成（profiling）"),
    "kernel": Text("Kernels per step and rank", "每步每 rank 的算子"),
    "communication": Text("Communication per step and rank", "每步每 rank 的通信"),
    "memory": Text("Memory, worst rank", "显存（最大的 rank）"),
    "loss": LOSS,
}
STATES = {"new": Text("new", "新增"), "gone": Text("gone", "消失")}
GATE = {
    "passed": Text("Gate passed", "门禁通过"),
    "failed": Text("Gate failed", "门禁未通过"),
    "incomplete": Text("Gate could not judge everything", "门禁无法完整判断"),
}
NAMES = {
    "step time": Text("step time", "单步时间"),
    "step time, 95th percentile": Text("step time, 95th percentile", "单步时间 P95"),
    "samples_per_s": Text("samples per second", "每秒样本数"),
    "tokens_per_s": Text("tokens per second", "每秒 token 数"),
    "tflops": Text("throughput", "吞吐"),
    "mfu": Text("MFU", "MFU"),
    "batch": Text("batch", "全局 batch"),
    "step": Text("step", "单步"),
    "computing": Text("computing", "计算"),
    "communication": Text("uncovered communication", "未掩盖通信"),
    "pipeline": Text("pipeline", "流水线等待"),
    "free": Text("idle", "空闲"),
    "communication under kernels": Text("communication under kernels", "被计算掩盖的通信"),
    "loss, last common point": Text("loss, last common point", "loss（最后的公共点）"),
}
"""Names of measures that are words; those of kernels and groups are taken as they are."""

Judgement = Literal["worse", "better", "same", "other"]
MARKS: dict[Judgement, str] = {"worse": "▲", "better": "✔", "same": "·", "other": "·"}
TONES: dict[Judgement, str] = {"worse": "warning", "better": "ok", "same": "ok", "other": "info"}
_UNSET = Text("not set", "未设置")
_SET = Text("set", "已设置")
_CARDS = Text("{n} cards", "{n} 卡", "{n} card")
_FILES = Text("{n} files", "{n} 个文件", "{n} file")
_DOCUMENT = Text("result document", "结果文档")


def judged(measure: Measure) -> Judgement:
    """Say whether B is better or worse in a measure."""
    if measure.better == "neither":
        return "other"
    if not changed(measure):
        return "same"
    return "worse" if (measure.change > 0) == (measure.better == "lower") else "better"


def changed(measure: Measure) -> bool:
    """Whether a measure changed by more than what is called equal."""
    whole = measure.whole if measure.whole is not None else measure.a
    return measure.change != 0 and (not whole or abs(measure.change) >= ALIKE_PCT / 100 * abs(whole))


def tone(comparison: Comparison) -> Judgement:
    """Return the tone of the answer."""
    if comparison.gate is not None and comparison.gate.status != "passed":
        return "worse"
    diverged = comparison.loss is not None and comparison.loss.state == "diverged"
    if diverged or any(item.state == "new" and item.severity in ("critical", "error") for item in comparison.findings):
        return "worse"
    if comparison.scaling is not None:
        return "better" if comparison.scaling.efficiency_pct >= 90 else "worse"
    return judged(comparison.step) if comparison.step is not None else "other"


def row(measure: Measure, lang: str) -> tuple[str, str, str, str, str]:
    """Return name, A, B, change and change in percent as texts."""
    change = measure.change_pct
    name = say(NAMES[measure.name], lang) if measure.name in NAMES else measure.name
    return (
        visible(name),
        number(measure.a, measure.unit),
        number(measure.b, measure.unit),
        ("+" if measure.change > 0 else "") + number(measure.change, ""),
        f"{change:+.1f} %" if change is not None else "",
    )


def number(value: float | None, unit: str) -> str:
    """Return a number with its unit."""
    if value is None:
        return "-"
    return f"{short_float(value)} {unit}".rstrip()


def milliseconds(change: float) -> str:
    """Return a change of a time with its sign."""
    return f"{'+' if change > 0 else ''}{number(change, 'ms')}"


def value(text: str | None, lang: str) -> str:
    """Return the value of a setting."""
    if text is None:
        return say(_UNSET, lang)
    return visible(text) if text else say(_SET, lang)


def side_facts(side: Side, lang: str) -> list[str]:
    """Return what one side is, as short texts."""
    facts = []
    if side.kind == "document":
        facts.append(say(_DOCUMENT, lang))
    elif side.files:
        facts.append(say(_FILES, lang, n=side.files))
    if side.cards:
        facts.append(say(_CARDS, lang, n=side.cards))
    if side.stack:
        facts.append(visible(f"{side.stack} {side.version}".rstrip()))
    facts.append(visible(side.verdict.zh if lang == "zh" else side.verdict.en))
    return facts


def untold(letter: str, side: Side, lang: str) -> str:
    """Say what one side does not tell; empty where it tells all."""
    if not side.untold:
        return ""
    parts = [visible(text.zh if lang == "zh" else text.en) for text in side.untold]
    return say(UNTOLD, lang, who=letter, what=("、" if lang == "zh" else ", ").join(parts))


def semicolon(lang: str) -> str:
    """Return what separates reasons."""
    return "；" if lang == "zh" else "; "
