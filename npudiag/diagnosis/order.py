"""Which finding is the cause, which the consequence, and what to tell first.

Order of trust: a message that names its cause, a specific code, a generic code, an envelope. Causes named by the
rules come first; then a generic code or an envelope is what a more specific finding looks like from outside; then
a rank that fails on its own makes the others time out.
"""

from __future__ import annotations

from collections.abc import Sequence

from npudiag.diagnosis import places
from npudiag.diagnosis.findings import severity_rank
from npudiag.diagnosis.moments import Spans, is_set, span
from npudiag.diagnosis.places import Grounds
from npudiag.engine.model import Rule
from npudiag.result import Evidence, Finding

TRUST = {"cause": 0, "specific": 1, "generic": 2, "envelope": 3}
"""What is trusted most comes first."""
_EVIDENCE = 12
_BLOCK_LINES = 40
"""Lines within which records in one file tell of one failure."""
_QUOTED = 4
_SLACK_S = 300.0
"""Clocks of nodes differ; a cause may seem this much later than its consequence."""

_BREAKS_A_RANK = frozenset(
    (
        "aicore-exception",
        "aicpu-exception",
        "device-fault",
        "out-of-memory",
        "host-fault",
        "data-pipeline",
        "operator",
        "graph-capture",
        "numerics",
        "checkpoint",
        "process-conflict",
        "environment",
        "permission",
        "config",
        "version-mismatch",
        "kv-cache",
    )
)
_FAULTS = _BREAKS_A_RANK - {"numerics", "config"}
_WAITS_FOR_A_RANK = frozenset(("hccl-timeout", "hccl-init"))
_OF_ITSELF = frozenset(("environment", "permission", "version-mismatch"))
"""What no peer can bring about by not answering."""


def _may_cause(cause: Finding, effect: Finding, spans: Spans | None) -> bool:
    """Whether the clocks allow it."""
    early, late = span(cause, spans).first, span(effect, spans).last
    if early is None or late is None or not (is_set(early) and is_set(late)):
        return True
    return early <= late + _SLACK_S


def _same_process(one: Finding, other: Finding) -> bool:
    return bool({e.path for e in one.evidence} & {e.path for e in other.evidence})


def key(finding: Finding, place: int, spans: Spans | None = None) -> tuple[float, ...]:
    """Return what roots are sorted by: the lowest is the root cause."""
    first = span(finding, spans).first
    return (
        _weight(finding),
        TRUST[finding.trust],
        -severity_rank(finding),
        -(finding.impact.lost_pct or 0.0),
        first if first is not None and is_set(first) else 0.0,
        place,
    )


def _weight(finding: Finding) -> int:
    """Return 0 for what breaks a job, 1 for what shows that something broke, 2 for what only costs, 3 for the rest."""
    if severity_rank(finding) >= 2:
        return 0
    if severity_rank(finding) == 0:
        return 3
    # A sign that something failed weighs more than a setting that costs time: the latter does not explain it.
    return 1 if finding.trust == "envelope" or finding.category in _FAULTS else 2


