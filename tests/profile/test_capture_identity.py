"""Whose a file is where nothing says so, and what lies there twice or in pieces."""

from __future__ import annotations

import csv
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sample_logs"))

from _gen.profile_db import write_db  # noqa: E402
from _gen.profile_job import Plan, Simulation  # noqa: E402
from _gen.profiles import communication, matrix, write_text  # noqa: E402
from _gen.shapes import Folder  # noqa: E402

from npudiag.analyze import Options, analyze  # noqa: E402
from npudiag.engine.load import PackSource, load_pack, shipped_rules  # noqa: E402
from npudiag.result import Finding, Result  # noqa: E402
from npudiag.tables.store import Store  # noqa: E402

SLOW = Plan(ranks=3, layers=2, slow_rank=1)
SUMMARY = {
    "Name": "Op Name",
    "Type": "OP Type",
    "Accelerator Core": "Task Type",
    "Start Time(us)": "Task Start Time(us)",
    "Duration(us)": "Task Duration(us)",
    "Wait Time(us)": "Task Wait Time(us)",
}


@pytest.fixture(scope="module")
def pack() -> Any:
    return load_pack([PackSource(shipped_rules() / "profile", None, "shipped")], use_cache=False)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = Folder()
    write_text(Simulation(SLOW), folder)
    folder.write(tmp_path / "job")
    return tmp_path / "job" / "profile"


def run(target: Path, pack: Any) -> tuple[Result, Store]:
    result, store = analyze([str(target)], pack, Options(select=("PRO",), workers=1))
    assert not result.errors, result.errors
    return result, store


def late(result: Result) -> Finding:
    return next(finding for finding in result.findings if finding.name == "slow-rank")


def sums(store: Store) -> dict[tuple[Any, ...], tuple[int, float]]:
    found: dict[tuple[Any, ...], tuple[int, float]] = {}
    for row in store.rows("prof_kernels"):
        key = (row["rank"], row["type"], row["core"])
        assert key not in found, f"two rows of {key}"
        found[key] = (row["count"], row["total_us"])
    return found


def test_monitors_write_all_ranks_into_one_folder(tmp_path: Path, pack: Any) -> None:
    write_db(Simulation(SLOW), tmp_path / "dbs", analysis=False, name="msmonitor_412_20260304100000000_{rank}.db")
    for file in sorted((tmp_path / "dbs").rglob("*.db")):
        (tmp_path / "job").mkdir(exist_ok=True)
        shutil.copy(file, tmp_path / "job" / file.name)
    result, store = run(tmp_path / "job", pack)
    assert result.coverage.ranks == [0, 1, 2]
    assert len({(row["rank"], row["step"]) for row in store.rows("prof_steps")}) == 9
    assert late(result).scope.ranks == [1]


def test_without_its_map_a_database_tells_its_rank_by_its_name(tmp_path: Path, pack: Any) -> None:
    write_db(Simulation(SLOW), tmp_path / "dbs", analysis=False)
    (tmp_path / "job").mkdir()
    for file in sorted((tmp_path / "dbs").rglob("*.db")):
        with closing(sqlite3.connect(file)) as db:
            db.execute("DELETE FROM RANK_DEVICE_MAP")
            db.commit()
        shutil.copy(file, tmp_path / "job" / file.name)
    result, _ = run(tmp_path / "job", pack)
    assert late(result).scope.ranks == [1]


def test_captures_that_tell_no_rank_are_numbered_by_their_device(job: Path, pack: Any) -> None:
    for number, capture in enumerate(sorted(job.iterdir())):
        for file in (*capture.glob("profiler_info*"), *capture.glob("profiler_metadata*")):
            file.unlink()
        capture.rename(job / f"card{number}")
    result, _ = run(job, pack)
    assert late(result).scope.ranks == [1]
    said = [problem for problem in result.coverage.problems if "numbered by node and device" in problem.message]
    assert len(said) == 1 and not said[0].lost


def test_captures_of_unknown_ranks_are_not_taken_for_one(job: Path, pack: Any) -> None:
    for number, capture in enumerate(sorted(job.iterdir())):
        for file in [path for path in capture.rglob("*") if path.is_file() and path.name != "step_trace_time.csv"]:
            file.unlink()
        steps = capture / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv"
        steps.write_text("\n".join(line.partition(",")[2] for line in steps.read_text().splitlines()) + "\n")
        capture.rename(job / f"card{number}")
    result, _ = run(job, pack)
    assert result.facts["profile"][0]["ranks"] == 3


