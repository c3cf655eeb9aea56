"""The two sides of a comparison: runs to analyse, analysed runs, or result documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import msgspec

from npudiag.comparison.model import Said, Side
from npudiag.comparison.snapshot import Kernel, Pace, Parts, Snapshot, take
from npudiag.errors import UsageError
from npudiag.result import SCHEMA_VERSION, Result, decode

if TYPE_CHECKING:
    from npudiag.analyze import Options
    from npudiag.engine.load import RulePack
    from npudiag.tables.store import Store

Source = Union["str", "PathLike[str]", "Sequence[str | PathLike[str]]", Result, "tuple[Result, Store]"]
"""A path or several, a document, or a document with the tables behind it."""

_HEAD = 256
_MOST_BYTES = 1 << 28

_UNTOLD: tuple[tuple[str, Said], ...] = (
    ("settings", Said("options and variables", "启动参数与环境变量")),
    ("pace", Said("step times of a training log", "训练日志中的单步时间")),
    ("parts", Said("where the time of a step goes (profile)", "单步时间构成（profiling）")),
    ("kernels", Said("kernels (profile)", "算子（profiling）")),
    ("talks", Said("communication (profile)", "通信（profiling）")),
    ("losses", Said("the loss", "loss")),
    ("memory", Said("memory", "显存")),
)


@dataclass(slots=True)
class Run:
    """One side, ready to be compared."""

    side: Side
    result: Result
    snapshot: Snapshot


def load(source: Source, name: str, pack: RulePack | None, options: Options) -> Run:
    """Read one side.

    Args:
        source: What it is.
        name: How to call it where it has no name.
        pack: Rules for what has to be analysed; None takes the shipped ones.
        options: How to analyse.

    Raises:
        UsageError: A path does not exist, or a document is of another schema.
    """
    if isinstance(source, Result):
        return _document(source, name)
    if isinstance(source, tuple) and len(source) == 2 and isinstance(source[0], Result):
        return _analysed(source[0], source[1], name)
    paths = [source] if isinstance(source, (str, PathLike)) else list(source)
    listed = [fspath(path) for path in paths if isinstance(path, (str, PathLike))]
    if not listed:
        raise UsageError("there is nothing to compare")
    name = _named(listed)
    if len(listed) == 1 and (document := read(Path(listed[0]))) is not None:
        return _document(document, name)
    from npudiag.analyze import analyze
    from npudiag.engine.load import load_pack

    return _analysed(*analyze(listed, pack or load_pack(), options), name)


def read(path: Path) -> Result | None:
    """Return the result document in a file; None where the file is none.

    Raises:
        UsageError: It is one of a schema that this version does not know.
    """
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        with path.open("rb") as stream:
            # The schema stands first; a trace of the profiler is JSON as well, and may be large.
            head = stream.read(_HEAD)
            data = head + stream.read(_MOST_BYTES) if b'"schema"' in head else b""
        found = decode(data)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if found.schema != SCHEMA_VERSION:
        raise UsageError(f"{path} has schema {found.schema}; this version reads schema {SCHEMA_VERSION}")
    return found


def _named(paths: Sequence[str]) -> str:
    """Return a name without folders of this machine."""
    first = "/".join(Path(paths[0]).absolute().parts[-2:])
    return first.lstrip("/") + (f" +{len(paths) - 1}" if len(paths) > 1 else "")


def _analysed(result: Result, store: Store, name: str) -> Run:
    cards = result.coverage.ranks_expected
    # The tables hold every step; the document keeps some.
    snapshot = take(store, cards=cards, points=None)
    return Run(_side(result, snapshot, name, "run"), result, snapshot)


def _document(result: Result, name: str) -> Run:
    try:
        snapshot = msgspec.convert(result.snapshot, Snapshot) if result.snapshot else _from_facts(result)
    except msgspec.ValidationError:
        snapshot = _from_facts(result)
    return Run(_side(result, snapshot, name, "document"), result, snapshot)


def _side(result: Result, snapshot: Snapshot, name: str, kind: Any) -> Side:
    untold = [text for field, text in _UNTOLD if not getattr(snapshot, field)]
    if snapshot.losses is not None and not snapshot.losses.whole:
        untold.append(Said("the loss of every step: a document keeps some", "每一步的 loss：结果文档只保留部分步"))
    stack, version = (str(result.facts.get(key, "")) for key in ("stack", "stack_version"))
    return Side(
        name=name,
        kind=kind,
        verdict=Said(result.verdict.text, result.verdict.i18n.get("zh", {}).get("text", result.verdict.text)),
        cards=snapshot.cards,
        stack="" if stack == "unknown" else stack,
        version="" if version == "unknown" else version,
        files=result.coverage.files,
        recognised=result.verdict.status != "nothing-recognised",
        complete=result.coverage.complete and not result.errors,
        untold=untold,
    )


def _from_facts(result: Result) -> Snapshot:
    """Return what a document without a snapshot tells: metrics and shares of the step."""
    found = Snapshot(cards=result.coverage.ranks_expected)
    metrics = _mapping(result.facts.get("metrics"))
    took, p95 = _number(metrics, "step_time_ms", "p50"), _number(metrics, "step_time_ms", "p95")
    if took is not None:
        rates = {
            name: value
            for name in ("samples_per_s", "tokens_per_s", "tflops", "mfu")
            if (value := _number(metrics, name, "p50")) is not None
        }
        steps = _number(metrics, "step_time_ms", "n") or 0
        found.pace = Pace(step_ms=took, p95_ms=p95 or took, steps=int(steps), rates=rates)
    profiles = result.facts.get("profile")
    for job in profiles[:1] if isinstance(profiles, list) else ():
        if isinstance(job, Mapping):
            _profiled(found, job)
    return found


def _profiled(found: Snapshot, job: Mapping[str, Any]) -> None:
    shares, step = _mapping(job.get("shares_pct")), job.get("step_ms")
    ranks, steps = (int(job.get(name) or 1) for name in ("ranks", "steps"))
    if not isinstance(step, (int, float)):
        return
    parts = {
        name: float(shares.get(share) or 0.0) * step / 100
        for name, share in (("computing", "computing"), ("communication", "communication"), ("pipeline", "pipeline"),
                            ("free", "host"), ("overlapped", "overlapped"))
    }  # fmt: skip
    found.parts = Parts(step_ms=float(step), ranks=ranks, steps=steps, **parts)
    kernels = job.get("kernels")
    for row in kernels if isinstance(kernels, list) else ():
        if isinstance(row, Mapping):
            per = max(ranks * steps, 1)
            found.kernels.append(
                Kernel(
                    type=str(row.get("type")),
                    core=str(row.get("core") or ""),
                    count=float(row.get("count") or 0) / per,
                    ms=float(row.get("total_us") or 0) / 1e3 / per,
                )
            )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(metrics: Mapping[str, Any], name: str, statistic: str) -> float | None:
    value = _mapping(metrics.get(name)).get(statistic)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
