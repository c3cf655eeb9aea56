"""Answers for one code: what it means, what is close to it, which rules look for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from npudiag.engine.model import Text
from npudiag.knowledge import decode
from npudiag.knowledge.catalogue import Catalogue, cann_family, shipped
from npudiag.knowledge.model import Answer, Entry, KnownBy

if TYPE_CHECKING:
    from npudiag.engine.load import RulePack
    from npudiag.engine.model import Rule, Signature

_LETTERED = re.compile(r"[A-Za-z]{2,3}\d[0-9A-Za-z]{3,10}")
_ALIKE = 0.82
"""Share of letters that two codes have in common, from which on one may be meant with the other."""
_NEAREST = 3
_MOST_RULES = 6

_CANN = re.compile(r"[EWI][A-Z0-9]\d{4}", re.IGNORECASE)
_TORCH_NPU = re.compile(r"ERR\d{5}", re.IGNORECASE)
_MINDIE = re.compile(r"MIE\d{2}[0-9A-Z]{0,9}", re.IGNORECASE)
_SIX = re.compile(r"[1-9]\d{5}")
_HEX = re.compile(r"0x[0-9A-F]{1,16}", re.IGNORECASE)
_BARE_HEX = re.compile(r"(?=.*[A-F])[0-9A-F]{8}|0\d{7}", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d{1,4}")
_DECIMAL = re.compile(r"-?\d{9,10}")
_SYMBOL = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|SIG[A-Z0-9]+", re.IGNORECASE)
_SWITCH = re.compile(r"\[?(0x[0-9a-f]{8}),[\w,]*\]?", re.IGNORECASE)
_HEALTH = re.compile(r"health\s*[:= ]\s*(ok|warning|alarm|critical|unknown)", re.IGNORECASE)
_EXIT = re.compile(r"(?:exit[ _-]?(?:code|status)?|ExitStatus|signal)\s*[:=]?\s*(-?\d{1,3})", re.IGNORECASE)
_RETURN = re.compile(
    r"(?:(?:hccl |function )*(?:error|ret(?:urn)?)[ _]?(?:code)?(?: is)?|rc|hccl(?: result)?)"
    r"\s*[:=(\[]?\s*(-?\d{1,4})[)\]]?",
    re.IGNORECASE,
)
_ERRNO = re.compile(r"errno\s*[:=(\[]?\s*-?(\d{1,4})[)\]]?", re.IGNORECASE)
_INNER = re.compile(r"(?:inner[ _]?code|err[ _]?no)\s*[:=]?\s*\[?(0x[0-9a-f]+)\]?", re.IGNORECASE)

IN_TEXT = re.compile(
    r"(?<![0-9A-Za-z_.])(?:"
    r"MIE\d{2}[EW][0-9A-F]{6}|ERR\d{5}|[EW][A-Z0-9]\d{4}(?=[:)\], ]|$)"
    r"|(?:ACL|ACLNN|HCCL|RT)_(?:ERR|E)[A-Z0-9_]+"
    r"|(?:100|107|145|148|161|200|207|245|361|50[07]|545|561)\d{3}(?!\d|\.\d)"
    r"|0x0?7[01][0-9a-fA-F]{5}(?![0-9a-fA-F])|0x00000000050[01]00[0-9a-fA-F]{2}(?![0-9a-fA-F])|0xA0[0-9A-F]{2}80[01][0-9A-F](?![0-9a-fA-F])|0x8[0-9a-fA-F]{7}(?![0-9a-fA-F])"
    r"|SIG(?:KILL|SEGV|ABRT|TERM|BUS|INT|ILL|FPE|HUP)"
    r")(?![0-9A-Za-z_])"
)
"""Codes inside of log text: only shapes that hardly anything else has."""

_IN_TEXT_TRIPLE = re.compile(
    r"(?:error ?code|errcode|error_code)\s*[:=]?\s*(\(?(?:0x[0-9a-fA-F]+|0)(?:\s*,\s*(?:0x[0-9a-fA-F]+|0)){2}\)?)", re.I
)
_IN_TEXT_EXIT = re.compile(r"exit[ _]?(?:code|status)\s*[:=]?\s*(-?\d{1,3})\b", re.IGNORECASE)
_MOST_CODES = 30


def lookup(code: str, pack: RulePack | None = None, catalogue: Catalogue | None = None) -> Answer:
    """Say what a code means.

    Args:
        code: The code as printed, such as ``507015``, ``EI0006``, ``0x80E01801``, ``-9`` or ``(0x800000, 0, 0)``.
        pack: Rules to look for the code in.
        catalogue: Where codes are known; None: the shipped catalogues.

    Returns:
        What is known; without entries and family where `code` does not look like any code.
    """
    known = catalogue or shipped()
    word = code.strip().strip("'\"`.,;:")
    family, entries, table = _resolve(word, known)
    nearest: tuple[Entry, ...] = ()
    if family is not None and not entries:
        nearest = tuple(_nearest(word, table))
    rules = tuple(known_by(entries or (), pack)) if pack is not None else ()
    return Answer(
        query=code,
        entries=tuple(entries),
        family=known.families.get(family) if family else None,
        nearest=nearest,
        rules=rules,
    )


Resolved = tuple[str | None, list[Entry], Mapping[str, Entry]]
"""Family, meanings, and the table that an unknown code's neighbours stand in."""


