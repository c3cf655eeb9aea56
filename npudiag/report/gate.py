"""What a document says about the gate and the baseline, and the places of it in a repository.

All of it stands in ``facts``, which a document from elsewhere may fill with anything: what does not fit is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from npudiag.report.figures import short_float
from npudiag.report.safe_text import visible, visible_block
from npudiag.report.texts import UI, Text, labelled, say
from npudiag.result import Finding, Result

STATUS: dict[str, Text] = {
    "passed": Text("Gate passed", "门禁通过"),
    "failed": Text("Gate failed", "门禁未通过"),
    "incomplete": Text("Gate could not judge everything", "门禁无法完整判断"),
    "nothing-recognised": Text("Gate recognised nothing it could judge", "门禁未识别到可判断的内容"),
}
_FINDING = Text("{n} findings fail it: {list}", "{n} 个发现导致未通过：{list}", "{n} finding fails it: {list}")
_BUDGET_FAIL = Text("{metric} is {value}, allowed {budget}{limit}", "{metric} 为 {value}，要求 {budget}{limit}")
_BUDGET_MISSING = Text("{metric} could not be judged: {note}", "{metric} 无法判断：{note}")
_UNREAD = Text("part of the input was not analysed", "部分输入未被分析")
_KNOWN = Text("{n} known findings set aside", "{n} 个已知发现已忽略", "{n} known finding set aside")
_WORSE = Text("worse than in the baseline", "比基线更严重")
_EXPIRED = Text("acceptance expired", "接受期限已过")
_STALE = Text("in the baseline, but found no more", "基线中有、但已不再出现")
_MOST = 10


@dataclass(frozen=True, slots=True)
class Budget:
    """One judged bound of a metric."""

    metric: str
    budget: str
    status: str
    """``pass``, ``fail`` or ``missing``."""
    value: float | None
    limit: float | None
    note: str

    def sentence(self, lang: str) -> str:
        """Say what came out."""
        if self.status == "missing":
            return say(_BUDGET_MISSING, lang, metric=self.metric, note=self.note)
        limit = f" ({short_float(self.limit)})" if self.limit is not None and "baseline" in self.budget else ""
        value = "NaN" if self.value is None else short_float(self.value)
        return say(_BUDGET_FAIL, lang, metric=self.metric, value=value, budget=self.budget, limit=limit)


@dataclass(frozen=True, slots=True)
class Gate:
    """The judgement of a gate."""

    status: str
    failing: frozenset[str]
    """Ids of the findings that fail it."""
    budgets: tuple[Budget, ...]
    incomplete: bool


@dataclass(frozen=True, slots=True)
class Known:
    """The comparison with a baseline."""

    known: int
    new: frozenset[str]
    """Fingerprints of findings that it does not hold."""
    worsened: Mapping[str, str]
    """Fingerprint to what became worse."""
    expired: Mapping[str, str]
    stale: tuple[str, ...]
    """Entries that match nothing any more, as text."""


def gate_of(result: Result) -> Gate | None:
    """Return the gate's judgement; None where the document is that of an analysis."""
    facts = result.facts.get("gate")
    status = facts.get("status") if isinstance(facts, dict) else None
    if not isinstance(facts, dict) or not isinstance(status, str) or status not in STATUS:
        return None
    return Gate(
        status=status,
        failing=frozenset(item for item in _list(facts.get("failing")) if isinstance(item, str)),
        budgets=tuple(
            Budget(
                metric=visible(str(item.get("metric", ""))),
                budget=visible(str(item.get("budget", ""))),
                status=str(item.get("status", "")),
                value=_number(item.get("value")),
                limit=_number(item.get("limit")),
                note=visible(str(item.get("note", ""))),
            )
            for item in _list(facts.get("budgets"))
            if isinstance(item, dict)
        ),
        incomplete=bool(facts.get("incomplete")),
    )


def known_of(result: Result) -> Known | None:
    """Return the comparison with a baseline; None where there was none."""
    facts = result.facts.get("baseline")
    if not isinstance(facts, dict):
        return None

    def marks(name: str) -> dict[str, str]:
        return {
            str(item.get("fingerprint")): visible(str(item.get("why", "")))
            for item in _list(facts.get(name))
            if isinstance(item, dict)
        }

    known = facts.get("known")
    return Known(
        known=known if isinstance(known, int) else 0,
        new=frozenset(marks("new")),
        worsened=marks("worsened"),
        expired=marks("expired"),
        stale=tuple(
            visible(f"{item.get('code')} {item.get('title')}")
            for item in _list(facts.get("stale"))
            if isinstance(item, dict)
        ),
    )


