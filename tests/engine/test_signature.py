"""Signature detectors on records made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from npudiag.engine.hits import Hit
from npudiag.engine.model import Near, Rule, Signature, Text, Where
from npudiag.engine.signature import Corpus, LiteralTable, run
from npudiag.parsers.scan import Scanner
from npudiag.tables.records import LogRecord


def rule(*signatures: Signature) -> Rule:
    return Rule(
        code="TST101",
        name="test",
        category="operator",
        severity="error",
        confidence="high",
        title=Text("t", "t"),
        why=Text("w", "w"),
        signatures=signatures,
    )


def records(*lines: str, **fields: Any) -> list[LogRecord]:
    return [
        LogRecord(file="a.log", line=number, text=text, kind="console", **fields)
        for number, text in enumerate(lines, 1)
    ]


def find(signature: Signature | tuple[Signature, ...], rows: list[LogRecord]) -> list[Hit]:
    one = rule(*(signature if isinstance(signature, tuple) else (signature,)))
    table = LiteralTable()
    table.add([one])
    scanner = Scanner(table.literals())
    for row in rows:
        row.hits = tuple(sorted(set(scanner.scan(row.text.encode())[0])))
    return run(one, Corpus(rows, table))


def lines(hits: list[Hit]) -> list[list[int]]:
    return [[row.line for row in hit.records] for hit in hits]


def test_all_any_and_unless() -> None:
    rows = records("alpha beta one", "alpha beta two", "alpha one", "alpha beta one but harmless")
    signature = Signature(all=("alpha", "beta"), any=("one", "three"), unless=("harmless",))
    assert lines(find(signature, rows)) == [[1]]


def test_a_record_without_the_column_passes_where() -> None:
    signature = Signature(all=("alpha",), where=Where(level=("ERROR",), module=("HCCL",)))
    assert find(signature, records("alpha"))
    assert find(signature, records("alpha", level="ERROR", module="HCCL"))
    assert not find(signature, records("alpha", level="INFO"))
    assert not find(signature, records("alpha", level="ERROR", module="GE"))
    assert not find(Signature(all=("alpha",), where=Where(kind=("slog",))), records("alpha"))


def test_captures_are_typed_and_what_does_not_fit_is_kept_as_text() -> None:
    signature = Signature(
        all=("alpha",),
        regex=r"n=(?P<n>[\d,x]+) f=(?P<f>\S+) h=(?P<h>\S+)(?: o=(?P<o>\S+))?",
        types={"n": "int", "f": "float", "h": "hex"},
    )
    (hit,) = find(signature, records("alpha n=1,024 f=2.5 h=0x1f"))
    assert hit.captures == {"n": 1024, "f": 2.5, "h": 31}
    (hit,) = find(signature, records("alpha n=1x f=2.5 h=0x1f o=here"))
    assert hit.captures == {"n": "1x", "f": 2.5, "h": 31, "o": "here"}
    assert not find(signature, records("alpha without numbers"))


def test_nocase() -> None:
    signature = Signature(all=("ALPHA",), unless=("harmless",), nocase=True)
    assert lines(find(signature, records("Alpha", "aLPHA HARMLESS"))) == [[1]]


def test_near_wants_companions_in_the_neighbourhood() -> None:
    rows = records("alpha", "gamma peer=3", "filler", "filler", "alpha")
    rows[4].line = 400
    near = Signature(
        all=("alpha",), near=Near(lines=5, all=("gamma",), regex=r"peer=(?P<peer>\d+)"), types={"peer": "int"}
    )
    (hit,) = find(near, rows)
    assert [row.line for row in hit.records] == [1, 2]
    assert hit.captures == {"peer": 3}
    assert not find(Signature(all=("alpha",), near=Near(lines=5, unless=("gamma",))), rows[:2])


def test_near_sees_lines_that_were_kept_as_context_only() -> None:
    rows = records("alpha", before=("nothing", "gamma peer=9"))
    assert find(Signature(all=("alpha",), near=Near(all=("gamma",), regex=r"peer=(?P<peer>\d+)")), rows)


def test_near_does_not_cross_files() -> None:
    rows = records("alpha", "gamma")
    rows[1].file = "b.log"
    assert not find(Signature(all=("alpha",), near=Near(all=("gamma",))), rows)


def test_count_includes_folded_repeats() -> None:
    signature = Signature(all=("alpha",), count=5)
    assert not find(signature, records(*["alpha"] * 4))
    (hit,) = find(signature, records("alpha", group=0, count=5))
    assert hit.occurrences == 5


def test_within_needs_a_dense_window() -> None:
    signature = Signature(all=("alpha",), count=3, within_s=10)
    rows = records(*["alpha"] * 5)
    for row, second in zip(rows, (0, 20, 40, 60, 80), strict=True):
        row.time_us = second * 1_000_000
    assert not find(signature, rows)
    for row, second in zip(rows, (0, 20, 40, 42, 44), strict=True):
        row.time_us = second * 1_000_000
    assert find(signature, rows)


def test_per_gives_a_hit_each() -> None:
    rows = records("alpha", "alpha", "alpha")
    for row, rank in zip(rows, (0, 1, 0), strict=True):
        row.rank = rank
    assert lines(find(Signature(all=("alpha",), per=("rank",)), rows)) == [[1, 3], [2]]
    assert lines(find(Signature(all=("alpha",)), rows)) == [[1, 2, 3]]


def test_a_sequence_needs_its_end_in_time() -> None:
    signature = Signature(all=("alpha",), then=Signature(all=("omega",), within_s=60))
    rows = records("alpha", "omega")
    assert lines(find(signature, rows)) == [[1, 2]]
    assert not find(signature, records("omega", "alpha"))
    rows = records("alpha", "omega")
    rows[0].time_us, rows[1].time_us = 0, 61_000_000
    assert not find(signature, rows)
    rows = records("alpha", "omega")
    rows[0].time_us, rows[1].time_us = 0, 59_000_000
    assert find(signature, rows)


def test_the_earliest_record_decides_whatever_its_place() -> None:
    rows = records("alpha late", "alpha early")
    rows[0].time_us, rows[1].time_us = 2_000_000, 1_000_000
    assert lines(find(Signature(all=("alpha",)), rows)) == [[2, 1]]


def test_alternatives_are_one_finding() -> None:
    rows = records("alpha", "beta x=1")
    both = (Signature(all=("alpha",)), Signature(all=("beta",), regex=r"x=(?P<x>\d)"))
    (hit,) = find(both, rows)
    assert {row.line for row in hit.records} == {1, 2}
    assert hit.captures == {"x": "1"}
    assert hit.occurrences == 2


def test_a_captured_culprit_beats_the_row_that_tells_of_it() -> None:
    signature = Signature(all=("alpha",), regex=r"device (?P<device>\d+)", types={"device": "int"})
    (hit,) = find(signature, records("alpha device 6", device=0))
    assert hit.devices == [6]


@pytest.mark.parametrize("nocase", [False, True])
def test_only_records_with_a_primary_literal_are_looked_at(nocase: bool) -> None:
    rows = records("alpha")
    one = rule(Signature(all=("alpha",), nocase=nocase))
    table = LiteralTable()
    table.add([one])
    assert run(one, Corpus(rows, table)) == []


def test_what_a_later_record_takes_back_does_not_count() -> None:
    signature = Signature(
        all=("alpha",),
        regex=r"serial=(?P<serial>\d)",
        cleared_by=Signature(all=("omega",), regex=r"serial=(?P<serial>\d)", same=("serial",)),
    )
    assert not find(signature, records("alpha serial=1", "omega serial=1"))
    assert lines(find(signature, records("alpha serial=1", "alpha serial=2", "omega serial=1"))) == [[2]]
    assert lines(find(signature, records("omega serial=1", "alpha serial=1"))) == [[2]]
