"""The registry of options and environment variables, by framework and release.

The option lists of Megatron-LM, MindSpeed and MindSpeed-LLM are complete: their parsers refuse whatever is not in
them. Of serving engines and configuration-file frameworks only some options are known, so nothing is called unknown
there but a slip of the pen in an option of vLLM's server. All data lies in ``data`` and is read when first asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from npudiag.result import RemedyKind

DATA = Path(__file__).with_name("data")

_LONG, _SLIP = 10, 2
"""Letters of a name, dashes included, from which on it can be told from others, and letters that a slip changes."""

Acceptance = Literal["yes", "no", "unknown"]

MEGATRON, MINDSPEED, MINDSPEED_LLM = "Megatron-LM", "MindSpeed", "MindSpeed-LLM"
FSDP2 = "MindSpeed-LLM-FSDP2"
"""MindSpeed-LLM's other training program: it has dotted options of its own and none of Megatron's."""
COMPLETE = (MINDSPEED_LLM, MEGATRON, MINDSPEED)
"""Stacks whose option lists are complete: what is not listed is refused."""

STACKS = (
    *COMPLETE, FSDP2, "torch_npu", "vllm", "vllm-ascend", "MindIE", "LLaMA-Factory", "verl", "MindFormers", "MindSpore",
    "DeepSpeed", "transformers", "torchtitan", "Triton", "torchrun", "msrun", "slurm", "CANN", "HCCL",
)  # fmt: skip
"""Names of stacks as remedies use them."""
_SPELLINGS = {re.sub("[^a-z]", "", name.lower()): name for name in STACKS} | {
    "megatron": MEGATRON, "mindspeedllm": MINDSPEED_LLM, "modellink": MINDSPEED_LLM, "hf": "transformers",
}  # fmt: skip

_OF_LLM: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "1.0.RC1": (("core_r0.6.0",), ("1.0.RC1",)),
    "1.0.RC2": (("core_r0.6.0",), ("1.0.RC2",)),
    "1.0.RC3": (("core_r0.6.0", "core_r0.7.0"), ("1.0.RC3_core_r0.6.0", "1.0.RC3_core_r0.7.0")),
    "1.0.0": (("core_r0.6.0", "core_r0.7.0"), ("1.0.0_core_r0.6.0", "1.0.0_core_r0.7.0")),
    "2.0.0": (("core_r0.8.0",), ("2.0.0_core_r0.8.0",)),
    "2.1.0": (("core_r0.8.0",), ("2.1.0_core_r0.8.0",)),
    "2.2.0": (("core_v0.12.1",), ("2.2.0_core_r0.12.1",)),
    "2.3.0": (("core_v0.12.1",), ("2.3.0_core_r0.12.1",)),
    "26.0.0": (("core_v0.12.1",), ("26.0.0_core_r0.12.1",)),
    "26.1.0": (("core_v0.12.1",), ("26.1.0_core_r0.12.1",)),
    "master": (("core_v0.12.1",), ("master",)),
}
"""MindSpeed-LLM release to the Megatron-LM and MindSpeed releases that it is used with."""
_REGISTERS_ALL = ("1.0.RC1", "1.0.RC2", "1.0.RC3", "1.0.0", "2.0.0", "2.1.0")
"""Releases of MindSpeed-LLM that take over all options of MindSpeed; later ones pick features."""


class _Known(msgspec.Struct, frozen=True, array_like=True):
    """One option of one repository, as the data file has it."""

    kind: str
    releases: int
    default: str | None
    choices: tuple[str, ...]
    nargs: str
    scope: str
    registered: bool


class _Repository(msgspec.Struct, frozen=True):
    refs: tuple[str, ...]
    options: dict[str, _Known]


class _Served(msgspec.Struct, frozen=True, array_like=True):
    """An option of a stack whose list is not complete."""

    stacks: tuple[str, ...]
    kind: str = "str"
    default: str | None = None
    choices: tuple[str, ...] = ()


class Constraint(msgspec.Struct, frozen=True, kw_only=True):
    """What options demand of each other.

    Terms are ``--flag`` (given), ``!--flag`` (not given), ``--flag=value``, ``--flag!=value``, ``--flag>1``;
    alternatives are separated by a bar. A value that is not given counts with its default.

    Attributes:
        when: Terms that must all hold for the constraint to speak.
        need: Terms that must hold then.
        deny: Terms none of which may hold then.
        effect: ``refused`` (the launch fails), ``override`` (a value is silently replaced), ``warning``.
        stacks: Whom it is for; Megatron's hold for MindSpeed-LLM as well.
        en, zh: What happens, for an override.
    """

    when: tuple[str, ...]
    need: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    effect: str = "refused"
    stacks: tuple[str, ...] = (MEGATRON,)
    en: str = ""
    zh: str = ""

    @property
    def options(self) -> frozenset[str]:
        """The options that its terms name."""
        terms = (part for terms in (self.when, self.need, self.deny) for term in terms for part in term.split("|"))
        return frozenset(re.split("!?[=>]", term.lstrip("!"), maxsplit=1)[0] for term in terms)


class Words(msgspec.Struct, frozen=True):
    """A text in both languages."""

    en: str
    zh: str


class Invented(msgspec.Struct, frozen=True, kw_only=True):
    """A name that articles recommend and no framework accepts.

    Attributes:
        meant: What the article wants to achieve with it.
        instead: What exists.
        change: Kind, key and value of the closest real setting, as far as there is one.
        also: Other spellings.
    """

    meant: Words
    instead: Words
    change: tuple[RemedyKind, str, str] | None = None
    also: tuple[str, ...] = ()


class Variable(msgspec.Struct, frozen=True, array_like=True):
    """An environment variable.

    Attributes:
        owner: The software that reads it.
        values: What it takes, as a short notation; empty where not known.
        default: Value when unset; empty where not known.
        since: From which versions on.
    """

    owner: str
    values: str = ""
    default: str = ""
    since: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one option or variable.

    Attributes:
        name: As it is typed.
        kind: ``flag``, ``env`` or ``config``.
        stack: The framework asked about, or the one that defines it.
        defined_in: Repositories that register it.
        type: ``flag`` (no value), ``switch`` (also as ``--no-...``), ``int``, ``float``, ``str``, ``bool``, ``json``;
            empty where not known.
        default: Value when not given, None where there is none or it is not known.
        choices: Values it takes; empty where any, or not known.
        releases: Releases of `stack` that accept it.
        suggestible: Whether it may be advised: the present release is known to accept it.
        values: For a variable: what it takes, as a short notation.
        since: For a variable: from which versions on.
    """

    name: str
    kind: RemedyKind
    stack: str
    defined_in: tuple[str, ...] = ()
    type: str = ""
    default: str | None = None
    choices: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    suggestible: bool = True
    values: str = ""
    since: str = ""