def fails(finding: Finding, gate: Gate | None) -> bool:
    """Whether a report counts a finding as a failure: what fails the gate; without one, every problem."""
    if finding.suppressed is not None:
        return False
    return finding.id in gate.failing if gate else finding.status == "fail"


def reasons(result: Result, lang: str) -> list[str]:
    """Return why the gate ended as it did, one sentence each; empty where there was no gate."""
    gate = gate_of(result)
    if gate is None:
        return []
    out = []
    failing = [finding for finding in result.findings if finding.id in gate.failing]
    if failing:
        out.append(say(_FINDING, lang, n=len(failing), list=_codes(failing)))
    out += [item.sentence(lang) for item in gate.budgets if item.status in ("fail", "missing")]
    if not result.coverage.complete:
        out.append(say(_UNREAD, lang))
    if result.errors:
        out.append(say(UI.broke_hint, lang, n=len(result.errors)))
    return out


def notes(result: Result, lang: str) -> list[str]:
    """Return what the baseline and the suppressions have to say, one sentence each."""
    out = []
    known = known_of(result)
    if known is not None:
        by_mark: dict[str, Finding] = {}
        for finding in result.findings:
            by_mark.setdefault(finding.fingerprint, finding)
        if known.known:
            out.append(say(_KNOWN, lang, n=known.known))
        for text, marks in ((_WORSE, known.worsened), (_EXPIRED, known.expired)):
            for mark, why in list(marks.items())[:_MOST]:
                named = by_mark.get(mark)
                out.append(labelled(text, f"{_codes([named]) if named else mark} ({why})", lang))
        out += [labelled(_STALE, item, lang) for item in known.stale[:_MOST]]
        if len(known.stale) > _MOST:
            out.append(labelled(_STALE, f"+{len(known.stale) - _MOST}", lang))
    unused = result.facts.get("unused_suppressions")
    out += [labelled(UI.unused_suppression, visible(str(item)), lang) for item in _list(unused)[:_MOST]]
    return out


def lines(result: Result, lang: str) -> list[str]:
    """Return the gate's judgement as lines for a terminal; empty where there was no gate."""
    gate = gate_of(result)
    if gate is None:
        return []
    head, *rest = [*reasons(result, lang), *notes(result, lang)] or [""]
    first = labelled(STATUS[gate.status], head, lang) if head else say(STATUS[gate.status], lang)
    return [first, *(f"  {line}" for line in rest)]


def unexplained(result: Result) -> bool:
    """Whether the gate did not pass for another reason than a finding."""
    gate = gate_of(result)
    return gate is not None and gate.status != "passed" and not gate.failing


def _codes(findings: Iterable[Finding]) -> str:
    every = list(dict.fromkeys(f"{visible(finding.code)} {visible(finding.name)}" for finding in findings))
    return ", ".join(every[:_MOST]) + (f" +{len(every) - _MOST}" if len(every) > _MOST else "")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


# Places


def repository_path(result: Result, path: str) -> str | None:
    """Return a path of the document as it is called in the repository; None where it lies elsewhere.

    ``facts.roots`` maps the first part of a path to where that lies below the repository or the working directory.
    """
    roots = result.facts.get("roots")
    if not isinstance(roots, dict) or path == "-":
        return None
    for name, root in sorted(roots.items(), key=lambda item: -len(str(item[0]))):
        if not isinstance(name, str) or not isinstance(root, str):
            continue
        if path == name or path.startswith((f"{name}/", f"{name}!/")):
            joined = root + path[len(name) :] if root not in ("", ".") else path[len(name) + 1 :]
            return None if not joined or joined.startswith("/") or ".." in joined.split("/") else joined
    return None


def uri(path: str) -> str:
    """Return a path as a relative URI reference."""
    # A colon in the first part would make it a scheme.
    return quote(re.sub(r"^/+", "", path), safe="/!@+,;=~$&'()*", errors="replace") or "."


def harmless(value: Any) -> Any:
    """Return JSON data with every hidden character of its texts as an escape."""
    if isinstance(value, str):
        return visible_block(value)
    if isinstance(value, list):
        return [harmless(item) for item in value]
    if isinstance(value, dict):
        return {harmless(key): harmless(item) for key, item in value.items()}
    return value
