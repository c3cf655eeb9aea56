"""Processors, memory, limits, kernel settings and clock of the machine."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import time
from collections import Counter
from pathlib import Path

from npudiag.host.facts import Facts, read, whole

_LIMITS = {
    "nofile": "RLIMIT_NOFILE",
    "nproc": "RLIMIT_NPROC",
    "memlock": "RLIMIT_MEMLOCK",
    "stack": "RLIMIT_STACK",
    "core": "RLIMIT_CORE",
}
_KERNEL = (
    "kernel/numa_balancing", "kernel/pid_max", "kernel/threads-max", "kernel/sched_migration_cost_ns",
    "kernel/core_pattern", "vm/swappiness", "vm/overcommit_memory", "vm/max_map_count", "fs/file-max",
    "fs/nr_open", "net/core/somaxconn", "net/ipv4/ip_local_port_range", "net/ipv4/ip_local_reserved_ports",
    "net/ipv4/tcp_max_syn_backlog",
)  # fmt: skip
_STA_UNSYNC = 0x40
_TIME_ERROR = 5


def system(facts: Facts) -> None:
    """Kernel, distribution, architecture, C library."""
    facts.add("system", "kernel", platform.release())
    facts.add("system", "arch", platform.machine())
    release = read("/etc/os-release") or ""
    names = dict(line.split("=", 1) for line in release.split("\n") if "=" in line)
    facts.add("system", "os", names.get("PRETTY_NAME", platform.system()).strip('"'))
    library, version = platform.libc_ver()
    if library == "glibc" and version:
        facts.add("system", "glibc", version)
    inside = Path("/.dockerenv").exists() or Path("/run/.containerenv").exists() or _container_group()
    facts.add("system", "container", inside)
    facts.add("system", "uptime_s", round(time.clock_gettime(time.CLOCK_BOOTTIME)) if sys.platform == "linux" else None)


def _container_group() -> bool:
    return any(word in (read("/proc/1/cgroup") or "") for word in ("docker", "kubepods", "containerd", "libpod"))


def cpu(facts: Facts) -> None:
    """Processors, how many may be used, governor, NUMA nodes, page size, load."""
    import psutil

    facts.add("cpu", "count", psutil.cpu_count())
    facts.add("cpu", "cores", psutil.cpu_count(logical=False))
    if hasattr(os, "sched_getaffinity"):
        facts.add("cpu", "usable", len(os.sched_getaffinity(0)))
    quota = _cpu_quota()
    facts.add("cpu", "quota", quota)
    governors = Counter(
        governor
        for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
        if (governor := read(str(path)))
    )
    for governor, count in sorted(governors.items()):
        facts.add("cpu", "governor", count, governor)
    nodes = [path.name for path in Path("/sys/devices/system/node").glob("node[0-9]*")]
    facts.add("cpu", "numa_nodes", len(nodes) or None)
    facts.add("cpu", "page_bytes", os.sysconf("SC_PAGE_SIZE"))
    facts.add("cpu", "load1", round(os.getloadavg()[0], 2))
    huge = read("/sys/kernel/mm/transparent_hugepage/enabled")
    if huge and "[" in huge:
        facts.add("cpu", "transparent_hugepage", huge.partition("[")[2].partition("]")[0])


def _cpu_quota() -> float | None:
    """Return how many processors the container may use, None where nothing bounds it."""
    text = read("/sys/fs/cgroup/cpu.max")
    if text:
        quota, _, period = text.partition(" ")
    else:
        quota = read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") or ""
        period = read("/sys/fs/cgroup/cpu/cpu.cfs_period_us") or ""
    number, per = whole(quota), whole(period)
    return round(number / per, 2) if number and per and number > 0 else None


def memory(facts: Facts) -> None:
    """Memory, swap, huge pages and the container's bounds."""
    import psutil

    now = psutil.virtual_memory()
    facts.add("memory", "total_bytes", now.total)
    facts.add("memory", "available_bytes", now.available)
    swap = psutil.swap_memory()
    facts.add("memory", "swap_total_bytes", swap.total)
    facts.add("memory", "swap_used_bytes", swap.used)
    for name, places in {
        "limit_bytes": ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        "limit_used_bytes": ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    }.items():
        value = next((number for place in places if (number := whole(read(place))) is not None), None)
        # Version 1 writes the largest page-aligned number for "no limit".
        facts.add("memory", name, value if value is not None and value < 1 << 60 else None)


def limits(facts: Facts) -> None:
    """Limits of processes started from here, and how much of the machine's is used up."""
    import resource

    for name, constant in _LIMITS.items():
        kind = getattr(resource, constant, None)
        if kind is None:
            continue
        for side, value in zip(("soft", "hard"), resource.getrlimit(kind), strict=True):
            facts.add("limit", name, "unlimited" if value == resource.RLIM_INFINITY else value, side)
    handles = (read("/proc/sys/fs/file-nr") or "").split()
    if len(handles) == 3:
        facts.add("limit", "open_files", whole(handles[0]))
        facts.add("limit", "open_files_max", whole(handles[2]))
    pids = read("/sys/fs/cgroup/pids.max") or read("/sys/fs/cgroup/pids/pids.max")
    facts.add("limit", "container_pids", whole(pids))
    facts.add("limit", "tasks", sum(1 for _ in Path("/proc").glob("[0-9]*")) or None)


def kernel(facts: Facts) -> None:
    """Settings of the kernel that jobs depend on."""
    for name in _KERNEL:
        text = read(f"/proc/sys/{name}")
        if text is None:
            continue
        number = whole(text)
        facts.add("kernel", "setting", number if number is not None else " ".join(text.split()), name.replace("/", "."))


def clock(facts: Facts) -> None:
    """Whether the kernel's clock is kept right by anybody."""
    facts.add("clock", "zone", time.strftime("%Z"))
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    # struct timex with `modes` 0 only asks. Fields are longs; `status` is the fifth after `modes`.
    timex = (ctypes.c_long * 64)()
    state = libc.adjtimex(ctypes.byref(timex))
    if state < 0:
        return
    facts.add("clock", "synchronised", state != _TIME_ERROR and not timex[5] & _STA_UNSYNC)
    facts.add("clock", "error_us", int(timex[4]))
