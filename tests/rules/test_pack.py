"""The shipped rules: they load, and every test that a rule file carries holds."""

from __future__ import annotations

from functools import cache

import pytest

from npudiag.engine.load import RulePack, load_pack
from npudiag.engine.model import Rule, RuleTest, Text
from npudiag.engine.testing import run_rule_test
from npudiag.errors import RuleError


@cache
def shipped() -> RulePack:
    try:
        return load_pack(use_cache=False, with_tests=True)
    except RuleError:
        return RulePack((), "")  # test_the_pack_loads tells why


CASES = [(rule, test) for rule in shipped().rules for test in rule.tests]


def test_the_pack_loads() -> None:
    assert load_pack(use_cache=False).rules


@pytest.mark.parametrize(("rule", "test"), CASES, ids=[f"{rule.code}-{test.name}" for rule, test in CASES])
def test_rule(rule: Rule, test: RuleTest) -> None:
    outcome = run_rule_test(shipped(), rule, test)
    problems = "\n".join(str(mismatch) for mismatch in outcome.mismatches)
    assert outcome.passed, f"{outcome.path}:{outcome.line}: {outcome.code} {outcome.test}\n{problems}"


@pytest.mark.parametrize("rule", shipped().rules, ids=lambda rule: rule.code)
def test_every_rule_is_whole(rule: Rule) -> None:
    texts: list[Text] = [rule.title, rule.why, *rule.collect]
    for remedy in rule.remedies:
        texts += [text for text in (remedy.text, remedy.expect, remedy.verify) if text is not None]
    assert all(text.en and text.zh for text in texts)
    assert any(test.findings for test in rule.tests), "no positive test"
    assert any(not test.findings and not test.skip for test in rule.tests), "no near-miss test"
    assert rule.remedies or rule.collect, "neither a remedy nor what to collect"
