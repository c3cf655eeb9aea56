"""The wait-for graph leads to the rank that waited for nobody."""

from __future__ import annotations

from npudiag.analyses import topology, waits
from npudiag.tables.records import LogRecord


def hello(node: str, pid: int, rank: int, size: int, *, device: int = 0) -> LogRecord:
    text = (
        f"[INFO] HCCL({pid},python3):2026-01-02-03:04:05.123.456 [topo.cc:1] [{pid}][HCCL_TRACE]SetupAgent "
        f"rankNum[{size}], rank[{rank}], rootInfo identifier[x], server[192.0.2.{rank}%eth0], "
        f"logicDevId[{device}], phydevId[{device}], deviceIp[198.51.100.{rank}]"
    )
    return LogRecord(file=f"{node}/run.log", line=1, text=text, kind="slog", node=node, pid=pid)


def transport(node: str, pid: int, peer: int, device: int | None = 0) -> LogRecord:
    where = f"192.0.2.{peer}" + (f"/{device}" if device is not None else "")
    text = f"Transport init error! createLink para:rank[9], dst_rank[0]-remoteUserrank[0]-remoteIpAddr[{where}], tag[t]"
    return LogRecord(file=f"{node}/debug.log", line=4, text=text, kind="slog", node=node, pid=pid)


def link(node: str, pid: int, rank: int, peer: int, *, ports: bool = False) -> LogRecord:
    middle = " | 16666" if ports else ""
    text = f"   |  198.51.100.{peer}({peer}){middle}  |   198.51.100.{rank}({rank})   |  server  | no connect |"
    return LogRecord(file=f"{node}/debug.log", line=5, text=text, kind="slog", node=node, pid=pid)


def notify(node: str, pid: int, peer: int) -> LogRecord:
    text = f"EI0002: The wait execution of the Notify register times out. remote rank:[{peer}]."
    return LogRecord(file=f"{node}/debug.log", line=6, text=text, kind="slog", node=node, pid=pid)


def graph(*records: LogRecord) -> waits.Waits:
    return waits.find(records, topology.find(records))


def people(size: int) -> list[LogRecord]:
    return [hello(f"worker-{rank}", 100 + rank, rank, size) for rank in range(size)]


def test_a_chain_leads_to_its_end() -> None:
    found = graph(
        *people(4), transport("worker-3", 103, 2), transport("worker-2", 102, 1), transport("worker-1", 101, 0)
    )
    assert [(party.node, party.rank, party.device) for party in found.culprits] == [("worker-0", 0, 0)]
    assert found.waiters == [3]
    assert not found.circle
    assert [record.node for record in found.last_hops()] == ["worker-1"]


def test_everybody_waits_for_one() -> None:
    found = graph(*people(5), *(notify(f"worker-{rank}", 100 + rank, 3) for rank in (0, 1, 2, 4)))
    assert [party.rank for party in found.culprits] == [3]
    assert found.waiters == [4]


def test_both_layouts_of_the_link_table() -> None:
    for ports in (False, True):
        found = graph(*people(3), link("worker-0", 100, 0, 2, ports=ports), link("worker-1", 101, 1, 2, ports=ports))
        assert [party.node for party in found.culprits] == ["worker-2"]


def test_two_that_wait_for_each_other_are_a_circle() -> None:
    found = graph(*people(2), link("worker-0", 100, 0, 1), link("worker-1", 101, 1, 0))
    assert found.circle
    assert {party.node for party in found.culprits} == {"worker-0", "worker-1"}


def test_a_peer_without_a_log_is_named_by_its_address() -> None:
    found = graph(hello("worker-0", 100, 0, 8), link("worker-0", 100, 0, 7))
    (party,) = found.culprits
    assert (party.rank, party.address, party.logged) == (7, "198.51.100.7", False)


def test_the_most_waited_for_comes_first() -> None:
    found = graph(*people(5), notify("worker-0", 100, 4), notify("worker-1", 101, 4), notify("worker-2", 102, 3))
    assert [(party.rank, number) for party, number in zip(found.culprits, found.waiters, strict=True)] == [
        (4, 2),
        (3, 1),
    ]


def test_an_unknown_rank_number_is_no_edge() -> None:
    assert graph(*people(2), notify("worker-0", 100, 0xFFFFFFFF)).culprits == []


def test_words_about_remote_ranks_are_no_waits() -> None:
    row = LogRecord(file="a", line=1, text="config: remoteRank:3 enabled", kind="slog", node="worker-0", pid=100)
    assert graph(*people(4), row).edges == []


def test_nobody_waits_for_itself() -> None:
    assert graph(*people(2), notify("worker-1", 101, 1)).edges == []


def test_the_topology_takes_the_largest_communicator() -> None:
    small = hello("worker-0", 100, 0, 2)
    large = hello("worker-0", 100, 5, 8)
    found = topology.find([large, small])
    process = found.by_pid("worker-0", 100)
    assert process is not None and (process.rank, found.ranks) == (5, 8)


def test_records_are_placed_by_header_pid_before_file_pid() -> None:
    rows = [*people(2), LogRecord(file="x", line=1, text="boom", kind="slog", node="worker-1", pid=999, file_pid=101)]
    topology.place(rows, topology.find(rows))
    assert (rows[-1].rank, rows[-1].device) == (1, 0)
