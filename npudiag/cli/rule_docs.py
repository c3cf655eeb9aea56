"""Pages about rules, made from the rules themselves: Markdown for the documentation, text for the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from npudiag.engine.load import RulePack
from npudiag.engine.model import Rule, RuleRemedy, RuleTest, Signature, Text
from npudiag.report.changes import setting

MARK = "<!-- Made by `npudiag rules docs`; edit the rule files, not this page. -->"
"""First line of every page; a file without it is never overwritten or removed."""
_SAMPLE_LINES = 24


def area(rule: Rule) -> str:
    """Return the folder that a rule's file lies in, ``other`` where it lies in none."""
    return PurePosixPath(rule.path).parts[0] if "/" in rule.path else "other"


def pages(pack: RulePack) -> dict[str, str]:
    """Return path to content of all pages: one per rule in its area's folder, and ``index.md``.

    Args:
        pack: Rules loaded with their tests; the same rules give the same pages.
    """
    areas: dict[str, list[Rule]] = {}
    for rule in pack.rules:
        areas.setdefault(area(rule), []).append(rule)
    found = {page(rule): "\n".join(_page(rule, pack)).rstrip("\n") + "\n" for rule in pack.rules}
    found["index.md"] = _index(areas)
    return found


def page(rule: Rule) -> str:
    """Return the path of a rule's page, relative to the folder of all pages."""
    return f"{area(rule)}/{rule.code}-{rule.name}.md"


def write(found: dict[str, str], out: Path) -> list[Path]:
    """Write pages, and remove those of earlier runs that are no more.

    Returns:
        The files that changed.

    Raises:
        FileExistsError: A file that this did not make stands in the way.
        OSError: Something cannot be written.
    """
    changed = []
    for path in stale(found, out):
        text = found.get(path.relative_to(out).as_posix())
        if path.exists() and not _ours(path):
            raise FileExistsError(f"{path} was not made by npudiag rules docs; it is left alone")
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        changed.append(path)
    return changed


def stale(found: dict[str, str], out: Path) -> list[Path]:
    """Return the files in `out` that differ from fresh pages, are missing, or are of rules that are no more."""
    differing = [
        out / name
        for name, text in found.items()
        if not (out / name).is_file() or (out / name).read_bytes() != text.encode()
    ]
    gone = [path for path in out.rglob("*.md") if path.relative_to(out).as_posix() not in found and _ours(path)]
    return sorted([*differing, *gone])