def _resolve(word: str, known: Catalogue) -> Resolved:
    for recognise in (
        _triple,
        _cann,
        _torch_npu,
        _mindie,
        _six_digits,
        _inner_code,
        _hexadecimal,
        _decimal,
        _switch,
        _health,
        _exit,
        _errno,
        _result,
        _number,
        _symbol,
        _misspelt,
    ):
        found = recognise(word, known)
        if found is not None:
            return found
    return None, [], {}


def _triple(word: str, known: Catalogue) -> Resolved | None:
    values = decode.triple(word)
    entry = decode.registers(values, known) if values is not None else None
    return ("aicore", [entry], {}) if entry else None


def _cann(word: str, known: Catalogue) -> Resolved | None:
    if not _CANN.fullmatch(word):
        return None
    code = word.upper()
    entry = known.cann.get(code)
    if entry is not None:
        return entry.family, [entry], {}
    family = cann_family(code)
    if family not in known.families:
        return None
    if code[2:6].startswith("9"):
        title = known.families[family].title
        entry = Entry(
            code=code,
            family=family,
            severity="error",
            trust="generic",
            means=Text(
                en=f"An inner error ({title.en}); the code itself names no cause.",
                zh=f"内部错误（{title.zh}），错误码本身不说明原因。",
            ),
            advice="inner",
        )
        return family, [entry], {}
    same = {other: item for other, item in known.cann.items() if item.family == family and other[0] == code[0]}
    return family, [], same


def _torch_npu(word: str, known: Catalogue) -> Resolved | None:
    if not _TORCH_NPU.fullmatch(word):
        return None
    code = word.upper()
    entry = decode.torch_npu(code, known)
    if entry is not None:
        return "torch_npu", [entry], {}
    kinds = (f"ERR{code[3:5]}{kind}" for kind in known.torch_npu["kind"])
    return "torch_npu", [], {near: item for near in kinds if (item := decode.torch_npu(near, known))}


def _mindie(word: str, known: Catalogue) -> Resolved | None:
    if not _MINDIE.fullmatch(word):
        return None
    code = word.upper()
    entry = decode.mindie(code, known)
    if entry is not None:
        return "mindie", [entry], {}
    return "mindie", [], {near: item for near, item in known.mindie.items() if near[:5] == code[:5]}


def _six_digits(word: str, known: Catalogue) -> Resolved | None:
    if not _SIX.fullmatch(word):
        return None
    entry = known.acl.get(word)
    if entry is not None:
        return entry.family, [entry], {}
    family = f"acl-{word[:3]}"
    if family not in known.families:
        return None
    return family, [], {code: item for code, item in known.acl.items() if item.family == family}


def _inner_code(word: str, known: Catalogue) -> Resolved | None:
    match = _INNER.fullmatch(word)
    if match is None:
        return None
    value = int(match[1], 16)
    # HCCL prints its plain result under the same name, without the number of its module.
    plain = decode.hccl(value | 0x05000000, known) if word.lower().startswith("err") and value < 0x100 else None
    return ("hccl", [plain], {}) if plain is not None else _hexadecimal(match[1], known)


def _hexadecimal(word: str, known: Catalogue) -> Resolved | None:
    if _BARE_HEX.fullmatch(word):
        word = f"0x{word}"
        if int(word, 16) >> 31 == 0 and not any(_padded(word) in table for table in (known.bmc, known.bbox)):
            return None
    elif not _HEX.fullmatch(word):
        return None
    value = int(word, 16)
    code = _padded(word)
    if code in known.bbox:
        return "bbox", [known.bbox[code]], {}
    if code in known.bmc and len(word) == 10:
        return "bmc", [known.bmc[code]], {}
    if code.lower() in known.switch:
        return "switch", [known.switch[code.lower()]], {}
    media = decode.dvpp(value, known)
    if media is not None:
        return "dvpp", [media], {}
    if value >> 32 == 0 and (value >> 31 or code.lower() in known.events):
        return _event(value, known)
    if value >> 24 == 0x07:
        inner = decode.runtime(value, known)
        if inner is not None:
            return "runtime", [inner], {}
        group = code[:6]
        near = {c: e for c in known.runtime if c.startswith(group) and (e := decode.runtime(int(c, 16), known))}
        return "runtime", [], near
    result = decode.hccl(value, known)
    if result is not None:
        return "hccl", [result], {}
    # What is left has the shape of an error register printed alone.
    entry = decode.registers([value], known)
    return ("aicore", [entry], {}) if entry and value else None


