from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from html.parser import HTMLParser

import msgspec
import pytest
import report_documents as documents

from npudiag.report.html import render
from npudiag.report.html.bilingual import shown
from npudiag.report.html.charts import plot
from npudiag.report.html.island import extract
from npudiag.report.html.page import _asset
from npudiag.report.html.timeline import timeline
from npudiag.report.safe_text import visible_word
from npudiag.result import Coverage, Evidence, LevelMinute, Result, decode

NAMES = list(documents.DOCUMENTS)


class Reader(HTMLParser):
    """Collects what a page holds; `text` is what is read without scripts."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.bodies: dict[str, list[str]] = {"script": [], "style": []}
        self._inside: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in self.bodies:
            self._inside.append(tag)
            self.bodies[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.bodies[self._inside[-1]][-1] += data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)


@pytest.fixture(scope="module", params=NAMES)
def case(request: pytest.FixtureRequest) -> tuple[Result, str, Reader]:
    result = documents.DOCUMENTS[request.param]()
    page = render(result, lang="en")
    return result, page, Reader(page)


def test_page_reads_without_scripts(case: tuple[Result, str, Reader]) -> None:
    result, _, reader = case
    text = reader.text
    assert shown(result.verdict.text, 500) in text
    for finding in result.findings:
        assert finding.code in text
        assert shown(finding.title, 500) in text
        for remedy in finding.remedies:
            assert shown(remedy.text) in text
        for item in finding.evidence[:1]:
            if item.path:
                assert visible_word(item.path) in text


def test_only_our_elements(case: tuple[Result, str, Reader]) -> None:
    _, _, reader = case
    tags = [tag for tag, _ in reader.tags]
    assert tags.count("script") == 4 and tags.count("style") == 1
    assert not {"iframe", "object", "embed", "form", "base", "audio", "video", "image", "foreignobject"} & set(tags)
    for tag, attrs in reader.tags:
        assert "style" not in attrs, tag
        assert not [name for name in attrs if name.startswith("on")], tag


def test_nothing_is_loaded(case: tuple[Result, str, Reader]) -> None:
    _, _, reader = case
    for tag, attrs in reader.tags:
        assert "srcset" not in attrs
        assert (tag == "img") == ("src" in attrs)
        assert (attrs.get("src") or "data:image/png;base64,").startswith("data:image/png;base64,")
        href = attrs.get("href") or attrs.get("xlink:href") or ""
        if tag == "link":
            assert href == "data:,"
        elif tag == "use":
            assert href.startswith("#")
        elif href:
            assert tag == "a" and re.match(r"#|https?://", href), href
    assert not re.search(r"url\(|@import|https?:", reader.bodies["style"][0])


def test_policy_names_the_scripts_and_the_style_sheet(case: tuple[Result, str, Reader]) -> None:
    _, page, reader = case
    policy = next(a["content"] for t, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy") or ""
    directives = {part.split()[0]: part.split()[1:] for part in policy.split("; ")}
    assert directives["default-src"] == ["'none'"]
    assert directives["img-src"] == ["data:"]

    def source(text: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    scripts = [
        body
        for body, (_, attrs) in zip(reader.bodies["script"], [t for t in reader.tags if t[0] == "script"], strict=True)
        if "type" not in attrs
    ]
    assert directives["script-src"] == [source(body) for body in scripts]
    assert directives["style-src"] == [source(body) for body in reader.bodies["style"]]
    assert "unsafe" not in policy
    assert page.index("Content-Security-Policy") < page.index("<script>")


def test_document_can_be_read_back(case: tuple[Result, str, Reader]) -> None:
    result, page, reader = case
    assert extract(page) == decode(msgspec.json.encode(result))
    body = reader.bodies["script"][-1]
    island = next(a for t, a in reader.tags if t == "script" and a.get("id") == "result")
    if island["type"] == "application/json":
        assert not re.search("[<>&\u2028\u2029]", body)
        assert decode(body.encode()) == result
    else:
        assert json.loads(gzip.decompress(base64.b64decode(body)))["schema"] == 1


def test_small_hostile_document_is_escaped_json() -> None:
    result = documents.insufficient()
    result.findings[0].title = "".join(documents.HOSTILE_TEXTS[:6])
    page = render(result, lang="en")
    island = page[page.index('<script type="application/json"') :]
    assert "\\u003c/script\\u003e" in island and "\u2028" not in island
    assert extract(page) == result


def test_lone_surrogates_do_not_break_the_page() -> None:
    result = documents.insufficient()
    result.findings[0].evidence = [Evidence(path="a\ud800.log", line=1, text="x \udcff y", highlights=["\udcff"])]
    page = render(result, lang="en")
    page.encode("utf-8")
    assert "\\ud800" in page and "\\udcff" in page
    assert extract(page).findings[0].evidence[0].text == "x \ufffd y"


def test_no_document_in_a_foreign_page() -> None:
    with pytest.raises(ValueError, match="no result document"):
        extract("<html></html>")


@pytest.mark.parametrize(("world", "budget"), [(8, 150_000), (64, 500_000), (1024, 2_000_000)])
def test_size(world: int, budget: int) -> None:
    result = documents.job(world)
    result.coverage.timeline = documents.timeline(240, 200)
    page = render(result, lang="en")
    assert len(page.encode("utf-8")) <= budget
    assert extract(page) == result
    text = Reader(page).text
    for finding in result.findings[:400]:
        assert finding.title in text
    if world == 1024:
        assert "more in result.json" in text


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_language_is_the_one_asked_for(lang: str) -> None:
    page = render(documents.job(), lang=lang)
    assert f'<html lang="{lang}">' in page
    title = re.search(r"<title[^>]*>(.*?)</title>", page)
    assert title and title[1].startswith({"en": "The job died", "zh": "任务在第"}[lang])


def test_evidence_has_true_line_numbers_and_marks() -> None:
    page = render(documents.job(), lang="en")
    rows = re.findall(r'<div( class="hit")?><span class="no">(\d+)</span><code>(.*?)</code></div>', page)
    numbers = [int(number) for _, number, _ in rows[:7]]
    assert numbers == [4709, 4710, 4711, 4712, 4716, 4717, 4718]
    assert [bool(hit) for hit, _, _ in rows[:7]] == [False, False, True, False, True, True, True]
    assert "<mark>Aicore kernel execute failed</mark>, device_id=<mark>5</mark>," in rows[2][2]
    assert html.escape("sed -n '4706,4716p' job-0412/worker-0/", quote=False) in html.unescape(page)


def test_remedies_and_changes() -> None:
    text = Reader(render(documents.job(), lang="en")).text
    for part in (
        "- export ASCEND_LAUNCH_BLOCKING=0",
        "+ export ASCEND_LAUNCH_BLOCKING=1",
        "review first",
        "risky",
        "Suggested changes. Read before use",
        "set at job-0412/run_pretrain.sh:23",
        "data time over step time, 1800 steps",
    ):
        assert part in text


def test_coverage_is_told() -> None:
    text = Reader(render(documents.job(), lang="en")).text
    for part in (
        "Part of the input was not analysed",
        "missing: 7",
        "no parser recognises the first 64 KiB",
        "the compressed stream ends after 8,100 lines",
        "worker-1 runs 2.4 s behind",
        "no data for prof_steps, prof_kernels",
        "PER101 profile-check-101",
        "ZeroDivisionError",
        "DEV101 device-heartbeat-lost",
        "312 rules, 3f9a1c07b2de",
    ):
        assert part in text
    assert (
        "were not recognised, so nothing in them was judged" in Reader(render(documents.unrecognised(), lang="en")).text
    )
    assert "All of the input was read." in Reader(render(documents.healthy(), lang="en")).text


def test_structure() -> None:
    reader = Reader(render(documents.job(), lang="en"))
    tags = [tag for tag, _ in reader.tags]
    assert (
        tags.count("h1") == tags.count("main") == tags.count("nav") == tags.count("header") == tags.count("footer") == 1
    )
    ids = [attrs["id"] for _, attrs in reader.tags if attrs.get("id")]
    assert len(ids) == len(set(ids))
    for tag, attrs in reader.tags:
        if tag == "a" and (attrs.get("href") or "").startswith("#"):
            assert (attrs["href"] or "")[1:] in ids
        if attrs.get("aria-labelledby"):
            assert attrs["aria-labelledby"] in ids
        if tag == "th":
            assert attrs.get("scope") in ("col", "row")


# Contrast


TEXT_COLOURS = ("fg", "muted", "link", "critical", "error", "warning", "info", "ok")


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def themes() -> list[dict[str, str]]:
    blocks = re.findall(r"\{([^{}]*--bg:[^{}]*)\}", _asset("style.css"))
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in blocks]


def test_themes_are_complete() -> None:
    light, system_dark, dark, printed = themes()
    assert set(light) == set(dark) == set(printed)
    assert system_dark == dark


@pytest.mark.parametrize(
    ("front", "back"),
    [
        *((front, back) for front in TEXT_COLOURS for back in ("bg", "soft")),
        ("fg", "hit"), ("muted", "hit"), ("critical", "hit"), ("mark-fg", "mark"), ("add-fg", "add"), ("del-fg", "del"),
        ("link", "add"), ("ink", "critical"), ("ink", "error"), ("ink", "warning"), ("ink", "ok"),
    ],
)  # fmt: skip
def test_contrast_is_aa(front: str, back: str) -> None:
    for theme in themes():
        assert contrast(theme[front], theme[back]) >= 4.5, theme[back]


# Charts


def bucket(minute: str, **counts: int) -> LevelMinute:
    return LevelMinute(minute=minute, counts=counts)


def test_timeline_marks_the_root_cause() -> None:
    coverage = Coverage(timeline=documents.timeline(100, 78))
    chart = timeline(coverage, "2026-04-12T09:18:06")
    assert chart is not None and chart.to_scale
    assert [lane.name for lane in chart.lanes] == ["errors", "warnings", "others"]
    assert chart.lanes[0].peak == 41
    assert chart.marker == pytest.approx(78.1, abs=0.05)
    assert sum(sum(counts) for _, counts in chart.rows) == sum(sum(b.counts.values()) for b in coverage.timeline)
    assert len(chart.rows) <= 60 and chart.row_minutes == 2


def test_timeline_leaves_out_long_gaps() -> None:
    chart = timeline(Coverage(timeline=[bucket("2020-01-01T00:00", ERROR=1), bucket("2026-01-01T00:00", INFO=2)]), None)
    assert chart is not None and not chart.to_scale and chart.marker is None


def test_timeline_needs_two_minutes() -> None:
    assert timeline(Coverage(), None) is None
    assert timeline(Coverage(timeline=[bucket("2026-01-01T00:00", INFO=1), bucket("garbage", INFO=1)]), None) is None


def test_plot_keeps_peaks_of_many_points() -> None:
    rows = [{"step": i, "loss": 1.0 + (9.0 if i == 5003 else 0.0)} for i in range(20_000)]
    drawn = plot(rows)
    assert drawn is not None
    (curve,) = drawn.curves
    assert len(curve.path) < 2000
    assert curve.high == "10" and " 0-82 " in curve.path


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"step": 1, "loss": 2.0}] * 10,
        [{"step": i} for i in range(10)],
        [{"name": "a", "loss": "x"} for _ in range(10)],
        [{"step": i, "loss": float("nan")} for i in range(10)],
    ],
)
def test_rows_that_make_no_chart(rows: list[dict[str, object]]) -> None:
    assert plot(rows) is None