def arrange(
    found: Sequence[tuple[Rule, Finding]], spans: Spans | None = None, ran: Grounds | None = None
) -> list[Finding]:
    """Set ids, roles and causes; return the findings in the order to tell them.

    Args:
        found: Rules and findings in order of first appearance in the input.
        spans: When they happened, on one clock.
        ran: Where and when the job ran.
    """
    ran = ran or Grounds()
    findings = [finding for _, finding in found]
    old = {id(finding) for finding in findings if places.stale(finding, spans, ran)}
    rule_of = {id(finding): rule for rule, finding in found}
    place = {id(finding): index for index, finding in enumerate(findings)}
    ranked = sorted(findings, key=lambda finding: key(finding, place[id(finding)], spans))
    parents: dict[int, list[Finding]] = {id(finding): [] for finding in findings}

    def reaches(start: Finding, goal: Finding) -> bool:
        stack = [start]
        while stack:
            node = stack.pop()
            if node is goal:
                return True
            stack.extend(parents[id(node)])
        return False

    def link(effect: Finding, cause: Finding) -> None:
        if (id(cause) in old) != (id(effect) in old) or places.unrelated(cause, effect, ran):
            return
        if _of_other_captures(cause, effect):
            return
        # An edge that would close a circle explains nothing.
        if cause is not effect and cause not in parents[id(effect)] and not reaches(cause, effect):
            parents[id(effect)].append(cause)

    for finding in ranked:
        rule = rule_of[id(finding)]
        # A finding that turned out to be more than its rule takes it for has no causes but those found here.
        names = rule.caused_by if finding.trust == rule.trust else ()
        for other in ranked:
            if other.name in names and severity_rank(other) >= 1 and _may_cause(other, finding, spans):
                link(finding, other)
    for finding in ranked:
        for other in ranked:
            if other is finding or severity_rank(other) < 1:
                continue
            better = TRUST[other.trust] < TRUST[finding.trust]
            waits = finding.category in _WAITS_FOR_A_RANK and other.category in _WAITS_FOR_A_RANK
            if waits and better and _same_place(finding, other):
                # Both tell of one peer; the summary of who stopped is written last of all.
                link(finding, other)
            if not _may_cause(other, finding, spans):
                continue
            if finding.category in _OF_ITSELF and other.category in _WAITS_FOR_A_RANK:
                continue
            if finding.trust in ("generic", "envelope") and better:
                if severity_rank(other) >= 2 or (finding.trust == "envelope" and _weight(other) == 1):
                    link(finding, other)
            elif (waits and better) or (
                finding.category in _WAITS_FOR_A_RANK
                and (finding.trust != "cause" or _same_place(finding, other))
                and other.category in _BREAKS_A_RANK
                and other.trust in ("cause", "specific")
                and severity_rank(other) >= 2
                and _clearly_earlier(other, finding, spans)
            ):
                link(finding, other)
    reasons = _keep_nearest(ranked, parents, ran)
    ranked.sort(key=lambda finding: (id(finding) in old, _weight(finding), id(finding) not in reasons))
    envelopes = [finding for finding in ranked if finding.trust == "envelope" and not parents[id(finding)]]
    for finding in envelopes[1:]:
        # Several signs of the same unknown are one answer.
        link(finding, envelopes[0])
    if envelopes:
        _share(envelopes[0], [finding for finding in ranked if envelopes[0] in parents[id(finding)]])
    _fold(ranked, parents)
    for finding in ranked:
        if not parents[id(finding)]:
            _quote(finding, [other for other in ranked if finding in parents[id(other)]])
    return _tell(ranked, parents)


def _keep_nearest(ranked: Sequence[Finding], parents: dict[int, list[Finding]], ran: Grounds) -> set[int]:
    """Drop, from what explains a wait, faults elsewhere where one at the awaited place explains it, in place.

    Returns:
        Ids of the faults at awaited places: the job stopped for them.
    """
    reasons: set[int] = set()
    for finding in ranked:
        known = parents[id(finding)]
        faults = [cause for cause in known if cause.category not in _WAITS_FOR_A_RANK]
        near = {id(cause) for cause in faults if places.together(cause, finding)}
        if finding.category in _WAITS_FOR_A_RANK and near:
            far = {id(cause) for cause in faults if places.apart(cause, finding, ran)} - near
            parents[id(finding)] = [cause for cause in known if id(cause) not in far]
            reasons |= near
    return reasons


def _of_other_captures(one: Finding, other: Finding) -> bool:
    """Whether they are about profiles of different runs: what slows one of them slows no other."""
    jobs = {finding.captures.get("job") for finding in (one, other) if finding.code.startswith("PRO")}
    return len(jobs - {None}) > 1


def _share(root: Finding, others: Sequence[Finding]) -> None:
    """Show with the root what other signs of the same unknown saw: any of them may tell the reader most."""
    shown = {(item.path, item.line) for item in root.evidence}
    more = [item for other in others if severity_rank(other) for item in other.evidence[:1]]
    more = [item for item in more if (item.path, item.line) not in shown]
    root.evidence = [*root.evidence[:1], *more, *root.evidence[1:]][:_EVIDENCE]


