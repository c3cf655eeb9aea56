"""Tables as DataFrames and as SQL."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from npudiag.errors import QueryError, UsageError
from npudiag.tables.records import LogRecord
from npudiag.tables.schema import PANDAS_DTYPE, TABLES
from npudiag.tables.store import Store


@pytest.fixture
def store() -> Store:
    filled = Store()
    filled.log.append(
        LogRecord(
            file="a.log", line=3, text="boom \ud800 \x00", kind="slog", time_us=1_000_000, level="ERROR", pid=2**70
        )
    )
    filled.extend("files", [{"file": "a.log", "kind": "slog", "lines": 9, "truncated": False, "nonsense": 1}])
    return filled


def test_every_table_has_its_declared_columns_and_dtypes(store: Store) -> None:
    for name, table in TABLES.items():
        frame = store.table(name)
        assert tuple(frame.columns) == table.names
        for column in table.columns:
            assert str(frame[column.name].dtype) == PANDAS_DTYPE[column.dtype], (name, column.name)


def test_values_arrive(store: Store) -> None:
    row = store.table("log").iloc[0]
    assert (row["file"], row["line"], row["level"]) == ("a.log", 3, "ERROR")
    assert row["time"] == datetime.datetime(1970, 1, 1, 0, 0, 1)
    assert row.isna()["pid"]
    assert store.query("select kind, lines from files").to_dict("records") == [{"kind": "slog", "lines": 9}]


def test_parameters_are_bound(store: Store) -> None:
    assert len(store.query("select * from log where line = $line", {"line": 3})) == 1
    assert len(store.query("select * from log where line = $line", {"line": 4})) == 0


@pytest.mark.parametrize(
    "sql",
    [
        "drop table log",
        "select 1; select 2",
        "copy log to 'x.csv'",
        "insert into log select * from log",
        "set memory_limit='1GB'",
        "pragma database_list",
        "attach 'x.db'",
        "install httpfs",
        "",
        "selec",
        "select * from nothing",
    ],
)
def test_only_a_single_select_is_allowed(store: Store, sql: str) -> None:
    with pytest.raises(QueryError):
        store.query(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('{path}')",
        "select * from '{path}'",
        "select * from read_text('{path}')",
        "select * from glob('/*')",
        "select getenv('HOME')",
    ],
)
def test_nothing_outside_can_be_read(store: Store, sql: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    with pytest.raises(QueryError):
        store.query(sql.format(path=secret))


def test_an_unknown_table_is_named_with_the_known_ones(store: Store) -> None:
    with pytest.raises(UsageError) as caught:
        store.table("logs")
    assert "logs" in caught.value.message and "log_counts" in caught.value.hint


def test_emptiness(store: Store) -> None:
    assert not store.empty("log")
    assert store.empty("processes")
    assert Store().empty("log")
