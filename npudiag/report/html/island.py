"""The result document inside the page, so that a report can be saved, compared and rendered anew."""

from __future__ import annotations

import base64
import gzip
import re
from typing import Any

import msgspec

from npudiag.result import Result, decode

_SURROGATES = re.compile("[\ud800-\udfff]")
_ISLAND = re.compile(r'<script type="(application/json|text/plain)" id="result">(.*?)</script>', re.DOTALL)
# What could end the element or a script line; & keeps the text the same in XHTML tools.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def packed(data: bytes) -> str:
    """Return bytes as Base64 of gzip, the same for the same bytes."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode("ascii")


def embed(result: Result, *, room: int) -> str:
    """Return the script element that holds the document.

    It is JSON where that fits into `room` bytes, else (``text/plain``) Base64 of gzip,
    which the page's save button and `extract` undo.
    """
    data = _encoded(result)
    kind = "application/json"
    text = re.sub("[<>&\u2028\u2029]", lambda m: _ESCAPES[m.group()], data.decode("utf-8"))
    if len(text.encode("utf-8")) > room:
        kind, text = "text/plain", packed(data)
    return f'<script type="{kind}" id="result">{text}</script>'


def extract(page: str) -> Result:
    """Read the document back out of a page.

    Raises:
        ValueError: The page holds no document, or one that cannot be read (``msgspec.DecodeError`` is one too).
    """
    match = _ISLAND.search(page)
    if match is None:
        raise ValueError("the page holds no result document")
    kind, text = match.groups()
    return decode(gzip.decompress(base64.b64decode(text)) if kind == "text/plain" else text.encode("utf-8"))


def _encoded(result: Result) -> bytes:
    try:
        return msgspec.json.encode(result)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_surrogates(msgspec.to_builtins(result)))


def _without_surrogates(value: Any) -> Any:
    """Replace lone surrogates, which UTF-8 cannot hold."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    return value
