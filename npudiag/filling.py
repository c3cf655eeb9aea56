"""Puts what the parsers found into the tables."""

from __future__ import annotations

import datetime
from typing import Any

from npudiag.parsers.base import Partial
from npudiag.reading import Ingested
from npudiag.tables.records import LogRecord
from npudiag.tables.store import Store, moment

_OF_A_NODE = ("npu_samples", "host_facts", "host_samples")
"""Tables whose rows belong to the node their file belongs to."""


def fill(ingested: Ingested) -> Store:
    """Put what the parsers found into the tables."""
    store = Store()
    for order_of_file, partial in enumerate(ingested.partials):
        source, identity = partial.source, partial.identity
        for row in partial.rows:
            group = partial.groups[row.group] if 0 <= row.group < len(partial.groups) else None
            store.log.append(
                LogRecord(
                    file=source.path,
                    line=row.line,
                    text=row.text,
                    kind=partial.kind,
                    time_us=row.time_us,
                    level=row.level,
                    module=row.module,
                    pid=row.pid if row.pid is not None else identity.pid,
                    tid=row.tid,
                    process=row.process,
                    worker=row.worker,
                    rank=row.rank if row.rank is not None else identity.rank,
                    device=row.device if row.device is not None else identity.device,
                    node=identity.node or identity.host,
                    file_pid=identity.pid,
                    source=row.source,
                    code=row.code,
                    group=row.group,
                    count=group.count if group else 1,
                    hits=row.hits,
                    raw=row.raw,
                    numbers=row.numbers,
                    before=row.before,
                    after=row.after,
                    order=order_of_file,
                )
            )
        store.extend("files", [_file_row(partial)])
        store.extend(
            "log_counts",
            (
                {
                    "file": source.path,
                    "level": level or None,
                    "module": module or None,
                    "minute": minute_of(minute),
                    "count": number,
                }
                for (level, module, minute), number in partial.counts.items()
            ),
        )
        store.extend(
            "log_groups",
            (
                {
                    "file": source.path,
                    "group": group.index,
                    "level": group.level,
                    "module": group.module,
                    "text": group.text,
                    "count": group.count,
                    "kept": group.kept,
                    "first_line": group.first_line or None,
                    "last_line": group.last_line or None,
                }
                for group in partial.groups
            ),
        )
        while partial.columns:
            name, columns = partial.columns.popitem()
            columns.fill("file", source.path)
            if name in _OF_A_NODE and (node := identity.node or identity.host):
                columns.fill("node", node)
            store.take_over(columns)
        if partial.quotes:
            store.quotes[source.path] = partial.quotes
        if partial.quotes_by_step:
            store.quotes_by_step[source.path] = partial.quotes_by_step
        for name, rows in partial.tables.items():
            store.extend(name, ({"file": source.path, **row} for row in rows))
    return store


def minute_of(text: str) -> datetime.datetime | None:
    """Return a minute written ``YYYY-MM-DDTHH:MM``, None for what is none."""
    try:
        # Such texts are also carried here in files; a time zone would make them incomparable.
        return datetime.datetime.fromisoformat(text).replace(tzinfo=None) if text else None
    except ValueError:
        return None


def _file_row(partial: Partial) -> dict[str, Any]:
    identity = partial.identity
    return {
        "file": partial.source.path,
        "kind": partial.kind,
        "node": identity.node or identity.host,
        "rank": identity.rank,
        "device": identity.device,
        "pid": identity.pid,
        "role": identity.role,
        "lines": partial.lines,
        "bytes": partial.bytes,
        "unparsed": partial.unparsed,
        "truncated": partial.truncated,
        "encoding": partial.encoding,
        "note": partial.note,
        "first_time": moment(partial.first_us),
        "last_time": moment(partial.last_us),
    }
