"""Counters of the cards' network ports, sampled into CSV by an environment check (``npu_0_details.csv``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from npudiag.parsers.metrics.base import Extractor, Sample, Sink, number
from npudiag.parsers.prefixes import Peeled

_DEVICE = "npu_index"
_FACTS = {
    "roce_rx_err_pkt_num": "rx_errors",
    "roce_tx_err_pkt_num": "tx_errors",
    "mac_rx_pfc_pkt_num": "rx_pfc",
    "mac_tx_pfc_pkt_num": "tx_pfc",
}
"""Column to the fact that says by how much it grew; a count goes on from one job to the next."""


@dataclass(slots=True)
class _Counter:
    """A counter of one port: where it stood first, and where it stands."""

    first: float
    now: float
    line: int
    raw: str


class PortCounters(Extractor):
    """Rows of counters below their header; what they grew by is known at the end."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "timestamp,npu_index,report_time,host_ip,mac_tx_pfc_pkt_num,mac_rx_pfc_pkt_num,roce_rx_err_pkt_num,"
            "roce_tx_err_pkt_num\n"
            "1767935036,0,2026/1/9 3:17,10.0.0.7,12,1000500,3,0\n"
            "1767935038,0,2026/1/9 3:17,10.0.0.7,12,1000750,10,0\n",
            "host_facts",
            (
                {"area": "hccn", "name": "rx_errors", "value": "10", "number": 7.0, "device": 0, "line": 3},
                {"name": "tx_errors", "number": 0.0},
                {"name": "rx_pfc", "value": "1000750", "number": 250.0},
                {"name": "tx_pfc", "number": 0.0},
            ),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._counters: dict[tuple[int, str], _Counter] = {}

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Begin a list with a header."""
        names = [name.strip() for name in text.split(",")]
        if _DEVICE not in names:
            return False

        def row(at: int, line: str) -> bool:
            cells = line.split(",")
            if len(cells) != len(names):
                return False
            told = dict(zip(names, cells, strict=True))
            device = number(told[_DEVICE])
            if device is None or not 0 <= device < 1 << 20:
                return False
            for column, fact in _FACTS.items():
                value = number(told.get(column))
                if value is not None and value == value:
                    self._count((int(device), fact), value, at)
            return True

        self.sink.follow[(peeled.worker, peeled.rank, peeled.pid)] = row
        return False

    def _count(self, key: tuple[int, str], value: float, line: int) -> None:
        known = self._counters.get(key)
        if known is None or value < known.now:
            # A restart of the machine begins at 0 again.
            self._counters[key] = _Counter(value, value, line, self.sink.raw)
        else:
            known.now, known.line, known.raw = value, line, self.sink.raw

    def finish(self) -> None:
        """Say by how much each counter grew."""
        for (device, name), counter in self._counters.items():
            self.sink.raw = counter.raw
            self.sink.add(
                "host_facts",
                {
                    "line": counter.line, "area": "hccn", "name": name, "value": f"{counter.now:.0f}",
                    "number": counter.now - counter.first, "device": device,
                },
            )  # fmt: skip
