"""Loading rule packs: faults, overriding, and the cache."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from npudiag import plugins
from npudiag.engine import load
from npudiag.engine.load import PackSource, RulePack, load_pack
from npudiag.engine.model import Near, Signature, Where
from npudiag.engine.validate import LEVELS, expand, optional_groups
from npudiag.errors import RuleError
from npudiag.parsers.base import LEVEL_RANK
from npudiag.result import CATEGORIES

TABLES = frozenset({"log", "train_steps"})
TITLE = '{en: "Rank {peer} is silent[[ on device {device}]]", zh: "rank {peer} 无响应[[（设备 {device}）]]"}'
DETECT = """\
detect:
  signature:
    all: ["silent for too long"]
    regex: 'peer (?P<peer>\\d+)(?: device (?P<device>\\d+))?'
    types: {peer: int}
"""
TESTS = """\
tests:
  - name: fires
    log: "peer 3 is silent for too long"
    expect: {findings: 1}
  - name: harmless
    log: "nobody is silent for too long"
    expect: {findings: 0}
  - {name: no input, expect: skip}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a cache folder of its own."""
    home = tmp_path / "cache-home"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    return home / "npudiag"


def rule_text(
    code: str = "ABC001",
    name: str = "peer-silent",
    *,
    title: str = TITLE,
    detect: str = DETECT,
    tests: str = TESTS,
    more: str = "",
) -> str:
    """Return a rule file that is valid unless a part given makes it faulty; `detect` begins in line 8."""
    return (
        f"code: {code}\nname: {name}\ncategory: hccl-timeout\nseverity: critical\nconfidence: high\n"
        f'title: {title}\nwhy: {{en: "It waits.", zh: "一直在等待。"}}\n{detect}{more}{tests}'
    )


def plain_rule(detect: str, **parts: str) -> str:
    """Return a rule whose texts name no captures."""
    return rule_text(title='{en: "x", zh: "等"}', detect=f"detect: {detect}\n", **parts)


def put(folder: Path, text: str, name: str = "ABC001-peer-silent.yaml", area: str = "comm") -> Path:
    path = folder / area / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def source(folder: Path, origin: str = "shipped", prefix: str | None = None) -> PackSource:
    return PackSource(folder, prefix, origin)


def faults(*sources: PackSource) -> list[str]:
    """Return all faults of packs, without the folders' own paths."""
    with pytest.raises(RuleError) as caught:
        load_pack(sources, use_cache=False, tables=TABLES)
    assert caught.value.exit_code == 2
    lines = [str(fault) for fault in caught.value.faults]
    for pack in sources:
        lines = [line.replace(f"{pack.directory}{os.sep}", "") for line in lines]
    return lines


def faults_of(tmp_path: Path, data: str | bytes, origin: str = "shipped") -> list[str]:
    """Return all faults of one rule file, without its path."""
    path = put(tmp_path / "pack", "")
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return [line.partition(".yaml:")[2] for line in faults(source(tmp_path / "pack", origin))]


# -- a valid rule


def test_a_rule_is_read_with_all_its_parts(tmp_path: Path) -> None:
    text = dedent(
        """\
        code: ABC007
        name: many-parts
        category: hccl-timeout
        severity: error
        confidence: medium
        trust: cause
        fatal: true
        title: {en: "{count} waits for {peer}", zh: "等待 {peer} 共 {count} 次"}
        why: {en: "Why", zh: "原因"}
        needs: [log]
        detect:
          signature:
            - where: {level: [ERROR], module: [HCCL], kind: [slog]}
              all: ["Notify wait"]
              any: ["timeout", "timed out"]
              unless: ["retried"]
              regex: 'peer (?P<peer>\\w+)'
              near: {lines: 12, any: ["abc"], regex: 'rank (?P<rank>\\d+)'}
              types: {peer: hex}
              count: ">= 3"
              within: 1.5m
              per: [rank, device]
              then: {any: ["afterwards"], within: 2h}
              nocase: true
            - any: ["waiting for a peer"]
              regex: 'for (?P<peer>[0-9a-f]+) at rank (?P<rank>\\d+)'
        caused_by: [many-parts-cause]
        remedies:
          - kind: env
            text: {en: "Raise it", zh: "调大"}
            change: {key: HCCL_EXEC_TIMEOUT, from: 1800, to: 3600}
            stack: [torch_npu]
            disposition: safe
            expect: {en: "Fewer", zh: "减少"}
            verify: {en: "Look", zh: "查看"}
          - {kind: flag, text: {en: "Unset", zh: "去掉"}, change: {key: --overlap, to: ""}}
        collect: [{en: "The log", zh: "日志"}]
        references: ["https://example.org/x"]
        tests:
          - name: fires
            files: {"worker-0/a.log": "x", "worker-1/b.log": "y"}
            expect:
              {findings: 2, captures: {peer: 0x1f}, ranks: [0, 1], devices: [4], nodes: [w], also: [many-parts-cause]}
          - {name: harmless, log: "z", expect: {findings: 0}}
        """
    )
    put(tmp_path / "p", text, "ABC007-many-parts.yaml")
    put(tmp_path / "p", rule_text("ABC008", "many-parts-cause"), "ABC008-many-parts-cause.yaml", "other")
    loaded = load_pack([source(tmp_path / "p")], with_tests=True)
    rule = loaded.by_code["ABC007"]
    assert loaded.by_name["many-parts"] is rule is loaded.find("abc007") is loaded.find("many-parts")
    assert loaded.find("nothing") is None
    assert rule.path == "comm/ABC007-many-parts.yaml"
    assert loaded.files["many-parts"] == str(tmp_path / "p" / "comm" / "ABC007-many-parts.yaml")
    assert (rule.trust, rule.fatal, rule.needs, rule.caused_by) == ("cause", True, ("log",), ("many-parts-cause",))
    assert rule.signatures == (
        Signature(
            where=Where(level=("ERROR",), module=("HCCL",), kind=("slog",)),
            all=("Notify wait",),
            any=("timeout", "timed out"),
            unless=("retried",),
            regex=r"peer (?P<peer>\w+)",
            near=Near(lines=12, any=("abc",), regex=r"rank (?P<rank>\d+)"),
            types={"rank": "int", "peer": "hex"},
            count=3,
            within_s=90.0,
            per=("rank", "device"),
            then=Signature(any=("afterwards",), within_s=7200.0),
            nocase=True,
        ),
        Signature(
            any=("waiting for a peer",), regex=r"for (?P<peer>[0-9a-f]+) at rank (?P<rank>\d+)", types={"rank": "int"}
        ),
    )
    change = rule.remedies[0].change
    assert change is not None and (change.key, change.old, change.to) == ("HCCL_EXEC_TIMEOUT", "1800", "3600")
    assert rule.remedies[1].change is not None and rule.remedies[1].change.to == ""
    assert (rule.remedies[0].disposition, rule.remedies[1].disposition) == ("safe", "review")
    first, second = rule.tests
    assert first.files == {"worker-0/a.log": "x", "worker-1/b.log": "y"} and second.files == {"sample.log": "z"}
    assert (first.findings, first.captures, first.ranks, first.devices) == (2, {"peer": 31}, (0, 1), (4,))
    assert (first.nodes, first.also, first.line) == (("w",), ("many-parts-cause",), 40)


