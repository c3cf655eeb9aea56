"""Salt logs of healthy jobs with alarming words that mean nothing, and require silence.

usage: python benchmarks/precision.py [FOLDER...] [--rounds 10] [--seed 1] [--lines 40]

A log that mentions errors is not a log of an error: levels INFO and below, settings, file names, counters that are
zero, progress texts, documentation. Every round inserts other lines at other places; whatever npudiag then reports
above info is a false alarm and is printed with the round that makes it again. Without FOLDER the healthy sample jobs
are taken, and those of the folder in ``NPUDIAG_CASES`` that must stay silent.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from npudiag.analyze import Options, analyze
from npudiag.engine.load import RulePack, load_pack
from npudiag.result import SEVERITIES

ROOT = Path(__file__).resolve().parent.parent
HEALTHY = ("healthy-8-ranks", "noisy-but-healthy", "launch-script-clean")

PLOG = (
    "[hccl_socket.cc:98] [{tid}]link statistics: error_count=0, timeout_count=0, retry_count=0, last errNo[0x0]",
    "[heartbeat.cc:720] [{tid}]heartbeat check finished, lost[0], stuck[0], error cqe[0], no error found",
    "[externalinput.cc:985] [{tid}]HCCL_EXEC_TIMEOUT set by environment to [600]s, notify wait timeout is [600]s",
    "[task_exception_handler.cc:88] [{tid}]register task exception callback for notify wait timeout success",
    "[device_error_proc.cc:77]{tid} InitErrorMap:error map loaded: 507015[aicore exception], 507018[aicpu exception], "
    "507048[fftsplus timeout], 507054[hbm Multi-bit ECC error]",
    "[npu_driver.cc:511]{tid} DeviceEccQuery:multi-bit ecc error count 0, single-bit ecc error count 0, isolated 0",
    "[memory.cpp:31]{tid} SetOutOfMemoryPolicy:policy on out of memory: release cache and retry, oom count 0",
    "[externalinput.cc:1724] [{tid}][HCCL_ENV][ParseRetryEnable] HCCL_OP_RETRY_ENABLE set by default to [L0:0,L1:0], "
    "retry failed count [0]",
    "[hccl_comm.cc:410] [{tid}]no abnormal device(s), cluster exception list is empty",
    "[runtime.cc:2210] {tid} ExceptionRegister:Aicore kernel execute failed callback is registered, moduleName=HCCL",
    "[log_inner.cpp:20]{tid} error message manager init success, EI0002 EI0006 EE9999 EZ9999 templates loaded",
    "[plog_driver.c:120](tid:{tid}) previous core dump not found, errno 0",
    "[transport_manager.cc:120] [{tid}]link to remote rank:[3] established, previous timeouts 0, status[OK]",
    "[hccl_socket_manager.cc:402] [{tid}]wait socket establish success, timeout[120 s] was not reached",
    "[topoinfo_exchange_server.cc:210] [{tid}]topo exchange server get socket success, no timeout, agents complete",
    "[heartbeat.cc:512] [{tid}]rank [192.0.2.7/0]: rank [192.0.2.7/6] status[OK] by rank [192.0.2.7/1]",
    "[stream.cc:88]{tid} SetFailureMode:stop on failure is enabled for stream_id=3, error code = 0",
    "[api_c.cc:120]{tid} rtGetDeviceInfo:ErrCode=0, desc=[success], InnerCode=0x0",
    "[dvpp_base.cc:40]{tid} crash dump path is /var/crash/oom_killer, killed processes 0",
    "[version_verify.cpp:89][tid:{tid}] version mismatch check passed, inconsistent components 0",
    "[tls_conf.cc:33] [{tid}]tls status of all ranks is consistent, certificate not expired",
    "[dms_event.c:77] [{tid}]fault event subscription succeeded, event_id 0x80E01801 0x81078603 0x80C98000 registered",
)
"""Bodies of process log lines; they are written as INFO, EVENT or DEBUG."""

CONSOLE = (
    "  exit_on_error ................................... False",
    "  timeout_error_retries ........................... 0",
    "  rerun_mode ...................................... validate_results, error_injection_rate 0",
    "  log_path ........................................ /data/logs/oom_killed_errors/run_7",
    "[INFO] fault tolerance is on: on HCCL timeout or AI Core exception the job is restarted, 0 restarts so far",
    "INFO:__main__:checked 4096 samples, 0 errors, 0 corrupted, 0 timeouts",
    "INFO - loading /data/errors/segfault_nan_cases.jsonl (17 records)",
    "INFO - error_count=0 failed=0 killed=0 oom=0 nan=0",
    "> building dataset index of error_corpus: no error",
    "> signal handlers for SIGTERM, SIGSEGV and SIGKILL-like exits are installed",
    "out_of_memory_retries: 0, last_exception: None, traceback: None",
    "See the guide, chapter 'EI0006: socket build timeout', before you change HCCL_CONNECT_TIMEOUT.",
    "# note: RuntimeError: NPU out of memory was seen with micro-batch-size 8, so 2 is used",
    '{{"event": "healthcheck", "errors": 0, "oom": false, "nan_count": 0, "status": "ok"}}',
    "Processing error_cases:  45%|####5     | 45/100 [00:10<00:12,  4.50it/s]",
    "Downloading fatal_exceptions.tar: 100%|##########| 12/12 [00:03<00:00,  3.9it/s]",
    "self-test: raising ValueError('expected') inside try ... caught as intended, passed",
    "Known codes: EI0002, EI0006, EL0004, E40021, EZ9999, ERR02200, 507015 (see the manual)",
    "wandb: run summary: errors/total 0, errors/oom 0, exceptions 0",
    "INFO - retrying download (attempt 1 of 5) after timeout ... succeeded",
    "INFO - graceful shutdown on SIGTERM is armed, worker died callbacks registered",
    "DEBUG - except RuntimeError as error: handler 'out of memory' -> empty_cache()",
    "[rank0]: checkpoint integrity check: corrupted shards 0, missing keys 0, unexpected keys 0",
    "nan_check ....... enabled (loss is nan -> stop), overflow_check ....... enabled (gradient overflow -> skip)",
    "test_connection_refused.py PASSED, test_address_already_in_use.py PASSED, 0 failed",
    "+ ulimit -c 0; export PYTHONFAULTHANDLER=1; export TORCH_SHOW_CPP_STACKTRACES=1",
    "warmup: rank 3 waited 0.2 s for rank 5, no straggler, no hang, watchdog armed with timeout 1800 s",
    "epoch 0: skipped batches due to exceptions: 0, killed workers: 0, dataloader timeouts: 0",
    "loading model error-detection-bert-large (segmentation-fault-classifier head)",
    "Exception ignored in: <function Loader.__del__ at 0xfffd0a4bd5e0>\nTraceback (most recent call last):\n"
    '  File "loader.py", line 9, in __del__\n    self.stop()\n'
    "AttributeError: 'Loader' object has no attribute 'workers'",
    '--- Logging error ---\nTraceback (most recent call last):\n  File "logging.py", line 1103, in emit\n'
    "TypeError: not all arguments converted during string formatting",
    "INFO 10-12 07:10:22 [logger.py:40] Received request cmpl-1: prompt: 'why RuntimeError: NPU out of memory? "
    "Segmentation fault', params: SamplingParams(n=1)",
    "2026-01-02 03:04:05.814407: E tensorflow/core/grappler/optimizers/meta_optimizer.cc:533] model_pruner failed: "
    "Invalid argument: node 'concat_1' has self cycle fanin 'concat_1'.",
    "[W socket.cpp:752] [c10d] The client socket has failed to connect to [node-11]:34511 (errno: 22 - Invalid).",
    'WARNING:root:Unexpected key(s) in state_dict: "rotary_emb.inv_freq". (ignored, strict is off)',
    "-- Performing Test HAS_ERROR_OVERLOADED - Failed",
    "WARNING: process group has NOT been destroyed before we destruct ProcessGroupHCCL.",
    "UserWarning: resource_tracker: There appear to be 30 leaked semaphore objects to clean up at shutdown",
    "[Service Log][init] stop upload_pid = 52 by signal SIGTERM, ret_code is 0, exit with 0",
    "E0211 09:14:20.306218  4711 rdma_context.cpp:44] No matched device found\n"
    "W0211 09:14:20.306318  4711 topology.cpp:84] RDMA is not available, fall back to TCP",
    "数据检查完成：错误 0 条，异常 0 条，超时 0 次",
    "故障演练：模拟 rank 3 心跳丢失的开关为关闭状态",
    "未发现故障，ECC 错误计数为 0，心跳正常",
    "class TimeoutHandler registered for 'connection reset by peer', 'broken pipe', 'no space left on device'",
)
"""Lines of training consoles."""

LEVELS = ("INFO", "EVENT", "DEBUG")


def _is_plog(lines: list[str]) -> bool:
    return any(line.startswith("[") and "](" not in line[:12] and "python" in line[:60] for line in lines[:20])


def salted(text: str, rnd: random.Random, count: int) -> str:
    """Return a log with up to `count` alarming lines put between its own.

    Process logs get process log lines with the stamp of the line ahead, so that times stay in order; records of
    several lines are not torn apart.
    """
    lines = text.split("\n")
    plog = _is_plog(lines)
    if plog:
        places = [i for i, line in enumerate(lines) if line.startswith("[") and "):20" in line[:90]]
    else:
        # Between two lines that are no part of a block.
        places = [i for i, line in enumerate(lines) if line and not line[0].isspace() and not line.startswith("Trace")]
    for place in sorted(rnd.sample(places, min(count, len(places))), reverse=True):
        if plog:
            origin, _, stamped = lines[place].partition("] ")[2].partition("):")
            stamp, pid = stamped[:27].strip(), origin.partition("(")[2]
            module = rnd.choice(("HCCL", "RUNTIME", "DRV", "ASCENDCL", "GE"))
            body = rnd.choice(PLOG).format(tid=rnd.randint(1000, 99999))
            lines.insert(place + 1, f"[{rnd.choice(LEVELS)}] {module}({pid}):{stamp} {body}")
        else:
            lines.insert(place, rnd.choice(CONSOLE).format())
    return "\n".join(lines)


def salt(source: Path, target: Path, rnd: random.Random, count: int) -> None:
    """Copy a job, or one log, and salt its logs; what is no text log is left as it is."""
    if source.is_file():
        target.mkdir()
        shutil.copy(source, target)
    else:
        shutil.copytree(source, target)
    for path in sorted(path for path in target.rglob("*") if path.is_file()):
        if path.suffix in (".log", ".txt", ".out", ".err"):
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
            path.write_text(salted(text, rnd, count), encoding="utf-8", errors="surrogateescape")


def alarms(folder: Path, pack: RulePack) -> list[str]:
    """Return what npudiag reports above info, one text each."""
    result, _ = analyze([str(folder)], pack, Options(workers=1))
    found = [finding for finding in result.findings if SEVERITIES.index(finding.severity) > 0]
    return [
        f"{finding.code} {finding.severity} {finding.title} "
        f"({finding.evidence[0].path}:{finding.evidence[0].line}: {(finding.evidence[0].text or '')[:160]!r})"
        if finding.evidence
        else f"{finding.code} {finding.severity} {finding.title}"
        for finding in found
    ]


def jobs() -> Iterator[Path]:
    """Yield the folders of healthy jobs."""
    for name in HEALTHY:
        yield ROOT / "sample_logs" / name / "logs"
    cases = os.environ.get("NPUDIAG_CASES")
    for expected in sorted(Path(cases).glob("*/expected.json")) if cases else ():
        wanted = json.loads(expected.read_text(encoding="utf-8"))
        if wanted.get("max_severity") == "info":
            yield expected.parent / wanted.get("input", "input")


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the number of rounds with an alarm, 100 at most."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="healthy jobs")
    parser.add_argument("--rounds", type=int, default=10, help="rounds per job (default 10)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first round")
    parser.add_argument("--lines", type=int, default=40, help="lines inserted per file (default 40)")
    options = parser.parse_args(argv)
    pack = load_pack()
    loud = rounds = 0
    for source in options.folders or list(jobs()):
        plain = set(alarms(source, pack))
        for seed in range(options.seed, options.seed + options.rounds):
            with tempfile.TemporaryDirectory(prefix="npudiag-precision-") as name:
                target = Path(name) / "job"
                salt(source, target, random.Random(f"{source.name} {seed}"), options.lines)
                found = [text for text in alarms(target, pack) if text not in plain]
            rounds += 1
            loud += bool(found)
            for text in found:
                print(f"{source} seed {seed}: {text}")
    print(f"{rounds} rounds, {loud} with an alarm")
    return min(loud, 100)


if __name__ == "__main__":
    sys.exit(main())
