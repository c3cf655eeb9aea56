"""Pairs of runs that differ in one thing, with script, log and profile: for comparisons."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta

from _gen.launches import script
from _gen.profiles import Plan, Simulation, split, write_text
from _gen.shapes import Folder

_PLAN = Plan(seed="pair", ranks=2, layers=2, steps=2, transfer_us=2600.0)


def run(
    plan: Plan = _PLAN,
    *,
    cards: int = 8,
    batch: int = 64,
    changed: dict[str, tuple[str, str] | None] | None = None,
    exports: tuple[str, ...] = (),
    exponent: float = 0.0,
    drift_from: int | None = None,
    steps: int = 200,
    profile: bool = True,
) -> Folder:
    """Return a run: launch script, training log, captures of the ranks of `plan`.

    Args:
        plan: What the profiler saw; the log's step time is that of its steps, and a little noise.
        cards: Cards of the job, whatever number was captured.
        batch: Samples per step.
        changed: Options of the script that differ from the usual ones.
        exports: Variables that the script sets.
        exponent: Adds 10 to the power of this to the noise of the loss; 0 leaves the loss as it is.
        drift_from: Step from which on the loss grows apart; None: never.
        steps: Steps of the log.
        profile: Whether there are captures.
    """
    folder = Folder()
    options = {"global-batch-size": ("global-batch-size", str(batch)), "sequence-parallel": None, **(changed or {})}
    master = "localhost" if cards <= 8 else "192.0.2.21"
    lines = script(nodes=cards // 8, master=master, tp=1, changed=options, exports=exports)
    folder.text("job/pretrain_demo_7b.sh", lines)
    simulation = Simulation(plan)
    took = [sum(_length(simulation, rank, step) for rank in simulation.ranks) for step in _steps(plan)]
    mean = sum(took) / len(took) / len(simulation.ranks) / 1e3
    folder.text("job/train.log", _log(mean, batch, exponent, drift_from, steps))
    if profile:
        write_text(simulation, folder)
        for path, data in folder.files.items():
            # Two ranks of all were captured.
            folder.files[path] = data.replace(b'"world_size": 2', f'"world_size": {cards}'.encode())
        for path in [path for path in folder.files if path.endswith(("trace_view.json", "communication_matrix.json"))]:
            del folder.files[path]
    return folder


def _steps(plan: Plan) -> range:
    return range(plan.first_step, plan.first_step + plan.steps)


def _length(simulation: Simulation, rank: object, step: int) -> float:
    return split(rank, step).span  # type: ignore[arg-type]


def _log(mean_ms: float, batch: int, exponent: float, drift_from: int | None, steps: int) -> list[str]:
    rnd, noise = random.Random("pair-log"), random.Random(f"pair-{exponent}")
    now = datetime(2026, 6, 3, 7, 15, 2)
    lines = []
    for number in range(1, steps + 1):
        took = mean_ms * (6.0 if number == 1 else 1 + 0.006 * (rnd.random() - 0.5))
        now += timedelta(milliseconds=took)
        loss = 2.2 + 8.0 / (1 + 0.08 * number * batch / 64) + 0.01 * rnd.gauss(0, 1)
        if exponent:
            loss += 10**exponent * noise.gauss(0, 1)
        if drift_from is not None and number >= drift_from:
            loss += 0.02 * (number - drift_from + 1)
        lines.append(
            f" [{now:%Y-%m-%d %H:%M:%S}] iteration {number:8d}/{steps:8d} | consumed samples: {number * batch:12d} | "
            f"elapsed time per iteration (ms): {took:.2f} | learning rate: 1.250000E-06 | "
            f"global batch size: {batch:5d} | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: 0.812 | "
            "number of skipped iterations:   0 | number of nan iterations:   0 |"
        )
    return lines


def overlap() -> tuple[Folder, Folder]:
    """The same job with and without reducing gradients under the backward pass."""
    return run(), run(replace(_PLAN, overlap=False), changed={"overlap-grad-reduce": None})


def scaling() -> tuple[Folder, Folder]:
    """The same job on 8 and on 16 cards: twice the batch, and slower reductions."""
    return run(batch=64), run(replace(_PLAN, transfer_us=5200.0), cards=16, batch=128)


def losses() -> tuple[Folder, Folder]:
    """The same job twice; in the second the loss drifts away from step 120 on."""
    return run(profile=False), run(profile=False, exponent=-2.5, drift_from=120)
