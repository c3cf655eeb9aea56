"""Runs the tests that rules carry: every sample through the whole pipeline, against the whole pack.

The whole pack, because a sample that fires a second rule shows that one of the two is
too loose ("cross-fire"), and nothing else would show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from npudiag.engine.load import RulePack
from npudiag.engine.model import Rule, RuleTest
from npudiag.errors import UsageError
from npudiag.result import Finding, Result

EXEMPT_TRUST = ("generic", "envelope")
"""Rules of this trust say that something failed, not what; they may fire on any sample."""
EXEMPT_CATEGORY = "insufficient-evidence"
"""Not a rule's finding: what the diagnosis says where no rule explains a failure."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One thing that came out otherwise than a test says.

    Attributes:
        what: What was compared: ``findings``, ``captures.peer``, ``devices``, ``cross-fire``, ``skipped``, ``run``.
        expected: What the test says.
        got: What came out.
    """

    what: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.what}: expected {self.expected}, got {self.got}"


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """How one test of one rule went.

    Attributes:
        code: Code of the rule.
        rule: Name of the rule.
        test: Name of the test.
        path: The rule file.
        line: Line of the test in it, 1-based.
        mismatches: What was not as expected; empty: the test passed.
    """

    __test__ = False  # not a test class of pytest

    code: str
    rule: str
    test: str
    path: str
    line: int
    mismatches: tuple[Mismatch, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether all was as expected."""
        return not self.mismatches


def run_rule_tests(pack: RulePack, names: Sequence[str] | None = None) -> list[TestOutcome]:
    """Run the tests of a pack's rules.

    Args:
        pack: Rules loaded with their tests.
        names: Names or codes, also beginnings of codes; None: all rules.

    Returns:
        One outcome per test, in the order of codes and of the file.

    Raises:
        UsageError: A name is that of no rule.
    """
    return list(iterate_rule_tests(pack, names))


def iterate_rule_tests(pack: RulePack, names: Sequence[str] | None = None) -> Iterator[TestOutcome]:
    """Like `run_rule_tests`, yielding each outcome when it is there."""
    for rule in choose_rules(pack, names):
        for test in rule.tests:
            yield run_rule_test(pack, rule, test)


def choose_rules(pack: RulePack, names: Sequence[str] | None) -> list[Rule]:
    """Return the rules with these names, codes or beginnings of codes; all where None are given.

    Raises:
        UsageError: A name is that of no rule.
    """
    if not names:
        return list(pack.rules)
    chosen: dict[str, Rule] = {}
    for name in names:
        found = [rule for rule in pack.rules if rule.name == name or rule.code.startswith(name.upper())]
        if not found:
            import difflib

            near = difflib.get_close_matches(name, [*pack.by_name, *pack.by_code], n=3)
            raise UsageError(
                f"no rule is called {name!r}",
                hint=f"did you mean {', '.join(near)}?" if near else "npudiag rules list shows all rules",
            )
        chosen.update((rule.code, rule) for rule in found)
    return [chosen[code] for code in sorted(chosen)]


def run_rule_test(pack: RulePack, rule: Rule, test: RuleTest) -> TestOutcome:
    """Run one test of one rule against the whole pack."""
    from npudiag.analyze import analyze_texts

    path = pack.files.get(rule.name, rule.path)
    try:
        result = analyze_texts(test.files, pack, tables=test.tables or None)
    except Exception as error:  # the other tests are still worth running
        got = f"{type(error).__name__}: {error}"
        mismatches = [Mismatch("run", "an analysis to its end", got)]
    else:
        mismatches = list(compare(pack, rule, test, result))
    return TestOutcome(rule.code, rule.name, test.name, path, test.line, tuple(mismatches))


def compare(pack: RulePack, rule: Rule, test: RuleTest, result: Result) -> Iterator[Mismatch]:
    """Yield what in `result` differs from what `test` of `rule` expects."""
    for failure in result.errors:
        yield Mismatch("run", "no rule breaks", f"{failure.code} {failure.name}: {failure.message}")
    if test.skip:
        if all(skipped.code != rule.code for skipped in result.skipped):
            yield Mismatch("skipped", f"{rule.code} is skipped", _state(rule, result))
    else:
        own = [finding for finding in result.findings if finding.code == rule.code]
        if len(own) != test.findings:
            got = f"{len(own)}" + "".join(f"\n  {_summary(finding)}" for finding in own)
            yield Mismatch("findings", str(test.findings), got if own else f"0 ({_state(rule, result)})")
        if own:
            # Several findings: the one that comes closest is compared.
            yield from min((_differences(test, finding) for finding in own), key=len)
    known = pack.by_code
    for finding in result.findings:
        if finding.code == rule.code or finding.name in test.also or finding.category == EXEMPT_CATEGORY:
            continue
        trust = known[finding.code].trust if finding.code in known else finding.trust
        if trust not in EXEMPT_TRUST:
            expected = f"no finding of {finding.name} (or list it in also)"
            yield Mismatch("cross-fire", expected, _summary(finding))


def _differences(test: RuleTest, finding: Finding) -> list[Mismatch]:
    found: list[Mismatch] = []
    for name, expected in test.captures.items():
        got = finding.captures.get(name)
        if not _equal(expected, got):
            found.append(Mismatch(f"captures.{name}", repr(expected), repr(got) if got is not None else "nothing"))
    scope = finding.scope
    pairs: tuple[tuple[str, Sequence[Any] | None, Sequence[Any]], ...] = (
        ("ranks", test.ranks, scope.ranks),
        ("devices", test.devices, scope.devices),
        ("nodes", test.nodes, scope.nodes),
    )
    for what, wanted, given in pairs:
        if wanted is not None and sorted(wanted) != sorted(given):
            found.append(Mismatch(what, str(list(wanted)), str(list(given))))
    return found


def _equal(expected: Any, got: Any) -> bool:
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(expected, float) and isinstance(got, (int, float)):
        return abs(expected - got) <= 1e-9 * max(1.0, abs(expected))
    return bool(expected == got)


def _state(rule: Rule, result: Result) -> str:
    """Say where in the result a rule without findings stands."""
    if any(passed.code == rule.code for passed in result.passed):
        return "the rule looked and found nothing"
    for skipped in result.skipped:
        if skipped.code == rule.code:
            return f"the rule was skipped: no rows in {', '.join(skipped.missing)}"
    if any(finding.code == rule.code for finding in result.findings):
        return "the rule has findings"
    return "the rule is in no list of the result"


def _summary(finding: Finding) -> str:
    place = next((f" at {item.path}:{item.line}" for item in finding.evidence if item.path and item.line), "")
    return f"{finding.code} {finding.name}: {finding.title}{place}"
