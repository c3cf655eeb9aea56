"""Damaged, foreign and contradictory captures: told in the coverage, the rest analysed, no all-clear for nothing."""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
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

SLOW = Plan(slow_rank=1, slow_factor=1.4)


@pytest.fixture(scope="module")
def pack() -> Any:
    return load_pack([PackSource(shipped_rules() / "profile", None, "shipped")], use_cache=False)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = Folder()
    write_text(Simulation(SLOW), folder)
    folder.write(tmp_path / "job")
    return tmp_path / "job"


def run(target: Path, pack: Any) -> tuple[Result, Store]:
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*")}
    result, store = analyze([str(target)], pack, Options(workers=1))
    assert before == {path: path.stat().st_mtime_ns for path in target.rglob("*")}
    assert not result.errors, result.errors
    return result, store


def of_rank(job: Path, rank: int, name: str) -> Path:
    return next(path for path in job.rglob(name) if f"_4120{rank}_" in str(path))


def reasons(result: Result, name: str) -> set[str]:
    return {problem.reason for problem in result.coverage.problems if problem.path.endswith(name)}


def names(result: Result) -> list[str]:
    return [finding.name for finding in result.findings]


def test_truncated_communication_json_gives_its_whole_operations(job: Path, pack: Any) -> None:
    file = of_rank(job, 0, "communication.json")
    file.write_bytes(file.read_bytes()[:6000])
    result, store = run(job, pack)
    assert reasons(result, "communication.json") == {"truncated"}
    assert not result.coverage.complete
    assert "profile-file-damaged" in names(result)
    assert any(row["rank"] == 0 for row in store.rows("prof_comm"))
    assert result.findings[0].name == "slow-rank"


@pytest.mark.parametrize("ending", [b"", b",", b",]", b"{"])
def test_traces_without_their_end(ending: bytes, job: Path, pack: Any) -> None:
    file = of_rank(job, 0, "trace_view.json")
    file.write_bytes(file.read_bytes().rstrip()[:-1] + ending)
    result, store = run(job, pack)
    counters = [row for row in store.rows("prof_counters") if row["rank"] == 0 and row["name"] == "aicore-freq"]
    assert counters[0]["samples"] == 24
    if ending == b",]":
        assert reasons(result, "trace_view.json") == set()
    else:
        assert reasons(result, "trace_view.json") == {"truncated"}


def test_a_trace_alone_is_split_into_its_parts(job: Path, tmp_path: Path, pack: Any) -> None:
    target = tmp_path / "only"
    target.mkdir()
    shutil.copy(of_rank(job, 0, "trace_view.json"), target)
    _, store = run(target, pack)
    rows = store.rows("prof_steps")
    assert [row["source"] for row in rows] == ["trace"]
    assert rows[0]["computing_us"] > 0
    assert rows[0]["e2e_us"] > rows[0]["computing_us"]


def test_a_cut_table_is_read_up_to_the_cut(job: Path, pack: Any) -> None:
    file = of_rank(job, 0, "kernel_details.csv")
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    result, store = run(job, pack)
    assert reasons(result, "kernel_details.csv") <= {"truncated"}
    assert any(row["rank"] == 0 for row in store.rows("prof_kernels"))


def test_empty_and_header_only_tables(job: Path, pack: Any) -> None:
    of_rank(job, 0, "step_trace_time.csv").write_bytes(b"")
    file = of_rank(job, 2, "step_trace_time.csv")
    file.write_bytes(file.read_bytes().splitlines()[0] + b"\n")
    result, store = run(job, pack)
    assert reasons(result, "step_trace_time.csv") == {"truncated"}
    assert {row["rank"] for row in store.rows("prof_steps") if row["source"] == "text"} == {1, 3}


def test_other_encodings(job: Path, pack: Any) -> None:
    file = of_rank(job, 0, "step_trace_time.csv")
    text = file.read_text(encoding="utf-8")
    file.write_bytes(text.encode("utf-16"))
    other = of_rank(job, 2, "step_trace_time.csv")
    other.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    _, store = run(job, pack)
    steps = [row for row in store.rows("prof_steps") if row["rank"] in (0, 2)]
    assert len(steps) == 6
    assert {row["source"] for row in steps} == {"text"}


