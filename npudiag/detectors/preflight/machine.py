"""Processors, memory, limits and clock of the machine."""

from __future__ import annotations

from npudiag.analyses.host import Host
from npudiag.detectors.preflight.answer import Answer, Params, both, each_host, hit, needed, size
from npudiag.engine.hits import CannotJudge

_GIB = 2**30


def _usable_cpus(host: Host) -> float | None:
    """Return how many processors a job may use: affinity and the container's quota bound it."""
    known = [host.number("cpu", "usable") or host.number("cpu", "count"), host.number("cpu", "quota")]
    return min((value for value in known if value is not None), default=None)


@each_host
def governor(host: Host, params: Params) -> Answer:
    """Cores run on a governor that lowers their clock."""
    facts = host.all("cpu", "governor")
    if not facts:
        raise CannotJudge("/sys/devices/system/cpu/*/cpufreq")
    slow = [fact for fact in facts if fact.item not in ("performance", "userspace")]
    measured = both(", ".join(f"{fact.item} x{int(fact.number or 0)}" for fact in facts))
    if not slow:
        return Answer(measured)
    worst = max(slow, key=lambda fact: fact.number or 0)
    return Answer(measured, [hit(host, slow, governor=worst.item, cpus=int(worst.number or 0))])


@each_host
def cpus_per_card(host: Host, params: Params) -> Answer:
    """There are fewer processors per card than the threads of a rank keep busy."""
    if not host.npus:
        raise CannotJudge("NPU")
    cpus = needed(_usable_cpus(host), "cpu.usable")
    least = float(params.get("least", 4))
    measured = both(f"{cpus:g} CPU / {host.npus} NPU (>= {least:g})")
    if cpus >= least * host.npus:
        return Answer(measured)
    facts = [host.one("cpu", "usable"), host.one("cpu", "quota")]
    return Answer(measured, [hit(host, facts, cpus=round(cpus, 1), cards=host.npus, least=least)])


@each_host
def numa_balancing(host: Host, params: Params) -> Answer:
    """The kernel moves memory between NUMA nodes while the job runs."""
    fact = host.one("kernel", "setting", "kernel.numa_balancing")
    nodes = host.number("cpu", "numa_nodes")
    if fact is None or nodes is None:
        raise CannotJudge("kernel.numa_balancing")
    measured = both(f"kernel.numa_balancing={fact.value}, {nodes:g} NUMA")
    if nodes < 2 or not fact.number:
        return Answer(measured)
    return Answer(measured, [hit(host, [fact, host.one("cpu", "numa_nodes")], numa_nodes=int(nodes))])


@each_host
def memory_available(host: Host, params: Params) -> Answer:
    """Too little host memory is left for a job."""
    free = needed(host.number("memory", "available_bytes"), "memory.available_bytes")
    limit, used = host.number("memory", "limit_bytes"), host.number("memory", "limit_used_bytes")
    if limit is not None and used is not None:
        free = min(free, max(0.0, limit - used))
    least = float(params.get("per_card_gib", 8)) * (host.npus or 0) or float(params.get("least_gib", 4))
    measured = both(f"{size(free)} (>= {least:g} GiB)")
    if free >= least * _GIB:
        return Answer(measured)
    facts = [host.one("memory", name) for name in ("available_bytes", "limit_bytes", "limit_used_bytes")]
    return Answer(measured, [hit(host, facts, free=size(free), least=f"{least:g} GiB")])


@each_host
def swap(host: Host, params: Params) -> Answer:
    """The machine has begun to swap."""
    used = needed(host.number("memory", "swap_used_bytes"), "memory.swap_used_bytes")
    total = host.number("memory", "swap_total_bytes") or 0
    most = float(params.get("most_gib", 1))
    measured = both(f"{size(used)} / {size(total)} (<= {most:g} GiB)")
    if used <= most * _GIB:
        return Answer(measured)
    facts = [host.one("memory", "swap_used_bytes"), host.one("memory", "swap_total_bytes")]
    return Answer(measured, [hit(host, facts, used=size(used), total=size(total))])