def test_a_query_rule_with_rows_written_short(tmp_path: Path) -> None:
    detect = """\
detect:
  query: |
    -- the $note is no parameter
    WITH x AS (SELECT step, '; $other' AS t FROM train_steps) SELECT step FROM x WHERE step > $least;
params: {least: 5}
needs: [train_steps]
"""
    tests = """\
tests:
  - name: fires
    tables: {train_steps: {step: "1+1x32", rank: 0, loss: "2.5 _ 2.5x30"}}
    expect: {findings: 1, captures: {anything: 1}}
  - name: harmless
    tables: {train_steps: [{step: 1, loss: 2.5}]}
    expect: {findings: 0}
"""
    put(tmp_path / "p", rule_text(title='{en: "{anything}", zh: "等 {anything}"}', detect=detect, tests=tests))
    [rule] = load_pack([source(tmp_path / "p", "config")], with_tests=True, tables=TABLES).rules
    assert rule.query is not None and rule.query.startswith("-- the $note") and rule.query.endswith("$least")
    rows = rule.tests[0].tables["train_steps"]
    assert [row["step"] for row in rows] == list(range(1, 33))
    assert rows[1] == {"step": 2, "rank": 0, "loss": None} and rows[31]["loss"] == 2.5
    assert rule.tests[1].tables == {"train_steps": [{"step": 1, "loss": 2.5}]}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1 2.5 _", [1, 2.5, None]),
        ("5x3", [5, 5, 5]),
        ("1+2x4", [1, 3, 5, 7]),
        ("9-2x3", [9, 7, 5]),
        ("-1+0.5x3", [-1, -0.5, 0.0]),
        ("_x2 1e3", [None, None, 1000.0]),
        ("HcclAllReduce", ["HcclAllReduce"]),
        ("true 0x1f 007", [True, 31, "007"]),
    ],
)
def test_columns_written_short(text: str, values: list[object]) -> None:
    assert expand(text) == values


@pytest.mark.parametrize("text", ["", "   ", "1x999999"])
def test_columns_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        expand(text)


@pytest.mark.parametrize(
    ("pattern", "optional"),
    [
        (r"(?P<a>\d+) (?P<b>x)", set()),
        (r"(?P<a>\d+)(?: (?P<b>x))?(?P<c>y)*(?P<d>z){0,3}(?P<e>w)+", {"b", "c", "d"}),
        (r"(?:(?P<a>x)|(?P<b>y))(?P<c>z)", {"a", "b"}),
        (r"(?P<a>x)|y", {"a"}),
        (r"(?P<a>x|y)", set()),
        (r"(?P<a>[)?|(]x)\)?(?P<b>[]|]\)|)", set()),
        (r"(?P<a>[^]|]+)(?P<b>[\]?|]+)", set()),
        (r"(?!(?P<a>x))(?P<b>y)", {"a"}),
        (r"((?P<a>x)(?:(?P<b>y)){,2})?", {"a", "b"}),
    ],
)
def test_groups_that_may_be_unset(pattern: str, optional: set[str]) -> None:
    assert optional_groups(pattern) == optional


def test_levels_are_those_of_the_parsers() -> None:
    assert set(LEVELS) == set(LEVEL_RANK)


