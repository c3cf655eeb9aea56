"""The fast parser of clean CANN files, against a plain reference and on odd input."""

from __future__ import annotations

import io
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudiag.discover.source import Identity, Source
from npudiag.parsers import slog as module
from npudiag.parsers.base import Budget, Context, Partial
from npudiag.parsers.scan import Literals, Scanner
from npudiag.parsers.slog import SlogParser

SOURCE = Source("job/plog-4711_20260102030405678.log", None, None, None, Identity(pid=4711))
HEADER = re.compile(
    rb"\[([A-Z]+|\d+)\] ([A-Z0-9_]+)\([^\n]{1,64}?\): ?(\d{4}-\d\d-\d\d)-(\d\d:\d\d):\d\d\.\d{3}\.\d{1,3}"
)


def parse(data: bytes, *literals: str, budget: Budget | None = None, head: int = 1000) -> Partial:
    context = Context(SOURCE, Scanner(Literals(literals, (False,) * len(literals))), budget or Budget())
    return SlogParser().parse(io.BytesIO(data[head:]), data[:head], context)


def reference(data: bytes) -> Counter[tuple[str, str, str]]:
    counts: Counter[tuple[str, str, str]] = Counter()
    for line in data.split(b"\n"):
        match = HEADER.match(line)
        if match:
            level, name, day, minute = (part.decode() for part in match.groups())
            counts[(level, name, f"{day}T{minute}")] += 1
    return counts


def line(level: str, name: str, text: str, *, who: str = "4711,python3", second: int = 0, gap: str = "") -> str:
    return f"[{level}] {name}({who}):{gap}2026-01-02-03:{second // 60:02}:{second % 60:02}.123.456 {text}\n"


@pytest.mark.parametrize(
    "header",
    [
        "[INFO] HCCL(4711,python3):2026-01-02-03:04:05.123.456 text",
        "[ERROR] RUNTIME(4711,python3.10):2026-01-02-03:04:05.123.456 text",
        "[EVENT] IMP(-2,IMP): 2026-01-02-03:04:05.123.456 70 (device_id:1 die_id:0) text",
        "[ERROR] TSCH(-1,null):2026-01-02-03:04:05.123.456 11 (dieid:0,cpuid:0) hwts.c:19 text",
        "[WARNING] ME(573:281473062022496,MainProcess):2026-01-02-03:04:05.123.456 [a/b.py:1] text",
        "[ERROR] ME(573:281473062022496,MainProcess):2026-01-02-03:04:05.460.00 [a/b.py:1] text",
        "[CRITICAL] DEVICE(83434,fffcf1ffb1e0,python):2026-01-02-03:04:05.123.456 [a.cc:1] Run] text",
        "[12] 99(1,None):2026-01-02-03:04:05.123.456 text",
        "[ERROR] ASCENDCKERNELLONG(123456789,a rather long process name (x)):2026-01-02-03:04:05.123.456 text",
        "[ERROR] RUNTIME(1322,):2026-01-02-03:04:05.123.456 [a.cc:1]1543 text",
    ],
)
def test_every_header_variant_is_counted(header: str) -> None:
    data = (header + "\n").encode()
    assert SlogParser().recognise(data, "a.log") > 0.5
    partial = parse(data)
    level, name = re.match(r"\[(\w+)\] (\w+)\(", header).groups()  # type: ignore[union-attr]
    assert partial.counts == {(level, name, "2026-01-02T03:04"): 1}


def test_a_kept_record_has_its_fields() -> None:
    data = line("ERROR", "RUNTIME", "[stream.cc:10]4712 Sync:ErrCode=507015, desc=[x]").encode()
    (row,) = parse(data).rows
    assert (row.line, row.level, row.module, row.pid, row.process) == (1, "ERROR", "RUNTIME", 4711, "python3")
    assert (row.source, row.code) == ("stream.cc:10", "507015")
    assert row.time_us == 1767323040123456 - 240_000_000


