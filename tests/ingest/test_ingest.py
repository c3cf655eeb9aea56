"""Paths in, partials out: the same whatever the number of workers and the size of the pieces."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from npudiag import ingest as module
from npudiag.discover.walk import discover
from npudiag.errors import UsageError
from npudiag.host.resources import Resources, decide
from npudiag.ingest import Unit, batch, ingest
from npudiag.parsers.scan import Literals
from npudiag.reading import Ingested

LITERALS = Literals(("NEEDLE",), (False,))


def write_tree(folder: Path, lines: int = 3000) -> None:
    for rank in range(3):
        path = folder / f"worker-{rank}" / "debug" / "plog" / f"plog-{500 + rank}_20260102030405678.log"
        path.parent.mkdir(parents=True)
        with path.open("w") as file:
            for i in range(lines):
                level = "ERROR" if i % 10 == 0 else "INFO"
                stamp = f"2026-01-02-03:{i // 60 % 60:02}:{i % 60:02}.000.000"
                file.write(f"[{level}] GE({500 + rank},python3):{stamp} number {i}\n")
                if i % 500 == 7:
                    file.write("   a continuation with the NEEDLE\n")


def run(path: Path, workers: int) -> Ingested:
    return ingest([str(path)], LITERALS, lambda: Resources(workers, 1 << 30))


def summary(ingested: Ingested) -> list[Any]:
    return [
        (
            partial.source.path,
            partial.kind,
            partial.lines,
            partial.bytes,
            partial.unparsed,
            sorted(partial.counts.items()),
            sum(group.count for group in partial.groups),
            [(row.line, row.text) for row in partial.rows if row.hits],
            partial.identity,
        )
        for partial in ingested.partials
    ]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    write_tree(folder)
    return folder


def test_a_pool_gives_what_one_process_gives(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = run(tree, 1)
    monkeypatch.setattr(module, "_SMALL_BYTES", 0)
    monkeypatch.setattr(module, "_TASK_BYTES", 1)
    pooled = run(tree, 2)
    assert (alone.workers, pooled.workers) == (1, 2)
    assert summary(pooled) == summary(alone)
    assert [partial.lines for partial in alone.partials] == [3006] * 3
    assert [partial.identity.pid for partial in alone.partials] == [500, 501, 502]


def test_ranges_of_a_file_give_what_the_whole_gives(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(tree, 1)
    monkeypatch.setattr(module, "RANGE_BYTES", 20_000)
    pieces = run(tree, 1)
    assert summary(pieces) == summary(whole)
    text = (tree / "worker-0/debug/plog/plog-500_20260102030405678.log").read_text().split("\n")
    for row in pieces.partials[0].rows:
        assert row.text.split("\n")[0] == text[row.line - 1]


def test_behind_a_lost_range_lines_keep_their_numbers(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RANGE_BYTES", 20_000)
    monkeypatch.setattr(module, "_SMALL_BYTES", 0)
    monkeypatch.setattr(module, "_TASK_BYTES", 1)
    path = tree / "worker-0/debug/plog/plog-500_20260102030405678.log"
    text = path.read_text().split("\n")
    for place in (0, 1, 2):
        unit = list(module.split(discover([str(path)]).sources[0], 0))[place]
        lost = path.read_bytes()[unit.start : unit.stop]
        with monkeypatch.context() as patch:
            patch.setattr(module, "parse", _Deadly(lost))
            patch.setattr(module, "_context", lambda: get_context("fork"))  # so that workers have the patch
            pieces = run(path, 2)
        assert [problem.reason for problem in pieces.problems] == ["crashed"]
        (partial,) = pieces.partials
        assert partial.kind == "slog" and partial.truncated and partial.lines == 3006
        assert partial.rows
        for row in partial.rows:
            assert row.text.split("\n")[0] == text[row.line - 1]


class _Deadly:
    """Parses, but dies of one range."""

    def __init__(self, lost: bytes) -> None:
        self._lost = lost
        self._parse = module.parse

    def __call__(self, source: Any, stream: Any, *rest: Any) -> Any:
        data = stream.read(1 << 20)
        if data == self._lost:
            os._exit(1)
        return self._parse(source, io.BytesIO(data), *rest)


def test_what_was_read_when_the_user_stopped_is_kept(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RANGE_BYTES", 20_000)
    monkeypatch.setattr(module, "_SMALL_BYTES", 0)
    monkeypatch.setattr(module, "_TASK_BYTES", 1)
    for workers in (1, 2):

        def stop(done: int, total: int) -> None:
            if done * 2 > total:
                raise KeyboardInterrupt

        found = ingest([str(tree)], LITERALS, lambda: Resources(workers, 1 << 30), progress=stop)  # noqa: B023
        assert [problem.reason for problem in found.problems] == [module.INTERRUPTED]
        assert 0 < sum(partial.lines for partial in found.partials) < 3 * 3006
        for partial in found.partials:
            text = (tree.parent / partial.source.path).read_text().split("\n")
            for row in partial.rows:
                assert row.text.split("\n")[0] == text[row.line - 1]


def test_an_interruption_before_anything_was_read_is_one(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "work", stop)
    with pytest.raises(KeyboardInterrupt):
        run(tree, 1)


def test_archives_and_compressed_files_give_what_plain_files_give(tree: Path, tmp_path: Path) -> None:
    plain = summary(run(tree, 1))
    bundle = tmp_path / "job.tar.gz"
    with tarfile.open(bundle, "w:gz") as tar:
        tar.add(tree, "job")
    packed = summary(run(bundle, 1))
    assert [item[1:-1] for item in packed] == [item[1:-1] for item in plain]
    assert packed[0][0] == "job.tar.gz!/job/worker-0/debug/plog/plog-500_20260102030405678.log"
    for path in tree.rglob("*.log"):
        path.with_suffix(".log.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    squeezed = summary(run(tree, 1))
    assert [item[1:-1] for item in squeezed] == [item[1:-1] for item in plain]


def test_a_truncated_file_is_analysed_as_far_as_it_goes(tree: Path) -> None:
    path = next(tree.rglob("*.log"))
    data = gzip.compress(path.read_bytes())
    broken = path.with_suffix(".log.gz")
    broken.write_bytes(data[: len(data) // 2])
    path.unlink()
    ingested = run(tree, 1)
    partial = next(item for item in ingested.partials if item.source.path.endswith(".gz"))
    assert partial.truncated and partial.lines > 100
    (problem,) = partial.problems
    assert problem.lost and problem.reason in ("truncated", "corrupt")
    assert len(ingested.partials) == 3


def test_empty_files_are_told(tree: Path) -> None:
    (tree / "empty.log").touch()
    partial = next(item for item in run(tree, 1).partials if item.source.path == "job/empty.log")
    assert (partial.kind, partial.note) == ("skipped", "empty file")


def test_a_path_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        run(tmp_path / "nothing", 1)


def test_batches_are_neither_single_small_files_nor_all_in_one() -> None:
    class Fake:
        container = None

        def __init__(self, size: int) -> None:
            self.size = size

    units = [Unit(Fake(100_000), n) for n in range(1000)]  # type: ignore[arg-type]
    batches = list(batch(units, workers=2))
    assert 8 <= len(batches) <= 32
    assert sum(len(item) for item in batches) == 1000


def test_memory_bounds_the_workers() -> None:
    assert decide(workers=8, memory_mb=400).workers == 1
    assert decide(workers=2, memory_mb=4000).workers == 2
    assert decide().workers >= 1


def test_progress_ends_at_the_total(tree: Path) -> None:
    seen: list[tuple[int, int]] = []
    ingest(
        [str(tree)], LITERALS, lambda: Resources(1, 1 << 30), progress=lambda done, total: seen.append((done, total))
    )
    assert seen and seen[-1][0] == seen[-1][1] == sum(path.stat().st_size for path in tree.rglob("*.log"))


def test_what_no_parser_claims_is_unknown_and_not_read(tmp_path: Path) -> None:
    (tmp_path / "image.bin").write_bytes(bytes(range(256)) * 4000)
    (partial,) = run(tmp_path / "image.bin", 1).partials
    assert (partial.kind, partial.note, partial.bytes) == ("unknown", "binary data", 1_024_000)
