"""What CANN prints: start-up, collectives, kernels, memory, device events."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from _gen.shapes import JOB_GROUP, Clock, Process, ctime, slog, stamp

NOTIFY_CAUSE = (
    "        Possible Cause: 1. An exception occurs during the execution on some NPUs in the cluster. As a result, "
    "collective communication operation failed.2. The execution speed on some NPU in the cluster is too slow to "
    "complete a communication operation within the timeout interval. (default 1800s, You can set the interval by "
    "using HCCL_EXEC_TIMEOUT.)3. The number of training samples of each NPU is inconsistent.4. Packet loss or other "
    "connectivity problems occur on the communication link."
)
SOCKET_REASON = (
    "Getting socket times out. Reason: 1. The remote does not initiate a connect request. some NPUs in the cluster "
    "are abnormal.    2. The remote does not initiate a connect request because the collective communication "
    "operator is started too late or is not started by some NPU in the cluster.    3. The communication link is "
    "disconnected. (For example, the IP addresses are not on the same network segment or the TLS configurations are "
    "inconsistent.)"
)


def root_info(ranks: list[Process], started: datetime) -> str:
    """Return the identifier of the world communicator."""
    return f"{ranks[0].host_ip}%eth0_60000_0_{int((started - datetime(1970, 1, 1)).total_seconds() * 1e6)}"


def start_up(
    process: Process,
    clock: Clock,
    world: int,
    root: str,
    *,
    exec_timeout: int = 1836,
    connect_timeout: int = 120,
    join: bool = True,
) -> None:
    """Log what a torch_npu process logs until its world communicator stands.

    Args:
        process: The rank.
        clock: Its clock.
        world: Number of ranks.
        root: Identifier of the communicator.
        exec_timeout: Seconds; other than the default it counts as set by environment.
        connect_timeout: Seconds; likewise.
        join: False for a rank that stops before the communicator is built.
    """
    p, tid = process, process.tid
    p.log("INFO", "ATRACE", clock.tick(), f"[trace_attr.c:189](tid:{p.pid}) attr init success, timeout=0ms.")
    p.log("INFO", "ATRACE", clock.tick(), f"[trace_recorder.c:121](tid:{p.pid}) use root path: /root/ascend/atrace")
    p.log(
        "INFO",
        "RUNTIME",
        clock.tick(90_000, 180_000),
        f"[runtime.cc:5477] {p.pid} GetVisibleDevices: ASCEND_RT_VISIBLE_DEVICES param was not set",
    )
    p.log(
        "INFO",
        "ATRACE",
        clock.tick(900_000, 2_400_000),
        f"[atrace_client_core.c:164](tid:{tid}) start to receive device[{p.device}] trace log.",
    )
    for body in (
        f"[client_manager.cpp:449][GetClientRunMode][tid:{tid}] runningMode:0",
        f"[process_mode_manager.cpp:129][OpenProcess][tid:{tid}] [ProcessModeManager] enter into open process "
        f"deviceId[{p.device}] rankSize[{world}]",
        f"[process_mode_manager.cpp:488][InitTsdClient][tid:{tid}] [TsdClient] deviceId[{p.device}] begin to init "
        "hdc client",
        f"[version_verify.cpp:68][PeerVersionCheck][tid:{tid}] VersionVerify: Check client version info, "
        "server[1230], client[1230]",
        f"[version_verify.cpp:89][ParseVersionInfo][tid:{tid}] VersionVerify: pass client version info success",
        f"[hdc_client.cpp:275][CheckHdcConnection][tid:{tid}] Service[2] create hdc success",
        f"[process_mode_manager.cpp:146][OpenProcess][tid:{tid}] [ProcessModeManager] deviceId[{p.device}] "
        f"sessionId[1] rankSize[{world}], wait sub process start respond",
    ):
        p.log("INFO", "TDT", clock.tick(), body)
    p.log(
        "INFO",
        "DRV",
        clock.tick(120_000, 260_000),
        f"[ascend][curpid: {p.pid}, {tid}][drv][devmm][share_log_read_in_single_module 634]Setup device succeeded. "
        f"(logical_devid={p.device}; devid={p.device}; vfid=0; hostpid={p.pid}; devpid={p.pid % 30_000 + 2_000})",
    )
    for number, part in enumerate(("OpsKernelBuilderManager", "HostCpuEngineInitialize", "AnalyzerInitialize")):
        p.log(
            "INFO",
            "GE",
            clock.tick(3_000, 40_000),
            f"[gelib.cc:{243 + 11 * number}][EVENT]{p.pid} InnerInitialize:[GEPERFTRACE] The time cost of "
            f"InnerInitialize::{part} is [{20391 // (1 + number * 90)}] micro second.",
        )
    how_exec = "default" if exec_timeout == 1836 else "environment"
    how_connect = "default" if connect_timeout == 120 else "environment"
    for line, text in (
        (598, f"HCCL_CONNECT_TIMEOUT set by {how_connect} to [{connect_timeout}]s"),
        (558, f"HCCL_EXEC_TIMEOUT set by {how_exec} to [{exec_timeout}]s"),
        (663, "HCCL_INTRA_PCIE_ENABLE set by default to [1], HCCL_INTRA_ROCE_ENABLE set by default to [0]"),
        (880, "HCCL_IF_IP is not set"),
        (936, "HCCL_SOCKET_IFNAME set by environment to [eth0]"),
        (865, "HCCL_IF_BASE_PORT set by default to [60000]"),
        (1250, "HCCL_RDMA_TIMEOUT set by default to [20]"),
        (1284, "HCCL_RDMA_RETRY_CNT set by default to [7]"),
        (1370, "HCCL_BUFFSIZE set by default to [200]M"),
        (1484, "HCCL_ENTRY_LOG_ENABLE set by default to [0]"),
    ):
        p.log("INFO", "HCCL", clock.tick(2, 12), f"[externalinput.cc:{line}] [{p.pid}][HCCL_ENV] {text}")
    p.log(
        "INFO",
        "HCCL",
        clock.tick(40_000, 90_000),
        f"[topoinfo_detect.cc:506] [{p.pid}][HCCL_TRACE][Flat]SetupAgent rankNum[{world}], rank[{p.rank}], rootInfo "
        f"identifier[{root}], server[{p.host_ip}%eth0], serverPort[60000]deviceType[2], logicDevId[{p.device}], "
        f"phydevId[{p.device}], deviceIp[{p.device_ip}]",
    )
    if not join:
        return
    p.log(
        "INFO",
        "HCCL",
        clock.tick(300_000, 600_000),
        f"[op_base.cc:1292] [{p.pid}]Entry-HcclCommInitRootInfoInner:ranks[{world}], rank[{p.rank}], rootinfo: "
        f"host ip[{root.partition('%')[0]}] port[60000] nicDeploy[1] identifier[{root}], deviceLogicId[{p.device}]",
    )
    p.log(
        "INFO",
        "HCCL",
        clock.tick(200_000, 800_000),
        f"[hccl_comm.cc:129] [{p.pid}]hcclCommInitInfo:commId[{root}], rank[{p.rank}], totalRanks[{world}], "
        f"serverId[{p.host_ip}%eth0], deviceType[2],logicDevId[{p.device}], identifier[{JOB_GROUP}]",
    )


def steady(process: Process, clock: Clock, minutes: int) -> None:
    """Log the little that a healthy process says while it trains, every minute something."""
    p = process
    for minute in range(minutes):
        clock.skip(60)
        if minute % 3 == 0:
            p.log(
                "INFO",
                "DRV",
                clock.tick(),
                f"[ascend][curpid: {p.pid}, {p.tid}][drv][devmm][_svm_mem_stats_show 154]DEV_MEM dev{p.device} mem "
                f"stats(Bytes): module_name=HCCL, module_id=3 current_alloced_size={419430400 + minute * 4096}, "
                "alloced_peak_size=423624704.",
            )
        else:
            p.log(
                "EVENT",
                "PROFILING",
                clock.tick(),
                f"[msprof_callback_impl.cpp:127] >>> (tid:{p.tid}) MsprofCtrlCallback called, type: {minute % 4}",
            )


def shut_down(process: Process, clock: Clock, root: str) -> None:
    """Log an orderly end."""
    p = process
    p.log(
        "INFO",
        "HCCL",
        clock.tick(),
        f"[op_base.cc:3120] [{p.pid}]Entry-HcclCommDestroy: op_base comm destroy "
        f"begin, group[{root}], deviceLogicId[{p.device}]",
    )
    p.log("INFO", "RUNTIME", clock.tick(40_000, 90_000), f"[runtime.cc:2116] {p.pid} ~Runtime: deconstruct runtime")
    p.log(
        "INFO",
        "RUNTIME",
        clock.tick(),
        f"[runtime.cc:2123] {p.pid} ~Runtime: wait monitor success, use=0.",
    )


def heartbeat_event(process: Process, moment: datetime, culprit: Process, informer: Process, status: str) -> None:
    """Log that a neighbour reported `culprit`: `status` is ``LOST``, ``STUCK`` or ``ERROR CQE``."""
    process.log(
        "INFO",
        "HCCL",
        moment,
        f"[heartbeat.cc:951] [{process.pid + 96}][TaskExecStage][HeartbeatAbnormal]local rank "
        f"[{process.host_ip}/{process.device}]: crimer rank [{culprit.host_ip}/{culprit.device}] status[{status}] by "
        f"informer rank [{informer.host_ip}/{informer.device}]",
    )


def location(culprit: Process, informer: Process, seen: datetime, kind: str) -> str:
    """Return the ``Cluster Exception Location`` sentence."""
    reason = {
        "Heartbeat Lost Occurred": "1. Process has exited, 2. Network Disconnected",
        "Stuck Occurred": "1.Host process is stuck, 2.Device task is stuck",
        "Error cqe Occurred": "1. Network Disconnected, 2. Remote process has exited",
    }[kind]
    return (
        f"Cluster Exception Location[IP/ID]:[{culprit.host_ip}/{culprit.device}], Arrival Time:[{ctime(seen)}], "
        f"Discoverer:[{informer.host_ip}/{informer.device}], ExceptionType:[{kind}], Possible Reason:{reason}"
    )


def notify_timeout(
    process: Process,
    clock: Clock,
    world: int,
    root: str,
    remote: int,
    *,
    launched: datetime,
    rnd: random.Random,
    cluster: str = "",
) -> list[str]:
    """Log a collective that waited in vain for rank `remote`.

    Args:
        process: The rank that waited.
        clock: Stands at the time-out.
        world: Number of ranks.
        root: Identifier of the communicator.
        remote: Rank it waited for.
        launched: When the operator was launched.
        rnd: Source of invented numbers.
        cluster: ``Cluster Exception Location`` sentence, if heartbeat found a culprit.

    Returns:
        The EI0002 block that the console shows.
    """
    p, tid = process, process.tid
    stream, task, notify = rnd.randint(4, 40), rnd.randint(300, 9_000), rnd.randint(8, 400)
    tag = f"AllReduce_{root}"
    p.log(
        "ERROR",
        "RUNTIME",
        clock.tick(),
        f"[stars_engine.cc:1551]{tid} ProcLogicCqReport:Task run failed, device_id={p.device}, stream_id={stream}, "
        f"task_id={task}, sqe_type=6(notify wait), errType=0x8(task timeout), sqSwStatus=0",
    )
    p.log(
        "ERROR",
        "RUNTIME",
        clock.tick(),
        f"[task_info.cc:5261]{tid} PrintErrorInfoForNotifyWaitTask:Notify wait execute failed, device_id={p.device}, "
        f"stream_id={stream}, task_id={task}, flip_num=0, notify_id={notify}",
    )
    head = f"[{tid}][TaskExecStage][Timeout][Host]Task run failed, "
    for line, text in (
        (
            908,
            f"base information is streamID:[{stream}], taskID[{task}], taskType[Notify Wait], tag[{tag}], "
            "AlgType(level 0-1-2):[fullmesh-ring-NHR].",
        ),
        (
            771,
            f"groupRank information is group:[{root}], user define information[], rankSize[{world}], rankId[{p.rank}].",
        ),
        (
            655,
            f"para information is notify id:[0x{(1 << 32) + notify:016x}], stage:[ffffffff], remote rank:[{remote}].",
        ),
        (
            704,
            f"opData information is timeStamp:[{stamp(launched)}], deviceId[{p.device}], index[{task % 97 + 20}], "
            f"count[{rnd.randint(1, 64) * 131072}], reduceType[sum], src[0x12c0c0{rnd.getrandbits(24):06x}], "
            f"dst[0x12c0c0{rnd.getrandbits(24):06x}], dataType[bfp16].",
        ),
    ):
        p.log("ERROR", "HCCL", clock.tick(4, 30), f"[task_exception_handler.cc:{line}] {head}{text}")
    if cluster:
        p.log(
            "ERROR",
            "HCCL",
            clock.tick(4, 30),
            f"[task_exception_handler.cc:610] [{tid}][TaskExecStage][HeartbeatAbnormal]{cluster}",
        )
    p.log(
        "ERROR",
        "RUNTIME",
        clock.tick(200, 900),
        f"[api_c.cc:1288]{p.pid} rtStreamSynchronizeWithTimeout:ErrCode=507048, desc=[fftsplus timeout], "
        "InnerCode=0x715006d",
    )
    p.log(
        "ERROR",
        "ASCENDCL",
        clock.tick(20, 90),
        f"[stream.cpp:145]{p.pid} aclrtSynchronizeStreamWithTimeout: [Synchronize][Stream]synchronize stream failed, "
        "runtime result = 507048",
    )
    found = "" if not cluster else f"\nthere are(is) 1 abnormal device(s):\n        {cluster}\n"
    moment = clock.tick(3_000, 9_000)
    block = (
        f"EI0002: [PID: {p.pid}] {stamp(moment)} The wait execution of the Notify register times out. Reason: The "
        f"Notify register has not received the Notify record from remote rank [{remote}]. base information: "
        f"[streamID:[{stream}], taskID[{task}], taskType[Notify Wait], tag[{tag}], AlgType(level "
        f"0-1-2):[fullmesh-ring-NHR].] task information: [{found}notify id:[0x{(1 << 32) + notify:016x}], "
        f"stage:[ffffffff], remote rank:[{remote}].]. group information: [group:[{root}], user define information[], "
        f"rankSize[{world}], rankId[{p.rank}].]\n"
        f"{NOTIFY_CAUSE}\n"
        "        TraceBack (most recent call last):\n"
        f"        Notify wait execute failed, device_id={p.device}, stream_id={stream}, task_id={task}, flip_num=0, "
        f"notify_id={notify}[FUNC:GetError][FILE:stream.cc][LINE:1183]\n"
        "        rtStreamSynchronizeWithTimeout execute failed, reason=[fftsplus timeout][FUNC:FuncErrorReason]"
        "[FILE:error_message_manage.cc][LINE:53]"
    )
    return block.split("\n")


def link_timeout(process: Process, clock: Clock, peer: Process, *, role: str, timeout: int, root: str) -> list[str]:
    """Log that the socket link to `peer` never came up; returns the EI0006 block of the console."""
    p, tid = process, process.tid + 31
    number = int(role == "client")
    where = f"[hccl_socket_manager.cc:%d] [{tid}]"
    for line, text in (
        (
            797,
            f"[Wait][LinkEstablish]wait socket establish timeout, role[{number}] rank[{p.rank}] timeout[{timeout} s]",
        ),
        (861, "[Wait][LinksEstablishCompleted] is failed. ret[9]."),
        (836, f"[Create][Sockets]Wait links establish completed failed, local role is {role}. ret[9]"),
        (623, "   _________________________LINK_ERROR_INFO___________________________"),
        (624, f"   |  comm error, device[{p.device}] "),
        (
            626,
            "   |  dest_ip(user_rank)  |   dest_port   |  src_ip(user_rank)   |   src_port   |   MyRole   |   Status   "
            "|    TlsStatus   |",
        ),
        (
            628,
            "   |----------------------|---------------|----------------------|--------------|------------|"
            "------------|----------------|",
        ),
        (
            583,
            f"   |  {peer.device_ip}({peer.rank})   |  16666  |   {p.device_ip}({p.rank})   |  0  |  {role}  | time "
            f"out "
            "|   DISABLE  | LinkInfo",
        ),
        (630, "   ___________________________________________________________________  "),
        (631, "the connection failure between this device and target device may be due to the following reasons:"),
        (632, "1. the connection between this device and the target device is abnormal."),
        (633, "2. an exception occurred at the target devices."),
    ):
        p.log("ERROR", "HCCL", clock.tick(2, 40), where % line + text)
    transport_error(p, clock, peer, root=root)
    return [f"EI0006: [PID: {p.pid}] {stamp(clock.tick(2_000, 7_000))} {SOCKET_REASON}"]


def transport_error(process: Process, clock: Clock, peer: Process, *, root: str) -> None:
    """Log that the transport to `peer` could not be built, and the call trace up to the operator."""
    p, tid = process, process.tid + 31
    p.log(
        "ERROR",
        "HCCL",
        clock.tick(60, 200),
        f"[transport_manager.cc:886] [{tid}][InitChannelStage][Timeout]Transport init error! createLink "
        f"para:rank[{p.rank}]-localUserrank[{p.rank}]-localIpAddr[{p.host_ip}/{p.device}], "
        f"remoteRank[{peer.rank}]-remoteUserrank[{peer.rank}]-remoteIpAddr[{peer.host_ip}/{peer.device}], "
        f"machineType[{int(p.rank < peer.rank)}], linkMode[1], isUsedRdma[{int(p.node != peer.node)}], "
        f"tag[AllReduce_{root}]",
    )
    p.log(
        "ERROR",
        "HCCL",
        clock.tick(40, 90),
        f"[transport_manager.cc:363] [{p.tid}][AllocSubCommLinks]call trace: hcclRet -> 9",
    )
    p.log(
        "ERROR",
        "HCCL",
        clock.tick(),
        f"[hccl_communicator_host.cc:2858] [{p.tid}][AllReduce]call trace: hcclRet -> 9",
    )


def vector_core_exception(process: Process, clock: Clock, kernel: str, rnd: random.Random) -> list[str]:
    """Log an out-of-range access of a vector kernel on several cores; returns the console block."""
    p, tid, d = process, process.tid, process.device
    stream, task = 2, rnd.randint(4_000, 60_000)
    program, digest = rnd.randint(40, 600), rnd.getrandbits(63)
    start = 0x1240C0000000 + rnd.getrandbits(20) * 16
    text = "The DDR address of the MTE instruction is out of range."
    p.log(
        "ERROR",
        "RUNTIME",
        clock.tick(),
        f"[stars_engine.cc:1551]{tid} ProcLogicCqReport:Task run failed, device_id={d}, stream_id={stream}, "
        f"task_id={task}, sqe_type=1(aivec), errType=0x1(task exception), sqSwStatus=0",
    )
    block: list[str] = []
    for order, core in enumerate(sorted(rnd.sample(range(40), 5))):
        fix0 = rnd.getrandbits(24)
        error = (
            f"The error from device(chipId:{d}, dieId:0), serial number is 3, there is an aivec error exception, core "
            f"id is {core}, error code = 0x800000, dump info: pc start: {start:#x}, current: "
            f"{start + rnd.randint(200, 4000):#x}, vec error info: {rnd.getrandbits(40):#x}, mte error info: "
            f"{rnd.getrandbits(40):#x}, ifu error info: {rnd.getrandbits(48):#x}, ccu error info: "
            f"{rnd.getrandbits(60):#x}, cube error info: 0, biu error info: 0, aic error mask: 0x6500020bd000288, "
            f"para base: {0x12C100000000 + rnd.getrandbits(24):#x}."
        )
        extend = (
            f"The extend info: errcode:(0x800000, 0, 0) errorStr: {text} fixp_error0 info: {fix0:#x}, fixp_error1 "
            f"info: "
            f"{rnd.getrandbits(8):#x}, fsmId:0, tslot:{order}, thread:0, ctxid:0, blk:{core}, sublk:0, subErrType:4."
        )
        p.log(
            "ERROR",
            "RUNTIME",
            clock.tick(4, 60),
            f"[device_error_proc.cc:1434]{tid} ProcessStarsCoreErrorInfo:report error module_type=5, "
            "module_name=EZ9999",
        )
        p.log(
            "ERROR", "RUNTIME", clock.tick(4, 60), f"[device_error_proc.cc:1434]{tid} ProcessStarsCoreErrorInfo:{error}"
        )
        p.log(
            "ERROR",
            "RUNTIME",
            clock.tick(4, 60),
            f"[device_error_proc.cc:1446]{tid} ProcessStarsCoreErrorInfo:{extend}",
        )
        if order == 0:
            block += [
                f"EZ9999: [PID: {p.pid}] {stamp(clock.now)} {error}[FUNC:ProcessStarsCoreErrorInfo]"
                "[FILE:device_error_proc.cc][LINE:1434]",
                "        TraceBack (most recent call last):",
                f"       {extend}[FUNC:ProcessStarsCoreErrorInfo][FILE:device_error_proc.cc][LINE:1446]",
            ]
    fault = (
        f"Aicore kernel execute failed, device_id={d}, stream_id={stream}, report_stream_id={stream}, task_id={task}, "
        f"flip_num=1, fault kernel_name={kernel}, fault kernel info ext=none, program id={program}, hash={digest}."
    )
    for line, function, body in (
        (1366, "PreCheckTaskErr", "Kernel task happen error, retCode=0x31, [vector core exception]."),
        (1268, "PrintErrorInfoForDavinciTask", fault),
    ):
        p.log("ERROR", "RUNTIME", clock.tick(80, 400), f"[davinci_kernel_task.cc:{line}]{tid} {function}:{body}")
    p.log("ERROR", "RUNTIME", clock.tick(), f"[stream.cc:1119]{tid} GetError:AIV Kernel happen error, retCode=0x31.")
    p.log(
        "ERROR",
        "RUNTIME",
        clock.tick(2_000, 9_000),
        f"[api_c.cc:1288]{p.pid} rtStreamSynchronizeWithTimeout:ErrCode=507035, desc=[vector core exception], "
        "InnerCode=0x7150031",
    )
    p.log(
        "ERROR",
        "ASCENDCL",
        clock.tick(20, 90),
        f"[stream.cpp:145]{p.pid} aclrtSynchronizeStreamWithTimeout: [Synchronize][Stream]synchronize stream failed, "
        "runtime result = 507035",
    )
    block += [
        "       Kernel task happen error, retCode=0x31, [vector core exception].[FUNC:PreCheckTaskErr]"
        "[FILE:davinci_kernel_task.cc][LINE:1366]",
        "       AIV Kernel happen error, retCode=0x31.[FUNC:GetError][FILE:stream.cc][LINE:1119]",
        f"       {fault}[FUNC:GetError][FILE:stream.cc][LINE:1119]",
        "       rtStreamSynchronizeWithTimeout execute failed, reason=[vector core exception][FUNC:FuncErrorReason]"
        "[FILE:error_message_manage.cc][LINE:53]",
        "       synchronize stream failed, runtime result = 507035[FUNC:ReportCallError][FILE:log_inner.cpp][LINE:161]",
    ]
    return block


def memory_exhausted(process: Process, clock: Clock, size: int) -> list[str]:
    """Log that the driver had no device memory of `size` bytes left; returns the console block."""
    p, tid, d = process, process.tid, process.device
    for module, number, now, peak in (
        ("APP", 33, 60_431_532_032, 61_102_620_672),
        ("HCCL", 3, 1_763_704_832, 1_763_704_832),
        ("RUNTIME", 7, 469_762_048, 536_870_912),
        ("GE", 45, 12_582_912, 108_003_328),
    ):
        p.log(
            "INFO",
            "DRV",
            clock.tick(4, 30),
            f"[ascend][curpid: {p.pid}, {tid}][drv][devmm][_svm_mem_stats_show 148]DEV_MEM dev{d} Mem stats (Bytes). "
            f"(module_name={module}; module_id={number}; current_alloced_size={now}; alloced_peak_size={peak}; "
            "alloc_cnt=3391; free_cnt=2877)",
        )
    for line, function, text in (
        (
            1100,
            "DevMemAllocHugePageManaged",
            f"[drv api] halMemAlloc failed:size={size}(Byte), type=2, moduleId=33, drvFlag=18374686479671772161, "
            f"drvRetCode=6, device_id={d}!",
        ),
        (
            1187,
            "DevMemAllocManaged",
            f"DevMemAlloc huge page failed: device_id={d}, type=2, size={size}, retCode=0x7020016",
        ),
    ):
        p.log("ERROR", "RUNTIME", clock.tick(4, 60), f"[npu_driver.cc:{line}]{tid} {function}:{text}")
    p.log(
        "ERROR",
        "RUNTIME",
        clock.tick(20, 90),
        f"[api_c.cc:871]{tid} rtMalloc:ErrCode=207001, desc=[driver error:out of memory], InnerCode=0x7020016",
    )
    p.log(
        "ERROR",
        "ASCENDCL",
        clock.tick(20, 90),
        f"[memory.cpp:77]{tid} aclrtMallocAlign32: [Alloc][DevMem]alloc device memory failed, runtime result = 207001, "
        f"size = {size}",
    )
    return [
        f"[PID: {p.pid}] {stamp(clock.tick())} Memory_Allocation_Failure(EL0004): Failed to allocate memory.",
        "        Possible Cause: Available memory is insufficient.",
        "        Solution: Close applications not in use.",
        "        TraceBack (most recent call last):",
        "        alloc device memory failed, runtime result = "
        "207001[FUNC:ReportCallError][FILE:log_inner.cpp][LINE:162]",
    ]


def device_event(
    pid: int,
    moment: datetime,
    *,
    event: int,
    device: int,
    node: str,
    kind: str,
    severity: str,
    assertion: str,
    serial: int,
    description: str,
    uptime: float,
    node_id: int = 0,
) -> str:
    """Return one line of the device's event log (``run/event/event_*.log``).

    Args:
        pid: Process id of the poll task on the device.
        moment: When it was logged.
        event: Event id, such as 0x80e01801.
        device: Physical device.
        node: ``0x70[HBM]``.
        kind: ``0x1[multi-bit ecc]``.
        severity: ``3[Critical]``.
        assertion: ``1[Event occur]``, ``0[Event resume]`` or ``2[One time event]``.
        serial: Serial number of the event; occur and resume share it.
        description: Text in the brackets of `description`.
        uptime: Seconds since the device booted.
        node_id: Number of the unit inside its kind.
    """
    raised = int((moment - datetime(1970, 1, 1)).total_seconds() * 1000)
    return slog(
        "EVENT",
        "DRV",
        pid,
        "dms_poll_task",
        moment,
        f"[dms_event.c:1399][fault_manager][{uptime:12.6f}] event_id={event:#010x}; device_id={device}; "
        f"node_type={node}; node_id={node_id}; sub_node_id=0; event_type={kind}; severity={severity}; "
        f"assertion={assertion}; description=[{description}]; os_id=0; event_serial_num={serial}; "
        f"notify_serial_num=0; event_raised_time={raised} ms.",
    )


def boot_events(pid: int, moment: datetime, device: int) -> list[str]:
    """Return the first lines of a device's event log: it booted, and its daemons came up."""
    boot = datetime(1970, 1, 1, 0, 0, 8, 876_153)
    lines = [
        device_event(
            pid,
            boot,
            event=0x8C2FA009,
            device=device,
            node="0x617[OS_Linux]",
            kind="0x9[OS init]",
            severity="0[OK]",
            assertion="2[One time event]",
            serial=1,
            description="OS init",
            uptime=7.932713,
            node_id=1,
        )
    ]
    for step, (line, text) in enumerate(
        (
            ("[drv_tsd_hdc_server.c:339][common]", "[hlt_server_main] [339] hlt_tsd process start"),
            ("[drv_tsd_hdc_server.c:163][common]", "[hlt_server_wait_pid] start hlt daemon thread..."),
            ("[drv_tsd_hdc_server.c:144][common]", "[hlt_daemon_wait] [144] hlt_daemon_wait .... "),
        )
    ):
        lines.append(
            slog(
                "EVENT",
                "DRV",
                pid + 1470 + step,
                "drv_tsd_daemon",
                moment + timedelta(milliseconds=4 * step),
                f"{line} {text}",
            )
        )
    return lines


