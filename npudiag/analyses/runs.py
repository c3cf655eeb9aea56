"""Tells the starts of a job apart that were appended to one log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npudiag.tables.store import Store


def number(store: Store) -> None:
    """Set column ``run`` of ``train_steps`` where no parser or test did.

    A run ends where the step of the same process and kind of line goes back: a job that starts again resumes at
    its last checkpoint, which lies behind.
    """
    columns = store.columns("train_steps")
    if not columns.size or columns.has("run"):
        return
    import numpy as np

    steps = columns.numbers("step")
    if columns.size == 1 or not columns.has("step"):
        columns.put("run", [0] * columns.size)
        return
    stream = np.zeros(columns.size, dtype=np.int64)
    for name in ("file", "worker", "framework"):
        codes = columns.codes(name)
        stream = stream * (int(codes.max()) + 2) + codes + 1
    runs = np.zeros(columns.size, dtype=np.int64)
    for key in np.unique(stream):
        rows = np.flatnonzero(stream == key)
        back = np.zeros(rows.size, dtype=bool)
        back[1:] = steps[rows][1:] < steps[rows][:-1]
        runs[rows] = np.cumsum(back)
    columns.put("run", runs.tolist())
