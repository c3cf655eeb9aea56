"""What fails once the training has ended: processes that go away break calls of each other, and nothing is lost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from npudiag.diagnosis.findings import severity_rank
from npudiag.diagnosis.moments import Spans, is_set, span
from npudiag.engine.model import Text
from npudiag.result import Finding
from npudiag.tables.columns import Columns

_OF_PYTHON = "exception-"
_SAID = Text(
    en=" The training had ended by then; such a message is usual while processes go away.",
    zh="此时训练已经结束，进程退出过程中出现此类信息属正常现象。",
)


class End(NamedTuple):
    """Where a log says that the training has ended.

    Attributes:
        line: Line of its file.
        at_s: When, in seconds since 1970 by the log's clock: that of the last step where the line has none, since
            what came behind the last step of a training that ended did not break it; NaN where neither has one.
    """

    line: float
    at_s: float


def ends(events: Columns, steps: Columns) -> dict[str, End]:
    """Return, for each log that says so, where the training ended; logs in which it went on are left out.

    Args:
        events: Table ``train_events``.
        steps: Table ``train_steps``.
    """
    kinds = list(events.texts("kind"))
    if "end" not in kinds:
        return {}
    names = list(events.texts("file"))
    marked = events.codes("kind") == kinds.index("end")
    found: dict[str, End] = {}
    for code, line, time in zip(
        events.codes("file")[marked].tolist(),
        events.numbers("line")[marked].tolist(),
        events.numbers("time")[marked].tolist(),
        strict=True,
    ):
        end = End(line, time / 1e6)
        if names[code] not in found or end.line < found[names[code]].line:
            found[names[code]] = end
    files = list(steps.texts("file"))
    for name in [name for name in found if name in files]:
        mine = steps.codes("file") == files.index(name)
        if (steps.numbers("line")[mine] > found[name].line).any():
            del found[name]
        elif math.isnan(found[name].at_s):
            found[name] = found[name]._replace(at_s=float(steps.numbers("time")[mine].max()) / 1e6)
    return found


def soften(findings: Sequence[Finding], events: Columns, steps: Columns, spans: Spans | None = None) -> None:
    """Make notes of catch-all codes that came after the end of the training, in place.

    An exception in Python is told as before: whatever was to be done after the training was not done.

    Args:
        findings: Findings of which causes are not known yet.
        events: Table ``train_events``.
        steps: Table ``train_steps``.
        spans: When the findings happened, on one clock.
    """
    generic = [
        finding
        for finding in findings
        if finding.trust == "generic" and severity_rank(finding) >= 1 and not finding.name.startswith(_OF_PYTHON)
    ]
    found = ends(events, steps) if generic and events.size else {}
    for finding in generic if found else ():
        if _after(finding, found, spans):
            finding.severity = finding.status = "info"
            finding.impact.fatal = False
            finding.summary += _SAID.en
            zh = finding.i18n.get("zh")
            if zh is not None:
                zh["summary"] = f"{zh.get('summary', '')}{_SAID.zh}"


def _after(finding: Finding, found: Mapping[str, End], spans: Spans | None) -> bool:
    """Whether all of a finding came after the training had ended, by its place in that log or by the clock."""
    places = [(item.path or "", item.line or 0) for item in finding.evidence if item.kind == "log"]
    if places and all(path in found and line > found[path].line for path, line in places):
        return True
    latest = max((end.at_s for end in found.values() if not math.isnan(end.at_s)), default=None)
    first = span(finding, spans).first
    return latest is not None and first is not None and is_set(first) and first >= latest
