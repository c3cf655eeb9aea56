# ruff: noqa: E501
"""Result documents as a run would make them, with invented values."""

from __future__ import annotations

import base64
import gzip
import json
import re

from npudiag.result import (
    Change,
    Chart,
    Coverage,
    Curve,
    Evidence,
    Finding,
    Grid,
    Happening,
    Impact,
    Input,
    LevelMinute,
    Panel,
    Passed,
    Phase,
    Place,
    Problem,
    Remedy,
    Result,
    RuleFailure,
    RunnerUp,
    Scope,
    Skipped,
    Tool,
    Verdict,
)

TOOL = Tool(version="0.1.0", rules_version="3f9a1c07b2de", rules=312)
COMMAND = ["npudiag", "analyze", "job-0412", "--html", "report.html"]
TIMINGS = {"discover": 0.021, "parse": 0.914, "rules": 0.187, "diagnosis": 0.012, "report": 0.046}
PASSED = [
    Passed(code=f"{area}{number}", name=name)
    for area, name in (
        ("DEV", "device-heartbeat-lost"), ("DEV", "hbm-multi-bit-ecc"), ("MEM", "device-out-of-memory"),
        ("HCC", "ranktable-mismatch"), ("HCC", "link-establish-timeout"), ("ENV", "driver-firmware-mismatch"),
        ("NUM", "loss-not-a-number"), ("CKP", "checkpoint-write-failed"), ("HST", "host-oom-killer"),
    )
    for number in range(101, 121)
]  # fmt: skip
SKIPPED = [
    *(
        Skipped(code=f"PER{n}", name=f"profile-check-{n}", missing=["prof_steps", "prof_kernels"])
        for n in range(101, 131)
    ),
    *(Skipped(code=f"SRV{n}", name=f"serving-check-{n}", missing=["serving"]) for n in range(101, 109)),
]


def plog(worker: int, rank: int) -> str:
    """Return the path of one rank's log."""
    return f"job-0412/worker-{worker}/log/debug/plog/plog-{48210 + rank}_20260412093011{rank:03d}.log"


def stamped(module: str, pid: int, minute: int, second: int, text: str, level: str = "ERROR") -> str:
    """Return one log line."""
    return f"[{level}] {module}({pid},python3):2026-04-12-09:{minute:02d}:{second:02d}.{pid % 1000:03d}.417 {text}"


def timeline(minutes: int = 96, burst: int = 78) -> list[LevelMinute]:
    """Return a calm log with a burst of errors at one minute."""
    buckets = []
    for minute in range(minutes):
        counts = {"INFO": 180 + (minute * 37) % 90, "EVENT": 6 + minute % 5}
        if minute % 17 == 3:
            counts["WARNING"] = 2 + minute % 4
        if minute == burst:
            counts["ERROR"] = 41
        elif burst < minute < burst + 14 and minute % 3 == 0:
            counts["ERROR"] = 7 + minute % 9
        buckets.append(LevelMinute(minute=f"2026-04-12T{8 + minute // 60:02d}:{minute % 60:02d}", counts=counts))
    return buckets


