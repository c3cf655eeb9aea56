"""Says which framework and release the changes are for."""

from __future__ import annotations

from npudiag.report.safe_text import visible_word
from npudiag.report.texts import UI, say
from npudiag.result import Input, Result

_SETTINGS = ("flag", "env", "config")


def _plain(item: Input) -> bool:
    """Whether an input is a log of no framework that is known."""
    return item.kind == "console" and item.note.startswith("no known framework")


def framework(result: Result, lang: str) -> str:
    """Return a line on the framework of the job; empty where it is not known and nothing depends on it.

    Args:
        result: The document; its facts may come from anywhere.
        lang: ``en`` or ``zh``.
    """
    name, version = result.facts.get("stack"), result.facts.get("stack_version")
    if not isinstance(name, str) or not isinstance(version, str):
        return ""
    if name == "unknown":
        asked = any(
            remedy.stack and remedy.kind in _SETTINGS
            for finding in result.findings
            for remedy in finding.remedies
            if finding.suppressed is None
        )
        names = result.facts.get("stack_candidates")
        if isinstance(names, list) and names and all(isinstance(item, str) for item in names):
            listed = ", ".join(visible_word(item) for item in names[:6])
            return say(UI.framework_one_of, lang, names=listed) if asked else ""
        if asked:
            return say(UI.framework_unknown, lang)
        return say(UI.framework_none, lang) if any(_plain(item) for item in result.inputs) else ""
    among = result.facts.get("stack_versions")
    if version != "unknown":
        return say(UI.framework, lang, name=visible_word(name), version=visible_word(version))
    if isinstance(among, list) and among and all(isinstance(item, str) for item in among):
        span = visible_word(among[0]) if len(among) == 1 else f"{visible_word(among[0])} – {visible_word(among[-1])}"
        return say(UI.framework_among, lang, name=visible_word(name), versions=span)
    return say(UI.framework_unversioned, lang, name=visible_word(name))
