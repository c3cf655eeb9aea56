"""Turns the remedies of rules into changes for the job at hand.

What is for another framework, what the release would refuse, and what is set already goes; where a setting was made
is filled in; of two changes of one setting the more important finding's stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from npudiag.advice import registry
from npudiag.advice.settings import Job, Setting, jobs
from npudiag.advice.stack import Stack, setting_of
from npudiag.result import Change, Finding, Place, Remedy

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_SETS = ("flag", "env", "config")
_EDITABLE = ("script", "yaml", "launcher")
_UPWARDS = frozenset(
    [
        "HCCL_CONNECT_TIMEOUT",
        "HCCL_EXEC_TIMEOUT",
        "HCCL_EVENT_TIMEOUT",
        "--distributed-timeout-minutes",
        "--save-interval",
        "ASCEND_TRANSFER_TIMEOUT",
        "ACL_STREAM_TIMEOUT",
    ]
)
"""Settings that are only ever advised to be raised: a higher value stays."""
_DOWNWARDS = frozenset(("--clip-grad", "--lr", "max_grad_norm", "learning_rate"))
"""Settings that are only ever advised to be lowered."""


def apply(findings: Sequence[Finding], store: Store, stack: Stack) -> None:
    """Resolve the remedies of all findings in place, the most important finding first."""
    taken: dict[tuple[str, str], str] = {}
    order = {"root": 0, "contributing": 1, "consequence": 2}
    for finding in sorted(findings, key=lambda finding: order.get(finding.role, 3)):
        _Resolver(finding, store, stack, taken).run()


class _Resolver:
    def __init__(self, finding: Finding, store: Store, stack: Stack, taken: dict[tuple[str, str], str]) -> None:
        self.finding = finding
        self.store = store
        self.stack = stack
        self.taken = taken

    def run(self) -> None:
        finding = self.finding
        texts = {lang: list(words.get("remedies") or ()) for lang, words in finding.i18n.items()}
        kept: list[Remedy] = []
        kept_texts: dict[str, list[Any]] = {lang: [] for lang in texts}
        for index, remedy in enumerate(finding.remedies):
            if not self.fits(remedy):
                continue
            kept.append(remedy)
            for lang, words in texts.items():
                kept_texts[lang].append(words[index] if index < len(words) else {})
            for needed in self.companions(remedy):
                kept.append(needed)
                key = needed.change.key if needed.change else ""
                for lang in texts:
                    kept_texts[lang].append(
                        {
                            "text": _needed(lang, remedy.change.key if remedy.change else "", key),
                            "expect": "",
                            "verify": "",
                        }
                    )
        finding.remedies = kept
        for lang, text in finding.i18n.items():
            if "remedies" in text:
                text["remedies"] = kept_texts[lang]

    def fits(self, remedy: Remedy) -> bool:
        """Whether a remedy is for this job and changes anything; places it."""
        if remedy.stack and not self.stack.concerns(remedy.stack):
            return False
        change = remedy.change
        if change is None or remedy.kind not in _SETS:
            return True
        if "?" in change.key or change.to == "?":
            # The rule had nothing to put there.
            return False
        if remedy.kind == "flag" and not self.accepted(remedy, change.key):
            return False
        setting = setting_of(self.store, remedy.kind, change.key)
        if setting is not None and setting.known:
            if _same(setting, change.to) or _beyond(setting, change):
                return False
            if change.old is None and setting.value != change.to:
                change.old = setting.value
        if setting is not None and remedy.at is None and setting.source in _EDITABLE:
            remedy.at = Place(path=setting.file, line=setting.origin)
        place = (remedy.kind, change.key)
        if self.taken.setdefault(place, change.to) != change.to:
            # A graver finding wants it otherwise; what is said stays, what is to be pasted goes.
            remedy.change = None
            remedy.at = None
        return True

    def accepted(self, remedy: Remedy, option: str) -> bool:
        """Whether the frameworks at hand take an option, as far as their lists are complete, and it can be added."""
        names = [registry.canonical(name) or name for name in remedy.stack] or list(self.stack.candidates)
        complete = [name for name in names if name in registry.COMPLETE]
        if not complete or len(complete) < len(names):
            return True
        here = [name for name in complete if name in self.stack.candidates] or complete
        for name in here:
            versions: Sequence[str | None] = self.stack.versions if name == self.stack.name else ()
            asked = versions or [self.stack.version if name == self.stack.name else None]
            if any(registry.accepts(name, version, option) != "yes" for version in asked):
                return False
        return not any(self.forbidden(job, option) for job in jobs(self.store) if job.stack in registry.COMPLETE)

    @staticmethod
    def forbidden(job: Job, option: str) -> bool:
        """Whether adding an option makes the launch fail."""
        for item in registry.constraints(job.stack or ""):
            if item.effect != "refused":
                continue
            if list(item.when) == [option] and any(job.holds(term) for term in item.deny):
                return True
            if option in item.deny and all(job.holds(term) for term in item.when):
                return True
        return False

    def companions(self, remedy: Remedy) -> list[Remedy]:
        """Return what has to be set along with a remedy's option."""
        change = remedy.change
        if change is None or remedy.kind != "flag":
            return []
        out: list[Remedy] = []
        for job in jobs(self.store):
            if job.stack not in registry.COMPLETE or job.source == "yaml":
                continue
            for item in registry.constraints(job.stack or ""):
                if item.effect != "refused" or list(item.when) != [change.key]:
                    continue
                for term in item.need:
                    # Only a plain option can be added without knowing a value for it.
                    if "|" in term or "=" in term or ">" in term or job.holds(term) is not False:
                        continue
                    entry = registry.lookup(term, job.stack)
                    if entry is None or entry.type != "flag" or ("flag", term) in self.taken:
                        continue
                    self.taken["flag", term] = ""
                    out.append(
                        Remedy(
                            kind="flag",
                            text=_needed("en", change.key, term),
                            change=Change(key=term, to=""),
                            stack=list(remedy.stack),
                            disposition="review",
                        )
                    )
        return out


def _needed(lang: str, option: str, needed: str) -> str:
    if lang == "zh":
        return f"同时添加 {needed}：{option} 依赖该参数。"
    return f"Add {needed} as well: {option} needs it."


def _same(setting: Setting, to: str) -> bool:
    value = setting.value
    if value == to or (to == "" and value in ("True", "true")):
        return True
    number = setting.number
    try:
        return number is not None and number == float(to)
    except ValueError:
        return value.strip("'\"").lower() == to.strip("'\"").lower()


def _beyond(setting: Setting, change: Change) -> bool:
    """Whether the present value goes further already than the advised one."""
    number = setting.number
    try:
        wanted = float(change.to)
    except ValueError:
        return False
    if number is None:
        return False
    return (change.key in _UPWARDS and number >= wanted) or (change.key in _DOWNWARDS and number <= wanted)
