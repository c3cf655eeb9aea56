"""The host's own network: interfaces for HCCL and Gloo, names, ports."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudiag.analyses.host import Fact, Host
from npudiag.detectors.preflight.answer import Answer, Params, both, each_host, hit
from npudiag.engine.hits import CannotJudge

_VIRTUAL = re.compile(r"lo\d*\Z|docker|br-|veth|virbr|cni|flannel|cali|tunl|kube|ifb|dummy|podman|nerdctl|endvnic")
_BASE_PORT = 60_000
_BASE_PORTS = 32


def _up(host: Host) -> dict[str, Fact]:
    facts = {fact.item: fact for fact in host.all("network", "up") if fact.number}
    if not facts:
        raise CannotJudge("network.up")
    return facts


def _chosen(value: str, names: list[str]) -> list[str]:
    """Return the interfaces that HCCL_SOCKET_IFNAME leaves.

    Entries are beginnings of names; ``=`` in front makes them whole names, ``^`` in front of all excludes them.
    """
    excludes = value.startswith("^")
    exact = value.lstrip("^").startswith("=")
    entries = [entry for part in value.lstrip("^=").split(",") if (entry := part.strip())]
    named = [name for name in names if any(name == entry if exact else name.startswith(entry) for entry in entries)]
    return [name for name in names if name not in named] if excludes else named


@each_host
def interface(host: Host, params: Params) -> Answer:
    """A variable names an interface or an address that this machine does not have."""
    asked = [fact for fact in host.all("network", "asked") if fact.value]
    if not asked:
        raise CannotJudge("HCCL_SOCKET_IFNAME, HCCL_IF_IP, GLOO_SOCKET_IFNAME")
    up = _up(host)
    hits = []
    for fact in asked:
        if fact.item == "HCCL_IF_IP":
            there = any(fact.value in addresses.value.split() for addresses in host.all("network", "addresses"))
        else:
            there = bool(_chosen(fact.value, list(up)))
        if not there:
            hits.append(hit(host, [fact], variable=fact.item, value=fact.value, have=", ".join(sorted(up))))
    return Answer(both(", ".join(f"{fact.item}={fact.value}" for fact in asked)), hits)


@each_host
def interface_choice(host: Host, params: Params) -> Answer:
    """Several interfaces could carry the job, and nothing says which."""
    up = _up(host)
    able = sorted(
        name
        for name in up
        if not _VIRTUAL.match(name) and (addresses := host.value("network", "addresses", name)) and addresses.strip()
    )
    measured = both(", ".join(able) or "-")
    asked = {fact.item for fact in host.all("network", "asked") if fact.value}
    if len(able) < 2 or asked & {"HCCL_SOCKET_IFNAME", "HCCL_IF_IP"}:
        return Answer(measured)
    facts = [host.one("network", "addresses", name) for name in able]
    return Answer(measured, [hit(host, facts, interfaces=", ".join(able), first=able[0])])


@each_host
def loopback_name(host: Host, params: Params) -> Answer:
    """The hosts file says that this machine's name is the loopback address."""
    fact = host.one("network", "hosts_file")
    if fact is None:
        raise CannotJudge("/etc/hosts")
    if not (fact.value.startswith("127.") or fact.value == "::1"):
        return Answer(both(fact.value))
    return Answer(both(fact.value), [hit(host, [fact], address=fact.value)])


@each_host
def ports(host: Host, params: Params) -> Answer:
    """A port that the job is going to bind is taken."""
    if not host.before_job:
        raise CannotJudge("npudiag host, before the job")
    if host.one("port", "checked") is None:
        raise CannotJudge("/proc/net/tcp")
    taken = host.all("port", "taken")
    checked = int(host.number("port", "checked") or 0)
    measured = (f"{checked} ports, {len(taken)} taken", f"{checked} 个端口，{len(taken)} 个被占用")
    hits = []
    for variable, facts in _by_variable(taken):
        owner = facts[0].value.partition(" ")[2]
        hits.append(
            hit(
                host, facts, port=", ".join(fact.item for fact in facts[:6]), variable=variable,
                owner=owner if owner != "?" else None,
            )
        )  # fmt: skip
    return Answer(measured, hits)


def _by_variable(facts: list[Fact]) -> Iterator[tuple[str, list[Fact]]]:
    variables = dict.fromkeys(fact.value.partition(" ")[0] for fact in facts)
    for variable in variables:
        yield variable, [fact for fact in facts if fact.value.partition(" ")[0] == variable]


@each_host
def ephemeral(host: Host, params: Params) -> Answer:
    """The kernel may hand out HCCL's ports to any client."""
    span = host.one("kernel", "setting", "net.ipv4.ip_local_port_range")
    kept = host.one("kernel", "setting", "net.ipv4.ip_local_reserved_ports")
    if span is None or kept is None:
        raise CannotJudge("net.ipv4.ip_local_port_range")
    ends = [int(number) for number in re.findall(r"\d+", span.value)]
    measured = both(f"{span.value}; reserved: {kept.value or '-'}")
    if len(ends) != 2 or not ends[0] <= _BASE_PORT + _BASE_PORTS - 1 or not ends[1] >= _BASE_PORT:
        return Answer(measured)
    if _covers(kept.value, _BASE_PORT, _BASE_PORT + _BASE_PORTS - 1):
        return Answer(measured)
    return Answer(measured, [hit(host, [span, kept], low=ends[0], high=ends[1])])


def _covers(ranges: str, low: int, high: int) -> bool:
    kept: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", ranges):
        kept.update(range(int(first), min(int(last or first), 65_535) + 1))
    return set(range(low, high + 1)) <= kept
