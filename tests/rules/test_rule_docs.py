"""The committed pages about rules are those that the rule files give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from npudiag.cli.rule_docs import pages, stale
from npudiag.engine.load import PackSource, load_pack, shipped_rules
from npudiag.engine.testing import run_rule_test

DOCS = Path(__file__).resolve().parents[2] / "docs" / "rules"


@pytest.mark.skipif(shipped_rules().parent != DOCS.parents[1], reason="not the rules of this checkout")
def test_the_pages_are_up_to_date() -> None:
    differing = stale(pages(load_pack(use_cache=False, with_tests=True)), DOCS)
    assert not differing, "run: npudiag rules docs --out docs/rules"


def test_the_example_in_the_guide_is_a_valid_rule(tmp_path: Path) -> None:
    guide = (DOCS.parent / "writing-rules.md").read_text(encoding="utf-8")
    block = next(text for text in re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL) if text.startswith("code:"))
    (tmp_path / "ACM001-bond-link-flaps.yaml").write_text(block, encoding="utf-8")
    pack = load_pack([PackSource(tmp_path, "ACM", "command-line")], use_cache=False, with_tests=True)
    rule = pack.by_code["ACM001"]
    for test in rule.tests:
        outcome = run_rule_test(pack, rule, test)
        assert outcome.passed, [str(mismatch) for mismatch in outcome.mismatches]
