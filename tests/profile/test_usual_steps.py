"""Steps that are unlike the others: a first one that warms up, ranks with fewer of them, one rank that idles."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sample_logs"))

from _gen.profile_job import Plan, Simulation  # noqa: E402
from _gen.profiles import write_text  # noqa: E402
from _gen.shapes import Folder  # noqa: E402

from npudiag.analyze import Options, analyze  # noqa: E402
from npudiag.engine.load import PackSource, load_pack, shipped_rules  # noqa: E402
from npudiag.result import Finding, Result  # noqa: E402
from npudiag.tables.store import Store  # noqa: E402

WAIT_US = 200_000.0
TALK = ("Communication(Not Overlapped)", "Communication", "Communication(Not Overlapped and Exclude Receive)")


@pytest.fixture(scope="module")
def pack() -> Any:
    return load_pack([PackSource(shipped_rules() / "profile", None, "shipped")], use_cache=False)


def job(plan: Plan, target: Path) -> list[Path]:
    folder = Folder()
    write_text(Simulation(plan), folder)
    folder.write(target)
    return sorted((target / "profile").iterdir())


def run(target: Path, pack: Any) -> tuple[Result, Store]:
    result, store = analyze([str(target)], pack, Options(select=("PRO",), workers=1))
    assert not result.errors, result.errors
    return result, store


def edit(capture: Path, change: Callable[[dict[str, str]], bool]) -> None:
    """Change the rows of a step table; those for which `change` answers no are left out."""
    file = capture / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv"
    head, *lines = file.read_text().splitlines()
    names = head.split(",")
    kept = [head]
    for line in lines:
        row = dict(zip(names, line.split(","), strict=True))
        if change(row):
            kept.append(",".join(row[name] for name in names))
    file.write_text("\n".join(kept) + "\n")


def longer(*columns: str) -> Callable[[dict[str, str]], bool]:
    def change(row: dict[str, str]) -> bool:
        if row["Step"] == "21":
            for name in (*columns, "Stage"):
                row[name] = repr(float(row[name]) + WAIT_US)
        return True

    return change


def loud(result: Result) -> list[str]:
    return [finding.name for finding in result.findings if finding.severity != "info"]


def finding(result: Result, name: str) -> Finding:
    return next(item for item in result.findings if item.name == name)


def test_a_first_step_in_which_all_ranks_wait_for_one(tmp_path: Path, pack: Any) -> None:
    for number, capture in enumerate(job(Plan(layers=3), tmp_path / "job")):
        edit(capture, longer("Free") if number == 0 else longer(*TALK))
        if number:
            file = capture / "ASCEND_PROFILER_OUTPUT" / "communication.json"
            document = json.loads(file.read_text())
            first = next(iter(document["step21"]["collective"].values()))["Communication Time Info"]
            first["Elapse Time(ms)"] += WAIT_US / 1e3
            first["Wait Time(ms)"] += WAIT_US / 1e3
            file.write_text(json.dumps(document))
    result, store = run(tmp_path / "job", pack)
    assert loud(result) == []
    uneven = finding(result, "step-times-uneven")
    assert uneven.captures["first_of"] == 3
    rows = {row["rank"]: row for row in store.rows("prof_comm")}
    assert rows[0]["caused_ms"] == pytest.approx(WAIT_US / 1e3, rel=0.01)
    assert rows[0]["step_caused_ms"] < 1
    assert rows[1]["late_pct"] < 5


@pytest.mark.parametrize("columns", [("Free",), TALK], ids=["idle", "communication"])
def test_a_first_step_that_takes_ten_times_as_long(columns: tuple[str, ...], tmp_path: Path, pack: Any) -> None:
    for capture in job(Plan(layers=3), tmp_path / "job"):
        edit(capture, longer(*columns))
    result, _ = run(tmp_path / "job", pack)
    assert loud(result) == []


def test_a_late_rank_is_named_where_another_was_late_once(tmp_path: Path, pack: Any) -> None:
    for number, capture in enumerate(job(Plan(layers=3, slow_rank=2), tmp_path / "job")):
        if number:
            file = capture / "ASCEND_PROFILER_OUTPUT" / "communication.json"
            document = json.loads(file.read_text())
            first = next(iter(document["step21"]["collective"].values()))["Communication Time Info"]
            first["Elapse Time(ms)"] += WAIT_US / 1e3
            file.write_text(json.dumps(document))
    result, _ = run(tmp_path / "job", pack)
    assert finding(result, "slow-rank").scope.ranks == [2]
    assert finding(result, "slow-rank").captures["lost"] == pytest.approx(6.0, rel=0.1)


@pytest.mark.parametrize("slow", [None, 1])
def test_ranks_may_have_different_numbers_of_steps(slow: int | None, tmp_path: Path, pack: Any) -> None:
    first = job(Plan(layers=3, steps=4, slow_rank=slow), tmp_path / "job")[0]
    edit(first, lambda row: row["Step"] in ("21", "22"))
    file = first / "ASCEND_PROFILER_OUTPUT" / "communication.json"
    document = json.loads(file.read_text())
    file.write_text(json.dumps({step: document[step] for step in ("step21", "step22")}))
    result, store = run(tmp_path / "job", pack)
    shares = {row["rank"]: row["share_pct"] for row in store.rows("prof_comm")}
    assert shares[0] == pytest.approx(shares[2], rel=0.05)
    if slow is None:
        assert loud(result) == []
    else:
        assert finding(result, "slow-rank").scope.ranks == [slow]


def test_a_rank_whose_host_is_late_is_named_in_the_idle_time(tmp_path: Path, pack: Any) -> None:
    job(Plan(ranks=2, layers=3, host_rank=1, host_gap_us=500.0), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    idle = finding(result, "host-bound")
    assert idle.captures["worst_rank"] == 1
    assert idle.captures["worst"] > 1.5 * idle.captures["share"]


def test_a_stage_a_tenth_heavier_is_named(tmp_path: Path, pack: Any) -> None:
    job(Plan(ranks=4, stages=2, heavy_stage=1, heavy_factor=1.15, micro=8, layers=1), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    uneven = finding(result, "pipeline-stage-imbalance")
    assert (uneven.captures["stage"], uneven.scope.ranks) == (1, [2, 3])


def test_a_job_has_one_top_verdict(tmp_path: Path, pack: Any) -> None:
    job(Plan(layers=3, slow_rank=3, slow_factor=1.15), tmp_path / "job")
    result, _ = run(tmp_path / "job", pack)
    names = [item.name for item in result.findings]
    assert "communication-bound" in names
    assert "compute-bound" not in names
