"""Shell words and commands that show the place where a piece of evidence stands."""

from __future__ import annotations

import re
import shlex

from npudiag.report.safe_text import visible_word

_TAR = re.compile(r"\.(tar|tgz|tbz2?|txz|tar\.(gz|bz2|xz|zst))$", re.IGNORECASE)
_UNPACK = {".gz": "gzip -dc", ".bz2": "bzip2 -dc", ".xz": "xz -dc", ".zst": "zstd -dc"}


def quote(word: str) -> str:
    """Quote one shell word.

    Control and invisible characters become escapes in ``$'...'``: pasting the
    word can neither run anything nor hide anything.
    """
    if visible_word(word) == word:
        return shlex.quote(word)
    body = visible_word(word.replace("\\", "\\\\").replace("'", "\\'"))
    return f"$'{body}'"


def show_lines(path: str, first: int, last: int) -> str | None:
    """Return a command that prints lines `first` to `last` (1-based) of `path`.

    None for what no short command reaches: standard input, nested and unknown archives.
    """
    first = max(first, 1)
    span = f"sed -n '{first},{max(last, first)}p'"
    if path == "-":
        return None
    archive, inside, member = path.partition("!/")
    if inside:
        if "!/" in member:
            return None
        if archive.lower().endswith(".zip"):
            return f"unzip -p {_file(archive)} {quote(member)} | {span}"
        # Members are often stored as ./name, which --no-anchored matches as well.
        return f"tar --no-anchored -xOf {_file(archive)} {quote(member)} | {span}" if _TAR.search(archive) else None
    for suffix, unpack in _UNPACK.items():
        if path.lower().endswith(suffix):
            return f"{unpack} {_file(path)} | {span}"
    return f"{span} {_file(path)}"


def _file(path: str) -> str:
    """Quote a file name so that a leading dash is no option."""
    return quote(f"./{path}" if path.startswith("-") else path)
