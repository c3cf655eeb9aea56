"""Paths in, filled tables out.

A unit of work is a file, an archive, or a byte range of a large file; its product is a
list of `Partial` values. Units are batched by bytes and given to a
`concurrent.futures.Executor`; small inputs are parsed in this process.
"""

from __future__ import annotations

import datetime
import multiprocessing
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from npudiag.discover.identity import identify
from npudiag.discover.source import Limits, Source
from npudiag.discover.streams import open_range, open_streams
from npudiag.discover.walk import discover
from npudiag.errors import SourceError
from npudiag.host.resources import Resources
from npudiag.parsers import HEAD_BYTES, all_parsers, choose
from npudiag.parsers.base import Budget, Context, Partial, Stream
from npudiag.parsers.normalise import plan
from npudiag.parsers.scan import Literals, Scanner
from npudiag.result import Problem
from npudiag.tables.columns import Columns

RANGE_BYTES = 48 << 20
_SMALL_BYTES = 24 << 20
_SMALL_MEMORY = 256 << 20
_TASK_BYTES = 4 << 20
_BATCH_FILES = 64
_ROWS_IN_ALL = 120_000
_ALIGN = re.compile(rb"\n(?=\[(?:[A-Z]+|\d+)\] [A-Z0-9_]+\(-?\d+[:,])")

_ALIGN_STEP = re.compile(rb"\n(?=[^\n]{0,120}\biteration +\d+/ *\d+ \|)")


@dataclass(frozen=True, slots=True)
class Unit:
    """A source, or the bytes from `start` to `stop` of it.

    Attributes:
        parser: Name of the parser, None to choose by content.
        part: Index of the range within its source.
    """

    source: Source
    order: int
    start: int = 0
    stop: int | None = None
    part: int = 0
    parser: str | None = None

    @property
    def size(self) -> int:
        """Bytes on disk this unit reads; an archive counts as more, since it unpacks."""
        if self.stop is not None:
            return self.stop - self.start
        return (self.source.size or 0) * (8 if self.source.container else 1)


