"""The beginning of a rule: from nothing, or from a log line that somebody has pasted."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from npudiag.engine.load import RulePack
from npudiag.engine.model import Rule
from npudiag.engine.signature import LiteralTable
from npudiag.engine.testing import run_rule_test
from npudiag.engine.validate import BUILTINS, IDENTITY, LEVELS, MIN_LITERAL, SCOPE, read_rule
from npudiag.errors import RuleError, UsageError
from npudiag.knowledge.lookup import IN_TEXT
from npudiag.parsers.base import LEVEL_RANK, Row
from npudiag.reading import texts
from npudiag.result import Severity
from npudiag.tables.schema import TABLES

FILE = "sample.log"
"""What the file of a test that has only one is called."""
_MOST_CHARS = 16_000
_MOST_LINES = 60
_MOST_CAPTURES = 6
_LITERAL_CHARS = 48
_LITERAL_WORDS = 6
_ALONE = 10
"""A single word of fewer characters is no second text to look for."""
_TITLE_CHARS = 110

_VARIABLE = re.compile(
    r"(?P<uuid>\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b)"
    r"|(?P<address>(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?![\w.]))"
    r"|(?P<time>\d{4}-\d\d-\d\d[ T-]\d\d:\d\d:\d\d(?:[.,]\d+)*)"
    r"|(?P<day>[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \d{4})"
    r"|(?P<hex>(?<!\w)0[xX][0-9a-fA-F]+(?!\w))"
    r"|(?P<path>(?<![\w.])/(?:[^\s/:'\"()\[\],;]+/)*[^\s/:'\"()\[\],;]+)"
    r"|(?P<line>(?:(?<=\.py:|\.cc:|\.ts:|\.go:)|(?<=\.cpp:)|(?<=\.c:|\.h:))\d+)"
    r"|(?P<name>(?<![\w/.:-])[A-Za-z][\w.]*(?:[_-]\d+|\d-[a-z]+\d+)(?![\w-]))"
    r"|(?P<float>(?<![\w.])-?\d+\.\d+(?![\w.]))"
    r"|(?P<int>(?<![\w.])-?\d+(?![\w]|\.\d))"
    r"|(?P<digest>(?<!\w)(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}(?!\w))"
)
"""What differs from one occurrence of a message to the next."""
_PATTERNS = {
    "uuid": r"[0-9a-fA-F-]{36}",
    "address": r"[\d.]+(?::\d+)?",
    "time": r"[\d:., T-]+\d",
    "day": r"\w{3} \w{3} +\d+ [\d:]+ \d{4}",
    "hex": r"0[xX][0-9a-fA-F]+",
    "path": r"/[^\s:'\"()\[\],;]+",
    "float": r"-?\d+(?:\.\d+)?",
    "int": r"-?\d+",
    "digest": r"[0-9a-f]{8,}",
    "name": r"[\w.-]+",
}
_NAMES = {
    "uuid": "id", "address": "address", "time": "when", "day": "when", "hex": "value", "path": "path", "digest": "id",
    "name": "what",
}  # fmt: skip
_UNITS = {"s": "seconds", "ms": "ms", "us": "us", "MB": "mb", "GB": "gb", "%": "percent"}
_TYPES = {"int": "int", "float": "float"}
_HEADER = re.compile(
    r"\[(?:\s*\d*\s*|[A-Z]+|[\w./+-]+\.\w+:\d+|\d{4}-\d\d-\d\d[^\]]*)\]\d*"
    r"|[A-Z_]+\(\d+,[^)]*\):[\d:.-]+"
    r"|\(PID:[^)]*\)"
    r"|\[?\d{4}[-/]\d\d[-/]\d\d[T -]\d\d:\d\d:\d\d(?:[.,:]\d+)*\]?"
    r"|[\w.-]+ - (?=(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b)"
    r"|(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|EVENT)\b"
    r"|[\w./+-]+\.(?:py|cc|cpp|c|h|go):\d+\]?"
    r"|[-:|,]"
)
"""Pieces of a line ahead of its message."""
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*|[\u3400-\u9fff]+")
_FILLERS = frozenset(
    ("a", "after", "an", "and", "are", "at", "be", "been", "before", "by", "equals", "for", "from", "has", "in", "is",
     "of", "on", "or", "the", "to", "until", "value", "was", "were", "with")
)  # fmt: skip
_VAGUE = frozenset(
    ("addr", "code", "count", "id", "ids", "idx", "index", "len", "length", "name", "no", "num", "number", "size",
     "status", "time", "type")
)  # fmt: skip
_RESERVED = frozenset((*BUILTINS, *SCOPE, *IDENTITY, "step"))
_TRACEBACK = "Traceback (most recent call last)"
_HARMLESS = (
    ("ERROR", "INFO"), ("WARNING", "INFO"), ("CRITICAL", "INFO"), ("FATAL", "INFO"), ("WARN", "INFO"),
    ("error", "info"), ("warning", "info"), ("[E", "[I"), ("[W", "[I"), ("E", "I"), ("W", "I"),
)  # fmt: skip


class Piece(NamedTuple):
    """A part of a message."""

    text: str
    kind: str = "text"
    """``text``: it stays the same; else what differs, by its group in `_VARIABLE`."""
    ahead: str = ""
    behind: str = ""


@dataclass(slots=True)
class Draft:
    """What a pasted line says about the rule to come."""

    pasted: str
    literals: list[str]
    regex: str = ""
    types: dict[str, str] = field(default_factory=dict)
    captures: dict[str, int | float | str] = field(default_factory=dict)
    level: str = ""
    module: str = ""
    title: str = ""

    @property
    def severity(self) -> Severity:
        """The severity that the record's level suggests."""
        rank = LEVEL_RANK.get(self.level, 3)
        return "critical" if rank > 3 else "error" if rank == 3 else "warning" if rank == 2 else "info"


