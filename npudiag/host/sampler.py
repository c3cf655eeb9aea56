"""Readings of the machine and its NPUs over time, at little cost.

npu-smi is a program that takes its time: it is started, left alone, and its answer taken at a later step; how often it
is started follows from what it cost, so that it never uses more than its share of one CPU. A `Sampler` is driven by
calling `step` once per interval, or by `sample`.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from npudiag.host import counters, vendor
from npudiag.parsers.metrics import Metrics
from npudiag.parsers.prefixes import peel
from npudiag.parsers.snapshot import row_line

NPU_SHARE = 0.005
"""Most of one CPU that npu-smi may use, averaged: half of what sampling as a whole is allowed."""
_NPU_LEAST_S = 1.0
_NPU_TIMEOUT_S = 20.0
_NPU_GIVE_UP = 3
_MIB = 2**20
_PROCESSES_EVERY = 5
"""The job's processes are looked up anew with every fifth reading: walking all of /proc is what costs most."""


@dataclass(slots=True)
class Reading:
    """What one step gave.

    Attributes:
        host: A row of table ``host_samples``.
        npus: Rows of table ``npu_samples``; empty where no new answer of npu-smi came.
    """

    host: dict[str, Any]
    npus: list[dict[str, Any]] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the rows as lines of a snapshot, which the parsers read."""
        return [row_line("host_samples", self.host), *(row_line("npu_samples", row) for row in self.npus)]


class Sampler:
    """Takes readings.

    Args:
        root: A process; it and its descendants are the job. None: readings of the machine alone.
        npu_smi: Path of npu-smi; None looks for it, an empty text leaves NPUs out.
        clock: Seconds that never go back; replaced in tests.
    """

    def __init__(
        self, root: int | None = None, *, npu_smi: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._root = root
        self._clock = clock
        self._before: counters.Counters | None = None
        self._job: dict[int, float] = {}
        self._steps = 0
        program = vendor.find("npu-smi") if npu_smi is None else npu_smi
        self._npus = NpuReader(program, clock) if program else None

    @property
    def has_npus(self) -> bool:
        """Whether npu-smi is there and still answers."""
        return self._npus is not None and not self._npus.given_up

    def step(self) -> Reading:
        """Take a reading; never waits for anything."""
        reading = Reading(self._host(), self._npus.poll() if self._npus else [])
        self._steps += 1
        return reading

    def close(self) -> None:
        """End what is still running."""
        if self._npus:
            self._npus.close()

    def __enter__(self) -> Sampler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _host(self) -> dict[str, Any]:
        now = counters.Counters.read(self._clock())
        row: dict[str, Any] = {"time": time.time_ns() // 1000, "load1": os.getloadavg()[0]}
        row.update(counters.memory())
        before, self._before = self._before, now
        if before is not None:
            row.update(now.since(before))
        if self._root is not None:
            row.update(self._processes(now.at - before.at if before else 0.0))
        return row

    def _processes(self, seconds: float) -> dict[str, Any]:
        if self._steps % _PROCESSES_EVERY == 0:
            known = self._job
            self._job = {pid: known.get(pid, -1.0) for pid in counters.descendants(self._root or 0)}
        cpu = rss = 0.0
        for pid, spent_before in list(self._job.items()):
            usage = counters.usage(pid)
            if usage is None:
                del self._job[pid]
                continue
            spent, resident = usage
            cpu += max(0.0, spent - spent_before) if spent_before >= 0 else 0.0
            rss += resident
            self._job[pid] = spent
        return {
            "job_processes": len(self._job),
            "job_rss_mb": round(rss / _MIB, 1),
            "job_cpu_pct": round(100 * cpu / seconds, 1) if seconds > 0 else None,
        }


class NpuReader:
    """Runs npu-smi in the background, no more often than its cost allows.

    Attributes:
        given_up: Whether it failed or hung so often that it is not asked any more.
    """

    def __init__(self, program: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.given_up = False
        self._program = program
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._out: IO[bytes] | None = None
        self._started = 0.0
        self._next = clock()
        self._failed = 0
        self._samples = 0

    def poll(self) -> list[dict[str, Any]]:
        """Return the answer, once it is there; start the next question when it is due."""
        rows: list[dict[str, Any]] = []
        if self._process is not None:
            rows = self._collect()
        if self._process is None and not self.given_up and self._clock() >= self._next:
            self._start()
        return rows

    def close(self) -> None:
        """Kill a question that is still out."""
        if self._process is not None:
            vendor.kill(self._process)
            self._end()

    def _start(self) -> None:
        self._out = tempfile.TemporaryFile()  # noqa: SIM115 - lives until the answer is read
        self._started = self._clock()
        try:
            self._process = subprocess.Popen(
                [self._program, "info"], stdin=subprocess.DEVNULL, stdout=self._out, stderr=subprocess.DEVNULL,
                start_new_session=True, env={**os.environ, "LC_ALL": "C"},
            )  # fmt: skip
        except OSError:
            self._missed()

    def _collect(self) -> list[dict[str, Any]]:
        assert self._process is not None and self._out is not None
        if self._process.returncode is None:
            # wait4 tells what the child cost; Popen's own wait does not.
            try:
                pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            except ChildProcessError:
                self._missed()
                return []
            if not pid:
                if self._clock() - self._started > _NPU_TIMEOUT_S:
                    vendor.kill(self._process)
                    self._missed()
                return []
            self._process.returncode = os.waitstatus_to_exitcode(status)
            cost = usage.ru_utime + usage.ru_stime
        else:
            cost = 0.0
        self._next = self._started + max(_NPU_LEAST_S, cost / NPU_SHARE)
        if self._process.returncode != 0:
            self._missed()
            return []
        self._out.seek(0)
        rows = npu_rows(self._out.read(1 << 20).decode("utf-8", "replace"))
        self._failed = 0 if rows else self._failed + 1
        self._end()
        now = time.time_ns() // 1000
        for row in rows:
            row.update(time=now, sample=self._samples)
        self._samples += 1
        self.given_up = self._failed >= _NPU_GIVE_UP
        return rows

    def _missed(self) -> None:
        self._failed += 1
        self.given_up = self._failed >= _NPU_GIVE_UP
        self._next = self._clock() + _NPU_TIMEOUT_S
        self._end()

    def _end(self) -> None:
        self._process = None
        if self._out is not None:
            self._out.close()
            self._out = None


def npu_rows(text: str) -> list[dict[str, Any]]:
    """Return the rows of table ``npu_samples`` that a table of ``npu-smi info`` holds."""
    metrics = Metrics()
    lines = text.split("\n")
    metrics.batch(text.encode("utf-8", "replace"))
    for number, line in enumerate(lines, 1):
        metrics.line(number, line, peel(line))
    metrics.finish()
    columns = metrics.sink.columns.get("npu_samples")
    if columns is None:
        return []
    return [
        {name: value for name, value in row.items() if value is not None and name not in ("file", "line")}
        for row in columns.rows()
    ]


def sample(sampler: Sampler, interval_s: float, stop: Callable[[], bool]) -> Iterator[Reading]:
    """Yield a reading per interval until `stop` says so; a late one does not make the next one late."""
    due = time.monotonic()
    while not stop():
        yield sampler.step()
        due = max(due + interval_s, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
