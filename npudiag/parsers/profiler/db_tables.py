"""Tables and columns of a profiler's database, asked for by name: schemas differ by version."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_MOST_ROWS = 20_000_000
_BLOCK = 1 << 16


class Database:
    """Tables and columns of one database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.tables: dict[str, dict[str, str]] = {}
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            quoted = str(name).replace('"', '""')
            columns = connection.execute(f'PRAGMA table_info("{quoted}")').fetchall()
            self.tables[str(name).upper()] = {str(column[1]).lower(): str(column[1]) for column in columns}

    def has(self, table: str, *columns: str) -> bool:
        """Whether a table with these columns is there."""
        known = self.tables.get(table)
        return known is not None and all(column.lower() in known for column in columns)

    def first(self, table: str, *columns: str) -> str:
        """Return the first of these columns that a table has, else NULL."""
        known = self.tables.get(table, {})
        return next((known[column.lower()] for column in columns if column.lower() in known), "NULL")

    def rows(self, sql: str) -> list[Any]:
        """Return the rows of a statement."""
        return self.connection.execute(sql).fetchmany(_MOST_ROWS)

    def each(self, sql: str) -> Iterator[Any]:
        """Yield the rows of a statement, without a list of all of them."""
        yield from self.connection.execute(sql)

    def texts(self) -> dict[int, str]:
        """Return what the numbers of table STRING_IDS stand for."""
        return dict(self.rows("SELECT id, value FROM STRING_IDS")) if self.has("STRING_IDS", "id", "value") else {}

    def numbers(self, sql: str, width: int) -> npt.NDArray[np.float64]:
        """Return the rows of a statement that gives numbers; those with a missing number are left out."""
        import numpy as np

        try:
            listed = np.fromiter(chain.from_iterable(self.connection.execute(sql)), dtype=np.float64)
        except TypeError:  # a number is missing
            whole = (row for row in self.connection.execute(sql) if None not in row)
            listed = np.fromiter(chain.from_iterable(whole), dtype=np.float64)
        return listed.reshape(-1, width)

    def whole_numbers(self, sql: str, width: int) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the rows of a statement that gives whole numbers, none of them missing, in blocks."""
        import numpy as np

        cursor = self.connection.execute(sql)
        while rows := cursor.fetchmany(_BLOCK):
            yield np.fromiter(chain.from_iterable(rows), dtype=np.int64).reshape(-1, width)


def real(value: Any) -> float | None:
    """Return a value as number, None where it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
