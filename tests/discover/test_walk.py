from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import socket
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from npudiag.discover import walk as walk_module
from npudiag.discover.source import Identity, Limits, Source
from npudiag.discover.walk import discover
from npudiag.errors import UsageError

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX files")


def put(path: Path, data: bytes = b"x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def names(*paths: Path | str, limits: Limits | None = None) -> list[str]:
    return [source.path for source in discover([str(path) for path in paths], limits).sources]


def problems(*paths: Path | str, limits: Limits | None = None) -> list[tuple[str, str, bool]]:
    found = discover([str(path) for path in paths], limits).problems
    return [(problem.path, problem.reason, problem.lost) for problem in found]


def test_folder_in_a_fixed_order_and_named_from_its_parent(tmp_path: Path) -> None:
    for name in ("b/2.txt", "b/1.txt", "z.log", "a/deep/er/x.log", "a.log"):
        put(tmp_path / "input" / name)
    expected = ["input/a.log", "input/z.log", "input/a/deep/er/x.log", "input/b/1.txt", "input/b/2.txt"]
    assert names(tmp_path / "input") == expected
    assert names(str(tmp_path / "input") + "/") == expected


def test_source_of_a_file(tmp_path: Path) -> None:
    path = put(tmp_path / "worker-3" / "rank_5.log", b"hello\n")
    (source,) = discover([str(path.parent)]).sources
    assert source == Source("worker-3/rank_5.log", str(path), 6, None, Identity(node="worker-3", rank=5))
    assert pickle.loads(pickle.dumps(source)) == source


def test_relative_arguments_get_their_real_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "input" / "sub" / "a.log")
    monkeypatch.chdir(tmp_path / "input" / "sub")
    assert names(".") == ["sub/a.log"]
    assert names("..") == ["input/sub/a.log"]
    assert names("a.log") == ["a.log"]


def test_arguments_of_one_name_keep_apart(tmp_path: Path) -> None:
    put(tmp_path / "n1" / "log" / "a.log")
    put(tmp_path / "n2" / "log" / "a.log")
    put(tmp_path / "other" / "b.log")
    assert names(tmp_path / "n1/log", tmp_path / "n2/log", tmp_path / "other") == [
        "n1/log/a.log",
        "n2/log/a.log",
        "other/b.log",
    ]


