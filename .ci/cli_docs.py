"""Writes docs/cli.md, the reference of the command line, from the application itself.

Usage: python .ci/cli_docs.py [--check]
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
_HEAD = """\
# Command line

What `--help` says, for every command. This page is made by `python .ci/cli_docs.py`; a test fails where it is not
current. Exit codes are explained in the [README](../README.md#exit-codes), the configuration file as well.
"""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command below `command` with the words that lead to it, groups before their members."""
    yield path, command
    for name in sorted(getattr(command, "commands", {})):
        child = command.commands[name]
        if not child.hidden:
            yield from commands(child, (*path, name))


def page() -> str:
    """Return the page."""
    # Typer reads them when it is imported: colours and the terminal's width would get into the page.
    os.environ.update(NO_COLOR="1", TERM="dumb", COLUMNS="110", TERMINAL_WIDTH="110")
    from typer.main import get_command
    from typer.testing import CliRunner

    from npudiag.cli.app import app

    parts = [_HEAD]
    for path, _ in commands(get_command(app)):
        outcome = CliRunner().invoke(app, [*path, "--help"], prog_name="npudiag", terminal_width=110)
        if outcome.exit_code:
            raise RuntimeError(f"{' '.join(path)} --help ends with {outcome.exit_code}: {outcome.output}")
        text = re.sub(r"[ \t]+$", "", outcome.output, flags=re.MULTILINE).strip()
        parts.append(f"## {' '.join(('npudiag', *path))}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def main() -> int:
    """Write the page; with ``--check`` only say whether it is current."""
    text = page()
    if "--check" in sys.argv[1:]:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        print("docs/cli.md is current" if current else "docs/cli.md is old: run python .ci/cli_docs.py")
        return 0 if current else 1
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
