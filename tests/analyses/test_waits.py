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


def member(node: str, pid: int, name: str, rank: int, size: int, alias: str = "group_name_1") -> LogRecord:
    text = (
        f"[hccl_comm.cc:129] [{pid}]hcclCommInitInfo:commId[{name}], rank[{rank}], totalRanks[{size}], "
        f"serverId[192.0.2.1%eth0], deviceType[2],logicDevId[0], identifier[{alias}]"
    )
    return LogRecord(file=f"{node}/run.log", line=20, text=text, kind="slog", node=node, pid=pid)


def notify_in(node: str, pid: int, group: str, peer: int, size: int = 2) -> list[LogRecord]:
    texts = (
        f"Task run failed, base information is streamID:[4], taskID[9], tag[AllReduce_{group}], AlgType(level 0)",
        f"Task run failed, groupRank information is group:[{group}], user define information[], rankSize[{size}], "
        f"rankId[{1 - peer}].",
        f"[Timeout]Task run failed, para information is notify id:[0x1], stage:[ffffffff], remote rank:[{peer}].",
    )
    return [
        LogRecord(file=f"{node}/debug.log", line=line, text=text, kind="slog", node=node, pid=pid)
        for line, text in enumerate(texts, 1)
    ]


def test_a_rank_number_counts_in_the_communicator_that_the_lines_name() -> None:
    groups = [member("worker-2", 102, "pair_1", 0, 2), member("worker-3", 103, "pair_1", 1, 2)]
    found = graph(*people(4), *groups, *notify_in("worker-2", 102, "pair_1", 1))
    assert [party.rank for party in found.culprits] == [3]


def test_namesakes_are_told_apart_by_the_other_names_of_the_communicator() -> None:
    groups = [
        member(f"worker-{rank}", 100 + rank, f"pair_{rank // 2}", rank % 2, 2, alias="group_name_1")
        for rank in range(4)
    ]
    found = graph(*people(4), *groups, *notify_in("worker-2", 102, "group_name_1", 1))
    assert [party.rank for party in found.culprits] == [3]


def test_a_number_of_an_unknown_small_communicator_names_nobody() -> None:
    found = graph(*people(4), *notify_in("worker-2", 102, "never_introduced", 1))
    assert found.edges == []


def test_key_info_lines_introduce_ranks_of_a_rank_table() -> None:
    head = {"file": "a/run.log", "kind": "slog", "node": "a", "pid": 5}
    rows = [
        LogRecord(line=1, text="[Communicator Key Info]identifier[hccl_world_group] rankSize[8] serverNum[1]", **head),
        LogRecord(
            line=2,
            text="[LocalRank Key Info]userRank[6] hostIp[192.0.2.7] devicePhyId[6] server[192.0.2.7] deviceIp[0.0.0.0]",
            **head,
        ),
    ]
    process = topology.find(rows).by_pid("a", 5)
    assert process is not None
    assert (process.rank, process.ranks, process.device, process.server, process.device_ip) == (
        6, 8, 6, "192.0.2.7", None,
    )  # fmt: skip


def test_failed_tasks_tell_members_but_not_ranks_of_the_job() -> None:
    rows = [row for pid in (1, 2) for row in notify_in(f"w{pid}", pid, f"pair_{pid}", 1)[:2]]
    found = topology.find(rows)
    assert found.world == {} and found.ranks is None
    assert found.size("pair_1") == 2


def test_who_never_joined_is_told_by_the_root() -> None:
    told = LogRecord(
        file="worker-0/debug.log", line=9, kind="slog", node="worker-0", pid=100,
        text='TopoDetect ERROR occur !!! fault_type[1], fault_info["Failed to connect agent[2,5-6,]"]',
    )  # fmt: skip
    found = graph(*people(8)[:5], told)
    assert [(party.rank, party.logged) for party in found.absent] == [(2, True), (5, False), (6, False)]


def test_who_never_joined_is_what_the_list_of_the_root_lacks() -> None:
    texts = (
        "[DisplayConnectionedRank]need connect rankNum is [4]",
        "[DisplayConnectionedRank]connected rankinfo[LINE 0]: [0000000000000000],[0000000000000001],"
        "[0000000000000003];",
    )
    rows = [
        LogRecord(file="worker-0/debug.log", line=n, kind="slog", node="worker-0", pid=100, text=text)
        for n, text in enumerate(texts, 9)
    ]
    found = graph(hello("worker-0", 100, 0, 4), *rows)
    assert [party.rank for party in found.absent] == [2]
    assert found.silent() == found.absent


