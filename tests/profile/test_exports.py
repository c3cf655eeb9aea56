"""Text and database export of one capture give the same tables, row by row and column by column."""

from __future__ import annotations

import math
import sys
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

PLACE = {"file", "line", "job", "capture", "source", "kinds", "form", "node"}
"""Columns that say where a row was read."""
TABLES: dict[str, tuple[tuple[str, ...], set[str]]] = {
    # table: (what makes a row unique, columns that one of the exports does not hold)
    "prof_steps": (("rank", "step"), set()),
    # Databases have no cube utilisation: it is a quotient with the number of cores, which they do not hold.
    "prof_kernels": (("rank", "type", "core"), {"cube_pct", "peak_pct"}),
    "prof_metrics": (("rank", "type", "core", "metric"), set()),
    "prof_sequences": (("rank", "kind", "sequence"), set()),
    "prof_comm": (("rank", "group", "op"), set()),
    # Only databases name the chip.
    "prof_links": (("src", "dst", "transport"), {"ideal_gbps"}),
    "prof_transfers": (("rank", "transport"), set()),
    "prof_api": (("rank", "level", "api"), set()),
    "prof_events": (("rank", "kind"), set()),
    "prof_memory": (("rank", "component"), set()),
    "prof_allocations": (("rank", "name"), set()),
    "prof_counters": (("rank", "name"), set()),
    "prof_experts": (("rank", "group"), set()),
    "prof_env": (("rank", "name"), set()),
}
PLANS = {
    "healthy": Plan(ranks=2),
    "late rank, AI CPU": Plan(slow_rank=1, ai_cpu=True),
    "pipeline": Plan(stages=2, heavy_stage=1),
    "batched pipeline": Plan(stages=2, batched=True),
    "experts": Plan(experts=True, hot_rank=2, unfused=True, chain=True),
    "contention": Plan(ranks=2, contended=True, odd_sizes=True, layers=8),
    "gaps": Plan(ranks=2, host_gap_us=1500.0, clock_drop=1),
}


@pytest.fixture(scope="module")
def pack() -> Any:
    return load_pack([PackSource(shipped_rules() / "profile", None, "shipped")], use_cache=False)


def run(target: Path, pack: Any) -> tuple[Result, Store]:
    result, store = analyze([str(target)], pack, Options(select=("PRO",), workers=1))
    assert not result.errors, result.errors
    return result, store


def rows(store: Store, table: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    unique, _ = TABLES[table]
    found = {tuple(row[name] for name in unique): row for row in store.rows(table)}
    assert len(found) == len(store.rows(table)), table
    return found


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-3)
    return bool(one == other)


def differences(text: Store, database: Store, table: str) -> list[str]:
    ones, others = rows(text, table), rows(database, table)
    out = [f"{table}: only one export has {key}" for key in ones.keys() ^ others.keys()]
    for key in ones.keys() & others.keys():
        for name, value in ones[key].items():
            if name in PLACE or name in TABLES[table][1]:
                continue
            if not same(value, others[key][name]):
                out.append(f"{table} {key} {name}: {value!r}, {others[key][name]!r}")
    return out


def both(plan: Plan, tmp_path: Path, **how: Any) -> None:
    simulation = Simulation(plan)
    folder = Folder()
    write_text(simulation, folder)
    folder.write(tmp_path / "text")
    write_db(simulation, tmp_path / "db" / "profile", **how)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_both_exports_give_the_same_tables(plan: Plan, tmp_path: Path, pack: Any) -> None:
    both(plan, tmp_path)
    one, text = run(tmp_path / "text", pack)
    other, database = run(tmp_path / "db", pack)
    assert [line for table in TABLES for line in differences(text, database, table)] == []
    assert all(text.rows(table) for table in ("prof_steps", "prof_kernels", "prof_comm", "prof_links", "prof_api"))
    # What needs the number of cores is judged from text exports only.
    names = [[f.name for f in result.findings if f.name != "capture-lacks-detail"] for result in (one, other)]
    assert names[0] == names[1]


def test_tasks_alone_give_the_same_steps(tmp_path: Path, pack: Any) -> None:
    both(Plan(stages=2), tmp_path, analysis=False, blocks="blockNum")
    _, text = run(tmp_path / "text", pack)
    _, database = run(tmp_path / "db", pack)
    for table in ("prof_steps", "prof_kernels", "prof_api", "prof_memory", "prof_counters"):
        assert differences(text, database, table) == [], table
    waits = [{key: row["late_ms"] for key, row in rows(store, "prof_comm").items()} for store in (text, database)]
    assert sum(waits[0].values()) == pytest.approx(sum(waits[1].values()), rel=1e-3)


@pytest.mark.parametrize(
    "name",
    ["ascend_mindspore_profiler_{rank}.db", "msmonitor_4711_20260304100000000_{rank}.db", "msprof_20260304100000.db"],
)
def test_databases_of_other_profilers(name: str, tmp_path: Path, pack: Any) -> None:
    simulation = Simulation(Plan(ranks=2, steps=2))
    write_db(simulation, tmp_path / "job", name=name)
    _, store = run(tmp_path / "job", pack)
    assert {(row["rank"], row["step"]) for row in store.rows("prof_steps")} == {(0, 21), (0, 22), (1, 21), (1, 22)}
    assert {row["chip"] for row in store.rows("prof_captures")} == {"Ascend910B"}
