"""Runs of npudiag for the tests of the gate, and logs to judge."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_logs"
_CI = ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "CI_PROJECT_DIR", "NPUDIAG_CONFIG")


def fault(chip: int = 2, pid: int = 4711, minute: int = 4, code: str = "0x200000000") -> str:
    """Return the record of an AI Core exception."""
    return (
        f"[ERROR] RUNTIME({pid},python3):2026-01-02-03:{minute:02d}:05.123.456 [device_error_proc.cc:1434]{pid + 1} "
        f"ProcessStarsCoreErrorInfo:The error from device(chipId:{chip}, dieId:0), serial number is 3, there is an "
        f"aivec error exception, core id is 16, error code = {code}, dump info: pc start: 0x12c0c002e000, current: "
        "0x12c0c002e5e8, vec error info: 0x51, mte error info: 0xb9, ifu error info: 0x29, ccu error info: 0xc7, cube "
        "error info: 0, biu error info: 0, aic error mask: 0x65, para base: 0x12c1.\n"
    )


def quiet(pid: int = 4711) -> str:
    """Return a harmless record."""
    return f"[INFO] HCCL({pid},python3):2026-01-02-03:04:05.123.456 [a.cc:1][{pid}]all is well\n"


def write_job(folder: Path, text: str, *, node: str = "worker-0", pid: int = 4711) -> Path:
    """Write the plog of one process."""
    log = folder / node / "debug" / "plog" / f"plog-{pid}_20260102030405678.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text, encoding="utf-8")
    return folder


def npudiag(
    *args: object, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user would, outside any pipeline unless `env` says otherwise."""
    clean = {name: value for name, value in os.environ.items() if name not in _CI}
    done = subprocess.run(
        [sys.executable, "-m", "npudiag", *map(str, args)],
        capture_output=True,
        encoding="utf-8",
        cwd=cwd,
        env={**clean, "NPUDIAG_LANG": "en", **(env or {})},
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done
