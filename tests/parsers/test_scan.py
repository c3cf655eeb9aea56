"""Both scanners report every literal at every place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudiag.parsers.scan import Literals, Scanner, _ReScanner


def plain(literals: Literals, data: bytes) -> set[tuple[int, int]]:
    found = set()
    for number, (text, nocase) in enumerate(zip(literals.encoded, literals.nocase, strict=True)):
        hay, needle = (data.lower(), text.lower()) if nocase else (data, text)
        at = hay.find(needle)
        while at >= 0:
            ahead = "" if hay[max(at - 2, 0) : at].lower() == b"0x" else hay[max(at - 1, 0) : at].decode("latin-1")
            behind = hay[at + len(needle) : at + len(needle) + 1].decode("latin-1")
            if not needle.isdigit() or re.search(r"\w", ahead + behind, re.ASCII) is None:
                found.add((number, at + len(needle)))
            at = hay.find(needle, at + 1)
    return found


CASES = Literals(
    ("abc", "ab", "bca", "cab", "AB", "a.c", "abab", "00", "001"),
    (False, False, False, False, True, False, False, False, False),
)


@given(st.text("abcAB.01x é", max_size=60))
def test_both_back_ends_agree_with_a_plain_search(text: str) -> None:
    data = text.encode()
    expected = plain(CASES, data)
    assert set(_ReScanner(CASES).scan(data)) == expected
    ids, ends = Scanner(CASES).scan(data)
    assert set(zip(ids, ends, strict=True)) == expected
    assert ends == sorted(ends)


def test_text_beyond_ascii_is_found() -> None:
    scanner = Scanner(Literals(("内存不足",), (False,)))
    data = "设备内存不足".encode()
    assert scanner.scan(data) == ([0], [len(data)])


def test_a_code_does_not_stand_in_a_longer_number() -> None:
    literals = Literals(("507015",), (False,))
    data = b"[1507015] 5070150 507015_x y507015 code=0x507015, 507015"
    for scanner in (Scanner(literals), _ReScanner(literals)):
        found = scanner.scan(data)
        ends = found[1] if isinstance(found, tuple) else [end for _, end in found]
        assert ends == [data.index(b","), len(data)]


def test_no_literals_find_nothing() -> None:
    assert Scanner(Literals()).scan(b"anything") == ([], [])


def test_the_fallback_is_used_where_hyperscan_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "hyperscan", None)
    scanner = Scanner(Literals(("needle",), (False,)))
    assert scanner.backend == "re"
    assert scanner.scan(b"a needle") == ([0], [8])


def test_a_cached_database_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    texts = tuple(f"literal-{number}-" for number in range(300))
    literals = Literals(texts, tuple(number % 2 == 0 for number in range(300)))
    data = b"".join(f"x literal-{number}- LITERAL-{number}- ".encode() for number in range(0, 300, 7))
    fresh = Scanner(literals).scan(data)
    (kept,) = (tmp_path / "npudiag").glob("patterns-*.hs")
    assert Scanner(literals).scan(data) == fresh
    kept.write_bytes(b"garbage")
    assert Scanner(literals).scan(data) == fresh
    assert len(set(fresh[0])) == 43


def test_without_a_cache_folder_it_works_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    literals = Literals(tuple(f"literal-{number}-" for number in range(300)), (False,) * 300)
    assert Scanner(literals).scan(b"literal-5-")[0] == [5]
