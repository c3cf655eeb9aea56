"""The charts of the page: what they ask, answer and show, and that the page stays small."""

from __future__ import annotations

import re
import struct
import sys
import zlib
from pathlib import Path

import msgspec
import pytest
import report_documents as documents

from npudiag.analyze import run
from npudiag.engine.load import load_pack, pack_sources
from npudiag.report import readings
from npudiag.report.html import draw, png, render
from npudiag.report.html.island import extract
from npudiag.report.html.timeline import timeline
from npudiag.result import Chart, Coverage, Curve, Grid, Panel, Result, decode, encode

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import report_size  # noqa: E402

CHARTS = {chart.name: chart for chart in documents.charts()}


# What charts say


@pytest.mark.parametrize(
    ("name", "en", "zh"),
    [
        ("loss", "From 2.99 to 1.8, lowest 1.8 at step 120. 2 places stand out.", "最低 1.8（Step 120）"),
        ("pace", "the slowest takes 4,800 ms (2 times that, step 80)", "最慢 4,800 ms（2 倍，Step 80）"),
        ("breakdown", "Rank 5 computes 27 ms, 35 % more than the median of 20 ms.", "Rank 5 计算 27 ms"),
        ("step_times", "Longest: 4,540 ms on rank 5 at step 200; the median is 2,400 ms.", "Rank 5，Step 200"),
        ("links", "Slowest: rank 5 to 2 with 3 GB/s; the median of 56 links is 25 GB/s.", "Rank 5 到 2"),
        (
            "activity",
            "Rank 5 logged last at 08:06, 5 minutes before the others stopped.",
            "Rank 5 最后一次输出日志在 08:06",
        ),
        ("npu", "Lowest clock 1,350 MHz (card 5). Hottest 91 °C (card 5).", "最低频率 1,350 MHz（卡 5）"),
        ("memory", "At most 64,000 of 65,536 MB (98 %), card 5.", "64,000 / 65,536 MB（98 %）"),
        ("memory_peaks", "At most 48,000 MB, rank 0.", "最高 48,000 MB"),
        ("serving", "The KV cache reaches 97.5 %. Up to 9 requests wait.", "最多 9 个请求等待"),
    ],
)
def test_answers(name: str, en: str, zh: str) -> None:
    assert en in readings.answer(CHARTS[name], "en")
    assert zh in readings.answer(CHARTS[name], "zh")


def test_calm_charts_say_so() -> None:
    calm = msgspec.convert(msgspec.to_builtins(CHARTS["pace"]), Chart)
    calm.panels[0].curves[0].values = [2400.0] * 120
    assert readings.answer(calm, "en") == "All steps take about 2,400 ms."
    even = msgspec.convert(msgspec.to_builtins(CHARTS["breakdown"]), Chart)
    even.panels[0].curves[0].values = [20.0] * 8
    assert "All ranks compute about equally long." in readings.answer(even, "en")


def test_tables_keep_what_stands_out_and_count_the_rest() -> None:
    twin = readings.twin(CHARTS["loss"], 10)
    assert len(twin.rows) == 10 and twin.more == 110
    assert [cells for hit, cells in twin.rows if hit] == [["1", "2.99", "-"], ["60", "4.9", "0.8"]]
    ranks = readings.twin(CHARTS["step_times"], 3)
    assert ranks.more == 5 and len(ranks.rows) == 3
    links = readings.twin(CHARTS["links"], 5)
    assert links.rows[0] == (True, ["5", "2", "3"]) and links.more == 51
    seen = readings.twin(CHARTS["activity"], 8)
    assert seen.rows[0] == (True, ["5", "08:00", "08:06"])


@pytest.mark.parametrize("chart", documents.hostile_charts(), ids=range(8))
def test_parts_that_do_not_fit_are_passed_over(chart: Chart) -> None:
    drawn = draw.figure(0, chart)
    fits = chart.kind == "grid" and chart.grid is not None and readings.cells_of(chart.grid) is not None
    assert (drawn is not None) == (fits or (chart.name not in ("loss", "pace", "skew", "job")))
    if drawn is not None:
        for lang in ("en", "zh"):
            assert isinstance(readings.answer(chart, lang), str)
        readings.twin(chart, 5)


