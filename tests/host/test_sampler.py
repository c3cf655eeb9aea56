"""Samples: live ones add up, npu-smi is never waited for and costs no more than its share."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from vendor_outputs import FakeTools, info

from npudiag.host import counters
from npudiag.host.sampler import NPU_SHARE, NpuReader, Sampler, npu_rows, sample
from npudiag.parsers.scan import Literals
from npudiag.parsers.snapshot import HEADER
from npudiag.reading import texts
from npudiag.tables.schema import TABLES

pytestmark = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="no /proc")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTools:
    return FakeTools(tmp_path, monkeypatch)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def polled(reader: NpuReader, *, tries: int = 200) -> list[dict[str, object]]:
    for _ in range(tries):
        rows = reader.poll()
        if rows or reader.given_up:
            return rows
        time.sleep(0.02)
    return []


def test_readings_are_rows_of_the_tables_and_agree_with_psutil() -> None:
    with Sampler(os.getpid(), npu_smi="") as sampler:
        first = sampler.step().host
        time.sleep(0.05)
        second = sampler.step().host
    assert "cpu_pct" not in first
    assert 0 <= second["cpu_pct"] <= 100
    assert second["memory_total_mb"] == pytest.approx(psutil.virtual_memory().total / 2**20, rel=0.01)
    assert second["memory_used_mb"] < second["memory_total_mb"]
    assert second["job_processes"] >= 1
    assert second["job_rss_mb"] == pytest.approx(psutil.Process().memory_info().rss / 2**20, rel=0.3)
    assert second.keys() <= set(TABLES["host_samples"].names)


def test_the_job_is_a_process_and_its_descendants() -> None:
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=0)\n"
        "print(child.pid, flush=True)\n"
        "child.wait()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert {process.pid, child} <= set(counters.descendants(process.pid))
        assert os.getpid() not in counters.descendants(process.pid)
    finally:
        process.communicate(b"\n\n")
    assert counters.descendants(process.pid) == []


def test_a_job_that_ends_costs_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with Sampler(process.pid, npu_smi="") as sampler:
        assert sampler.step().host["job_processes"] == 1
        process.communicate(b"\n")
        assert sampler.step().host["job_processes"] == 0


def test_work_shows_as_cpu_time_of_the_job() -> None:
    with Sampler(os.getpid(), npu_smi="") as sampler:
        sampler.step()
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass
        assert sampler.step().host["job_cpu_pct"] > 5


def test_rows_written_down_are_read_back(tools: FakeTools) -> None:
    tools.machine()
    lines = [HEADER]
    with Sampler(os.getpid()) as sampler:
        for _ in range(100):
            reading = sampler.step()
            lines += reading.lines()
            if reading.npus:
                break
            time.sleep(0.02)
    partial = texts({"samples.txt": "\n".join(lines)}, Literals()).partials[0]
    assert partial.unparsed == 0
    hosts, npus = partial.columns["host_samples"], partial.columns["npu_samples"]
    assert hosts.size >= 1
    assert [row["device"] for row in npus.rows()] == [0, 1, 2, 3]
    assert all(row["time"] for row in npus.rows())


def test_npu_smi_runs_in_the_background_and_no_more_often_than_it_may_cost(tools: FakeTools) -> None:
    tools.script("npu-smi", f"#!/bin/sh\ncat <<'E'\n{info()}E\ni=0; while [ $i -lt 60000 ]; do i=$((i+1)); done\n")
    clock = Clock()
    reader = NpuReader(str(tools.bin / "npu-smi"), clock)
    assert reader.poll() == []
    assert len(polled(reader)) == 4
    wait = reader._next - clock.now
    assert wait > 1.0  # the loop takes some hundredths of a second: at half a per cent that is seconds
    assert reader.poll() == []
    assert reader._process is None
    clock.now += wait
    reader.poll()
    assert reader._process is not None
    reader.close()
    assert NPU_SHARE <= 0.005


def test_one_that_hangs_is_killed_and_given_up(tools: FakeTools) -> None:
    tools.script("npu-smi", "#!/bin/sh\nexec sleep 600\n")
    clock = Clock()
    reader = NpuReader(str(tools.bin / "npu-smi"), clock)
    for _ in range(3):
        reader.poll()
        process = reader._process
        assert process is not None
        clock.now += 21
        assert reader.poll() == []
        assert process.poll() is not None
        clock.now += 21
    assert reader.given_up
    reader.poll()
    assert reader._process is None


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho nothing\n", "#!/no/such/thing\n"])
def test_one_that_fails_is_given_up(tools: FakeTools, script: str) -> None:
    tools.script("npu-smi", script)
    clock = Clock()
    reader = NpuReader(str(tools.bin / "npu-smi"), clock)
    for _ in range(400):
        assert reader.poll() == []
        clock.now += 1
        if reader.given_up:
            return
        time.sleep(0.01)
    raise AssertionError("still asked")


def test_tables_are_read_and_nonsense_is_not() -> None:
    assert [row["device"] for row in npu_rows(info(2))] == [0, 1]
    assert npu_rows("no such device\n") == []


def test_sampling_stops_when_told() -> None:
    taken = 0

    def stop() -> bool:
        return taken >= 3

    with Sampler(npu_smi="") as sampler:
        for _ in sample(sampler, 0.0, stop):
            taken += 1
    assert taken == 3
