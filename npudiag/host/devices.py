"""NPUs as the operating system sees them: PCI functions, device nodes, and who holds them."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from npudiag.host.facts import Facts, read

_VENDOR = "0x19e5"
"""PCI vendor id of Huawei."""
_ACCELERATOR = "0x1200"
"""First half of the PCI class of processing accelerators."""
_NODE = re.compile(r"davinci\d+\Z")
MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc")
_GROUP = "HwHiAiUser"
_HOLDERS = 200


def devices(facts: Facts) -> None:
    """Count NPUs on the PCI bus and describe their device nodes."""
    count = 0
    functions = Path("/sys/bus/pci/devices")
    if functions.is_dir():
        for function in sorted(functions.iterdir()):
            if read(f"{function}/vendor") == _VENDOR and (read(f"{function}/class") or "").startswith(_ACCELERATOR):
                count += 1
                facts.add("device", "pci", read(f"{function}/device"), function.name)
                numa = read(f"{function}/numa_node")
                facts.add("device", "numa_node", numa, function.name)
        facts.add("device", "pci_count", count)
    nodes = sorted(_nodes(), key=lambda name: (len(name), name))
    facts.add("device", "node_count", sum(1 for name in nodes if _NODE.match(name)))
    for name in nodes:
        _describe(facts, f"/dev/{name}")
    _groups(facts)


def _nodes() -> Iterator[str]:
    with contextlib.suppress(OSError):
        for name in os.listdir("/dev"):  # noqa: PTH208 - names only
            if _NODE.match(name) or name in MANAGERS:
                yield name


def _describe(facts: Facts, path: str) -> None:
    try:
        status = Path(path).stat()
    except OSError as exc:
        facts.add("device", "node", exc.strerror or "unreadable", path)
        return
    owner, group = _name_of("pwd", status.st_uid), _name_of("grp", status.st_gid)
    facts.add("device", "node", f"{stat.filemode(status.st_mode)} {owner}:{group}", path)
    facts.add("device", "accessible", os.access(path, os.R_OK | os.W_OK), path)


def _name_of(database: str, number: int) -> str:
    try:
        if database == "pwd":
            import pwd

            return pwd.getpwuid(number).pw_name
        import grp

        return grp.getgrgid(number).gr_name
    except (ImportError, KeyError):
        return str(number)


def _groups(facts: Facts) -> None:
    own = {_name_of("grp", number) for number in os.getgroups()}
    facts.add("device", "in_driver_group", _GROUP in own)
    facts.add("device", "root", os.geteuid() == 0)


def holders(facts: Facts) -> None:
    """Find the processes that have NPU device nodes open; those of other users cannot be seen without root."""
    hidden = found = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            names = os.listdir(f"{process}/fd")  # noqa: PTH208
        except PermissionError:
            hidden += 1
            continue
        except OSError:
            continue
        held = set()
        for name in names:
            with contextlib.suppress(OSError):
                target = os.readlink(f"{process}/fd/{name}")  # noqa: PTH115
                if target.startswith("/dev/") and _NODE.match(target[5:]):
                    held.add(target[5:])
        if held and int(process.name) != os.getpid():
            found += 1
            if found <= _HOLDERS:
                command = read(f"{process}/comm") or "?"
                facts.add("process", "holds_npu", f"{command}: {' '.join(sorted(held))}", process.name)
    facts.add("process", "npu_holders", found)
    facts.add("process", "hidden", hidden)