@dataclass(slots=True)
class Ingested:
    """What came of all units.

    Attributes:
        partials: In order of discovery; ranges of one file are joined.
        problems: What kept parts of the input from being read.
    """

    partials: list[Partial] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    workers: int = 1


Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in all."""


def ingest(
    paths: Sequence[str],
    literals: Literals,
    resources: Callable[[], Resources],
    *,
    limits: Limits | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Ingested:
    """Find, read and parse everything under `paths`.

    Args:
        paths: Files, folders, archives, or ``-`` for standard input.
        literals: Strings whose records are to be kept.
        resources: Says the bounds of the run; asked only where the input is large enough for it to matter.
        limits: Bounds on archives and numbers of files.
        progress: Told how far the work is.
        executor: Where to run the units; None decides by size.

    Raises:
        UsageError: A path does not exist.
    """
    limits = limits or Limits()
    found = discover(paths, limits)
    out = Ingested(problems=list(found.problems))
    units = [unit for order, source in enumerate(found.sources) for unit in split(source, order)]
    total = sum(unit.size for unit in units)
    bounds = resources() if total > _SMALL_BYTES else Resources(1, _SMALL_MEMORY)
    budget = _budget(len(units), bounds)
    batches = list(batch(units, workers=bounds.workers))
    results: list[tuple[int, int, Partial]] = []
    done = 0

    def take(units_done: Sequence[Unit], product: Product) -> None:
        nonlocal done
        results.extend(product.partials)
        out.problems.extend(product.problems)
        done += sum(unit.size for unit in units_done)
        if progress:
            progress(done, total)

    pool = executor
    own: ProcessPoolExecutor | None = None
    if pool is None and bounds.workers > 1 and len(batches) > 1:
        out.workers = min(bounds.workers, len(batches))
        own = ProcessPoolExecutor(out.workers, mp_context=_context(), initializer=_prepare, initargs=(literals,))
        pool = own
    try:
        if pool is None:
            scanner = Scanner(literals)
            for units_now in batches:
                take(units_now, work(units_now, scanner, budget, limits))
        else:
            futures = {
                pool.submit(_work_in_pool, units_now, literals, budget, limits): units_now for units_now in batches
            }
            for future in as_completed(futures):
                units_now = futures[future]
                try:
                    take(units_now, future.result())
                except BrokenProcessPool as exc:
                    raise SourceError(
                        "a worker process was killed, most likely for want of memory",
                        reason="unreadable",
                        hint="run again with --workers 1",
                    ) from exc
    finally:
        if own is not None:
            own.shutdown(cancel_futures=True)
    out.partials = join(results)
    return out


def _budget(units: int, resources: Resources) -> Budget:
    """Share out the rows that the run may keep; a row takes about 2 KiB."""
    rows = min(_ROWS_IN_ALL, resources.memory_bytes // 8192)
    share = max(60, min(4000, rows // max(units, 1)))
    return Budget(rows=share, groups=share)


def split(source: Source, order: int) -> Iterator[Unit]:
    """Yield the units of a source: byte ranges where it is large and its records can be told apart."""
    size = source.size or 0
    if source.container or source.location is None or size <= RANGE_BYTES + (RANGE_BYTES >> 1):
        yield Unit(source, order)
        return
    try:
        with Path(source.location).open("rb") as file:
            head = file.read(HEAD_BYTES)
            parser = choose(head, source.path)
            align = _align(parser.name, head) if parser else None
            if parser is None or align is None:
                yield Unit(source, order)
                return
            start, part = 0, 0
            while start < size:
                stop = start + RANGE_BYTES
                if stop + (RANGE_BYTES >> 2) >= size:
                    stop = size
                else:
                    file.seek(stop)
                    match = align.search(file.read(HEAD_BYTES))
                    if match is None:
                        # No record begins here: leave the rest in one piece.
                        stop = size
                    else:
                        stop += match.end()
                yield Unit(source, order, start, stop, part, parser.name)
                start, part = stop, part + 1
    except OSError:
        # Reading it for real will say what is wrong.
        yield Unit(source, order)


def _align(parser: str, head: bytes) -> re.Pattern[bytes] | None:
    """Return where a text may be cut: in front of what begins a record of its own whatever came before."""
    if parser == "slog":
        return _ALIGN
    return _ALIGN_STEP if parser == "console" and plan(head, complete=False).trivial else None


def batch(units: Iterable[Unit], *, workers: int) -> Iterator[list[Unit]]:
    """Group units into tasks: a task per small file costs more than it gains, one task for all gains nothing."""
    units = list(units)
    share = sum(unit.size for unit in units) // (4 * workers)
    wanted = max(_TASK_BYTES, min(RANGE_BYTES, share))
    current: list[Unit] = []
    size = 0
    for unit in units:
        if current and (size + unit.size > wanted or len(current) >= _BATCH_FILES):
            yield current
            current, size = [], 0
        current.append(unit)
        size += unit.size
    if current:
        yield current


@dataclass(slots=True)
class Product:
    """What comes of one task: (order of the source, part, partial) each, and problems."""

    partials: list[tuple[int, int, Partial]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def work(units: Sequence[Unit], scanner: Scanner, budget: Budget, limits: Limits) -> Product:
    """Parse units one after the other. Never raises for what an input holds."""
    product = Product()
    for unit in units:
        before = len(product.partials)
        try:
            if unit.stop is not None:
                stream: Stream = open_range(unit.source, unit.start, unit.stop)
                partial = _parse(unit.source, stream, scanner, budget, unit.parser)
                partial.part = unit.part
                product.partials.append((unit.order, unit.part, partial))
            else:
                for source, member in open_streams(unit.source, limits, product.problems.append):
                    product.partials.append((unit.order, 0, _parse(source, member, scanner, budget, None)))
        except SourceError as exc:
            product.problems.append(Problem(path=unit.source.path, reason=exc.reason, message=exc.message))
            if len(product.partials) == before:
                skipped = Partial(unit.source, kind="skipped", identity=unit.source.identity, note=exc.message)
                skipped.truncated = True
                product.partials.append((unit.order, unit.part, skipped))
    return product


def _parse(
    source: Source, stream: Stream, scanner: Scanner, budget: Budget, name: str | None, year: int | None = None
) -> Partial:
    pieces: list[bytes] = []
    size = 0
    broken: SourceError | None = None
    try:
        while size < HEAD_BYTES:
            piece = stream.read(HEAD_BYTES - size)
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
    except SourceError as exc:
        broken = exc
    head = b"".join(pieces)
    if not head:
        partial = Partial(source, kind="skipped", identity=source.identity, note="empty file")
        if broken:
            partial.broke_off(broken, 0)
        return partial
    if broken is not None:
        stream = _Broken(broken)
    parser = all_parsers()[name] if name else choose(head, source.path)
    if parser is None:
        # Only its first bytes were looked at; what is no text and no known file is not worth reading.
        return Partial(source, identity=source.identity, bytes=source.size or len(head), note="binary data")
    written = _written(source) if year is None else None
    context = Context(source, scanner, budget, year)
    if written is not None:
        context.year = written.year
        context.written_us = (written - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    return parser.parse(stream, head, context)


class _Broken:
    """A stream that has given all it could."""

    def __init__(self, error: SourceError) -> None:
        self._error = error

    def read(self, size: int, /) -> bytes:
        raise self._error


def _written(source: Source) -> datetime.datetime | None:
    """Return when the file was last written, by the local clock."""
    if source.location is None:
        return None
    try:
        return datetime.datetime.fromtimestamp(Path(source.location).stat().st_mtime)
    except (OSError, ValueError, OverflowError):
        return None


_scanner: Scanner | None = None


def _prepare(literals: Literals) -> None:
    global _scanner
    _scanner = Scanner(literals)


def _work_in_pool(units: Sequence[Unit], literals: Literals, budget: Budget, limits: Limits) -> Product:
    global _scanner
    if _scanner is None or _scanner.literals != literals:
        _scanner = Scanner(literals)
    return work(units, _scanner, budget, limits)


def _context() -> multiprocessing.context.BaseContext:
    """Fork where it is safe: it shares what is loaded already. Threads make it unsafe."""
    if sys.platform == "linux" and threading.active_count() == 1 and _own_threads() == 1:
        return multiprocessing.get_context("fork")
    return multiprocessing.get_context("spawn")


def _own_threads() -> int:
    import psutil

    return psutil.Process().num_threads()


def join(results: Iterable[tuple[int, int, Partial]]) -> list[Partial]:
    """Put the ranges of each file together again, line numbers counted from the file's start."""
    out: list[Partial] = []
    current: tuple[int, Partial] | None = None
    for order, part, partial in sorted(results, key=lambda item: (item[0], item[1])):
        if part == 0 or current is None or current[0] != order:
            current = (order, partial)
            out.append(partial)
            continue
        _append(current[1], partial)
    return out


