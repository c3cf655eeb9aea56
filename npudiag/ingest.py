"""Paths in, filled tables out.

A unit of work is a file, an archive, or a byte range of a large file; its product is a
list of `Partial` values. Units are batched by bytes and given to a
`concurrent.futures.Executor`; small inputs are parsed in this process.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from npudiag.discover.remote import is_url
from npudiag.discover.source import Limits, Source
from npudiag.discover.streams import open_range, open_streams
from npudiag.discover.walk import discover, evidence_names, expanded, place_of
from npudiag.errors import SourceError
from npudiag.host.resources import Resources
from npudiag.parsers import HEAD_BYTES, choose, unloadable
from npudiag.parsers.base import Budget, Partial, Stream
from npudiag.parsers.normalise import plan
from npudiag.parsers.scan import Literals, Scanner
from npudiag.partials import MAGIC
from npudiag.pool import Failure, Pool, run_on
from npudiag.reading import Broken, Ingested, head_of, parse, parsed
from npudiag.result import Problem
from npudiag.tables.columns import Columns

INTERRUPTED = "interrupted"
"""Reason of the problem that says the user stopped the reading."""

RANGE_BYTES = 48 << 20
_SMALL_BYTES = 24 << 20
_SMALL_MEMORY = 256 << 20
_TASK_BYTES = 4 << 20
_BATCH_FILES = 64
_ROWS_IN_ALL = 120_000
_FEWEST_CARRIED = 400
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
    workers: int | None = None,
    nodes: Mapping[str, str] | None = None,
) -> Ingested:
    """Find, read and parse everything under `paths`.

    Args:
        paths: Files, folders, archives, or ``-`` for standard input.
        literals: Strings whose records are to be kept.
        resources: Says the bounds of the run; asked only where the input is large enough for it to matter.
        limits: Bounds on archives and numbers of files.
        progress: Told how far the work is.
        executor: Where to run the units; None decides by size.
        workers: How many tasks `executor` runs at a time; None: as many as this machine would.
        nodes: Path, one of `paths`, to the name of the node whose logs lie there.

    Raises:
        UsageError: A path does not exist.
    """
    limits = limits or Limits()
    found = discover(paths, limits)
    out = Ingested(problems=[*found.problems, *unloadable()])
    sources = _of_nodes(found.sources, paths, nodes) if nodes else found.sources
    units = [unit for order, source in enumerate(sources) for unit in split(source, order)]
    total = sum(unit.size for unit in units)
    bounds = resources() if total > _SMALL_BYTES else Resources(1, _SMALL_MEMORY)
    budget = _budget(len(units), bounds)
    batches = list(batch(units, workers=workers or bounds.workers))
    results: list[tuple[int, int, Partial]] = []
    done = 0
    work_there = partial(_work_there, literals=literals, budget=budget, limits=limits)
    outcomes: Iterator[tuple[list[Unit], Product | Failure]]
    if executor is not None:
        out.workers = workers or bounds.workers
        outcomes = run_on(executor, work_there, batches)
    elif bounds.workers > 1 and len(batches) > 1:
        out.workers = min(bounds.workers, len(batches))
        pool = Pool(partial(_processes, literals), work_there, _patience, _halves)
        outcomes = pool.run(batches, out.workers)
    else:
        scanner = Scanner(literals)
        outcomes = ((units_now, work(units_now, scanner, budget, limits)) for units_now in batches)
    try:
        for units_done, outcome in outcomes:
            product = _lost(units_done, outcome) if isinstance(outcome, Failure) else outcome
            results.extend(product.partials)
            out.problems.extend(product.problems)
            done += sum(unit.size for unit in units_done)
            if progress:
                progress(done, total)
    except KeyboardInterrupt:
        if not results:
            raise
        share = f"{100 * done / total:.0f} %" if total else "part"
        message = f"interrupted when {share} of the input was read; the rest was not looked at"
        out.problems.append(
            Problem(path=paths[0] if len(paths) == 1 else "all inputs", reason=INTERRUPTED, message=message)
        )
    out.partials = join(results)
    if any(found.origin for found in out.partials):
        from npudiag.partials.carry import settled

        out.partials = settled(out.partials)
    return out


def _of_nodes(sources: Sequence[Source], paths: Sequence[str], nodes: Mapping[str, str]) -> list[Source]:
    """Return the sources with the nodes that the user named."""
    given = [path for path in expanded(paths) if path != "-"]
    places = [place_of(path) for path in given]
    named = {name: nodes[path] for path, name in zip(given, evidence_names(places), strict=True) if path in nodes}

    def owner(path: str) -> str | None:
        return next(
            (node for name, node in named.items() if path == name or path.startswith((f"{name}/", f"{name}!"))), None
        )

    return [
        replace(source, identity=replace(source.identity, node=node)) if (node := owner(source.path)) else source
        for source in sources
    ]


def _processes(literals: Literals, workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=_context(), initializer=_prepare, initargs=(literals,))


def _patience(units: Sequence[Unit]) -> float:
    """Return the seconds after which reading `units` counts as hanging; the slowest text known is read in a tenth."""
    return 300 + sum(unit.size for unit in units) / 250_000


def _halves(units: Sequence[Unit]) -> list[list[Unit]]:
    """Cut a batch in two; a single unit cannot be cut."""
    middle = len(units) // 2
    return [list(units[:middle]), list(units[middle:])] if middle else []


def _lost(units: Sequence[Unit], failure: Failure) -> Product:
    """Return what stands for units that could not be read for a fault of ours."""
    product = Product()
    for unit in units:
        message = failure.message
        if unit.stop is not None:
            message += f" (bytes {unit.start} to {unit.stop})"
        product.problems.append(Problem(path=unit.source.path, reason=failure.reason, message=message))
        lost = _skipped(unit.source, message)
        lost.lines = _lines_in(unit) if unit.stop is not None else 0
        product.partials.append((unit.order, unit.part, lost))
    return product


def _lines_in(unit: Unit) -> int:
    """Count the lines of a range that was lost, so that those behind it keep their numbers."""
    lines = 0
    try:
        with Path(unit.source.location or "").open("rb") as file:
            file.seek(unit.start)
            left = (unit.stop or 0) - unit.start
            while left > 0 and (piece := file.read(min(left, 1 << 20))):
                lines += piece.count(b"\n")
                left -= len(piece)
    except OSError:
        pass
    return lines


def _skipped(source: Source, note: str) -> Partial:
    skipped = Partial(source, kind="skipped", identity=source.identity, note=note)
    skipped.truncated = True
    return skipped


def _budget(units: int, resources: Resources) -> Budget:
    """Share out the rows that the run may keep; a row takes about 2 KiB."""
    rows = min(_ROWS_IN_ALL, resources.memory_bytes // 8192)
    each = rows // max(units, 1)
    share = max(60, min(4000, each))
    return Budget(rows=share, groups=share, carried=max(_FEWEST_CARRIED, each))


def split(source: Source, order: int) -> Iterator[Unit]:
    """Yield the units of a source: byte ranges where it is large and its records can be told apart."""
    size = source.size or 0
    if (
        source.container
        or source.location is None
        or is_url(source.location)
        or size <= RANGE_BYTES + (RANGE_BYTES >> 1)
    ):
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
                found = parse(unit.source, stream, scanner, budget, unit.parser)
                found.part = unit.part
                product.partials.append((unit.order, unit.part, found))
            else:
                for source, member in open_streams(unit.source, limits, product.problems.append):
                    for found in _read(source, member, scanner, budget, product.problems.append):
                        product.partials.append((unit.order, 0, found))
        except SourceError as exc:
            product.problems.append(Problem(path=unit.source.path, reason=exc.reason, message=exc.message))
            if len(product.partials) == before:
                product.partials.append((unit.order, unit.part, _skipped(unit.source, exc.message)))
    return product


def _read(
    source: Source, stream: Stream, scanner: Scanner, budget: Budget, report: Callable[[Problem], None]
) -> Iterator[Partial]:
    """Yield what a stream holds: one partial, or those that were carried here in it."""
    head, broken = head_of(stream)
    if head.startswith(MAGIC):
        from npudiag.partials.carry import taken

        yield from taken(source, stream if broken is None else Broken(broken), head, scanner.literals, budget, report)
    else:
        yield parsed(source, stream, head, broken, scanner, budget, None)


_scanner: Scanner | None = None


def _prepare(literals: Literals) -> None:
    """Make a worker process ready; it ends with the process that made it, however that ends."""
    global _scanner
    # Ctrl-C reaches every process of a terminal; the one that made the workers says what becomes of them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _scanner = Scanner(literals)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work_there(units: Sequence[Unit], literals: Literals, budget: Budget, limits: Limits) -> Product:
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
    """Put the ranges of each file together again, line numbers counted from the file's start.

    What lies behind a range that is missing is left out, for its lines have no numbers.
    """
    out: list[Partial] = []
    current: tuple[int, Partial] | None = None
    expected = 0
    for order, part, found in sorted(results, key=lambda item: (item[0], item[1])):
        if current is None or current[0] != order or part == 0:
            if part:
                found = _skipped(found.source, "its first part was not read")
            current = (order, found)
            expected = -1 if part else 1
            out.append(found)
        elif part == expected:
            expected += 1
            append(current[1], found)
        else:
            expected = -1
            current[1].truncated = True
    return out


def append(whole: Partial, part: Partial) -> None:
    """Join what follows in the same log to `whole`; `part` is used up."""
    shift = whole.lines
    if whole.kind == "skipped":
        whole.kind = part.kind
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
    whole.quotes_by_step.update((line + shift, texts) for line, texts in part.quotes_by_step.items())
    whole.lines += part.lines
    whole.bytes += part.bytes
    whole.unparsed += part.unparsed
    whole.folded += part.folded
    whole.truncated |= part.truncated
    whole.note = whole.note or part.note
    whole.problems.extend(part.problems)
    whole.first_us = min((us for us in (whole.first_us, part.first_us) if us is not None), default=None)
    whole.last_us = max((us for us in (whole.last_us, part.last_us) if us is not None), default=None)