# Geometry


def points(path: str) -> list[tuple[int, int]]:
    """Follow a path's relative moves."""
    found: list[tuple[int, int]] = []
    for start, rest in re.findall(r"M(-?\d+ -?\d+)h0(?:l([-\d ]*))?", path):
        x, y = map(int, start.split())
        found.append((x, y))
        steps = list(map(int, re.findall(r"-?\d+", rest)))
        for dx, dy in zip(steps[::2], steps[1::2], strict=True):
            x, y = x + dx, y + dy
            found.append((x, y))
    return found


def test_paths_lead_where_the_points_are() -> None:
    corners = [(0, 5), (3, 2), (3, 2), (10, 9), (12, 9), (15, 9), (4, 0)]
    assert points(draw.polyline(corners)) == [(0, 5), (3, 2), (10, 9), (15, 9), (4, 0)]
    assert points(draw.polyline([(1, 1), None, None, (5, 5), (6, 4)])) == [(1, 1), (5, 5), (6, 4)]


def test_round_ticks() -> None:
    assert draw.nice(2.25, 2.41, 4) == [2.2, 2.25, 2.3, 2.35, 2.4, 2.45] or draw.nice(2.25, 2.41, 4)[0] <= 2.25
    assert draw.nice(0, 97, 4) == [0, 50, 100]
    assert draw.nice(5, 5)[0] < 5 < draw.nice(5, 5)[-1]


def test_few_of_many_curves_have_colours_and_the_rest_is_a_band() -> None:
    figure = draw.figure(0, CHARTS["npu"])
    assert figure is not None
    clock = figure.panels[1]
    assert [line.css for line in clock.lines] == ["band", "c2"]
    assert clock.legend[0].name.en == "5" and clock.others == 7


def test_thinned_curves_keep_their_peaks() -> None:
    values: list[float | None] = [1.0] * 5000
    values[3210] = 9.0
    chart = Chart(
        name="pace",
        kind="curves",
        x=[float(i) for i in range(5000)],
        panels=[Panel(name="a", curves=[Curve(name="a", values=values)])],
    )
    figure = draw.figure(0, chart, 100)
    assert figure is not None
    path = figure.panels[0].lines[0].path
    assert len(path) < 600 and min(y for _, y in points(path)) < 40


def pixels(address: str) -> tuple[int, int, bytes]:
    """Return width, height and bytes of a picture."""
    import base64

    data = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    at, rows = 8, b""
    while at < len(data):
        (size,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + size]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0]
        rows += zlib.decompress(body) if kind == b"IDAT" else b""
        at += 12 + size
    lines = [rows[y * (width + 1) : (y + 1) * (width + 1)] for y in range(height)]
    assert all(line[0] == 0 for line in lines)
    return width, height, b"".join(line[1:] for line in lines)


def test_pictures_hold_the_cells() -> None:
    cells = bytes(range(6)) + b"\xff\xfe"
    assert pixels(png.data_address(png.png(cells, 4))) == (4, 2, cells)
    colours = png.palette()
    assert len(colours) == 255 and colours[0] != colours[254] and png.palette(bright_low=True)[0] == colours[254]


