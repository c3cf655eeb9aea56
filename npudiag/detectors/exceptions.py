"""Python exceptions that no rule knows: judged by their words, their class and the code that raised them.

A last resort like `unexplained`: only where nothing else explains a failure, with low confidence, and silent where
neither words nor code tell what kind of failure it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npudiag.analyses.survival import went_on
from npudiag.detectors import raised as reading
from npudiag.detectors.exception_kinds import judge
from npudiag.detectors.failure_kinds import Kind
from npudiag.detectors.raised import Raised
from npudiag.engine.hits import Hit

if TYPE_CHECKING:
    from npudiag.tables.records import LogRecord
    from npudiag.tables.store import Store

_SHOWN = 6
_TOLD = 240
_LEVELS = frozenset((None, "ERROR", "CRITICAL", "FATAL", "EXCEPTION"))

_OTHERS = re.compile(
    r"(?:^|\.)(?:ChildFailedError|RayActorError|ActorDiedError|EngineDeadError|CancelledError|BrokenPipeError|KeyboardInterrupt"
    r"|ClientDisconnect|GeneratorExit|SystemExit|ProcessExitedException|ProcessRaisedException|DistBackendError"
    r"|WorkerCrashedError|RayTaskError|TestFailure|RemoteTraceback|ExceptionGroup|TrainingFailedError|InternalServerError)$"
)
"""Exceptions that only pass on what happened elsewhere."""

_HARMLESS = re.compile(
    r"[Ff]alling back|will be retried|[Rr]etrying|continuing without|Engine core initialization failed|EngineDeadError"
    r"|RPC call to |The Inner error is reported as above|error code is \d|NPU function error|HCCL function error"
    r"|check the stack trace above|DataLoader worker|: CheckpointException ranks:"
    r"|CalledProcessError: Command '?\[?'?(?:\S*/)?(?:(?:torchrun|deepspeed|accelerate|msrun)\b"
    r"|python[\d.]*', (?!'-m', 'pip|'setup))"
    r"|Remote end closed connection without response"
)
"""What handled exceptions say, and what stands for a message of CANN that others read."""


def unknown(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Return the first exception of which at least the kind can be told, as one hit.

    Args:
        store: The tables.
        params: None are read.
    """
    found = [item for item in _exceptions(store.log) if went_on(store, item.record) is None]
    found.sort(key=lambda item: (item.record.order, item.record.line))
    for item in found:
        kind = judge(item)
        if kind is not None:
            return [
                _hit(item, kind, [other for other in found if other is not item and other.exception == item.exception])
            ]
    return []


def _exceptions(records: Sequence[LogRecord]) -> list[Raised]:
    found = []
    for record in records:
        if record.level not in _LEVELS or record.kind == "slog" or _HARMLESS.search(record.text):
            continue
        for item in reading.read(record):
            if not _OTHERS.search(item.exception):
                found.append(item)
                break
    return found


def _hit(item: Raised, kind: Kind, others: Sequence[Raised]) -> Hit:
    message = (item.message or item.checked or item.rest.split("\n", 1)[0])[:_TOLD]
    frame = item.frames[-1] if item.frames else None
    captures: dict[str, Any] = {"exc": item.name, "message": message or None}
    if frame is not None:
        captures["place"] = f"{'/'.join(frame.path.rsplit('/', 2)[-2:])}, {frame.function}"
    alike: dict[int, Raised] = {other.record.group if other.record.group >= 0 else id(other): other for other in others}
    return Hit(
        records=[item.record, *(other.record for other in alike.values())][:_SHOWN],
        captures={name: value for name, value in captures.items() if value},
        occurrences=item.record.count + sum(other.record.count for other in others),
        category=kind.category,
        marks=(f"{item.name}: {message[:100]}" if item.message else item.name, message[:100])
        if message
        else (item.name,),
        values=(message,) if message else (),
        words={"subject": (kind.english, kind.chinese), "advice": (kind.advice, kind.advice_zh)},
    )