def test_empty_folder_and_empty_file(tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()
    assert names(tmp_path / "e") == []
    put(tmp_path / "e" / "nothing.log", b"")
    assert [source.size for source in discover([str(tmp_path / "e")]).sources] == [0]


def test_stdin_once() -> None:
    found = discover(["-", "-"])
    assert found.sources == [Source("-", None, None, None)]


@pytest.mark.parametrize("name", ["missing", "missing/deeper", "nul\0byte", "n" * 5000])
def test_missing_path_is_a_usage_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        discover([str(tmp_path / name)])


@posix
def test_dangling_argument_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(UsageError):
        discover([str(tmp_path / "link")])


def test_overlapping_arguments_read_once(tmp_path: Path) -> None:
    put(tmp_path / "input" / "sub" / "a.log")
    assert names(tmp_path / "input", tmp_path / "input" / "sub", tmp_path / "input" / "sub" / "a.log") == [
        "input/sub/a.log"
    ]
    assert names(tmp_path / "input" / "sub", tmp_path / "input") == ["sub/a.log"]


@posix
def test_hard_links_are_files_of_their_own(tmp_path: Path) -> None:
    first = put(tmp_path / "input" / "a.log")
    os.link(first, tmp_path / "input" / "b.log")
    assert names(tmp_path / "input") == ["input/a.log", "input/b.log"]
    assert names(tmp_path / "input", tmp_path / "input" / "a.log") == ["input/a.log", "input/b.log"]


def test_version_control_is_passed_over(tmp_path: Path) -> None:
    put(tmp_path / "input" / ".git" / "HEAD")
    put(tmp_path / "input" / ".svn" / "entries")
    put(tmp_path / "input" / ".hidden" / "a.log")
    assert names(tmp_path / "input") == ["input/.hidden/a.log"]


@posix
class TestLinks:
    def test_link_to_a_file_that_is_read_anyway(self, tmp_path: Path) -> None:
        put(tmp_path / "input" / "z.log")
        (tmp_path / "input" / "latest.log").symlink_to("z.log")
        assert names(tmp_path / "input") == ["input/z.log"]
        assert problems(tmp_path / "input") == []

    def test_link_to_a_folder_that_is_read_anyway(self, tmp_path: Path) -> None:
        put(tmp_path / "input" / "run_2" / "a.log")
        (tmp_path / "input" / "latest").symlink_to("run_2")
        assert names(tmp_path / "input") == ["input/run_2/a.log"]
        assert problems(tmp_path / "input") == []

    @pytest.mark.parametrize("target", ["..", ".", "../..", "../../sub"])
    def test_loop(self, tmp_path: Path, target: str) -> None:
        put(tmp_path / "input" / "sub" / "deep" / "a.log")
        (tmp_path / "input" / "sub" / "deep" / "again").symlink_to(target)
        assert names(tmp_path / "input") == ["input/sub/deep/a.log"]
        assert problems(tmp_path / "input") == [("input/sub/deep/again", "loop", False)]

    def test_links_in_a_circle(self, tmp_path: Path) -> None:
        (tmp_path / "input").mkdir()
        (tmp_path / "input" / "a").symlink_to("b")
        (tmp_path / "input" / "b").symlink_to("a")
        assert {reason for _, reason, _ in problems(tmp_path / "input")} == {"loop"}

    def test_link_outside_is_reported_and_not_followed(self, tmp_path: Path) -> None:
        secret = put(tmp_path / "outside" / "secret.log")
        (tmp_path / "input").mkdir()
        (tmp_path / "input" / "file").symlink_to(secret)
        (tmp_path / "input" / "folder").symlink_to(secret.parent)
        assert names(tmp_path / "input") == []
        assert problems(tmp_path / "input") == [("input/file", "escape", True), ("input/folder", "escape", True)]

    def test_sibling_with_the_same_beginning_is_outside(self, tmp_path: Path) -> None:
        put(tmp_path / "input-2" / "a.log")
        (tmp_path / "input").mkdir()
        (tmp_path / "input" / "l").symlink_to("../input-2")
        assert problems(tmp_path / "input") == [("input/l", "escape", True)]

    def test_link_into_another_argument_is_inside(self, tmp_path: Path) -> None:
        put(tmp_path / "b" / "x.log")
        put(tmp_path / "a" / "y.log")
        (tmp_path / "a" / "l").symlink_to("../b")
        assert names(tmp_path / "a", tmp_path / "b") == ["a/y.log", "b/x.log"]
        assert problems(tmp_path / "a", tmp_path / "b") == []

    def test_argument_may_be_a_link(self, tmp_path: Path) -> None:
        put(tmp_path / "real" / "a.log")
        (tmp_path / "real" / "b.log").symlink_to("a.log")
        (tmp_path / "input").symlink_to("real")
        (tmp_path / "file.log").symlink_to("real/a.log")
        assert names(tmp_path / "input") == ["input/a.log"]
        assert problems(tmp_path / "input") == []
        assert names(tmp_path / "file.log") == ["file.log"]

    def test_dangling_link_loses_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "input").mkdir()
        (tmp_path / "input" / "l").symlink_to("gone")
        assert problems(tmp_path / "input") == [("input/l", "vanished", False)]


@posix
def test_special_files_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "input" / "a.log")
    os.mkfifo("input/pipe")
    (tmp_path / "input" / "null").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("input/sock")
        found = discover(["input"])
    assert [source.path for source in found.sources] == ["input/a.log"]
    assert [(p.path, p.reason, p.lost) for p in found.problems] == [
        ("input/pipe", "special", False),
        ("input/sock", "special", False),
        ("input/null", "special", False),
    ]
    assert problems("input/pipe") == [("pipe", "special", False)]


def test_unreadable_file_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "input" / "a.log")
    put(tmp_path / "input" / "secret.log")
    put(tmp_path / "input" / "locked" / "b.log")
    real_open, real_scandir = os.open, os.scandir

    def refuse(path: str, *rest: int) -> int:
        if str(path).endswith("secret.log"):
            raise PermissionError(13, "Permission denied")
        return real_open(path, *rest)

    def refuse_folder(path: str):  # type: ignore[no-untyped-def]
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return real_scandir(path)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(walk_module.os, "scandir", refuse_folder)
    found = discover([str(tmp_path / "input")])
    assert [source.path for source in found.sources] == ["input/a.log"]
    assert [(p.path, p.reason, p.lost) for p in found.problems] == [
        ("input/secret.log", "unreadable", True),
        ("input/locked", "unreadable", True),
    ]


