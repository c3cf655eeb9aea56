"""Takes codes apart that are made of fields: error registers, device events, torch_npu, MindIE and runtime codes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from npudiag.engine.model import Text
from npudiag.knowledge.catalogue import Catalogue
from npudiag.knowledge.model import Entry
from npudiag.result import SEVERITIES, Severity, Trust

_REGISTER_BITS = 64

# The most telling kind first: a core that reads a wrong address often raises bus and configuration bits as well.
_AICORE_ORDER = (
    "ac-ecc",
    "ac-range",
    "ac-numeric",
    "ac-align",
    "ac-instr",
    "ac-config",
    "ac-conflict",
    "ac-bus",
    "ac-timeout",
)


def registers(values: Sequence[int], catalogue: Catalogue) -> Entry | None:
    """Explain the error registers of an AI Core.

    Args:
        values: One to three registers of 64 bits, in the order they are printed.
        catalogue: Where the bits are known.

    Returns:
        What the set bits mean; None where a value is no register.
    """
    if not 1 <= len(values) <= 3 or any(not 0 <= value < 1 << _REGISTER_BITS for value in values):
        return None
    shown = f"({', '.join(hex(value) for value in values)})"
    if not any(values):
        means = Text(
            en="No error bit is set: the kernel ran into its time limit, or ended itself by a trap.",
            zh="没有置位的错误位：算子执行超时，或由 trap 指令主动终止。",
        )
        return Entry(code=shown, family="aicore", severity="critical", means=means, advice="aicore-timeout")
    found: list[tuple[str, Text]] = []
    for register, value in enumerate(values, 1):
        for bit in range(_REGISTER_BITS):
            if value >> bit & 1:
                found.append(_bit(register, bit, catalogue))
    # The kinds are ranked; within a kind the lowest bit speaks.
    kind, best = min(found, key=lambda item: _AICORE_ORDER.index(item[0]) if item[0] else len(_AICORE_ORDER))
    return Entry(
        code=shown,
        family="aicore",
        severity="critical",
        means=Text(en=best.en.split(": ", 1)[1], zh=best.zh.split("：", 1)[1]),
        advice=kind or "aicore",
        details=tuple(detail for _, detail in found),
    )


def _bit(register: int, bit: int, catalogue: Catalogue) -> tuple[str, Text]:
    """Return the kind of an error bit (empty: not known), and what it says with its place."""
    row = catalogue.aicore.get((register, bit))
    en, zh = (row["en"], row["zh"]) if row else ("not known.", "未收录。")
    return row["advice"] if row else "", Text(
        en=f"register {register} bit {bit}: {en}", zh=f"寄存器 {register} 第 {bit} 位：{zh}"
    )


def event_fields(value: int) -> tuple[int, int, int]:
    """Return node type, sensor type and state of a device event."""
    return value >> 17 & 0x3FFF, value >> 9 & 0xFF, value & 0x1FF


def event(value: int, catalogue: Catalogue) -> Entry | None:
    """Explain a device event such as 0x80E01801; None where neither part nor state are known."""
    code = f"0x{value:08X}"
    row = catalogue.events.get(code.lower())
    node, sensor, state = event_fields(value)
    where = catalogue.event_nodes.get(node)
    what = catalogue.event_states.get((sensor, state))
    fields = Text(
        en=f"node type 0x{node:x}, sensor type 0x{sensor:x}, state 0x{state:x}",
        zh=f"节点类型 0x{node:x}，传感器类型 0x{sensor:x}，状态 0x{state:x}",
    )
    if row is not None and row["en"]:
        means = Text(en=row["en"], zh=row["zh"])
    elif where is not None and what is not None:
        means = Text(en=f"{_upper(where.en)}: {what['en']}.", zh=f"{where.zh}：{what['zh']}。")
    elif where is not None:
        means = Text(en=f"{_upper(where.en)}: an event whose kind is not known.", zh=f"{where.zh}：未收录的事件类型。")
    elif what is not None:
        means = Text(en=f"A part of the chip that is not known: {what['en']}.", zh=f"未收录的芯片部件：{what['zh']}。")
    else:
        return None
    severity = (row or {}).get("severity") or (what or {}).get("severity") or "error"
    advice = (row or {}).get("advice") or (what or {}).get("advice") or "ev-module"
    return Entry(
        code=code,
        family="event",
        severity=cast(Severity, severity),
        means=means,
        advice=advice,
        details=(fields,) if value >> 31 else (),
    )


def torch_npu(code: str, catalogue: Catalogue) -> Entry | None:
    """Explain a torch_npu code such as ERR02200; None where its kind is not known."""
    module, kind = code[3:5], code[5:8]
    part = catalogue.torch_npu["module"].get(module)
    row = catalogue.torch_npu["kind"].get(kind)
    if row is None:
        return None
    where = part or {"en": f"part {module}", "zh": f"模块 {module}", "symbol": module}
    return Entry(
        code=code,
        family="torch_npu",
        symbol=f"{where['symbol']} {row['symbol']}",
        severity=cast(Severity, row["severity"]),
        trust=cast(Trust, row["trust"]),
        means=Text(en=f"{row['en']}. Reported by {where['en']}.", zh=f"{row['zh']}。来自{where['zh']}。"),
        advice=row["advice"],
    )


def mindie(code: str, catalogue: Catalogue) -> Entry | None:
    """Explain a MindIE code, one by one where it is known, else by component and kind."""
    exact = catalogue.mindie.get(code)
    if exact is not None:
        return exact
    parts, kinds = catalogue.mindie_parts["part"], catalogue.mindie_parts["kind"]
    part = next((parts[code[:length]] for length in (8, 7, 5) if code[:length] in parts), None)
    if part is None:
        return None
    kind = kinds.get(f"{code[:5]}:{code[-2:]}")
    if kind is None:
        return None
    return Entry(
        code=code,
        family="mindie",
        severity=cast(Severity, "warning" if code[5] == "W" else kind["severity"]),
        means=Text(en=f"{part['en']}: {kind['en']}.", zh=f"{part['zh']}：{kind['zh']}。"),
        advice=kind["advice"],
    )


def hccl(value: int, catalogue: Catalogue) -> Entry | None:
    """Explain what HCCL prints as ``errNo[0x0000000005010009]``: module 5, part, result; None for other values."""
    entry = catalogue.hccl.get(str(value & 0xFF))
    if value >> 24 != 0x05 or value >> 16 & 0xFF > 1 or value >> 8 & 0xFF or entry is None:
        return None
    return Entry(
        code=f"0x{value:016x}",
        family="hccl",
        symbol=entry.symbol,
        severity=entry.severity,
        trust=entry.trust,
        means=entry.means,
        advice=entry.advice,
        details=(Text(f"HCCL result {entry.code}", f"HCCL 返回值 {entry.code}"),),
    )


def dvpp(value: int, catalogue: Catalogue) -> Entry | None:
    """Explain a code of media processing such as 0xA0058006; None where it is not made of known fields."""
    code = f"0x{value:08X}"
    module, reason = catalogue.dvpp["module"].get(code[4:6]), catalogue.dvpp["reason"].get(code[8:10])
    if code[2:4] != "A0" or code[6:8] != "80" or module is None or reason is None:
        return None
    return Entry(
        code=code,
        family="dvpp",
        severity=cast(Severity, reason["severity"]),
        means=Text(en=f"{_upper(module['en'])}: {reason['en']}.", zh=f"{module['zh']}：{reason['zh']}。"),
        advice=reason["advice"],
    )


def runtime(value: int, catalogue: Catalogue) -> Entry | None:
    """Explain an inner code of the runtime such as 0x07110013 by the ACL code it stands for."""
    code = f"0x{value:08X}"
    known = catalogue.runtime.get(code)
    if known is None:
        return None
    symbol, acl = known
    outer = catalogue.acl[acl]
    words = symbol.removeprefix("RT_ERROR_").replace("_", " ").lower()
    if outer.trust == "generic":
        means = Text(en=f"Inside the runtime: {words}. {outer.means.en}", zh=f"Runtime 内部：{words}。{outer.means.zh}")
    else:
        means = outer.means
    return Entry(
        code=code,
        family="runtime",
        symbol=symbol,
        severity=outer.severity,
        trust=outer.trust,
        means=means,
        advice=outer.advice,
        details=(Text(en=f"reported outside as {acl}", zh=f"对外返回码为 {acl}"),),
    )


def signal(number: int, catalogue: Catalogue, shown: str) -> Entry | None:
    """Explain that a process was ended by signal `number`, printed as `shown`."""
    entry = catalogue.signals.get(number)
    if entry is None:
        return None
    return Entry(
        code=shown,
        family=entry.family,
        symbol=entry.symbol,
        severity=entry.severity,
        trust=entry.trust,
        means=entry.means,
        advice=entry.advice,
        details=(Text(en=f"signal {number}", zh=f"信号 {number}"),) if shown != entry.code else (),
    )


_TRIPLE = re.compile(r"\(?\s*(0x[0-9A-Fa-f]+|\d+)\s*,\s*(0x[0-9A-Fa-f]+|\d+)\s*(?:,\s*(0x[0-9A-Fa-f]+|\d+)\s*)?\)?")


def triple(text: str) -> list[int] | None:
    """Return the registers written in `text` as two or three numbers with commas, None where it is something else."""
    match = _TRIPLE.fullmatch(text.strip())
    if match is None:
        return None
    return [int(part, 16) if part.lower().startswith("0x") else int(part) for part in match.groups() if part]


def worst(severities: Sequence[Severity]) -> Severity:
    """Return the gravest of several severities."""
    return max(severities, key=SEVERITIES.index, default="info")


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
