"""URLs are read like folders, through fsspec."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

fsspec = pytest.importorskip("fsspec")

from npudiag.discover.remote import is_url  # noqa: E402
from npudiag.discover.source import Limits  # noqa: E402
from npudiag.discover.walk import discover  # noqa: E402
from npudiag.errors import UsageError  # noqa: E402
from npudiag.host.resources import Resources  # noqa: E402
from npudiag.ingest import ingest  # noqa: E402
from npudiag.parsers.scan import Literals  # noqa: E402


@pytest.fixture
def store() -> Iterator[None]:
    """Fill fsspec's file system in memory."""
    memory = fsspec.filesystem("memory")
    log = b"[ERROR] HCCL(7,python):2026-01-02-03:04:05.123.456 NEEDLE\n" * 3
    memory.pipe_file("/bucket/job/worker-1/plog-7_20260102030405123.log", log)
    memory.pipe_file("/bucket/job/worker-0/plog-6_20260102030405123.log.gz", gzip.compress(log))
    memory.pipe_file("/bucket/job/train.log", b"torch_npu NEEDLE\n")
    memory.pipe_file("/bucket/job/.git/config", b"NEEDLE\n")
    yield
    memory.rm("/bucket", recursive=True)


@pytest.mark.usefixtures("store")
def test_a_folder_elsewhere_is_read() -> None:
    found = ingest(["memory://bucket/job"], Literals(("NEEDLE",), (False,)), lambda: Resources(1, 1 << 28))
    assert not found.problems
    assert [(partial.source.path, partial.lines, len(partial.rows)) for partial in found.partials] == [
        ("job/train.log", 1, 1),
        ("job/worker-0/plog-6_20260102030405123.log.gz", 3, 3),
        ("job/worker-1/plog-7_20260102030405123.log", 3, 3),
    ]
    assert found.partials[1].identity.node == "worker-0"


@pytest.mark.usefixtures("store")
def test_a_file_and_a_pattern() -> None:
    assert [source.path for source in discover(["memory://bucket/job/train.log"]).sources] == ["train.log"]
    found = discover(["memory://bucket/job/worker-*/*.log"]).sources
    assert len(found) == 1 and found[0].path.endswith("worker-1/plog-7_20260102030405123.log")


@pytest.mark.usefixtures("store")
def test_limits_hold_elsewhere_too() -> None:
    found = discover(["memory://bucket/job"], Limits(max_files=1))
    assert len(found.sources) == 1
    assert [problem.reason for problem in found.problems] == ["limit"]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("url", ["memory://bucket/nothing", "nosuchprotocol://x/y"])
def test_what_is_not_there_is_a_wrong_usage(url: str) -> None:
    with pytest.raises(UsageError, match=url.split(":")[0]):
        discover([url])


def test_a_file_that_vanishes_is_told(store: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import npudiag.ingest as module

    found = discover(["memory://bucket/job/train.log"])
    monkeypatch.setattr(module, "discover", lambda *_: found)
    fsspec.filesystem("memory").rm("/bucket/job/train.log")
    result = ingest(["memory://bucket/job/train.log"], Literals(), lambda: Resources(1, 1 << 28))
    assert [problem.reason for problem in result.problems] == ["unreadable"] or result.partials[0].truncated


def test_names_with_colons_are_no_urls() -> None:
    assert not is_url("C:/logs") and not is_url("a:b") and is_url("s3://bucket/x")
