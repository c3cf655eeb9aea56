"""Numbers and settings as people read them, in both languages."""

from __future__ import annotations

from npudiag.comparison.model import Part, Said, Setting

PART: dict[Part, Said] = {
    "computing": Said("computing", "计算"),
    "communication": Said("uncovered communication", "未掩盖通信"),
    "pipeline": Said("waiting for pipeline stages", "流水线等待"),
    "free": Said("idle time of the device", "设备空闲"),
}


def ms(value: float, *, signed: bool = False) -> str:
    """Return a time given in milliseconds, with a sign where it is a change."""
    sign = "+" if signed and value > 0 else "-" if value < 0 else ""
    size = abs(value)
    if size < 0.0005:
        return "0 ms"
    if size >= 10_000:
        return f"{sign}{size / 1000:.1f} s"
    digits = 0 if size >= 99.5 else 1 if size >= 9.95 else 2 if size >= 0.1 else 3
    return f"{sign}{size:.{digits}f} ms"


def pct(value: float, *, signed: bool = False) -> str:
    """Return a share in percent."""
    sign = "+" if signed and value > 0 else "-" if value < 0 else ""
    size = abs(value)
    return f"{sign}{size:.{0 if size >= 9.95 else 1}f} %"


def plain(value: float) -> str:
    """Return a number with four digits that count."""
    return f"{value:,.0f}" if abs(value) >= 1000 and value == int(value) else f"{value:.4g}"


def both(en: str, zh: str, /, **values: str) -> Said:
    """Return a text with its places filled."""
    return Said(en.format(**values), zh.format(**values))


def listed(items: list[Said]) -> Said:
    """Return texts as a list within a sentence."""
    return Said(", ".join(item.en for item in items), "、".join(item.zh for item in items))


def since(setting: Setting) -> Said:
    """Say what happened to a setting from A to B."""
    name = setting.name
    if setting.b is None:
        return both("{name} is gone", "去掉了 {name}", name=name)
    if setting.a is None:
        value = f"{name}={setting.b}" if setting.kind == "env" else f"{name} {setting.b}".rstrip()
        return both("{value} was added", "增加了 {value}", value=value)
    return both(
        "{name} went from {a} to {b}", "{name} 由 {a} 改为 {b}", name=name, a=setting.a or "on", b=setting.b or "on"
    )
