"""Worker processes do not outlive the one that made them, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil

PARENT = """
import os, time
from npudiag import ingest
from npudiag.parsers.scan import Literals
if __name__ == "__main__":
    pool = ingest._processes(Literals((), ()), 2)
    list(pool.map(os.path.getsize, [os.curdir] * 8))
    print(*pool._processes, flush=True)
    time.sleep(60)
"""


def test_workers_end_when_their_maker_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        workers = [int(word) for word in process.stdout.readline().split()]
        assert workers and all(map(psutil.pid_exists, workers))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    for _ in range(200):
        left = [pid for pid in workers if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]
        if not left:
            break
        time.sleep(0.1)
    assert left == []