def test_continuation_lines_belong_to_the_record_above() -> None:
    text = (
        line("INFO", "GE", "quiet")
        + line("ERROR", "GE", "first\n  TraceBack (most recent call last):\n  NEEDLE here")
        + line("INFO", "GE", "quiet again")
    )
    partial = parse(text.encode(), "NEEDLE")
    (row,) = partial.rows
    assert row.line == 2
    assert row.text.endswith("NEEDLE here") and row.text.count("\n") == 2
    assert row.hits == (0,)
    assert partial.lines == 5
    assert partial.unparsed == 0


def test_a_rule_keeps_quiet_records_and_context() -> None:
    text = "".join(line("INFO", "HCCL", f"number {i} " + ("NEEDLE" if i == 5 else ""), second=i) for i in range(10))
    (row,) = parse(text.encode(), "NEEDLE").rows
    assert row.line == 6
    assert [item.split("number ")[1].strip() for item in row.before] == ["3", "4"]
    assert [item.split("number ")[1].strip() for item in row.after] == ["6", "7"]


def test_a_storm_is_folded_but_every_record_counted() -> None:
    text = "".join(line("ERROR", "DRV", f"share_log_read devid({i % 8}) ret({i * 37})") for i in range(5000))
    partial = parse(text.encode())
    (group,) = partial.groups
    assert group.count == 5000
    assert len(partial.rows) == 2
    assert partial.folded == 4998
    assert (group.first_line, group.last_line) == (1, 5000)
    assert sum(partial.counts.values()) == 5000


def test_lines_ahead_of_the_first_header_are_unparsed() -> None:
    partial = parse(b"what is this\nand this\n\n" + line("INFO", "GE", "x").encode())
    assert (partial.unparsed, partial.lines) == (2, 4)


@pytest.mark.parametrize("block", [64, 300, 1000, 8 << 20])
def test_results_do_not_depend_on_the_block_size(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = []
    for i in range(200):
        parts.append(line("ERROR" if i % 7 == 0 else "INFO", ("HCCL", "GE", "RUNTIME")[i % 3], f"n {i}", second=i))
        if i % 5 == 0:
            parts.append("   more of it\n   NEEDLE\n")
    data = "".join(parts).encode()
    whole = parse(data, "NEEDLE")
    monkeypatch.setattr(module, "_BLOCK", block)
    pieces = parse(data, "NEEDLE", head=10)
    assert pieces.counts == whole.counts == dict(reference(data))
    assert [(row.line, row.text) for row in pieces.rows] == [(row.line, row.text) for row in whole.rows]
    assert pieces.lines == whole.lines == data.count(b"\n")


def test_an_endless_line_is_cut_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK", 1 << 16)
    monkeypatch.setattr(module, "_LONGEST", 1 << 16)
    data = line("ERROR", "GE", "x" * (1 << 20)).encode() + line("ERROR", "GE", "after").encode()
    partial = parse(data)
    assert partial.lines == 2
    assert "cut" in partial.note
    assert partial.rows[-1].line == 2
    assert max(len(row.text) for row in partial.rows) <= Budget().record_chars


HEADERS = st.sampled_from(
    [
        b"[ERROR] HCCL(1,p):2026-01-02-03:04:05.123.456 a",
        b"[INFO] GE(22,python3):2026-01-02-03:05:05.123.456 b",
        b"[EVENT] IMP(-2,IMP): 2026-01-02-03:04:05.123.456 c",
        b"[ERROR] HCCL(1,p):2026-01-02 no time",
        b"[ERROR] HCCL(1,p",
        b"[",
        b"",
        b"  text",
        b"\xff\xfe\x00NEEDLE",
        b"NEEDLE",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(HEADERS | st.binary(max_size=60), max_size=40), st.integers(0, 200))
def test_any_bytes_are_counted_like_the_reference(lines: list[bytes], head: int) -> None:
    data = b"\n".join(lines)
    partial = parse(data, "NEEDLE", head=head)
    assert Counter(partial.counts) == reference(data)
    expected = data.count(b"\n") + (0 if not data or data.endswith(b"\n") else 1)
    assert partial.lines == expected
    physical = data.split(b"\n")
    for row in partial.rows:
        first = row.text.split("\n")[0]
        assert first == physical[row.line - 1].decode("utf-8", "replace").replace("\0", "")
