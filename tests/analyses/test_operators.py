"""Ranks that gave up together are compared: the odd one and the late one are told from what all have in common."""

from __future__ import annotations

from npudiag.analyses import operators, timeouts, topology
from npudiag.analyses.clocks import Clocks, Offset
from npudiag.analyses.operators import Operators
from npudiag.analyses.waits import People
from npudiag.tables.records import LogRecord

START_US = operators._stamp_us("2026-03-04-10:00:00.000.000") or 0


def report(
    rank: int,
    *,
    size: int = 4,
    op: str = "AllReduce",
    index: int = 21,
    count: int = 256,
    launched: float = 0.0,
    waited: float = 600.0,
    node: str | None = None,
) -> list[LogRecord]:
    minute, second = divmod(launched, 60)
    at = f"2026-03-04-10:{int(minute):02d}:{int(second):02d}.000.000"
    texts = (
        f"[TaskExecStage][Timeout][Host]Task run failed, base information is streamID:[2], taskID[21], tag[{op}_g1], "
        "AlgType(level 0-1-2):[fullmesh-ring-NHR].",
        f"Task run failed, groupRank information is group:[g1], user define information[], rankSize[{size}], "
        f"rankId[{rank}].",
        f"Task run failed, opData information is timeStamp:[{at}], deviceId[{rank}], index[{index}], count[{count}], "
        "src[0x12c0], dst[0x12c1], dataType[float32].",
    )
    return [
        LogRecord(
            file=f"r{rank}.log", line=number, text=text, kind="slog", node=node or f"n{rank}", pid=100 + rank,
            level="ERROR", module="HCCL", time_us=START_US + round((launched + waited) * 1e6),
        )
        for number, text in enumerate(texts, 1)
    ]  # fmt: skip


def compare(*reports: list[LogRecord], clocks: Clocks | None = None) -> Operators:
    rows = [row for one in reports for row in one]
    known = topology.find(rows)
    topology.place(rows, known)
    return operators.find(rows, People(known, rows), clocks or Clocks())


def test_the_rank_in_another_operator_is_odd() -> None:
    found = compare(report(0), report(1), report(2, op="AllGather"), report(3))
    (odd,) = found.odd
    assert (odd.what, odd.odd, odd.others, odd.told) == ("op", "AllGather", "AllReduce", True)
    assert [party.rank for party in odd.parties] == [2]
    assert "tag[AllGather" in odd.records[0].text


def test_another_size_of_a_reduction_counts_and_of_an_exchange_does_not() -> None:
    assert compare(report(0), report(1, count=128), report(2), report(3)).odd[0].what == "count"
    exchanged = [report(rank, op="AlltoAllV", count=100 + rank % 2) for rank in range(4)]
    assert compare(*exchanged).odd == []


def test_two_sides_do_not_tell_which_is_wrong() -> None:
    (odd,) = compare(report(0, size=2), report(1, size=2, op="Broadcast")).odd
    assert not odd.told
    assert {party.rank for party in odd.parties} == {0, 1}


def test_nothing_is_compared_while_a_rank_is_silent() -> None:
    assert compare(report(0), report(1), report(2, op="AllGather")).odd == []


def test_kinds_at_different_places_of_the_sequence_are_no_contradiction() -> None:
    """Where a link broke some ranks got one operator further than others."""
    found = compare(report(0), report(1), report(2, op="AllGather", index=22), report(3, op="AllGather", index=22))
    assert found.odd == []


def test_the_rank_that_launched_late_is_told() -> None:
    found = compare(report(0), report(1, launched=0.4), report(2, launched=740), report(3, launched=0.1))
    (late,) = found.late
    assert (late.party.rank, round(late.seconds), late.others) == (2, 740, 3)
    assert found.odd == []


def test_a_clock_that_is_ahead_is_not_late() -> None:
    ahead = Clocks("n0", {"n2": Offset("n2", 740.0, 2, 0.1)}, ("n2",))
    assert compare(report(0), report(1), report(2, launched=740), report(3), clocks=ahead).late == []


def test_a_few_seconds_are_not_late() -> None:
    assert compare(report(0), report(1), report(2, launched=20), report(3)).late == []


def test_hccls_own_comparison_names_the_odd_one() -> None:
    def check(rank: int, local: int, remote: int, peer: int) -> list[LogRecord]:
        texts = (
            f"SetupAgent rankNum[4], rank[{rank}], rootInfo identifier[g], server[192.0.2.{rank}%eth0], phydevId[0]",
            f"[InitChannelStage][ParameterConflict]CMD information count check fail. local[{local}], remote[{remote}]",
            f"Transport init error! createLink para:rank[{rank}]-localUserrank[{rank}]-localIpAddr[192.0.2.{rank}/0], "
            f"remoteRank[{peer}]-remoteUserrank[{peer}]-remoteIpAddr[192.0.2.{peer}/0], tag[x]",
        )
        return [
            LogRecord(file=f"{rank}", line=n, text=text, kind="slog", node=f"n{rank}", pid=10 + rank, level="ERROR")
            for n, text in enumerate(texts, 1)
        ]

    silent = check(3, 0, 0, 0)[:1]
    (odd,) = compare(check(0, 8, 9, 1), check(1, 9, 8, 0), check(2, 8, 9, 1), silent).odd
    assert odd.linking and odd.told
    assert [party.rank for party in odd.parties] == [1]


def test_time_outs_say_who_set_what_and_how_long_it_took() -> None:
    rows = [row for one in (report(0), report(1, launched=740), report(2), report(3)) for row in one]
    setting = "[HCCL_ENV] HCCL_EXEC_TIMEOUT set by environment to [600]s"
    rows += [LogRecord(file=f"r{n}.log", line=9, text=setting, kind="slog", node=f"n{n}", pid=100 + n) for n in (0, 1)]
    known = topology.find(rows)
    doing = operators.find(rows, People(known, rows), Clocks())
    launch = [
        {"key": "HCCL_EXEC_TIMEOUT", "value": "3600", "file": "run.sh", "line": 4, "source": "script"},
        {"key": "HCCL_EXEC_TIMEOUT", "value": "600", "file": "r0.log", "line": 9, "source": "log"},
    ]
    found = timeouts.find(rows, launch, doing, Clocks())
    (one,) = found.of("HCCL_EXEC_TIMEOUT")
    assert (one.seconds, one.by, one.processes) == (600, "environment", 2)
    assert [(meant.seconds, meant.file) for meant in found.meant] == [(3600, "run.sh")]
    assert (found.waited_s, found.spread_s, found.ranks, found.link) == (600.0, 740.0, 4, False)
    assert found.facts()["spread_s"] == 740.0


def on_console(rank: int) -> list[LogRecord]:
    text = "RuntimeError: NPU function error: c10_npu::npuSynchronizeUsedDevices(), error code is 507048"
    return [LogRecord(file="train.log", line=9, text=text, kind="console", node=f"n{rank}", rank=rank, level="ERROR")]


def test_one_that_gave_up_without_a_plog_is_not_silent_and_makes_the_odd_one_less_certain() -> None:
    others = [report(0), report(1), report(2, op="AllGather")]
    assert [party.rank for party in compare(*others).silent] == [3]
    found = compare(*others, on_console(3))
    assert found.silent == []
    (odd,) = found.odd
    assert ([party.rank for party in odd.parties], odd.told, odd.certain) == ([2], True, False)
    assert compare(*others, report(3)).odd[0].certain
