"""The page in a real browser."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import report_documents as documents

from npudiag.report.html import render
from npudiag.result import decode

pytestmark = pytest.mark.browser

ARGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium_path() -> str | None:
    for name in ("/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    return None


def playwright_api() -> Any:
    from playwright import sync_api

    return sync_api


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = chromium_path()
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("no chromium on this machine, which CI needs to test the report in")
        pytest.skip("no chromium on this machine")
    with playwright_api().sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGS)
        yield browser
        browser.close()


class Visit:
    """A page opened in its own context, with all that it said and asked for."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(accept_downloads=True, **options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append("dialog"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.url = path.as_uri()
        self.page.goto(self.url)

    def check(self) -> None:
        assert self.complaints == []
        assert [url for url in self.requests if not url.startswith(("data:", "blob:"))] == [self.url]

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.check()
        finally:
            self.context.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for name, make in {**documents.DOCUMENTS, "large": lambda: documents.job(1024)}.items():
        found[name] = folder / f"{name}.html"
        found[name].write_text(render(make(), lang="en"), encoding="utf-8")
    return found


@pytest.mark.parametrize("name", [*documents.DOCUMENTS, "large"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_opens_quietly_and_fits(
    browser: Any, pages: dict[str, Path], tmp_path: Path, name: str, width: int, scheme: str
) -> None:
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with Visit(browser, pages[name], **options) as visit:
        page = visit.page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 20, 24)"}[scheme]
        picture = page.screenshot(path=tmp_path / "page.png")
        assert picture.startswith(b"\x89PNG")
        page.evaluate("document.querySelectorAll('main details').forEach(item => { item.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_text_does_nothing(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["hostile"]) as visit:
        page = visit.page
        page.wait_for_timeout(200)
        assert page.title() != "owned"
        assert page.evaluate("document.querySelectorAll('img, main script, svg[onload]').length") == 0
        text = page.locator("main").text_content()
        assert "</script><script>document.title='owned'</script>" in text
        assert "\\u202egnp.exe" in text and "\\x1b[31mred" in text
        assert not any(char in text for char in "\x1b\x00\u202e\u2028\u2066")


def test_language_switch(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["job"]) as visit:
        page = visit.page
        assert page.locator("h1").inner_text().startswith("The job died")
        page.click("#lang")
        playwright_api().expect(page.locator("html")).to_have_attribute("lang", "zh")
        assert page.locator("h1").inner_text().startswith("任务在第")
        assert page.title().startswith("任务在第")
        assert "What to do" not in page.locator("main").inner_text()
        page.click("#lang")
        assert page.locator("h1").inner_text().startswith("The job died")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_theme_switch_is_kept(browser: Any, pages: dict[str, Path], scheme: str) -> None:
    def background() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    with Visit(browser, pages["job"], color_scheme=scheme) as visit:
        page = visit.page
        before = background()
        page.click("#theme")
        assert background() != before
        after = background()
        page.reload()
        visit.requests.pop()
        assert background() == after
        page.click("#theme")
        assert background() == before


def test_copy_buttons(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["job"], permissions=["clipboard-read", "clipboard-write"]) as visit:
        page = visit.page
        expect = playwright_api().expect

        def copied(selector: str) -> str:
            page.locator(selector).first.click()
            expect(page.locator("#said")).to_have_text("copied")
            return str(page.evaluate("navigator.clipboard.readText()"))

        assert copied(".where .copy") == "job-0412/worker-0/log/debug/plog/plog-48215_20260412093011005.log:4711"
        expect(page.locator("#said")).to_be_empty()
        assert copied(".cmd .copy") == (
            "sed -n '4706,4716p' job-0412/worker-0/log/debug/plog/plog-48215_20260412093011005.log"
        )
        expect(page.locator("#said")).to_be_empty()
        script = copied("#changes .copy")
        assert "\nexport ASCEND_LAUNCH_BLOCKING=1\n" in script and "修改建议" not in script


@pytest.mark.parametrize("name", ["job", "large", "hostile"])
def test_saved_document_is_the_result(browser: Any, pages: dict[str, Path], name: str) -> None:
    with Visit(browser, pages[name]) as visit:
        with visit.page.expect_download() as waiting:
            visit.page.click("#save")
        download = waiting.value
        assert download.suggested_filename == "result.json"
        saved = Path(download.path()).read_bytes()
        make = documents.DOCUMENTS.get(name, lambda: documents.job(1024))
        assert decode(saved) == make()
        assert json.loads(saved)["schema"] == 1


def test_deep_links_open_what_they_name(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["job"]) as visit:
        page = visit.page
        expect = playwright_api().expect
        assert not page.locator("#f3 > .body").is_visible()
        page.evaluate("location.hash = '#f3'")
        expect(page.locator("#f3 > .body")).to_be_visible()


def test_keys_and_filter(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["job"]) as visit:
        page = visit.page
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.parentElement.id") == "f1"
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.parentElement.id") == "f10"
        page.keyboard.press("k")
        assert page.evaluate("document.activeElement.parentElement.id") == "f1"
        page.keyboard.press("/")
        page.keyboard.type("rank 3 waited")
        assert page.locator("#f5").is_visible() and not page.locator("#f6").is_visible()
        assert address(page).endswith("#q=rank%203%20waited")
        page.keyboard.press("Escape")
        assert page.locator("#f6").is_visible()
        page.click("#unfold")
        assert page.evaluate("document.querySelectorAll('main details:not([open])').length") == 0


def test_keyboard_reaches_every_control(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["job"]) as visit:
        page = visit.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        seen = set()
        for _ in range(16):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("document.activeElement.id || document.activeElement.getAttribute('href')"))
        assert {"lang", "theme", "save", "filter", "#coverage"} <= seen
        names = page.evaluate(
            "[...document.querySelectorAll('button')].map(b => b.getAttribute('aria-label') || b.textContent)"
        )
        assert all(name.strip() for name in names)


def address(page: Any) -> str:
    """Return the part of the address behind the file, as the page itself sees it at once."""
    found: str = page.evaluate("location.href.slice(location.href.indexOf('.html') + 5)")
    return found


def visible(page: Any) -> set[str]:
    """Return the ids of the findings that the filters leave."""
    found: list[str] = page.evaluate(
        "[...document.querySelectorAll('details.finding')].filter(e => !e.closest('[hidden]')).map(e => e.id)"
    )
    return set(found)


def test_filters_and_the_address_that_keeps_them(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["job"]) as visit:
        page = visit.page
        everything = visible(page)
        page.check("input[value=warning]", force=True)
        warnings = visible(page)
        assert address(page).endswith("#s=warning") and warnings < everything
        page.uncheck("input[value=warning]", force=True)
        page.select_option("#category", "hccl-timeout")
        timeouts = visible(page)
        # The cause stays, with what it holds.
        assert "f1" in timeouts and timeouts < everything
        page.fill("#rank", "3")
        assert address(page).endswith("#c=hccl-timeout&r=3")
        assert visible(page) == {"f1", "f5"}
        assert " of " in page.locator("#count").inner_text()
        link = visit.url + address(page)
        page.click("#clear")
        assert visible(page) == everything and address(page) == "#"
        page.goto("about:blank")
        page.goto(link)
        assert visible(page) == {"f1", "f5"} and page.input_value("#rank") == "3"
        page.fill("#filter", "no such words")
        assert page.locator("#none").is_visible()
        # A link to a finding shows it whatever is filtered.
        page.evaluate("location.hash = '#f3'")
        playwright_api().expect(page.locator("#f3 > .body")).to_be_visible()
        visit.requests[:] = [visit.url]


def test_keys_switch_and_explain_themselves(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["charted"]) as visit:
        page = visit.page
        expect = playwright_api().expect
        page.keyboard.press("?")
        expect(page.locator("#keys")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#keys")).to_be_hidden()
        page.keyboard.press("l")
        expect(page.locator("#chart-1 h3")).to_have_text("Loss 是否正常下降，梯度是否平稳？")
        assert page.evaluate("document.documentElement.lang") == "zh" and address(page).endswith("#lang=zh")
        page.keyboard.press("l")
        expect(page.locator("#chart-1 h3")).to_have_text("Does the loss fall, and do the gradients stay calm?")
        page.keyboard.press("j")
        page.keyboard.press("o")
        assert page.locator("#f1").get_attribute("open") is None
        page.keyboard.press("e")
        assert page.evaluate("document.querySelectorAll('main details:not([open])').length") == 0


def test_charts_are_read_under_the_pointer_and_by_keys(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["charted"], reduced_motion="reduce") as visit:
        page = visit.page
        expect = playwright_api().expect
        tip = page.locator(".tip")

        def point(selector: str, x: float, y: float) -> None:
            plate = page.locator(selector).first
            plate.scroll_into_view_if_needed()
            box = plate.bounding_box()
            page.mouse.move(box["x"] + box["width"] * x, box["y"] + box["height"] * y)

        point("#chart-1 .pl", 59.2 / 119, 0.5)
        expect(tip).to_contain_text("step 60")
        expect(tip).to_contain_text("loss 4.9")
        point("#chart-3 .pl", 5.5 / 8, 0.5)
        expect(tip).to_contain_text("rank 5")
        expect(tip).to_contain_text("computing 27 ms")
        point("#chart-4 .pl", 22.5 / 50, 5.5 / 8)
        expect(tip).to_contain_text("step 220")
        expect(tip).to_contain_text("4,540 ms")
        page.mouse.move(0, 0)
        expect(tip).to_be_hidden()
        point("#timeline .la", 0.5, 0.5)
        expect(tip).to_contain_text("2026-04-12 08:48:")
        expect(tip).to_contain_text("INFO 246")
        page.mouse.move(0, 0)
        expect(tip).to_be_hidden()
        page.locator("#chart-5 .plot").focus()
        for key in ["ArrowDown"] * 5 + ["ArrowRight"] * 2:
            page.keyboard.press(key)
        expect(tip).to_contain_text("sender 5")
        expect(tip).to_contain_text("receiver 2")
        expect(tip).to_contain_text("3 GB/s")


def accessibility_checker() -> str:
    """Return the source of axe-core, which the test evaluates in the page: the policy lets no script be added."""
    try:
        from importlib.resources import files

        return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        if os.environ.get("CI"):
            pytest.fail("axe-core is not installed, which CI needs to check the report with")
        pytest.skip("axe-core is not installed")


@pytest.mark.parametrize("name", ["charted", "job", "hostile"])
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_nothing_keeps_people_out(browser: Any, pages: dict[str, Path], name: str, width: int, scheme: str) -> None:
    source = accessibility_checker()
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, "reduced_motion": "reduce"}
    with Visit(browser, pages[name], **options) as visit:
        page = visit.page
        page.evaluate("document.querySelectorAll('details').forEach(item => { item.open = true; })")
        page.evaluate(source)
        report = page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})"
        )
        grave = [
            (item["id"], item["impact"], [node["html"][:200] for node in item["nodes"][:3]])
            for item in report["violations"]
            if item["impact"] in ("serious", "critical")
        ]
        assert grave == []
        assert len(report["passes"]) > 20


