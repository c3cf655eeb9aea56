"""Fills the texts of rules with what was captured.

``{name}`` is replaced by a value; a part in double brackets, ``[[ on device {device}]]``,
is dropped when a name inside it has no value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_OPTIONAL = re.compile(r"\[\[((?:(?!\]\]).)*)\]\]", re.DOTALL)
_NAME = re.compile(r"(?<!\$)\{([A-Za-z_]\w*)\}")
_LONGEST = 200


def render(text: str, values: Mapping[str, Any]) -> str:
    """Return `text` with its names filled in; a name without a value outside brackets shows as ``?``."""

    def optional(match: re.Match[str]) -> str:
        inner = match.group(1)
        if all(_has(values, name) for name in _NAME.findall(inner)):
            return inner
        return ""

    def name(match: re.Match[str]) -> str:
        return _show(values[match.group(1)]) if _has(values, match.group(1)) else "?"

    return _NAME.sub(name, _OPTIONAL.sub(optional, text)).strip()


def _has(values: Mapping[str, Any], name: str) -> bool:
    value = values.get(name)
    return value is not None and value != "" and value != []


def _show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, (list, tuple)):
        return span(value)
    text = str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def span(values: list[Any] | tuple[Any, ...]) -> str:
    """Return numbers as ranges (``0-3, 7``), other values as a list; long lists are cut."""
    if not values or not all(isinstance(value, int) for value in values):
        shown = ", ".join(str(value) for value in values[:8])
        return shown if len(values) <= 8 else f"{shown}, … ({len(values)})"
    numbers = sorted(set(values))
    parts: list[str] = []
    start = previous = numbers[0]
    for number in [*numbers[1:], None]:
        if number is not None and number == previous + 1:
            previous = number
            continue
        parts.append(str(start) if start == previous else f"{start}-{previous}")
        if number is not None:
            start = previous = number
    return ", ".join(parts[:16]) + (f", … ({len(numbers)})" if len(parts) > 16 else "")
