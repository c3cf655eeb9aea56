"""Whether TLS is switched alike on all cards: a link between one that has it and one that has not never comes up.

The table of failed links tells the state of the card that wrote it; the device log of the network daemon tells the
switch at start-up.
"""

from __future__ import annotations

from collections.abc import Iterable

from npudiag.analyses.operators import Odd, odd_one_out
from npudiag.analyses.pattern import Pattern
from npudiag.analyses.waits import Party, People
from npudiag.tables.records import LogRecord

LITERALS = ("TLS SWITCH (",)
"""Literals whose records this analysis reads beside those of the waits; their records are kept for it."""

_ROW = Pattern(r"\|\s*(?:DISABLE|ENABLE)\s*\|")
_STATE = Pattern(r"\|\s*(?:client|server)\s*\|[^|]*\|\s*(DISABLE|ENABLE)\s*\|")
_SWITCH = Pattern(r"TLS SWITCH \(([01])\)")
_WORDS = {"0": "DISABLE", "1": "ENABLE"}


def find(records: Iterable[LogRecord], people: People) -> Odd | None:
    """Return who has TLS switched otherwise than the others; None where all are alike or only one tells."""
    states: dict[Party, tuple[str, LogRecord]] = {}
    for record in records:
        state: str | None = None
        if "|" in record.text and _ROW.search(record.text):
            row = _STATE.search(record.text)
            state = row[1] if row else None
        elif "TLS SWITCH (" in record.text:
            switch = _SWITCH.search(record.text)
            state = _WORDS[switch[1]] if switch else None
        party = people.waiter(record, None, None) if state is not None else None
        if state is not None and party is not None:
            states.setdefault(party, (state, record))
    if len({state for state, _ in states.values()}) < 2:
        return None
    return odd_one_out("tls", [(party, state, record) for party, (state, record) in states.items()], linking=True)
