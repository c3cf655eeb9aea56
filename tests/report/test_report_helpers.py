from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest
import report_documents as documents

from npudiag.analyze import analyze_texts
from npudiag.engine.load import load_pack
from npudiag.report import RENDERERS, figures, find_renderer
from npudiag.report.changes import before_after, merged, setting
from npudiag.report.framework import framework
from npudiag.report.localise import verdict_text, words
from npudiag.report.safe_text import segments, split_lines, visible, visible_block
from npudiag.report.shell import quote, show_lines
from npudiag.report.story import fold, tell
from npudiag.report.texts import (
    CATEGORY,
    CONFIDENCE,
    DISPOSITION,
    REASON,
    REMEDY,
    ROLE,
    SEVERITY,
    STATUS,
    UI,
    Text,
    pick_lang,
    say,
)
from npudiag.report.wrap import cut, text_width, wrap
from npudiag.result import (
    CATEGORIES,
    SEVERITIES,
    Change,
    Confidence,
    Disposition,
    Finding,
    Remedy,
    RemedyKind,
    Result,
    Role,
    Tool,
    Verdict,
    decode,
)

# Languages


@pytest.mark.parametrize(
    ("env", "lang"),
    [
        ({}, "en"),
        ({"NPUDIAG_LANG": "zh", "LANG": "en_US.UTF-8"}, "zh"),
        ({"NPUDIAG_LANG": "en", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "ZH"}, "zh"),
        ({"LC_ALL": "zh_CN.GBK", "LANG": "en_US.UTF-8"}, "zh"),
        ({"LC_ALL": "en_US.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LC_ALL": "C.UTF-8", "LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LC_ALL": "POSIX", "LANG": ""}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
    ],
)
def test_language_is_picked_from_the_environment(env: dict[str, str], lang: str) -> None:
    assert pick_lang(env) == lang


def test_every_value_of_the_document_has_a_label() -> None:
    assert set(CATEGORY) == set(CATEGORIES)
    assert set(SEVERITY) == set(SEVERITIES)
    assert set(CONFIDENCE) == set(get_args(Confidence))
    assert set(ROLE) == set(get_args(Role))
    assert set(DISPOSITION) == set(get_args(Disposition))
    assert set(REMEDY) == set(get_args(RemedyKind))
    assert set(STATUS) == set(get_args(Verdict.__annotations__["status"])) or len(STATUS) == 4


def test_texts_have_the_same_places_in_both_languages() -> None:
    import string

    def places(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    texts = [value for value in vars(UI).values() if isinstance(value, Text)]
    for table in (CATEGORY, SEVERITY, CONFIDENCE, ROLE, DISPOSITION, REMEDY, STATUS, REASON):
        texts += table.values()  # type: ignore[attr-defined]
    for text in texts:
        assert text.en and text.zh
        assert places(text.en) == places(text.zh), text
        if text.one is not None:
            assert places(text.one) <= places(text.en), text


def test_counts_are_worded() -> None:
    assert say(UI.n_findings, "en", n=1) == "1 finding"
    assert say(UI.n_findings, "en", n=12345) == "12,345 findings"
    assert say(UI.n_findings, "zh", n=1) == "1 个发现"


def test_untranslated_texts_stay_english() -> None:
    finding = documents.root_finding()
    assert words(finding, "zh").remedies[2].verify == ""
    assert words(finding, "zh").title.startswith("rank 5（")
    finding.i18n = {"zh": {"title": 5, "remedies": [None, {"text": "二"}], "collect": [None]}}
    zh = words(finding, "zh")
    assert zh.title == finding.title
    assert [remedy.text for remedy in zh.remedies] == [finding.remedies[0].text, "二", finding.remedies[2].text]
    assert zh.collect == tuple(finding.collect)
    assert verdict_text(Verdict(text="en", status="healthy", i18n={"zh": {"text": ""}}), "zh") == "en"


# Text that came from a log


def test_hidden_characters_become_escapes() -> None:
    assert visible("a\x1b[31m\x00\x07\x9b\u202eb\u2028\ufeff\u200b\U000e0041\ud800\n\r\tc") == (
        "a\\x1b[31m\\x00\\x07\\x9b\\u202eb\\u2028\\ufeff\\u200b\\U000e0041\\ud800\\n\\r\tc"
    )
    assert visible("中文 é — “x”") == "中文 é — “x”"
    assert visible_block("a\x1b\r\nb\n") == "a\\x1b\nb"


def test_lines_end_at_line_feeds_only() -> None:
    assert split_lines("a\r\nb\u2028c\x0cd\n") == ["a", "b\u2028c\x0cd"]
    assert split_lines("") == [""]


def test_captures_are_marked() -> None:
    runs = segments("[12:05:5] remote rank[5] notify wait timeout\x1b[0m", ["notify wait timeout", "5", ""], limit=500)
    assert [text for text, kind in runs if kind == "mark"] == ["5", "notify wait timeout"]
    assert [text for text, kind in runs if kind == "control"] == ["\\x1b"]
    assert "".join(text for text, _ in runs).startswith("[12:05:5] remote rank[5")
    assert runs[0].text == "[12:05:5] remote rank["  # the 5 near the other mark, not the one of the time


def test_overlapping_marks_merge() -> None:
    runs = segments("abcdefgh", ["abcde", "defg"], limit=100)
    assert runs == [("abcdefg", "mark"), ("h", "plain")]


def test_long_lines_are_cut_around_the_mark() -> None:
    runs = segments("x" * 10_000 + "needle" + "y" * 10_000, ["needle"], limit=100)
    assert runs[0].kind == runs[-1].kind == "cut"
    assert (
        sum(int(text) for text, kind in runs if kind == "cut") + sum(len(text) for text, kind in runs if kind != "cut")
        == 20_006
    )
    assert ("needle", "mark") in runs


@pytest.mark.parametrize("text", documents.HOSTILE_TEXTS)
def test_shell_words_hide_nothing(text: str) -> None:
    word = quote(text)
    assert visible(word).replace("\t", "\\t") == word
    bash = subprocess.run(
        ["bash", "-c", f"printf %s {word}"], capture_output=True, env={"LC_ALL": "C.UTF-8"}, check=True
    )
    if "\x00" not in text and "\x9b" not in text:
        assert bash.stdout.decode() == text


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("job/a b.log", "sed -n '3,9p' 'job/a b.log'"),
        ("-n.log", "sed -n '3,9p' ./-n.log"),
        ("a/b.log.gz", "gzip -dc a/b.log.gz | sed -n '3,9p'"),
        ("a.tgz!/x/b.log", "tar --no-anchored -xOf a.tgz x/b.log | sed -n '3,9p'"),
        ("a.zip!/b.log", "unzip -p a.zip b.log | sed -n '3,9p'"),
        ("a.tgz!/b.zip!/c.log", None),
        ("a.bin!/c.log", None),
        ("-", None),
    ],
)
def test_command_shows_the_lines(path: str, command: str | None) -> None:
    assert show_lines(path, 3, 9) == command


