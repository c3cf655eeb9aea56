"""The host's side of a simulated job: calls, operators of the framework, memory; the same for every export."""

from __future__ import annotations

from _gen.profile_job import Rank, Span

MODULES = (("HCCL", 400), ("RUNTIME", 120))


def calls(rank: Rank) -> list[tuple[str, float, float]]:
    """Return name, begin and length (us) of the calls of CANN: a launch per kernel, a synchronisation per step."""
    out = []
    for kernel in rank.kernels:
        out.append(("launch", kernel.start - 30.0, 3.25))
        out.append(("KernelLaunchWithHandle", kernel.start - 29.0, 1.5))
    for _, end in rank.steps:
        out.append(("aclrtSynchronizeStream", end - 40.0, 35.0))
    return out


def operators(rank: Rank) -> list[tuple[str, float, float, float]]:
    """Return name, begin, end and time within other operators (us) of the framework's operators."""
    out = []
    for kernel in rank.kernels:
        begin = kernel.start - 45.0
        out.append((f"aten::{kernel.type.lower()}", begin, begin + 6.0, 2.0))
        out.append(("aten::empty", begin + 1.0, begin + 3.0, 0.0))
    return out


def allocations(rank: Rank) -> list[tuple[str, int, float, float | None]]:
    """Return operator, size in bytes, when it was taken and given back (us); None where it never was."""
    out: list[tuple[str, int, float, float | None]] = []
    for kernel in rank.kernels:
        kept = kernel.type == "ApplyAdamWV2"
        out.append((f"aten::{kernel.type.lower()}", 16 << 20, kernel.start, None if kept else kernel.end + 10.0))
    return out


def transfers(rank: Rank) -> list[tuple[float, float, int, int]]:
    """Return begin, length (us), bytes and number of the peer within the group of each transfer between chips."""
    out = []
    for talk in rank.talks:
        whole = int(talk.size * 1e6) // 512 * 512
        out.append((talk.end - talk.transfer, talk.transfer, whole + (100 if rank.odd else 0), 1))
    return out


def modules(rank: Rank) -> list[tuple[str, float, int]]:
    """Return module of the driver, time (us) and bytes that it holds."""
    spans: list[Span] = rank.steps
    return [(name, begin, size << 20) for begin, _ in spans for name, size in MODULES]