def test_bytes_that_are_no_text_inside_a_table(job: Path, pack: Any) -> None:
    file = of_rank(job, 0, "op_statistic.csv")
    file.write_bytes(file.read_bytes().replace(b"RmsNormGrad", b"\xff\xfe\x00Grad"))
    run(job, pack)


def test_hostile_numbers(tmp_path: Path, pack: Any) -> None:
    out = tmp_path / "x_1_20260304100000000_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    out.mkdir(parents=True)
    (out / "step_trace_time.csv").write_text(
        "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free\n"
        "1,nan,inf,-inf,1e400,N/A\n99999999999999999999,1e308,1e308,0,1e308,1e308\n3,,,,,\n"
    )
    (out / "kernel_details.csv").write_text(
        "Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim,Input Shapes\n"
        'k,MatMul,AI_CORE,1,-5,0,1,""\nk,MatMul,AI_CORE,x,1e999,y,z,"9999999999999999999999,3"\n'
    )
    huge = ",".join(["9" * 11] * 30)
    (out / "op_summary.csv").write_text(
        "Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Block Num,Input Shapes,Output Shapes\n"
        + f'k,MatMul,AI_CORE,{"9" * 30}.000\t,5.0,-1,"{huge};{huge}","{huge}"\n'
        + 'k,GroupedMatmul,AI_CORE,99999999999999999999.000\t,5.0,1e300,"99999999999,2;1,2,2","99999999999,2"\n' * 3
    )
    (out / "communication.json").write_text(
        json.dumps(
            {
                "step1": {
                    "collective": {"hcom_allReduce__1_0_1@7": {"Communication Time Info": {"Elapse Time(ms)": "N/A"}}}
                }
            }
        )
    )
    run(tmp_path, pack)


def test_truncated_and_foreign_databases(tmp_path: Path, pack: Any) -> None:
    write_db(Simulation(Plan(ranks=2)), tmp_path / "job")
    file = next((tmp_path / "job").rglob("ascend_pytorch_profiler_0.db"))
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 3])
    (file.parent / "other.db").write_bytes(b"SQLite format 3\x00" + b"\x00" * 4000)
    result, store = run(tmp_path / "job", pack)
    assert reasons(result, "ascend_pytorch_profiler_0.db") == {"truncated"}
    assert {row["rank"] for row in store.rows("prof_kernels")} >= {1}


def test_databases_in_archives_are_read_too(tmp_path: Path, pack: Any) -> None:
    write_db(Simulation(SLOW), tmp_path / "job")
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "job", "job")
    result, store = analyze([str(tmp_path / "all.tar.gz")], pack, Options(workers=1))
    assert len(store.rows("prof_steps")) == 12
    assert result.findings[0].name == "slow-rank"
    assert result.findings[0].scope.ranks == [1]


def test_an_open_journal_is_told(tmp_path: Path, pack: Any) -> None:
    write_db(Simulation(Plan(ranks=1)), tmp_path / "job")
    file = next((tmp_path / "job").rglob("ascend_pytorch_profiler_0.db"))
    file.with_name(file.name + "-wal").write_bytes(b"\x37\x7f\x06\x82" + b"\x00" * 4000)
    result, _ = run(tmp_path / "job", pack)
    assert not result.coverage.complete


def test_two_captures_of_one_rank(job: Path, pack: Any) -> None:
    old = of_rank(job, 0, "step_trace_time.csv").parent.parent
    shutil.copytree(old, old.with_name(old.name.replace("20260304100", "20260303100")))
    result, store = run(job, pack)
    assert len(store.rows("prof_steps")) == 12
    assert sum(not row["used"] for row in store.rows("prof_captures")) == 1
    assert any("more than once" in problem.message for problem in result.coverage.problems)
    assert result.coverage.complete


def test_a_foreign_folder_is_no_healthy_job(tmp_path: Path, pack: Any) -> None:
    out = tmp_path / "x_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    out.mkdir(parents=True)
    (out / "step_trace_time.csv").write_bytes(b"\x7fELF" + bytes(range(256)))
    (out / "communication.json").write_bytes(b'{"a": [1, 2]}')
    (out / "kernel_details.csv").write_bytes(b"a,b,c\n1,2,3\n")
    result, store = run(tmp_path, pack)
    assert not store.rows("prof_steps")
    assert result.verdict.status != "healthy" or not any(item.kind.startswith("prof-") for item in result.inputs)


