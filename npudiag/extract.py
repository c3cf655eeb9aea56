"""Shrinks what lies on a node to a small file of partials, to be analysed elsewhere together with other nodes'."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npudiag.analyze import Options, choose, read
from npudiag.judging import literals
from npudiag.partials import carry, npd
from npudiag.result import Problem

if TYPE_CHECKING:
    from npudiag.engine.load import RulePack
    from npudiag.ingest import Progress

_NOT_READ = ("unknown", "skipped")


@dataclass(frozen=True, slots=True)
class Extract:
    """What was written.

    Attributes:
        path: The file.
        size: Its bytes.
        logs: Inputs it stands for.
        recognised: Those of a kind npudiag knows.
        read: Bytes they have.
        problems: What kept parts of the input from being read.
    """

    path: str
    size: int
    logs: int
    recognised: int
    read: int
    problems: tuple[Problem, ...]


def extract(
    paths: Sequence[str],
    target: str,
    pack: RulePack,
    options: Options | None = None,
    *,
    progress: Progress | None = None,
) -> Extract:
    """Read everything under `paths` and write what an analysis needs of it to `target`.

    Files of partials among the inputs are merged.

    Raises:
        UsageError: A path does not exist.
        OSError: `target` cannot be written.
    """
    options = options or Options()
    wanted = literals(choose(pack.rules, options)).literals()
    ingested = read(paths, wanted, options, progress)
    created = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    carry.name(ingested.partials, created)
    carry.sent_home(ingested.partials)
    size = npd.write(target, ingested.partials, wanted, ingested.problems, created)
    return Extract(
        path=target,
        size=size,
        logs=len(ingested.partials),
        recognised=sum(partial.kind not in _NOT_READ for partial in ingested.partials),
        read=sum(partial.bytes for partial in ingested.partials),
        problems=(*ingested.problems, *(problem for partial in ingested.partials for problem in partial.problems)),
    )
