"""The pages made from catalogues and rules: ``codes.md`` and ``coverage.md``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from npudiag.knowledge import coverage, index

if TYPE_CHECKING:
    from npudiag.engine.load import RulePack


def made(pack: RulePack) -> dict[str, str]:
    """Return file name to content of both pages.

    Args:
        pack: Rules loaded with their tests; the same rules and catalogues give the same pages.
    """
    return {"codes.md": index.page(), "coverage.md": coverage.page(coverage.coverage(pack))}


def outdated(found: dict[str, str], out: Path) -> list[Path]:
    """Return the files in `out` that are missing or differ from fresh pages."""
    return [
        out / name
        for name, text in sorted(found.items())
        if not (out / name).is_file() or (out / name).read_bytes() != text.encode()
    ]
