"""Synthetic captures through the whole pipeline: faults are named, sound jobs are quiet, both exports tell the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sample_logs"))

from _gen.profile_db import write_db  # noqa: E402
from _gen.profiles import Plan, Simulation, split, write_text  # noqa: E402
from _gen.shapes import Folder  # noqa: E402

from npudiag.analyze import Options, analyze  # noqa: E402
from npudiag.engine.load import PackSource, load_pack, shipped_rules  # noqa: E402
from npudiag.result import SEVERITIES, Finding, Result  # noqa: E402
from npudiag.tables.store import Store  # noqa: E402


@pytest.fixture(scope="module")
def pack() -> Any:
    return load_pack([PackSource(shipped_rules() / "profile", None, "shipped")], use_cache=False)


def text_form(plan: Plan, target: Path) -> Simulation:
    simulation = Simulation(plan)
    folder = Folder()
    write_text(simulation, folder)
    folder.write(target)
    return simulation


def run(target: Path, pack: Any) -> tuple[Result, Store]:
    result, store = analyze([str(target)], pack, Options(select=("PRO",), workers=1))
    assert not result.errors, result.errors
    return result, store


def finding(result: Result, name: str) -> Finding:
    found = [item for item in result.findings if item.name == name]
    assert found, [(item.name, item.severity) for item in result.findings]
    return found[0]


def loud(result: Result) -> list[tuple[str, str]]:
    return [(f.name, f.severity) for f in result.findings if SEVERITIES.index(f.severity) > 0]


@pytest.mark.parametrize("plan", [Plan(), Plan(ranks=8), Plan(ranks=1), Plan(steps=6, layers=2)])
def test_sound_jobs_are_quiet(plan: Plan, tmp_path: Path, pack: Any) -> None:
    text_form(plan, tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    assert loud(result) == []
    assert result.coverage.complete
    assert result.coverage.ranks == list(range(plan.ranks))


def test_the_step_table_is_read_as_it_stands(tmp_path: Path, pack: Any) -> None:
    simulation = text_form(Plan(), tmp_path / "job")
    _, store = run(tmp_path / "job", pack)
    rows = {(row["rank"], row["step"]): row for row in store.rows("prof_steps")}
    assert len(rows) == 12
    for rank in simulation.ranks:
        for step in (21, 22, 23):
            part, row = split(rank, step), rows[rank.number, step]
            assert row["computing_us"] == pytest.approx(part.computing, abs=1e-3)
            assert row["comm_not_overlapped_us"] == pytest.approx(part.uncovered, abs=1e-3)
            assert row["overlapped_us"] == pytest.approx(part.overlapped, abs=1e-3)
            assert row["e2e_us"] == pytest.approx(part.span, abs=0.01)
            assert row["line"] == step - 19


def test_a_late_rank_is_named_with_its_cost(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(slow_rank=3, slow_factor=1.3), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    late = finding(result, "slow-rank")
    assert late.scope.ranks == [3]
    assert late is result.findings[0]
    assert late.captures["computing_more"] > 0
    assert late.impact.lost_pct is not None
    assert 10 < late.impact.lost_pct < 30


def test_a_late_host_is_told_from_slow_kernels(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(host_rank=1, host_gap_us=400.0), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    late = finding(result, "slow-rank")
    assert late.scope.ranks == [1]
    assert late.captures["idle_more"] > 0


def test_all_hosts_late_is_host_bound(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(host_gap_us=500.0), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    assert finding(result, "host-bound").severity == "warning"
    assert result.findings[0].name == "host-bound"


def test_a_slow_link_is_named_by_its_ends(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(ranks=8, slow_link=(5, 2)), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    link = finding(result, "slow-link")
    assert (link.captures["src"], link.captures["dst"]) == (5, 2)
    assert link.severity == "warning"
    assert link.scope.ranks == [2, 5]


def test_links_are_numbered_by_the_groups_of_the_metadata(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(ranks=8, stages=2), tmp_path / "job")
    _, store = run(tmp_path / "job", pack)
    pairs = {(row["src"], row["dst"]) for row in store.rows("prof_links")}
    assert (4, 7) in pairs
    assert (1, 5) in pairs
    assert all(row["group"] is None for row in store.rows("prof_links"))
    assert {row["parallel"] for row in store.rows("prof_comm")} == {"dp", "pp"}


def test_a_heavy_stage_is_no_slow_rank(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(ranks=4, stages=2, heavy_stage=1), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    stage = finding(result, "pipeline-stage-imbalance")
    assert stage.captures["stage"] == 1
    assert stage.scope.ranks == [2, 3]
    assert "slow-rank" not in [item.name for item in result.findings]
    assert finding(result, "pipeline-bound")


def test_nothing_overlaps(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(overlap=False, transfer_us=6000.0), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    assert result.findings[0].name == "communication-bound"
    assert finding(result, "communication-not-overlapped").captures["overlap"] == 0


def test_a_falling_clock_is_the_cause_of_a_late_rank(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(clock_drop=2), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    assert finding(result, "aicore-frequency-drops").scope.ranks == [2]
    assert finding(result, "slow-rank").scope.ranks == [2]


def test_a_fragmented_pool(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(fragmented=True), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    assert finding(result, "memory-pool-fragmented").severity == "warning"


def test_ai_cpu_kernels(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(ai_cpu=True), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    assert finding(result, "ai-cpu-kernels").captures["type"] == "Index"


@pytest.mark.parametrize("analysis", [True, False])
def test_text_and_database_tell_the_same(analysis: bool, tmp_path: Path, pack: Any) -> None:
    plan = Plan(slow_rank=1, ai_cpu=True)
    simulation = text_form(plan, tmp_path / "text")
    write_db(simulation, tmp_path / "db" / "profile", analysis=analysis)
    one, text = run(tmp_path / "text", pack)
    other, database = run(tmp_path / "db", pack)
    steps = [{(r["rank"], r["step"]): r for r in store.rows("prof_steps")} for store in (text, database)]
    assert steps[0].keys() == steps[1].keys()
    for key, row in steps[0].items():
        for column in ("computing_us", "comm_not_overlapped_us", "overlapped_us", "free_us", "e2e_us"):
            assert steps[1][key][column] == pytest.approx(row[column], abs=1.0), (key, column)
    kernels = [
        {(r["rank"], r["type"], r["core"]): (r["count"], round(r["total_us"], 1)) for r in store.rows("prof_kernels")}
        for store in (text, database)
    ]
    assert kernels[0] == kernels[1]
    pools = [
        {
            r["rank"]: (round(r["peak_allocated_mb"]), round(r["peak_reserved_mb"]))
            for r in store.rows("prof_memory")
            if r["component"] == "PTA"
        }
        for store in (text, database)
    ]
    assert pools[0] == pools[1]
    assert finding(one, "slow-rank").scope.ranks == finding(other, "slow-rank").scope.ranks == [1]
    assert finding(one, "ai-cpu-kernels").captures["count"] == finding(other, "ai-cpu-kernels").captures["count"]


def test_the_more_complete_export_wins(tmp_path: Path, pack: Any) -> None:
    simulation = text_form(Plan(ranks=2), tmp_path / "job")
    write_db(simulation, tmp_path / "dbs")
    for folder in (tmp_path / "dbs").iterdir():
        for file in (folder / "ASCEND_PROFILER_OUTPUT").iterdir():
            file.rename(tmp_path / "job" / "profile" / folder.name / "ASCEND_PROFILER_OUTPUT" / file.name)
    result, store = run(tmp_path / "job", pack)
    assert {row["form"] for row in store.rows("prof_captures")} == {"text"}
    assert len(store.rows("prof_steps")) == 6
    table = next((tmp_path / "job").rglob("step_trace_time.csv"))
    table.write_bytes(b"\n".join(table.read_bytes().splitlines()[:2]) + b"\n")
    result, store = run(tmp_path / "job", pack)
    assert sorted(str(row["form"]) for row in store.rows("prof_captures")) == ["db", "text"]
    assert len(store.rows("prof_steps")) == 6
    assert loud(result) == []
