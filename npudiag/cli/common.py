"""What the verbs share: options, settings, the run itself, writing outputs."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npudiag.errors import Exit, UsageError

if TYPE_CHECKING:
    from npudiag.analyze import Options
    from npudiag.config import Config
    from npudiag.engine.load import RulePack
    from npudiag.ingest import Progress
    from npudiag.report.terminal import Line
    from npudiag.result import Result
    from npudiag.tables.store import Store


class Lang(str, Enum):
    """Languages of the texts."""

    en = "en"
    zh = "zh"


_OUTPUT = "Outputs"
_RUN = "How to run"

Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH...", help="Files, folders or archives; - reads standard input.", show_default=False),
]
PathsOrNodes = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH...",
        help="Files, folders, archives, or files that extract wrote; - reads standard input.",
        show_default=False,
    ),
]
JsonOut = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Write the result document; - is stdout.", rich_help_panel=_OUTPUT),
]
HtmlOut = Annotated[
    str | None,
    typer.Option("--html", metavar="FILE", help="Write the HTML report; - is stdout.", rich_help_panel=_OUTPUT),
]
OpenPage = Annotated[
    bool,
    typer.Option(
        "--open", help="Open the HTML report in the browser; without --html a temporary file.", rich_help_panel=_OUTPUT
    ),
]
SarifOut = Annotated[
    str | None,
    typer.Option("--sarif", metavar="FILE", help="Write SARIF 2.1.0, for code scanning.", rich_help_panel=_OUTPUT),
]
JunitOut = Annotated[
    str | None,
    typer.Option("--junit", metavar="FILE", help="Write JUnit XML, a case per rule.", rich_help_panel=_OUTPUT),
]
MarkdownOut = Annotated[
    str | None,
    typer.Option("--markdown", metavar="FILE", help="Write Markdown, for a summary.", rich_help_panel=_OUTPUT),
]
GitlabOut = Annotated[
    str | None,
    typer.Option("--gitlab", metavar="FILE", help="Write a code quality report for GitLab.", rich_help_panel=_OUTPUT),
]
CsvOut = Annotated[
    Path | None,
    typer.Option("--csv", metavar="DIR", help="Write every table with rows as CSV there.", rich_help_panel=_OUTPUT),
]
LangOption = Annotated[
    Lang | None, typer.Option("--lang", help="Language of texts.", show_default="by locale", rich_help_panel=_OUTPUT)
]
Verbose = Annotated[
    int, typer.Option("--verbose", "-v", count=True, help="Show more evidence; twice for all.", rich_help_panel=_OUTPUT)
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print one line only.", rich_help_panel=_OUTPUT)]
Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select", metavar="CODE", help="Run only these rules: a name or how codes begin.", rich_help_panel=_RUN
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore", metavar="CODE", help="Leave out these rules: a name or how codes begin.", rich_help_panel=_RUN
    ),
]
RulesDir = Annotated[
    list[Path] | None,
    typer.Option("--rules", metavar="DIR", help="Add a folder of rules.", rich_help_panel=_RUN),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, max=256, help="Processes.", show_default="by machine", rich_help_panel=_RUN),
]
MemoryMb = Annotated[
    int | None,
    typer.Option(
        "--memory-mb",
        min=128,
        help="Memory for all processes together, MiB.",
        show_default="a quarter of what is free, 2 GiB at most",
        rich_help_panel=_RUN,
    ),
]
Node = Annotated[
    list[str] | None,
    typer.Option("--node", metavar="NAME=PATH", help="A path and the node whose logs lie there.", rich_help_panel=_RUN),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Read on the workers of a Dask scheduler (tcp://host:8786), which see the same paths.",
        rich_help_panel=_RUN,
    ),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Configuration file.", rich_help_panel=_RUN)
]
NoConfig = Annotated[bool, typer.Option("--no-config", help="Read no configuration file.", rich_help_panel=_RUN)]


@dataclass(slots=True)
class Settings:
    """Command line and configuration put together."""

    lang: str
    pack: RulePack
    config: Config
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    workers: int | None
    memory_mb: int | None


def settings(
    *,
    paths: Sequence[str],
    lang: Lang | None = None,
    rules: Sequence[Path] | None = None,
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    workers: int | None = None,
    memory_mb: int | None = None,
    config: Path | None = None,
    no_config: bool = False,
) -> Settings:
    """Read configuration and rules; the command line wins over the configuration.

    Raises:
        ConfigError: The configuration is wrong.
        RuleError: A rule file is wrong.
        UsageError: A code prefix is one that no rule has.
    """
    from npudiag.config import check_against, load_config, selects
    from npudiag.engine.load import load_pack, pack_sources
    from npudiag.report.texts import pick_lang

    configured = load_config(
        explicit=config, disabled=no_config, analysed=[Path(path) for path in paths if path != "-"]
    )
    for note in configured.notes:
        print(f"npudiag: note: {note}", file=sys.stderr)
    pack = load_pack(pack_sources(rules or (), configured.rules))
    check_against(configured, pack.rules)
    for word in (*(select or ()), *(ignore or ())):
        if not any(selects(word, rule.code, rule.name) for rule in pack.rules):
            raise UsageError(f"no rule is selected by {word!r}", hint="npudiag rules list shows all codes and names")
    return Settings(
        lang=lang.value if lang else configured.lang or pick_lang(os.environ),
        pack=pack,
        config=configured,
        select=tuple(select) if select else (configured.select and (*configured.select, *configured.extend_select)),
        ignore=tuple(ignore) if ignore else configured.ignore,
        workers=workers if workers is not None else configured.workers,
        memory_mb=memory_mb if memory_mb is not None else configured.memory_mb,
    )


def default_lang() -> str:
    """Return the language of the environment."""
    from npudiag.report.texts import pick_lang

    return pick_lang(os.environ)


def nodes_of(words: Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """Return node and path of each ``NAME=PATH``.

    Raises:
        UsageError: One is not of that form.
    """
    found = []
    for word in words or ():
        name, equals, path = word.partition("=")
        if not (name and equals and path):
            raise UsageError(f"--node {word!r} is not NAME=PATH", hint="e.g. --node worker-0=/mnt/worker-0/slog")
        found.append((name, path))
    return tuple(found)


def options_of(
    chosen: Settings,
    *,
    stack: tuple[str, str | None] | None = None,
    nodes: Sequence[str] | None = None,
    scheduler: str | None = None,
) -> Options:
    """Return how to run; `stack` is what the user says it is.

    Raises:
        UsageError: A node is not NAME=PATH.
    """
    from npudiag.analyze import Options

    return Options(
        select=chosen.select,
        ignore=chosen.ignore,
        params=chosen.config.params,
        workers=chosen.workers,
        memory_mb=chosen.memory_mb,
        suppress=chosen.config.suppress,
        command=("npudiag", *sys.argv[1:]),
        stack=stack,
        nodes=nodes_of(nodes),
        scheduler=scheduler,
    )


def execute(
    paths: Sequence[str],
    chosen: Settings,
    *,
    stack: tuple[str, str | None] | None = None,
    nodes: Sequence[str] | None = None,
    scheduler: str | None = None,
) -> tuple[Result, Store]:
    """Run the analysis with progress on stderr where somebody looks.

    Raises:
        UsageError: There is no path, or a node is not NAME=PATH.
    """
    from npudiag.analyze import analyze

    options = options_of(chosen, stack=stack, nodes=nodes, scheduler=scheduler)
    if not paths and not options.nodes:
        raise UsageError("there is nothing to look at", hint="name a file, a folder, an archive, or - for stdin")
    with progress_bar() as progress:
        result, store = analyze(paths, chosen.pack, options, progress=progress)
    if places := roots([*paths, *(path for _, path in options.nodes)]):
        result.facts["roots"] = places
    return result, store


def roots(paths: Sequence[str]) -> dict[str, str]:
    """Return where the inputs lie in the repository: first part of their evidence paths to path.

    What lies outside has no place: no absolute path gets into a document. A pipeline names the folder of its
    repository; elsewhere the working directory stands for it.
    """
    from npudiag.discover.names import display_path
    from npudiag.discover.walk import evidence_names, expanded, place_of

    here = Path.cwd()
    named = [Path(os.environ[name]) for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR") if os.environ.get(name)]
    base = next((folder for folder in named if here.is_relative_to(folder)), here)
    places = [place_of(path) for path in expanded(paths) if path != "-"]
    found = {}
    for place, name in zip(places, evidence_names(places), strict=True):
        if Path(place).is_relative_to(base):
            found[name] = display_path(str(Path(place).relative_to(base)))
    return found


def outputs(config: Config | None = None, **given: str | None) -> dict[str, str]:
    """Return the outputs to write, name to target: as the command line has it, else as the configuration has it.

    Raises:
        UsageError: More than one output is ``-``, two are the same file, or a folder does not exist.
    """
    wanted: dict[str, str] = {}
    for name, target in given.items():
        configured = getattr(config, name, None)
        if target:
            wanted[name] = target
        elif configured is not None:
            wanted[name] = str(configured)
    check_outputs(**wanted)
    return wanted


@contextlib.contextmanager
def progress_bar() -> Any:
    """Give a progress callback that draws a bar on stderr once the work takes longer than a moment."""
    if not sys.stderr.isatty():
        yield None
        return
    bar: Any = None
    begin = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            if time.monotonic() - begin < 0.7 or done >= total:
                return
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

            # No refresh thread: a process with threads cannot fork safely.
            bar = Progress(
                "reading",
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                auto_refresh=False,
                transient=True,
            )
            bar.start()
            bar.add_task("read", total=total)
        bar.update(bar.task_ids[0], completed=done, total=total)
        bar.refresh()

    callback: Progress = show
    try:
        yield callback
    finally:
        if bar is not None:
            bar.stop()


def check_outputs(**outputs: str | None) -> None:
    """Refuse two outputs on stdout.

    Raises:
        UsageError: More than one output is ``-``, or two are the same file.
    """
    named = {name: target for name, target in outputs.items() if target}
    on_stdout = [name for name, target in named.items() if target == "-"]
    if len(on_stdout) > 1:
        raise UsageError(
            "only one output can go to stdout: " + ", ".join(f"--{name} -" for name in on_stdout),
            hint="give the others a file name",
        )
    files = [target for target in named.values() if target != "-"]
    if len({Path(target).absolute() for target in files}) < len(files):
        raise UsageError("two outputs would be written to the same file")
    for target in files:
        folder = Path(target).resolve().parent
        if not folder.is_dir():
            raise UsageError(f"cannot write {target}: there is no folder {folder}")


def write(target: str, text: str | bytes) -> None:
    """Write an output whole or not at all.

    Raises:
        UsageError: It cannot be written.
    """
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if target == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    path = Path(target)
    try:
        if path.exists() and not path.is_file():
            # A pipe or a device: there is nothing to replace.
            path.write_bytes(data)
            return
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            mask = os.umask(0)
            os.umask(mask)
            Path(temporary).chmod(0o666 & ~mask)
            Path(temporary).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
    except OSError as exc:
        raise UsageError(f"cannot write {target}: {exc.strerror or exc}") from exc


def emit(result: Result, lang: str, targets: Mapping[str, str], *, verbosity: int) -> None:
    """Write what is asked for, and tell the story on the terminal unless stdout is taken.

    Args:
        result: The document.
        lang: ``en`` or ``zh``.
        targets: Renderer to file, or ``-`` for stdout (see `outputs`).
        verbosity: -1 for one line, 0 for one screen, more for more.
    """
    write_outputs(result, lang, targets)
    if "-" not in targets.values():
        show(result, lang, verbosity)


def write_outputs(result: Result, lang: str, targets: Mapping[str, str]) -> None:
    """Write the outputs that `outputs` returned."""
    from npudiag.report import find_renderer

    for name, target in targets.items():
        write(target, find_renderer(name)(result, lang=lang))


def write_tables(store: Store, folder: Path) -> None:
    """Write every table that has rows to ``folder/<table>.csv``.

    Raises:
        UsageError: The folder cannot be made or written to.
    """
    from npudiag.tables.schema import TABLES

    try:
        folder.mkdir(exist_ok=True)
    except OSError as exc:
        raise UsageError(f"cannot write to {folder}: {exc.strerror or exc}") from exc
    for name in TABLES:
        if not store.empty(name):
            write(str(folder / f"{name}.csv"), store.table(name).to_csv(index=False))


def show(result: Result, lang: str, verbosity: int) -> None:
    """Print the result for people."""
    from npudiag.report import terminal

    print_lines(lambda width: terminal.render(result, lang=lang, width=width, verbosity=verbosity))


def print_lines(render: Callable[[int], list[Line]]) -> None:
    """Print styled lines on stdout, for the width that it has: with colours on a terminal, plain elsewhere."""
    from npudiag.cli.ci import harmless
    from npudiag.report import terminal

    width = shutil.get_terminal_size((100, 40)).columns if sys.stdout.isatty() else 100
    lines = render(width)
    with harmless(sys.stdout):
        if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
            terminal.print_rich(lines, sys.stdout)
        else:
            terminal.print_plain(lines, sys.stdout)


def exit_code(result: Result, *, gate_failed: bool, strict: bool) -> Exit:
    """Return the exit code of a run; the first that applies of 130, 1, 3, 4."""
    from npudiag.account import incomplete
    from npudiag.cli.gate import missing_metrics
    from npudiag.ingest import INTERRUPTED

    if any(problem.reason == INTERRUPTED for problem in result.coverage.problems):
        return Exit.INTERRUPTED
    if gate_failed:
        return Exit.GATE_FAILED
    if result.verdict.status == "nothing-recognised":
        return Exit.NOTHING_RECOGNISED
    if strict and (incomplete(result) or missing_metrics(result)):
        return Exit.INCOMPLETE
    return Exit.OK
