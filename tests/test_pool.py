"""A task that dies or hangs costs itself only."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from npudiag.engine.load import load_pack, shipped_pack
from npudiag.pool import Failure, Pool, run_on

Task = list[str]


def work(words: Task) -> list[str]:
    """Do what the words say."""
    for word in words:
        if word == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "hang":
            time.sleep(600)
    return [word.upper() for word in words]


def make(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))


def halves(words: Task) -> list[Task]:
    middle = len(words) // 2
    return [words[:middle], words[middle:]] if middle else []


def run(tasks: list[Task], seconds: float = 60) -> tuple[list[str], list[tuple[Task, str]]]:
    done: list[str] = []
    failed: list[tuple[Task, str]] = []
    for task, outcome in Pool(make, work, lambda _: seconds, halves).run(tasks, 2):
        if isinstance(outcome, Failure):
            failed.append((task, outcome.reason))
        else:
            done += outcome
    return sorted(done), failed


def test_all_tasks_are_done() -> None:
    assert run([["a", "b"], ["c"], ["d"], ["e"]]) == (["A", "B", "C", "D", "E"], [])


def test_a_task_that_kills_its_process_is_found_out() -> None:
    done, failed = run([["a"], ["b", "die", "c"], ["d"], ["e"]])
    assert done == ["A", "B", "C", "D", "E"]
    assert failed == [(["die"], "crashed")]


def test_a_task_that_hangs_is_ended() -> None:
    done, failed = run([["hang", "a"], ["b"], ["c"]], seconds=4)
    assert done == ["A", "B", "C"]
    assert failed == [(["hang"], "timeout")]


class Odd(Executor):
    """Loses every other task, as a cluster may."""

    def __init__(self) -> None:
        self.count = 0

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        future: Future[list[str]] = Future()
        self.count += 1
        if self.count % 2:
            future.set_exception(RuntimeError("worker gone"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_an_executor_of_somebody_else_may_lose_tasks() -> None:
    told = sorted(run_on(Odd(), work, [["a"], ["b"]]))
    assert told[0][0] == ["a"] and isinstance(told[0][1], Failure) and "worker gone" in told[0][1].message
    assert told[1] == (["b"], ["B"])


@pytest.fixture
def many_logs(tmp_path: Path) -> Path:
    """Return a folder of which several tasks are made."""
    line = "[INFO] RUNTIME(4711,python):2026-01-02-03:04:05.123.456 [task.cc:12] all is well, and goes on so\n"
    for number in range(8):
        (tmp_path / f"plog-{4711 + number}_20260102030405123.log").write_text(line * 50_000)
    (tmp_path / "train.log").write_text("RuntimeError: something of torch_npu is wrong\n")
    return tmp_path


@pytest.fixture
def scheduler() -> Iterator[object]:
    """Start a Dask scheduler with two worker processes on the loopback address."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        yield cluster


def test_a_cluster_gives_the_same_even_if_it_loses_a_worker(scheduler: object, many_logs: Path) -> None:
    from npudiag.analyze import Options, analyze

    pack = load_pack([shipped_pack()])
    alone, _ = analyze([str(many_logs)], pack, Options(workers=1))
    address = scheduler.scheduler_address  # type: ignore[attr-defined]
    together, _ = analyze([str(many_logs)], pack, Options(scheduler=address))
    killed = False

    def kill(_done: int, _total: int) -> None:
        nonlocal killed
        if not killed:
            killed = True
            nanny = next(iter(scheduler.workers.values()))  # type: ignore[attr-defined]
            os.kill(nanny.pid, signal.SIGKILL)

    halved, _ = analyze([str(many_logs)], pack, Options(scheduler=address), progress=kill)
    assert killed
    for result in (together, halved):
        assert [finding.code for finding in result.findings] == [finding.code for finding in alone.findings]
        assert result.coverage.lines == alone.coverage.lines == 400_001
        assert not result.coverage.problems


def test_a_scheduler_that_is_not_there_is_a_wrong_usage(many_logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    from npudiag import cluster
    from npudiag.errors import UsageError

    monkeypatch.setattr(cluster, "_PATIENCE", "1s")
    with pytest.raises(UsageError, match="does not answer"), cluster.connected("tcp://127.0.0.1:9"):
        pass
