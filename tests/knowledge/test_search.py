"""Words lead to the rule or code that is meant."""

from __future__ import annotations

import pytest

from npudiag.engine.load import RulePack, load_pack
from npudiag.knowledge.search import search, words


@pytest.fixture(scope="module")
def pack() -> RulePack:
    return load_pack()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("notify wait timeout", "HCC101"),
        ("Notify wait timed out", "HCC101"),
        ("no space left on device", "HST003"),
        ("device lost heartbeat", "DEV001"),
        ("HBM 多比特 ECC", "DEV002"),
        ("kernel OOM killer", "HST001"),
        ("显存不足", "OOM001"),
        ("链路断开", "DEV006"),
        ("通信超时", "HCC101"),
        ("out of memory", "OOM001"),
    ],
)
def test_the_rule_that_is_meant_comes_first(pack: RulePack, text: str, rule: str) -> None:
    found = search(text, pack)
    assert rule in [item.rule.code for item in found[:3] if item.rule]


@pytest.mark.parametrize("text", ["", "   ", "banana split", "!!!"])
def test_what_fits_nothing_finds_nothing(pack: RulePack, text: str) -> None:
    assert search(text, pack) == []


def test_an_option_leads_to_the_rules_that_advise_it(pack: RulePack) -> None:
    assert any(item.rule for item in search("--gpu-memory-utilization", pack))


def test_spellings_of_one_thing_are_one_word() -> None:
    assert words("Timed out") == words("time-out") == words("timeout") == ["timeout"]
    assert words("端口占用") == ["端口", "口占", "占用"]
    assert words("HCCL_EXEC") == ["hccl_exec", "hccl", "exec"]