def root_finding() -> Finding:
    """Return a root cause with all there can be."""
    path = plog(0, 5)
    pid = 48215
    record = (
        stamped(
            "RUNTIME", pid, 18, 6, "[davinci_kernel_task.cc:1188]48733 PrintErrorInfoForDavinciTask:[INIT][DEFAULT]"
        )
        + "Aicore kernel execute failed, device_id=5, stream_id=44, report_stream_id=44, task_id=1873, flip_num=0, "
        "fault kernel_name=MatMulV2_7c01f3, fault kernel info ext=MatMulV2_7c01f3, program id=63, hash=15302281174."
    )
    detail = "\n".join(
        [
            stamped(
                "RUNTIME", pid, 18, 6, "[device_error_core_proc.cc:341]48733 ProcessStarsCoreErrorInfo:report error"
            ),
            "\tThe extend info: errcode:(0, 0x800000, 0) errorStr: The DDR address of the MTE instruction is out of range.",
            "\tfixp_error0 info: 0x40021a, fixp_error1 info: 0x6f, fsmId:1, tslot:3, thread:0, ctxid:0, blk:11",
        ]
    )
    return Finding(
        id="f1",
        code="AIC104",
        name="mte-address-out-of-range",
        category="aicore-exception",
        severity="critical",
        confidence="high",
        trust="cause",
        impact=Impact(fatal=True),
        title="MatMulV2 on rank 5 (device 5) read memory outside its tensors: AI Core exception 507015",
        summary=(
            "The data mover of an AI Core was given an address outside the tensors of the kernel, so the device aborted "
            "the task and the process could not go on. The usual causes are an index tensor with values beyond the "
            "embedding table, or a tensor that was freed while a kernel on another stream still read it."
        ),
        scope=Scope(
            ranks=[5], nodes=["worker-0"], devices=[5], steps=[1840], first="2026-04-12T09:18:06.215417", last=None
        ),
        evidence=[
            Evidence(
                path=path,
                line=4711,
                text=record,
                label="the kernel that failed",
                highlights=["Aicore kernel execute failed", "MatMulV2", "5"],
                before=[
                    stamped(
                        "RUNTIME", pid, 18, 6, "[engine.cc:2011]48733 ReportExceptProc:[INIT][DEFAULT]Task exception."
                    ),
                    stamped(
                        "RUNTIME",
                        pid,
                        18,
                        6,
                        "[task_info.cc:940]48733 GetTaskInfo:[INIT][DEFAULT]task type=0.",
                        "WARNING",
                    ),
                ],
                after=[stamped("ASCENDCL", pid, 18, 6, "[stream.cpp:165]48733 synchronize failed, result = 507015")],
            ),
            Evidence(
                path=path,
                line=4716,
                text=detail,
                label="what the core reported",
                highlights=["The DDR address of the MTE instruction is out of range", "0x800000"],
            ),
            Evidence(
                path="job-0412/train_0412.log",
                line=20931,
                text="[rank5]: RuntimeError: ACL stream synchronize failed, error code:507015",
                highlights=["507015"],
                count=4,
            ),
            Evidence(
                kind="series",
                path="job-0412/train_0412.log",
                line=20902,
                label="loss and gradient norm before the failure",
                rows=[
                    {
                        "step": 1780 + i,
                        "loss": round(2.31 - 0.002 * i + (0.02 if i % 7 == 0 else 0), 4),
                        "grad_norm": 0.8 + 0.01 * (i % 11) + (3.5 if i == 57 else 0),
                        "anomaly": i == 57,
                    }
                    for i in range(60)
                ],
            ),
            Evidence(
                kind="rows",
                label="last step of every rank",
                rows=[
                    {"rank": r, "last step": 1840 if r == 5 else 1841, "silent for s": 0 if r == 5 else 1836.4}
                    for r in range(8)
                ],
            ),
        ],
        remedies=[
            Remedy(
                kind="env",
                text="Run once with synchronous launches, so that the traceback names the line of the model that launched the kernel.",
                change=Change(key="ASCEND_LAUNCH_BLOCKING", to="1", old="0"),
                at=Place(path="job-0412/run_pretrain.sh", line=23),
                stack=["torch_npu"],
                disposition="review",
                expect="The job stops at the faulty call; it is slower meanwhile.",
                verify="The traceback ends in model code instead of a stream synchronisation.",
            ),
            Remedy(
                kind="code",
                text="Check that every token id is below the vocabulary size before the embedding look-up.",
                disposition="safe",
                verify="The check stays silent on the data of step 1840.",
            ),
            Remedy(
                kind="command",
                text="Let the memory checker name the access that goes astray.",
                command="msdebug --tool=memcheck python3 pretrain.py --train-iters 1841",
                disposition="risky",
                expect="One report per bad access, with the kernel's source line.",
            ),
        ],
        runner_up=RunnerUp(
            code="DEV110", why_not="no ECC or heartbeat event of device 5 in the device logs before 09:18:06"
        ),
        collect=["The device log of worker-0, device 5: run msnpureport export on the node."],
        references=["https://www.hiascend.com/document"],
        captures={"device": 5, "kernel": "MatMulV2"},
        fingerprint="b1946ac92492d234",
        i18n={
            "zh": {
                "title": "rank 5（device 5）上的 MatMulV2 算子访问越界：AI Core 异常 507015",
                "summary": (
                    "AI Core 的数据搬运单元收到了超出该算子张量范围的地址，设备中止任务，进程无法继续。"
                    "常见原因是索引张量的取值超出了词表大小，或张量已被释放而另一条流上的算子仍在读取。"
                ),
                "remedies": [
                    {
                        "text": "以同步下发方式复跑一次，让调用栈指向真正下发该算子的模型代码。",
                        "expect": "任务会停在出错的调用处，期间运行变慢。",
                        "verify": "调用栈的末尾是模型代码，而不是流同步。",
                    },
                    {
                        "text": "在 embedding 查表之前，检查所有 token id 均小于词表大小。",
                        "verify": "对第 1840 步的数据不再告警。",
                    },
                    {"text": "用内存检测工具定位越界访问。", "expect": "每次非法访问给出一条报告，含算子源码行号。"},
                ],
                "collect": ["worker-0 上 device 5 的设备日志：在该节点执行 msnpureport 导出。"],
                "runner_up": {"why_not": "09:18:06 之前的设备日志中没有 device 5 的 ECC 或心跳事件"},
            }
        },
    )


