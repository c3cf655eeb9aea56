"""Fuzz everything that reads input, for as long as you like.

usage: python benchmarks/fuzz.py [--minutes 5] [--target NAME] [--seed N]

What breaks a target, or keeps it busy for more than ten seconds, is kept under tests/fuzz/corpus and run by the tests
from then on. Prints how many inputs each target took; exits 1 when something broke.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.fuzz.mutate import mutated, seeds  # noqa: E402
from tests.fuzz.targets import TARGETS  # noqa: E402

SLOW_S = 10


class Hangs(Exception):
    """A target takes too long."""


def _late(*_: Any) -> None:
    raise Hangs(f"more than {SLOW_S} s")


def fuzz(name: str, seconds: float, seed: int) -> tuple[int, int]:
    """Run one target; return how many inputs it took and how many broke it."""
    target, inputs, chance = TARGETS[name], seeds(name), random.Random(seed)
    taken = broken = 0
    end = time.monotonic() + seconds
    known: set[str] = set()
    while time.monotonic() < end:
        data = mutated(chance, inputs)
        taken += 1
        signal.alarm(SLOW_S)
        try:
            target(data)
        except Exception as exc:
            signal.alarm(0)
            place = traceback.extract_tb(exc.__traceback__)[-1]
            mark = f"{type(exc).__name__} at {place.filename.rpartition('/')[2]}:{place.lineno}"
            if mark in known:
                continue
            known.add(mark)
            broken += 1
            path = ROOT / "tests" / "fuzz" / "corpus" / name / hashlib.blake2b(data, digest_size=6).hexdigest()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            print(f"{name}: {mark}: {str(exc)[:200]}\n  {path.relative_to(ROOT)}", flush=True)
        finally:
            signal.alarm(0)
    return taken, broken


def main() -> int:
    """Run the targets in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="in all")
    parser.add_argument("--target", choices=sorted(TARGETS), action="append")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    chosen = parser.parse_args()
    names = chosen.target or sorted(TARGETS)
    signal.signal(signal.SIGALRM, _late)
    total = 0
    for name in names:
        taken, broken = fuzz(name, 60 * chosen.minutes / len(names), chosen.seed)
        total += broken
        print(f"{name:12} {taken:7,} inputs, {broken} broke it (seed {chosen.seed})", flush=True)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
