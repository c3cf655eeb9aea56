"""The command-line application: every verb with its options."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from npudiag.cli import common
from npudiag.cli.common import (
    ConfigFile,
    HtmlOut,
    Ignore,
    JsonOut,
    LangOption,
    MemoryMb,
    NoConfig,
    Paths,
    Quiet,
    RulesDir,
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
    common.check_outputs(json=json, html=html)
    chosen = common.settings(
        paths=paths, lang=lang, rules=rules, select=select, ignore=ignore, workers=workers, memory_mb=memory_mb,
        config=config, no_config=no_config,
    )  # fmt: skip
    result, _ = common.execute(paths, chosen)
    common.emit(result, chosen.lang, json_out=json, html_out=html, verbosity=-1 if quiet else verbose)
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
        bool, typer.Option("--allow-incomplete", help="Do not exit 4 when part of the input could not be read.")
    ] = False,
    json: JsonOut = None,
    html: HtmlOut = None,
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
    from npudiag.cli.gate import fails

    common.check_outputs(json=json, html=html)
    chosen = common.settings(
        paths=paths, lang=lang, rules=rules, select=select, ignore=ignore, workers=workers, memory_mb=memory_mb,
        config=config, no_config=no_config,
    )  # fmt: skip
    result, _ = common.execute(paths, chosen)
    level = fail_on.value if fail_on else chosen.config.fail_on or "error"
    common.emit(result, chosen.lang, json_out=json, html_out=html, verbosity=-1 if quiet else verbose)
    failed = fails(result, level, fail_on_rule or ())
    return common.exit_code(result, gate_failed=failed, strict=not allow_incomplete)


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


@app.command(epilog=EPILOG)
def render(
    document: Annotated[str, typer.Argument(metavar="RESULT.json", help="A result document.", show_default=False)],
    html: HtmlOut = None,
    json: JsonOut = None,
    lang: LangOption = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> int:
    """Render a result document again, without the logs."""
    from npudiag.cli.render import read

    common.check_outputs(json=json, html=html)
    result = read(document)
    chosen = lang.value if lang else common.default_lang()
    common.emit(result, chosen, json_out=json, html_out=html, verbosity=-1 if quiet else verbose)
    return 0
