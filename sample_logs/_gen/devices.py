"""Jobs in which a device, its memory or a kernel fails."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from _gen import cann, console
from _gen.healthy import device_tree
from _gen.shapes import Clock, Folder, Job, case_text, make_ranks, name_stamp, stamp


def aicore_exception_one_of_eight() -> Job:
    """A vector kernel of rank 3 reads out of range; the others wait for it."""
    rnd = random.Random("aicore-exception-one-of-eight")
    folder = Folder()
    ranks = make_ranks(rnd)
    started = datetime(2026, 5, 6, 17, 33, 8, 114_620)
    root = cann.root_info(ranks, started)
    steps, last = console.iterations(started + timedelta(seconds=47), rnd, 73)
    fault = last + timedelta(seconds=1.3)
    bad = ranks[3]
    lines = [*console.WARNINGS, *console.arguments(), *console.setup(started + timedelta(seconds=28), 8), *steps]
    late: list[str] = []
    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=58 * process.rank), rnd)
        cann.start_up(process, clock, 8, root, exec_timeout=120)
        cann.steady(process, clock, 2)
        prefix = f"[rank{process.rank}]: "
        if process is bad:
            clock.at(fault)
            block = cann.vector_core_exception(
                process, clock, "GatherV3_6c2b1f0e9d8a4775b3e1a0c9d2f48e67_high_performance_80330", rnd
            )
            error = (
                "RuntimeError: npuSynchronizeUsedDevices:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:472 NPU "
                "function error: "
                "c10_npu::npuSynchronizeUsedDevices(), error code is 507035"
            )
            lines += console.prefixed(prefix, console.traceback(console.train_frames(*console.SYNC_FRAMES), error))
            lines += console.prefixed(
                prefix,
                [
                    console.pta_error(process, clock.now),
                    "[Error]: The vector core execution is abnormal. ",
                    "        Rectify the fault based on the error information in the ascend log.",
                    "EZ9999: Inner Error!",
                    *block,
                ],
            )
        else:
            clock.at(fault + timedelta(seconds=120.2, milliseconds=80 * process.rank))
            remote = 3 if process.rank in (2, 4) else (process.rank + 1) % 8
            block = cann.notify_timeout(process, clock, 8, root, remote, launched=fault, rnd=rnd)
            error = (
                "RuntimeError: npuSynchronizeUsedDevices:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:472 NPU "
                "function error: "
                "c10_npu::npuSynchronizeUsedDevices(), error code is 507048"
            )
            late += console.prefixed(prefix, console.traceback(console.train_frames(*console.SYNC_FRAMES), error))
            late += console.prefixed(prefix, [console.pta_error(process, clock.now), *block])
    lines += late
    end = fault + timedelta(seconds=122)
    lines += console.elastic(
        "pretrain_gpt.py", [(ranks[0], 1, end), (ranks[1], 1, end)], ranks[0].pid - 19, terminated=ranks[2:]
    )
    folder.plogs(ranks)
    folder.text("node-a/train.log", lines)
    return Job(
        "aicore-exception-one-of-eight",
        case_text(
            title="A vector kernel of one rank reads out of range",
            en=(
                "Rank 3 (device 3) fails in a gather kernel with 507035: several vector cores report an address "
                "out of range. Its process hangs while it is torn down, so the other seven run into the 120 s "
                "execution time-out and torchrun names rank 0 as the first failure. The culprit is rank 3."
            ),
            zh=(
                "rank 3（device 3）的 Gather 算子以 507035 失败，多个 vector core "
                "报地址越界。该进程在退出过程中挂起，其余七个 rank 触发 120 s 执行超时，torchrun 将 "
                "rank 0 记为首个失败者。真正的故障源是 rank 3。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [vector-core-exception, aicore-exception, aicore-address-out-of-range]
  category: [aicore-exception]
  min_severity: critical
  ranks: [3]
  devices: [3]
  evidence:
    - {file: "**", contains: "The DDR address of the MTE instruction is out of range|fault kernel_name=GatherV3"}
consequences: [collective-notify-timeout]
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def device_oom() -> Job:
    """Rank 1 runs out of device memory, with much reserved and unused."""
    rnd = random.Random("device-oom")
    folder = Folder()
    ranks = make_ranks(rnd, per_node=4)
    started = datetime(2026, 4, 27, 11, 48, 36, 902_330)
    root = cann.root_info(ranks, started)
    steps, last = console.iterations(started + timedelta(seconds=40), rnd, 17)
    bad = ranks[1]
    lines = [
        *console.WARNINGS,
        *console.arguments(world_size=4, data_parallel_size=2),
        *console.setup(started + timedelta(seconds=24), 4),
        *steps,
    ]
    block: list[str] = []
    for process in ranks:
        clock = Clock(started + timedelta(milliseconds=49 * process.rank), rnd)
        cann.start_up(process, clock, 4, root)
        if process is bad:
            clock.at(last + timedelta(seconds=1.6))
            block = cann.memory_exhausted(process, clock, 2_684_354_560)
    frames = console.train_frames(
        (
            f"{console.SITE}/megatron/core/tensor_parallel/cross_entropy.py",
            232,
            "vocab_parallel_cross_entropy",
            "return _VocabParallelCrossEntropy.apply(logits, target)",
        ),
    )
    error = (
        "RuntimeError: NPU out of memory. Tried to allocate 2.50 GiB (NPU 1; 60.96 GiB total capacity; 41.27 GiB "
        "already allocated; "
        "41.27 GiB current active; 1.04 GiB free; 57.88 GiB reserved in total by PyTorch) If reserved memory is >> "
        "allocated memory "
        "try setting max_split_size_mb to avoid fragmentation."
    )
    lines += console.prefixed("[rank1]: ", console.traceback(frames, error))
    lines += console.prefixed(
        "[rank1]: ", [console.pta_error(bad, last + timedelta(seconds=2), "ERR00006 PTA memory error"), *block]
    )
    lines += console.elastic(
        "pretrain_gpt.py",
        [(bad, 1, last + timedelta(seconds=9))],
        ranks[0].pid - 25,
        terminated=[ranks[n] for n in (0, 2, 3)],
    )
    folder.plogs(ranks)
    folder.text("node-a/train.log", lines)
    return Job(
        "device-oom",
        case_text(
            title="Out of device memory, with 16 GiB reserved and unused",
            en=(
                "Rank 1 cannot allocate 2.50 GiB. 57.88 GiB are reserved by PyTorch and 41.27 GiB of them are "
                "in use: the memory is fragmented. The process log shows the driver's refusal and the memory of "
                "each module."
            ),
            zh=(
                "rank 1 申请 2.50 GiB 显存失败。PyTorch 已预留 57.88 GiB，实际使用 "
                "41.27 GiB，属于显存碎片问题。进程日志中有驱动的申请失败记录和各模块的内存统计。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [allocation-failed-by-fragmentation]
  category: [out-of-memory]
  min_severity: error
  ranks: [1]
  devices: [1]
  evidence:
    - {file: "**", contains: "NPU out of memory|halMemAlloc failed|EL0004"}
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def ecc_heartbeat_loss() -> Job:
    """The memory of device 6 has a multi-bit error; the device then loses its heartbeat."""
    rnd = random.Random("ecc-heartbeat-loss")
    folder = Folder()
    ranks = make_ranks(rnd)
    started = datetime(2026, 7, 2, 1, 12, 55, 640_903)
    root = cann.root_info(ranks, started)
    steps, last = console.iterations(started + timedelta(seconds=51), rnd, 88)
    fault = last + timedelta(seconds=0.7)
    bad = ranks[6]
    lines = [*console.WARNINGS, *console.arguments(), *console.setup(started + timedelta(seconds=32), 8), *steps]
    late: list[str] = []
    for process in ranks:
        p = process
        clock = Clock(started + timedelta(milliseconds=66 * p.rank), rnd)
        cann.start_up(p, clock, 8, root, exec_timeout=600)
        cann.steady(p, clock, 3)
        prefix = f"[rank{p.rank}]: "
        lost = fault + timedelta(seconds=33)
        if p is bad:
            clock.at(fault + timedelta(milliseconds=42))
            uptime = 412_663_871_204
            ecc = f"HBM MULTI BIT ECC, Uncorrectable ECC, device_id=6, event_id=0x80e01801, time us={uptime}."
            p.log("ERROR", "RUNTIME", clock.tick(), f"[stars_engine.cc:2417]{p.tid + 8} ProcHBMRas:{ecc}")
            p.log(
                "ERROR",
                "RUNTIME",
                clock.tick(),
                f"[api_c.cc:1288]{p.pid} rtStreamSynchronizeWithTimeout:ErrCode=507054, desc=[hbm Multi-bit ECC "
                f"error], "
                "InnerCode=0x7110024",
            )
            first = clock.now
            clock.skip(4.2)
            p.log(
                "ERROR",
                "RUNTIME",
                clock.tick(),
                f"[engine.cc:1044]{p.tid + 8} ReportHeartBreakProcV2:Device lost heartbeat, device_id=6, status=4.",
            )
            p.log(
                "ERROR",
                "RUNTIME",
                clock.tick(),
                f"[hwts_engine.cc:211]{p.tid + 8} ReceivingRun:Device[6] lost heartbeat.",
            )
            p.log(
                "ERROR",
                "RUNTIME",
                clock.tick(),
                f"[api_c.cc:402]{p.pid} rtDeviceSynchronizeWithTimeout:ErrCode=507010, desc=[task scheduler lost "
                f"heartbeat], "
                "InnerCode=0x711001a",
            )
            p.log(
                "ERROR",
                "DRV",
                clock.tick(),
                f"[ascend][curpid: {p.pid}, {p.pid}][drv][tsdrv][share_log_read 552]hdc connect down, devid(6) "
                f"fid(0) tsid(0)",
            )
            error = (
                "RuntimeError: npuSynchronizeUsedDevices:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:472 NPU "
                "function error: "
                "c10_npu::npuSynchronizeUsedDevices(), error code is 507054"
            )
            lines += console.prefixed(prefix, console.traceback(console.train_frames(*console.SYNC_FRAMES), error))
            lines += console.prefixed(
                prefix,
                [
                    console.pta_error(p, first),
                    "[Error]: HBM multi-bit ECC error. ",
                    "        Rectify the fault based on the error information in the ascend log.",
                    f"EL9999: [PID: {p.pid}] {stamp(first)} {ecc}[FUNC:ProcHBMRas][FILE:stars_engine.cc][LINE:2417]",
                    "        TraceBack (most recent call last):",
                    "        rtStreamSynchronizeWithTimeout execute failed, reason=[hbm Multi-bit ECC "
                    "error][FUNC:FuncErrorReason]"
                    "[FILE:error_message_manage.cc][LINE:53]",
                ],
            )
        else:
            informer = ranks[5 if p.rank <= 5 else 7]
            cann.heartbeat_event(p, lost + timedelta(milliseconds=p.rank), bad, informer, "LOST")
            clock.at(fault + timedelta(seconds=600.3, milliseconds=95 * p.rank))
            remote = 6 if p.rank in (5, 7) else (p.rank + 1) % 8
            block = cann.notify_timeout(
                p,
                clock,
                8,
                root,
                remote,
                launched=fault,
                rnd=rnd,
                cluster=cann.location(bad, informer, lost, "Heartbeat Lost Occurred"),
            )
            error = (
                "RuntimeError: npuSynchronizeUsedDevices:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:472 NPU "
                "function error: "
                "c10_npu::npuSynchronizeUsedDevices(), error code is 507048"
            )
            late += console.prefixed(prefix, console.traceback(console.train_frames(*console.SYNC_FRAMES), error))
            late += console.prefixed(prefix, [console.pta_error(p, clock.now), *block])
    lines += late
    folder.plogs(ranks)
    folder.text("node-a/train.log", lines)
    boot = datetime(2026, 6, 27, 6, 35, 12, 402_771)
    base = "node-a/slog/dev-os-6"
    device_tree(folder, base, boot, rnd, device=6)
    events = cann.boot_events(3377, boot, 6)
    for second, (event, kind, assertion, node) in enumerate(
        (
            (0x80E01801, "0x1[multi-bit ecc error]", "2[One time event]", "0x70[HBM]"),
            (0x80FA4E00, "0x0[heartbeat lost]", "1[Event occur]", "0x7d[TS]"),
        )
    ):
        moment = fault + timedelta(seconds=3.9 * second)
        events.append(
            cann.device_event(
                3377,
                moment,
                event=event,
                device=6,
                node=node,
                kind=kind,
                severity="3[Critical]",
                assertion=assertion,
                serial=second + 2,
                description="HBM 0x1801" if second == 0 else "TS 0x4e00",
                uptime=(moment - boot).total_seconds() + 58.8,
                node_id=2,
            )
        )
    folder.text(f"{base}/run/event/event_{name_stamp(boot)}.log", events)
    return Job(
        "ecc-heartbeat-loss",
        case_text(
            title="Multi-bit memory error on one device",
            en=(
                "The high-bandwidth memory of device 6 reports a multi-bit ECC error (event 0x80E01801, 507054 "
                "on the host); four seconds later the device loses its heartbeat (507010) and after ten minutes "
                "the other ranks time out. The hardware fault is the cause of all of it."
            ),
            zh=(
                "device 6 的 HBM 出现多比特 ECC 错误（事件 0x80E01801，Host 侧 "
                "507054），4 s 后设备心跳丢失（507010），十分钟后其余 rank 全部超时。"
                "硬件故障是所有现象的根因。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [hbm-multi-bit-ecc]
  category: [device-fault]
  min_severity: critical
  devices: [6]
  evidence:
    - {file: "**", contains: "80e01801|MULTI BIT ECC|Multi-bit ECC"}
consequences: [device-heartbeat-lost, collective-notify-timeout]
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def msnpureport_export() -> Job:
    """A device log export: transient events that resumed, and a fault in the rotated file."""
    rnd = random.Random("msnpureport-export")
    folder = Folder()
    boot = datetime(2026, 4, 1, 2, 14, 51, 310_092)
    fault = datetime(2026, 4, 1, 22, 7, 38, 551_700)
    top = "2026-04-02-11-30-15/slog"
    base = f"{top}/dev-os-0"

    def pair(serial: int, moment: datetime, core: int) -> list[str]:
        return [
            cann.device_event(
                3410,
                moment + timedelta(milliseconds=after),
                event=0x80CB8009,
                device=0,
                node="0x65[AIV]",
                kind="0x9[bus error, probably caused by software]",
                severity="1[Warning]",
                assertion=assertion,
                serial=serial,
                description="AIV 0x1706",
                uptime=(moment - boot).total_seconds() + after / 1000,
                node_id=core,
            )
            for after, assertion in ((0, "1[Event occur]"), (58, "0[Event resume]"))
        ]

    old = cann.boot_events(3410, boot, 0)
    for number in range(3):
        old += pair(30 + number, boot + timedelta(hours=5, minutes=7 * number), 11 + number)
    old.append(
        cann.device_event(
            3410,
            fault,
            event=0x80E01801,
            device=0,
            node="0x70[HBM]",
            kind="0x1[multi-bit ecc error]",
            severity="3[Critical]",
            assertion="2[One time event]",
            serial=41,
            description="HBM 0x1801",
            uptime=(fault - boot).total_seconds(),
            node_id=1,
        )
    )
    new: list[str] = []
    for number in range(6):
        new += pair(52 + number, fault + timedelta(hours=3, minutes=11 * number), 20 + number)
    folder.gzip(f"{base}/run/event/event_{name_stamp(boot)}.log.gz", old)
    folder.text(f"{base}/run/event/event_{name_stamp(fault + timedelta(hours=2))}.log", new)
    folder.text(f"{base}/debug/device-0/device-0_{name_stamp(boot)}.log", cann.firmware_lines(boot, rnd, 90))
    folder.text(f"{base}/run/device-os/device-os_{name_stamp(boot)}.log", cann.os_lines(boot, 0))
    folder.text(
        f"{base}/debug/device-os/device-os_{name_stamp(boot)}.log", cann.os_lines(boot + timedelta(seconds=2), 0)
    )
    folder.text(
        f"{top}/host/host_kernel.log",
        cann.host_kernel_lines(boot + timedelta(hours=4), rnd, [20_225, 20_717, 21_094, 21_224, 21_600]),
    )
    kbox = "2026-04-02-11-30-15/hisi_logs/device-0/20260401220738-551700000"
    seconds = (fault - boot).total_seconds()
    folder.text(
        f"{kbox}/bbox/kbox.txt",
        [
            f"[{seconds + n / 1e6:.6f}] {{6}}[Hardware Error] {text}"
            for n, text in enumerate(
                (
                    "Hardware error from APEI Generic Hardware Error Source: 0",
                    "event severity: recoverable",
                    " section_type: memory error",
                    " physical_address: 0x00001020be36c340",
                    " error_type: 3, multi-bit ECC",
                )
            )
        ],
    )
    folder.text(
        "2026-04-02-11-30-15/hisi_logs/device_info.txt",
        ["device-0: physical id 0, logical id 0, status normal"],
    )
    return Job(
        "msnpureport-export",
        case_text(
            title="Device log export with a memory fault in the rotated event log",
            en=(
                "An export of one device. The current event log holds only AIV events that resumed within a "
                "tenth of a second. The rotated, compressed one holds the multi-bit ECC event of the night "
                "before; the black box has the same fault."
            ),
            zh=(
                "单个设备的日志导出。当前事件日志中只有十分之一秒内即恢复的 AIV 事件；"
                "已轮转压缩的事件日志中记录了前一晚的多比特 ECC 事件，黑匣子日志中有同一故障。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [hbm-multi-bit-ecc]
  category: [device-fault]
  min_severity: error
  devices: [0]
  evidence:
    - {file: "**", contains: "80e01801|multi-bit ECC"}
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )
