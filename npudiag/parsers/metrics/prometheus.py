"""vLLM's metrics as its ``/metrics`` page gives them: one row per engine and copy of the page."""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar

from npudiag.parsers.metrics.base import Extractor, Sample, Sink, number
from npudiag.parsers.prefixes import Peeled

_LINE = re.compile(r"vllm:(?P<name>\w+)\{(?P<labels>[^}]*)\} +(?P<value>[-+\w.]+)")
_ENGINE = re.compile(r'\bengine="([^"]{0,80})"')
_GAUGES: dict[str, tuple[str, float]] = {
    "num_requests_running": ("running", 1.0),
    "num_requests_waiting": ("waiting", 1.0),
    "num_requests_swapped": ("swapped", 1.0),
    "kv_cache_usage_perc": ("kv_usage_pct", 100.0),
    "gpu_cache_usage_perc": ("kv_usage_pct", 100.0),
    "num_preemptions_total": ("preemptions", 1.0),
    "num_preemptions": ("preemptions", 1.0),
}
_RATIOS: dict[str, tuple[tuple[str, str], ...]] = {
    "prefix_hit_pct": (
        ("prefix_cache_hits_total", "prefix_cache_queries_total"),
        ("gpu_prefix_cache_hits_total", "gpu_prefix_cache_queries_total"),
    ),
    "ttft_ms": (("time_to_first_token_seconds_sum", "time_to_first_token_seconds_count"),),
    "tpot_ms": (
        ("time_per_output_token_seconds_sum", "time_per_output_token_seconds_count"),
        ("inter_token_latency_seconds_sum", "inter_token_latency_seconds_count"),
    ),
}
_SCALE = {"prefix_hit_pct": 100.0, "ttft_ms": 1000.0, "tpot_ms": 1000.0}
_WANTED = _GAUGES.keys() | {name for pairs in _RATIOS.values() for pair in pairs for name in pair}
_ENGINES = 256


class Prometheus(Extractor):
    """Gauges and counters; the averages are those since the start of the server."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "# TYPE vllm:num_requests_running gauge\n"
            'vllm:num_requests_running{engine="0",model_name="q"} 4.0\n'
            'vllm:num_requests_waiting{engine="0",model_name="q"} 2.0\n'
            'vllm:kv_cache_usage_perc{engine="0",model_name="q"} 0.82\n'
            'vllm:prefix_cache_queries_total{engine="0",model_name="q"} 1000.0\n'
            'vllm:prefix_cache_hits_total{engine="0",model_name="q"} 250.0\n'
            'vllm:num_preemptions_total{engine="0",model_name="q"} 3.0\n'
            'vllm:time_to_first_token_seconds_count{engine="0",model_name="q"} 25.0\n'
            'vllm:time_to_first_token_seconds_sum{engine="0",model_name="q"} 12.5\n'
            'vllm:num_requests_running{engine="0",model_name="q"} 5.0\n',
            "serving",
            (
                {
                    "line": 2,
                    "framework": "vllm",
                    "engine": "0",
                    "running": 4,
                    "waiting": 2,
                    "kv_usage_pct": 82.0,
                    "prefix_hit_pct": 25.0,
                    "preemptions": 3,
                    "ttft_ms": 500.0,
                },
                {"line": 10, "running": 5, "waiting": None},
            ),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._open: dict[str, tuple[int, str, dict[str, float]]] = {}

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Take one value; a name that comes again begins another copy of the page."""
        match = _LINE.match(text)
        value = number(match["value"]) if match else None
        if match is None or value is None or not math.isfinite(value) or match["name"] not in _WANTED:
            return False
        label = _ENGINE.search(match["labels"])
        engine = label[1] if label else ""
        held = self._open.get(engine)
        if held is not None and match["name"] in held[2]:
            self._give(engine)
            held = None
        if held is None:
            if len(self._open) >= _ENGINES:
                return False
            held = self._open[engine] = (number_, self.sink.raw, {})
        held[2][match["name"]] = value
        return False

    def finish(self) -> None:
        """Take the copies that are open."""
        for engine in list(self._open):
            self._give(engine)

    def _give(self, engine: str) -> None:
        line, raw, values = self._open.pop(engine)
        row: dict[str, Any] = {"line": line, "framework": "vllm"}
        if engine:
            row["engine"] = engine
        for name, (field, factor) in _GAUGES.items():
            if name in values:
                row[field] = values[name] * factor
        for field, pairs in _RATIOS.items():
            for over, under in pairs:
                if values.get(under) and over in values:
                    row[field] = values[over] / values[under] * _SCALE[field]
        for field in ("running", "waiting", "swapped", "preemptions"):
            if field in row:
                row[field] = int(row[field])
        now, self.sink.raw = self.sink.raw, raw
        self.sink.add("serving", row)
        self.sink.raw = now
