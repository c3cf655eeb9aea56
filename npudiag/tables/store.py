"""Holds the rows of all tables; gives them out as records, DataFrames and SQL."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from npudiag.errors import QueryError, UsageError
from npudiag.tables.columns import Columns
from npudiag.tables.records import LogRecord
from npudiag.tables.schema import PANDAS_DTYPE, SQL_TYPE, TABLES, Table

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

_WORD = re.compile(r"[A-Za-z_]\w*")
_ASKS = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*(?:select|with|from|values|table)\b", re.IGNORECASE | re.DOTALL
)
_EPOCH = datetime.datetime(1970, 1, 1)


def moment(time_us: int | None) -> datetime.datetime | None:
    """Return microseconds since 1970 as a time without zone, None when out of range."""
    if time_us is None:
        return None
    try:
        return _EPOCH + datetime.timedelta(microseconds=time_us)
    except OverflowError:
        return None


class Store:
    """All rows of one run.

    Attributes:
        log: The kept log records, in order of discovery and line.
        quotes: By file, the text of those lines that hold a metric and were kept for evidence, by line.
        quotes_by_step: The same by line and step, where several steps stand in one line.
        memo: What analyses worked out once for several rules, by a name of their own.
    """

    def __init__(self) -> None:
        self.log: list[LogRecord] = []
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        self._frames: dict[str, pd.DataFrame] = {}
        self._columns = {name: Columns(name) for name, table in TABLES.items() if table.columnar}
        self.quotes: dict[str, dict[int, str]] = {}
        self.quotes_by_step: dict[str, dict[int, dict[int, str]]] = {}
        self.memo: dict[str, Any] = {}
        self._connection: duckdb.DuckDBPyConnection | None = None

    def columns(self, name: str) -> Columns:
        """Return a table that is kept column by column."""
        return self._columns[name]

    def take_over(self, columns: Columns) -> None:
        """Add all rows of `columns`, which are not to be used afterwards: a large table is not copied."""
        name = columns.table
        if self._columns[name].size:
            self._columns[name].merge(columns)
        else:
            self._columns[name] = columns
        self._frames.pop(name, None)

    def extend(self, name: str, rows: Iterable[dict[str, Any]]) -> None:
        """Add rows to a table other than ``log``; unknown columns are dropped, missing ones are null."""
        if name in self._columns:
            self._columns[name].extend(rows)
            self._frames.pop(name, None)
            return
        names = TABLES[name].names
        wanted = set(names)
        self._rows[name].extend(
            row if row.keys() == wanted else {column: row.get(column) for column in names} for row in rows
        )
        self._frames.pop(name, None)

    def rows(self, name: str) -> Sequence[dict[str, Any]]:
        """Return a table's rows as dictionaries."""
        self._known(name)
        if name in self._columns:
            times = [column.name for column in TABLES[name].columns if column.dtype == "time"]
            return [{**row, **{time: moment(row[time]) for time in times}} for row in self._columns[name].rows()]
        if name == "log" and not self._rows["log"]:
            return [self._log_row(record) for record in self.log]
        return self._rows[name]

    def empty(self, name: str) -> bool:
        """Whether a table has no rows; an unknown table has none."""
        if name == "log":
            return not self.log and not self._rows["log"] and not self._rows["log_counts"]
        return self.size(name) == 0

    def size(self, name: str) -> int:
        """Return the number of rows of a table."""
        if name in self._columns:
            return self._columns[name].size
        return len(self.log) if name == "log" else len(self._rows.get(name, ()))

    def table(self, name: str) -> pd.DataFrame:
        """Return a table as a DataFrame with the declared columns and dtypes.

        Raises:
            UsageError: There is no such table.
        """
        table = self._known(name)
        frame = self._frames.get(name)
        if frame is None:
            columns = self._columns.get(name)
            if columns is not None:
                import pandas as pd

                frame = pd.DataFrame({column: columns.series(column) for column in table.names})
            else:
                frame = _frame(table, self.rows(name))
            self._frames[name] = frame
        return frame

    def connect(self) -> duckdb.DuckDBPyConnection:
        """Return a locked in-memory database with all tables, still empty; `query` fills those that it reads.

        It can read nothing outside itself: external access is off and the configuration locked.
        """
        import duckdb

        connection = duckdb.connect(":memory:")
        for name, table in TABLES.items():
            columns = ", ".join(f'"{column.name}" {SQL_TYPE[column.dtype]}' for column in table.columns)
            connection.execute(f'CREATE TABLE "{name}" ({columns})')
        # One thread: the same rows then give the same answer each time, ties and unordered aggregates included.
        connection.execute("SET threads=1")
        connection.execute("SET enable_external_access=false")
        connection.execute("SET lock_configuration=true")
        return connection

    def _database(self, sql: str) -> duckdb.DuckDBPyConnection:
        """Return the database, the tables that `sql` may name filled: many rules ask for few tables."""
        if self._connection is None:
            self._connection = self.connect()
            self._loaded: dict[str, int] = {}
        connection = self._connection
        for name in {word.lower() for word in _WORD.findall(sql)} & TABLES.keys():
            size = self.size(name)
            if self._loaded.get(name, 0) == size:
                continue
            if self._loaded.get(name):
                connection.execute(f'DELETE FROM "{name}"')
            connection.register("_incoming", self.table(name))
            listed = ", ".join(f'"{column}"' for column in TABLES[name].names)
            connection.execute(f'INSERT INTO "{name}" SELECT {listed} FROM _incoming')
            connection.unregister("_incoming")
            self._loaded[name] = size
        return connection

    def query(self, sql: str, parameters: dict[str, Any] | None = None) -> pd.DataFrame:
        """Run one SELECT over the tables.

        Raises:
            QueryError: The text is not a single SELECT, or it failed.
        """
        import duckdb

        try:
            statements = duckdb.extract_statements(sql)
        except duckdb.Error as exc:
            raise QueryError(f"the statement cannot be read: {_first_line(exc)}") from exc
        # Some releases rewrite PRAGMA and the like to a SELECT before they tell its type.
        single = len(statements) == 1 and statements[0].type == duckdb.StatementType.SELECT
        if not single or not _ASKS.match(sql):
            raise QueryError(
                "only a single SELECT statement is allowed",
                hint="tables: " + ", ".join(TABLES),
            )
        connection = self._database(sql)
        try:
            frame: pd.DataFrame = connection.execute(sql, parameters or {}).fetch_df()
            return frame
        except duckdb.Error as exc:
            raise QueryError(f"the query failed: {_first_line(exc)}", hint="tables: " + ", ".join(TABLES)) from exc

    @staticmethod
    def _known(name: str) -> Table:
        table = TABLES.get(name)
        if table is None:
            raise UsageError(f"there is no table {name!r}", hint="tables: " + ", ".join(TABLES))
        return table

    @staticmethod
    def _log_row(record: LogRecord) -> dict[str, Any]:
        row = {name: getattr(record, name, None) for name in TABLES["log"].names}
        row["time"] = moment(record.time_us)
        return row


def _first_line(exc: Exception) -> str:
    return str(exc).strip().split("\n", 1)[0][:300]


def _frame(table: Table, rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    data = {}
    for column in table.columns:
        values = [row[column.name] for row in rows]
        if column.dtype == "int":
            # Ids beyond 64 bits come from hostile or broken input only.
            values = [value if value is None or -(2**63) <= value < 2**63 else None for value in values]
        if column.dtype == "str":
            values = [None if value is None else value.encode("utf-8", "replace").decode() for value in values]
        data[column.name] = pd.array(values, dtype=PANDAS_DTYPE[column.dtype])  # type: ignore[call-overload]
    return pd.DataFrame(data)
