"""``npudiag rules``: looks at, tests, begins and documents rules."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from npudiag.cli.common import ConfigFile, LangOption, NoConfig, RulesDir
from npudiag.engine.load import RulePack, load_pack, pack_sources, shipped_pack, shipped_rules
from npudiag.engine.model import Rule, Text
from npudiag.errors import Exit, Fault, RuleError, UsageError
from npudiag.report.safe_text import visible, visible_block
from npudiag.report.texts import pick_lang
from npudiag.report.wrap import cut, text_width, wrap
from npudiag.result import CATEGORIES, SEVERITIES, Trust

if TYPE_CHECKING:
    from npudiag.config import Config

app = typer.Typer(name="rules", help="Look at, test, write and document rules.", no_args_is_help=True)

_WIDTH = 100


def _configuration(config: Path | None, no_config: bool) -> Config:
    from npudiag.config import load_config

    return load_config(explicit=config, disabled=no_config)


def _load(rules: Sequence[Path] | None, config: Config, *, with_tests: bool = False) -> RulePack:
    return load_pack(pack_sources(rules or (), config.rules), with_tests=with_tests)


def _say(text: str = "", *, bold: bool = False, colour: str | None = None, err: bool = False) -> None:
    """Print a line; styles are left out where the output is no terminal or NO_COLOR is set."""
    if (bold or colour) and not os.environ.get("NO_COLOR"):
        text = typer.style(text, bold=bold, fg=colour)
    typer.echo(text, err=err)


# -- list


@app.command("list")
def list_rules(
    category: Annotated[list[str] | None, typer.Option(help="Only of this category. Repeatable.")] = None,
    severity: Annotated[list[str] | None, typer.Option(help="Only of this severity. Repeatable.")] = None,
    trust: Annotated[list[str] | None, typer.Option(help="Only of this trust. Repeatable.")] = None,
    select: Annotated[
        list[str] | None, typer.Option(metavar="CODE", help="Only codes that begin so, or this name. Repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    rules: RulesDir = None,
    config: ConfigFile = None,
    no_config: NoConfig = False,
) -> None:
    """List rules: code, name, category, severity, confidence, trust."""
    _check(category, CATEGORIES, "category")
    _check(severity, SEVERITIES, "severity")
    _check(trust, get_args(Trust), "trust")
    from npudiag.engine.testing import choose_rules

    pack = _load(rules, _configuration(config, no_config))
    chosen = [
        rule
        for rule in choose_rules(pack, select)
        if (not category or rule.category in category)
        and (not severity or rule.severity in severity)
        and (not trust or rule.trust in trust)
    ]
    if as_json:
        _print_json([_summary(rule, pack) for rule in chosen])
        return
    head = ("code", "name", "category", "severity", "confidence", "trust")
    rows = [tuple(visible(str(getattr(rule, column))) for column in head) for rule in chosen]
    widths = [max(map(text_width, column)) for column in zip(head, *rows, strict=True)]
    for number, row in enumerate((head, *rows)):
        cells = (cell + " " * (width - text_width(cell)) for cell, width in zip(row, widths, strict=True))
        _say("  ".join(cells).rstrip(), bold=number == 0)
    _say(f"{len(chosen)} of {len(pack.rules)} rules", err=True)


def _check(values: Iterable[str] | None, allowed: Sequence[str], what: str) -> None:
    from npudiag.engine.positions import one_of

    for value in values or ():
        if value not in allowed:
            raise UsageError(one_of(value, what, allowed))


def _summary(rule: Rule, pack: RulePack) -> dict[str, Any]:
    return {
        "code": rule.code,
        "name": rule.name,
        "category": rule.category,
        "severity": rule.severity,
        "confidence": rule.confidence,
        "trust": rule.trust,
        "needs": rule.needs,
        "caused_by": rule.caused_by,
        "title": rule.title,
        "file": pack.files.get(rule.name, rule.path),
    }


def _print_json(value: Any) -> None:
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


# -- show


@app.command()
def show(
    rule: Annotated[str, typer.Argument(metavar="CODE|NAME", help="The rule.")],
    lang: LangOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole rule as JSON.")] = False,
    rules: RulesDir = None,
    config: ConfigFile = None,
    no_config: NoConfig = False,
) -> None:
    """Show a rule: its texts, what it looks for, what it advises, its tests."""
    from npudiag.engine.testing import choose_rules

    configured = _configuration(config, no_config)
    pack = _load(rules, configured, with_tests=True)
    found = pack.find(rule)
    if found is None:
        several = choose_rules(pack, [rule])
        raise UsageError(f"{rule!r} stands for several rules: {', '.join(each.code for each in several)}")
    if as_json:
        _print_json(found)
        return
    _show(found, pack, lang.value if lang else configured.lang or pick_lang(os.environ))


def _show(rule: Rule, pack: RulePack, lang: str) -> None:
    from npudiag.cli import rule_docs

    def words(text: Text) -> str:
        return visible_block(rule_docs.plain_template(text.zh if lang == "zh" else text.en))

    def paragraph(text: str, indent: str = "  ") -> None:
        for line in text.split("\n"):
            for piece in wrap(line, _WIDTH - len(indent)) or [""]:
                _say(f"{indent}{piece}".rstrip())

    def head(english: str, chinese: str) -> None:
        _say()
        _say(chinese if lang == "zh" else english, bold=True)

    _say(f"{rule.code} {rule.name}", bold=True)
    paragraph(words(rule.title))
    labels = ("置信度", "信任级别", "依赖表") if lang == "zh" else ("confidence", "trust", "needs")
    facts = zip(labels, (rule.confidence, rule.trust, ", ".join(rule.needs)), strict=True)
    paragraph(" · ".join([rule.category, rule.severity, *(f"{label} {value}" for label, value in facts)]))
    paragraph(visible(pack.files.get(rule.name, rule.path)))
    head("Why", "说明")
    paragraph(words(rule.why))
    head("Detection", "检测方式")
    for line in visible_block(rule_docs.detect_text(rule)).split("\n"):
        _say(f"  {line}")
    for name, value in rule.params.items():
        paragraph(visible(f"{name} = {value!r}"))
    if rule.caused_by:
        head("Explained by", "可由以下规则解释")
        paragraph(", ".join(rule.caused_by))
    if rule.remedies:
        head("What to do", "处理建议")
    for remedy in rule.remedies:
        stack = f", {', '.join(remedy.stack)}" if remedy.stack else ""
        paragraph(f"- {words(remedy.text)} ({remedy.kind}, {remedy.disposition}{stack})")
        for shown in (rule_docs.change_text(remedy), remedy.command):
            if shown:
                _say(f"      {visible_block(shown)}")
        for extra in (remedy.expect, remedy.verify):
            if extra is not None:
                paragraph(words(extra), "    ")
    if rule.collect:
        head("What to collect", "需要收集")
        for item in rule.collect:
            paragraph(f"- {words(item)}")
    if rule.references:
        head("References", "参考")
        for address in rule.references:
            _say(f"  {visible(address)}")
    head("Tests", "测试")
    for test in rule.tests:
        expected = "skip" if test.skip else f"findings: {test.findings}"
        paragraph(visible(f"- {test.name} ({expected})"))
        for name, content in test.files.items():
            _say(f"      == {visible(name)}")
            for line in content.rstrip("\n").split("\n"):
                _say(f"      {visible(line)}")
        for table, rows in test.tables.items():
            _say(f"      == {table}: {len(rows)} rows")


# -- test


@app.command()
def test(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[CODE|NAME]...", help="The rules; all when left out.")
    ] = None,
    rules: RulesDir = None,
    config: ConfigFile = None,
    no_config: NoConfig = False,
) -> None:
    """Run the tests in rule files; 1: a test failed, 2: a file is wrong.

    With --rules and no names, the rules of those folders are tested.
    """
    from npudiag.engine.testing import choose_rules, run_rule_test

    try:
        pack = _load(rules, _configuration(config, no_config), with_tests=True)
    except RuleError as error:
        for fault in error.faults:
            _print_fault(fault)
        _say(f"{len(error.faults)} fault(s) in rule files; no test was run", err=True)
        raise typer.Exit(Exit.USAGE.value) from None
    chosen = choose_rules(pack, names)
    if rules and not names:
        folders = [path.resolve() for path in rules]
        chosen = [
            rule for rule in chosen if any(Path(pack.files[rule.name]).resolve().is_relative_to(at) for at in folders)
        ]
    ran = failed = 0
    for rule in chosen:
        for each in rule.tests:
            outcome = run_rule_test(pack, rule, each)
            ran += 1
            if outcome.passed:
                continue
            failed += 1
            _say(f"{_short(outcome.path)}:{outcome.line}: {outcome.code} {visible(outcome.test)}", colour="red")
            for mismatch in outcome.mismatches:
                _say(f"  {mismatch.what}")
                _say(f"    - expected {_indented(mismatch.expected)}")
                _say(f"    + got      {_indented(mismatch.got)}")
    _say(f"{ran} tests of {len(chosen)} rules: {ran - failed} passed, {failed} failed", bold=True)
    if failed:
        raise typer.Exit(Exit.GATE_FAILED.value)


def _indented(text: str) -> str:
    return visible_block(text).replace("\n", "\n      ")


def _short(path: str) -> str:
    """Return a path relative to the working directory where it lies in it."""
    try:
        return visible(str(Path(path).resolve().relative_to(Path.cwd())))
    except ValueError:
        return visible(path)


def _print_fault(fault: Fault) -> None:
    """Print a fault with the line it is in and a mark below its column."""
    place = f"{_short(fault.path)}:{fault.line}:{fault.column}"
    _say(f"{place}: {visible(fault.message)}")
    if not fault.line:
        return
    try:
        line = Path(fault.path).read_text(encoding="utf-8-sig", errors="replace").split("\n")[fault.line - 1]
    except (OSError, IndexError):
        return
    start = max(0, fault.column - 1 - _WIDTH // 2)
    before = visible(line[start : fault.column - 1]).replace("\t", " ")
    after = visible(line[fault.column - 1 :].rstrip("\r")).replace("\t", " ")
    _say(f"    {before}{cut(after, _WIDTH)}")
    _say(f"    {' ' * text_width(before)}^", colour="red")


# -- new


@app.command()
def new(
    area: Annotated[str, typer.Argument(metavar="AREA", help="Folder of the pack, like hccl.")],
    code: Annotated[str, typer.Argument(metavar="CODE", help="Three letters of your own and three digits: ACM001.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Names the problem: link-flaps.")],
    category: Annotated[
        str | None, typer.Option(help="Category of the findings.", show_default="by the line, or environment")
    ] = None,
    rules: Annotated[
        Path | None, typer.Option("--rules", metavar="DIR", help="Folder of the pack; ./rules when left out.")
    ] = None,
    from_line: Annotated[
        str | None,
        typer.Option("--from-line", metavar="TEXT", help="Begin with this log line; - reads it from standard input."),
    ] = None,
) -> None:
    """Begin a rule: write a valid file with both tests, to be filled in.

    From a log line, it takes the texts to look for, captures, level and module, and tests that pass.
    """
    from npudiag.cli import rule_scaffold
    from npudiag.engine.validate import CODE, NAME

    if not NAME.fullmatch(area):
        raise UsageError(f"area {area!r} must be kebab-case, like hccl")
    if not CODE.fullmatch(code):
        raise UsageError(f"code {code!r} must be 3 capital letters and 3 digits, like ACM001")
    if not NAME.fullmatch(name):
        raise UsageError(f"name {name!r} must be kebab-case, like link-flaps")
    _check([category] if category else (), CATEGORIES, "category")
    folder = (rules or Path("rules")) / area
    path = folder / f"{code}-{name}.yaml"
    pack = load_pack([shipped_pack()], with_tests=from_line is not None)
    same = pack.by_name.get(name) or pack.by_code.get(code)
    if same is not None and (same.code, same.name) != (code, name):
        raise UsageError(f"{same.code} {same.name} is a shipped rule; take another code and name, or both of its own")
    at_home = (rules or Path("rules")).resolve() == shipped_rules().resolve()
    if same is None and not at_home and any(rule.code[:3] == code[:3] for rule in pack.rules):
        raise UsageError(f"codes {code[:3]}... belong to the shipped rules", hint="take three letters of your own")
    if path.exists():
        raise UsageError(f"{path} is there already; it is left alone")
    if from_line is None:
        text = rule_scaffold.blank(code, name, category or "environment")
    else:
        text = _from_line(from_line, code, name, category, pack)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    _say(str(path))
    _say(f"next: fill it in, then npudiag rules test {name} --rules {rules or Path('rules')}", err=True)


def _from_line(pasted: str, code: str, name: str, category: str | None, pack: RulePack) -> str:
    """Return a rule about a pasted line; say on stderr which rules know it already."""
    from npudiag.analyze import analyze_texts
    from npudiag.cli import rule_scaffold

    if pasted == "-":
        pasted = sys.stdin.buffer.read().decode("utf-8", "replace")
    if not pasted.strip():
        raise UsageError("there is no line to begin with")
    draft = rule_scaffold.read(pasted, rule_scaffold.samples(pack.rules))
    chosen = category or rule_scaffold.category_of(draft, pack.rules)
    text = rule_scaffold.from_line(draft, code, name, chosen, pack)
    for finding in analyze_texts({rule_scaffold.FILE: draft.pasted + "\n"}, pack).findings:
        if finding.category != "insufficient-evidence":
            _say(f"note: {finding.code} {finding.name} reports this line already", err=True)
    return text


# -- docs


@app.command()
def docs(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the pages.")] = Path("docs/rules"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; 1 where a page is not up to date.")] = False,
) -> None:
    """Make the pages about the shipped rules: one for each, and an index."""
    from npudiag.cli import rule_docs

    found = rule_docs.pages(load_pack([shipped_pack()], with_tests=True))
    if check:
        differing = rule_docs.stale(found, out)
        for path in differing:
            _say(f"{path} is not up to date; run npudiag rules docs --out {out}")
        if differing:
            raise typer.Exit(Exit.GATE_FAILED.value)
        return
    try:
        changed = rule_docs.write(found, out)
    except OSError as error:
        raise UsageError(f"cannot write the pages: {error}") from None
    _say(f"{len(found)} pages in {out}, {len(changed)} changed", err=True)


@app.command()
def coverage(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the pages.")] = Path("docs"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; 1 where a page is not up to date.")] = False,
) -> None:
    """Make the pages about all codes, and about which known faults are covered by what."""
    from npudiag.knowledge.pages import made, outdated

    found = made(load_pack([shipped_pack()], with_tests=True))
    differing = outdated(found, out)
    if check:
        for path in differing:
            _say(f"{path} is not up to date; run npudiag rules coverage --out {out}")
        if differing:
            raise typer.Exit(Exit.GATE_FAILED.value)
        return
    try:
        for path in differing:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(found[path.name], encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"cannot write the pages: {error}") from None
    _say(f"{len(found)} pages in {out}, {len(differing)} changed", err=True)
