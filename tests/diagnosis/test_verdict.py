"""The sentence at the top names who broke first, where that is one of several."""

from __future__ import annotations

from typing import Literal

import pytest

from npudiag.diagnosis.verdict import state
from npudiag.result import Coverage, Finding, Scope


def finding(title: str, ranks: list[int], role: Literal["root", "consequence"] = "root") -> Finding:
    return Finding(
        id=f"f-{role}",
        code="ABC101",
        name="abc",
        category="operator",
        severity="error",
        confidence="high",
        title=title,
        role=role,
        scope=Scope(ranks=ranks),
    )


@pytest.mark.parametrize(
    ("title", "root", "other", "named"),
    [
        ("Data cannot be read", [5], [0, 1, 5], True),
        ("Data cannot be read", [5], [5], False),
        ("Data cannot be read", [4, 5], [0, 1], False),
        ("Rank 5 waits", [5], [0, 1], False),
    ],
)
def test_one_rank_of_several_is_named(title: str, root: list[int], other: list[int], named: bool) -> None:
    verdict = state([finding(title, root), finding("Others gave up", other, "consequence")], Coverage())
    assert ("(rank 5)" in verdict.text) is named
    assert ("（rank 5）" in verdict.i18n["zh"]["text"]) is named
