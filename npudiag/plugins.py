"""Plug-ins of other packages: rules, parsers and renderers that they register as entry points."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_KINDS = (".dist-info", ".egg-info")


@lru_cache(maxsize=1)
def _all() -> Any:
    # Each look reads the metadata of every installed package, so one has to do for all groups. What it returns has
    # `select` in every supported Python, but is of another type before 3.12.
    from importlib.metadata import entry_points

    return entry_points()


def registered(group: str) -> list[EntryPoint]:
    """Return what other packages register in a group, by name."""
    if not _mentioned(group, tuple(sys.path)):
        return []
    return sorted(_all().select(group=group), key=lambda entry: (entry.name, entry.value))


@lru_cache(maxsize=8)
def _mentioned(group: str, folders: tuple[str, ...]) -> bool:
    """Whether an installed package may register something in `group`.

    Nearly always none does, and to load the library that reads entry points takes longer than to look into their
    files for the name. Where packages may also lie elsewhere than in plain folders, the answer is yes.
    """
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True
    wanted = f"[{group}]".encode()
    for folder in folders:
        try:
            with os.scandir(folder or ".") as entries:
                packages = [entry.path for entry in entries if entry.name.endswith((*_KINDS, ".egg"))]
        except NotADirectoryError:
            return True
        except OSError:
            continue
        for package in packages:
            if package.endswith(".egg"):
                return True
            try:
                with open(f"{package}/entry_points.txt", "rb") as file:  # noqa: PTH123  (hundreds of them)
                    if wanted in file.read():
                        return True
            except OSError:
                continue
    return False
