"""Whoever is told of findings never holds up the watch."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from npudiag.analyze import analyze_texts
from npudiag.engine.load import load_pack, shipped_pack
from npudiag.errors import UsageError
from npudiag.result import Finding
from npudiag.watch.alerts import Alerts

LOG = "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity)\n"


@pytest.fixture(scope="module")
def finding() -> Finding:
    return analyze_texts({"train.log": LOG}, load_pack([shipped_pack()])).findings[0]


def test_a_command_that_hangs_is_stopped_and_told(finding: Finding) -> None:
    alerts = Alerts(f"{sys.executable} -c 'import time; time.sleep(100)'", None)
    begin = time.monotonic()
    for _ in range(3):
        alerts.send(finding)
    alerts.close(0.3)
    assert time.monotonic() - begin < 60
    assert "did not end" in alerts.failed


def test_what_goes_wrong_is_told(finding: Finding) -> None:
    alerts = Alerts("no-such-program --now", Path("/dev/full"))
    alerts.send(finding)
    alerts.close()
    assert "no-such-program" in alerts.failed
    full = Alerts(None, Path("/dev/full"))
    full.send(finding)
    full.close()
    assert "No space left" in full.failed
    with pytest.raises(UsageError, match="quot"):
        Alerts("mail 'somebody", None)
    with pytest.raises(UsageError, match="cannot be written"):
        Alerts(None, Path("/nowhere/alerts.jsonl"))
