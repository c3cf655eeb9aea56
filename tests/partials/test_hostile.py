"""Files of partials made to harm: they are refused, or cost no more than others."""

from __future__ import annotations

import struct
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudiag.analyze import Options, analyze
from npudiag.discover.source import Source
from npudiag.engine.load import load_pack, shipped_pack
from npudiag.parsers.base import Partial
from npudiag.parsers.scan import Literals
from npudiag.partials import codec, npd, size

SOURCE = Source("a/train.log", None, None, None)


def partial(**fields: object) -> Partial:
    out = Partial(SOURCE, kind="console", origin="a" * 24, home=SOURCE.path)
    for name, value in fields.items():
        setattr(out, name, value)
    return out


def test_two_kilobytes_that_stand_for_gigabytes_are_refused() -> None:
    data = codec.encode(partial(tables={"launch": [{"BOMB": 0}]}))
    mark = b"\x91\x81\xa4BOMB\x00"
    assert mark in data
    many = 3 * size.MOST_VALUES
    with pytest.raises(ValueError, match="more values"):
        codec.decode(data.replace(mark, b"\xdd" + struct.pack(">I", many) + b"\x80" * many))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


def counted(value: object) -> int:
    if isinstance(value, list):
        return 1 + sum(map(counted, value))
    if isinstance(value, dict):
        return 1 + sum(counted(key) + counted(item) for key, item in value.items())
    return 1


@given(ANYTHING)
def test_values_are_counted_without_unpacking_them(value: object) -> None:
    filler = "x" * (1 << 20)
    data = msgspec.msgpack.encode([filler, value, msgspec.msgpack.Ext(7, b"abc"), list(range(20)), "y" * 300])
    assert size.values(data, 1 << 30) == 1 + 1 + counted(value) + 1 + 21 + 1


@pytest.mark.parametrize(
    "tables",
    [
        {"no_such_table": [{"line": 1}]},
        {"launch": [{"key": 5}]},
        {"train_steps": [{"step": "many"}]},
        {"train_steps": [{"loss": [1.0]}]},
    ],
)
def test_rows_that_no_table_has_are_refused(tables: dict[str, list[dict[str, object]]]) -> None:
    with pytest.raises(ValueError, match=r"no table|is no"):
        codec.decode(codec.encode(partial(tables=tables)))


@pytest.mark.parametrize(
    "fields",
    [
        {"counts": {("ERROR", "M", "2026-01-01T00:00+05:00"): 1, ("ERROR", "M", "2026-01-01T00:00"): 1}},
        {"counts": {("ERROR", "M", "9999-12-31T23:59"): 2**62, ("", "", "no time"): -5}},
        {"first_us": 2**62, "last_us": -(2**62)},
        {"kind": "<script>alert(1)</script>", "note": "\x1b]0;title\x07"},
    ],
)
def test_odd_values_break_nothing(fields: dict[str, object], tmp_path: Path) -> None:
    target = tmp_path / "odd.npd"
    npd.write(str(target), [partial(**fields)], Literals((), ()), (), "2026-01-01T00:00:00+00:00")
    result, _ = analyze([str(target)], load_pack([shipped_pack()]), Options(workers=1))
    assert result.coverage.files == 1