@each_host
def memory_limit(host: Host, params: Params) -> Answer:
    """The container is close to its memory limit."""
    limit = needed(host.number("memory", "limit_bytes"), "cgroup memory limit")
    used = needed(host.number("memory", "limit_used_bytes"), "cgroup memory usage")
    share, most = 100 * used / max(limit, 1), float(params.get("most_pct", 90))
    measured = both(f"{share:.0f} % / {size(limit)} (<= {most:g} %)")
    if share <= most:
        return Answer(measured)
    facts = [host.one("memory", "limit_used_bytes"), host.one("memory", "limit_bytes")]
    return Answer(measured, [hit(host, facts, share=round(share), limit=size(limit))])


@each_host
def open_files(host: Host, params: Params) -> Answer:
    """A process may open too few files and sockets."""
    fact = host.one("limit", "nofile", "soft")
    if fact is None:
        raise CannotJudge("ulimit -n")
    wanted, least = float(params.get("wanted", 65535)), float(params.get("least", 4096))
    measured = both(f"{fact.value} (>= {wanted:g})")
    if fact.number is None or fact.number >= wanted:
        return Answer(measured)
    severity = "warning" if fact.number < least else "info"
    return Answer(measured, [hit(host, [fact], severity=severity, found=int(fact.number), wanted=int(wanted))])


@each_host
def process_limit(host: Host, params: Params) -> Answer:
    """A user or a container may start too few processes and threads."""
    limits = [host.one("limit", "nproc", "soft"), host.one("limit", "container_pids")]
    known = [fact for fact in limits if fact is not None]
    if not known:
        raise CannotJudge("ulimit -u")
    least = float(params.get("least", 4096))
    measured = both(f"{', '.join(fact.value for fact in known)} (>= {least:g})")
    low = [fact for fact in known if fact.number is not None and fact.number < least]
    if not low:
        return Answer(measured)
    return Answer(measured, [hit(host, low, found=int(min(fact.number or 0 for fact in low)), least=int(least))])


@each_host
def handles(host: Host, params: Params) -> Answer:
    """The machine's file handles are nearly used up."""
    used = needed(host.number("limit", "open_files"), "/proc/sys/fs/file-nr")
    total = needed(host.number("limit", "open_files_max"), "/proc/sys/fs/file-nr")
    share, most = 100 * used / max(total, 1), float(params.get("most_pct", 80))
    measured = both(f"{used:,.0f} / {total:,.0f} (<= {most:g} %)")
    if share <= most:
        return Answer(measured)
    facts = [host.one("limit", "open_files"), host.one("limit", "open_files_max")]
    return Answer(measured, [hit(host, facts, used=int(used), total=int(total), share=round(share))])


@each_host
def clock(host: Host, params: Params) -> Answer:
    """Nobody keeps the machine's clock right."""
    fact = host.one("clock", "synchronised")
    if fact is None:
        raise CannotJudge("adjtimex")
    if fact.number:
        return Answer(("synchronised", "已同步"))
    return Answer(("not synchronised", "未同步"), [hit(host, [fact, host.one("clock", "error_us")])])


@each_host
def page_size(host: Host, params: Params) -> Answer:
    """Pages are larger than those most wheels were built for."""
    found = needed(host.number("cpu", "page_bytes"), "cpu.page_bytes")
    measured = both(f"{found / 1024:g} KiB")
    if found <= 4096:
        return Answer(measured)
    return Answer(measured, [hit(host, [host.one("cpu", "page_bytes")], pages=f"{found / 1024:g} KiB")])


@each_host
def backlog(host: Host, params: Params) -> Answer:
    """A listening socket may queue few connections."""
    fact = host.one("kernel", "setting", "net.core.somaxconn")
    if fact is None or fact.number is None:
        raise CannotJudge("net.core.somaxconn")
    least = float(params.get("least", 1024))
    measured = both(f"{fact.value} (>= {least:g})")
    if fact.number >= least:
        return Answer(measured)
    return Answer(measured, [hit(host, [fact], found=int(fact.number), least=int(least))])


@each_host
def busy(host: Host, params: Params) -> Answer:
    """Something else uses the processors already."""
    if not host.before_job:
        raise CannotJudge("npudiag host, before the job")
    load = needed(host.number("cpu", "load1"), "cpu.load1")
    cpus = needed(host.number("cpu", "count"), "cpu.count")
    most = float(params.get("most_per_cpu", 1.0)) * cpus
    measured = both(f"load {load:g} (<= {most:g})")
    if load <= most:
        return Answer(measured)
    return Answer(measured, [hit(host, [host.one("cpu", "load1")], load=load, cpus=int(cpus))])
