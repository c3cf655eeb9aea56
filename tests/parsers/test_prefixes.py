from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudiag.parsers.prefixes import Peeled, has_labels, peel


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # vLLM
        ("(Worker_TP0 pid=11) x", {"worker": "Worker_TP0", "pid": 11}),
        ("(Worker_DP0_TP0_EP0 pid=11) x", {"worker": "Worker_DP0_TP0_EP0", "pid": 11}),
        ("(Worker_TP11_DCP11_EP11 pid=11) x", {"worker": "Worker_TP11_DCP11_EP11", "pid": 11}),
        ("(EngineCore_DP0 pid=11) x", {"worker": "EngineCore_DP0", "pid": 11}),
        ("(APIServer pid=11) x", {"worker": "APIServer", "pid": 11}),
        ("(VllmWorker rank=3 pid=11) x", {"worker": "VllmWorker", "rank": 3, "pid": 11}),
        ("(Worker_TP0 pid=) x", {"worker": "Worker_TP0"}),
        ("[Stage-0] x", {"stage": 0}),
        (
            "ERROR 08-28 01:33:28 [core.py:634] x",
            {"level": "ERROR", "time": "08-28 01:33:28", "source": "core.py:634"},
        ),
        (
            "INFO 07-24 09:55:30 metrics.py:334] x",
            {"level": "INFO", "time": "07-24 09:55:30", "source": "metrics.py:334"},
        ),
        (
            "WARNING 07-24 09:55:30.123 [v1/engine/core.py:7] x",
            {"level": "WARNING", "time": "07-24 09:55:30.123", "source": "v1/engine/core.py:7"},
        ),
        ("INFO 08:31:25 x", {"level": "INFO", "time": "08:31:25"}),
        # Ray
        ("(TaskRunner pid=11) x", {"worker": "TaskRunner", "pid": 11}),
        ("(main_task pid=11) x", {"worker": "main_task", "pid": 11}),
        ("(WorkerDict pid=11, ip=10.9.8.7) x", {"worker": "WorkerDict", "pid": 11, "ip": "10.9.8.7"}),
        ("(NPURayWorkerWrapper pid=11) x", {"worker": "NPURayWorkerWrapper", "pid": 11}),
        ("(pid=11) x", {"pid": 11}),
        ("(pid=11, ip=fe80::1) x", {"pid": 11, "ip": "fe80::1"}),
        ("(raylet) x", {"worker": "raylet"}),
        ("(raylet, ip=10.9.8.7) x", {"worker": "raylet", "ip": "10.9.8.7"}),
        ("(TaskRunner pid=11) x [repeated 6x across cluster]", {"worker": "TaskRunner", "pid": 11, "repeated": 6}),
        (
            "(TaskRunner pid=11) x [repeated 6x across cluster] (Ray deduplicates logs by default.)",
            {"worker": "TaskRunner", "pid": 11, "repeated": 6},
        ),
        # torch, torchrun, mpirun
        ("[rank3]: x", {"rank": 3}),
        ("[rank1953]:x", {"rank": 1953}),
        ("[default7]:x", {"worker": "default7"}),
        ("[default7]: x", {"worker": "default7"}),
        ("[gpu-host1:3]: x", {"worker": "gpu-host1:3"}),
        ("[1,5]<stderr>:x", {"rank": 5}),
        # SGLang, platforms, tools
        ("[2026-01-02 03:04:05 DP0 TP3] x", {"time": "2026-01-02 03:04:05", "worker": "DP0 TP3"}),
        ("16:23:59.474 x", {"time": "16:23:59.474"}),
        (
            "2026-01-02T03:04:05.123456789Z (APIServer pid=1) INFO 01-02 11:04:05 [loggers.py:9] x",
            {"worker": "APIServer", "pid": 1, "level": "INFO", "time": "01-02 11:04:05", "source": "loggers.py:9"},
        ),
        ("10.9.8.7: x", {"worker": "10.9.8.7"}),
        ("10.9.8.7: [rank3]: x", {"worker": "10.9.8.7", "rank": 3}),
        ("2026-01-02T03:04:05.678901234Z x", {"time": "2026-01-02T03:04:05.678901234Z"}),
        ("[device 5]x", {"device": 5}),
        # stacked
        ("(vLLMHttpServer pid=7) (Worker_TP3 pid=9) x", {"worker": "Worker_TP3", "pid": 9}),
        ("(EngineCore_1 pid=7) (VllmWorker rank=1 pid=9) x", {"worker": "VllmWorker", "rank": 1, "pid": 9}),
        ("[default0]:[rank0]: x", {"worker": "default0", "rank": 0}),
        (
            "16:23:59.474 [Stage-1] (Worker_TP0 pid=9) ERROR 01-02 03:04:05 [a.py:1] [rank4]: x",
            {
                "time": "01-02 03:04:05",
                "stage": 1,
                "worker": "Worker_TP0",
                "pid": 9,
                "level": "ERROR",
                "source": "a.py:1",
                "rank": 4,
            },
        ),
    ],
)
def test_prefixes(text: str, expected: dict[str, Any]) -> None:
    assert peel(text) == Peeled("x", **expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "plain text",
        "[ERROR] GE(12,python3):2026-01-02-03:04:05.678.901 [a.cc:1]7 x",
        "[ERROR] 2026-01-02-03:04:05 (PID:12, Device:0, RankID:-1) ERR00100 PTA call acl api failed",
        "[2026-01-02 03:04:05,678] [INFO] [a.py:1:f] x",
        "[2026-01-02 03:04:05] iteration 1/ 10 |",
        "[W326 11:49:12.330 compiler_depend.ts:1] Warning",
        "[Rank 43] (after 1 iterations) memory (MB)",
        "[rank 3] x",
        "[ranking]: x",
        "[step12]: x",
        "[a.py:12] x",
        "[host.log:1234] x",
        "10.9.8.7 x",
        "10.9.8.7:29500 x",
        "(function operator())",
        "(min, max) time across ranks (ms):",
        "(my pid=x) y",
        "( pid=1) y",
        "ERROR: x",
        "ERROR 07 x",
        "INFO:root:x",
        "EZ9999: Inner Error!",
        "E1210 03:24:54.778028 7 a.go:1] x",
        "DEBUGGER 08-28 01:33:28 [core.py:634] x",
        "12:03 x",
        "2026-01-02 03:04:05.678 x",
        "2026-01-02T03:04:05.678Z x",
        "0: x",
        "  3: x",
        "x (Worker_TP0 pid=1) y",
    ],
)
def test_no_prefix(text: str) -> None:
    assert peel(text) == Peeled(text)


