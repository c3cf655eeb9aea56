"""A healthy job stays healthy whatever words its log holds."""

from __future__ import annotations

import random
import sys
from functools import cache
from pathlib import Path

import pytest

from npudiag.engine.load import RulePack, load_pack

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import precision


@cache
def pack() -> RulePack:
    return load_pack()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("job", precision.HEALTHY)
def test_alarming_words_alone_raise_nothing(job: str, seed: int, tmp_path: Path) -> None:
    source = precision.ROOT / "sample_logs" / job / "logs"
    target = tmp_path / "job"
    precision.salt(source, target, random.Random(f"{job} {seed}"), 60)
    assert precision.alarms(target, pack()) == []


def test_salt_is_put_into_process_logs_and_consoles_alike() -> None:
    plog = "[INFO] HCCL(7,python3):2026-01-02-03:04:05.123.456 [a.cc:1] [7]ready"
    salted = precision.salted(plog, random.Random(1), 5).split("\n")
    assert len(salted) == 2
    assert salted[0] == plog
    assert salted[1].split(" ", 1)[0] in {"[INFO]", "[EVENT]", "[DEBUG]"}
    assert "(7,python3):2026-01-02-03:04:05.123.456 " in salted[1]
    assert len(precision.salted("step 1\nstep 2", random.Random(1), 5).split("\n")) == 4


def test_a_real_fault_among_the_salt_is_still_found(tmp_path: Path) -> None:
    source = precision.ROOT / "sample_logs" / "stuck-peer" / "logs"
    precision.salt(source, tmp_path / "job", random.Random(3), 20)
    found = precision.alarms(tmp_path / "job", pack())
    assert any("cluster" in text.lower() or "HCC102" in text for text in found)
