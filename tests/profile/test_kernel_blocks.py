"""Kernel lists read in blocks give what they give row by row, whatever stands in them."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudiag.discover.source import Source
from npudiag.errors import SourceError
from npudiag.parsers.base import Context, Partial
from npudiag.parsers.profiler import kernels
from npudiag.parsers.profiler.kernel_blocks import Blocks, Columns, Lines
from npudiag.parsers.profiler.raw import of
from npudiag.parsers.scan import Literals, Scanner

NAMES = (
    "Device_id,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim,"
    "Input Shapes,Input Formats,Output Shapes,aicore_time(us),aic_total_cycles,aic_mac_ratio,cube_utilization(%)"
)
CONTEXT = Context(Source("kernel_details.csv", None, None, None), Scanner(Literals()))


class Failing(io.BytesIO):
    """A stream whose end cannot be read."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Return what there is, then fail."""
        piece = super().read(size)
        if not piece:
            raise SourceError("the archive is damaged", reason="corrupt")
        return piece


def line(at: int, kind: str = "MatMulV3", length: str = "10.5", last: str = "80.25", device: str = "0") -> str:
    core = "AI_CORE" if kind.startswith("MatMul") else "AI_VECTOR_CORE"
    return (
        f"{device},aclnn{kind}_{at % 7},{kind},static,{core},{1764246877000000 + at}.640\t,{length},1.0,20,"
        f'"""64,{64 + at % 3};{64 + at % 3},64""",ND;ND,"""64,64""",{at % 11}.5,9000,0.5,{last}'
    )


PLAIN = [line(at, ("MatMulV3", "Add", "Mul")[at % 3], f"{at % 13}.25") for at in range(60)]


