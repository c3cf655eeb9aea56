"""Time-outs are about the rank that was waited for, and say what the time-out was set to."""

from __future__ import annotations

from typing import Any

from npudiag.analyses import job as jobs
from npudiag.analyses import topology
from npudiag.analyses.clocks import Clocks, Offset
from npudiag.diagnosis import blame, clocknotes
from npudiag.result import Finding, Scope
from npudiag.tables.records import LogRecord


def hello(rank: int, size: int) -> LogRecord:
    text = (
        f"SetupAgent rankNum[{size}], rank[{rank}], rootInfo identifier[g], server[192.0.2.{rank}%eth0], "
        f"logicDevId[0], phydevId[0], deviceIp[198.51.100.{rank}]"
    )
    return LogRecord(file=f"n{rank}/run.log", line=1, text=text, kind="slog", node=f"n{rank}", pid=100 + rank)


def row(rank: int, line: int, text: str) -> LogRecord:
    return LogRecord(
        file=f"n{rank}/debug.log", line=line, text=text, kind="slog", node=f"n{rank}", pid=100 + rank,
        level="ERROR", module="HCCL", time_us=1_767_268_800_000_000 + rank * 1000,
    )  # fmt: skip


def finding(name: str, **changed: Any) -> Finding:
    values: dict[str, Any] = {
        "id": "", "code": "HCC101", "name": name, "category": "hccl-timeout", "severity": "critical",
        "confidence": "high", "title": "t", "summary": "S.", "i18n": {"zh": {"summary": "\u6458\u8981\u3002"}},
    }  # fmt: skip
    return Finding(**{**values, **changed})


def blamed(one: Finding, *rows: LogRecord) -> Finding:
    blame.apply([one], jobs.find(rows, topology.find(rows), ()))
    return one


def test_a_time_out_names_the_awaited_rank_and_the_setting() -> None:
    setting = "HCCL_EXEC_TIMEOUT set by environment to [600]s"
    waits = [
        row(rank, 3, "EI0002 The wait execution of the Notify register times out. remote rank:[2]") for rank in (0, 1)
    ]
    told = blamed(
        finding("collective-notify-timeout"),
        *(hello(n, 3) for n in range(3)),
        *(row(n, 2, setting) for n in range(3)),
        *waits,
    )
    assert (told.scope.ranks, told.scope.nodes) == ([2], ["n2"])
    assert "600 s (set by environment, 3 processes)" in told.summary
    assert (
        "600 s\uff08\u73af\u5883\u53d8\u91cf\u8bbe\u7f6e\uff0c3 \u4e2a\u8fdb\u7a0b\uff09" in told.i18n["zh"]["summary"]
    )


def test_ranks_that_never_joined_are_the_scope() -> None:
    told = blamed(
        finding("topo-server-missing-ranks", category="hccl-init"),
        hello(0, 4),
        row(0, 2, 'TopoDetect ERROR occur !!! fault_info["Failed to connect agent[1,3,]"]'),
    )
    assert told.scope.ranks == [1, 3]


def test_the_kernel_knows_processes_and_the_topology_ranks() -> None:
    one = finding("host-oom-killed", category="host-fault", captures={"victim": "102"}, scope=Scope(nodes=["n2"]))
    told = blamed(one, *(hello(n, 3) for n in range(3)))
    assert (told.scope.ranks, told.scope.devices) == ([2], [0])
    assert "rank 2" in told.summary


def test_a_process_of_another_node_is_nobody() -> None:
    one = finding("host-oom-killed", category="host-fault", captures={"victim": "102"}, scope=Scope(nodes=["n1"]))
    assert blamed(one, *(hello(n, 3) for n in range(3))).scope.ranks == []


def test_clock_notes_come_in_both_languages() -> None:
    clocks = Clocks("a", {"b": Offset("b", 1380.2, 2, 0.1), "c": Offset("c", -28800.0, 1, 0.0)}, ("b", "c"))
    (note,) = clocknotes.of([], clocks)
    assert "b is 1,380 s ahead" in note.en and "c is 28,800 s behind (another time zone?)" in note.en
    assert "b \u5feb 1,380 s" in note.zh and "c \u6162 28,800 s" in note.zh
    assert clocknotes.of([], Clocks()) == []