# -- faults


def test_all_faults_of_a_file_come_at_once_with_their_places(tmp_path: Path) -> None:
    text = dedent(
        """\
        code: abc1
        name: Peer_Silent
        category: hccl-timout
        severity: fatal
        confidence: sure
        trust: specific
        fatal: yes
        titel: {en: "x", zh: "等"}
        title: {en: "Waits for {peers} and {extra}", zh: "waits"}
        why: {en: ""}
        needs: [log, logs]
        detect:
          signature:
            all: [oops]
            any: ["long enough", "tiny"]
            regex: '(?P<peer>\\d+)(?: on (?P<extra>x))?'
            regexp: 'x'
            where: {level: [WARN], modul: [HCCL]}
            near: {lines: 9000}
            types: {pear: int, peer: integer}
            count: many
            within: 10
            per: [ranks]
        severity: error
        remedies:
          - kind: envvar
            text: {en: "x", zh: "调"}
          - kind: hardware
            text: {en: "x", zh: "换"}
            change: {key: A, to: [1]}
          - kind: env
            text: {en: "[[never]]", zh: "[[从不"}
            change: {key: 1-A, to: "1"}
            disposition: maybe
        references: [example.org]
        tests:
          - name: fires
            log: "x"
            expect: {findings: one}
        """
    )
    keys = (
        "code, name, category, severity, confidence, title, why, detect, tests, trust, fatal, fallback, needs, params"
    )
    assert faults_of(tmp_path, text) == [
        "1:7: code 'abc1' must be 3 capital letters and 3 digits, like HCC104",
        "2:7: name 'Peer_Silent' must be kebab-case: small letters and digits joined by single -",
        f"3:11: unknown category 'hccl-timout'; allowed: {', '.join(CATEGORIES)}; did you mean 'hccl-timeout'?",
        "4:11: unknown severity 'fatal'; allowed: critical, error, warning, info",
        "5:13: unknown confidence 'sure'; allowed: high, medium, low",
        "7:8: fatal must be true or false, found the text 'yes'",
        f"8:1: unknown key 'titel' in the rule; allowed: {keys}, caused_by, remedies, collect, references; "
        "did you mean 'title'?",
        "9:13: unknown name 'peers' in braces; allowed: device, extra, node, peer, pid, process, rank, ranks, devices, "
        "nodes, steps, first, last, count, file, line; did you mean 'peer'?",
        "9:13: {extra} may have no value; put the words around it in [[ ]]",
        "9:50: title.zh holds no Chinese character",
        "9:50: title.zh lacks {extra}, {peers}, which title.en names",
        "10:6: why lacks zh",
        "10:11: why.en is empty",
        "11:14: unknown table 'logs' in needs; allowed: log, train_steps; did you mean 'log'?",
        "14:5: signature needs a literal of at least 5 characters for the scan: one in all, or each of any, "
        "found 'tiny' in any",
        "17:5: unknown key 'regexp' in signature; allowed: all, any, regex, unless, where, near, types, within, "
        "nocase, count, per, then, cleared_by; did you mean 'regex'?",
        f"18:21: unknown level 'WARN'; allowed: {', '.join(LEVELS)}; did you mean 'WARNING'?",
        "18:28: unknown key 'modul' in where; allowed: level, module, kind; did you mean 'module'?",
        "19:11: near needs at least one of: any, all, regex, unless",
        "19:19: near.lines must be a whole number from 1 to 500, found the number 9000",
        "20:13: unknown capture 'pear'; allowed: extra, peer; did you mean 'peer'?",
        "20:30: unknown type 'integer'; allowed: int, float, hex, str; did you mean 'int'?",
        "21:12: count must be like \">= 3\", found the text 'many'",
        "22:13: within must be a time like 60s, 5m or 2h, found the number 10",
        "23:11: unknown column 'ranks' in per; allowed: rank, device, node, pid, file; did you mean 'rank'?",
        "24:1: key 'severity' stands twice; first in line 4",
        "26:11: unknown remedy kind 'envvar'; allowed: flag, env, config, command, code, hardware, collect; "
        "did you mean 'env'?",
        "30:13: a remedy of kind hardware has no change; allowed for: flag, env, config",
        "30:26: change.to must be a text, found a list",
        "32:16: the part [[never]] holds no {name}, so it would never be dropped",
        "32:33: [[ and ]] do not pair up, or stand in one another",
        "33:19: environment variable '1-A' must be letters, digits and _",
        "34:18: unknown disposition 'maybe'; allowed: safe, review, risky",
        "35:14: reference 'example.org' must be a web address, https://...",
        "39:24: findings must be a whole number of at least 0, found the text 'one'",
    ]