def read(data: bytes, size: int | None, monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> Partial:
    """Read a list in blocks of `size` bytes, row by row for None."""
    monkeypatch.setattr(kernels, "WORTH", 600 if size else 1 << 40)
    monkeypatch.setattr(kernels, "BLOCK", size or 1)
    partial = Partial(CONTEXT.source, kind="prof-kernel-details", identity=CONTEXT.source.identity)
    stream = (Failing if fails else io.BytesIO)(data[100:])
    kernels.read(partial, stream, data[:100], CONTEXT)
    return partial


def told(partial: Partial) -> dict[str, Any]:
    raw = of(partial)
    return {
        "tables": raw.tables,
        "facts": raw.facts,
        "products": None if raw.products is None else raw.products.tolist(),
        "lines": partial.lines,
        # Where a list breaks off, how much of the rest was taken by then depends on the size of the pieces.
        "bytes": None if partial.truncated else partial.bytes,
        "unparsed": partial.unparsed,
        "truncated": partial.truncated,
        "note": partial.note,
        "problems": [(problem.reason, problem.message, problem.line) for problem in partial.problems],
    }


def close(left: Any, right: Any) -> bool:
    """Whether both are the same, numbers but for their last digits."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(close(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(close, left, right))
    if isinstance(left, float) or isinstance(right, float):
        return left is not None and right is not None and math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    return bool(left == right)


def spy(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note for each block whether it was plain."""
    seen: list[bool] = []
    columns = Blocks.columns

    def noting(self: Blocks, block: bytes) -> Columns | None:
        found = columns(self, block)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(Blocks, "columns", noting)
    return seen


ODD = {
    "plain": (PLAIN, [True]),
    "words for no number": ([*PLAIN[:9], line(9, last="N/A"), line(10, length="N/A"), line(11, last="nan")], [True]),
    "empty last cells": ([*PLAIN[:9], line(9, last=""), line(10)], [True]),
    "infinite": ([*PLAIN[:9], line(9, length="inf"), line(10, last="-inf")], [True]),
    "short row": ([*PLAIN[:9], line(9).rpartition(",")[0], *PLAIN[10:]], [False]),
    "short and long row": ([*PLAIN[:9], line(9).rpartition(",")[0], line(10) + ",,"], [False]),
    "long row": ([*PLAIN[:9], line(9) + ",1,2", *PLAIN[10:]], [True]),
    "word": ([*PLAIN[:9], line(9, length="oops"), *PLAIN[10:]], [False]),
    "hexadecimal": ([*PLAIN[:9], line(9, length="0x10"), *PLAIN[10:]], [False]),
    "blank lines": ([*PLAIN[:9], "", "  ", *PLAIN[9:]], [False]),
    "commas only": ([*PLAIN[:9], "," * 15, *PLAIN[9:]], [False]),
    "blanks and commas only": ([*PLAIN[:9], "  ,\t" + "," * 14, *PLAIN[9:]], [False]),
    "cell of two lines": ([*PLAIN[:9], line(9).replace("aclnn", '"a\nb"', 1), *PLAIN[9:]], [False]),
    "open quote": ([*PLAIN[:9], '0,"never closed', *PLAIN[9:]], [False]),
    "zero byte": ([*PLAIN[:9], line(9).replace("aclnn", "a\0b"), *PLAIN[9:]], [False]),
    "not UTF-8": ([*PLAIN[:9], line(9).replace("aclnn", "\udcff\udcfe"), *PLAIN[9:]], None),
    "two devices": ([*PLAIN[:9], line(9, "Abs", device="3"), line(10, "Exp", device="N/A")], [True]),
    "no sound length": ([*PLAIN[:9], line(9, length="-1"), line(10, length="1e300"), *PLAIN[11:]], [True]),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_blocks_tell_what_rows_tell(name: str, newline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, plain = ODD[name]
    data = newline.join([NAMES, *lines, ""]).encode("utf-8", "surrogateescape")
    rows = told(read(data, None, monkeypatch))
    seen = spy(monkeypatch)
    blocks = told(read(data, len(data), monkeypatch))
    assert rows["tables"], rows
    assert close(rows, blocks)
    assert plain is None or seen == plain


@pytest.mark.parametrize("size", [300, 1000, 4000])
def test_blocks_of_any_size(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = "\n".join([NAMES, *PLAIN, ""]).encode()
    rows = told(read(data, None, monkeypatch))
    seen = spy(monkeypatch)
    assert close(rows, told(read(data, size, monkeypatch)))
    assert len(seen) > 1
    assert all(seen)


@pytest.mark.parametrize("cut", [1, 30, 150])
def test_a_list_that_is_cut_off(cut: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = "\n".join([NAMES, *PLAIN]).encode()[:-cut]
    rows = told(read(data, None, monkeypatch))
    assert rows["truncated"] == (cut > 10)
    assert close(rows, told(read(data, 2000, monkeypatch)))


def test_a_stream_that_breaks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    data = "\n".join([NAMES, *PLAIN, ""]).encode()
    rows = told(read(data, None, monkeypatch, fails=True))
    assert rows["truncated"]
    assert close(rows, told(read(data, 2000, monkeypatch, fails=True)))


@pytest.mark.parametrize("start", ["\ufeff", ""])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_marked_lists(start: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (start + "\n".join([NAMES, *PLAIN, ""])).encode(encoding)
    assert close(told(read(data, None, monkeypatch)), told(read(data, len(data), monkeypatch)))


@pytest.mark.parametrize("missing", ["cube_utilization(%)", "Device_id", "Start Time(us)", "OP State", "Wait Time(us)"])
@pytest.mark.parametrize("end", ["Name", "Start Time(us)", "Device_id", "Type", "Duration(us)"])
def test_columns_in_any_order(missing: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import csv

    names = NAMES.split(",")
    kept = [name for name in names if name not in (missing, end)] + [end] * (end != missing)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(kept)
    for cells in csv.reader(PLAIN):
        row = dict(zip(names, cells, strict=True))
        writer.writerow([row[name] for name in kept])
    data = out.getvalue().encode()
    rows = told(read(data, None, monkeypatch))
    seen = spy(monkeypatch)
    assert close(rows, told(read(data, len(data), monkeypatch)))
    assert seen == [True]


def test_more_texts_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from npudiag.parsers.profiler import kernel_sums

    monkeypatch.setattr(kernel_sums, "_MOST_TEXTS", 4)
    data = "\n".join([NAMES, *PLAIN, ""]).encode()
    rows = told(read(data, None, monkeypatch))
    assert close(rows, told(read(data, 1500, monkeypatch)))


CELL = st.one_of(
    st.sampled_from(
        ["", "0", "1.5", "N/A", '"a,b"', '"""64,64;64,64"""', "MatMulV3", "-", "1e9", "nan", " 7 ", "x\ty"]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\n\r,"), max_size=4),
)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.lists(CELL, min_size=15, max_size=17), max_size=8),
    at=st.integers(0, 12),
    size=st.integers(50, 2000),
)
def test_blocks_tell_what_rows_tell_of_anything(rows: list[list[str]], at: int, size: int) -> None:
    lines = [*PLAIN[:at], *map(",".join, rows), *PLAIN[at:12]]
    data = "\n".join([NAMES, *lines, ""]).encode()
    with pytest.MonkeyPatch.context() as patch:
        assert close(told(read(data, None, patch)), told(read(data, size, patch)))


def test_lines_give_back_what_was_no_use() -> None:
    lines = Lines(b"a,b\n1,", io.BytesIO(b"2\n3,4\n5"))
    assert lines.header() == ["a", "b"]
    assert not lines.fill(1000)
    block = lines.take()
    assert (block, lines.rest, lines.taken) == (b"1,2\n3,4\n", b"5", 12)
    lines.give_back(block)
    assert (lines.rest, lines.taken) == (b"1,2\n3,4\n5", 4)
