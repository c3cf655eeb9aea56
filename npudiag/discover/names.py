"""Names of files and archive members as text that can be shown and stored."""

from __future__ import annotations

import os
import re

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

VCS_FOLDERS = frozenset({".git", ".hg", ".svn", ".bzr", "CVS"})
"""Folders that hold a project's history, never a job's output."""

_ARCHIVE_ENDING = re.compile(r"(?i)(?:\.tar)?\.(?:gz|zst|bz2|xz|tgz|tzst|tbz2?|txz|tar|zip)$")


def display(raw: bytes) -> str:
    """Return a name as text: UTF-8, else GB18030 (archives made on Chinese Windows), else with replacements.

    Control characters, which could steer a terminal or turn text around, become U+FFFD.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        try:
            text = raw.decode("gb18030")
        except UnicodeDecodeError:
            text = raw.decode("utf-8", "replace")
    return _CONTROL.sub("\ufffd", text)


def display_path(path: str) -> str:
    """Return a path given by the operating system as POSIX text that can be shown and stored."""
    if path.isascii() and path.isprintable():
        return path.replace(os.sep, "/")
    return display(os.fsencode(path)).replace(os.sep, "/")


def member_path(name: str) -> str | None:
    """Return the path of an archive member in tidy form, empty for the root, None where it leads outside."""
    name = name.replace("\\", "/")
    if name.startswith("/") or (len(name) > 1 and name[1] == ":" and name[0].isalpha()):
        return None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if ".." in parts else "/".join(parts)


def without_archive_ending(name: str) -> str:
    """Return ``bundle`` for ``bundle.tar.gz``; other names as they are."""
    return _ARCHIVE_ENDING.sub("", name)


def walk_order(path: str) -> list[tuple[bool, str]]:
    """Return what sorts paths as a walk meets them: the files of a folder ahead of its subfolders."""
    *folders, name = path.split("/")
    return [*((True, folder) for folder in folders), (False, name)]
