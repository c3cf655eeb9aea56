"""Whether cards of different physical super pods were declared one logical super pod: links between them cannot work.

Inside a super pod HCCL links cards over the pod's own network. ``HCCL_LOGIC_SUPERPOD_ID`` tells it who is in one; where
that joins cards of two physical pods, both ends only report that the link timed out, each with the pods it is in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from npudiag.analyses.pattern import Pattern
from npudiag.analyses.waits import Party, People
from npudiag.tables.records import LogRecord

LITERALS = ("nicType[VNIC_TYPE], logicSuperPodId[",)
"""Literals whose records this analysis reads; their records are kept for it."""

_PODS = Pattern(
    r"nicType\[VNIC_TYPE\], logicSuperPodId\[(?P<logic>[^\]\n]{1,64})\], phySuperPodId\[(?P<real>\d{1,10})\]"
)


@dataclass(frozen=True, slots=True)
class Mixed:
    """A logical super pod that spans physical ones.

    Attributes:
        logic: The name it was given.
        pods: Numbers of the physical super pods in it.
        parties: Who told to be in it.
        records: One line per physical super pod.
    """

    logic: str
    pods: tuple[int, ...]
    parties: tuple[Party, ...]
    records: tuple[LogRecord, ...]


def find(records: Iterable[LogRecord], people: People) -> Mixed | None:
    """Return the first logical super pod in which cards of several physical ones are, None where there is none."""
    seen: dict[str, dict[int, LogRecord]] = {}
    parties: dict[str, dict[Party, None]] = {}
    for record in records:
        pods = _PODS.search(record.text) if "logicSuperPodId[" in record.text else None
        if pods is None:
            continue
        seen.setdefault(pods["logic"], {}).setdefault(int(pods["real"]), record)
        party = people.waiter(record, None, None)
        if party is not None:
            parties.setdefault(pods["logic"], {})[party] = None
    for logic, real in seen.items():
        if len(real) > 1:
            return Mixed(logic, tuple(sorted(real)), tuple(parties.get(logic, {})), tuple(real.values()))
    return None
