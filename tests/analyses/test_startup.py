"""How long a start takes, and what takes the time."""

from __future__ import annotations

from npudiag.analyses.startup import StartUp, starts
from npudiag.tables.store import Store

INITIALISED = "after megatron is initialized"
BUILT = "after model, optimizer, and learning rate scheduler are built"
DATA = "after dataloaders are built"
BEGIN = "before the start of training step"


def store_of(*events: tuple[str, int | None]) -> Store:
    """Return a store with phases and their seconds; a name without time is another kind of event."""
    store = Store()
    for line, (name, seconds) in enumerate(events, 1):
        phase = {"kind": "phase", "name": name, "time": seconds * 1_000_000} if seconds is not None else {"kind": name}
        store.extend("train_events", [{"file": "a.log", "line": line, **phase}])
    return store


def found(*events: tuple[str, int | None]) -> list[StartUp]:
    return starts(store_of(*events))


def test_the_longest_part_is_named() -> None:
    one = found((INITIALISED, 100), ("load", None), (BUILT, 1100), (DATA, 1400), (BEGIN, 1410))[0]
    assert (one.part, one.part_s, one.seconds, one.line, one.begin) == ("load", 1000.0, 1310.0, 3, 1)
    assert found((INITIALISED, 100), (BUILT, 1100), (DATA, 1400), (BEGIN, 1410))[0].part == "build"
    assert found((INITIALISED, 100), ("load", None), (BUILT, 200), (DATA, 1400), (BEGIN, 1410))[0].part == "data"


def test_each_start_is_one() -> None:
    first = ((INITIALISED, 100), (BUILT, 200), (BEGIN, 300))
    again = ((INITIALISED, 90_000), ("load", None), (BUILT, 90_500), (BEGIN, 90_600))
    assert [one.seconds for one in found(*first, ("after training is done", 80_000), *again)] == [200.0, 600.0]
    # One that never got to training is none.
    assert [one.seconds for one in found(*first[:2], *again)] == [600.0]


def test_clocks_that_jump_are_not_believed() -> None:
    assert found((INITIALISED, 100), (BUILT, 100 + 90 * 86_400), (BEGIN, 300 + 90 * 86_400)) == []
    assert [one.seconds for one in found((INITIALISED, 500), (BUILT, 100), (BEGIN, 300))] == [200.0]
    assert found((BEGIN, 300)) == []
    assert found(("load", None)) == []
