"""``npudiag baseline``: makes and keeps the file of known findings that a gate accepts."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npudiag.cli import common
from npudiag.cli.common import ConfigFile, Ignore, MemoryMb, NoConfig, RulesDir, Select, Workers
from npudiag.errors import Exit, UsageError

if TYPE_CHECKING:
    from npudiag.diagnosis.baseline import Baseline
    from npudiag.result import Result

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

PathsOrResult = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PATH...]", help="Files, folders or archives of the run.", show_default=False),
]
ResultIn = Annotated[
    str | None,
    typer.Option("--result", metavar="RESULT.json", help="Take a result document instead of reading logs."),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--baseline", metavar="FILE", help="The baseline file.", show_default="configured, or npudiag-baseline.json"
    ),
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why the new findings are accepted.")]
Until = Annotated[
    str | None, typer.Option("--until", metavar="DAY", help="Last day on which they are, like 2027-03-01.")
]


@app.command()
def create(
    paths: PathsOrResult = None,
    result: ResultIn = None,
    baseline: File = None,
    reason: Reason = "",
    until: Until = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    select: Select = None,
    ignore: Ignore = None,
    rules: RulesDir = None,
    workers: Workers = None,
    memory_mb: MemoryMb = None,
    config: ConfigFile = None,
    no_config: NoConfig = False,
) -> int:
    """Accept all findings of a run, and take its metrics as those to compare with."""
    from npudiag.diagnosis import baseline as keeping

    last, today = _day(until), datetime.date.today()
    run = _Run(paths, result, select, ignore, rules, workers, memory_mb, config, no_config)
    file = run.file(baseline)
    if file.exists() and not force:
        raise UsageError(f"{file} exists", hint="npudiag baseline update changes it, --force replaces it")
    document = run.document()
    if document.verdict.status == "nothing-recognised":
        return Exit.NOTHING_RECOGNISED
    made = keeping.create(document, reason=reason, until=last, today=today)
    _save(file, made)
    print(f"{file}: {len(made.findings)} known findings, {len(made.metrics)} metrics")
    return 0


@app.command()
def update(
    paths: PathsOrResult = None,
    result: ResultIn = None,
    baseline: File = None,
    reason: Reason = "",
    until: Until = None,
    select: Select = None,
    ignore: Ignore = None,
    rules: RulesDir = None,
    workers: Workers = None,
    memory_mb: MemoryMb = None,
    config: ConfigFile = None,
    no_config: NoConfig = False,
) -> int:
    """Accept what a run has beyond the baseline: new findings, worse ones, expired ones; take over its metrics."""
    from npudiag.diagnosis import baseline as keeping

    last, today = _day(until), datetime.date.today()
    run = _Run(paths, result, select, ignore, rules, workers, memory_mb, config, no_config)
    file = run.file(baseline)
    before = keeping.load(file)
    document = run.document()
    if document.verdict.status == "nothing-recognised":
        return Exit.NOTHING_RECOGNISED
    after, changed = keeping.update(before, document, reason=reason, until=last, today=today)
    _save(file, after)
    print(f"{file}: {changed} entries added or changed, {len(after.findings)} in all")
    return 0


@app.command()
def prune(
    paths: PathsOrResult = None,
    result: ResultIn = None,
    baseline: File = None,
    rules: RulesDir = None,
    workers: Workers = None,
    memory_mb: MemoryMb = None,
    config: ConfigFile = None,
    no_config: NoConfig = False,
) -> int:
    """Drop the entries that expired, and those whose rule could judge the run and found nothing of the kind."""
    from npudiag.account import incomplete
    from npudiag.diagnosis import baseline as keeping

    run = _Run(paths, result, None, None, rules, workers, memory_mb, config, no_config)
    file = run.file(baseline)
    before = keeping.load(file)
    document = run.document()
    if document.verdict.status == "nothing-recognised":
        return Exit.NOTHING_RECOGNISED
    if incomplete(document):
        # What was not read may well hold what an entry is about.
        print(f"{file}: nothing dropped, part of the run could not be read")
        return Exit.INCOMPLETE
    names = {rule.name for rule in run.settings.pack.rules}
    after, dropped = keeping.prune(before, document, names, datetime.date.today())
    if dropped:
        _save(file, after)
    for entry in dropped:
        print(f"dropped {entry.code} {entry.title}" + (f" ({entry.reason})" if entry.reason else ""))
    print(f"{file}: {len(dropped)} entries dropped, {len(after.findings)} left")
    return 0


class _Run:
    """The run that a baseline is made from: logs to analyse, or a document."""

    def __init__(
        self,
        paths: list[str] | None,
        result: str | None,
        select: list[str] | None,
        ignore: list[str] | None,
        rules: list[Path] | None,
        workers: int | None,
        memory_mb: int | None,
        config: Path | None,
        no_config: bool,
    ) -> None:
        if bool(paths) == bool(result):
            raise UsageError("give either what to analyse or --result RESULT.json")
        self._paths, self._result = paths or [], result
        self.settings = common.settings(
            paths=self._paths, select=select, ignore=ignore, rules=rules, workers=workers, memory_mb=memory_mb,
            config=config, no_config=no_config,
        )  # fmt: skip

    def file(self, given: Path | None) -> Path:
        """Return the baseline file."""
        from npudiag.diagnosis.baseline import FILE_NAME

        return given or self.settings.config.baseline or Path(FILE_NAME)

    def document(self) -> Result:
        """Return the document; findings that a baseline had set aside count again."""
        if self._result is None:
            return common.execute(self._paths, self.settings)[0]
        from npudiag.cli.render import read

        document = read(self._result)
        for finding in document.findings:
            if finding.suppressed is not None and finding.suppressed.get("by") == "baseline":
                finding.suppressed = None
        return document


def _day(text: str | None) -> datetime.date | None:
    if text is None:
        return None
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--until must be a day like 2027-03-01, not {text!r}") from None


def _save(file: Path, baseline: Baseline) -> None:
    from npudiag.diagnosis.baseline import dump

    common.write(str(file), dump(baseline))
