"""Measure ``npudiag analyze`` against ``grep``, with its peak memory; no assertion, only numbers.

usage: python benchmarks/bench_analyze.py [DIR...] [--repeat N] [--rules-twice] [--startup]

Without DIR two trees are generated: 1 GB in 24 files with 5 % ERROR lines, and 200 MB of ERROR lines only. grep and
npudiag take turns, so that a noisy machine hits both. Memory is sampled in a run of its own: proportional set size
(PSS) summed over the process tree, so that shared pages count once.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shlex
import statistics
import string
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import yaml
from gen_slog import generate

ROOT = Path(__file__).resolve().parent.parent
PYTHON = (sys.executable, "-m", "npudiag")
BLOCK = """\
Traceback (most recent call last):
  File "/opt/job/pretrain.py", line 31, in main
    torch.distributed.all_reduce(grads)
RuntimeError: [1] HCCL error in: build/ProcessGroupHCCL.cpp:64, error code is 6
[ERROR] 2026-03-04-11:02:33 (PID:22011, Device:3, RankID:11) ERR02200 DIST call hccl api failed.
"""
"""What people paste into ``npudiag explain -``."""
MB = 1e6


def files_of(folder: Path) -> list[Path]:
    """Return all files below `folder`."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def warm(folder: Path) -> int:
    """Read every file once, so that all runs find it in the page cache; returns the number of bytes."""
    total = 0
    for path in files_of(folder):
        with path.open("rb", buffering=0) as file:
            while block := file.read(1 << 20):
                total += len(block)
    return total


def environment() -> dict[str, str]:
    """Return the environment of measured processes: the checkout comes first on the path."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "NO_COLOR": "1"}


def seconds(argv: Sequence[str]) -> float:
    """Run a command and return its wall time in seconds.

    Raises:
        SystemExit: The command failed; its last error lines are shown.
    """
    began = time.perf_counter()
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(), check=False)
    took = time.perf_counter() - began
    if done.returncode:
        tail = done.stderr.decode("utf-8", "replace")[-1500:]
        raise SystemExit(f"{shlex.join(argv)} ended with exit code {done.returncode}\n{tail}")
    return took


def analyze_argv(folder: Path, out: Path, rules: Path | None = None) -> list[str]:
    """Return the command that analyses `folder` into a JSON file."""
    extra = ["--rules", str(rules)] if rules else []
    return [*PYTHON, "analyze", str(folder), "--json", str(out), *extra]


def grep_argv(folder: Path) -> list[str]:
    """Return the command that npudiag is compared with."""
    return ["sh", "-c", f"grep -c -F ERROR -r {shlex.quote(str(folder))} | tail -1"]


def _tree_pss(root: psutil.Process) -> int:
    total = 0
    for process in (root, *root.children(recursive=True)):
        try:
            total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total


def peak_pss(argv: Sequence[str], interval_s: float = 0.05) -> tuple[float, int]:
    """Run a command and return the peak PSS of its process tree in MB, and the number of samples.

    PSS exists on Linux only; elsewhere the peak is 0.
    """
    peak, samples = 0, 0
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
    stop = threading.Event()

    def sample() -> None:
        nonlocal peak, samples
        try:
            root = psutil.Process(process.pid)
            while not stop.wait(interval_s):
                peak, samples = max(peak, _tree_pss(root)), samples + 1
        except (psutil.NoSuchProcess, AttributeError):
            return

    thread = threading.Thread(target=sample)
    thread.start()
    process.wait()
    stop.set()
    thread.join()
    return peak / MB, samples


def twist(literal: str) -> str:
    """Return a literal of the same length and kind that does not occur in the data: one letter is moved on."""
    for index in sorted(range(len(literal)), key=lambda i: abs(i - len(literal) // 2)):
        letter = literal[index]
        if letter.isascii() and letter.isalpha():
            other = chr((ord(letter) - (base := ord("a") if letter.islower() else ord("A")) + 7) % 26 + base)
            return literal[:index] + other + literal[index + 1 :]
    return literal + "q"


def _twist_signature(node: Any) -> Any:
    if isinstance(node, list):
        return [_twist_signature(item) for item in node]
    if not isinstance(node, dict):
        return node
    twisted: dict[str, Any] = {}
    for key, value in node.items():
        if key in ("any", "all") and isinstance(value, list):
            twisted[key] = [twist(str(literal)) for literal in value]
        elif key in ("near", "then", "cleared_by"):
            twisted[key] = _twist_signature(value)
        else:
            twisted[key] = value
    return twisted


def twin_pack(source: Path, target: Path) -> int:
    """Write a copy of a rule pack that looks for other words; returns the number of rules.

    Codes get other letters, names get a suffix and every literal is changed in one letter, so that the pack costs
    what as many new rules would cost.
    """
    rules = [(path, yaml.safe_load(path.read_text(encoding="utf-8"))) for path in sorted(source.rglob("*.yaml"))]
    # Python detectors are for the shipped pack alone; they and queries do not run where no metrics or captures are.
    rules = [
        (path, rule)
        for path, rule in rules
        if isinstance(rule, dict) and "detect" in rule and "python" not in rule["detect"]
    ]
    names = {rule["name"] for _, rule in rules}
    areas = sorted({rule["code"][:3] for _, rule in rules})
    free = ("".join(letters) for letters in itertools.product("QXZ", string.ascii_uppercase, string.ascii_uppercase))
    letters = dict(zip(areas, (prefix for prefix in free if prefix not in areas), strict=False))
    for path, rule in rules:
        rule["code"] = letters[rule["code"][:3]] + rule["code"][3:]
        rule["name"] += "-twin"
        rule["caused_by"] = [f"{name}-twin" for name in rule.get("caused_by", []) if name in names]
        if "signature" in rule["detect"]:
            rule["detect"]["signature"] = _twist_signature(rule["detect"]["signature"])
        for test in rule.get("tests", []):
            expect = test.get("expect")
            if isinstance(expect, dict) and "also" in expect:
                expect["also"] = [f"{name}-twin" for name in expect["also"] if name in names]
        other = target / path.relative_to(source).with_name(f"{rule['code']}-{rule['name']}.yaml")
        other.parent.mkdir(parents=True, exist_ok=True)
        # JSON is YAML with every text quoted; a bare 0e80 would come back as a number.
        other.write_text(json.dumps(rule, ensure_ascii=False, indent=1), encoding="utf-8")
    return len(rules)


def compare(folder: Path, repeat: int, scratch: Path) -> None:
    """Print throughput of grep and npudiag on `folder`, their ratio, and npudiag's peak memory."""
    size = warm(folder) / MB
    argv, grep = analyze_argv(folder, scratch / "result.json"), grep_argv(folder)
    seconds(argv)
    pairs = [(seconds(grep), seconds(argv)) for _ in range(repeat)]
    base, ours = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
    middle = statistics.median(pair[1] / pair[0] for pair in pairs)
    memory, samples = peak_pss(argv)
    print(f"{folder}: {size:.0f} MB, {len(files_of(folder))} files")
    print(f"  grep     best {base:7.3f} s  {size / base:8.0f} MB/s")
    print(f"  npudiag  best {ours:7.3f} s  {size / ours:8.0f} MB/s")
    print(f"  npudiag / grep: {ours / base:.2f} (best), {middle:.2f} (median of {repeat} pairs)")
    print(f"  peak PSS {memory:.0f} MB ({samples} samples)", flush=True)