def read(pasted: str, known: Sequence[str]) -> Draft:
    """Take a pasted record apart.

    Args:
        pasted: A line, or the lines of one record.
        known: Texts of other messages; what is rare in them makes a good literal.

    Raises:
        UsageError: Nothing in it stays the same from one time to the next, or it is too long.
    """
    pasted = "\n".join(line.rstrip() for line in pasted.strip("\r\n").splitlines())
    if len(pasted) > _MOST_CHARS or pasted.count("\n") >= _MOST_LINES:
        raise UsageError("this is more than one record", hint="paste the line that names the problem, and its block")
    row = _record(pasted)
    body = _message(row.text if row else pasted)
    pieces = list(_pieces(body))
    literals = _literals([text for text, kind, *_ in pieces if kind == "text"], known)
    if not literals:
        raise UsageError(
            f"nothing in this line of at least {MIN_LITERAL} characters stays the same from one time to the next",
            hint="paste the whole line of the message",
        )
    found = Draft(pasted, literals)
    if row is not None:
        found.level = row.level if row.level in LEVELS else ""
        found.module = row.module or ""
    _generalise(found, pieces)
    return found


def _record(pasted: str) -> Row | None:
    """Return the gravest record in the text, as the parsers read it; None where they see none."""
    words = sorted(set(re.findall(r"\S{5,}", pasted)), key=len, reverse=True)
    (partial,) = texts({FILE: pasted + "\n"}, LiteralTable(words[:50]).literals()).partials
    return max(partial.rows, key=lambda row: LEVEL_RANK.get(row.level or "", 1), default=None)


def _message(record: str) -> str:
    """Return the line of a record that says what happened, without what stands ahead of its message."""
    lines = [line for line in record.split("\n") if line.strip()]
    if _TRACEBACK in record:
        return lines[-1].strip()
    for line in lines:
        at = 0
        while match := _HEADER.match(line, at + len(line[at:]) - len(line[at:].lstrip())):
            at = match.end()
        if len(_WORD.findall(line[at:])) >= 2:
            return line[at:].strip()
    return lines[0].strip() if lines else ""


