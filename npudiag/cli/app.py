"""The command-line application: every verb with its options."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from npudiag.cli import common
from npudiag.cli.baseline import app as baseline_app
from npudiag.cli.common import (
    ConfigFile,
    CsvOut,
    GitlabOut,
    HtmlOut,
    Ignore,
    JsonOut,
    JunitOut,
    LangOption,
    MarkdownOut,
    MemoryMb,
    NoConfig,
    Paths,
    Quiet,
    RulesDir,
    SarifOut,
    Select,
    Verbose,
    Workers,
)
from npudiag.cli.rules import app as rules_app

EPILOG = (
    "Exit codes: 0 ok, 1 gate failed, 2 wrong usage, configuration or rule file, 3 nothing recognised, "
    "4 internal error or incomplete, 130 interrupted."
)

app = typer.Typer(
    name="npudiag",
    help="Find the root cause in what an Ascend NPU job leaves behind.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(baseline_app, name="baseline", help="Keep the list of known findings that a gate accepts.")
app.add_typer(rules_app, name="rules", help="List, show, test and write rules.")


def _version(value: bool) -> None:
    if value:
        from npudiag._version import __version__

        print(f"npudiag {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Find the root cause in what an Ascend NPU job leaves behind."""


class FailOn(str, Enum):
    """From which severity on a gate fails."""

    critical = "critical"
    error = "error"
    warning = "warning"
    info = "info"
    never = "never"


@app.command(epilog=EPILOG)
def analyze(
    paths: Paths,
    json: JsonOut = None,
    html: HtmlOut = None,
    sarif: SarifOut = None,
    junit: JunitOut = None,
    markdown: MarkdownOut = None,
    gitlab: GitlabOut = None,
    csv: CsvOut = None,
    lang: LangOption = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 4 when part of the input could not be read or a rule broke.")
    ] = False,
    select: Select = None,
    ignore: Ignore = None,
    rules: RulesDir = None,
    workers: Workers = None,
    memory_mb: MemoryMb = None,
    config: ConfigFile = None,
    no_config: NoConfig = False,
) -> int:
    """Look at a job: print the verdict, write what is asked for. Findings do not change the exit code."""
    chosen = common.settings(
        paths=paths, lang=lang, rules=rules, select=select, ignore=ignore, workers=workers, memory_mb=memory_mb,
        config=config, no_config=no_config,
    )  # fmt: skip
    targets = common.outputs(
        chosen.config, json=json, html=html, sarif=sarif, junit=junit, markdown=markdown, gitlab=gitlab
    )
    result, store = common.execute(paths, chosen)
    if csv is not None:
        common.write_tables(store, csv)
    common.emit(result, chosen.lang, targets, verbosity=-1 if quiet else verbose)
    strict = strict or bool(chosen.config.strict)
    return common.exit_code(result, gate_failed=False, strict=strict)


@app.command(epilog=EPILOG)
def gate(
    paths: Paths,
    fail_on: Annotated[
        FailOn | None, typer.Option("--fail-on", help="Fail from this severity on.", show_default="error")
    ] = None,
    fail_on_rule: Annotated[
        list[str] | None,
        typer.Option("--fail-on-rule", metavar="CODE", help="Fail on findings whose code begins so, however mild."),
    ] = None,
    allow_incomplete: Annotated[
        bool,
        typer.Option(
            "--allow-incomplete",
            help="Do not exit 4 when input could not be read or a metric with a budget is missing.",
        ),
    ] = False,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", metavar="FILE", help="Fail only on what is new or worse than in this baseline."),
    ] = None,
    json: JsonOut = None,
    html: HtmlOut = None,
    sarif: SarifOut = None,
    junit: JunitOut = None,
    markdown: MarkdownOut = None,
    gitlab: GitlabOut = None,
    lang: LangOption = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    select: Select = None,
    ignore: Ignore = None,
    rules: RulesDir = None,
    workers: Workers = None,
    memory_mb: MemoryMb = None,
    config: ConfigFile = None,
    no_config: NoConfig = False,
) -> int:
    """Judge a job for a pipeline: exit 1 when a finding is grave enough. Input that could not be read is not clean."""
    from npudiag.cli import ci
    from npudiag.cli.gate import settle

    chosen = common.settings(
        paths=paths, lang=lang, rules=rules, select=select, ignore=ignore, workers=workers, memory_mb=memory_mb,
        config=config, no_config=no_config,
    )  # fmt: skip
    targets = common.outputs(
        chosen.config, json=json, html=html, sarif=sarif, junit=junit, markdown=markdown, gitlab=gitlab
    )
    result, _ = common.execute(paths, chosen)
    failed = settle(
        result,
        level=fail_on.value if fail_on else chosen.config.fail_on or "error",
        codes=fail_on_rule or (),
        budgets=chosen.config.budgets,
        baseline=baseline or chosen.config.baseline,
        allow_incomplete=allow_incomplete,
    )
    common.emit(result, chosen.lang, targets, verbosity=-1 if quiet else verbose)
    ci.report(result, chosen.lang, stdout_taken="-" in targets.values())
    return common.exit_code(result, gate_failed=failed, strict=not allow_incomplete)