@posix
@pytest.mark.skipif(getattr(os, "geteuid", lambda: 0)() == 0, reason="root reads everything")
def test_unreadable_for_real(tmp_path: Path) -> None:
    put(tmp_path / "input" / "a.log").chmod(0)
    assert problems(tmp_path / "input") == [("input/a.log", "unreadable", True)]


def test_file_limit(tmp_path: Path) -> None:
    for number in range(5):
        put(tmp_path / "input" / f"{number}.log")
    limits = Limits(max_files=3)
    assert names(tmp_path / "input", limits=limits) == ["input/0.log", "input/1.log", "input/2.log"]
    assert problems(tmp_path / "input", limits=limits) == [("input/3.log", "limit", True)]
    assert problems(tmp_path / "input", limits=Limits(max_files=5)) == []


def test_many_problems_are_summed_up(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    for number in range(250):
        (tmp_path / "input" / f"l{number:03}").symlink_to("nowhere")
    found = problems(tmp_path / "input")
    assert len(found) == 201
    assert found[-1] == ("", "vanished", False)


def _tar(mode: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        archive.addfile(tarfile.TarInfo("a.log"), io.BytesIO())
    return out.getvalue()


def _zip(*members: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for member in members:
            archive.writestr(member, "x")
    return out.getvalue()


def _zst(data: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    return bytes(zstandard.compress(data))


@pytest.mark.parametrize(
    ("data", "container"),
    [
        (b"plain\n", None),
        (gzip.compress(b"x"), "gz"),
        (bz2.compress(b"x"), "bz2"),
        (bz2.compress(b""), "bz2"),
        (lzma.compress(b"x"), "xz"),
        (_zst(b"x"), "zst"),
        (b"\x50\x2a\x4d\x18\x01\x00\x00\x00x" + _zst(b"x"), "zst"),
        (_tar("w"), "tar"),
        (_tar("w:gz"), "tar"),
        (_tar("w:bz2"), "tar"),
        (_tar("w:xz"), "tar"),
        (_zst(_tar("w")), "tar"),
        (_zip("a"), "zip"),
        (_zip(), "zip"),
        (b"\x1f\x8b", None),
        (b"\x1f\x8b\x08 is how gzip begins, but this is none", "gz"),
        (b"BZh9 is how bzip2 begins", None),
        (b"PK is how zip begins", None),
        (b"\0" * 10240, None),
        (b"a" * 600, None),
        (("0" * 600).encode(), None),
    ],
)
@pytest.mark.parametrize("name", ["a.log", "a.gz"])
def test_container_is_told_by_content(tmp_path: Path, data: bytes, container: str | None, name: str) -> None:
    path = put(tmp_path / name, data)
    (source,) = discover([str(path)]).sources
    assert source.container == container


@pytest.mark.parametrize("magic", [b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07\x01\x00", b"\x04\x22\x4d\x18"])
def test_archives_nobody_can_read_are_reported(tmp_path: Path, magic: bytes) -> None:
    put(tmp_path / "input" / "a.bin", magic + b"\0" * 100)
    assert names(tmp_path / "input") == []
    assert problems(tmp_path / "input") == [("input/a.bin", "unsupported", True)]


@posix
@pytest.mark.skipif(sys.platform == "darwin", reason="the file system refuses such names")
def test_names_that_are_no_text(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "input")
    os.mkdir(folder)  # noqa: PTH102 - bytes
    for name in ("日志.log".encode(), "日志2.log".encode("gb18030"), b"\xff\xfe\xff.log", b"a\x1b[31m\n.log"):
        with open(folder + b"/" + name, "wb") as file:  # noqa: PTH123 - bytes
            file.write(b"x\n")
    found = discover([str(tmp_path / "input")])
    shown = {source.path for source in found.sources}
    assert {"input/日志.log", "input/日志2.log", "input/a\ufffd[31m\ufffd.log"} < shown
    assert len(shown) == 4
    for source in found.sources:
        source.path.encode()
        assert source.location is not None
        assert os.path.getsize(source.location) == 2  # noqa: PTH202 - what it is opened by
