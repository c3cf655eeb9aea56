from __future__ import annotations

import io
import itertools
import json
import tracemalloc

import pytest

from npudiag.errors import SourceError
from npudiag.parsers.normalise import BLOCK_BYTES, LONGEST_LINE, LineStats, Plan, iter_lines, plan

SLOG = "[ERROR] RUNTIME(4711,python3):2026-01-02-03:04:05.678.901 [task.cc:12]88 Aicore kernel failed"


def lines(data: bytes | str, how: Plan | None = None) -> list[tuple[int, str]]:
    raw = data.encode() if isinstance(data, str) else data
    return list(iter_lines(io.BytesIO(raw), how or plan(raw, complete=True)))


def texts(data: bytes | str, how: Plan | None = None) -> list[str]:
    return [text for _, text in lines(data, how)]


def steps(data: bytes | str, *, complete: bool = True) -> tuple[str, ...]:
    return plan(data.encode() if isinstance(data, str) else data, complete).steps


# --- line numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("", []),
        ("\n", [(1, "")]),
        ("a", [(1, "a")]),
        ("a\n", [(1, "a")]),
        ("a\n\n\nb", [(1, "a"), (2, ""), (3, ""), (4, "b")]),
        ("  a \t\n", [(1, "  a \t")]),
        # these end lines for Python's splitlines, but not on disk
        ("a\x0bb\x0cc\u2028d\x85e\n", [(1, "a\x0bb\x0cc\u2028d\x85e")]),
    ],
)
def test_plain_text(data: str, expected: list[tuple[int, str]]) -> None:
    assert plan(data.encode(), complete=True) == Plan()
    assert plan(data.encode(), complete=True).trivial
    assert lines(data) == expected


def test_numbers_go_on_over_blocks() -> None:
    stats = LineStats()
    data = b"".join(b"line %d\n" % number for number in range(1, 400_001))
    assert len(data) > 3 * BLOCK_BYTES
    seen = 0
    for number, text in iter_lines(io.BytesIO(data), Plan(), stats):
        seen += 1
        assert text == f"line {seen}"
        assert number == seen
    assert seen == stats.lines == 400_000


def test_statistics_and_a_first_number() -> None:
    stats = LineStats(lines=100)
    assert list(iter_lines(io.BytesIO(b"a\nb"), Plan(), stats)) == [(101, "a"), (102, "b")]
    assert stats == LineStats(lines=102)


class Breaking(io.RawIOBase):
    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    def read(self, size: int = -1, /) -> bytes:
        if not self._pieces:
            raise SourceError("broken off", reason="truncated")
        return self._pieces.pop(0)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_everything_ahead_of_an_error_is_yielded(encoding: str) -> None:
    stats = LineStats()
    got = []
    data = "one\ntwo\nthr".encode(encoding)
    with pytest.raises(SourceError):
        got.extend(iter_lines(Breaking(data), Plan(encoding), stats))
    seen = iter_lines(Breaking(data), Plan(encoding))
    assert list(itertools.islice(seen, 3)) == [(1, "one"), (2, "two"), (3, "thr")]
    assert stats.lines == 3


# --- encodings --------------------------------------------------------------------------------------------------

CHINESE = "[ERROR] GE(12,python3):2026-01-02-03:04:05.678.901 算子编译失败，请检查环境变量\n第二行\n"


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (CHINESE.encode(), "utf-8"),
        (b"\xef\xbb\xbf" + CHINESE.encode(), "utf-8-sig"),
        (CHINESE.encode("gb18030"), "gb18030"),
        (CHINESE.encode("gbk") * 50, "gb18030"),
        (b"\xff\xfe" + CHINESE.encode("utf-16-le"), "utf-16-le"),
        (b"\xfe\xff" + CHINESE.encode("utf-16-be"), "utf-16-be"),
        ((SLOG + "\n").encode("utf-16-le"), "utf-16-le"),
        ((SLOG + "\n").encode("utf-16-be"), "utf-16-be"),
        ("Größe überschritten, Gerät gestört\n".encode("latin-1"), "latin-1"),
    ],
)
def test_encodings(data: bytes, encoding: str) -> None:
    how = plan(data, complete=True)
    assert (how.encoding, how.binary, how.steps) == (encoding, False, ())
    assert how.trivial == (encoding == "utf-8")
    text = data.decode(encoding).removeprefix("\ufeff")
    assert texts(data) == text.removesuffix("\n").split("\n")