@pytest.mark.parametrize(
    ("detect", "expected"),
    [
        ("{signature: {all: [abcd]}}", ["8:21: signature needs a literal of at least 5 characters for the scan: "]),
        ("{signature: {regex: abcde}}", ["8:21: signature needs a literal of at least 5 characters for the scan: "]),
        ("{signature: {all: []}}", ["8:21: signature needs a literal", "8:27: signature.all is an empty list"]),
        ("{signature: []}", ["8:21: signature is an empty list"]),
        ("{signature: x}", ["8:21: signature must be a mapping, found the text 'x'"]),
        ("{signature: {all: abcde}}", ["8:21: signature needs", "8:27: signature.all must be a list, found the text"]),
        (
            "{signature: {any: [abcde, 12345]}}",
            ["8:35: an element of signature.any must be a text, found the number 12345; quote it"],
        ),
        ('{signature: {all: ["ab\\ncde"]}}', ["8:28: a literal in signature.all must be one line; use regex with"]),
        ("{signature: {all: [abcde, abcde]}}", ["8:35: 'abcde' stands twice in signature.all"]),
        ("{signature: {all: [abcde], regex: '('}}", ["8:43: signature.regex is not a regular expression: missing )"]),
        (
            "{signature: {all: [abcde], regex: '[[a]b]'}}",
            ["8:43: signature.regex is not a regular expression: Possible nested set"],
        ),
        (
            "{signature: {all: [abcde], regex: '(?P<a-b>x)'}}",
            ["8:43: signature.regex is not a regular expression: bad character in group name"],
        ),
        ("{signature: {all: [abcde], regex: 'x*'}}", ["8:43: signature.regex matches the empty text, so it matches"]),
        (
            "{signature: {all: [abcde], regex: '(?P<line>x)'}}",
            ["8:43: capture 'line' hides the built-in {line}; call it otherwise"],
        ),
        (
            "{signature: {all: [abcde], types: {a: int}}}",
            ["8:44: unknown capture 'a'; allowed: none, no regex has a named group"],
        ),
        (
            "{signature: {all: [abcde], regex: 'a(?P<rank>x)', types: {rank: str}}}",
            ["8:73: capture rank is a number of the finding's scope; allowed: int, hex"],
        ),
        ("{signature: {all: [abcde], within: 60s}}", ["8:44: within needs a count of at least 2"]),
        ("{signature: {all: [abcde], count: '>= 0'}}", ["8:43: count must be like \">= 3\", found the text '>= 0'"]),
        (
            "{signature: {all: [abcde], count: 2, within: 0s}}",
            ["8:54: within must be a time like 60s, 5m or 2h, found"],
        ),
        ("{signature: {all: [abcde], then: {any: [x]}}}", ["8:42: then needs a literal of at least 5 characters"]),
        (
            "{signature: {all: [abcde], then: {any: [vwxyz], count: 2}}}",
            ["8:57: unknown key 'count' in then; allowed:"],
        ),
        ("{signature: {all: [abcde], near: {any: [x], lines: 0}}}", ["8:60: near.lines must be a whole number from 1"]),
        ("{}", ["8:9: detect must have exactly one of: signature, query, python"]),
        ("{query: SELECT 1, python: x}", ["8:9: detect must have exactly one of: signature, query, python"]),
        ("{sql: SELECT 1}", ["8:10: unknown key 'sql' in detect; allowed: signature, query, python"]),
        ("{query: DROP TABLE log}", ["8:17: query must be one SELECT or WITH statement, found 'DROP'"]),
        ("{query: SELECT 1; SELECT 2}", ["8:17: query must be one statement; found a second one after ;"]),
        ("{query: -- nothing}", ["8:17: query must be one SELECT or WITH statement, found nothing"]),
        ("{query: SELECT $a}", ["8:17: unknown parameter $a in query; allowed: none, the rule has no params"]),
        ("{python: os.system}", ["8:18: python must be npudiag.<module>:<function>, found 'os.system'"]),
        ("{python: 'os:system'}", ["8:18: python must be npudiag.<module>:<function>, found 'os:system'"]),
        ("{python: 'npudiag.nowhere:find'}", ["8:18: no module npudiag.nowhere"]),
        ("{python: 'npudiag.errors:find'}", ["8:18: module npudiag.errors has no function find"]),
    ],
)
def test_faults_of_detectors(tmp_path: Path, detect: str, expected: list[str]) -> None:
    found = faults_of(tmp_path, plain_rule(detect))
    assert len(found) == len(expected), found
    assert all(line.startswith(start) for line, start in zip(found, expected, strict=True)), found


@pytest.mark.parametrize(
    "detect",
    [
        "{signature: {all: [abcde]}}",
        "{signature: {all: [abc, abcde]}}",
        "{signature: {any: [abcde, fghij]}}",
        "{signature: {any: [显存不足]}}",
        "{signature: {all: [abcde], any: [x]}}",
        "{signature: {all: [abcde], count: 3, within: 0.5h}}",
        "{query: (select 1) union select 2;}",
        "{python: 'npudiag.engine.load:load_pack'}",
    ],
)
def test_detectors_that_are_accepted(tmp_path: Path, detect: str) -> None:
    put(tmp_path, plain_rule(detect))
    assert len(load_pack([source(tmp_path)], tables=TABLES).rules) == 1


def test_python_is_for_the_shipped_pack_only(tmp_path: Path) -> None:
    text = plain_rule("{python: 'npudiag.engine.load:load_pack'}")
    assert faults_of(tmp_path, text, "command-line") == [
        "8:18: python is only for the rules that npudiag ships; use signature or query"
    ]


