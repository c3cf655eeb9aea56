"""Pairs of runs on disk, written by the generator of the sample jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sample_logs"))

from generate import PAIRS, pairs  # noqa: E402 - only there once the folder is on the path

__all__ = ["PAIRS", "ROOT", "npudiag", "pairs", "write"]
_CI = ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "CI_PROJECT_DIR", "NPUDIAG_CONFIG")


def write(name: str, folder: Path) -> tuple[Path, Path]:
    """Write both runs of a pair; return where they are."""
    places = (folder / name / "before", folder / name / "after")
    for place, run in zip(places, PAIRS[name](), strict=True):
        run.write(place)
    return places


def npudiag(*args: object, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user would."""
    clean = {name: value for name, value in os.environ.items() if name not in _CI}
    done = subprocess.run(
        [sys.executable, "-m", "npudiag", *map(str, args)],
        capture_output=True,
        encoding="utf-8",
        cwd=cwd,
        env={**clean, "PYTHONPATH": str(ROOT), "NPUDIAG_LANG": "en", **(env or {})},
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done
