"""What holds for any bytes at all."""

from __future__ import annotations

import io

from hypothesis import example, given, settings
from hypothesis import strategies as st

from npudiag.parsers.normalise import LineStats, Plan, iter_lines, plan

PIECES = st.sampled_from(
    [
        b"\n", b"\r", b"\r\n", b"\x08", b"\0", b"\x1b[31m", b"\x1b]0;t\x07", b"\x1b", b"^[[1m", b"^M\n", b" ", b"a",
        b"[ERROR] GE(1,p):2026-01-02-03:04:05.678.901 x", b'{"log":"a\\n","stream":"stdout","time":"t"}\n',
        b"2026-01-02T03:04:05Z stderr F x\n", b"p/a.log:12:x\n", b"\xe4\xb8\xad", b"\xd6\xd0", b"\xff\xfe",
        b"\xef\xbb\xbf",
        b" 5%|#    | 5/100 [00:01<00:19,  5.0it/s]\r",
    ]
)  # fmt: skip
DATA = st.one_of(
    st.binary(max_size=300),
    st.lists(PIECES, max_size=40).map(b"".join),
    st.lists(st.one_of(PIECES, st.binary(max_size=6)), max_size=40).map(b"".join),
    st.text(max_size=100).map(lambda text: text.encode("utf-16", "replace")),
)
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "gb18030", "latin-1"]
STEPS = ["crlf", "cr", "backspace", "nul", "ansi", "caret-ansi", "docker-json", "cri", "grep-prefix", "mojibake"]
PLANS = st.builds(
    Plan, encoding=st.sampled_from(ENCODINGS), steps=st.lists(st.sampled_from(STEPS), unique=True).map(tuple)
)


class Chopped(io.RawIOBase):
    def __init__(self, data: bytes, size: int) -> None:
        self._data = io.BytesIO(data)
        self._size = size

    def read(self, size: int = -1, /) -> bytes:
        return self._data.read(min(size, self._size))


@settings(max_examples=300, deadline=None)
@given(DATA, st.booleans())
def test_plan_takes_anything(data: bytes, complete: bool) -> None:
    how = plan(data, complete)
    assert how.encoding in ENCODINGS
    assert len(set(how.steps)) == len(how.steps)


@settings(max_examples=500, deadline=None)
@given(DATA, PLANS, st.integers(1, 64))
@example(b"a\r", Plan(), 1)
@example(b"\r\n\n", Plan(steps=("cri",)), 1)
def test_lines_of_anything(data: bytes, how: Plan, size: int) -> None:
    stats = LineStats()
    got = list(iter_lines(Chopped(data, size), how, stats))
    numbers = [number for number, _ in got]
    assert numbers == sorted(numbers)
    # every physical line is there, and nothing of a terminal is left
    assert set(numbers) == set(range(1, stats.lines + 1))
    for _, text in got:
        assert not set("\n\r\0\x1b\x08\ufeff") & set(text)
    if how.encoding in ("utf-8", "utf-8-sig", "gb18030", "latin-1"):
        assert stats.lines == data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))


@settings(max_examples=300, deadline=None)
@given(DATA, st.integers(1, 64))
def test_blocks_make_no_difference(data: bytes, size: int) -> None:
    how = plan(data, complete=True)
    if "grep-prefix" not in how.steps:  # its form is told by the first block
        assert list(iter_lines(Chopped(data, size), how)) == list(iter_lines(io.BytesIO(data), how))


@settings(max_examples=500, deadline=None)
@given(DATA)
@example(b"\xef\xbf\xbd\n\xe4\xb8")
def test_trivial_means_as_it_stands(data: bytes) -> None:
    how = plan(data, complete=True)
    if not how.trivial:
        return
    physical = data.split(b"\n")
    for number, text in iter_lines(io.BytesIO(data), how):
        standing = physical[number - 1].decode("utf-8", "replace").replace("\ufeff", "")
        assert text == standing
