"""Describes one option or variable: what it takes, who accepts it since when, what it needs."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from npudiag.advice import registry
from npudiag.advice.registry import COMPLETE, MINDSPEED_LLM, Entry, Invented, Words

Status = Literal["option", "variable", "config", "invented", "unknown"]


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a name.

    Attributes:
        name: As asked.
        status: What it is.
        entry: The real setting.
        words: What it does, where that is written down.
        accepted: Stack to the releases that accept it: first and last.
        requires: Terms that have to hold with it.
        conflicts: Terms that must not.
        overrides: What is silently changed with it.
        invented: What an article meant by it.
        nearest: Real names that are close.
    """

    name: str
    status: Status
    entry: Entry | None = None
    words: Words | None = None
    accepted: dict[str, tuple[str, str]] = {}
    requires: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    overrides: tuple[Words, ...] = ()
    invented: Invented | None = None
    nearest: tuple[str, ...] = ()


def explain_option(name: str) -> Explained | None:
    """Return what is known of an option, a variable or a configuration key; None where it is nothing of the kind.

    Args:
        name: As typed; a value behind ``=`` is left aside.
    """
    name = name.strip()
    bare = name.partition("=")[0]
    entry = registry.lookup(bare)
    if entry is None and bare.startswith("--") and "." in bare:
        # MindSpeed-LLM's FSDP2 program takes the keys of its configuration as options; not all of them are known.
        entry = registry.lookup(bare[2:])
        if entry is None:
            return None
    if entry is None:
        made_up = registry.invented_name(bare)
        if made_up is not None:
            return Explained(name=bare, status="invented", invented=made_up[1])
        read_as = registry.lookup(bare.replace("_", "-"), "vllm") if bare.startswith("--") else None
        if read_as is not None:
            return replace(_of_option(read_as.name, read_as), overrides=(_UNDERSCORES,))
        if not bare.startswith("--") or len(bare) < 4:
            return None
        near = registry.nearest(bare)
        return Explained(name=bare, status="unknown", nearest=tuple(near)) if near else None
    if entry.kind == "env":
        return Explained(name=bare, status="variable", entry=entry, words=registry.text(bare))
    if entry.kind == "config":
        return Explained(name=bare, status="config", entry=entry, words=registry.text(bare))
    return _of_option(bare, entry)


_UNDERSCORES = Words(
    "written with underscores vLLM takes it as well; MindSpeed-LLM and Megatron-LM refuse underscores",
    "写成下划线时 vLLM 同样接受；MindSpeed-LLM 与 Megatron-LM 不接受下划线写法",
)


_MINDSPORE = Words(
    "registered for the MindSpore backend only (--ai-framework mindspore); with PyTorch the latest release refuses it",
    "仅在 MindSpore 后端（--ai-framework mindspore）下注册；使用 PyTorch 后端时最新版本会拒绝该参数",
)


def _of_option(bare: str, entry: Entry) -> Explained:
    """Describe an option of a command line."""
    accepted = {}
    for stack in COMPLETE:
        known = [release for release in registry.releases(stack) if registry.accepts(stack, release, bare) == "yes"]
        if known:
            accepted[stack] = (known[0], known[-1])
    requires, conflicts, overrides = _constraints(bare)
    if registry.of_mindspore_only(bare):
        overrides = (_MINDSPORE, *overrides)
    return Explained(
        name=bare,
        status="option",
        entry=entry,
        words=registry.text(bare),
        accepted=accepted,
        requires=requires,
        conflicts=conflicts,
        overrides=overrides,
    )


