"""Excerpts as people paste them: whatever stands around the lines, the answer stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from npudiag.analyze import Options, run
from npudiag.engine.load import RulePack, load_pack

Lines = list[str]

EXCERPTS: dict[str, tuple[str, str]] = {
    "a rank that is missing": (
        "topo-server-missing-ranks",
        "[ERROR] HCCL(4711,python):2026-01-02-03:04:06.678.901 [topoinfo_exchange_server.cc:314] [5590][Get]"
        "[Connection]topo exchange server get socket timeout! timeout[120 s]",
    ),
    "a loss that is NaN": (
        "loss-not-finite",
        "{'loss': 1.4381, 'grad_norm': nan, 'learning_rate': 4.1e-06, 'epoch': 0.41}\n"
        "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 4.0e-06, 'epoch': 0.42}\n"
        "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 4.0e-06, 'epoch': 0.43}",
    ),
    "an engine that died": (
        "engine-dead",
        "(APIServer pid=22) ERROR 03-08 16:43:28 [async_llm.py:480] AsyncLLM output_handler failed.\n"
        "(APIServer pid=22) ERROR 03-08 16:43:28 [async_llm.py:480] vllm.v1.engine.exceptions.EngineDeadError: "
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
    ),
    "stacks of a hang": (
        "stacks-of-a-hang",
        'Thread 68851 (active): "MainThread"\n    broadcast (torch/distributed/distributed_c10d.py:1191)\n'
        "    train (megatron/training.py:904)",
    ),
}
"""What is pasted, with the name of the rule whose finding comes first."""


def _each(begin: Callable[[int], str]) -> Callable[[Lines], Lines]:
    return lambda lines: [begin(number) + line for number, line in enumerate(lines, 1)]


FORMATS: dict[str, Callable[[Lines], Lines]] = {
    "container runtime": _each(lambda n: f"2026-01-01T00:00:{n:02d}.00000000{n % 10}Z stdout F "),
    "container time stamp": _each(lambda n: f"2026-01-01T00:00:{n:02d}.00000000{n % 10}Z "),
    "pod": _each(lambda n: "[pod/worker-0/main] "),
    "compose": _each(lambda n: "worker-0  | "),
    "workflow": _each(lambda n: f"2026-01-01T00:00:{n:02d}.0000000Z ##[error]"),
    "quote": _each(lambda n: "> "),
    "patch": _each(lambda n: "+ "),
    "indented": _each(lambda n: "    "),
    "numbered": _each(lambda n: f"{n:>6}\t"),
    "grep": _each(lambda n: f"train.log:{n}:"),
    "prose": lambda lines: ["### Describe the bug", "", "It stops, log below.", "```shell", *lines, "```", "Thanks"],
    "blank lines": lambda lines: [text for line in lines for text in (line, "")],
    "carriage returns": lambda lines: [line + "\r" for line in lines],
}


@pytest.fixture(scope="module")
def pack() -> RulePack:
    return load_pack()


@pytest.mark.parametrize("how", FORMATS)
@pytest.mark.parametrize("what", EXCERPTS)
def test_the_first_finding_is_the_same(what: str, how: str, pack: RulePack, tmp_path: Path) -> None:
    name, text = EXCERPTS[what]
    path = tmp_path / "pasted.log"
    path.write_text("\n".join(FORMATS[how](text.split("\n"))) + "\n", encoding="utf-8", newline="")
    found = [finding.name for finding in run([str(path)], pack, Options(workers=1)).findings]
    assert found[:1] == [name]
