"""How much faster or slower B is, where the difference lies, and what explains it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from npudiag.comparison import effects, words
from npudiag.comparison.model import Better, Cause, Measure, Part, Said, Setting
from npudiag.comparison.snapshot import Kernel, Parts, Snapshot, Talk

ALIKE_PCT = 1.0
"""Step times closer than this are called equal: healthy runs vary by 0.7 % in the middle."""
_MOST_NAMED = 3
_MAIN = 0.8
"""Share of the collective communication from which on one kind of group stands for all of it."""
_RATES = (
    ("samples_per_s", "samples/s"), ("tokens_per_s", "tokens/s"), ("tflops", "TFLOP/s per card"), ("mfu", "%"),
)  # fmt: skip

_PER_SAMPLE = Said(
    "the workloads differ, so this is the step time by samples and cards",
    "两次运行的负载不同，因此按样本数与卡数折算",
)
_BY_PROFILE = Said(
    "by the profiles: the logs do not tell it on both sides", "取自 profiling 数据：日志未同时给出两侧的单步时间"
)


def same_work(a: Snapshot, b: Snapshot) -> bool:
    """Whether cards and samples per step are the same, as far as is known."""
    batches = {side.batch for side in (a, b) if side.batch}
    cards = {side.cards for side in (a, b) if side.cards}
    return len(batches) < 2 and len(cards) < 2


def factor(a: Snapshot, b: Snapshot) -> float | None:
    """Return how much work a card of B has in a step, by that of a card of A; None where that is not known.

    It is the number of samples per step and card, by that of the other: of samples alike in length.
    """
    if same_work(a, b):
        return 1.0
    if not (a.batch and b.batch and a.cards and b.cards):
        return None
    return (b.batch / b.cards) / (a.batch / a.cards)


def lengths(a: Snapshot, b: Snapshot) -> tuple[float, float] | None:
    """Return the step times of both in ms: by their logs, or else by their profiles; None where one tells neither."""
    if a.pace is not None and b.pace is not None:
        return a.pace.step_ms, b.pace.step_ms
    if a.parts is not None and b.parts is not None:
        return a.parts.step_ms, b.parts.step_ms
    return None


def step(a: Snapshot, b: Snapshot) -> Measure | None:
    """Return the measure that the two are judged by: ms per step, or ms per sample and card where the work differs."""
    both = lengths(a, b)
    if both is None:
        return None
    if same_work(a, b):
        note = None if a.pace is not None and b.pace is not None else _BY_PROFILE
        return Measure(area="speed", name="step time", unit="ms", a=both[0], b=both[1], note=note)
    if a.batch and b.batch and a.cards and b.cards:
        times = (both[0] * a.cards / a.batch, both[1] * b.cards / b.batch)
        return Measure(area="speed", name="card time per sample", unit="ms", a=times[0], b=times[1], note=_PER_SAMPLE)
    return None


def measures(a: Snapshot, b: Snapshot) -> list[Measure]:
    """Return throughput, parts of the step, kernels, communication and memory of both."""
    found: list[Measure] = []
    if a.pace is not None and b.pace is not None:
        found.append(Measure(area="speed", name="step time", unit="ms", a=a.pace.step_ms, b=b.pace.step_ms))
        found.append(
            Measure(area="speed", name="step time, 95th percentile", unit="ms", a=a.pace.p95_ms, b=b.pace.p95_ms)
        )
        for name, unit in _RATES:
            if name in a.pace.rates and name in b.pace.rates:
                values = (a.pace.rates[name], b.pace.rates[name])
                found.append(Measure(area="speed", name=name, unit=unit, a=values[0], b=values[1], better="higher"))
    if a.batch and b.batch and a.batch != b.batch:
        found.append(Measure(area="speed", name="batch", unit="samples", a=a.batch, b=b.batch, better="neither"))
    if a.parts is not None and b.parts is not None:
        found += _step(a.parts, b.parts)
    found += _kernels(a.kernels, b.kernels)
    found += _talks(a.talks, b.talks)
    for name in sorted(set(a.memory) & set(b.memory)):
        found.append(Measure(area="memory", name=name, unit="MB", a=a.memory[name], b=b.memory[name]))
    return found


def _step(a: Parts, b: Parts) -> list[Measure]:
    shown: list[tuple[str, str, Better]] = [("step_ms", "step", "lower")]
    shown += [(part, part, "lower") for part in get_args(Part)]
    shown.append(("overlapped", "communication under kernels", "neither"))
    return [
        Measure(
            area="step", name=name, unit="ms", a=getattr(a, field), b=getattr(b, field), better=better, whole=a.step_ms
        )
        for field, name, better in shown
    ]


def _kernels(a: Sequence[Kernel], b: Sequence[Kernel]) -> list[Measure]:
    if not a or not b:
        return []
    mine = {(kernel.type, kernel.core): kernel for kernel in a}
    theirs = {(kernel.type, kernel.core): kernel for kernel in b}
    spent = sum(kernel.ms for kernel in a)
    found = []
    for key in mine.keys() | theirs.keys():
        left, right = mine.get(key), theirs.get(key)
        note = None
        if left and right and abs(right.count - left.count) > 0.02 * left.count:
            counts = (words.plain(left.count), words.plain(right.count))
            note = words.both("{a} -> {b} per step", "每步 {a} -> {b} 个", a=counts[0], b=counts[1])
        name = f"{key[0]} ({key[1]})" if key[1] else key[0]
        found.append(
            Measure(
                area="kernel",
                name=name,
                unit="ms",
                a=left.ms if left else None,
                b=right.ms if right else None,
                note=note,
                whole=spent,
            )
        )
    return sorted(found, key=lambda item: (-abs(item.change), item.name))


def _talks(a: Sequence[Talk], b: Sequence[Talk]) -> list[Measure]:
    if not a or not b:
        return []
    mine = {(talk.parallel, talk.op): talk for talk in a}
    theirs = {(talk.parallel, talk.op): talk for talk in b}
    found = []
    for key in mine.keys() | theirs.keys():
        left, right = mine.get(key), theirs.get(key)
        note = None
        late = (right.late_ms if right else 0.0) - (left.late_ms if left else 0.0)
        if abs(late) > 0.05:
            note = words.both(
                "{ms} of it waiting for later ranks", "其中等待较晚的 rank {ms}", ms=words.ms(late, signed=True)
            )
        found.append(
            Measure(
                area="communication",
                name=" ".join(part for part in key if part),
                unit="ms",
                a=left.ms if left else None,
                b=right.ms if right else None,
                note=note,
            )
        )
    return sorted(found, key=lambda item: (-abs(item.change), item.name))


def causes(a: Snapshot, b: Snapshot, settings: Sequence[Setting], *, scale: float = 1.0) -> list[Cause]:
    """Return the parts of the step that changed, largest change first, with what explains each.

    Args:
        a: One run.
        b: The other.
        settings: What differs in their settings.
        scale: Work of a card of B by that of a card of A.
    """
    if a.parts is None or b.parts is None:
        return []
    whole = b.parts.step_ms - a.parts.step_ms * scale
    least = max(0.005 * a.parts.step_ms * scale, 0.02)
    told = abs(whole) >= ALIKE_PCT / 100 * a.parts.step_ms * scale
    found = []
    for part in get_args(Part):
        change = getattr(b.parts, part) - getattr(a.parts, part) * scale
        if abs(change) < least:
            continue
        moved = _uncovered(a.parts, b.parts) if part == "communication" else 0.0
        matching, certain = _matching(
            part, change, settings, shown=moved * change > 0 and abs(moved) >= 0.5 * abs(change)
        )
        found.append(
            Cause(
                part=part,
                ms=round(change, 4),
                share_pct=round(100 * change / whole, 1) if told else None,
                text=_text(part, change, a, b, matching, certain),
                settings=[setting.name for setting in matching],
                certain=certain,
            )
        )
    return sorted(found, key=lambda cause: -abs(cause.ms))


def _matching(part: Part, change: float, settings: Sequence[Setting], *, shown: bool) -> tuple[list[Setting], bool]:
    """Return the settings that may explain a change of a part; and whether one alone does.

    Args:
        part: The part.
        change: Its change in ms.
        settings: What differs.
        shown: Whether the profiles show that communication left, or went, under kernels. If so, a setting that lets
            them overlap is the reason, whatever else differs; a setting of unknown effect, or another version, may be
            as good a reason for any other change.
    """
    fitting, possible = [], []
    unknown = any(not setting.incidental and not effects.of(setting.name) for setting in settings)
    for setting in settings:
        signs = effects.expected(setting, part)
        if any(sign * change > 0 for sign in signs):
            fitting.append(setting)
        elif signs and 0 in signs:
            possible.append(setting)
    alone = len(fitting) == 1 and not possible
    return fitting + possible, alone and (not unknown or (shown and effects.overlaps(fitting[0].name)))


def _text(part: Part, change: float, a: Snapshot, b: Snapshot, matching: Sequence[Setting], certain: bool) -> Said:
    text = words.PART[part]
    if part == "communication":
        text = _communication(a, b, matching if certain else ())
    details = _details(part, change, a, b)
    if details is not None:
        text = words.both("{en} ({den})", "{zh}（{dzh}）", en=text.en, zh=text.zh, den=details.en, dzh=details.zh)
    if not matching:
        return text
    told = words.listed([words.since(setting) for setting in matching[:_MOST_NAMED]])
    if certain:
        return words.both("{en}, since {s}", "{zh}，原因：{szh}", en=text.en, zh=text.zh, s=told.en, szh=told.zh)
    return words.both(
        "{en}; may come from: {s}", "{zh}；可能来自：{szh}", en=text.en, zh=text.zh, s=told.en, szh=told.zh
    )


def _communication(a: Snapshot, b: Snapshot, matching: Sequence[Setting]) -> Said:
    """Name the kind of communication where the settings or the amounts leave no doubt."""
    named = {effect.parallel for setting in matching for effect in effects.of(setting.name) if effect.parallel}
    spent: dict[str, float] = {}
    for talk in b.talks if sum(t.ms for t in b.talks) >= sum(t.ms for t in a.talks) else a.talks:
        if talk.parallel != "pp":
            spent[talk.parallel] = spent.get(talk.parallel, 0.0) + talk.ms
    main = max(spent, key=lambda name: spent[name], default="")
    alone = bool(main) and spent[main] >= _MAIN * sum(spent.values())
    kind = main if alone and (not named or main in named) else next(iter(named)) if len(named) == 1 else ""
    if not kind:
        return words.PART["communication"]
    return words.both("uncovered {kind} communication", "未掩盖的 {kind} 通信", kind=kind)


def _details(part: Part, change: float, a: Snapshot, b: Snapshot) -> Said | None:
    """Say what within a part changed, as far as the profiles tell."""
    if part == "computing":
        top = [
            m for m in _kernels(a.kernels, b.kernels) if m.change * change > 0 and abs(m.change) >= 0.1 * abs(change)
        ]
        if not top:
            return None
        return words.listed(
            [Said(*[f"{m.name.partition(' (')[0]} {words.ms(m.change, signed=True)}"] * 2) for m in top[:_MOST_NAMED]]
        )
    if part != "communication" or a.parts is None or b.parts is None:
        return None
    late = sum(talk.late_ms for talk in b.talks) - sum(talk.late_ms for talk in a.talks)
    if late * change > 0 and abs(late) >= 0.5 * abs(change):
        return words.both(
            "{ms} of it waiting for ranks that come late",
            "其中等待较晚到达的 rank 占 {ms}",
            ms=words.ms(late, signed=True),
        )
    uncovered = _uncovered(a.parts, b.parts)
    if change > 0 and uncovered >= 0.5 * change:
        return words.both("{ms} of it ran under kernels before", "其中 {ms} 原先与计算重叠", ms=words.ms(uncovered))
    if change < 0 and -uncovered >= 0.5 * -change:
        return words.both("{ms} of it now runs under kernels", "其中 {ms} 现已与计算重叠", ms=words.ms(-uncovered))
    return None


def _uncovered(a: Parts, b: Parts) -> float:
    return a.overlapped - b.overlapped


def headline(measure: Measure, found: Sequence[Cause]) -> Said:
    """Say how fast B is, and what most of the difference is."""
    change = measure.change_pct or 0.0
    per = Said("per step", "每步") if measure.name == "step time" else Said("of card time per sample", "每样本每卡时间")
    if abs(change) < ALIKE_PCT:
        return words.both(
            "B is as fast as A: {ms} {per} ({pct}).",
            "B 与 A 速度相当：{perzh} {ms}（{pct}）。",
            ms=words.ms(measure.change, signed=True), pct=words.pct(change, signed=True), per=per.en, perzh=per.zh,
        )  # fmt: skip
    way = Said("slower", "变慢") if change > 0 else Said("faster", "变快")
    head = words.both("B is {pct} {en}", "B {zh} {pct}", pct=words.pct(abs(change)), en=way.en, zh=way.zh)
    whole = words.ms(measure.change, signed=True)
    top = next((cause for cause in found if cause.ms * measure.change > 0), None)
    if top is None or measure.name != "step time":
        return Said(f"{head.en}: {whole} {per.en}.", f"{head.zh}：{per.zh} {whole}。")
    part = words.ms(abs(top.ms))
    return Said(
        f"{head.en}: of {whole} {per.en} {part} is {top.text.en}.",
        f"{head.zh}：{per.zh} {whole} 中，{part} 为{top.text.zh}。",
    )