def firmware_lines(moment: datetime, rnd: random.Random, count: int) -> list[str]:
    """Return the low-power firmware's chatter: boot with an unset clock, then a look every ten minutes."""
    lines: list[str] = []
    early = datetime(1970, 1, 1, 0, 3, 45, 971_121)
    for dot in range(21, 25):
        early += timedelta(milliseconds=9)
        lines.append(slog("INFO", "LPM", -1, "null", early, f"(dieid:0) [bootdot.c 245] bootdot:{dot}"))
        for core in range(6):
            early += timedelta(milliseconds=9)
            lines.append(
                slog(
                    "INFO",
                    "LPM",
                    -1,
                    "null",
                    early,
                    f"(dieid:0) [acg_common.c 340] core[{0x80000000 + 6 * dot + core:#x}] ACG init OK.",
                )
            )
    for step in range(count):
        when = moment + timedelta(minutes=10 * step)
        for core in range(2):
            volt = 42 + 2 * core
            lines.append(
                slog(
                    "EVENT",
                    "LPM",
                    -1,
                    "null",
                    when + timedelta(milliseconds=7 * core),
                    f"(dieid:0) [acg_cpm.c 221] Cpu profile[0] Core[{core}]Cpm live data[{volt}][{volt}]init[{volt}]"
                    f"[{volt}]voltFall[{rnd.randint(0, 2)}][0]",
                )
            )
    return lines


