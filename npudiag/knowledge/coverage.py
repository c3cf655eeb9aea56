"""Which known fault signatures are covered, and by what.

``rules/codes/signatures.tsv`` lists what other tools look for: an id, where it is printed, and the strings. For each of
them this says which rule fires on those strings alone, which rule looks for them but asks for more (a number, a level,
a companion: so that a common phrase alone never fires), which catalogue entry names its code, or why it is left out.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npudiag.engine.signature import Corpus, LiteralTable, Matcher
from npudiag.knowledge.catalogue import Catalogue, shipped
from npudiag.knowledge.lookup import lookup
from npudiag.parsers.scan import Scanner
from npudiag.tables.records import LogRecord

if TYPE_CHECKING:
    from npudiag.engine.load import RulePack
    from npudiag.engine.model import Rule, Signature

MARK = "<!-- Made by `npudiag rules coverage`; edit the rules and rules/codes, not this page. -->"
_MOST = 3
_BLOCK = 4
"""So many lines of a test count as one message."""
_JOINTS = (" ", ", ")
"""How the strings of a signature stand together in a line, as far as they say."""
_TELLING = 8
"""A string of fewer characters stands in many messages and proves nothing."""
_CODE = re.compile(r"0x[0-9A-Fa-f]{8}|\b[1-5]0[067]\d{3}\b|MIE\d{2}E[0-9A-F]{6}|\b[EW][A-Z0-9]\d{4}\b")


@dataclass(frozen=True, slots=True)
class Known:
    """A fault signature as another tool looks for it.

    Attributes:
        id: Its id there.
        source: The kind of log it stands in.
        keys: Alternatives; all strings of one stand in the line.
        regex: An expression instead of strings; empty where there is none.
    """

    id: str
    source: str
    keys: tuple[tuple[str, ...], ...]
    regex: str


@dataclass(slots=True)
class Covered:
    """What covers a signature.

    Attributes:
        known: The signature.
        fires: Codes of the rules that fire on its strings alone.
        asks: Codes of the rules whose strings all stand in it, but that ask for more.
        entries: Codes of the catalogue it names.
        reason: Why it is left to none of them.
    """

    known: Known
    fires: list[str] = field(default_factory=list)
    asks: list[str] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)
    reason: str = ""

    @property
    def how(self) -> str:
        """``rule`` ``narrowed`` ``code`` ``reason`` or ``open``."""
        if self.fires:
            return "rule"
        if self.asks:
            return "narrowed"
        if self.entries:
            return "code"
        return "reason" if self.reason else "open"


def signatures(catalogue: Catalogue) -> list[Known]:
    """Return the known signatures."""
    return [
        Known(row["id"], row["source"], tuple(tuple(keys) for keys in json.loads(row["keys"])), row["regex"])
        for row in catalogue.rows("signatures")
    ]


def coverage(pack: RulePack, catalogue: Catalogue | None = None) -> list[Covered]:
    """Say for each known signature what covers it.

    Args:
        pack: Rules loaded with their tests: a test that holds the strings and fires proves that a rule knows them.
        catalogue: Where signatures and codes are listed; None: the shipped catalogues.
    """
    known = catalogue or shipped()
    listed = signatures(known)
    reasons = _reasons(known)
    samples = [(one, joint.join(keys)) for one in listed for keys in one.keys for joint in _JOINTS]
    fires, asks = _rules(pack, [text for _, text in samples])
    trust = {rule.code: rule.trust for rule in pack.rules}
    proofs = list(_proofs(pack))
    rows: dict[str, Covered] = {one.id: Covered(one) for one in listed}
    for index, (one, text) in enumerate(samples):
        row = rows[one.id]
        row.fires += [code for code in fires[index] if code not in row.fires]
        row.asks += [code for code in asks[index] if code not in row.asks]
        for match in _CODE.finditer(text):
            for entry in lookup(match[0], catalogue=known).entries:
                if entry.code not in row.entries and entry.family != "aicore":
                    row.entries.append(entry.code)
    for row in rows.values():
        row.asks += [code for code in dict.fromkeys(_proven(row.known, proofs)) if code not in row.asks]
        row.fires = _ranked(row.fires, trust)
        row.asks = [code for code in _ranked(row.asks, trust) if code not in row.fires and trust[code] != "envelope"]
        row.reason = next((text for pattern, text in reasons if pattern.fullmatch(row.known.id)), "")
    return list(rows.values())


def _reasons(catalogue: Catalogue) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(row["id"]), row["reason"]) for row in catalogue.rows("signatures_reasons")]


def _proofs(pack: RulePack) -> Iterator[tuple[str, str]]:
    """Yield rule code and lines of its tests that fire: each line alone, and with the few that follow it."""
    for rule in pack.rules:
        for test in rule.tests:
            if not test.findings:
                continue
            for text in test.files.values():
                lines = text.split("\n")
                for at in range(len(lines)):
                    yield rule.code, "\n".join(lines[at : at + _BLOCK])


def _proven(known: Known, proofs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield the rules one of whose firing tests holds all strings of an alternative, or the expression."""
    if known.regex:
        expression = re.compile(known.regex)
        matching = {code for code, block in proofs if expression.search(block)}
        # An expression that half of all messages match catches codes, not a fault.
        if len(matching) <= _MOST:
            yield from sorted(matching)
    for keys in known.keys:
        if max(map(len, keys), default=0) < _TELLING:
            continue
        first = max(keys, key=len)
        for code, block in proofs:
            if first in block and all(key in block for key in keys):
                yield code