def test_params_are_used_and_declared(tmp_path: Path) -> None:
    text = plain_rule("{query: SELECT $leest}", more="params: {least: 1, 'a b': 2, nested: {x: 1}}\n")
    assert faults_of(tmp_path, text) == [
        "8:17: unknown parameter $leest in query; allowed: least, a b, nested; did you mean 'least'?",
        "8:17: parameter least is not used in query as $least",
        "8:17: parameter a b is not used in query as $a b",
        "8:17: parameter nested is not used in query as $nested",
        "9:20: parameter 'a b' must be an identifier, like min_points",
        "9:38: parameter nested must be a number, a text, a truth value or a list of those",
    ]
    text = plain_rule("{signature: {all: [abcde]}}", more="params: {least: 1}\nneeds: [train_steps]\n")
    assert faults_of(tmp_path, text) == [
        "8:21: a signature reads table log; add it to needs or leave needs out",
        "8:21: a signature takes no params; they are for query and python",
    ]


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        (
            "tests: []\n",
            ["8:8: tests lack a positive one (expect.findings of 1 or more)", "8:8: tests lack a near-miss"],
        ),
        ("tests: [{name: a, log: x, expect: {findings: 1}}]\n", ["8:8: tests lack a near-miss (expect.findings: 0)"]),
        ("tests: [{name: a, log: x, expect: {findings: 0}}]\n", ["8:8: tests lack a positive one"]),
        (
            "tests:\n- {name: a, log: x, expect: {findings: 1}}\n- {name: a, log: x, expect: {findings: 0}}\n",
            ["10:3: a second test called 'a'; first in line 9"],
        ),
        (
            "tests:\n- {name: a, expect: {findings: 1}}\n- {nam: b, log: x, files: {}, expect: {finding: 0}}\n",
            [
                "9:3: a test needs log, files or tables, unless it expects skip",
                "10:3: a test lacks name",
                "10:4: unknown key 'nam' in a test; allowed: name, expect, log, files, tables; did you mean 'name'?",
                "10:27: a test has log or files, not both",
                "10:39: expect lacks findings",
                "10:40: unknown key 'finding' in expect; allowed: findings, captures, ranks, devices, nodes, also; did",
            ],
        ),
        (
            "tests:\n- {name: a, log: x, expect: skipped}\n- {name: b, log: x, expect: {findings: -1}}\n",
            [
                "9:29: expect must be skip or a mapping, found the text 'skipped'",
                "10:40: findings must be a whole number of at least 0, found the number -1",
            ],
        ),
        (
            "tests:\n- {name: a, files: {/etc/x: a, ../x: b, 'a\\b': c, d: 1}, expect: {findings: 1}}\n"
            "- {name: b, log: x, expect: {findings: 0, ranks: [1], captures: {pear: 1}}}\n",
            [
                "9:21: '/etc/x' must be a relative path with / and without ..",
                "9:32: '../x' must be a relative path with / and without ..",
                "9:41: 'a\\\\b' must be a relative path with / and without ..",
                "10:50: expect.ranks needs findings of at least 1",
                "10:65: expect.captures needs findings of at least 1",
                "10:66: unknown capture 'pear'; allowed: device, peer; did you mean 'peer'?",
            ],
        ),
        (
            "tests:\n- {name: a, tables: {logs: [], log: [1], train_steps: {step: 1x3, loss: 1 2}}, expect: skip}\n",
            [
                "9:22: unknown table 'logs'; allowed: log, train_steps; did you mean 'log'?",
                "9:38: a row must be a mapping, found the number 1",
                "9:55: column loss of train_steps has 2 values, the longest column 3",
            ],
        ),
    ],
)
def test_faults_of_tests(tmp_path: Path, tests: str, expected: list[str]) -> None:
    text = rule_text(detect="", tests=tests, more="") + DETECT
    found = faults_of(tmp_path, text)
    assert len(found) == len(expected), found
    assert all(line.startswith(start) for line, start in zip(found, expected, strict=True)), found


def test_rows_of_tests_have_the_columns_that_the_tables_have(tmp_path: Path) -> None:
    tests = TESTS + '  - {name: rows, tables: {log: [{textt: "x"}]}, expect: {findings: 0}}\n'
    put(tmp_path, rule_text(tests=tests))
    with pytest.raises(RuleError) as caught:
        load_pack([source(tmp_path)], use_cache=False)
    [fault] = caught.value.faults
    assert (fault.line, fault.column) == (21, 34)
    assert fault.message.startswith("unknown column 'textt' in log; allowed: file, line, ")
    assert fault.message.endswith("; did you mean 'text'?")


def test_a_capture_that_only_some_alternatives_bind_is_optional(tmp_path: Path) -> None:
    text = rule_text(
        title='{en: "{a} {b}[[ {c}]] {d}", zh: "等 {a}[[ {b} {c}]] {d}"}',
        detect="detect:\n  signature:\n"
        "  - {any: [abcde], regex: '(?P<a>x)(?P<b>y)(?P<c>z)', near: {regex: '(?P<d>y)'}}\n"
        "  - {any: [fghij], regex: '(?P<a>x)', then: {any: [vwxyz], regex: '(?P<d>y)'}}\n",
    )
    assert faults_of(tmp_path, text) == ["6:13: {b} may have no value; put the words around it in [[ ]]"]


