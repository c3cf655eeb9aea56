"""Every table, declared once.

The declaration is what documents the table, what rules may ask for, and what makes the
columns of the DataFrame: a column that is not declared here does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Dtype = Literal["str", "int", "float", "bool", "time"]

PANDAS_DTYPE: dict[Dtype, str] = {
    "str": "string",
    "int": "Int64",
    "float": "Float64",
    "bool": "boolean",
    "time": "datetime64[us]",
}
"""Dtype in the public DataFrame; all but ``datetime64`` are nullable extension types."""

SQL_TYPE: dict[Dtype, str] = {
    "str": "VARCHAR",
    "int": "BIGINT",
    "float": "DOUBLE",
    "bool": "BOOLEAN",
    "time": "TIMESTAMP",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: Column name.
        dtype: Kind of value.
        doc: What it means.
        unit: Unit of the value, empty where it has none.
    """

    name: str
    dtype: Dtype
    doc: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """One table."""

    name: str
    doc: str
    filled_by: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)


_FILE = Column("file", "str", "Input the row comes from, relative to the argument's parent folder")
_LINE = Column("line", "int", "Physical line in that file, from 1")

_ALL = (
    Table(
        "files",
        "Every input that was looked at.",
        "ingest",
        (
            _FILE,
            Column("kind", "str", "Parser that read it; unknown or skipped otherwise"),
            Column("node", "str", "Collector folder of the node, e.g. worker-1, else host name"),
            Column("rank", "int", "Global rank of the process it belongs to"),
            Column("device", "int", "NPU it belongs to: physical id where known, else logical"),
            Column("pid", "int", "Process it belongs to"),
            Column("role", "str", "debug, run, security, device-os, event, ..."),
            Column("lines", "int", "Physical lines", "lines"),
            Column("bytes", "int", "Size after decompression", "bytes"),
            Column("unparsed", "int", "Lines that belong to no record", "lines"),
            Column("truncated", "bool", "Whether it could not be read to its end"),
            Column("encoding", "str", "Text encoding"),
            Column("note", "str", "Why it was not (fully) read or recognised"),
            Column("first_time", "time", "Earliest time stamp, clock of the log"),
            Column("last_time", "time", "Latest time stamp, clock of the log"),
        ),
    ),
    Table(
        "log_counts",
        "How many records there are per file, level, module and minute: every record is counted.",
        "slog, console",
        (
            _FILE,
            Column("level", "str", "DEBUG, INFO, EVENT, WARNING, ERROR, ...; null where the record has none"),
            Column("module", "str", "HCCL, RUNTIME, ...; null where the record has none"),
            Column("minute", "time", "Start of the minute, clock of the log; null where there is no time"),
            Column("count", "int", "Records", "records"),
        ),
    ),
    Table(
        "log",
        "The records worth keeping: warnings and worse, and what any rule asks for. Messages that differ in their "
        "numbers only are kept a few times; `count` says how many there were.",
        "slog, console",
        (
            _FILE,
            _LINE,
            Column("time", "time", "Time stamp, clock of the log"),
            Column("level", "str", "DEBUG, INFO, EVENT, WARNING, ERROR, CRITICAL, ..."),
            Column("module", "str", "Module that wrote it: HCCL, RUNTIME, GE, ..."),
            Column("pid", "int", "Process"),
            Column("tid", "int", "Thread"),
            Column("process", "str", "Process name"),
            Column("worker", "str", "Launcher's name for the process, e.g. Worker_TP0"),
            Column("rank", "int", "Global rank"),
            Column("device", "int", "NPU: physical id where known, else logical"),
            Column("node", "str", "Node"),
            Column("source", "str", "Source file and line that wrote it"),
            Column("code", "str", "First error code in it"),
            Column("text", "str", "The record, launcher prefixes removed"),
            Column("group", "int", "Number of the message in `log_groups`"),
            Column("count", "int", "Records of this message in this file", "records"),
        ),
    ),
    Table(
        "log_groups",
        "The distinct messages of each file, numbers masked.",
        "slog, console",
        (
            _FILE,
            Column("group", "int", "Number of the message within its file"),
            Column("level", "str", "Level"),
            Column("module", "str", "Module"),
            Column("text", "str", "The message with every number replaced by #"),
            Column("count", "int", "Records", "records"),
            Column("kept", "int", "How many of them stand in `log`", "records"),
            Column("first_line", "int", "Line of the first one kept"),
            Column("last_line", "int", "Line of the last one"),
        ),
    ),
    Table(
        "processes",
        "Who is who: the ranks and devices of the processes that logged, as the logs tell.",
        "analyses.topology",
        (
            Column("node", "str", "Node"),
            Column("pid", "int", "Process"),
            Column("rank", "int", "Rank in the communicator that names it (the world group where there are several)"),
            Column("ranks", "int", "Size of that communicator", "ranks"),
            Column("logic_device", "int", "Device id inside the process"),
            Column("device", "int", "Physical device id"),
            Column("device_ip", "str", "Address of the device's own network port"),
            Column("server", "str", "Address of the host"),
            Column("communicator", "str", "Identifier of the communicator"),
            _FILE,
            _LINE,
        ),
    ),
)

TABLES: dict[str, Table] = {table.name: table for table in _ALL}
"""All tables by name."""
