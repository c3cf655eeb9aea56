"""Writes a bundle: one archive with what somebody needs to judge a machine and a job from elsewhere.

The archive is written as a stream; of each log a copy is made in a temporary file first, because an archive tells the
size of a member ahead of it. The key of the pseudonyms stays in a file of its own beside the bundle.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import io
import json
import os
import re
import secrets
import stat
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from npudiag._version import __version__
from npudiag.discover.source import MIB, Limits, Source
from npudiag.discover.streams import open_streams
from npudiag.discover.walk import discover
from npudiag.errors import SourceError, UsageError
from npudiag.host.redact import Redactor
from npudiag.host.secrets import Masker
from npudiag.host.trim import Trimmed, trim
from npudiag.parsers.snapshot import MANIFEST_KEY
from npudiag.result import Problem

KEY_KIND = "npudiag_bundle_key"
_PIECE = 1 << 20
_LISTED = 20_000
_MODE = 0o600

_PROFILE = re.compile(
    r"(?:_ascend_(?:pt|ms)|(?:^|/)PROF_[^/]+|(?:^|/)(?:ASCEND_PROFILER_OUTPUT|cluster_analysis_output))(?:/|$)"
)
_SUMMARIES = re.compile(
    r"(?:step_trace_time|op_statistic\w*|api_statistic\w*|cluster_\w+|communication(?:_matrix)?|npu_module_mem\w*"
    r"|data_preprocess|l2_cache|profiler_info\w*|profiler_metadata|operator_memory|memory_record)\.(?:csv|json)\Z"
)
"""Of a profiler's output what is small and tells where the time goes; traces and raw data stay behind."""
_DATA = re.compile(r"(?i)\.(?:json|jsonl|csv|txt\.gz|parquet)\Z")
_DATA_BYTES = 16 * MIB
_WEIGHTS = re.compile(r"(?i)\.(?:safetensors|bin|pt|pth|ckpt|onnx|om|npy|npz|so(?:\.\d+)*|whl|pyc|idx|db|mindrecord)\Z")
_PACKED = re.compile(r"(?i)\.(?:gz|zst|bz2|xz)\Z")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much goes into a bundle.

    Attributes:
        file_bytes: Most of one log; start and end of a longer one are kept.
        total_bytes: Most of all logs together, unpacked.
        since: Local time before which records are left out.
    """

    file_bytes: int = 64 * MIB
    total_bytes: int = 1024 * MIB
    since: datetime.datetime | None = None


@dataclass(slots=True)
class Bundle:
    """What was written.

    Attributes:
        path: The archive.
        key: Where the key of the pseudonyms lies; None without redaction.
        bytes: Size of the archive.
        files: Members written.
        skipped: What was left out, path to reason.
        redactions: Replacements by kind.
    """

    path: Path
    key: Path | None
    bytes: int = 0
    files: int = 0
    skipped: dict[str, str] = field(default_factory=dict)
    redactions: dict[str, int] = field(default_factory=dict)


def load_key(path: Path) -> bytes:
    """Return the key in a key file.

    Raises:
        UsageError: It cannot be read or is none.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return bytes.fromhex(document[KEY_KIND])
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {exc.strerror}") from exc
    except (ValueError, KeyError, TypeError) as exc:
        raise UsageError(f"{path} is no key file of npudiag collect") from exc