def test_names_of_the_scope_may_have_no_value(tmp_path: Path) -> None:
    detect = "detect: {signature: {any: [abcde]}}\n"
    title = '{en: "{count} in {file}:{line} ${HOME}[[ on {ranks}]][[ by {process}]]", zh: "等"}'
    assert faults_of(tmp_path, rule_text(title=title, detect=detect)) == [
        "6:85: title.zh lacks {count}, {file}, {line}, {process}, {ranks}, which title.en names"
    ]
    title = '{en: "on {ranks} by {process}", zh: "等 {ranks} {process}"}'
    assert faults_of(tmp_path, rule_text(title=title, detect=detect)) == [
        f"6:{column}: {{{name}}} may have no value; put the words around it in [[ ]]"
        for column in (13, 44)
        for name in ("ranks", "process")
    ]


# -- files that are not even rules


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", ["1:1: the file is empty"]),
        (b"# only a note\n", ["1:1: the file is empty"]),
        (b"just text", ["1:1: the rule must be a mapping, found the text 'just text'"]),
        (b"- 1\n", ["1:1: the rule must be a mapping, found a list"]),
        (b"code: 'x\n\n", ["3:1: not valid YAML: found unexpected end of stream"]),
        (b"code: [a\nname: b\n", ["2:5: not valid YAML: did not find expected ',' or ']'"]),
        (b"code: A\n\tname: b\n", ["2:1: not valid YAML: found a tab character that violates indentation"]),
        ("code: A\nname: é\n".encode("latin-1"), ["2:7: not UTF-8; save the file as UTF-8"]),
        (b"code: A\nname: \x07\n", ["2:7: a control character; write it as an escape in quotes"]),
        (b"x" * ((1 << 20) + 1), ["0:0: 1,048,577 bytes; a rule file has at most 1,048,576"]),
        (b"[" * 100, ["1:17: nested more than 16 levels deep"]),
        (b"a: " + b"{a: " * 100, ["1:64: nested more than 16 levels deep"]),
    ],
)
def test_files_that_are_no_rules(tmp_path: Path, data: bytes, expected: list[str]) -> None:
    assert faults_of(tmp_path, data) == expected


@pytest.mark.parametrize("opening", [b"[", b"{a: ", b"- ", b"? "])
def test_a_file_nested_without_end_is_refused(tmp_path: Path, opening: bytes) -> None:
    found = faults_of(tmp_path, opening * 50_000)
    # The parser's own limit or ours, whichever comes first.
    assert len(found) < 50 and any("nest" in fault for fault in found)


def test_an_alias_bomb_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]" for n in range(1, 30)]
    found = faults_of(tmp_path, "\n".join(lines) + "\n")
    assert found[0].startswith("1:1: the rule lacks code, name") or found[0].startswith("1:1: ")
    assert "1:5: anchor &a0 is not accepted; write the value out where it is needed" in found
    assert "2:10: alias *a0 is not accepted; write the value out" in found
    assert sum("alias" in line for line in found) == 29 * 8


def test_tags_anchors_and_further_documents_are_refused(tmp_path: Path) -> None:
    text = rule_text().replace("severity: critical", "severity: !!python/name:os.system critical")
    text = text.replace("confidence: high", "confidence: &c high\n<<: *c")
    assert faults_of(tmp_path, text + "---\ncode: X\n") == [
        "4:11: tag tag:yaml.org,2002:python/name:os.system is not accepted; write a plain or quoted value",
        "5:13: anchor &c is not accepted; write the value out where it is needed",
        "6:1: unknown key '<<' in the rule; allowed: code, name, category, severity, confidence, title, why, detect, "
        "tests, trust, fatal, fallback, needs, params, caused_by, remedies, collect, references",
        "6:5: alias *c is not accepted; write the value out",
        "23:1: a second document; a file holds exactly one",
    ]


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    put(tmp_path / "p", "").write_bytes(b"\xef\xbb\xbf" + rule_text().replace("\n", "\r\n").encode())
    assert load_pack([source(tmp_path / "p")]).rules[0].name == "peer-silent"


# -- several files and packs


def test_names_codes_and_file_names_are_checked_over_the_whole_set(tmp_path: Path) -> None:
    put(tmp_path / "p", rule_text("ABC001", "one", more="caused_by: [two, too, one]\n"), "ABC001-one.yaml")
    put(tmp_path / "p", rule_text("ABC002", "two"), "ABC002-zwei.yaml")
    put(tmp_path / "p", rule_text("ABC001", "three"), "ABC001-three.yaml")
    put(tmp_path / "p", rule_text("ABC004", "one"), "ABC004-one.yaml")
    put(tmp_path / "p", rule_text("ABC005", "five"), "ABC005-five.yml")
    put(tmp_path / "p", "not: a rule", "ABC006-six.yaml", "codes")
    put(tmp_path / "p", "not a rule", "notes.txt")
    put(tmp_path / "p", "not: a rule", ".hidden.yaml")
    assert [line.removeprefix(f"comm{os.sep}") for line in faults(source(tmp_path / "p"))] == [
        "ABC001-one.yaml:13:18: no rule is called 'too'; did you mean 'two'?",
        "ABC001-one.yaml:13:23: caused_by names the rule itself",
        "ABC001-three.yaml:1:7: code ABC001 is taken by comm/ABC001-one.yaml",
        "ABC002-zwei.yaml:1:7: the file must be called ABC002-two.yaml after its code and name",
        "ABC004-one.yaml:2:7: a second rule called 'one'; the first is comm/ABC001-one.yaml",
        "ABC005-five.yml:1:7: the file must be called ABC005-five.yaml after its code and name",
    ]


