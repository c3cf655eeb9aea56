"""Write the sample jobs.

usage: python sample_logs/generate.py [--out DIR] [--pairs DIR] [NAME...]

The result depends on nothing but this code: no wall clock, no host name, seeded random numbers.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from _gen import (
    collectives,
    devices,
    headlines,
    healthy,
    hosts,
    launches,
    metrics,
    pairs,
    profiles,
    serving,
    setups,
    silence,
)
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
    "stuck-peer": silence.stuck_peer,
    "slow-data-one-rank": silence.slow_data_one_rank,
    "collective-order-mismatch": silence.collective_order_mismatch,
    "pipeline-chain-dead-peer": silence.pipeline_chain_dead_peer,
    "rank-never-started": setups.rank_never_started,
    "hccl-port-taken": setups.hccl_port_taken,
    "wrong-rank-table": setups.wrong_rank_table,
    "collective-size-mismatch": setups.collective_size_mismatch,
    "aicore-exception-one-of-64": hosts.aicore_exception_one_of_64,
    "host-oom-kill": hosts.host_oom_kill,
    "link-flap": hosts.link_flap,
    "skewed-clocks": hosts.skewed_clocks,
    "launch-script-faults": launches.launch_script_faults,
    "launch-script-clean": launches.launch_script_clean,
    "communication-bound": headlines.communication_bound,
    "memory-pressure": headlines.memory_pressure,
    "weights-and-data-mismatch": headlines.weights_and_data_mismatch,
    "serving-config-faults": headlines.serving_config_faults,
}

PAIRS = {"overlap": pairs.overlap, "scaling": pairs.scaling, "losses": pairs.losses}
"""Pairs of runs that differ in one thing."""


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
    parser.add_argument("--pairs", type=Path, help="folder to write pairs of runs to, for comparisons, instead of jobs")
    options = parser.parse_args(argv)
    if options.pairs is not None:
        for name, make in PAIRS.items():
            for side, folder in zip(("before", "after"), make(), strict=True):
                folder.write(options.pairs / name / side)
        return 0
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
