"""Keeps the records worth keeping, within bounds.

A storm writes one message a million times. Messages that read alike once their
numbers are masked share a group: every record is counted there, a few are kept.
Rules look at kept records only, so messages that a rule asks for are kept more
often (their numbers may be what the rule captures).
"""

from __future__ import annotations

import re

from npudiag.parsers.base import Budget, Group, Partial, Row

DIGITS = bytes(range(48)) + b"0" * 10 + bytes(range(58, 256))
"""Translation table that turns every digit into a zero."""

_NUMBERS = re.compile(rb"0x[0-9a-fA-F]+|0[0-9a-fA-F]{7,}|0+")
KEY_BYTES = 400
"""Messages that agree in so many bytes are taken as one."""


def masked(key: bytes) -> bytes:
    """Return `key` (digits already zeros) with numbers of any length and base made equal."""
    return _NUMBERS.sub(b"#", key)


class Collector:
    """Sorts records into groups and decides which to keep.

    Attributes:
        exact: Group by a record's first `KEY_BYTES` bytes with digits turned to zeros; the hot path reads it directly.
    """

    def __init__(self, partial: Partial, budget: Budget) -> None:
        self._partial = partial
        self._budget = budget
        self.exact: dict[bytes, Group] = {}
        self._masked: dict[bytes, Group] = {}
        self._other: Group | None = None
        self._quiet_rows = 0

    def new_key(self, key: bytes, level: str | None, module: str | None) -> Group:
        """Return the group of a key that `exact` does not hold; make it if need be."""
        canonical = masked(key)
        group = self._masked.get(canonical)
        if group is None:
            groups = self._partial.groups
            if len(groups) >= self._budget.groups:
                if self._other is None:
                    self._other = Group(len(groups), "(further messages)", None, None)
                    groups.append(self._other)
                return self._other
            group = Group(len(groups), canonical.decode("utf-8", "replace"), level, module)
            groups.append(group)
            self._masked[canonical] = group
        # Numbers of other lengths make other keys; past a bound they are looked up the slow way.
        if len(self.exact) < 8 * self._budget.groups:
            self.exact[key] = group
        return group

    def add(self, record: bytes, row: Row) -> None:
        """Count one record, whose row is made already, and keep it if there is room."""
        key = record[:KEY_BYTES].translate(DIGITS)
        group = self.exact.get(key) or self.new_key(key, row.level, row.module)
        group.count += 1
        group.last_line = max(group.last_line, row.line)
        hit = bool(row.hits)
        budget = self._budget
        if group.kept < (budget.hit_samples if hit else budget.samples) and self.room(hit):
            self.keep(group, row, hit)
        else:
            self._partial.folded += 1

    def room(self, hit: bool) -> bool:
        """Whether another row may be kept; half of the room is for records that rules ask for."""
        limit = self._budget.rows
        return len(self._partial.rows) < limit and (hit or self._quiet_rows < limit // 2)

    def keep(self, group: Group, row: Row, hit: bool) -> None:
        """Keep a row; the caller has asked `room`."""
        group.kept += 1
        row.group = group.index
        if not group.first_line:
            group.first_line = row.line
            group.first_us = row.time_us
        self._partial.rows.append(row)
        if not hit:
            self._quiet_rows += 1
