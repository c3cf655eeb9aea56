"""SQLite captures: ``ascend_pytorch_profiler_*.db``, ``msprof_*.db``, ``analysis.db``, cluster databases.

They are opened read-only and immutable, so that no journal is replayed into the user's folder and no lock is taken.
Members of archives are spooled to a private temporary file first. Every table is asked for by name and skipped where
it, or a column of it, is missing: schemas differ by version.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from npudiag.errors import SourceError
from npudiag.parsers.base import Context, Partial, Stream, feed
from npudiag.parsers.profiler import db_communication, db_host, db_kernels, db_memory, db_steps
from npudiag.parsers.profiler.db_tables import Database
from npudiag.parsers.profiler.parser import damaged
from npudiag.parsers.profiler.raw import Raw, of

_MOST_BYTES = 16 << 30


def read(partial: Partial, stream: Stream, head: bytes, context: Context) -> None:
    """Read a database."""
    source = context.source
    with _file(partial, stream, head) as (location, size):
        partial.bytes = size
        uri = f"file:{urllib.parse.quote(location)}?mode=ro&immutable=1"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                connection.text_factory = lambda data: data.decode("utf-8", "replace")
                connection.execute("PRAGMA query_only=ON")
                _read_all(partial, Database(connection))
        except sqlite3.Error as exc:
            damaged(partial, f"the database is damaged: {exc}", reason="truncated")
    raw = of(partial)
    if not (raw.tables or raw.facts or raw.comm or raw.links or raw.groups or partial.problems):
        partial.note = f"a database without tables of a profiler: {source.path}"


@contextmanager
def _file(partial: Partial, stream: Stream, head: bytes) -> Iterator[tuple[str, int]]:
    """Give the place of the database on disk, and its size."""
    source = partial.source
    if source.location is not None and source.container is None:
        yield source.location, source.size or 0
        return
    handle, name = tempfile.mkstemp(prefix="npudiag-", suffix=".db")
    try:
        written = 0
        with os.fdopen(handle, "wb") as spool:
            try:
                for piece in feed(head, stream, 1 << 20):
                    spool.write(piece)
                    written += len(piece)
                    if written > _MOST_BYTES:
                        raise SourceError(f"{source.path}: the database is larger than can be spooled", reason="limit")
            except SourceError as exc:
                partial.broke_off(exc, 0)
        yield name, written
    finally:
        os.unlink(name)  # noqa: PTH108 - the name is ours


def _read_all(partial: Partial, db: Database) -> None:
    raw = of(partial)
    parts: tuple[Callable[[Raw, Database], None], ...] = (
        db_steps.facts,
        db_steps.breakdown,
        db_steps.analysed,
        db_steps.cluster,
        db_kernels.kernels,
        db_communication.operations,
        db_communication.links,
        db_host.calls,
        db_host.operators,
        db_host.events,
        db_memory.memory,
        db_memory.allocations,
        db_memory.clock,
        db_memory.network,
    )
    for part in parts:
        try:
            part(raw, db)
        except sqlite3.Error as exc:
            damaged(partial, f"part of the database cannot be read: {exc}", reason="truncated")
        except (TypeError, ValueError, OverflowError) as exc:
            damaged(partial, f"part of the database makes no sense: {exc}")
