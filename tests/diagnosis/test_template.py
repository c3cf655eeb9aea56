"""Texts of rules with captures in them."""

from __future__ import annotations

import pytest

from npudiag.diagnosis.template import render, span


@pytest.mark.parametrize(
    ("template", "values", "text"),
    [
        ("rank {rank} failed", {"rank": 3}, "rank 3 failed"),
        ("rank {rank} failed", {}, "rank ? failed"),
        ("failed[[ on device {device}]]", {"device": 0}, "failed on device 0"),
        ("failed[[ on device {device}]]", {}, "failed"),
        ("failed[[ on {a}[[x]]", {"a": 1}, "failed on 1[[x"),
        ("ranks {ranks}", {"ranks": [0, 1, 2, 5]}, "ranks 0-2, 5"),
        ("x[[ of ranks {ranks}]]", {"ranks": []}, "x"),
        ("{value} GiB", {"value": 1234.5}, "1,234.5 GiB"),
        ("a {kernel} b", {"kernel": "k{evil}[[x]]"}, "a k{evil}[[x]] b"),
    ],
)
def test_render(template: str, values: dict[str, object], text: str) -> None:
    assert render(template, values) == text


def test_long_values_are_cut() -> None:
    assert len(render("{x}", {"x": "y" * 10_000})) == 200


def test_spans() -> None:
    assert span([7, 3, 4, 5]) == "3-5, 7"
    assert span(["b", "a"]) == "b, a"
    assert span([]) == ""
    assert span(list(range(0, 100, 2))).endswith("(50)")
