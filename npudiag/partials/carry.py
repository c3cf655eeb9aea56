"""Partials taken over from another machine, and made ready to be taken there."""

from __future__ import annotations

import dataclasses
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b

from npudiag.discover.names import walk_order
from npudiag.discover.source import Source
from npudiag.errors import SourceError
from npudiag.parsers.base import Budget, Partial, Stream
from npudiag.parsers.scan import Literals
from npudiag.partials import SUFFIX
from npudiag.partials.npd import Reader
from npudiag.result import Problem

_INSIDE = "!/"
_FEWEST = 8


def name(partials: Iterable[Partial], created: str) -> None:
    """Give each partial that this run read a name which it keeps wherever it is carried.

    The same log gets the same name each time, so that what was carried twice counts once.

    Args:
        partials: What was read.
        created: When; tells standard inputs apart.
    """
    host = socket.gethostname()
    for partial in partials:
        if not partial.origin:
            source = partial.source
            member = source.path.partition(_INSIDE)[2] if source.container else ""
            place = "\0".join((host, source.location or f"{created} {source.path}", member))
            partial.origin = blake2b(place.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
            partial.home = source.path


def taken(
    source: Source, stream: Stream, head: bytes, own: Literals, budget: Budget, report: Callable[[Problem], None]
) -> Iterator[Partial]:
    """Yield the partials in a file of them.

    Args:
        source: The file.
        stream: What follows `head` in it.
        head: Its first bytes.
        own: Strings that this run looks for.
        budget: How many records may be taken in all.
        report: Called with what could not be read, here and where the file was written.

    Raises:
        SourceError: The file is damaged, or of another release.
    """
    try:
        reader = Reader(stream, head)
        numbers = _renumbered(source, reader, own, report)
        share = max(_FEWEST, budget.carried // max(reader.header.partials, 1))
        carrier = source.path.removesuffix(SUFFIX)
        for partial in reader:
            partial.source = dataclasses.replace(partial.source, location=None)
            partial.carrier = partial.carrier or carrier
            identity = partial.identity
            if identity.node is None and identity.host is None:
                partial.identity = dataclasses.replace(identity, node=partial.carrier)
            for row in partial.rows:
                row.hits = tuple(sorted(own_hit for hit in row.hits if (own_hit := numbers.get(hit)) is not None))
            _thin(partial, share)
            yield partial
    except SourceError as exc:
        raise SourceError(f"{source.path}: {exc.message}", reason=exc.reason, hint=exc.hint) from exc
    for problem in reader.end.problems if reader.end else ():
        report(problem)


def _renumbered(
    source: Source, reader: Reader, own: Literals, report: Callable[[Problem], None]
) -> dict[int, int | None]:
    """Return for each string the writer looked for its number in this run."""
    header = reader.header
    known = {pair: number for number, pair in enumerate(zip(own.texts, own.nocase, strict=True))}
    theirs = list(zip(header.texts, header.nocase, strict=False))
    missing = len(known.keys() - set(theirs))
    if missing:
        report(
            Problem(
                path=source.path,
                reason="other-rules",
                message=f"it was made with other rules: {missing} of the {len(known)} strings that this run looks for "
                "were not looked for; rules that need them cannot judge it",
            )
        )
    return {number: known.get(pair) for number, pair in enumerate(theirs)}


def _thin(partial: Partial, most: int) -> None:
    """Leave out records beyond `most`, those first that no rule asks for."""
    rows = partial.rows
    if len(rows) <= most:
        return
    kept = sorted(range(len(rows)), key=lambda index: (not rows[index].hits, index))[:most]
    partial.folded += len(rows) - most
    partial.rows = [rows[index] for index in sorted(kept)]


def settled(partials: Iterable[Partial]) -> list[Partial]:
    """Return the partials without repetitions, and in an order that does not depend on how they came here.

    Logs keep the path they had where they were read. Where two of them share one, each carrier's name goes in front of
    what it brought.
    """
    carried: dict[str, Partial] = {}
    own: list[Partial] = []
    for partial in partials:
        if not partial.origin:
            own.append(partial)
            continue
        other = carried.get(partial.origin)
        # Of two states of a log the longer is the later one.
        if other is None or (partial.bytes, partial.lines) > (other.bytes, other.lines):
            carried[partial.origin] = partial
    paths = Counter([*(partial.source.path for partial in own), *(partial.home for partial in carried.values())])
    apart = any(paths[partial.home] > 1 for partial in carried.values())
    for partial in carried.values():
        _place(partial, f"{partial.carrier}/{partial.home}" if apart else partial.home)
    return [*own, *sorted(carried.values(), key=lambda partial: (walk_order(partial.source.path), partial.origin))]


def sent_home(partials: Iterable[Partial]) -> None:
    """Give partials the paths back that they had where they were read."""
    for partial in partials:
        _place(partial, partial.home)


def _place(partial: Partial, path: str) -> None:
    partial.source = dataclasses.replace(partial.source, path=path)
    for problem in partial.problems:
        problem.path = path