def _quote(root: Finding, others: Sequence[Finding]) -> None:
    """Show with a root what its consequences say in the same block: the same failure in other words, with its code."""
    first = root.evidence[0] if root.evidence else None
    if first is None or first.kind != "log" or first.line is None:
        return
    shown = {(item.path, item.line) for item in root.evidence}
    more: list[Evidence] = []
    for item in (other.evidence[0] for other in others if severity_rank(other) and other.evidence):
        place = (item.path, item.line)
        near = item.path == first.path and item.line is not None and abs(item.line - first.line) <= _BLOCK_LINES
        if near and place not in shown:
            shown.add(place)
            more.append(item)
    root.evidence = [*root.evidence, *more[:_QUOTED]][:_EVIDENCE]


def _fold(ranked: list[Finding], parents: dict[int, list[Finding]]) -> None:
    """Make one finding of the consequences that are the same on many ranks, in place."""
    first: dict[tuple[str, frozenset[int]], Finding] = {}
    gone: dict[int, Finding] = {}
    for finding in ranked:
        causes = frozenset(id(parent) for parent in parents[id(finding)])
        if not causes:
            continue
        same = first.setdefault((finding.code, causes), finding)
        if same is not finding:
            _absorb(same, finding)
            gone[id(finding)] = same
    if gone:
        ranked[:] = [finding for finding in ranked if id(finding) not in gone]
        for finding in ranked:
            kept = {id(parent): parent for parent in (gone.get(id(p), p) for p in parents[id(finding)])}
            parents[id(finding)] = [parent for parent in kept.values() if parent is not finding]


def _absorb(whole: Finding, other: Finding) -> None:
    mine, theirs = whole.scope, other.scope
    mine.ranks = sorted({*mine.ranks, *theirs.ranks})
    mine.nodes = sorted({*mine.nodes, *theirs.nodes})
    mine.devices = sorted({*mine.devices, *theirs.devices})
    mine.steps = sorted({*mine.steps, *theirs.steps})
    mine.first = min((text for text in (mine.first, theirs.first) if text), default=None)
    mine.last = max((text for text in (mine.last, theirs.last) if text), default=None)
    whole.occurrences += other.occurrences
    # Which of them was met first is chance.
    whole.fingerprint = min(whole.fingerprint, other.fingerprint)
    if len(whole.evidence) < _EVIDENCE:
        whole.evidence = [*whole.evidence, *other.evidence][:_EVIDENCE]


def _same_place(one: Finding, other: Finding) -> bool:
    """Whether both are about one and the same rank, or card of a node."""
    if one.scope.ranks and other.scope.ranks:
        return one.scope.ranks == other.scope.ranks
    return bool(one.scope.devices) and (one.scope.devices, one.scope.nodes) == (
        other.scope.devices,
        other.scope.nodes,
    )


def _clearly_earlier(cause: Finding, effect: Finding, spans: Spans | None) -> bool:
    early, late = span(cause, spans).first, span(effect, spans).first
    if early is None or late is None:
        return _same_process(cause, effect) is False or cause.category != effect.category
    return early <= late + _SLACK_S


def _tell(ranked: list[Finding], parents: dict[int, list[Finding]]) -> list[Finding]:
    roots = [finding for finding in ranked if not parents[id(finding)]]
    children: dict[int, list[Finding]] = {id(finding): [] for finding in ranked}
    for finding in ranked:
        if parents[id(finding)]:
            best = min(parents[id(finding)], key=ranked.index)
            children[id(best)].append(finding)
    ordered: list[Finding] = []

    def visit(finding: Finding) -> None:
        if finding in ordered:
            return
        ordered.append(finding)
        for child in children[id(finding)]:
            visit(child)

    for root in roots:
        visit(root)
    for number, finding in enumerate(ordered, 1):
        finding.id = f"f{number}"
    for finding in ordered:
        finding.caused_by = [parent.id for parent in parents[id(finding)]]
        if finding.caused_by:
            finding.role = "consequence"
        elif severity_rank(finding) <= 1 and finding is not ordered[0] and severity_rank(ordered[0]) >= 2:
            finding.role = "contributing"
        else:
            finding.role = "root"
    return ordered