def _ranked(codes: Iterable[str], trust: Mapping[str, str]) -> list[str]:
    order = ("cause", "specific", "generic", "envelope")
    return sorted(codes, key=lambda code: (order.index(trust[code]), code))


def _rules(pack: RulePack, texts: Sequence[str]) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """Return, by index of the text, the rules that fire on it and those that ask for more."""
    table = LiteralTable()
    table.add(pack.rules)
    scanner = Scanner(table.literals())
    records = []
    for index, text in enumerate(texts):
        hits = tuple(sorted(set(scanner.scan(text.encode())[0])))
        # A file of its own for each: companions of another signature must not count.
        records.append(LogRecord(file=str(index), line=1, text=text, kind="console", hits=hits))
    corpus = Corpus(records, table)
    fires: dict[int, list[str]] = defaultdict(list)
    asks: dict[int, list[str]] = defaultdict(list)
    for rule in pack.rules:
        for index, fired in _one_rule(rule, corpus):
            (fires if fired else asks)[index].append(rule.code)
    return fires, asks


def _one_rule(rule: Rule, corpus: Corpus) -> Iterator[tuple[int, bool]]:
    for signature in rule.signatures:
        matched = {match.record.file for match in Matcher(signature).find(corpus)}
        whole = signature.count == 1 and signature.then is None
        for record in corpus.candidates(signature):
            if record.file in matched:
                yield int(record.file), whole
            elif _literals_stand(signature, record.text):
                yield int(record.file), False


def _literals_stand(signature: Signature, text: str) -> bool:
    folded = text.lower() if signature.nocase else text
    wanted = [part.lower() if signature.nocase else part for part in signature.all]
    choice = [part.lower() if signature.nocase else part for part in signature.any]
    return all(part in folded for part in wanted) and (not choice or any(part in folded for part in choice))


# -- the page


def page(rows: Sequence[Covered]) -> str:
    """Return the coverage as Markdown: numbers first, then every signature by source."""
    total = Counter(row.how for row in rows)
    lines = [MARK, "", "# Coverage of known fault signatures", ""]
    lines += [
        f"{len(rows):,} signatures of faults that software and hardware of the Ascend stack are known to print. Each",
        "is covered by a rule that fires on its strings alone, by a rule that looks for them and asks for more (a",
        "number, a level, a companion, so that a common phrase alone never fires), by an entry of the code catalogues,",
        "or it is left out for a reason.",
        "",
        "| how | signatures |",
        "|---|---:|",
        f"| rule fires | {total['rule']:,} |",
        f"| rule asks for more | {total['narrowed']:,} |",
        f"| code catalogue | {total['code']:,} |",
        f"| left out, with a reason | {total['reason']:,} |",
    ]
    if total["open"]:
        lines.append(f"| open | {total['open']:,} |")
    by_source: dict[str, list[Covered]] = defaultdict(list)
    for row in rows:
        by_source[row.known.source].append(row)
    for source, members in sorted(by_source.items()):
        title = "built from several files" if source == "-" else source
        lines += ["", f"## {title}", "", "| id | how | by |", "|---|---|---|"]
        for row in sorted(members, key=lambda member: member.known.id):
            lines.append(f"| {row.known.id} | {_HOW[row.how]} | {_by(row)} |")
    return "\n".join(lines) + "\n"


_HOW = {"rule": "rule", "narrowed": "rule, narrowed", "code": "code", "reason": "left out", "open": "open"}


def _by(row: Covered) -> str:
    if row.how in ("rule", "narrowed"):
        codes = row.fires or row.asks
        more = f" and {len(codes) - _MOST} more" if len(codes) > _MOST else ""
        named = ", ".join(codes[:_MOST]) + more
        return f"{named}; {', '.join(row.entries[:_MOST])}" if row.entries else named
    if row.how == "code":
        return ", ".join(row.entries[:_MOST])
    return row.reason.replace("|", "&#124;")
