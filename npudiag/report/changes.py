"""Turns remedies into text that can be pasted: one by one, and all of them merged."""

from __future__ import annotations

import re
from dataclasses import dataclass

from npudiag.report.safe_text import split_lines, visible, visible_word
from npudiag.report.shell import quote
from npudiag.report.story import Story
from npudiag.report.texts import DISPOSITION, UI, Text, say
from npudiag.result import Change, Disposition, Finding, Remedy, RemedyKind

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FACTOR = re.compile(r"\A\*(\d+(?:\.\d+)?)\Z")
_SECTIONS: tuple[tuple[RemedyKind, Text], ...] = (
    ("env", UI.changes_env),
    ("flag", UI.changes_flag),
    ("config", UI.changes_config),
    ("command", UI.changes_command),
)


def setting(kind: RemedyKind, key: str, value: str) -> str:
    """Return a setting as it is written: ``export K=V``, ``--flag value`` or ``key: value``.

    What a rule leaves to the job (``*2``, ``fit``) is a blank.
    """
    value = "<...>" if value == "fit" else _FACTOR.sub(r"<... x \1>", value)
    if kind == "env":
        if not _NAME.match(key):
            return f"{visible(key)}={visible(value)}"
        return f"export {key}={quote(value)}" if value else f"unset {key}"
    if kind == "flag":
        return f"{visible(key)} {quote(value)}" if value else visible(key)
    return f"{visible(key)}: {visible(value)}"


def before_after(remedy: Remedy) -> tuple[str | None, str] | None:
    """Return the old (None where unknown) and the new form of the remedy's setting; None where it changes none."""
    change = remedy.change
    if change is None:
        return None
    old = None if change.old is None else setting(remedy.kind, change.key, change.old)
    return old, setting(remedy.kind, change.key, change.to)


def place(remedy: Remedy) -> str:
    """Return ``path:line`` of where the setting was made, or an empty string."""
    return f"{visible_word(remedy.at.path)}:{remedy.at.line}" if remedy.at else ""


@dataclass(frozen=True, slots=True)
class _Line:
    kind: RemedyKind
    text: str
    note: str
    disposition: Disposition
    live: bool


def merged(story: Story, lang: str) -> str:
    """Return all suggested settings and commands as one commented shell text; empty where there are none.

    Each setting stands once, as the most important finding wants it. What eases a
    mere consequence, is risky, has a blank to fill in or is no shell command is commented out.
    """
    lines: list[_Line] = []
    taken: dict[tuple[RemedyKind, str], str] = {}
    symptoms = [finding for cause in story.causes for finding in cause.consequences]
    main = [cause.finding for cause in story.causes] + story.contributing + story.others
    for finding, is_symptom in [*((f, False) for f in main), *((f, True) for f in symptoms)]:
        for remedy in finding.remedies:
            line = _line(finding, remedy, taken, is_symptom, lang)
            if line is not None:
                lines.append(line)
    if not lines:
        return ""
    out = [f"# {say(UI.changes_head, lang)}"]
    for kind, title in _SECTIONS:
        group = [line for line in lines if line.kind == kind]
        if group:
            out += ["", f"# == {say(title, lang)} =="]
        for line in group:
            out.append(f"# {line.note}")
            out += [text if line.live else f"#   {text}" for text in split_lines(line.text)]
    return "\n".join(out) + "\n"


def _line(
    finding: Finding, remedy: Remedy, taken: dict[tuple[RemedyKind, str], str], is_symptom: bool, lang: str
) -> _Line | None:
    notes = [f"{finding.code} {visible(finding.name)}", say(DISPOSITION[remedy.disposition], lang)]
    usable = not is_symptom and remedy.disposition != "risky"
    if is_symptom:
        notes.append(say(UI.changes_symptom, lang))
    if remedy.change is not None and remedy.kind in ("env", "flag", "config"):
        return _setting_line(remedy, remedy.change, taken, notes, usable, lang)
    # Looking closer at a consequence leads nowhere: its commands stay with it.
    if remedy.command is None or is_symptom or (remedy.kind, remedy.command) in taken:
        return None
    taken[remedy.kind, remedy.command] = ""
    text = "\n".join(visible(part) for part in split_lines(remedy.command))
    return _Line("command", text, "; ".join(notes), remedy.disposition, usable and remedy.disposition == "safe")


def _setting_line(
    remedy: Remedy,
    change: Change,
    taken: dict[tuple[RemedyKind, str], str],
    notes: list[str],
    usable: bool,
    lang: str,
) -> _Line | None:
    key = (remedy.kind, change.key)
    if taken.get(key) == change.to:
        return None
    conflict = key in taken
    if conflict:
        notes.append(say(UI.changes_conflict, lang, key=visible(change.key), to=visible(taken[key])))
    else:
        taken[key] = change.to
    if change.old is not None:
        notes.append(say(UI.changes_was, lang, old=visible(change.old)))
    if remedy.at:
        notes.append(place(remedy))
    # A value such as <vendor directory> is for the reader to fill in.
    live = usable and not conflict and remedy.kind == "env" and bool(_NAME.match(change.key)) and "<" not in change.to
    return _Line(remedy.kind, setting(remedy.kind, change.key, change.to), "; ".join(notes), remedy.disposition, live)
