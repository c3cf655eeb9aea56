"""Header families: fields of each, and lines that have none."""

from __future__ import annotations

import datetime

import pytest

from npudiag.parsers.headers import find_code, read, slog_row


def when(time_us: int | None) -> str | None:
    if time_us is None:
        return None
    return (datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=time_us)).isoformat()


@pytest.mark.parametrize(
    ("text", "family", "level", "time"),
    [
        ("[ERROR] HCCL(1,p):2026-01-02-03:04:05.123.456 x", "slog", "ERROR", "2026-01-02T03:04:05.123456"),
        ("[ERROR] RUNTIME(38,python3): ... [driver.cc:64]38 x", "slog", "ERROR", None),
        (
            "[ERROR] 2026-01-02-03:04:05 (PID:1, Device:3, RankID:-1) ERR00100 PTA call acl api failed",
            "torch-npu",
            "ERROR",
            "2026-01-02T03:04:05",
        ),
        (
            "[2026-01-02-03:04:05.123456] [ascend] [devmm] [WARN] [devmm_open 12] <python3:20,20> text",
            "kernel-ring",
            "WARNING",
            "2026-01-02T03:04:05.123456",
        ),
        (
            "[WARN]     2026/01/02 03:04:05.123456 17      switch/a.go:190    msg",
            "hwlog",
            "WARNING",
            "2026-01-02T03:04:05.123456",
        ),
        ("E0102 03:04:05.123456       1 file.go:258] msg", "glog", "ERROR", "2026-01-02T03:04:05.123456"),
        ("E20250102 03:04:05.123456 34 a.cpp:1107] msg", "glog", "ERROR", "2025-01-02T03:04:05.123456"),
        ("[W102 03:04:05.123456789 socket.cpp:436] msg", "c10", "WARNING", "2026-01-02T03:04:05.123456"),
        ("[E socket.cpp:472] [c10d] msg", "c10", "ERROR", None),
        ("2026-01-02 03:04:05,123 - name - ERROR - msg", "python", "ERROR", "2026-01-02T03:04:05.123000"),
        ("[2026-01-02 03:04:05,123][10][WARNING][a] msg", "python", "WARNING", "2026-01-02T03:04:05.123000"),
        ("[INFO|trainer.py:26] 2026-01-02 03:04:05,123 >> msg", "python", "INFO", "2026-01-02T03:04:05.123000"),
        (
            "[2026-01-02 03:04:05.123456+08:00] [1] [2] [server] [ERROR] [a.cpp:1] : MIE05E01001A x",
            "python",
            "ERROR",
            "2026-01-02T03:04:05.123456",
        ),
        ("2026-01-02 03:04:05.123 | WARNING  | a:b:1 - msg", "python", "WARNING", "2026-01-02T03:04:05.123000"),
        ("Jan  2 03:04:05 host kernel: msg", "syslog", None, "2026-01-02T03:04:05"),
        ("[Fri Jan  2 03:04:05 2026] msg", "dmesg", None, "2026-01-02T03:04:05"),
        ("[16794.226248] msg", "printk", None, None),
        ("WARNING:tensorflow: msg", "plain", "WARNING", None),
    ],
)
def test_family_level_and_time(text: str, family: str, level: str | None, time: str | None) -> None:
    found = read(text, 7, 2026)
    assert found is not None
    row, name = found
    assert (name, row.level, when(row.time_us), row.line) == (family, level, time, 7)


def test_torch_npu_names_process_device_and_rank() -> None:
    found = read(
        "[ERROR] 2026-01-02-03:04:05 (PID:11, Device:3, RankID:19) ERR02200 DIST call hccl api failed.", 1, None
    )
    assert found is not None
    assert (found[0].pid, found[0].device, found[0].rank) == (11, 3, 19)
    found = read("[ERROR] 2026-01-02-03:04:05 (PID:11, Device:-1, RankID:-1) ERR99999 UNKNOWN", 1, None)
    assert found is not None
    assert (found[0].device, found[0].rank) == (None, None)


@pytest.mark.parametrize(
    "text", ["", "  indented", "plain words", "iteration 1/ 10 | lm loss: 1.0", "(a b)", "{'loss': 1}"]
)
def test_lines_without_a_header(text: str) -> None:
    assert read(text, 1, 2026) is None


@pytest.mark.parametrize("text", ["[ERROR] HCCL(1,p):2026-13-45-03:04:05.123.456 x", "Feb 30 03:04:05 host x"])
def test_a_date_that_does_not_exist_gives_no_time(text: str) -> None:
    found = read(text, 1, 2026)
    assert found is not None
    assert found[0].time_us is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("EZ9999: Inner Error!", "EZ9999"),
        ("EI0006[PID: 1] 2026", "EI0006"),
        ("Failure_to_Compile_Op(E40021): x", "E40021"),
        ("RankID:0) ERR02200 DIST", "ERR02200"),
        ("ErrCode=507015, desc", "507015"),
        ("runtime result = 107002[FUNC", "107002"),
        ("MIE05E01001A pull kv failed", "MIE05E01001A"),
        ("OVERFLOW 123456 and RE12345", None),
    ],
)
def test_codes(text: str, code: str | None) -> None:
    assert find_code(text) == code


def test_driver_lines_inside_slog_have_the_driver_s_own_level() -> None:
    line = (
        "[EVENT] KERNEL(6843,sklogd):2026-01-02-03:04:05.123.456 [klogd.c:253][251681.794072] [ascend] [ERROR] [tsdrv] "
        "[tsdrv_hb_cq_callback 319] <swapper/30:0> lost"
    )
    found = read(line, 1, None)
    assert found is not None
    assert (found[0].level, found[0].module, found[0].source) == ("ERROR", "KERNEL", "tsdrv_hb_cq_callback 319")
    row = slog_row([line], 1)
    assert (row.level, row.source) == ("ERROR", "tsdrv_hb_cq_callback 319")
