"""The result document itself as a report."""

from __future__ import annotations

from npudiag.result import Result, encode


def render(result: Result, *, lang: str = "en") -> str:
    """Return the document as indented JSON; it holds both languages, so `lang` changes nothing."""
    return encode(result).decode("utf-8")
