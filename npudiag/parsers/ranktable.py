"""Rank tables: the files that tell HCCL which rank runs on which card (``hccl.json``, versions 1.0 and 1.2).

Nothing of them is judged here; what is missing or no number stays empty in the rows. A global table of several jobs
(``server_group_list``) gives the rows of each group.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from npudiag.parsers.base import Context, Partial, Stream
from npudiag.parsers.launch import decode, take

_MARKS = re.compile(rb'"server_(?:group_)?list"\s*:')
_RANK = re.compile(r'"rank_id"\s*:')
_ROWS = 100_000
_QUOTES = 4000
_QUOTE = 300
_HEAD = ("status", "version", "server_count", "server_list", "super_pod_list")


class RankTable:
    """Reads a rank table."""

    name = "rank-table"

    def recognise(self, head: bytes, path: str) -> float:
        """By its keys: a document that begins with an object in which servers or groups of them are listed."""
        if not head[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            return 0.0
        if not _MARKS.search(head):
            return 0.0
        return 0.9 if b'"rank_id"' in head or b'"server_count"' in head else 0.0

    def parse(self, stream: Stream, head: bytes, context: Context) -> Partial:
        """Read the stream to its end."""
        partial = Partial(context.source, kind=self.name, identity=context.source.identity)
        text = decode(take(stream, head, partial), partial)
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as exc:
            line = getattr(exc, "lineno", 1)
            partial.note = f"not valid JSON: {type(exc).__name__}"
            partial.tables["rank_table"] = [{"line": line, "fault": str(exc)[:200]}]
            _quote(partial, text, {1, line})
            return partial
        rows = list(_rows(document, _Places(text)))
        if len(rows) > _ROWS:
            partial.note = f"only the first {_ROWS:,} ranks were kept"
            del rows[_ROWS:]
        partial.tables["rank_table"] = rows
        _quote(partial, text, {row["line"] for row in rows[:_QUOTES]} | _heads(text))
        return partial


class _Places:
    """Lines of the entries, which come in the order in which the document lists them."""

    def __init__(self, text: str) -> None:
        self._starts = [match.end() for match in re.finditer("\n", text)]
        self._ranks = iter([self._line(match.start()) for match in _RANK.finditer(text)])

    def _line(self, place: int) -> int:
        return bisect_right(self._starts, place) + 1

    def next_rank(self, entry: dict[str, Any]) -> int:
        """Return the line of the next entry's rank; an entry without one takes none."""
        return next(self._ranks, 1) if "rank_id" in entry else 1


def _heads(text: str) -> set[int]:
    """Return the lines in which the keys of the table itself stand for the first time."""
    found = (text.find(f'"{key}"') for key in _HEAD)
    return {text.count("\n", 0, place) + 1 for place in found if place >= 0}


def _quote(partial: Partial, text: str, lines: set[int]) -> None:
    every = text.split("\n")
    partial.quotes.update({line: every[line - 1][:_QUOTE] for line in lines if 0 < line <= len(every)})


def _rows(document: Any, places: _Places) -> Iterator[dict[str, Any]]:
    groups = _list(document, "server_group_list")
    whole = [(None, document)] if not groups else [(_text(group, "group_id"), group) for group in groups]
    for name, group in whole:
        pods = {
            _text(server, "server_id"): _text(pod, "super_pod_id")
            for pod in _list(group, "super_pod_list")
            for server in _list(pod, "server_list")
        }
        shared = {
            "group": name,
            "status": _text(group, "status") or _text(document, "status"),
            "version": _text(group, "version") or _text(document, "version"),
            "servers": _number(group, "server_count"),
        }
        empty = True
        for server in _list(group, "server_list"):
            for card in _list(server, "device"):
                empty = False
                yield {
                    **shared,
                    "line": places.next_rank(card),
                    "server": _text(server, "server_id"),
                    "host_ip": _text(server, "host_ip") or _text(server, "server_ip"),
                    "super_pod": pods.get(_text(server, "server_id")),
                    "device": _number(card, "device_id"),
                    "device_ip": _text(card, "device_ip"),
                    "super_device": _text(card, "super_device_id"),
                    "rank": _number(card, "rank_id"),
                }
        if empty:
            yield {**shared, "line": 1}


def _list(holder: Any, key: str) -> list[dict[str, Any]]:
    value = holder.get(key) if isinstance(holder, dict) else None
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(holder: Any, key: str) -> str | None:
    value = holder.get(key) if isinstance(holder, dict) else None
    return str(value)[:200] if isinstance(value, (str, int)) and str(value) else None


def _number(holder: Any, key: str) -> int | None:
    text = _text(holder, key)
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None
