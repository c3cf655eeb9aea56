"""Plug-ins of other packages: rules, parsers and renderers that they register as entry points."""

from __future__ import annotations

from functools import lru_cache
from importlib import metadata
from typing import Any


@lru_cache(maxsize=1)
def _all() -> Any:
    # Each look reads the metadata of every installed package, so one has to do for all groups. What it returns has
    # `select` in every supported Python, but is of another type before 3.12.
    return metadata.entry_points()


def registered(group: str) -> list[metadata.EntryPoint]:
    """Return what other packages register in a group, by name."""
    return sorted(_all().select(group=group), key=lambda entry: (entry.name, entry.value))
