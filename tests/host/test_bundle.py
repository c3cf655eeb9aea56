"""Bundles: whole or not at all, bounded, redacted, and judged by `analyze` like the machine itself."""

from __future__ import annotations

import datetime
import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard

from npudiag.errors import UsageError
from npudiag.host.bundle import Bounds, Bundle, Writer, load_key, new_key
from npudiag.host.redact import Redactor
from npudiag.host.trim import trim

KEY = bytes(range(32))
PLOG = (
    "[ERROR] HCCL(4821,python3):2026-03-04-05:06:{second:02d}.306.118 [hccl_socket.cc:110] [48636]connect to "
    "ip[10.20.30.{peer}] of gpu-box-17 fails, see /home/chenwei/run\n"
)


def members(path: Path) -> dict[str, bytes]:
    if path.name.endswith(".zst"):
        data = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    else:
        data = gzip.decompress(path.read_bytes()) if path.name.endswith("gz") else path.read_bytes()
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for info in tar:
            file = tar.extractfile(info)
            assert file is not None
            found[info.name] = file.read()
    return found


def manifest(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(members(path)["manifest.json"])
    return document


def write(target: Path, *logs: Path, redact: bool = True, texts: dict[str, str] | None = None, **bounds: Any) -> Bundle:
    redactor = Redactor(KEY, hosts=["gpu-box-17"], users=["chenwei"]) if redact else None
    writer = Writer(target, redactor, Bounds(**bounds))
    bundle = writer.write(texts or {}, [("node-1", [str(path) for path in logs])])
    if redact:
        writer.save_key(target.with_name(target.name + ".key.json"), KEY)
    return bundle


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    for rank in range(2):
        place = folder / f"worker-{rank}"
        place.mkdir(parents=True)
        (place / "plog-4821_20260304050607123.log").write_text(
            "".join(PLOG.format(second=second, peer=rank) for second in range(20))
        )
    (folder / "train.log").write_text("iteration 1 lm loss: 2.0\nHF_TOKEN=hf_AbCdEfGhIjKlMnOpQrSt\n")
    return folder


@pytest.mark.parametrize("ending", [".tar.zst", ".tar.gz", ".tar"])
def test_what_goes_in_comes_out_under_checksums(tmp_path: Path, job: Path, ending: str) -> None:
    target = tmp_path / f"b{ending}"
    bundle = write(target, job, texts={"host/snapshot.txt": "# npudiag host snapshot 1\n"})
    found = members(target)
    assert set(found) == {
        "host/snapshot.txt",
        "logs/job/worker-0/plog-4821_20260304050607123.log",
        "logs/job/worker-1/plog-4821_20260304050607123.log",
        "logs/node-1/job/train.log",
        "manifest.json",
    }
    listed = {entry["path"]: entry for entry in manifest(target)["files"]}
    for name, data in found.items():
        if name != "manifest.json":
            assert listed[name]["sha256"] == hashlib.sha256(data).hexdigest()
            assert listed[name]["bytes"] == len(data)
    assert bundle.files == len(found)
    assert bundle.bytes == target.stat().st_size


def test_nothing_that_identifies_is_in_any_byte_of_it(tmp_path: Path, job: Path) -> None:
    (job / "chenwei@gpu-box-17.log").write_text("x 10.20.30.40\n")
    target = tmp_path / "b.tar.zst"
    write(target, job, texts={"host/environment.sh": "export MASTER_ADDR=gpu-box-17\n"})
    for name, data in members(target).items():
        for secret in (b"chenwei", b"gpu-box-17", b"10.20.30.", b"hf_AbCd", KEY.hex().encode(), KEY):
            assert secret not in data, name
            assert secret.decode("latin-1") not in name


def test_the_same_thing_has_one_name_in_all_files(tmp_path: Path, job: Path) -> None:
    target = tmp_path / "b.tar.zst"
    write(target, job)
    redactor = Redactor(KEY)
    found = members(target)
    first = found["logs/job/worker-0/plog-4821_20260304050607123.log"].decode()
    second = found["logs/job/worker-1/plog-4821_20260304050607123.log"].decode()
    assert redactor.host("gpu-box-17") in first
    assert redactor.host("gpu-box-17") in second
    assert first.count("\n") == 20


def test_the_key_lies_beside_it_for_the_owner_only_and_never_inside(tmp_path: Path, job: Path) -> None:
    target = job / "b.tar.zst"
    write(target, job)
    write(target, job)
    key = job / "b.tar.zst.key.json"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert load_key(key) == KEY
    aliases = json.loads(key.read_text())["aliases"]
    assert "gpu-box-17" in aliases.values()
    assert not [name for name in members(target) if "key" in name or "b.tar" in name]
    assert manifest(target)["skipped"]["job/b.tar.zst.key.json"] == "a key file"
    assert manifest(target)["key_id"] == Redactor(KEY).key_id


def test_without_redaction_secrets_are_masked_all_the_same(tmp_path: Path, job: Path) -> None:
    target = tmp_path / "b.tar.zst"
    (job / "key.log").write_text("-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END PRIVATE KEY-----\n")
    write(target, job, redact=False)
    found = b"".join(members(target).values())
    assert b"chenwei" in found
    assert b"hf_AbCd" not in found
    assert b"MIIEow" not in found
    assert manifest(target)["redacted"] is False


def test_records_that_are_too_old_are_left_out_with_their_lines(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    old = "".join(f"2026-03-04 01:{n // 60:02d}:{n % 60:02d} old\n  goes on\n" for n in range(300))
    log.write_text(old + "2026-03-04 05:00:00 new\n  goes on as well\n")
    target = tmp_path / "b.tar.zst"
    write(target, log, since=datetime.datetime(2026, 3, 4, 4))
    text = members(target)["logs/node-1/train.log"].decode()
    assert text.endswith("2026-03-04 05:00:00 new\n  goes on as well\n")
    assert text.count("old") == 100  # the first lines tell settings and versions, and are kept
    assert manifest(target)["files"][0]["lines_too_old"] == 400


def test_files_not_touched_since_are_not_opened(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("x\n")
    os.utime(log, (1_700_000_000, 1_700_000_000))
    target = tmp_path / "b.tar.zst"
    bundle = write(target, log, since=datetime.datetime(2026, 1, 1))
    assert bundle.skipped == {"train.log": "older than asked for"}


def test_of_a_long_log_start_and_end_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"line {number:08d} of a long log\n" for number in range(400_000)))
    target = tmp_path / "b.tar.zst"
    write(target, log, file_bytes=4 << 20)
    lines = members(target)["logs/node-1/train.log"].decode().split("\n")
    assert lines[0] == "line 00000000 of a long log"
    assert lines[-2] == "line 00399999 of a long log"
    (entry,) = manifest(target)["files"]
    assert entry["bytes"] <= (4 << 20) + 100
    assert entry["bytes"] + entry["bytes_left_out"] == pytest.approx(log.stat().st_size, abs=100)
    assert f"[npudiag: {entry['bytes_left_out']} bytes left out]" in lines
    assert all(line.startswith(("line ", "[npudiag")) for line in lines[:-1])


def test_the_whole_is_bounded_and_the_newest_come_first(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(8):
        path = folder / f"{number}.log"
        path.write_text("x" * 99 + "\n" * (300_000 // 100) + "y" * 300_000)
        os.utime(path, (1_790_000_000 + number, 1_790_000_000 + number))
    target = tmp_path / "b.tar.zst"
    bundle = write(target, folder, total_bytes=700_000)
    kept = [entry["path"] for entry in manifest(target)["files"]]
    assert kept[0].endswith("/7.log")
    assert sum(entry["bytes"] for entry in manifest(target)["files"]) <= 700_000 + 300_000 + 1000
    assert "the bundle is as large as allowed" in bundle.skipped.values()


def test_binary_data_weights_and_raw_profiles_stay_behind(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    profile = folder / "host_1_20260304050607123_ascend_pt/ASCEND_PROFILER_OUTPUT"
    profile.mkdir(parents=True)
    (profile / "step_trace_time.csv").write_text("Step,Computing\n1,2\n")
    (profile / "trace_view.json").write_text("[]")
    (folder / "model.safetensors").write_bytes(b"\0" * 4096)
    (folder / "core").write_bytes(b"\x7fELF\0\0\0" * 600)
    bundle = write(tmp_path / "b.tar.zst", folder, redact=False)
    assert [name for name in members(tmp_path / "b.tar.zst") if "step_trace" in name]
    assert {Path(path).name: reason for path, reason in bundle.skipped.items()} == {
        "trace_view.json": "raw profiler data", "model.safetensors": "no log", "core": "no text",
    }  # fmt: skip


def test_archives_are_looked_into_and_packed_logs_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("worker-3/x.log", "from gpu-box-17\n")
    (tmp_path / "old.log.gz").write_bytes(gzip.compress(b"10.20.30.40\n"))
    target = tmp_path / "b.tar.zst"
    write(target, tmp_path / "a.zip", tmp_path / "old.log.gz")
    found = members(target)
    assert b"gpu-box" not in found["logs/a.zip/worker-3/x.log"]
    assert b"10.20.30.40" not in found["logs/node-1/old.log"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "gb18030"])
def test_other_encodings_hide_nothing(tmp_path: Path, encoding: str) -> None:
    log = tmp_path / "a.log"
    log.write_bytes("错误 connect 10.20.30.40 of gpu-box-17\r\nsecond line\r\n".encode(encoding) * 20)
    target = tmp_path / "b.tar.zst"
    write(target, log)
    data = members(target)["logs/node-1/a.log"]
    for form in (data, data.replace(b"\0", b"")):
        assert b"10.20.30.40" not in form
        assert b"gpu-box-17" not in form
    assert b"second line" in data


def test_an_address_across_two_blocks_is_replaced(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    filler = "x" * 63 + "\n"
    text = filler * ((1 << 20) // 64 - 1) + "y" * 58 + " 10.20.30.40\n" + filler
    log.write_text(text)
    target = tmp_path / "b.tar.zst"
    write(target, log)
    assert b"10.20.30.40" not in members(target)["logs/node-1/a.log"]


def test_two_members_never_share_a_name(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder / "logs").mkdir(parents=True)
        (tmp_path / folder / "logs/x.log").write_text(folder)
    target = tmp_path / "b.tar.zst"
    writer = Writer(target, None, Bounds())
    writer.write({}, [("n", [str(tmp_path / "a/logs")]), ("n", [str(tmp_path / "b/logs")])])
    assert {name for name in members(target) if name != "manifest.json"} == {"logs/n/logs/x.log", "logs/n/logs/x.log.2"}


def test_a_bundle_that_cannot_be_finished_leaves_nothing(
    tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out/b.tar.zst"
    target.parent.mkdir()

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("npudiag.host.bundle.trim", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(target, job)
    assert list(target.parent.iterdir()) == []


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        write(tmp_path / "none/b.tar.zst")


def test_a_key_used_again_keeps_what_it_knew(tmp_path: Path, job: Path) -> None:
    key = tmp_path / "shared.json"
    for name, host in (("a.tar", "gpu-box-17"), ("b.tar", "gpu-box-18")):
        (tmp_path / "x.log").write_text(f"{host}\n")
        writer = Writer(tmp_path / name, Redactor(KEY, hosts=[host]), Bounds())
        writer.write({}, [("n", [str(tmp_path / "x.log")])])
        writer.save_key(key, KEY)
    assert {"gpu-box-17", "gpu-box-18"} <= set(json.loads(key.read_text())["aliases"].values())


def test_the_key_of_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    with pytest.raises(UsageError, match="no key file"):
        load_key(path)


def test_keys_differ() -> None:
    assert new_key() != new_key()


class Endless:
    """A stream without an end, of lines without an end."""

    def __init__(self, size: int) -> None:
        self.left = size

    def read(self, size: int, /) -> bytes:
        piece = min(size, self.left)
        self.left -= piece
        return b"a" * piece


def test_a_line_without_end_is_cut_and_memory_bounded() -> None:
    copy = trim(Endless(24 << 20), since_us=None, most=2 << 20, clean=str)
    try:
        assert copy.bytes <= 4 << 20
        assert copy.left_out >= 20 << 20
    finally:
        copy.close()
