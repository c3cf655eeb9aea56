"""Find many fixed strings in a block of bytes in one pass.

A string of digits only is a code and counts where it stands as a word of its own, ``0x`` in front of it at most:
``507015`` does not stand in ``1507015``, or process ids would be full of codes.

Hyperscan does it at memory speed for any number of strings; where no wheel of it
exists, the standard library's `re` does the same, slower.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from npudiag import cache


@dataclass(frozen=True, slots=True)
class Literals:
    """The strings somebody wants to see, each with its own id (its index).

    Attributes:
        texts: The strings; matched as UTF-8 bytes.
        nocase: For each string, whether ASCII case is ignored.
    """

    texts: tuple[str, ...] = ()
    nocase: tuple[bool, ...] = ()

    @property
    def encoded(self) -> tuple[bytes, ...]:
        """The strings as UTF-8."""
        return tuple(text.encode() for text in self.texts)


class Scanner:
    """Reports every occurrence of every literal in a block of bytes."""

    def __init__(self, literals: Literals) -> None:
        self.literals = literals
        self.backend = "none"
        self._database: Any = None
        self._fallback: _ReScanner | None = None
        if not literals.texts:
            return
        try:
            import hyperscan
        except ImportError:
            self._fallback = _ReScanner(literals)
            self.backend = "re"
            return
        self._database = _compiled(literals, hyperscan)
        self.backend = "hyperscan"

    def scan(self, data: bytes | memoryview) -> tuple[list[int], list[int]]:
        """Return the ids of the literals found and, for each, the offset behind its last byte.

        The pairs come in order of end offset.
        """
        ids: list[int] = []
        ends: list[int] = []
        if self._database is not None:
            add_id, add_end = ids.append, ends.append

            def matched(literal: int, _start: int, end: int, _flags: int, _context: object) -> None:
                add_id(literal)
                add_end(end)

            self._database.scan(data, match_event_handler=matched)
        elif self._fallback is not None:
            for literal, end in self._fallback.scan(data):
                ids.append(literal)
                ends.append(end)
        return ids, ends


_WORTH_CACHING = 200


def _compiled(literals: Literals, hyperscan: Any) -> Any:
    """Return the pattern database, from the user's cache where it was built before."""
    folder = cache.folder() if len(literals.texts) >= _WORTH_CACHING else None
    name = f"patterns-{_fingerprint(literals, hyperscan)}.hs" if folder else ""
    if folder:
        try:
            database = hyperscan.loadb(cache.load(f"{folder}/{name}"), hyperscan.HS_MODE_BLOCK)
            database.scratch = hyperscan.Scratch(database)
            database.scan(b"", match_event_handler=lambda *_: None)
            return database
        except (OSError, ValueError, hyperscan.HyperscanError):
            pass
    database = hyperscan.Database()
    database.compile(
        expressions=[_expression(text) for text in literals.encoded],
        ids=list(range(len(literals.texts))),
        elements=len(literals.texts),
        flags=[hyperscan.HS_FLAG_CASELESS if nocase else 0 for nocase in literals.nocase],
    )
    if folder:
        with contextlib.suppress(OSError, ValueError, hyperscan.HyperscanError):
            cache.store(folder, name, hyperscan.dumpb(database))
            cache.prune(folder, "patterns-*.hs")
    return database


def _expression(text: bytes) -> bytes:
    """Return a literal as a regular expression; Hyperscan searches for it no slower."""
    if text.isdigit():
        return rb"(\b|0[xX])" + text + rb"\b"
    return b"".join(rb"\x%02x" % byte if byte > 127 or not chr(byte).isalnum() else b"%c" % byte for byte in text)


def _stands_alone(data: bytes | memoryview, start: int, end: int) -> bool:
    """Whether no word goes on over the edges of a match."""
    if _IN_WORD.match(data[end : end + 1]):
        return False
    return not _IN_WORD.match(data[start - 1 : start]) or bytes(data[max(start - 2, 0) : start]) in (b"0x", b"0X")


_IN_WORD = re.compile(rb"\w")


def _fingerprint(literals: Literals, hyperscan: Any) -> str:
    """Hash what the database depends on: the literals, the library, and the processor it was built for."""
    digest = blake2b(digest_size=12)
    digest.update(repr((hyperscan.__version__, sys.version_info[:2], literals.texts, literals.nocase)).encode())
    try:
        with Path("/proc/cpuinfo").open("rb") as file:
            digest.update(b"".join(line for line in file.read(8192).split(b"\n") if b"MHz" not in line)[:4096])
    except OSError:
        digest.update(repr(getattr(os, "uname", tuple)()).encode())
    return digest.hexdigest()


class _ReScanner:
    """The same answer from the standard library.

    A lookahead over the alternatives, longest first, gives the longest literal at each
    position; those that are its prefixes stand there too and are looked up.
    """

    def __init__(self, literals: Literals) -> None:
        self._codes = {index for index, text in enumerate(literals.encoded) if text.isdigit()}
        self._parts = [part for nocase in (False, True) if (part := self._prepare(literals, nocase)) is not None]

    @staticmethod
    def _prepare(
        literals: Literals, nocase: bool
    ) -> tuple[re.Pattern[bytes], dict[bytes, tuple[tuple[int, int], ...]], bool] | None:
        wanted = {
            (text.lower() if nocase else text): index
            for index, text in enumerate(literals.encoded)
            if literals.nocase[index] is nocase
        }
        if not wanted:
            return None
        ordered = sorted(wanted, key=len, reverse=True)
        prefixes = {
            text: tuple((index, len(other)) for other, index in wanted.items() if text.startswith(other))
            for text in ordered
        }
        flags = re.IGNORECASE if nocase else 0
        return re.compile(b"(?=(" + b"|".join(map(re.escape, ordered)) + b"))", flags), prefixes, nocase

    def scan(self, data: bytes | memoryview) -> Sequence[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for pattern, prefixes, nocase in self._parts:
            for match in pattern.finditer(data):
                text = match.group(1)
                start = match.start(1)
                for index, length in prefixes[text.lower() if nocase else text]:
                    if index not in self._codes or _stands_alone(data, start, start + length):
                        found.append((index, start + length))
        found.sort(key=lambda pair: pair[1])
        return found
