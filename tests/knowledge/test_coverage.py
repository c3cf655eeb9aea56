"""The pages about codes and known faults are current, and no known fault is left open."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from npudiag.engine.load import RulePack, load_pack
from npudiag.knowledge.catalogue import shipped
from npudiag.knowledge.coverage import Covered, coverage, signatures
from npudiag.knowledge.pages import made, outdated

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def pack() -> RulePack:
    return load_pack(with_tests=True)


@pytest.fixture(scope="module")
def rows(pack: RulePack) -> list[Covered]:
    return coverage(pack)


def test_pages_are_current(pack: RulePack) -> None:
    assert not outdated(made(pack), DOCS), "run: npudiag rules coverage"


def test_the_table_of_signatures_is_whole() -> None:
    listed = signatures(shipped())
    assert len(listed) == 1050
    assert len({one.id for one in listed}) == 1050
    assert all(key for one in listed for keys in one.keys for key in keys)


def test_every_signature_is_covered_or_has_a_reason(rows: list[Covered]) -> None:
    assert [row.known.id for row in rows if row.how == "open"] == []
    counted = Counter(row.how for row in rows)
    assert counted["rule"] + counted["narrowed"] >= 950
    assert counted["reason"] <= 60


def test_a_rule_named_in_a_reason_exists(pack: RulePack) -> None:
    for reason in shipped().rows("signatures_reasons"):
        for code in re.findall(r"\b[A-Z]{3}\d{3}\b", reason["reason"]):
            assert code in pack.by_code, f"{reason['id']} names {code}"
