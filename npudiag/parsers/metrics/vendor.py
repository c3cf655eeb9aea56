"""What the vendor's tools and version files say, wherever their output was kept: commands with their output below.

The shape is that of environment checks and of terminal sessions alike: a command line, then its output. It is read
by key; what a release adds is passed over.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from npudiag.parsers.metrics.base import Extractor, Sample, Sink, number
from npudiag.parsers.prefixes import Peeled

_LINES = 200
_PROMPT = r"(?:\[[^\]]*\][#$] ?|[^\s#$]*[#$] |\+ )?(?:sudo )?"
_HCCN = re.compile(
    rf"{_PROMPT}(?:\S*/)?hccn_tool (?=[^|]*-i (\d+)\b)(?=[^|]*-g\b)"
    r"[^|]*?-(tls|link_stat|link|net_health|fec|optical|stat|ip)\b"
)
_SMI = re.compile(
    rf"{_PROMPT}(?:\S*/)?npu-smi info (?=[^|]*-t (?:board|common|ecc|usages|health)\b)(?=[^|]*-i (\d+)\b)"
)
_LSPCI = re.compile(rf"{_PROMPT}lspci\b")
_CAT = re.compile(rf"{_PROMPT}cat (\S+)\s*\Z")
_PIP = re.compile(rf"{_PROMPT}pip3? list\b")
_TOOL = re.compile(r"# npudiag: tool (\S+) (ok|failed|timeout|absent)(?: (.*))?\Z")

_PAIR = re.compile(r"\s*(\S[^:=]{0,60}?)\s*[:=]\s*(.*?)\s*\Z")
_TLS = re.compile(r"dev_id:\s*(\d+), tls switch\[(\d)\]")
_RECORD = re.compile(r"\[devid (\d+)\]\s+(\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4})\s+LINK (UP|DOWN)")
_NOW = re.compile(r"\[devid (\d+)\]\s*current time\s*:\s*(\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4})")
_CARD = re.compile(r"((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d) Processing accelerators.*?: Huawei", re.IGNORECASE)
_PACKAGE = re.compile(r"([A-Za-z][\w.-]*)\s+(\d+\.\S*)(?:\s+/\S+)?\s*\Z")
_CONF = re.compile(r"\s*(address|netmask|gateway|netdetect)_(\d+)\s*=\s*(\S+)\s*\Z")
_PROCESS = re.compile(r"\|\s*(\d+)\s+(\d+)\s*\|\s*(\d+)\s*\|\s*(\S+)\s*\|\s*(\d+)\s*\|")

_SMI_FACTS: dict[str, tuple[str, str]] = {
    "Software Version": ("board", "software_version"),
    "Firmware Version": ("board", "firmware_version"),
    "Compatibility": ("board", "compatibility"),
    "Aicore Freq(MHZ)": ("chip", "rated_mhz"),
    "Aicore curFreq(MHZ)": ("chip", "current_mhz"),
    "Aicore Usage Rate(%)": ("chip", "util_pct"),
    "HBM Capacity(MB)": ("chip", "hbm_mb"),
}
_ECC = re.compile(r"HBM .*(?:Double Bit|Multi Bit).*(?:Count|Cnt|Num|Pages)", re.IGNORECASE)
_HCCN_FACTS: dict[str, dict[str, str]] = {
    "link": {"link status": "link"},
    "net_health": {"net health status": "net_health"},
    "fec": {"fec mode": "fec"},
    "ip": {"ipaddr": "ip", "netmask": "netmask"},
    "optical": {
        "present": "optical_present", "rx los flag": "rx_los", "tx los flag": "tx_los", "rx lol flag": "rx_lol",
        "tx lol flag": "tx_lol",
    },
    "stat": {"roce_rx_err_pkt_num": "rx_errors", "roce_tx_err_pkt_num": "tx_errors"},
}  # fmt: skip
_VERSION_FILES: tuple[tuple[str, str], ...] = (
    ("/driver/version.info", "driver"),
    ("/firmware/version.info", "firmware"),
    ("toolkit_install.info", "toolkit"),
    ("nnae_install.info", "nnae"),
    ("nnal_install.info", "nnal"),
    ("/nnal/", "nnal"),
    ("kernels_install.info", "kernels"),
    ("/version.info", "toolkit"),
)
_VERSION_KEYS = {
    "version": "version", "innerversion": "inner_version", "arch": "arch",
    "compatible_version_fw": "compatible_firmware", "compatible_version_drv": "compatible_driver",
}  # fmt: skip


class VendorTools(Extractor):
    """Facts of hccn_tool, npu-smi's details, version files, hccn.conf and pip."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "hccn_tool -i 3 -tls -g\ndev_id:3, tls switch[1](0:disable, 1:enable), tls alarm time threshold[60]days\n",
            "host_facts",
            ({"area": "hccn", "name": "tls", "value": "1", "number": 1.0, "device": 3},),
        ),
        Sample(
            "/usr/local/Ascend/driver/tools/hccn_tool -i 2 -link_stat -g\n"
            "[devid 2]current time        : Wed Mar  4 05:06:07 2026\n"
            "[devid 2]link up count       : 2\n"
            "[devid 2]link change records :\n"
            "[devid 2]    Wed Mar  4 01:00:50 2026    LINK UP\n"
            "[devid 2]    Wed Mar  4 01:00:00 2026    LINK DOWN\n"
            "[devid 2]    Mon Mar  2 01:00:00 2026    LINK UP\n",
            "host_facts",
            ({"name": "link_down_s", "number": 50.0, "value": "2026-03-04T01:00:00", "item": "4.1 h ago"},),
        ),
        Sample(
            "[root@node ~]# hccn_tool -i 0 -net_health -g\nnet health status: Success\n"
            "[root@node ~]# hccn_tool -i 0 -link -g\nlink status: UP\n"
            "[root@node ~]# hccn_tool -i 0 -fec -g\nfec mode: rs FEC mode\n",
            "host_facts",
            (
                {"name": "net_health", "value": "Success", "device": 0},
                {"name": "link", "value": "UP"},
                {"name": "fec", "value": "rs FEC mode"},
            ),
        ),
        Sample(
            "hccn_tool -i 5 -optical -g\n"
            "optical info:\npresent              : present\nRx Power             : 0.7513 mW\n"
            "Rx Los Flag          : 0xff\n",
            "host_facts",
            ({"name": "optical_present", "value": "present"}, {"name": "rx_los", "value": "0xff", "number": 255.0}),
        ),
        Sample(
            "npu-smi info -t board -i 1\n"
            "        NPU ID                         : 1\n        Firmware Version               : 7.1.0.3.220\n"
            "        Software Version               : 23.0.3\n        Compatibility                  : OK\n",
            "host_facts",
            (
                {"area": "board", "name": "firmware_version", "value": "7.1.0.3.220", "device": 1},
                {"name": "software_version", "value": "23.0.3"},
                {"name": "compatibility", "value": "OK"},
            ),
        ),
        Sample(
            "npu-smi info -t common -i 6\n"
            "        NPU ID                         : 6\n        Chip ID                        : 1\n"
            "        Aicore Usage Rate(%)           : 88\n        Aicore Freq(MHZ)               : 1800\n"
            "        Aicore curFreq(MHZ)            : 800\n",
            "host_facts",
            (
                {"area": "chip", "name": "util_pct", "number": 88.0, "device": 6, "item": "1"},
                {"name": "rated_mhz", "number": 1800.0},
                {"name": "current_mhz", "number": 800.0},
            ),
        ),
        Sample(
            "cat /usr/local/Ascend/driver/version.info\nVersion=24.1.0\nascendhal_version=7.35.23\n"
            "compatible_version_fw=[7.0.0,7.5.99]\n",
            "host_facts",
            (
                {"area": "version", "name": "driver", "item": "version", "value": "24.1.0"},
                {"name": "driver", "item": "compatible_firmware", "value": "[7.0.0,7.5.99]"},
            ),
        ),
        Sample(
            "cat /etc/hccn.conf\naddress_0=192.168.7.10\nnetmask_0=255.255.255.0\n",
            "host_facts",
            ({"area": "hccn", "name": "conf_address", "value": "192.168.7.10", "device": 0}, {"name": "conf_netmask"}),
        ),
        Sample(
            'pip list | grep "torch "\ntorch              2.7.1\n',
            "host_facts",
            ({"area": "python", "name": "package", "item": "torch", "value": "2.7.1"},),
        ),
        Sample(
            "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |\n"
            "+===========================+===============+====================================================+\n"
            "| 0       0                 | 48213         | python3                  | 30012                   |\n",
            "host_facts",
            ({"area": "npu", "name": "process", "item": "48213", "value": "python3", "number": 30012.0, "device": 0},),
        ),
        Sample(
            "lspci | grep acce\n61:00.0 Processing accelerators: Huawei Technologies Co., Ltd. Device d802 (rev 20)\n",
            "host_facts",
            ({"area": "npu", "name": "pci", "value": "61:00.0"},),
        ),
        Sample(
            "/usr/local/bin/npu-smi info -i 4 -t board\nInvalid card id.\n",
            "host_facts",
            ({"area": "npu", "name": "absent", "value": "Invalid card id.", "device": 4},),
        ),
        Sample(
            "# npudiag: tool npu-smi timeout after 10 s\n",
            "host_facts",
            ({"area": "tool", "name": "status", "item": "npu-smi", "value": "timeout after 10 s"},),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._left = 0
        self._now: datetime.datetime | None = None
        self._newer: datetime.datetime | None = None
        self._chip: str | None = None

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Take a command line, and follow its output."""
        text = text.strip()
        if match := _TOOL.match(text):
            said = match[2] if not match[3] else f"{match[2]} {match[3]}"
            self._fact(number_, "tool", "status", said[:300], item=match[1])
            return False
        follower = self._command(text)
        if follower is not None:
            self._left = _LINES
            self.sink.follow[(peeled.worker, peeled.rank, peeled.pid)] = follower
        return False

    def _command(self, text: str) -> Callable[[int, str], bool] | None:
        """Return who reads the output of a command, None where the line is none."""
        if match := _HCCN.match(text):
            device, what = int(match[1]), match[2]
            self._now = self._newer = None
            if what == "tls":
                return self._until(self._tls)
            if what == "link_stat":
                return self._until(self._link_record)
            return self._until(partial(self._hccn, what=what, device=device))
        if match := _SMI.match(text):
            device = int(match[1])
            self._chip = None
            return self._until(partial(self._smi, device=device))
        if _LSPCI.match(text):
            return self._until(self._card)
        if match := _CAT.match(text):
            if match[1].endswith("hccn.conf"):
                return self._until(self._conf)
            component = next((component for part, component in _VERSION_FILES if part in match[1]), None)
            return self._until(partial(self._version, component=component)) if component else None
        if "Process memory(MB)" in text:
            return self._until(self._process)
        return self._package if _PIP.match(text) else None

    def _until(self, take: Callable[[int, str], None]) -> Callable[[int, str], bool]:
        def line(at: int, text: str) -> bool:
            self._left -= 1
            take(at, text)
            return self._left > 0

        return line

    def _fact(self, line: int, area: str, name: str, value: str, **more: Any) -> None:
        self.sink.add("host_facts", {"line": line, "area": area, "name": name, "value": value[:500], **more})

    def _tls(self, at: int, text: str) -> None:
        if match := _TLS.search(text):
            self._fact(at, "hccn", "tls", match[2], number=float(match[2]), device=int(match[1]))

    def _hccn(self, at: int, text: str, what: str, device: int) -> None:
        match = _PAIR.match(text)
        name = _HCCN_FACTS[what].get(match[1].lower()) if match else None
        if match and name and match[2]:
            self._fact(at, "hccn", name, match[2], number=_hex(match[2]), device=device)

    def _link_record(self, at: int, text: str) -> None:
        """Take a record of the port's link; the newest comes first, so how long it was down is known then."""
        if match := _NOW.match(text):
            self._now = _moment(match[2])
            return
        match = _RECORD.match(text)
        when = _moment(match[2]) if match else None
        if match is None or when is None:
            return
        if match[3] == "DOWN":
            ago = (self._now - when).total_seconds() / 3600 if self._now else None
            self._fact(
                at, "hccn", "link_down_s", when.isoformat(), device=int(match[1]),
                number=(self._newer - when).total_seconds() if self._newer else None,
                item=f"{ago:.1f} h ago" if ago is not None and ago >= 0 else None,
            )  # fmt: skip
        self._newer = when

    def _card(self, at: int, text: str) -> None:
        if match := _CARD.match(text.strip()):
            self._fact(at, "npu", "pci", match[1].lower())

    def _smi(self, at: int, text: str, device: int) -> None:
        if text.strip() == "Invalid card id.":
            self._fact(at, "npu", "absent", text.strip(), device=device)
            return
        match = _PAIR.match(text)
        if match is None:
            return
        key, value = match.groups()
        if key in ("Chip ID", "Chip Name"):
            # The board's own controller follows the chips and has a temperature as well.
            self._chip = value
            return
        area, name = _SMI_FACTS.get(key, ("ecc", "hbm_double_bit") if _ECC.match(key) else ("", ""))
        if area and value and value != "NA":
            self._fact(at, area, name, value, number=number(value), device=device, item=self._chip)

    def _version(self, at: int, text: str, component: str) -> None:
        match = _PAIR.match(text)
        item = _VERSION_KEYS.get(match[1].lower()) if match else None
        if match and item and match[2]:
            self._fact(at, "version", component, match[2].strip("[]") if item == "version" else match[2], item=item)

    def _conf(self, at: int, text: str) -> None:
        if match := _CONF.match(text):
            self._fact(at, "hccn", f"conf_{match[1]}", match[3], device=int(match[2]))

    def _process(self, at: int, text: str) -> None:
        if match := _PROCESS.match(text):
            memory = float(match[5])
            self._fact(at, "npu", "process", match[4], number=memory, item=match[3], device=int(match[1]))

    def _package(self, at: int, text: str) -> bool:
        """Take a line of pip's list; the first line that is none ends it."""
        self._left -= 1
        match = _PACKAGE.match(text)
        if match:
            self._fact(at, "python", "package", match[2], item=match[1].lower().replace("_", "-"))
        return self._left > 0 and (match is not None or text.startswith(("Package ", "---")))


def _moment(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(text, "%a %b %d %H:%M:%S %Y")
    except ValueError:
        return None


def _hex(text: str) -> float | None:
    try:
        return float(int(text, 16)) if text.lower().startswith("0x") else number(text)
    except ValueError:
        return None
