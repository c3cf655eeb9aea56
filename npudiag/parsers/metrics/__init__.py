"""Numbers that training and serving logs print, taken out of the lines that hold them.

Each module knows one framework's lines and reads them by key, never by position. The console parser hands over
the lines in which a marker stands; what is found goes into column tables, and the text of a bounded number of
lines is kept so that a finding can quote them. A module is imported when one of its markers is met.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

from npudiag.parsers.metrics.base import Extractor, Key, Sample, Sink, worker_of
from npudiag.parsers.metrics.prepared import LEAST, Prepared
from npudiag.parsers.metrics.wrapped import Joiner, places, width
from npudiag.parsers.prefixes import Peeled

REGISTRY: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("megatron", "Iterations", ("elapsed time per iteration", "| consumed samples:")),
    (
        "companions",
        "Companions",
        (
            " loss at iteration ",
            " loss at the end of training",
            "across ranks (ms)",
            "time (ms) |",
            "memory (MB) |",
            "Theoretical memory footprints",
            "umber of parameters ",
            "saving checkpoint",
            "saved checkpoint",
            "loading checkpoint",
            "loaded checkpoint",
            " ...... ",
            "....... ",
            "] datetime: ",
            "training is done",
            "exiting program",
            "raining completed",
            "raining finished",
        ),
    ),
    # A dictionary may stand behind the bar of its step.
    ("progress", "ProgressBars", ("s/it", "it/s", "iter/s", "s/step", "step/s", "steps/s", "s/batch", "batch/s")),
    ("hf", "Dictionaries", ("'loss': ", "'eval_loss': ", "'train_runtime': ")),
    ("hf", "TrainerLog", ('"current_steps"', '"global_step/max_steps"', '"train_speed(s/it)"')),
    ("hf", "TrainerState", ('"log_history"',)),
    ("deepspeed", "DeepSpeed", ("CurrSamplesPerSec=", ", skipped=", "OVERFLOW! Rank")),
    ("mindformers", "MindFormers", ("per_step_time:", ", loss is ", ", loss:[", "loss scale adjust to ")),
    ("mmengine", "MmEngine", ("data_time: ",)),
    ("verl", "Verl", ("step:",)),
    ("verl", "MindSpeedRl", ("timing/", "grpo/", "e2e_tps")),
    ("torchtitan", "TorchTitan", ("  loss:",)),
    ("vllm", "Vllm", ("Avg prompt throughput:",)),
    ("vllm", "Limits", ("KV cache size:", "Maximum concurrency for", "num_gpu_blocks is:", "SpecDecoding metrics:")),
    (
        "prometheus",
        "Prometheus",
        ("vllm:num_", "vllm:kv_", "vllm:gpu_", "vllm:prefix_", "_seconds_sum{", "_seconds_count{"),
    ),
    ("sglang", "SgLang", ("#running-req:",)),
    ("latency", "BenchmarkResult", ("Serving Benchmark Result",)),
    ("latency", "Requests", ("ttft", "TTFT", "first_token_time", "first token time")),
    ("mindie", "MindIe", ("running size:", "CumulativePreemptionNum:")),
    ("elastic", "WorkerFailures", ("Failures:", "Root Cause (first observed failure)", "failed (exitcode: ")),
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
            "AFFINITY_CONF=",
            "MEMORY_REUSE=",
            "VISIBLE_DEVICES=",
            "NAN_MODE_ENABLE=",
            "EXPANSION_MODE=",
            "HCCL_DETERMINISTIC=",
            "HCCL_RDMA_TC=",
            "HCCL_RDMA_SL=",
            "HCCL_ALGO=",
        ),
    ),
    ("arguments", "ServeArguments", ("non-default args: {",)),
    (
        "tools",
        "Conversion",
        (
            "Arguments: Namespace(",
            "as the loader.",
            "Converting the weights of",
            "Saving to ",
            "time-consuming",
            "saved checkpoint from",
        ),
    ),
    (
        "tools",
        "Preprocessing",
        (
            "building dataset: ",
            "Vocab size: ",
            "Output prefix: ",
            "Time to startup:",
            "docs/s",
            "exceeded seq-length(",
            "lengthy example with length",
            "Sequence length ",
            "valid_num = ",
            "new samples num :",
        ),
    ),
    (
        "vendor",
        "VendorTools",
        (
            "hccn_tool -",
            "npu-smi info -t ",
            "npu-smi info -i ",
            "lspci",
            "Process memory(MB)",
            "version.info",
            "_install.info",
            "/etc/hccn.conf",
            "pip list",
            "npudiag: tool ",
        ),
    ),
    ("ports", "PortCounters", ("roce_rx_err_pkt_num,",)),
    (
        "npu_smi",
        "NpuSmi",
        ("| Bus-Id", "NpuID(Idx)", "dev_id,", "device,", "device_id,", "npu_id,", "npu_index,", "NPU,"),
    ),
)
"""Module, class and markers of every extractor, the most frequent kinds of line first."""

_LONG = frozenset(
    index
    for index, (_, name, _) in enumerate(REGISTRY)
    if name
    in (
        "Iterations", "Dictionaries", "TrainerLog", "DeepSpeed", "MindFormers", "MmEngine", "Verl", "MindSpeedRl",
        "TorchTitan", "Vllm", "SgLang", "MindIe", "Requests",
    )
)  # fmt: skip
"""Kinds whose lines stand for themselves and may have been cut; others read tables and blocks."""
_SMALL = 1 << 18
"""Bytes below which making a database costs more than it saves."""
_BARE: Key = (None, None, None)
_RUN = 8
"""Lines from which on a run of them is worth taking at once."""
_MARKERS = tuple(
    (marker, marker.encode(), index) for index, (_, _, markers) in enumerate(REGISTRY) for marker in markers
)


MARKERS = tuple(raw for _, raw, _ in _MARKERS)
"""Every marker; a line without any of them holds no metric, unless it goes on with the line above."""


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


def _try(take: Callable[..., bool], *line: Any) -> bool:
    """Offer a line to somebody; one with numbers that no computer holds is no line of ours."""
    try:
        return take(*line)
    except (ValueError, OverflowError):
        return False


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
        self._width = -1
        self._joiner: Joiner | None = None
        self._ahead: Prepared | None = None
        self._places: dict[str, int] = {}

    def batch(self, data: bytes) -> None:
        """Look which markers stand in the next lines at all, and once at which width they were cut."""
        found = _present(data)
        self._asked = [(marker, index) for marker, _, index in _MARKERS if marker in found] if found else []
        self.active = bool(self._asked or self.sink.follow)
        self._prepare(data)
        if self._width < 0 and found:
            long = [(marker, index) for marker, index in self._asked if index in _LONG]
            self._width = width(data.decode("utf-8", "replace").split("\n"), long)

    def _prepare(self, data: bytes) -> None:
        """Read lines built alike all at once, where their kind is known by now."""
        self.sink.put_prepared()
        self._ahead, self._places = None, {}
        kinds = {index for _, index in self._asked}
        if not kinds or data.count(b"\n") < LEAST:
            return
        for index in sorted(kinds & self._made.keys()):
            prepared = self._made[index].prepare(data.decode("utf-8", "surrogatepass"))
            if prepared is not None:
                self._ahead, self._places = prepared, prepared.places
                return

    def runs(self, batch: Sequence[tuple[int, str]], asked_for: Container[int]) -> list[tuple[int, int]]:
        """Return where lines of the batch stand that were all read ahead: first and one behind the last of each run.

        Args:
            batch: Number and text of each line.
            asked_for: Lines of the batch that somebody else wants to see.
        """
        places = self._places
        if not places:
            return []
        found: list[tuple[int, int]] = []
        first = -1
        for at, (_, text) in enumerate(batch):
            # A prefix would name a process, and each has an order of its own.
            if text in places and text[0] == " " and at not in asked_for:
                if first < 0:
                    first = at
            elif first >= 0:
                found.append((first, at))
                first = -1
        if first >= 0:
            found.append((first, len(batch)))
        return [(start, stop) for start, stop in found if stop - start >= _RUN]

    def take_run(self, lines: Sequence[tuple[int, str]]) -> Sequence[int] | None:
        """Take lines of a run; returns their times in microseconds since 1970, None where they have none."""
        if self._ahead is None:
            return None
        rows = [self._places[text] for _, text in lines]
        self.sink.add_run(self._ahead, rows, lines)
        times = self._ahead.columns.get("time")
        return None if times is None else [int(times[row]) for row in rows]

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
                if not _try(follower, number, text) and sink.follow.get(key) is follower:
                    del sink.follow[key]
                if self._joiner is not None and self._joiner.last == number:
                    return False
        row = self._places.get(raw)
        if row is not None and self._ahead is not None:
            sink.add_prepared(self._ahead, row, number, worker_of(peeled))
            return True
        done = -1
        whole = False
        cut: list[Callable[[int, str, Peeled], bool]] | None = [] if len(raw) == self._width else None
        for marker, index in self._asked:
            if index != done and marker in text:
                done = index
                read = self._readers.get(index)
                if read is None:
                    module, name, _ = REGISTRY[index]
                    made = self._made[index] = extractor(module, name)(sink)
                    read = self._readers[index] = made.read
                if cut is not None and index in _LONG:
                    cut.append(partial(_try, read))
                    continue
                before = len(sink.follow)
                whole |= _try(read, number, text, peeled)
                if len(sink.follow) > before:
                    self._followed = ((peeled.worker, peeled.rank, peeled.pid), number)
        if cut:
            self._hold(number, text, peeled, cut)
        return whole

    def _hold(self, number: int, text: str, peeled: Peeled, readers: list[Callable[[int, str, Peeled], bool]]) -> None:
        """Wait for the rest of a line that was cut."""
        key: Key = (peeled.worker, peeled.rank, peeled.pid)
        known = places(text, self._asked)
        self._joiner = Joiner(self.sink, self._width, known, readers, number, text, peeled)
        self.sink.follow[key] = self._joiner.take
        self._followed = (key, number)

    def finish(self, year: int | None = None, written_us: int | None = None) -> None:
        """Take what is held back at the end of the input.

        Args:
            year: Year that stamps of the input tell, None where none does.
            written_us: When the input was last written, microseconds since 1970.
        """
        if self._joiner is not None:
            self._joiner.give()
        for made in self._made.values():
            made.finish()
        self.sink.finish(year, written_us)


def extractors() -> Iterator[type[Extractor]]:
    """Yield every extractor's class."""
    for module, name, _ in REGISTRY:
        yield extractor(module, name)


__all__ = ["REGISTRY", "Extractor", "Metrics", "Sample", "Sink", "extractors"]