def os_lines(moment: datetime, device: int) -> list[str]:
    """Return what the device's daemons log while they start."""
    bodies = (
        ("[tsdaemon.cpp:2070][RemoveResidualFile][tid:4717] RemoveResidualFile finish"),
        ("[tsdaemon.cpp:2085][Start][tid:4717] [TsdEVENT] PreInit Success."),
        (
            "[inotify_watcher.cpp:157][StartWatch][tid:4717] inotify_add_watch uniqueVfId[0] fd[14] "
            f"path[/home/HwHiAiUser/hdcd/device{device}] wd[1] dev[{device}] vf[0] succ"
        ),
        ("[tsdaemon.cpp:1619][InitInotifyWatcher][tid:4717] [TsdEVENT] Creat physical inotify watcher success."),
    )
    return [
        slog("EVENT", "TDT", 4717, "tsdaemon", moment + timedelta(microseconds=63 * step), body)
        for step, body in enumerate(bodies)
    ]


def host_kernel_lines(moment: datetime, rnd: random.Random, pids: list[int]) -> list[str]:
    """Return ``host_kernel.log``: each process that opens and closes a device leaves a few lines, some WARN."""
    lines: list[str] = []

    def add(module: str, level: str, where: str, who: str, text: str) -> None:
        nonlocal moment
        moment += timedelta(microseconds=rnd.randint(900, 180_000))
        lines.append(
            f"[{moment:%Y-%m-%d-%H:%M:%S}.{moment.microsecond:06d}] [ascend] [{module}] [{level}] [{where}] <{who}> "
            f"{text}"
        )

    for pid in pids:
        who, worker = f"python3:{pid},{pid}", "kworker/2:1:5406,5406"
        add(
            "devdrv",
            "INFO",
            "devdrv_manager_check_process_sign 4644",
            worker,
            f"Process sign check success. (dev_id=0; hostpid={pid})",
        )
        add(
            "devdrv",
            "WARN",
            "devdrv_query_process_host_pids_by_pid 1573",
            who,
            f"Can't find cp_pid in hashtable. (pid={pid})",
        )
        add(
            "event_sched",
            "WARN",
            "sched_proc_add_grp 3134",
            f"python3:{pid}:{pid}:19",
            f"The schedule mode has been configured. (chip_id=0; pid={pid}; gid=11; sched_mode=2)",
        )
        add(
            "devmm",
            "INFO",
            "devmm_ioctl_close_device 2201",
            who,
            f"Close logical_device. (logical_devid=0; phyid=0; vfid=0; hostpid={pid}; devpid={pid % 20000})",
        )
        add(
            "devdrv",
            "INFO",
            "devdrv_release_single_devpid 1009",
            worker,
            f"Destroy master pid ctx when proc count is 0. (master_pid={pid})",
        )
        add(
            "devmm",
            "INFO",
            "devmm_svm_release_private_proc 209",
            worker,
            f"Device process exited. (hostpid={pid}; times=0)",
        )
    return lines
