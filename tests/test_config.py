"""Finding, reading and checking the configuration."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from npudiag.config import Config, Suppression, check_against, load_config, selects
from npudiag.engine.model import Rule, Text
from npudiag.errors import ConfigError

TEXT = """\
# A configuration with all there is.
lang = "zh"
rules = ["my-rules", "/opt/rules"]
select = ["HCC", "device-lost"]
extend-select = ["MEM1"]
ignore = ["HCC104"]
fail-on = "warning"
strict = true
workers = 2
memory_mb = 2048
baseline = "ci/baseline.json"
html = "out/report.html"
json = "r.json"
sarif = "r.sarif"
junit = "r.xml"
markdown = "r.md"

[params.slow-rank]
threshold = 0.3
names = ["a", "b"]

[[suppress]]
rule = "HCC1"
match = "rank 7"
ranks = "0-7, 12"
reason = "known"
until = 2027-03-01

[[suppress]]
rule = "loss-spike"
reason = "warm-up"
ranks = [3, 5]
until = "2027-03-01"
"""


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NPUDIAG_CONFIG", raising=False)


def write(path: Path, text: str = 'lang = "zh"\n') -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def faults(tmp_path: Path, text: str, name: str = "npudiag.toml") -> list[str]:
    path = write(tmp_path / name, text)
    with pytest.raises(ConfigError) as caught:
        load_config(explicit=path)
    assert caught.value.exit_code == 2
    first, *lines = caught.value.message.split("\n")
    assert first == f"{len(lines)} fault(s) in configuration {path}"
    return [line.removeprefix(f"{path}:") for line in lines]


# -- reading


def test_everything_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "npudiag.toml", TEXT)
    assert load_config(start=tmp_path) == Config(
        path=str(path),
        lang="zh",
        rules=(tmp_path / "my-rules", Path("/opt/rules")),
        select=("HCC", "device-lost"),
        extend_select=("MEM1",),
        ignore=("HCC104",),
        fail_on="warning",
        strict=True,
        workers=2,
        memory_mb=2048,
        baseline=tmp_path / "ci/baseline.json",
        html=Path("out/report.html"),
        json=Path("r.json"),
        sarif=Path("r.sarif"),
        junit=Path("r.xml"),
        markdown=Path("r.md"),
        params={"slow-rank": {"threshold": 0.3, "names": ["a", "b"]}},
        suppress=(
            Suppression(
                rule="HCC1",
                match="rank 7",
                ranks=((0, 7), (12, 12)),
                reason="known",
                until=datetime.date(2027, 3, 1),
                line=22,
            ),
            Suppression(
                rule="loss-spike", reason="warm-up", ranks=((3, 3), (5, 5)), until=datetime.date(2027, 3, 1), line=29
            ),
        ),
    )


def test_selections() -> None:
    config = Config(select=("HCC1", "device-lost"), extend_select=("MEM",), ignore=("HCC104", "MEM00"))
    assert config.wants("HCC103", "x") and config.wants("DEV001", "device-lost") and config.wants("MEM123", "x")
    assert not config.wants("HCC104", "x") and not config.wants("HCC204", "x") and not config.wants("MEM001", "x")
    assert Config(extend_select=("MEM",)).wants("HCC104", "x")
    assert not Config(ignore=("x",)).wants("HCC104", "x")
    assert not selects("device", "DEV001", "device-lost")


def test_suppressions_cover_ranks_and_expire() -> None:
    suppression = Suppression(rule="HCC", reason="x", ranks=((0, 7), (12, 12)), until=datetime.date(2027, 3, 1))
    assert suppression.names("HCC104", "x") and not suppression.names("MEM104", "x")
    assert suppression.covers([0, 7, 12])
    assert not suppression.covers([0, 8]) and not suppression.covers([])
    assert Suppression(rule="HCC", reason="x").covers([])
    assert not suppression.expired(datetime.date(2027, 3, 1))
    assert suppression.expired(datetime.date(2027, 3, 2))
    assert not Suppression(rule="HCC", reason="x").expired(datetime.date(9999, 1, 1))


# -- finding


def test_the_closest_file_wins_and_the_search_ends_at_the_repository(tmp_path: Path) -> None:
    repo = tmp_path / "outer" / "repo"
    deep = repo / "a" / "b"
    deep.mkdir(parents=True)
    outer = write(tmp_path / "outer" / "npudiag.toml")
    assert load_config(start=deep).path == str(outer)
    (repo / ".git").mkdir()
    assert load_config(start=deep) == Config()
    pyproject = write(repo / "pyproject.toml", "[project]\nname = 'x'\n")
    assert load_config(start=deep) == Config()
    pyproject.write_text('[project]\nname = "x"\n[tool.npudiag]\nlang = "en"\n')
    assert load_config(start=deep).path == str(pyproject)
    own = write(repo / "npudiag.toml")
    assert load_config(start=deep).path == str(own)
    near = write(deep / "pyproject.toml", "[tool.npudiag.params.x]\ny = 1\n")
    assert load_config(start=deep).params == {"x": {"y": 1}}
    assert load_config(start=deep).path == str(near)


def test_the_working_directory_is_where_the_search_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "npudiag.toml")
    monkeypatch.chdir(tmp_path)
    assert load_config().path == str(path)


def test_options_and_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "npudiag.toml", "workers = 1\n")
    named = write(tmp_path / "other" / "named.toml", "workers = 2\n")
    given = write(tmp_path / "other" / "given.toml", "workers = 3\n")
    assert load_config(start=tmp_path).workers == 1
    assert load_config(start=tmp_path, environ={"NPUDIAG_CONFIG": str(named)}).workers == 2
    assert load_config(start=tmp_path, environ={"NPUDIAG_CONFIG": str(named)}, explicit=given).workers == 3
    assert load_config(start=tmp_path, environ={"NPUDIAG_CONFIG": str(named)}, disabled=True) == Config()
    assert load_config(start=tmp_path, environ={"NPUDIAG_CONFIG": ""}).workers == 1
    monkeypatch.setenv("NPUDIAG_CONFIG", str(named))
    assert load_config(start=tmp_path).workers == 2


def test_a_file_that_is_named_must_exist(tmp_path: Path) -> None:
    for arguments in ({"explicit": tmp_path / "no.toml"}, {"environ": {"NPUDIAG_CONFIG": str(tmp_path / "no.toml")}}):
        with pytest.raises(ConfigError, match=r"cannot read configuration .*no\.toml: No such file or directory"):
            load_config(**arguments)


# -- never from what is analysed


def test_a_file_inside_the_analysed_folder_is_passed_over_with_a_note(tmp_path: Path) -> None:
    outer = write(tmp_path / "npudiag.toml", "workers = 1\n")
    planted = write(tmp_path / "bundle" / "npudiag.toml", 'ignore = ["HCC"]\n')
    (tmp_path / "bundle" / "worker-0").mkdir()
    for start in (tmp_path / "bundle", tmp_path / "bundle" / "worker-0"):
        config = load_config(start=start, analysed=[tmp_path / "bundle"])
        assert (config.path, config.workers, config.ignore) == (str(outer), 1, ())
        assert config.notes == (
            f"{planted} lies inside the analysed input and was not read; name it with --config to use it",
        )
    assert load_config(start=tmp_path / "bundle", analysed=[tmp_path]).path == ""
    assert len(load_config(start=tmp_path / "bundle", analysed=[tmp_path]).notes) == 2
    assert load_config(start=tmp_path / "bundle", analysed=[tmp_path / "other"]).path == str(planted)
    assert load_config(explicit=planted, analysed=[tmp_path / "bundle"]).ignore == ("HCC",)


def test_links_do_not_help_a_planted_file(tmp_path: Path) -> None:
    planted = write(tmp_path / "bundle" / "npudiag.toml", 'ignore = ["HCC"]\n')
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "npudiag.toml").symlink_to(planted)
    (tmp_path / "link").symlink_to(tmp_path / "bundle")
    for start, analysed in (("work", "bundle"), ("work", "link"), ("link", "bundle"), ("bundle", "link")):
        config = load_config(start=tmp_path / start, analysed=[tmp_path / analysed])
        assert (config.path, len(config.notes)) == ("", 1)


def test_a_planted_file_is_not_even_parsed(tmp_path: Path) -> None:
    write(tmp_path / "bundle" / "npudiag.toml", "not toml [")
    write(tmp_path / "bundle" / "pyproject.toml", "[tool.npudiag]\nnot toml [")
    assert len(load_config(start=tmp_path / "bundle", analysed=[tmp_path / "bundle"]).notes) == 2


def test_the_variable_does_not_reach_into_the_analysed_folder(tmp_path: Path) -> None:
    planted = write(tmp_path / "bundle" / "npudiag.toml")
    config = load_config(start=tmp_path, analysed=[tmp_path / "bundle"], environ={"NPUDIAG_CONFIG": str(planted)})
    assert (config.path, config.lang) == ("", None)
    assert config.notes == (
        f"NPUDIAG_CONFIG={planted} lies inside the analysed input and was not read; name it with --config",
    )


def test_a_config_next_to_an_analysed_file_is_fine(tmp_path: Path) -> None:
    path = write(tmp_path / "npudiag.toml")
    log = write(tmp_path / "train.log", "x")
    assert load_config(start=tmp_path, analysed=[log]).path == str(path)


# -- faults


def test_all_faults_come_at_once_with_their_places(tmp_path: Path) -> None:
    text = """\
