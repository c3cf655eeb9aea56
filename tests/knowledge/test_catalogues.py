"""Every entry of the code catalogues is whole, in both languages, and known once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from npudiag.engine.model import Text
from npudiag.errors import RuleError
from npudiag.knowledge.catalogue import PARTS, Catalogue, codes_folder, shipped
from npudiag.knowledge.index import every_entry
from npudiag.knowledge.model import Entry
from npudiag.result import SEVERITIES, Trust

CHINESE = re.compile(r"[\u4e00-\u9fff]")
KNOWN = shipped()
ENTRIES = list(every_entry(KNOWN))
TABLES = sorted(path.stem for path in codes_folder().glob("*.tsv"))


def check_text(text: Text, where: str) -> None:
    for language, words in (("en", text.en), ("zh", text.zh)):
        assert words.strip() == words, f"{where} {language}: blanks at an end"
        assert words, f"{where}: no {language}"
        assert "  " not in words, f"{where} {language}: two blanks"
    assert CHINESE.search(text.zh), f"{where}: zh holds no Chinese"
    assert not CHINESE.search(text.en), f"{where}: en holds Chinese"


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_rectangular_and_rows_are_unique(table: str) -> None:
    rows = list(KNOWN.rows(table))
    assert rows
    keys = [
        (row.get("advice"), row["part"])
        if table == "advice"
        else tuple(row[name] for name in ("register", "bit", "sensor", "state", "node", "part", "key") if name in row)
        + tuple(row[name] for name in ("code", "number", "family", "id") if name in row)
        for row in rows
    ]
    assert not [key for key, count in Counter(keys).items() if count > 1]


def check_entry(entry: Entry) -> None:
    where = f"{entry.family} {entry.code}"
    check_text(entry.means, where)
    for detail in entry.details:
        check_text(detail, where)
    assert entry.means.en[-1] in ".;)", where
    assert entry.means.zh[-1] in "。）", where
    assert entry.severity in SEVERITIES, where
    assert entry.trust in get_args(Trust), where
    assert entry.advice in KNOWN.advice, where


@pytest.mark.parametrize("family", sorted({entry.family for entry in ENTRIES}))
def test_every_entry_is_whole(family: str) -> None:
    assert family in KNOWN.families
    for entry in ENTRIES:
        if entry.family == family:
            check_entry(entry)


def test_codes_are_unique_within_a_family() -> None:
    counted = Counter((entry.family, entry.code) for entry in ENTRIES)
    assert not [key for key, count in counted.items() if count > 1]


def test_every_advice_is_whole_and_used() -> None:
    used = {entry.advice for entry in ENTRIES} | {family.advice for family in KNOWN.families.values()}
    used |= {row["advice"] for row in KNOWN.event_states.values()} | {row["advice"] for row in KNOWN.aicore.values()}
    used |= {row["advice"] for row in KNOWN.mindie_parts["kind"].values()}
    for name, advice in KNOWN.advice.items():
        for part in PARTS:
            check_text(getattr(advice, part), f"advice {name} {part}")
    assert set(KNOWN.advice) == used


def test_every_family_is_whole() -> None:
    for family in KNOWN.families.values():
        assert family.title.en
        assert family.title.zh
        check_text(family.means, family.id)
        assert family.severity in SEVERITIES
        assert family.advice in KNOWN.advice


def test_return_codes_reach_from_the_caller_to_the_device() -> None:
    families = {entry.family for entry in KNOWN.acl.values()}
    assert {
        "acl-100",
        "acl-107",
        "acl-161",
        "acl-200",
        "acl-207",
        "acl-361",
        "acl-500",
        "acl-507",
        "acl-561",
    } <= families
    assert {str(code) for code in range(507000, 507058)} <= set(KNOWN.acl)
    assert all(entry.symbol for entry in KNOWN.acl.values() if entry.family not in ("acl-106", "acl-206", "acl-506"))


def test_all_bits_of_two_registers_and_all_known_ones_of_the_third_are_there() -> None:
    bits = Counter(register for register, _ in KNOWN.aicore)
    assert bits == {1: 64, 2: 64, 3: 48}


def test_a_broken_table_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "hccl.tsv").write_text("code\tseverity\tadvice\ten\tzh\n1\terror\n")
    with pytest.raises(RuleError, match=r"hccl\.tsv:2:0: 2 cells"):
        _ = Catalogue(tmp_path).hccl
    with pytest.raises(RuleError, match="cannot read this catalogue"):
        _ = Catalogue(tmp_path).acl
