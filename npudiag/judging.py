"""From filled tables to findings in order: who took part, what the rules say, what caused what, what to do.

`npudiag.analyze` makes the document around it; `npudiag explain` wants the findings of a pasted text, and no more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npudiag.advice import resolve
from npudiag.advice import stack as stacks
from npudiag.analyses import job as jobs
from npudiag.analyses import ranktable, runs, topology
from npudiag.diagnosis import blame, moments, order, places, progress, reasons, survived, teardown
from npudiag.diagnosis import findings as making
from npudiag.engine.model import Rule
from npudiag.engine.run import Outcome
from npudiag.engine.run import run as run_rules
from npudiag.engine.signature import LiteralTable
from npudiag.filling import fill
from npudiag.parsers.headers import KERNEL_LITERALS
from npudiag.reading import texts
from npudiag.result import Finding

if TYPE_CHECKING:
    from npudiag.advice.stack import Stack
    from npudiag.tables.store import Store


def literals(rules: Sequence[Rule]) -> LiteralTable:
    """Return everything the scan is to look for: what rules ask for, and what says who is who."""
    table = LiteralTable((*jobs.LITERALS, *KERNEL_LITERALS, *stacks.LITERALS))
    table.add(rules)
    return table


def understand(
    store: Store,
    tables: Mapping[str, Sequence[dict[str, Any]]] | None = None,
    stated: tuple[str, str | None] | None = None,
) -> jobs.Job:
    """Work out who took part in the job and who waited for whom; rows of the store learn where they belong.

    Args:
        store: Filled with what was read.
        tables: Rows to add to its tables.
        stated: Framework and release of the job, where the user states them.
    """
    topo = topology.with_table(topology.find(store.log), ranktable.members(store.rows("rank_table")))
    topology.place(store.log, topo)
    store.extend("processes", (dataclasses.asdict(process) for process in topo.processes))
    for name, rows in (tables or {}).items():
        store.extend(name, rows)
    runs.number(store)
    stacks.take_variables(store)
    store.memo["stack_stated"] = stated
    job = jobs.find(store.log, topo, store.rows("launch") if store.size("launch") else ())
    store.memo[jobs.MEMO] = job
    return job


def diagnose(outcome: Outcome, job: jobs.Job, store: Store) -> tuple[list[Finding], Stack]:
    """Make findings of the hits, put them in order and fit their remedies; return the frameworks these are for."""

    def appearance(item: tuple[Rule, Any]) -> tuple[int, int]:
        records = item[1].records
        return (records[0].order, records[0].line) if records else (1 << 30, 0)

    hits = sorted(outcome.hits, key=appearance)
    found = [(rule, making.build(rule, hit)) for rule, hit in hits]
    blame.apply([finding for _, finding in found], job)
    survived.apply(found, [hit for _, hit in hits], store)
    times = {id(finding): moments.of(hit, job.clocks) for (_, finding), (_, hit) in zip(found, hits, strict=True)}
    events, steps = store.columns("train_events"), store.columns("train_steps")
    teardown.soften([finding for _, finding in found], events, steps, times)
    ran = places.grounds(job.topology, store.log, job.clocks)
    ordered = order.arrange(found, times, ran)
    reasons.explain(ordered, times, ran)
    if store.size("train_steps"):
        progress.tell(ordered, store.columns("train_steps"), times)
    stack = stacks.of(store)
    resolve.apply(ordered, store, stack)
    return ordered, stack


def judge_text(text: str, rules: Sequence[Rule]) -> list[Finding]:
    """Return what `rules` find in a text, as the whole pipeline would."""
    table = literals(rules)
    store = fill(texts({"-": text}, table.literals()))
    job = understand(store)
    return diagnose(run_rules(rules, store, table), job, store)[0]