def _known_aliases(path: Path, key: bytes) -> dict[str, str]:
    """Return what a key file that is written again knew before, nothing where it is another one's."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        known = document["aliases"] if document[KEY_KIND] == key.hex() else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {str(alias): str(name) for alias, name in known.items()} if isinstance(known, dict) else {}


def new_key() -> bytes:
    """Return a key that nobody knows."""
    return secrets.token_bytes(32)


class Writer:
    """Writes one bundle.

    Args:
        target: The archive to be; ``.tar.zst``, ``.tar.gz`` or ``.tar``.
        redactor: Makes the pseudonyms; None keeps names and addresses and masks secrets alone.
        bounds: How much goes in.
    """

    def __init__(self, target: Path, redactor: Redactor | None, bounds: Bounds) -> None:
        self.bundle = Bundle(target, None)
        self._redactor = redactor
        self._clean: Callable[[str], str] = redactor.text if redactor else Masker().text
        self._bounds = bounds
        self._left = bounds.total_bytes
        self._members: list[dict[str, Any]] = []
        self._names: set[str] = set()
        self._began = time.time()
        self._own: set[tuple[int, int]] = set()

    def write(self, texts: Mapping[str, str], logs: Sequence[tuple[str, Sequence[str]]]) -> Bundle:
        """Write everything; the archive is there whole or not at all.

        Args:
            texts: Path in the bundle to text, made by npudiag.
            logs: Folder in the bundle, and the files and folders whose text goes there.

        Raises:
            UsageError: The archive cannot be written.
        """
        target = self.bundle.path
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        except OSError as exc:
            raise UsageError(f"cannot write {target}: {exc.strerror}") from exc
        try:
            with os.fdopen(handle, "wb") as file:
                self._mine(os.fstat(file.fileno()))
                with contextlib.suppress(OSError):
                    # The archive that this one replaces may lie among the logs.
                    self._mine(target.stat())
                with _packed(file, target.name) as stream, tarfile.open(fileobj=stream, mode="w|") as tar:
                    for name, text in texts.items():
                        self._text(tar, name, text)
                    for folder, paths in logs:
                        self._logs(tar, folder, paths)
                    self._manifest(tar)
            part.replace(target)
        except OSError as exc:
            part.unlink(missing_ok=True)
            raise UsageError(f"cannot write {target}: {exc.strerror or exc}") from exc
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        self.bundle.bytes = target.stat().st_size
        return self.bundle

    def save_key(self, path: Path, key: bytes) -> None:
        """Write the key and what each pseudonym stands for, for the owner's eyes only.

        Raises:
            UsageError: It cannot be written.
        """
        assert self._redactor is not None
        aliases = {**_known_aliases(path, key), **self._redactor.aliases}
        document = {KEY_KIND: key.hex(), "key_id": self._redactor.key_id, "aliases": aliases}
        data = json.dumps(document, indent=1).encode()
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            part.replace(path)
        except OSError as exc:
            part.unlink(missing_ok=True)
            raise UsageError(f"cannot write {path}: {exc.strerror}") from exc
        self.bundle.key = path

    # -- members

    def _mine(self, status: os.stat_result) -> None:
        self._own.add((status.st_dev, status.st_ino))

    def _text(self, tar: tarfile.TarFile, name: str, text: str) -> None:
        data = self._clean(text).encode("utf-8", "backslashreplace")
        self._member(tar, name, [io.BytesIO(data)], len(data), {"made_by": "npudiag"})

    def _logs(self, tar: tarfile.TarFile, folder: str, paths: Sequence[str]) -> None:
        found = discover([path for path in paths if Path(path).exists()])
        problems: list[Problem] = list(found.problems)
        # The newest first, so that what a limit cuts off is the oldest.
        for source in sorted(found.sources, key=_age):
            reason = self._refused(source)
            if reason:
                self._skip(source.path, reason)
                continue
            try:
                for member, stream in open_streams(source, Limits(), problems.append):
                    self._log(tar, folder, member, stream)
            except SourceError as exc:
                self._skip(source.path, exc.message)
        for problem in problems:
            self._skip(problem.path, problem.message)

    def _refused(self, source: Source) -> str:
        """Return why a file is not looked into, empty where it is."""
        if source.location is None:
            return "standard input"
        try:
            status = Path(source.location).stat()
        except OSError as exc:
            return exc.strerror or "unreadable"
        if (status.st_dev, status.st_ino) in self._own or not stat.S_ISREG(status.st_mode):
            return "written by npudiag itself"
        since = self._bounds.since
        if since is not None and status.st_mtime < since.timestamp():
            return "older than asked for"
        return ""

    def _log(self, tar: tarfile.TarFile, folder: str, source: Source, stream: Any) -> None:
        path = source.path
        reason = _unwanted(path, source.size)
        if not reason and self._left <= 0:
            reason = "the bundle is as large as allowed"
        if reason:
            self._skip(path, reason)
            return
        most = min(self._bounds.file_bytes, self._left)
        peek = _Peeked(stream)
        try:
            if peek.starts(f'{{"{KEY_KIND}"'.encode()) or peek.starts(f'{{\n "{KEY_KIND}"'.encode()):
                self._skip(path, "a key file")
                return
        except SourceError as exc:
            self._skip(path, exc.message)
            return
        since = self._bounds.since
        since_us = round((since - datetime.datetime(1970, 1, 1)).total_seconds() * 1e6) if since else None
        copy = trim(peek, since_us=since_us, most=most, clean=self._clean, year=_year(source))
        try:
            self._copied(tar, folder, source, copy)
        finally:
            copy.close()

    def _copied(self, tar: tarfile.TarFile, folder: str, source: Source, copy: Trimmed) -> None:
        if copy.binary:
            self._skip(source.path, "no text")
            return
        if not copy.bytes:
            self._skip(source.path, copy.note or ("nothing in the time asked for" if copy.old else "empty"))
            return
        self._left -= copy.bytes
        inside = _PACKED.sub("", source.path.replace("!/", "/"))
        name = self._redactor.path(inside) if self._redactor else inside
        # A collector's folder names the node; without one the machine this runs on is it.
        place = name if source.identity.node and source.identity.node in inside.split("/") else f"{folder}/{name}"
        details = {
            "original_bytes": source.size, "lines": copy.lines, "lines_too_old": copy.old or None,
            "bytes_left_out": copy.left_out or None, "note": copy.note or None,
        }  # fmt: skip
        self._member(tar, f"logs/{place}", copy.parts, copy.bytes, details)

    def _member(
        self, tar: tarfile.TarFile, name: str, parts: Sequence[IO[bytes]], size: int, details: Mapping[str, Any]
    ) -> None:
        name = self._free(name)
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = size, 0o644, int(self._began)
        reader = _Chain(parts)
        tar.addfile(info, reader)
        self.bundle.files += 1
        known = {key: value for key, value in details.items() if value is not None}
        self._members.append({"path": name, "bytes": size, "sha256": reader.sha256(), **known})

    def _free(self, name: str) -> str:
        """Return a name that no member has yet, without parts that lead elsewhere."""
        parts = [part for part in PurePosixPath(name).parts if part not in ("/", "..", ".")]
        name, number = "/".join(parts) or "unnamed", 1
        stem = name
        while name in self._names:
            number += 1
            name = f"{stem}.{number}"
        self._names.add(name)
        return name

    def _skip(self, path: str, reason: str) -> None:
        if len(self.bundle.skipped) < _LISTED:
            self.bundle.skipped[path] = reason

    def _manifest(self, tar: tarfile.TarFile) -> None:
        redactor = self._redactor
        if redactor:
            self.bundle.redactions = dict(redactor.counts)
        clean = redactor.path if redactor else str
        document = {
            MANIFEST_KEY: 1,
            "tool": f"npudiag {__version__}",
            "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "since": self._bounds.since.isoformat() if self._bounds.since else None,
            "redacted": redactor is not None,
            "key_id": redactor.key_id if redactor else None,
            "redactions": self.bundle.redactions,
            "limits": {"file_bytes": self._bounds.file_bytes, "total_bytes": self._bounds.total_bytes},
            "files": self._members[:_LISTED],
            "skipped": {clean(path): self._clean(reason) for path, reason in self.bundle.skipped.items()},
        }
        data = json.dumps(document, indent=1).encode()
        self._names.discard("manifest.json")
        self._member(tar, "manifest.json", [io.BytesIO(data)], len(data), {})


@contextlib.contextmanager
def _packed(file: IO[bytes], name: str) -> Iterator[Any]:
    """Give a stream whose bytes are compressed as the name of the archive tells.

    Raises:
        UsageError: The name tells nothing.
    """
    if name.endswith((".tar.zst", ".tzst")):
        import zstandard

        with zstandard.ZstdCompressor(level=3).stream_writer(file, closefd=False) as stream:
            yield stream
    elif name.endswith((".tar.gz", ".tgz")):
        import gzip

        with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6, mtime=0) as stream:
            yield stream
    elif name.endswith(".tar"):
        yield file
    else:
        raise UsageError(f"{name}: what kind of archive is that?", hint="end it with .tar.zst, .tar.gz or .tar")


class _Chain(io.RawIOBase):
    """Several files read as one; sums up what was read."""

    def __init__(self, parts: Sequence[IO[bytes]]) -> None:
        self._parts = list(parts)
        self._digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        wanted = size if size >= 0 else 1 << 62
        pieces: list[bytes] = []
        while wanted > 0 and self._parts:
            piece = self._parts[0].read(min(wanted, _PIECE))
            if not piece:
                self._parts.pop(0)
                continue
            pieces.append(piece)
            wanted -= len(piece)
            self._digest.update(piece)
        return b"".join(pieces)

    def sha256(self) -> str:
        return self._digest.hexdigest()


class _Peeked:
    """A stream whose first bytes can be looked at."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._head = b""

    def starts(self, wanted: bytes) -> bool:
        """Whether the stream begins with `wanted`."""
        while len(self._head) < len(wanted):
            piece = self._stream.read(4096)
            if not piece:
                break
            self._head += piece
        return self._head.startswith(wanted)

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes."""
        if self._head:
            piece, self._head = self._head[:size], self._head[size:]
            return piece
        data: bytes = self._stream.read(size)
        return data


def _unwanted(path: str, size: int | None) -> str:
    """Return why a file is left behind by its name and size, empty where it is not."""
    if _PROFILE.search(path):
        return "" if _SUMMARIES.search(path) and (size or 0) <= _DATA_BYTES else "raw profiler data"
    if _WEIGHTS.search(path):
        return "no log"
    if _DATA.search(path) and (size or 0) > _DATA_BYTES:
        return "data, too large for a log"
    return ""


def _age(source: Source) -> float:
    """Return what sorts the newest files first."""
    try:
        return -Path(source.location).stat().st_mtime if source.location else 0.0
    except OSError:
        return 0.0


def _year(source: Source) -> int | None:
    age = _age(source)
    return time.localtime(-age).tm_year if age else None
