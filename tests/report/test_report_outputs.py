"""The outputs for pipelines: each keeps its format whatever stands in the document."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import jsonschema
import pytest
import report_documents as documents
from sarif_schema import validate

from npudiag.report import find_renderer, github, gitlab, junit, markdown, sarif
from npudiag.report.gate import repository_path, uri
from npudiag.result import Evidence, Finding, Passed, Problem, Result, RuleFailure, Skipped, decode, encode

NASTY = "a%b\r\n::error::x\x00\x1b[31m \ud800\u202e|`]]> <b>@team</b> {0} [x](1) $(id) ,:\u2028"
DOCUMENTS = {
    "job": documents.job,
    "hostile": documents.hostile,
    "many": lambda: documents.job(64),
}


def gated(result: Result, **facts: Any) -> Result:
    """Judge a document as a gate would."""
    failing = [f.id for f in result.findings if f.suppressed is None and f.severity in ("critical", "error")]
    result.facts["gate"] = {
        "status": "failed",
        "fail_on": "error",
        "fail_on_rules": [],
        "failing": failing,
        "incomplete": False,
        "budgets": [],
        **facts,
    }
    return result


@pytest.fixture(params=DOCUMENTS)
def document(request: pytest.FixtureRequest) -> Result:
    result: Result = DOCUMENTS[request.param]()
    return result


def nasty() -> Result:
    """Return a document whose every text tries to break out."""
    result = documents.job()
    for finding in result.findings:
        finding.title = finding.summary = finding.name = NASTY
        for item in finding.evidence:
            item.text = item.label = NASTY
            item.path = NASTY if item.path else None
        for remedy in finding.remedies:
            remedy.text = NASTY
            remedy.command = NASTY
        finding.suppressed = {"reason": NASTY} if finding.id == "f3" else None
    result.coverage.problems = [Problem(path=NASTY, reason=NASTY, message=NASTY)]
    result.errors = [RuleFailure(code="AAA101", name=NASTY, message=NASTY)]
    result.facts["roots"] = {NASTY: NASTY, "job-0412": "../up", 1: 2}
    budget = {"metric": NASTY, "budget": NASTY, "status": "fail", "value": None, "note": NASTY}
    result.facts["baseline"] = {"known": 1, "stale": [{"code": NASTY, "title": NASTY}, 7], "worsened": "x", "new": [{}]}
    return gated(result, budgets=[budget, "x"])


# SARIF


def log_of(result: Result, lang: str = "en") -> dict[str, Any]:
    log: dict[str, Any] = json.loads(sarif.render(result, lang=lang))
    validate(log)
    return log


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_sarif_keeps_the_schema(document: Result, lang: str) -> None:
    (run,) = log_of(document, lang)["runs"]
    assert len(run["results"]) == len(document.findings)
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(ids) == len(set(ids))
    for found, finding in zip(run["results"], document.findings, strict=True):
        assert ids[found["ruleIndex"]] == found["ruleId"] == finding.code
        assert found["partialFingerprints"]
    hashes = [found["partialFingerprints"]["primaryLocationLineHash"] for found in run["results"]]
    assert len(hashes) == len(set(hashes))


def test_the_schema_refuses_what_is_no_sarif() -> None:
    log = log_of(documents.job())
    for damage in (
        lambda run: run["results"][0].update(level="fatal"),
        lambda run: run["results"][0].pop("message"),
        lambda run: run["results"][0]["locations"][0]["physicalLocation"]["region"].update(startLine=0),
        lambda run: run["invocations"][0].pop("executionSuccessful"),
        lambda run: run["tool"]["driver"]["rules"].append(run["tool"]["driver"]["rules"][0]),
        lambda run: run["results"][0].update(invented=1),
        lambda run: run["results"][0].update(locations=[]),
        lambda run: run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"].update(uri="C:/x"),
    ):
        broken = json.loads(json.dumps(log))
        damage(broken["runs"][0])
        with pytest.raises(jsonschema.ValidationError):
            validate(broken)


def test_sarif_points_to_the_setting_at_fault_and_relates_the_proof() -> None:
    result = documents.job()
    result.facts["roots"] = {"job-0412": "ci/job-0412"}
    (run,) = log_of(result)["runs"]
    root = run["results"][0]
    place = root["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "ci/job-0412/run_pretrain.sh"}
    assert place["region"] == {"startLine": 23}
    first = root["relatedLocations"][0]["physicalLocation"]
    assert first["region"]["startLine"] == 4711
    assert "Aicore kernel execute failed" in first["region"]["snippet"]["text"]
    assert {"name": "rank 5", "kind": "resource"} in root["locations"][0]["logicalLocations"]


def test_sarif_of_an_input_elsewhere_has_a_base() -> None:
    (run,) = log_of(documents.job())["runs"]
    place = run["results"][1]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place["uriBaseId"] == "NPUDIAG_INPUT" and place["uriBaseId"] in run["originalUriBaseIds"]


def test_sarif_tells_the_causal_chain_as_code_flow() -> None:
    (run,) = log_of(documents.job())["runs"]
    root, effect = run["results"][0], run["results"][1]
    steps = root["codeFlows"][0]["threadFlows"][0]["locations"]
    assert steps[0]["nestingLevel"] == 0 and steps[0]["importance"] == "essential"
    assert len(steps) > 7 and {step["nestingLevel"] for step in steps[1:]} == {1}
    chain = effect["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [step["location"]["message"]["text"].split()[0] for step in chain] == ["AIC104", "HCC104"]


def test_sarif_names_what_was_not_read_and_what_is_set_aside() -> None:
    result = documents.job()
    result.coverage.complete = False
    result.coverage.problems = [Problem(path="job-0412/x y:z.gz", reason="corrupt", message="bad block", line=3)]
    result.errors = [RuleFailure(code="AAA101", name="broken-rule", message="ValueError: no")]
    result.findings[1].suppressed = {"reason": "lab switch", "by": "baseline"}
    marks = [finding.fingerprint for finding in result.findings]
    marks[2] = result.findings[2].fingerprint = "v1:worse"
    result.facts["baseline"] = {
        "known": 1,
        "new": [{"fingerprint": marks[0]}],
        "worsened": [{"fingerprint": "v1:worse", "why": "occurrences 1 -> 9"}],
        "stale": [{"code": "DEV101", "title": "Heartbeat lost"}],
    }
    result.facts["unused_suppressions"] = ["HCC (old): nothing to suppress"]
    (run,) = log_of(result)["runs"]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    texts = [item["message"]["text"] for item in invocation["toolExecutionNotifications"]]
    assert any("bad block" in text for text in texts) and any("broken-rule" in text for text in texts)
    settings = [item["message"]["text"] for item in invocation["toolConfigurationNotifications"]]
    assert any("Heartbeat lost" in text for text in settings) and any("HCC (old)" in text for text in settings)
    assert run["results"][1]["suppressions"][0]["justification"] == "lab switch"
    assert [run["results"][n]["baselineState"] for n in (0, 1, 2)] == ["new", "unchanged", "updated"]


def test_sarif_keeps_to_the_limits_of_code_scanning() -> None:
    result = documents.job()
    one = result.findings[0]
    one.evidence = [Evidence(path="job-0412/a.log", line=n + 1, text="x") for n in range(300)]
    result.findings = [
        Finding(
            id=f"f{n}",
            code="HCC104",
            name="n",
            category="moe",
            severity="warning",
            confidence="low",
            title="t",
            evidence=list(one.evidence[:2]),
            caused_by=["f0"] if n else [],
        )
        for n in range(sarif.MOST_RESULTS + 10)
    ]
    result.findings[0].evidence = one.evidence
    log = json.loads(sarif.render(result))
    (run,) = log["runs"]
    assert len(run["results"]) == sarif.MOST_RESULTS
    assert len(run["results"][0]["relatedLocations"]) == sarif.MOST_RELATED
    assert len(run["results"][0]["codeFlows"][0]["threadFlows"][0]["locations"]) <= sarif.MOST_STEPS
    assert any("10 findings" in n["message"]["text"] for n in run["invocations"][0]["toolExecutionNotifications"])


def test_sarif_messages_hold_no_places_and_no_links() -> None:
    assert sarif._message("loss {0} at [rank](5)")["text"] == "loss {{0}} at \\[rank](5)"


# JUnit


def suites_of(result: Result, lang: str = "en") -> dict[str, ElementTree.Element]:
    root = ElementTree.fromstring(junit.render(result, lang=lang))
    assert root.tag == "testsuites"
    for element in (root, *root):
        cases = element.iter("testcase")
        counted = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
        for case in cases:
            counted["tests"] += 1
            for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
                counted[name] += case.find(tag) is not None
            assert sum(case.find(tag) is not None for tag in ("failure", "error", "skipped")) <= 1
        assert {name: int(element.attrib[name]) for name in counted} == counted
    names = [(case.attrib["classname"], case.attrib["name"]) for case in root.iter("testcase")]
    assert len(names) == len(set(names)), "a case per rule"
    return {suite.attrib["name"]: suite for suite in root}


def case(suites: dict[str, ElementTree.Element], start: str) -> ElementTree.Element:
    (found,) = [c for suite in suites.values() for c in suite.iter("testcase") if c.attrib["name"].startswith(start)]
    return found


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_junit_has_a_suite_per_category_and_a_case_per_rule(document: Result, lang: str) -> None:
    suites = suites_of(document, lang)
    assert {f"npudiag.{finding.category}" for finding in document.findings} <= suites.keys()


def test_junit_failures_follow_the_gate() -> None:
    result = documents.job()
    result.passed = [Passed(code="DEV101", name="heartbeat", category="device-fault")]
    result.skipped = [Skipped(code="PER101", name="slow", category="performance", missing=["prof_steps"])]
    result.errors = [RuleFailure(code="NUM101", name="nan", category="numerics", message="ValueError")]
    suites = suites_of(result)
    assert case(suites, "DEV101").find("failure") is None
    skipped = case(suites, "PER101").find("skipped")
    assert skipped is not None and "prof_steps" in skipped.attrib["message"]
    assert case(suites, "NUM101").find("error") is not None
    assert case(suites, "DAT103").find("failure") is not None, "a warning is a problem where no gate says otherwise"
    failure = case(suites, "HCC104").find("failure")
    assert failure is not None and failure.attrib["message"].endswith("(+6)")
    suites = suites_of(gated(result))
    assert case(suites, "DAT103").find("failure") is None, "the gate fails from error on"
    assert case(suites, "AIC104").find("failure") is not None
    for finding in result.findings:
        if finding.code == "HCC104":
            finding.suppressed = {"reason": "known"}
    skipped = case(suites_of(result), "HCC104").find("skipped")
    assert skipped is not None and "known" in skipped.attrib["message"]


def test_junit_has_a_case_per_budget_and_one_for_the_input() -> None:
    result = documents.job()
    result.coverage.complete = False
    result.coverage.problems = [Problem(path="a.gz", reason="truncated", message="ends early")]
    budgets = [
        {"metric": "loss.last", "budget": "<= 2", "status": "fail", "value": 3.0, "limit": 2.0},
        {"metric": "mfu.p50", "budget": ">= 38", "status": "missing", "note": "the input has no such metric"},
        {"metric": "step_time_ms.p50", "budget": "<= 5", "status": "pass", "value": 3.0, "limit": 5.0},
    ]
    suites = suites_of(gated(result, budgets=budgets, status="failed", incomplete=True))
    assert "npudiag.gate" in suites
    assert case(suites, "metric loss.last").find("failure") is not None
    assert case(suites, "metric mfu.p50").find("error") is not None
    assert case(suites, "metric step_time_ms.p50").find("failure") is None
    unread = case(suites, "all input was read").find("error")
    assert unread is not None and "a.gz" in (unread.text or "")


# GitHub


def parse_command(line: str) -> tuple[str, dict[str, str], str]:
    """Read a command as the runner does."""
    match = re.fullmatch(r"::(error|warning|notice)(?: ([^:]*))?::(.*)", line)
    assert match is not None, line
    properties = dict(part.split("=", 1) for part in match[2].split(",")) if match[2] else {}

    def plain(text: str, pairs: tuple[tuple[str, str], ...]) -> str:
        for escape, char in (*pairs, ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
            text = text.replace(escape, char)
        return text

    return match[1], {k: plain(v, (("%3A", ":"), ("%2C", ","))) for k, v in properties.items()}, plain(match[3], ())


def annotations(result: Result) -> list[tuple[str, dict[str, str], str]]:
    text = github.render(result)
    assert text.endswith("\n")
    return [parse_command(line) for line in text[:-1].split("\n")]


def test_github_annotations_are_one_line_each_and_unescape_to_the_text() -> None:
    line = github.command("error", "50% of\nranks", title="a,b: 100%", file="x,y:z.log", line=7)
    assert line == "::error file=x%2Cy%3Az.log,line=7,title=a%2Cb%3A 100%25::50%25 of%0Aranks"
    level, properties, message = parse_command(line)
    assert (level, properties["title"], message) == ("error", "a,b: 100%", "50% of\nranks")
    assert github.command("notice", "x") == "::notice::x"


def test_github_annotations_are_at_most_ten_of_a_level_worst_first() -> None:
    result = documents.job(64)
    found = annotations(gated(result))
    for level in github.LEVELS:
        assert sum(item[0] == level for item in found) <= github.MOST
    assert found[0][1]["title"].startswith("AIC104")
    assert found[-1][0] == "notice" and re.search(r"\d+ more", found[-1][2])


def test_github_annotations_name_files_of_the_repository_only() -> None:
    result = documents.job()
    assert all("file" not in properties for _, properties, _ in annotations(result))
    result.facts["roots"] = {"job-0412": "ci/job-0412"}
    first = annotations(result)[0]
    assert (first[1]["file"], first[1]["line"]) == ("ci/job-0412/run_pretrain.sh", "23")


def test_github_says_something_where_nothing_was_found() -> None:
    result = documents.healthy()
    result.findings, result.coverage.complete = [], True
    ((level, _, message),) = annotations(result)
    assert level == "notice" and message == result.verdict.text


# GitLab


def test_gitlab_issues_are_complete_and_unique(document: Result) -> None:
    document.findings[-1].suppressed = {"reason": "known"}
    issues = json.loads(gitlab.render(document))
    assert len(issues) == sum(finding.suppressed is None for finding in document.findings)
    marks = [issue["fingerprint"] for issue in issues]
    assert len(marks) == len(set(marks)) and all(marks)
    for issue in issues:
        assert {"description", "check_name", "fingerprint", "severity", "location"} <= issue.keys()
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert issue["location"]["path"] and issue["location"]["lines"]["begin"] >= 1
        assert re.match(r"[A-Z]{3}\d{3} ", issue["description"])


# Markdown


def test_markdown_tells_the_story_and_keeps_its_budget() -> None:
    result = gated(documents.job(64))
    text = markdown.render(result)
    assert text.startswith("### ") and "AIC104" in text and "Gate failed" in text
    assert text.count("<details") == text.count("</details>")
    assert len(text.encode()) <= markdown.BUDGET
    for budget in (100, 3_000, 10_000):
        short = markdown.render(result, budget=budget)
        assert len(short.encode()) <= budget
        assert short.count("<details") == short.count("</details>")
    assert "more in result.json" in markdown.render(result, budget=3_000)


def test_markdown_shows_budgets_and_what_is_set_aside() -> None:
    result = documents.job()
    result.findings[-1].suppressed = {"reason": "lab switch", "by": "baseline"}
    text = markdown.render(
        gated(result, budgets=[{"metric": "loss.last", "budget": "<= 2", "status": "fail", "value": 3.5}])
    )
    assert "| `loss.last` | 3.5 | `<= 2` |" in text and "lab switch" in text


def test_markdown_evidence_cannot_leave_its_fence() -> None:
    result = documents.job()
    result.findings[0].evidence = [Evidence(path="a.log", line=1, text="```\n# hello\n````\n<script>")]
    text = markdown.render(result)
    block = text[text.index("`````text") :]
    assert block.index("<script>") < block.index("\n`````\n")


# All of them


@pytest.mark.parametrize("name", ["sarif", "junit", "markdown", "github", "gitlab"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_hostile_texts_stay_texts(name: str, lang: str) -> None:
    result = nasty()
    text = find_renderer(name)(result, lang=lang)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\u2028\ud800-\udfff]", text)
    text.encode("utf-8")
    if name == "sarif":
        validate(json.loads(text))
    elif name == "junit":
        suites_of(result, lang)
    elif name == "github":
        assert all(line.startswith("::") for line in text.splitlines())
        assert len(text.splitlines()) <= 3 * github.MOST
    elif name == "markdown":
        outside = re.sub(r"^(`{3,})\w*\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
        outside = re.sub(r"(`+)[^`].*?\1", "", outside)
        assert "<b>" not in outside and "@team" not in outside
    else:
        assert json.loads(text)


@pytest.mark.parametrize("name", ["sarif", "junit", "markdown", "github", "gitlab"])
def test_outputs_survive_facts_of_any_shape(name: str) -> None:
    for junk in (None, 7, "x", [1], {"status": []}, {"status": "failed", "failing": 3, "budgets": {"a": 1}}):
        result = documents.job()
        result.facts = {"gate": junk, "baseline": junk, "roots": junk, "metrics": junk, "unused_suppressions": junk}
        find_renderer(name)(result, lang="en")


@pytest.mark.parametrize("name", ["sarif", "junit", "markdown", "github", "gitlab"])
def test_outputs_are_renderings_of_the_document(name: str) -> None:
    result = gated(documents.job())
    assert find_renderer(name)(decode(encode(result)), lang="en") == find_renderer(name)(result, lang="en")


def test_paths_in_the_repository() -> None:
    result = documents.job()
    result.facts["roots"] = {"logs": "artifacts/logs", "here": ".", "up": "../up", "a.tgz": "a.tgz"}
    assert repository_path(result, "logs/x.log") == "artifacts/logs/x.log"
    assert repository_path(result, "here/x.log") == "x.log"
    assert repository_path(result, "a.tgz!/x.log") == "a.tgz!/x.log"
    assert repository_path(result, "up/x.log") is None
    assert repository_path(result, "logs2/x.log") is None
    assert repository_path(result, "-") is None
    assert uri("/a b/c:d#é.log") == "a%20b/c%3Ad%23%C3%A9.log"
