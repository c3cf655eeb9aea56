"""What a check answers, and how it is asked of every machine."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from npudiag.analyses.host import Fact, Host, hosts
from npudiag.engine.hits import CannotJudge, Hit
from npudiag.result import Evidence

if TYPE_CHECKING:
    from npudiag.tables.store import Store

Params = Mapping[str, Any]
Words = tuple[str, str]
"""A text in English and Chinese."""

MEASURED = "preflight_measured"
"""Where in the store's memo stands what was measured: name of the check to a text per machine."""
_SHOWN = 8


@dataclass(slots=True)
class Answer:
    """What a check found on one machine.

    Attributes:
        measured: What was measured, with its unit and the limit, for whoever looks at a check that passed.
        hits: What is wrong; empty: the check passed.
    """

    measured: Words
    hits: list[Hit] = field(default_factory=list)


Check = Callable[[Host, Params], Answer]
FleetCheck = Callable[[Sequence[Host], Params], Answer]


def each_host(check: Check) -> Callable[[Store, Params], list[Hit]]:
    """Make a detector of a check of one machine; it is skipped where no machine can be judged."""

    @functools.wraps(check)
    def detect(store: Store, params: Params) -> list[Hit]:
        hits: list[Hit] = []
        missing: dict[str, None] = {}
        judged = False
        for host in hosts(store):
            try:
                answer = check(host, params)
            except CannotJudge as exc:
                missing.update(dict.fromkeys(exc.missing))
                continue
            judged = True
            _note(store, check.__name__, answer)
            hits += _weighed(answer.hits, params, host.before_job)
        if not judged:
            raise CannotJudge(*missing)
        return hits

    return detect


def all_hosts(check: FleetCheck) -> Callable[[Store, Params], list[Hit]]:
    """Make a detector of a check that compares machines, or the cards of all of them."""

    @functools.wraps(check)
    def detect(store: Store, params: Params) -> list[Hit]:
        machines = hosts(store)
        answer = check(machines, params)
        _note(store, check.__name__, answer)
        return _weighed(answer.hits, params, all(host.before_job for host in machines))

    return detect


def _weighed(hits: list[Hit], params: Params, before_job: bool) -> list[Hit]:
    """Set how grave hits are: before a job what would break it is an error.

    Of a snapshot taken later nobody knows whether it was so when the job failed: it is a circumstance, which must not
    outrank what the logs prove.
    """
    for one in hits:
        if before_job:
            one.severity = one.severity or params.get("before_start")
        elif one.severity == "error":
            one.severity = "warning"
    return hits


def _note(store: Store, name: str, answer: Answer) -> None:
    store.memo.setdefault(MEASURED, {}).setdefault(name, []).append(answer.measured)


def both(text: str) -> Words:
    """Return a text that reads the same in both languages."""
    return text, text


def hit(
    host: Host | None,
    facts: Sequence[Fact | None],
    *,
    severity: str | None = None,
    devices: Sequence[int] | None = None,
    words: Mapping[str, Words] | None = None,
    **captures: Any,
) -> Hit:
    """Return a hit that shows the lines it rests on.

    Args:
        host: The machine; None where several are concerned.
        facts: What it rests on; what is None is not known and not shown.
        severity: Overrides the rule's.
        devices: NPUs it is about.
        words: Values for the texts that differ by language.
        captures: Other values for the texts.
    """
    shown = [fact for fact in facts if fact is not None]
    evidence = [_evidence(fact) for fact in shown[:_SHOWN]]
    return Hit(
        evidence=evidence,
        captures={name: value for name, value in captures.items() if value is not None},
        devices=sorted(set(devices)) if devices is not None else None,
        nodes=[host.node] if host is not None and host.node else None,
        severity=severity,
        words=dict(words or {}),
        occurrences=max(1, len(shown)),
    )


def _evidence(fact: Fact) -> Evidence:
    if fact.text is not None and fact.file:
        return Evidence(kind="log", path=fact.file, line=fact.line, text=fact.text)
    row: dict[str, Any] = {"item": fact.item or None, "device": fact.device, "value": fact.value}
    known = {name: value for name, value in row.items() if value is not None}
    return Evidence(kind="rows", path=fact.file or None, line=fact.line, rows=[known])


def needed(value: float | None, *missing: str) -> float:
    """Return `value`.

    Raises:
        CannotJudge: It is not known; `missing` names what would have told it.
    """
    if value is None:
        raise CannotJudge(*missing)
    return value


def size(number: float) -> str:
    """Return a number of bytes in GiB or MiB."""
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"
