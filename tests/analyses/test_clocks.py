"""How far apart the clocks of hosts are is told by what they see at one moment."""

from __future__ import annotations

from npudiag.analyses import clocks, topology
from npudiag.analyses.clocks import Clocks, Offset
from npudiag.tables.records import LogRecord

DAY_US = 20_500 * 86_400_000_000


def record(node: str, seconds: float, text: str, *, line: int = 1, pid: int = 7) -> LogRecord:
    return LogRecord(
        file=f"{node}/run.log", line=line, text=text, kind="slog", node=node, pid=pid,
        time_us=DAY_US + round(seconds * 1e6),
    )  # fmt: skip


def agent(node: str, seconds: float, rank: int, size: int) -> LogRecord:
    text = f"SetupAgent rankNum[{size}], rank[{rank}], rootInfo identifier[root_1], server[192.0.2.{rank}], phydevId[0]"
    return record(node, seconds, text)


def joined(node: str, seconds: float, rank: int, size: int, name: str = "root_1") -> LogRecord:
    text = f"hcclCommInitInfo:commId[{name}], rank[{rank}], totalRanks[{size}], serverId[x], identifier[group_name_0]"
    return record(node, seconds, text, line=2)


def lost(node: str, seconds: float, culprit: str = "192.0.2.1/0") -> LogRecord:
    text = f"local rank [192.0.2.9/0]: crimer rank [{culprit}] status[LOST] by informer rank [192.0.2.3/0]"
    return record(node, seconds, text, line=3)


def find(*rows: LogRecord) -> Clocks:
    return clocks.find(rows, topology.find(rows))


def job(skew: float) -> list[LogRecord]:
    """Three hosts whose ranks start minutes apart and join together; the clock of the second one is `skew` ahead."""
    return [
        agent("a", 0, 0, 3), agent("b", 90 + skew, 1, 3), agent("c", 41, 2, 3),
        joined("a", 100, 0, 3), joined("b", 100.3 + skew, 1, 3), joined("c", 100.1, 2, 3),
        lost("a", 500), lost("b", 501 + skew), lost("c", 500.6),
    ]  # fmt: skip


def test_a_clock_that_is_ahead_is_found_and_corrected() -> None:
    found = find(*job(1380))
    assert found.reference == "a"
    assert set(found.offsets) == {"b"}
    assert abs(found.offsets["b"].seconds - 1380) < 2
    assert abs((found.corrected("b", DAY_US + 2_000_000_000) or 0) - (DAY_US + 620_000_000)) < 2_000_000
    assert found.corrected("a", DAY_US) == DAY_US
    assert found.corrected(None, None) is None


def test_equal_clocks_are_compared_and_nothing_is_said() -> None:
    found = find(*job(0.4))
    assert found.offsets == {}
    assert set(found.compared) == {"b", "c"}


def test_the_one_that_differs_from_most_is_wrong_even_if_it_comes_first() -> None:
    rows = [joined("a", 900, 0, 3), joined("b", 100, 1, 3), joined("c", 100.2, 2, 3)]
    rows += [agent("a", 0, 0, 3), agent("b", 0, 1, 3), agent("c", 0, 2, 3)]
    found = find(*sorted(rows, key=lambda row: (row.file, row.line)))
    assert set(found.offsets) == {"a"}


def test_starting_late_is_no_skew() -> None:
    assert find(agent("a", 0, 0, 2), agent("b", 600, 1, 2)).offsets == {}


def test_events_that_disagree_prove_nothing() -> None:
    rows = [*job(60)[:6], lost("a", 500), lost("b", 500.5), lost("c", 500.2)]
    assert find(*rows).offsets == {}


def test_communicators_of_a_few_ranks_are_not_one_event() -> None:
    rows = [agent("a", 0, 0, 4), agent("b", 0, 1, 4), joined("a", 10, 0, 2, "tp"), joined("b", 300, 1, 2, "tp")]
    assert find(*rows).compared == ()


def test_whole_hours_look_like_another_time_zone() -> None:
    assert Offset("b", 8 * 3600 + 1.5, 1, 0.0).zone
    assert not Offset("b", 1380, 1, 0.0).zone


def test_times_of_clocks_that_were_not_set_are_left_alone() -> None:
    known = Clocks("a", {"b": Offset("b", 100.0, 1, 0.0)}, ("b",))
    assert known.corrected("b", 5_000_000) == 5_000_000
