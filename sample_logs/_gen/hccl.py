"""What HCCL prints of communicators: set-up in few lines, members, comparisons, and why a set-up failed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime

from _gen.shapes import Clock, Process, ctime, stamp


def introduce(
    process: Process,
    clock: Clock,
    world: int,
    root: str,
    *,
    exec_timeout: int = 1836,
    connect_timeout: int = 120,
    join: bool = True,
) -> None:
    """Log the few lines that say who a process is; `cann.start_up` is the long form.

    Args:
        process: The rank.
        clock: Its clock.
        world: Number of ranks.
        root: Identifier of the communicator.
        exec_timeout: Seconds; other than the default it counts as set by environment.
        connect_timeout: Seconds; likewise.
        join: False for a rank whose communicator is never built.
    """
    p = process
    settings(p, clock, exec_timeout=exec_timeout, connect_timeout=connect_timeout)
    p.log(
        "INFO",
        "HCCL",
        clock.tick(40_000, 90_000),
        f"[topoinfo_detect.cc:506] [{p.pid}][HCCL_TRACE][Flat]SetupAgent rankNum[{world}], rank[{p.rank}], rootInfo "
        f"identifier[{root}], server[{p.host_ip}%eth0], serverPort[60000]deviceType[2], logicDevId[{p.device}], "
        f"phydevId[{p.device}], deviceIp[{p.device_ip}]",
    )
    if join:
        joined(p, clock, world, root)


def settings(process: Process, clock: Clock, *, exec_timeout: int = 1836, connect_timeout: int = 120) -> None:
    """Log the time-outs in effect."""
    how_exec = "default" if exec_timeout == 1836 else "environment"
    how_connect = "default" if connect_timeout == 120 else "environment"
    for line, text in (
        (598, f"HCCL_CONNECT_TIMEOUT set by {how_connect} to [{connect_timeout}]s"),
        (558, f"HCCL_EXEC_TIMEOUT set by {how_exec} to [{exec_timeout}]s"),
    ):
        process.log("INFO", "HCCL", clock.tick(2, 12), f"[externalinput.cc:{line}] [{process.pid}][HCCL_ENV] {text}")


def joined(process: Process, clock: Clock, world: int, root: str, group: str = "group_name_0") -> None:
    """Log that the communicator stands."""
    p = process
    p.log(
        "INFO",
        "HCCL",
        clock.tick(200_000, 300_000),
        f"[hccl_comm.cc:129] [{p.pid}]hcclCommInitInfo:commId[{root}], rank[{p.rank}], totalRanks[{world}], "
        f"serverId[{p.host_ip}%eth0], deviceType[2],logicDevId[{p.device}], identifier[{group}]",
    )


def subgroup(process: Process, clock: Clock, members: Sequence[Process], name: str, number: int) -> None:
    """Log that a process is in a communicator of some ranks of the job.

    Args:
        process: The rank.
        clock: Its clock.
        members: All ranks of the communicator, in the order of their ranks in it.
        name: Identifier of the communicator.
        number: Running number of the framework's name for it, the same for every communicator of its kind.
    """
    p, rank = process, members.index(process)
    p.log(
        "INFO",
        "HCCL",
        clock.tick(40_000, 90_000),
        f"[topoinfo_detect.cc:506] [{p.pid}][HCCL_TRACE][Flat]SetupAgent rankNum[{len(members)}], rank[{rank}], "
        f"rootInfo identifier[{name}], server[{p.host_ip}%eth0], serverPort[60000]deviceType[2], "
        f"logicDevId[{p.device}], phydevId[{p.device}], deviceIp[{p.device_ip}]",
    )
    p.log(
        "INFO",
        "HCCL",
        clock.tick(200_000, 300_000),
        f"[hccl_comm.cc:129] [{p.pid}]hcclCommInitInfo:commId[{name}], rank[{rank}], totalRanks[{len(members)}], "
        f"serverId[{p.host_ip}%eth0], deviceType[2],logicDevId[{p.device}], identifier[group_name_{number}]",
    )


def key_info(process: Process, clock: Clock, ranks: Sequence[Process]) -> None:
    """Log who a process is where a rank table names all ranks."""
    p = process
    nodes = len({other.node for other in ranks})
    p.log(
        "INFO",
        "HCCL",
        clock.tick(40_000, 90_000),
        f"[hccl_communicator_attrs.cc:327] [{p.pid}][Communicator Key Info]identifier[hccl_world_group] "
        f"rankSize[{len(ranks)}] serverNum[{nodes}] moduleNum[{nodes}] superPodNum[0] multiModuleDiffDeviceNumMode[0] "
        "multiSuperPodDiffServerNumMode[0]",
    )
    p.log(
        "INFO",
        "HCCL",
        clock.tick(4, 12),
        f"[hccl_communicator_attrs.cc:330] [{p.pid}][LocalRank Key Info]userRank[{p.rank}] hostIp[{p.host_ip}] "
        f"devicePhyId[{p.device}] server[{p.host_ip}] deviceIp[{p.device_ip}] superPodId[] useSuperPodMode[0] "
        "isStandardCard[0]",
    )


def gave_up(
    process: Process,
    clock: Clock,
    group: str,
    size: int,
    rank: int,
    *,
    remote: int,
    launched: datetime,
    index: int,
    rnd: random.Random,
    op: str = "AllReduce",
    count: int = 131072,
    cluster: str = "",
) -> None:
    """Log the failed task of a collective in few lines; `cann.notify_timeout` is the long form.

    Args:
        process: The rank that waited.
        clock: Stands at the time-out.
        group: Identifier of the communicator.
        size: Its number of ranks.
        rank: Rank of the process in it.
        remote: Rank in it that was waited for.
        launched: When the operator was launched.
        index: Number of the operator in the communicator.
        rnd: Source of invented numbers.
        op: Kind of operator.
        count: Elements.
        cluster: ``Cluster Exception Location`` sentence, if the heartbeat found a culprit.
    """
    p = process
    head = f"[{p.tid}][TaskExecStage][Timeout][Host]Task run failed, "
    stream, task, notify = rnd.randint(4, 40), rnd.randint(300, 9_000), rnd.randint(8, 400)
    reduce = "reduceType[sum], " if op in ("AllReduce", "ReduceScatter") else ""
    lines = [
        (
            908,
            f"{head}base information is streamID:[{stream}], taskID[{task}], taskType[Notify Wait], tag[{op}_{group}], "
            "AlgType(level 0-1-2):[fullmesh-ring-NHR].",
        ),
        (
            771,
            f"{head}groupRank information is group:[{group}], user define information[], rankSize[{size}], "
            f"rankId[{rank}].",
        ),
        (
            655,
            f"{head}para information is notify id:[0x{(1 << 32) + notify:016x}], stage:[ffffffff], remote "
            f"rank:[{remote}].",
        ),
        (
            704,
            f"{head}opData information is timeStamp:[{stamp(launched)}], deviceId[{p.device}], index[{index}], "
            f"count[{count}], {reduce}src[0x12c0c0{rnd.getrandbits(24):06x}], "
            f"dst[0x12c0c0{rnd.getrandbits(24):06x}], dataType[bfp16].",
        ),
    ]
    if cluster:
        lines.append((610, f"[{p.tid}][TaskExecStage][HeartbeatAbnormal]{cluster}"))
    for line, text in lines:
        p.log("ERROR", "HCCL", clock.tick(4, 30), f"[task_exception_handler.cc:{line}] {text}")


def stuck(culprit: Process, seen: datetime) -> str:
    """Return the ``Cluster Exception Location`` sentence of a rank that hangs: nobody in particular discovers it."""
    return (
        f"Cluster Exception Location[IP/ID]:[{culprit.host_ip}/{culprit.device}], Arrival Time:[{ctime(seen)}], "
        "ExceptionType:[Stuck Occurred], Possible Reason:1.Host process is stuck, 2.Device task is stuck"
    )


def conflict(process: Process, clock: Clock, peer: Process, what: str, local: str, remote: str, root: str) -> None:
    """Log that an argument of a collective differs from that of the peer."""
    p, tid = process, process.tid + 31
    for source, text in (
        (
            "rank_consistentcy_checker.cc:439",
            f"[{tid}][InitChannelStage][ParameterConflict]CMD information {what} check fail. local[{local}], "
            f"remote[{remote}]",
        ),
        (
            "transport_manager.cc:886",
            f"[{tid}][InitChannelStage][ParameterConflict]Transport init error! createLink para:rank[{p.rank}]-"
            f"localUserrank[{p.rank}]-localIpAddr[{p.host_ip}/{p.device}], remoteRank[{peer.rank}]-"
            f"remoteUserrank[{peer.rank}]-remoteIpAddr[{peer.host_ip}/{peer.device}], "
            f"machineType[{int(p.rank < peer.rank)}], linkMode[1], isUsedRdma[{int(p.node != peer.node)}], "
            f"tag[AllReduce_{root}]",
        ),
        ("transport_manager.cc:363", f"[{p.tid}][AllocSubCommLinks]call trace: hcclRet -> 9"),
    ):
        p.log("ERROR", "HCCL", clock.tick(20, 90), f"[{source}] {text}")


def root_waits(process: Process, clock: Clock, present: Sequence[int], world: int, *, timeout: int) -> None:
    """Log that the root of a new communicator gave up waiting for the ranks that are not in `present`."""
    tid = process.pid + 277
    listed = ",".join(f"[{rank:016d}]" for rank in present)
    told = "[InitGroupStage][DisplayConnectionedRank]"
    for line, text in (
        (314, f"[InitGroupStage][RanktableDetect]topo exchange server get socket timeout! timeout[{timeout} s]"),
        (501, f"{told}total connected num is [{len(present)}],line num is [1]"),
        (503, f"{told}need connect rankNum is [{world}]"),
        (517, f"{told}connected rankinfo[LINE 0]: {listed};"),
    ):
        process.log("ERROR", "HCCL", clock.tick(20, 90), f"[topoinfo_exchange_server.cc:{line}] [{tid}]{text}")


def agent_told(process: Process, clock: Clock, absent: Sequence[int]) -> None:
    """Log what the root tells the ranks that did connect."""
    listed = "".join(f"{rank}," for rank in absent)
    process.log(
        "ERROR",
        "HCCL",
        clock.tick(900, 4_000),
        f"[topoinfo_exchange_base.cc:145] [{process.pid}][InitGroupStage][RanktableDetect] TopoDetect ERROR occur !!! "
        f'fault_type[1], fault_info["Failed to connect agent[{listed}]"]',
    )


def agent_alone(process: Process, clock: Clock, server: Process, *, timeout: int) -> None:
    """Log that a rank cannot reach the root of a new communicator."""
    for line, text in (
        (190, f"[InitGroupStage][RanktableDetect]topo exchange agent get socket timeout! timeout[{timeout}]"),
        (41, f"[TopoInfoExchangeAgent][Setup]TopoExchangeAgent: connect server[{server.host_ip} : 60000] failed"),
    ):
        process.log("ERROR", "HCCL", clock.tick(60, 300), f"[topoinfo_exchange_agent.cc:{line}] [{process.pid}]{text}")


def port_taken(process: Process, clock: Clock) -> list[str]:
    """Log that the root cannot listen on its host port; returns the block of the console."""
    p = process
    p.log(
        "ERROR",
        "HCCL",
        clock.tick(),
        f"[hccl_socket.cc:110] [{p.pid}][InitGroupStage][RanktableDetect] socket type[2], listen on "
        f"ip[{p.host_ip}%eth0] and specific port[60000] fail. Please check the port status and whether the port is "
        "being used by other process.",
    )
    p.log("ERROR", "HCCL", clock.tick(), f"[topoinfo_detect.cc:166] [{p.pid}][SetupServer]call trace: hcclRet -> 11")
    return [
        f"[PID: {p.pid}] {stamp(clock.tick(900, 4_000))} Communication_Error_Bind_IP_Port(EI0019): Failed to enable "
        f"listening for the host network adapter socket.Reason: The IP address {p.host_ip} and port 60000 have already "
        "been bound.",
        "        Possible Cause: 1.The IP address and port have been bound already.",
        "        Solution: Stop the process that is occupying the port or use another port.",
    ]


def address_differs(process: Process, clock: Clock, listed: str) -> list[str]:
    """Log that the rank table lists another address than the adapter has; returns the block of the console."""
    p = process
    p.log(
        "ERROR",
        "HCCP",
        clock.tick(),
        f"[ra_host.c:480]tid:{p.tid},ra_rdev_init_check_ip(480) : [check][ip]fail, ret(129) the IP address({listed}) "
        f"in the ranktable is inconsistent with the IP address({p.device_ip}) of the network adapter, please make sure "
        "they're consistent. num(2)",
    )
    p.log(
        "ERROR",
        "HCCL",
        clock.tick(20, 90),
        f"[adapter_hccp.cc:611] [{p.pid}][InitGroupStage][RanktableCheck]the IP address in the ranktable is "
        "inconsistent with the IP address of the network adapter.",
    )
    return [
        f"[PID: {p.pid}] {stamp(clock.tick(900, 4_000))} Config_Error_Ranktable(EI0014): Value {listed} for ranktable "
        f"variable IP is invalid. Expected value: {p.device_ip}.",
        "        Solution: Check the configured ranktable.",
    ]
