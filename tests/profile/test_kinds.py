"""Profiler files are told by their first bytes, and logs are not taken for them."""

from __future__ import annotations

import pytest

from npudiag.parsers.profiler.communication import operation_kind
from npudiag.parsers.profiler.kinds import column_name, kind_of
from npudiag.parsers.profiler.products import unaligned
from npudiag.parsers.profiler.raw import group_hash
from npudiag.parsers.profiler.text import number, step_number

HEADS = {
    "prof-step-trace": "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble",
    "prof-kernel-details": "Model ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us)",
    "prof-op-summary": "Device_id,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us)",
    "prof-op-statistic": "OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)",
    "prof-api-statistic": "Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance",
    "prof-memory-record": "Component,Timestamp(us),Total Allocated(KB),Total Reserved(KB),Device",
    "prof-operator-memory": "Name,Size(KB),Allocation Time(us),Release Time(us),Allocation Total Allocated(MB)",
    "prof-npu-module-mem": "Device_id,Component,Timestamp(us),Total Reserved(MB),Device",
    "prof-l2-cache": "Stream Id,Task Id,Hit Rate,Victim Rate,Op Name",
    "prof-data-preprocess": "Timestamp(us),Node,Compute_time(us),Memcpy_time(us),Task_time(us),Total_time(us)",
    "prof-mindspore-cluster": "computation_time,communication_alone_time,stage_time,receive_alone_time",
    "prof-trace": '[{"ph": "X", "name": "aten::add", "pid": 7, "tid": 7, "ts": "1.5", "dur": 2}',
    "prof-communication": '{"step5": {"p2p": {}, "collective": {}}}',
    "prof-communication-matrix": '{"step5": {"collective": {"a-total@1": {"0-1": {"Transport Type": "HCCS"}}}}}',
    "prof-info": '{"config": {"common_config": {"record_shapes": true}}}',
    "prof-metadata": '{\n  "ENV_VARIABLES": {"ASCEND_GLOBAL_LOG_LEVEL": ""}}',
    "prof-groups": '{"collective": [[0, 1], [0]], "p2p": []}',
    "prof-db": "SQLite format 3\x00",
}


@pytest.mark.parametrize(("kind", "head"), HEADS.items())
def test_kinds(kind: str, head: str) -> None:
    assert kind_of(head.encode()) == kind
    assert kind_of((head + "\r\n").encode()) == kind
    if kind != "prof-db":
        assert kind_of(b"\xef\xbb\xbf" + head.encode()) == kind
        assert kind_of(head.encode("utf-16")) == kind


@pytest.mark.parametrize(
    "head",
    [
        "[ERROR] HCCL(4711,python3):2026-03-04-08:30:11.204.118 [a.cc:1] a, b, c",
        '{"log": "step 5, loss 3.2, Computing, Free", "stream": "stdout"}',
        "[{'loss': 3.2, 'grad_norm': 0.4}]",
        "iteration 5, computing, free, communication",
        "name,size,count\n1,2,3",
        "",
        "\x00\x01\x02",
    ],
)
def test_other_files(head: str) -> None:
    assert kind_of(head.encode()) is None


def test_small_readings() -> None:
    assert column_name('"Total Time(us)"') == "total time"
    assert column_name("Communication(Not Overlapped)") == "communication(not overlapped)"
    assert number("1764246877073569.640\t") == pytest.approx(1764246877073569.64)
    assert number("N/A") is None
    assert number("1e999") is None
    assert step_number("step13") == 13
    assert step_number("") is None
    assert operation_kind("hcom_allReduce__346_3_1") == "allReduce"
    assert operation_kind("hcom_batchSendRecv__002_0_1") == "batchSendRecv"


def test_groups_are_hashed_as_the_profiler_does() -> None:
    assert group_hash("group_name_0") == "5862276093215481612"
    assert group_hash("group_name_19") == "3985310405473756128"


def test_alignment_looks_at_inner_dimensions_of_products_only() -> None:
    assert unaligned("MatMulV3", '"4096,5120;5120,50257"')
    assert not unaligned("MatMulV3", '"4096,5120;5120,50304"')
    assert not unaligned("Add", '"4096,50257;4096,50257"')
    assert not unaligned("MatMulV3", '"4096,1;1,16"')