def test_whoever_waits_for_a_circle_is_not_of_it() -> None:
    found = graph(*people(3), link("worker-0", 100, 0, 1), link("worker-1", 101, 1, 0), link("worker-2", 102, 2, 0))
    assert found.circle
    assert {party.rank for party in found.culprits} == {0, 1}


def test_a_restart_is_the_same_place() -> None:
    first, second = hello("worker-1", 101, 1, 3), hello("worker-1", 201, 1, 3)
    first.time_us, second.time_us = 1_000_000, 9_000_000
    late = notify("worker-0", 100, 1)
    late.time_us = 10_000_000
    found = graph(hello("worker-0", 100, 0, 3), first, second, late)
    assert [party.rank for party in found.culprits] == [1]


def test_virtual_ports_of_a_node_are_resolved_on_that_node() -> None:
    """Every node uses the same addresses between its own cards."""

    def vnic(node: str, pid: int, device: int) -> LogRecord:
        text = f"[Start][Vnic]Listen on ip[192.0.3.{device}], port[16666] success, devPhyId[{device}], devLogicId[0]"
        return LogRecord(file=f"{node}/run.log", line=3, text=text, kind="slog", node=node, pid=pid)

    members = [hello(f"n{rank // 2}", 100 + rank, rank, 4, device=rank % 2) for rank in range(4)]
    ports = [vnic(f"n{rank // 2}", 100 + rank, rank % 2) for rank in range(4)]
    row = LogRecord(
        file="n1/debug.log", line=5, kind="slog", node="n1", pid=102,
        text="   |  192.0.3.1(1)   |  16666  |   192.0.3.0(0)   |  0  |  client  | time out |   DISABLE  | LinkInfo",
    )  # fmt: skip
    found = graph(*members, *ports, row)
    assert [(party.rank, party.logged) for party in found.culprits] == [(3, True)]


def test_a_row_with_an_unknown_address_yields_to_the_line_that_names_the_device() -> None:
    row = LogRecord(
        file="worker-0/debug.log", line=3, kind="slog", node="worker-0", pid=100,
        text="   |  192.0.3.1(1)   |  16666  |   192.0.3.0(0)   |  0  |  client  | time out |   DISABLE  | LinkInfo",
    )  # fmt: skip
    found = graph(*people(3), row, transport("worker-0", 100, 2))
    assert [(party.rank, party.logged) for party in found.culprits] == [(2, True)]


def test_cards_of_a_node_that_wait_for_each_others_memory() -> None:
    text = "[Wait][P2PConnected]connected p2p timeout, timeout:120 s. local logicDevid:0, remote physic id:1."
    row = LogRecord(file="n0/debug.log", line=5, text=text, kind="slog", node="n0", pid=100)
    found = graph(hello("n0", 100, 0, 2), hello("n0", 101, 1, 2, device=1), row)
    assert [(party.rank, party.device) for party in found.culprits] == [(1, 1)]


def test_a_communicator_smaller_than_the_job_gives_no_ranks_of_the_job() -> None:
    rows = notify_in("w1", 1, "pair_1", 1)[:2]
    rows += [LogRecord(file=f"w{n}/debug.log", line=1, text="x", kind="slog", node=f"w{n}", pid=n) for n in (2, 3)]
    assert topology.find(rows).world == {}
    assert topology.find(rows[:3]).ranks == 2


def test_what_is_said_calmly_is_no_wait() -> None:
    row = notify("worker-0", 100, 3)
    row.level = "INFO"
    assert graph(*people(2), row).edges == []


def test_who_waits_for_an_unknown_member_of_a_small_communicator_is_no_culprit() -> None:
    """worker-0 is waited for, but itself waits for number 1 of a pair whose other half left no log."""
    rows = [member("worker-0", 100, "pair_1", 0, 2), *notify_in("worker-0", 100, "pair_1", 1)]
    found = graph(*people(3), hello("worker-9", 109, 5, 8), *rows, notify("worker-1", 101, 0))
    assert found.culprits == []
    assert not found.circle
    assert [party.node for party in found.untold] == ["worker-0"]


def test_the_last_unknown_member_is_the_only_rank_without_a_log() -> None:
    rows = [member("worker-0", 100, "pair_1", 0, 2), *notify_in("worker-0", 100, "pair_1", 1)]
    found = graph(*(one for one in people(4) if one.pid != 102), *rows)
    assert [(party.rank, party.logged) for party in found.culprits] == [(2, False)]
