"""Records learn rank and device of their process, however little the input tells of it."""

from __future__ import annotations

from typing import Any

import pytest

from npudiag.analyses import topology
from npudiag.tables.records import LogRecord


def record(text: str, line: int = 1, **changed: Any) -> LogRecord:
    values: dict[str, Any] = {
        "file": "plog-7_1.log",
        "line": line,
        "text": text,
        "kind": "slog",
        "node": "n1",
        "pid": 7,
    }
    return LogRecord(**{**values, **changed})


def placed(*records: LogRecord) -> LogRecord:
    topology.place(records, topology.find(records))
    return records[0]


def console(**changed: Any) -> LogRecord:
    text = "[ERROR] 2026-03-24-15:02:38 (PID:7, Device:3, RankID:11) ERR02200 DIST call hccl api failed."
    return record(text, **{"file": "train.log", "kind": "console", "rank": 11, "device": 3, **changed})


def test_the_console_tells_whose_plog_it_is() -> None:
    told = placed(record("ra socket listen start fail"), console())
    assert (told.rank, told.device) == (11, 3)


def test_neither_another_node_nor_two_answers_tell_it() -> None:
    assert placed(record("fail"), console(node="n2")).rank is None
    assert placed(record("fail"), console(), console(rank=12)).rank is None


def test_the_other_records_of_a_plog_tell_its_device() -> None:
    assert placed(record("fail"), record("server init failed. devicePhyId[5]", 2)).device == 5
    assert placed(record("fail"), record("devicePhyId[5]", 2), record("devicePhyId[6]", 3)).device is None
    assert placed(record("fail"), record("devicePhyId[5]", 2, file="plog-8_1.log", pid=8)).device is None


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("device Ascend910-3 is unhealthy", 3),
        ("card 5 is faulty", 5),
        ("DeviceId:6 reset failed", 6),
        ("receive devFaultInfo: {2163068928 7 112 0 0 0 3 1 1773113318}, hex code: 80ee0000", 7),
        ("allocate Ascend910-0,Ascend910-1 to the pod", None),
        ("get fault event, [device type: NPU]-[device id: 5]-[error code: 56000005]", None),
        ("image Ascend910-2.4.0 loaded", None),
    ],
)
def test_components_of_the_cluster_name_a_card(text: str, device: int | None) -> None:
    assert placed(record(text, kind="cluster-component", file="devicePlugin.log", pid=None)).device == device