def test_a_faulty_rule_may_still_be_named_by_others(tmp_path: Path) -> None:
    put(tmp_path / "p", rule_text("ABC001", "one", more="caused_by: [two, three]\n"), "ABC001-one.yaml")
    put(tmp_path / "p", rule_text("ABC002", "two", more="x: 1\n"), "ABC002-two.yaml")
    put(tmp_path / "p", "name: [", "ABC003-three.yaml")
    found = faults(source(tmp_path / "p"))
    assert [line.partition(":")[0] for line in found] == ["comm/ABC002-two.yaml", "comm/ABC003-three.yaml"]


def test_later_sources_override_rules_of_the_same_name(tmp_path: Path) -> None:
    def severity_rule(folder: str, severity: str, code: str = "ABC001") -> None:
        text = rule_text(code).replace("severity: critical", f"severity: {severity}")
        put(tmp_path / folder, text, f"{code}-peer-silent.yaml")

    severity_rule("shipped", "critical")
    put(tmp_path / "shipped", rule_text("ABC002", "other"), "ABC002-other.yaml")
    severity_rule("installed", "error", "ACM001")
    severity_rule("config", "warning")
    severity_rule("line", "info")
    sources = [
        source(tmp_path / "line", "command-line"),
        source(tmp_path / "config", "config"),
        source(tmp_path / "installed", "installed", "ACM"),
        source(tmp_path / "shipped"),
    ]
    for count, expected in ((4, "info"), (3, "warning"), (2, "error"), (1, "critical")):
        loaded = load_pack(sources[-count:])
        assert len(loaded.rules) == 2
        assert loaded.by_name["peer-silent"].severity == expected
    assert load_pack(sources[-2:]).by_name["peer-silent"].code == "ACM001"


def test_foreign_rules_keep_to_their_own_prefix(tmp_path: Path) -> None:
    put(tmp_path / "shipped", rule_text())
    put(tmp_path / "own", rule_text("ABC900", "mine"), "ABC900-mine.yaml")
    put(tmp_path / "own", rule_text("OWN001", "mine-too"), "OWN001-mine-too.yaml")
    put(tmp_path / "acme", rule_text("OWN002", "acme-rule"), "OWN002-acme-rule.yaml")
    found = faults(
        source(tmp_path / "shipped"),
        source(tmp_path / "own", "command-line"),
        source(tmp_path / "acme", "installed", "ACM"),
    )
    assert found == [
        "comm/OWN002-acme-rule.yaml:1:7: code OWN002 must begin with ACM, the prefix of this pack",
        f"comm/ABC900-mine.yaml:1:7: prefix ABC belongs to {tmp_path / 'shipped'}; use other letters, "
        "or the name of one of its rules to replace that rule",
        f"comm/OWN001-mine-too.yaml:1:7: prefix OWN belongs to {tmp_path / 'acme'}; use other letters, "
        "or the name of one of its rules to replace that rule",
    ]


def test_folders_that_are_missing_or_hold_no_rules(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RuleError) as caught:
        load_pack([source(tmp_path / "empty", "config"), source(tmp_path / "gone", "command-line")])
    assert [fault.message for fault in caught.value.faults] == [
        "no rule files (<CODE>-<name>.yaml) in this folder",
        "cannot read this rule folder: No such file or directory",
    ]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    put(tmp_path / "p", rule_text()).chmod(0)
    assert faults(source(tmp_path / "p")) == [
        "comm/ABC001-peer-silent.yaml:0:0: cannot read this file: Permission denied"
    ]


def test_installed_packs_are_found_by_their_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "acme_rules", rule_text("ACM001"), "ACM001-peer-silent.yaml", "comm")
    (tmp_path / "acme_rules" / "__init__.py").write_text("raise SystemExit('a pack is data; it is not imported')\n")
    info = tmp_path / "acme_rules-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rules\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[npudiag.rules]\nACM = acme_rules\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins._all.cache_clear()
    [installed] = load.installed_packs()
    assert installed == PackSource(tmp_path / "acme_rules", "ACM", "installed")
    assert [rule.code for rule in load_pack([installed]).rules] == ["ACM001"]
    sources = load.pack_sources([Path("c")], [Path("b")])
    assert [each.origin for each in sources] == ["shipped", "installed", "config", "command-line"]
    (info / "entry_points.txt").write_text("[npudiag.rules]\nacme = acme_rules\nBAD = acme_no_such_package\n")
    plugins._all.cache_clear()
    with pytest.raises(RuleError) as caught:
        load.installed_packs()
    plugins._all.cache_clear()
    assert len(caught.value.faults) == 2


# -- the cache


