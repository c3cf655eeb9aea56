"""Measure what ``npudiag watch`` costs beside a job: CPU time of sampling and following, in percent of one core.

usage: python benchmarks/watch_overhead.py [--seconds 60] [--interval 1.0] [--lines 20] [--files 8]

A writer appends so many lines per second to each of so many logs while a session samples the machine and follows them,
without a view. Judging is counted apart: it has a budget of its own.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from npudiag.analyze import Options
from npudiag.engine.load import load_pack
from npudiag.watch.session import Session


def write(folder: Path, files: int, lines: int, stop: threading.Event) -> None:
    """Append to the logs once a second."""
    second = 0
    while not stop.wait(1.0):
        second += 1
        now = datetime.datetime(2026, 1, 5, 9) + datetime.timedelta(seconds=second)
        for rank in range(files):
            with (folder / f"train_rank{rank}.log").open("a") as file:
                for line in range(lines):
                    file.write(
                        f"[rank{rank}]: {now:%Y-%m-%d %H:%M:%S},123 - trainer - INFO - batch {second}-{line} ready\n"
                    )


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--interval", type=float, default=1.0)
    parser.add_argument("--lines", type=int, default=20)
    parser.add_argument("--files", type=int, default=8)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="npudiag-bench-") as name:
        folder = Path(name)
        (folder / "logs").mkdir()
        (folder / "out").mkdir()
        stop = threading.Event()
        # The writer is a process of its own, so that its time is not counted.
        writer = os.fork()
        if not writer:
            write(folder / "logs", chosen.files, chosen.lines, stop)
            os._exit(0)
        session = Session(
            [str(folder / "logs")], load_pack(), Options(), node="n", job=writer,
            samples=folder / "out" / "samples.txt",
            tell=lambda finding: print(f"  told: {finding.code} {finding.title}"),
        )  # fmt: skip
        session.start()
        judging = 0.0
        judge = session.judge

        def timed(*, last: bool = False) -> None:
            nonlocal judging
            begin = time.process_time()
            judge(last=last)
            judging += time.process_time() - begin

        session.judge = timed  # type: ignore[method-assign]
        begin, cpu = time.monotonic(), time.process_time()
        while (passed := time.monotonic() - begin) < chosen.seconds:
            session.step()
            time.sleep(max(0.0, chosen.interval - (time.monotonic() - begin - passed)))
        passed, spent = time.monotonic() - begin, time.process_time() - cpu
        os.kill(writer, 9)
        os.waitpid(writer, 0)
    print(
        f"{passed:.0f} s, a step every {chosen.interval} s, {chosen.files} logs with {chosen.lines} lines a second each"
    )
    print(f"  sampling and following {100 * (spent - judging) / passed:.2f} % of one core")
    print(f"  judging                {100 * judging / passed:.2f} % of one core")
    return 0


if __name__ == "__main__":
    sys.exit(main())
