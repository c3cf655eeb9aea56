"""Jobs with nothing wrong, and one that failed without saying why."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from _gen import cann, console
from _gen.shapes import Clock, Folder, Job, case_text, make_ranks, name_stamp, slog


def device_tree(folder: Folder, base: str, moment: datetime, rnd: random.Random, device: int = 0) -> None:
    """Add a healthy device log tree below `base`."""
    stamp = name_stamp(moment)
    folder.text(f"{base}/run/event/event_{stamp}.log", cann.boot_events(3423, moment, device))
    folder.text(f"{base}/debug/device-{device}/device-{device}_{stamp}.log", cann.firmware_lines(moment, rnd, 24))
    folder.text(f"{base}/run/device-os/device-os_{stamp}.log", cann.os_lines(moment, device))
    folder.text(
        f"{base}/slogd/slogdlog",
        [
            f"[INFO] SLOGD({3301},slogd):{moment:%Y-%m-%d-%H:%M:%S}.{n * 7:03d}.{n * 31:03d} "
            f"[slogd_main.c:{210 + n}] {text}"
            for n, text in enumerate(("slogd process start", "init log buffer success", "start to receive log"))
        ],
    )


def healthy_8_ranks() -> Job:
    """Eight ranks train without a hitch."""
    rnd = random.Random("healthy-8-ranks")
    folder = Folder()
    ranks = make_ranks(rnd)
    started = datetime(2026, 3, 4, 8, 30, 11, 204_118)
    root = cann.root_info(ranks, started)
    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=37 * process.rank), rnd)
        cann.start_up(process, clock, len(ranks), root)
        cann.steady(process, clock, 9)
        cann.shut_down(process, clock, root)
    folder.plogs(ranks)
    lines = [*console.WARNINGS, *console.arguments(), *console.setup(started + timedelta(seconds=31), 8)]
    steps, end = console.iterations(started + timedelta(seconds=50), rnd, 200)
    lines += steps
    lines += [
        "saving checkpoint at iteration     200 to /data/ckpt in torch_dist format",
        "  successfully saved checkpoint from iteration     200 to /data/ckpt [ t 1/2, p 1/1 ]",
        f"[after training is done] datetime: {end + timedelta(seconds=41):%Y-%m-%d %H:%M:%S} ",
    ]
    folder.text("node-a/train.log", lines)
    device_tree(folder, "node-a/var/log/npu/slog", datetime(2026, 3, 2, 19, 54, 56, 24_324), rnd)
    return Job(
        "healthy-8-ranks",
        case_text(
            title="Eight ranks train without a hitch",
            en=(
                "Process logs of all eight ranks, the training console with a falling loss and the device log "
                "tree. Nothing is wrong; nothing above info may be reported."
            ),
            zh=(
                "八个 rank 的进程日志、loss 持续下降的训练日志以及 Device 侧日志目录。作业完全正常，"
                "不应报告高于 info 级别的问题。"
            ),
            expect="""\
