"""What torchrun says of workers that failed: the box at the end, and one line per worker as it is noticed.

The box lists the failures in no order of time; the one under "Root Cause" is the first that the launcher noticed. A
negative exit code is a signal: 15 is what the launcher itself sends to the others once one has died.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from typing import Any, ClassVar

from npudiag.parsers import headers
from npudiag.parsers.metrics.base import Extractor, Sample, Sink
from npudiag.parsers.prefixes import Peeled

_MOST = 4096
_TRACEBACK_LINES = 5000
_FIELD = re.compile(r"\s*(time|host|rank|exitcode|error_file|traceback)\s*: ?(.*)\Z")
_ENTRY = re.compile(r"\s*\[\d+\]:\s*\Z")
_RANK = re.compile(r"(\d+) \(local_rank: (\d+)\)")
_EXIT = re.compile(r"(-?\d+) \(pid: (\d+)\)")
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)_(\d\d):(\d\d):(\d\d)")
_LINE = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+) \(pid: (\d+)\)")


def signal_name(code: int) -> str | None:
    """Return the name of the signal that an exit code stands for, None where it stands for none."""
    try:
        return signal.Signals(-code).name if code < 0 else None
    except ValueError:
        return None


class WorkerFailures(Extractor):
    """Workers that failed, one row each."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "E0302 10:11:30.980000 7000 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: 1)"
            " local_rank: 2 (pid: 7102) of binary: /usr/bin/python3\n"
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
            "============================================================\n"
            "train.py FAILED\n"
            "------------------------------------------------------------\n"
            "Failures:\n"
            "[1]:\n"
            "  time      : 2026-03-02_10:11:12\n"
            "  host      : node-a\n"
            "  rank      : 10 (local_rank: 2)\n"
            "  exitcode  : 1 (pid: 7102)\n"
            "  error_file: <N/A>\n"
            "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
            "------------------------------------------------------------\n"
            "Root Cause (first observed failure):\n"
            "[0]:\n"
            "  time      : 2026-03-02_10:11:20\n"
            "  host      : node-a\n"
            "  rank      : 8 (local_rank: 0)\n"
            "  exitcode  : -6 (pid: 7100)\n"
            "  error_file: <N/A>\n"
            "  traceback : Signal 6 (SIGABRT) received by PID 7100\n"
            "============================================================\n",
            "worker_failures",
            (
                {
                    "line": 7,
                    "rank": 10,
                    "local_rank": 2,
                    "exit_code": 1,
                    "pid": 7102,
                    "host": "node-a",
                    "named": False,
                    "time": 1772446272000000,
                },
                {"line": 16, "rank": 8, "exit_code": -6, "signal": "SIGABRT", "named": True, "pid": 7100},
            ),
        ),
        Sample(
            "failed (exitcode: -9) local_rank: 3 (pid: 4242) of binary: /opt/python\nFailures:\n"
            "  <NO_OTHER_FAILURES>\n",
            "worker_failures",
            ({"local_rank": 3, "rank": None, "exit_code": -9, "signal": "SIGKILL", "named": False},),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._noticed: dict[int, dict[str, Any]] = {}
        self._boxed: set[int] = set()

    def read(self, number: int, text: str, peeled: Peeled) -> bool:
        """Begin a list of the box, or note a worker that was noticed."""
        match = _LINE.search(text)
        if match is not None:
            code, local, pid = (int(part[:12]) for part in match.groups())
            if len(self._noticed) < _MOST:
                time = self.sink.time_of(text, peeled, number)
                self._noticed.setdefault(pid, self._row(number, code, pid) | {"local_rank": local, "time": time})
        elif text.strip() == "Failures:" or "Root Cause (first" in text:
            self.sink.follow[(peeled.worker, peeled.rank, peeled.pid)] = self._entries("Root Cause" in text)
        return False

    def finish(self) -> None:
        """Take the workers that no box names: the log ends before it."""
        for pid, row in self._noticed.items():
            if pid not in self._boxed:
                self.sink.add("worker_failures", row | {"named": False})

    @staticmethod
    def _row(line: int, code: int, pid: int) -> dict[str, Any]:
        return {"line": line, "exit_code": code, "pid": pid, "signal": signal_name(code)}

    def _entries(self, named: bool) -> Callable[[int, str], bool]:
        row: dict[str, Any] = {}
        left = _TRACEBACK_LINES

        def line(number: int, text: str) -> bool:
            if _ENTRY.match(text):
                row.clear()
                row.update(line=number, named=named)
                return True
            match = _FIELD.match(text)
            if match is None:
                # A recorded traceback goes over many lines; a rule ends the list.
                nonlocal left
                left -= 1
                return left > 0 and not text.lstrip().startswith(("-----", "====="))
            name, value = match[1], match[2].strip()
            if name == "time" and (stamp := _TIME.match(value)):
                row["time"] = headers.stamp_us(*map(int, stamp.groups()))
            elif name == "host":
                row["host"] = value[:200]
            elif name == "rank" and (ranks := _RANK.match(value)):
                row["rank"], row["local_rank"] = int(ranks[1][:12]), int(ranks[2][:12])
            elif name == "exitcode" and (ended := _EXIT.match(value)):
                row.update(self._row(row.get("line", number), int(ended[1][:12]), int(ended[2][:12])))
            elif name == "traceback":
                row["traceback"] = value[:400]
                self._boxed.add(row.get("pid", -1))
                if "line" in row and "exit_code" in row:
                    self.sink.add("worker_failures", dict(row))
            return True

        return line
