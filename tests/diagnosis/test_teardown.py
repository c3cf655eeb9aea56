"""What fails while processes go away is a note; what fails before, or goes on, is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from npudiag.analyze import run
from npudiag.engine.load import load_pack, shipped_pack
from npudiag.result import Finding

STEP = (
    " [2026-05-01 03:{minute:02d}:00] iteration {step:8d}/     100 | consumed samples:         1584 | "
    "elapsed time per iteration (ms): 1802.1 | learning rate: 1.000E-06 | global batch size:    16 | "
    "lm loss: 2.313212E+00 | loss scale: 1.0 | grad norm: 0.512 | number of skipped iterations:   0 | "
    "number of nan iterations:   0 |\n"
)
STEPS = "".join(STEP.format(minute=minute, step=97 + minute) for minute in range(4))
END = "[after training is done] datetime: 2026-05-01 03:04:03\n"
FAULT = (
    "[ERROR] ASCENDCL(311,python3):2026-05-01-{time}.100.200 [device.cpp:88]311 aclrtSetDevice: open device 0 "
    "failed, runtime result = 507899.\n"
)
LATE, EARLY = FAULT.format(time="03:04:30"), FAULT.format(time="03:01:30")


def found(folder: Path, **logs: str) -> Finding:
    for name, text in logs.items():
        (folder / f"{name.replace('_', '-')}.log").write_text(text)
    findings = run([str(folder)], load_pack([shipped_pack()])).findings
    return next(finding for finding in findings if finding.name == "driver-internal-error")


@pytest.mark.parametrize(
    "logs",
    [
        {"train": STEPS + END + LATE},
        {"train": STEPS + END, "plog_311_20260501030000000": LATE},
    ],
)
def test_after_the_end_of_the_training_it_is_a_note(tmp_path: Path, logs: dict[str, str]) -> None:
    told = found(tmp_path, **logs)
    assert (told.severity, told.status, told.impact.fatal) == ("info", "info", False)
    assert "had ended" in told.summary and "训练已经结束" in told.i18n["zh"]["summary"]


@pytest.mark.parametrize(
    "logs",
    [
        {"train": STEPS + LATE},
        {"train": STEPS + END, "plog_311_20260501030000000": EARLY},
        {"train": STEPS + END + LATE + STEPS},
    ],
)
def test_without_an_end_before_it_or_steps_behind_it_stands(tmp_path: Path, logs: dict[str, str]) -> None:
    assert found(tmp_path, **logs).severity == "error"
