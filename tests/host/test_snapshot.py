"""Snapshots: what is written is what is read, whatever it holds; live values come from this machine for real."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudiag.analyze import Options, inspect_texts
from npudiag.engine.load import RulePack, load_pack
from npudiag.host import gather, storage
from npudiag.host.facts import Facts, run
from npudiag.parsers.scan import Literals
from npudiag.parsers.snapshot import HEADER, fact_line, row_line
from npudiag.reading import texts

ITEMS = st.one_of(st.none(), st.text(max_size=40))
VALUES = st.one_of(st.text(max_size=80), st.integers(-(2**53), 2**53), st.booleans(), st.floats(-1e12, 1e12))


@pytest.fixture(scope="module")
def pack() -> RulePack:
    return load_pack()


def rows(text: str, table: str = "host_facts") -> list[dict[str, Any]]:
    partial = texts({"host/snapshot.txt": text}, Literals()).partials[0]
    assert partial.kind == "host-snapshot"
    columns = partial.columns.get(table)
    return list(columns.rows()) if columns is not None else []


@settings(deadline=None)
@given(item=ITEMS, value=VALUES)
def test_a_fact_comes_back_as_it_was(item: str | None, value: str | float | bool) -> None:
    line = fact_line("disk", "free_bytes", item, value)
    assert "\n" not in line
    (row,) = rows(f"{HEADER}\n{line}\n")
    clean = item.encode("utf-8", "replace").decode() if item is not None else None
    assert (row["item"] or None) == (clean or None) or "\ud800" <= (item or " ")[0] <= "\udfff"
    if isinstance(value, str):
        assert row["value"] == value
    else:
        assert row["number"] == pytest.approx(float(value))


@settings(deadline=None)
@given(text=st.text(max_size=400))
def test_any_snapshot_is_survived(text: str) -> None:
    rows(f"{HEADER}\n{text}")


@pytest.mark.parametrize(
    "line",
    [
        "memory.total_bytes = 1e999",
        "memory.total_bytes = NaN",
        "memory.total_bytes = [1]",
        "@host_samples [1]",
        '@log {"text": "x"}',
        '@host_samples {"cpu_pct": "x", "time": {"a": 1}, "nothing": 1}',
        "memory.total_bytes = " + "[" * 5000,
        "\x00\xff",
    ],
)
def test_nonsense_does_no_harm(line: str) -> None:
    text = f"{HEADER}\n{line}\ncpu.count = 2\n"
    assert [row["name"] for row in rows(text)][-1:] == ["count"]


def test_rows_of_tables_are_kept() -> None:
    line = row_line("host_samples", {"time": 1_780_000_000_000_000, "cpu_pct": 12.5, "load1": None})
    (row,) = rows(f"{HEADER}\n{line}\n", "host_samples")
    assert (row["time"], row["cpu_pct"], row["load1"]) == (1_780_000_000_000_000, 12.5, None)


def test_a_failing_probe_costs_itself_only() -> None:
    def broken(facts: Facts) -> None:
        raise PermissionError("no")

    def sound(facts: Facts) -> None:
        facts.add("cpu", "count", 3)

    facts = Facts()
    run(facts, [broken, sound])
    assert facts.get("cpu", "count") == 3
    assert facts.get("probe", "failed", "broken") == "PermissionError: no"


def test_this_machine_is_told_as_psutil_sees_it(tmp_path: Path) -> None:
    facts = gather.snapshot(gather.Request("preflight", {"HOME": str(tmp_path)}, paths=(str(tmp_path),)))
    assert facts.get("probe", "failed") is None
    assert not [fact for fact in facts if fact.area == "probe"]
    assert facts.get("snapshot", "node") == socket.gethostname()
    assert facts.get("cpu", "count") == psutil.cpu_count()
    assert facts.get("memory", "total_bytes") == psutil.virtual_memory().total
    assert facts.get("disk", "total_bytes", str(tmp_path)) == psutil.disk_usage(str(tmp_path)).total
    assert facts.get("disk", "writable", str(tmp_path)) is True
    assert facts.get("python", "version") is not None
    assert facts.get("cpu", "page_bytes") == os.sysconf("SC_PAGE_SIZE")


def test_a_whole_snapshot_is_read_without_loss(tmp_path: Path) -> None:
    facts = gather.snapshot(gather.Request("preflight", {"HOME": str(tmp_path)}))
    partial = texts({"host/snapshot.txt": facts.render()}, Literals()).partials[0]
    assert partial.unparsed == 0
    assert partial.columns["host_facts"].size == len(facts.facts)
    assert partial.identity.host == socket.gethostname()


def test_a_port_that_is_listened_on_is_found(pack: RulePack) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        facts = gather.snapshot(gather.Request("preflight", {"MASTER_PORT": str(port)}))
    rules = [rule for rule in pack.rules if rule.code == "PRE504"]
    result, _ = inspect_texts({"host/snapshot.txt": facts.render()}, pack, rules, Options())
    (finding,) = result.findings
    assert finding.captures["port"] == str(port)
    assert str(os.getpid()) in finding.captures["owner"]
    assert finding.severity == "error"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_rights_is_not_writable(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    facts = Facts()
    storage.storage(facts, {str(tmp_path): "named"})
    assert facts.get("disk", "writable", str(tmp_path)) is False


def test_a_path_that_is_not_there_counts_as_its_parent(tmp_path: Path) -> None:
    facts = Facts()
    storage.storage(facts, {str(tmp_path / "a/b"): "checkpoint"})
    assert facts.get("disk", "exists", str(tmp_path / "a/b")) is False
    assert facts.get("disk", "free_bytes", str(tmp_path / "a/b")) is not None


def test_hostile_environment_values_end_up_as_facts(pack: RulePack) -> None:
    nasty = "eth0\n@host_facts {}\x1b[31m] = 1"
    request = gather.Request("preflight", {"HCCL_SOCKET_IFNAME": nasty, "LD_LIBRARY_PATH": "/ascend/\n/x" * 500})
    text = gather.snapshot(request).render()
    partial = texts({"host/snapshot.txt": text}, Literals()).partials[0]
    assert partial.unparsed == 0
    rules = [rule for rule in pack.rules if rule.code == "PRE501"]
    result, _ = inspect_texts({"host/snapshot.txt": text}, pack, rules, Options())
    assert [finding.name for finding in result.findings] == ["hccl-interface-missing"]
