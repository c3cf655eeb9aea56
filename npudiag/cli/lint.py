"""Checks launch scripts and configurations before the launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from npudiag.errors import Exit, UsageError

if TYPE_CHECKING:
    from npudiag.result import Result
    from npudiag.tables.store import Store

CODES = ("LNT",)
"""Codes of the rules that judge scripts and configurations."""


def stated(text: str | None) -> tuple[str, str | None] | None:
    """Read ``--stack NAME[==RELEASE]``.

    Raises:
        UsageError: There is no such stack or release.
    """
    if text is None:
        return None
    from npudiag.advice.stack import parse

    try:
        return parse(text)
    except ValueError as exc:
        raise UsageError(str(exc)) from exc


def judge(result: Result, store: Store, level: str, ordinary: Exit) -> Exit:
    """Return the exit code: 1 for a finding from `level` on, 3 where there was nothing to check.

    Args:
        result: What the run found.
        store: Its tables.
        level: Severity from which on findings count.
        ordinary: The exit code of a run without such findings.
    """
    from npudiag.cli.gate import grave

    if grave(result, level, ()):
        return Exit.GATE_FAILED
    if ordinary == Exit.OK and store.empty("launch"):
        return Exit.NOTHING_RECOGNISED
    return ordinary


def selection(select: Sequence[str] | None) -> Sequence[str]:
    """Return which rules to run: those that judge launches, unless told otherwise."""
    return select or CODES
