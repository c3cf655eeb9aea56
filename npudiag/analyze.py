"""The pipeline: paths in, result document out. It reads like the data flow in DESIGN_NOTE.md."""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from npudiag._version import __version__
from npudiag.advice import resolve
from npudiag.advice import stack as stacks
from npudiag.analyses import runs, summary, topology, waits
from npudiag.config import Suppression, selects
from npudiag.diagnosis import blame, order, suppress, verdict
from npudiag.diagnosis import findings as making
from npudiag.engine.model import Rule
from npudiag.engine.run import Outcome
from npudiag.engine.run import run as run_rules
from npudiag.engine.signature import LiteralTable
from npudiag.ingest import Ingested, Progress, ingest
from npudiag.parsers.base import Partial
from npudiag.parsers.headers import KERNEL_LITERALS
from npudiag.result import Coverage, Finding, Input, LevelMinute, Result, Tool
from npudiag.tables.records import LogRecord
from npudiag.tables.store import Store, moment

if TYPE_CHECKING:
    from npudiag.analyses.profile import Profiles
    from npudiag.engine.load import RulePack

_BUCKETS = 240
_INPUTS_LISTED = 5000
_NOT_READ = ("unknown", "skipped")


@dataclass(slots=True)
class Options:
    """How to run.

    Attributes:
        select: Code prefixes or rule names to run; empty runs all.
        ignore: Code prefixes or rule names not to run.
        suppress: Findings to set aside, with the reason.
        params: Parameters by rule name that replace the rule's own.
        workers: Processes; None decides by the machine.
        memory_mb: Memory of the process tree in MiB; None decides by the machine.
        command: The command line, for the document.
        stack: Framework and release of the job, where the user states them.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    workers: int | None = None
    memory_mb: int | None = None
    command: tuple[str, ...] = ()
    suppress: tuple[Suppression, ...] = ()
    stack: tuple[str, str | None] | None = None


class Timings:
    """Seconds per stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = time.perf_counter()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a stage."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - begin, 4)

    def total(self) -> dict[str, float]:
        """Return all stages and the time since the start."""
        return {**self.seconds, "total": round(time.perf_counter() - self._start, 4)}


def run(
    paths: Sequence[str],
    pack: RulePack,
    options: Options | None = None,
    *,
    progress: Progress | None = None,
) -> Result:
    """Analyse everything under `paths`.

    Raises:
        UsageError: A path does not exist.
    """
    return analyze(paths, pack, options, progress=progress)[0]


def analyze(
    paths: Sequence[str],
    pack: RulePack,
    options: Options | None = None,
    *,
    progress: Progress | None = None,
) -> tuple[Result, Store]:
    """Analyse everything under `paths`; return the document and the tables behind it."""
    from npudiag.host.resources import decide

    options = options or Options()
    timings = Timings()
    rules = choose(pack.rules, options)
    with timings.stage("compile"):
        table = literals(rules)
    with timings.stage("read"):
        ingested = ingest(
            paths,
            table.literals(),
            lambda: decide(options.workers, options.memory_mb),
            progress=progress,
        )
    result, store = conclude(ingested, pack, rules, table, options, timings)
    result.facts["workers"] = ingested.workers
    return result, store


def analyze_texts(
    files: Mapping[str, str], pack: RulePack, *, tables: Mapping[str, Sequence[dict[str, Any]]] | None = None
) -> Result:
    """Run the whole pipeline on texts held in memory; rules are tested with it.

    Args:
        files: Relative path to content.
        pack: The rules.
        tables: Rows to add to the tables, for rules that query them.
    """
    from npudiag.ingest import texts

    timings = Timings()
    table = literals(pack.rules)
    ingested = texts(files, table.literals())
    return conclude(ingested, pack, pack.rules, table, Options(), timings, tables)[0]


def choose(rules: Sequence[Rule], options: Options) -> list[Rule]:
    """Return the rules that the code prefixes in `options` let through."""
    return [
        rule
        for rule in rules
        if (not options.select or any(selects(word, rule.code, rule.name) for word in options.select))
        and not any(selects(word, rule.code, rule.name) for word in options.ignore)
    ]


