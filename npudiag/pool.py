"""Runs tasks in other processes: one that dies or hangs costs itself and no more."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Generic, TypeVar

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task has no outcome.

    Attributes:
        reason: ``crashed`` or ``timeout``.
        message: For people.
    """

    reason: str
    message: str


@dataclass(slots=True)
class Pool(Generic[Task, Outcome]):
    """Processes of this machine.

    Attributes:
        make: Returns an executor with so many processes.
        work: Runs in them; anything that can be pickled.
        seconds: How long a task may take.
        parts: Cuts a task that failed into smaller ones, to find out which of them it was; an empty list where it
            cannot be cut.
    """

    make: Callable[[int], ProcessPoolExecutor]
    work: Callable[[Task], Outcome]
    seconds: Callable[[Task], float]
    parts: Callable[[Task], list[Task]]

    def run(self, tasks: Sequence[Task], workers: int) -> Iterator[tuple[Task, Outcome | Failure]]:
        """Yield each task with its outcome, as they come."""
        waiting = list(reversed(tasks))
        suspects: list[Task] = []
        while waiting:
            yield from self._round(waiting, suspects, workers)
        # Those that ran when a process died: one by one, so that the guilty one is found.
        while suspects:
            task = suspects.pop()
            alone, again = [task], list[Task]()
            yield from self._round(alone, again, 1)
            if again:
                parts = self.parts(task)
                if parts:
                    suspects += reversed(parts)
                else:
                    yield task, Failure("crashed", "the process that read it died, for want of memory or of a fault")

    def _round(
        self, waiting: list[Task], suspects: list[Task], workers: int
    ) -> Iterator[tuple[Task, Outcome | Failure]]:
        """Work until all is done or a process died; what ran then goes to `suspects`."""
        executor = self.make(workers)
        running: dict[Future[Outcome], tuple[Task, float]] = {}
        late: Task | None = None
        whole = False
        try:
            while waiting or running:
                # No more than the processes can begin at once, so that the clock of each starts when it does.
                while waiting and len(running) < workers:
                    task = waiting[-1]
                    running[executor.submit(self.work, task)] = (task, time.monotonic() + self.seconds(task))
                    waiting.pop()
                first = min(limit for _, limit in running.values())
                done, _ = wait(running, max(first - time.monotonic(), 0.0), FIRST_COMPLETED)
                for future in done:
                    outcome = future.result()
                    yield running.pop(future)[0], outcome
                late = next((task for task, limit in running.values() if limit <= time.monotonic()), None)
                if late is not None:
                    break
            whole = late is None
        except BrokenProcessPool:
            suspects += [task for task, _ in running.values()]
            return
        finally:
            # Whoever stops early, be it at the user's wish, does not wait for what still runs.
            if not whole:
                _kill(executor)
            executor.shutdown(wait=whole, cancel_futures=True)
        if late is not None:
            waiting += [task for task, _ in running.values() if task is not late]
            parts = self.parts(late)
            if parts:
                waiting += parts
            else:
                yield late, Failure("timeout", f"reading it took more than {self.seconds(late):.0f} s")


def _kill(executor: ProcessPoolExecutor) -> None:
    """End the processes of a pool, whatever they are doing."""
    # There is no public way before Python 3.14.
    for process in list((executor._processes or {}).values()):
        with contextlib.suppress(OSError):
            process.kill()


def run_on(
    executor: Executor, work: Callable[[Task], Outcome], tasks: Sequence[Task]
) -> Iterator[tuple[Task, Outcome | Failure]]:
    """Yield each task with its outcome from an executor that looks after its workers itself, as a cluster's does."""
    futures = {executor.submit(work, task): task for task in tasks}
    for future in as_completed(futures):
        try:
            yield futures[future], future.result()
        except Exception as exc:
            # What a cluster raises for a lost worker is its own affair; the task is lost in any case.
            yield futures[future], Failure("crashed", f"the worker that read it was lost: {type(exc).__name__}: {exc}")
