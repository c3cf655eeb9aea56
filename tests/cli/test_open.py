"""``--open``: the report in the browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from npudiag.cli import render
from npudiag.cli.app import app
from npudiag.errors import UsageError
from npudiag.result import Result, Tool, Verdict, encode


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def note(address: str) -> bool:
        found.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", note)
    return found


@pytest.fixture
def document(tmp_path: Path) -> Path:
    file = tmp_path / "result.json"
    verdict = Verdict(text="No problem found.", status="healthy")
    file.write_bytes(encode(Result(tool=Tool(version="1"), verdict=verdict)))
    return file


def test_render_opens_what_it_writes(document: Path, tmp_path: Path, opened: list[str]) -> None:
    page = tmp_path / "report.html"
    done = CliRunner().invoke(app, ["render", str(document), "--html", str(page), "--open", "-q"])
    assert done.exit_code == 0 and opened == [page.resolve().as_uri()]
    assert "No problem found." in page.read_text(encoding="utf-8")


def test_without_a_name_the_page_is_a_temporary_file(document: Path, opened: list[str]) -> None:
    done = CliRunner().invoke(app, ["render", str(document), "--open", "-q"])
    assert done.exit_code == 0 and len(opened) == 1
    page = Path(opened[0].removeprefix("file://"))
    assert page.name == "report.html" and "npudiag" in page.read_text(encoding="utf-8")
    page.unlink()
    page.parent.rmdir()


def test_analyze_opens_its_report(tmp_path: Path, opened: list[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text("[INFO] nothing to see\n" * 20)
    page = tmp_path / "report.html"
    CliRunner().invoke(app, ["analyze", str(log), "--html", str(page), "--open", "-q", "--no-config"])
    assert opened == [page.resolve().as_uri()] and page.stat().st_size > 10_000


def test_stdout_cannot_be_opened() -> None:
    with pytest.raises(UsageError, match="--open needs a file"):
        render.with_page({"html": "-"}, True)
    assert render.with_page({"html": "-"}, False) == {"html": "-"}


def test_no_browser_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    render.open_page({"html": str(tmp_path / "r.html")}, True)
    assert "no browser can be started" in capsys.readouterr().err
