"""When findings happened, on one clock: the hosts' own clocks may be minutes apart."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from npudiag.analyses.clocks import Clocks
from npudiag.engine.hits import Hit
from npudiag.result import Finding

_UNSET_S = 365 * 86400.0
_EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when, in seconds since 1970 on the clock that most hosts have; None where it is not known.

    Times before 1971 come from clocks that were not set: they are of no use beside others.
    """

    first: float | None
    last: float | None


Spans = Mapping[int, Span]
"""By ``id(finding)``; what is not in it is taken from the finding's scope."""


def of(hit: Hit, clocks: Clocks) -> Span:
    """Return when a hit happened."""
    times = [clocks.corrected(record.node, record.time_us) for record in hit.records]
    known = [time / 1e6 for time in times if time is not None]
    first = hit.first_us / 1e6 if hit.first_us is not None else min(known, default=None)
    last = hit.last_us / 1e6 if hit.last_us is not None else max(known, default=None)
    return Span(first, last)


def span(finding: Finding, spans: Spans | None) -> Span:
    """Return when a finding happened."""
    known = spans.get(id(finding)) if spans else None
    return known if known is not None else Span(_seconds(finding.scope.first), _seconds(finding.scope.last))


def is_set(seconds: float | None) -> bool:
    """Whether a time is known and of a clock that was set."""
    return seconds is not None and seconds > _UNSET_S


def _seconds(text: str | None) -> float | None:
    return None if text is None else (datetime.datetime.fromisoformat(text) - _EPOCH).total_seconds()
