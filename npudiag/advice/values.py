"""New values of settings, worked out from the present ones.

A rule may advise a factor (``*0.5``) or what divides (``fit``) instead of a number: only the job tells what half of its
learning rate is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from npudiag.advice import registry
from npudiag.advice.settings import Job, Setting

_FACTOR = re.compile(r"\*(\d+(?:\.\d+)?)\Z")
_NO_AMOUNT = re.compile(r"PORT|MODE|[-_]port\b|seed")
"""Settings whose number is a name: none lies beyond another."""


def is_factor(to: str) -> bool:
    """Whether an advised value is a factor on the present one."""
    return _FACTOR.match(to) is not None


def scaled(to: str, present: str | None) -> str | None:
    """Return the present value times a factor, rounded as such values are written.

    Args:
        to: The factor, as in ``*0.5``.
        present: The present value; None where it is not known.

    Returns:
        A blank to fill in (``<... x 0.5>``) where the present value is no number; None where it is zero, or would
        not change.
    """
    match = _FACTOR.match(to)
    if match is None:
        return to
    factor = float(match[1])
    base = _number(present)
    if base is None:
        return f"<... x {match[1]}>"
    if base == 0:
        return None
    value = base * factor
    if re.fullmatch(r"[-+]?\d+", (present or "").strip("'\" ")):
        whole = max(1, round(value))
        return None if whole == base else str(whole)
    return f"{value:.4g}"


def fitting(jobs: Sequence[Job], option: str) -> str | None:
    """Return a value that divides, for an option that only the sizes of the job decide (advised as ``fit``).

    Returns:
        A blank to fill in where the sizes are not known; None where nothing divides.
    """
    from npudiag.advice.layout import OPTIONS, of_job, two_virtual_stages

    known = [layout for job in jobs if (layout := of_job(job)) is not None]
    if not known:
        return "<...>"
    here = known[0]
    if option == OPTIONS["batch"]:
        unit = here.micro * here.dp
        whole = max(unit, (here.batch + unit // 2) // unit * unit)
        return str(whole) if whole != here.batch else None
    if option == OPTIONS["chunk"]:
        chunk = two_virtual_stages(here)
        return str(chunk) if chunk else None
    return "<...>"


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text.strip("'\""))
    except ValueError:
        return None
    return value if value == value and abs(value) < 1e18 else None


def goes_further(setting: Setting, to: str, default: str | None) -> bool:
    """Whether a setting lies beyond an advised value already, seen from the default: raised or lowered more."""
    if _NO_AMOUNT.search(setting.key):
        return False
    present, wanted, usual = setting.number, _number(to), _number(default)
    if present is None or wanted is None or usual is None or wanted == usual:
        return False
    return present >= wanted if wanted > usual else present <= wanted


def newly_refused(job: Job, changes: Mapping[str, str], *, companions: bool = False) -> bool:
    """Whether changes make a launch fail that did not fail so before.

    Args:
        job: The launch.
        changes: Options with their new values.
        companions: Whether an option that the changes need and that is missing counts as well.
    """
    after = job
    for option, value in changes.items():
        after = after.having(option, value)
    for item in registry.constraints(job.stack or ""):
        if item.effect != "refused" or not item.options & changes.keys():
            continue
        if not all(after.holds(term) for term in item.when):
            continue
        met = all(job.holds(term) for term in item.when)
        if any(after.holds(term) and not (met and job.holds(term)) for term in item.deny):
            return True
        if companions and any(after.holds(term) is False and (not met or job.holds(term)) for term in item.need):
            return True
    return False


def holds(job: Job, option: str, to: str) -> bool:
    """Whether the sizes of a training still divide with a new value; yes where they are not known."""
    from npudiag.advice.layout import of_job, with_value

    here = of_job(job)
    number = _number(to)
    if here is None or number is None or number != int(number) or not here.valid():
        return True
    there = with_value(here, option, int(number))
    return there is not None and there.valid()
