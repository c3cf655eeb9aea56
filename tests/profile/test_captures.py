"""Synthetic captures through the whole pipeline: faults are named, sound jobs are quiet, both exports tell the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sample_logs"))

from _gen.profile_db import write_db  # noqa: E402
from _gen.profile_job import Plan, Simulation, split  # noqa: E402
from _gen.profiles import write_text  # noqa: E402
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


SOUND = {
    "4 ranks": Plan(),
    "8 ranks": Plan(ranks=8),
    "1 rank": Plan(ranks=1),
    "6 steps": Plan(steps=6, layers=2),
    "16 ranks": Plan(ranks=16, layers=3),
    "32 ranks": Plan(ranks=32, layers=2, steps=2),
    "2 stages": Plan(ranks=16, stages=2, layers=1, micro=24, steps=2),
    "2 stages, batched": Plan(ranks=16, stages=2, layers=1, micro=24, steps=2, batched=True),
    "experts": Plan(ranks=8, experts=True),
}


@pytest.mark.parametrize("plan", SOUND.values(), ids=SOUND.keys())
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
    simulation = text_form(Plan(ai_cpu=True), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    kernels = finding(result, "ai-cpu-kernels")
    assert kernels.captures["type"] == "Index"
    spent = [kernel.end - kernel.start for kernel in simulation.ranks[0].kernels if kernel.core == "AI_CPU"]
    assert kernels.impact.lost_ms == pytest.approx(sum(spent) / simulation.plan.steps / 1e3, rel=0.02)


def test_a_late_rank_of_sixteen(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(ranks=16, layers=3, steps=2, slow_rank=11), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    assert result.findings[0].name == "slow-rank"
    assert result.findings[0].scope.ranks == [11]
    assert "slow-link" not in [item.name for item in result.findings]


def test_a_late_rank_inside_a_pipeline(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(ranks=8, stages=2, layers=1, micro=12, steps=2, slow_rank=5), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    assert finding(result, "slow-rank").scope.ranks == [5]
    assert "pipeline-stage-imbalance" not in [item.name for item in result.findings]


def test_a_slow_link_of_sixteen_ranks(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(ranks=16, layers=3, steps=2, slow_link=(9, 4)), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    assert result.findings[0].name == "slow-link"
    assert result.findings[0].scope.ranks == [4, 9]
    assert "slow-rank" not in [item.name for item in result.findings]


def test_a_slow_host_of_sixteen_ranks(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(ranks=16, layers=3, steps=2, host_rank=7, host_gap_us=400.0), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    late = finding(result, "slow-rank")
    assert late.scope.ranks == [7]
    assert late.captures["idle_more"] > 0


@pytest.mark.parametrize("batched", [False, True])
def test_the_bubble_of_an_uneven_pipeline(batched: bool, tmp_path: Path, pack: Any) -> None:
    plan = Plan(ranks=8, stages=2, heavy_stage=1, layers=1, micro=12, steps=2, batched=batched)
    simulation = text_form(plan, tmp_path / "job")
    result, store = run(tmp_path / "job", pack)
    stage = finding(result, "pipeline-stage-imbalance")
    assert stage is result.findings[0]
    assert stage.scope.ranks == [4, 5, 6, 7]
    bubble = finding(result, "pipeline-bound")
    assert bubble.captures["stage"] == 0
    # The first stage receives in the backward pass only, whose exchanges have odd numbers.
    waited = [talk for talk in simulation.ranks[0].talks if talk.p2p and talk.index % 2]
    span = sum(row["e2e_us"] for row in store.rows("prof_steps") if row["rank"] == 0)
    exact = 100 * sum(talk.end - talk.start for talk in waited) / span
    assert bubble.captures["stage_share"] == pytest.approx(exact, abs=4.0)
    if batched:
        # The step table knows of no bubble here.
        assert {row["bubble_us"] for row in store.rows("prof_steps")} == {0.0}


def test_experts_of_one_rank_get_more_tokens(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(ranks=8, experts=True, hot_rank=5), tmp_path / "job")
    result, store = run(tmp_path / "job", pack)
    hot = finding(result, "expert-load-imbalance")
    assert hot is result.findings[0]
    assert hot.scope.ranks == [5]
    assert hot.captures["tokens"] == 2.5 * 8192 * 3 * 4
    assert sum(row["tokens"] for row in store.rows("prof_experts")) == hot.captures["total"]


def test_a_normalisation_spelt_out(tmp_path: Path, pack: Any) -> None:
    simulation = text_form(Plan(unfused=True), tmp_path / "job")
    result, store = run(tmp_path / "job", pack)
    fused = finding(result, "fused-operator-available")
    assert fused.captures["name"] == "npu_rms_norm"
    assert fused.captures["sequence"] == "Pows ReduceMean Adds Rsqrt Mul Mul"
    norms = sum(kernel.type == "Rsqrt" for rank in simulation.ranks for kernel in rank.kernels)
    assert fused.captures["count"] == norms
    assert not [row for row in store.rows("prof_sequences") if row["kind"] == "fusible"]


def test_kernels_that_only_load_and_store(tmp_path: Path, pack: Any) -> None:
    simulation = text_form(Plan(chain=True, ranks=2), tmp_path / "job")
    result, store = run(tmp_path / "job", pack)
    chain = finding(result, "fusible-kernel-sequences")
    assert chain.captures["sequence"] == "Exp Log Maximum Abs"
    runs = sum(kernel.type == "Abs" for rank in simulation.ranks for kernel in rank.kernels)
    assert chain.captures["count"] == runs
    # No kernel is counted twice: the runs take less than all kernels they are made of.
    for rank in simulation.ranks:
        whole = sum(k.end - k.start for k in rank.kernels if k.type in ("Exp", "Log", "Maximum", "Abs"))
        rows = [row for row in store.rows("prof_sequences") if row["rank"] == rank.number]
        assert sum(row["busy_us"] for row in rows) == pytest.approx(whole, rel=1e-4)


def test_transfers_and_products_share_the_memory(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(contended=True, layers=8, transfer_us=1500.0, ranks=2), tmp_path / "job")
    result, store = run(tmp_path / "job", pack)
    found = finding(result, "bandwidth-contention")
    assert found.captures["covered"] == pytest.approx(9.5, abs=0.1)
    assert found.captures["alone"] == pytest.approx(19.0, abs=0.1)
    assert {row["covered"] for row in store.rows("prof_comm")} == {7 * 3}


def test_transfers_of_odd_sizes(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(odd_sizes=True, overlap=False, transfer_us=6000.0), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    assert finding(result, "transfers-not-aligned").captures["odd"] == 100.0


def test_a_pool_that_grows_and_is_not_used(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(fragment_growth_mb=3000.0, steps=6, ranks=2, layers=2), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    grown = finding(result, "idle-pool-memory-grows")
    assert grown is result.findings[0]
    assert grown.captures["rise"] == pytest.approx(15_000, rel=0.01)
    assert "memory-grows-over-steps" not in [item.name for item in result.findings]


def test_flops_utilisation_follows_from_shapes_and_cycles(tmp_path: Path, pack: Any) -> None:
    simulation = text_form(Plan(ranks=1, layers=2), tmp_path / "job")
    _, store = run(tmp_path / "job", pack)
    capture = store.rows("prof_captures")[0]
    assert capture["peak_tflops"] == pytest.approx(20 * 1650e6 * 8192 / 1e12, rel=0.01)
    products = {"4096,2048;6144,2048": 2048 * 6144, "4096,2048;11008,2048": 2048 * 11008}
    products["4096,11008;4096,2048"] = 11008 * 2048
    done = 0.0
    for kernel in simulation.ranks[0].kernels:
        if kernel.type == "MatMulV3":
            done += 2.0 * 4096 * products[kernel.inputs]
        elif kernel.type.startswith("FlashAttention"):
            done += 4.0 * 4096 * 4096 * 2048 * (2.5 if kernel.type.endswith("Grad") else 1.0)
    span = sum(row["e2e_us"] for row in store.rows("prof_steps")) / 1e6
    assert capture["mfu_pct"] == pytest.approx(100 * done / span / (capture["peak_tflops"] * 1e12), rel=1e-3)


def test_one_step_cannot_tell_heavy_communication_from_a_late_start(tmp_path: Path, pack: Any) -> None:
    text_form(Plan(ranks=2, steps=1, overlap=False, transfer_us=6000.0), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    bound = finding(result, "communication-bound")
    assert bound.confidence == "medium"
    assert "a late start looks the same" in bound.title
    assert "a late start looks the same" in result.verdict.text


def test_the_more_complete_export_wins(tmp_path: Path, pack: Any) -> None:
    simulation = text_form(Plan(ranks=2), tmp_path / "job")
    write_db(simulation, tmp_path / "dbs")
    for folder in (tmp_path / "dbs").iterdir():
        for file in (folder / "ASCEND_PROFILER_OUTPUT").iterdir():
            file.rename(tmp_path / "job" / "profile" / folder.name / "ASCEND_PROFILER_OUTPUT" / file.name)
    result, store = run(tmp_path / "job", pack)
    assert {row["form"] for row in store.rows("prof_captures")} == {"text"}
    assert len(store.rows("prof_steps")) == 6
    said = [problem.message for problem in result.coverage.problems]
    assert said == ["2 captures hold a text and a database export; numbers are from the text export for 2 of them"]
    assert result.coverage.complete
    table = next((tmp_path / "job").rglob("step_trace_time.csv"))
    table.write_bytes(b"\n".join(table.read_bytes().splitlines()[:2]) + b"\n")
    result, store = run(tmp_path / "job", pack)
    assert sorted(str(row["form"]) for row in store.rows("prof_captures")) == ["db", "text"]
    assert any("the database for 1, the text export for 1 of them" in p.message for p in result.coverage.problems)
    assert len(store.rows("prof_steps")) == 6
    assert loud(result) == []
