"""Network of the host: interfaces, what the job is told to use, ports that are taken."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

from npudiag.host.facts import Facts, read

IF_VARIABLES = ("HCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
_LISTENING = "0A"
_DEFAULT_MASTER_PORT = 29500
_DEFAULT_BASE_PORT = 60000
_BASE_PORTS = 32
_DEVICE_PORT = 16666
"""Port that HCCL listens on at the cards; a process of the host on it is one of another kind of set-up."""


def interfaces(facts: Facts, environment: Mapping[str, str]) -> None:
    """Describe the interfaces and what the environment asks HCCL to use."""
    import psutil

    states, addresses = psutil.net_if_stats(), psutil.net_if_addrs()
    for name, state in sorted(states.items()):
        facts.add("network", "up", state.isup, name)
        facts.add("network", "speed_mbit", state.speed or None, name)
        facts.add("network", "mtu", state.mtu, name)
        kept = [
            entry.address.partition("%")[0]
            for entry in addresses.get(name, ())
            if entry.family in (socket.AF_INET, socket.AF_INET6)
        ]
        facts.add("network", "addresses", " ".join(kept), name)
        facts.add("network", "physical", Path(f"/sys/class/net/{name}/device").exists(), name)
    for variable in (*IF_VARIABLES, "HCCL_IF_IP"):
        facts.add("network", "asked", environment.get(variable), variable)
    _hosts_file(facts)


def _hosts_file(facts: Facts) -> None:
    """Note what the hosts file says of this machine; a resolver, which may use the network, is not asked."""
    own = socket.gethostname()
    for line in (read("/etc/hosts") or "").split("\n"):
        address, *names = line.partition("#")[0].split()[:20] or [""]
        if address and own in names:
            facts.add("network", "hosts_file", address)
            return


def wanted_ports(environment: Mapping[str, str]) -> dict[int, str]:
    """Return the ports a job on this machine binds, and what for."""
    wanted: dict[int, str] = {}
    for variable, default, count in (
        ("MASTER_PORT", _DEFAULT_MASTER_PORT, 1),
        ("HCCL_IF_BASE_PORT", _DEFAULT_BASE_PORT, _BASE_PORTS),
    ):
        text = environment.get(variable, "")
        first = int(text) if text.isdecimal() and 0 < int(text) < 65536 else default
        for port in range(first, min(first + count, 65536)):
            wanted.setdefault(port, variable)
    wanted.setdefault(_DEVICE_PORT, "HCCL_NPU_SOCKET_PORT_RANGE")
    return wanted


def ports(facts: Facts, environment: Mapping[str, str]) -> None:
    """Note which of the ports a job needs are listened on, and by whom where that can be seen."""
    wanted = wanted_ports(environment)
    taken = {port: inode for port, inode in _listening() if port in wanted}
    owners = _owners(set(taken.values())) if taken else {}
    for port, inode in sorted(taken.items()):
        facts.add("port", "taken", f"{wanted[port]} {owners.get(inode, '?')}", str(port))
    facts.add("port", "checked", len(wanted))


def _listening() -> Iterator[tuple[int, str]]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (read(table, 8 << 20) or "").split("\n")[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTENING:
                yield int(fields[1].rpartition(":")[2], 16), fields[9]


def _owners(inodes: set[str]) -> dict[str, str]:
    """Return pid and command of the processes that hold sockets, as far as this user may see."""
    import contextlib
    import os

    found: dict[str, str] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for name in os.listdir(f"{process}/fd"):  # noqa: PTH208
                target = os.readlink(f"{process}/fd/{name}")  # noqa: PTH115
                if target.startswith("socket:[") and target[8:-1] in inodes:
                    found[target[8:-1]] = f"{read(f'{process}/comm')}({process.name})"
    return found