@app.command(epilog=EPILOG)
def lint(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="SCRIPT...", help="Launch scripts, configurations, or folders.", show_default=False),
    ],
    stack: Annotated[
        str | None,
        typer.Option(
            "--stack",
            metavar="NAME[==RELEASE]",
            help="Framework and release to check against, e.g. MindSpeed-LLM==2.3.0.",
            show_default="by the options",
        ),
    ] = None,
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="Exit 1 from this severity on.")] = FailOn.error,
    json: JsonOut = None,
    html: HtmlOut = None,
    sarif: SarifOut = None,
    junit: JunitOut = None,
    markdown: MarkdownOut = None,
    gitlab: GitlabOut = None,
    lang: LangOption = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    select: Select = None,
    ignore: Ignore = None,
    rules: RulesDir = None,
    config: ConfigFile = None,
    no_config: NoConfig = False,
) -> int:
    """Check launch scripts before the launch: options the release refuses, contradictions, what was left on."""
    from npudiag.cli.lint import judge, selection, stated

    named = stated(stack)
    chosen = common.settings(
        paths=paths, lang=lang, rules=rules, select=list(selection(select)), ignore=ignore, config=config,
        no_config=no_config,
    )  # fmt: skip
    targets = common.outputs(
        chosen.config, json=json, html=html, sarif=sarif, junit=junit, markdown=markdown, gitlab=gitlab
    )
    result, store = common.execute(paths, chosen, stack=named)
    common.emit(result, chosen.lang, targets, verbosity=-1 if quiet else verbose)
    return judge(result, store, fail_on.value, common.exit_code(result, gate_failed=False, strict=False))


class TableFormat(str, Enum):
    """How a query's answer is printed."""

    table = "table"
    csv = "csv"
    json = "json"


@app.command(epilog=EPILOG)
def query(
    path: Annotated[str, typer.Argument(metavar="PATH", help="File, folder or archive.", show_default=False)],
    sql: Annotated[
        str | None, typer.Argument(metavar="[SQL]", help="One SELECT; without it the tables are listed.")
    ] = None,
    output: Annotated[TableFormat, typer.Option("--format", help="How to print the rows.")] = TableFormat.table,
    workers: Workers = None,
    memory_mb: MemoryMb = None,
) -> int:
    """Ask the tables behind an analysis in SQL (DuckDB). Nothing outside them can be read."""
    from npudiag.cli.query import answer

    chosen = common.settings(paths=[path], workers=workers, memory_mb=memory_mb)
    result, store = common.execute([path], chosen)
    answer(store, sql, output.value)
    return common.exit_code(result, gate_failed=False, strict=False)


@app.command(
    epilog=EPILOG,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def explain(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="CODE|TEXT...", help="A code, words, or - for standard input.")
    ] = None,
) -> int:
    """Say what a code or message means, which rule knows it, and what to do. A leading dash is part of the code."""
    from npudiag.cli.explain import main as answer

    return answer(words or [])


@app.command(epilog=EPILOG)
def render(
    document: Annotated[str, typer.Argument(metavar="RESULT.json", help="A result document.", show_default=False)],
    html: HtmlOut = None,
    json: JsonOut = None,
    sarif: SarifOut = None,
    junit: JunitOut = None,
    markdown: MarkdownOut = None,
    gitlab: GitlabOut = None,
    lang: LangOption = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> int:
    """Render a result document again, without the logs."""
    from npudiag.cli.render import read

    targets = common.outputs(json=json, html=html, sarif=sarif, junit=junit, markdown=markdown, gitlab=gitlab)
    result = read(document)
    chosen = lang.value if lang else common.default_lang()
    common.emit(result, chosen, targets, verbosity=-1 if quiet else verbose)
    return 0
