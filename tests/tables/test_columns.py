"""Column tables: what goes in comes out, at any size, merged or not."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest

from npudiag.tables.columns import Columns
from npudiag.tables.store import Store


def filled(*rows: dict[str, Any]) -> Columns:
    columns = Columns("train_steps")
    columns.extend(rows)
    return columns


def test_missing_and_nan_differ() -> None:
    columns = filled({"step": 1, "loss": math.nan}, {"step": 2}, {"step": 3, "loss": 2.5})
    assert [columns.value("loss", index) for index in (1, 2)] == [None, 2.5]
    assert math.isnan(columns.value("loss", 0))
    assert columns.present("loss").tolist() == [True, False, True]
    assert math.isnan(columns.numbers("loss")[1])


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("step", 5.0, 5),
        ("step", "7", 7),
        ("step", 2**70, None),
        ("step", "x", None),
        ("step", math.inf, None),
        ("loss", "nan", math.nan),
        ("loss", 3, 3.0),
        ("loss", None, None),
        ("time", "2026-01-01T00:00:01", 1767225601000000),
        ("time", "soon", None),
        ("framework", 5, "5"),
    ],
)
def test_values_of_other_kinds(name: str, given: Any, kept: Any) -> None:
    columns = filled({"step": 1, "loss": 1.0, "time": 1, "framework": "hf"}, {name: given})
    got = columns.value(name, 1)
    assert got == kept or (math.isnan(kept) and math.isnan(got))
    assert columns.value("worker", 1) is None


def test_unknown_columns_are_dropped() -> None:
    columns = filled({"step": 1, "nonsense": 3})
    assert columns.size == 1 and not columns.has("nonsense")


def test_merge_shifts_lines_and_joins_texts() -> None:
    first = filled({"line": 1, "worker": "a"}, {"line": 2})
    second = filled({"line": 1, "worker": "b", "loss": 1.5}, {"line": 3, "worker": "a"})
    first.merge(second, 10)
    assert [first.value("line", index) for index in range(4)] == [1, 2, 11, 13]
    assert [first.value("worker", index) for index in range(4)] == ["a", None, "b", "a"]
    assert [first.value("loss", index) for index in range(4)] == [None, None, 1.5, None]


def test_a_copy_through_a_process_pool_goes_on() -> None:
    columns = pickle.loads(pickle.dumps(filled({"line": 1, "worker": "a"})))
    columns.append({"line": 2, "worker": "b", "loss": 1.0})
    assert [row["worker"] for row in columns.rows()] == ["a", "b"]


def test_fill_and_put() -> None:
    columns = filled({"line": 1}, {"line": 2})
    columns.fill("file", "a.log")
    columns.put("run", [0, 1])
    assert [(row["file"], row["run"]) for row in columns.rows()] == [("a.log", 0), ("a.log", 1)]


def test_frames_and_sql() -> None:
    store = Store()
    rows = [{"file": "a", "step": step, "loss": float(step), "time": step * 1_000_000} for step in range(5)]
    store.extend("train_steps", [*rows, {"file": "b"}])
    frame = store.table("train_steps")
    assert frame["loss"].isna().tolist() == [False] * 5 + [True]
    assert str(frame["step"].dtype) == "Int64" and str(frame["time"].dtype) == "datetime64[us]"
    found = store.query("SELECT file, max(loss) AS top, count(*) AS n FROM train_steps GROUP BY file ORDER BY file")
    assert found["n"].tolist() == [5, 1] and found["top"][0] == 4.0
    assert store.size("train_steps") == 6 and store.rows("train_steps")[5]["step"] is None


def test_a_row_costs_no_more_than_its_numbers() -> None:
    columns = Columns("train_steps")
    for step in range(20_000):
        columns.append({"line": step, "step": step, "loss": 2.0, "grad_norm": 1.0, "framework": "megatron"})
    assert len(pickle.dumps(columns)) < 20_000 * 40