def _read(name: str) -> bytes:
    return (DATA / name).read_bytes()


@lru_cache(maxsize=1)
def _repositories() -> dict[str, _Repository]:
    return msgspec.json.decode(_read("options.json"), type=dict[str, _Repository])


@lru_cache(maxsize=1)
def variables() -> dict[str, Variable]:
    """Return every known environment variable by name."""
    return msgspec.json.decode(_read("variables.json"), type=dict[str, Variable]) | msgspec.json.decode(
        _read("variables_more.json"), type=dict[str, Variable]
    )


@lru_cache(maxsize=1)
def _served() -> dict[str, _Served]:
    return msgspec.json.decode(_read("served.json"), type=dict[str, _Served])


@lru_cache(maxsize=1)
def invented() -> dict[str, Invented]:
    """Return names that articles recommend and nothing accepts, in their usual spelling."""
    return msgspec.json.decode(_read("invented.json"), type=dict[str, Invented])


@lru_cache(maxsize=1)
def _texts() -> dict[str, Words]:
    return msgspec.json.decode(_read("texts.json"), type=dict[str, Words])


@lru_cache(maxsize=1)
def _constraints() -> tuple[Constraint, ...]:
    return msgspec.json.decode(_read("constraints.json"), type=tuple[Constraint, ...])


def canonical(stack: str) -> str | None:
    """Return the usual spelling of a stack's name, None where it is not known."""
    return _SPELLINGS.get(re.sub("[^a-z]", "", stack.lower()))


def releases(stack: str) -> tuple[str, ...]:
    """Return the releases of a stack whose options are known, oldest first; empty where none are."""
    if stack == MINDSPEED_LLM:
        return tuple(_OF_LLM)
    found = _repositories().get(stack)
    return found.refs if found else ()


def dashed(option: str) -> str:
    """Return an option with dashes instead of underscores, without its value."""
    name = option.partition("=")[0]
    bare = name.lstrip("-")
    return "--" + bare.replace("_", "-") if bare else name


@lru_cache(maxsize=65536)
def accepts(stack: str, version: str | None, option: str) -> Acceptance:
    """Say whether a release accepts an option.

    Args:
        stack: Name of the stack.
        version: One of `releases`; None: any of them.
        option: The option as typed, without value.

    Returns:
        ``unknown`` where the list of the stack is not complete, a release may or may not register the option, or does
        so for one backend only.
    """
    if stack not in COMPLETE:
        found = _served().get(option)
        return "yes" if found and stack in found.stacks else "unknown"
    asked = releases(stack) if version is None else (version,)
    answers = {_accepts_in(stack, release, option) for release in asked}
    return "yes" if "yes" in answers else "unknown" if "unknown" in answers else "no"