def timeout_finding(number: int, rank: int, world: int = 8) -> Finding:
    """Return the time-out of a rank that waited for rank 5."""
    worker, pid = rank * 2 // world, 48210 + rank
    return Finding(
        id=f"f{number}",
        code="HCC104",
        name="collective-notify-timeout",
        category="hccl-timeout",
        severity="critical",
        confidence="high",
        role="consequence",
        title=f"Rank {rank} waited 1836 s for rank 5 in AllReduce and gave up",
        summary="A collective needs every rank. This one reached it, another did not.",
        scope=Scope(ranks=[rank], nodes=[f"worker-{worker}"], devices=[rank % 8], first="2026-04-12T09:48:42"),
        evidence=[
            Evidence(
                path=plog(worker, rank),
                line=3902 + rank,
                text=stamped(
                    "HCCL",
                    pid,
                    48,
                    42,
                    f"[task_exception_handler.cc:905][{pid + 501}][TaskExecStage][Timeout][HOST]Task from HCCL run failed, "
                    f"base information is streamID:[{rank + 31}], taskID[1209], taskType[Notify Wait], tag[AllReduce_group_dp_0], "
                    "AlgType(level 0-1-2):[fullmesh-ring-NHR]. notify wait timeout, remote rank[5]",
                ),
                highlights=["notify wait timeout", "5", "AllReduce"],
                before=[
                    stamped("HCCL", pid, 48, 42, "[heartbeat.cc:371][ClusterException] rank[5] is silent", "WARNING")
                ],
                after=[],
            )
        ],
        remedies=[
            Remedy(
                kind="env",
                text="Only if the other rank is merely slow: allow more time.",
                change=Change(key="HCCL_EXEC_TIMEOUT", to="3600", old="1836"),
                disposition="review",
            )
        ],
        caused_by=["f1"],
        i18n={
            "zh": {
                "title": f"rank {rank} 在 AllReduce 中等待 rank 5 达 1836 秒后超时退出",
                "summary": "集合通信要求所有 rank 参与，本 rank 已到达，而另一 rank 未到达。",
                "remedies": [{"text": "仅当对端只是较慢时：延长等待时间。"}],
            }
        },
    )


