"""The Python interface: load what a job left behind, get tables and findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Union

from npudiag.analyze import Options, analyze
from npudiag.result import Finding, Result
from npudiag.tables.store import Store

if TYPE_CHECKING:
    import pandas as pd

    from npudiag.comparison.model import Comparison
    from npudiag.engine.load import RulePack


class Job:
    """An analysed job.

    Attributes:
        result: The result document.
    """

    def __init__(self, result: Result, store: Store, paths: Sequence[str] = ()) -> None:
        self.result = result
        self._store = store
        self._paths = tuple(paths)

    @property
    def findings(self) -> list[Finding]:
        """All findings; the first is the root cause."""
        return self.result.findings

    def table(self, name: str) -> pd.DataFrame:
        """Return a table, e.g. ``log``, ``log_counts``, ``files``; see `npudiag.tables.schema.TABLES`.

        Raises:
            UsageError: There is no such table.
        """
        return self._store.table(name)

    def query(self, sql: str, parameters: dict[str, Any] | None = None) -> pd.DataFrame:
        """Run one SELECT over the tables.

        Raises:
            QueryError: The text is not a single SELECT, or it failed.
        """
        return self._store.query(sql, parameters)

    sql = query

    def analyze(self, *, rules: RulePack | None = None, params: Mapping[str, Mapping[str, Any]] | None = None) -> Job:
        """Read the same inputs again and judge them by other rules or parameters; see `load`.

        Raises:
            UsageError: An input is gone.
        """
        return load(self._paths, rules=rules, params=params)

    def compare(self, other: Run) -> Comparison:
        """Say what differs between this job and `other`, which is judged; see `npudiag.compare`."""
        return compare(self, other)


Run = Union[str, "PathLike[str]", "Sequence[str | PathLike[str]]", Job, Result]
"""What can be compared: a path or several, an analysed job, a result document."""


def load(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    rules: RulePack | None = None,
    params: Mapping[str, Mapping[str, Any]] | None = None,
    workers: int | None = None,
    memory_mb: int | None = None,
) -> Job:
    """Read and analyse files, folders or archives.

    Args:
        paths: One path or several.
        rules: Rules to use; the shipped pack by default.
        params: Parameters by rule name that replace the rule's own.
        workers: Processes; decided by the machine by default.
        memory_mb: Memory of the process tree in MiB; decided by the machine by default.

    Raises:
        UsageError: A path does not exist.
        RuleError: A rule file is wrong.
    """
    from npudiag.engine.load import load_pack

    listed = [fspath(paths)] if isinstance(paths, (str, PathLike)) else [fspath(path) for path in paths]
    options = Options(params=params or {}, workers=workers, memory_mb=memory_mb)
    return Job(*analyze(listed, rules or load_pack(), options), listed)


def compare(
    a: Run,
    b: Run,
    *,
    rules: RulePack | None = None,
    workers: int | None = None,
    memory_mb: int | None = None,
) -> Comparison:
    """Say what differs between two runs, what it costs, and what explains it.

    Args:
        a: The run to compare with: a path or several, what `load` returned, or a result document.
        b: The run that is judged, likewise.
        rules: Rules to use; the shipped pack by default.
        workers: Processes; decided by the machine by default.
        memory_mb: Memory of the process tree in MiB; decided by the machine by default.

    Raises:
        UsageError: A path does not exist.
        RuleError: A rule file is wrong.
    """
    from npudiag.comparison.run import compare as compare_runs

    sides = [(run.result, run._store) if isinstance(run, Job) else run for run in (a, b)]
    options = Options(workers=workers, memory_mb=memory_mb)
    return compare_runs(sides[0], sides[1], pack=rules, options=options)
