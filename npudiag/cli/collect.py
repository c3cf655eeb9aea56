"""Puts together what a maintainer would ask for: this machine, the job's environment, logs."""

from __future__ import annotations

import contextlib
import datetime
import getpass
import os
import re
import socket
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from npudiag.errors import UsageError

if TYPE_CHECKING:
    from npudiag.host.bundle import Bundle
    from npudiag.host.redact import Redactor

_LAST = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LOG_FOLDERS = ("/var/log/npu/slog", "/var/log/npu/conf/slog")


@dataclass(frozen=True, slots=True)
class Order:
    """What to collect.

    Attributes:
        target: The archive.
        pid: A process of the job.
        logs: Files and folders; empty: those that the job's environment names.
        since: Local time before which records are left out.
        file_mb, total_mb: Bounds in MiB.
        redact: Whether pseudonyms replace names and addresses.
        key: A key file to take the pseudonyms from.
        device_logs: Whether the cards' own logs are exported as well.
        timeout_s: Seconds for each of the vendor's commands.
    """

    target: Path
    pid: int | None = None
    logs: tuple[str, ...] = ()
    since: datetime.datetime | None = None
    file_mb: int = 64
    total_mb: int = 1024
    redact: bool = True
    key: Path | None = None
    device_logs: bool = False
    timeout_s: float = 10.0


def since(text: str | None, last: str | None, now: datetime.datetime) -> datetime.datetime | None:
    """Return the time that ``--since`` or ``--last`` names.

    Raises:
        UsageError: It names none, or both are given.
    """
    if text is not None and last is not None:
        raise UsageError("--since and --last both name a start", hint="give one of them")
    if last is not None:
        match = _LAST.match(last.strip())
        if match is None:
            raise UsageError(f"--last {last!r} is no time", hint="write it like 90m, 6h or 2d")
        try:
            return now - datetime.timedelta(seconds=float(match[1]) * _SECONDS[match[2]])
        except OverflowError:
            raise UsageError(f"--last {last!r} is longer than any log") from None
    if text is None:
        return None
    try:
        # Python 3.10 does not know the letter.
        when = datetime.datetime.fromisoformat(re.sub(r"[Zz]\Z", "+00:00", text.strip()))
    except ValueError:
        raise UsageError(f"--since {text!r} is no time", hint="write it like 2026-03-04T05:06:07") from None
    return when.astimezone().replace(tzinfo=None) if when.tzinfo else when


def collect(order: Order) -> Bundle:
    """Gather everything and write the bundle.

    Raises:
        UsageError: Something cannot be read or written, or a log does not exist.
    """
    from npudiag.host import environment, gather
    from npudiag.host.bundle import Bounds, Writer, load_key, new_key
    from npudiag.host.redact import Redactor

    target = order.target
    if not target.name.endswith((".tar.zst", ".tzst", ".tar.gz", ".tgz", ".tar")):
        raise UsageError(f"{target}: what kind of archive is that?", hint="end it with .tar.zst, .tar.gz or .tar")
    for path in order.logs:
        if not Path(path).exists():
            raise UsageError(f"{path}: no such file or folder")
    variables, command = dict(os.environ), list[str]()
    if order.pid is not None:
        variables, command = environment.of_process(order.pid)
    key = load_key(order.key) if order.key else new_key()
    redactor: Redactor | None = None
    if order.redact:
        redactor = Redactor(key, hosts=_hosts(variables), users=_users())
    node = redactor.host(socket.gethostname()) if redactor else socket.gethostname()
    texts = gather.gather(
        gather.Request("collect", variables, command, (), order.timeout_s, kernel_log=True, node=node)
    )
    bounds = Bounds(order.file_mb << 20, order.total_mb << 20, order.since)
    writer = Writer(target, redactor, bounds)
    logs = order.logs or tuple(_default_logs(variables, order.pid))
    with _device_logs(order) as exported:
        sources = [(node, logs)] + ([(f"{node}/device", (exported,))] if exported else [])
        bundle = writer.write(texts, sources)
    if redactor is not None:
        writer.save_key(order.key or target.with_name(f"{target.name}.key.json"), key)
    return bundle


@contextlib.contextmanager
def _device_logs(order: Order) -> Iterator[str | None]:
    """Give a folder with the logs of the cards, None where they are not asked for or cannot be had."""
    if not order.device_logs:
        yield None
        return
    from npudiag.host import vendor

    with tempfile.TemporaryDirectory(prefix="npudiag-") as folder:
        output = vendor.device_logs(folder)
        if output.status == "absent":
            raise UsageError("msnpureport is not on this machine", hint="leave --device-logs out")
        # What it wrote before it failed or ran out of time is worth having.
        yield folder if any(Path(folder).iterdir()) else None


def _default_logs(variables: dict[str, str], pid: int | None) -> Iterator[str]:
    """Yield where the logs of a job usually are."""
    home = variables.get("HOME", "")
    named = variables.get("ASCEND_PROCESS_LOG_PATH")
    for folder in (named or f"{home}/ascend/log", *_LOG_FOLDERS):
        if folder and Path(folder).is_dir():
            yield folder
    if pid is not None:
        for stream in ("1", "2"):
            # Where standard output goes into a file, that is the training log.
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{stream}")  # noqa: PTH115
                if Path(target).is_file():
                    yield target


def _hosts(variables: dict[str, str]) -> Iterator[str]:
    """Yield names of hosts that are known to be such."""
    yield socket.gethostname()
    yield from (variables.get("MASTER_ADDR", ""), variables.get("HOSTNAME", ""))
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/etc/hosts").read_text(encoding="utf-8", errors="replace").split("\n")[:2000]:
            yield from line.partition("#")[0].split()[1:]


def _users() -> Sequence[str]:
    names = [os.environ.get("USER", ""), os.environ.get("SUDO_USER", "")]
    with contextlib.suppress(OSError, KeyError, ImportError):
        names.append(getpass.getuser())
    return [name for name in names if name]


def summary(bundle: Bundle) -> list[str]:
    """Return what to tell of a bundle."""
    size = bundle.bytes / 2**20
    lines = [f"wrote {bundle.path}: {bundle.files} files, {size:.1f} MiB"]
    if bundle.redactions:
        told = ", ".join(f"{count:,} {kind}" for kind, count in sorted(bundle.redactions.items()) if count)
        lines.append(f"replaced: {told}")
    if bundle.key is not None:
        lines.append(f"the key to the pseudonyms is in {bundle.key}; keep it, do not send it")
    reasons: dict[str, int] = {}
    for reason in bundle.skipped.values():
        reasons[reason] = reasons.get(reason, 0) + 1
    lines += [f"left out {count:,} files: {reason}" for reason, count in sorted(reasons.items())[:8]]
    return lines