def compare_rules(folder: Path, repeat: int, scratch: Path) -> None:
    """Print what twice as many rules cost on `folder`."""
    size = warm(folder) / MB
    twins = scratch / "twins"
    if not twins.exists():
        twin_pack(ROOT / "rules", twins)
    count = sum(1 for _ in twins.rglob("*.yaml"))
    once, twice = (analyze_argv(folder, scratch / f"{n}.json", rules) for n, rules in ((1, None), (2, twins)))
    for argv in (once, twice):
        seconds(argv)
    pairs = [(seconds(once), seconds(twice)) for _ in range(repeat)]
    one, two = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
    print(f"{folder}: {size:.0f} MB")
    print(f"  {count} rules {one:.3f} s, {2 * count} rules {two:.3f} s: {100 * (two / one - 1):+.1f} %", flush=True)


def startup(repeat: int, scratch: Path) -> None:
    """Print start-up times: an empty interpreter, ``--version``, a pasted block, and a log of 100 KB."""
    small = scratch / "small"
    generate(small, mb=0.1, files=1, error_ratio=0.05, fault_every=200)
    block = scratch / "block.txt"
    block.write_text(BLOCK)
    explain = f"{shlex.join([*PYTHON, 'explain', '-'])} < {shlex.quote(str(block))}"
    rows = (
        ("python -c pass", [sys.executable, "-c", "pass"]),
        ("npudiag --version", [*PYTHON, "--version"]),
        ("npudiag explain - < block", ["sh", "-c", explain]),
        ("npudiag analyze 100 KB --json", analyze_argv(small, scratch / "small.json")),
    )
    for _, argv in rows:
        seconds(argv)
    best = {name: min(seconds(argv) for _ in range(repeat)) for name, argv in rows}
    base = best[rows[0][0]]
    print(f"start-up, best of {repeat}, bytecode warm")
    for name, took in best.items():
        print(f"  {name:32s} {1000 * took:7.0f} ms   (+{1000 * (took - base):.0f} ms)")
    sys.stdout.flush()


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("dirs", nargs="*", type=Path, metavar="DIR", help="log trees; default: generate two")
    parser.add_argument("--repeat", type=int, default=3, help="measured runs of each command (default 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the generated trees, as a factor")
    parser.add_argument("--rules-twice", action="store_true", help="measure a rule pack of twice the size instead")
    parser.add_argument("--startup", action="store_true", help="measure start-up instead")
    parser.add_argument(
        "--keep", type=Path, help="generate into this folder and keep it; an existing tree is used again"
    )
    options = parser.parse_args(argv)
    if options.repeat < 1:
        parser.error("--repeat must be at least 1")
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory(prefix="npudiag-bench-") as name:
        scratch = Path(name)
        if options.startup:
            startup(max(options.repeat, 10), scratch)
            return 0
        folders = list(options.dirs)
        if not folders:
            base = options.keep or scratch
            for label, mb, files, ratio in (("mixed", 1000, 24, 0.05), ("errors", 200, 8, 1.0)):
                folder = base / re.sub(r"\W", "-", f"{label}-{mb * options.scale:g}MB")
                if not folder.exists():
                    generate(folder, mb=mb * options.scale, files=files, error_ratio=ratio)
                folders.append(folder)
        for folder in folders:
            (compare_rules if options.rules_twice else compare)(folder, options.repeat, scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
