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
    Node,
    OpenPage,
    Paths,
    PathsOrNodes,
    Quiet,
    RulesDir,
    SarifOut,
    Scheduler,
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


def only(name: str | None) -> typer.Typer:
    """Return the application with the named command alone, where it has one of that name.

    Building the options of all commands takes longer than analysing a small log.
    """
    commands = [info for info in app.registered_commands if info.callback and info.callback.__name__ == name]
    groups = [info for info in app.registered_groups if info.name == name]
    if not (commands or groups):
        return app
    small = typer.Typer(rich_markup_mode=None)
    small.info = app.info
    small.registered_callback = app.registered_callback
    small.registered_commands, small.registered_groups = commands, groups
    small._add_completion = False
    small.pretty_exceptions_enable = False
    return small


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
    paths: PathsOrNodes = None,
    json: JsonOut = None,
    html: HtmlOut = None,
    sarif: SarifOut = None,
    junit: JunitOut = None,
    markdown: MarkdownOut = None,
    gitlab: GitlabOut = None,
    csv: CsvOut = None,
    open_page: OpenPage = False,
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
    node: Node = None,
    scheduler: Scheduler = None,
    config: ConfigFile = None,
    no_config: NoConfig = False,
) -> int:
    """Look at a job: print the verdict, write what is asked for. Findings do not change the exit code."""
    from npudiag.cli import render as rendering

    chosen = common.settings(
        paths=paths or [], lang=lang, rules=rules, select=select, ignore=ignore, workers=workers, memory_mb=memory_mb,
        config=config, no_config=no_config,
    )  # fmt: skip
    targets = common.outputs(
        chosen.config, json=json, html=html, sarif=sarif, junit=junit, markdown=markdown, gitlab=gitlab
    )
    targets = rendering.with_page(targets, open_page)
    result, store = common.execute(paths or [], chosen, nodes=node, scheduler=scheduler)
    if csv is not None:
        common.write_tables(store, csv)
    common.emit(result, chosen.lang, targets, verbosity=-1 if quiet else verbose)
    rendering.open_page(targets, open_page)
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
    csv: CsvOut = None,
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
    result, store = common.execute(paths, chosen)
    if csv is not None:
        common.write_tables(store, csv)
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


@app.command(epilog=EPILOG)
def compare(
    a: Annotated[
        str, typer.Argument(metavar="A", help="The run to compare with: path or result document.", show_default=False)
    ],
    b: Annotated[
        str, typer.Argument(metavar="B", help="The run to judge: path or result document.", show_default=False)
    ],
    fail_on_regression: Annotated[
        str | None,
        typer.Option("--fail-on-regression", metavar="PERCENT", help="Exit 1 where B is slower by more than this."),
    ] = None,
    fail_on: Annotated[
        FailOn | None, typer.Option("--fail-on", help="Exit 1 on new findings from this severity on.")
    ] = None,
    allow_incomplete: Annotated[
        bool, typer.Option("--allow-incomplete", help="Do not exit 4 where something could not be judged.")
    ] = False,
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the comparison; - is stdout.")
    ] = None,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Write the HTML report; - is stdout.")
    ] = None,
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
    """Say what differs between two runs, what it costs, and what explains it; may serve as a gate for B."""
    from npudiag.cli import compare as comparing

    bound = comparing.percent(fail_on_regression)
    common.check_outputs(json=json, html=html)
    chosen = common.settings(
        paths=[a, b], lang=lang, rules=rules, select=select, ignore=ignore, workers=workers, memory_mb=memory_mb,
        config=config, no_config=no_config,
    )  # fmt: skip
    severity = fail_on.value if fail_on is not None and fail_on is not FailOn.never else None
    found = comparing.run(a, b, chosen, regression_pct=bound, severity=severity, allow_incomplete=allow_incomplete)
    outputs = (("json", json), ("html", html))
    comparing.emit(found, chosen.lang, outputs, verbosity=-1 if quiet else verbose)
    return comparing.exit_code(found)