@pytest.mark.parametrize("cut", range(1, 6))
@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
def test_a_sample_may_end_inside_a_character(encoding: str, cut: int) -> None:
    data = ("中文日志内容" * 10).encode(encoding)
    assert plan(data[:-cut], complete=False).encoding == encoding


def test_undecodable_bytes_are_replaced_and_counted() -> None:
    data = CHINESE.encode() + b"cut \xe4\xb8\nand \xef\xbf\xbd was there\n"
    stats = LineStats()
    got = [text for _, text in iter_lines(io.BytesIO(data), plan(data, complete=True), stats)]
    assert got[2:] == ["cut \ufffd", "and \ufffd was there"]
    assert stats.replaced == 1


def test_utf16_counts_its_own_newlines() -> None:
    # U+0A0A and U+010A hold the byte of a newline, and a block may end inside a character.
    data = b"\xff\xfe" + "Ċ\u0a0a\r\nzwei\r\n".encode("utf-16-le")
    assert lines(data) == [(1, "Ċ\u0a0a"), (2, "zwei")]
    assert list(iter_lines(Chopped(data, 3), plan(data, complete=True))) == [(1, "Ċ\u0a0a"), (2, "zwei")]


class Chopped(io.RawIOBase):
    def __init__(self, data: bytes, size: int) -> None:
        self._data = io.BytesIO(data)
        self._size = size

    def read(self, size: int = -1, /) -> bytes:
        return self._data.read(self._size)


def test_marks_in_the_middle_of_joined_files() -> None:
    data = b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n"
    assert texts(data) == ["one", "two"]


def test_mojibake_is_told_and_left_alone() -> None:
    wrong = "".join(f"{text.encode().decode('cp1252')}\n" for text in ("it’s", "naïve", "…", "größer"))
    assert steps(wrong) == ("mojibake",)
    assert plan(wrong.encode(), complete=True).trivial
    assert texts(wrong) == wrong.splitlines()
    assert steps("Größe, naïve, it’s, 中文\n" * 3) == ()


# --- binary data ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"\x7fELF\x02\x01\x01" + bytes(100),
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        b"SQLite format 3\0" + b"\0\x10\x01\x01",
        b"\x80\x04\x95 pickled",
        bytes(range(256)) * 20,
        b"".join(b"%d\0" % number for number in range(3000)),
        bytes(number * 7919 % 251 for number in range(100_000)),
    ],
)
def test_binary(data: bytes) -> None:
    assert plan(data, complete=True).binary
    assert not plan(data, complete=True).trivial


def test_text_with_holes_is_no_binary() -> None:
    # A log that was emptied while it was written to begins with a hole; a crash leaves another.
    data = bytes(50_000) + SLOG.encode() + b"\n" + bytes(5000) + b"after the crash\n"
    how = plan(data, complete=True)
    assert (how.binary, how.steps) == (False, ("nul",))
    assert texts(data) == [SLOG, "after the crash"]
    assert not plan(bytes(200_000), complete=False).binary


def test_hole_of_many_blocks() -> None:
    stats = LineStats()
    data = bytes(5 * BLOCK_BYTES) + b"first\nsecond\n"
    assert list(iter_lines(io.BytesIO(data), Plan(), stats)) == [(1, "first"), (2, "second")]
    assert (stats.cut_lines, stats.steps) == (0, {"nul"})


