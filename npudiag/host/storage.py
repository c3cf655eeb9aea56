"""File systems that a job writes to: space, inodes, whether they can be written at all."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from npudiag.host.facts import Facts

_LOG_VARIABLES = ("ASCEND_PROCESS_LOG_PATH", "ASCEND_WORK_PATH")
_CHECKPOINT_VARIABLES = ("CKPT_SAVE_DIR", "SAVE_PATH", "CHECKPOINT_PATH", "OUTPUT_DIR")
_ANSWER_S = 5.0
_CACHE_VARIABLES = ("ASCEND_CACHE_PATH", "ACL_OP_COMPILER_CACHE_DIR", "TRITON_CACHE_DIR")


def places(environment: Mapping[str, str], named: Sequence[str] = ()) -> dict[str, str]:
    """Return the paths to look at and what each is for, what the user named first.

    Args:
        environment: Variables of the job.
        named: Paths the user named.
    """
    found: dict[str, str] = {}

    def add(path: str | None, role: str) -> None:
        if path and os.path.isabs(path):  # noqa: PTH117 - text of unknown make
            found.setdefault(os.path.normpath(path), role)

    for path in named:
        add(os.path.abspath(path), "named")  # noqa: PTH100
    for name in _CHECKPOINT_VARIABLES:
        add(environment.get(name), "checkpoint")
    for name in _LOG_VARIABLES:
        add(environment.get(name), "log")
    home = environment.get("HOME")
    if home and not any(environment.get(name) for name in _LOG_VARIABLES):
        add(f"{home}/ascend/log", "log")
    for name in _CACHE_VARIABLES:
        add(environment.get(name), "cache")
    add(environment.get("TMPDIR") or tempfile.gettempdir(), "temporary")
    add("/dev/shm", "shared-memory")
    add(os.getcwd(), "working")  # noqa: PTH109
    return found


def storage(facts: Facts, paths: Mapping[str, str]) -> None:
    """Note space and inodes of the file systems that `paths` lie on; a path that is not there counts as its parent."""
    for path, role in paths.items():
        facts.add("disk", "role", role, path)
        own = Facts()
        # A server of files that is gone blocks whoever asks; the thread is left behind then.
        asking = threading.Thread(target=_ask, args=(own, path), daemon=True)
        asking.start()
        asking.join(_ANSWER_S)
        if asking.is_alive():
            facts.add("disk", "error", f"no answer within {_ANSWER_S:g} s", path)
        else:
            facts.facts.extend(own)


def _ask(facts: Facts, path: str) -> None:
    at = Path(path)
    try:
        while not at.exists() and at != at.parent:
            at = at.parent
        status = os.statvfs(at)
        writable = os.access(at, os.W_OK | os.X_OK)
    except OSError as exc:
        facts.add("disk", "error", exc.strerror or type(exc).__name__, path)
        return
    facts.add("disk", "exists", str(at) == path, path)
    facts.add("disk", "free_bytes", status.f_bavail * status.f_frsize, path)
    facts.add("disk", "total_bytes", status.f_blocks * status.f_frsize, path)
    if status.f_files:
        facts.add("disk", "free_inodes", status.f_favail, path)
        facts.add("disk", "total_inodes", status.f_files, path)
    facts.add("disk", "read_only", bool(status.f_flag & getattr(os, "ST_RDONLY", 1)), path)
    facts.add("disk", "writable", writable, path)
    facts.add("disk", "type", _type(str(at)), path)


def _type(path: str) -> str | None:
    """Return the kind of file system a path lies on, of the mount that is closest to it."""
    best, kind = "", None
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").split("\n")
        real = os.path.realpath(path)
    except (OSError, ValueError):
        return None
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        mount = fields[1].replace("\\040", " ")
        inside = real == mount or real.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, fields[2]
    return kind
