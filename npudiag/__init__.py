"""npudiag: finds the root cause in what an Ascend NPU job leaves behind.

Importing the package loads nothing heavy; `load` and `compare` are fetched when first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npudiag._version import __version__

if TYPE_CHECKING:
    from npudiag.api import compare, load

__all__ = ["__version__", "compare", "load"]


def __getattr__(name: str) -> Any:
    if name in ("compare", "load"):
        from npudiag import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