def _constraints(option: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[Words, ...]]:
    requires: dict[str, None] = {}
    conflicts: dict[str, None] = {}
    overrides: list[Words] = []
    for item in registry.constraints(MINDSPEED_LLM):
        mine = [term for term in item.when if _name(term) == option]
        if item.effect != "refused":
            if (mine or option in map(_name, item.deny)) and item.en:
                overrides.append(Words(item.en, item.zh))
            continue
        if mine and (len(item.when) == 1 or option == _name(item.when[0])):
            # With a certain value only: that is said along.
            note = "" if mine[0] == option else f" ({_shown(mine[0])})"
            requires.update(dict.fromkeys(_shown(term) + note for term in item.need))
            conflicts.update(dict.fromkeys(_shown(term) + note for term in item.deny))
        elif option in map(_name, item.deny):
            conflicts.update(dict.fromkeys(_shown(term) for term in item.when))
    return tuple(requires), tuple(conflicts), tuple(overrides)


def _name(term: str) -> str:
    for sign in ("!=", "=", ">"):
        term = term.partition(sign)[0]
    return term.lstrip("!")


def _shown(term: str) -> str:
    parts = (part if "!=" in part else part.replace("=", " ") for part in term.split("|"))
    return " | ".join(part.replace(">", " > ").replace("!=", " != ") for part in parts)


_LABELS = {
    "does": ("Does", "作用"),
    "takes": ("Takes", "取值"),
    "default": ("Default", "默认值"),
    "accepted": ("Accepted", "支持版本"),
    "read": ("Read by", "读取方"),
    "since": ("Since", "起始版本"),
    "needs": ("Needs", "依赖"),
    "excludes": ("Excludes", "互斥"),
    "beware": ("Beware", "注意"),
    "not": ("Not real", "并不存在"),
    "meant": ("Meant", "本意"),
    "instead": ("Instead", "替代方案"),
    "set": ("Set", "设置"),
    "closest": ("Closest", "相近的参数"),
}
_NO_VALUE = ("no value", "不带值")
_NOTHING = ("none", "无")
_OFF = ("off", "关闭")


def lines(told: Explained, lang: str) -> list[tuple[str, str]]:
    """Return the description as label and text, in English or Chinese (``zh``)."""
    at = 1 if lang == "zh" else 0
    out: list[tuple[str, str]] = []

    def add(label: str, text: str) -> None:
        if text:
            out.append((_LABELS[label][at], text))

    def word(words: Words | None) -> str:
        return "" if words is None else (words.zh if at else words.en)

    if told.status == "unknown":
        add("not", (f"no known framework accepts {told.name}", f"已知框架均不接受 {told.name}")[at])
        add("closest", ", ".join(told.nearest))
        return out
    if told.invented is not None:
        add("not", (f"no framework accepts {told.name}", f"任何框架都不接受 {told.name}")[at])
        add("meant", word(told.invented.meant))
        add("instead", word(told.invented.instead))
        if told.invented.change is not None:
            kind, key, value = told.invented.change
            shown = {"env": f"export {key}={value}", "flag": f"{key} {value}".strip()}
            add("set", shown.get(kind, f"{key}: {value}"))
        return out
    entry = told.entry
    if entry is None:
        return out
    add("does", word(told.words))
    if entry.kind == "env":
        add("takes", entry.values)
        add("default", entry.default or "")
        add("read", entry.stack)
        add("since", entry.since)
        return out
    kinds = {"flag": _NO_VALUE[at], "switch": f"{_NO_VALUE[at]} (--no-... )"}
    takes = kinds.get(entry.type, entry.type)
    if entry.choices:
        takes += ": " + ", ".join(entry.choices)
    add("takes", takes)
    valueless = entry.type in ("flag", "switch")
    add("default", _OFF[at] if valueless else entry.default if entry.default is not None else _NOTHING[at])
    for stack, (first, last) in told.accepted.items():
        add("accepted", f"{stack} {first} - {last}" if first != last else f"{stack} {first}")
    if not told.accepted:
        add("read", ", ".join(entry.defined_in))
    for term in told.requires:
        add("needs", term)
    for term in told.conflicts:
        add("excludes", term)
    for words in told.overrides:
        add("beware", word(words))
    return out