def _append(whole: Partial, part: Partial) -> None:
    shift = whole.lines
    known = {(group.level, group.module, group.text): group for group in whole.groups}
    renumber: dict[int, int] = {}
    for group in part.groups:
        same = known.get((group.level, group.module, group.text))
        if same is None:
            renumber[group.index] = len(whole.groups)
            whole.groups.append(
                replace(
                    group,
                    index=len(whole.groups),
                    first_line=group.first_line + shift if group.first_line else 0,
                    last_line=group.last_line + shift,
                )
            )
        else:
            renumber[group.index] = same.index
            same.count += group.count
            same.kept += group.kept
            same.last_line = group.last_line + shift
    for row in part.rows:
        row.line += shift
        row.group = renumber.get(row.group, -1)
        if row.numbers is not None:
            row.numbers = tuple(number + shift for number in row.numbers)
    whole.rows.extend(part.rows)
    for key, number in part.counts.items():
        whole.counts[key] = whole.counts.get(key, 0) + number
    for name, rows in part.tables.items():
        whole.tables.setdefault(name, []).extend({**row, "line": row["line"] + shift} for row in rows)
    while part.columns:
        # One at a time, so that no more than one table is held twice.
        name, columns = part.columns.popitem()
        whole.columns.setdefault(name, Columns(name)).merge(columns, shift)
    whole.quotes.update((line + shift, text) for line, text in part.quotes.items())
    whole.lines += part.lines
    whole.bytes += part.bytes
    whole.unparsed += part.unparsed
    whole.folded += part.folded
    whole.truncated |= part.truncated
    whole.note = whole.note or part.note
    whole.problems.extend(part.problems)
    whole.first_us = min((us for us in (whole.first_us, part.first_us) if us is not None), default=None)
    whole.last_us = max((us for us in (whole.last_us, part.last_us) if us is not None), default=None)


class _Memory:
    """A text held in memory, read like a file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, size: int, /) -> bytes:
        piece = self._data[self._at : self._at + size]
        self._at += len(piece)
        return piece


def texts(files: Mapping[str, str], literals: Literals, *, year: int = 2026) -> Ingested:
    """Parse texts held in memory as `ingest` parses files.

    Args:
        files: Relative path to content.
        literals: Strings whose records are to be kept.
        year: Year of time stamps without one.
    """
    scanner = _cached_scanner(literals)
    out = Ingested()
    for _order, (path, text) in enumerate(files.items()):
        source = Source(path, None, None, None, identify(path))
        partial = _parse(source, _Memory(text.encode("utf-8", "surrogatepass")), scanner, Budget(), None, year)
        out.partials.append(partial)
    return out


@lru_cache(maxsize=4)
def _cached_scanner(literals: Literals) -> Scanner:
    return Scanner(literals)
