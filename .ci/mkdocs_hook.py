"""Takes the pages at the top of the repository into the site, and turns links out of it into plain words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": "index.md", "DESIGN_NOTE.md": "design-note.md", "CHANGELOG.md": "changelog.md"}
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of `PAGES`."""
    for source, target in PAGES.items():
        files.append(File.generated(config, target, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links at the pages of the site."""
    here = page.file.src_uri
    source = next((name for name, target in PAGES.items() if target == here), None)
    folder = ROOT if source else (Path(config.docs_dir) / here).parent

    def turned(match: re.Match[str]) -> str:
        words, path, anchor = match.group(1), match.group(2), match.group(3) or ""
        target = (folder / path).resolve()
        if not target.exists():
            return match.group(0)  # the build will say that it leads nowhere
        name = target.relative_to(ROOT).as_posix()
        inside = PAGES.get(name) or name.removeprefix("docs/")
        if name not in PAGES and (not name.startswith("docs/") or target.suffix != ".md"):
            return words if words.startswith("`") else f"{words} (`{name}`)"
        up = "../" * here.count("/")
        return f"[{words}]({up}{inside}{anchor})"

    return _LINK.sub(turned, markdown)