def _decimal(word: str, known: Catalogue) -> Resolved | None:
    """Read a device event that was printed as a number with or without sign."""
    if not _DECIMAL.fullmatch(word):
        return None
    value = int(word) & 0xFFFFFFFF
    entry = decode.event(value, known) if value >> 31 and -(1 << 31) <= int(word) < 1 << 32 else None
    return ("event", [entry], {}) if entry else None


def _event(value: int, known: Catalogue) -> Resolved:
    entry = decode.event(value, known)
    if entry is not None:
        return "event", [entry], {}
    return "event", [], {code: item for code in known.events if (item := decode.event(int(code, 16), known))}


def _padded(word: str) -> str:
    return f"0x{int(word, 16):08X}"


def _switch(word: str, known: Catalogue) -> Resolved | None:
    match = _SWITCH.fullmatch(word)
    key = match[1].lower() if match else word
    entry = known.switch.get(key)
    if entry is not None:
        return "switch", [entry], {}
    return ("switch", [], known.switch) if match else None


def _health(word: str, known: Catalogue) -> Resolved | None:
    match = _HEALTH.fullmatch(word)
    if match is None:
        return None
    entry = next(item for code, item in known.health.items() if code.lower() == f"health:{match[1].lower()}")
    return "npu-smi", [entry], {}


def _exit(word: str, known: Catalogue) -> Resolved | None:
    match = _EXIT.fullmatch(word)
    if match is None:
        return None
    number = int(match[1])
    if word.lower().startswith("signal"):
        number = -abs(number)
    entries = list(_endings(number, known))
    return ("exit" if number >= 0 else "signal"), entries, {}


def _errno(word: str, known: Catalogue) -> Resolved | None:
    """Read a system error; HCCP returns them as negative numbers."""
    match = _ERRNO.fullmatch(word)
    entry = known.hccp.get(f"-{match[1]}") if match else None
    return ("hccp", [entry], {}) if entry else None


def _result(word: str, known: Catalogue) -> Resolved | None:
    match = _RETURN.fullmatch(word)
    if match is None:
        return None
    entries = [table[match[1]] for table in (known.hccl, known.hccp) if match[1] in table]
    return (entries[0].family, entries, {}) if entries else None


def _number(word: str, known: Catalogue) -> Resolved | None:
    if not _NUMBER.fullmatch(word):
        return None
    number = int(word)
    entries = list(_endings(number, known))
    entries += [table[word] for table in (known.health, known.hccp, known.hccl) if word in table]
    return (entries[0].family, entries, {}) if entries else None


def _endings(number: int, known: Catalogue) -> Iterator[Entry]:
    """Yield what an exit code says."""
    if str(number) in known.exits:
        yield known.exits[str(number)]
    ended_by = -number if number < 0 else number - 128 if 128 < number < 192 else None
    if ended_by is not None and (entry := decode.signal(ended_by, known, str(number))):
        yield entry


def _symbol(word: str, known: Catalogue) -> Resolved | None:
    if not _SYMBOL.fullmatch(word):
        return None
    symbol = word.upper()
    tables: tuple[Iterable[Entry], ...] = (known.acl.values(), known.hccl.values(), known.signals.values())
    for table in tables:
        for entry in table:
            if entry.symbol == symbol:
                return entry.family, [entry], {}
    for code, (name, _) in known.runtime.items():
        if name == symbol and (inner := decode.runtime(int(code, 16), known)):
            return "runtime", [inner], {}
    return None


def _misspelt(word: str, known: Catalogue) -> Resolved | None:
    """A letter or digit too many, too few or wrong in a code that begins with letters."""
    import difflib

    if not _LETTERED.fullmatch(word):
        return None
    # The first two letters say whose code it is: with others it would be explained as somebody else's.
    table = {code: entry for code, entry in {**known.cann, **known.mindie}.items() if code[:2] == word[:2].upper()}
    near = difflib.get_close_matches(word.upper(), table, n=_NEAREST, cutoff=_ALIKE)
    return (table[near[0]].family, [], {code: table[code] for code in near}) if near else None


