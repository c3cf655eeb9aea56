"""File systems that a job writes to."""

from __future__ import annotations

from collections.abc import Iterator

from npudiag.analyses.host import Fact, Host
from npudiag.detectors.preflight.answer import Answer, Params, Words, both, each_host, hit, size
from npudiag.engine.hits import CannotJudge, Hit

_GIB = 2**30
_ROLE: dict[str, Words] = {
    "log": ("logs", "日志"),
    "checkpoint": ("checkpoints", "checkpoint"),
    "temporary": ("temporary files", "临时文件"),
    "cache": ("caches", "缓存"),
    "working": ("the working directory", "工作目录"),
    "named": ("a path to check", "指定路径"),
    "shared-memory": ("shared memory", "共享内存"),
}
_NEEDED = ("log", "checkpoint", "named")
"""Roles of paths that have to be writable for a job to run."""
_SHARED = "/dev/shm"


def _paths(host: Host) -> Iterator[tuple[str, Fact, Fact]]:
    """Yield path, role and free space; each file system once, under the path named first."""
    seen: set[tuple[str, str | None]] = set()
    for role in host.all("disk", "role"):
        free = host.one("disk", "free_bytes", role.item)
        if free is None or role.value == "shared-memory":
            continue
        key = (free.value, host.value("disk", "total_bytes", role.item))
        if key not in seen:
            seen.add(key)
            yield role.item, role, free


def _judge(host: Host, free_name: str, total_name: str, low: tuple[float, float], very: tuple[float, float]) -> Answer:
    """Compare what is free with what has to be: a number and a share in per cent, each for warning and error."""
    hits: list[Hit] = []
    shown = []
    for path, role, _ in _paths(host):
        free, total = host.one("disk", free_name, path), host.one("disk", total_name, path)
        if free is None or total is None or free.number is None or not total.number:
            continue
        share = 100 * free.number / total.number
        text = size(free.number) if free_name == "free_bytes" else f"{free.number:,.0f}"
        shown.append(f"{path} {text} ({share:.0f} %)")
        severity = None
        for name, (least, least_pct) in (("warning", low), ("error", very)):
            # A large disk may be nearly full and still have room; a small one is large enough where it is empty.
            if (free.number < least and share < 50) or (share < least_pct and free.number < 20 * least):
                severity = name
        if severity:
            words = {"role": _ROLE.get(role.value, both(role.value))}
            hits.append(
                hit(host, [free, total], severity=severity, words=words, path=path, free=text, share=round(share, 1))
            )
    if not shown:
        raise CannotJudge(f"disk.{free_name}")
    return Answer(both("; ".join(shown[:3])), hits)


@each_host
def space(host: Host, params: Params) -> Answer:
    """A file system is nearly full."""
    low, very = float(params.get("warn_gib", 10)) * _GIB, float(params.get("error_gib", 1)) * _GIB
    return _judge(host, "free_bytes", "total_bytes", (low, 3.0), (very, 0.5))


@each_host
def inodes(host: Host, params: Params) -> Answer:
    """A file system has hardly any inodes left."""
    low, very = float(params.get("warn", 20_000)), float(params.get("error", 1_000))
    return _judge(host, "free_inodes", "total_inodes", (low, 3.0), (very, 0.5))


@each_host
def writable(host: Host, params: Params) -> Answer:
    """A path cannot be written, or its file system does not answer."""
    roles = host.all("disk", "role")
    if not roles:
        raise CannotJudge("disk.role")
    hits = []
    for role in roles:
        failed, read_only = host.one("disk", "error", role.item), host.one("disk", "read_only", role.item)
        access = host.one("disk", "writable", role.item)
        words: Words | None = None
        proof: Fact | None = None
        if failed is not None:
            words, proof = both(failed.value), failed
        elif read_only is not None and read_only.number:
            words, proof = ("its file system is read-only", "文件系统为只读"), read_only
        elif access is not None and access.number == 0:
            words, proof = ("this user may not write there", "当前用户没有写权限"), access
        elif role.value == "named" and host.number("disk", "exists", role.item) == 0:
            words, proof = ("it does not exist", "路径不存在"), host.one("disk", "exists", role.item)
        if words is not None and (role.value in _NEEDED or failed is not None):
            named = {"reason": words, "role": _ROLE.get(role.value, both(role.value))}
            hits.append(hit(host, [proof], words=named, path=role.item))
    return Answer((f"{len(roles)} paths", f"{len(roles)} 个路径"), hits)


@each_host
def shared_memory(host: Host, params: Params) -> Answer:
    """Shared memory is as small as containers have it by default."""
    total = host.one("disk", "total_bytes", _SHARED)
    if total is None or total.number is None:
        raise CannotJudge(_SHARED)
    least = float(params.get("least_gib", 1))
    measured = both(f"{size(total.number)} (>= {least:g} GiB)")
    if total.number >= least * _GIB:
        return Answer(measured)
    return Answer(measured, [hit(host, [total], found=size(total.number))])
