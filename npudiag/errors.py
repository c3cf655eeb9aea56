"""Typed errors. Each carries the exit code the command line ends with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of the command line."""

    OK = 0
    GATE_FAILED = 1
    USAGE = 2
    NOTHING_RECOGNISED = 3
    INTERNAL = 4
    INCOMPLETE = 4
    INTERRUPTED = 130


class NpudiagError(Exception):
    """Base of all errors raised on purpose.

    Attributes:
        exit_code: What the process exits with when nobody handles the error.
        hint: One sentence on what to do, or an empty string.
    """

    exit_code: Exit = Exit.INTERNAL

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(NpudiagError):
    """The command line asks for something that cannot be done."""

    exit_code = Exit.USAGE


class ConfigError(NpudiagError):
    """A configuration file is wrong."""

    exit_code = Exit.USAGE


class NothingRecognisedError(NpudiagError):
    """No input was of a kind npudiag knows."""

    exit_code = Exit.NOTHING_RECOGNISED


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault in a rule or configuration file.

    Attributes:
        path: File as the user named it.
        line: 1-based line, 0 when unknown.
        column: 1-based column, 0 when unknown.
        message: What was found, and what is allowed.
    """

    path: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.message}"


class RuleError(NpudiagError):
    """One or more rule files are wrong; holds every fault at once."""

    exit_code = Exit.USAGE

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        lines = "\n".join(str(fault) for fault in self.faults)
        super().__init__(f"{len(self.faults)} fault(s) in rule files\n{lines}")


class QueryError(NpudiagError):
    """A SQL statement was refused or failed."""

    exit_code = Exit.USAGE


class SourceError(NpudiagError):
    """An input could not be read to its end; the rest is analysed all the same.

    Attributes:
        reason: Short kebab-case name of what happened: ``unreadable``,
            ``truncated``, ``corrupt``, ``bomb``, ``vanished``, ``unsupported``,
            ``escape`` (an archive member points outside the archive).
    """

    exit_code = Exit.INCOMPLETE

    def __init__(self, message: str, *, reason: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
