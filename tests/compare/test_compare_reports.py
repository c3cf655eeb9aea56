"""The reports about a comparison: complete, in both languages, harmless."""

from __future__ import annotations

import re
import shutil
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pair_runs import write

import npudiag as package
from npudiag.comparison.model import (
    Cause,
    Comparison,
    FindingChange,
    Gate,
    Measure,
    Said,
    Setting,
    Side,
    decode,
    encode,
)
from npudiag.report import compare_terminal
from npudiag.report.html import compare as page
from npudiag.report.terminal import STYLES
from npudiag.report.wrap import text_width

NASTY = "</style><script>alert(1)</script>\x00\x1b[31m\u202e\u2028 {{ 7*7 }} \ud800 & \"'"


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Comparison]:
    folder = tmp_path_factory.mktemp("pairs")
    found = {name: package.compare(*write(name, folder)) for name in ("overlap", "scaling", "losses")}
    return {**found, "nasty": nasty()}


def nasty() -> Comparison:
    said = Said(NASTY, NASTY)
    side = Side(name=NASTY, kind="run", verdict=said, stack=NASTY, untold=[said])
    return Comparison(
        version=NASTY, command=[NASTY], created=NASTY, headline=said, a=side, b=side,
        causes=[Cause(part="free", ms=1.0, text=said, settings=[NASTY])],
        settings=[Setting(name=NASTY, kind="env", a=NASTY, b=None, at_a=NASTY)] * 99,
        measures=[Measure(area="kernel", name=NASTY, unit="ms", a=1.0, b=None, note=said)] * 99,
        findings=[FindingChange(state="new", code=NASTY, name=NASTY, severity="error", role="root", title=said)] * 99,
        notes=[said], gate=Gate(status="failed", reasons=[said]),
    )  # fmt: skip


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", ["overlap", "scaling", "losses", "nasty"])
@pytest.mark.parametrize("width", [60, 100, 200])
def test_terminal_lines_fit_and_hold_no_control_characters(
    name: str, lang: str, width: int, documents: dict[str, Comparison]
) -> None:
    for verbosity in (-1, 0, 1):
        lines = compare_terminal.render(documents[name], lang=lang, width=width, verbosity=verbosity)
        for line in lines:
            text = "".join(part for part, _ in line)
            assert all(style in STYLES for _, style in line)
            assert not re.search("[\x00-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]", text)
            if name != "nasty" and verbosity >= 0 and not any(style in ("path", "strong") for _, style in line):
                assert text_width(text) <= min(width, 120), text
        assert (len(lines) == 1) == (verbosity < 0)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_terminal_names_every_part(lang: str, documents: dict[str, Comparison]) -> None:
    found = decode(encode(documents["overlap"]))
    found.gate = Gate(status="failed", reasons=[Said("step time +16 %", "单步时间 +16 %")])
    text = compare_terminal.plain(compare_terminal.render(found, lang=lang, width=100, verbosity=0))
    parts = {
        "en": [
            "Where the difference lies",
            "Settings that differ",
            "set → not set",
            "Speed",
            "Findings",
            "Gate failed",
        ],
        "zh": ["差异所在", "不同的配置", "已设置 → 未设置", "速度", "诊断发现", "门禁未通过"],
    }
    at = -1
    for part in parts[lang]:
        at = text.find(part, at + 1)
        assert at >= 0, part


class Loads(HTMLParser):
    """Collects what a page would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if (name in ("src", "href", "srcset", "style") and value != "data:,") or name.startswith("on"):
                self.found.append(f"{tag} {name}={value}")
        if tag in ("script", "iframe", "object", "embed", "img", "form"):
            self.found.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", ["overlap", "scaling", "losses", "nasty"])
def test_the_page_loads_and_runs_nothing(name: str, lang: str, documents: dict[str, Comparison]) -> None:
    text = page.render(documents[name], lang=lang)
    reader = Loads()
    reader.feed(text)
    assert reader.found == []
    assert f'<html lang="{lang}">' in text and "default-src 'none'" in unescape(text)
    assert not re.search("[\x00\x1b\u202e\u2028\ud800-\udfff]", text)
    assert len(text.encode()) < 150_000
    if name != "nasty":
        said = documents[name].headline
        assert (said.zh if lang == "zh" else said.en) in "".join(reader.text)


def test_the_policy_allows_its_own_style_only(documents: dict[str, Comparison]) -> None:
    from npudiag.report.html.policy import source_hash

    text = page.render(documents["overlap"])
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert source_hash(style) in text.replace("&#39;", "'")


@pytest.mark.browser
@pytest.mark.parametrize("name", ["overlap", "losses", "nasty"])
def test_a_browser_shows_it_to_everybody_without_a_word(
    name: str, documents: dict[str, Comparison], tmp_path: Path
) -> None:
    from playwright.sync_api import sync_playwright

    axe = pytest.importorskip("axe_playwright_python")
    checker = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    browser = next(
        (found for each in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(each))), None
    )
    file = tmp_path / "page.html"
    file.write_text(page.render(documents[name]), encoding="utf-8")
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]) as chromium,
    ):
        for width, scheme in ((1280, "light"), (400, "dark")):
            view = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
            said: list[str] = []
            view.on("console", lambda message, said=said: said.append(message.text))
            view.on("requestfinished", lambda request, said=said: said.append(request.url))
            view.goto(file.as_uri())
            assert [text for text in said if not text.startswith(("file:", "data:"))] == []
            assert view.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"it fits {width} px"
            view.evaluate(checker)
            report = view.evaluate("axe.run(document)")
            grave = [
                (item["id"], [node["html"][:120] for node in item["nodes"][:3]])
                for item in report["violations"]
                if item["impact"] in ("serious", "critical")
            ]
            assert grave == [] and len(report["passes"]) > 15