def test_an_outlier_among_a_thousand_rows_is_seen() -> None:
    rows = [[20] * 10 for _ in range(1024)]
    rows[701][4] = 250
    grid = Grid(unit="ms", row_name="rank", rows=list(range(1024)), column_name="step", columns=list(range(10)),
                low=0.0, high=254.0, cells=documents.grid_cells(rows))  # fmt: skip
    figure = draw.figure(0, Chart(name="step_times", kind="grid", grid=grid))
    assert figure is not None and figure.picture is not None
    width, height, cells = pixels(figure.picture.address)
    assert width == 10 and height == -(-1024 // figure.picture.group) <= 320
    assert cells.count(250) == 1 and cells.index(250) // width == 701 // figure.picture.group


def test_the_job_over_time() -> None:
    found = documents.charted().findings
    found[0].scope.first = "2026-04-12T09:05:00"
    chart = timeline(Coverage(timeline=documents.timeline()), None, job=CHARTS["job"], found=[("f1", found[0])])
    assert chart is not None and chart.to_scale and chart.pace is not None
    assert [block.css for block in chart.blocks] == ["starting", "training", "silent", "training"]
    assert [sign.css for sign in chart.signs] == ["save", "failure"]
    assert [(sign.anchor, sign.css) for sign in chart.findings] == [("f1", "warning")]
    without = timeline(Coverage(), None, job=CHARTS["job"])
    assert without is not None and not without.lanes and without.blocks


# The page


def test_every_chart_reads_without_scripts() -> None:
    page = render(documents.charted(), lang="en")
    for name, chart in CHARTS.items():
        if name != "job":
            assert readings.question(chart).en in page
            assert readings.answer(chart, "en") in page
            assert readings.question(chart).zh in documents.translations(page)
    assert page.count("<figure ") == len(CHARTS)
    assert "all 8" in page and "110 more in result.json" not in page


def test_a_cause_leads_to_the_charts_in_which_it_is_seen() -> None:
    page = render(documents.charted(), lang="en")
    cause = page[page.index('id="f1"') : page.index('<section id="costs"')]
    linked = re.findall(r'<a href="#(chart-\d+)">', cause)
    assert linked == ["chart-2", "chart-3", "chart-4"] and all(f'id="{name}"' in page for name in linked)


def test_costs_are_ordered_by_what_they_cost() -> None:
    page = render(documents.charted(), lang="en")
    costs = page[page.index('<section id="costs"') : page.index('<section id="charts"')]
    assert re.findall(r"<b>([\d.]+) %</b>", costs) == ["24.5", "11", "3.5"]
    assert re.findall(r'href="#(f\d)"', costs) == ["f1", "f3", "f2"]


def test_documents_without_charts_still_render() -> None:
    old = msgspec.to_builtins(documents.job())
    del old["charts"]
    result = decode(msgspec.json.encode(old))
    assert result.charts == [] and "data-chart" not in render(result, lang="en").partition("<script>(")[0]


def test_charts_survive_the_document() -> None:
    result = documents.charted()
    assert decode(encode(result)).charts == result.charts == extract(render(result, lang="zh")).charts


def test_the_gate_stands_under_the_verdict() -> None:
    result = documents.charted()
    assert 'id="gate-title"' not in render(result, lang="en")
    result.facts["gate"] = {"status": "failed", "failing": ["f1"], "budgets": []}
    page = render(result, lang="en")
    assert "Gate failed" in page and "PRO006 slow-rank" in page.split('id="gate-title"')[1][:600]


# Sizes


@pytest.mark.parametrize("ranks", [8, 64, pytest.param(1024, marks=pytest.mark.slow)])
def test_pages_of_whole_jobs_fit(ranks: int) -> None:
    result: Result = report_size.job(ranks)
    names = {chart.name for chart in result.charts}
    assert names >= {"job", "loss", "pace", "breakdown", "skew", "step_times", "links", "npu", "memory", "memory_peaks"}
    page = render(result, lang="en")
    assert len(page.encode()) <= report_size.BUDGETS[ranks]
    assert extract(page) == decode(encode(result))
    for finding in result.findings:
        assert finding.code in page


@pytest.mark.parametrize("name", ["aicore-exception-one-of-eight", "profile-slow-rank", "slow-stretch"])
def test_pages_of_sample_jobs_fit(name: str) -> None:
    result = run([str(ROOT / "sample_logs" / name / "logs")], load_pack(pack_sources((), ())))
    assert result.charts
    assert len(render(result, lang="zh").encode()) <= report_size.BUDGETS[8]
