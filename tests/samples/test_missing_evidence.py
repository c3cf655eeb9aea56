"""Logs come incomplete, clocks are wrong: the rank that is named stays right, is not named, or is told with doubt."""

from __future__ import annotations

import datetime
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from npudiag.analyze import run
from npudiag.engine.load import load_pack, shipped_pack

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"
CASES = (
    "collective-order-mismatch",
    "collective-size-mismatch",
    "hccl-link-timeout-dead-peer",
    "hccl-notify-timeout-dead-peer",
    "pipeline-chain-dead-peer",
    "rank-never-started",
    "skewed-clocks",
    "slow-data-one-rank",
    "stuck-peer",
    "wrong-rank-table",
)
STAMP = re.compile(r"(?<!\d)(\d{4})([-/])(\d\d)\2(\d\d)([-T ])(\d\d):(\d\d):(\d\d)")


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def without_run_logs(folder: Path) -> None:
    for path in files(folder):
        if "run" in path.parts:
            path.unlink()


def console_only(folder: Path) -> None:
    for path in files(folder):
        if "plog" in path.parts:
            path.unlink()


def plogs_only(folder: Path) -> None:
    for path in files(folder):
        if "plog" not in path.parts:
            path.unlink()


def shuffled_file_times(folder: Path) -> None:
    for path in files(folder):
        time = 1.6e9 + random.Random(path.name).random() * 2e8
        os.utime(path, (time, time))


def one_host_ahead(folder: Path) -> None:
    def later(match: re.Match[str]) -> str:
        time = datetime.datetime(*(int(match[group]) for group in (1, 3, 4, 6, 7, 8)))  # type: ignore[arg-type]
        time += datetime.timedelta(hours=5)
        return time.strftime(f"%Y{match[2]}%m{match[2]}%d{match[5]}%H:%M:%S")

    host = sorted(path for path in folder.iterdir() if path.is_dir())[-1]
    for path in files(host):
        path.write_text(STAMP.sub(later, path.read_text(errors="replace")))


def first_rank_dropped(folder: Path) -> None:
    dropped = next(path.name.split("_")[0] for path in files(folder) if {"debug", "plog"} <= set(path.parts))
    for path in files(folder):
        if path.name.startswith(f"{dropped}_"):
            path.unlink()


CHANGES = (
    without_run_logs, console_only, plogs_only, shuffled_file_times, one_host_ahead, first_rank_dropped,
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", CASES)
def test_the_named_rank_is_right_or_doubted(name: str, change: Callable[[Path], None], tmp_path: Path) -> None:
    case = yaml.safe_load((SAMPLES / name / "case.yaml").read_text(encoding="utf-8"))
    (rank,) = case["expect"]["root"]["ranks"]
    logs = tmp_path / "logs"
    shutil.copytree(SAMPLES / name / case["input"], logs)
    change(logs)
    if not files(logs):
        pytest.skip("nothing is left of it")
    root = run([str(logs)], load_pack([shipped_pack()])).findings[0]
    if root.scope.ranks != [rank]:
        # Several that cannot be told apart hold the right one, and are no certainty.
        assert not root.scope.ranks or (rank in root.scope.ranks and root.confidence != "high"), root
