"""Reads Python exceptions out of log records: what was raised, where, and by which line of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from npudiag.tables.records import LogRecord

_RAISED = re.compile(
    r"^(?:[^\n]{0,160}?\b(?:ERROR|CRITICAL|FATAL)\b[^\n]{0,120}?[\s\]:-] ?"
    r"|\[[A-Za-z]{2,12}\]:? ?|(?:报错|错误|异常|[Ee]rror)[\w ]{0,8}(?:：|: ) ?)?\W{0,4}"
    r"(?P<exc>(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*)?(?:Error|Exception|Invalid|Failure|Timeout|Missing\w*|NotFound))"
    r"(?:\([^()\n]{0,40}\))?(?::[ \t]*(?P<message>\S[^\n]{0,600})?)?[ \t]*$",
    re.MULTILINE,
)
_FRAME = re.compile(
    r'^[ \t]*File "(?P<path>[^"\n]{1,300})", line \d+, in (?P<function>[^\n]{1,80})'
    r'(?:\n(?P<code>(?![ \t]*File ")[^\n]*))?',
    re.MULTILINE,
)
_BOX_FRAME = re.compile(r"(?P<path>[\w./\\~-]{2,300}?\.py):\d+ ?in ?(?P<function><?\w+>?)")
_BOX = re.compile(r"^\W*│([^\n]*?)│?[ \t]*$", re.MULTILINE)
_CHAINED = "\nDuring handling of the above exception"
_CAUSED = "\nThe above exception was the direct cause"
_IGNORED = "Exception ignored in"
_ESCAPED = "\\n  File "


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a traceback.

    Attributes:
        path: File of the code, as printed, with forward slashes.
        function: Function in it.
        code: The line of code, empty where it was not printed.
    """

    path: str
    function: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception that a record tells of.

    Attributes:
        record: The record.
        exception: Class of the exception, with its module where that was printed.
        message: First line of its message, empty where it has none.
        rest: What follows of the message in the same record.
        frames: Frames of its traceback, outermost first.
    """

    record: LogRecord
    exception: str
    message: str
    rest: str = ""
    frames: tuple[Frame, ...] = ()

    @property
    def name(self) -> str:
        """The class without its module."""
        return self.exception.rsplit(".", 1)[-1]

    @property
    def checked(self) -> str:
        """The line of code that refused on purpose (``raise`` or ``assert``), empty where none is shown."""
        code = self.frames[-1].code.strip() if self.frames else ""
        return code if code.startswith(("raise ", "raise(", "assert ", "assert(")) else ""


def read(record: LogRecord) -> Iterator[Raised]:
    """Yield the exceptions of a record: of a chain the last one, and ahead of it what directly caused it."""
    text = record.text
    if _ESCAPED in text:
        # A log of JSON lines: the traceback is one string.
        text = text.replace("\\n", "\n").replace('\\"', '"')
    text = text.split("\n" + _IGNORED, 1)[0]
    if text.startswith(_IGNORED):
        return
    for part in reversed(_links(text)):
        raised = _last(record, part)
        if raised is not None:
            yield raised


def _links(text: str) -> list[str]:
    """Return the parts of a chain that tell of one failure: those that were handled on the way are left out."""
    tail = text.rsplit(_CHAINED, 1)[-1]
    return tail.split(_CAUSED)


def _last(record: LogRecord, text: str) -> Raised | None:
    every = list(_RAISED.finditer(text))
    if not every:
        return None
    found = every[-1]
    head = text[: found.start()]
    frames = [
        Frame(m["path"].replace("\\", "/"), m["function"].strip(), (m["code"] or "").strip())
        for m in _FRAME.finditer(head)
    ]
    if not frames and "│" in head:
        joined = "".join(line.strip(" ❱") for line in _BOX.findall(head))
        frames = [Frame(m["path"], m["function"]) for m in _BOX_FRAME.finditer(joined)]
    message, rest = (found["message"] or "").strip(), text[found.end() :].strip()[:600]
    if not message and found[0].rstrip().endswith(":"):
        message, _, rest = rest.partition("\n")
    return Raised(record, found["exc"], message, rest, tuple(frames))
