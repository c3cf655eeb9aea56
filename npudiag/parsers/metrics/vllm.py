"""The statistics of vLLM, vllm-ascend and vllm-mindspore, engines V0 and V1, and what fits into their cache."""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar

from npudiag.parsers.metrics.base import Extractor, Sample, number
from npudiag.parsers.prefixes import Peeled

_PAIR = re.compile(r"([A-Z][A-Za-z ]+?): ([\d.]+|nan)(?: ?(%|tokens/s|reqs))?")
_ENGINE = re.compile(r"\bEngine (\d+):")
_FIELDS: dict[str, tuple[str, type]] = {
    "Avg prompt throughput": ("prompt_tps", float),
    "Avg generation throughput": ("generation_tps", float),
    "Avg gereration throughput": ("generation_tps", float),
    "Running": ("running", int),
    "Waiting": ("waiting", int),
    "Pending": ("waiting", int),
    "Swapped": ("swapped", int),
    "Preemptions": ("preemptions", int),
    "GPU KV cache usage": ("kv_usage_pct", float),
    "NPU KV cache usage": ("kv_usage_pct", float),
    "KV cache usage": ("kv_usage_pct", float),
    "Prefix cache hit rate": ("prefix_hit_pct", float),
    "Draft acceptance rate": ("acceptance_pct", float),
    "Avg Draft acceptance rate": ("acceptance_pct", float),
}


class Vllm(Extractor):
    """``Engine 000: Avg prompt throughput: .., Running: .. reqs, Waiting: .. reqs, GPU KV cache usage: ..%, ..``."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "(APIServer pid=1173) INFO 05-06 14:22:22 [loggers.py:259] Engine 000: Avg prompt throughput: 0.0 tokens/s,"
            " Avg generation throughput: 2.4 tokens/s, Running: 4 reqs, Waiting: 0 reqs, GPU KV cache usage: 82.7%,"
            " Prefix cache hit rate: 2.6%",
            "serving",
            (
                {
                    "engine": "000",
                    "running": 4,
                    "waiting": 0,
                    "kv_usage_pct": 82.7,
                    "prefix_hit_pct": 2.6,
                    "prompt_tps": 0.0,
                    "generation_tps": 2.4,
                    "framework": "vllm",
                },
            ),
        ),
        Sample(
            "INFO 07-24 09:55:30 metrics.py:334] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 2136.3"
            " tokens/s, Running: 247 reqs, Swapped: 0 reqs, Pending: 740 reqs, GPU KV cache usage: 99.7%, CPU KV cache"
            " usage: 0.0%",
            "serving",
            ({"waiting": 740, "swapped": 0, "kv_usage_pct": 99.7, "engine": None},),
        ),
        Sample(
            "INFO 08-06 09:37:16 [loggers.py:118] Engine 001: Avg prompt throughput: 69.7 tokens/s, Avg generation"
            " throughput: 18.3 tokens/s, Running: 5 reqs, Waiting: 2 reqs, Preemptions: 3, GPU KV cache usage: 21.9%,"
            " Prefix cache hit rate: 89.7%, External prefix cache hit rate: 5.0%",
            "serving",
            ({"preemptions": 3, "prefix_hit_pct": 89.7, "engine": "001"},),
        ),
    )

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Take one statistic."""
        row: dict[str, Any] = {"line": number_, "framework": "vllm"}
        start = text.find("Avg prompt throughput:")
        if engine := _ENGINE.search(text, 0, start):
            row["engine"] = engine[1]
        elif peeled.worker:
            row["engine"] = peeled.worker
        for key, value, _ in _PAIR.findall(text, start):
            field = _FIELDS.get(key)
            amount = number(value)
            if field is not None and amount is not None and math.isfinite(amount):
                row[field[0]] = field[1](amount)
        time = self.sink.time_of(text, peeled, number_)
        if time is not None:
            row["time"] = time
        self.sink.add("serving", row)
        return False


_SIZES = (
    (re.compile(r"KV cache size: ([\d,]+) tokens"), "cache-tokens"),
    (re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x"), "concurrency"),
    (re.compile(r"Maximum concurrency for ([\d,]+) tokens per request"), "request-tokens"),
    (re.compile(r"num_gpu_blocks is: (\d+)"), "cache-blocks"),
    (re.compile(r"[Dd]raft acceptance rate: ([\d.]+)%"), "acceptance-pct"),
    (re.compile(r"Mean acceptance length: ([\d.]+)"), "acceptance-length"),
)


class Limits(Extractor):
    """What fits into the KV cache, as the start of an engine says, and how many draft tokens are accepted."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "INFO 05-06 14:00:00 [kv_cache_utils.py:829] GPU KV cache size: 123,456 tokens\n"
            "INFO 05-06 14:00:01 [kv_cache_utils.py:833] Maximum concurrency for 32,768 tokens per request: 3.77x\n"
            "(EngineCore_DP1 pid=7) INFO 05-06 14:00:02 [core.py:9] Engine 001: vllm cache_config_info with"
            " initialization after num_gpu_blocks is: 964\n",
            "serving_events",
            (
                {"kind": "cache-tokens", "value": 123456.0, "line": 1},
                {"kind": "concurrency", "value": 3.77},
                {"kind": "request-tokens", "value": 32768.0},
                {"kind": "cache-blocks", "value": 964.0, "engine": "001"},
            ),
        ),
        Sample(
            "INFO 08-06 09:37:16 [metrics.py:86] SpecDecoding metrics: Mean acceptance length: 2.43, Accepted"
            " throughput: 10.00 tokens/s, Drafted throughput: 20.00 tokens/s, Accepted: 100 tokens, Drafted: 140"
            " tokens, Per-position acceptance rate: 0.9, 0.5, Avg Draft acceptance rate: 71.5%",
            "serving_events",
            ({"kind": "acceptance-pct", "value": 71.5}, {"kind": "acceptance-length", "value": 2.43}),
        ),
        Sample(
            "INFO 08-06 09:37:16 [metrics.py:86] SpecDecoding metrics: Draft acceptance rate: 64.0%, Mean acceptance"
            " length: 1.90, Accepted: 100 tokens, Drafted: 140 tokens",
            "serving_events",
            ({"kind": "acceptance-pct", "value": 64.0}, {"kind": "acceptance-length", "value": 1.9}),
        ),
    )

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Take every figure of the line."""
        found = [(kind, number(match[1])) for pattern, kind in _SIZES if (match := pattern.search(text))]
        if not found:
            return False
        row: dict[str, Any] = {"line": number_, "time": self.sink.time_of(text, peeled, number_)}
        engine = _ENGINE.search(text)
        if engine or peeled.worker:
            row["engine"] = engine[1] if engine else peeled.worker
        for kind, value in found:
            if value is not None:
                self.sink.add("serving_events", {**row, "kind": kind, "value": value})
        return False
