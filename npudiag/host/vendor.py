"""Runs the vendor's tools that are on the machine and keeps their output as text.

Nothing goes through a shell, no tool changes anything, each has a time-out: a driver that is gone makes them hang.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_FOLDERS = (
    "/usr/local/sbin", "/usr/local/bin", "/usr/local/Ascend/driver/tools",
    "/usr/local/Ascend/toolbox/latest/Ascend-DMI/bin",
)  # fmt: skip
_OUTPUT = 1 << 20
_MOST_CARDS = 64
_CARD = re.compile(r"^\|\s*(\d+)\s+\S+\s*\|\s*(?:OK|Warning|Alarm|Critical|UNKNOWN)\s*\|", re.MULTILINE)
_CHIP = re.compile(r"^\|\s*(\d+)(?:\s+(\d+))?\s*\|\s*[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:", re.MULTILINE)
_HCCN = ("ip", "link", "net_health", "tls", "fec", "link_stat", "optical", "stat")


@dataclass(frozen=True, slots=True)
class Output:
    """What a command gave.

    Attributes:
        status: ``ok``, ``failed``, ``timeout``, ``absent`` or ``skipped``, as the parsers read it.
        text: Its output, cut at 1 MiB; what it printed on stderr where it failed.
        detail: Why it did not succeed.
    """

    status: str
    text: str = ""
    detail: str = ""


def find(tool: str, path: str | None = None) -> str | None:
    """Return where a tool is, None where it is not.

    Args:
        tool: Its name.
        path: Search path; None: that of this process, then the vendor's folders.
    """
    return shutil.which(tool, path=path) if path else shutil.which(tool) or shutil.which(tool, path=":".join(_FOLDERS))


def run(command: Sequence[str], timeout_s: float, *, cwd: str | None = None) -> Output:
    """Run a command; whatever it does, an answer comes back in time.

    Args:
        command: Program and arguments.
        timeout_s: Seconds after which it and its children are killed.
        cwd: Folder to run it in.
    """
    with tempfile.TemporaryFile() as out:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                cwd=cwd, env={**os.environ, "LC_ALL": "C"},
            )  # fmt: skip
        except OSError as exc:
            return Output("failed", detail=exc.strerror or type(exc).__name__)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            kill(process)
            return Output("timeout", _text(out), f"after {timeout_s:g} s")
        text = _text(out)
        return Output("ok", text) if code == 0 else Output("failed", text, f"with exit code {code}")


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it started, without waiting for one that cannot be ended."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(1)
    except (ProcessLookupError, PermissionError, subprocess.TimeoutExpired):
        # In uninterruptible sleep inside the driver; it goes away when the driver answers.
        return


def _text(out: IO[bytes]) -> str:
    out.seek(0)
    return out.read(_OUTPUT).decode("utf-8", "replace").replace("\r\n", "\n").rstrip("\n")


class Session:
    """Runs the tools one after the other and writes down what they say.

    Attributes:
        lines: The text so far: commands, each with its output below.
    """

    def __init__(self, timeout_s: float = 10.0, budget_s: float = 120.0) -> None:
        self.lines = [time.strftime("Datetime: %Y-%m-%d %H:%M:%S.000000"), ""]
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + budget_s
        self._hung: set[str] = set()

    def text(self) -> str:
        """Return all that was said."""
        return "\n".join(self.lines) + "\n"

    def show(self, path: str, text: str) -> None:
        """Write down a file as if it were printed by ``cat``."""
        self.lines += [f"cat {path}", *text.split("\n"), ""]

    def ask(self, tool: str, *arguments: str) -> Output:
        """Run a tool and write down the answer; one that hung once is not asked again."""
        if tool in self._hung or time.monotonic() > self._deadline:
            return Output("skipped")
        program = find(tool)
        if program is None:
            return Output("absent")
        left = max(1.0, self._deadline - time.monotonic())
        output = run([program, *arguments], min(self._timeout_s, left))
        self.lines += [" ".join((tool, *arguments)), *(output.text.split("\n") if output.text else ()), ""]
        if output.status == "timeout":
            self._hung.add(tool)
        return output

    def note(self, tool: str, output: Output) -> None:
        """Write down how a tool as a whole behaved."""
        self.lines += [f"# npudiag: tool {tool} {output.status} {output.detail}".rstrip(), ""]


def cards(table: str) -> list[int]:
    """Return the numbers of the NPUs in the table of ``npu-smi info``."""
    return sorted({int(number) for number in _CARD.findall(table)})[:_MOST_CARDS]


def network_devices(table: str) -> list[int]:
    """Return the numbers by which hccn_tool knows the chips: the physical id where the table has one."""
    found = [int(physical or 0) for _, physical in _CHIP.findall(table) if physical]
    return sorted(set(found))[:_MOST_CARDS] or cards(table)


def ask_all(files: Mapping[str, str], *, timeout_s: float = 10.0, budget_s: float = 120.0) -> str:
    """Ask all tools about all cards.

    Args:
        files: Version files to write down with the answers, path to text.
        timeout_s: Seconds for each command.
        budget_s: Seconds for all of them.

    Returns:
        The text of an environment check.
    """
    session = Session(timeout_s, budget_s)
    for path, text in files.items():
        session.show(path, text)
    conf = Path("/etc/hccn.conf")
    try:
        if conf.is_file():
            session.show(str(conf), conf.read_text(encoding="utf-8", errors="replace")[:65_536])
    except OSError as exc:
        session.note("hccn.conf", Output("failed", detail=exc.strerror or type(exc).__name__))
    info = session.ask("npu-smi", "info")
    session.note("npu-smi", info)
    if info.status == "ok":
        session.ask("npu-smi", "info", "-m")
        for card in cards(info.text):
            for kind in ("board", "common", "ecc"):
                session.ask("npu-smi", "info", "-t", kind, "-i", str(card))
    if find("hccn_tool") is None:
        session.note("hccn_tool", Output("absent"))
    else:
        answers = [
            session.ask("hccn_tool", "-i", str(device), f"-{what}", "-g")
            for device in network_devices(info.text)
            for what in _HCCN
        ]
        if not answers:
            session.note("hccn_tool", Output("failed", detail="no card is known to ask about"))
        else:
            answered = [answer for answer in answers if answer.status == "ok"]
            hung = next((answer for answer in answers if answer.status == "timeout"), None)
            session.note("hccn_tool", hung or (answered or answers)[0])
    session.note("ascend-dmi", session.ask("ascend-dmi", "-c"))
    # It exports logs from the cards, which takes minutes: only `collect` runs it, where asked to.
    session.note("msnpureport", Output("ok" if find("msnpureport") else "absent"))
    return session.text()


def device_logs(folder: str, timeout_s: float = 300.0) -> Output:
    """Let msnpureport export the logs that lie on the cards into `folder`."""
    program = find("msnpureport")
    return run([program], timeout_s, cwd=folder) if program else Output("absent")
