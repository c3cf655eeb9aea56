"""What broke a fuzz target once does not break it again, and each target takes some mutated input."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.mutate import mutated, seeds
from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize(
    "path", sorted(CORPUS.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}" if path else "none"
)
def test_what_broke_once(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_few_mutations(name: str) -> None:
    chance = random.Random(20260101)
    inputs = seeds(name)
    assert inputs
    for _ in range(12):
        TARGETS[name](mutated(chance, inputs))
