"""The shape of JUnit XML that CI servers read: that of the xunit plugin's junit-10.xsd, which Jenkins goes by."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import NamedTuple

_COUNT = re.compile(r"\d+")
_SECONDS = re.compile(r"\d+(?:\.\d+)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_ANY = re.compile(r"[\s\S]*")
_SOME = re.compile(r"[\s\S]+")


class _Element(NamedTuple):
    needs: dict[str, re.Pattern[str]]
    may: dict[str, re.Pattern[str]]
    children: tuple[str, ...]
    """In the order in which they may come."""
    text: bool = False


_COUNTS = dict.fromkeys(("tests", "failures", "errors", "skipped"), _COUNT)
_OUTCOME = _Element({"message": _ANY}, {"type": _SOME}, (), text=True)
ELEMENTS = {
    "testsuites": _Element({"name": _SOME}, {**_COUNTS, "time": _SECONDS}, ("testsuite",)),
    "testsuite": _Element(
        {"name": _SOME, "tests": _COUNT}, {**_COUNTS, "time": _SECONDS, "timestamp": _TIME}, ("properties", "testcase")
    ),
    "properties": _Element({}, {}, ("property",)),
    "property": _Element({"name": _SOME, "value": _ANY}, {}, ()),
    "testcase": _Element(
        {"name": _SOME, "classname": _SOME}, {"time": _SECONDS}, ("skipped", "error", "failure", "system-out")
    ),
    "skipped": _OUTCOME,
    "error": _OUTCOME,
    "failure": _OUTCOME,
    "system-out": _Element({}, {}, (), text=True),
}


def faults(text: str) -> list[str]:
    """Return what a reader of JUnit XML would refuse in a document, one text each."""
    root = ElementTree.fromstring(text)
    found = [] if root.tag == "testsuites" else [f"the root is {root.tag}"]
    for element in root.iter():
        known = ELEMENTS.get(element.tag)
        if known is None:
            found.append(f"unknown element {element.tag}")
            continue
        allowed = {**known.needs, **known.may}
        found += [f"{element.tag} lacks {name}" for name in known.needs if name not in element.attrib]
        for name, value in element.attrib.items():
            if name not in allowed or not allowed[name].fullmatch(value):
                found.append(f"{element.tag} has {name}={value!r}")
        order = [known.children.index(child.tag) if child.tag in known.children else -1 for child in element]
        if -1 in order or order != sorted(order):
            found.append(f"{element.tag} holds {[child.tag for child in element]}")
        if not known.text and (element.text or "").strip():
            found.append(f"{element.tag} holds text")
    return found
