"""What would settle a matter and what to collect for it, by category of the finding; in both languages."""

from __future__ import annotations

from collections.abc import Mapping

from npudiag.engine.model import Text

SETTLE: Mapping[str, Text] = {
    "hccl-init": Text(
        "The plogs of both ends of the link that failed: an earlier error on the awaited rank would be "
        "the cause; none at all means that it never tried to connect.",
        "对照建链失败两端的 plog：若被等待的一端有更早的报错，则其为根因；若完全没有报错，说明它未发起建链。",
    ),
    "hccl-timeout": Text(
        "What the awaited rank did from the launch of the operator on: an earlier error there is the "
        "cause, silence means that it hung or was killed (stack of the process, kernel log).",
        "查看被等待的 rank 自该算子下发起的行为：若有更早的报错则为根因；若无输出，则为卡住或被杀（进程调"
        "用栈、内核日志）。",
    ),
    "device-fault": Text(
        "Health and fault events of the named card; the same fault after a move of the job to another "
        "card rules the card out.",
        "查询所指卡的健康状态与故障事件；若换卡后故障依旧，可排除该卡。",
    ),
    "aicore-exception": Text(
        "A run with ASCEND_LAUNCH_BLOCKING=1: it fails in the very operator; the same operator alone "
        "with the same inputs tells kernel from data, another card tells hardware.",
        "以 ASCEND_LAUNCH_BLOCKING=1 复现可定位到出错算子；用相同输入单独执行该算子可区分算子与数据问题，"
        "换卡可区分硬件问题。",
    ),
    "aicpu-exception": Text(
        "The device log of the AI CPU process of that rank at that time; the same operator alone with the same inputs.",
        "查看该 rank 当时的 AI CPU 设备侧日志；用相同输入单独执行该算子。",
    ),
    "operator": Text(
        "The named operator alone, with the same shapes and data types.",
        "用相同的 shape 与数据类型单独执行所指算子。",
    ),
    "graph-capture": Text(
        "A run without graph capture: if it passes, capture is the cause.",
        "关闭图捕获后复现：若正常，则原因在图捕获。",
    ),
    "moe": Text(
        "A run with the same input on one rank less of expert parallelism.",
        "缩小专家并行规模，用相同输入复现。",
    ),
    "kv-cache": Text(
        "The memory figures that the engine prints at start, with a smaller maximum length.",
        "对照引擎启动时打印的显存数据，并用更小的最大长度复现。",
    ),
    "kv-transfer": Text(
        "The logs of both ends of the transfer at that time.",
        "对照传输两端当时的日志。",
    ),
    "out-of-memory": Text(
        "Memory in use over time up to the failure, of the process and of others on the card or host.",
        "查看失败前的内存占用曲线，包括该进程以及同卡、同主机的其他进程。",
    ),
    "process-conflict": Text(
        "Which process holds the card or the port now: npu-smi info, ss -lntp.",
        "查看当前占用该卡或端口的进程：npu-smi info、ss -lntp。",
    ),
    "environment": Text(
        "The same command in a shell that has sourced the environment.",
        "在已加载环境变量的 shell 中执行同一命令。",
    ),
    "version-mismatch": Text(
        "The versions of driver, CANN, torch and torch_npu on every node.",
        "核对各节点驱动、CANN、torch、torch_npu 的版本。",
    ),
    "permission": Text(
        "The same access by the user of the job.",
        "以任务所用用户身份执行同一访问。",
    ),
    "scheduling": Text(
        "The events of pod and node: kubectl describe.",
        "查看 Pod 与节点事件：kubectl describe。",
    ),
    "config": Text(
        "The same run with the named setting corrected, all else equal.",
        "仅修正所指配置、其余不变后复现。",
    ),
    "data-pipeline": Text(
        "A loop over the data set alone, on the same rank and from the same position.",
        "在同一 rank、从同一位置单独遍历数据集。",
    ),
    "checkpoint": Text(
        "Loading the checkpoint alone, and its size and checksum.",
        "单独加载该 checkpoint，并核对大小与校验和。",
    ),
    "numerics": Text(
        "A run from the last good checkpoint with the same data and a fixed seed: what returns is the "
        "data or the code, what does not is the hardware.",
        "从最近的正常 checkpoint 以相同数据、固定随机种子复现：可复现则为数据或代码问题，不可复现则为硬件问题。",
    ),
    "performance": Text(
        "A profile of a slow rank and of a fast one over the same steps.",
        "采集慢 rank 与快 rank 相同 step 的性能数据对比。",
    ),
    "host-fault": Text(
        "The kernel log of the host around that time.",
        "查看该主机当时的内核日志。",
    ),
    "insufficient-evidence": Text(
        "The logs that are listed below.",
        "按下方清单补充采集日志。",
    ),
}
"""What would settle whether the finding is the cause."""

COLLECT: Mapping[str, Text] = {
    "hccl-init": Text(
        "debug and run plogs of all ranks, and hccn_tool -i <n> -link_stat -g / -tls -g on all nodes",
        "所有 rank 的 debug 与 run 目录 plog，以及各节点 hccn_tool -i <n> -link_stat -g / -tls -g 的输出",
    ),
    "hccl-timeout": Text(
        "debug and run plogs and training logs of all ranks, those without errors included",
        "所有 rank（含未报错 rank）的 debug、run 目录 plog 与训练日志",
    ),
    "device-fault": Text(
        "msnpureport export and npu-smi info -t health of the card",
        "该卡的 msnpureport 导出与 npu-smi info -t health 输出",
    ),
    "aicore-exception": Text(
        "debug plog of the rank and the dump of the failed operator",
        "该 rank 的 debug 目录 plog 与出错算子的 dump",
    ),
    "aicpu-exception": Text(
        "device logs of the rank (debug/device-<id>)",
        "该 rank 的设备侧日志（debug/device-<id>）",
    ),
    "out-of-memory": Text(
        "npu-smi info and dmesg around the failure",
        "失败前后的 npu-smi info 与 dmesg",
    ),
    "host-fault": Text(
        "dmesg -T and /var/log/messages of the host",
        "该主机的 dmesg -T 与 /var/log/messages",
    ),
    "process-conflict": Text(
        "npu-smi info and ss -lntp on the node before the next start",
        "下次启动前该节点的 npu-smi info 与 ss -lntp 输出",
    ),
    "performance": Text(
        "a profile of all ranks over a few steps",
        "所有 rank 若干 step 的性能数据",
    ),
}
"""What to collect where the rule names nothing."""

COLLECT_ANY = Text(
    "plogs (debug and run) and training logs of all ranks",
    "所有 rank 的 plog（debug 与 run）与训练日志",
)
