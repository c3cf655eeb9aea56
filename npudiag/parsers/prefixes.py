"""Peels off what launchers, schedulers and platforms put in front of a line.

Prefixes stack in any order (``(EngineCore_1 pid=7) (VllmWorker rank=1 pid=9) ERROR 08-28 01:33:28 [core.py:634]``),
and several ranks write into one file line by line: what is peeled tells their lines apart again.

Only ``[rankN]``, ``rank=N`` and mpirun's tags are global ranks. Numbers in the names of workers (``Worker_TP0``,
``[default7]``) count within a group or a node and stay part of the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec


class Peeled(msgspec.Struct, frozen=True, gc=False):
    """A line without its prefixes, and what these told.

    Attributes:
        rest: The line behind all prefixes, its indentation kept.
        rank: Global rank.
        device: Device id.
        worker: Name of the process (``Worker_TP0``, ``default7``); of stacked names the innermost.
        pid: Process id that goes with `worker`.
        stage: Number of the pipeline stage.
        level: Level as written.
        time: Time stamp as written: ``MM-DD HH:MM:SS``, a time of day or ISO 8601.
        source: ``file.py:line``.
        label: Task number that srun put in front.
        ip: Address of the node.
        repeated: How many lines this one stands for.
    """

    rest: str
    rank: int | None = None
    device: int | None = None
    worker: str | None = None
    pid: int | None = None
    stage: int | None = None
    level: str | None = None
    time: str | None = None
    source: str | None = None
    label: int | None = None
    ip: str | None = None
    repeated: int = 1


_LEVEL = r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)"

# By first character. Each takes one blank behind it and no more: indentation belongs to the line.
_FORMS: dict[str, re.Pattern[str]] = {
    "(": re.compile(
        # (Worker_TP0 pid=1), (VllmWorker rank=1 pid=2), (TaskRunner pid=3, ip=10.0.0.7), (pid=4), (raylet)
        r"\((?:(?P<raylet>raylet)|(?:(?P<worker>[A-Za-z_][\w.:<>/-]{0,79}) )?(?:rank=(?P<rank>\d{1,7}) )?"
        r"pid=(?P<pid>\d{0,9}))(?:, ip=(?P<ip>[\w.:-]*))?\)(?: |$)"
    ),
    "[": re.compile(
        r"\[(?:rank(?P<rank>\d{1,7})\]:"  # torch
        r"|(?P<worker>(?:default|trainer|worker)\d{1,6})\]:"  # torchrun --tee
        r"|(?P<host>[A-Za-z][\w.-]{0,63}:\d{1,4})\]:(?= )"  # the same, with the host's name
        r"|Stage-(?P<stage>\d{1,4})\](?= |$)"
        r"|device (?P<device>\d{1,4})\]:?"
        r"|\d+,(?P<mpi>\d{1,7})\]<std(?:out|err)>:?"  # mpirun --tag-output
        # SGLang: the level is not printed
        r"|(?P<date>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?P<group>(?: (?:DP|TP|PP|EP|CP)\d{1,4})+)\](?= |$)"
        r") ?"
    ),
    "0": re.compile(
        # What a platform's console puts in front: time of day, or kubectl --timestamps
        r"(?:(?P<time>\d\d:\d\d:\d\d\.\d{3}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6,9}Z)"
        # pdsh, which DeepSpeed starts nodes with
        r"|(?P<host>\d{1,3}(?:\.\d{1,3}){3}):)(?: |$)"
    ),
    "L": re.compile(
        # vLLM: ERROR 08-28 01:33:28 [core.py:634], before 2025 without the opening bracket
        _LEVEL + r" (?P<time>(?:\d\d-\d\d )?\d\d:\d\d:\d\d(?:\.\d+)?)"
        r"(?: (?:\[(?P<source>[^\]\s]{1,120}:\d+)\]|(?P<old_source>[\w./-]{1,120}:\d+)\]))?(?: |$)"
    ),
}
_SECOND = frozenset("abcdefghijklmnopqrstuvwxyzS0123456789")
"""What may follow a bracket: rules out ``[ERROR] ``, the most frequent start of a line."""

_FORM_OF = {first: _FORMS[first] for first in "(["}
_FORM_OF |= dict.fromkeys("0123456789", _FORMS["0"]) | dict.fromkeys("DIWEC", _FORMS["L"])
_LABEL = re.compile(r" {0,5}(\d{1,6}):(?: |$)")
_BAR = re.compile(
    # tqdm: "what: 12%|###   | 3/25 [00:01<00:09, 2.4it/s]"; it ends no line, so what is printed next stands behind it
    r"[^|]{0,120}?\d{1,3}%\|[^|]*\|\s*[\d.]+[kMGT]?(?:iB|B)?/[\d.?]+[kMGT]?(?:iB|B)?\s*\[[^\]]{0,160}\]\s*"
)
_REPEATED = re.compile(r" ?\[repeated (\d+)x across (?:cluster|all nodes)\].*$", re.DOTALL)
_MOST = 8


def peel(text: str, labels: bool = False) -> Peeled:
    """Return `text` without its prefixes.

    Args:
        text: One clean line.
        labels: Whether lines begin with srun's task numbers (``3: ``); see `has_labels`.
    """
    if not labels and (text[:1] not in _FORM_OF or (text[0] == "[" and text[1:2] not in _SECOND)):
        return Peeled(text)
    found: dict[str, Any] = {}
    at = 0
    if labels and (match := _LABEL.match(text)):
        found["label"] = int(match[1])
        at = match.end()
    for _ in range(_MOST):
        form = _FORM_OF.get(text[at : at + 1])
        match = form.match(text, at) if form else None
        if match is None:
            break
        told = match.groupdict()
        if "level" in told and "level" in found:
            break  # what follows a level is the message, even where it looks like another header
        for name, value in told.items():
            if value:
                _FIELDS[name](found, value)
        at = match.end()
    if at == 0:
        return Peeled(text)
    rest = text[at:]
    if "worker" in found and rest.find("x across ") >= 0 and (match := _REPEATED.search(rest)):
        found["repeated"] = int(match[1])
        rest = rest[: match.start()]
    return Peeled(rest, **found)


def process_end(text: str) -> int:
    """Return the offset behind the last prefix that tells the process of a line: its worker, rank or pid."""
    stop = len(text) - len(peel(text).rest)
    at = end = 0
    while at < stop:
        match = _FORM_OF[text[at]].match(text, at)
        if match is None:
            break
        at = match.end()
        if any(value for name, value in match.groupdict().items() if name in _PROCESS):
            end = at
    return end


def behind_bar(peeled: Peeled) -> Peeled | None:
    """Return what stands behind the progress bar that `peeled` begins with, peeled itself; None where none does.

    Nothing behind it gives an empty text.
    """
    bar = _BAR.match(peeled.rest) if "%|" in peeled.rest else None
    if bar is None:
        return None
    told = peel(peeled.rest[bar.end() :])
    own = {name: getattr(told, name) for name in Peeled.__struct_fields__}
    known = {name: getattr(peeled, name) for name in Peeled.__struct_fields__}
    return Peeled(**{name: known[name] if value is None else value for name, value in own.items()})


def _text(name: str) -> Callable[[dict[str, Any], str], None]:
    def put(found: dict[str, Any], value: str) -> None:
        found[name] = value

    return put


def _number(name: str) -> Callable[[dict[str, Any], str], None]:
    def put(found: dict[str, Any], value: str) -> None:
        found[name] = int(value)

    return put


def _time(found: dict[str, Any], value: str) -> None:
    """Of several, keep the program's own, which others are compared with, and of those one with a date."""
    held = found.get("time")
    if held is None or held.endswith("Z") or "-" not in held or (len(value) > len(held) and not value.endswith("Z")):
        found["time"] = value


# Group of a form to what it fills. Innermost prefixes come last and win.
_FIELDS: dict[str, Callable[[dict[str, Any], str], None]] = {
    "raylet": _text("worker"),
    "worker": _text("worker"),
    "host": _text("worker"),
    "group": lambda found, value: found.update(worker=value.strip()),
    "rank": _number("rank"),
    "mpi": _number("rank"),
    "pid": _number("pid"),
    "ip": _text("ip"),
    "stage": _number("stage"),
    "device": _number("device"),
    "time": _time,
    "date": _time,
    "level": _text("level"),
    "source": _text("source"),
    "old_source": _text("source"),
}


_PROCESS = frozenset(("raylet", "worker", "host", "group", "rank", "mpi", "pid"))


def has_labels(lines: Sequence[str]) -> bool:
    """Say whether all lines begin with task numbers as srun writes them.

    Numbers that only grow are line numbers, and a few lines prove nothing.
    """
    lines = [line for line in lines if line and not line.isspace()]
    numbers = [int(match[1]) for line in lines if (match := _LABEL.match(line))]
    if len(numbers) < 4 or len(numbers) * 20 < len(lines) * 19:
        return False
    return len(set(numbers)) < len(numbers)