# --- terminals --------------------------------------------------------------------------------------------------


def test_windows_line_ends() -> None:
    data = "one\r\ntwo\r\n\r\nthree\r"
    assert steps(data) == ("crlf",)
    assert lines(data) == [(1, "one"), (2, "two"), (3, ""), (4, "three")]
    assert steps("one\r\ntwo\r", complete=False) == ("crlf",)


def test_bom_title_prompt_and_windows_line_ends_at_once() -> None:
    data = "\ufeff\x1b]0;user@host: ~/run\x07\x1b[01;32muser@host\x1b[0m:~$ python train.py\r\nstep 1\r\n"
    how = plan(data.encode(), complete=True)
    assert (how.encoding, how.steps) == ("utf-8-sig", ("crlf", "ansi"))
    assert lines(data) == [(1, "user@host:~$ python train.py"), (2, "step 1")]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("\x1b[36m(TaskRunner pid=12)\x1b[0m step:1", "(TaskRunner pid=12) step:1"),
        ("\x1b[1;38;5;208mloud\x1b[m", "loud"),
        ("\x1b[38:2::1:2:3mtrue\x1b[0m", "true"),
        ("\x1b[2Kgone\x1b[?25h", "gone"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title without an end", "title without an end"),
        ("a\x1b(Bb\x1b=c\x1b7d", "abcd"),
        ("lone\x1b", "lone"),
        ("\x1b[31", "[31"),
        ("\x1bPq data\x1b\\x", "x"),
    ],
)
def test_escape_sequences(data: str, text: str) -> None:
    assert steps(data) == ("ansi",)
    assert texts(data + "\nnext\n") == [text, "next"]


def test_caret_notation() -> None:
    data = (
        "^[[1;36m(EngineCore_DP0 pid=77)^[[0;0m ERROR 01-02 03:04:05 [core.py:1] boom^M\n"
        "^[]0;title^Gprompt^M\n"
        "2^10 stays^M\n"
    )
    assert steps(data) == ("caret-ansi",)
    assert texts(data) == [
        "(EngineCore_DP0 pid=77) ERROR 01-02 03:04:05 [core.py:1] boom",
        "prompt",
        "2^10 stays",
    ]


def test_caret_line_ends_alone() -> None:
    assert texts("one^M\ntwo^M\nthree^M\nfour^M\n") == ["one", "two", "three", "four"]
    # a regular expression is no colour
    assert steps("pattern [^[]*x\n^Middle\n") == ()


def test_planned_or_not_terminal_codes_never_get_through() -> None:
    data = b"one\r\n\x1b[31mtwo\x1b[0m\nth\0ree\nfour\x08\n"
    stats = LineStats()
    assert [text for _, text in iter_lines(io.BytesIO(data), Plan(), stats)] == ["one", "two", "three", "four"]
    assert stats.steps == {"crlf", "ansi", "nul", "backspace"}


BAR = " {0:3}%|{1:<10}| {0}/100 [00:{0:02}<01:00,  1.2s/it]"


