"""``npudiag extract``: a node's logs as a small file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from npudiag.cli import common
from npudiag.errors import Exit, UsageError

_SHOWN = 10


def write(
    paths: Sequence[str],
    target: Path,
    chosen: common.Settings,
    *,
    nodes: Sequence[str] | None,
    scheduler: str | None,
    strict: bool,
) -> Exit:
    """Write the file and say what it stands for.

    Raises:
        UsageError: There is nothing to read, or the file cannot be written.
    """
    from npudiag.extract import extract
    from npudiag.ingest import INTERRUPTED

    options = common.options_of(chosen, nodes=nodes, scheduler=scheduler)
    if not paths and not options.nodes:
        raise UsageError("there is nothing to shrink", hint="name a file, a folder or an archive")
    if not target.parent.is_dir():
        raise UsageError(f"{target.parent} is no folder", hint="make it first")
    with common.progress_bar() as progress:
        try:
            found = extract(paths, str(target), chosen.pack, options, progress=progress)
        except OSError as exc:
            raise UsageError(f"{target} cannot be written: {exc.strerror or exc}") from None
    for problem in found.problems[:_SHOWN]:
        print(f"npudiag: {problem.path}: {problem.message}", file=sys.stderr)
    if len(found.problems) > _SHOWN:
        print(f"npudiag: and {len(found.problems) - _SHOWN} more; the analysis will list them", file=sys.stderr)
    share = f" ({found.read / found.size:.0f} times smaller)" if found.read > found.size else ""
    print(f"{found.path}: {found.logs} logs, {_size(found.read)} in {_size(found.size)}{share}")
    if any(problem.reason == INTERRUPTED for problem in found.problems):
        return Exit.INTERRUPTED
    if not found.recognised:
        print("npudiag: none of them is of a kind npudiag knows", file=sys.stderr)
        return Exit.NOTHING_RECOGNISED
    return Exit.INCOMPLETE if strict and any(problem.lost for problem in found.problems) else Exit.OK


def _size(count: int) -> str:
    value = float(count)
    for unit in ("bytes", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
