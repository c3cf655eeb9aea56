"""Parsers of other packages: used where they load, told where they do not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from npudiag import parsers, plugins
from npudiag.host.resources import Resources
from npudiag.ingest import ingest
from npudiag.parsers.scan import Literals

CODE = """
from npudiag.parsers.base import Partial

class Sound:
    name = "acme"
    def recognise(self, head, path):
        return 0.99 if head.startswith(b"ACME") else 0.0
    def parse(self, stream, head, context):
        return Partial(context.source, kind="acme", identity=context.source.identity)

class Unsound:
    def __init__(self):
        raise RuntimeError("no licence")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    site = tmp_path / "site"
    info = site / "acme_logs-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-logs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[npudiag.parsers]\nacme = acme_logs:Sound\nbad = acme_logs:Unsound\ngone = acme_none:Parser\n"
    )
    (site / "acme_logs.py").write_text(CODE)
    monkeypatch.syspath_prepend(site)
    caches = (parsers._foreign, plugins._all, plugins._mentioned)
    for cached in caches:
        cached.cache_clear()
    yield tmp_path
    for cached in caches:
        cached.cache_clear()
    sys.modules.pop("acme_logs", None)


def test_a_foreign_parser_reads_and_a_broken_one_is_told(package: Path) -> None:
    log = package / "a.acme"
    log.write_text("ACME 1\n")
    found = ingest([str(log)], Literals(), lambda: Resources(1, 1 << 28))
    assert [partial.kind for partial in found.partials] == ["acme"]
    told = {problem.path: problem.message for problem in found.problems}
    assert set(told) == {"acme_logs:Unsound", "acme_none:Parser"}
    assert "no licence" in told["acme_logs:Unsound"]
    assert "uninstall" in told["acme_none:Parser"]