def _pieces(body: str) -> Iterator[Piece]:
    """Cut a message into what stays the same and what differs.

    Codes that are known, such as return codes, say what the message is about and stay.
    """
    constant = {place for match in IN_TEXT.finditer(body) for place in range(*match.span())}
    at = 0
    for match in _VARIABLE.finditer(body):
        if match.start() in constant:
            continue
        yield Piece(body[at : match.start()])
        yield Piece(match.group(), match.lastgroup or "", body[: match.start()], body[match.end() :])
        at = match.end()
    yield Piece(body[at:])


def _literals(fixed: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return up to two texts to look for: those that stand in the fewest known messages, the longer the better."""
    windows: dict[tuple[int, int, int], str] = {}
    for number, text in enumerate(fixed):
        words = [(match.start(), match.end()) for match in re.finditer(r"\S+", text)]
        for first in range(len(words)):
            for last in range(first, min(first + _LITERAL_WORDS, len(words))):
                start, end = words[first][0], words[last][1]
                ends = {text[slice(*words[number])].lower() for number in (first, last)}
                window = text[start:end].strip(" \t,;.:=()[]{}'\"")
                long_enough = len(window.encode()) >= MIN_LITERAL
                if long_enough and len(window) <= _LITERAL_CHARS and not ends & _FILLERS:
                    windows[number, start, end] = window

    def rank(item: tuple[tuple[int, int, int], str]) -> tuple[Any, ...]:
        place, window = item
        # A code says more than any words.
        return (IN_TEXT.search(window) is None, seen[window], -len(window), place)

    seen = {window: sum(window in text for text in known) for window in set(windows.values()) if _WORD.search(window)}
    ranked = sorted((item for item in windows.items() if item[1] in seen), key=rank)
    chosen: list[tuple[tuple[int, int, int], str]] = []
    for place, window in ranked:
        apart = all(place[0] != other[0] or place[2] <= other[1] or place[1] >= other[2] for other, _ in chosen)
        worth = not chosen or " " in window or len(window) >= _ALONE
        if apart and worth and all(window not in text for _, text in chosen):
            chosen.append((place, window))
        if len(chosen) == 2:
            break
    return [window for _, window in sorted(chosen)]


def _generalise(draft: Draft, pieces: Sequence[Piece]) -> None:
    """Fill in the regular expression with its captures, their types and values, and the title."""
    parts: list[str] = []
    title: list[str] = []
    anchor, gap = "", False
    taken: Counter[str] = Counter()
    for text, kind, ahead, behind in pieces:
        if kind == "text":
            anchor += text
            title.append(re.sub(r"[{}]|\[\[|\]\]", " ", text))
            continue
        if kind == "line" or len(draft.captures) == _MOST_CAPTURES:
            # Where in its source a message comes from changes with every version.
            title.append("...")
            anchor, gap = "", bool(parts)
            continue
        name = _name(ahead, behind, kind, taken)
        near = re.search(r"(?:\S+\s+){0,2}\S*\s*$", anchor)
        fixed = near.group() if near else anchor
        parts.append((".*?" if parts and (gap or fixed != anchor) else "") + _spaced(fixed))
        gap = False
        parts.append(f"(?P<{name}>{_PATTERNS[kind]})")
        title.append(f"{{{name}}}")
        draft.captures[name] = int(text) if kind == "int" else float(text) if kind == "float" else text
        if kind in _TYPES:
            draft.types[name] = _TYPES[kind]
        anchor = ""
    draft.regex = "".join(parts).lstrip() if draft.captures else ""
    if draft.regex.startswith(r"\s+"):
        draft.regex = draft.regex[3:]
    draft.title = _cut_title(" ".join("".join(title).split()))


def _cut_title(title: str) -> str:
    if len(title) <= _TITLE_CHARS:
        return title
    cut = title[:_TITLE_CHARS].rsplit(" ", 1)[0]
    return (cut[: cut.rindex("{")] if cut.count("{") > cut.count("}") else cut).rstrip(" ,;:") + " ..."


def _spaced(text: str) -> str:
    """Return a pattern for fixed text that takes any run of blanks for a blank."""
    return r"\s+".join(re.escape(part).replace("\\-", "-") for part in re.split(r"\s+", text))


def _name(ahead: str, behind: str, kind: str, taken: Counter[str]) -> str:
    """Name a capture by the words ahead of it; a name that means something to npudiag gets a tail."""
    clause = re.search(r"[A-Za-z][A-Za-z0-9_ ]*(?=[^A-Za-z0-9]*$)", ahead[-60:])
    spelt = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", clause.group().replace("_", " ") if clause else "")
    every = [word.lower() for word in re.findall(r"[A-Za-z][A-Za-z0-9]*", spelt)]
    words = [word for word in every if word not in _FILLERS]
    unit = re.match(r"\s?(ms|us|s|MB|GB|%)(?!\w)", behind)
    if unit and every and every[-1] in _FILLERS:
        name = _UNITS[unit[1]]
    elif words and (kind not in _NAMES or every[-1:] == words[-1:]):
        name = "_".join(words[-2:]) if words[-1] in _VAGUE and len(words) > 1 else words[-1]
    else:
        name = _NAMES.get(kind, "number")
    if not re.fullmatch(r"[a-z][a-z0-9_]{1,30}", name):
        name = _NAMES.get(kind, "number")
    if name in _RESERVED:
        # Called rank, it would say whom the finding is about; only the author knows whether it does.
        name = f"{name}_seen"
    taken[name] += 1
    return name if taken[name] == 1 else f"{name}_{taken[name]}"


# The file


def blank(code: str, name: str, category: str) -> str:
    """Return a valid rule about a message of its own, all to be filled in."""
    pasted = f"[ERROR] 2026-01-02 03:04:05 replace with a text of the message ({name}): operation broadcast, status 7"
    draft = Draft(
        pasted,
        [f"replace with a text of the message ({name})"],
        r"operation (?P<operation>\w+), status (?P<status>\d+)",
        {"status": "int"},
        {"operation": "broadcast", "status": 7},
        title="Collective {operation} failed with status {status}",
    )
    calm = f"[INFO] 2026-01-02 03:04:05 replace with a text of the message ({name}): operation broadcast is done"
    return write(draft, code, name, category, calm, {})


def from_line(draft: Draft, code: str, name: str, category: str, pack: RulePack) -> str:
    """Return a rule that finds the pasted record, and passes its own tests.

    Args:
        draft: The record, taken apart.
        code: Code of the rule.
        name: Its name.
        category: Its category.
        pack: All other rules; those that fire on the record as well are named in the tests.

    Raises:
        RuleError: No rule can be made of it.
        UsageError: The record cannot be found in a log by its text.
    """
    for calm in _calm(draft):
        also: dict[str, list[str]] = {}
        # The first round tells which other rules fire, the second has to pass with them.
        for _ in range(2):
            text = write(draft, code, name, category, calm, also)
            outcomes, fired = _try(text, code, name, pack)
            if not any(outcomes):
                return text
            also = fired
        if outcomes[0] - {"cross-fire"}:
            raise UsageError(
                "a log with nothing but this line is of no kind that npudiag reads",
                hint="paste the line as it stands in the log, with its time and level",
            )
    raise UsageError("no harmless variant of this line could be made up", hint="leave --from-line out and fill it in")


def _try(text: str, code: str, name: str, pack: RulePack) -> tuple[list[set[str]], dict[str, list[str]]]:
    """Return what each test of a rule file fails of, and which other rules its samples set off, by test."""
    known = {table.name: table.names for table in TABLES.values()}
    made = read_rule(text.encode(), f"{code}-{name}.yaml", path=f"{code}-{name}.yaml", tables=known)
    if made.rule is None:
        raise RuleError(made.faults)
    others = tuple(rule for rule in pack.rules if rule.code != code and rule.name != name)
    whole = msgspec.structs.replace(pack, rules=tuple(sorted((*others, made.rule), key=lambda rule: rule.code)))
    kinds, fired = [], {}
    for test in made.rule.tests:
        outcome = run_rule_test(whole, made.rule, test)
        kinds.append({mismatch.what for mismatch in outcome.mismatches})
        named = [m.got.split()[1].rstrip(":") for m in outcome.mismatches if m.what == "cross-fire"]
        fired[test.name] = sorted({*named, *test.also})
    return kinds, fired


def _calm(draft: Draft) -> Iterator[str]:
    """Yield variants of the record in which nothing is wrong, most telling first."""
    if draft.level:
        for grave, calm in _HARMLESS:
            if grave in draft.pasted:
                yield draft.pasted.replace(grave, calm, 1)
    last = draft.literals[-1]
    line = next(line for line in draft.pasted.split("\n") if last in line)
    head = line[: line.rindex(last)]
    if draft.captures:
        yield f"{head}{last} is done"
    yield f"{head}{last.rpartition(' ')[0]} done"


def write(draft: Draft, code: str, name: str, category: str, calm: str, also: dict[str, list[str]]) -> str:
    """Return the rule file; what only its author can know is marked ``fill in``."""
    where = (("level", draft.level), ("module", draft.module))
    conditions = ", ".join(f"{key}: [{_plain(value)}]" for key, value in where if value)
    signature = [f"    all: [{', '.join(map(_quoted, draft.literals))}]"]
    if draft.regex:
        signature.append(f"    regex: {_single(draft.regex)}")
    if draft.types:
        signature.append(f"    types: {{{', '.join(f'{key}: {kind}' for key, kind in draft.types.items())}}}")
    if conditions:
        signature.append(f"    where: {{{conditions}}}")
    fires, harmless = "fires on the message", "same words, harmless"
    lines = [
        f"code: {code}",
        f"name: {name}",
        f"category: {category}",
        f"severity: {draft.severity:<15}# critical (the job died) | error | warning | info",
        "confidence: medium       # high | medium | low",
        "trust: specific          # cause | specific | generic | envelope",
        "title:                   # fill in: one line that names the problem",
        f"  en: {_quoted(draft.title)}",
        f"  zh: {_quoted('日志报错：' + draft.title)}",
        "why:                     # fill in",
        '  en: "Say in one to three sentences what it means, why it breaks the job and what usually causes it."',
        '  zh: "用一到三句话说明含义、为何会中断作业以及常见原因。"',
        "needs: [log]",
        "detect:",
        "  signature:             # shorten to what every version of the software prints",
        *signature,
        "remedies:                # fill in",
        "  - kind: command        # flag | env | config | command | code | hardware | collect",
        "    text:",
        '      en: "Say what to do, as an order."',
        '      zh: "说明应执行的操作。"',
        "    disposition: review  # safe | review | risky",
        "tests:                   # replace names, addresses and paths by invented ones",
        f"  - name: {fires}",
        *_sample(draft.pasted),
        f"    expect: {{findings: 1{_captures(draft.captures)}{_also(also.get(fires))}}}",
        f"  - name: {harmless}",
        *_sample(calm),
        f"    expect: {{findings: 0{_also(also.get(harmless))}}}",
        "  - {name: no input, expect: skip}",
    ]
    return "\n".join(lines) + "\n"


def _sample(text: str) -> list[str]:
    if text != text.lstrip() or _CONTROL.search(text):
        return [f"    log: {_quoted(text + chr(10))}"]
    return ["    log: |", *(f"      {line}".rstrip() for line in text.split("\n"))]


def _captures(captures: dict[str, Any]) -> str:
    pairs = ", ".join(f"{key}: {_quoted(v) if isinstance(v, str) else v}" for key, v in captures.items())
    return f", captures: {{{pairs}}}" if pairs else ""


def _also(names: list[str] | None) -> str:
    return f", also: [{', '.join(names)}]" if names else ""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _single(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _plain(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z_][\w-]*", text) else _quoted(text)


def samples(rules: Sequence[Rule]) -> list[str]:
    """Return the samples that rules carry: what messages of Ascend software look like."""
    return [content for rule in rules for test in rule.tests for content in test.files.values()]


def category_of(draft: Draft, rules: Sequence[Rule]) -> str:
    """Return the category that most rules about the record's module have; ``environment`` where none has any."""
    votes = Counter(
        rule.category
        for rule in rules
        if draft.module and any(draft.module in signature.where.module for signature in rule.signatures)
    )
    return votes.most_common(1)[0][0] if votes else "environment"
