"""Which part of a record is shown as its proof."""

from __future__ import annotations

from npudiag.diagnosis.findings import log_evidence
from npudiag.tables.records import LogRecord

COMMAND = "[2026-01-02 03:04:05,678] [ERROR] [launch.py:9:handler] [" + ", ".join(f"'--option{n}'" for n in range(60))


def record(text: str) -> LogRecord:
    return LogRecord(file="train.log", line=7, text=text, kind="console")


def test_a_long_line_is_shown_from_shortly_ahead_of_what_matched() -> None:
    shown = log_evidence(record(COMMAND + "] exits with return code = -9"), ("exits with return code = ",), ("-9",))
    assert shown.text is not None and len(shown.text) < 160
    assert shown.text.endswith("] exits with return code = -9") and not shown.text.startswith(" ")
    assert shown.text in COMMAND + "] exits with return code = -9"
    assert shown.line == 7
    assert "exits with return code = " in shown.highlights


def test_a_line_that_matched_near_its_beginning_is_shown_whole() -> None:
    text = "exits with return code = 1 " + COMMAND
    assert log_evidence(record(text), ("exits with return code = ",)).text == text


def test_the_beginning_of_a_message_stays_where_a_longer_word_follows() -> None:
    message = "Widget kernel failed, device_id=0, fault kernel_name=te_" + "a" * 64
    line = "[ERROR] RUNTIME(4711,python):2026-01-02-03:04:05.678.901 " + "x" * 200 + " " + message
    shown = log_evidence(record(line), ("idget kernel failed", "te_" + "a" * 64))
    assert shown.text is not None and "Widget kernel failed" in shown.text