def literals(rules: Sequence[Rule]) -> LiteralTable:
    """Return everything the scan is to look for: what rules ask for, and what says who is who."""
    table = LiteralTable((*topology.MARKERS, *waits.LITERALS, *KERNEL_LITERALS, *stacks.LITERALS))
    table.add(rules)
    return table


def conclude(
    ingested: Ingested,
    pack: RulePack,
    rules: Sequence[Rule],
    table: LiteralTable,
    options: Options,
    timings: Timings,
    tables: Mapping[str, Sequence[dict[str, Any]]] | None = None,
) -> tuple[Result, Store]:
    """Go from parsed partials to the document."""
    with timings.stage("tables"):
        profiles = _profiles(ingested)
        store = fill(ingested)
        if profiles is not None:
            ingested.problems.extend(profiles.problems)
            for name, found in profiles.tables.items():
                store.extend(name, found)
        topo = topology.find(store.log)
        topology.place(store.log, topo)
        store.extend("processes", (vars_of(process) for process in topo.processes))
        for name, rows in (tables or {}).items():
            store.extend(name, rows)
        runs.number(store)
        stacks.take_variables(store)
        store.memo["stack_stated"] = options.stack
    with timings.stage("rules"):
        outcome = run_rules(rules, store, table, options.params)
    with timings.stage("diagnosis"):
        ordered = diagnose(outcome, waits.find(store.log, topo), waits.People(topo))
        stack = stacks.of(store)
        resolve.apply(ordered, store, stack)
        unused = suppress.apply(ordered, options.suppress, datetime.date.today())
        covered = coverage(ingested, store, topo)
    result = Result(
        tool=Tool(version=__version__, rules_version=pack.version, rules=len(rules)),
        command=list(options.command),
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        verdict=verdict.state(ordered, covered),
        inputs=inputs(ingested),
        coverage=covered,
        findings=ordered,
        passed=outcome.passed,
        skipped=outcome.skipped,
        errors=outcome.errors,
        facts={**facts(store, topo), **stack.facts(), **({"unused_suppressions": unused} if unused else {})},
        timings=timings.total(),
    )
    return result, store


def _profiles(ingested: Ingested) -> Profiles | None:
    """Return the tables of profiler captures; None, and nothing loaded for it, where there are none."""
    if not any(partial.packed for partial in ingested.partials):
        return None
    from npudiag.analyses import profile

    return profile.derive(ingested.partials)


def vars_of(process: topology.Process) -> dict[str, Any]:
    """Return the fields of a process by name."""
    return {name: getattr(process, name) for name in process.__dataclass_fields__}


def fill(ingested: Ingested) -> Store:
    """Put what the parsers found into the tables."""
    store = Store()
    for order_of_file, partial in enumerate(ingested.partials):
        source, identity = partial.source, partial.identity
        for row in partial.rows:
            group = partial.groups[row.group] if 0 <= row.group < len(partial.groups) else None
            store.log.append(
                LogRecord(
                    file=source.path,
                    line=row.line,
                    text=row.text,
                    kind=partial.kind,
                    time_us=row.time_us,
                    level=row.level,
                    module=row.module,
                    pid=row.pid if row.pid is not None else identity.pid,
                    tid=row.tid,
                    process=row.process,
                    worker=row.worker,
                    rank=row.rank if row.rank is not None else identity.rank,
                    device=row.device if row.device is not None else identity.device,
                    node=identity.node or identity.host,
                    file_pid=identity.pid,
                    source=row.source,
                    code=row.code,
                    group=row.group,
                    count=group.count if group else 1,
                    hits=row.hits,
                    raw=row.raw,
                    numbers=row.numbers,
                    before=row.before,
                    after=row.after,
                    order=order_of_file,
                )
            )
        store.extend("files", [_file_row(partial)])
        store.extend(
            "log_counts",
            (
                {
                    "file": source.path,
                    "level": level or None,
                    "module": module or None,
                    "minute": _minute(minute),
                    "count": number,
                }
                for (level, module, minute), number in partial.counts.items()
            ),
        )
        store.extend(
            "log_groups",
            (
                {
                    "file": source.path,
                    "group": group.index,
                    "level": group.level,
                    "module": group.module,
                    "text": group.text,
                    "count": group.count,
                    "kept": group.kept,
                    "first_line": group.first_line or None,
                    "last_line": group.last_line or None,
                }
                for group in partial.groups
            ),
        )
        while partial.columns:
            name, columns = partial.columns.popitem()
            columns.fill("file", source.path)
            if name == "npu_samples" and (node := identity.node or identity.host):
                columns.fill("node", node)
            store.take_over(columns)
        if partial.quotes:
            store.quotes[source.path] = partial.quotes
        for name, rows in partial.tables.items():
            store.extend(name, ({"file": source.path, **row} for row in rows))
    return store


