"""Console text: records put together across prefixes, tracebacks and CANN blocks."""

from __future__ import annotations

import datetime
import io

from hypothesis import given, settings
from hypothesis import strategies as st

from npudiag.discover.source import Identity, Source
from npudiag.parsers.base import Budget, Context, Partial
from npudiag.parsers.console import ConsoleParser
from npudiag.parsers.scan import Literals, Scanner


def parse(text: str | bytes, *literals: str, budget: Budget | None = None) -> Partial:
    data = text.encode() if isinstance(text, str) else text
    source = Source("train.log", None, None, None, Identity())
    context = Context(source, Scanner(Literals(literals, (False,) * len(literals))), budget or Budget(), 2026)
    return ConsoleParser().parse(io.BytesIO(b""), data, context)


TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
RuntimeError: call aclnnAdd failed, detail:EZ9999: Inner Error!
EZ9999: [PID: 5] 2026-01-02-03:04:05.123.456 something
        TraceBack (most recent call last):
       deeper
"""


def test_a_traceback_with_its_cann_block_is_one_record() -> None:
    partial = parse("start of torch_npu job\n" + TRACEBACK + "next line\n", "Traceback (most recent call last)")
    (row,) = partial.rows
    assert row.line == 2
    assert row.text.startswith("Traceback") and row.text.endswith("deeper")
    assert row.before == ("start of torch_npu job",)
    assert row.after == ("next line",)


def test_a_traceback_that_python_passed_over_is_a_warning_with_the_words_that_say_so() -> None:
    for head in (
        "Exception ignored in: <function Loader.__del__ at 0xfffd0a4bd5e0>",
        "--- Logging error ---",
        "Error in atexit._run_exitfuncs:",
    ):
        (row,) = parse(f"npu job\n{head}\n{TRACEBACK}next line\n", "Traceback (most recent call last)").rows
        assert (row.line, row.level) == (2, "WARNING")
        assert row.text.startswith(head) and "RuntimeError: call aclnnAdd failed" in row.text


def test_the_words_of_a_user_are_no_words_of_the_server() -> None:
    line = "INFO 10-12 07:10:22 [logger.py:40] Received request chatcmpl-1a: prompt: 'why NEEDLE?', params: x\n"
    assert not parse(line, "NEEDLE").rows
    assert parse(line.replace("Received request", "Request"), "NEEDLE").rows


def test_words_by_which_a_text_of_no_known_kind_is_one_of_ours() -> None:
    for text in ("Iteration 100: 0.2, 0.3\n", "link status: UP\n", "epoch 3 loss 1.25\n", "8192 | alg_bandwidth\n"):
        assert parse(text).kind == "console", text
    for text in ("iterations were many\n", "a loss of trust\n", "the epoch of steam\n"):
        assert parse(text).kind == "unknown", text


def test_interleaved_ranks_are_told_apart() -> None:
    lines = TRACEBACK.rstrip("\n").split("\n")
    mixed = "".join(f"[rank0]: {line}\n[rank1]: {line}\n" for line in lines)
    partial = parse(mixed, "Traceback (most recent call last)")
    assert [(row.rank, row.line) for row in partial.rows] == [(0, 1), (1, 2)]
    for row in partial.rows:
        assert row.text == "\n".join(lines)
        assert row.numbers is not None and row.numbers[-1] == row.line + 2 * (len(lines) - 1)
        assert row.raw is not None and row.raw.startswith(f"[rank{row.rank}]: Traceback")


def test_a_prefixed_traceback_of_vllm_is_one_record() -> None:
    lines = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "    g()", "RuntimeError: bad thing"]
    text = "".join(f"(Worker_TP0 pid=7) ERROR 01-02 03:04:05 [multiproc.py:932] {line}\n" for line in lines)
    (row,) = parse(text, "RuntimeError: bad").rows
    assert row.text.endswith("RuntimeError: bad thing")
    assert (row.level, row.pid, row.worker) == ("ERROR", 7, "Worker_TP0")
    assert row.time_us is not None


def test_nothing_known_is_unknown() -> None:
    assert parse("shopping list\nmilk\nbread\n").kind == "unknown"
    assert parse(b"\x00\x01\x02\x03" * 100).kind == "unknown"


def test_kinds_follow_the_headers() -> None:
    assert parse("Jan  2 03:04:05 host kernel: EXT4-fs mounted\n" * 3).kind == "host-log"
    ring = "[2026-01-02-03:04:05.123456] [ascend] [devmm] [INFO] [devmm_open 12] <python3:20,20> text\n"
    assert parse(ring * 3).kind == "kernel-log"
    assert parse("\x1b[31m[ERROR] HCCL(1,p):2026-01-02-03:04:05.123.456 x\x1b[0m\n" * 3).kind == "slog"


def test_every_record_is_counted_by_level_and_minute() -> None:
    partial = parse("2026-01-02 03:04:05,123 - a - ERROR - x\n2026-01-02 03:04:06,123 - a - ERROR - x\nplain npu\n")
    assert partial.counts == {("ERROR", "", "2026-01-02T03:04"): 2, ("", "", ""): 1}


def test_evidence_lines_are_physical() -> None:
    text = "one npu line\r\n\r\nEZ9999: Inner Error!\r\n   detail\r\n"
    (row,) = parse(text, "Inner Error").rows
    assert (row.line, row.text) == (3, "EZ9999: Inner Error!\n   detail")


def test_the_end_of_an_endless_traceback_is_kept() -> None:
    frames = "".join(f'  File "a{i}.py", line {i}, in f\n    g()\n' for i in range(500))
    text = "Traceback (most recent call last):\n" + frames + "ValueError: the end\n"
    (row,) = parse(text, "Traceback (most recent").rows
    assert row.text.endswith("ValueError: the end")
    assert row.text.count("\n") <= Budget().record_lines
    assert row.numbers is not None and row.numbers[-1] == 1002


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_survived(data: bytes) -> None:
    partial = parse(data, "NEEDLE")
    assert all(row.line >= 1 for row in partial.rows)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "[rank0]: NEEDLE",
                "Traceback (most recent call last):",
                "  File",
                "EZ9999: x",
                "",
                "ValueError: NEEDLE",
                "x npu",
            ]
        ),
        max_size=30,
    )
)
def test_every_hit_is_kept_at_its_line(lines: list[str]) -> None:
    partial = parse("\n".join(lines), "NEEDLE")
    for row in partial.rows:
        numbers = row.numbers or range(row.line, row.line + row.text.count("\n") + 1)
        raw = (row.raw or row.text).split("\n")
        assert [lines[number - 1] for number in numbers] == raw
    told = sum((row.raw or row.text).count("NEEDLE") for row in partial.rows)
    assert told == min(told, sum(line.count("NEEDLE") for line in lines))
    assert (told > 0) == any("NEEDLE" in line for line in lines)


def test_what_is_printed_behind_a_progress_bar_is_a_record_of_its_own() -> None:
    bar = "  3%|▎         | 12/400 [01:02<33:20,  5.16s/it]"
    partial = parse(
        "[2026-01-02 03:04:05,678] [INFO] [scale.py:9:step] OVERFLOW one\n"
        + bar
        + "[2026-01-02 03:04:11,678] [INFO] [scale.py:9:step] OVERFLOW two\n"
        + bar
        + "Traceback (most recent call last):\n"
        + '  File "train.py", line 3, in <module>\n'
        + "ValueError: three\n",
        "OVERFLOW",
        "Traceback (most recent call last)",
    )
    assert [row.line for row in partial.rows] == [1, 2, 3]
    assert partial.rows[1].text == "[2026-01-02 03:04:11,678] [INFO] [scale.py:9:step] OVERFLOW two"
    assert partial.rows[1].raw == bar + partial.rows[1].text
    assert partial.rows[1].level == "INFO"
    assert partial.rows[2].text.endswith("ValueError: three")


def test_a_progress_bar_that_stands_alone_ends_the_record_above() -> None:
    bar = "  3%|▎         | 12/400 [01:02<33:20,  5.16s/it]"
    partial = parse("ERROR 01-02 03:04:05 [core.py:7] one\n" + bar + "\n  indented\n", "] one", "one")
    assert [row.text for row in partial.rows if row.hits] == ["one"]


def _dated(text: str, written: str) -> Partial:
    moment = datetime.datetime.fromisoformat(written)
    source = Source("train.log", None, None, None, Identity())
    context = Context(source, Scanner(Literals(("NEEDLE",), (False,))), Budget(), moment.year)
    context.written_us = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    return ConsoleParser().parse(io.BytesIO(b""), text.encode(), context)


def _years(partial: Partial) -> list[int]:
    return [
        (datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=row.time_us or 0)).year for row in partial.rows
    ]


def test_a_stamp_without_a_year_is_never_later_than_its_file() -> None:
    for line in (
        "E1210 03:20:14.110028 5 a.cpp:820] NEEDLE\n",
        "(Worker_TP0 pid=1) ERROR 12-10 03:20:14 [a.py:1] NEEDLE\n",
    ):
        partial = _dated(line, "2026-11-30T12:00:00")
        assert (_years(partial), partial.assumed_year) == ([2025], 2025)
        partial = _dated(line, "2026-12-30T12:00:00")
        assert (_years(partial), partial.assumed_year) == ([2026], 2026)


def test_the_year_of_other_stamps_in_the_file_is_taken() -> None:
    text = "2024-09-08 11:34:00,400 - a - ERROR - NEEDLE\n[W908 11:34:01.252908110 a.cpp:5] NEEDLE\n"
    partial = _dated(text, "2026-11-30T12:00:00")
    assert (_years(partial), partial.assumed_year) == ([2024, 2024], None)