exit: 0
verdict: healthy
max_severity: info
""",
        ),
        folder,
    )


def noisy_but_healthy() -> Job:
    """A run that finished, full of words that look like trouble."""
    rnd = random.Random("noisy-but-healthy")
    folder = Folder()
    ranks = make_ranks(rnd, per_node=4)
    started = datetime(2026, 2, 17, 21, 5, 40, 611_007)
    root = cann.root_info(ranks, started)
    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=53 * process.rank), rnd)
        cann.start_up(process, clock, len(ranks), root)
        p = process
        p.log(
            "ERROR",
            "DRV",
            clock.tick(),
            f"[ascend][curpid: {p.pid}, {p.tid}][drv][tsdrv][share_log_read 553]devid({p.device}) ret(0)",
        )
        p.log(
            "ERROR",
            "FE",
            clock.tick(),
            f"[op_kernel_store.cc:212]{p.tid} CheckSupported: node Cast_{p.rank} dtype 3 skipped, next op store is "
            f"tried",
        )
        p.log(
            "WARNING",
            "TBE",
            clock.tick(),
            f"[tensor_engine/te_fusion/parallel_compilation.cc:591][ParallelCompile] task {p.rank + 7} waits 220 ms",
        )
        p.log(
            "INFO",
            "RUNTIME",
            clock.tick(),
            f"[config.cc:88]{p.pid} LoadConfig: out of memory handler registered, error dump enabled, heartbeat lost "
            "threshold 30s, notify wait timeout 1836s",
        )
        cann.steady(process, clock, 7)
        p.log(
            "ERROR",
            "ASCENDCL",
            clock.tick(),
            f"[tensor_data_transfer.cpp:899]{p.tid} acltdtSendTensor: [Push][Data]failed to send, tdt result = -1, "
            f"device is {p.device}, name is 5c1e{p.rank:04d}-0b0f-11f1-9a3c-0242ac1100{p.rank:02d}",
        )
        p.log(
            "WARNING",
            "DEVICE",
            clock.tick(),
            "[ascend_data_queue.cc:257] Push] Device queue thread had been interrupted by TdtHandle::DestroyHandle, "
            "you "
            "can ignore the above error: 'failed to send...'. In this scenario, the training ends first without using "
            "all epoch(s) data, and the data preprocessing is blocked by the data transmission channel on the device "
            "side. So we force the data transmission channel to stop.",
        )
        cann.shut_down(process, clock, root)
    folder.plogs(ranks)

    lines = [
        "nohup: ignoring input",
        f"{console.SITE}/torch_npu/utils/collect_env.py:58: UserWarning: Warning: The "
        f"/usr/local/Ascend/ascend-toolkit/latest "
        "owner does not match the current owner.",
        '  warnings.warn(f"Warning: The {path} owner does not match the current owner.")',
        *console.WARNINGS,
        "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object "
        "file: "
        "No such file or directory",
        "Ignore above cudart dlerror if you do not have a GPU set up on your machine.",
        *console.arguments(
            data_parallel_size=2,
            error_injection_rate=0,
            error_injection_type="transient_error",
            exit_signal_handler="False",
            on_oom="retry_with_smaller_micro_batch",
            recompute_hint="'lower micro_batch_size if you run out of memory'",
            rerun_mode="disabled",
            world_size=4,
        ),
        *console.setup(started + timedelta(seconds=29), 4),
        "INFO: heartbeat thread started, peers are reported lost after 30 s without a heartbeat",
        "INFO: hint: in case of 'NPU out of memory' reduce --micro-batch-size or turn on --recompute-granularity full",
    ]
    for rank in range(4):
        lines.append(
            f"[rank{rank}]:[W217 21:06:2{rank}.25290{rank}110 compiler_depend.ts:335] Warning: Cannot create tensor "
            f"with interal "
            "format while allow_internel_format=False, tensor will be created with base format. (function operator())"
        )
    steps, now = console.iterations(started + timedelta(seconds=48), rnd, 90, loss=3.1, batch=32)
    lines += steps[:40]
    lines += [
        "saving checkpoint at iteration      38 to /data/ckpt in torch_dist format",
        "WARNING: saving checkpoint, attempt 1 of 3: OSError: [Errno 116] Stale file handle: "
        "'/data/ckpt/iter_0000038/.metadata' "
        "- trying again in 5 s",
        "INFO: attempt 2 of 3 succeeded",
        "  successfully saved checkpoint from iteration      38 to /data/ckpt [ t 1/2, p 1/1 ]",
        "'(ReadTimeoutError(\"HTTPSConnectionPool(host='hub.example.com', port=443): Read timed out. (read "
        'timeout=10)"), '
        "'(Request ID: 4f1c2a)')' thrown while requesting HEAD https://hub.example.com/tokenizer_config.json",
        "Retrying in 1s [Retry 1/5].",
        "INFO: tokenizer_config.json: 200 OK",
    ]
    lines += steps[40:]
    lines += [
        "[Rank 0] 0 errors, 0 failed steps, 0 timeouts, 3 warnings",
        "health check: error rate 0.00 %, out of memory events: 0, restarts: 0",
        f"[after training is done] datetime: {now + timedelta(seconds=3):%Y-%m-%d %H:%M:%S} ",
        "[rank0]:[W217 21:09:58.118204310 compiler_depend.ts:528] Warning: destroy_process_group() was not called "
        "before exit, "
        "resources are released by the process end. (function operator())",
    ]
    folder.text("node-a/train.log", lines)

    boot = datetime(2026, 2, 15, 7, 12, 3, 88_410)
    device_tree(folder, "node-a/var/log/npu/slog", boot, rnd)
    events = cann.boot_events(3423, boot, 0)
    for moment, assertion in (
        (boot + timedelta(seconds=41), "1[Event occur]"),
        (boot + timedelta(seconds=43), "0[Event resume]"),
    ):
        events.append(
            cann.device_event(
                3423,
                moment,
                event=0x81078603,
                device=0,
                node="0x83[PORT]",
                kind="0x3[link status change]",
                severity="1[Warning]",
                assertion=assertion,
                serial=2,
                description="PORT 0x3",
                uptime=(moment - boot).total_seconds() + 60,
            )
        )
    folder.text(f"node-a/var/log/npu/slog/run/event/event_{name_stamp(boot)}.log", events)
    pids = [process.pid for process in ranks]
    folder.text("node-a/var/log/npu/slog/host/host_kernel.log", cann.host_kernel_lines(started, rnd, pids))
    return Job(
        "noisy-but-healthy",
        case_text(
            title="A finished run full of words that look like trouble",
            en=(
                "Driver chatter at level ERROR, deprecation warnings, a checkpoint write that worked at the "
                "second attempt, a hub request that was retried, a port that went down and up while the machine "
                "booted, and configuration text that speaks of errors and memory. The run finished; nothing "
                "above info may be reported."
            ),
            zh=(
                "包含 ERROR 级别的驱动例行打印、弃用告警、第二次重试即成功的 checkpoint 保存、"
                "被重试的网络请求、开机期间的一次端口闪断，以及提到错误和内存字样的配置文本。"
                "作业正常结束，不应报告高于 info 级别的问题。"
            ),
            expect="""\
