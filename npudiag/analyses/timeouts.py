"""Time-outs of collectives: what they are set to and by whom, and how long ranks really waited.

HCCL prints the value in effect for each process (``HCCL_EXEC_TIMEOUT set by environment to [600]s``); a launch script
or an environment dump tells what somebody meant to set. The wait itself is the time between the launch of the operator
and the error, and the spread is that between the first and the last rank that gave up: a time-out longer than the
spread would have let the slowest rank catch up, where it is merely slow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from npudiag.analyses.clocks import Clocks, median
from npudiag.analyses.operators import Operators
from npudiag.analyses.pattern import Pattern
from npudiag.tables.records import LogRecord

LITERALS = ("HCCL_EXEC_TIMEOUT set by", "HCCL_CONNECT_TIMEOUT set by")
"""Literals whose records this analysis reads; their records are kept for it."""

NAMES = ("HCCL_EXEC_TIMEOUT", "HCCL_CONNECT_TIMEOUT")
_SET = Pattern(r"(HCCL_(?:EXEC|CONNECT)_TIMEOUT) set by (\w+)(?: variable)? to \[(\d{1,9})\] ?s")
_GAVE_UP = Pattern(r"wait socket establish timeout|EI0006|Transport init error")


@dataclass(frozen=True, slots=True)
class Setting:
    """A time-out as it was in effect or as somebody meant to set it.

    Attributes:
        name: ``HCCL_EXEC_TIMEOUT`` or ``HCCL_CONNECT_TIMEOUT``.
        seconds: Value.
        by: ``default``, ``environment`` or ``config`` as HCCL prints it; ``launch`` for what a script sets.
        processes: Processes that print it.
        file, line: Where the first of them does.
    """

    name: str
    seconds: int
    by: str
    processes: int
    file: str
    line: int


@dataclass(slots=True)
class Timeouts:
    """Settings and observed waits.

    Attributes:
        settings: In effect, most common first.
        meant: Values that launch scripts set.
        waited_s: Median time from the launch of the operator to the error, in seconds.
        spread_s: Time between the first and the last rank that gave up, in seconds, clocks corrected.
        ranks: Ranks behind `spread_s`.
        link: Whether the spread is that of link set-up (HCCL_CONNECT_TIMEOUT) rather than of running collectives.
    """

    settings: list[Setting] = field(default_factory=list)
    meant: list[Setting] = field(default_factory=list)
    waited_s: float | None = None
    spread_s: float | None = None
    ranks: int = 0
    link: bool = False

    def of(self, name: str) -> list[Setting]:
        """Return what is known of a time-out to have been in effect."""
        return [setting for setting in self.settings if setting.name == name]

    def facts(self) -> dict[str, Any]:
        """Return it for the document; empty where nothing is known."""
        if not self.settings and self.spread_s is None:
            return {}
        out: dict[str, Any] = {
            "settings": [
                {"name": s.name, "seconds": s.seconds, "set_by": s.by, "processes": s.processes} for s in self.settings
            ],
        }
        if self.meant:
            out["launch"] = [{"name": s.name, "seconds": s.seconds, "at": f"{s.file}:{s.line}"} for s in self.meant]
        if self.waited_s is not None:
            out["waited_s"] = round(self.waited_s, 1)
        if self.spread_s is not None:
            out |= {"spread_s": round(self.spread_s, 1), "ranks": self.ranks}
        return out


def find(
    records: Iterable[LogRecord], launch: Iterable[Mapping[str, Any]], operators: Operators, clocks: Clocks
) -> Timeouts:
    """Read the settings and measure the waits.

    Args:
        records: Kept log records.
        launch: Rows of table ``launch``.
        operators: In which operators the ranks gave up.
        clocks: Clocks of the hosts.
    """
    effective: Counter[tuple[str, int, str]] = Counter()
    places: dict[tuple[str, int, str], LogRecord] = {}
    linked: dict[tuple[str | None, int | None], int] = {}
    for record in records:
        if "_TIMEOUT set by" in record.text:
            for match in _SET.finditer(record.text):
                key = (match[1], int(match[3]), match[2])
                effective[key] += 1
                places.setdefault(key, record)
        elif record.module == "HCCL" and record.level == "ERROR" and _GAVE_UP.search(record.text):
            at = clocks.corrected(record.node, record.time_us)
            who = (record.node, record.pid)
            if at is not None and at < linked.get(who, at + 1):
                linked[who] = at
    out = Timeouts(
        settings=[
            Setting(*key, processes=number, file=places[key].file, line=places[key].line)
            for key, number in effective.most_common()
        ],
        meant=[
            Setting(str(row["key"]), int(row["value"]), "launch", 0, str(row["file"]), int(row["line"] or 0))
            for row in launch
            # What HCCL prints itself stands in that table as well.
            if row["key"] in NAMES and row["source"] != "log" and str(row["value"]).isdigit() and len(row["value"]) < 10
        ],
    )
    _measure(out, operators, clocks, sorted(linked.values()))
    return out


def _measure(out: Timeouts, operators: Operators, clocks: Clocks, linked: Sequence[int]) -> None:
    largest = max(operators.ops.values(), key=len, default=[])
    failed = [at for op in largest if (at := clocks.corrected(op.party.node, op.failed_us)) is not None]
    waited = [(op.failed_us - op.launched_us) / 1e6 for op in largest if op.failed_us and op.launched_us]
    if waited and 0 < median(waited) < 7 * 86400:
        out.waited_s = median(waited)
    times = failed if len(failed) > 1 else linked
    if len(times) > 1:
        out.spread_s, out.ranks = (max(times) - min(times)) / 1e6, len(times)
        out.link = times is linked
