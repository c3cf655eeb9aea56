"""What the document says of the input: what was read, how far it goes, and what is known of the job."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from typing import Any

from npudiag.analyses import job as jobs
from npudiag.analyses import summary
from npudiag.diagnosis import clocknotes
from npudiag.diagnosis.findings import time_text
from npudiag.filling import minute_of
from npudiag.parsers.base import Partial
from npudiag.reading import Ingested
from npudiag.result import Coverage, Input, LevelMinute, Result
from npudiag.tables.store import Store

_BUCKETS = 240
_INPUTS_LISTED = 5000
_NOT_READ = ("unknown", "skipped")


def inputs(ingested: Ingested) -> list[Input]:
    """Return what was looked at; the problems that kept files from being opened are listed in the coverage."""
    listed = []
    for partial in ingested.partials[:_INPUTS_LISTED]:
        identity = partial.identity
        listed.append(
            Input(
                path=partial.source.path,
                kind=partial.kind,
                node=identity.node or identity.host,
                rank=identity.rank,
                device=identity.device,
                pid=identity.pid,
                lines=partial.lines,
                bytes=partial.bytes,
                unparsed=partial.unparsed,
                encoding=partial.encoding,
                normalised=list(partial.normalised),
                truncated=partial.truncated,
                note=partial.note,
                first_time=time_text(partial.first_us),
                last_time=time_text(partial.last_us),
            )
        )
    return listed


def coverage(ingested: Ingested, store: Store, job: jobs.Job) -> Coverage:
    """Say what was read and what was not."""
    topo = job.topology
    partials = ingested.partials
    problems = [*ingested.problems, *(problem for partial in partials for problem in partial.problems)]
    known = [partial for partial in partials if partial.kind not in _NOT_READ]
    levels: Counter[str] = Counter()
    for partial in partials:
        for (level, _, _), number in partial.counts.items():
            if level:
                levels[level] += number
    ranks = {process.rank for process in topo.world.values() if process.rank is not None}
    ranks |= {rank for partial in known if (rank := partial.identity.rank) is not None}
    ranks |= {record.rank for record in store.log if record.rank is not None}
    expected = topo.ranks
    if expected is None:
        expected = max((row["world_size"] for row in store.rows("prof_captures") if row["world_size"]), default=None)
    missing: list[int] = []
    # Introductions of small communicators number ranks of their own; only a complete numbering tells who is missing.
    if expected is not None and ranks and max(ranks) < expected <= 65536:
        missing = [rank for rank in range(expected) if rank not in ranks]
    first = min((us for p in known if (us := p.first_us) is not None), default=None)
    last = max((us for p in known if (us := p.last_us) is not None), default=None)
    timeline, width = _timeline(partials)
    notes = clocknotes.of(partials, job.clocks)
    return Coverage(
        files=len(partials),
        recognised=len(known),
        unknown=sum(1 for partial in partials if partial.kind == "unknown"),
        skipped=sum(1 for partial in partials if partial.kind == "skipped"),
        lines=sum(partial.lines for partial in partials),
        bytes=sum(partial.bytes for partial in partials),
        unparsed=sum(partial.unparsed for partial in partials),
        kept=len(store.log),
        folded=sum(partial.folded for partial in partials),
        ranks=sorted(ranks),
        ranks_expected=expected,
        ranks_missing=missing,
        nodes=sorted({node for p in known if (node := p.identity.node or p.identity.host)}),
        devices=sorted({record.device for record in store.log if record.device is not None}),
        first_time=time_text(first),
        last_time=time_text(last),
        levels=dict(sorted(levels.items())),
        timeline=timeline,
        bucket_minutes=width,
        clock_notes=[note.en for note in notes],
        problems=problems,
        complete=not any(problem.lost for problem in problems),
        i18n={"zh": {"clock_notes": [note.zh for note in notes]}} if notes else {},
    )


def _timeline(partials: Sequence[Partial]) -> tuple[list[LevelMinute], int]:
    """Return the counts per time bucket and level, in at most `_BUCKETS` buckets that hold anything."""
    per_minute: dict[int, Counter[str]] = {}
    for partial in partials:
        for (level, _, minute), number in partial.counts.items():
            when = minute_of(minute)
            if when is None or when.year < 1971:
                continue
            index = (when - datetime.datetime(1970, 1, 1)) // datetime.timedelta(minutes=1)
            per_minute.setdefault(index, Counter())[level or "OTHER"] += number
    if not per_minute:
        return [], 1
    span = max(per_minute) - min(per_minute) + 1
    width = 1
    for candidate in (1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440, 10080, 43200, 525600):
        width = candidate
        if span <= candidate * _BUCKETS:
            break
    buckets: dict[int, Counter[str]] = {}
    for index, counts in per_minute.items():
        buckets.setdefault(index // width * width, Counter()).update(counts)
    start = datetime.datetime(1970, 1, 1)
    return [
        LevelMinute(
            minute=(start + datetime.timedelta(minutes=index)).isoformat(timespec="minutes"),
            counts=dict(sorted(counts.items())),
        )
        for index, counts in sorted(buckets.items())
    ][-_BUCKETS:], width


def facts(store: Store, job: jobs.Job) -> dict[str, Any]:
    """Return plain facts about the job."""
    topo = job.topology
    out: dict[str, Any] = {"tables": {name: store.size(name) for name in ("log", "log_groups", "log_counts")}}
    out |= summary.facts(store)
    if topo.ranks is not None:
        out["ranks"] = topo.ranks
    if timeouts := job.timeouts.facts():
        out["timeouts"] = timeouts
    if clocks := job.clocks.facts():
        out["clocks"] = clocks
    codes = Counter(record.code for record in store.log if record.code)
    if codes:
        from npudiag.knowledge.lookup import meanings as code_meanings

        out["codes"] = dict(codes.most_common(20))
        out["code_meanings"] = code_meanings(out["codes"])
    if any(store.size(name) for name in ("train_steps", "serving", "npu_samples", "prof_steps")):
        from npudiag.analyses import metrics

        if found := metrics.summarise(store):
            out["metrics"] = found
    if store.size("prof_steps"):
        from npudiag.analyses import profile_bound

        names = ("prof_steps", "prof_comm", "prof_captures", "prof_kernels")
        out["profile"] = profile_bound.summary(*(store.rows(name) for name in names))
    return out


def carried(ingested: Ingested) -> dict[str, Any]:
    """Return how many logs each file of partials brought, where any did."""
    brought = Counter(partial.carrier for partial in ingested.partials if partial.carrier)
    return {"carried_by": dict(sorted(brought.items())[:_INPUTS_LISTED])} if brought else {}


def incomplete(result: Result) -> bool:
    """Whether part of the input was not analysed or a rule broke."""
    return not result.coverage.complete or bool(result.errors)