def test_missing_files_leave_their_rules_undecided(job: Path, pack: Any) -> None:
    for file in job.rglob("communication*.json"):
        file.unlink()
    result, _ = run(job, pack)
    skipped = {item.name for item in result.skipped}
    assert {"slow-link", "collectives-mostly-wait"} <= skipped
    assert result.findings[0].name == "slow-rank"


def test_a_capture_that_was_never_parsed_is_no_healthy_job(tmp_path: Path, pack: Any) -> None:
    base = tmp_path / "node-a_1_20260304100000000_ascend_pt"
    (base / "PROF_000001_20260304100000000_ABCDEFGHIJKLMNOP" / "device_0" / "data").mkdir(parents=True)
    (base / "profiler_info_0.json").write_text('{"config": {"common_config": {}}, "rank_id": "0"}')
    raw = base / "PROF_000001_20260304100000000_ABCDEFGHIJKLMNOP" / "device_0" / "data" / "aicore.data.0.slice_0"
    raw.write_bytes(bytes(range(256)) * 20)
    result, _ = run(tmp_path, pack)
    assert result.verdict.status != "healthy"
    assert "capture-not-parsed" in names(result)


@pytest.mark.parametrize("cut", [0.0, 0.5, 0.999])
@pytest.mark.parametrize(
    "name",
    [
        "kernel_details.csv",
        "memory_record.csv",
        "operator_memory.csv",
        "api_statistic.csv",
        "communication.json",
        "communication_matrix.json",
        "trace_view.json",
        "profiler_metadata.json",
    ],
)
def test_every_file_may_end_anywhere(name: str, cut: float, job: Path, pack: Any) -> None:
    file = next(path for path in job.rglob(name) if "_41200_" in str(path))
    data = file.read_bytes().rstrip()
    file.write_bytes(data[: int(len(data) * cut)])
    result, _store = run(job, pack)
    assert result.findings[0].name == "slow-rank"
    assert result.findings[0].scope.ranks == [1]
    if name.endswith(".json") and cut > 0:
        # A table may end between two rows, a document may not; an empty file is told as empty.
        assert not result.coverage.complete


@pytest.mark.parametrize("name", ["ascend_pytorch_profiler_1.db", "analysis.db"])
@pytest.mark.parametrize("cut", [0.3, 0.7])
def test_databases_may_end_anywhere(name: str, cut: float, tmp_path: Path, pack: Any) -> None:
    write_db(Simulation(SLOW), tmp_path / "job")
    file = next(path for path in (tmp_path / "job").rglob(name) if "_41201_" in str(path))
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * cut)])
    result, store = run(tmp_path / "job", pack)
    assert not result.coverage.complete
    assert {row["rank"] for row in store.rows("prof_steps")} >= {0, 2, 3}
    assert result.verdict.status != "healthy"


def test_database_and_text_do_not_disturb_each_other(job: Path, tmp_path: Path, pack: Any) -> None:
    write_db(Simulation(SLOW), tmp_path / "db")
    for folder in (tmp_path / "db").iterdir():
        out = job / "profile" / folder.name / "ASCEND_PROFILER_OUTPUT"
        (folder / "ASCEND_PROFILER_OUTPUT" / "analysis.db").rename(out / "analysis.db")
    result, store = run(job, pack)
    assert len(store.rows("prof_steps")) == 12
    assert {row["source"] for row in store.rows("prof_steps")} == {"text"}
    assert sum(row["count"] for row in store.rows("prof_comm")) == 4 * 3 * 4
    assert result.findings[0].name == "slow-rank"


def test_the_same_rank_twice_under_other_names(job: Path, pack: Any) -> None:
    old = of_rank(job, 2, "step_trace_time.csv").parent.parent
    shutil.copytree(old, old.with_name("copy-of-rank-2_ascend_pt"))
    result, store = run(job, pack)
    assert len(store.rows("prof_steps")) == 12
    assert any("more than once" in problem.message for problem in result.coverage.problems)
