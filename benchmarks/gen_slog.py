"""Write a large tree of process logs, for measuring.

usage: python benchmarks/gen_slog.py OUT --mb 1000 --files 24 --error-ratio 0.05

A handful of one-minute chunks is rendered once; afterwards only the minute, the process id and a salt inside the
bodies are replaced, so that writing is limited by the disk. Lines inside a chunk differ from each other, and the
salt makes them differ between chunks. The same arguments always give the same bytes.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

START = datetime(2026, 1, 5, 9, 0)
CHUNK_BYTES = 2_000_000
MINUTE = b"1999-09-09-09:09"
PID = b"(1111111,"
SALT = b"5a17c0de"

NORMAL = (
    (
        "INFO",
        "HCCL",
        "[hccl_opbase_atrace_info.cc:56][{tid}]Entry-HcclAllReduce: tag[AllReduce_{salt}_{n}], "
        "sendBuf[0x1241{salt}], recvBuf[0x1247{salt}], count[{n}], dataType[float32], op[sum], localRank[{r}], "
        "streamId[{s}]",
    ),
    ("INFO", "RUNTIME", "[stream.cc:1043] {tid} Synchronize: device_id={r}, stream_id={s}, pos={n}, handle=0x{salt}"),
    (
        "INFO",
        "GE",
        "[gelib.cc:243][EVENT]{tid} RunGraph:[GEPERFTRACE] The time cost of Graph_{n}::Run_{salt} is [{s}] micro "
        "second.",
    ),
    (
        "INFO",
        "DRV",
        "[ascend][curpid: {tid}, {tid}][drv][devmm][svm_alloc 221]alloc succeeded. (va=0x{salt}; size={n}; devid={r})",
    ),
    (
        "EVENT",
        "PROFILING",
        "[msprof_callback_impl.cpp:127] >>> (tid:{tid}) MsprofCtrlCallback called, type: {s}, id 0x{salt}",
    ),
    (
        "WARNING",
        "TBE",
        "[te_fusion/parallel_compilation.cc:591][ParallelCompile] task {n} of session {salt} waits {s} ms",
    ),
    ("INFO", "ASCENDCL", "[op_executor.cpp:166]{tid} ExecuteAsync: op_type=MatMulV2, handle=0x{salt}, workspace={n}"),
    ("INFO", "TDT", "[client_manager.cpp:449][GetClientRunMode][tid:{tid}] session {salt} runningMode:{s}"),
    ("DEBUG", "AICPU", "[aicpu_engine.cc:88][tid:{tid}] schedule event {n} of group {s}, cookie 0x{salt}"),
)
ERRORS = (
    ("ERROR", "RUNTIME", "[api_impl.cc:3783]{tid} StreamQuery:stream {s} handle 0x{salt} is not ready, count={n}"),
    ("ERROR", "GE", "[node_checker.cc:441]{tid} Check: node Cast_{n}_{salt} falls back to the next kernel store"),
    ("ERROR", "FE", "[op_kernel_store.cc:212]{tid} CheckSupported: node Add_{n} dtype {s} skipped, cookie {salt}"),
    ("ERROR", "DRV", "[ascend][curpid: {tid}, {tid}][drv][tsdrv][share_log_read 553]devid({r}) ret({s}) 0x{salt} {n}"),
    ("ERROR", "HCCL", "[hccl_socket.cc:458] [{tid}][IRecv]retry {s}, handle 0x{salt}, size [{n} Byte]"),
)
FAULTS = (
    (
        "ERROR",
        "HCCL",
        "[hccl_socket_manager.cc:816] [{tid}][Wait][LinkEstablish]wait socket establish timeout, role[0] rank[{r}] "
        "timeout[120 s]",
    ),
    (
        "ERROR",
        "HCCL",
        "[task_exception_handler.cc:908] [{tid}][TaskExecStage][Timeout][Host]Task run failed, base information is "
        "streamID:[{s}], taskID[{n}], taskType[Notify Wait], tag[AllReduce_{salt}], AlgType(level "
        "0-1-2):[fullmesh-ring-NHR].",
    ),
    (
        "ERROR",
        "RUNTIME",
        "[davinci_kernel_task.cc:1268]{tid} PrintErrorInfoForDavinciTask:Aicore kernel execute failed, "
        "device_id={r}, stream_id={s}, report_stream_id={s}, task_id={n}, flip_num=0, fault "
        "kernel_name=Add_{salt}_high_performance, "
        "fault kernel info ext=none, program id={s}, hash={n}.",
    ),
    (
        "ERROR",
        "RUNTIME",
        "[npu_driver.cc:1100]{tid} DevMemAllocHugePageManaged:[drv api] halMemAlloc failed:size=2097152(Byte), "
        "type=2, moduleId=7, drvFlag=18374686479671772161, drvRetCode=6, device_id={r}!",
    ),
)


def render(kind: tuple[str, str, str], rank: int, number: int, microsecond: int, salt: str) -> bytes:
    """Return one line; its minute and process id are placeholders of constant width."""
    level, module, body = kind
    second, rest = divmod(microsecond, 1_000_000)
    text = body.format(tid=20_000 + rank, n=number, r=rank % 8, s=number % 61, salt=salt)
    head = (
        f"[{level}] {module}{PID.decode()}python3):{MINUTE.decode()}:{second:02d}.{rest // 1000:03d}.{rest % 1000:03d}"
    )
    return f"{head} {text}\n".encode()


def chunks(rnd: random.Random, error_ratio: float, count: int = 3) -> list[bytes]:
    """Return `count` different chunks, each a minute of lines and about `CHUNK_BYTES` long."""
    made: list[bytes] = []
    for _ in range(count):
        kinds = [
            rnd.choice(ERRORS) if rnd.random() < error_ratio else NORMAL[int(rnd.random() ** 1.6 * len(NORMAL))]
            for _ in range(CHUNK_BYTES // 165)
        ]
        step = 59_900_000 // len(kinds)
        lines = [render(kind, 0, rnd.randint(1, 9_999_999), n * step, SALT.decode()) for n, kind in enumerate(kinds)]
        made.append(b"".join(lines))
    return made


def file_parts(
    templates: list[bytes], rnd: random.Random, rank: int, pid: int, start: datetime, size: int, fault_every: int
) -> Iterator[bytes]:
    """Yield the content of one file, chunk by chunk."""
    written, minute, since = 0, start, 0
    while written < size:
        template = templates[rnd.randrange(len(templates))]
        part = template.replace(MINUTE, f"{minute:%Y-%m-%d-%H:%M}".encode())
        part = part.replace(PID, f"({pid:07d},".encode()).replace(SALT, f"{rnd.getrandbits(32):08x}".encode())
        if written + len(part) > size:
            part = part[: part.rfind(b"\n", 0, max(size - written, 400)) + 1]
        since += part.count(b"\n")
        written += len(part)
        yield part
        if fault_every and since >= fault_every:
            since = 0
            line = render(rnd.choice(FAULTS), rank, rnd.randint(1, 9999), 59_950_000, f"{rnd.getrandbits(32):08x}")
            line = line.replace(MINUTE, f"{minute:%Y-%m-%d-%H:%M}".encode()).replace(PID, f"({pid:07d},".encode())
            written += len(line)
            yield line
        minute += timedelta(minutes=1)


def generate(out: Path, *, mb: float, files: int, error_ratio: float, fault_every: int = 20_000, seed: int = 1) -> int:
    """Write the tree below `out`.

    Args:
        out: Folder; made if missing.
        mb: Total size in megabytes (10**6 bytes).
        files: Number of debug files; up to eight ranks share them.
        error_ratio: Share of lines at level ERROR.
        fault_every: A fault line after so many lines; 0 for none.
        seed: Seed of all numbers.

    Returns:
        Number of bytes written.
    """
    rnd = random.Random(seed)
    templates = chunks(rnd, error_ratio)
    ranks = min(8, files)
    total, size = 0, int(mb * 1e6 / files)
    for number in range(files):
        rank = number % ranks
        pid, start = 1_200_000 + 3 * rank, START + timedelta(hours=number // ranks)
        debug = out / "node-a" / "ascend" / "log" / "debug" / "plog"
        run = out / "node-a" / "ascend" / "log" / "run" / "plog"
        debug.mkdir(parents=True, exist_ok=True)
        run.mkdir(parents=True, exist_ok=True)
        if number < ranks:
            (run / f"plog-{pid}_{start:%Y%m%d%H%M%S}001.log").write_text(
                f"[INFO] HCCL({pid},python3):{start:%Y-%m-%d-%H:%M:%S}.001.200 [topoinfo_detect.cc:506] "
                f"[{pid}][HCCL_TRACE][Flat]SetupAgent rankNum[{ranks}], rank[{rank}], rootInfo "
                f"identifier[192.0.2.21%eth0_60000_0_1750325244673428], server[192.0.2.21%eth0], "
                f"serverPort[60000]deviceType[2], logicDevId[{rank}], phydevId[{rank}], "
                f"deviceIp[198.51.100.{10 + rank}]\n",
                encoding="utf-8",
            )
        with (debug / f"plog-{pid}_{start:%Y%m%d%H%M%S}{number // ranks:03d}.log").open("wb") as file:
            for part in file_parts(templates, rnd, rank, pid, start, size, fault_every):
                total += file.write(part)
    return total


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--mb", type=float, required=True, help="total size in MB (10**6 bytes)")
    parser.add_argument("--files", type=int, default=24, help="number of debug files (default 24)")
    parser.add_argument("--error-ratio", type=float, default=0.05, help="share of ERROR lines, 0 to 1 (default 0.05)")
    parser.add_argument("--fault-every", type=int, default=20_000, help="a fault line after so many lines; 0: none")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    if options.files < 1 or options.mb <= 0 or not 0 <= options.error_ratio <= 1:
        parser.error("--files and --mb must be positive, --error-ratio between 0 and 1")
    began = time.perf_counter()
    total = generate(
        options.out,
        mb=options.mb,
        files=options.files,
        error_ratio=options.error_ratio,
        fault_every=options.fault_every,
        seed=options.seed,
    )
    took = time.perf_counter() - began
    print(f"{total / 1e6:.1f} MB in {options.files} files, {took:.1f} s, {total / 1e6 / took:.0f} MB/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