def bar(number: int) -> str:
    return BAR.format(number, "#" * (number // 10))


def test_bars_that_only_count_are_thinned_out() -> None:
    counts = [f"Map (num_proc=8): {bar(number).strip()}" for number in range(50)]
    data = "start\n" + "\r".join(counts) + "\n" + "end\n"
    assert steps(data) == ("cr",)
    assert lines(data) == [(1, "start"), (2, counts[0]), (2, counts[49]), (3, "end")]


@pytest.mark.parametrize(
    "label", ["", "Train: ", "Training Progress: ", "Steps:", "Epoch 2/3: ", "epoch [1]:", "Iteration: "]
)
def test_bars_of_a_training_loop_are_all_kept(label: str) -> None:
    bars = [label + bar(number) for number in range(20)]
    assert texts("\r".join(bars)) == bars
    # What is drawn again without having moved on is not.
    again = [bars[0], *(bars[1].replace("00:01", f"00:0{second}") for second in range(2, 9)), bars[2]]
    assert texts("\r".join(again)) == [bars[0], again[1], again[7], bars[2]]


def test_metrics_between_bars_are_kept() -> None:
    metrics = "{'loss': 1.25, 'grad_norm': nan, 'epoch': 0.1}"
    data = f"\r{bar(1)}\r{bar(2)}\r{' ' * 60}\r{metrics}\r{bar(3)}\r{bar(4)}\n"
    assert lines(data) == [(1, text) for text in (bar(1), bar(2), metrics, bar(3), bar(4))]


def test_bars_one_above_the_other() -> None:
    # tqdm draws a second bar below the first and moves up again.
    data = f"{bar(1)}\n\r{bar(2)}\x1b[A{bar(3)}\n\r{bar(4)}\x1b[1A\r{bar(5)}\n"
    assert lines(data) == [(1, bar(1)), (2, bar(2)), (2, bar(3)), (3, bar(4)), (3, bar(5))]


def test_bars_that_tell_something_are_kept() -> None:
    told = [f"{bar(number)[:-1]}, loss={number}.5]" for number in range(5)]
    assert texts("\r".join(told)) == told
    # and bars of different things are different bars
    other = [f"{what}: {bar(number).strip()}" for what in ("a", "b") for number in range(3)]
    assert texts("\r".join(other)) == [other[0], other[2], other[3], other[5]]


def test_bar_and_record_on_one_line() -> None:
    data = f"{bar(1)}\r{bar(2)}[2026-01-02 03:04:05,678] [INFO] [engine.py:9:step] loss\n"
    assert texts(data) == [bar(1), f"{bar(2)}[2026-01-02 03:04:05,678] [INFO] [engine.py:9:step] loss"]


def test_bars_without_a_total() -> None:
    data = "\r".join(f"{number}it [00:0{number},  2.5it/s]" for number in range(1, 6))
    assert texts(data) == ["1it [00:01,  2.5it/s]", "5it [00:05,  2.5it/s]"]


def test_blank_segments_are_dropped() -> None:
    assert lines("\r   \ra\r\r\r\n\r\r\nb\n") == [(1, "a"), (2, ""), (3, "b")]


def test_cursor_to_the_first_column_is_a_return() -> None:
    assert lines("one\x1b[1G\x1b[2Ktwo\x1b[Gthree\n") == [(1, "one"), (1, "two"), (1, "three")]


def test_keras_bar_with_backspaces() -> None:
    first = " 1/20 [>.........] - ETA: 0:09 - loss: 2.50"
    second = " 2/20 [=>........] - ETA: 0:08 - loss: 2.25"
    last = "20/20 [==========] - 9s 450ms/step - loss: 1.00"
    back = "\x08" * len(first)
    data = f"Epoch 1/2\n{first}{back}\r{second}{back}\r{last}\nEpoch 2/2\n"
    assert steps(data) == ("cr", "backspace")
    assert lines(data) == [(1, "Epoch 1/2"), (2, first), (2, second), (2, last), (3, "Epoch 2/2")]
    assert lines(data.replace("\r", "")) == lines(data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("abc\x08\x08X", "aXc"),
        ("  7%\x08\x08\x08 8%", "  8%"),
        ("N\x08NA\x08AM\x08ME\x08E", "NAME"),
        ("\x08\x08a", "a"),
        ("a\x08\x08\x08b", "b"),
        ("tail\x08\x08\x08\x08", "tail"),
    ],
)
def test_backspaces_write_over(data: str, text: str) -> None:
    assert texts(data) == [text]


# --- containers and tools ---------------------------------------------------------------------------------------


def docker(log: str, **more: object) -> str:
    return json.dumps({"log": log, "stream": "stderr", "time": "2026-01-02T03:04:05.6Z", **more}, separators=(",", ":"))


def test_docker_json() -> None:
    colour = "\x1b[31mred\x1b[0m\r\n"
    data = [docker(SLOG + "\n"), docker(colour), docker("中文\n", attrs={"a": 1}), docker("part of a lo"), "not json"]
    assert steps("\n".join(data)) == ("docker-json",)
    assert lines("\n".join(data) + "\n") == [(1, SLOG), (2, "red"), (3, "中文"), (4, "part of a lo"), (5, "not json")]


def test_docker_json_that_is_broken() -> None:
    data = [
        docker("a\n"),
        docker("b\n"),
        docker("c\n")[:-4],
        '{"log":3}',
        '{"log":"\\ud800"}',
        "{" * 5000,
        docker("d\ne\n"),
    ]
    got = lines("\n".join(data), Plan(steps=("docker-json",)))
    assert got == [
        (1, "a"), (2, "b"), (3, data[2]), (4, data[3]), (5, data[4]), (6, data[5]), (7, "d"), (7, "e"),
    ]  # fmt: skip


def test_json_that_is_not_dockers() -> None:
    assert steps('{"log": 1}\n{"current_steps": 1, "loss": 0.5}\n') == ()


def test_cri() -> None:
    data = (
        f"2026-01-02T03:04:05.678901234Z stderr F {SLOG}\n"
        "2026-01-02T03:04:05.678901234+08:00 stdout P   part\n"
        "2026-01-02T03:04:05Z stdout F \n"
        "2026-01-02T03:04:05Z stdout F\n"
        "something else\n"
    )
    assert steps(data) == ("cri",)
    assert texts(data) == [SLOG, "  part", "", "", "something else"]


@pytest.mark.parametrize(
    "prefix",
    [
        "debug/plog/plog-4711_20260102030405678.log:{}:",
        "./worker-1/a.log:{}:",
        "train.out.1:{}:",
        "/var/log/npu/run.log-{}-",
    ],
)
def test_grep_prefix(prefix: str) -> None:
    data = "$ grep -rn ERROR debug\n" + "".join(f"{prefix.format(number)}{SLOG}\n" for number in (3, 17, 9))
    assert steps(data) == ("grep-prefix",)
    assert lines(data) == [(1, "$ grep -rn ERROR debug"), (2, SLOG), (3, SLOG), (4, SLOG)]


def test_grep_prefix_with_a_glued_number() -> None:
    data = "".join(f"/bbox/kbox.txt:20{number}[24.83069{number}] Hardware error\n" for number in range(14, 17))
    assert texts(data)[0] == "[24.8306914] Hardware error"


def test_grep_prefix_in_colours() -> None:
    data = f"\x1b[35m\x1b[Ka.log\x1b[m\x1b[K\x1b[36m\x1b[K:\x1b[m\x1b[K\x1b[32m\x1b[K7\x1b[m\x1b[K:{SLOG}\n" * 2
    assert steps(data) == ("ansi", "grep-prefix")
    assert texts(data) == [SLOG, SLOG]


def test_grep_prefix_without_numbers() -> None:
    data = "".join(f"plog/a{number}.log:{SLOG}\n" for number in range(4))
    assert texts(data) == [SLOG] * 4


def test_grep_of_one_file() -> None:
    data = "".join(f"{number}:{SLOG}\n" for number in (3, 17, 170, 1000))
    assert texts(data) == [SLOG] * 4


@pytest.mark.parametrize(
    "line",
    [
        "model.py:12: UserWarning: deprecated",
        "torch/nn/module.cpp:120: error",
        "0: loading",  # srun's labels do not grow
        "12:03:04.567 step done",
        "http://host.log:80:x",
        'File "a.log:3:"',
        "see a.log: it is there" + " " * 3,
    ],
)
def test_no_grep_prefix(line: str) -> None:
    data = f"{line}\n" * 4
    assert "grep-prefix" not in steps(data)
    assert texts(data) == [line] * 4


def test_every_other_line_blank_is_told() -> None:
    data = "".join(f"record {number}\n\n" for number in range(20))
    assert steps(data) == ("blank-alternate",)
    assert plan(data.encode(), complete=True).trivial
    assert len(lines(data)) == 40
    assert steps("a\n\nb\n") == ()
    assert steps("a\nb\n\n" * 20) == ()


# --- long lines -------------------------------------------------------------------------------------------------


class Endless(io.RawIOBase):
    """A long line, made up while it is read."""

    def __init__(self, pattern: bytes, size: int, tail: bytes) -> None:
        self._pattern = (pattern * (BLOCK_BYTES // len(pattern) + 1))[:BLOCK_BYTES]
        self._blocks = size // BLOCK_BYTES
        self._tail = tail

    def read(self, size: int = -1, /) -> bytes:
        if self._blocks:
            self._blocks -= 1
            return self._pattern
        tail, self._tail = self._tail, b""
        return tail


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
@pytest.mark.parametrize(
    "pattern", [b"x", b"x\0", b"bar 1%\r", b"spin\x08\x08\x08\x08", b"\x1b[3", b"\xff\xfe\x81", b"\0"]
)
def test_line_of_100_megabytes_in_bounded_memory(pattern: bytes, encoding: str) -> None:
    # What gives millions of texts takes long while memory is traced.
    size = 100 if b"\r" not in pattern and b"\x08" not in pattern else 4
    stream = Endless(pattern, size << 20, "\nnext\n".encode(encoding))
    stats = LineStats()
    last = (0, "")
    tracemalloc.start()
    try:
        for number, text in iter_lines(stream, Plan(encoding), stats):
            assert len(text) <= 2 * LONGEST_LINE
            last = (number, text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert last == (2, "next")
    assert stats.lines == 2
    assert peak < 64 << 20


def test_too_long_lines_are_cut_and_counted() -> None:
    stats = LineStats()
    longest = b"x" * LONGEST_LINE
    data = b"a\n" + longest + b"\n" + longest + b"y\n" + longest * 3 + b"\nb\n" + longest + b"z"
    got = list(iter_lines(io.BytesIO(data), Plan(), stats))
    assert [(number, len(text)) for number, text in got] == [
        (1, 1), (2, LONGEST_LINE), (3, LONGEST_LINE), (4, LONGEST_LINE), (5, 1), (6, LONGEST_LINE),
    ]  # fmt: skip
    assert stats.cut_lines == 3
    assert stats.lines == 6


def test_bars_on_a_line_of_many_blocks_are_all_seen() -> None:
    stats = LineStats()
    width = len(bar(1))
    rounds = 3 * BLOCK_BYTES // (100 * (width + 1))
    data = "a\n" + "\r".join(f"Map: {bar(number)}" for _ in range(rounds) for number in range(100)) + "\rthe end\nb\n"
    got = list(iter_lines(io.BytesIO(data.encode()), Plan(steps=("cr",)), stats))
    assert got[0] == (1, "a")
    assert got[-2:] == [(2, "the end"), (3, "b")]
    assert {number for number, _ in got[1:-1]} == {2}
    assert len(got) < 20
    assert (stats.cut_lines, stats.lines) == (0, 3)


def test_bars_of_a_training_loop_on_a_line_of_many_blocks() -> None:
    stats = LineStats()
    bars = [bar(number % 100) for number in range(3 * BLOCK_BYTES // len(bar(1)))]
    data = "\n".join(["a", "\r".join([*bars, "the end"]), "b", ""])
    got = list(iter_lines(io.BytesIO(data.encode()), Plan(steps=("cr",)), stats))
    assert got[1:-2] == [(2, text) for text in bars]
    assert got[-2:] == [(2, "the end"), (3, "b")]
    assert (stats.cut_lines, stats.lines) == (0, 3)
