"""How long a job of Megatron or MindSpeed-LLM takes until its first step, and what takes the time.

The phases are those whose end Megatron stamps (``[after dataloaders are built] datetime: ...``). The first step itself,
in which graphs are compiled, is no part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from npudiag.analyses.series import Floats
    from npudiag.tables.store import Store

LONGEST_S = 30 * 86_400
"""A phase that seems to take longer is a clock that was set."""

Part = Literal["load", "build", "data"]


@dataclass(frozen=True, slots=True)
class StartUp:
    """One start of a job.

    Attributes:
        file: Where it stands.
        begin: Line of the first stamp.
        line: Line at which the longest part ended.
        time_us: When that was.
        seconds: From the first stamp to the start of training.
        part: What took longest: loading a checkpoint while the model was built, building it, building the data sets.
        part_s: How long that took.
    """

    file: str
    begin: int
    line: int
    time_us: int
    seconds: float
    part: Part
    part_s: float


def starts(store: Store) -> list[StartUp]:
    """Return every start whose phases are stamped."""
    columns = store.columns("train_events")
    kinds = list(columns.texts("kind"))
    if "phase" not in kinds:
        return []
    codes, files = columns.codes("kind"), columns.codes("file")
    lines = columns.numbers("line")
    rows = np.flatnonzero(codes == kinds.index("phase"))
    loads = codes == kinds.index("load") if "load" in kinds else np.zeros(codes.size, dtype=bool)
    found: list[StartUp] = []
    for code in np.unique(files[rows]):
        name = columns.texts("file")[code] if code >= 0 else ""
        loaded = lines[loads & (files == code)]
        held: list[tuple[str, int, int]] = []
        for row in rows[files[rows] == code]:
            what, time = columns.value("name", int(row)) or "", columns.value("time", int(row))
            if time is None:
                continue
            if "initialized" in what or (held and time < held[-1][2]):
                held = []
            held.append((what, int(lines[row]), int(time)))
            if what.startswith("before the start"):
                found.extend(_start(name, held, loaded))
                held = []
    return found


def _start(file: str, held: list[tuple[str, int, int]], loaded: Floats) -> list[StartUp]:
    parts: list[tuple[float, Part, int, int]] = []
    for (_, above, before), (what, line, time) in pairwise(held):
        if not 0 <= time - before < LONGEST_S * 1_000_000:
            return []
        part: Part = "data"
        if "built" in what and "model" in what:
            part = "load" if np.any((loaded > above) & (loaded < line)) else "build"
        parts.append(((time - before) / 1e6, part, line, time))
    if not parts:
        return []
    longest = max(parts)
    whole = (held[-1][2] - held[0][2]) / 1e6
    return [StartUp(file, held[0][1], longest[2], longest[3], whole, longest[1], longest[0])]
