"""The door to all profiler files: says what a file is, and loads its reader when there is one to read."""

from __future__ import annotations

from importlib import import_module

from npudiag.errors import SourceError
from npudiag.parsers.base import Context, Partial, Stream
from npudiag.parsers.profiler.kinds import kind_of
from npudiag.result import Problem

_READERS = {
    "prof-db": "database",
    "prof-trace": "trace",
    "prof-kernel-details": "kernels",
    "prof-op-summary": "kernels",
    "prof-communication": "communication",
    "prof-communication-matrix": "communication",
    "prof-groups": "documents",
    "prof-info": "documents",
    "prof-metadata": "documents",
    "prof-device-info": "documents",
    "prof-mindspore-flops": "documents",
}
"""Kind to the module that reads it; all others are small tables."""


class ProfilerParser:
    """Reads what profilers write."""

    name = "profiler"

    def recognise(self, head: bytes, path: str) -> float:
        """Sure where columns or keys are those of a profiler file, else 0."""
        return 0.95 if kind_of(head, path) else 0.0

    def parse(self, stream: Stream, head: bytes, context: Context) -> Partial:
        """Read the stream to its end."""
        kind = kind_of(head, context.source.path) or "unknown"
        partial = Partial(context.source, kind=kind, identity=context.source.identity)
        if kind == "prof-db-journal":
            partial.note = "journal of a database that is read without it"
            partial.bytes = len(head)
            if path_is_log(context.source.path):
                damaged(partial, "the database was not closed: what stands in its journal only is not read")
            return partial
        reader = import_module(f"npudiag.parsers.profiler.{_READERS.get(kind, 'small_tables')}")
        try:
            reader.read(partial, stream, head, context)
        except SourceError as exc:
            partial.broke_off(exc, partial.lines)
        except Exception as exc:  # whatever a file holds, the others are still to be analysed
            damaged(partial, f"{type(exc).__name__}: {exc}"[:200])
        return partial


def path_is_log(path: str) -> bool:
    """Whether a database's companion file may hold rows that the database itself lacks."""
    return path.endswith((".db-wal", ".db-journal"))


def damaged(partial: Partial, what: str, *, reason: str = "corrupt", line: int | None = None) -> None:
    """Note that a file, or the rest of it, makes no sense."""
    partial.truncated = True
    partial.note = partial.note or what
    partial.problems.append(
        Problem(path=partial.source.path, reason=reason, message=f"{partial.source.path}: {what}", line=line)
    )
