"""Which worker failed first is told by time, not by the order of printing."""

from __future__ import annotations

from typing import Any

from npudiag.analyses import failures
from npudiag.tables.store import Store


def first(*rows: dict[str, Any]) -> dict[str, Any]:
    store = Store()
    store.extend("worker_failures", rows)
    found = failures.first(store)
    assert found is not None
    return found


def test_the_earliest_counts_not_the_one_named() -> None:
    found = first(
        {"rank": 8, "pid": 1, "exit_code": -6, "signal": "SIGABRT", "named": True, "time": "2026-03-02T10:11:20"},
        {"rank": 10, "pid": 2, "exit_code": 1, "named": False, "time": "2026-03-02T10:11:12"},
    )
    assert found["first"]["rank"] == 10 and found["workers"] == 2 and found["by"] == "time"


def test_in_the_same_second_the_one_named_counts() -> None:
    found = first(
        {"rank": 3, "pid": 1, "exit_code": 1, "named": False, "time": "2026-03-02T10:11:12"},
        {"rank": 0, "pid": 2, "exit_code": 1, "named": True, "time": "2026-03-02T10:11:12"},
    )
    assert found["first"]["rank"] == 0


def test_who_was_ended_by_the_launcher_does_not_come_first() -> None:
    found = first(
        {"rank": 11, "pid": 1, "exit_code": -15, "signal": "SIGTERM", "named": False, "time": "2026-03-02T10:11:10"},
        {"rank": 10, "pid": 2, "exit_code": 1, "named": False, "time": "2026-03-02T10:11:12"},
    )
    assert found["first"]["rank"] == 10


def test_without_times_the_order_is_that_of_the_log() -> None:
    found = first({"local_rank": 2, "pid": 5, "exit_code": -9, "signal": "SIGKILL", "named": False})
    assert found["by"] == "order in the log" and found["first"]["signal"] == "SIGKILL"


def test_nothing_is_said_where_no_launcher_speaks() -> None:
    assert failures.first(Store()) is None
