from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest
import report_documents as documents

from npudiag.report.terminal import ICONS, STYLES, Line, print_plain, print_rich, render
from npudiag.report.wrap import text_width
from npudiag.result import Result

WIDTHS = [60, 100, 200]


def text(result: Result, *, lang: str = "en", width: int = 100, verbosity: int = 0) -> str:
    out = io.StringIO()
    print_plain(render(result, lang=lang, width=width, verbosity=verbosity), out)
    return out.getvalue()


def plain(line: Line) -> str:
    return "".join(part for part, _ in line)


@pytest.mark.parametrize("name", documents.DOCUMENTS)
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("verbosity", [-1, 0, 1, 2])
def test_lines_hold_no_control_characters(name: str, lang: str, verbosity: int) -> None:
    for line in render(documents.DOCUMENTS[name](), lang=lang, width=80, verbosity=verbosity):
        assert all(style in STYLES for _, style in line)
        assert not re.search("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\u200b]", plain(line))


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("width", WIDTHS)
def test_lines_fit_but_for_paths_and_changes(lang: str, width: int) -> None:
    for name in ("job", "healthy", "insufficient", "unrecognised"):
        for line in render(documents.DOCUMENTS[name](), lang=lang, width=width, verbosity=1):
            if not any(style in ("path", "change") or part.startswith("$ ") for part, style in line):
                assert text_width(plain(line)) <= min(width, 120), plain(line)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_one_screen(lang: str) -> None:
    assert len(render(documents.job(), lang=lang, width=100, verbosity=0)) <= 50
    assert len(render(documents.job(1024), lang=lang, width=100, verbosity=0)) <= 50
    assert len(render(documents.healthy(), lang=lang, width=100, verbosity=0)) <= 12


def test_order_of_the_answer() -> None:
    said = text(documents.job())
    parts = [
        "The job died at step 1840",
        "Root cause",
        "plog-48215_20260412093011005.log:4711",
        "Aicore kernel execute failed",
        "What it caused",
        "HCC104 ×7, FWK201",
        "What to do",
        "export ASCEND_LAUNCH_BLOCKING=1  (was 0, job-0412/run_pretrain.sh:23)",
        "[risky]",
        "DEV110 not taken",
        "Collect next",
        "DAT103",
        "What was read",
        "ranks 0-6 (7 of 8)",
        "missing: 7",
        "core.48214",
        "38 could not judge",
        "NUM120 loss-oscillation",
    ]
    at = -1
    for part in parts:
        assert part in said, part
        assert said.index(part) > at, part
        at = said.index(part)


def test_more_is_said_when_asked() -> None:
    sizes = [len(text(documents.job(), verbosity=v).splitlines()) for v in (-1, 0, 1, 2)]
    assert sizes[0] == 1 and sizes == sorted(set(sizes))
    more = text(documents.job(), verbosity=1)
    assert "sed -n '4706,4716p'" in more
    assert "Rank 6 waited 1836 s" in more
    assert "Verify: The traceback ends in model code" in more


@pytest.mark.parametrize("name", documents.DOCUMENTS)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_quiet_is_one_line(name: str, lang: str) -> None:
    said = text(documents.DOCUMENTS[name](), lang=lang, verbosity=-1)
    assert said.count("\n") == 1 and len(said) < 2000
    assert said.split()[0] in ICONS.values()


def test_quiet_names_cause_and_proof() -> None:
    said = text(documents.job(), verbosity=-1)
    for part in (
        "critical",
        "AIC104",
        "AI Core exception 507015",
        "high confidence",
        "plog-48215_20260412093011005.log:4711",
    ):
        assert part in said


def test_chinese() -> None:
    said = text(documents.job(), lang="zh")
    for part in ("根因", "致命", "证据", "处理建议", "引发的连带现象", "读取范围", "缺失：7", "数据加载占每步时间"):
        assert part in said
    assert "What to do" not in said


def test_other_answers() -> None:
    assert "No problem found in 9 files" in text(documents.healthy())
    said = text(documents.insufficient())
    assert "Unexplained failure" in said and "Not enough evidence" in said and "dmesg of the host" in said
    assert "root cause" not in said
    said = text(documents.unrecognised())
    assert "Nothing recognised" in said and "photos/IMG_0.jpg" in said


def test_plain_output_needs_no_rich_and_has_no_escapes() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import report_documents as d\n"
        "from npudiag.report.terminal import render, print_plain\n"
        "print_plain(render(d.hostile(), lang='en', width=80, verbosity=2), sys.stdout)\n"
        "assert 'rich' not in sys.modules\n"
    )
    folder = str(documents.__file__).rpartition("/")[0]
    done = subprocess.run(
        [sys.executable, "-c", code, folder], capture_output=True, check=True, env={"PYTHONUTF8": "1"}
    )
    assert b"\x1b" not in done.stdout and b"\x00" not in done.stdout


@pytest.mark.parametrize("printer", [print_plain, print_rich])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "gbk", "cp1252", "utf-8"])
@pytest.mark.parametrize("name", ["job", "hostile"])
def test_any_encoding_will_do(printer: object, encoding: str, name: str) -> None:
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding=encoding, write_through=True)
    printer(render(documents.DOCUMENTS[name](), lang="zh", width=80, verbosity=1), stream)  # type: ignore[operator]
    said = buffer.getvalue().decode(encoding)
    if encoding == "ascii":
        assert "X \\u81f4\\u547d" in said
    if encoding in ("gbk", "utf-8") and name == "job":
        assert "致命" in said


def test_colour_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    lines = render(documents.hostile(), lang="en", width=100, verbosity=1)
    print_rich(lines, out)
    assert "\x1b[" in out.getvalue()
    bare = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert "\x1b" not in bare
    assert [line.rstrip() for line in bare.splitlines()] == [plain(line).rstrip() for line in lines]
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    print_rich(lines, out)
    assert not re.search(r"\x1b\[[0-9;]*3\dm", out.getvalue())


def test_lone_surrogates_are_shown() -> None:
    result = documents.insufficient()
    result.findings[0].title = "bad \ud800 name"
    assert "bad \\ud800 name" in text(result)