def _minute(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def _file_row(partial: Partial) -> dict[str, Any]:
    identity = partial.identity
    return {
        "file": partial.source.path,
        "kind": partial.kind,
        "node": identity.node or identity.host,
        "rank": identity.rank,
        "device": identity.device,
        "pid": identity.pid,
        "role": identity.role,
        "lines": partial.lines,
        "bytes": partial.bytes,
        "unparsed": partial.unparsed,
        "truncated": partial.truncated,
        "encoding": partial.encoding,
        "note": partial.note,
        "first_time": moment(partial.first_us),
        "last_time": moment(partial.last_us),
    }


def diagnose(outcome: Outcome, waiting: waits.Waits, people: waits.People) -> list[Finding]:
    """Make findings of the hits and put them in order."""

    def appearance(item: tuple[Rule, Any]) -> tuple[int, int]:
        records = item[1].records
        return (records[0].order, records[0].line) if records else (1 << 30, 0)

    hits = sorted(outcome.hits, key=appearance)
    found = [(rule, making.build(rule, hit)) for rule, hit in hits]
    blame.apply([finding for _, finding in found], waiting, people)
    return order.arrange(found)


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
                first_time=making.time_text(partial.first_us),
                last_time=making.time_text(partial.last_us),
            )
        )
    return listed


def coverage(ingested: Ingested, store: Store, topo: topology.Topology) -> Coverage:
    """Say what was read and what was not."""
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
        first_time=making.time_text(first),
        last_time=making.time_text(last),
        levels=dict(sorted(levels.items())),
        timeline=timeline,
        bucket_minutes=width,
        clock_notes=_clock_notes(partials),
        problems=problems,
        complete=not any(problem.lost for problem in problems),
    )


def _timeline(partials: Sequence[Partial]) -> tuple[list[LevelMinute], int]:
    """Return the counts per time bucket and level, in at most `_BUCKETS` buckets that hold anything."""
    per_minute: dict[int, Counter[str]] = {}
    for partial in partials:
        for (level, _, minute), number in partial.counts.items():
            when = _minute(minute)
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


def _clock_notes(partials: Sequence[Partial]) -> list[str]:
    unset = [
        partial.source.path
        for partial in partials
        if any(minute and minute[:4] <= "1971" for _, _, minute in partial.counts)
    ]
    notes = []
    if unset:
        notes.append(
            f"time stamps of 1970 in {_named(unset)}: written before the clock was set; "
            "they are not compared with others"
        )
    assumed = [partial for partial in partials if partial.assumed_year is not None]
    if assumed:
        years = ", ".join(str(year) for year in sorted({partial.assumed_year or 0 for partial in assumed}))
        files = _named([partial.source.path for partial in assumed])
        notes.append(f"time stamps without a year in {files}: {years} is assumed, from when the file was last written")
    return notes


def _named(paths: Sequence[str]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def facts(store: Store, topo: topology.Topology) -> dict[str, Any]:
    """Return plain facts about the job."""
    out: dict[str, Any] = {"tables": {name: store.size(name) for name in ("log", "log_groups", "log_counts")}}
    out |= summary.facts(store)
    if topo.ranks is not None:
        out["ranks"] = topo.ranks
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


def incomplete(result: Result) -> bool:
    """Whether part of the input was not analysed or a rule broke."""
    return not result.coverage.complete or bool(result.errors)