def test_indentation_is_kept() -> None:
    assert peel("(Worker_TP0 pid=1)     raise e").rest == "    raise e"
    assert peel('[rank0]:   File "a.py", line 1').rest == '  File "a.py", line 1'
    assert peel("ERROR 08-28 01:33:28 [core.py:634]   File").rest == "  File"
    assert peel("16:23:59.474     launch()").rest == "    launch()"


def test_nothing_left() -> None:
    for text in ("(Worker_TP0 pid=1)", "(Worker_TP0 pid=1) ", "[rank0]:", "[Stage-2]", "ERROR 08-28 01:33:28 [a.py:1]"):
        assert peel(text).rest == ""


def test_a_second_header_is_the_message() -> None:
    peeled = peel("ERROR 08-28 01:33:28 [a.py:1] INFO 08-28 01:33:27 [b.py:2] quoted")
    assert peeled.level == "ERROR"
    assert peeled.rest == "INFO 08-28 01:33:27 [b.py:2] quoted"


def test_repeats_need_a_launcher() -> None:
    text = "x [repeated 6x across cluster]"
    assert peel(text) == Peeled(text)


def test_labels_of_srun() -> None:
    assert peel("3: x", labels=True) == Peeled("x", label=3)
    assert peel(" 12: (Worker_TP0 pid=1)   x", labels=True) == Peeled("  x", label=12, worker="Worker_TP0", pid=1)
    assert peel("0:", labels=True) == Peeled("", label=0)
    assert peel("no label", labels=True) == Peeled("no label")
    assert peel("[rank3]: x", labels=True) == Peeled("x", rank=3)


def test_labels_are_told_by_a_sample() -> None:
    assert has_labels(["0: a", "1: a", "", "0: b", "3: c", " 2: d"])
    assert not has_labels(["0: a", "0: b"])
    assert not has_labels(["1: a", "2: b", "3: c", "4: d", "5: e"])
    assert not has_labels(["0: a", "no", "0: b", "no", "0: c", "1: d"])
    assert not has_labels(["12:03:04 a", "12:03:05 b"] * 5)
    assert not has_labels([])


@settings(max_examples=500, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=12),
            st.sampled_from(
                ["(W pid=1) ", "[rank1]: ", "ERROR 08-28 01:33:28 [a.py:1] ", "1: ", "[repeated 9x across cluster]"]
            ),
        ),
        max_size=12,
    ).map("".join),
    st.booleans(),
)
def test_any_text(text: str, labels: bool) -> None:
    peeled = peel(text, labels)
    assert peeled.rest in text
    has_labels(text.split())


def test_endless_prefixes_end() -> None:
    assert peel("(W pid=1) " * 100_000).rest.startswith("(W pid=1)")
    assert peel("(" * 100_000).rest == "(" * 100_000
    assert peel("[" + "a" * 100_000).worker is None