@app.command(epilog=EPILOG)
def host(
    path: Annotated[
        list[str] | None,
        typer.Option("--path", metavar="DIR", help="Also check space and rights here: checkpoints, data sets."),
    ] = None,
    env_file: Annotated[
        Path | None,
        typer.Option("--env-file", metavar="FILE", help="Environment of the job: a script, or the output of env."),
    ] = None,
    pid: Annotated[
        int | None, typer.Option("--pid", min=1, help="Environment of a running process.", show_default=False)
    ] = None,
    gate_: Annotated[bool, typer.Option("--gate", help="Exit 1 when a check fails, for launchers of jobs.")] = False,
    fail_on: Annotated[
        FailOn | None,
        typer.Option("--fail-on", help="Exit 1 from this severity on; means --gate.", show_default="error"),
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="DIR", help="Keep what was gathered there, as analyze reads it.")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, max=600, help="Seconds for each vendor tool.")] = 10.0,
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
    """Check this machine before a job: limits, disks, NPUs, their network, versions, environment."""
    import sys

    from npudiag.cli import host as preflight
    from npudiag.cli.gate import settle
    from npudiag.host.gather import gather

    chosen = common.settings(
        paths=(), lang=lang, rules=rules, select=select, ignore=ignore, config=config, no_config=no_config
    )
    targets = common.outputs(
        chosen.config, json=json, html=html, sarif=sarif, junit=junit, markdown=markdown, gitlab=gitlab
    )
    texts = gather(preflight.request(paths=path or (), env_file=env_file, pid=pid, timeout_s=timeout))
    if save is not None:
        preflight.save(texts, save)
    result = preflight.judge(texts, chosen, ("npudiag", *sys.argv[1:]))
    failed = False
    if gate_ or fail_on is not None:
        level = fail_on.value if fail_on else chosen.config.fail_on or "error"
        failed = settle(result, level=level, codes=(), budgets=(), baseline=None, allow_incomplete=True)
    common.write_outputs(result, chosen.lang, targets)
    if "-" not in targets.values():
        preflight.show(result, chosen.lang, -1 if quiet else verbose)
    return common.exit_code(result, gate_failed=failed, strict=bool(result.errors) and (gate_ or fail_on is not None))


@app.command(epilog=EPILOG)
def collect(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The bundle, .tar.zst or .tar.gz.")],
    pid: Annotated[
        int | None, typer.Option("--pid", min=1, help="A process of the job: its environment and output.")
    ] = None,
    log: Annotated[
        list[str] | None, typer.Option("--log", metavar="DIR", help="Logs of the job.", show_default="CANN's own")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Leave out records before, by the log's clock.")
    ] = None,
    last: Annotated[
        str | None, typer.Option("--last", metavar="TIME", help="Leave out records older than this: 90m, 6h, 2d.")
    ] = None,
    max_file_mb: Annotated[int, typer.Option("--max-file-mb", min=1, help="Most of one log, MiB unpacked.")] = 64,
    max_mb: Annotated[int, typer.Option("--max-mb", min=1, help="Most of all logs, MiB unpacked.")] = 1024,
    no_redact: Annotated[
        bool, typer.Option("--no-redact", help="Keep addresses and names. Secrets are masked all the same.")
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="Key file of another bundle, for the same pseudonyms."),
    ] = None,
    device_logs: Annotated[
        bool, typer.Option("--device-logs", help="Also export the cards' own logs (msnpureport, as root, minutes).")
    ] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, max=600, help="Seconds for each vendor tool.")] = 10.0,
) -> int:
    """Write a bundle of this machine and a job's logs, without names, addresses and secrets, for analyze elsewhere."""
    import datetime

    from npudiag.cli import collect as collecting

    bundle = collecting.collect(
        collecting.Order(
            target=output, pid=pid, logs=tuple(log or ()),
            since=collecting.since(since, last, datetime.datetime.now()), file_mb=max_file_mb, total_mb=max_mb,
            redact=not no_redact, key=key, device_logs=device_logs, timeout_s=timeout,
        )
    )  # fmt: skip
    for line in collecting.summary(bundle):
        print(line)
    return 0


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


