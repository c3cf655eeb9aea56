"""Reads a result document from disk, and opens the report made of it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
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


def with_page(targets: Mapping[str, str], wanted: bool) -> dict[str, str]:
    """Return the outputs with an HTML report among them where it is to be opened: a temporary file if none is named.

    Raises:
        UsageError: The report goes to stdout, where no browser can open it.
    """
    if not wanted:
        return dict(targets)
    if targets.get("html") == "-":
        raise UsageError("--open needs a file: --html - writes to stdout", hint="name a file, or leave --html out")
    if "html" in targets:
        return dict(targets)
    return {**targets, "html": str(Path(tempfile.mkdtemp(prefix="npudiag-")) / "report.html")}


def open_page(targets: Mapping[str, str], wanted: bool) -> None:
    """Show the HTML report in the user's browser, where one can be started; say on stderr where it lies."""
    if not wanted:
        return
    import webbrowser

    page = Path(targets["html"]).resolve()
    opened = webbrowser.open(page.as_uri())
    print(f"npudiag: {'opened' if opened else 'no browser can be started; the report is'} {page}", file=sys.stderr)
