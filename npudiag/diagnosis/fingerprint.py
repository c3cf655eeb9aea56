"""The identity of a finding: the same problem has the same fingerprint in every run, wherever it happens.

What names its problem (a specific message) is known by its rule and by what the message names: an operator, a variable,
a code. What is a catch-all is known by its rule and by its wording. Lines, times, process ids, addresses, hosts,
ranks and folders take no part, so a baseline written on one machine holds on another.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from npudiag.engine.model import Rule

VERSION = "v1"
"""Raised when the recipe changes; baselines with another version match nothing and say so."""

_WORDS = ("generic", "envelope")
_CHARS = 200
_SLOG_HEADER = re.compile(r"^\[[A-Z]+\]\s*\w+\(\d+,[^)]*\):[\d:.-]+\s*")
_TIME = re.compile(
    r"(?:\d{4}[-/])?\d{1,2}[-/]\d{1,2}[ T_-]\d{1,2}:\d\d(?::\d\d)?(?:[.,:]\d+)*(?:Z|[+-]\d\d:?\d\d)?"
    r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)*"
)
_FOLDERS = re.compile(r"(?<![\w.])(?:[A-Za-z]:)?(?:~|\.{1,2})?/(?:[^\s/:'\"()\[\],;]+/)*")
_PATH = re.compile(r"[^\s:]*/[^\s:]*")
_UUID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:0x[0-9a-fA-F]+|(?=[0-9a-f]*\d)[0-9a-f]{6,})(?![0-9A-Za-z])")
_IPV6 = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){3,7}[0-9a-fA-F]{0,4}(?![\w:])")
_DIGITS = re.compile(r"\d+")
_RUN = re.compile(r"#(?:[.:%#]+#)+")
_SPACE = re.compile(r"\s+")

_CODE = re.compile(r"(?:^|_)(?:code|errcode|retcode|exitcode|errno|ret|status|sig|signal|exc|event)$")
"""Captures that are what they are by their number."""
_ELSEWHERE = re.compile(
    r"(?:^|_)(?:node|host|ip|addr|address|port|rank|ranks|dev|device|devices|peer|local|remote|victim|pid|tid|worker|"
    r"process|user|bus|serial|time|first|last|step|epoch|iteration|stream|task|core|tag|line|seconds|count|times|total|"
    r"free|saved|waiting|size|need|have|hash)(?:_|$)"
)
"""Captures that say where, when, or how much."""
_OF_ROW = frozenset(("basis", "capture", "file", "job", "severity"))
"""Columns that query and Python rules pass on: where a row stands and what it is judged to be. No signature captures
them."""


def fingerprint(rule: Rule, captures: Mapping[str, Any], message: str, nodes: Iterable[str] = ()) -> str:
    """Return the fingerprint of a match of `rule`.

    Args:
        rule: The rule.
        captures: What its signature captured.
        message: The line that made it match, without launcher prefixes.
        nodes: Names of the nodes it is about, which do not count where the message holds them.
    """
    hosts = sorted((node for node in nodes if len(node) > 2), key=len, reverse=True)
    parts = [rule.name]
    if rule.trust in _WORDS:
        parts.append(masked(message, hosts)[:_CHARS])
    else:
        parts += [
            f"{name}={value}" for name in sorted(captures) if (value := _identity(name, captures[name], hosts)) != ""
        ]
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part.encode("utf-8", "replace") + b"\0")
    return f"{VERSION}:{digest.hexdigest()}"


def _identity(name: str, value: Any, hosts: Iterable[str]) -> str:
    """Return what a capture tells of the identity; empty where that is nothing."""
    if isinstance(value, (str, int)) and not isinstance(value, bool) and _CODE.search(name):
        return str(value)
    if not isinstance(value, str) or name in _OF_ROW or _ELSEWHERE.search(name):
        return ""
    if _PATH.fullmatch(value):
        # Of a relative path, too, only the last part is the same in the next run's folder.
        value = value.rstrip("/").rpartition("/")[2]
    return masked(value, hosts)[:_CHARS]


def masked(text: str, hosts: Iterable[str] = ()) -> str:
    """Return `text` without what differs from run to run; numbers become ``#``, paths keep their last part."""
    text = _SLOG_HEADER.sub("", text)
    text = _TIME.sub("#", text)
    for host in hosts:
        text = text.replace(host, "#")
    text = _FOLDERS.sub("", text)
    for pattern in (_UUID, _IPV6, _HEX, _DIGITS):
        text = pattern.sub("#", text)
    return _SPACE.sub(" ", _RUN.sub("#", text)).strip()
