"""Reports left among the logs are no logs."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from npudiag.analyze import Options, analyze
from npudiag.engine.load import load_pack, shipped_pack
from npudiag.parsers.own import OwnOutput
from npudiag.report import find_renderer

LOG = (
    "[rank0]: Traceback (most recent call last):\n"
    '[rank0]:   File "train.py", line 10, in <module>\n'
    "[rank0]:     main()\n"
    "[rank0]: RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity; "
    "58.10 GiB already allocated; 58.20 GiB current active; 1.01 GiB free; 59.00 GiB reserved in total by PyTorch)\n"
)


def test_outputs_change_nothing_when_they_lie_among_the_logs(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOG)
    pack = load_pack([shipped_pack()])
    before, _ = analyze([str(tmp_path)], pack, Options(workers=1))
    for name in ("json", "html", "sarif", "junit"):
        text = find_renderer(name)(before, lang="en")
        (tmp_path / f"report.{name}").write_bytes(text.encode() if isinstance(text, str) else text)
    (tmp_path / "alerts.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, before.findings)))
    after, _ = analyze([str(tmp_path)], pack, Options(workers=1))
    assert [(told.code, told.scope, told.evidence) for told in after.findings] == [
        (told.code, told.scope, told.evidence) for told in before.findings
    ]
    notes = {told.path.rpartition("/")[2]: told.note for told in after.inputs if told.kind == "skipped"}
    names = ("report.json", "report.html", "report.sarif", "report.junit", "alerts.jsonl")
    assert notes == dict.fromkeys(names, "written by npudiag")
    assert after.coverage.complete


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"schema": 1, "tool": {"name": "other"}}),
        json.dumps({"name": "npudiag"}),
        "RuntimeError: npudiag\n",
        "<!doctype html><title>npudiag</title>",
    ],
)
def test_what_merely_names_it_is_read(text: str) -> None:
    assert OwnOutput().recognise(text.encode(), "a") == 0.0
