"""Measure ``npudiag analyze`` on profiler captures, beside ``msprof-analyze`` where it is installed; only numbers.

usage: python benchmarks/profiler.py [DIR] [--ranks N] [--kernels N] [--trace-mb N] [--comm-ops N] [--rival PYTHON]
                                     [--rival-command WORDS] [--cap S] [--scaling]

Without DIR captures are generated: large files whose numbers need not agree with each other. `--rival` names the Python
of a virtual environment with msprof-analyze (`pip install msprof-analyze==26.2.0`); without it only npudiag is timed.
Both read the same folder in turn: one rank is given as its ``*_ascend_pt`` folder, several as their parent. A rival
that is stopped by `--cap` gives a lower bound of the ratio. `--scaling` times a quarter, a half and all of the ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
T0 = 1_772_614_000_000_000
KERNELS = (
    ("MatMulV3", "AI_CORE", 170.0, "4096,1024;1024,4096"),
    ("FlashAttentionScore", "MIX_AIC", 900.0, "1,8,4096,128;1,8,4096,128;1,8,4096,128"),
    ("Add", "AI_VECTOR_CORE", 21.0, "4096,1024;4096,1024"),
    ("Mul", "AI_VECTOR_CORE", 18.0, "4096,4096;4096,4096"),
    ("Cast", "AI_VECTOR_CORE", 12.0, "4096,1024"),
    ("RmsNorm", "AI_VECTOR_CORE", 25.0, "4096,1,1024;1024"),
)
HEADER = (
    "Step Id,Device_id,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),"
    "Wait Time(us),Block Dim,Mix Block Dim,HF32 Eligible,Input Shapes,Input Data Types,Input Formats,Output Shapes,"
    "Output Data Types,Output Formats,Context ID,aicore_time(us),aic_total_cycles,aic_mac_time(us),aic_mac_ratio,"
    "aic_scalar_time(us),aic_scalar_ratio,aic_mte1_time(us),aic_mte1_ratio,aic_mte2_time(us),aic_mte2_ratio,"
    "aic_fixpipe_time(us),aic_fixpipe_ratio,aic_icache_miss_rate,aiv_time(us),aiv_total_cycles,aiv_vec_time(us),"
    "aiv_vec_ratio,aiv_scalar_time(us),aiv_scalar_ratio,aiv_mte2_time(us),aiv_mte2_ratio,aiv_mte3_time(us),"
    "aiv_mte3_ratio,aiv_icache_miss_rate,cube_utilization(%)\n"
)
STEPS = (
    "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
    "Communication(Not Overlapped and Exclude Receive),Preparing\n"
)


def write_kernels(path: Path, count: int, device: int) -> None:
    """Write ``kernel_details.csv`` with `count` kernels over two steps."""
    at = 0.0
    cube, vector = ["12.5", "660000", *["1.5,0.12"] * 5, "0.01"], ["12.5", "660000", *["1.5,0.12"] * 4, "0.01"]
    metrics = ",".join([*cube, *vector, "61.2"])
    with path.open("w", newline="") as file:
        file.write(HEADER)
        for number in range(count):
            kind, core, length, shapes = KERNELS[number % len(KERNELS)]
            length *= 0.9 + (number * 7919 % 100) / 500
            inputs = shapes.count(";") + 1
            file.write(
                f"{21 + 2 * number // max(count, 1)},{device},4294967295,{number},2,aclnn{kind}_{kind}_{kind},{kind},"
                f'dynamic,{core},{T0 + at:.3f}\t,{length:.3f},2.100,20,0,NO,"""{shapes}""",'
                f'{";".join(["DT_BF16"] * inputs)},{";".join(["ND"] * inputs)},"""4096,1024""",'
                f"DT_BF16,ND,N/A,{metrics}\n"
            )
            at += length + 2.1


def write_trace(path: Path, megabytes: int) -> None:
    """Write ``trace_view.json`` of about so many megabytes."""
    stack = ";\\r\\n".join(f"/opt/train/model/layer_{number}.py({number * 7}): forward" for number in range(12))
    with path.open("w") as file:
        file.write('[{"name": "process_name", "pid": 1, "tid": 0, "args": {"name": "Python"}, "ph": "M"}')
        written, number = 0, 0
        while written < megabytes * 1_000_000:
            at = T0 + number * 30
            text = (
                f', {{"ph": "X", "name": "aten::matmul", "pid": 1, "tid": 1, "ts": "{at}.125", "dur": 14.5, "cat": '
                f'"cpu_op", "args": {{"Sequence number": {number}, '
                f'"Call stack": "{stack if number % 3 == 0 else ""}"}}}}'
                f', {{"ph": "s", "bp": "e", "name": "torch_to_npu", "id": {at}000, "pid": 1, "ts": "{at}.125"}}'
                f', {{"name": "Node@launch", "pid": 2, "tid": 7, "ts": "{at}.500", "dur": 3.1, "args": {{"Mode": '
                f'"launch", "level": "node", "connection_id": {number}}}, "ph": "X"}}'
                f', {{"name": "aclnnMatmul_MatMulV3", "pid": 3, "tid": 2, "ts": "{at + 9}.250", "dur": 17.0, "args": '
                f'{{"Task Type": "AI_CORE", "Task Id": {number % 65535}, "connection_id": {number}}}, "ph": "X"}}'
                f', {{"name": "Computing", "pid": 4, "tid": 0, "ts": "{at + 9}.250", "dur": 17.0, "ph": "X"}}'
            )
            if number % 50 == 0:
                text += (
                    f', {{"name": "AI Core Freq", "ts": "{at}.000", "pid": 5, "tid": 0, '
                    '"args": {"MHz": 1650}, "ph": "C"}'
                    f', {{"name": "Free", "pid": 4, "tid": 3, "ts": "{at + 26}.000", "dur": 1.5, "ph": "X"}}'
                )
            file.write(text)
            written += len(text)
            number += 1
        file.write("]")


def communication(rank: int, ranks: int, operations: int) -> dict[str, object]:
    """Return ``communication.json`` with so many operations per step."""
    zero = {
        "Transit Size(MB)": 0,
        "Transit Time(ms)": 0,
        "Bandwidth(GB/s)": 0,
        "Large Packet Ratio": 0,
        "Size Distribution": {},
    }
    out: dict[str, object] = {}
    for step in (21, 22):
        side: dict[str, object] = {}
        for number in range(operations):
            elapse = 2.0 + (number * 31 + rank * 17) % ranks / 10
            full = {
                **zero,
                "Transit Size(MB)": 33.5,
                "Transit Time(ms)": 1.76,
                "Bandwidth(GB/s)": 19.03,
                "Size Distribution": {"8.388608": [4, 1.76]},
            }
            side[f"hcom_allReduce__481_{number}_1@5862276093215481612"] = {
                "Communication Time Info": {
                    "Start Timestamp(us)": T0 + number * 9000,
                    "Elapse Time(ms)": elapse,
                    "Transit Time(ms)": 1.76,
                    "Wait Time(ms)": elapse - 1.76,
                    "Synchronization Time(ms)": elapse - 1.8,
                    "Idle Time(ms)": 0.02,
                    "Wait Time Ratio": 0.5,
                    "Synchronization Time Ratio": 0.4,
                },
                "Communication Bandwidth Info": {"RDMA": zero, "HCCS": full, "PCIE": zero, "SDMA": full, "SIO": zero},
            }
        out[f"step{step}"] = {"p2p": {}, "collective": side}
    return out


def generate(target: Path, ranks: int, kernels: int, megabytes: int, operations: int) -> None:
    """Write the captures of all ranks below `target`."""
    for rank in range(ranks):
        base = target / f"node{rank // 8}_{30000 + rank}_2026030410{rank:07d}_ascend_pt"
        out = base / "ASCEND_PROFILER_OUTPUT"
        out.mkdir(parents=True)
        write_kernels(out / "kernel_details.csv", kernels, rank % 8)
        write_trace(out / "trace_view.json", megabytes)
        rows = "".join(
            f"{rank % 8},{step},2400000,900000,300000,1200000,200000,3500000,0,900000,150\n" for step in (21, 22)
        )
        (out / "step_trace_time.csv").write_text(STEPS + rows)
        (out / "communication.json").write_text(json.dumps(communication(rank, ranks, operations)))
        config = {
            "config": {"experimental_config": {"_profiler_level": "Level1"}, "common_config": {}},
            "rank_id": str(rank),
        }
        (base / f"profiler_info_{rank}.json").write_text(json.dumps(config))


class Peak(threading.Thread):
    """Samples the proportional memory of a process tree every 50 ms."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.megabytes = 0.0
        self._pid = pid
        self._over = threading.Event()

    def run(self) -> None:
        """Sample until told to stop."""
        while not self._over.wait(0.05):
            total = 0
            try:
                parent = psutil.Process(self._pid)
                for process in (parent, *parent.children(recursive=True)):
                    memory = process.memory_full_info()
                    total += getattr(memory, "pss", memory.rss)
            except psutil.Error:
                continue
            self.megabytes = max(self.megabytes, total / 1e6)

    def stop(self) -> float:
        """Return the peak in MB."""
        self._over.set()
        self.join()
        return self.megabytes