exit: 0
verdict: healthy
max_severity: info
must_not: [framework-out-of-memory, device-out-of-memory, device-heartbeat-lost, npu-link-down, python-exception,
           cann-not-sourced]
""",
        ),
        folder,
    )


def insufficient_evidence() -> Job:
    """Only envelopes: torchrun's summary and a dead engine, no message that names a cause."""
    rnd = random.Random("insufficient-evidence")
    folder = Folder()
    ranks = make_ranks(rnd)
    failed = datetime(2026, 5, 20, 3, 41, 9, 207_451)
    folder.text(
        "node-a/train_tail.log",
        console.elastic(
            "pretrain_gpt.py",
            [(ranks[6], 1, failed), (ranks[2], 1, failed), (ranks[7], 1, failed)],
            ranks[0].pid - 40,
            terminated=[ranks[n] for n in (0, 1, 3, 4, 5)],
        ),
    )
    api, engine = 5102, 5388
    head = f"(APIServer pid={api}) "
    folder.text(
        "node-b/serve_tail.log",
        [
            f"(EngineCore_DP0 pid={engine})     raise e from None",
            f"(EngineCore_DP0 pid={engine}) Exception: WorkerProc initialization failed due to an exception in a "
            f"background "
            "process. See stack trace for root cause.",
            *console.prefixed(
                f"{head}ERROR 05-20 03:41:27 [async_llm.py:416] ",
                [
                    "AsyncLLM output_handler failed.",
                    "Traceback (most recent call last):",
                    "    raise self._format_exception(outputs) from None",
                    "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace "
                    "(above) for the "
                    "root cause.",
                ],
            ),
        ],
    )
    folder.text(
        f"node-a/ascend/log/run/plog/plog-{ranks[6].pid}_{name_stamp(failed - timedelta(seconds=400))}.log",
        [
            slog(
                "INFO",
                "ATRACE",
                ranks[6].pid,
                "python3",
                failed - timedelta(seconds=400),
                f"[trace_attr.c:189](tid:{ranks[6].pid}) attr init success, timeout=0ms.",
            ),
            slog(
                "INFO",
                "RUNTIME",
                ranks[6].pid,
                "python3",
                failed - timedelta(seconds=399),
                f"[runtime.cc:5477] {ranks[6].pid} GetVisibleDevices: ASCEND_RT_VISIBLE_DEVICES param was not set",
            ),
        ],
    )
    return Job(
        "insufficient-evidence",
        case_text(
            title="Only the summaries of the launchers were kept",
            en=(
                "The tail of a training console (torchrun's summary) and of a serving console (a dead engine). "
                'Both say that something died and neither says of what. The answer has to be "insufficient '
                'evidence", with what to collect.'
            ),
            zh=(
                "只保留了训练日志末尾的 torchrun 汇总和推理服务日志末尾的引擎退出信息。两者都只说明有进程退出，"
                "没有给出原因，结论应为“证据不足”，并列出需要补充收集的内容。"
            ),
            expect="""\
exit: 0
verdict: insufficient
root:
  category: [insufficient-evidence]
  min_severity: warning
  collect: true
""",
        ),
        folder,
    )