def test_command_starts_at_line_one() -> None:
    assert show_lines("a", -4, 0) == "sed -n '1,1p' a"


# Figures


def test_ranges() -> None:
    assert figures.ranges([3, 1, 2, 0, 5, 5]) == "0-3, 5"
    assert figures.ranges(range(0, 100, 2), most=3) == "0, 2, 4, …"
    assert figures.ranges([]) == ""


def test_sizes_durations_times() -> None:
    assert [figures.size(n) for n in (0, 999, 1500, 250_000, 3_000_000_000, 5 * 10**15)] == [
        "0 B", "999 B", "1.5 kB", "250 kB", "3.0 GB", "5000.0 TB",
    ]  # fmt: skip
    assert [figures.seconds(s) for s in (0.02, 1.5, 600, 9000)] == ["20 ms", "1.5 s", "10 min", "2.5 h"]
    assert figures.span("2026-04-12T08:00:12", "2026-04-12T09:49:10.5") == "2026-04-12 08:00:12 - 09:49:10"
    assert figures.span("2026-04-12T08:00:12Z", "2026-04-13T09:49:10") == "2026-04-12 08:00:12 - 2026-04-13 09:49:10"
    assert figures.span(None, "nonsense") == "nonsense"
    assert [figures.short_float(x) for x in (1.0, 0.12345, 1234.5678, float("nan"))] == [
        "1",
        "0.1235",
        "1,234.6",
        "nan",
    ]
    assert figures.names(["a", "b", "a", "c"], most=2) == "a, b +1"


# What belongs together


def test_story_puts_every_finding_in_one_place() -> None:
    for make in documents.DOCUMENTS.values():
        result = make()
        story = tell(result)
        told = [cause.finding for cause in story.causes] + [f for cause in story.causes for f in cause.consequences]
        told += story.contributing + story.others + story.notes + story.suppressed
        assert sorted(f.id for f in told) == sorted(f.id for f in result.findings)


def test_consequences_follow_their_chain_to_the_root() -> None:
    result = documents.job()
    result.findings[2].caused_by = ["f2"]
    story = tell(result)
    assert len(story.causes) == 1
    assert fold(story.causes[0].consequences).codes == (("HCC104", 7), ("FWK201", 1))
    assert [f.code for f in story.others] == ["DAT103"]
    assert [f.code for f in story.notes] == ["CFG115"]


def test_a_warning_alone_is_the_root_cause() -> None:
    assert tell(documents.insufficient()).causes[0].finding.code == "GEN901"
    assert tell(documents.healthy()).causes == []


# Changes


@pytest.mark.parametrize(
    ("kind", "key", "value", "text"),
    [
        ("env", "HCCL_EXEC_TIMEOUT", "3600", "export HCCL_EXEC_TIMEOUT=3600"),
        ("env", "A", "x; rm -rf ~", "export A='x; rm -rf ~'"),
        ("env", "A", "a\nb", "export A=$'a\\nb'"),
        ("env", "A", "", "unset A"),
        ("env", "A;reboot", "1", "A;reboot=1"),
        ("flag", "--lr", "1e-4", "--lr 1e-4"),
        ("flag", "--enforce-eager", "", "--enforce-eager"),
        ("config", "train.lr", "1e-4", "train.lr: 1e-4"),
    ],
)
def test_settings_are_written_as_they_are_used(kind: RemedyKind, key: str, value: str, text: str) -> None:
    assert setting(kind, key, value) == text


