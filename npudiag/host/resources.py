"""How many workers and how much memory a run may use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

WORKER_BYTES = 160 << 20
"""What one worker needs at most: interpreter, NumPy, pattern database, a few blocks of 8 MiB."""


@dataclass(frozen=True, slots=True)
class Resources:
    """The bounds of one run.

    Attributes:
        workers: Processes that parse at the same time; 1 parses in this process.
        memory_bytes: What the whole process tree may use.
    """

    workers: int
    memory_bytes: int


def _cgroup_limit() -> int | None:
    """Return the memory limit of the container, None where there is none."""
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(name).read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < 1 << 60:
            return int(text)
    return None


def decide(workers: int | None = None, memory_mb: int | None = None) -> Resources:
    """Return the bounds: what is asked for, else what the machine can spare.

    Without orders a run takes a quarter of the memory that is free (of the container's, where one
    bounds it), 2 GiB at most, and as many workers as there are CPUs it may use and that memory feeds.
    """
    import psutil

    free = psutil.virtual_memory().available
    limit = _cgroup_limit()
    if limit is not None:
        free = min(free, limit)
    memory = memory_mb << 20 if memory_mb else min(free // 4, 2 << 30)
    if workers is None:
        try:
            cpus = len(os.sched_getaffinity(0))
        except AttributeError:
            cpus = os.cpu_count() or 1
        workers = min(cpus, 16)
    fed = max(1, memory // WORKER_BYTES - 1)
    return Resources(max(1, min(workers, fed)), memory)