def _nearest(word: str, table: Mapping[str, Entry]) -> list[Entry]:
    """Return the known codes closest to `word`: by distance where both are numbers of one kind, else by spelling."""
    digits = re.sub(r"^(?:MIE|ERR|0x)", "", word, flags=re.IGNORECASE)

    def value(code: str) -> int:
        return int(re.sub(r"^(?:MIE|ERR|0x)", "", code, flags=re.IGNORECASE) or "0", 36)

    target = value(digits)

    def distance(code: str) -> float:
        shared = len(_common(code.upper(), word.upper()))
        return abs(value(code) - target) / 36.0 ** min(shared, 6)

    return [table[code] for code in sorted(table, key=distance)[:_NEAREST]]


def _common(one: str, other: str) -> str:
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return one[:length]


# -- rules


def known_by(entries: Iterable[Entry], pack: RulePack) -> list[KnownBy]:
    """Return the rules that look for one of these codes, the most specific first."""
    samples: list[str] = []
    words: list[str] = []
    for entry in entries:
        if entry.family in ("exit", "hccl", "hccp", "aicore"):
            continue
        words += [word for word in (entry.code, entry.symbol) if len(word) >= 4]
        samples += list(_samples(entry))
    if not words:
        return []
    order = ("cause", "specific", "generic", "envelope")
    rules = [rule for rule in pack.rules if any(_looks_for(signature, words, samples) for signature in rule.signatures)]
    rules.sort(key=lambda rule: (order.index(rule.trust), rule.code))
    return [reference(rule) for rule in rules[:_MOST_RULES]]


def reference(rule: Rule) -> KnownBy:
    """Return a rule as an answer names it, its title without the places for captures."""
    return KnownBy(
        code=rule.code,
        name=rule.name,
        title=Text(en=_plain(rule.title.en), zh=_plain(rule.title.zh)),
        severity=rule.severity,
    )


def _plain(template: str) -> str:
    """Drop optional parts; show other places as ‹name›."""
    without = re.sub(r"\[\[.*?\]\]", "", template)
    return re.sub(r"(?<!\$)\{(\w+)\}", "\u2039\\1\u203a", without).strip()


def _samples(entry: Entry) -> Iterator[str]:
    """Yield lines as the code is printed in, for rules whose expression covers many codes."""
    if entry.family == "event":
        low = entry.code.lower()
        yield f"[EVENT] DRV(301,dms):2026-01-02-03:04:05.000.000 Event id={low}, dev 0"
    elif entry.family == "mindie":
        yield f"[2026-01-02 03:04:05.000000+08:00] [1] [1] [server] [ERROR] [a.cpp:1] : {entry.code} failed"
    elif entry.family == "bmc":
        yield f"{entry.code} Asserted"
        yield f"get fault event, [device type: CPU]-[device id: 1]-[error code: {entry.code[2:]}]"
    elif entry.family == "switch":
        yield f"alarmID={entry.code}"
    elif entry.family == "dvpp":
        yield f"[DVPP] failed, Error {entry.code}"


def _looks_for(signature: Signature, words: list[str], samples: list[str]) -> bool:
    texts = [*signature.all, *signature.any, signature.regex or ""]
    if any(word in text for word in words for text in texts):
        return True
    return any(_fits(signature, sample) for sample in samples)


def _fits(signature: Signature, text: str) -> bool:
    """Whether a line fulfils what a signature says of the record itself."""
    folded = text.lower() if signature.nocase else text

    def holds(part: str) -> bool:
        return (part.lower() if signature.nocase else part) in folded

    if not all(map(holds, signature.all)) or (signature.any and not any(map(holds, signature.any))):
        return False
    if any(map(holds, signature.unless)) or signature.near is not None:
        return False
    return not signature.regex or re.search(signature.regex, text, re.I if signature.nocase else 0) is not None


def meanings(codes: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return code to its meaning in both languages, for those of `codes` that are known."""
    found = {}
    for code in codes:
        entries = lookup(code).entries
        if entries:
            found[code] = {"en": entries[0].means.en, "zh": entries[0].means.zh}
    return found


# -- codes inside of text


def codes_in(text: str) -> list[str]:
    """Return the codes in a line or block of log text, each once, in order of appearance; at most 30."""
    found: dict[str, int] = {}
    for pattern, group in ((_IN_TEXT_TRIPLE, 1), (IN_TEXT, 0)):
        for match in pattern.finditer(text):
            found.setdefault(match[group], match.start())
    for match in _IN_TEXT_EXIT.finditer(text):
        found.setdefault(f"exit code {match[1]}", match.start())
    return sorted(found, key=found.__getitem__)[:_MOST_CODES]
