"""Parsers: one module per log or file family.

A parser is found by the entry point group ``npudiag.parsers``; the built-in ones are
listed here too, so that a checkout works without being installed.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module

from npudiag.parsers.base import Parser
from npudiag.plugins import registered
from npudiag.result import Problem

_BUILT_IN = {
    "slog": "npudiag.parsers.slog:SlogParser",
    "console": "npudiag.parsers.console:ConsoleParser",
    "profiler": "npudiag.parsers.profiler.parser:ProfilerParser",
    "launch-script": "npudiag.parsers.launch:LaunchScript",
    "rank-table": "npudiag.parsers.ranktable:RankTable",
    "config-yaml": "npudiag.parsers.launch:ConfigFile",
    "host-snapshot": "npudiag.parsers.snapshot:HostSnapshot",
    "bundle-manifest": "npudiag.parsers.snapshot:BundleManifest",
    "npudiag-output": "npudiag.parsers.own:OwnOutput",
    "triton-config": "npudiag.parsers.pbtxt:TritonConfig",
}

_FALLBACK = "console"
"""Takes any text, and looks at all of it to tell that it is one: asked where no other parser is sure."""
_SURE = 0.5

_ONLY_WITH = {"slog": re.compile(rb"^\[(?:[A-Z]+|\d+)\] [A-Z0-9_]+\(-?\d+[:,]", re.MULTILINE)}
"""What must stand in the first bytes for a parser that takes long to load (that of slog files brings NumPy)."""

HEAD_BYTES = 256 << 10
"""How much of a stream the parsers see before one is chosen."""


def _load(target: str) -> Parser:
    module, _, name = target.partition(":")
    parser: Parser = getattr(import_module(module), name)()
    return parser


@cache
def _built_in(name: str) -> Parser:
    return _load(_BUILT_IN[name])


@cache
def _foreign() -> tuple[dict[str, Parser], list[Problem]]:
    """Return the parsers of other packages by name, and why others could not be loaded."""
    parsers: dict[str, Parser] = {}
    problems: list[Problem] = []
    for entry in registered("npudiag.parsers"):
        if entry.name in _BUILT_IN or entry.name in parsers:
            continue
        try:
            parsers[entry.name] = entry.load()()
        except Exception as exc:  # whatever a package does, the logs can be read without it
            message = (
                f"parser plug-in {entry.name!r} ({entry.value}) cannot be loaded: {type(exc).__name__}: {exc}; "
                "what it reads is read as text: mend or uninstall its package"
            )
            problems.append(Problem(path=entry.value, reason="unsupported", message=message[:500]))
    return parsers, problems


def unloadable() -> list[Problem]:
    """Return what is wrong with parsers of other packages that cannot be loaded."""
    return list(_foreign()[1])


def all_parsers() -> dict[str, Parser]:
    """Return every parser by name, foreign ones included."""
    return {**{name: _built_in(name) for name in _BUILT_IN}, **_foreign()[0]}


def parser_named(name: str) -> Parser:
    """Return the parser called `name`."""
    return _built_in(name) if name in _BUILT_IN else _foreign()[0][name]


def choose(head: bytes, path: str) -> Parser | None:
    """Return the parser that is surest of a stream's first bytes, None where none claims it."""
    best: Parser | None = None
    surest = 0.0
    for name in (*(name for name in _BUILT_IN if name != _FALLBACK), *_foreign()[0], _FALLBACK):
        if name == _FALLBACK and surest > _SURE:
            break
        if name in _ONLY_WITH and not _ONLY_WITH[name].search(head):
            continue
        parser = parser_named(name)
        score = parser.recognise(head, path)
        if score > surest:
            best, surest = parser, score
    return best
