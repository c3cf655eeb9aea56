"""What is fuzzed: each target takes bytes and may only end well, or with an error meant for people."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from npudiag.analyze import Options, analyze, literals
from npudiag.discover.source import Identity, Limits, Source
from npudiag.discover.streams import open_streams
from npudiag.discover.walk import discover
from npudiag.engine.load import RulePack, _known_tables, load_pack, shipped_pack
from npudiag.engine.validate import read_rule
from npudiag.errors import NpudiagError
from npudiag.parsers import all_parsers
from npudiag.parsers.base import Budget, Context
from npudiag.parsers.normalise import LineStats, iter_lines, plan
from npudiag.parsers.scan import Scanner
from npudiag.partials import MAGIC, npd

LIMITS = Limits(max_member_bytes=8 << 20, max_total_bytes=16 << 20, max_members=200)
_MOST = 64


@lru_cache(maxsize=1)
def pack() -> RulePack:
    """Return the shipped rules."""
    return load_pack([shipped_pack()])


@lru_cache(maxsize=1)
def scanner() -> Scanner:
    """Return a scanner for everything the rules look for."""
    return Scanner(literals(pack().rules).literals())


def normaliser(data: bytes) -> None:
    """Physical line numbers rise, and a line is a line."""
    stats = LineStats()
    last = 0
    for number, text in iter_lines(io.BytesIO(data), plan(data[: 1 << 18], complete=False), stats):
        assert number >= last >= 0
        assert "\n" not in text
        last = number
    assert stats.lines <= data.count(b"\n") + 2


def parsers(data: bytes) -> None:
    """Every parser keeps its bounds, whether the bytes are meant for it or not."""
    lines = data.count(b"\n") + data.count(b"\r") + data.count(b"\0") + 2
    for name, parser in all_parsers().items():
        assert 0 <= parser.recognise(data[:4096], "job/rank_0/file.log") <= 1, name
        context = Context(Source("job/rank_0/file.log", None, None, None, Identity()), scanner(), Budget(rows=50), 2026)
        partial = parser.parse(io.BytesIO(data[4096:]), data[:4096], context)
        assert len(partial.rows) <= 50, name
        assert all(1 <= row.line <= lines for row in partial.rows), name


def _on_disk(data: bytes, name: str, look: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="npudiag-fuzz-") as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        look(path)
        assert [entry.name for entry in Path(folder).iterdir()] == [name]


def discovery(data: bytes) -> None:
    """Archives give members and problems, and no more than the limits allow."""

    def look(path: Path) -> None:
        total = 0
        for source in discover([str(path)], LIMITS).sources:
            members = 0
            for _, stream in open_streams(source, LIMITS, lambda _: None):
                members += 1
                try:
                    while piece := stream.read(1 << 16):
                        total += len(piece)
                except NpudiagError:
                    pass
            assert members <= LIMITS.max_members + 1
        assert total <= LIMITS.max_total_bytes + LIMITS.max_member_bytes

    _on_disk(data, "input.tar.gz", look)


def pipeline(data: bytes) -> None:
    """A file of any content is analysed to a document; no rule breaks on it."""

    def look(path: Path) -> None:
        result, _ = analyze([str(path)], pack(), Options(workers=1))
        assert not result.errors, result.errors[0]
        for finding in result.findings:
            assert "{" not in finding.title or b"{" in data, finding.title

    _on_disk(data, "train_rank0.log", look)


def rules(data: bytes) -> None:
    """A rule file of any content gives a rule or faults with places."""
    read = read_rule(data, "area/ABC101-x.yaml", path="ABC101-x.yaml", tables=_known_tables())
    assert read.rule is not None or read.faults
    lines = data.count(b"\n") + data.count(b"\r") + 2
    assert all(fault.line is None or 1 <= fault.line <= lines for fault in read.faults)


def partials(data: bytes) -> None:
    """A file of partials is read or refused."""
    try:
        for _ in npd.Reader(io.BytesIO(data), MAGIC):
            pass
    except NpudiagError:
        pass


TARGETS: dict[str, Callable[[bytes], None]] = {
    "normaliser": normaliser,
    "parsers": parsers,
    "discovery": discovery,
    "pipeline": pipeline,
    "rules": rules,
    "partials": partials,
}
"""Name to target; the name is the folder of what broke it once, under ``corpus/``."""
