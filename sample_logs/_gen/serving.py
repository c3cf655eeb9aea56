"""A serving job, in the shapes that containers and terminals leave behind."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta

from _gen.shapes import Folder, Job, case_text

CYAN, RESET = "\x1b[1;36m", "\x1b[0;0m"


def newest_first_and_messy() -> Job:
    """A vLLM worker runs out of streams while it captures graphs."""
    rnd = random.Random("newest-first-and-messy")
    folder = Folder()
    started = datetime(2026, 4, 20, 18, 1, 7, 118_000)
    api, engine = 7040, 7318
    workers = [7811 + 3 * n for n in range(4)]
    fail = started + timedelta(seconds=113)

    def entry(moment: datetime, pid: int, who: str, level: str, where: str, text: str) -> tuple[datetime, str]:
        return moment, f"{CYAN}({who} pid={pid}){RESET} {level} {moment:%m-%d %H:%M:%S} [{where}] {text}"

    records: list[tuple[datetime, str]] = []
    now = started
    for text in (
        "Available plugins for group vllm.platform_plugins:",
        "- ascend -> vllm_ascend:register",
        "Platform plugin ascend is activated",
        "vLLM API server version 0.11.0",
    ):
        records.append(entry(now, api, "APIServer", "INFO", "__init__.py:238", text))
        now += timedelta(milliseconds=310)
    for step in range(14):
        now = started + timedelta(seconds=5 + 4 * step)
        for number, pid in enumerate(workers):
            text = (
                f"Loading safetensors checkpoint shards: {100 * step // 13:3d}% Completed | {step}/13 "
                f"[00:{4 * step:02d}<00:{52 - 4 * step:02d}, {4 + rnd.random():.2f}s/it]"
            )
            records.append(
                entry(
                    now + timedelta(milliseconds=11 * number),
                    pid,
                    f"Worker_TP{number}",
                    "INFO",
                    "default_loader.py:267",
                    text,
                )
            )
    now = started + timedelta(seconds=66)
    for number, pid in enumerate(workers):
        for text in (
            "Loading model weights took 15.2519 GB",
            "Available KV cache memory: 31.07 GiB",
            "GPU KV cache size: 452,352 tokens",
        ):
            records.append(
                entry(
                    now + timedelta(milliseconds=17 * number),
                    pid,
                    f"Worker_TP{number}",
                    "INFO",
                    "model_runner_v1.py:2901",
                    text,
                )
            )
            now += timedelta(milliseconds=40)
    now = started + timedelta(seconds=71)
    for number, pid in enumerate(workers):
        records.append(
            entry(
                now,
                pid,
                f"Worker_TP{number}",
                "INFO",
                "model_runner_v1.py:3502",
                "Starting to capture ACL graphs for cases: [512, 504, 496, 488, 480, 472, 464, 456, 448, 440], "
                "mode: PIECEWISE, "
                "uniform_decode: False",
            )
        )
    records.append(
        entry(
            started + timedelta(seconds=105),
            engine,
            "EngineCore_DP0",
            "INFO",
            "shm_broadcast.py:466",
            "No available shared memory broadcast block found in 60 seconds. This typically happens when some "
            "processes are "
            "hanging or doing some time-consuming work (e.g. compilation).",
        )
    )
    trace = (
        "WorkerProc hit an exception.",
        "Traceback (most recent call last):",
        '  File "/vllm-workspace/vllm/vllm/v1/executor/multiproc_executor.py", line 930, in worker_busy_loop',
        "    output = func(*args, **kwargs)",
        '  File "/vllm-workspace/vllm-ascend/vllm_ascend/worker/model_runner_v1.py", line 3556, in capture_model',
        "    raise RuntimeError(",
        "RuntimeError: ACLgraph has insufficient available streams to capture the configured number of sizes. "
        "Please verify both "
        "the availability of adequate streams and the appropriateness of the configured size count.",
        "",
        "Recommended solutions:",
        "1. Manually configure the compilation_config parameter with a reduced set of sizes: "
        "'{\"cudagraph_capture_sizes\":[size1, size2, size3, ...]}'.",
        "2. Utilize ACLgraph's full graph mode as an alternative to the piece-wise approach.",
        "",
        f"EE9999: [PID: {workers[3]}] 2026-04-20-18:03:00.402.771 Inner Error!",
        "        TraceBack (most recent call last):",
        "       New capture stream failed, stream_id=1991, event_id=[-1->68112].[FUNC:GetCaptureStream]"
        "[FILE:capture_model_utils.cc][LINE:92]",
        "       Create capture stream failed, stream_id=1991, event_id=-1, error=117571619.[FUNC:CaptureEventWait]"
        "[FILE:api_impl.cc][LINE:1514]",
        "       rtStreamWaitEvent execution failed, reason=driver error:resource alloc fail[FUNC:FuncErrorReason]"
        "[FILE:error_message_manage.cc][LINE:61]",
        "       stream wait event failed, runtime result = 207005[FUNC:ReportCallError][FILE:log_inner.cpp][LINE:148]",
    )
    for number, text in enumerate(trace):
        records.append(
            entry(
                fail + timedelta(microseconds=40 * number),
                workers[3],
                "Worker_TP3",
                "ERROR",
                "multiproc_executor.py:932",
                text,
            )
        )
    after = fail + timedelta(seconds=2)
    for text in (
        "EngineCore failed to start.",
        "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace "
        "for root cause.",
    ):
        records.append(entry(after, engine, "EngineCore_DP0", "ERROR", "core.py:708", text))
    records.append(
        entry(
            after + timedelta(seconds=1),
            api,
            "APIServer",
            "ERROR",
            "utils.py:960",
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        )
    )
    exported = [
        json.dumps(
            {"log": f"{text}\n", "stream": "stderr", "time": f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06d}000Z"}
        )
        for moment, text in records
    ]
    folder.text("pod-0/vllm-worker-json.log", reversed(exported))

    screen = [
        "\ufeff\x1b]0;root@node-a: /workspace\x07[root@node-a workspace]# vllm serve /models/Qwen3-32B "
        "--tensor-parallel-size 4 "
        "--max-model-len 32768",
    ]
    for moment, text in records:
        if "APIServer" in text or "EngineCore" in text or "Starting to capture" in text:
            screen.append(f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d} {text}")
    progress = "Capturing ACL graphs (mixed prefill-decode, PIECEWISE):"
    screen.insert(
        -3,
        "\r".join(
            f"{progress} {10 * n:3d}%|{'#' * n:<10}| {n}/10 [00:{3 * n:02d}<00:{30 - 3 * n:02d}, 3.02s/it]"
            for n in range(8)
        ),
    )
    screen.append("[root@node-a workspace]# \x1b[Kexit")
    folder.text("pod-0/terminal.log", screen, newline="\r\n")
    return Job(
        "newest-first-and-messy",
        case_text(
            title="Graph capture runs out of streams, seen through container and terminal logs",
            en=(
                "A vLLM server dies while it captures graphs: worker TP3 has no streams left. The worker log is "
                "a container export, JSON per line, newest line first, with colour codes inside; the terminal "
                "log has a byte order mark, a window title, colours, carriage returns and Windows line ends. "
                "The dead engine is a consequence."
            ),
            zh=(
                "vLLM 服务在图捕获阶段失败：worker TP3 的 stream 资源耗尽。worker "
                "日志为容器导出的逐行 JSON，时间倒序并带颜色控制符；终端日志含 BOM、窗口标题、颜色、回车覆盖和 "
                "Windows 换行。引擎退出只是后果。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  category: [graph-capture]
  min_severity: error
  evidence:
    - {file: "**", contains: "insufficient available streams|New capture stream failed"}
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )
