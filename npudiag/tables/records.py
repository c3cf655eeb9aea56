"""A kept log record with everything known about where it comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class LogRecord:
    """One row of table ``log``, plus what evidence needs.

    Attributes:
        hits: Ids of the literals that stand in it.
        raw: The lines as they stand in the file, where they differ from `text`.
        numbers: Physical line of each line of `text`, where they are not consecutive.
        count: Records of this message in this file, this one among them.
        order: Position of the file in the order of discovery.
    """

    file: str
    line: int
    text: str
    kind: str
    time_us: int | None = None
    level: str | None = None
    module: str | None = None
    pid: int | None = None
    tid: int | None = None
    process: str | None = None
    worker: str | None = None
    rank: int | None = None
    device: int | None = None
    node: str | None = None
    file_pid: int | None = None
    source: str | None = None
    code: str | None = None
    group: int = -1
    count: int = 1
    hits: tuple[int, ...] = ()
    raw: str | None = None
    numbers: tuple[int, ...] | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    order: int = 0

    def physical_line(self, index: int) -> int:
        """Return the physical line of the record's line `index` (from 0)."""
        if self.numbers is not None:
            return self.numbers[min(index, len(self.numbers) - 1)]
        return self.line + index
