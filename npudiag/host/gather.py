"""Looks at the machine once: everything there is to know before a job, as texts that the parsers read."""

from __future__ import annotations

import datetime
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from npudiag._version import __version__
from npudiag.host import devices, environment, facts, network, software, storage, system, vendor

Purpose = Literal["preflight", "collect"]
"""``preflight``: no job is meant to run yet, so a process on a card or a port is one too many."""

SNAPSHOT, TOOLS, ENVIRONMENT, KERNEL_LOG = (
    "host/snapshot.txt", "host/vendor-tools.txt", "host/environment.sh", "host/dmesg.txt",
)  # fmt: skip
_KERNEL_LINES = 5000


@dataclass(slots=True)
class Request:
    """What to look at.

    Attributes:
        purpose: What for.
        environment: Variables of the job.
        command: Command line of the job, where it runs.
        paths: Further paths whose space matters.
        timeout_s: Seconds for each of the vendor's commands.
        kernel_log: Whether the kernel's log is read as well.
        node: What to call this machine.
    """

    purpose: Purpose
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    command: Sequence[str] = ()
    paths: Sequence[str] = ()
    timeout_s: float = 10.0
    kernel_log: bool = False
    node: str = field(default_factory=socket.gethostname)


def snapshot(request: Request) -> facts.Facts:
    """Return the facts of this machine."""
    found = facts.Facts()
    found.add("snapshot", "node", request.node)
    found.add("snapshot", "time", datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"))
    found.add("snapshot", "tool", f"npudiag {__version__}")
    found.add("snapshot", "purpose", request.purpose)
    variables = request.environment
    paths = storage.places(variables, request.paths)
    facts.run(
        found,
        [
            system.system,
            system.cpu,
            system.memory,
            system.limits,
            system.kernel,
            system.clock,
            _named("storage", partial(storage.storage, paths=paths)),
            devices.devices,
            devices.holders,
            _named("interfaces", partial(network.interfaces, environment=variables)),
            _named("ports", partial(network.ports, environment=variables)),
            software.python,
            _named("cann", partial(software.cann, environment=variables)),
        ],
    )
    return found


def _named(name: str, probe: partial[None]) -> facts.Probe:
    """Return a probe that has a name to be noted by where it fails."""

    def run(found: facts.Facts) -> None:
        probe(found)

    run.__name__ = name
    return run


def gather(request: Request) -> dict[str, str]:
    """Return everything as texts: path in a bundle to content."""
    texts = {
        SNAPSHOT: snapshot(request).render(),
        TOOLS: vendor.ask_all(software.version_files(request.environment), timeout_s=request.timeout_s),
        ENVIRONMENT: environment.script(request.environment, request.command),
    }
    if request.kernel_log:
        program = vendor.find("dmesg")
        log = vendor.run([program, "-T"], request.timeout_s) if program else vendor.Output("absent")
        if log.status == "ok" and log.text:
            texts[KERNEL_LOG] = "\n".join(log.text.split("\n")[-_KERNEL_LINES:]) + "\n"
    return texts
