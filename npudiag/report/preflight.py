"""The table of preflight checks: what was looked at, what was measured, what is wrong, what could not be judged.

It renders ``facts.preflight`` of a result document, which `npudiag host` puts there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npudiag.report.localise import words
from npudiag.report.safe_text import visible
from npudiag.report.terminal import ICONS, Line
from npudiag.report.texts import Text, as_lang, joined, say
from npudiag.report.wrap import cut, text_width, wrap
from npudiag.result import Finding, Result

_MIN_WIDTH, _MAX_WIDTH = 60, 120
_LABEL_WIDTH = 30

PASS = Text("pass", "通过")
STATUS: dict[str, Text] = {
    "pass": PASS,
    "info": Text("note", "提示"),
    "warning": Text("warn", "警告"),
    "error": Text("FAIL", "失败"),
    "critical": Text("FAIL", "失败"),
    "skip": Text("not judged", "未判断"),
}
_ICON = {"pass": "ok"}

SECTIONS: tuple[tuple[Text, tuple[str, ...]], ...] = (
    (Text("Machine", "主机"), ("PRE1",)),
    (Text("Storage", "存储"), ("PRE2",)),
    (Text("NPUs", "NPU"), ("PRE3", "DEV", "PRF")),
    (Text("NPU network", "NPU 网络"), ("PRE4",)),
    (Text("Host network", "主机网络"), ("PRE5",)),
    (Text("Software", "软件"), ("PRE6",)),
    (Text("Environment", "环境变量"), ("LNT",)),
    (Text("Other checks", "其他检查"), ()),
)
"""Headings, and how the codes of the checks below them begin; what no other takes is told last."""

LABELS: dict[str, Text] = {
    "PRE101": Text("CPU governor", "CPU 调频策略"),
    "PRE102": Text("CPUs per card", "每卡 CPU 数"),
    "PRE103": Text("NUMA balancing", "NUMA 自动均衡"),
    "PRE104": Text("Free memory", "可用内存"),
    "PRE105": Text("Swap in use", "swap 使用"),
    "PRE106": Text("Container memory limit", "容器内存限额"),
    "PRE107": Text("Open files", "打开文件数上限"),
    "PRE108": Text("Processes and threads", "进程与线程上限"),
    "PRE109": Text("File handles", "系统文件句柄"),
    "PRE110": Text("Clock", "时钟同步"),
    "PRE111": Text("Page size", "内存页大小"),
    "PRE112": Text("Listen backlog", "监听队列"),
    "PRE113": Text("Load", "系统负载"),
    "PRE201": Text("Disk space", "磁盘空间"),
    "PRE202": Text("Inodes", "inode"),
    "PRE203": Text("Writable paths", "路径可写"),
    "PRE204": Text("Shared memory", "共享内存"),
    "PRE301": Text("Device nodes", "设备节点"),
    "PRE302": Text("Access to device nodes", "设备节点权限"),
    "PRE303": Text("Left-over processes", "残留进程"),
    "PRE304": Text("Cards in npu-smi", "npu-smi 可见卡数"),
    "PRE305": Text("Memory capacity", "显存容量"),
    "PRE306": Text("Clock rate", "运行频率"),
    "PRE307": Text("Firmware", "固件一致性"),
    "PRE308": Text("Memory errors", "显存错误计数"),
    "PRE309": Text("Vendor tools", "厂商工具"),
    "DEV": Text("Health", "健康状态"),
    "PRF": Text("Temperature and memory", "温度与显存"),
    "PRE401": Text("Ports", "网口状态"),
    "PRE402": Text("Network check", "网络检测"),
    "PRE403": Text("TLS switch", "TLS 开关"),
    "PRE404": Text("FEC", "FEC"),
    "PRE405": Text("Addresses", "IP 地址"),
    "PRE406": Text("Link losses", "断链记录"),
    "PRE407": Text("Optics", "光模块"),
    "PRE408": Text("Packet errors", "报文错误"),
    "PRE501": Text("Chosen interface", "指定网卡"),
    "PRE502": Text("Choice of interfaces", "网卡选择"),
    "PRE503": Text("Host name", "主机名解析"),
    "PRE504": Text("Ports of the job", "作业端口"),
    "PRE505": Text("Reserved ports", "端口保留"),
    "PRE601": Text("Driver", "驱动"),
    "PRE602": Text("CANN", "CANN"),
    "PRE603": Text("CANN environment", "CANN 环境变量"),
    "PRE604": Text("One CANN release", "CANN 版本唯一"),
    "PRE605": Text("torch_npu and torch", "torch_npu 与 torch"),
    "PRE606": Text("torch_npu and CANN", "torch_npu 与 CANN"),
    "PRE607": Text("torch and Python", "torch 与 Python"),
    "PRE608": Text("Wheels", "wheel 匹配"),
    "PRE609": Text("C++ ABI", "C++ ABI"),
    "PRE610": Text("vllm-ascend", "vllm-ascend 配套"),
    "PRE611": Text("MindSpeed-LLM", "MindSpeed-LLM 配套"),
    "PRE612": Text("Driver and firmware", "驱动与固件配套"),
    "PRE613": Text("Same on all machines", "多机一致性"),
    "LNT": Text("Launch lint", "启动配置检查"),
}
"""What a check looks at, by its code or, for checks that are told as one, by how codes begin."""

_HEAD = Text("Preflight of {node}", "{node} 环境预检")
_COUNTS: tuple[tuple[str, Text], ...] = (
    ("fail", Text("{n} failed", "{n} 项失败")),
    ("warning", Text("{n} warnings", "{n} 项警告", "{n} warning")),
    ("info", Text("{n} notes", "{n} 条提示", "{n} note")),
    ("pass", Text("{n} passed", "{n} 项通过")),
    ("skip", Text("{n} not judged", "{n} 项未能判断")),
)
_NOT_JUDGED = Text("Could not be checked", "未能检查")
_WITHOUT = Text("no {what}", "缺少 {what}")
_MORE = Text("{n} more (-v shows them)", "另有 {n} 项（加 -v 显示）")
_DETAILS = 3


def verdict(result: Result, lang: str) -> str:
    """Return the outcome of all checks in one sentence."""
    colon = "：" if as_lang(lang) == "zh" else ": "
    return f"{say(_HEAD, as_lang(lang), node=_node(result))}{colon}{_summary(result, lang)}"


def _node(result: Result) -> str:
    return visible(str(result.facts.get("host") or "?"))


def _checks(result: Result) -> list[Mapping[str, Any]]:
    checks = result.facts.get("preflight")
    return [check for check in checks if isinstance(check, dict)] if isinstance(checks, list) else []


def _list(check: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of a check; a damaged document may hold anything in its place."""
    value = check.get(name)
    return [str(item) for item in value] if isinstance(value, list) else []