def count_reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return a function that tells how many packs were built from YAML."""
    calls: list[int] = []
    build = load._build

    def counting(*args: object) -> RulePack:
        calls.append(1)
        return build(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(load, "_build", counting)
    return lambda: len(calls)


def test_a_pack_that_did_not_change_comes_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    built = count_reads(monkeypatch)
    path = put(tmp_path / "p", rule_text())
    fresh = load_pack([source(tmp_path / "p")])
    with_tests = load_pack([source(tmp_path / "p")], with_tests=True)
    assert built() == 1
    assert load_pack([source(tmp_path / "p")]) == fresh
    assert fresh.rules[0].tests == () and len(with_tests.rules[0].tests) == 3
    assert with_tests.version == fresh.version and with_tests.files == fresh.files
    assert with_tests == load_pack([source(tmp_path / "p")], with_tests=True, use_cache=False)
    assert built() == 2
    assert cache.stat().st_mode & 0o777 == 0o700
    assert all(file.stat().st_mode & 0o077 == 0 for file in cache.iterdir())
    path.write_text(rule_text().replace("It waits.", "It waits!"))
    changed = load_pack([source(tmp_path / "p")])
    assert built() == 3
    assert changed.rules[0].why.en == "It waits!" and changed.version != fresh.version
    put(tmp_path / "p", rule_text("ABC002", "second"), "ABC002-second.yaml")
    assert len(load_pack([source(tmp_path / "p")]).rules) == 2
    assert built() == 4


def test_the_version_is_of_the_contents_alone(tmp_path: Path) -> None:
    put(tmp_path / "a", rule_text())
    put(tmp_path / "b", rule_text())
    versions = {load_pack([source(tmp_path / name)], use_cache=False).version for name in "ab"}
    assert len(versions) == 1
    [version] = versions
    assert len(version) == 12 and int(version, 16) >= 0


@pytest.mark.parametrize("damage", [b"", b"{}", b"\x00" * 4000, None])
def test_a_damaged_cache_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path, damage: bytes | None
) -> None:
    built = count_reads(monkeypatch)
    put(tmp_path / "p", rule_text())
    fresh = load_pack([source(tmp_path / "p")])
    for file in cache.glob("*.json"):
        data = file.read_bytes()
        file.write_bytes(data.replace(b"silent", b"SILENT") if damage is None else damage)
    assert load_pack([source(tmp_path / "p")]) == fresh
    assert built() == 2
    assert load_pack([source(tmp_path / "p")]) == fresh
    assert built() == 2


def test_a_cache_that_others_may_write_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    built = count_reads(monkeypatch)
    put(tmp_path / "p", rule_text())
    load_pack([source(tmp_path / "p")])
    for file in cache.glob("*.json"):
        file.chmod(0o666)
    load_pack([source(tmp_path / "p")])
    assert built() == 2
    load_pack([source(tmp_path / "p")])
    assert built() == 2
    for file in list(cache.glob("*.json")):
        file.rename(tmp_path / file.name)
        file.symlink_to(tmp_path / file.name)
    load_pack([source(tmp_path / "p")])
    assert built() == 3
    monkeypatch.setattr(os, "geteuid", lambda: 4242, raising=False)
    load_pack([source(tmp_path / "p")])
    assert built() == 4


@pytest.mark.parametrize("home", ["file", "missing-home", "relative"])
def test_without_a_cache_folder_all_works_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    put(tmp_path / "p", rule_text())
    monkeypatch.chdir(tmp_path)
    if home == "file":
        (tmp_path / "file").write_text("in the way")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", "relative/cache" if home == "relative" else "")
        monkeypatch.setattr("os.path.expanduser", lambda _: "~")
        assert load.cache.folder() is None
    assert len(load_pack([source(tmp_path / "p")]).rules) == 1
    assert len(load_pack([source(tmp_path / "p")], with_tests=True).rules[0].tests) == 3
    assert not (tmp_path / "relative").exists()


def test_a_faulty_pack_is_not_cached_and_old_packs_go(tmp_path: Path, cache: Path) -> None:
    put(tmp_path / "p", rule_text(more="x: 1\n"))
    with pytest.raises(RuleError):
        load_pack([source(tmp_path / "p")])
    assert not cache.exists()
    for number in range(12):
        put(tmp_path / "p", rule_text().replace("It waits.", f"It waits {number}."))
        load_pack([source(tmp_path / "p")])
    assert len(list(cache.glob("rules-*.json"))) == len(list(cache.glob("tests-*.json"))) == 8
    assert not list(cache.glob(".new-*"))


def test_the_cached_path_imports_no_yaml(tmp_path: Path) -> None:
    put(tmp_path / "p", rule_text())
    code = (
        "import sys; from pathlib import Path; from npudiag.engine.load import PackSource, load_pack;"
        f"load_pack([PackSource(Path({str(tmp_path / 'p')!r}), None, 'shipped')]);"
        "print(sorted({'yaml', 'difflib', 'pandas', 'duckdb', 'npudiag.engine.validate'} & set(sys.modules)))"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert "yaml" in runs[0].stdout
    assert runs[1].stdout.strip() == "[]"


def test_250_rules_come_from_the_cache_in_15_ms(tmp_path: Path) -> None:
    for number in range(250):
        name = f"peer-silent-{number}"
        put(tmp_path / "p", rule_text(f"ABC{number:03}", name), f"ABC{number:03}-{name}.yaml", f"area-{number % 12}")
    assert len(load_pack([source(tmp_path / "p")]).rules) == 250

    def seconds() -> float:
        start = time.perf_counter()
        load_pack([source(tmp_path / "p")])
        return time.perf_counter() - start

    # The quickest of several: a busy machine is no fault of the code.
    assert min(seconds() for _ in range(10)) < 0.015
