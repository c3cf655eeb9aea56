"""A comparison from its two sides to the document."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from npudiag._version import __version__
from npudiag.comparison import effects, loss, scaling, settings, sides, speed, words
from npudiag.comparison.model import Comparison, FindingChange, Gate, Loss, Measure, Said, Setting
from npudiag.comparison.sides import Run, Source
from npudiag.diagnosis.fingerprint import masked
from npudiag.result import SEVERITIES, Finding

if TYPE_CHECKING:
    from npudiag.analyze import Options
    from npudiag.engine.load import RulePack


def compare(
    a: Source,
    b: Source,
    *,
    pack: RulePack | None = None,
    options: Options | None = None,
    command: Sequence[str] = (),
) -> Comparison:
    """Compare two runs.

    Args:
        a: The run to compare with: a path or several, or a result document.
        b: The run that is judged.
        pack: Rules for what has to be analysed; None takes the shipped ones.
        options: How to analyse.
        command: The command line, for the document.

    Raises:
        UsageError: A path does not exist, or a document is of another schema.
    """
    from npudiag.analyze import Options

    begin = time.perf_counter()
    options = options or Options()
    left = sides.load(a, "A", pack, options)
    right = sides.load(b, "B", pack, options)
    found = of_runs(left, right)
    found.command = list(command)
    found.created = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    found.seconds = round(time.perf_counter() - begin, 3)
    return found


def of_runs(left: Run, right: Run) -> Comparison:
    """Compare two sides that are read already."""
    a, b = left.snapshot, right.snapshot
    changed = [*_stacks(left, right), *settings.differing(a, b)]
    other_work = [setting.name for setting in changed if effects.per_sample(setting.name)]
    scaled = scaling.compare(a, b, changed, same_samples=not other_work)
    measure = speed.step(a, b) if not other_work else None
    causes = scaled.lost if scaled is not None else []
    if scaled is None and not other_work and speed.same_work(a, b):
        causes = speed.causes(a, b, changed)
    curves = loss.compare(a.losses, b.losses, same_batch=_same_batch(left, right))
    findings = _findings(left.result.findings, right.result.findings)
    used = {name for cause in causes for name in cause.settings}
    return Comparison(
        version=__version__,
        headline=_headline(
            scaled.text if scaled is not None else speed.headline(measure, causes) if measure else None,
            curves,
            findings,
        ),
        a=left.side,
        b=right.side,
        step=measure,
        causes=causes,
        scaling=scaled,
        settings=sorted(changed, key=lambda setting: setting.name not in used),
        measures=[*speed.measures(a, b), *_losses(curves)],
        loss=curves,
        findings=findings,
        notes=_notes(left, right, measure, other_work),
    )


def _headline(fast: Said | None, curves: Loss | None, findings: Sequence[FindingChange]) -> Said:
    """Return the answer: how fast B is, whether it learns as A does, and what is wrong with it that is not with A."""
    parts = [fast] if fast is not None else []
    if curves is not None and curves.state == "diverged":
        parts.append(curves.text)
    grave = [item for item in findings if item.severity in ("critical", "error")]
    new = [item for item in grave if item.state == "new"]
    top = next((item for item in new if item.role == "root"), new[0] if new else None)
    if top is not None:
        # That B died matters more than how fast it was until then.
        at = 0 if top.severity == "critical" else len(parts)
        parts.insert(at, words.both("New in B: {t}.", "B 新增：{tz}。", t=top.title.en, tz=top.title.zh))
    elif grave:
        parts.append(words.both("Gone in B: {t}.", "B 已消失：{tz}。", t=grave[0].title.en, tz=grave[0].title.zh))
    if not parts:
        return Said("The inputs do not tell the speed of both.", "输入未同时给出两侧的速度，无法比较快慢。")
    return Said(" ".join(part.en for part in parts), "".join(part.zh for part in parts))


def _stacks(left: Run, right: Run) -> list[Setting]:
    """Return the framework or its release where it differs."""
    a, b = left.side, right.side
    if not (a.stack and b.stack):
        return []
    if a.stack != b.stack:
        return [Setting(name="stack", kind="version", a=a.stack, b=b.stack)]
    if a.version and b.version and a.version != b.version:
        return [Setting(name=a.stack, kind="version", a=a.version, b=b.version)]
    return []


def _same_batch(left: Run, right: Run) -> bool:
    return len({run.snapshot.batch for run in (left, right) if run.snapshot.batch}) < 2


def _losses(curves: Loss | None) -> list[Measure]:
    if curves is None:
        return []
    return [Measure(area="loss", name="loss, last common point", unit="", a=curves.last.a, b=curves.last.b)]


def _findings(a: Sequence[Finding], b: Sequence[Finding]) -> list[FindingChange]:
    """Return what only one side has, by fingerprint; the worst first, what is new before what is gone."""
    found: list[FindingChange] = []
    for state, mine, theirs in (("new", b, a), ("gone", a, b)):
        known = {mark for finding in theirs for mark in _marks(finding)}
        for finding in mine:
            marks = _marks(finding)
            if marks & known or finding.severity == "info" or finding.status == "info":
                continue
            known |= marks
            proof = next((item for item in finding.evidence if item.path), None)
            place = f"{proof.path}:{proof.line}" if proof and proof.line else proof.path if proof else None
            title = finding.i18n.get("zh", {}).get("title", finding.title)
            found.append(
                FindingChange(
                    state="new" if state == "new" else "gone",
                    code=finding.code,
                    name=finding.name,
                    severity=finding.severity,
                    role=finding.role,
                    title=Said(finding.title, str(title)),
                    at=place or "",
                )
            )
    return sorted(found, key=lambda item: (item.state == "gone", -SEVERITIES.index(item.severity)))


def _marks(finding: Finding) -> set[str]:
    """Return what a finding is known by: its fingerprint; its rule with whom it is about and what it says."""
    scope = finding.scope
    return {
        finding.fingerprint or finding.name,
        f"{finding.name} {scope.ranks} {scope.devices} {scope.nodes}: {masked(finding.title)}",
    }


def _notes(left: Run, right: Run, measure: Measure | None, other_work: Sequence[str]) -> list[Said]:
    a, b = left.snapshot, right.snapshot
    notes = [
        words.both(
            "{name} could not be read whole; what it lacks is not compared.",
            "{name} 未能完整读取，缺失部分未参与对比。",
            name=run.side.name,
        )
        for run in (left, right)
        if not run.side.complete
    ]  # fmt: skip
    if other_work:
        notes.append(
            words.both(
                "The two do not compute the same for a sample, so their speed is not compared: {names}.",
                "两次运行每个样本的计算量不同，因此不比较速度：{names}。",
                names=", ".join(other_work),
            )
        )
    if a.pace and b.pace and a.parts and b.parts and measure is not None and measure.name == "step time":
        by_log, by_profile = b.pace.step_ms - a.pace.step_ms, b.parts.step_ms - a.parts.step_ms
        if abs(by_log - by_profile) > 0.25 * max(abs(by_log), abs(by_profile)) and abs(by_log) > 0.01 * a.pace.step_ms:
            notes.append(
                words.both(
                    "The logs tell {log} per step, the profiles {profile}: the captured steps are not typical.",
                    "日志显示每步 {log}，profiling 显示 {profile}：采集的步不足以代表整个任务。",
                    log=words.ms(by_log, signed=True), profile=words.ms(by_profile, signed=True),
                )
            )  # fmt: skip
    if a.parts is None or b.parts is None:
        notes.append(
            Said(
                "Without profiles of both, nothing can be said about where the time goes.",
                "缺少两侧的 profiling 数据，无法判断时间花在哪里。",
            )
        )
    return notes


def judge(
    comparison: Comparison, *, regression_pct: float | None, severity: str | None, allow_incomplete: bool = False
) -> Gate:
    """Judge B, and note the judgement in the document.

    Args:
        comparison: The document.
        regression_pct: By how many percent B may be slower; None does not look at its speed.
        severity: New findings of this severity and above fail it; None does not look at them.
        allow_incomplete: Whether what cannot be judged passes.
    """
    reasons: list[Said] = []
    failed = unclear = False
    step = comparison.step
    if regression_pct is not None and (step is None or step.change_pct is None):
        unclear = True
        reasons.append(Said("the speed of both is not known", "两侧的速度未知，无法判断"))
    elif regression_pct is not None and step is not None and step.change_pct is not None:
        failed = step.change_pct > regression_pct
        reasons.append(
            words.both(
                "{name} {change}, allowed +{limit} %", "{zh} {change}，允许 +{limit} %",
                name=step.name, change=words.pct(step.change_pct, signed=True), limit=words.plain(regression_pct),
                zh="单步时间" if step.name == "step time" else "每样本每卡时间",
            )
        )  # fmt: skip
    if severity is not None:
        least = [str(name) for name in SEVERITIES].index(severity)
        grave = [
            item for item in comparison.findings if item.state == "new" and SEVERITIES.index(item.severity) >= least
        ]
        failed = failed or bool(grave)
        for item in grave:
            reasons.append(
                words.both("new: {code} {t}", "新增：{code} {tz}", code=item.code, t=item.title.en, tz=item.title.zh)
            )
    if not (comparison.a.complete and comparison.b.complete):
        unclear = True
        reasons.append(Said("part of the input was not analysed", "部分输入未被分析"))
    gate = Gate(status="passed", reasons=reasons)
    if failed:
        gate.status = "failed"
    elif unclear and not allow_incomplete:
        gate.status = "incomplete"
    comparison.gate = gate
    return gate
