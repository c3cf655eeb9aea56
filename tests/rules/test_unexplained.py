"""Error records that no rule knows: named where nothing else explains the job, silent where it goes on."""

from __future__ import annotations

from functools import cache

import pytest

from npudiag.analyze import analyze_texts
from npudiag.engine.load import RulePack, load_pack
from npudiag.result import Finding

PLOG = "plog-4711_20260102030405678.log"
TIME = "2026-01-02-03:04:05.678.901 "
GE = "[ERROR] GE(4711,python):2026-01-02-03:04:05.678.901 [fold.cc:88]4711 Fold: "
HCCL = "[ERROR] HCCL(4711,python):2026-01-02-03:04:06.678.901 [widget.cc:88] [4790][Widget]"
DRV = "[ERROR] DRV(4711,python):2026-01-02-03:04:05.178.901 [ascend][curpid: 4711, 4711][drv][devmm][halWidget 88]"


@cache
def pack() -> RulePack:
    return load_pack()


def analysed(text: str) -> list[Finding]:
    return analyze_texts({PLOG: text}, pack()).findings


def first(text: str) -> Finding:
    return analysed(text)[0]


@pytest.mark.parametrize(
    ("text", "category"),
    [
        (GE + "Unable to fold node widget_7\n", "operator"),
        (DRV + "widget refused. (ret=8)\n", "device-fault"),
        # The caller names the failure, not the driver below it.
        (DRV + "widget refused. (ret=8)\n" + HCCL + "widget failed\n", "hccl-init"),
        (HCCL + "widget wait timeout\n", "hccl-timeout"),
        (GE + "widget pool is out of memory\n", "out-of-memory"),
        (GE + "parse json of widget failed\n", "config"),
        (GE + "dlopen libwidget.so failed\n", "environment"),
        (GE + "open widget failed, permission denied\n", "permission"),
        (GE + "version of widget and gadget mismatch\n", "version-mismatch"),
        (GE + "failed to init tbe of widget\n", "environment"),
        (GE + "widget stopped, error of aivec unit\n", "aicore-exception"),
        (GE + "aicpu task of widget failed\n", "aicpu-exception"),
        (GE + "aicpu task of GetNext_7 failed\n", "data-pipeline"),
        # Two components log under one name: the card's own kernel and the kernels of MindSpore.
        ("[ERROR] KERNEL(6843,sklogd):" + TIME + "[k.c:2][25.7] [widget 88] widget failed\n", "device-fault"),
        ("[ERROR] KERNEL(6843,ffff94aa1480,python):" + TIME + "[k.cc:2] Select] widget failed\n", "operator"),
    ],
)
def test_component_and_words_give_the_kind(text: str, category: str) -> None:
    found = first(text)
    assert (found.name, found.category) == ("error-records-unexplained", category)
    assert (found.severity, found.confidence) == ("error", "low")
    assert found.evidence and found.remedies


def test_a_component_whose_errors_may_be_anything_leaves_it_open() -> None:
    found = first("[ERROR] RUNTIME(4711,python):2026-01-02-03:04:05.678.901 [w.cc:1]4711 Widget: widget failed\n")
    assert (found.category, found.severity) == ("insufficient-evidence", "warning")


def test_the_records_of_the_burst_are_shown_with_the_telling_one_first() -> None:
    found = first(GE + "Unable to fold node widget_7\n" + HCCL + "widget wait timeout\n")
    texts = [item.text or "" for item in found.evidence]
    assert found.category == "hccl-timeout" and "widget wait timeout" in texts[0]
    assert any("Unable to fold" in text for text in texts)


@pytest.mark.parametrize(
    "text",
    [
        # The process goes on.
        GE + "Unable to fold node\n[INFO] GE(4711,python):2026-01-02-03:34:05.678.901 [run.cc:1]4711 Run: step 900\n",
        # Measurements that a kernel prints at level ERROR.
        "[ERROR] AICPU(4711,aicpu_scheduler):2026-01-02-03:04:05.678.901 [m.cpp:71][record][tid:7][PHASE] n=9 avg=5\n",
        # The end of the data closes the queue.
        "[ERROR] ASCENDCL(4711,python):2026-01-02-03:04:05.678.901 [transfer.cpp:899]4711 acltdtSendTensor: [Push]"
        "[Data]failed to send, tdt result = -1, device is 1, name is widget\n",
        # Tools for finding errors are not what fails.
        "[ERROR] IDEDD(4711,python):2026-01-02-03:04:05.678.901 [dump.cpp:1][tid:7] dump widget failed\n",
        "[WARNING] GE(4711,python):2026-01-02-03:04:05.678.901 [fold.cc:88]4711 Fold: unable to fold node\n",
    ],
)
def test_noise_is_no_finding(text: str) -> None:
    assert [item.name for item in analysed(text) if item.severity != "info"] == []


def test_training_that_goes_on_got_over_it() -> None:
    steps = "\n".join(
        f" [2026-01-02 03:{minute:02d}:00] iteration {minute:8d}/    5000 | consumed samples: {minute * 8:12d} | "
        f"elapsed time per iteration (ms): 60000.0 | learning rate: 1.0E-05 | lm loss: {3 - minute / 100:.6E} | "
        "grad norm: 1.200 | number of nan iterations:   0 |"
        for minute in range(1, 40)
    )
    found = analyze_texts({PLOG: GE + "Unable to fold node\n", "train.log": steps}, pack())
    assert "error-records-unexplained" not in {item.name for item in found.findings}


def test_a_finding_that_explains_the_job_silences_it() -> None:
    known = "[rank0]: RuntimeError: NPU out of memory. Tried to allocate 3.47 GiB (NPU 0; 60.97 GiB total capacity; "
    known += "58.92 GiB already allocated; 58.92 GiB current active; 1.66 GiB free; 58.95 GiB reserved in total)\n"
    found = analyze_texts({PLOG: GE + "Unable to fold node\n", "train.log": known}, pack())
    assert found.findings[0].category == "out-of-memory"
    assert "error-records-unexplained" not in {item.name for item in found.findings}


def test_a_sign_of_an_unknown_failure_does_not_silence_it() -> None:
    sign = "(APIServer pid=642) RuntimeError: Engine core initialization failed. See root cause above.\n"
    found = analyze_texts({PLOG: GE + "Unable to fold node\n", "serve.log": sign}, pack())
    assert found.findings[0].name == "error-records-unexplained"
    assert "engine-start-failed" in {item.name for item in found.findings if item.role == "consequence"}


def test_the_same_block_is_quoted_with_the_root() -> None:
    text = (
        "RuntimeError: SetPrecisionMode:build/x.ts:155 NPU function error: at_npu::native::AclSetCompileopt("
        "aclCompileOpt::ACL_PRECISION_MODE, precision_mode), error code is 500001\n"
        "[ERROR] 2026-04-28-02:50:24 (PID:14, Device:0, RankID:-1) ERR00100 PTA call acl api failed\n"
        "EH9999: Inner Error!\n"
        "EH9999: [PID: 14] 2026-04-28-02:50:24.965.356 [Init][Widget]init widget failed[FUNC:W][FILE:w.cpp][LINE:145]\n"
    )
    root = analyze_texts({"train.log": text}, pack()).findings[0]
    assert root.name == "acl-compiler-init-failed"
    assert any("EH9999" in (item.text or "") for item in root.evidence)