def _summary(result: Result, lang: str) -> str:
    states = (str(check.get("status")) for check in _checks(result))
    counts = Counter("fail" if state in ("error", "critical") else state for state in states)
    return joined((say(text, as_lang(lang), n=counts[name]) for name, text in _COUNTS if counts[name]), as_lang(lang))


def render(result: Result, *, lang: str, width: int, verbosity: int) -> list[Line]:
    """Return the table as lines.

    Args:
        result: A document with ``facts.preflight``.
        lang: ``en`` or ``zh``.
        width: Columns of the terminal.
        verbosity: -1 for one line, 0 for the table, 1 for all findings with the lines they rest on.
    """
    page = _Page(result, lang, max(_MIN_WIDTH, min(width, _MAX_WIDTH)), verbosity)
    worst = max((_RANK.get(str(check.get("status")), 0) for check in _checks(result)), default=0)
    style = _STYLES[worst]
    head: Line = [(f"{ICONS[style]} ", style), (verdict(result, lang), "strong")]
    if verbosity < 0:
        return [head]
    page.lines.append(head)
    page.write()
    return page.lines


_RANK = {"skip": 0, "pass": 0, "info": 1, "warning": 2, "error": 3, "critical": 4}
_STYLES = ("ok", "info", "warning", "error", "critical")


@dataclass(frozen=True, slots=True)
class Row:
    """One check.

    Attributes:
        icon: Key of `ICONS`; empty for a check that could not be judged.
        state: What came of it.
        label: What it looks at.
        told: What was measured, or what was missing, in English and Chinese.
    """

    icon: str
    state: Text
    label: Text
    told: tuple[str, str]


def _sections(checks: Sequence[Mapping[str, Any]]) -> list[tuple[Text, list[Mapping[str, Any]]]]:
    """Return the checks by section."""
    known = tuple(prefix for _, prefixes in SECTIONS for prefix in prefixes)
    out: list[tuple[Text, list[Mapping[str, Any]]]] = []
    for title, prefixes in SECTIONS:
        codes = [(str(check.get("code")), check) for check in checks]
        own = [one for code, one in codes if (code.startswith(prefixes) if prefixes else not code.startswith(known))]
        out.append((title, own))
    return out


def rows(result: Result) -> list[Row]:
    """Return all checks in the order of the sections, those that could not be judged last."""
    checks = [check for _, own in _sections(_checks(result)) for check in own]
    ordered = sorted(checks, key=lambda check: check.get("status") == "skip")
    return [_row(check) for check in ordered]


