"""Jobs that run to their end, but badly: a loss that swings, a node that slows down, cards that wait."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta

from _gen import console
from _gen.shapes import Folder, Job, case_text


def _line(
    now: datetime, number: int, total: int, took: float, loss: float, norm: float, rate: float, tflops: float
) -> str:
    return (
        f" [{now:%Y-%m-%d %H:%M:%S}] iteration {number:8d}/{total:8d} | consumed samples: {number * 64:12d} | elapsed "
        f"time per iteration (ms): {took:.1f} | throughput per GPU (TFLOP/s/GPU): {tflops:.1f} | learning rate: "
        f"{rate:.6E} | global batch size:    64 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {norm:.3f} "
        "| number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def loss_oscillation() -> Job:
    """The learning rate is too high: the loss swings around its trend."""
    rnd = random.Random("loss-oscillation")
    folder = Folder()
    now = datetime(2026, 4, 8, 13, 2, 20)
    lines = [
        *console.arguments(lr="0.0003", min_lr="3e-05", clip_grad="1.0", train_iters="6000", log_interval="1"),
        *console.setup(now, 8),
    ]
    for number in range(3001, 3321):
        took = 1840.0 * (1 + 0.012 * (rnd.random() - 0.5))
        now += timedelta(milliseconds=took)
        swing = 0.34 * math.sin(2 * math.pi * number / 16)
        loss = 2.61 - 0.0002 * (number - 3000) + swing + 0.03 * rnd.gauss(0, 1)
        norm = 1.3 + 0.9 * abs(swing) + 0.1 * rnd.random()
        lines.append(_line(now, number, 6000, took, loss, norm, 3e-4 - 2e-8 * number, 181.0 * 1840.0 / took))
    folder.text("node-a/train.log", lines)
    return Job(
        "loss-oscillation",
        case_text(
            title="The loss oscillates",
            en=(
                "A pretraining run of eight ranks whose loss swings by more than ten percent every 16 steps, because "
                "the learning rate is too high for the batch. Speed and memory are fine."
            ),
            zh=(
                "8 个 rank 的预训练任务，学习率相对 batch 过大，"
                "loss 以 16 步为周期振荡，幅度超过 10%；速度与显存均正常。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [loss-oscillation]
  category: [numerics]
  min_severity: warning
  evidence:
    - {file: "**/train.log", contains: "lm loss"}
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def slow_stretch() -> Job:
    """One node slows down for a while, and all others wait for it."""
    rnd = random.Random("slow-stretch")
    folder = Folder()
    now = datetime(2026, 4, 21, 2, 11, 5)
    lines = [*console.arguments(train_iters="9000", log_interval="1"), *console.setup(now, 16)]
    readings = {node: ["time,dev_id,power,freq,temp"] for node in ("node-a", "node-b")}
    for number in range(5201, 5441):
        slow = 5290 <= number < 5380
        took = (2960.0 if slow else 2420.0) * (1 + 0.01 * (rnd.random() - 0.5))
        now += timedelta(milliseconds=took)
        loss = 2.31 - 0.0001 * (number - 5200) + 0.02 * rnd.gauss(0, 1)
        lines.append(_line(now, number, 9000, took, loss, 0.7 + 0.1 * rnd.random(), 1.1e-4, 172.0 * 2420.0 / took))
        if number % 8 == 0:
            epoch = int((now - datetime(1970, 1, 1)).total_seconds())
            for node, rows in readings.items():
                for device in range(8):
                    hot = slow and node == "node-b" and device == 5
                    power = (241.0 if hot else 262.0) + 6 * rnd.random()
                    rows.append(
                        f"{epoch},{device},{power:.1f},{1450 if hot else 1800},"
                        f"{(96 if hot else 61) + rnd.randint(0, 3)}"
                    )
    folder.text("node-a/train.log", lines)
    for node, rows in readings.items():
        folder.text(f"{node}/npu_smi_0_details.csv", rows)
    return Job(
        "slow-stretch",
        case_text(
            title="One hot card slows all ranks down for a while",
            en=(
                "Sixteen ranks on two nodes. From step 5290 to 5379 each step takes a fifth longer: card 5 of node-b "
                "gets hot and lowers its clock, and every other rank waits for it."
            ),
            zh="两个节点共 16 个 rank。"
            "第 5290 至 5379 步耗时增加约五分之一：node-b 的 5 号卡过热降频，其他 rank 均在等待它。",
            expect="""\
exit: 0
verdict: findings
root:
  names: [npu-clock-drop, npu-temperature-high]
  category: [performance, device-fault]
  min_severity: warning
  nodes: [node-b]
  devices: [5]
  evidence:
    - {file: "**/npu_smi_0_details.csv", contains: ",5,"}
consequences: [step-time-slow-stretch, npu-clock-drop]
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def low_utilisation() -> Job:
    """The cards wait for the host most of the time."""
    rnd = random.Random("low-utilisation")
    folder = Folder()
    now = datetime(2026, 5, 12, 9, 40, 2)
    lines = [*console.arguments(num_workers="1", train_iters="2000", log_interval="1"), *console.setup(now, 8)]
    watch: list[str] = []
    for number in range(401, 521):
        took = 3310.0 * (1 + 0.02 * (rnd.random() - 0.5))
        now += timedelta(milliseconds=took)
        loss = 2.9 - 0.0004 * (number - 400) + 0.02 * rnd.gauss(0, 1)
        lines.append(_line(now, number, 2000, took, loss, 0.9 + 0.1 * rnd.random(), 1.25e-5, 74.0 * 3310.0 / took))
        if number % 6 == 0:
            watch += [
                f"{now:%Y-%m-%d %H:%M:%S}",
                "NpuID(Idx)  ChipId(Idx) Pwr(W)      Temp(C)     AI Core(%)  AI Cpu(%)   Ctrl Cpu(%) Memory(%)   "
                "Memory BW(%)",
            ]
            watch += [
                f"{device:<12d}{0:<12d}{110 + 9 * rnd.random():<12.1f}{44 + rnd.randint(0, 3):<12d}"
                f"{24 + rnd.randint(0, 16):<12d}{0:<12d}{3:<12d}{71:<12d}{12 + rnd.randint(0, 5):<12d}"
                for device in range(8)
            ]
    folder.text("node-a/train.log", lines)
    folder.text("node-a/npu-smi-watch.log", watch)
    return Job(
        "low-utilisation",
        case_text(
            title="The cards wait most of the time",
            en=(
                "Eight ranks train with a single data worker. Readings of npu-smi show the AI Cores busy for a third "
                "of the time, while memory is well filled and the loss falls."
            ),
            zh="8 个 rank 训练时只有一个数据加载进程。"
            "npu-smi 采样显示 AI Core 利用率约三分之一，显存占用正常，loss 正常下降。",
            expect="""\
exit: 0
verdict: findings
root:
  names: [npu-utilisation-low]
  category: [performance]
  min_severity: warning
  evidence:
    - {file: "**/npu-smi-watch.log", contains: "71"}
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )
