"""Compares two runs, and judges the second one where that is asked for."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from npudiag.cli import common
from npudiag.errors import Exit, UsageError

if TYPE_CHECKING:
    from npudiag.cli.common import Settings
    from npudiag.comparison.model import Comparison


def percent(text: str | None) -> float | None:
    """Read ``5`` or ``5%``.

    Raises:
        UsageError: It is no number of percent.
    """
    if text is None:
        return None
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"--fail-on-regression must be a number of percent, like 5, not {text!r}")
    return value


def run(
    a: str,
    b: str,
    chosen: Settings,
    *,
    regression_pct: float | None,
    severity: str | None,
    allow_incomplete: bool,
) -> Comparison:
    """Compare two paths, and judge B where a bound is given."""
    from npudiag.analyze import Options
    from npudiag.comparison.run import compare, judge

    options = Options(
        select=chosen.select,
        ignore=chosen.ignore,
        params=chosen.config.params,
        workers=chosen.workers,
        memory_mb=chosen.memory_mb,
        suppress=chosen.config.suppress,
    )
    found = compare(a, b, pack=chosen.pack, options=options, command=("npudiag", *sys.argv[1:]))
    if regression_pct is not None or severity is not None:
        judge(found, regression_pct=regression_pct, severity=severity, allow_incomplete=allow_incomplete)
    return found


def emit(comparison: Comparison, lang: str, outputs: Sequence[tuple[str, str | None]], *, verbosity: int) -> None:
    """Write what is asked for, and tell the rest on the terminal unless stdout is taken.

    Args:
        comparison: The document.
        lang: ``en`` or ``zh``.
        outputs: ``json`` and ``html`` with their files; ``-`` is stdout.
        verbosity: -1 for one line, 0 for one screen, more for all.
    """
    from npudiag.comparison.model import encode
    from npudiag.report import compare_terminal

    for name, target in outputs:
        if target is None:
            continue
        if name == "html":
            from npudiag.report.html.compare import render

            common.write(target, render(comparison, lang=lang))
        else:
            common.write(target, encode(comparison))
    if all(target != "-" for _, target in outputs):
        common.print_lines(
            lambda width: compare_terminal.render(comparison, lang=lang, width=width, verbosity=verbosity)
        )


def exit_code(comparison: Comparison) -> Exit:
    """Return the exit code: 1 where B failed, 3 where a side tells nothing, 4 where it could not be judged."""
    gate = comparison.gate
    if gate is not None and gate.status == "failed":
        return Exit.GATE_FAILED
    if not (comparison.a.recognised and comparison.b.recognised):
        return Exit.NOTHING_RECOGNISED
    if gate is not None and gate.status == "incomplete":
        return Exit.INCOMPLETE
    return Exit.OK
