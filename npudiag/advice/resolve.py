"""Turns the remedies of rules into changes for the job at hand.

What is for another framework, what the release would refuse, what does not divide, and what is set already goes;
where a setting was made and what half of its value is are filled in; of two changes of one setting the more important
finding's stays. Where the framework is not known, each change says whose it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from npudiag.advice import registry, values
from npudiag.advice.settings import Job, Setting, jobs
from npudiag.advice.stack import LAYERS, Stack, setting_of
from npudiag.result import Change, Finding, Place, Remedy

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_SETS = ("flag", "env", "config")
_EDITABLE = ("script", "yaml", "launcher")
_BY_FLAGS = frozenset((*registry.COMPLETE, "vllm", "vllm-ascend", "torchtitan", "MindIE", "torchrun"))
"""Frameworks whose commands take what they are built on as options."""
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
_FOR_EXPERTS = ("--moe-", "--expert-model-parallel-")
"""How options begin that mean nothing to a model without experts."""


def apply(findings: Sequence[Finding], store: Store, stack: Stack) -> None:
    """Resolve the remedies of all findings in place, the most important finding first."""
    taken: dict[tuple[str, str], str] = {}
    order = {"root": 0, "contributing": 1, "consequence": 2}
    # A note may suggest, but not at the cost of a remedy.
    for finding in sorted(findings, key=lambda one: (one.severity == "info", order.get(one.role, 3))):
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
            whose, since = self.whose(remedy), self.since(remedy)
            for lang, words in texts.items():
                told = words[index] if index < len(words) else {}
                if (whose or since) and isinstance(told, dict) and told.get("text"):
                    told = {**told, "text": _framed(told["text"], whose, since, lang)}
                kept_texts[lang].append(told)
            remedy.text = _framed(remedy.text, whose, since, "en")
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
        if not kept and finding.remedies:
            # A finding without a next step leaves its reader alone.
            kept.append(Remedy(kind="collect", text=_start_there("en"), disposition="safe"))
            for lang in texts:
                kept_texts[lang].append({"text": _start_there(lang), "expect": "", "verify": ""})
        finding.remedies = kept
        for lang, text in finding.i18n.items():
            if "remedies" in text:
                text["remedies"] = kept_texts[lang]

    def whose(self, remedy: Remedy) -> str:
        """Return the frameworks that a change is for, where it is not known which one the job uses."""
        if self.stack.name is not None or remedy.change is None or not remedy.stack or self.exact:
            return ""
        if self.stack.candidates and set(self.stack.candidates) <= set(remedy.stack):
            return ""
        known = bool(self.stack.candidates)
        names = [name for name in remedy.stack if name not in LAYERS and (not known or self.stack.concerns([name]))]
        return "" if any(remedy.text.startswith(name) for name in names) else ", ".join(names)

    def since(self, remedy: Remedy) -> str:
        """Return from which release on an option is there, where the job's release is not known and it matters."""
        if remedy.kind != "flag" or remedy.change is None or self.stack.narrowed:
            return ""
        for name in self.stack.candidates or remedy.stack:
            releases = registry.releases(name) if name in registry.COMPLETE else ()
            taking = [one for one in releases if registry.accepts(name, one, remedy.change.key) == "yes"]
            if taking and len(taking) < len(releases):
                return f"{name} {taking[0]}"
        return ""

    def fits(self, remedy: Remedy) -> bool:
        """Whether a remedy is for this job and changes anything; places it."""
        if remedy.stack and not self.stack.concerns(remedy.stack):
            return False
        if remedy.kind == "flag" and not self.takes_flags(remedy):
            return False
        change = remedy.change
        if change is None or remedy.kind not in _SETS:
            return True
        if "?" in change.key or change.to == "?":
            # The rule had nothing to put there.
            return False
        if remedy.kind == "flag" and not self.accepted(remedy, change.key):
            return False
        if not self.read_here(remedy, change.key):
            return False
        setting = setting_of(self.store, remedy.kind, change.key)
        if setting is None and remedy.kind == "config" and not self.owns(remedy):
            return False
        entry = registry.lookup(change.key)
        default = entry.default if entry is not None else None
        to: str | None = change.to
        scaled = values.is_factor(change.to)
        if scaled:
            to = values.scaled(change.to, self.present(setting, change.key, default))
        elif change.to == "fit":
            to = values.fitting([job for job in jobs(self.store) if job.stack in registry.COMPLETE], change.key)
        if to is None:
            return False
        change.to = to
        if setting is not None and setting.known:
            further = _beyond(setting, change) or values.goes_further(setting, change.to, default)
            if _same(setting, change.to) or (further and not scaled and not self.exact):
                return False
            if change.old is None and setting.value != change.to:
                change.old = setting.value
        if remedy.kind == "flag" and not (self.divides(change) and self.allowed(change) and self.supported(change)):
            return False
        if setting is None and remedy.kind == "env" and change.to == default and self.scripted:
            # The launch is known and leaves the variable alone.
            return False
        # A finding about an option that goes names its line; what takes its place is changed where that stands.
        here = remedy.at is None or (setting is not None and remedy.at.path == setting.file)
        if setting is not None and here and setting.source in _EDITABLE:
            remedy.at = Place(path=setting.file, line=setting.origin)
        place = (remedy.kind, change.key)
        if self.taken.setdefault(place, change.to) != change.to:
            # A graver finding wants it otherwise; what is said stays, what is to be pasted goes.
            remedy.change = None
            remedy.at = None
        return True

    def owns(self, remedy: Remedy) -> bool:
        """Whether a key belongs to the framework itself; that of one below is advised only where it is set already.

        LLaMA-Factory runs with DeepSpeed's configuration or without.
        """
        mine = set(self.stack.candidates)
        return not mine or not remedy.stack or bool(mine & set(remedy.stack))

    def takes_flags(self, remedy: Remedy) -> bool:
        """Whether the job's own command takes the options of a framework that lies below: not so with a configuration.

        verl may train with Megatron-LM, but is told so in its own keys.
        """
        mine = set(self.stack.candidates)
        return not mine or bool(mine & _BY_FLAGS) or bool(mine & set(remedy.stack))

    def present(self, setting: Setting | None, key: str, default: str | None) -> str | None:
        """Return the present value of a setting: as set, as the job prints it, else the default where nothing is set.

        A default counts only where the launch is known: elsewhere the setting may have been made out of sight.
        """
        if setting is not None:
            return setting.value if setting.known else None
        if key == "--global-batch-size":
            sizes = self.store.columns("train_steps").numbers("global_batch_size")
            told = sizes[sizes == sizes]
            return str(int(told[-1])) if told.size else None
        return default if any(job.source != "yaml" and job.options for job in jobs(self.store)) else None

    def read_here(self, remedy: Remedy, key: str) -> bool:
        """Whether a configuration key that no framework is named for is one that the framework at hand reads."""
        if remedy.kind == "config" and not remedy.stack:
            entry = registry.lookup(key)
            return entry is None or self.stack.concerns(entry.defined_in)
        return True

    def accepted(self, remedy: Remedy, option: str) -> bool:
        """Whether the frameworks at hand take an option, as far as their lists are complete, and it can be added."""
        names = [registry.canonical(name) or name for name in remedy.stack] or list(self.stack.candidates)
        complete = [name for name in names if name in registry.COMPLETE]
        if not complete or len(complete) < len(names):
            return True
        here = [name for name in complete if name in self.stack.candidates] or complete
        for name in here:
            narrowed = name == self.stack.name and self.stack.narrowed
            asked: Sequence[str | None] = self.stack.versions if narrowed else [None]
            if any(registry.accepts(name, version, option) != "yes" for version in asked):
                return False
        return True

    def allowed(self, change: Change) -> bool:
        """Whether no launch at hand would be refused with a change."""
        return not any(
            values.newly_refused(job, {change.key: change.to})
            for job in jobs(self.store)
            if job.stack in registry.COMPLETE and not job.tool
        )

    def supported(self, change: Change) -> bool:
        """Whether each launch at hand has what an option needs, gets it by another remedy, or can be given it."""
        if self.exact:
            return True
        others = [one.change for one in self.finding.remedies if one.kind == "flag" and one.change is not None]
        for job in jobs(self.store):
            if job.stack not in registry.COMPLETE or job.source == "yaml" or job.tool or not job.options:
                continue
            if change.key.startswith(_FOR_EXPERTS) and job.find("--num-experts") is None:
                return False
            whole = job
            for other in others:
                whole = whole.having(other.key, other.to)
            if any(whole.holds(term) is False and _addition(term, job) is None for term in _needs(job, change)):
                return False
        return True

    @property
    def scripted(self) -> bool:
        """Whether a launch script is among the input."""
        return any(job.source == "script" and (job.options or job.launcher) for job in jobs(self.store))

    @property
    def exact(self) -> bool:
        """Whether the finding is about the launch itself and knows the value that it advises."""
        return self.finding.code.startswith("LNT")

    def divides(self, change: Change) -> bool:
        """Whether ranks, layers, heads and batches still divide."""
        if self.exact:
            return True
        return all(
            values.holds(job, change.key, change.to) for job in jobs(self.store) if job.stack in registry.COMPLETE
        )

    def companions(self, remedy: Remedy) -> list[Remedy]:
        """Return what has to be set along with a remedy's option."""
        change = remedy.change
        if change is None or remedy.kind != "flag":
            return []
        out: list[Remedy] = []
        for job in jobs(self.store):
            if job.stack not in registry.COMPLETE or job.source == "yaml" or job.tool:
                continue
            for term in _needs(job, change):
                option = _addition(term, job)
                if option is None or ("flag", option) in self.taken:
                    continue
                self.taken["flag", option] = ""
                out.append(
                    Remedy(
                        kind="flag",
                        text=_needed("en", change.key, option),
                        change=Change(key=option, to=""),
                        stack=list(remedy.stack),
                        disposition="review",
                    )
                )
        return out


