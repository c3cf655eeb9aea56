"""Run every benchmark and write the figures down.

usage: python benchmarks/all.py [--rival PYTHON] [--scale 1.0] [--only WORD] [--out benchmarks/BENCHMARKS.md]

Takes half an hour and 3 GB of disk for the inputs; meant for a quiet machine, by hand or at night. `--rival` names the
Python of an environment with msprof-analyze. What a benchmark prints is quoted as it is, so that nothing is lost or
made prettier; ratios hold better than seconds.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
LIBRARIES = ("numpy", "pandas", "duckdb", "hyperscan", "msgspec", "zstandard")
_LONGEST_S = 3600


def commands(rival: str | None, scale: float) -> list[tuple[str, list[str]]]:
    """Return what to run, with a heading for each."""
    mb = max(20, int(200 * scale))
    beside = ["--rival", rival] if rival else []
    return [
        ("Process logs, against grep", ["bench_analyze.py", "--scale", str(scale)]),
        ("Twice as many rules", ["bench_analyze.py", "--rules-twice", "--scale", str(scale)]),
        ("Start-up", ["bench_analyze.py", "--startup", "--repeat", "15"]),
        ("1,024 ranks of process logs, against cat", ["many_ranks.py"]),
        ("A training log of a million steps", ["megatron_log.py", "--steps", str(int(1_000_000 * scale))]),
        ("A profile of one rank", ["profiler.py", "--trace-mb", str(mb), *beside]),
        ("Profiles of 8 ranks", ["profiler.py", "--ranks", "8", "--trace-mb", str(mb), *beside]),
        (
            "Communication of 64 ranks",
            ["profiler.py", "--ranks", "64", "--kernels", "0", "--trace-mb", "0", "--comm-ops", "4000", *beside]
            + (["--rival-command", "cluster -m all"] if rival else []),
        ),
        (
            "1,024 ranks of step traces and communication",
            ["profiler.py", "--ranks", "1024", "--kernels", "0", "--trace-mb", "0", "--comm-ops", "400", "--scaling"],
        ),
        ("One job of 1,024 ranks from end to end", ["whole_job.py"]),
        ("Reports", ["report_size.py"]),
        ("Watching", ["watch_overhead.py"]),
    ]


def machine() -> list[str]:
    """Return what the figures were measured on."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    found = []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    return [
        f"- {len(os.sched_getaffinity(0))} cores ({model}), {memory:.0f} GiB, {platform.system()} {platform.machine()}",
        f"- CPython {platform.python_version()}, npudiag {version('npudiag')}, {', '.join(found)}",
    ]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rival", help="Python of an environment with msprof-analyze")
    parser.add_argument("--scale", type=float, default=1.0, help="of the generated inputs")
    parser.add_argument("--only", help="run those whose heading holds this word")
    parser.add_argument("--out", type=Path, default=HERE / "BENCHMARKS.md")
    chosen = parser.parse_args()
    lines = [
        "# Measured",
        "",
        f"By `python benchmarks/all.py`, {datetime.date.today()}; load {os.getloadavg()[0]:.1f} at the start.",
        "",
        *machine(),
        "",
    ]
    failed = 0
    for heading, words in commands(chosen.rival, chosen.scale):
        if chosen.only and chosen.only.lower() not in heading.lower():
            continue
        shown = " ".join(word if word != chosen.rival else "PYTHON" for word in words)
        print(f"== {heading}: {shown}", flush=True)
        begin = time.monotonic()
        try:
            done = subprocess.run(
                [sys.executable, str(HERE / words[0]), *words[1:]],
                cwd=ROOT, capture_output=True, text=True, timeout=_LONGEST_S, check=False,
            )  # fmt: skip
            said, code = done.stdout.rstrip() or done.stderr.rstrip()[-2000:], done.returncode
        except subprocess.TimeoutExpired:
            said, code = f"not over after {_LONGEST_S} s", 1
        failed += code != 0
        print(said, flush=True)
        lines += [f"## {heading}", "", f"`python benchmarks/{shown}`", "", "```text", said, "```", ""]
        if code:
            lines += [f"It ended with exit code {code}.", ""]
        print(f"   {time.monotonic() - begin:.0f} s", flush=True)
        chosen.out.write_text("\n".join(lines), encoding="utf-8")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