def test_links_to_findings_are_copied(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["job"], permissions=["clipboard-read", "clipboard-write"]) as visit:
        page = visit.page
        page.locator("#f1 .deep").first.click()
        playwright_api().expect(page.locator("#said")).to_have_text("copied")
        assert page.evaluate("navigator.clipboard.readText()") == f"{visit.url}#f1"


@pytest.mark.parametrize("scripts", [True, False])
def test_prints_to_pdf(browser: Any, pages: dict[str, Path], scripts: bool) -> None:
    with Visit(browser, pages["job"], java_script_enabled=scripts, color_scheme="dark") as visit:
        folded = visit.page.pdf(format="A4", print_background=True)
        assert folded.startswith(b"%PDF")
        # What is folded away on the screen is on paper.
        assert folded.count(b"/Type /Page\n") >= 5 or len(folded) > 100_000


def test_reads_without_scripts(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["job"], java_script_enabled=False) as visit:
        page = visit.page
        assert page.locator("h1").inner_text().startswith("The job died")
        assert page.locator("#f1 .log").first.is_visible()
        assert not page.locator("#theme").is_visible() and not page.locator(".copy").first.is_visible()
        page.locator(".consequences > summary").click()
        page.locator("#f3 > summary").click()
        assert page.locator("#f3 .log").is_visible()
