"""Reads a result document from disk."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from npudiag.errors import UsageError
from npudiag.result import SCHEMA_VERSION, Result, decode


def read(name: str) -> Result:
    """Return the document in file `name`, or on standard input for ``-``.

    Raises:
        UsageError: The file cannot be read or is no result document of a schema this version knows.
    """
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as exc:
        raise UsageError(f"cannot read {name}: {exc.strerror or exc}") from exc
    try:
        result = decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise UsageError(
            f"{name} is not a result document: {exc}", hint="npudiag analyze PATH --json FILE writes one"
        ) from exc
    if result.schema != SCHEMA_VERSION:
        raise UsageError(f"{name} has schema {result.schema}; this version reads schema {SCHEMA_VERSION}")
    return result
