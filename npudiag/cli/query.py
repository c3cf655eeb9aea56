"""Prints what a SQL question brings."""

from __future__ import annotations

import sys

from npudiag.tables.schema import TABLES
from npudiag.tables.store import Store


def answer(store: Store, sql: str | None, output: str) -> None:
    """Run `sql` and print its rows as a table, CSV or JSON lines; list the tables without it.

    Raises:
        QueryError: The text is not a single SELECT, or it failed.
    """
    if sql is None:
        _list_tables(store)
        return
    frame = store.query(sql)
    if output == "csv":
        frame.to_csv(sys.stdout, index=False)
    elif output == "json":
        frame.to_json(sys.stdout, orient="records", lines=True, date_format="iso", force_ascii=False)
    else:
        import pandas as pd

        with pd.option_context(
            "display.max_rows", 200, "display.max_columns", 50, "display.width", 200, "display.max_colwidth", 100
        ):
            print(frame.to_string(index=False) if len(frame) <= 200 else frame)


def _list_tables(store: Store) -> None:
    for table in TABLES.values():
        print(f"{table.name} ({store.size(table.name):,} rows): {table.doc}")
        for column in table.columns:
            unit = f" [{column.unit}]" if column.unit else ""
            print(f"    {column.name:<14} {column.dtype:<6}{unit} {column.doc}")
