from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from npudiag.discover.source import Identity, Limits, Source
from npudiag.discover.streams import open_range, open_streams
from npudiag.discover.walk import discover
from npudiag.errors import SourceError
from npudiag.result import Problem

zstandard = pytest.importorskip("zstandard")

TEXT = b"".join(b"[INFO] GE(%d,python3): line %d\n" % (number % 7, number * number) for number in range(6_000))
LIMITS = Limits()

Read = tuple[str, bytes, "str | None"]


def read_all(source: Source, limits: Limits = LIMITS, size: int = 65_536) -> tuple[list[Read], list[Problem]]:
    """Return (path, bytes, reason of the error) of each stream, and what was reported."""
    reported: list[Problem] = []
    out: list[Read] = []
    for inner, stream in open_streams(source, limits, reported.append):
        data = bytearray()
        reason = None
        try:
            while piece := stream.read(size):
                assert len(piece) <= size
                data += piece
        except SourceError as exc:
            reason = exc.reason
            with pytest.raises(SourceError):
                stream.read(1)
        else:
            assert stream.read(size) == b""
        out.append((inner.path, bytes(data), reason))
    return out, reported


def read_file(path: Path, limits: Limits = LIMITS, size: int = 65_536) -> tuple[list[Read], list[Problem]]:
    (source,) = discover([str(path)]).sources
    return read_all(source, limits, size)


def read_bytes(
    folder: Path, data: bytes, limits: Limits = LIMITS, size: int = 65_536
) -> tuple[list[Read], list[Problem]]:
    path = folder / "f"
    path.write_bytes(data)
    return read_file(path, limits, size)


