"""Whatever the bytes, no parser raises, and what it keeps is bounded."""

from __future__ import annotations

import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npudiag.discover.source import Identity, Source
from npudiag.errors import SourceError
from npudiag.parsers import all_parsers, choose
from npudiag.parsers.base import Budget, Context
from npudiag.parsers.scan import Literals, Scanner

FRAGMENTS = st.sampled_from(
    [
        b"[ERROR] HCCL(1,p):2026-01-02-03:04:05.123.456 NEEDLE\n",
        b" iteration       10/     100 | lm loss: 1.0E+00 | grad norm: nan |\n",
        b"Traceback (most recent call last):\n",
        b"Device_id,Step,Computing,Communication(Not Overlapped)\n",
        b'[{"name": "a", "ph": "X", "ts": 1.5, "dur": 2},',
        b"torchrun --nproc_per_node 8 pretrain_gpt.py $GPT_ARGS \\\n",
        b"{'loss': nan}\n",
        b"SQLite format 3\0",
        b"a: [1, {b: *c}]\n",
        b"\xff\xfe\0\r\r\n\x1b[31m",
        b"'\"`${(",
    ]
)


class Breaking(io.BytesIO):
    """A stream that breaks off at its end."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if not data:
            raise SourceError("the stream ends too early", reason="truncated")
        return data


@pytest.mark.parametrize("name", sorted(all_parsers()))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(parts=st.lists(FRAGMENTS | st.binary(max_size=80), max_size=12), cut=st.integers(0, 400), broken=st.booleans())
def test_arbitrary_bytes(name: str, parts: list[bytes], cut: int, broken: bool) -> None:
    data = b"".join(parts)
    parser = all_parsers()[name]
    assert 0 <= parser.recognise(data[:cut], "job/file.log") <= 1
    source = Source("job/file.log", None, None, None, Identity())
    budget = Budget(rows=20, groups=20)
    context = Context(source, Scanner(Literals(("NEEDLE",), (False,))), budget, 2026)
    stream = (Breaking if broken else io.BytesIO)(data[cut:])
    partial = parser.parse(stream, data[:cut], context)
    assert len(partial.rows) <= budget.rows
    assert all(row.line >= 1 for row in partial.rows)


@given(st.binary(max_size=300))
def test_choosing_never_fails(data: bytes) -> None:
    choose(data, "x")
