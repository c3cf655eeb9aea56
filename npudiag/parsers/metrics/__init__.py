"""Numbers that training and serving logs print, taken out of the lines that hold them.

Each module knows one framework's lines and reads them by key, never by position. The console parser hands over
the lines in which a marker stands; what is found goes into column tables, and the text of a bounded number of
lines is kept so that a finding can quote them. A module is imported when one of its markers is met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any

from npudiag.parsers.metrics.base import Extractor, Key, Sample, Sink
from npudiag.parsers.prefixes import Peeled

REGISTRY: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("megatron", "Iterations", ("elapsed time per iteration", "| consumed samples:")),
    (
        "megatron",
        "Companions",
        (
            " loss at iteration ",
            "across ranks (ms)",
            "time (ms) |",
            "memory (MB) |",
            "saving checkpoint",
            "saved checkpoint",
            "loading checkpoint",
            "loaded checkpoint",
            " ...... ",
            "....... ",
            "training is done",
            "exiting program",
            "raining completed",
            "raining finished",
        ),
    ),
    ("hf", "Dictionaries", ("'loss': ", "'eval_loss': ", "'train_runtime': ")),
    ("hf", "ProgressBars", ("s/it", "it/s")),
    ("hf", "TrainerLog", ('"current_steps"', '"global_step/max_steps"')),
    ("hf", "TrainerState", ('"log_history"',)),
    ("deepspeed", "DeepSpeed", ("CurrSamplesPerSec=", ", skipped=", "OVERFLOW! Rank")),
    ("mindformers", "MindFormers", ("per_step_time:", ", loss is ")),
    ("verl", "Verl", ("step:",)),
    ("verl", "MindSpeedRl", ("timing/", "grpo/", "e2e_tps")),
    ("torchtitan", "TorchTitan", ("  loss:",)),
    ("vllm", "Vllm", ("Avg prompt throughput:",)),
    ("mindie", "MindIe", ("running size:", "CumulativePreemptionNum:")),
    ("arguments", "ArgumentDump", ("--- arguments ---",)),
    (
        "arguments",
        "Environment",
        (
            "+ export ",
            "declare -x ",
            "LAUNCH_BLOCKING=",
            "LOG_LEVEL=",
            "ALLOC_CONF=",
            "QUEUE_ENABLE=",
            "HCCL_CONNECT_TIMEOUT=",
            "HCCL_EXEC_TIMEOUT=",
            "HCCL_BUFFSIZE=",
            "MAX_CONNECTIONS=",
        ),
    ),
    ("arguments", "ServeArguments", ("non-default args: {",)),
    ("npu_smi", "NpuSmi", ("AICore(%)", "NpuID(Idx)", "dev_id,power", "dev_id,", "device,", "npu_id,", "NPU,")),
)
"""Module, class and markers of every extractor, the most frequent kinds of line first."""

_SMALL = 1 << 18
"""Bytes below which making a database costs more than it saves."""
_BARE: Key = (None, None, None)
_MARKERS = tuple(
    (marker, marker.encode(), index) for index, (_, _, markers) in enumerate(REGISTRY) for marker in markers
)


@lru_cache(maxsize=1)
def _database() -> Any:
    """Return a database that reports each marker once, None where Hyperscan is not installed."""
    try:
        import hyperscan
    except ImportError:
        return None
    database = hyperscan.Database()
    database.compile(
        expressions=[raw for _, raw, _ in _MARKERS],
        ids=list(range(len(_MARKERS))),
        elements=len(_MARKERS),
        flags=[hyperscan.HS_FLAG_SINGLEMATCH] * len(_MARKERS),
        literal=True,
    )
    return database


def _present(data: bytes) -> set[str]:
    """Return the markers that stand in `data`."""
    database = _database() if len(data) > _SMALL else None
    if database is None:
        return {marker for marker, raw, _ in _MARKERS if raw in data}
    found: set[str] = set()

    def matched(number: int, _start: int, _end: int, _flags: int, _context: object) -> None:
        found.add(_MARKERS[number][0])

    database.scan(data, match_event_handler=matched)
    return found


def extractor(module: str, name: str) -> type[Extractor]:
    """Return an extractor's class."""
    found: type[Extractor] = getattr(import_module(f"{__name__}.{module}"), name)
    return found


class Metrics:
    """The extractors of one parse.

    Attributes:
        sink: What they found so far.
        active: Whether any line of the present batch may concern them.
    """

    def __init__(self, year: int | None = None) -> None:
        self.sink = Sink(year)
        self.active = False
        self._made: dict[int, Extractor] = {}
        self._asked: list[tuple[str, int]] = []
        self._followed: tuple[Key, int] = (_BARE, -1)
        self._readers: dict[int, Callable[[int, str, Peeled], bool]] = {}

    def batch(self, data: bytes) -> None:
        """Look which markers stand in the next lines at all."""
        found = _present(data)
        self._asked = [(marker, index) for marker, _, index in _MARKERS if marker in found] if found else []
        self.active = bool(self._asked or self.sink.follow)

    def line(self, number: int, raw: str, peeled: Peeled) -> bool:
        """Offer a line; says whether it holds nothing but numbers that are now in a table."""
        sink = self.sink
        sink.raw = raw
        text = peeled.rest
        if sink.follow:
            key: Key = (peeled.worker, peeled.rank, peeled.pid)
            if key == _BARE and number == self._followed[1] + 1:
                # What a terminal wrapped has no prefix of its own.
                key = self._followed[0]
            follower = sink.follow.get(key)
            if follower is not None:
                self._followed = (key, number)
                if not follower(number, text) and sink.follow.get(key) is follower:
                    del sink.follow[key]
        done = -1
        whole = False
        for marker, index in self._asked:
            if index != done and marker in text:
                done = index
                read = self._readers.get(index)
                if read is None:
                    module, name, _ = REGISTRY[index]
                    made = self._made[index] = extractor(module, name)(sink)
                    read = self._readers[index] = made.read
                before = len(sink.follow)
                whole |= read(number, text, peeled)
                if len(sink.follow) > before:
                    self._followed = ((peeled.worker, peeled.rank, peeled.pid), number)
        return whole

    def finish(self) -> None:
        """Take what is held back at the end of the input."""
        for made in self._made.values():
            made.finish()
        self.sink.finish()


def extractors() -> Iterator[type[Extractor]]:
    """Yield every extractor's class."""
    for module, name, _ in REGISTRY:
        yield extractor(module, name)


__all__ = ["REGISTRY", "Extractor", "Metrics", "Sample", "Sink", "extractors"]
