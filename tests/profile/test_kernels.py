"""What kernels tell: operations by shape, runs that could be fused, exact times, all metrics, odd tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npudiag.analyses.profile_chips import chip_of, core_mhz, link_gbps, peak_flops
from npudiag.analyze import Options, analyze
from npudiag.engine.load import PackSource, load_pack, shipped_rules
from npudiag.parsers.profiler.kernel_sums import Texts
from npudiag.parsers.profiler.products import flops, tokens
from npudiag.parsers.profiler.sequences import Order
from npudiag.parsers.profiler.text import nanoseconds
from npudiag.tables.store import Store

HEAD = "Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Num,Input Shapes,Output Shapes"


@pytest.fixture(scope="module")
def pack() -> Any:
    return load_pack([PackSource(shipped_rules() / "profile", None, "shipped")], use_cache=False)


def read(target: Path, pack: Any) -> Store:
    result, store = analyze([str(target)], pack, Options(select=("PRO",), workers=1))
    assert not result.errors, result.errors
    return store


@pytest.mark.parametrize(
    ("kind", "inputs", "formats", "outputs", "expected"),
    [
        ("MatMulV3", "4096,1024;1024,512", "ND;ND", "4096,512", 2.0 * 4096 * 1024 * 512),
        ("MatMulV3", "1024,4096;512,1024", "ND;ND", "4096,512", 2.0 * 4096 * 1024 * 512),  # both transposed
        ("MatMulV2", "4096,1024;32,64,16,16", "ND;FRACTAL_NZ", "4096,512", 2.0 * 4096 * 1024 * 512),
        ("BatchMatMulV2", "8,128,64;8,64,256", "ND;ND", "8,128,256", 2.0 * 8 * 128 * 64 * 256),
        ("BatchMatMul", "8,128,64;64,256", "ND;ND", "8,128,256", 2.0 * 8 * 128 * 64 * 256),  # weights without batch
        ("GroupedMatmul", "4096,1024;8,1024,512", "ND;ND", "4096,512", 2.0 * 4096 * 1024 * 512),
        ("FlashAttentionScore", "2,8,4096,128;2,8,4096,128;2,8,4096,128", "", "", 4.0 * 2 * 8 * 4096 * 4096 * 128),
        ("FlashAttentionScore", "4096,2,1024;4096,2,1024;4096,2,1024", "", "", 4.0 * 2 * 4096 * 4096 * 1024),
        ("FlashAttentionScoreGrad", "2,512,64;2,512,64;2,512,64", "", "", 2.5 * 4.0 * 2 * 512 * 512 * 64),
        ("Add", "4096,1024;4096,1024", "ND;ND", "4096,1024", None),
        ("MatMulV3", "N/A", "N/A", "N/A", None),
        ("MatMulV3", "4096,1024", "ND", "4096,512", None),
    ],
)
def test_operations_follow_from_shapes(
    kind: str, inputs: str, formats: str, outputs: str, expected: float | None
) -> None:
    found = flops(kind, f'"{inputs}"', formats, f'"{outputs}"')
    assert found == (pytest.approx(expected) if expected is not None else None)


def test_tokens_are_rows_of_grouped_products() -> None:
    assert tokens("GroupedMatmul", '"8192,2048;8,2048,1024"') == 8192
    assert tokens("MatMulV3", '"8192,2048;2048,1024"') is None


def test_chips() -> None:
    assert peak_flops({"chip": "Ascend910B4"}) == pytest.approx(270.3e12, rel=1e-3)
    assert core_mhz({"chip": "Ascend910B4", "core_mhz": 30_000.0}) == 30_000.0
    assert core_mhz({"chip": "Ascend910B", "cores": 24, "rated_mhz": 1800}) == 43_200.0
    assert peak_flops({"chip": "Ascend910B"}) is None  # models with 20 and with 24 cores report this name
    assert link_gbps("Ascend910B", "HCCS") == 28.0
    assert link_gbps("Ascend910A", "HCCS") == 18.0
    assert link_gbps("Ascend910_9391", "HCCS") == 28.0
    assert chip_of("Ascend310P3") is None
    assert link_gbps(None, "HCCS") is None


def test_times_keep_their_nanoseconds() -> None:
    assert nanoseconds("1764246877073569.640\t") == 1764246877073569640
    assert nanoseconds('"1764246877073569.641"') == 1764246877073569641
    assert nanoseconds("1695115378715400.2") == 1695115378715400200
    assert nanoseconds("1695115378722946") == 1695115378722946000
    assert nanoseconds("N/A") is None
    assert nanoseconds(None) is None


def order(kernels: Sequence[tuple[str, str]], wait: float = 1.0, length: float = 20.0) -> list[dict[str, Any]]:
    names = sorted(set(kernels))
    texts = [Texts(kind, core, "", "", None, None) for kind, core in names]
    code = np.array([names.index(kernel) for kernel in kernels], dtype=np.int32)
    size = len(code)
    runs = Order()
    runs.add(texts, code, np.full(size, length), np.full(size, wait), np.full(size, 0.9))
    return runs.rows(texts)


def vector(*kinds: str) -> list[tuple[str, str]]:
    return [(kind, "AI_VECTOR_CORE") for kind in kinds]


CUBE = ("MatMulV3", "AI_CORE")


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("npu_rms_norm", "Pows ReduceMean Adds Rsqrt Mul Mul"),
        ("npu_rms_norm", "Cast Square ReduceMeanD Adds Rsqrt Mul Cast Mul"),
        ("npu_layer_norm", "ReduceMean Sub Pows ReduceMean Adds Rsqrt Mul Mul Add"),
        ("npu_rotary_mul", "Slice Slice Neg ConcatD Mul Mul Add"),
        ("npu_swiglu", "Slice Slice Swish Mul"),
        ("npu_fast_gelu", "Pows Muls Add Muls Tanh Adds Muls Mul"),
        ("npu_add_rms_norm", "Add RmsNorm"),
        ("NpuFusedAdamW", "Muls Mul Lerp Mul Addcmul Sqrt RealDiv Adds Addcdiv"),
        ("npu_scaled_masked_softmax", "Muls MaskedFill SoftmaxV2"),
    ],
)
def test_known_patterns(name: str, kinds: str) -> None:
    block = vector(*kinds.split())
    found = [row for row in order([*block, CUBE] * 6) if row["kind"] == "affinity"]
    assert [row["name"] for row in found] == [name]
    assert found[0]["count"] == 6


def test_attention_spelt_out() -> None:
    block = [("BatchMatMul", "AI_CORE"), *vector("Muls", "MaskedFill", "SoftmaxV2", "DropOutDoMask")]
    found = order([*block, ("BatchMatMul", "AI_CORE"), CUBE] * 4)
    assert [(row["name"], row["count"]) for row in found] == [("npu_fusion_attention", 4)]


@pytest.mark.parametrize("kinds", ["Mul Add", "RmsNorm", "Pows ReduceMean Sub", "Swish", "Neg Mul Add"])
def test_other_kernels_are_no_known_pattern(kinds: str) -> None:
    assert not [row for row in order([*vector(*kinds.split()), CUBE] * 6) if row["kind"] == "affinity"]


def test_runs_that_repeat_are_found_once_and_whole() -> None:
    found = order([*vector("Exp", "Log", "Maximum"), CUBE] * 30)
    assert [(row["sequence"], row["count"], row["length"]) for row in found] == [("Exp Log Maximum", 30, 3)]
    assert found[0]["busy_us"] == pytest.approx(30 * 3 * 20.0)
    assert found[0]["gap_us"] == pytest.approx(30 * 2 * 1.0)  # the gap ahead of the run stays
    assert found[0]["gain_us"] == pytest.approx(30 * (2 * 20.0 + 2 * 1.0))


def test_a_run_inside_of_itself_is_not_counted_twice() -> None:
    kernels = [*vector(*["Exp"] * 10), CUBE] * 8
    found = order(kernels)
    assert sum(row["busy_us"] for row in found) <= 8 * 10 * 20.0 + 1e-6


def test_rare_runs_and_fused_kernels_are_left() -> None:
    assert order([*vector("Exp", "Log"), CUBE] * 4) == []
    assert order([*vector("ForeachAddList", "ApplyAdamWV2"), CUBE] * 40) == []
    assert order([*vector("TransData", "TransData"), CUBE] * 40) == []
    assert order([CUBE] * 40) == []


@pytest.mark.parametrize(
    ("metrics", "values", "expected"),
    [
        ("aic_mac_fp16_ratio,aiv_vec_fp32_ratio", "0.7,0.1", {"aic_mac_fp16_ratio": 0.7, "aiv_vec_fp32_ratio": 0.1}),
        ("aic_main_mem_read_bw(GB/s)", "410.5", {"aic_main_mem_read_bw": 410.5}),
        ("aiv_vec_bankgroup_cflt_ratio", "0.06", {"aiv_vec_bankgroup_cflt_ratio": 0.06}),
        ("aic_l0a_read_bw(GB/s),aiv_ub_read_bw_vector(GB/s)", "90.0,N/A", {"aic_l0a_read_bw": 90.0}),
        ("aic_mte2_time(us),aic_mte2_ratio", "3.0,0.5", {"aic_mte2_ratio": 0.5}),
        ("mac_time(us),mac_ratio,total_cycles", "3.0,0.5,9000", {"mac_ratio": 0.5, "total_cycles": 9000.0}),
    ],
)
def test_all_groups_of_metrics(
    metrics: str, values: str, expected: dict[str, float], tmp_path: Path, pack: Any
) -> None:
    row = 'k,MatMulV3,AI_CORE,1000.500\t,10.0,1.0,20,"""64,64;64,64""","""64,64"""'
    (tmp_path / "kernel_details.csv").write_text(f"{HEAD},{metrics}\n" + f"{row},{values}\n" * 3)
    store = read(tmp_path, pack)
    assert {row["metric"]: row["mean"] for row in store.rows("prof_metrics")} == pytest.approx(expected)


def test_old_and_new_names_of_columns_give_the_same(tmp_path: Path, pack: Any) -> None:
    rows = 'k,MatMulV3,AI_CORE,1000.500\t,10.0,1.0,20,"""64,64;64,64""","""64,64"""\n' * 3
    old = HEAD.replace("Block Num", "Block Dim")
    summary = (
        "Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Task Wait Time(us),Block Num,"
        "Input Shapes,Output Shapes"
    )
    found = []
    for number, head in enumerate((HEAD, old, summary)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "kernels.csv").write_text(f"{head}\n{rows}")
        kept = read(folder, pack).rows("prof_kernels")
        found.append([{k: v for k, v in row.items() if k not in ("file", "job", "source")} for row in kept])
    assert found[0] == found[1] == found[2]
    assert found[0][0]["blocks"] == 20
    assert found[0][0]["flops"] == pytest.approx(3 * 2 * 64**3)


def test_a_capture_without_details_is_read(tmp_path: Path, pack: Any) -> None:
    (tmp_path / "kernel_details.csv").write_text(
        "Step Id,Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim\n"
        + "21,0,aclnnMul,N/A,N/A,1000.500\t,10.0,1.0,0\n" * 3
        + "21,0,hcom_allReduce__1_0_1,N/A,HCCL,1030.500\t,50.0,1.0,0\n"
    )
    rows = {row["core"]: row for row in read(tmp_path, pack).rows("prof_kernels")}
    assert rows["N/A"]["count"] == 3
    assert rows["N/A"]["blocks"] is None
    assert rows["COMMUNICATION"]["total_us"] == 50.0
