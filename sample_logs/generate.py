"""Write the sample jobs.

usage: python sample_logs/generate.py [--out DIR] [NAME...]

The result depends on nothing but this code: no wall clock, no host name, seeded random numbers.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from _gen import collectives, devices, healthy, launches, metrics, profiles, serving
from _gen.shapes import Job

JOBS: dict[str, Callable[[], Job]] = {
    "healthy-8-ranks": healthy.healthy_8_ranks,
    "noisy-but-healthy": healthy.noisy_but_healthy,
    "hccl-link-timeout-dead-peer": collectives.hccl_link_timeout_dead_peer,
    "hccl-notify-timeout-dead-peer": collectives.hccl_notify_timeout_dead_peer,
    "rdma-cqe-link-down": collectives.rdma_cqe_link_down,
    "aicore-exception-one-of-eight": devices.aicore_exception_one_of_eight,
    "device-oom": devices.device_oom,
    "ecc-heartbeat-loss": devices.ecc_heartbeat_loss,
    "msnpureport-export": devices.msnpureport_export,
    "port-conflict": collectives.port_conflict,
    "process-conflict": collectives.process_conflict,
    "missing-cann": collectives.missing_cann,
    "newest-first-and-messy": serving.newest_first_and_messy,
    "insufficient-evidence": healthy.insufficient_evidence,
    "profile-healthy-4-ranks": profiles.profile_healthy_4_ranks,
    "profile-comm-bound": profiles.profile_comm_bound,
    "profile-slow-rank": profiles.profile_slow_rank,
    "loss-oscillation": metrics.loss_oscillation,
    "slow-stretch": metrics.slow_stretch,
    "low-utilisation": metrics.low_utilisation,
    "launch-script-faults": launches.launch_script_faults,
    "launch-script-clean": launches.launch_script_clean,
}


def write(job: Job, out: Path) -> None:
    """Write `job` to ``out/<name>``; what lay below its ``logs/`` before is removed."""
    folder = out / job.name
    shutil.rmtree(folder / "logs", ignore_errors=True)
    job.folder.write(folder / "logs")
    (folder / "case.yaml").write_bytes(job.case.encode())


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="jobs to write (default: all)")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent, help="folder to write to")
    options = parser.parse_args(argv)
    unknown = [name for name in options.names if name not in JOBS]
    if unknown:
        parser.error(f"unknown job {', '.join(unknown)}; known: {', '.join(JOBS)}")
    for name in options.names or JOBS:
        job = JOBS[name]()
        write(job, options.out)
        print(f"{job.name}: {len(job.folder.files)} files, {sum(map(len, job.folder.files.values()))} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
