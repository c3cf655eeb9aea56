"""What error records say that no rule knows: the part of the stack they come from, and what kind of failure they name.

This is the last resort, for inputs whose failure nothing else explains. It says little and says so: which component
reported an error first, in which process, and the records around it.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npudiag.engine.hits import Hit
from npudiag.tables.records import LogRecord

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_GRAVE = frozenset(("ERROR", "CRITICAL", "FATAL", "EXCEPTION"))
_UNKNOWN = "insufficient-evidence"
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the software stack, as its log modules name it.

    Attributes:
        modules: Log modules that belong to it.
        category: What kind of failure its errors are, where their words do not say more.
        english, chinese: What it is called.
    """

    modules: frozenset[str]
    category: str
    english: str
    chinese: str


PARTS = (
    Part(frozenset(("HCCL", "HCCP", "HCOM", "HCCL_ADPT", "DISTRIBUTED")), "hccl-init", "communication", "集合通信"),
    Part(frozenset(("MD",)), "data-pipeline", "data pipeline", "数据处理"),
    Part(frozenset(("PARALLEL",)), "config", "parallel compiler", "并行编译"),
    Part(
        frozenset(
            (
                *("GE", "FE", "TEFUSION", "TBE", "OP", "OPP", "ATC", "FMK", "PARSER", "FFTS", "ATB", "AICPUOPS"),
                *("KERNEL", "SESSION", "PRE_ACT", "OPTIMIZER", "GRAPH_KERNEL", "LITE"),
            )
        ),
        "operator",
        "graph and operators",
        "图与算子",
    ),
    Part(frozenset(("DVPP", "ACLDVPP")), "operator", "media processing", "媒体处理"),
    Part(frozenset(("AICPU", "CCECPU")), "aicpu-exception", "AI CPU", "AI CPU"),
    Part(
        frozenset(("ASCENDCL", "RUNTIME", "APP", "GE_ADPT", "DEVICE", "ANALYZER", "PYNATIVE")),
        _UNKNOWN,
        "runtime",
        "运行时",
    ),
    Part(frozenset(("TDT", "TSD", "TSDAEMON", "CCECPUTSD")), "environment", "device daemon", "Device 侧守护进程"),
    Part(frozenset(("DRV", "ROCE", "TS", "LPM", "DEVMM", "DMP", "HDC")), "device-fault", "driver", "驱动"),
)
"""From the caller to the called: where several report one failure, the first of them names it."""

_PART = {module: part for part in PARTS for module in part.modules}

_HARMLESS = re.compile(r"acltdt\w+|tdt result|_check_version\.py|rs_peer_get_ifnum|ctx is NULL|GetResInCurrentThread")
"""Errors that jobs print which end well: a queue that is closed at the end of the data, checks of other devices."""

_FAILS = re.compile(
    r"fail|err(?:or|no|code)?[^a-z]|invalid|illegal|exception|time(?:d)? ?out|mismatch|inconsistent|refus|denied|abort"
    r"|not (?:support|found|equal|exist|match|allow|enough)|can ?not|can't|unable|out of|lost|unknown|unexpected"
    r"|no such|exceed|overflow|null|ret(?:code)?[ =:\[]{1,3}-?[1-9]",
    re.IGNORECASE,
)
"""What a message about a failure says; there are components that print measurements at level ERROR."""

_WORDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (category, re.compile(pattern, re.IGNORECASE))
    for category, pattern in (
        (
            "out-of-memory",
            r"out of memory|not enough memory|memory[^\n]{0,20}(?:exhausted|not enough)|ENOMEM|\b207001\b"
            r"|mem\w* ?alloc\w*[^\n]{0,20} fail|malloc\w*(?: \w+)? fail",
        ),
        ("permission", r"permission denied|operation not permitted|\bEACCES\b"),
        ("process-conflict", r"already (?:in use|been bound|bound|occupied)|(?:used|occupied) by (?:an)?other"),
        (
            "version-mismatch",
            r"version[^\n]{0,60}(?:not match|mismatch|inconsistent|incompatible|too (?:old|low|new))"
            r"|(?:not match|incompatible|inconsistent)[^\n]{0,40}version|undefined symbol",
        ),
        (
            "environment",
            r"cannot open shared object|dlopen[^\n]{0,80}fail|(?:open|load|find)[^\n]{0,200}\.so\b[^\n]{0,20} fail"
            r"|fail[^\n]{0,20} (?:to )?(?:open|load|find|import)\b[^\n]{0,200}\.so\b|fail\w* to (?:import|init tbe)"
            r"|no module named|no such file or directory|open so failed",
        ),
        (
            "config",
            r"pars(?:e|ing)[^\n]{0,40}(?:json|config|file|option)|(?:json|config|env(?:ironment)?)\b[^\n]{0,60}(?:invalid|illegal)",
        ),
    )
)
_FAULTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("data-pipeline", re.compile(r"get_?next|dataset", re.IGNORECASE)),
    (
        "aicore-exception",
        re.compile(r"\bai ?core\b(?!/)|\baivec\b|vector core|\b5070(?:1[457]|3[45])\b", re.IGNORECASE),
    ),
    ("aicpu-exception", re.compile(r"ai ?cpu (?:exception|execut|kernel|task|engine)|\b507018\b", re.IGNORECASE)),
)
"""What breaks on the card, where no other words tell."""
_TIMEOUT = re.compile(r"time(?:d)? ?out", re.IGNORECASE)
_AHEAD = re.compile(r"^\[\w+\] \w+\([^)\n]*\): ?(?:\d{4}-[\d:.-]+ ?)?(?:\[[^\]\n]*\] ?|\d+ |\(\w+:\d+\) ?|tid:\d+,?)*")


