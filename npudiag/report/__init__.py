"""Reports: renderings of a result document, which is all they know.

Built-in renderers are named here and imported when first called; others come
from the entry point group ``npudiag.renderers``.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple, Protocol, cast

from npudiag.result import Result

ENTRY_POINTS = "npudiag.renderers"


class Renderer(Protocol):
    """Turns a result into the text of a report."""

    def __call__(self, result: Result, *, lang: str) -> str:
        """Return the report in `lang` (``en`` or ``zh``)."""


class LazyRenderer(NamedTuple):
    """A renderer by the name of its function, imported when called."""

    target: str
    """``package.module:function``."""

    def load(self) -> Renderer:
        """Import the function."""
        module, _, name = self.target.partition(":")
        return cast(Renderer, getattr(import_module(module), name))

    def __call__(self, result: Result, *, lang: str) -> str:
        """Import the function and return its report."""
        return self.load()(result, lang=lang)


RENDERERS: dict[str, Renderer] = {
    "json": LazyRenderer("npudiag.report.json_doc:render"),
    "html": LazyRenderer("npudiag.report.html:render"),
    "terminal": LazyRenderer("npudiag.report.terminal:render_text"),
    "sarif": LazyRenderer("npudiag.report.sarif:render"),
    "junit": LazyRenderer("npudiag.report.junit:render"),
    "markdown": LazyRenderer("npudiag.report.markdown:render"),
    "gitlab": LazyRenderer("npudiag.report.gitlab:render"),
    "github": LazyRenderer("npudiag.report.github:render"),
}


def find_renderer(name: str) -> Renderer:
    """Return the renderer called `name`, built in or installed.

    Raises:
        KeyError: No renderer has this name.
    """
    if name in RENDERERS:
        return RENDERERS[name]
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINTS, name=name):
        return cast(Renderer, entry.load())
    raise KeyError(name)
