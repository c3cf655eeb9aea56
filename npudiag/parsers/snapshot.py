"""What npudiag itself writes: host snapshots and the manifests of bundles.

A snapshot is text, one fact per line, so that a finding can quote the line it rests on::

    # npudiag host snapshot 1
    memory.available_bytes = 24492634112
    disk.free_bytes[/data/ckpt] = 76235345920
    @host_samples {"time": 1780000000000000, "cpu_pct": 3.1}

A line with ``@`` is a row of a table; an item that could be mistaken is written as a JSON text.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from npudiag.errors import SourceError
from npudiag.parsers.base import Context, Partial, Stream, feed
from npudiag.tables.columns import Columns

HEADER = "# npudiag host snapshot 1"
MANIFEST_KEY = "npudiag_bundle"
TABLES = ("host_samples", "npu_samples")
"""Tables whose rows a snapshot may hold as ``@table {...}``."""

_FACT = re.compile(r"""([a-z]+)\.([a-z0-9_]+)(?:\[("(?:[^"\\]|\\.)*"|[^"\[\]=]*)\])? = (.*)\Z""")
_PLAIN_ITEM = re.compile(r"[^\x00-\x1f\x7f\"\[\]=\ud800-\udfff]+\Z")
_LINE_CHARS = 8000
_ROWS = 200_000
_QUOTES = 4000


def fact_line(area: str, name: str, item: str | None, value: str | float | bool) -> str:
    """Return a fact as a line of a snapshot; whatever `item` and `value` hold, it is one line of ASCII or text."""
    import json  # not at the top: every run loads this module, few meet a snapshot

    where = ""
    if item is not None:
        where = f"[{item if _PLAIN_ITEM.match(item) else json.dumps(item)}]"
    return f"{area}.{name}{where} = {json.dumps(value, ensure_ascii=not _printable(value))}"


def row_line(table: str, row: dict[str, Any]) -> str:
    """Return a row of a table as a line of a snapshot."""
    import json

    return f"@{table} {json.dumps({name: value for name, value in row.items() if value is not None})}"


def _printable(value: str | float | bool) -> bool:
    return isinstance(value, str) and value.isprintable()


class HostSnapshot:
    """Reads a host snapshot."""

    name = "host-snapshot"

    def recognise(self, head: bytes, path: str) -> float:
        """Certain by the first line."""
        return 1.0 if head.startswith(HEADER.encode()) else 0.0

    def parse(self, stream: Stream, head: bytes, context: Context) -> Partial:
        """Read the stream to its end."""
        partial = Partial(context.source, kind=self.name, identity=context.source.identity)
        rest = b""
        try:
            for block in feed(head, stream, 1 << 20):
                partial.bytes += len(block)
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    _take(partial, line)
                if len(rest) > _LINE_CHARS:
                    rest = rest[:_LINE_CHARS]
        except SourceError as exc:
            partial.broke_off(exc, partial.lines)
        if rest:
            _take(partial, rest)
        return partial


def _take(partial: Partial, raw: bytes) -> None:
    partial.lines += 1
    text = raw[:_LINE_CHARS].decode("utf-8", "replace").rstrip("\r")
    if not text or text.startswith("#"):
        return
    row = _row_of(text) if text.startswith("@") else _fact_of(text)
    if row is None:
        partial.unparsed += 1
        return
    table, values = row
    columns = partial.columns.setdefault(table, Columns(table))
    if columns.size >= _ROWS:
        partial.note = f"only the first {_ROWS:,} rows of a table were kept"
        return
    columns.append({**values, "line": partial.lines})
    if table == "host_facts" and len(partial.quotes) < _QUOTES:
        partial.quotes[partial.lines] = text
    if values.get("area") == "snapshot" and values.get("name") == "node" and values.get("value"):
        partial.identity = replace(partial.identity, host=str(values["value"])[:200])


def _fact_of(text: str) -> tuple[str, dict[str, Any]] | None:
    import json

    match = _FACT.match(text)
    if match is None:
        return None
    area, name, item, literal = match.groups()
    try:
        value = json.loads(literal)
        if item is not None and item.startswith('"'):
            item = json.loads(item)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, (str, int, float)) or not isinstance(item, (str, type(None))):
        return None
    number = float(value) if not isinstance(value, str) and abs(value) < 1e300 else None
    shown = value if isinstance(value, str) else json.dumps(value)
    return "host_facts", {"area": area, "name": name, "item": item, "value": shown, "number": number}


def _row_of(text: str) -> tuple[str, dict[str, Any]] | None:
    import json

    table, _, literal = text[1:].partition(" ")
    try:
        row = json.loads(literal)
    except (ValueError, RecursionError):
        return None
    return (table, row) if table in TABLES and isinstance(row, dict) else None


class BundleManifest:
    """Passes over the manifest of a bundle: it names files and counts, which are no findings."""

    name = "bundle-manifest"

    def recognise(self, head: bytes, path: str) -> float:
        """Certain by its first key."""
        return 1.0 if re.match(rb'\s*\{\s*"%b"' % MANIFEST_KEY.encode(), head) else 0.0

    def parse(self, stream: Stream, head: bytes, context: Context) -> Partial:
        """Read the stream to its end."""
        partial = Partial(context.source, kind=self.name, identity=context.source.identity)
        try:
            for block in feed(head, stream, 1 << 20):
                partial.bytes += len(block)
                partial.lines += block.count(b"\n")
        except SourceError as exc:
            partial.broke_off(exc, partial.lines)
        return partial
