"""Measure the search for one dead rank among many: process logs of 1,024 ranks, compared with ``cat FILES | wc -c``.

usage: python benchmarks/many_ranks.py [--ranks 1024] [--kb 200] [--keep DIR] [--repeat 3]

Every rank writes a run log and, but for the dead one, a debug log in which it gives up waiting for its neighbour in
the ring. Nobody names the dead rank but its own neighbours: the chain of waits has to be followed. The lines are
those of the sample jobs, filled up with the traffic of ``gen_slog.py``. The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import statistics
import sys
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from bench_analyze import MB, analyze_argv, files_of, peak_pss, seconds, warm
from gen_slog import MINUTE, PID, SALT, chunks

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "sample_logs"))

from _gen import cann  # noqa: E402
from _gen.shapes import Clock, Process, make_ranks, name_stamp  # noqa: E402

START = datetime(2026, 5, 4, 8, 0, 0, 120_417)
PER_NODE = 8
MINUTES = 40


def write_rank(process: Process, filler: bytes, size: int, out: Path) -> int:
    """Write the run and the debug log of a process, filled up to `size` bytes; returns what was written."""
    written = 0
    for kind, records in (("debug", process.debug), ("run", process.run)):
        if not records:
            continue
        records.sort(key=lambda item: item[0])
        text = "".join(f"{line}\n" for _, line in records).encode()
        if kind == "run":
            room = max(size - written - len(text), 0)
            cut = filler.rfind(b"\n", 0, room) + 1
            head = text.rfind(b"\n", 0, -1) + 1
            text = text[:head] + filler[:cut] + text[head:]
        file = out / process.node / "ascend" / "log" / kind / "plog"
        file.mkdir(parents=True, exist_ok=True)
        (file / f"plog-{process.pid}_{name_stamp(records[0][0])}.log").write_bytes(text)
        written += len(text)
    return written


def generate(out: Path, *, ranks: int, kb: int, dead: int, seed: int = 1) -> int:
    """Write the tree below `out` and return its size in bytes.

    Args:
        out: Folder; made if missing.
        ranks: Number of ranks, eight a node.
        kb: Size of the logs of one rank in kB.
        dead: Rank that falls silent.
        seed: Same seed, same bytes.
    """
    rnd = random.Random(seed)
    nodes = tuple(f"node-{number:03d}" for number in range((ranks + PER_NODE - 1) // PER_NODE))
    processes = make_ranks(rnd, nodes=nodes, per_node=PER_NODE, first_pid=20_000)[:ranks]
    templates = chunks(rnd, 0.02)
    root = cann.root_info(processes, START)
    launched = START + timedelta(minutes=MINUTES)
    total = 0
    for process in processes:
        # One network per machine: 192.0.2.0/24 holds 254.
        process.host_ip = f"198.18.{nodes.index(process.node) // 250}.{nodes.index(process.node) % 250 + 1}"
        process.device_ip = f"198.19.{process.rank // 250}.{process.rank % 250 + 1}"
    for process in processes:
        clock = Clock(START + timedelta(milliseconds=2 * process.rank), rnd)
        cann.start_up(process, clock, ranks, root, exec_timeout=600)
        clock.at(launched - timedelta(seconds=1))
        cann.steady(process, Clock(launched - timedelta(seconds=70), rnd), 1)
        if process.rank != dead:
            clock.at(launched + timedelta(seconds=600, milliseconds=3 * ((process.rank * 389) % ranks)))
            # Half of the ring waits for the rank ahead, half for the one behind; both ways end at the dead one.
            ahead = (dead - process.rank) % ranks <= ranks // 2
            remote = (process.rank + (1 if ahead else -1)) % ranks
            cann.notify_timeout(process, clock, ranks, root, remote, launched=launched, rnd=rnd)
        filler = templates[process.rank % len(templates)]
        filler = filler.replace(PID, f"({process.pid:d},".encode()).replace(SALT, f"{rnd.getrandbits(32):08x}".encode())
        filler = filler.replace(MINUTE, f"{launched - timedelta(minutes=5):%Y-%m-%d-%H:%M}".encode())
        total += write_rank(process, filler, kb * 1000, out)
    return total


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns 1 where another rank than the dead one is named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=1024, help="number of ranks (default 1024)")
    parser.add_argument("--kb", type=int, default=200, help="size of the logs of one rank in kB (default 200)")
    parser.add_argument("--dead", type=int, default=617, help="rank that falls silent (default 617)")
    parser.add_argument("--repeat", type=int, default=3, help="measured runs of each command (default 3)")
    parser.add_argument("--keep", type=Path, help="generate into this folder and keep it; an existing tree is reused")
    options = parser.parse_args(argv)
    if not 0 <= options.dead < options.ranks:
        parser.error("--dead must be one of the ranks")
    with tempfile.TemporaryDirectory(prefix="npudiag-bench-") as name:
        scratch = Path(name)
        folder = (options.keep or scratch) / f"{options.ranks}x{options.kb}kB"
        if not folder.exists():
            generate(folder, ranks=options.ranks, kb=options.kb, dead=options.dead)
        size = warm(folder) / MB
        files = files_of(folder)
        listed = scratch / "files"
        listed.write_text("".join(f"{shlex.quote(str(file))}\n" for file in files))
        cat = ["sh", "-c", f"xargs cat < {shlex.quote(str(listed))} | wc -c"]
        document = scratch / "result.json"
        ours = analyze_argv(folder, document)
        seconds(ours)
        pairs = [(seconds(cat), seconds(ours)) for _ in range(options.repeat)]
        base, took = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
        middle = statistics.median(pair[1] / pair[0] for pair in pairs)
        memory, samples = peak_pss(ours)
        root = json.loads(document.read_text(encoding="utf-8"))["findings"][0]
    print(f"{options.ranks} ranks, {len(files)} files, {size:.0f} MB")
    print(f"  cat | wc -c  best {base:7.3f} s")
    print(f"  npudiag      best {took:7.3f} s")
    print(f"  npudiag / cat: {took / base:.1f} (best), {middle:.1f} (median of {options.repeat} pairs)")
    print(f"  peak PSS {memory:.0f} MB ({samples} samples)")
    print(f"  named: {root['code']} {root['name']}, ranks {root['scope']['ranks']}, dead is {options.dead}")
    return int(root["scope"]["ranks"] != [options.dead])


if __name__ == "__main__":
    sys.exit(main())