def job(world: int = 8) -> Result:
    """Return a failed job: one root cause, its consequences, two independent smaller problems, a note."""
    findings = [root_finding()]
    findings += [
        timeout_finding(number, rank, world) for number, rank in enumerate((r for r in range(world) if r != 5), 2)
    ]
    findings.append(
        Finding(
            id=f"f{world + 1}",
            code="FWK201",
            name="elastic-agent-summary",
            category="host-fault",
            severity="error",
            confidence="low",
            trust="envelope",
            role="consequence",
            title="The launcher stopped every worker after rank 5 had exited with code 1",
            summary="The launcher only reports that a worker died.",
            scope=Scope(ranks=[5], first="2026-04-12T09:49:10"),
            evidence=[
                Evidence(
                    path="job-0412/train_0412.log",
                    line=20988,
                    text="E0412 09:49:10.118000 47990 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 5 (pid: 48215) of binary: /opt/conda/bin/python3",
                    highlights=["failed (exitcode: 1) local_rank: 5"],
                )
            ],
            caused_by=["f1"],
            i18n={
                "zh": {"title": "rank 5 以退出码 1 结束后，启动器停止了所有进程", "summary": "启动器只说明有进程退出。"}
            },
        )
    )
    findings.append(
        Finding(
            id=f"f{world + 2}",
            code="DAT103",
            name="dataloader-slow",
            category="data-pipeline",
            severity="warning",
            confidence="medium",
            impact=Impact(lost_pct=11.5, lost_ms=212000, basis="data time over step time, 1800 steps"),
            title="Loading data takes 11.5 % of every step",
            summary="The accelerators wait for the next batch at the start of each step.",
            scope=Scope(ranks=list(range(8)), steps=[]),
            evidence=[
                Evidence(
                    kind="metric",
                    label="median data time per step, ms",
                    value=118.25,
                    path="job-0412/train_0412.log",
                    line=911,
                )
            ],
            remedies=[
                Remedy(
                    kind="flag",
                    text="Use more loader processes.",
                    change=Change(key="--num-workers", to="8", old="2"),
                    at=Place(path="job-0412/run_pretrain.sh", line=41),
                    stack=["mindspeed-llm"],
                    disposition="safe",
                    expect="Steps about 10 % shorter.",
                )
            ],
            i18n={
                "zh": {
                    "title": "数据加载占每步时间的 11.5 %",
                    "summary": "每步开始时加速卡都在等待下一批数据。",
                    "remedies": [{"text": "增加数据加载进程数。", "expect": "单步耗时约缩短 10 %。"}],
                }
            },
        )
    )
    findings.append(
        Finding(
            id=f"f{world + 3}",
            code="CFG115",
            name="expandable-segments-off",
            category="config",
            severity="info",
            status="info",
            confidence="high",
            title="The memory allocator does not use expandable segments",
            summary="Fragmentation grows with varying sequence lengths.",
            evidence=[
                Evidence(
                    path="job-0412/run_pretrain.sh", line=19, text="export PYTORCH_NPU_ALLOC_CONF=max_split_size_mb:256"
                )
            ],
            i18n={"zh": {"title": "内存分配器未启用可扩展段", "summary": "序列长度变化时碎片会增多。"}},
        )
    )
    inputs = [
        Input(
            path=plog(rank * 2 // world, rank), kind="plog", node=f"worker-{rank * 2 // world}", rank=rank, device=rank % 8,
            pid=48210 + rank, lines=5200 + 13 * rank, bytes=1_240_000 + 977 * rank,
            first_time="2026-04-12T08:00:12", last_time="2026-04-12T09:49:02",
        )
        for rank in range(world) if rank != 7
    ]  # fmt: skip
    inputs += [
        Input(
            path="job-0412/train_0412.log",
            kind="console",
            lines=20990,
            bytes=3_004_551,
            normalised=["ansi", "launcher-prefix"],
            unparsed=12,
        ),
        Input(path="job-0412/run_pretrain.sh", kind="launch-script", lines=96, bytes=3310),
        Input(
            path="job-0412/worker-1/core.48214",
            kind="unknown",
            bytes=88_110_592,
            note="no parser recognises the first 64 KiB",
        ),
        Input(
            path="job-0412/worker-1/device/device-os_20260412.log.gz",
            kind="device-os",
            lines=8100,
            bytes=640_112,
            truncated=True,
            note="the gzip stream ends early",
        ),
    ]
    return Result(
        tool=TOOL,
        command=COMMAND,
        created="2026-04-12T10:02:44Z",
        verdict=Verdict(
            text="The job died at step 1840: rank 5 (device 5, worker-0) hit an AI Core exception in MatMulV2; 7 other ranks then timed out waiting for it.",
            confidence="high",
            status="findings",
            i18n={"zh": {"text": "任务在第 1840 步终止：rank 5（device 5，worker-0）的 MatMulV2 算子触发 AI Core 异常，其余 7 个 rank 随后因等待它而超时。"}},
        ),
        inputs=inputs,
        coverage=Coverage(
            files=len(inputs), recognised=len(inputs) - 1, unknown=1, lines=sum(i.lines for i in inputs),
            bytes=sum(i.bytes for i in inputs), unparsed=12, kept=812, folded=20411,
            ranks=[r for r in range(world) if r != 7], ranks_expected=world, ranks_missing=[7], nodes=["worker-0", "worker-1"],
            devices=list(range(7)), first_time="2026-04-12T08:00:12", last_time="2026-04-12T09:49:10",
            levels={"INFO": 40211, "EVENT": 1201, "WARNING": 61, "ERROR": 188}, timeline=timeline(), bucket_minutes=1,
            clock_notes=["worker-1 runs 2.4 s behind worker-0 (judged by 3 collectives)"],
            problems=[
                Problem(path="job-0412/worker-1/device/device-os_20260412.log.gz", reason="truncated",
                        message="the compressed stream ends after 8,100 lines", line=8100),
            ],
            complete=False,
        ),
        findings=findings,
        passed=PASSED,
        skipped=SKIPPED,
        errors=[RuleFailure(code="NUM120", name="loss-oscillation", message="ZeroDivisionError: division by zero in detect()")],
        facts={"framework": "MindSpeed-LLM", "torch_npu": "2.6.0", "world_size": world, "parallel": {"tp": 4, "pp": 1, "dp": 2},
               "flags": ["--bf16", "--use-flash-attn"]},
        timings=TIMINGS,
    )  # fmt: skip


def healthy() -> Result:
    """Return a job without a problem."""
    return Result(
        tool=TOOL,
        command=COMMAND,
        created="2026-04-12T10:02:44Z",
        verdict=Verdict(
            text="No problem found in 9 files of 8 ranks.",
            confidence="high",
            status="healthy",
            i18n={"zh": {"text": "8 个 rank 的 9 个文件中未发现问题。"}},
        ),
        inputs=[Input(path=plog(r // 4, r), kind="plog", rank=r, node=f"worker-{r // 4}", lines=900, bytes=120_000) for r in range(8)]
        + [Input(path="job-0412/train_0412.log", kind="console", lines=12000, bytes=1_700_000)],
        coverage=Coverage(
            files=9, recognised=9, lines=19200, bytes=2_660_000, ranks=list(range(8)), ranks_expected=8,
            nodes=["worker-0", "worker-1"], devices=list(range(8)), first_time="2026-04-12T08:00:12",
            last_time="2026-04-12T09:35:10", levels={"INFO": 19100, "WARNING": 100},
            timeline=timeline(burst=10_000),
        ),
        passed=PASSED,
        skipped=SKIPPED,
        facts={"framework": "MindSpeed-LLM"},
        timings=TIMINGS,
    )  # fmt: skip


def insufficient() -> Result:
    """Return a job that failed for a reason its logs do not tell."""
    finding = Finding(
        id="f1",
        code="GEN901",
        name="insufficient-evidence",
        category="insufficient-evidence",
        severity="warning",
        confidence="low",
        title="The engine process died, and nothing that was read says why",
        summary="Only the message of the surviving process is there. It tells that another process ended, not why.",
        evidence=[
            Evidence(
                path="serve.log",
                line=318,
                text="ERROR 04-12 09:20:11 [core_client.py:564] Engine core proc EngineCore_0 died unexpectedly, shutting down client.",
                highlights=["died unexpectedly"],
            )
        ],
        collect=[
            "The plog folder of the host: ~/ascend/log, or what ASCEND_PROCESS_LOG_PATH names.",
            "The full output of the engine process from its start.",
            "dmesg of the host around 09:20.",
        ],
        i18n={
            "zh": {
                "title": "引擎进程退出，已读取的内容均未说明原因",
                "summary": "目前只有存活进程打印的信息：它说明另一个进程结束了，但没有说明原因。",
                "collect": [
                    "主机的 plog 目录：~/ascend/log，或 ASCEND_PROCESS_LOG_PATH 指定的目录。",
                    "引擎进程自启动以来的完整输出。",
                    "主机 09:20 前后的 dmesg。",
                ],
            }
        },
    )
    return Result(
        tool=TOOL,
        command=["npudiag", "analyze", "serve.log"],
        created="2026-04-12T10:02:44Z",
        verdict=Verdict(
            text="The service died; the input does not say why.",
            confidence="low",
            status="insufficient",
            i18n={"zh": {"text": "服务已退出，但输入中没有说明原因。"}},
        ),
        inputs=[Input(path="serve.log", kind="console", lines=321, bytes=40_112)],
        coverage=Coverage(files=1, recognised=1, lines=321, bytes=40_112, levels={"INFO": 300, "ERROR": 4}),
        findings=[finding],
        passed=PASSED[:40],
        skipped=SKIPPED,
        timings=TIMINGS,
    )


def unrecognised() -> Result:
    """Return a run over files that no parser knows."""
    return Result(
        tool=TOOL,
        command=["npudiag", "analyze", "photos"],
        created="2026-04-12T10:02:44Z",
        verdict=Verdict(
            text="None of the 3 files is of a kind npudiag knows, so nothing was judged.",
            status="nothing-recognised",
            i18n={"zh": {"text": "3 个文件均不是 npudiag 认识的类型，未做任何判断。"}},
        ),
        inputs=[
            Input(path=f"photos/IMG_{n}.jpg", kind="unknown", bytes=2_000_000, note="binary data") for n in range(3)
        ],
        coverage=Coverage(files=3, unknown=3, bytes=6_000_000),
        skipped=SKIPPED,
        timings=TIMINGS,
    )


HOSTILE_TEXTS = [
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "\x1b[31mred\x1b[0m \x1b]0;owned\x07 \x1b[2J",
    "nul \x00 bell \x07 backspace \x08 c1 \x9b31m",
    "line separator \u2028 paragraph separator \u2029 end",
    "override \u202egnp.exe\u202c isolate \u2066x\u2069 zero\u200bwidth",
    "内存不足：设备 5 无法分配 2.00 GiB，已使用 60.91 GiB",
    "x" * 10_000 + "needle" + "y" * 10_000,
    "{{ 7 * 7 }} {% for x in y %} ${HOME} `id` $(id) %s {0}",
    "'\"><svg onload=alert(1)> &lt;b&gt; &amp; \\u003c javascript:alert(1)",
    "first\r\nsecond\rthird\ttab\x0bvt",
]
"""What a log may hold; every one must be shown and none may do anything."""


def hostile_charts() -> list[Chart]:
    """Return charts whose names are texts of the log, and charts whose parts do not fit together."""
    text = HOSTILE_TEXTS[0]
    curve = Curve(name=text, values=[1.0, None, 3.0], marks=[-1, 1, 99])
    grid = Grid(
        unit=text, row_name=text, rows=[0, 1], column_name=text, columns=[0, 1], low=0.0, high=1e308, cells="AAEC/w=="
    )
    return [
        Chart(name=text, kind="curves", about=text, table=text, file=text, x=[1.0, 2.0, 2.0],
              panels=[Panel(name=text, unit=text, curves=[curve] * 4, limit=1e308, limit_name="capacity")]),
        Chart(name="loss", kind="curves", x=[1.0], panels=[Panel(name="loss", curves=[curve])]),
        Chart(name="pace", kind="curves", x=[], panels=[]),
        Chart(name="breakdown", kind="bars", x=[1e300], panels=[Panel(name=text, curves=[Curve(name=text, values=[-5.0])])]),
        Chart(name="links", kind="grid", about=text, grid=grid),
        Chart(name="activity", kind="grid", start=text, grid=Grid(unit="", row_name="rank", rows=[0], column_name="minute",
              columns=[10**15], low=0.0, high=400.0, cells="Bw==")),
        Chart(name="skew", kind="grid", grid=Grid(unit="", row_name="rank", rows=[0, 1], column_name="step", columns=[1],
              low=0.0, high=1.0, cells="not base64")),
        Chart(name="job", kind="curves", start="9999-12-31T23:59:59", x=[1e308, -1e308], x_name="second",
              phases=[Phase(name="training", first=-1e308, last=1e308)],
              happenings=[Happening(kind=text, at=1e308, path=text)]),
    ]  # fmt: skip


def hostile() -> Result:
    """Return a document with attacks in every text that comes from the input."""
    findings = []
    for number, text in enumerate(HOSTILE_TEXTS, 1):
        findings.append(
            Finding(
                id=f"f{number}",
                code="BAD101",
                name="hostile-text",
                category="operator",
                severity="critical",
                confidence="high",
                role="root" if number < 3 else "consequence",
                caused_by=[] if number < 3 else ["f1"],
                title=f"case {number}: {text}",
                summary=text,
                scope=Scope(ranks=[number], nodes=[text[:80]], first=text[:40], last=text[:40]),
                evidence=[
                    Evidence(
                        path=f"in/{text[:60]}.log",
                        line=number,
                        text=text,
                        label=text,
                        highlights=[text[:12], "needle"],
                        before=[text],
                        after=[text],
                        rows=[{text[:30]: text, "rank": number}],
                        value=text,
                    )
                ],
                remedies=[
                    Remedy(
                        kind="env",
                        text=text,
                        change=Change(key=text[:40], to=text, old=text),
                        command=text,
                        at=Place(path=text, line=1),
                        stack=[text[:20]],
                        expect=text,
                        verify=text,
                    ),
                    Remedy(kind="env", text="quote", change=Change(key="SAFE_NAME", to=text)),
                ],
                runner_up=RunnerUp(code=text[:20], why_not=text),
                collect=[text],
                references=["javascript:alert(1)", f"https://www.hiascend.com/{text[:30]}"],
                i18n={"zh": {"title": text, "remedies": [None, {"text": 7}], "collect": "no list"}},
            )
        )
    findings.append(
        Finding(
            id="f99", code="BAD102", name="cycle", category="operator", severity="error", confidence="low",
            role="consequence", caused_by=["f99", "gone"], title="its cause is itself", suppressed=None,
        )
    )  # fmt: skip
    findings.append(
        Finding(
            id="f100", code="BAD103", name="muted", category="operator", severity="error", confidence="low",
            title="suppressed <b>finding</b>", suppressed={"reason": HOSTILE_TEXTS[0], "until": "2030-01-01"},
        )
    )  # fmt: skip
    return Result(
        tool=TOOL,
        command=["npudiag", *HOSTILE_TEXTS],
        created="2026-04-12T10:02:44Z",
        verdict=Verdict(
            text=" ".join(HOSTILE_TEXTS), confidence="high", status="findings", i18n={"zh": {"text": HOSTILE_TEXTS[6]}}
        ),
        inputs=[
            Input(path=text, kind="unknown", note=text, bytes=len(text), node=text[:30], normalised=[text[:10]])
            for text in HOSTILE_TEXTS
        ],
        coverage=Coverage(
            files=len(HOSTILE_TEXTS),
            unknown=len(HOSTILE_TEXTS),
            nodes=HOSTILE_TEXTS,
            first_time=HOSTILE_TEXTS[1],
            levels={text[:20]: 3 for text in HOSTILE_TEXTS},
            timeline=[LevelMinute(minute=text[:20], counts={text[:20]: 1}) for text in HOSTILE_TEXTS]
            + [LevelMinute(minute="2026-04-12T08:00", counts={HOSTILE_TEXTS[1]: 5})],
            clock_notes=HOSTILE_TEXTS,
            problems=[Problem(path=text, reason="corrupt", message=text) for text in HOSTILE_TEXTS],
        ),
        findings=findings,
        passed=[Passed(code="BAD104", name=HOSTILE_TEXTS[0])],
        skipped=[Skipped(code="BAD105", name=HOSTILE_TEXTS[1], missing=[HOSTILE_TEXTS[0]])],
        errors=[RuleFailure(code="BAD106", name=HOSTILE_TEXTS[0], message=HOSTILE_TEXTS[1])],
        charts=hostile_charts(),
        facts={text[:30]: {text[:20]: [text, {"x": text}]} for text in HOSTILE_TEXTS},
        timings={HOSTILE_TEXTS[1]: 1.0},
    )


def translations(page: str) -> list[str]:
    """Return the texts of the other language that a page holds packed."""
    match = re.search(r'<script type="text/plain" id="words">([^<]*)</script>', page)
    found: list[str] = json.loads(gzip.decompress(base64.b64decode(match[1]))) if match else []
    return found


def grid_cells(rows: list[list[int]]) -> str:
    """Return a grid's bytes as the document holds them."""
    return base64.b64encode(bytes(cell for row in rows for cell in row)).decode()


def charts() -> list[Chart]:
    """Return one chart of every kind, in which rank 5 or card 5 is to be seen."""
    steps = [float(step) for step in range(1, 121)]
    loss = [round(3.0 - step / 100 + (2.5 if step == 60 else 0), 3) for step in range(1, 121)]
    seconds = [30.0 * i for i in range(40)]

    def cards(usual: float, odd: float) -> list[Curve]:
        return [
            Curve(
                name=str(card),
                values=[odd if card == 5 and 10 <= i < 20 else usual + (i + card) % 3 for i in range(40)],
            )
            for card in range(8)
        ]

    return [
        Chart(
            name="job", kind="curves", table="train_events", file="job-0412/train_0412.log", rows=120, x_name="second",
            start="2026-04-12T08:10:00", x=[25.0 * i for i in range(120)],
            panels=[Panel(name="step_time_ms", unit="ms", limit=2400.0, limit_name="median",
                          curves=[Curve(name="step_time_ms", values=[2400.0 + i % 7 for i in range(120)])])],
            phases=[Phase(name="starting", first=0.0, last=400.0), Phase(name="training", first=400.0, last=3000.0),
                    Phase(name="silent", first=3000.0, last=3900.0), Phase(name="training", first=3900.0, last=4000.0)],
            happenings=[Happening(kind="save", at=900.0, step=30, path="job-0412/train_0412.log", line=51),
                        Happening(kind="failure", at=4000.0, path="job-0412/train_0412.log", line=99)],
        ),
        Chart(
            name="loss", kind="curves", table="train_steps", file="job-0412/train_0412.log", rows=12_000, x=steps,
            panels=[Panel(name="loss", curves=[Curve(name="loss", values=[*loss], marks=[59])]),
                    Panel(name="grad_norm", curves=[Curve(name="grad_norm", values=[None, *[0.8] * 119], marks=[0])])],
        ),
        Chart(
            name="pace", kind="curves", table="train_steps", rows=120, x=steps,
            panels=[Panel(name="step_time_ms", unit="ms", limit=2400.0, limit_name="median",
                          curves=[Curve(name="step_time_ms", values=[4800.0 if s == 80 else 2400.0 for s in steps])])],
        ),
        Chart(
            name="breakdown", kind="bars", table="prof_steps", rows=80, x_name="rank", x=[float(r) for r in range(8)],
            panels=[Panel(name="step_ms", unit="ms", curves=[
                Curve(name="computing", values=[27.0 if r == 5 else 20.0 for r in range(8)]),
                Curve(name="communication", values=[1.0 if r == 5 else 8.0 for r in range(8)]),
                Curve(name="free", values=[0.1] * 8)])],
        ),
        Chart(
            name="step_times", kind="grid", table="train_steps", rows=8000,
            grid=Grid(unit="ms", row_name="rank", rows=list(range(8)), column_name="step", columns=list(range(0, 500, 10)),
                      low=2000.0, high=4540.0,
                      cells=grid_cells([[254 if r == 5 and 20 <= c < 25 else 40 for c in range(50)] for r in range(8)])),
        ),
        Chart(
            name="links", kind="grid", about="RDMA", table="prof_links", rows=56,
            grid=Grid(unit="GB/s", row_name="sender", rows=list(range(8)), column_name="receiver", columns=list(range(8)),
                      low=0.0, high=25.4,
                      cells=grid_cells([[255 if a == b else 30 if (a, b) == (5, 2) else 250 for b in range(8)] for a in range(8)])),
        ),
        Chart(
            name="activity", kind="grid", table="log_counts", rows=96, start="2026-04-12T08:00",
            grid=Grid(unit="log10", row_name="rank", rows=list(range(8)), column_name="minute", columns=list(range(12)),
                      low=0.0, high=3.0,
                      cells=grid_cells([[255 if r == 5 and c > 6 else 120 for c in range(12)] for r in range(8)])),
        ),
        Chart(
            name="npu", kind="curves", table="npu_samples", rows=320, x_name="second", start="2026-04-12T08:10:00", x=seconds,
            panels=[Panel(name="util_pct", unit="%", curves=cards(80.0, 80.0)),
                    Panel(name="clock_mhz", unit="MHz", curves=cards(1800.0, 1350.0)),
                    Panel(name="temp_c", unit="°C", curves=cards(60.0, 91.0))],
        ),
        Chart(
            name="memory", kind="curves", table="npu_samples", rows=320, x_name="second", start="2026-04-12T08:10:00", x=seconds,
            panels=[Panel(name="hbm_used_mb", unit="MB", limit=65_536.0, limit_name="capacity", curves=cards(51_000.0, 64_000.0))],
        ),
        Chart(
            name="serving", kind="curves", table="serving", rows=40, x_name="second", start="2026-04-12T08:10:00", x=seconds,
            panels=[Panel(name="kv_usage_pct", unit="%", curves=[Curve(name="0", values=[2.5 * i for i in range(40)])]),
                    Panel(name="waiting", curves=[Curve(name="0", values=[float(max(0, i - 30)) for i in range(40)])])],
        ),
        Chart(
            name="memory_peaks", kind="bars", table="prof_memory", rows=8, x_name="rank", x=[float(r) for r in range(8)],
            panels=[Panel(name="memory", unit="MB", curves=[
                Curve(name="allocated", values=[41_000.0] * 8), Curve(name="reserved", values=[7000.0] * 8)])],
        ),
    ]  # fmt: skip


def cost_finding(number: int, code: str, name: str, lost_pct: float) -> Finding:
    """Return a finding that costs time."""
    return Finding(
        id=f"f{number}",
        code=code,
        name=name,
        category="performance",
        severity="warning",
        confidence="medium",
        role="contributing",
        impact=Impact(lost_pct=lost_pct, basis="exposed communication over step time"),
        title=f"{name.replace('-', ' ')} costs {lost_pct} % of the time",
        summary="The rest of the ranks waits meanwhile.",
        scope=Scope(ranks=[5]),
        i18n={"zh": {"title": f"{name} 损失 {lost_pct} % 的时间", "summary": "其余 Rank 在此期间等待。"}},
    )


def charted() -> Result:
    """Return a job with every chart, and findings that cost time."""
    result = healthy()
    result.verdict = Verdict(text="Warning: rank 5 is slow.", confidence="medium", status="findings",
                             i18n={"zh": {"text": "警告：Rank 5 偏慢。"}})  # fmt: skip
    result.findings = [
        cost_finding(1, "PRO006", "slow-rank", 24.5),
        cost_finding(2, "PRO001", "communication-bound", 3.5),
        cost_finding(3, "PRF101", "step-time-slow-stretch", 11.0),
    ]
    result.findings[0].role = "root"
    result.charts = charts()
    return result


DOCUMENTS = {
    "charted": charted,
    "job": job,
    "healthy": healthy,
    "insufficient": insufficient,
    "unrecognised": unrecognised,
    "hostile": hostile,
}
