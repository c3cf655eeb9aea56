"""Parsers: one module per log or file family.

A parser is found by the entry point group ``npudiag.parsers``; the built-in ones are
listed here too, so that a checkout works without being installed.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module

from npudiag.parsers.base import Parser
from npudiag.plugins import registered

_BUILT_IN = {
    "slog": "npudiag.parsers.slog:SlogParser",
    "console": "npudiag.parsers.console:ConsoleParser",
    "profiler": "npudiag.parsers.profiler.parser:ProfilerParser",
    "launch-script": "npudiag.parsers.launch:LaunchScript",
    "config-yaml": "npudiag.parsers.launch:ConfigFile",
    "host-snapshot": "npudiag.parsers.snapshot:HostSnapshot",
    "bundle-manifest": "npudiag.parsers.snapshot:BundleManifest",
    "npudiag-output": "npudiag.parsers.own:OwnOutput",
    "triton-config": "npudiag.parsers.pbtxt:TritonConfig",
}

_FALLBACK = "console"
"""Takes any text, and looks at all of it to tell that it is one: asked where no other parser is sure."""
_SURE = 0.5

HEAD_BYTES = 256 << 10
"""How much of a stream the parsers see before one is chosen."""


def _load(target: str) -> Parser:
    module, _, name = target.partition(":")
    parser: Parser = getattr(import_module(module), name)()
    return parser


@lru_cache(maxsize=1)
def all_parsers() -> dict[str, Parser]:
    """Return every parser by name, foreign ones included; a foreign one that cannot be loaded is left out."""
    parsers = {name: _load(target) for name, target in _BUILT_IN.items()}
    for entry in registered("npudiag.parsers"):
        if entry.name in parsers:
            continue
        try:
            parsers[entry.name] = entry.load()()
        except Exception:
            continue
    return parsers


def choose(head: bytes, path: str) -> Parser | None:
    """Return the parser that is surest of a stream's first bytes, None where none claims it."""
    best: Parser | None = None
    surest = 0.0
    for parser in sorted(all_parsers().values(), key=lambda parser: parser.name == _FALLBACK):
        if parser.name == _FALLBACK and surest > _SURE:
            break
        score = parser.recognise(head, path)
        if score > surest:
            best, surest = parser, score
    return best
