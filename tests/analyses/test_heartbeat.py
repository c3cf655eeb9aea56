"""The heartbeat accuses many in the end; the one that counts is told first, gravest and by most."""

from __future__ import annotations

from npudiag.analyses import heartbeat, topology
from npudiag.analyses.clocks import Clocks, Offset
from npudiag.analyses.heartbeat import Accusation
from npudiag.analyses.waits import People
from npudiag.tables.records import LogRecord

NOON_US = 1_767_268_800_000_000


def hello(rank: int) -> LogRecord:
    text = (
        f"SetupAgent rankNum[4], rank[{rank}], rootInfo identifier[g], server[192.0.2.{rank}%eth0], "
        f"logicDevId[{rank}], phydevId[{rank}], deviceIp[198.51.100.{rank}]"
    )
    return LogRecord(file=f"n{rank}/run.log", line=1, text=text, kind="slog", node=f"n{rank}", pid=100 + rank)


def told(by: int, of: int, kind: str, seconds: float) -> LogRecord:
    text = (
        f"[HeartbeatAbnormal]local rank [192.0.2.{by}/{by}]: crimer rank [192.0.2.{of}/{of}] status[{kind}] by "
        "informer rank [192.0.2.9/9]"
    )
    return LogRecord(
        file=f"n{by}/run.log", line=9, text=text, kind="slog", node=f"n{by}", pid=100 + by,
        time_us=NOON_US + round(seconds * 1e6),
    )  # fmt: skip


def accusations(*rows: LogRecord, clocks: Clocks | None = None) -> list[Accusation]:
    everything = [*(hello(rank) for rank in range(4)), *rows]
    return heartbeat.find(everything, People(topology.find(everything), everything), clocks or Clocks())


def ranks(found: list[Accusation]) -> list[int | None]:
    return [accusation.party.rank for accusation in found]


def test_who_vanishes_when_the_job_ends_is_not_meant() -> None:
    found = accusations(
        told(0, 2, "LOST", 0),
        told(1, 2, "LOST", 1),
        told(3, 2, "LOST", 1),
        told(0, 3, "LOST", 1836),
        told(1, 3, "LOST", 1836),
    )
    assert ranks(found) == [2, 3]
    culprit = heartbeat.culprit(found)
    assert culprit is not None and culprit.rank == 2


def test_within_a_round_the_gravest_counts() -> None:
    found = accusations(told(0, 1, "LOST", 0), told(2, 1, "LOST", 0), told(0, 3, "ERROR CQE", 4))
    assert ranks(found) == [3, 1]


def test_within_a_round_the_one_that_most_name_counts() -> None:
    found = accusations(told(0, 3, "LOST", 0), told(1, 2, "LOST", 1), told(3, 2, "LOST", 1))
    assert ranks(found) == [2, 3]


def test_two_that_accuse_each_other_are_alike() -> None:
    assert heartbeat.culprit(accusations(told(0, 1, "LOST", 0), told(1, 0, "LOST", 0.5))) is None
    assert heartbeat.culprit([]) is None


def test_rounds_are_told_apart_on_corrected_clocks() -> None:
    ahead = Clocks("n0", {"n1": Offset("n1", 600.0, 2, 0.1)}, ("n1",))
    found = accusations(told(1, 2, "LOST", 600), told(0, 3, "LOST", 300), clocks=ahead)
    assert ranks(found) == [2, 3]


def test_the_list_of_a_failed_task_is_read_too() -> None:
    text = (
        "Cluster Exception Location[IP/ID]:[192.0.2.3/3], Arrival Time:[Thu Jan  1 12:00:00 2026], "
        "ExceptionType:[Stuck Occurred], Possible Reason:1.Host process is stuck"
    )
    row = LogRecord(file="n0/debug.log", line=2, text=text, kind="slog", node="n0", pid=100, time_us=NOON_US)
    (found,) = accusations(row)
    assert (found.party.rank, found.gravity) == (3, 1)