def records(store: Store, params: Mapping[str, Any]) -> list[Hit]:
    """Return the first burst of error records of the stack that the job did not survive, as one hit.

    Args:
        store: The tables.
        params: ``burst_s``, seconds from the first record to the last that tells of the same failure; ``alive_s``,
            seconds after which a process that still writes has got over its error.
    """
    found = [record for record in store.log if _counts(record)]
    if not found:
        return []
    alive_us = float(params["alive_s"]) * 1e6
    found = _not_survived(found, store, alive_us)
    if not found:
        return []
    first = min(found, key=lambda record: (record.time_us is None, record.time_us or 0, record.order, record.line))
    burst_us = float(params["burst_s"]) * 1e6
    burst = [record for record in found if _belongs(record, first, burst_us)]
    part = min((_part(record) for record in burst), key=PARTS.index)
    category, telling = _kind(burst, part)
    told = telling or first
    shown = list({record.group if record.group >= 0 else id(record): record for record in reversed(burst)}.values())
    shown.sort(key=lambda record: (record is not told, record.line))
    return [
        Hit(
            records=shown[:_SHOWN],
            captures={"module": told.module, "detail": _message(told.text)},
            occurrences=sum(record.count for record in burst),
            category=category,
            severity="warning" if category == _UNKNOWN else "error",
            words={"part": (part.english, part.chinese)},
        )
    ]


def _counts(record: LogRecord) -> bool:
    if record.level not in _GRAVE or record.module not in _PART or _HARMLESS.search(record.text):
        return False
    return bool(_FAILS.search(_message(record.text)))


def _part(record: LogRecord) -> Part:
    # The card's own kernel logs under the name that MindSpore has for its kernels.
    return _PART["DRV" if record.process == "sklogd" else record.module or ""]


def _belongs(record: LogRecord, first: LogRecord, burst_us: float) -> bool:
    if record.file != first.file:
        return False
    return first.time_us is None or record.time_us is None or record.time_us - first.time_us <= burst_us


def _not_survived(found: Sequence[LogRecord], store: Store, alive_us: float) -> list[LogRecord]:
    """Drop the records after which their process, or the training, went on for long."""
    ends = {row["file"]: _us(row["last_time"]) for row in store.rows("files")}
    trained = max((us for row in store.rows("train_steps") if (us := _us(row.get("time"))) is not None), default=None)
    kept = []
    for record in found:
        later = [us for us in (ends.get(record.file), trained) if us is not None]
        if record.time_us is None or not any(us - record.time_us > alive_us for us in later):
            kept.append(record)
    return kept


def _us(value: datetime.datetime | None) -> int | None:
    if value is None:
        return None
    return int((value - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1))


def _kind(burst: Sequence[LogRecord], part: Part) -> tuple[str, LogRecord | None]:
    """Return the category that the words of the records name, and the record that has them."""
    for record in burst:
        for category, words in _WORDS:
            if words.search(record.text):
                return category, record
        if part.category == "hccl-init" and _TIMEOUT.search(record.text):
            return "hccl-timeout", record
    if part.category != "hccl-init":
        for category, words in _FAULTS:
            for record in burst:
                if words.search(record.text):
                    return category, record
    return part.category, None


def _message(text: str) -> str:
    """Return the first line of a record without its header, place and thread."""
    line = text.split("\n", 1)[0]
    return (_AHEAD.sub("", line) or line).strip()[:200]
