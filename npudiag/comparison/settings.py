"""Options, variables and versions that differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from npudiag.comparison import effects
from npudiag.comparison.model import Setting
from npudiag.comparison.snapshot import Settings, Snapshot

_ON = ("", "True", "true")
_OFF = ("False", "false")

Values = Mapping[str, tuple[str, int]]


def differing(a: Snapshot, b: Snapshot) -> list[Setting]:
    """Return what differs: what is known to matter first, incidental settings last.

    Options are compared as far as both sides tell them: a script with a script, a dump of all arguments with a
    dump. Where only a script and a dump are there, what the script sets is looked up in the dump.
    """
    found: dict[tuple[str, str], Setting] = {}
    for source, kind in (("script", "option"), ("dump", "option"), ("yaml", "config"), ("env", "env")):
        mine, theirs = _of(a, source), _of(b, source)
        if mine is not None and theirs is not None:
            _add(found, kind, mine, theirs, set(mine.values) | set(theirs.values))
    for mine, theirs, only in ((_of(a, "script"), _of(b, "dump"), "a"), (_of(a, "dump"), _of(b, "script"), "b")):
        lacking = _of(a, "dump") is None or _of(b, "dump") is None
        if mine is not None and theirs is not None and lacking and not (_of(a, "script") and _of(b, "script")):
            _add(found, "option", mine, theirs, (mine if only == "a" else theirs).values)
    for name in sorted(set(a.versions) & set(b.versions)):
        if a.versions[name] != b.versions[name]:
            found["version", name] = Setting(name=name, kind="version", a=a.versions[name], b=b.versions[name])
    return sorted(found.values(), key=_weight)


def _of(snapshot: Snapshot, source: str) -> Settings | None:
    return next((each for each in snapshot.settings if each.source == source), None)


def _add(
    found: dict[tuple[str, str], Setting], kind: str, mine: Settings, theirs: Settings, names: Iterable[str]
) -> None:
    for name in sorted(names):
        left, right = _value(mine.values, name), _value(theirs.values, name)
        if left == right or (kind, name) in found:
            continue
        touched = list(dict.fromkeys(str(effect.target) for effect in effects.of(name)))
        found[kind, name] = Setting(
            name=name,
            kind=_kind(kind),
            a=left,
            b=right,
            at_a=_place(mine, name),
            at_b=_place(theirs, name),
            touches=touched,
            incidental=not touched and effects.incidental(name),
        )


def _kind(kind: str) -> Literal["option", "env", "config"]:
    return "env" if kind == "env" else "config" if kind == "config" else "option"


def _value(values: Values, name: str) -> str | None:
    """Return a value; None where it is not set. A dump says True and False where a script has an option or none."""
    if name not in values:
        return None
    value = values[name][0]
    if value in _OFF:
        return None
    return "" if value in _ON else value


def _place(settings: Settings, name: str) -> str:
    line = settings.values[name][1] if name in settings.values else 0
    return f"{settings.file}:{line}" if line and settings.file else ""


def _weight(setting: Setting) -> tuple[bool, bool, bool, str]:
    return (setting.incidental, not setting.touches, setting.kind == "version", setting.name)
