"""MindIE's scheduler lines."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from npudiag.parsers.metrics.base import Extractor, Sample, Sink
from npudiag.parsers.prefixes import Peeled

_SIZE = re.compile(r"(running|waiting|swapped) size: *(\d+)")
_RANK = re.compile(r"DP RankId: *(\d+)")
_PREEMPT = re.compile(r"CumulativePreemptionNum: *(\d+)")


class MindIe(Extractor):
    """Queue sizes and preemptions."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "[2026-06-30 20:36:02.906+08:00] [871] [875] [llm] [INFO] [scheduler.cpp:341] : [Scheduler|Schedule-"
            "scheduling] DP RankId: 1. After Backfill, running size:12; waiting size: 30; swapped size:2; batch size:8",
            "serving",
            ({"framework": "mindie", "engine": "1", "running": 12, "waiting": 30, "swapped": 2, "preemptions": None},),
        ),
        Sample(
            "[2026-06-30 20:36:03.100+08:00] [871] [875] [llm] [INFO] [fcfs_policy.cpp:476] : Preemption is triggered."
            " CumulativePreemptionNum:4; seqId: 7; requestId: 9; preempt mode:1; maxPreemptCount config:0; swapNum:0\n"
            "[2026-06-30 20:36:03.906+08:00] [871] [875] [llm] [INFO] [scheduler.cpp:341] : [Scheduler|Schedule-"
            "scheduling] DP RankId: 0. After Backfill, running size:12; waiting size: 30; swapped size:0; batch size:8",
            "serving",
            ({"running": 12, "preemptions": 4},),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._preemptions: int | None = None

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Take one scheduling round, with the preemptions counted so far."""
        if match := _PREEMPT.search(text):
            self._preemptions = int(match[1])
            return False
        sizes = {f"{name}": int(size) for name, size in _SIZE.findall(text)}
        if "running" not in sizes:
            return False
        row: dict[str, Any] = {"line": number_, "framework": "mindie", **sizes}
        if rank := _RANK.search(text):
            row["engine"] = rank[1]
        if self._preemptions is not None:
            row["preemptions"] = self._preemptions
        time = self.sink.time_of(text, peeled, number_)
        if time is not None:
            row["time"] = time
        self.sink.add("serving", row)
        return False
