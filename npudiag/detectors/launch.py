"""Checks of launch scripts, argument dumps and configurations: what the framework would refuse or silently change.

Every check yields one finding per fault, with the line it stands in. Scripts of stacks whose option lists are not
complete are judged by what is known only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from npudiag.advice import registry, stack
from npudiag.advice.settings import Job, Setting
from npudiag.detectors.launch_hits import Params, found_jobs, hit, judged
from npudiag.engine.hits import Hit

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_PLACEHOLDER = re.compile(
    r"(?i)\byour[ _-](?:[\w.]+[ _-]){0,4}(?:path|dir|directory|file|name|model|data|tokenizer|ckpt|checkpoint|ip"
    r"|addr\w*|key|token|prefix|output)\b|\bplease[ _](?:fill|set|input|modify)"
    r"|<(?:your|path|ip|model|data|tokenizer)\b[^>]*>"
    r"|/data/atb_testdata/|\b(?:path|model|ckpt|data)/to/(?:your/)?\w+|\bxxx+\b|\bx\.x\.x\.x\b|\bTODO\b"
    r"|\bCHANGE[_ ]?ME\b"
)
_OF_THE_MODEL = "PretrainedFromHF"
_TRAINING = re.compile(r"(?:pre|post)train_\w+\.py\Z")


def _typed(job: Job, dashes: str = "--") -> Iterator[Setting]:
    """Yield options that somebody typed; what a job dumped was accepted.

    Args:
        job: Whose options.
        dashes: What they begin with.
    """
    if job.source == "script":
        for setting in job.options.values():
            if setting.key.startswith(dashes) and len(setting.key) > 2:
                yield setting


def _versions(store: Store, job: Job) -> tuple[str, ...]:
    found = stack.of(store)
    if found.stated and found.version and job.stack == found.name:
        return (found.version,)
    return job.versions


def _modern(store: Store, job: Job) -> bool:
    """Whether the release may be one whose choices and checks are known; they are those of 2.2.0 and later."""
    if job.stack != registry.MINDSPEED_LLM:
        return True
    every, versions = registry.releases(registry.MINDSPEED_LLM), _versions(store, job)
    return not versions or every.index(versions[-1]) >= every.index("2.2.0")


# -- options


def unknown_options(store: Store, params: Params) -> list[Hit]:
    """Options that no release of the framework accepts."""
    hits = []
    for job in judged(store):
        # An option with one dash is none of theirs, however well it is spelt.
        for setting in _typed(job, "-"):
            if registry.invented_name(setting.key):
                continue
            misplaced = bool(_TRAINING.search(job.entry)) and registry.of_tools_only(setting.key)
            if registry.accepts(job.stack or "", None, setting.key) != "no" and not misplaced:
                continue
            near = [] if misplaced else registry.nearest(setting.key, job.stack)
            known = near[0] if near else None
            entry = registry.lookup(known, job.stack) if known else None
            taken = known is not None and known in job.options
            hits.append(
                hit(
                    store, [setting], renamed=True, option=setting.key, stack=job.stack,
                    nearest=None if taken else known, given=known if taken else None,
                    value="" if entry is not None and entry.type == "flag" else setting.value,
                )
            )  # fmt: skip
    return hits


def invented_options(store: Store, params: Params) -> list[Hit]:
    """Options that articles made up."""
    hits = []
    for job in found_jobs(store):
        for setting in _typed(job):
            found = registry.invented_name(setting.key)
            if found is None or registry.accepts(job.stack or "", None, setting.key) == "yes":
                continue
            name, entry = found
            kind, key, value = entry.change or (None, None, None)
            hits.append(
                hit(
                    store, [setting], renamed=True, option=setting.key, name=name, stack=job.stack or "",
                    meant_en=entry.meant.en, meant_zh=entry.meant.zh,
                    instead_en=entry.instead.en, instead_zh=entry.instead.zh,
                    env=key if kind == "env" else None, flag=key if kind == "flag" else None,
                    config=key if kind == "config" else None, to=value,
                )
            )  # fmt: skip
    return hits


def options_not_in_release(store: Store, params: Params) -> list[Hit]:
    """Options that other releases accept, and the one in use does not."""
    hits = []
    for job in judged(store):
        name = job.stack or ""
        versions = _versions(store, job)
        if not versions or len(versions) == len(registry.releases(name)):
            continue
        stated = stack.of(store).stated
        for setting in _typed(job):
            if any(registry.accepts(name, version, setting.key) != "no" for version in versions):
                continue
            accepted = [v for v in registry.releases(name) if registry.accepts(name, v, setting.key) == "yes"]
            if not accepted:
                continue
            every = registry.releases(name)
            gone = every.index(accepted[-1]) < every.index(versions[0])
            hits.append(
                hit(
                    store, [setting], option=setting.key, stack=name,
                    version=versions[0] if len(versions) == 1 else f"{versions[0]} - {versions[-1]}",
                    since=None if gone else accepted[0], until=accepted[-1] if gone else None,
                    guessed=None if stated else "",
                )
            )  # fmt: skip
    return hits


def repeated_options(store: Store, params: Params) -> list[Hit]:
    """Options given twice with different values: the last one counts."""
    hits = []
    for job in judged(store):
        for first, last in job.repeated:
            if first.known and last.known:
                hits.append(hit(store, [first, last], option=last.key, first_value=first.value, last_value=last.value))
    return hits


def broken_lines(store: Store, params: Params) -> list[Hit]:
    """Options that fall out of the command: a backslash is missing, or a blank follows it."""
    hits = []
    for job in found_jobs(store):
        for setting in job.breaks[:20]:
            hits.append(
                hit(
                    store,
                    [setting],
                    word=setting.key,
                    why_en="the line above does not end in a backslash",
                    why_zh="上一行末尾缺少反斜杠",
                )
            )
        if job.stack not in registry.COMPLETE:
            continue
        for setting in job.words[:20]:
            if setting.key == "\\":
                hits.append(
                    hit(store, [setting], word="\\", why_en="a blank follows the backslash", why_zh="反斜杠后有空格")
                )
            elif setting.key == "#":
                hits.append(
                    hit(
                        store,
                        [setting],
                        word="#",
                        why_en="a comment inside quotes is no comment",
                        why_zh="引号内的 # 不是注释",
                    )
                )
    return hits


# -- values


def wrong_choices(store: Store, params: Params) -> list[Hit]:
    """Values that the option does not take."""
    import difflib

    hits = []
    for job in found_jobs(store):
        if job.stack is None or not _modern(store, job):
            continue
        for setting in _typed(job):
            if not setting.known or not setting.value:
                continue
            entry = registry.lookup(setting.key, job.stack)
            if entry is None or not entry.choices or setting.value.strip("'\"") in entry.choices:
                continue
            if not set(setting.value.split()) - set(entry.choices):
                continue
            near = difflib.get_close_matches(setting.value, entry.choices, n=1, cutoff=0.8)
            if not near and setting.value.endswith("Tokenizer") and _OF_THE_MODEL in entry.choices:
                # There is none per model: a model's own tokenizer is loaded from its folder.
                near = [_OF_THE_MODEL]
            hits.append(
                hit(
                    store, [setting], option=setting.key, value=setting.value, allowed=", ".join(entry.choices[:12]),
                    nearest=near[0] if near else None,
                )
            )  # fmt: skip
    return hits


def wrong_types(store: Store, params: Params) -> list[Hit]:
    """Values of the wrong kind: no number where one is needed, no value, or one too many."""
    hits = []
    for job in judged(store):
        for setting in _typed(job) if _modern(store, job) else ():
            entry = registry.lookup(setting.key, job.stack)
            if entry is None or not setting.known:
                continue
            value = setting.value.strip("'\"")
            if entry.type in ("int", "float") and not value:
                wanted = ("a number", "一个数值")
            elif entry.type == "int" and value and not all(re.fullmatch(r"[-+]?\d+", part) for part in value.split()):
                wanted = ("a whole number", "整数")
            elif entry.type == "float" and value and any(not _float(part) for part in value.split()):
                wanted = ("a number", "数值")
            elif entry.type == "flag" and value:
                wanted = ("no value", "不带值")
            else:
                continue
            hits.append(
                hit(store, [setting], option=setting.key, value=value or None, wanted_en=wanted[0], wanted_zh=wanted[1])
            )
    return hits


def _float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def placeholders(store: Store, params: Params) -> list[Hit]:
    """Values that say that somebody should have filled them in."""
    hits = []
    for job in found_jobs(store):
        if job.source == "dump":
            continue
        seen: set[int] = set()
        for setting in (*job.options.values(), *job.env.values(), *job.launcher.values()):
            match = _PLACEHOLDER.search(setting.value)
            if match and setting.known and setting.origin not in seen:
                seen.add(setting.origin)
                hits.append(hit(store, [setting], option=setting.key, value=setting.value[:120]))
    return hits


# -- constraints


def _constrained(store: Store, effect: str) -> Iterator[tuple[Job, registry.Constraint, list[str], list[str]]]:
    """Yield constraints that are not met: job, constraint, what is missing, what is in the way."""
    for job in judged(store):
        for item in registry.constraints(job.stack or ""):
            if registry.MEGATRON not in item.stacks and not _modern(store, job):
                continue
            if item.effect != effect or not all(job.holds(term) for term in item.when):
                continue
            settings = job.where(*item.when)
            if not settings or not all(setting.sure or setting.source == "dump" for setting in settings):
                continue
            missing = [term for term in item.need if job.holds(term) is False]
            # Defaults of the frameworks on NPUs are not always those of Megatron: only what is given is in the way.
            denied = [term for term in item.deny if job.holds(term) and job.where(term)]
            if job.source == "dump" and effect == "refused":
                # It did start; what a dump shows was changed by the framework's own checks.
                continue
            if missing or denied:
                yield job, item, missing, denied


def conflicts(store: Store, params: Params) -> list[Hit]:
    """Options that the framework refuses together."""
    hits = []
    for job, item, _, denied in _constrained(store, "refused"):
        for term in denied:
            settings = job.where(*item.when)
            other = job.where(term)
            if other and not all(setting.sure for setting in other):
                continue
            hits.append(
                hit(
                    store, [*settings, *other], at=other[0] if other else None,
                    option=_shown(item.when), other=_shown((term,)), stack=job.stack,
                )
            )  # fmt: skip
    return hits


def missing_companions(store: Store, params: Params) -> list[Hit]:
    """Options that do not work without others that are not given."""
    hits = []
    for job, item, missing, _ in _constrained(store, "refused"):
        for term in missing:
            plain = re.fullmatch(r"--[\w-]+", term) is not None
            entry = registry.lookup(term, job.stack) if plain else None
            hits.append(
                hit(
                    store, [*job.where(*item.when), *job.where(term)], option=_shown(item.when), needed=_shown((term,)),
                    add=term if entry is not None and entry.type == "flag" else None, stack=job.stack,
                )
            )  # fmt: skip
    return hits


def overrides(store: Store, params: Params) -> list[Hit]:
    """Options that the framework changes silently, or that do harm in company."""
    hits = []
    for effect in ("override", "warning"):
        for job, item, missing, denied in _constrained(store, effect):
            if job.source == "dump" and effect == "override":
                continue
            settings = [*job.where(*item.when), *job.where(*denied)]
            en = item.en or f"{_shown(item.when)} is meant to go with {_shown(tuple(missing))}"
            zh = item.zh or f"{_shown(item.when)} 应与 {_shown(tuple(missing))} 同时使用"
            shown = job.where(*denied) or settings
            hits.append(hit(store, settings, at=shown[0], option=shown[0].key, en=en, zh=zh))
    return hits


def _shown(terms: Sequence[str]) -> str:
    out = []
    for term in terms:
        parts = [re.sub(r"(?<!!)=", " ", part) for part in term.split("|")]
        out.append(" | ".join(parts))
    return ", ".join(out)