def _ours(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as stream:
        return stream.readline().rstrip("\n") == MARK


# -- Markdown


def _index(areas: dict[str, list[Rule]]) -> str:
    total = sum(map(len, areas.values()))
    lines = [MARK, "", "# Rules", "", f"{total} rules in {len(areas)} areas.", ""]
    for name, rules in sorted(areas.items()):
        lines += [f"## {name}", "", "| code | name | finds | category | severity | confidence |"]
        lines += ["|---|---|---|---|---|---|"]
        for rule in rules:
            link = f"[{rule.code}]({page(rule)})"
            cells = (link, rule.name, _inline(rule.title.en), rule.category, rule.severity, rule.confidence)
            lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
        lines.append("")
    return "\n".join(lines)


def _page(rule: Rule, pack: RulePack) -> Iterator[str]:
    yield MARK
    yield ""
    yield f"# {rule.code} {rule.name}"
    yield ""
    yield "[All rules](../index.md)"
    yield ""
    yield f"**{_inline(rule.title.en)}**  "
    yield f"**{_inline(rule.title.zh)}**"
    yield ""
    fatal = "ends the job" if (rule.severity == "critical" if rule.fatal is None else rule.fatal) else "the job goes on"
    facts = (rule.category, rule.severity, f"confidence {rule.confidence}", f"trust {rule.trust}", fatal)
    yield f"{' · '.join(facts)} · reads {_codes(rule.needs)}"
    yield ""
    yield from _both(rule.why)
    yield "## How it is found"
    yield ""
    yield from _fenced("yaml", detect_text(rule))
    if rule.params:
        yield f"Parameters, to be set under `[params.{rule.name}]`: " + ", ".join(
            f"`{name} = {_toml(value)}`" for name, value in rule.params.items()
        )
        yield ""
    if rule.caused_by:
        names = (f"[{name}]({_link(pack, name)})" for name in rule.caused_by)
        yield f"A consequence of these where they are found too: {', '.join(names)}."
        yield ""
    if rule.remedies:
        yield "## What to do"
        yield ""
        for number, remedy in enumerate(rule.remedies, 1):
            yield from _remedy(number, remedy)
        yield ""
    if rule.collect:
        yield "## What to collect"
        yield ""
        yield from (f"- {_inline(text.en)}  \n  {_inline(text.zh)}" for text in rule.collect)
        yield ""
    sample = next((test for test in rule.tests if test.findings and test.files), None)
    if sample is not None:
        yield "## Example"
        yield ""
        yield from _fenced("text", _sample(sample))
    if rule.references:
        yield "## References"
        yield ""
        yield from (f"- <{address}>" for address in rule.references)
        yield ""


def _remedy(number: int, remedy: RuleRemedy) -> Iterator[str]:
    stack = f", for {', '.join(remedy.stack)}" if remedy.stack else ""
    yield f"{number}. {_inline(remedy.text.en)} ({remedy.kind}, {remedy.disposition}{stack})  "
    yield f"   {_inline(remedy.text.zh)}"
    for label, text in (("Expect", remedy.expect), ("Verify", remedy.verify)):
        if text is not None:
            yield f"   - {label}: {_inline(text.en)} / {_inline(text.zh)}"
    shown = [text for text in (change_text(remedy), remedy.command) if text]
    if shown:
        yield ""
        yield from (f"   {line}".rstrip() for line in _fenced("shell", "\n".join(shown)))


def change_text(remedy: RuleRemedy) -> str:
    """Return a remedy's setting as it is written; empty where it changes none."""
    change = remedy.change
    return setting(remedy.kind, change.key, change.to) if change else ""


def _both(text: Text) -> Iterator[str]:
    yield _inline(text.en)
    yield ""
    yield _inline(text.zh)
    yield ""


def _sample(test: RuleTest) -> str:
    parts = []
    for name, text in test.files.items():
        lines = text.rstrip("\n").split("\n")
        if len(test.files) > 1 or name != "sample.log":
            parts.append(f"== {name}")
        parts += lines[:_SAMPLE_LINES]
        if len(lines) > _SAMPLE_LINES:
            parts.append(f"... {len(lines) - _SAMPLE_LINES} more lines")
    return "\n".join(parts)


def _fenced(language: str, text: str) -> Iterator[str]:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{language}"
    yield from text.split("\n")
    yield fence
    yield ""


def _inline(text: str) -> str:
    """Return a template as Markdown on one line: places in angle quotes, optional parts without their brackets."""
    return re.sub(r"([\\*<>\[\]])|(?<=\W)(_)|(_)(?=\W)", r"\\\1\2\3", " ".join(plain_template(text).split()))


def plain_template(text: str) -> str:
    """Return a template for reading: ``{peer}`` as ``‹peer›``, ``[[ ]]`` gone."""
    text = text.replace("[[", "").replace("]]", "")
    return re.sub(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}", "\u2039\\1\u203a", text)


def _codes(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _toml(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _link(pack: RulePack, name: str) -> str:
    rule = pack.by_name[name]
    return f"../{page(rule)}"


# -- detectors


def detect_text(rule: Rule) -> str:
    """Return a rule's detector as YAML, as its file has it but for notes and layout."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def represent_str(self, text: str) -> yaml.ScalarNode:
            return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    Dumper.add_representer(str, Dumper.represent_str)
    detect: dict[str, Any]
    if rule.query is not None:
        detect = {"query": rule.query}
    elif rule.python is not None:
        detect = {"python": rule.python}
    else:
        parts = [_signature(signature) for signature in rule.signatures]
        detect = {"signature": parts[0] if len(parts) == 1 else parts}
    dumped: str = yaml.dump(detect, Dumper=Dumper, allow_unicode=True, sort_keys=False, width=10_000)
    return dumped.rstrip("\n")


def _signature(signature: Signature) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in (
        "where",
        "all",
        "any",
        "regex",
        "types",
        "unless",
        "nocase",
        "near",
        "count",
        "within_s",
        "per",
        "then",
        "cleared_by",
        "same",
    ):
        value = getattr(signature, name)
        if value is None or value == () or value == {} or value is False or (name == "count" and value == 1):
            continue
        if name == "where":
            value = {key: list(item) for key, item in msgspec.structs.asdict(value).items() if item}
            if not value:
                continue
        elif name == "near":
            value = {
                key: list(item) if isinstance(item, tuple) else item
                for key, item in msgspec.structs.asdict(value).items()
                if item
            }
        elif name in ("then", "cleared_by"):
            value = _signature(value)
        elif name == "count":
            value = f">= {value}"
        elif name == "within_s":
            name, value = "within", f"{value:g}s"
        elif isinstance(value, tuple):
            value = list(value)
        found[name] = value
    return found
