"""Latency of requests: the result of a serving benchmark, and lines that tell TTFT or TPOT of one request.

A line about one request is taken only where it names the unit: milliseconds and seconds look alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from npudiag.parsers.metrics.base import Extractor, Sample, Sink, number
from npudiag.parsers.prefixes import Peeled

_FIELD = re.compile(r"\s*([A-Z][\w .()/]+?): +(-?[\d.]+|inf|nan)\s*\Z")
_MEDIANS: dict[str, str] = {
    "Median TTFT (ms)": "ttft_ms",
    "Median TPOT (ms)": "tpot_ms",
    "Output token throughput (tok/s)": "generation_tps",
}
_LINES = 60


class BenchmarkResult(Extractor):
    """The table that vLLM's and SGLang's benchmark prints at its end; medians go to ``serving``, all to its events."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "============ Serving Benchmark Result ============\n"
            "Successful requests:                     100       \n"
            "Output token throughput (tok/s):         440.60    \n"
            "---------------Time to First Token----------------\n"
            "Mean TTFT (ms):                          512.10    \n"
            "Median TTFT (ms):                        480.20    \n"
            "P99 TTFT (ms):                           1023.40   \n"
            "-----Time per Output Token (excl. 1st token)------\n"
            "Median TPOT (ms):                        33.90     \n"
            "==================================================\n"
            "Mean TTFT (ms):                          1.0\n",
            "serving",
            (
                {
                    "line": 1,
                    "framework": "benchmark",
                    "ttft_ms": 480.2,
                    "tpot_ms": 33.9,
                    "generation_tps": 440.6,
                },
            ),
        ),
        Sample(
            "============ Serving Benchmark Result ============\n"
            "P99 TTFT (ms):                           1023.40   \n"
            "Request rate configured (RPS):           inf\n",
            "serving_events",
            (
                {"kind": "benchmark", "name": "P99 TTFT (ms)", "value": 1023.4, "line": 2},
                {"name": "Request rate configured (RPS)"},
            ),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._open: dict[str, Any] = {}

    def read(self, number: int, text: str, peeled: Peeled) -> bool:
        """Begin a table."""
        self.finish()
        self._open = {"line": number, "framework": "benchmark"}
        self.sink.follow[(peeled.worker, peeled.rank, peeled.pid)] = self._fields()
        return False

    def finish(self) -> None:
        """Take the table that is open."""
        if len(self._open) > 2:
            self.sink.add("serving", self._open)
        self._open = {}

    def _fields(self) -> Callable[[int, str], bool]:
        left = _LINES

        def line(at: int, text: str) -> bool:
            nonlocal left
            left -= 1
            if left < 0 or text.startswith("====="):
                self.finish()
                return False
            match = _FIELD.match(text)
            value = number(match[2]) if match else None
            if match and value is not None:
                name = match[1].strip()
                self.sink.add("serving_events", {"line": at, "kind": "benchmark", "name": name, "value": value})
                if name in _MEDIANS:
                    self._open[_MEDIANS[name]] = value
            return True

        return line


_REQUEST = re.compile(
    r"(?i)\b(?P<what>ttft|tpot|first[_ ]token[_ ](?:time|latency)|time[_ ]per[_ ]output[_ ]token)"
    r"(?:[_ ]?\(?(?P<ahead>ms|s)\)?)?['\"]?\s*[:=]\s*(?P<value>\d+(?:\.\d+)?) ?(?P<behind>ms|s\b|seconds?\b)?"
)


_OF_MANY = re.compile(r"(?i)(?:mean|median|p\d\d?|std|avg|average|min|max|slo)[\s_:]*\Z")


class Requests(Extractor):
    """A line that tells the latency of one request with its unit."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "INFO 05-06 14:01:00 [serving.py:43] request chat-7 finished: ttft: 123.5 ms, tpot: 20.25 ms",
            "serving",
            ({"framework": "request", "ttft_ms": 123.5, "tpot_ms": 20.25},),
        ),
        Sample(
            '{"request_id": "chat-8", "first_token_time_ms": 250.0, "tpot_ms": 30}',
            "serving",
            ({"ttft_ms": 250.0, "tpot_ms": 30.0},),
        ),
        Sample("request chat-9: TTFT=1.25s", "serving", ({"ttft_ms": 1250.0, "tpot_ms": None},)),
        Sample("slo: ttft: 500, tpot: 50\nMean TTFT (ms): 480.2", "serving", ()),
    )

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Take what has a unit."""
        row: dict[str, Any] = {}
        for match in _REQUEST.finditer(text):
            unit = match["behind"] or match["ahead"]
            value = number(match["value"])
            if unit and value is not None and not _OF_MANY.search(text, 0, match.start()):
                what = match["what"].lower()
                name = "tpot_ms" if what == "tpot" or what.startswith("time") else "ttft_ms"
                row.setdefault(name, value if unit.lower() == "ms" else value * 1000.0)
        if not row:
            return False
        row |= {"line": number_, "framework": "request"}
        if peeled.worker:
            row["engine"] = peeled.worker
        time = self.sink.time_of(text, peeled, number_)
        if time is not None:
            row["time"] = time
        self.sink.add("serving", row)
        return False