def _accepts_in(stack: str, release: str, option: str) -> Acceptance:
    if stack != MINDSPEED_LLM:
        if _has(stack, release, option):
            return "yes"
        if stack == MINDSPEED and any(_has(MEGATRON, ref, option) for ref in _cores(release)):
            return "yes"
        return "no" if release in releases(stack) else "unknown"
    if release not in _OF_LLM:
        return "unknown"
    megatron, mindspeed = _OF_LLM[release]
    if any(_has(MEGATRON, ref, option) for ref in megatron):
        return "yes"
    if _has(MINDSPEED_LLM, release, option):
        return "unknown" if of_mindspore_only(option) else "yes"
    if any(_has(MINDSPEED, ref, option) for ref in mindspeed):
        if release in _REGISTERS_ALL or _repositories()[MINDSPEED].options[option].registered:
            return "yes"
        return "no" if release == "master" else "unknown"
    return "no"


def _has(repository: str, ref: str, option: str) -> bool:
    known = _repositories()[repository]
    entry = known.options.get(option)
    return entry is not None and ref in known.refs and bool(entry.releases >> known.refs.index(ref) & 1)


def _cores(release: str) -> tuple[str, ...]:
    """Return the Megatron-LM releases that a MindSpeed release is for."""
    match = re.search(r"core_r(0\.\d+\.\d+)", release)
    refs = _repositories()[MEGATRON].refs
    if match is None:
        return refs[-1:] if release in ("master", "dev") else refs[:1]
    return tuple(ref for ref in refs if ref[6:] == match[1])


def _defined(stack: str) -> tuple[str, ...]:
    """Return the repositories whose options a stack may have, the deciding one first."""
    if stack == MINDSPEED_LLM:
        return (MINDSPEED_LLM, MINDSPEED, MEGATRON)
    return (MINDSPEED, MEGATRON) if stack == MINDSPEED else (MEGATRON,)


@lru_cache(maxsize=8192)
def lookup(option: str, stack: str | None = None, version: str | None = None) -> Entry | None:
    """Return what is known of an option, a variable or a configuration key.

    Args:
        option: As typed: ``--flag``, ``VARIABLE``, ``section.key``.
        stack: Whose option; None: the first that has it, MindSpeed-LLM before the others.
        version: Release for `Entry.suggestible`; None: the latest.
    """
    if option.startswith("-"):
        for name in (stack,) if stack else (MINDSPEED_LLM, MINDSPEED, MEGATRON):
            if name in COMPLETE:
                found = _option(option, name, version)
                if found is not None:
                    return found
        served = _served().get(option)
        if served is not None and (stack is None or stack in served.stacks):
            return Entry(
                name=option, kind="flag", stack=stack or served.stacks[0], defined_in=served.stacks, type=served.kind,
                default=served.default, choices=served.choices,
            )  # fmt: skip
        return None
    if "=" not in option and option in variables():
        known = variables()[option]
        return Entry(
            name=option, kind="env", stack=known.owner, defined_in=(known.owner,), values=known.values,
            default=known.default or None, since=known.since,
        )  # fmt: skip
    served = _served().get(option)
    if served is not None and (stack is None or stack in served.stacks):
        return Entry(
            name=option, kind="config", stack=stack or served.stacks[0], defined_in=served.stacks, type=served.kind,
            default=served.default, choices=served.choices,
        )  # fmt: skip
    return None


def _option(option: str, stack: str, version: str | None) -> Entry | None:
    accepted = tuple(release for release in releases(stack) if _accepts_in(stack, release, option) == "yes")
    repositories = [name for name in _defined(stack) if option in _repositories()[name].options]
    entries = [(name, _repositories()[name].options[option]) for name in repositories]
    entries = [(name, entry) for name, entry in entries if entry.releases or name == stack]
    real = [(name, entry) for name, entry in entries if entry.releases]
    if not real:
        return None
    if not accepted and all(_accepts_in(stack, release, option) == "no" for release in releases(stack)):
        return None
    # A conversion tool's option of the same name says nothing about training.
    stated = sorted((entry for _, entry in real if entry.kind), key=lambda entry: entry.scope == "tool")
    closed = all(entry.choices for entry in stated)
    choices = [value for _, entry in entries for value in entry.choices] if stated and closed else []
    first = stated[0] if stated else real[0][1]
    latest = version or releases(stack)[-1]
    return Entry(
        name=option,
        kind="flag",
        stack=stack,
        defined_in=tuple(name for name, _ in real),
        type=first.kind,
        default=next((entry.default for entry in stated if entry.default is not None), None),
        choices=tuple(dict.fromkeys(choices)),
        releases=accepted,
        suggestible=_accepts_in(stack, latest, option) == "yes",
    )


