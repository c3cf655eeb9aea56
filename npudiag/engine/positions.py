"""YAML as nodes that know where they stand, and a reader that collects every fault.

The YAML accepted here is a safe subset: one document, no tags, no anchors or aliases
(an alias can blow a small file up without bound), bounded depth, and the scalars of
YAML 1.2: only ``true`` and ``false`` are booleans, ``on``, ``no`` or ``12:30`` are text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from npudiag.errors import Fault

MAX_BYTES = 1 << 20
"""Largest file that is read, in bytes."""
MAX_DEPTH = 16
"""Deepest nesting that is accepted."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | float | None] = {
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "false": False,
    ".inf": float("inf"),
    "-.inf": float("-inf"),
    ".nan": float("nan"),
}


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value. `plain` tells an unquoted one, which may be a number; lines and columns are 1-based."""

    text: str
    plain: bool
    line: int
    column: int

    @property
    def value(self) -> str | int | float | bool | None:
        """The value that the text stands for; a number with leading zeros is text."""
        if not self.plain:
            return self.text
        if self.text in _WORDS:
            return _WORDS[self.text]
        if _INT.fullmatch(self.text):
            return int(self.text, 16 if self.text.startswith("0x") else 10)
        if _FLOAT.fullmatch(self.text) and not re.match(r"[-+]?0[0-9]", self.text):
            return float(self.text)
        return self.text


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: list[Node]
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Pairs:
    """A mapping, as its pairs in the order of the file, repeated keys included."""

    pairs: list[tuple[Scalar, Node]]
    line: int
    column: int


Node: TypeAlias = Scalar | Items | Pairs


def describe(node: Node) -> str:
    """Say what was found in place of something else."""
    if isinstance(node, Items):
        return "a list"
    if isinstance(node, Pairs):
        return "a mapping"
    value = node.value
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the truth value {node.text}"
    if isinstance(value, (int, float)):
        return f"the number {node.text}"
    return f"the text {shorten(node.text)}"


def shorten(text: str, limit: int = 60) -> str:
    """Quote `text` for a message, on one line and at most about `limit` characters long."""
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")


def suggestion(word: str, allowed: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the nearest of `allowed`, or an empty string."""
    import difflib

    near = difflib.get_close_matches(word, list(allowed), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def one_of(found: str, what: str, allowed: Collection[str]) -> str:
    """Word the fault of a name that is none of `allowed`; `what` is a noun, or ``noun in a place``."""
    noun, within, place = what.partition(" in ")
    return f"unknown {noun} {shorten(found)}{within}{place}; allowed: {', '.join(allowed)}{suggestion(found, allowed)}"


class _Composer:
    """Turns the event stream of the YAML parser into nodes; not recursive over the input's depth."""

    def __init__(self, path: str, events: Iterator[Any]) -> None:
        self.path = path
        self.events = events
        self.faults: list[Fault] = []

    def fault(self, event: Any, message: str) -> None:
        mark = event.start_mark
        self.faults.append(Fault(self.path, mark.line + 1, mark.column + 1, message))

    def documents(self) -> list[Node]:
        """Return the root of every document; stops at a nesting that is too deep."""
        roots: list[Node] = []
        open_nodes: list[Items | Pairs] = []
        open_keys: list[Scalar | None] = []
        for event in self.events:
            node = self._node(event)
            if node is None:
                if isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
                    open_nodes.pop()
                    open_keys.pop()
                continue
            if not open_nodes:
                roots.append(node)
            elif isinstance(parent := open_nodes[-1], Items):
                parent.items.append(node)
            elif (key := open_keys[-1]) is not None:
                parent.pairs.append((key, node))
                open_keys[-1] = None
            elif isinstance(node, Scalar):
                open_keys[-1] = node
            else:
                self.fault(event, "a key must be a single word; quote the text if it holds { or [")
                open_keys[-1] = Scalar("?", False, node.line, node.column)
            if not isinstance(node, Scalar):
                if len(open_nodes) >= MAX_DEPTH:
                    self.fault(event, f"nested more than {MAX_DEPTH} levels deep")
                    return []
                open_nodes.append(node)
                open_keys.append(None)
        return roots

    def _node(self, event: Any) -> Node | None:
        mark = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            self.fault(event, f"alias *{event.anchor} is not accepted; write the value out")
            return Scalar("", True, mark.line + 1, mark.column + 1)
        if not isinstance(event, (yaml.ScalarEvent, yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            return None
        if event.anchor is not None:
            self.fault(event, f"anchor &{event.anchor} is not accepted; write the value out where it is needed")
        if event.tag is not None:
            self.fault(event, f"tag {event.tag} is not accepted; write a plain or quoted value")
        line, column = mark.line + 1, mark.column + 1
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(event.value, bool(event.implicit[0]), line, column)
        return Items([], line, column) if isinstance(event, yaml.SequenceStartEvent) else Pairs([], line, column)


def compose(data: bytes, path: str) -> tuple[Node | None, list[Fault]]:
    """Parse one YAML document.

    Args:
        data: The file's bytes.
        path: How to call the file in faults.

    Returns:
        The root node, None where nothing usable was found, and the faults.
    """
    if len(data) > MAX_BYTES:
        return None, [Fault(path, 0, 0, f"{len(data):,} bytes; a rule file has at most {MAX_BYTES:,}")]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = len(before) - (before.rfind(b"\n") + 1) + 1
        return None, [Fault(path, before.count(b"\n") + 1, column, "not UTF-8; save the file as UTF-8")]
    composer = _Composer(path, yaml.parse(text, Loader=_LOADER))
    try:
        roots = composer.documents()
    except yaml.YAMLError as error:
        return None, [*composer.faults, _syntax_fault(path, text, error)]
    if not composer.faults and not roots:
        composer.faults.append(Fault(path, 1, 1, "the file is empty"))
    if len(roots) > 1:
        composer.faults.append(Fault(path, roots[1].line, 1, "a second document; a file holds exactly one"))
    return (roots[0] if roots else None), composer.faults


def _syntax_fault(path: str, text: str, error: yaml.YAMLError) -> Fault:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        problem = getattr(error, "problem", None) or "not YAML"
        return Fault(path, mark.line + 1, mark.column + 1, f"not valid YAML: {problem}")
    position = getattr(error, "position", None)
    if isinstance(position, int) and position >= 0:
        before = text[:position]
        column = position - (before.rfind("\n") + 1) + 1
        return Fault(path, before.count("\n") + 1, column, "a control character; write it as an escape in quotes")
    return Fault(path, 1, 1, f"not valid YAML: {error}")


class Reader:
    """Reads nodes as typed values; each method notes a fault and returns a harmless value where it must."""

    def __init__(self, path: str, faults: list[Fault]) -> None:
        self.path = path
        self.faults = faults

    def fault(self, node: Node, message: str) -> None:
        """Note a fault at `node`."""
        self.faults.append(Fault(self.path, node.line, node.column, message))

    def fields(
        self, node: Node, what: str, *, required: Sequence[str] = (), optional: Sequence[str] = ()
    ) -> dict[str, Node]:
        """Return the values of a mapping with known keys."""
        found = self.mapping(node, what)
        allowed = (*required, *optional)
        for name in [name for name in found if name not in allowed]:
            key, _ = found.pop(name)
            self.fault(key, one_of(name, f"key in {what}", allowed))
        missing = [name for name in required if name not in found]
        if missing and isinstance(node, Pairs):
            self.fault(node, f"{what} lacks {', '.join(missing)}")
        return {name: value for name, (_, value) in found.items()}

    def mapping(self, node: Node, what: str) -> dict[str, tuple[Scalar, Node]]:
        """Return a mapping with free keys as name to (key node, value node)."""
        if not isinstance(node, Pairs):
            self.fault(node, f"{what} must be a mapping, found {describe(node)}")
            return {}
        found: dict[str, tuple[Scalar, Node]] = {}
        for key, value in node.pairs:
            if key.text in found:
                self.fault(key, f"key {shorten(key.text)} stands twice; first in line {found[key.text][0].line}")
            else:
                found[key.text] = (key, value)
        return found

    def items(self, node: Node, what: str) -> list[Node]:
        """Return the elements of a list."""
        if not isinstance(node, Items):
            self.fault(node, f"{what} must be a list, found {describe(node)}")
            return []
        return node.items

    def text(self, node: Node, what: str) -> str:
        """Return a non-empty text; a number or truth value is taken as it is written."""
        if not isinstance(node, Scalar) or node.value is None:
            self.fault(node, f"{what} must be a text, found {describe(node)}")
            return ""
        if not node.text.strip():
            self.fault(node, f"{what} is empty")
        return node.text

    def strict_text(self, node: Node, what: str) -> str:
        """Return a non-empty text; an unquoted number is a fault, as its spelling may not be what was meant."""
        if isinstance(node, Scalar) and not isinstance(node.value, str) and node.value is not None:
            self.fault(node, f"{what} must be a text, found {describe(node)}; quote it")
            return node.text
        return self.text(node, what)

    def texts(self, node: Node, what: str) -> tuple[str, ...]:
        """Return a list of texts without repeats."""
        found: list[str] = []
        for item in self.items(node, what):
            text = self.strict_text(item, f"an element of {what}")
            if text in found:
                self.fault(item, f"{shorten(text)} stands twice in {what}")
            elif text:
                found.append(text)
        return tuple(found)

    def choice(self, node: Node, what: str, allowed: Collection[str]) -> str:
        """Return one of `allowed`; its first element after a fault."""
        text = self.text(node, what)
        if text in allowed:
            return text
        if text:
            self.fault(node, one_of(text, what, allowed))
        return next(iter(allowed))

    def choices(self, node: Node, what: str, allowed: Collection[str]) -> tuple[str, ...]:
        """Return a list of distinct elements of `allowed`."""
        found = []
        for item in self.items(node, what):
            text = self.text(item, what)
            if text and text not in allowed:
                self.fault(item, one_of(text, what, allowed))
            elif text in found:
                self.fault(item, f"{shorten(text)} stands twice in {what}")
            elif text:
                found.append(text)
        return tuple(found)

    def integer(self, node: Node, what: str, *, low: int = 0, high: int | None = None) -> int:
        """Return a whole number in a range; `low` after a fault."""
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, int) and not isinstance(value, bool) and value >= low and (high is None or value <= high):
            return value
        bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
        self.fault(node, f"{what} must be a whole number {bounds}, found {describe(node)}")
        return low

    def integers(self, node: Node, what: str) -> tuple[int, ...]:
        """Return a list of whole numbers of at least 0."""
        return tuple(self.integer(item, f"an element of {what}") for item in self.items(node, what))

    def truth(self, node: Node, what: str) -> bool:
        """Return a truth value; False after a fault."""
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, bool):
            return value
        self.fault(node, f"{what} must be true or false, found {describe(node)}")
        return False

    def plain(self, node: Node) -> Any:
        """Return any value as plain Python data."""
        if isinstance(node, Items):
            return [self.plain(item) for item in node.items]
        if isinstance(node, Pairs):
            return {name: self.plain(value) for name, (_, value) in self.mapping(node, "the value").items()}
        return node.value