def test_a_copy_beside_renamed_captures_is_left_out(job: Path, pack: Any) -> None:
    for number, capture in enumerate(sorted(job.iterdir())):
        capture.rename(job / f"card{number}")
    shutil.copytree(job / "card0", job / "card0-copy")
    result, store = run(job, pack)
    assert [problem.path.rpartition("/")[2] for problem in result.coverage.problems] == ["card0-copy"]
    assert len(store.rows("prof_steps")) == 9
    assert late(result).scope.ranks == [1]
    assert len([finding for finding in result.findings if finding.name == "slow-rank"]) == 1


Rows = tuple[list[str], list[list[str]]]


def table(file: Path) -> Rows:
    with file.open(newline="") as lines:
        head, *rows = csv.reader(lines)
    return head, rows


def put(file: Path, head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(head)
        writer.writerows(rows)


def in_slices(file: Path, head: list[str], rows: list[list[str]]) -> None:
    half = len(rows) // 2
    put(file.parent / "op_summary_slice_0_20260304100500.csv", head, rows[:half])
    put(file.parent / "op_summary_slice_1_20260304100500.csv", head, rows[half:])


def twice(file: Path, head: list[str], rows: list[list[str]]) -> None:
    put(file.parent / "op_summary_20260304100500.csv", head, rows[: len(rows) // 2])
    put(file.parent / "op_summary_20260304110500.csv", head, rows)


def in_nanoseconds(file: Path, head: list[str], rows: list[list[str]]) -> None:
    times = [index for index, name in enumerate(head) if is_time(name)]
    for row in rows:
        for index in times:
            whole, _, part = row[index].strip().partition(".")
            row[index] = str(int(whole) * 1000 + int(part.ljust(3, "0")[:3] or 0)) if whole.isdigit() else row[index]
    names = [name.replace("(us)", "(ns)") if index in times else name for index, name in enumerate(head)]
    put(file.parent / "op_summary_20260304100500.csv", names, rows)


def is_time(name: str) -> bool:
    return name.startswith("Task ") and name.endswith("(us)")


@pytest.mark.parametrize("how", [in_slices, twice, in_nanoseconds])
def test_kernel_lists_in_other_forms_give_the_same_sums(
    how: Callable[[Path, list[str], list[list[str]]], None], job: Path, pack: Any
) -> None:
    for file in job.rglob("op_statistic.csv"):
        file.unlink()
    _, before = run(job, pack)
    for file in sorted(job.rglob("kernel_details.csv")):
        head, rows = table(file)
        how(file, [SUMMARY.get(name, name) for name in head], rows)
        file.unlink()
    result, after = run(job, pack)
    assert {key: count for key, (count, _) in sums(after).items()} == {
        key: count for key, (count, _) in sums(before).items()
    }
    for key, (_, total) in sums(after).items():
        assert total == pytest.approx(sums(before)[key][1])
    assert result.coverage.complete
    assert any("older exports" in problem.message for problem in result.coverage.problems) == (how is twice)


def test_stages_that_each_step_lists_are_counted_once(tmp_path: Path, pack: Any) -> None:
    out = tmp_path / "cluster_analysis_output"
    out.mkdir()
    head = "Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble"
    lines = [head]
    for step in (1, 2, 3):
        for rank in range(4):
            work = 80_000 if rank > 1 else 60_000
            lines.append(f"{step},rank,{rank},{work},{95_000 - work},0,{95_000 - work},5000,100000,0")
        lines.append(f'{step},stage,"(0, 1)",60000,35000,0,35000,5000,100000,0')
        lines.append(f'{step},stage,"(2, 3)",80000,15000,0,15000,5000,100000,0')
    (out / "cluster_step_trace_time.csv").write_text("\n".join(lines) + "\n")
    result, store = run(tmp_path, pack)
    assert {(row["rank"], row["pp_stage"]) for row in store.rows("prof_steps")} == {(0, 0), (1, 0), (2, 1), (3, 1)}
    uneven = next(finding for finding in result.findings if finding.name == "pipeline-stage-imbalance")
    assert (uneven.captures["stage"], uneven.scope.ranks) == (1, [2, 3])


def _cluster(target: Path, names: tuple[str, str, str], elapsed: str, transport: str) -> None:
    simulation = Simulation(Plan(ranks=4, layers=2, slow_rank=1, slow_link=(0, 3)))
    target.mkdir(parents=True)
    with closing(sqlite3.connect(target / "cluster_analysis.db")) as db:
        db.executescript(
            "CREATE TABLE ClusterStepTraceTime (step TEXT, type TEXT, [index] TEXT, computing NUMERIC,"
            " communication_not_overlapped NUMERIC, overlapped NUMERIC, communication NUMERIC, free NUMERIC,"
            " stage NUMERIC, bubble NUMERIC, preparing NUMERIC);"
            f"CREATE TABLE {names[0]} (step TEXT, rank_id INTEGER, hccl_op_name TEXT, group_name TEXT,"
            f" start_timestamp NUMERIC, {elapsed} NUMERIC, transit_time NUMERIC, wait_time NUMERIC,"
            " synchronization_time NUMERIC, idle_time NUMERIC);"
            f"CREATE TABLE {names[1]} (step TEXT, rank_id INTEGER, hccl_op_name TEXT, group_name TEXT,"
            f" {transport} TEXT, transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC,"
            " large_packet_ratio NUMERIC, package_size NUMERIC, count NUMERIC, total_duration NUMERIC);"
            f"CREATE TABLE {names[2]} (step TEXT, hccl_op_name TEXT, group_name TEXT, src_rank TEXT, dst_rank TEXT,"
            " transport_type TEXT, op_name TEXT, transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC);"
        )
        for rank in simulation.ranks:
            work, talk = (78_000, 14_000) if rank.number == 1 else (60_000, 32_000)
            row = ("21", "rank", str(rank.number), work, talk, 0, talk, 8_000, 100_000, 0, 100)
            db.execute(f"INSERT INTO ClusterStepTraceTime VALUES ({','.join('?' * 11)})", row)
            for step, sides in communication(rank).items():
                assert isinstance(sides, dict)
                for name, values in sides["collective"].items():
                    op, _, group = name.partition("@")
                    times = values["Communication Time Info"]
                    spent = [times[f"{what} Time(ms)"] for what in ("Elapse", "Transit", "Wait", "Synchronization")]
                    head = (step, rank.number, op, group)
                    db.execute(f"INSERT INTO {names[0]} VALUES (?,?,?,?,0,?,?,?,?,0)", (*head, *spent))
                    band = values["Communication Bandwidth Info"]["HCCS"]
                    moved = (band["Transit Size(MB)"], band["Transit Time(ms)"])
                    db.execute(f"INSERT INTO {names[1]} VALUES (?,?,?,?,'HCCS',?,?,0,0,4.0,4,0)", (*head, *moved))
                total = (step, rank.number, "Total Op Info", "77")
                db.execute(f"INSERT INTO {names[0]} VALUES (?,?,?,?,0,9,9,9,9,0)", total)
            for step, sides in matrix(simulation, rank).items():
                assert isinstance(sides, dict)
                for name, links in sides["collective"].items():
                    op, _, group = name.partition("@")
                    for pair, link in links.items():
                        src, _, dst = pair.partition("-")
                        size, time = link["Transit Size(MB)"], link["Transit Time(ms)"]
                        place = (step, op, group, src, dst, link["Transport Type"], op)
                        db.execute(f"INSERT INTO {names[2]} VALUES (?,?,?,?,?,?,?,?,?,0)", (*place, size, time))
        db.commit()


@pytest.mark.parametrize(
    ("names", "elapsed", "transport"),
    [
        (
            ("ClusterCommunicationTime", "ClusterCommunicationBandwidth", "ClusterCommunicationMatrix"),
            "elapsed_time",
            "band_type",
        ),
        (
            ("ClusterCommAnalyzerTime", "ClusterCommAnalyzerBandwidth", "ClusterCommAnalyzerMatrix"),
            "elapse_time",
            "transport_type",
        ),
    ],
)
def test_communication_of_a_cluster_database(
    names: tuple[str, str, str], elapsed: str, transport: str, tmp_path: Path, pack: Any
) -> None:
    _cluster(tmp_path / "cluster_analysis_output", names, elapsed, transport)
    result, store = run(tmp_path, pack)
    rows = {row["rank"]: row for row in store.rows("prof_comm")}
    assert sorted(rows) == [0, 1, 2, 3]
    assert {row["op"] for row in rows.values()} == {"allReduce"}
    assert rows[1]["caused_ms"] > 10 * max(rows[rank]["caused_ms"] for rank in (0, 2, 3))
    assert rows[0]["bandwidth_gbps"] == pytest.approx(19.0, rel=0.01)
    assert late(result).scope.ranks == [1]
    link = next(finding for finding in result.findings if finding.name == "slow-link")
    assert (link.captures["src"], link.captures["dst"], link.scope.ranks) == (0, 3, [0, 3])