def _row(check: Mapping[str, Any]) -> Row:
    status, code = str(check.get("status")), str(check.get("code"))
    # Braces are places to fill in a text.
    name = visible(str(check.get("name") or code)).replace("{", "(").replace("}", ")")
    if status == "skip":
        missing = visible(", ".join(_list(check, "missing")))
        told = (say(_WITHOUT, "en", what=missing), say(_WITHOUT, "zh", what=missing))
    else:
        measured = check.get("measured")
        texts = measured if isinstance(measured, dict) else {}
        told = (visible(str(texts.get("en") or "")), visible(str(texts.get("zh") or "")))
    icon = "" if status == "skip" else _ICON.get(status, status)
    return Row(icon if icon in ICONS else "", STATUS.get(status, PASS), LABELS.get(code, Text(name, name)), told)


class _Page:
    """Writes the table of one result."""

    def __init__(self, result: Result, lang: str, width: int, verbosity: int) -> None:
        self.lines: list[Line] = []
        self._result = result
        self._lang = as_lang(lang)
        self._width = width
        self._verbosity = verbosity
        self._checks = _checks(result)

    def write(self) -> None:
        for title, own in _sections(self._checks):
            shown = [check for check in own if check.get("status") != "skip"]
            if shown:
                self.lines += [[], [(say(title, self._lang), "heading")]]
                for check in shown:
                    self._row(check)
        self._skipped([check for check in self._checks if check.get("status") == "skip"])

    def _label(self, check: Mapping[str, Any]) -> str:
        return say(_row(check).label, self._lang)

    def _row(self, check: Mapping[str, Any]) -> None:
        row = _row(check)
        label, state = say(row.label, self._lang), say(row.state, self._lang)
        told = row.told[self._lang == "zh"]
        pad = " " * max(1, _LABEL_WIDTH - text_width(label))
        line: Line = [
            (f"  {ICONS.get(row.icon, ' ')} ", row.icon),
            (f"{state}{' ' * max(1, 6 - text_width(state))}", row.icon),
            (label + pad, ""),
            (cut(told, max(10, self._width - _LABEL_WIDTH - 10)), "dim"),
        ]
        self.lines.append(line)
        found = [item for item in self._result.findings if item.id in _list(check, "findings")]
        most = len(found) if self._verbosity else _DETAILS
        for finding in found[:most]:
            self._finding(finding)
        if len(found) > most:
            self._text(say(_MORE, self._lang, n=len(found) - most), "dim")

    def _finding(self, finding: Finding) -> None:
        told = words(finding, self._lang)
        self._text(visible(told.title), "strong", f"  {finding.code}")
        if self._verbosity:
            self._text(visible(told.summary), "")
            for item in finding.evidence[:8]:
                where = f"{item.path}:{item.line}  " if item.path and item.line else ""
                self._text(visible(f"{where}{item.text or ''}"), "path")
        remedies = finding.remedies if self._verbosity else finding.remedies[:1]
        for number, remedy in enumerate(remedies):
            text = told.remedies[number].text if number < len(told.remedies) else remedy.text
            self._text("→ " + visible(text), "")
            if remedy.command:
                self.lines.append([("        ", ""), (visible(remedy.command), "change")])
            elif remedy.change:
                self.lines.append([("        ", ""), (visible(f"{remedy.change.key}={remedy.change.to}"), "change")])

    def _text(self, text: str, style: str, tail: str = "") -> None:
        pieces = wrap(text, self._width - 6 - text_width(tail)) if text else []
        for number, piece in enumerate(pieces):
            line: Line = [("      ", ""), (piece, style)]
            if not number and tail:
                line.append((tail, "dim"))
            self.lines.append(line)

    def _skipped(self, checks: Sequence[Mapping[str, Any]]) -> None:
        groups: dict[str, list[str]] = {}
        for check in checks:
            missing = ", ".join(_list(check, "missing"))
            groups.setdefault(missing, []).append(self._label(check))
        if not groups:
            return
        self.lines += [[], [(say(_NOT_JUDGED, self._lang), "heading")]]
        for missing, labels in sorted(groups.items(), key=lambda pair: -len(pair[1])):
            told = say(_WITHOUT, self._lang, what=visible(missing))
            colon = "：" if self._lang == "zh" else ": "
            for number, piece in enumerate(wrap(f"{told}{colon}{', '.join(labels)}", self._width - 4)):
                self.lines.append([("  - " if not number else "    ", "dim"), (piece, "dim")])
