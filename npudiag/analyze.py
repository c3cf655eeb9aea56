"""The pipeline: paths in, result document out. It reads like the data flow in DESIGN_NOTE.md."""

from __future__ import annotations

import datetime
import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from npudiag._version import __version__
from npudiag.account import carried, coverage, facts, inputs
from npudiag.analyses import charts
from npudiag.analyses.profile_unread import unread
from npudiag.comparison import snapshot
from npudiag.config import Suppression, selects
from npudiag.diagnosis import suppress, verdict
from npudiag.discover.walk import expanded
from npudiag.engine.model import Rule
from npudiag.engine.run import run as run_rules
from npudiag.engine.signature import LiteralTable
from npudiag.errors import UsageError
from npudiag.filling import fill
from npudiag.ingest import Progress, ingest
from npudiag.judging import diagnose, literals, understand
from npudiag.reading import Ingested, texts
from npudiag.result import Result, Tool
from npudiag.tables.store import Store

if TYPE_CHECKING:
    from npudiag.analyses.profile import Profiles
    from npudiag.engine.load import RulePack
    from npudiag.host.resources import Resources
    from npudiag.parsers.scan import Literals


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
        nodes: Name of a node and the path where its logs lie, for paths that do not tell.
        scheduler: Address of a Dask scheduler whose workers are to read the input.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    workers: int | None = None
    memory_mb: int | None = None
    command: tuple[str, ...] = ()
    suppress: tuple[Suppression, ...] = ()
    stack: tuple[str, str | None] | None = None
    nodes: tuple[tuple[str, str], ...] = ()
    scheduler: str | None = None


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


@contextmanager
def _rarely_collecting() -> Iterator[None]:
    """Look for garbage rarely: tens of thousands of records that stay are looked at again and again otherwise."""
    usual = gc.get_threshold()
    gc.set_threshold(100_000, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@_rarely_collecting()
def analyze(
    paths: Sequence[str],
    pack: RulePack,
    options: Options | None = None,
    *,
    progress: Progress | None = None,
) -> tuple[Result, Store]:
    """Analyse everything under `paths`; return the document and the tables behind it."""
    options = options or Options()
    timings = Timings()
    rules = choose(pack.rules, options)
    with timings.stage("compile"):
        table = literals(rules)
    with timings.stage("read"):
        ingested = read(paths, table.literals(), options, progress)
    result, store = conclude(ingested, pack, rules, table, options, timings)
    result.facts["workers"] = ingested.workers
    return result, store


def read(paths: Sequence[str], wanted: Literals, options: Options, progress: Progress | None = None) -> Ingested:
    """Read everything under `paths`, here or on a cluster.

    Raises:
        UsageError: A path does not exist or is said to lie on two nodes, or the scheduler cannot be reached.
    """
    from npudiag.host.resources import decide

    every = [*paths, *(path for _, path in options.nodes)]
    nodes: dict[str, str] = {}
    for node, path in options.nodes:
        for place in expanded([path]):
            if nodes.setdefault(place, node) != node:
                raise UsageError(f"{place} cannot lie on two nodes, {nodes[place]} and {node}")

    def bounds() -> Resources:
        return decide(options.workers, options.memory_mb)

    if options.scheduler is None:
        return ingest(every, wanted, bounds, progress=progress, nodes=nodes)
    from npudiag.cluster import connected

    with connected(options.scheduler) as (executor, workers):
        return ingest(every, wanted, bounds, progress=progress, nodes=nodes, executor=executor, workers=workers)


def analyze_texts(
    files: Mapping[str, str], pack: RulePack, *, tables: Mapping[str, Sequence[dict[str, Any]]] | None = None
) -> Result:
    """Run the whole pipeline on texts held in memory; rules are tested with it.

    Args:
        files: Relative path to content.
        pack: The rules.
        tables: Rows to add to the tables, for rules that query them.
    """
    return inspect_texts(files, pack, pack.rules, Options(), tables)[0]


def inspect_texts(
    files: Mapping[str, str],
    pack: RulePack,
    rules: Sequence[Rule],
    options: Options,
    tables: Mapping[str, Sequence[dict[str, Any]]] | None = None,
) -> tuple[Result, Store]:
    """Run chosen rules of `pack` on texts held in memory; return the document and the tables behind it."""
    timings = Timings()
    table = literals(rules)
    ingested = texts(files, table.literals())
    return conclude(ingested, pack, rules, table, options, timings, tables)


def choose(rules: Sequence[Rule], options: Options) -> list[Rule]:
    """Return the rules that the code prefixes in `options` let through."""
    return [
        rule
        for rule in rules
        if (not options.select or any(selects(word, rule.code, rule.name) for word in options.select))
        and not any(selects(word, rule.code, rule.name) for word in options.ignore)
    ]


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
        job = understand(store, tables, options.stack)
    with timings.stage("rules"):
        outcome = run_rules(rules, store, table, options.params)
        if profiles is not None:
            from npudiag.detectors import profile as profiled

            about = ((rule, hit) for rule, hit in outcome.hits if any(name.startswith("prof_") for name in rule.needs))
            profiled.weigh((hit for _, hit in about), store)
    with timings.stage("diagnosis"):
        ordered, stack = diagnose(outcome, job, store)
        unused = suppress.apply(ordered, outcome.passed, options.suppress, datetime.date.today())
        covered = coverage(ingested, store, job)
    with timings.stage("charts"):
        drawn = charts.build(store)
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
        charts=drawn,
        facts={
            **facts(store, job),
            **carried(ingested),
            **stack.facts(),
            **({"unused_suppressions": unused} if unused else {}),
        },
        snapshot=snapshot.of_document(store, covered.ranks_expected),
        timings=timings.total(),
    )
    return result, store


def _profiles(ingested: Ingested) -> Profiles | None:
    """Return the tables of profiler captures; None, and nothing loaded for it, where there are none."""
    if not any(partial.packed for partial in ingested.partials):
        ingested.problems.extend(unread(ingested.partials))
        return None
    from npudiag.analyses import profile

    return profile.derive(ingested.partials)
