"""Deliverables that hold nothing, or numbers that cannot be true: told, left out, and never taken for a fault."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sample_logs"))

from _gen.profile_db import write_db  # noqa: E402
from _gen.profile_job import Plan, Simulation  # noqa: E402
from _gen.profiles import write_text  # noqa: E402
from _gen.shapes import Folder  # noqa: E402

from npudiag.analyze import Options, analyze  # noqa: E402
from npudiag.engine.load import PackSource, load_pack, shipped_rules  # noqa: E402
from npudiag.result import Result  # noqa: E402
from npudiag.tables.store import Store  # noqa: E402

Change = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def pack() -> Any:
    return load_pack([PackSource(shipped_rules() / "profile", None, "shipped")], use_cache=False)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = Folder()
    write_text(Simulation(Plan(layers=2)), folder)
    folder.write(tmp_path / "job")
    return tmp_path / "job"


def run(target: Path, pack: Any) -> tuple[Result, Store]:
    result, store = analyze([str(target)], pack, Options(select=("PRO",), workers=1))
    assert not result.errors, result.errors
    return result, store


def change(job: Path, rank: int, name: str, how: Change) -> Path:
    file = next(path for path in job.rglob(name) if f"_4120{rank}_" in str(path))
    file.write_bytes(how(file.read_bytes()))
    return file


def told(result: Result, name: str) -> list[str]:
    return [problem.message for problem in result.coverage.problems if problem.path.endswith(name) and problem.lost]


def loud(result: Result) -> list[str]:
    return [finding.name for finding in result.findings if finding.severity != "info"]


NOTHING: dict[str, Change] = {
    "empty": lambda data: b"",
    "blank lines": lambda data: b"\n\n\n",
    "no header": lambda data: data.partition(b"\n")[2] or b"\n",
    "an error page": lambda data: b"<html><body>404 Not Found</body></html>\n",
    "other separators": lambda data: data.replace(b",", b";"),
    "other columns": lambda data: re.sub(rb"Computing|Duration|Count|Component|\"Communication ", b"Renamed ", data),
    "no text": lambda data: bytes(range(256)) * 8,
}
FILES = ("step_trace_time.csv", "kernel_details.csv", "op_statistic.csv", "memory_record.csv", "communication.json")


@pytest.mark.parametrize("how", NOTHING)
@pytest.mark.parametrize("name", FILES)
def test_a_deliverable_that_holds_nothing_is_told(name: str, how: str, job: Path, pack: Any) -> None:
    change(job, 0, name, NOTHING[how])
    result, store = run(job, pack)
    assert len(told(result, name)) == 1, result.coverage.problems
    assert not result.coverage.complete
    assert loud(result) == []
    assert {row["rank"] for row in store.rows("prof_steps")} >= {1, 2, 3}


def test_where_all_is_broken_there_is_no_healthy_job(tmp_path: Path, pack: Any) -> None:
    out = tmp_path / "node-a_1_20260304100000000_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    out.mkdir(parents=True)
    for name in ("step_trace_time.csv", "communication.json", "analysis.db"):
        (out / name).write_bytes(b"")
    result, _ = run(tmp_path, pack)
    assert {problem.path.rpartition("/")[2] for problem in result.coverage.problems} == {
        "step_trace_time.csv",
        "communication.json",
        "analysis.db",
    }
    assert result.verdict.status == "nothing-recognised"


def test_files_of_others_are_no_deliverables(tmp_path: Path, pack: Any) -> None:
    (tmp_path / "communication.json").write_text('{"channel": "mail", "to": []}\n')
    (tmp_path / "analysis.db").write_bytes(b"")
    result, _ = run(tmp_path, pack)
    assert result.coverage.problems == []


IMPOSSIBLE = {"negative": "-52000.5", "absent": "N/A", "letters": "abc", "astronomical": "1" + "0" * 30, "nan": "NaN"}


@pytest.mark.parametrize("value", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
@pytest.mark.parametrize("column", ["Computing", "Communication(Not Overlapped)", "Free"])
def test_a_step_that_cannot_be_true_is_left_out(column: str, value: str, job: Path, pack: Any) -> None:
    def edited(data: bytes) -> bytes:
        lines = data.decode().splitlines()
        cells = lines[2].split(",")
        cells[lines[0].split(",").index(column)] = value
        return "\n".join([*lines[:2], ",".join(cells), *lines[3:]]).encode() + b"\n"

    change(job, 0, "step_trace_time.csv", edited)
    result, store = run(job, pack)
    assert told(result, "step_trace_time.csv") and "line 3" in told(result, "step_trace_time.csv")[0]
    assert {row["step"] for row in store.rows("prof_steps") if row["rank"] == 0} == {21, 23}
    assert loud(result) == []


@pytest.mark.parametrize("value", ["-1.0", "1e30", '"N/A"', "null", '"abc"'])
def test_an_operation_of_unknown_length_makes_nobody_late(value: str, job: Path, pack: Any) -> None:
    pattern = re.compile(rb'"Elapse Time\(ms\)": [\d.]+')
    change(job, 0, "communication.json", lambda data: pattern.sub(f'"Elapse Time(ms)": {value}'.encode(), data))
    result, store = run(job, pack)
    assert told(result, "communication.json")
    assert loud(result) == []
    assert {row["rank"] for row in store.rows("prof_comm")} == {1, 2, 3}


@pytest.mark.parametrize("value", ["-1.0", "1e30"])
def test_links_that_cannot_be_true_are_left_out(value: str, job: Path, pack: Any) -> None:
    pattern = re.compile(rb'"Transit Time\(ms\)": [\d.]+')
    change(job, 0, "communication_matrix.json", lambda data: pattern.sub(f'"Transit Time(ms)": {value}'.encode(), data))
    result, store = run(job, pack)
    assert told(result, "communication_matrix.json")
    assert loud(result) == []
    assert {row["src"] for row in store.rows("prof_links")} == {1, 2, 3}


def test_kernels_without_a_duration_are_counted(job: Path, pack: Any) -> None:
    change(job, 0, "kernel_details.csv", lambda data: re.sub(rb"\t,\d+\.\d+,", b"\t,abc,", data, count=5))
    result, _ = run(job, pack)
    assert "durations of 5 kernels" in told(result, "kernel_details.csv")[0]


@pytest.mark.parametrize(("name", "said"), [("op_statistic.csv", "line 5"), ("kernel_details.csv", "fewer cells")])
def test_rows_that_are_cut_inside_a_table_are_told(name: str, said: str, job: Path, pack: Any) -> None:
    def cut(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join([*lines[:4], lines[4][:20] + b"\n", *lines[5:]])

    change(job, 0, name, cut)
    result, _ = run(job, pack)
    assert said in told(result, name)[0]


def test_a_trace_without_the_lane_of_uncovered_communication(job: Path, pack: Any) -> None:
    for file in job.rglob("step_trace_time.csv"):
        file.unlink()
    result, store = run(job, pack)
    rows = list(store.rows("prof_steps"))
    assert len(rows) == 4
    assert all(row["free_us"] < 0.05 * row["e2e_us"] < row["comm_not_overlapped_us"] * 2 for row in rows)
    assert "host-bound" not in [finding.name for finding in result.findings]


TASKS = {
    "no begin": "UPDATE TASK SET startNs = NULL WHERE rowid % 5 = 0",
    "negative begin": "UPDATE TASK SET startNs = -startNs WHERE rowid % 5 = 0",
    "no end in sight": "UPDATE TASK SET endNs = 9223372036854775807 WHERE rowid % 5 = 0",
    "the end first": "UPDATE TASK SET endNs = startNs - 5 WHERE rowid % 5 = 0",
}


@pytest.mark.parametrize("sql", TASKS.values(), ids=TASKS.keys())
def test_tasks_that_cannot_be_true_are_left_out(sql: str, tmp_path: Path, pack: Any) -> None:
    write_db(Simulation(Plan(ranks=3, layers=2, slow_rank=1)), tmp_path / "job", analysis=False)
    for file in tmp_path.rglob("*.db"):
        with closing(sqlite3.connect(file)) as db:
            db.execute(sql)
            db.commit()
    result, store = run(tmp_path / "job", pack)
    assert "kernels cannot be true" in told(result, "_profiler_0.db")[0]
    assert {row["step"] for row in store.rows("prof_steps")} == {21, 22, 23}
    assert all(row["e2e_us"] < 1e6 for row in store.rows("prof_steps"))
    assert "link-bandwidth-low" not in loud(result)
    late = next(finding for finding in result.findings if finding.name == "slow-rank")
    assert late.scope.ranks == [1]


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE StepTraceTime SET computing = -5",
        "UPDATE StepTraceTime SET free = 'abc'",
        "UPDATE CommAnalyzerTime SET elapse_time = 'abc'",
        "UPDATE CommAnalyzerTime SET elapse_time = 1e30",
    ],
)
def test_analyses_that_cannot_be_true_are_left_out(sql: str, tmp_path: Path, pack: Any) -> None:
    write_db(Simulation(Plan(ranks=3, layers=2)), tmp_path / "job")
    with closing(sqlite3.connect(sorted(tmp_path.rglob("analysis.db"))[0])) as db:
        db.execute(sql)
        db.commit()
    result, _ = run(tmp_path / "job", pack)
    assert "cannot be true" in told(result, "analysis.db")[0]
    assert loud(result) == []


def test_totals_of_cluster_documents_are_no_operations(tmp_path: Path, pack: Any) -> None:
    out = tmp_path / "cluster_analysis_output"
    out.mkdir()
    times = {"Communication Time Info": {"Elapse Time(ms)": 4.0, "Transit Time(ms)": 3.0}}
    step = {"hcom_allReduce__1_0_1@77": {"0": times, "1": times}, "Total Op Info": {"0": times, "1": times}}
    (out / "cluster_communication.json").write_text(json.dumps({"(0, 1)": {"step5": step}}))
    _, store = run(tmp_path, pack)
    assert {(row["rank"], row["op"], row["count"]) for row in store.rows("prof_comm")} == {
        (0, "allReduce", 1),
        (1, "allReduce", 1),
    }
