"""Lines passed over by their beginning give the same counts, rows and times as lines read one by one."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudiag.discover.source import Identity, Source
from npudiag.parsers import console
from npudiag.parsers.alike import Beginnings, striking
from npudiag.parsers.base import Context, Partial
from npudiag.parsers.collector import DIGITS
from npudiag.parsers.scan import Literals, Scanner
from npudiag.tables.columns import Columns

pytest.importorskip("hyperscan")

LITERALS = Literals(("RuntimeError: ", "link down", "wanted here"), (False, False, False))
WRITTEN = 1_790_000_000_000_000  # 2026-09-21


def parse(text: str, monkeypatch: pytest.MonkeyPatch, many: int) -> Partial:
    monkeypatch.setattr(console, "_MANY", many)
    source = Source("train.log", None, None, None, Identity())
    context = Context(source, Scanner(LITERALS), year=2026, written_us=WRITTEN)
    return console.ConsoleParser().parse(io.BytesIO(b""), text.encode(), context)


def same(text: str, monkeypatch: pytest.MonkeyPatch) -> Partial:
    quick, slow = (parse(text, monkeypatch, many) for many in (1, 1 << 40))
    for field in dataclasses.fields(Partial):
        found, expected = (_plain(getattr(partial, field.name)) for partial in (quick, slow))
        assert found == expected, field.name
    return quick


def _plain(value: object) -> object:
    """Return columns as text, which unlike NaN equals itself."""
    if isinstance(value, dict):
        return {key: repr(list(table.rows())) if isinstance(table, Columns) else table for key, table in value.items()}
    return value


number = st.integers(0, 10**6)
clock = st.builds("{:02d}:{:02d}:{:02d}".format, st.integers(0, 25), st.integers(0, 59), st.integers(0, 61))
date = st.builds("{:02d}-{:02d}".format, st.integers(0, 13), st.integers(1, 31))
year = st.sampled_from(("2025", "2026", "1970", "0000"))
prefix = st.one_of(
    st.just(""),
    st.builds("[rank{}]: ".format, st.integers(0, 12)),
    st.builds("(Worker_TP{} pid={}) ".format, st.integers(0, 3), st.integers(7, 9)),
    st.builds("(EngineCore_DP{} pid=5) (Worker_TP{} pid=6) ".format, st.integers(0, 1), st.integers(0, 1)),
    st.builds("{}T{}.123456Z ".format, st.builds("{}-{}".format, year, date), clock),
    st.builds("{}.250 [rank{}]: ".format, clock, st.integers(0, 3)),
    st.just("[default0]:"),
)
header = st.one_of(
    st.just(""),
    st.builds("INFO {} {} [core.py:{}] ".format, date, clock, number),
    st.builds("INFO {} {} ".format, date, clock),
    st.builds(
        "{}-{} {},{} - my.logger - {} - ".format,
        year,
        date,
        clock,
        st.just("123"),
        st.sampled_from(("INFO", "WARNING")),
    ),
    st.builds("[{}-{} {}] ".format, year, date, clock),
    st.builds("[{}-{}-{}.123.456] ".format, year, date, clock),
    st.builds("[INFO] {}-{} {}.5 ".format, year, date, clock),
    st.builds("I{} {}.123456 {} file.cc:12] ".format, st.just("0828"), clock, number),
    st.builds("[I{} {}.123456 file.cc:12] ".format, st.just("828"), clock),
    st.builds("Aug {} {} host kernel: ".format, st.integers(1, 31), clock),
    st.builds("[INFO] HCCL({},python):{}-{}-{}.123.456 ".format, number, year, date, clock),
    st.builds("[ERROR] {}-{}-{} (PID:{}, Device:0, RankID:3) ".format, year, date, clock, number),
    st.builds("[ {}.123456] ".format, number),
    st.just("[INFO] "),
    st.just("ERROR: "),
)
message = st.one_of(
    st.builds("loaded block {} of {}".format, number, number),
    st.builds("finished request chatcmpl-{:x} well".format, st.integers(0, 1 << 60)),
    st.just("RuntimeError: call failed"),
    st.just("Traceback (most recent call last):"),
    st.just('  File "a.py", line 3, in f'),
    st.just("\tindented by a tab"),
    st.just("EZ9999: Inner Error!"),
    st.just("       TraceBack (most recent call last):"),
    st.just("link down"),
    st.just("load: 12%|##   | 3/25 [00:01<00:09, 2.4it/s]"),
    st.just("load: 12%|##   | 3/25 [00:01<00:09, 2.4it/s]wanted here"),
    st.builds(
        " iteration {}/ 100 | consumed samples: 12 | elapsed time per iteration (ms): {}.0 | lm loss: 2.5E+00 |".format,
        number,
        number,
    ),
    st.just("[GLOO] RANK_A(12,x) is here"),
    st.just("value.error: odd"),
    st.just("(not closed"),
    st.just("[not closed either"),
    st.just("字符 in a line"),
    st.just(""),
    st.just("   "),
    st.text(st.characters(codec="ascii", exclude_characters="\r\x08\x1b\0\n"), max_size=60),
)
line = st.builds("{}{}{}".format, prefix, header, message)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(line, line.map(lambda text: text + "\n" + text)), max_size=40).map("\n".join))
def test_any_mixture_reads_the_same(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        same(text, patch)
        # Twice over, so that what was learnt is used.
        same(text + "\n" + text, patch)


SHAPES: tuple[Callable[[int], str], ...] = (
    lambda at: (
        f"(Worker_TP{at % 4} pid={100 + at % 4}) INFO 08-28 01:{at // 60 % 60:02d}:{at % 60:02d} [core.py:12] step {at}"
    ),
    lambda at: (
        f"2026-08-28 01:{at // 60 % 60:02d}:{at % 60:02d},{at % 1000:03d} - trainer - INFO - batch {at} is ready"
    ),
    lambda at: f"[rank{at % 16}]: loaded shard {at}",
    lambda at: f'INFO:     10.0.0.{at % 250}:4{at % 1000:03d} - "POST /v1/completions HTTP/1.1" 200 OK',
)


@pytest.mark.parametrize("shape", SHAPES)
def test_most_lines_are_passed_over(shape: Callable[[int], str], monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[console._Run] = []
    made = console._Run.__init__

    def note(run: console._Run, *arguments: object) -> None:
        made(run, *arguments)  # type: ignore[arg-type]
        runs.append(run)

    monkeypatch.setattr(console._Run, "__init__", note)
    lines = [shape(at) for at in range(4000)]
    lines[1500:1500] = ["[rank3]: Traceback (most recent call last):", "[rank3]:   f()", "[rank3]: RuntimeError: bad"]
    partial = same("\n".join(lines), monkeypatch)
    assert [(row.line, row.rank) for row in partial.rows] == [(1501, 3)]
    assert sum(partial.counts.values()) == 4001
    assert runs[0].beginnings.spared > 3800


def test_a_line_indented_below_one_passed_over_belongs_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [SHAPES[1](at) for at in range(100)] + ["    wanted here", "the end of torch_npu"]
    partial = same("\n".join(lines), monkeypatch)
    (row,) = partial.rows
    assert (row.line, row.numbers) == (100, None)
    assert row.text.endswith("batch 99 is ready\n    wanted here")
    assert row.before == tuple(lines[97:99])


def test_a_beginning_that_settles_nothing_is_not_learnt() -> None:
    beginnings = Beginnings()
    for text in ("(Worker pid=1, ip=10.0.0.7", "[AB] CD(12,ef", "字 first", " indented"):
        masked = text.encode().translate(DIGITS)
        beginnings.learn(text, masked, 2026)
        assert (
            beginnings.find((text + " and so on, for a good while longer than that").encode().translate(DIGITS)) is None
        )


def test_striking_lines() -> None:
    data = (
        b"plain\nTraceback (most recent call last):\nhalf 50%| done\nEZ9999: x\n| consumed samples: 3 |\nplain E1999 x"
    )
    offsets = striking(data)
    assert offsets is not None
    assert {data.count(b"\n", 0, offset) for offset in offsets} == {1, 2, 3, 4}