def measure(argv: Sequence[str], folder: Path, cap: float | None = None) -> tuple[float, float, int | None]:
    """Run a command; return wall time (s), peak memory of its tree (MB), exit code (None where `cap` (s) ended it)."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    begin = time.perf_counter()
    process = subprocess.Popen(argv, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = Peak(process.pid)
    peak.start()
    try:
        code: int | None = process.wait(cap)
    except subprocess.TimeoutExpired:
        code = None
    took = time.perf_counter() - begin
    memory = peak.stop()
    if code is None:
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        process.kill()
        process.wait()
    return took, memory, code


def part(captures: Sequence[Path], target: Path) -> Path:
    """Return a folder that holds these captures, as hard links."""
    for capture in captures:
        shutil.copytree(capture, target / capture.name, copy_function=os.link)
    return target


def scaling(captures: Sequence[Path], work: Path) -> None:
    """Print how long a quarter, a half and all of the captures take."""
    for share in (4, 2, 1):
        count = len(captures) // share
        folder = part(captures[:count], captures[0].parent.parent / f"npudiag-part-{share}-{os.getpid()}")
        try:
            command = (sys.executable, "-m", "npudiag", "analyze", str(folder), "--json", str(work / "part.json"))
            runs = [measure(command, work) for _ in range(2)]
            best = min(run[0] for run in runs)
            peak = max(run[1] for run in runs)
            print(f"{count} ranks: {best:.2f} s, {1e3 * best / count:.1f} ms per rank, peak {peak:.0f} MB")
        finally:
            shutil.rmtree(folder)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="captures to read (default: generate them)")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--kernels", type=int, default=100_000)
    parser.add_argument("--trace-mb", type=int, default=200)
    parser.add_argument("--comm-ops", type=int, default=400)
    parser.add_argument("--repeat", type=int, default=3, help="measured runs of npudiag; the rival runs once")
    parser.add_argument("--rival", help="Python with msprof-analyze installed")
    parser.add_argument("--rival-command", default="advisor all", help="advisor all, or cluster -m all")
    parser.add_argument("--cap", type=float, help="seconds after which the rival is stopped")
    parser.add_argument("--scaling", action="store_true", help="time a quarter, a half and all of the ranks")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        folder = options.folder
        if folder is None:
            folder = work / "captures"
            generate(folder, options.ranks, options.kernels, options.trace_mb, options.comm_ops)
        folder = folder.resolve()
        captures = sorted(path for path in folder.iterdir() if path.name.endswith("_ascend_pt"))
        target = captures[0] if len(captures) == 1 else folder
        files = [path for path in target.rglob("*") if path.is_file()]
        size = sum(len(path.read_bytes()) for path in files)
        print(f"{len(captures) or 1} captures, {len(files)} files, {size / 1e6:.0f} MB, {os.cpu_count()} cores")
        command = (sys.executable, "-m", "npudiag", "analyze", str(target), "--json", str(work / "result.json"))
        measure(command, work)
        runs = [measure(command, work) for _ in range(options.repeat)]
        best = min(run[0] for run in runs)
        if any(run[2] for run in runs):
            print(f"npudiag ended with {runs[0][2]}: its numbers mean nothing")
            return 1
        middle = statistics.median(run[0] for run in runs)
        print(f"npudiag: best {best:.2f} s, median {middle:.2f} s, peak {max(run[1] for run in runs):.0f} MB")
        if options.scaling:
            scaling(captures, work)
        if not options.rival or not shutil.which(options.rival):
            print("msprof-analyze: skipped (--rival PYTHON)")
            return 0
        words = [*options.rival_command.split(), "-d", str(target), "-o", str(work / "rival")]
        program = Path(options.rival).parent / "msprof-analyze"
        took, memory, code = measure((str(program), *words), work, options.cap)
        end = "stopped" if code is None else f"exit {code}"
        print(f"msprof-analyze {options.rival_command}: {took:.2f} s, peak {memory:.0f} MB, {end}")
        least = "at least " if code is None else ""
        print(f"ratio: {least}{took / best:.1f}x (best), {took / middle:.1f}x (median)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
