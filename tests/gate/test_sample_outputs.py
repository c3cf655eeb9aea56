"""Every sample job in every output: valid by its format, within the limits, and on one screen."""

from __future__ import annotations

import csv
import io
import json
import re
from functools import cache
from pathlib import Path

import gitlab_schema
import jsonschema
import junit_schema
import pytest
import sarif_schema
import yaml
from gate_runs import SAMPLES

from npudiag.analyze import analyze
from npudiag.cli.common import write_tables
from npudiag.cli.gate import judge
from npudiag.engine.load import load_pack
from npudiag.report import github, gitlab, junit, markdown, sarif, terminal
from npudiag.report.texts import SEVERITY
from npudiag.result import Result, decode, encode, json_schema
from npudiag.tables.schema import TABLES
from npudiag.tables.store import Store

NAMES = sorted(path.parent.name for path in SAMPLES.glob("*/case.yaml"))
LANGS = ("en", "zh")


@cache
def judged(name: str) -> tuple[Result, Store]:
    """Return a sample as a gate judges it from the folder that holds the samples."""
    case = yaml.safe_load((SAMPLES / name / "case.yaml").read_text(encoding="utf-8"))
    target = SAMPLES / name / case["input"]
    result, store = analyze([str(target)], load_pack())
    result.facts["roots"] = {target.name: f"sample_logs/{name}/{target.name}"}
    judge(result, level="error", codes=(), budgets=(), baseline=None, allow_incomplete=True)
    return result, store


@pytest.mark.parametrize("name", NAMES)
def test_documents_keep_their_schema(name: str) -> None:
    result, _ = judged(name)
    document = json.loads(encode(result))
    jsonschema.Draft202012Validator(json_schema()).validate(document)
    assert encode(decode(encode(result))) == encode(result)


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("name", NAMES)
def test_sarif(name: str, lang: str) -> None:
    result, _ = judged(name)
    log = json.loads(sarif.render(result, lang=lang))
    sarif_schema.validate(log)
    (run,) = log["runs"]
    for found, finding in zip(run["results"], result.findings, strict=True):
        at = next((remedy.at for remedy in finding.remedies if remedy.at is not None), None)
        if at is not None:
            place = found["locations"][0]["physicalLocation"]
            assert place["artifactLocation"]["uri"] == f"sample_logs/{name}/{at.path}"
            assert place["region"]["startLine"] == at.line, "the line to change comes first"
        if finding.caused_by and finding.evidence:
            steps = found["codeFlows"][0]["threadFlows"][0]["locations"]
            codes = [step["location"]["message"]["text"].split()[0] for step in steps]
            assert finding.code in codes and len(codes) > 1, "the chain leads to what followed"


def test_sarif_puts_the_launch_script_first() -> None:
    result, _ = judged("launch-script-faults")
    (run,) = json.loads(sarif.render(result))["runs"]
    first = run["results"][0]["locations"][0]["physicalLocation"]
    assert first["artifactLocation"]["uri"].endswith("logs/job/pretrain_demo_7b.sh")
    script = SAMPLES.parent / first["artifactLocation"]["uri"]
    assert "--clip_grad" in script.read_text(encoding="utf-8").splitlines()[first["region"]["startLine"] - 1]


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("name", NAMES)
def test_junit(name: str, lang: str) -> None:
    result, _ = judged(name)
    text = junit.render(result, lang=lang)
    assert junit_schema.faults(text) == []
    rules = {item.code for item in (*result.findings, *result.passed, *result.skipped, *result.errors)}
    cases = re.findall(r'<testcase classname="npudiag\.[a-z-]+" name="([A-Z]{3}\d{3}) ', text)
    assert sorted(cases) == sorted(rules), "one case for every rule"


@pytest.mark.parametrize("name", NAMES)
def test_code_quality(name: str) -> None:
    issues = json.loads(gitlab.render(judged(name)[0]))
    jsonschema.Draft202012Validator(gitlab_schema.SCHEMA).validate(issues)
    marks = [issue["fingerprint"] for issue in issues]
    assert len(marks) == len(set(marks))


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("name", NAMES)
def test_annotations_and_summaries_keep_the_limits(name: str, lang: str) -> None:
    result, _ = judged(name)
    lines = github.render(result, lang=lang).splitlines()
    for level in github.LEVELS:
        assert sum(line.startswith(f"::{level}") for line in lines) <= github.MOST
    assert all(re.match(r"::(error|warning|notice) ", line) for line in lines)
    text = markdown.render(result, lang=lang)
    assert text.startswith("### ") and len(text.encode()) < 1 << 20
    assert text.count("<details") == text.count("</details>")
    assert text.count("```") % 2 == 0


@pytest.mark.parametrize("name", NAMES)
def test_tables_have_the_columns_that_are_declared(name: str, tmp_path: Path) -> None:
    _, store = judged(name)
    write_tables(store, tmp_path)
    written = {path.stem: path for path in tmp_path.iterdir()}
    assert set(written) == {table for table in TABLES if not store.empty(table)}
    for table, path in written.items():
        rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
        assert len(rows) == store.size(table)
        assert list(rows[0]) == [column.name for column in TABLES[table].columns]


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("name", NAMES)
def test_the_story_fits_on_one_screen(name: str, lang: str, width: int) -> None:
    result, _ = judged(name)
    lines = ["".join(text for text, _ in line) for line in terminal.render(result, lang=lang, width=width, verbosity=0)]
    assert len(lines) <= terminal.SCREEN
    text = "\n".join(lines)
    problem = next((f for f in result.findings if f.status == "fail" and f.role == "root"), None)
    if problem is not None and result.verdict.status == "findings":
        proof = next(item for item in problem.evidence if item.path)
        where = f"{proof.path}:{proof.line}" if proof.line else str(proof.path)
        assert problem.code in text and where in text, "what it is, and where it is proved"
        named = getattr(SEVERITY[problem.severity], lang)
        assert f"{terminal.ICONS[problem.severity]} {named}" in text, "not by colour alone"


@pytest.mark.parametrize("name", NAMES)
def test_more_is_told_when_asked_and_less_when_not(name: str) -> None:
    result, _ = judged(name)
    sizes = [len(terminal.render(result, lang="en", width=100, verbosity=level)) for level in (-1, 0, 1, 2)]
    assert sizes[0] == 1 and sizes == sorted(sizes)
