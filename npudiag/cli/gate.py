"""When a gate fails."""

from __future__ import annotations

from collections.abc import Sequence

from npudiag.result import SEVERITIES, Result


def fails(result: Result, level: str, codes: Sequence[str]) -> bool:
    """Whether a finding is as grave as `level` or has a code that begins with one of `codes`.

    Suppressed findings do not count.
    """
    least = len(SEVERITIES) if level == "never" else [str(name) for name in SEVERITIES].index(level)
    return any(
        SEVERITIES.index(finding.severity) >= least or (bool(codes) and finding.code.startswith(tuple(codes)))
        for finding in result.findings
        if finding.suppressed is None
    )