def of_tools_only(option: str) -> bool:
    """Whether only conversion, preprocessing and evaluation tools have an option, not training."""
    known = [one.options[option] for one in _repositories().values() if option in one.options]
    known = [entry for entry in known if entry.releases]
    return bool(known) and all(entry.scope == "tool" for entry in known)


def of_mindspore_only(option: str) -> bool:
    """Whether MindSpeed-LLM registers an option for its MindSpore backend alone."""
    known = _repositories()[MINDSPEED_LLM].options.get(option)
    return known is not None and known.scope == "mindspore"


@lru_cache(maxsize=32)
def names(stack: str, version: str | None = None) -> tuple[str, ...]:
    """Return the options that a stack is known to accept."""
    return tuple(_names(stack, version))


def _names(stack: str, version: str | None) -> Iterator[str]:
    if stack in COMPLETE:
        seen: set[str] = set()
        for repository in _defined(stack):
            for name in _repositories()[repository].options:
                if name not in seen and accepts(stack, version, name) == "yes":
                    seen.add(name)
                    yield name
        return
    for name, served in _served().items():
        if name.startswith("-") and stack in served.stacks:
            yield name


def nearest(option: str, stack: str | None = None, version: str | None = None, *, most: int = 3) -> list[str]:
    """Return the accepted options that a misspelt one may be meant to be, the likeliest first.

    The same letters with other dashes come first and alone; a name made of the same words in another order next.
    """
    import difflib

    known = list(
        dict.fromkeys(
            name for one in ((stack,) if stack else (MINDSPEED_LLM, "vllm-ascend")) for name in names(one, version)
        )
    )
    plain = re.sub("[-_]", "", option.lower())
    same = [name for name in known if re.sub("[-_]", "", name.lower()) == plain]
    if same:
        return same[:most]
    dash = dashed(option).lower()
    positive = [name for name in (dash.replace("--no-", "--", 1), dash.replace("--", "--no-", 1)) if name in known]
    words = set(dash.strip("-").split("-"))
    reordered = [name for name in known if set(name.strip("-").split("-")) == words]
    close = difflib.get_close_matches(dash, known, n=most, cutoff=0.78)
    return list(dict.fromkeys([*reordered, *close, *positive]))[:most]


@lru_cache(maxsize=1)
def _engine_names() -> tuple[str, ...]:
    return tuple("--" + name for name in _read("vllm_names.txt").decode().split())


def engine_misspelt(option: str) -> str | None:
    """Return the option of vLLM's server that was meant, None where the name may be a real one.

    The list of names is wide, over all releases, but not warranted to be whole: only what is a slip of the pen away
    from a name on it (two letters at most, in a name of eight or more) counts. Underscores and abbreviations are
    taken by the server.
    """
    import difflib

    name = dashed(option.partition("=")[0]).lower()
    known = _engine_names()
    positive = name.replace("--no-", "--", 1)
    if len(name) < _LONG or "." in name or _served().get(name) or any(k.startswith((name, positive)) for k in known):
        return None
    for near in difflib.get_close_matches(positive, known, n=3, cutoff=0.85):
        steps = difflib.SequenceMatcher(None, positive, near, autojunk=False).get_opcodes()
        letters = sum(max(b - a, d - c) for kind, a, b, c, d in steps if kind != "equal")
        longer = positive.removeprefix(near)  # a word that the server abbreviates, written out
        if letters <= _SLIP or (longer != positive and len(longer) <= 2 * _SLIP and "-" not in longer):
            return near
    return None


@lru_cache(maxsize=4096)
def invented_name(option: str) -> tuple[str, Invented] | None:
    """Return the entry of a made-up name, whatever its dashes, underscores and blanks."""
    plain = re.sub("[-_ ]", "", option.partition("=")[0].lower())
    for name, entry in invented().items():
        if plain in (re.sub("[-_ ]", "", spelling.lower()) for spelling in (name, *entry.also)):
            return name, entry
    return None


@lru_cache(maxsize=32)
def constraints(stack: str) -> tuple[Constraint, ...]:
    """Return the constraints that hold for a stack."""
    whose = _defined(stack) if stack in COMPLETE else (stack,)
    return tuple(item for item in _constraints() if any(name in item.stacks for name in whose))


def text(name: str) -> Words | None:
    """Return what an option or variable does, where that is written down."""
    return _texts().get(name)