def test_the_only_one_that_did_not_give_up_is_waited_for() -> None:
    """No line names a peer, but three of the four in the communicator report."""
    rows = [hello(n, 4) for n in range(4)]
    for rank in (0, 1, 3):
        rows.append(row(rank, 4, "Task run failed, base information is streamID:[2], taskID[21], tag[AllReduce_g]."))
        rows.append(
            row(
                rank,
                5,
                "Task run failed, groupRank information is group:[g], user define information[], rankSize[4], "
                f"rankId[{rank}].",
            )
        )
    told = blamed(finding("collective-notify-timeout"), *rows)
    assert (told.scope.ranks, told.scope.nodes) == ([2], ["n2"])
    assert "but rank 2, n2, device 0" in told.summary


def test_who_gave_up_in_another_communicator_is_not_the_silent_one() -> None:
    def gave_up(rank: int, group: str, size: int, own: int) -> LogRecord:
        text = f"Task run failed, groupRank information is group:[{group}], rankSize[{size}], rankId[{own}]."
        return row(rank, 5, text)

    rows = [hello(n, 4) for n in range(4)]
    rows += [gave_up(n, "g", 4, n) for n in (0, 1, 3)]
    told = blamed(finding("collective-notify-timeout"), *rows, gave_up(2, "pair", 2, 0))
    assert "they were waiting for it" not in told.summary


def linked(rank: int, peer: int, seconds: float) -> LogRecord:
    text = f"   |  198.51.100.{peer}({peer})  |   198.51.100.{rank}({rank})   |  server  | no connect |"
    one = row(rank, 5, text)
    one.time_us = 1_767_268_800_000_000 + round(seconds * 1e6)
    return one


def test_of_two_that_wait_for_each_other_the_one_that_began_after_the_other_gave_up_is_late() -> None:
    pair = finding("collective-link-timeout", category="hccl-init")
    told = blamed(pair, hello(0, 2), hello(1, 2), linked(0, 1, 125.0), linked(1, 0, 330.0))
    assert told.scope.ranks == [1]
    assert "rank 1, n1, device 0 began to wait only when rank 0, n0, device 0 had given up" in told.summary


def test_two_that_gave_up_at_one_time_are_not_told_apart() -> None:
    pair = finding("collective-link-timeout", category="hccl-init")
    told = blamed(pair, hello(0, 2), hello(1, 2), linked(0, 1, 125.0), linked(1, 0, 180.0))
    assert told.scope.ranks == [0, 1]
    assert "wait for each other" in told.summary


def test_a_peer_without_a_log_among_others_without_one_is_a_guess() -> None:
    wait = "EI0002 The wait execution of the Notify register times out. remote rank:[2]"
    alone = blamed(finding("collective-notify-timeout"), *(hello(n, 3) for n in (0, 1)), row(0, 3, wait))
    assert (alone.scope.ranks, alone.confidence) == ([2], "high")
    many = blamed(finding("collective-notify-timeout"), *(hello(n, 8) for n in (0, 1)), row(0, 3, wait))
    assert (many.scope.ranks, many.confidence) == ([2], "medium")
    assert "waited for nobody" not in many.summary and "5 more rank(s) left no log" in many.summary


def test_a_trail_that_leaves_the_input_names_no_victim() -> None:
    own = "SetupAgent rankNum[2], rank[0], rootInfo identifier[pair], server[192.0.2.0%eth0], logicDevId[0]"
    group = "Task run failed, groupRank information is group:[pair], rankSize[2], rankId[0]."
    wait = "Task run failed, para information is notify id:[0x1], stage:[f], remote rank:[1]."
    told = blamed(
        finding("collective-notify-timeout", scope=Scope(ranks=[0], nodes=["n0"])),
        hello(0, 8), row(0, 2, own), row(0, 3, group), row(0, 4, wait),
    )  # fmt: skip
    assert (told.scope.ranks, told.scope.nodes, told.confidence) == ([], [], "medium")
    assert "The trail ends at rank 0" in told.summary