langs = "zh"
lang = "fr"
rules = "my-rules"
select = ["hcc!"]
ignore = [1]
fail-on = "eror"
strict = 1
workers = 0
memory-mb = "2G"
html = ""
"no reports" = 1
extend_select = []
extend-select = []

[params]
slow-rank = 0.3

[params.loss-spike]
    start = 2027-03-01

[[suppress]]
rule = "HCC104"

[[suppress]]
rule = "HCC104"
reason = " "
reasons = "x"
  ranks = "7-3"
until = "soon"
match = 1

[[suppress]]
rule = "HCC104"
reason = "x"
until = "2027-02-30"
"""
    keys = "lang, rules, select, extend-select, ignore, fail-on, strict, workers, memory-mb, params, suppress, baseline"
    keys += ", gate, html, json, sarif, junit, markdown, gitlab"
    assert faults(tmp_path, text) == [
        f"1:1: unknown key 'langs' in the configuration; allowed: {keys}; did you mean 'lang'?",
        "2:1: unknown lang 'fr'; allowed: en, zh",
        "3:1: rules must be a list of texts, found 'my-rules'",
        "4:1: 'hcc!' is neither the beginning of a code, like HCC or HCC1, nor a rule's name",
        "5:1: ignore must be a list of texts, found [1]",
        "6:1: unknown fail-on 'eror'; allowed: never, info, warning, error, critical; did you mean 'error'?",
        "7:1: strict must be true or false, found 1",
        "8:1: workers must be a whole number from 1 to 4096, found 0",
        "9:1: memory-mb must be a whole number from 64 to 16777216, found '2G'",
        "10:1: html must be a text that is not empty, found ''",
        f"11:1: unknown key 'no reports' in the configuration; allowed: {keys}",
        "13:1: key 'extend-select' stands twice in the configuration",
        "16:1: params of 'slow-rank' must be a table, [params.slow-rank], found 0.3",
        "19:5: start must be a number, a text, a truth value or a list of those",
        "21:1: suppress lacks reason",
        "26:1: reason must be a text that is not empty, found ' '",
        "27:1: unknown key 'reasons' in suppress; allowed: rule, reason, match, ranks, until; did you mean 'reason'?",
        "28:3: ranks must be like 3, [0, 4] or \"0-7,12\", found '7-3'",
        "29:1: until must be a day like 2027-03-01, found 'soon'",
        "30:1: match must be a text that is not empty, found 1",
        "35:1: until must be a day like 2027-03-01, found '2027-02-30'",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("suppress = 1\n", ["1:1: suppress must be tables, [[suppress]], found 1"]),
        ("params = [1]\n", ["1:1: params must be tables, [params.<rule-name>], found [1]"]),
        ("a = \n", ["1:5: not valid TOML: Invalid value"]),
        ("a = 1\na = 2\n", ["2:6: not valid TOML: Cannot overwrite a value"]),
    ],
)
def test_further_faults(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert faults(tmp_path, text) == expected


def test_faults_in_a_pyproject(tmp_path: Path) -> None:
    text = '[project]\nlang = "x"\n[tool.npudiag]\nlang = "x"\n[[tool.npudiag.suppress]]\nrule = "HCC1"\n'
    assert faults(tmp_path, text, "pyproject.toml") == [
        "4:1: unknown lang 'x'; allowed: en, zh",
        "5:1: suppress lacks reason",
    ]
    assert faults(tmp_path, "[project]\n", "pyproject.toml") == ["0:0: no table [tool.npudiag] in it"]
    assert faults(tmp_path, "tool = 1\n", "pyproject.toml") == ["0:0: no table [tool.npudiag] in it"]


def test_files_that_are_not_text_or_too_big(tmp_path: Path) -> None:
    path = tmp_path / "npudiag.toml"
    path.write_bytes(b"lang = 'en'\nx = '\xff'\n")
    with pytest.raises(ConfigError, match=r"npudiag\.toml:2:6: not UTF-8"):
        load_config(start=tmp_path)
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match="more than 1,048,576 bytes"):
        load_config(start=tmp_path)
    path.write_bytes(b"a = " + b"[" * 100_000)
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_config(start=tmp_path)


# -- against the rules


def rule(code: str, name: str, **params: object) -> Rule:
    text = Text(en="x", zh="等")
    return Rule(
        code=code,
        name=name,
        category="numerics",
        severity="error",
        confidence="high",
        title=text,
        why=text,
        params=dict(params),
    )


def test_names_are_checked_against_the_rules(tmp_path: Path) -> None:
    rules = [
        rule("NUM001", "loss-spike", ratio=2.0, least=5, wide=True, words=["a"], mode="x"),
        rule("HCC001", "silent"),
    ]
    good = write(
        tmp_path / "good.toml",
        'select = ["NUM", "silent"]\n[params.loss-spike]\nratio = 3\nleast = 2.5\nwide = false\n'
        'words = []\nmode = "y"\n',
    )
    check_against(load_config(explicit=good), rules)
    check_against(Config(), rules)
    bad = write(
        tmp_path / "bad.toml",
        'select = ["NUM", "MEM"]\nignore = ["loss-spikes"]\n[params.loss-spike]\nratios = 3\nratio = "3"\n'
        "least = true\n"
        'wide = 1\nwords = "a"\nmode = 1\n[params.slient]\nx = 1\n[params.silent]\nx = 1\n'
        '[[suppress]]\nrule = "DEV"\nreason = "x"\n',
    )
    with pytest.raises(ConfigError) as caught:
        check_against(load_config(explicit=bad), rules)
    allowed = "ratio, least, wide, words, mode"
    assert [line.removeprefix(f"{bad}:") for line in caught.value.message.split("\n")[1:]] == [
        "1:1: no rule is selected by 'MEM'",
        "2:1: no rule is selected by 'loss-spikes'; did you mean 'loss-spike'?",
        f"4:1: unknown parameter 'ratios' of loss-spike; allowed: {allowed}; did you mean 'ratio'?",
        "5:1: ratio must be like 2.0, the rule's own value, found '3'",
        "6:1: least must be like 5, the rule's own value, found True",
        "7:1: wide must be like True, the rule's own value, found 1",
        "8:1: words must be like ['a'], the rule's own value, found 'a'",
        "9:1: mode must be like 'x', the rule's own value, found 1",
        "10:1: no rule is called 'slient'; did you mean 'silent'?",
        "13:1: unknown parameter 'x' of silent; allowed: none, the rule has no parameters",
        "15:1: no rule is selected by 'DEV'",
    ]
