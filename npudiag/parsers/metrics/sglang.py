"""SGLang's lines about batches: decodes tell speed, cache and queue; prefills tell the hits of the prefix cache."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from npudiag.parsers.metrics.base import Extractor, Sample, number
from npudiag.parsers.prefixes import Peeled

_RUNNING = re.compile(r"#running-req: (\d{1,9})")
_QUEUE = re.compile(r"#queue-req: (\d{1,9})")
_USAGE = re.compile(r"token usage: ([\d.]+)")
_SPEED = re.compile(r"gen throughput \(token/s\): ([\d.]+)")
_NEW = re.compile(r"#new-token: (\d{1,12}), #cached-token: (\d{1,12})")
_RANKS = re.compile(r"(?:DP|TP|PP|EP|CP)\d+(?: (?:DP|TP|PP|EP|CP)\d+)*")


class SgLang(Extractor):
    """``Decode batch. #running-req: 4, token usage: 0.12, gen throughput (token/s): 75.2, #queue-req: 0``."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "[2026-07-18 15:32:54 TP0] Decode batch. #running-req: 4, #token: 2266, token usage: 0.12, cuda graph:"
            " True, gen throughput (token/s): 75.25, #queue-req: 3",
            "serving",
            (
                {
                    "framework": "sglang",
                    "engine": "TP0",
                    "running": 4,
                    "waiting": 3,
                    "kv_usage_pct": 12.0,
                    "generation_tps": 75.25,
                    "time": 1784388774000000,
                },
            ),
        ),
        Sample(
            "[2026-07-18 15:32:55 DP0 TP0] Prefill batch. #new-seq: 1, #new-token: 300, #cached-token: 100, token"
            " usage: 0.50, #running-req: 2, #queue-req: 5,",
            "serving",
            (
                {
                    "engine": "DP0 TP0",
                    "running": 2,
                    "waiting": 5,
                    "kv_usage_pct": 50.0,
                    "prefix_hit_pct": 25.0,
                    "generation_tps": None,
                },
            ),
        ),
    )

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Take one batch."""
        running = _RUNNING.search(text)
        if running is None:
            return False
        row: dict[str, Any] = {"line": number_, "framework": "sglang", "running": int(running[1])}
        if queue := _QUEUE.search(text):
            row["waiting"] = int(queue[1])
        for pattern, name, factor in ((_USAGE, "kv_usage_pct", 100.0), (_SPEED, "generation_tps", 1.0)):
            found = pattern.search(text)
            value = number(found[1]) if found else None
            if value is not None:
                row[name] = value * factor
        if read := _NEW.search(text):
            fresh, cached = int(read[1]), int(read[2])
            row["prefix_hit_pct"] = 100.0 * cached / max(1, fresh + cached)
        ranks = _RANKS.search(peeled.worker or text.partition("]")[0])
        if ranks:
            row["engine"] = ranks[0]
        time = self.sink.time_of(text, peeled, number_)
        if time is not None:
            row["time"] = time
        self.sink.add("serving", row)
        return False