def test_unequal_time_outs_alone_set_errors_apart() -> None:
    def op(rank: int, seconds: float) -> list[LogRecord]:
        texts = (
            f"Task run failed, groupRank information is group:[g], rankSize[3], rankId[{rank}].",
            f"HCCL_EXEC_TIMEOUT set by environment to [{600 if rank == 0 else 1836}]s",
        )
        rows = [row(rank, line, text) for line, text in enumerate(texts, 3)]
        for one in rows:
            one.time_us = 1_767_268_800_000_000 + round(seconds * 1e6)
        return rows

    told = blamed(finding("collective-notify-timeout"), *(hello(n, 3) for n in range(3)), *op(0, 900), *op(1, 2136))
    assert "which the unequal time-outs alone can explain" in told.summary
    assert "late rather than gone" not in told.summary


def missing_module(**changed: Any) -> Finding:
    return finding(
        "exception-about-missing-module", code="SIG123", category="environment", severity="error", trust="generic",
        confidence="low", **changed,
    )  # fmt: skip


ABSENT = 'TopoDetect ERROR occur !!! fault_info["Failed to connect agent[3,]"]'


def test_a_missing_module_on_the_awaited_rank_is_why_it_never_came() -> None:
    one = missing_module(scope=Scope(ranks=[3]))
    any_other = finding("python-exception", category="insufficient-evidence", trust="envelope", scope=Scope(ranks=[3]))
    records = [*(hello(rank, 4) for rank in range(3)), row(0, 2, ABSENT)]
    blame.apply([one, any_other], jobs.find(records, topology.find(records), ()))
    assert (one.category, one.trust, one.severity, one.confidence) == ("environment", "specific", "critical", "medium")
    assert "this exception ended it" in one.summary
    assert any_other.trust == "envelope", "the rule that knows the exception says more"


def test_a_missing_module_of_an_unknown_rank_may_be_it() -> None:
    records = [*(hello(rank, 4) for rank in range(3)), row(0, 2, ABSENT)]
    told = blamed(missing_module(), *records)
    assert (told.trust, told.confidence, told.scope.ranks) == ("specific", "low", [])
    assert "is not told" in told.summary


def test_a_missing_module_elsewhere_is_not_it() -> None:
    records = [*(hello(rank, 4) for rank in range(3)), row(0, 2, ABSENT)]
    assert blamed(missing_module(scope=Scope(ranks=[1])), *records).trust == "generic"
    heard = [*(hello(rank, 4) for rank in range(4)), row(0, 2, ABSENT)]
    assert blamed(missing_module(), *heard).trust == "generic"


NOTIFY = "EI0002 The wait execution of the Notify register times out. remote rank:[2]"


def gave_up(rank: int) -> LogRecord:
    text = "RuntimeError: NPU function error: c10_npu::npuSynchronizeUsedDevices(), error code is 507048"
    return LogRecord(file="train.log", line=9, text=text, kind="console", node=f"n{rank}", rank=rank, level="ERROR")


def test_one_that_gave_up_itself_is_no_culprit_where_its_plog_is_missing() -> None:
    records = [*(hello(rank, 3) for rank in range(3)), *(row(rank, 3, NOTIFY) for rank in (0, 1))]
    assert blamed(finding("collective-notify-timeout"), *records).scope.ranks == [2]
    told = blamed(finding("collective-notify-timeout", scope=Scope(ranks=[0, 1])), *records, gave_up(2))
    assert (told.scope.ranks, told.confidence) == ([], "medium")
    assert "rank 2, n2, device 0, which gave up waiting as well" in told.summary
    assert told.collect == ["plog of rank 2, n2, device 0"]


def test_an_exception_of_one_that_gave_up_itself_is_not_the_cause() -> None:
    records = [*(hello(rank, 3) for rank in range(3)), *(row(rank, 3, NOTIFY) for rank in (0, 1)), gave_up(2)]
    one = finding("python-exception", category="insufficient-evidence", trust="envelope", scope=Scope(ranks=[2]))
    blame.apply([one], jobs.find(records, topology.find(records), ()))
    assert one.trust == "envelope"


def test_who_gave_up_is_not_named_where_nobody_is_known_to_be_waited_for() -> None:
    told = blamed(finding("collective-link-timeout", scope=Scope(ranks=[0, 1], nodes=["n0"])))
    assert (told.scope.ranks, told.scope.nodes, told.confidence) == ([], [], "medium")
    assert "Reported by rank 0, 1" in told.summary and "由 rank 0, 1 上报" in told.i18n["zh"]["summary"]
