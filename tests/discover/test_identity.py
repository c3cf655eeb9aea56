from __future__ import annotations

import pytest

from npudiag.discover.identity import identify
from npudiag.discover.source import Identity

STAMP = "20260102030405678"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        # host side of slog
        (f"plog-4711_{STAMP}.log", Identity(pid=4711)),
        (f"plog-4711_{STAMP}.log.gz", Identity(pid=4711)),
        (f"in/worker-1/log/debug/plog/plog-4711_{STAMP}.log", Identity(node="worker-1", pid=4711, role="debug")),
        (f"in/node_2/log/run/device-5/device-4711_{STAMP}.log", Identity("node_2", None, 5, None, 4711, "run")),
        (f"device-4711_{STAMP}.log", Identity(pid=4711)),
        (f"security/device-3/device-81_{STAMP}.log", Identity(device=3, pid=81, role="security")),
        # device side
        (f"slog/dev-os-3/debug/device-os/device-os_{STAMP}.log", Identity(device=3, role="device-os")),
        (f"slog/device-os-6/run/event/event_{STAMP}.log", Identity(device=6, role="event")),
        (f"slog/dev-os-0/debug/device-1/device-1_{STAMP}.log", Identity(device=1, role="debug")),
        (f"debug/device-app-88/device-app-88_{STAMP}.log", Identity(pid=88, role="debug")),
        (f"slog/host-0/host-0_{STAMP}.log", Identity()),
        (f"device-os-2_{STAMP}.log", Identity(device=2, role="device-os")),
        # profiler
        ("prof/PROF_000001/device_4/data.csv", Identity(device=4)),
        ("atlas7_8123_20260102030405678_ascend_pt/a.csv", Identity(host="atlas7", pid=8123)),
        ("localhost.localdomain_8123_20260102030405_ascend_ms/a.csv", Identity(pid=8123)),
        ("rank3_ascend_pt/ASCEND_PROFILER_OUTPUT/a.csv", Identity(rank=3)),
        ("x_ascend_pt/profiler_info_12.json", Identity(rank=12)),
        # ranks
        ("logs/rank_0.log", Identity(rank=0)),
        ("rank-17/out.txt", Identity(rank=17)),
        ("rank_00005/out.txt", Identity(rank=5)),
        ("rank9/stderr.log", Identity(rank=9)),
        ("train_rank_3.log", Identity(rank=3)),
        ("logs/7.log", Identity(rank=7)),
        ("msrun_log/worker_11.log", Identity(rank=11)),
        ("job/call_worker-2_rank-1.txt", Identity(node="worker-2", rank=1)),
        ("run_a/attempt_0/3/stderr.log", Identity(rank=3)),
        ("worker-0/run_a/attempt_1/3/stderr.log", Identity(node="worker-0", rank=3)),
        # a local rank on another node is not the global one
        ("worker-1/run_a/attempt_0/3/stderr.log", Identity(node="worker-1")),
        ("10.0.0.7/attempt_0/3/stderr.log", Identity(node="10.0.0.7")),
        ("node00.c2.local/attempt_0/3/stderr.log", Identity(node="node00.c2.local", rank=3)),
        ("worker-1/attempt_0/3/rank_11.log", Identity(node="worker-1", rank=11)),
        # nodes
        ("in/job-a-worker-4/messages", Identity(node="job-a-worker-4")),
        ("in/10.0.0.7/messages", Identity(node="10.0.0.7")),
        ("in/ip-10-0-0-7/messages", Identity(node="ip-10-0-0-7")),
        ("in/node03.cluster.local/messages", Identity(node="node03.cluster.local")),
        ("worker-3.tar.gz!/logs/train.log", Identity(node="worker-3")),
        ("worker-3.log", Identity(node="worker-3")),
        ("node-0/worker-3/a.log", Identity(node="node-0")),
        # other files
        ("npu_smi_6_details.csv", Identity(device=6)),
        ("npu_2_details.csv", Identity(device=2)),
        ("mindie-server_313_202601020304056.01.log", Identity(pid=313)),
    ],
)
def test_told_by_the_path(path: str, expected: Identity) -> None:
    assert identify(path) == expected


@pytest.mark.parametrize(
    "path",
    [
        "input.log",
        "",
        "-",
        "frank3/a.log",
        "rank/a.log",
        "lora_rank64/train.log",
        "lora-rank-8.log",
        "local_rank_3.log",
        "node_rank_1.log",
        "mp_rank_00_model_states.pt",
        "zero_pp_rank_0_mp_rank_00_optim_states.pt",
        "tp_rank3/a.log",
        "ranktable.json",
        "rank_table_8p.json",
        "logs/2026.log",
        "logs/0612.log",
        "data/3.log",
        "run/train.log",
        "debug/train.log",
        "event/events.out",
        "multi-node-16/train.log",
        "2-node-8/train.log",
        "single-node-8.log",
        "cann-8.1.0.2/set_env.sh",
        "8.1.0.2/version.info",
        "device-plugin/a.log",
        f"device-3_{STAMP}.log",  # a pid or a device: nobody knows
        "device-4711.log",
        "plog-4711.log",
        "plog-4711_2026.log",
        "step_3/a.log",
        "attempt_0/3.log",
        "npu_smi_before.txt",
        "worker_process.log",
        "ascend_pt/a.csv",
    ],
)
def test_not_told_by_the_path(path: str) -> None:
    assert identify(path) == Identity()


def test_numbers_beyond_all_bounds_are_no_identity() -> None:
    digits = "9" * 5000
    for path in (
        f"device-{digits}/rank_{digits}/plog-{digits}_{STAMP}.log",
        f"{digits}.log",
        f"logs/{digits}.log",
        f"device-{digits}_{STAMP}.log",
        f"x_{digits}_{STAMP}_ascend_pt/a",
        f"attempt_0/{digits}/stderr.log",
        f"rank{digits}.log",
    ):
        assert identify(path) == Identity()
    assert identify(f"node-{digits}/attempt_0/3/stderr.log") == Identity(rank=3)