def tar(members: Iterable[tuple[str, bytes]], mode: str = "w", **options: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, **options) as archive:  # type: ignore[call-overload]
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(members: Iterable[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def piped_zip(members: Iterable[tuple[str, bytes]]) -> bytes:
    """A zip written to a pipe: sizes stand behind the members."""

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.data = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]
            self.data += data
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[arg-type]
        for name, data in members:
            archive.writestr(name, data)
    return bytes(pipe.data)


# --- plain files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 20])
def test_plain(tmp_path: Path, size: int) -> None:
    data = TEXT[:5000]
    assert read_bytes(tmp_path, data, size=size) == ([("f", data, None)], [])


def test_a_stream_is_a_binary_file(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(TEXT)
    (source,) = discover([str(path)]).sources
    ((_, stream),) = open_streams(source, LIMITS, print)
    assert stream.readable()
    buffer = bytearray(10)
    assert stream.readinto(buffer) == 10
    assert stream.readinto(memoryview(buffer)[5:]) == 5
    assert bytes(buffer) == TEXT[:5] + TEXT[10:15]
    assert stream.read(0) == b""
    assert io.BufferedReader(stream).readline() == TEXT[15 : TEXT.index(b"\n") + 1]
    ((_, stream),) = open_streams(source, LIMITS, print)
    assert stream.read() == TEXT
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        stream.read(1)


def test_vanished(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x\n")
    (source,) = discover([str(path)]).sources
    path.unlink()
    assert read_all(source) == ([("a.log", b"", "vanished")], [])
    path.mkdir()
    assert read_all(source) == ([("a.log", b"", "vanished")], [])


@pytest.mark.parametrize("packed", [gzip.compress(b"x"), zipped([("a", b"x")]), tar([("a", b"x")])])
def test_vanished_archive_says_so(tmp_path: Path, packed: bytes) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(packed)
    (source,) = discover([str(path)]).sources
    path.unlink()
    read, reported = read_all(source)
    assert [reason for _, _, reason in read] + [problem.reason for problem in reported] == ["vanished"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX files")
def test_a_fifo_in_the_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x\n")
    (source,) = discover([str(path)]).sources
    path.unlink()
    os.mkfifo(path)
    assert read_all(source) == ([("a.log", b"", "vanished")], [])


def test_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x\n")
    (source,) = discover([str(path)]).sources

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert read_all(source) == ([("a.log", b"", "unreadable")], [])


@pytest.mark.skipif(not hasattr(os, "pread"), reason="reads by another call here")
def test_disk_error_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(TEXT[:1000])
    (source,) = discover([str(path)]).sources
    real = os.pread

    def fail(handle: int, size: int, at: int) -> bytes:
        if at >= 200:
            raise OSError(5, "Input/output error")
        return real(handle, min(size, 200 - at), at)

    monkeypatch.setattr(os, "pread", fail)
    assert read_all(source) == ([("a.log", TEXT[:200], "unreadable")], [])


def test_grown_file_is_read_to_its_old_size(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\n")
    (source,) = discover([str(path)]).sources
    with path.open("ab") as file:
        file.write(b"two\n")
    read, reported = read_all(source)
    assert read == [("a.log", b"one\n", None)]
    assert [(problem.reason, problem.lost) for problem in reported] == [("grew", False)]


def test_shrunk_file_is_truncated(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\ntwo\n")
    (source,) = discover([str(path)]).sources
    path.write_bytes(b"one\n")
    assert read_all(source) == ([("a.log", b"one\n", "truncated")], [])


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 10), (3, 9), (10, 10)])
def test_range(tmp_path: Path, start: int, stop: int) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"0123456789")
    (source,) = discover([str(path)]).sources
    with open_range(source, start, stop) as stream:
        assert stream.read() == b"0123456789"[start:stop]


def test_no_range(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"0123456789")
    (plain,) = discover([str(path)]).sources
    for start, stop in ((-1, 3), (5, 4), (0, 11)):
        with pytest.raises(ValueError, match="range"):
            open_range(plain, start, stop)
    path.write_bytes(gzip.compress(b"x"))
    (packed,) = discover([str(path)]).sources
    for source in (packed, Source("-", None, None, None)):
        with pytest.raises(ValueError, match="plain"):
            open_range(source, 0, 1)
    path.unlink()
    with open_range(plain, 0, 5) as stream, pytest.raises(SourceError, match="gone"):
        stream.read(1)


# --- compressed files -------------------------------------------------------------------------------------------

PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard.compress}
packers = pytest.mark.parametrize("kind", PACKERS)


@packers
@pytest.mark.parametrize("size", [1000, 1 << 20])
def test_compressed(tmp_path: Path, kind: str, size: int) -> None:
    assert read_bytes(tmp_path, PACKERS[kind](TEXT), size=size) == ([("f", TEXT, None)], [])
    assert read_bytes(tmp_path, PACKERS[kind](b""), size=size) == ([("f", b"", None)], [])


@packers
def test_several_streams_in_one_file(tmp_path: Path, kind: str) -> None:
    pack = PACKERS[kind]
    data = pack(b"one\n") + pack(b"") + b"\0" * 8 + pack(TEXT) + pack(b"last\n") + b"\0" * 700
    assert read_bytes(tmp_path, data) == ([("f", b"one\n" + TEXT + b"last\n", None)], [])


def test_very_many_streams_in_one_file(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, gzip.compress(b"x\n") * 5000)[0] == [("f", b"x\n" * 5000, None)]


@packers
@pytest.mark.parametrize("garbage", [b"j", b"junk behind the end", b"\0\0\0\0junk"])
def test_trailing_garbage_is_tolerated(tmp_path: Path, kind: str, garbage: bytes) -> None:
    read, reported = read_bytes(tmp_path, PACKERS[kind](TEXT) + garbage)
    assert read == [("f", TEXT, None)]
    assert [(problem.reason, problem.lost) for problem in reported] == [("corrupt", False)]


@packers
@pytest.mark.parametrize("size", [100, 1 << 20])
def test_truncated(tmp_path: Path, kind: str, size: int) -> None:
    # Poorly packed, so that there is something ahead of the end also where blocks are large.
    noise = random.Random(1).randbytes(1_200_000)
    packed = PACKERS[kind](noise)
    ((_, data, reason),), reported = read_bytes(tmp_path, packed[: len(packed) * 9 // 10], size=size)
    assert reason == "truncated"
    assert noise.startswith(data)
    assert len(data) > 800_000
    assert reported == []


@packers
def test_corrupt(tmp_path: Path, kind: str) -> None:
    noise = random.Random(2).randbytes(1_200_000)
    pack = zstandard.ZstdCompressor(write_checksum=True).compress if kind == "zst" else PACKERS[kind]
    packed = bytearray(pack(noise))
    packed[len(packed) * 9 // 10 : len(packed) * 9 // 10 + 64] = bytes(range(64))
    ((_, data, reason),), _ = read_bytes(tmp_path, bytes(packed))
    assert reason in ("corrupt", "truncated")
    assert len(data) > 800_000
    assert data[:800_000] == noise[:800_000]


def test_wrong_check_sum_loses_nothing(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[-8] ^= 1
    assert read_bytes(tmp_path, bytes(packed)) == ([("f", TEXT, "corrupt")], [])


def test_damage_in_a_small_gzip_loses_only_what_follows(tmp_path: Path) -> None:
    packer = io.BytesIO()
    with gzip.GzipFile(fileobj=packer, mode="wb") as file:
        file.write(b"first\n")
        file.flush()
        good = len(packer.getvalue())
        file.write(b"second\n")
    packed = packer.getvalue()
    ((_, data, reason),), _ = read_bytes(tmp_path, packed[:good] + b"\xff" * (len(packed) - good))
    assert (data, reason) == (b"first\n", "corrupt")


def test_xz_that_wants_too_much_memory(tmp_path: Path) -> None:
    header = bytearray(lzma.compress(b"x" * 100, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 4096}]))
    # The dictionary's size stands in the block header behind the filter's id and the size of its properties.
    at = header.index(b"\x21\x01", 12) + 2
    header[at] = 38  # 2 GiB
    block = bytes(header[12 : 12 + (header[12] + 1) * 4 - 4])
    header[12 + len(block) : 16 + len(block)] = struct.pack("<L", zlib.crc32(block))
    read, _ = read_bytes(tmp_path, bytes(header))
    assert read == [("f", b"", "unsupported")]


def test_zstd_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_bytes(zstandard.compress(b"x"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (source,) = discover([str(path)]).sources
    assert source.container == "zst"
    assert read_all(source) == ([("f", b"", "unsupported")], [])


@packers
def test_packed_twice(tmp_path: Path, kind: str) -> None:
    pack = PACKERS[kind]
    assert read_bytes(tmp_path, pack(pack(TEXT))) == ([("f", TEXT, None)], [])
    read, reported = read_bytes(tmp_path, pack(pack(pack(pack(TEXT)))))
    assert read == []
    assert [(problem.path, problem.reason, problem.lost) for problem in reported] == [("f", "limit", True)]


# --- archives ---------------------------------------------------------------------------------------------------


def _zst_tar(members: Iterable[tuple[str, bytes]]) -> bytes:
    return bytes(zstandard.compress(tar(members)))


ARCHIVERS = {
    "tar": tar,
    "pax": lambda members: tar(members, format=tarfile.PAX_FORMAT),
    "gnu": lambda members: tar(members, format=tarfile.GNU_FORMAT),
    "tar.gz": lambda members: tar(members, "w:gz"),
    "tar.bz2": lambda members: tar(members, "w:bz2"),
    "tar.xz": lambda members: tar(members, "w:xz"),
    "tar.zst": _zst_tar,
    "zip": zipped,
    "zip-stored": lambda members: zipped(members, zipfile.ZIP_STORED),
    "zip-bz2": lambda members: zipped(members, zipfile.ZIP_BZIP2),
    "zip-piped": piped_zip,
}
archivers = pytest.mark.parametrize("kind", ARCHIVERS)
MEMBERS = [
    ("worker-1/a.log", b"a\n"),
    ("worker-1/empty.log", b""),
    ("./worker-2//rank_3.log", TEXT),
    ("d/" * 40 + "日志.log", b"deep\n"),
    ("z.log", b"z" * 512),
]
EXPECTED = [
    ("worker-1/a.log", b"a\n"),
    ("worker-1/empty.log", b""),
    ("worker-2/rank_3.log", TEXT),
    ("d/" * 40 + "日志.log", b"deep\n"),
    ("z.log", b"z" * 512),
]


@archivers
@pytest.mark.parametrize("size", [1 << 20, 999])
def test_members(tmp_path: Path, kind: str, size: int) -> None:
    read, reported = read_bytes(tmp_path, ARCHIVERS[kind](MEMBERS), size=size)
    assert read == [("f!/" + name, data, None) for name, data in EXPECTED]
    assert reported == []


@archivers
def test_source_of_a_member(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "bundle.any"
    path.write_bytes(ARCHIVERS[kind](MEMBERS))
    (outer,) = discover([str(path)]).sources
    source = [source for source, _ in open_streams(outer, LIMITS, print)][2]
    assert source.path == "bundle.any!/worker-2/rank_3.log"
    assert source.location == str(path)
    assert source.container == ("zip" if "zip" in kind else "tar")
    assert source.size == len(TEXT)
    assert source.identity == Identity(node="worker-2", rank=3)


@archivers
def test_members_need_not_be_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(ARCHIVERS[kind](MEMBERS))
    (outer,) = discover([str(path)]).sources
    got = []
    for number, (source, stream) in enumerate(open_streams(outer, LIMITS, print)):
        if number != 2:
            got.append((source.path, stream.read()))
        else:
            stream.read(10)
            left = stream
    assert got == [("f!/" + name, data) for name, data in EXPECTED if data is not TEXT]
    with pytest.raises(ValueError, match="closed"):
        left.read(1)


@archivers
def test_archive_cut_short(tmp_path: Path, kind: str) -> None:
    noise = random.Random(3).randbytes(200_000)
    packed = ARCHIVERS[kind]([("a.log", b"a\n"), ("noise", noise), ("c.log", b"c\n")])
    read, reported = read_bytes(tmp_path, packed[: len(packed) // 2])
    reasons = [*(reason for _, _, reason in read if reason), *(problem.reason for problem in reported)]
    assert reasons == ["truncated"]
    if kind not in ("tar.bz2", "tar.xz", "zip-bz2"):  # their blocks are larger than this archive
        assert read[0] == ("f!/a.log", b"a\n", None)
        path, data, reason = read[1]
        assert (path, reason) == ("f!/noise", "truncated")
        assert noise.startswith(data)
        assert len(data) > 60_000
        assert reported == []


def test_archive_cut_where_nobody_reads_is_reported(tmp_path: Path) -> None:
    packed = tar([("a.log", b"a" * 5000), ("b.log", b"b\n")])
    path = tmp_path / "f"
    path.write_bytes(packed[:2000])
    (outer,) = discover([str(path)]).sources
    reported: list[Problem] = []
    assert [source.path for source, _ in open_streams(outer, LIMITS, reported.append)] == ["f!/a.log"]
    assert [(problem.path, problem.reason, problem.lost) for problem in reported] == [("f", "truncated", True)]


def test_tar_without_an_end_is_truncated(tmp_path: Path) -> None:
    packed = tar([("a.log", b"a\n"), ("b.log", b"b\n")])
    read, reported = read_bytes(tmp_path, packed[:2048])
    assert [data for _, data, _ in read] == [b"a\n", b"b\n"]
    assert [problem.reason for problem in reported] == ["truncated"]


def test_damaged_header_ends_a_tar(tmp_path: Path) -> None:
    packed = bytearray(tar([("a.log", b"a\n"), ("b.log", b"b\n")]))
    packed[1024 + 150] ^= 0xFF
    read, reported = read_bytes(tmp_path, bytes(packed))
    assert read == [("f!/a.log", b"a\n", None)]
    assert [problem.reason for problem in reported] == ["corrupt"]


def test_tars_in_a_row(tmp_path: Path) -> None:
    one, two = tar([("a.log", b"a\n")]), tar([("b.log", b"b\n")])
    expected = [("f!/a.log", b"a\n", None), ("f!/b.log", b"b\n", None)]
    assert read_bytes(tmp_path, one + two) == (expected, [])
    assert read_bytes(tmp_path, gzip.compress(one) + gzip.compress(two)) == (expected, [])
    assert read_bytes(tmp_path, one + b"junk" * 200) == (expected[:1], [])


ESCAPES = ["../up.log", "a/../../up.log", "/abs.log", "C:/abs.log", "..", "a\\..\\..\\up.log", "\\\\host\\share.log"]


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
@pytest.mark.parametrize("name", ESCAPES)
def test_members_that_point_outside_are_not_read(tmp_path: Path, kind: str, name: str) -> None:
    read, reported = read_bytes(tmp_path, ARCHIVERS[kind]([(name, b"evil\n"), ("good.log", b"g\n")]))
    assert read == [("f!/good.log", b"g\n", None)]
    assert [(problem.reason, problem.lost) for problem in reported] == [("escape", True)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f"]


def test_very_many_members_that_point_outside(tmp_path: Path) -> None:
    _, reported = read_bytes(tmp_path, tar([(f"../{number}", b"") for number in range(60)]))
    assert len(reported) == 51
    assert reported[-1].message == "10 more members with the same problem"


def test_links_and_devices_are_passed_over(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE)):
            info = tarfile.TarInfo(f"special{number}")
            info.type = kind
            info.linkname = "/etc/hostname"
            archive.addfile(info)
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        archive.addfile(tarfile.TarInfo("a.log"))
    read, reported = read_bytes(tmp_path, out.getvalue())
    assert read == [("f!/a.log", b"", None)]
    assert [(problem.reason, problem.lost) for problem in reported] == [("special", False)]
    assert "4 link(s)" in reported[0].message


def test_link_in_a_zip(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.create_system = 3
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/hostname")
    read, reported = read_bytes(tmp_path, out.getvalue())
    assert read == []
    assert [problem.reason for problem in reported] == ["special"]


def test_folders_nobody_wants(tmp_path: Path) -> None:
    members = [(".git/HEAD", b"x"), ("a/__MACOSX/._a.log", b"x"), ("a/b/", b""), ("a.log", b"a\n")]
    assert read_bytes(tmp_path, zipped(members)) == ([("f!/a.log", b"a\n", None)], [])


@pytest.mark.parametrize("outer", ["tar", "tar.gz", "zip", "zip-stored", "zip-piped"])
@archivers
def test_archive_in_an_archive(tmp_path: Path, outer: str, kind: str) -> None:
    inner = ARCHIVERS[kind](MEMBERS)
    packed = ARCHIVERS[outer]([("before.log", b"b\n"), ("in/inner.bin", inner), ("x.log.gz", gzip.compress(b"x\n"))])
    read, reported = read_bytes(tmp_path, packed)
    assert read == [
        ("f!/before.log", b"b\n", None),
        *(("f!/in/inner.bin!/" + name, data, None) for name, data in EXPECTED),
        ("f!/x.log.gz", b"x\n", None),
    ]
    assert reported == []


def test_nesting_is_limited(tmp_path: Path) -> None:
    data = b"deep\n"
    name = "d.log"
    for level in range(3):
        data, name = tar([(name, data)], "w:gz"), f"{level}.tgz"
    assert read_bytes(tmp_path, data)[0] == [("f!/1.tgz!/0.tgz!/d.log", b"deep\n", None)]
    data = tar([(name, data), ("after.log", b"a\n")])
    read, reported = read_bytes(tmp_path, data)
    assert read == [("f!/after.log", b"a\n", None)]
    assert [(p.path, p.reason, p.lost) for p in reported] == [("f!/2.tgz!/1.tgz!/0.tgz", "limit", True)]


def test_a_damaged_inner_archive_spares_the_others(tmp_path: Path) -> None:
    bad = gzip.compress(TEXT)[:-5_000]
    read, reported = read_bytes(tmp_path, tar([("bad.gz", bad), ("good.log", b"g\n")]))
    assert [(path, reason) for path, _, reason in read] == [("f!/bad.gz", "truncated"), ("f!/good.log", None)]
    assert TEXT.startswith(read[0][1])
    assert reported == []


def test_foreign_archive_inside(tmp_path: Path) -> None:
    _, reported = read_bytes(tmp_path, tar([("a.7z", b"7z\xbc\xaf\x27\x1c" + bytes(50))]))
    assert [(p.path, p.reason) for p in reported] == [("f!/a.7z", "unsupported")]


def test_names_from_chinese_windows(tmp_path: Path) -> None:
    packed = zipped([("XXXX\\a.log", b"x\n")]).replace(b"XXXX", "日志".encode("gb18030"))
    assert read_bytes(tmp_path, packed)[0] == [("f!/日志/a.log", b"x\n", None)]


def test_encrypted_zip(tmp_path: Path) -> None:
    packed = bytearray(zipped([("a.log", b"secret\n"), ("b.log", b"b\n")]))
    packed[6] |= 1
    packed[packed.index(b"PK\x01\x02") + 8] |= 1
    read, reported = read_bytes(tmp_path, bytes(packed))
    assert read == [("f!/b.log", b"b\n", None)]
    assert [(p.path, p.reason, p.lost) for p in reported] == [("f!/a.log", "unsupported", True)]


def test_member_without_a_name(tmp_path: Path) -> None:
    packed = zipped([("X", b"x\n")]).replace(b"X", b"\0")
    assert read_bytes(tmp_path, packed) == ([("f!/\ufffd", b"x\n", None)], [])


def test_zip_that_lost_its_directory(tmp_path: Path) -> None:
    for pack in (zipped, piped_zip):
        packed = pack(MEMBERS)
        read, reported = read_bytes(tmp_path, packed[: packed.index(b"PK\x01\x02") + 10])
        assert [data for _, data, _ in read] == [data for _, data in EXPECTED]
        assert [problem.reason for problem in reported] == ["truncated"]


def test_wrong_check_sum_in_a_zip(tmp_path: Path) -> None:
    packed = bytearray(zipped([("a.log", TEXT)], zipfile.ZIP_STORED))
    packed[1000] ^= 1
    ((_, data, reason),), _ = read_bytes(tmp_path, bytes(packed))
    assert (len(data), reason) == (len(TEXT), "corrupt")


# --- bombs ------------------------------------------------------------------------------------------------------

SMALL = Limits(
    max_member_bytes=4 << 20, max_total_bytes=8 << 20, max_ratio=50, ratio_grace_bytes=1 << 20, max_members=10
)
ZEROS = bytes(40 << 20)


@packers
def test_bomb(tmp_path: Path, kind: str) -> None:
    ((_, data, reason),), _ = read_bytes(tmp_path, PACKERS[kind](ZEROS), SMALL)
    assert reason == "bomb"
    assert len(data) <= 5 << 20


@pytest.mark.parametrize("kind", ["tar.gz", "tar.xz", "zip", "zip-bz2", "zip-piped"])
def test_bomb_in_an_archive(tmp_path: Path, kind: str) -> None:
    read, reported = read_bytes(tmp_path, ARCHIVERS[kind]([("bomb", ZEROS)]), SMALL)
    assert [*(reason for _, _, reason in read), *(p.reason for p in reported)][-1] in ("bomb", "limit")
    assert sum(len(data) for _, data, _ in read) <= 9 << 20


def test_bomb_in_a_bomb(tmp_path: Path) -> None:
    # Each layer is harmless by itself.
    limits = Limits(max_ratio=2000, ratio_grace_bytes=1 << 20)
    inner = gzip.compress(bytes(30 << 20))
    ((_, data, reason),), _ = read_bytes(tmp_path, gzip.compress(gzip.compress(inner)), limits)
    assert reason == "bomb"
    assert len(data) < 30 << 20


def test_bomb_that_nobody_reads_is_not_unpacked_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(tar([("bomb", ZEROS), ("b.log", b"b")], "w:gz"))
    (outer,) = discover([str(path)]).sources
    reported: list[Problem] = []
    limits = replace(SMALL, max_member_bytes=1 << 30)
    assert [source.path for source, _ in open_streams(outer, limits, reported.append)] == ["f!/bomb"]
    assert [(problem.reason, problem.lost) for problem in reported] == [("bomb", True)]


def test_many_members_together_are_too_much(tmp_path: Path) -> None:
    noise = random.Random(4).randbytes(3 << 20)
    read, _ = read_bytes(tmp_path, zipped([(str(number), noise) for number in range(6)]), SMALL)
    assert [reason for _, _, reason in read][:3] == [None, None, "bomb"]


def test_member_limit(tmp_path: Path) -> None:
    for pack in (tar, zipped):
        read, reported = read_bytes(tmp_path, pack([(str(number), b"x") for number in range(20)]), SMALL)
        assert len(read) == 10
        assert [(p.reason, p.lost) for p in reported] == [("limit", True)]


def test_member_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    read, reported = read_bytes(tmp_path, tar([("big", bytes(5 << 20)), ("b.log", b"b")]), SMALL)
    assert read == [("f!/b.log", b"b", None)]
    assert [(problem.path, problem.reason) for problem in reported] == [("f!/big", "limit")]


def test_overlapping_members_of_a_zip(tmp_path: Path) -> None:
    packed = zipped([("a.log", b"a\n"), ("b.log", b"b\n")])
    second = packed.index(b"PK\x01\x02", packed.index(b"PK\x01\x02") + 1)
    overlapping = packed[: second + 42] + struct.pack("<L", 0) + packed[second + 46 :]
    read, reported = read_bytes(tmp_path, overlapping)
    assert read == []
    assert [problem.reason for problem in reported] == ["bomb"]


def test_header_that_claims_to_be_huge(tmp_path: Path) -> None:
    info = tarfile.TarInfo("x")
    info.type = tarfile.XHDTYPE
    info.size = 1 << 40
    read, reported = read_bytes(tmp_path, info.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    assert read == []
    assert [problem.reason for problem in reported] == ["corrupt"]


def test_negative_sizes(tmp_path: Path) -> None:
    header = bytearray(tarfile.TarInfo("x").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 11 + b"\x00"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    read, reported = read_bytes(tmp_path, bytes(header) + bytes(1024))
    assert read == []
    assert [problem.reason for problem in reported] == ["corrupt"]


# --- sparse members ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="needs GNU tar")
@pytest.mark.parametrize("form", ["gnu", "pax"])
def test_sparse_members_are_refused_and_passed(tmp_path: Path, form: str) -> None:
    with (tmp_path / "holes").open("wb") as file:
        for place in range(0, 60 << 20, 2 << 20):
            file.seek(place)
            file.write(b"x" * 4096)
    (tmp_path / "z.log").write_bytes(b"z\n")
    try:
        subprocess.run(
            ["tar", "--sparse", f"--format={form}", "-cf", "s.tar", "holes", "z.log"],
            cwd=tmp_path, check=True, capture_output=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no GNU tar")
    if (tmp_path / "s.tar").stat().st_size > 1 << 20:
        pytest.skip("the file system has no holes")
    read, reported = read_file(tmp_path / "s.tar")
    assert [(data, reason) for _, data, reason in read] == [(b"z\n", None)]
    assert [problem.reason for problem in reported] == ["unsupported"]


# --- stdin ------------------------------------------------------------------------------------------------------


class _Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (TEXT, [("-", TEXT)]),
        (b"", [("-", b"")]),
        (gzip.compress(TEXT), [("-", TEXT)]),
        (tar([("a.log", b"a\n"), ("b.log", b"b\n")], "w:gz"), [("-!/a.log", b"a\n"), ("-!/b.log", b"b\n")]),
        (zipped([("a.log", b"a\n"), ("b.log", b"b\n")]), [("-!/a.log", b"a\n"), ("-!/b.log", b"b\n")]),
    ],
)
def test_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes, expected: list[tuple[str, bytes]]) -> None:
    monkeypatch.setattr(sys, "stdin", _Stdin(data))
    (source,) = discover(["-"]).sources
    read, reported = read_all(source)
    assert [(path, content) for path, content, _ in read] == expected
    assert reported == []


def test_no_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert [problem.reason for problem in read_all(Source("-", None, None, None))[1]] == ["unreadable"]


def test_stdin_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            if not data:
                raise OSError(5, "Input/output error")
            return data

    stdin = _Stdin(b"")
    stdin.buffer = Broken(b"some\n")
    monkeypatch.setattr(sys, "stdin", stdin)
    assert read_all(Source("-", None, None, None))[0] == [("-", b"some\n", "unreadable")]


# --- anything ---------------------------------------------------------------------------------------------------

SEEDS = [
    *(pack(b"some text\n" * 50) for pack in PACKERS.values()),
    *(pack([("a.log", b"a\n" * 30), ("b/c.gz", gzip.compress(b"c\n"))]) for pack in ARCHIVERS.values()),
]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.sampled_from(SEEDS),
    changes=st.lists(st.tuples(st.integers(0, 1 << 14), st.binary(min_size=1, max_size=8)), max_size=4),
    cut=st.one_of(st.none(), st.integers(0, 1 << 14)),
    tail=st.binary(max_size=20),
)
@example(seed=b"", changes=[], cut=None, tail=b"PK\x05\x06")
def test_damage_never_escapes(
    tmp_path: Path, seed: bytes, changes: list[tuple[int, bytes]], cut: int | None, tail: bytes
) -> None:
    data = bytearray(seed[:cut] if cut is not None else seed)
    for place, value in changes:
        if data:
            place %= len(data)
            data[place : place + len(value)] = value
    path = tmp_path / "f"
    path.write_bytes(bytes(data) + tail)
    limits = Limits(max_total_bytes=1 << 22, max_members=50)
    for source in discover([str(path)]).sources:
        for inner, content, _ in read_all(source, limits)[0]:
            inner.encode()
            assert len(content) <= 1 << 23
