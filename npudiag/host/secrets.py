"""Finds secrets in texts and environments: tokens, passwords, keys. They are masked always, whatever else is kept."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

MASK = "[masked]"

_NAME = re.compile(
    r"(?i)(?:^|[_.\-])(?:pass(?:wd|word|phrase)?|pwd|secret\w*|token|credentials?|cookie|auth|authorization|apikey|accesskey"
    r"|api[_\-]?key|access[_\-]?key(?:[_\-]?id)?|private[_\-]?key|sk|ak)(?:$|[_.\-])"
    r"|(?:token|secret|password|passwd|apikey)$"
)
_NOT_SECRET = re.compile(
    r"(?i)^(?:pwd|oldpwd)$|tokenizer|tokens_per|num_token|max_token|tokens$|token_(?:id|num|count|len)"
)

# In running text, the word has to end with the name of a secret, and what follows has to look like one:
# `pad_token: <s>`, `max_tokens=4096` and `token: 12` are settings of models.
_ASSIGNED = re.compile(
    r"""(?ix)
    (?P<name>(?<![A-Za-z])[\w.\-]{0,40}?
      (?:passw(?:or)?d|passwd|passphrase|secret(?:[_\-]?(?:access)?[_\-]?key)?|(?<!pad_)(?<!eos_)(?<!bos_)(?<!unk_)token
        |api[_\-]?key|access[_\-]?key(?:[_\-]?id)?|private[_\-]?key|credentials?))
    (?P<sign>["']?\s*(?:=|:|\s)\s*["']?)
    (?P<value>[^\s"',;&]{8,})
    """
)
_PASSWORD = re.compile(r"""(?i)((?:passw(?:or)?d|passwd|passphrase)["']?\s*[=:]\s*["']?)([^\s"',;&]+)""")
# A quoted value goes on to the quote, blanks included.
_QUOTED = re.compile(
    r"""(?i)((?:passw(?:or)?d|passphrase|secret|[_.\-]pwd)["']?\s*[=:]\s*(["']))(?:(?!\2)[^\n]){1,500}(?=\2)"""
)
# PWD alone is the working directory.
_PWD = re.compile(r"""(?i)([_.\-;&]pwd["']?\s*[=:]\s*["']?)([^\s"',;&]+)""")
_SIGNED = re.compile(
    r"(?i)([?&](?:x-[a-z]{3,4}-(?:signature|credential|security-token)|signature|sig|\w{0,12}accesskeyid|access_token"
    r"|security-?token)=)[^\s&\"']+"
)
_DOCKER = re.compile(r"""("auth"\s*:\s*")[A-Za-z0-9+/=]{8,}""")
_COOKIE = re.compile(r"(?i)\b((?:set-)?cookie:\s*)\S[^\n\"']*")
_LOGIN_OPTION = re.compile(r"(?i)(\blogin\b[^\n]{0,200}?\s-p[ =]?|\bmysql\w*\b[^\n]{0,200}?\s-p)([^\s\-][^\s]*)")
_BEARER = re.compile(r"(?i)\b(authorization\s*[:=]\s*(?:basic|bearer)?|bearer)\s+([A-Za-z0-9._~+/=\-]{8,})")
_LOGIN = re.compile(r"(?<=://)([^\s/:@]{1,200}):([^\s/@]{1,500})@")
_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_\-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|glpat-[\w\-]{16,}|xox[abprs]-[\w\-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}|ms-[0-9a-f]{8}-[0-9a-f\-]{20,}"
    r"|eyJ[\w\-]{8,}\.eyJ[\w\-]{8,}\.[\w\-]{8,})(?![A-Za-z0-9])"
)
_HINTS = (
    "pass", "secret", "token", "key", "credential", "authorization", "bearer", "://", "hf_", "sk-", "ghp_", "gho_",
    "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "akia", "asia", "eyj", "ms-", "pwd", "signature", "sig=",
    '"auth"', "cookie", " -p",
)  # fmt: skip
"""One of these stands in every line with a secret that the expressions know, in lower case."""
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_PLAIN_WORD = re.compile(r"[A-Za-z]+\Z")
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
PEM_END = "-----END"


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name is likely to hold a secret."""
    return bool(_NAME.search(name)) and not _NOT_SECRET.search(name)


def begins_key(text: str) -> bool:
    """Whether a line begins a private key, which goes on to a line with `PEM_END`."""
    return bool(_PEM.search(text))


class Masker:
    """Masks the secrets of a text that comes in blocks of whole lines.

    Attributes:
        count: Lines in which something was masked.
    """

    def __init__(self) -> None:
        self.count = 0
        self._in_key = False

    def text(self, text: str) -> str:
        """Return a block with what looks like a secret masked; a private key may go over several blocks."""
        if self._in_key or begins_key(text):
            return "\n".join(map(self._line, text.split("\n")))
        out, at = [], 0
        for start, end in suspicious(text):
            out += [text[at:start], self._line(text[start:end])]
            at = end
        return "".join([*out, text[at:]]) if out else text

    def _line(self, line: str) -> str:
        if self._in_key or begins_key(line):
            self._in_key = PEM_END not in line
            self.count += 1
            return MASK
        clean = mask(line)
        self.count += clean != line
        return clean


def suspicious(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the lines begin and end that may hold a secret; most of a log need not be looked at closely."""
    # Some letters beyond ASCII grow when lowered, and places would no longer agree.
    lowered = text.lower() if text.isascii() else text.translate(_LOWER)
    found: set[int] = set()
    for hint in _HINTS:
        at = lowered.find(hint)
        while at >= 0:
            start = text.rfind("\n", 0, at) + 1
            found.add(start)
            end = text.find("\n", at)
            at = lowered.find(hint, end) if end >= 0 else -1
    for start in sorted(found):
        end = text.find("\n", start)
        yield start, end if end >= 0 else len(text)


def mask(text: str) -> str:
    """Return a line with what looks like a secret masked."""
    text = _KNOWN.sub(MASK, text)
    text = _LOGIN.sub(rf"\1:{MASK}@", text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    for pattern in (_QUOTED, _SIGNED, _DOCKER, _COOKIE, _LOGIN_OPTION, _PASSWORD, _PWD):
        text = pattern.sub(rf"\1{MASK}", text)
    return _ASSIGNED.sub(_assigned, text)


def _assigned(match: re.Match[str]) -> str:
    value = match["value"]
    spaced = not match["sign"].strip(" \t\"'")
    # "token expired", "secret not found": words, not values. A value behind a blank only has to look made up.
    if value == MASK or value.startswith(("<", "[", "(", "{", "$")) or (spaced and not _made_up(value)):
        return match[0]
    if _PLAIN_WORD.match(value) and not match["sign"].lstrip("\"' \t").startswith("="):
        return match[0]
    if value.replace(".", "").isdigit() and len(value) < 12:
        return match[0]
    return f"{match['name']}{match['sign']}{MASK}"


def _made_up(value: str) -> bool:
    return len(value) >= 16 and any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
