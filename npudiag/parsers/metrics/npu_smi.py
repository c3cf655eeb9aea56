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
_NAMES: dict[str, str] = {
    "dev_id": "device",
    "device_id": "device",
    "device": "device",
    "npu_id": "device",
    "npu_index": "device",
    "npu": "device",
    "npuid": "device",
    "chipid": "chip",
    "chip_id": "chip",
    "power": "power_w",
    "pwr": "power_w",
    "freq": "clock_mhz",
    "aicore_freq": "clock_mhz",
    "temp": "temp_c",
    "temperature": "temp_c",
    "util": "util_pct",
    "aicore": "util_pct",
    "ai_core": "util_pct",
    "aicore_util": "util_pct",
    "aicore_rate": "util_pct",
    "npu_util": "npu_util_pct",
    "npu_rate": "npu_util_pct",
    "hbm": "hbm_pct",
    "hbm_rate": "hbm_pct",
    "hbm_usage": "hbm_pct",
    "memory": "hbm_pct",
    "memory_rate": "hbm_pct",
    "hbm_used": "hbm_used_mb",
    "hbm_total": "hbm_total_mb",
    "health": "health",
    "time": "time",
    "timestamp": "time",
}
"""What columns are called, in lower case, without units, blanks as underscores."""


def _name(header: str) -> str:
    """Return the field that a column's header stands for, empty where it is none of ours."""
    words = re.sub(r"\([^)]*\)", "", header).strip().strip('"').lower()
    return _NAMES.get("_".join(words.split()), "")


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
            "| NPU     Name      | Health          | Power(W)          Temp(C)           Hugepages-Usage(page) |\n"
            "| Chip    Device    | Bus-Id          | AICore(%)         Memory-Usage(MB)  HBM-Usage(MB)         |\n"
            "| 0       910A      | OK              | 67.8              39                0    / 0              |\n"
            "| 0       0         | 0000:C1:00.0    | 12                1234 / 15038      2345 / 32768          |\n"
            "| 1       910ProB   | Warning         | 70.1              40                15 / 15               |\n"
            "| 0       1         | 0000:81:00.0    | 0                 1234 / 15038      0    / 32768          |\n"
            "| NPU     Chip      | Process id      | Process name      | Process memory(MB)                        |\n"
            "| 0       0         | 12345           | python            | 49873                                     |\n",
            "npu_samples",
            (
                {"device": 0, "util_pct": 12.0, "hbm_used_mb": 2345.0, "hbm_total_mb": 32768.0, "power_w": 67.8},
                {"device": 1, "health": "Warning", "hbm_used_mb": 0.0, "chip": None},
            ),
        ),
        Sample(
            "| NPU ID | Name             | Health        | Power(W)    Temp(C)           Hugepages-Usage(page) |\n"
            "|        |                  | Bus-Id        | NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)         |\n"
            "+========+==================+===============+=====================================================+\n"
            "| 3      | Ascend950PR      | OK            | 261.8       44                0     / 0             |\n"
            "|        |                  | 0000:9D:00.0  | 81          0     / 0         93165 / 114688        |\n"
            "| 4      | Ascend950PR      | OK            | 250.0       45                0     / 0             |\n"
            "|        |                  | NA            | 80          0     / 0         93165 / 114688        |\n",
            "npu_samples",
            (
                {"device": 3, "util_pct": 81.0, "temp_c": 44.0, "hbm_used_mb": 93165.0, "hbm_total_mb": 114688.0},
                {"device": 4, "util_pct": 80.0, "power_w": 250.0},
            ),
        ),
        Sample(
            "| NPU     Name     | Health | Power(W)  Temp(C)  Hugepages-Usage(page) |\n"
            "| Chip             | Bus-Id | AICore(%) Memory-Usage(MB) |\n"
            "| 3       310      | OK | 12.8 51 0 / 0 |\n| 0 | 0000:06:00.0 | 0 2703 / 8192 |\n"
            "| 3       310      | OK | 12.8 51 0 / 0 |\n| 1 | 0000:07:00.0 | 5 2703 / 8192 |\n",
            "npu_samples",
            (
                {"device": 3, "chip": None, "sample": 0},
                {"device": 3, "chip": 1, "util_pct": 5.0, "sample": 0},
            ),
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
        Sample(
            "NpuID(Idx)  Pwr(W)      Temp(C)     AI Core(%)  AI Cpu(%)   Ctrl Cpu(%) Memory(%)   Memory BW(%)"
            "   NPU Util(%)    AI Cube(%)\n"
            "0           290.4       51          41          0           16          3           7              62"
            "             12\n",
            "npu_samples",
            ({"device": 0, "power_w": 290.4, "util_pct": 41.0, "hbm_pct": 3.0, "temp_c": 51.0},),
        ),
        Sample(
            "NpuID(Idx)  ChipId(Idx) Pwr(W)      Temp(C)\n"
            "0           0           280.8       84\n0           1           280.9       83\n"
            "0           0           281.8       84\n0           1           281.9       83\n",
            "npu_samples",
            ({"sample": 0, "chip": None}, {"chip": 1, "sample": 0}, {"sample": 1}, {"chip": 1, "sample": 1}),
        ),
        Sample(
            "time,dev_id,hbm_rate,aicore_rate,npu_util\n1670052523,0,88,55,60\n",
            "npu_samples",
            ({"hbm_pct": 88.0, "util_pct": 55.0},),
        ),
        Sample(
            "timestamp,npu_id,Power(W),HBM_used(MB),HBM_total(MB),aicore(%)\n2026-01-02 03:04:05,0,100,1000,4000,80\n",
            "npu_samples",
            ({"hbm_pct": 25.0, "util_pct": 80.0, "power_w": 100.0, "time": 1767323045000000},),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._readings = 0
        self._devices: set[tuple[int, int | None]] = set()

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Begin a table, or a list with a header."""
        key = (peeled.worker, peeled.rank, peeled.pid)
        follower: Callable[[int, str], bool] | None = None
        if "NpuID(Idx)" in text:
            follower = self._watch(text)
        elif "| Bus-Id" in text:
            follower = self._table()
        elif text.count(",") >= 2:
            follower = self._csv(text)
        if follower is not None:
            self.sink.follow[key] = follower
        return False

    def _emit(self, row: dict[str, Any]) -> None:
        if row.get("device") is None:
            return
        # The 950 tells the use of the whole card; older ones that of the AI Cores.
        whole = row.pop("npu_util_pct", None)
        if whole is not None:
            row.setdefault("util_pct", whole)
        card = (row["device"], row.get("chip"))
        if card in self._devices:
            self._devices.clear()
            self._readings += 1
        self._devices.add(card)
        used, total = row.get("hbm_used_mb"), row.get("hbm_total_mb")
        if used is not None and total and "hbm_pct" not in row:
            row["hbm_pct"] = 100.0 * used / total
        if "time" not in row and self.sink.last_us is not None:
            row["time"] = self.sink.last_us
        row["sample"] = self._readings
        self.sink.add("npu_samples", row)

    def _table(self) -> Callable[[int, str], bool]:
        first: list[dict[str, Any]] = []

        def line(at: int, text: str) -> bool:
            if text.startswith("+"):
                return True
            # The 950 has a column more: the card's name stands in one of its own.
            cells = [cell.strip() for cell in text.strip().strip("|").split("|")]
            if "|" not in text or len(cells) < 3:
                return False
            state, readings = cells[-2], cells[-1].split()
            words = cells[0].split()
            if state in _HEALTH:
                row: dict[str, Any] = {"health": state}
                if words and words[0].isdigit():
                    row["device"] = int(words[0])
                if len(readings) > 1:
                    row["power_w"], row["temp_c"] = number(readings[0]), number(readings[1])
                first[:] = [row]
                return True
            if _BUS.match(state) and first:
                row = first.pop()
                if len(words) > 1 and words[1].isdigit():
                    row["device"] = int(words[1])
                elif words and words[0].isdigit() and words[0] != "0":
                    row["chip"] = int(words[0])
                if readings:
                    row["util_pct"] = number(readings[0])
                memory = [pair for pair in _PAIR.findall(cells[-1]) if int(pair[1])]
                if memory:
                    row["hbm_used_mb"], row["hbm_total_mb"] = float(memory[-1][0]), float(memory[-1][1])
                self._emit({**row, "line": at})
                return True
            # The list of processes behind the cards ends the table.
            return "Process" not in text

        return line

    def _watch(self, header: str) -> Callable[[int, str], bool]:
        names = [_name(name) for name in re.findall(r"[A-Za-z][A-Za-z ]*\([^)]*\)", header)]

        def line(at: int, text: str) -> bool:
            cells = text.split()
            if len(cells) != len(names):
                return text.strip() == "" or "NpuID" in text
            row = _read(names, cells)
            if "device" not in row:
                return False
            if not row.get("chip"):
                # The only chip of a card, as a rule.
                row.pop("chip", None)
            self._emit({**row, "line": at})
            return True

        return line

    def _csv(self, header: str) -> Callable[[int, str], bool] | None:
        names = [_name(name) for name in header.split(",")]
        if "device" not in names or len({name for name in names if name}) < 3:
            return None

        def line(at: int, text: str) -> bool:
            cells = [cell.strip() for cell in text.split(",")]
            if len(cells) != len(names):
                return False
            row = _read(names, cells)
            if "device" not in row:
                return False
            self._emit({**row, "line": at})
            return True

        return line


def _read(names: list[str], cells: list[str]) -> dict[str, Any]:
    """Return the fields that a row of cells tells."""
    row: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=True):
        value: Any
        if name == "time":
            value = _time(cell)
        elif name == "health":
            value = cell
        else:
            value = number(cell.rstrip("WCMHz% ")) if name else None
            if name in ("device", "chip") and value is not None:
                value = int(value) if 0 <= value < 1 << 20 else None
        if name and value is not None:
            row[name] = value
    return row


def _time(text: str) -> int | None:
    """Return a Unix time in s or ms, or a date with time of day, in us."""
    if match := _DATE.match(text):
        return headers.stamp_us(*map(int, match.groups()))
    value = number(text)
    if value is None or not 0 < value < 4e12:
        return None
    return int(value * (1000 if value > 1e11 else 1_000_000))