def test_before_and_after() -> None:
    remedy = Remedy(kind="flag", text="t", change=Change(key="--mbs", to="2", old="4"))
    assert before_after(remedy) == ("--mbs 4", "--mbs 2")
    assert before_after(Remedy(kind="code", text="t")) is None


def active(script: str) -> list[str]:
    return [line for line in script.splitlines() if line and not line.startswith("#")]


def test_merged_changes_run_only_what_is_meant() -> None:
    script = merged(tell(documents.job()), "en")
    assert active(script) == ["export ASCEND_LAUNCH_BLOCKING=1"]
    for part in ("--num-workers 8", "HCCL_EXEC_TIMEOUT=3600", "msdebug --tool=memcheck", "was 0", "run_pretrain.sh:23"):
        assert part in script
    assert script.count("HCCL_EXEC_TIMEOUT") == 1
    assert "修改建议" in merged(tell(documents.job()), "zh")
    assert merged(tell(documents.healthy()), "en") == ""


def test_merged_changes_say_where_findings_disagree() -> None:
    def finding(number: int, to: str) -> Finding:
        return Finding(
            id=f"f{number}", code=f"ENV10{number}", name="n", category="environment", severity="error",
            confidence="high", title="t",
            remedies=[Remedy(kind="env", text="t", change=Change(key="HCCL_BUFFSIZE", to=to))],
        )  # fmt: skip

    result = Result(
        tool=Tool(version="1"),
        verdict=Verdict(text="t", status="findings"),
        findings=[finding(1, "200"), finding(2, "400")],
    )
    script = merged(tell(result), "en")
    assert active(script) == ["export HCCL_BUFFSIZE=200"]
    assert "another finding suggests HCCL_BUFFSIZE=200 instead" in script
    assert "#   export HCCL_BUFFSIZE=400" in script


def test_merged_changes_leave_blanks_to_the_reader() -> None:
    result = documents.job()
    result.findings[0].remedies[0].change = Change(key="ASCEND_CUSTOM_OPP_PATH", to="<folder>")
    script = merged(tell(result), "en")
    assert active(script) == []
    assert "#   export ASCEND_CUSTOM_OPP_PATH='<folder>'" in script


def test_merged_changes_of_a_hostile_document_run_nothing_foreign() -> None:
    script = merged(tell(documents.hostile()), "en")
    assert all(line.startswith("export SAFE_NAME=") for line in active(script))
    assert subprocess.run(["bash", "-n"], input=script.encode("utf-8"), capture_output=True).returncode == 0


# Wrapping


@pytest.mark.parametrize("width", [10, 23, 60])
def test_wrapped_lines_fit(width: int) -> None:
    for text in (
        "任务在第 1840 步终止：rank 5（device 5）的算子触发异常，其余 rank 超时。",
        "a bb " * 40,
        "x" * 95,
        *documents.HOSTILE_TEXTS,
    ):
        lines = wrap(visible(text), width)
        assert all(text_width(line) <= width for line in lines)
        assert "".join(lines).replace(" ", "") == "".join(visible(text).split())


def test_no_line_starts_with_closing_punctuation() -> None:
    for width in range(8, 40):
        for line in wrap("设备内存不足，无法分配。请减小批大小（或启用重计算），再试。", width):
            assert line[0] not in "，。）"


def test_cut() -> None:
    assert cut("abcdef", 4) == "abc…"
    assert text_width(cut("中文中文", 5)) == 5


# The package


def test_renderers_are_loaded_when_used() -> None:
    code = (
        "import sys, npudiag.report, npudiag.report.terminal\n"
        "assert {'json', 'html', 'terminal', 'sarif', 'junit', 'markdown', 'gitlab', 'github'} == "
        "set(npudiag.report.RENDERERS)\n"
        "print([m for m in ('jinja2', 'rich', 'markupsafe', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["json", "html", "terminal"])
def test_renderers_render(name: str) -> None:
    assert "AIC104" in find_renderer(name)(documents.job(), lang="zh")
    assert name in RENDERERS


def test_unknown_renderer() -> None:
    with pytest.raises(KeyError):
        find_renderer("parchment")


def test_json_is_the_document() -> None:
    result = documents.hostile()
    assert decode(RENDERERS["json"](result, lang="en").encode("utf-8")) == result


def test_a_log_of_no_known_framework_is_said_to_be_one() -> None:
    own = {"own.log": "2026-03-01 10:00:00,123 INFO epoch 1 batch 10 done\n2026-03-01 10:00:09,123 INFO all done\n"}
    known = {"vllm.log": "INFO 05-06 14:22:22 [api_server.py:10] vLLM API server version 0.11.0\n"}
    assert framework(analyze_texts(own, load_pack()), "en") == "Framework: none that is known; read as plain text"
    assert "plain" not in framework(analyze_texts(known, load_pack()), "en")
