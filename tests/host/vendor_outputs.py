"""Outputs of the vendor's tools in their real shapes, with values of our own, and fake commands that print them."""

from __future__ import annotations

from pathlib import Path

import pytest

ANSWER = """#!/bin/sh
IFS=_
name="${0%/*}/../answers/${0##*/}_$*"
[ -f "$name" ] && exec cat "$name"
echo "unknown parameter: $*"
exit 1
"""


def info(cards: int = 4, *, health: dict[int, str] | None = None, process: tuple[int, int] | None = None) -> str:
    """The table of ``npu-smi info`` for 910B cards; `process` is card and pid of one that runs."""
    line = "+---------------------------+---------------+----------------------------------------------------+"
    lines = [
        "+------------------------------------------------------------------------------------------------+",
        "| npu-smi 24.1.0                   Version: 24.1.0                                               |",
        line,
        "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|",
        "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |",
        "+===========================+===============+====================================================+",
    ]
    for card in range(cards):
        state = (health or {}).get(card, "OK")
        lines += [
            f"| {card}     910B3               | {state:<13} | {f'95.{card}        4{card}':<20}0    / 0             |",
            f"| 0                         | 0000:{0xC1 + card:X}:00.0  "
            f"| {'0           0    / 0':<30}33{card:02d} / 65536         |",
            line,
        ]
    lines += [
        "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |",
        "+===========================+===============+====================================================+",
    ]
    if process:
        card, pid = process
        lines.append(f"| {card}       0                 | {pid:<13} | python3                  | {30012:<24}|")
    else:
        lines.append("| No running processes found in NPU 0                                                          |")
    return "\n".join([*lines, line, ""])


def board(card: int, firmware: str = "7.5.0.1.129", software: str = "24.1.0") -> str:
    rows = (
        ("NPU ID", str(card)), ("Product Name", "IT21HMDC"), ("Model", "NA"), ("Firmware Version", firmware),
        ("Software Version", software), ("Compatibility", "OK"), ("Chip Count", "1"),
    )  # fmt: skip
    return "".join(f"        {name:<31}: {value}\n" for name, value in rows)


def common(card: int, current: int = 1800, use: int = 0) -> str:
    rows = (
        ("NPU ID", card), ("Chip Count", 1), ("", ""), ("Chip ID", 0), ("Memory Usage Rate(%)", 0),
        ("HBM Usage Rate(%)", 5), ("Aicore Usage Rate(%)", use), ("Aicore Freq(MHZ)", 1800),
        ("Aicore curFreq(MHZ)", current), ("Aicore Count", 20), ("Temperature(C)", 41), ("", ""), ("Chip Name", "mcu"),
        ("Temperature(C)", 38),
    )  # fmt: skip
    return "".join(f"        {name:<31}: {value}\n" if name else "\n" for name, value in rows)


def hccn(card: int, what: str) -> str:
    return {
        "ip": f"ipaddr:192.168.7.{10 + card}\nnetmask:255.255.255.0\n",
        "link": "link status: UP\n",
        "net_health": "net health status: Success\n",
        "tls": f"dev_id:{card}, tls switch[0](0:disable, 1:enable), tls alarm time threshold[60]days\n",
        "fec": "fec mode: rs FEC mode\n",
        "link_stat": (
            f"[devid {card}]current time        : Wed Mar  4 05:06:07 2026\n[devid {card}]link up count       : 1\n"
            f"[devid {card}]link change records :\n[devid {card}]    Mon Mar  2 01:00:00 2026    LINK UP\n"
        ),
        "optical": "present              : present\nRx Power             : 0.7513 mW\nRx Los Flag          : 0x0\n",
        "stat": "packet statistics:\nroce_rx_err_pkt_num:0\nroce_tx_err_pkt_num:0\n",
    }[what]


class FakeTools:
    """A folder on PATH with commands that print prepared answers."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bin, self.answers = folder / "bin", folder / "answers"
        self.bin.mkdir()
        self.answers.mkdir()
        monkeypatch.setenv("PATH", f"{self.bin}:/usr/bin:/bin")

    def script(self, tool: str, text: str) -> None:
        path = self.bin / tool
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def answer(self, command: str, text: str) -> None:
        (self.answers / command.replace(" ", "_")).write_text(text, encoding="utf-8")

    def machine(self, cards: int = 4) -> None:
        """A healthy machine."""
        for tool in ("npu-smi", "hccn_tool", "ascend-dmi"):
            self.script(tool, ANSWER)
        self.answer("npu-smi info", info(cards))
        self.answer("npu-smi info -m", "\tNPU ID                         Chip ID\n")
        self.answer("ascend-dmi -c", "Compatibility Check Result: Success\n")
        for card in range(cards):
            self.answer(f"npu-smi info -t board -i {card}", board(card))
            self.answer(f"npu-smi info -t common -i {card}", common(card))
            self.answer(f"npu-smi info -t ecc -i {card}", "        HBM Double Bit Error Count     : 0\n")
            for what in ("ip", "link", "net_health", "tls", "fec", "link_stat", "optical", "stat"):
                self.answer(f"hccn_tool -i {card} -{what} -g", hccn(card, what))