@app.command(
    epilog="The exit code of COMMAND is passed through. Without it: 0, or 1 where a finding is as grave as --fail-on; "
    "2 wrong usage, 3 nothing recognised, 4 internal error."
)
def watch(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH...] [-- COMMAND...]", help="Logs and folders to follow; COMMAND is run.", show_default=False
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, max=3600, help="Seconds between readings of host and NPUs.")
    ] = 1.0,
    for_: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=0.1, help="End after so long.", show_default=False)
    ] = None,
    pid: Annotated[
        int | None, typer.Option("--pid", min=1, help="The job's process; the watch ends with it.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Where to write.", show_default="npudiag-watch-TIME"),
    ] = None,
    view: Annotated[
        bool | None, typer.Option("--view/--no-view", help="Draw a view on stderr.", show_default="on a terminal")
    ] = None,
    alert_command: Annotated[
        str | None,
        typer.Option("--alert-command", metavar="WORDS", help="Run this for each finding, which it gets as JSON."),
    ] = None,
    alert_file: Annotated[
        Path | None, typer.Option("--alert-file", metavar="FILE", help="Append each finding as a line of JSON.")
    ] = None,
    fail_on: Annotated[
        FailOn | None,
        typer.Option("--fail-on", help="Without COMMAND: exit 1 from this severity on.", show_default="error"),
    ] = None,
    command: Annotated[list[str] | None, typer.Option("--command", hidden=True, help="Words of COMMAND.")] = None,
    json: JsonOut = None,
    html: HtmlOut = None,
    sarif: SarifOut = None,
    junit: JunitOut = None,
    markdown: MarkdownOut = None,
    gitlab: GitlabOut = None,
    lang: LangOption = None,
    select: Select = None,
    ignore: Ignore = None,
    rules: RulesDir = None,
    workers: Workers = None,
    memory_mb: MemoryMb = None,
    config: ConfigFile = None,
    no_config: NoConfig = False,
) -> int:
    """Look on while a job runs: follow its logs, sample the machine, tell findings as they appear, judge at the end."""
    from npudiag.cli.watch import Wanted, run
    from npudiag.watch.alerts import Alerts

    chosen = common.settings(
        paths=paths or [], lang=lang, rules=rules, select=select, ignore=ignore, workers=workers, memory_mb=memory_mb,
        config=config, no_config=no_config,
    )  # fmt: skip
    targets = common.outputs(None, json=json, html=html, sarif=sarif, junit=junit, markdown=markdown, gitlab=gitlab)
    level = fail_on.value if fail_on else chosen.config.fail_on or "error"
    wanted = Wanted(paths or [], command or [], interval, for_, pid, output, view, level)
    return run(wanted, chosen, Alerts(alert_command, alert_file), targets)


@app.command(epilog=EPILOG)
def extract(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE.npd", help="File to write.", show_default=False)
    ],
    paths: PathsOrNodes = None,
    select: Select = None,
    ignore: Ignore = None,
    rules: RulesDir = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 4 when part of the input could not be read.")] = False,
    workers: Workers = None,
    memory_mb: MemoryMb = None,
    node: Node = None,
    scheduler: Scheduler = None,
    config: ConfigFile = None,
    no_config: NoConfig = False,
) -> int:
    """Shrink a node's logs and captures to a small file; analyze takes such files of all nodes together."""
    from npudiag.cli.extract import write

    chosen = common.settings(
        paths=paths or [], rules=rules, select=select, ignore=ignore, workers=workers, memory_mb=memory_mb,
        config=config, no_config=no_config,
    )  # fmt: skip
    return write(paths or [], output, chosen, nodes=node, scheduler=scheduler, strict=strict)


@app.command(epilog=EPILOG)
def render(
    document: Annotated[str, typer.Argument(metavar="RESULT.json", help="A result document.", show_default=False)],
    html: HtmlOut = None,
    json: JsonOut = None,
    sarif: SarifOut = None,
    junit: JunitOut = None,
    markdown: MarkdownOut = None,
    gitlab: GitlabOut = None,
    open_page: OpenPage = False,
    lang: LangOption = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> int:
    """Render a result document again, without the logs."""
    from npudiag.cli import render as rendering

    targets = common.outputs(json=json, html=html, sarif=sarif, junit=junit, markdown=markdown, gitlab=gitlab)
    targets = rendering.with_page(targets, open_page)
    result = rendering.read(document)
    chosen = lang.value if lang else common.default_lang()
    common.emit(result, chosen, targets, verbosity=-1 if quiet else verbose)
    rendering.open_page(targets, open_page)
    return 0
