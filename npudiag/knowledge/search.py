"""Finds rules and codes by words: ``notify wait timeout``, ``端口 占用``, a message somebody remembers half."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from npudiag.knowledge.catalogue import Catalogue, shipped
from npudiag.knowledge.lookup import reference
from npudiag.knowledge.model import Entry, KnownBy

if TYPE_CHECKING:
    from npudiag.engine.load import RulePack
    from npudiag.engine.model import Rule, Signature

_ENOUGH = 0.55
"""Share of the question's weight that must be met for an answer to count."""
_MOST = 6

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+|[\u4e00-\u9fff]+")
_SAME = (
    (re.compile(r"time[ -]outs?\b|tim(?:ed|es|ing)[ -]out\b|timeouts\b", re.IGNORECASE), "timeout"),
    (re.compile(r"\bout[ -]of[ -]memory\b", re.IGNORECASE), "oom"),
    (re.compile(r"\bai ?core\b", re.IGNORECASE), "aicore"),
    (re.compile(r"\bai ?cpu\b", re.IGNORECASE), "aicpu"),
    (re.compile(r"\brank[ _]?table\b", re.IGNORECASE), "ranktable"),
    (re.compile(r"\bheart[ -]?beat\b", re.IGNORECASE), "heartbeat"),
    (re.compile(r"\blink[ -]?(?:is |was |went )?down\b|\blink lost\b", re.IGNORECASE), "linkdown"),
    (re.compile(r"(?:链路|网络|网口|光口|连接)\s?(?:断开|中断|断链|断连|down)|断链|失去链路"), " linkdown "),
    (re.compile(r"超时"), " timeout "),
    (re.compile(r"爆显存|显存\s?(?:不足|溢出|耗尽|不够)"), " device oom "),
    (re.compile(r"内存\s?(?:不足|溢出|耗尽|不够)"), " oom "),
    (re.compile(r"被(?:系统|内核)?(?:杀死|杀掉|杀|终止)"), " killed "),
    (re.compile(r"不匹配|不一致|不配套"), " mismatch "),
)
_IDLE = frozenset(
    re.split(
        " ",
        "a an and are as at be but by can could did do does for from had has have how i if in is it its my not of on "
        "or our so that the their then there this to was were what when where which why will with you your error "
        "failed fail fix solve help get happens mean means 的 了 是 在 和",
    )
)
"""Words that say nothing about a fault."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that fits the words.

    Attributes:
        score: Share of the question's weight that was met, above 1 where words stand together or in the name.
        rule: The rule, or None.
        entry: The code, or None.
    """

    score: float
    rule: KnownBy | None = None
    entry: Entry | None = None


def search(text: str, pack: RulePack, catalogue: Catalogue | None = None) -> list[Found]:
    """Return rules and codes that fit the words of `text`, the best first; empty where nothing fits well."""
    said = [word for word in dict.fromkeys(words(text)) if len(word) > 1 or not word.isascii()]
    asked = [word for word in said if word not in _IDLE] or said
    if not asked:
        return []
    known = catalogue or shipped()
    things: list[tuple[Rule | Entry, list[tuple[float, str]]]] = [(rule, _rule_fields(rule)) for rule in pack.rules]
    things += [(entry, [(1.0, f"{entry.means.en} {entry.means.zh} {entry.symbol}")]) for entry in _entries(known)]
    wanted = set(asked)
    spread: Counter[str] = Counter()
    scored: list[tuple[Rule | Entry, list[tuple[float, list[str]]]]] = []
    for thing, fields in things:
        split = [(weight, words(field)) for weight, field in fields]
        here = wanted & {word for _, field in split for word in field}
        spread.update(here)
        if here:
            scored.append((thing, split))
    weights = {word: math.log(1 + len(things) / (1 + spread[word])) for word in asked}
    whole = sum(weights.values())
    found = []
    for thing, split in scored:
        score = _score(asked, weights, split) / whole
        if score >= _ENOUGH:
            # Reading a message back to the rule that matches it is what people ask for most.
            found.append((score + (0.0 if isinstance(thing, Entry) else 0.05), thing))
    # Of two that fit alike, the one whose name says least besides is what was meant.
    found.sort(key=lambda item: (-item[0], 0 if isinstance(item[1], Entry) else len(item[1].name), item[1].code))
    return [
        Found(score=round(score, 3), entry=thing)
        if isinstance(thing, Entry)
        else Found(score=round(score, 3), rule=reference(thing))
        for score, thing in found[:_MOST]
    ]


def words(text: str) -> list[str]:
    """Split into lower-case words; Chinese into pairs of characters; spellings of one thing become one."""
    for pattern, same in _SAME:
        text = pattern.sub(same, text)
    out: list[str] = []
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if word[0] >= "\u4e00":
            out += [word] if len(word) == 1 else [word[at : at + 2] for at in range(len(word) - 1)]
            continue
        out.append(word)
        if "_" in word:
            out += [part for part in word.split("_") if part]
    return out


def _score(asked: list[str], weights: dict[str, float], fields: list[tuple[float, list[str]]]) -> float:
    """Return the weight of the asked words that stand in the fields, more for words that stand together."""
    best: dict[str, float] = {}
    together = 0.0
    pairs = set(pairwise(asked))
    for factor, field in fields:
        for word in set(field) & weights.keys():
            best[word] = max(best.get(word, 0.0), factor)
        met = pairs & set(pairwise(field))
        if met:
            together = max(together, 0.15 * factor * sum(min(weights[a], weights[b]) for a, b in met))
    return sum(weights[word] * factor for word, factor in best.items()) + together


def _rule_fields(rule: Rule) -> list[tuple[float, str]]:
    """Return the texts of a rule with how much a word in them counts."""
    return [
        (1.2, rule.name.replace("-", " ")),
        (1.1, f"{rule.title.en} {rule.title.zh}"),
        (1.0, " \n ".join(_literals(rule.signatures))),
        (0.8, f"{rule.why.en} {rule.why.zh}"),
        (0.8, " ".join(remedy.change.key for remedy in rule.remedies if remedy.change)),
    ]


def _literals(signatures: Iterable[Signature]) -> Iterator[str]:
    for signature in signatures:
        yield from signature.all
        yield from signature.any
        if signature.near is not None:
            yield from signature.near.all
            yield from signature.near.any
        if signature.then is not None:
            yield from _literals((signature.then,))


def _entries(known: Catalogue) -> Iterator[Entry]:
    for table in (known.cann, known.acl, known.mindie, known.switch, known.bmc, known.health, known.hccl):
        yield from table.values()
