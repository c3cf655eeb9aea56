"""Rank tables are read whatever their version, checked, and name ranks that left no log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from npudiag.analyses import ranktable, topology, waits
from npudiag.analyze import run
from npudiag.engine.load import load_pack, shipped_pack
from npudiag.parsers import choose
from npudiag.parsers.scan import Literals
from npudiag.reading import texts
from npudiag.tables.records import LogRecord

Document = dict[str, Any]


def card(rank: int, device: int, **more: Any) -> Document:
    return {"device_id": str(device), "device_ip": f"198.51.100.{rank + 10}", "rank_id": str(rank), **more}


def document(**changed: Any) -> Document:
    servers = [
        {"server_id": f"192.0.2.{5 + node}", "device": [card(2 * node + device, device) for device in range(2)]}
        for node in range(2)
    ]
    return {"status": "completed", "version": "1.0", "server_count": "2", "server_list": servers, **changed}


def rows(*documents: Any) -> list[Document]:
    files = {
        f"hccl-{at}.json": one if isinstance(one, str) else json.dumps(one, indent=1)
        for at, one in enumerate(documents)
    }
    empty = dict.fromkeys(
        ("group", "status", "version", "servers", "server", "host_ip", "super_pod", "device", "device_ip",
         "super_device", "rank", "fault")
    )  # fmt: skip
    partials = texts(files, Literals()).partials
    return [{"file": p.source.path, **empty, **row} for p in partials for row in p.tables["rank_table"]]


def kinds(one: Any) -> list[str]:
    return [fault.kind for fault in ranktable.check(rows(one))]


def test_a_table_is_read_with_the_lines_its_cards_stand_in() -> None:
    found = rows(document())
    assert [(row["rank"], row["device"], row["server"]) for row in found] == [
        (0, 0, "192.0.2.5"), (1, 1, "192.0.2.5"), (2, 0, "192.0.2.6"), (3, 1, "192.0.2.6"),
    ]  # fmt: skip
    text = json.dumps(document(), indent=1).split("\n")
    assert all(f'"rank_id": "{row["rank"]}"' in text[row["line"] - 1] for row in found)
    assert ranktable.check(found) == []


def test_super_pods_and_groups_are_told_apart() -> None:
    pods = [{"super_pod_id": str(pod), "server_list": [{"server_id": f"192.0.2.{5 + pod}"}]} for pod in range(2)]
    servers = [
        {"server_id": f"192.0.2.{5 + node}", "host_ip": "192.0.2.99", "device": [card(node, 0, super_device_id="7")]}
        for node in range(2)
    ]
    whole = document(version="1.2", server_list=servers, super_pod_list=pods)
    assert [row["super_pod"] for row in rows(whole)] == ["0", "1"] and kinds(whole) == []
    groups = {"version": "1.0", "status": "completed", "server_group_list": [{"group_id": "4", **document()}]}
    assert {row["group"] for row in rows(groups)} == {"4"}


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"server_count": "3"}, "servers"),
        ({"status": "initializing"}, "not-ready"),
        ({"server_list": []}, "empty"),
        ({"server_list": [{"server_id": "a", "device": [card(0, 0), card(0, 1)]}], "server_count": "1"}, "ranks"),
        ({"server_list": [{"server_id": "a", "device": [card(0, 0), card(1, 0)]}], "server_count": "1"}, "devices"),
        ({"server_list": [{"server_id": "a", "device": [card(0, 0), card(2, 1)]}], "server_count": "1"}, "ranks"),
        ({"version": "1.2"}, "pods"),
    ],
)
def test_what_is_wrong_is_found(changed: Document, kind: str) -> None:
    assert kind in kinds(document(**changed))


def test_addresses_that_repeat_or_lack() -> None:
    same = {**card(1, 1), "device_ip": card(0, 0)["device_ip"]}
    assert kinds(document(server_list=[{"server_id": "a", "device": [card(0, 0), same]}], server_count="1")) == [
        "addresses"
    ]
    lacking = {**card(1, 1), "device_ip": ""}
    assert kinds(document(server_list=[{"server_id": "a", "device": [card(0, 0), lacking]}], server_count="1")) == [
        "addresses"
    ]


@pytest.mark.parametrize("text", ['{"server_list": [{"rank_id": "0"', "{" * 4000 + '"server_list": "rank_id"'])
def test_a_broken_table_says_so(text: str) -> None:
    parser = choose(text.encode(), "hccl.json")
    assert (parser is not None and parser.name == "rank-table") or "{{" in text
    if parser is not None and parser.name == "rank-table":
        assert kinds(text) == ["unreadable"]


def test_other_json_is_no_rank_table() -> None:
    for other in ({"server_list": ["a", "b"]}, [document()], {"rank_id": 3}):
        parser = choose(json.dumps(other).encode(), "x.json")
        assert parser is None or parser.name != "rank-table"


def hello(rank: int, device: int, node: str) -> LogRecord:
    text = (
        f"SetupAgent rankNum[4], rank[{rank}], rootInfo identifier[g], server[192.0.2.5%eth0], "
        f"logicDevId[{device}], phydevId[{device}], deviceIp[198.51.100.{rank + 10}]"
    )
    return LogRecord(file="run.log", line=1, text=text, kind="slog", node=node, pid=100 + rank)


def test_ranks_without_a_log_are_known_by_the_table() -> None:
    listed = ranktable.members(rows(document()))
    known = topology.with_table(topology.find([hello(0, 0, "n1")]), listed)
    assert [(p.rank, p.node, p.server) for p in known.listed] == [
        (1, "n1", "192.0.2.5"), (2, None, "192.0.2.6"), (3, None, "192.0.2.6"),
    ]  # fmt: skip
    peer = waits.People(known).awaited(None, "198.51.100.13", None)
    assert peer == waits.Party(None, 1, 3, "192.0.2.6", logged=False)


def test_a_table_that_contradicts_the_processes_is_not_of_this_job() -> None:
    listed = ranktable.members(rows(document()))
    assert not topology.with_table(topology.find([hello(0, 1, "n1")]), listed).listed
    assert ranktable.members(rows(document(), document(server_list=[], server_count="0"))) == []
    assert ranktable.members(rows(document(server_count="9"))) == []


def test_a_wrong_table_is_a_finding_and_a_note_where_the_job_trained(tmp_path: Path) -> None:
    wrong = document(server_count="3")
    (tmp_path / "hccl.json").write_text(json.dumps(wrong, indent=1))
    pack = load_pack([shipped_pack()])
    first = run([str(tmp_path)], pack).findings[0]
    assert (first.name, first.severity) == ("rank-table-wrong", "error")
    assert '"server_count"' in (first.evidence[0].text or "")
    assert "server_count is 3" in first.title and "server_count 为 3" in first.i18n["zh"]["title"]
    line = (
        " iteration        1/     100 | consumed samples:           16 | elapsed time per iteration (ms): 1802.1 | "
        "learning rate: 1.000E-06 | global batch size:    16 | lm loss: 2.313212E+00 | loss scale: 1.0 |\n"
    )
    (tmp_path / "train.log").write_text(line * 3)
    told = [finding for finding in run([str(tmp_path)], pack).findings if finding.name == "rank-table-wrong"]
    assert [finding.severity for finding in told] == ["info"]
