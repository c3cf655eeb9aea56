"""Measure one big job from end to end: 1,024 ranks with process logs, step traces and communication of a profile.

usage: python benchmarks/whole_job.py [--ranks 1024] [--kb 200] [--parts 16] [--keep DIR]

One rank falls silent and one computes longer than the others; both must be named. Read once as a folder, and once as
files that `npudiag extract` wrote of its parts: the same must be found. Prints times, memory and report sizes; exits 1
where a rank is not named.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from bench_analyze import MB, analyze_argv, files_of, peak_pss, seconds, warm
from many_ranks import PER_NODE, ROOT
from many_ranks import generate as write_logs

sys.path.insert(0, str(ROOT / "sample_logs"))

from _gen import profiles
from _gen.profile_job import Plan, Simulation, host_name


def write_captures(out: Path, ranks: int, slow: int) -> int:
    """Write step trace and communication of every rank below `out`, by node; return the bytes."""
    simulation = Simulation(Plan(ranks=ranks, layers=2, slow_rank=slow, slow_factor=1.35, seed="whole"))
    total = 0
    for rank in simulation.ranks:
        capture = out / f"node-{rank.number // PER_NODE:03d}" / "profile" / host_name(rank)
        inner = capture / "ASCEND_PROFILER_OUTPUT"
        inner.mkdir(parents=True)
        texts = {
            capture / f"profiler_info_{rank.number}.json": json.dumps(profiles.info(rank)),
            inner / "step_trace_time.csv": "\n".join(profiles.rows_of_steps(rank)) + "\n",
            inner / "communication.json": json.dumps(profiles.communication(rank)),
        }
        for path, text in texts.items():
            total += path.write_text(text)
    return total


def named(document: Path) -> tuple[list[int], list[int]]:
    """Return the ranks of the root cause, and those that are said to be slow."""
    findings = json.loads(document.read_text(encoding="utf-8"))["findings"]
    slow = [rank for finding in findings if finding["name"] == "slow-rank" for rank in finding["scope"]["ranks"]]
    return findings[0]["scope"]["ranks"], slow


def main(argv: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--kb", type=int, default=200, help="process logs of one rank in kB")
    parser.add_argument("--parts", type=int, default=16, help="files to extract to")
    parser.add_argument("--keep", type=Path, help="generate into this folder and keep it; an existing tree is reused")
    chosen = parser.parse_args(argv)
    dead, slow = chosen.ranks * 3 // 5, chosen.ranks // 4 + 1
    with tempfile.TemporaryDirectory(prefix="npudiag-bench-") as name:
        scratch = Path(name)
        folder = (chosen.keep or scratch) / f"job-{chosen.ranks}x{chosen.kb}kB"
        if not folder.exists():
            write_logs(folder, ranks=chosen.ranks, kb=chosen.kb, dead=dead)
            write_captures(folder, chosen.ranks, slow)
        size = warm(folder) / MB
        print(
            f"{chosen.ranks} ranks, {len(files_of(folder)):,} files, {size:.0f} MB; rank {dead} is dead, {slow} is slow"
        )
        document, page = scratch / "result.json", scratch / "report.html"
        argv_whole = [*analyze_argv(folder, document), "--html", str(page)]
        took = seconds(argv_whole)
        memory, _ = peak_pss(argv_whole)
        print(f"  as a folder: {took:.2f} s, {size / took:.0f} MB/s, peak PSS {memory:.0f} MB")
        print(f"  report {page.stat().st_size / 1e6:.2f} MB, document {document.stat().st_size / 1e6:.2f} MB")
        whole = named(document)
        print(f"  root cause at ranks {whole[0]}, slow {whole[1]}")
        nodes = sorted(folder.iterdir())
        extracts = []
        begin = time.perf_counter()
        for part in range(chosen.parts):
            target = scratch / f"part{part:02d}.npd"
            mine = [str(node) for node in nodes[part :: chosen.parts]]
            if mine:
                seconds([sys.executable, "-m", "npudiag", "extract", *mine, "-o", str(target)])
                extracts.append(target)
        took = time.perf_counter() - begin
        small = sum(path.stat().st_size for path in extracts)
        print(f"  extracted to {len(extracts)} files: {took:.2f} s one after the other, {small / 1e6:.2f} MB")
        base = analyze_argv(extracts[0], document)
        at = base.index(str(extracts[0]))
        joined = [*base[:at], *map(str, extracts), *base[at + 1 :]]
        took = seconds(joined)
        memory, _ = peak_pss(joined)
        parts = named(document)
        print(f"  joined: {took:.2f} s, peak PSS {memory:.0f} MB, root cause at ranks {parts[0]}, slow {parts[1]}")
    return int(not (whole == parts == ([dead], [slow])))


if __name__ == "__main__":
    sys.exit(main())
