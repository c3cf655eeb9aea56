"""A trainer that slows down, then loses its numbers: what ``watch`` is shown with.

usage: python fake_trainer.py [--log FILE] [--steps 120] [--pace SECONDS] [--exit CODE]
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from pathlib import Path
from typing import TextIO

SLOW_FROM, NAN_FROM = 0.5, 0.8


def main() -> int:
    """Print iteration lines in the manner of Megatron."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--log")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--pace", type=float, default=0.02)
    parser.add_argument("--exit", type=int, default=0)
    chosen = parser.parse_args()
    out: TextIO = sys.stdout if chosen.log is None else Path(chosen.log).open("a", encoding="utf-8")  # noqa: SIM115
    now = datetime.datetime(2026, 1, 5, 9, 0)
    for step in range(1, chosen.steps + 1):
        slow = step > SLOW_FROM * chosen.steps
        took = 1300.0 if slow else 620.0
        now += datetime.timedelta(milliseconds=took)
        loss = "nan" if step > NAN_FROM * chosen.steps else f"{8.0 / (1 + step / 20):.6E}"
        norm = "nan" if loss == "nan" else "0.812"
        out.write(
            f" [{now:%Y-%m-%d %H:%M:%S}] iteration {step:8d}/{chosen.steps:8d} | consumed samples: {step * 256:12d} | "
            f"elapsed time per iteration (ms): {took + step % 7:.1f} | learning rate: 1.250000E-06 | "
            f"global batch size:   256 | lm loss: {loss} | loss scale: 1.0 | grad norm: {norm} | "
            "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        )
        out.flush()
        time.sleep(chosen.pace)
    if chosen.exit:
        print("RuntimeError: the trainer gives up", file=sys.stderr)
    return chosen.exit


if __name__ == "__main__":
    sys.exit(main())
