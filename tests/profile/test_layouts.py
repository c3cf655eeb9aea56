"""Layouts other than the PyTorch profiler's: MindSpore, msprof of several CANN releases, MindInsight, clusters."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sample_logs"))

from _gen.profile_job import Plan, Simulation, group_hash  # noqa: E402
from _gen.profiles import write_text  # noqa: E402
from _gen.shapes import Folder  # noqa: E402

from npudiag.advice import stack as stacks  # noqa: E402
from npudiag.analyze import Options, analyze  # noqa: E402
from npudiag.engine.load import PackSource, load_pack, shipped_rules  # noqa: E402
from npudiag.result import Result  # noqa: E402
from npudiag.tables.store import Store  # noqa: E402

STEPS = (
    "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
    "Communication(Not Overlapped and Exclude Receive),Preparing"
)
SUMMARY = (
    "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),Task Duration(us),"
    "Task Wait Time(us),Block Num,Mix Block Num,HF32 Eligible,Input Shapes,Output Shapes,aicore_time(us)"
)


@pytest.fixture(scope="module")
def pack() -> Any:
    return load_pack([PackSource(shipped_rules() / "profile", None, "shipped")], use_cache=False)


def run(target: Path, pack: Any) -> tuple[Result, Store]:
    result, store = analyze([str(target)], pack, Options(select=("PRO",), workers=1))
    assert not result.errors, result.errors
    assert result.coverage.complete, [problem.message for problem in result.coverage.problems]
    return result, store


def put(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def test_mindspore_captures_nested_by_rank(tmp_path: Path, pack: Any) -> None:
    folder = Folder()
    write_text(Simulation(Plan(slow_rank=2, layers=2)), folder)
    folder.write(tmp_path / "text")
    for number, capture in enumerate(sorted((tmp_path / "text" / "profile").iterdir())):
        target = tmp_path / "job" / f"rank_{number}"
        target.mkdir(parents=True)
        moved = capture.rename(target / capture.name.replace("_ascend_pt", "_ascend_ms"))
        info = moved / f"profiler_info_{number}.json"
        data = json.loads(info.read_text())
        del data["torch_npu_version"]
        info.write_text(json.dumps({**data, "ms_version": "2.5.0"}))
    result, store = run(tmp_path / "job", pack)
    assert {row["framework"] for row in store.rows("prof_captures")} == {"mindspore"}
    assert set(stacks.of(store).candidates) == {"MindFormers", "MindSpore"}
    assert result.findings[0].name == "slow-rank"
    assert result.findings[0].scope.ranks == [2]


@pytest.mark.parametrize(
    "place",
    [
        "PROF_000001_20260304100000000_ABCDEFGHIJKLMNOP/device_3/summary/op_summary_3_1_1.csv",
        "PROF_000001_20260304100000000_ABCDEFGHIJKLMNOP/mindstudio_profiler_output/op_summary_20260304100500.csv",
        "PROF_000001_20260304100000000_ABCDEFGHIJKLMNOP/mindstudio_profiler_output/op_summary_slice_0_20260304100500.csv",
        "op_summary.csv",
    ],
)
def test_summaries_of_msprof(place: str, tmp_path: Path, pack: Any) -> None:
    row = (
        '3,1,{0},2,MatMul_{0},MatMulV2,dynamic,AI_CORE,100{0}.500\t,40.0,2.0,20,0,NO,"""64,64;64,64""","""64,64""",38.0'
    )
    put(tmp_path / place, SUMMARY, *(row.format(number) for number in range(6)))
    _, store = run(tmp_path, pack)
    rows = store.rows("prof_kernels")
    assert [(r["type"], r["count"], r["total_us"], r["device"], r["source"]) for r in rows] == [
        ("MatMulV2", 6, 240.0, 3, "op_summary")
    ]


def test_communication_of_msprof_has_no_steps(tmp_path: Path, pack: Any) -> None:
    base = tmp_path / "PROF_000001_20260304100000000_ABCDEFGHIJKLMNOP" / "analyze"
    times = {"Start Timestamp(us)": 1.0e15, "Elapse Time(ms)": 4.0, "Transit Time(ms)": 1.0, "Wait Time(ms)": 3.0}
    band = {"Transit Size(MB)": 19.0, "Transit Time(ms)": 1.0, "Bandwidth(GB/s)": 19.0, "Size Distribution": {}}
    operation = {"Communication Time Info": times, "Communication Bandwidth Info": {"HCCS": band}}
    document = {"collective": {"hcom_allReduce__123_0_1@77": operation}, "p2p": {}}
    put(base / "communication.json", json.dumps(document))
    _, store = run(tmp_path, pack)
    row = store.rows("prof_comm")[0]
    assert (row["op"], row["elapse_ms"], row["bandwidth_gbps"]) == ("allReduce", 4.0, 19.0)


def test_step_lengths_of_msprof(tmp_path: Path, pack: Any) -> None:
    put(
        tmp_path / "PROF_000001_20260304100000000_ABCDEFGHIJKLMNOP" / "mindstudio_profiler_output" / "step_trace_1.csv",
        "Device_id,Iteration ID,FP Start(us),BP End(us),Iteration End(us),Iteration Time(us),FP to BP Time(us),"
        "Iteration Refresh(us),Data Aug Bound(us),Model ID,Reduce Start(us),Reduce Duration(us)",
        "0,1,N/A,N/A,61500,61500.5,N/A,N/A,N/A,1,N/A,N/A",
        "0,2,N/A,N/A,123000,61499.5,N/A,N/A,N/A,1,N/A,N/A",
    )
    _, store = run(tmp_path, pack)
    assert [(r["name"], r["samples"], r["mean"]) for r in store.rows("prof_counters")] == [
        ("iteration-time", 2, 61500.0)
    ]


TABLES = {
    "hccs.csv": ("Device_id,Mode,Max,Min,Average", "0,Tx (MB/s),19000,100,8000", "prof_counters", {"mean": 8000.0}),
    "pcie.csv": ("Device_id,Mode,Min,Max,Avg", "0,Tx_p_avg(MB/s),1,200,40", "prof_counters", {"mean": 40.0}),
    "roce.csv": (
        "Device_id,Timestamp(us),Bandwidth(MB/s),Rx Bandwidth efficiency(%),rxPacket/s,rxError rate(%),"
        "rxDropped rate(%),Tx Bandwidth efficiency(%),txPacket/s,txError rate(%),txDropped rate(%),funcId",
        "0,1764246877073569.640\t,25000,3.5,1000,0.2,0,3.4,900,0,0,0",
        "prof_counters",
        {"name": "net-rx-error", "mean": 0.2},
    ),
    "l2_cache.csv": (
        "Stream Id,Task Id,Hit Rate,Victim Rate,Op Name",
        "2,7,0.75,0.1,Add",
        "prof_counters",
        {"mean": 0.75},
    ),
    "data_preprocess.csv": (
        "Timestamp(us),Node,Compute_time(us),Memcpy_time(us),Task_time(us),Dispatch_time(us),Total_time(us),"
        "Stream ID,Task ID",
        "1764246877073569.640\t,Index,30,5,40,3,48,2,9",
        "prof_kernels",
        {"core": "AI_CPU", "total_us": 48.0},
    ),
    "npu_module_mem.csv": (
        "Component,Timestamp(us),Total Reserved(KB),Device",
        "HCCL,1764246877073569.640\t,409600,NPU:3",
        "prof_memory",
        {"component": "HCCL", "peak_reserved_mb": 400.0, "device": 3},
    ),
    "memory_record.csv": (
        "Component,Timestamp(us),Total Allocated(KB),Total Reserved(KB),Device",
        "PTA,1764246877073569.640\t,1024,2048,NPU:1",
        "prof_memory",
        {"peak_allocated_mb": 1.0, "peak_reserved_mb": 2.0, "device": 1},
    ),
    "communication_statistic.csv": (
        "Device_id,OP Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)",
        "0,hcom_allReduce_,4,80,10,20,30,100",
        "prof_kernels",
        {"core": "COMMUNICATION", "total_us": 80.0},
    ),
    "aicore_intermediate_2_type.csv": (
        "op_type,execution_time,execution_frequency,percent",
        "MatMul,37.5,30,81.2",
        "prof_kernels",
        {"rank": 2, "count": 30, "total_us": 37_500.0},
    ),
    "minddata_pipeline_raw_1.csv": (
        "op_id,op_type,num_workers,output_queue_size,output_queue_average_size,output_queue_length,"
        "output_queue_usage_rate,sample_interval,parent_id,children_id",
        "1,Map,8,,20.0,64,0.3125,10,0,[2]",
        "prof_counters",
        {"rank": 1, "name": "minddata-queue Map", "mean": 0.3125},
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_small_tables(name: str, tmp_path: Path, pack: Any) -> None:
    head, row, table, expected = TABLES[name]
    put(tmp_path / name, head, row)
    _, store = run(tmp_path, pack)
    found = [dict(row) for row in store.rows(table)]
    assert any(all(row[key] == value for key, value in expected.items()) for row in found), found


@pytest.mark.parametrize(
    "head", ["Device_id,Metric,Read(MB/s),Write(MB/s)", "Device_id,CPU Type,User(%),Sys(%),IoWait(%)"]
)
def test_other_tables_of_msprof_are_recognised_and_said_not_to_be_judged(head: str, tmp_path: Path, pack: Any) -> None:
    put(tmp_path / "any.csv", head, "0" + ",1" * head.count(","))
    _, store = run(tmp_path, pack)
    assert [(row["kind"], row["lines"]) for row in store.rows("files")] == [("prof-other", 2)]
    assert "no rule" in store.rows("files")[0]["note"]


def test_a_cluster_database(tmp_path: Path, pack: Any) -> None:
    out = tmp_path / "cluster_analysis_output"
    out.mkdir()
    with closing(sqlite3.connect(out / "cluster_analysis.db")) as db:
        db.executescript(
            "CREATE TABLE ClusterStepTraceTime (step TEXT, type TEXT, [index] TEXT, computing NUMERIC,"
            " communication_not_overlapped NUMERIC, overlapped NUMERIC, communication NUMERIC, free NUMERIC,"
            " stage NUMERIC, bubble NUMERIC, communication_not_overlapped_and_exclude_receive NUMERIC,"
            " preparing NUMERIC);"
            "CREATE TABLE CommunicationGroupMapping (type TEXT, rank_set TEXT, group_name TEXT, group_id TEXT,"
            " pg_name TEXT);"
        )
        for rank in range(4):
            for step in ("1", "2", "3"):
                row = (step, "rank", str(rank), 52_000, 40_000, 4_000, 44_000, 8_000, 100_000, 0, 40_000, 100)
                db.execute(f"INSERT INTO ClusterStepTraceTime VALUES ({','.join('?' * 12)})", row)
        db.execute("INSERT INTO ClusterStepTraceTime VALUES ('1','stage','(0, 1)',1,1,1,1,1,1,1,1,1)")
        db.execute("INSERT INTO CommunicationGroupMapping VALUES ('collective','(0,1,2,3)','77','g','dp')")
        db.commit()
    result, store = run(tmp_path, pack)
    assert {row["rank"] for row in store.rows("prof_steps")} == {0, 1, 2, 3}
    assert result.findings[0].name == "communication-bound"
    assert result.findings[0].captures["share"] == 40.0


def test_groups_are_named_by_the_hash_of_their_id(tmp_path: Path, pack: Any) -> None:
    base = tmp_path / "node-a_1_20260304100000000_ascend_pt"
    metadata = {"parallel_group_info": {"group_name_5": {"group_name": "tp", "group_rank": 0, "global_ranks": [0, 1]}}}
    put(base / "profiler_metadata.json", json.dumps(metadata))
    put(base / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv", STEPS, "0,7,50,10,0,10,40,100,0,10,1")
    times = {"Elapse Time(ms)": 0.01, "Transit Time(ms)": 0.01}
    key = f"hcom_allGather__123_0_1@{group_hash('group_name_5')}"
    operation = {"Communication Time Info": times, "Communication Bandwidth Info": {}}
    put(base / "ASCEND_PROFILER_OUTPUT" / "communication.json", json.dumps({"step7": {"collective": {key: operation}}}))
    _, store = run(tmp_path, pack)
    assert [(row["op"], row["parallel"]) for row in store.rows("prof_comm")] == [("allGather", "tp")]


def test_mindinsight_communication(tmp_path: Path, pack: Any) -> None:
    head = "step_num,communication_cost,wait_cost,link_info,communication_operator_cost"
    links = '"{""1-0"": {""SDMA"": [2.0, 40000.0, 20000000.0]}, ""0-0"": {""SDMA"": [0.1, 600.0, 6000000.0]}}"'
    operations = '"{""stream_41_0_AllReduce-op4582"": [""1"", 2.5, 7.5, {}]}"'
    for rank in (0, 1):
        rows = (f"{step},2.5,7.5,{links},{operations}" for step in ("1", "-"))
        put(tmp_path / f"hccl_raw_{rank}.csv", head, *rows)
    _, store = run(tmp_path, pack)
    found = [(row["rank"], row["op"], row["elapse_ms"], row["transit_ms"]) for row in store.rows("prof_comm")]
    assert found == [(0, "AllReduce", 10.0, 2.5), (1, "AllReduce", 10.0, 2.5)]
    speeds = {(row["src"], row["dst"], row["transport"]): row["bandwidth_gbps"] for row in store.rows("prof_links")}
    assert speeds[1, 0, "HCCS"] == pytest.approx(20.0)
