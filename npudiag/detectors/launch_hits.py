"""What checks of launches share: hits that show where settings stand, and the jobs of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npudiag.advice import registry, stack
from npudiag.advice.settings import Job, Setting, jobs
from npudiag.engine.hits import Hit
from npudiag.result import Evidence, Place

if TYPE_CHECKING:
    from npudiag.tables.store import Store

Params = Mapping[str, Any]

EDITABLE = ("script", "yaml", "launcher")
"""Sources that a user edits, other than what a job printed."""


def line_text(store: Store, setting: Setting, line: int) -> str:
    """Return the line as it stands in the file, else the setting itself."""
    kept = store.quotes.get(setting.file, {}).get(line)
    return kept if kept is not None else f"{setting.key} {setting.value}".strip()


def hit(
    store: Store, settings: Sequence[Setting], at: Setting | None = None, *, renamed: bool = False, **captures: Any
) -> Hit:
    """Return a hit that shows where `settings` stand.

    Args:
        store: The tables.
        settings: What the finding is about.
        at: The one to change, by default the first.
        renamed: Whether its name has to change, not its value.
        captures: Values for the texts; ``x_en`` and ``x_zh`` become the words ``x``, ``en`` and ``zh`` become ``fact``.
    """
    evidence: list[Evidence] = []
    seen: set[tuple[str, int]] = set()
    for setting in settings:
        for line in (setting.line, setting.origin):
            if (setting.file, line) in seen or not setting.file:
                continue
            seen.add((setting.file, line))
            text = line_text(store, setting, line)
            marks = [mark for mark in (setting.key, setting.value) if mark and mark in text and len(mark) < 120]
            evidence.append(Evidence(kind="log", path=setting.file, line=line, text=text, highlights=marks))
    words = {
        name[:-3] or "fact": (captures.pop(name), captures.pop(name[:-3] + "_zh"))
        for name in [name for name in captures if name.endswith("_en")]
    }
    if "en" in captures:
        words["fact"] = (captures.pop("en"), captures.pop("zh"))
    target = at or (settings[0] if settings else None)
    place = None
    if target is not None and target.file and target.source in EDITABLE:
        place = Place(path=target.file, line=target.line if renamed else target.origin)
        captures.setdefault("file", target.file)
        captures.setdefault("line", target.line)
    known = {name: value for name, value in captures.items() if value is not None}
    return Hit(evidence=evidence[:6], captures=known, at=place, words=words)


def found_jobs(store: Store) -> list[Job]:
    """Return the jobs of a run, each with its stack."""
    stack.of(store)
    return jobs(store)


def judged(store: Store) -> Iterator[Job]:
    """Yield the jobs whose stack has a complete option list."""
    for job in found_jobs(store):
        if job.stack in registry.COMPLETE and job.source != "yaml":
            yield job


def once(hits: list[Hit]) -> list[Hit]:
    """Return `hits` without those that another one shows already: settings of one file belong to all its commands."""
    seen: set[Any] = set()
    out = []
    for one in hits:
        place = (one.evidence[0].path, one.evidence[0].line) if one.evidence else id(one)
        if place not in seen:
            seen.add(place)
            out.append(one)
    return out
