"""Measure the analysis of a long training log: a million Megatron iterations, about 350 MB in one file.

usage: python benchmarks/megatron_log.py [--steps 1000000] [--keep DIR] [--repeat 3] [--write-only]

The log holds what such a log holds: iteration lines with time stamps, timers at every hundredth, a validation and a
checkpoint at every thousandth, a loss spike, a slow stretch and a restart. The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from bench_analyze import MB, analyze_argv, peak_pss, seconds, warm

START = datetime(2026, 1, 5, 9, 0)
STEP_MS = 620.0
BATCH = 256
PIECE = 2000


def _iteration(step: int, steps: int, now: datetime, took: float, loss: float, norm: float, rate: float) -> str:
    return (
        f" [{now:%Y-%m-%d %H:%M:%S}] iteration {step:8d}/{steps:8d} | consumed samples: {step * BATCH:12d} | elapsed"
        f" time per iteration (ms): {took:.1f} | throughput per GPU (TFLOP/s/GPU): {83_000 / took:.1f} | learning rate:"
        f" {rate:.6E} | global batch size: {BATCH:5d} | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {norm:.3f} |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def _between(step: int, loss: float, rnd: random.Random) -> Iterator[str]:
    """Yield what is printed between two iterations."""
    if step % 100 == 0:
        yield "(min, max) time across ranks (ms):\n"
        for name, typical in (("forward-backward", 520.0), ("all-grads-sync", 40.0), ("optimizer", 25.0)):
            low = typical * (1 + 0.02 * rnd.random())
            yield f"    {name} {'.' * (47 - len(name))}: ({low:.2f}, {low * 1.04:.2f})\n"
    if step % 1000 == 0:
        value, perplexity = f"{loss:.6E}", f"{math.exp(loss):.6E}"
        text = f" validation loss at iteration {step} | lm loss value: {value} | lm loss PPL: {perplexity} | "
        rule = "-" * len(text)
        yield f"{rule}\n{text}\n{rule}\n"
        yield f"saving checkpoint at iteration {step:7d} to /data/ckpt in torch_dist format\n"
        yield f"  successfully saved checkpoint from iteration {step:7d} to /data/ckpt [ t 1/1, p 1/1 ]\n"


def write(out: Path, steps: int, seed: int = 1) -> int:
    """Write the log and return its size in bytes."""
    rnd = random.Random(seed)
    now = START
    broke_off = steps // 2 + min(437, steps // 10)
    order = [*range(1, broke_off + 1), *range(broke_off - broke_off % 1000 + 1, steps + 1)]
    pieces: list[str] = []
    with out.open("w", encoding="utf-8", newline="\n") as stream:
        for place, step in enumerate(order):
            loss = 1.9 + 8.0 * math.exp(-step / (0.02 * steps)) + rnd.gauss(0, 0.02)
            norm = 0.3 + 3.0 * math.exp(-step / (0.01 * steps)) + 0.05 * rnd.random()
            if step == 3 * steps // 4:
                loss, norm = 6.5, 480.0
            slow = 1.3 if 0.6 * steps < step < 0.63 * steps else 1.0
            took = STEP_MS * slow * (1 + 0.01 * rnd.random()) * (60 if place == 0 else 1)
            rate = 1e-4 * min(1.0, step / 2000) * (0.5 + 0.5 * math.cos(math.pi * step / steps))
            now += timedelta(milliseconds=took)
            pieces.append(_iteration(step, steps, now, took, loss, norm, rate))
            pieces.extend(_between(step, loss, rnd))
            if len(pieces) > PIECE:
                stream.write("".join(pieces))
                pieces.clear()
        stream.write("".join(pieces))
    return out.stat().st_size


def measure(log: Path, repeat: int, scratch: Path) -> None:
    """Analyse the log and print what it took."""
    argv = analyze_argv(log, scratch / "result.json")
    warm(log.parent)
    size = log.stat().st_size
    seconds(argv)
    took = [seconds(argv) for _ in range(repeat)]
    best, middle = min(took), statistics.median(took)
    peak, _ = peak_pss(argv)
    speed = size / MB / best
    print(f"{size / MB:.0f} MB: best {best:.2f} s ({speed:.1f} MB/s), median {middle:.2f} s; peak {peak:.0f} MB")
    found = json.loads((scratch / "result.json").read_text(encoding="utf-8"))
    print("stages:", {name: round(value, 2) for name, value in found["timings"].items()})
    for finding in found["findings"]:
        print(f"  {finding['code']} {finding['severity']}: {finding['title']}")


def main(argv: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--keep", type=Path, help="folder for the log; it is written once and used again")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--write-only", action="store_true", help="write the log and stop")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        folder = options.keep or scratch
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"megatron-{options.steps}.log"
        if not log.exists():
            print(f"writing {write(log, options.steps) / MB:.0f} MB")
        if not options.write_only:
            measure(log, options.repeat, scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