def _needs(job: Job, change: Change) -> list[str]:
    """Return what a launch lacks that a change makes it need, by the checks of the framework."""
    after = job.having(change.key, change.to)
    return [
        term
        for item in registry.constraints(job.stack or "")
        if item.effect == "refused" and change.key in item.options
        if all(after.holds(one) for one in item.when) and not all(job.holds(one) for one in item.when)
        for term in item.need
        if job.holds(term) is False
    ]


def _addition(term: str, job: Job) -> str | None:
    """Return the option that gives a launch what is needed, the first of alternatives; None if it wants a value."""
    option = term.split("|")[0].strip()
    entry = None if "=" in option or ">" in option else registry.lookup(option, job.stack)
    return option if entry is not None and entry.type == "flag" else None


def _framed(text: str, whose: str, since: str, lang: str) -> str:
    """Put in front whose advice it is, and behind from which release on it can be followed."""
    if whose:
        text = f"{whose}：{text}" if lang == "zh" else f"{whose}: {text}"
    if since:
        text += f"（自 {since} 起支持）" if lang == "zh" else f" ({since} and later.)"
    return text


def _start_there(lang: str) -> str:
    if lang == "zh":
        return "已知的可调设置均不适用于该任务：请从上述证据入手，并附上启动命令、配置与各组件版本。"
    return (
        "No setting that is known to help applies to this job: start from the evidence, "
        "with the launch command, the configuration and the versions of all components at hand."
    )


def _needed(lang: str, option: str, needed: str) -> str:
    if lang == "zh":
        return f"同时添加 {needed}：{option} 依赖该参数。"
    return f"Add {needed} as well: {option} needs it."


def _same(setting: Setting, to: str) -> bool:
    value = setting.value
    if value == to or (to == "" and value in ("True", "true")):
        return True
    if ":" in to and to in (part.strip() for part in value.strip("'\"").split(",")):
        # One of several settings in a variable.
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
