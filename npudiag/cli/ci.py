"""What the pipeline a command runs in gets without being asked: annotations and a step summary on GitHub."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from npudiag.result import Result

_SUMMARY_BYTES = 1 << 20
"""A step summary that is larger is dropped as a whole."""


def on_github() -> bool:
    """Whether this is a step of a GitHub workflow."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


@contextlib.contextmanager
def harmless(stream: TextIO) -> Iterator[None]:
    """Keep the runner from obeying workflow commands in what is printed inside: log text may hold some."""
    if not on_github():
        yield
        return
    token = secrets.token_hex(16)
    stream.write(f"::stop-commands::{token}\n")
    try:
        yield
    finally:
        stream.write(f"::{token}::\n")
        stream.flush()


def report(result: Result, lang: str, *, stdout_taken: bool) -> None:
    """Write annotations and the step summary where the environment says that somebody reads them."""
    if on_github():
        from npudiag.report import github

        # The runner reads both streams.
        stream = sys.stderr if stdout_taken else sys.stdout
        stream.write(github.render(result, lang=lang))
        stream.flush()
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        _summarise(result, lang, Path(summary))


def _summarise(result: Result, lang: str, path: Path) -> None:
    from npudiag.report import markdown

    try:
        taken = path.stat().st_size if path.exists() else 0
        room = min(markdown.BUDGET, _SUMMARY_BYTES - taken - (_SUMMARY_BYTES - markdown.BUDGET))
        text = markdown.render(result, lang=lang, budget=max(0, room))
        with path.open("ab") as file:
            file.write(b"\n" * bool(taken) + text.encode("utf-8", "replace"))
    except OSError as exc:
        # The verdict must not depend on a summary.
        print(f"npudiag: note: cannot write the step summary: {exc.strerror or exc}", file=sys.stderr)
