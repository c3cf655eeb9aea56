"""Which releases of torch, torch_npu, CANN, vLLM and MindSpeed-LLM belong together."""

from __future__ import annotations

import re
from functools import lru_cache

from npudiag.advice.registry import DATA

_RC = re.compile(r"rc(\d+)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


@lru_cache(maxsize=1)
def _table() -> dict[tuple[str, str], dict[str, tuple[str, ...]]]:
    found: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
    for line in (DATA / "compatibility.tsv").read_text(encoding="utf-8").split("\n"):
        if line and not line.startswith("#"):
            package, release, needs, allowed = line.split("\t")
            found.setdefault((package, release), {})[needs] = tuple(allowed.split())
    return found


def public(version: str) -> str:
    """Return a version without what a build adds: ``2.7.1.post2+git4c901a4`` is ``2.7.1.post2``."""
    return version.partition("+")[0].strip().lower()


def base(version: str) -> str:
    """Return the release a version belongs to: ``2.7.1.post2`` belongs to ``2.7.1``."""
    return re.split(r"\.?(?:post|dev|rc|a|b)\d*", public(version), maxsplit=1)[0]


def needs(package: str, version: str, of: str) -> tuple[str, ...]:
    """Return the releases of `of` that fit a release of `package`; empty where that is not known."""
    release = public(version)
    for (name, known), requirements in _table().items():
        if name == package and known.lower() == release:
            return requirements.get(of, ())
    return ()


def order(version: str) -> tuple[int, ...]:
    """Return what versions of CANN sort by: ``8.3.RC1`` comes ahead of ``8.3.0``, that ahead of ``8.3.1``."""
    text = version.lower().removeprefix("cann-")
    numbers = [int(number) for number in _NUMBER.findall(text)[:4]]
    major, minor, *rest = (*numbers, 0, 0)[: max(3, len(numbers))]
    candidate = _RC.search(text)
    return (major, minor, 0 if candidate else 1, int(candidate[1]) if candidate else rest[0])


def fits(found: str, allowed: tuple[str, ...], of: str) -> bool:
    """Whether a version of `of` is one of `allowed`; builds and hot fixes of the same release are."""
    if of == "cann":
        return any(order(found) == order(one) for one in allowed)
    if of == "python":
        return ".".join(found.split(".")[:2]) in allowed
    if of == "torch":
        return base(found) in {base(one) for one in allowed}
    return public(found) in {public(one) for one in allowed}
