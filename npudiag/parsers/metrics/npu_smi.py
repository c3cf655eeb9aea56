"""npu-smi: the table of ``npu-smi info``, the rows of ``npu-smi info watch``, and CSV files made of either.

Tables differ from card to card (910, 910B, A3, 310); cells are cut at ``|`` and read by what they look like.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from npudiag.parsers import headers
from npudiag.parsers.metrics.base import Extractor, Sample, Sink, number
from npudiag.parsers.prefixes import Peeled

_HEALTH = ("OK", "Warning", "Alarm", "Critical", "UNKNOWN")
_BUS = re.compile(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]$|NA$")
_PAIR = re.compile(r"(\d+) */ *(\d+)")
_DATE = re.compile(r"(\d{4})[-/](\d\d?)[-/](\d\d?)[ T](\d\d?):(\d\d):(\d\d)")
_CSV: dict[str, str] = {
    "dev_id": "device",
    "device_id": "device",
    "device": "device",
    "npu_id": "device",
    "npu": "device",
    "npuid": "device",
    "power": "power_w",
    "pwr(w)": "power_w",
    "power(w)": "power_w",
    "freq": "clock_mhz",
    "aicore_freq": "clock_mhz",
    "temp": "temp_c",
    "temp(c)": "temp_c",
    "temperature": "temp_c",
    "util": "util_pct",
    "aicore": "util_pct",
    "aicore(%)": "util_pct",
    "aicore_util": "util_pct",
    "npu_util": "util_pct",
    "hbm_rate": "hbm_pct",
    "memory(%)": "hbm_pct",
    "hbm_used": "hbm_used_mb",
    "hbm_total": "hbm_total_mb",
    "health": "health",
    "time": "time",
    "timestamp": "time",
}
_WATCH: dict[str, str] = {
    "NpuID(Idx)": "device",
    "Pwr(W)": "power_w",
    "Temp(C)": "temp_c",
    "AI Core(%)": "util_pct",
    "Memory(%)": "hbm_pct",
    "HBM Usage(%)": "hbm_pct",
}


class NpuSmi(Extractor):
    """Readings of the cards."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|\n"
            "| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |\n"
            "+===========================+===============+====================================================+\n"
            "| 0     Ascend910           | Alarm         | 161.8       34                0    / 0             |\n"
            "| 0     0                   | 0000:9D:00.0  | 12          0    / 0          3165 / 65536         |\n"
            "+---------------------------+---------------+----------------------------------------------------+\n"
            "| 0     Ascend910           | OK            | -           36                0    / 0             |\n"
            "| 1     1                   | 0000:9F:00.0  | 0           0    / 0          2880 / 65536         |\n",
            "npu_samples",
            (
                {
                    "device": 0,
                    "power_w": 161.8,
                    "temp_c": 34.0,
                    "health": "Alarm",
                    "util_pct": 12.0,
                    "hbm_used_mb": 3165.0,
                    "hbm_total_mb": 65536.0,
                },
                {"device": 1, "power_w": None, "temp_c": 36.0, "util_pct": 0.0},
            ),
        ),
        Sample(
            "| NPU Name | Health | Power(W) Temp(C) Hugepages-Usage(page) |\n"
            "| Chip | Bus-Id | AICore(%) Memory-Usage(MB) HBM-Usage(MB) |\n"
            "| 4 910B4-1 | OK | 95.9 45 0 / 0 |\n| 0 | 0000:01:00.0 | 0 0 / 0 3404 / 65536 |\n",
            "npu_samples",
            ({"device": 4, "health": "OK", "hbm_used_mb": 3404.0, "util_pct": 0.0},),
        ),
        Sample(
            "| NPU  Name  | Health  | Power(W)  Temp(C)  Hugepages-Usage(page) |\n"
            "| Chip  Device  | Bus-Id  | AICore(%)  Memory-Usage(MB)  |\n"
            "| 8  310P3  | OK  | NA  51  0  / 0  |\n"
            "| 0  0  | 0000:86:00.0  | 35  1550 / 21534  |\n",
            "npu_samples",
            ({"util_pct": 35.0, "hbm_used_mb": 1550.0, "hbm_total_mb": 21534.0, "temp_c": 51.0},),
        ),
        Sample(
            "time,dev_id,power,freq,temp\n1670052523,0,69.6,1000,42\n1670052538,0,150.6,800,52\n",
            "npu_samples",
            (
                {"device": 0, "power_w": 69.6, "clock_mhz": 1000.0, "temp_c": 42.0, "time": 1670052523000000},
                {"clock_mhz": 800.0},
            ),
        ),
        Sample(
            "NpuID(Idx)  ChipId(Idx) Pwr(W)      Temp(C)     AI Core(%)  AI Cpu(%)   Ctrl Cpu(%) Memory(%)\n"
            "0           0           95.5        45          31          0           2           88\n"
            "1           0           NA          44          29          0           2           87\n",
            "npu_samples",
            ({"device": 0, "util_pct": 31.0, "hbm_pct": 88.0}, {"device": 1, "power_w": None}),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._readings = 0
        self._devices: set[int] = set()

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Begin a table, or a list with a header."""
        key = (peeled.worker, peeled.rank, peeled.pid)
        follower: Callable[[int, str], bool] | None = None
        if "NpuID(Idx)" in text:
            follower = self._watch(text)
        elif "AICore(%)" in text and "|" in text:
            follower = self._table()
        elif text.count(",") >= 2:
            follower = self._csv(text)
        if follower is not None:
            self.sink.follow[key] = follower
        return False

    def _emit(self, row: dict[str, Any]) -> None:
        device = row.get("device")
        if device is None:
            return
        if device in self._devices:
            self._devices.clear()
            self._readings += 1
        self._devices.add(device)
        used, total = row.get("hbm_used_mb"), row.get("hbm_total_mb")
        if used is not None and total and "hbm_pct" not in row:
            row["hbm_pct"] = 100.0 * used / total
        if "time" not in row and self.sink.last_us is not None:
            row["time"] = self.sink.last_us
        row["sample"] = self._readings
        self.sink.add("npu_samples", row)

    def _table(self) -> Callable[[int, str], bool]:
        first: list[tuple[dict[str, Any], str]] = []

        def line(at: int, text: str) -> bool:
            if text.startswith("+"):
                return True
            cells = [cell.strip() for cell in text.strip().strip("|").split("|")]
            if "|" not in text or len(cells) < 3:
                return False
            if cells[1] in _HEALTH:
                readings = cells[2].split()
                words = cells[0].split()
                row: dict[str, Any] = {"health": cells[1]}
                if words and words[0].isdigit():
                    row["device"] = int(words[0])
                if len(readings) > 1:
                    row["power_w"], row["temp_c"] = number(readings[0]), number(readings[1])
                first[:] = [(row, self.sink.raw)]
                return True
            if _BUS.match(cells[1]) and first:
                row, _ = first.pop()
                words = cells[0].split()
                if len(words) > 1 and words[1].isdigit():
                    row["device"] = int(words[1])
                readings = cells[2].split()
                if readings:
                    row["util_pct"] = number(readings[0])
                memory = [pair for pair in _PAIR.findall(cells[2]) if int(pair[1])]
                if memory:
                    row["hbm_used_mb"], row["hbm_total_mb"] = float(memory[-1][0]), float(memory[-1][1])
                self._emit({**row, "line": at})
                return True
            # The list of processes behind the cards ends the table.
            return "Process" not in text

        return line

    def _watch(self, header: str) -> Callable[[int, str], bool]:
        names = [name.strip() for name in re.findall(r"[A-Za-z][A-Za-z ]*\([^)]*\)", header)]

        def line(at: int, text: str) -> bool:
            cells = text.split()
            if len(cells) != len(names):
                return text.strip() == "" or "NpuID" in text
            row: dict[str, Any] = {"line": at}
            for name, cell in zip(names, cells, strict=True):
                field = _WATCH.get(name)
                value = number(cell) if field else None
                if field and value is not None:
                    row[field] = int(value) if field == "device" else value
            if "device" not in row:
                return False
            self._emit(row)
            return True

        return line

    def _csv(self, header: str) -> Callable[[int, str], bool] | None:
        names = [_CSV.get(name.strip().strip('"').lower(), "") for name in header.split(",")]
        if "device" not in names or len({name for name in names if name}) < 3:
            return None

        def line(at: int, text: str) -> bool:
            cells = text.split(",")
            if len(cells) != len(names):
                return False
            row: dict[str, Any] = {"line": at}
            for name, cell in zip(names, cells, strict=True):
                if name == "time":
                    row["time"] = _time(cell.strip())
                elif name == "health":
                    row["health"] = cell.strip()
                elif name:
                    value = number(cell.strip().rstrip("WCMHz% "))
                    row[name] = int(value) if name == "device" and value is not None else value
            if row.get("device") is None:
                return False
            self._emit({key: value for key, value in row.items() if value is not None})
            return True

        return line


def _time(text: str) -> int | None:
    """Return a Unix time in s or ms, or a date with time of day, in us."""
    if match := _DATE.match(text):
        return headers.stamp_us(*map(int, match.groups()))
    value = number(text)
    if value is None or not 0 < value < 4e12:
        return None
    return int(value * (1000 if value > 1e11 else 1_000_000))
