"""The environment of a job as a shell script, which the launch checks read like any other.

Variables that matter to training and serving keep their values; of others only the name is told, since anything
may stand in them.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from npudiag.errors import UsageError
from npudiag.host.secrets import MASK, is_secret_name, mask
from npudiag.parsers import shell

_KEPT = re.compile(
    r"(?:ASCEND|HCCL|P2P_HCCL|ACL|ACLNN|ATB|TASK_QUEUE|CPU_AFFINITY|PYTORCH|TORCH|NPU|CUDA_DEVICE_MAX|INF_NAN|MULTI_STREAM"
    r"|VLLM|MINDIE|MIES|MINDSPORE|MS_|GLOG|STREAMS_PER|COMBINED_|PER_STREAM|OMP_|MKL_|OPENBLAS_|GLOO|TP_SOCKET|MASTER_"
    r"|RANK|LOCAL_|WORLD_SIZE|NODE_RANK|NNODES|NPROC|GROUP_RANK|TOKENIZERS_|CKPT_|DATA_PATH|TRITON_|MC_|MOONCAKE_|RAY_"
    r"|SLURM_(?:JOB_ID|NNODES|NTASKS|PROCID|LOCALID|NODEID)|OOM_SNAPSHOT|KINETO|PROF_|MSMONITOR|DYNAMIC_EPLB|HOST_CACHE"
    r"|TRANSFORMERS_OFFLINE|HF_HUB_OFFLINE|MALLOC_|LD_PRELOAD|NCCL)"
)
_KEPT_WHOLE = frozenset(("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONUNBUFFERED", "LANG", "LC_ALL", "TMPDIR", "TZ"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_VALUE_CHARS = 4000
_VARIABLES = 4000


def of_process(pid: int) -> tuple[dict[str, str], list[str]]:
    """Return environment and command line of a running process.

    Raises:
        UsageError: There is no such process, or it belongs to somebody else.
    """
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError as exc:
        raise UsageError(
            f"the environment of process {pid} cannot be read: {exc.strerror}", hint="run as its user, or as root"
        ) from exc
    words = [os.fsdecode(word) for word in command.split(b"\0")]
    return _pairs(os.fsdecode(environment).split("\0")), words[:-1] if words and not words[-1] else words


def of_file(path: Path) -> dict[str, str]:
    """Return the variables a file sets: a shell script, the output of ``env``, or a copy of ``/proc/PID/environ``.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        text = path.read_bytes()[: 4 << 20].decode("utf-8", "replace")
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {exc.strerror}") from exc
    if "\0" in text:
        return _pairs(text.split("\0"))
    if re.match(r"#!", text) or re.search(r"^\s*(?:export|declare -x)\s", text, re.MULTILINE):
        script = shell.read(text)
        found = {name: word.text for name, (word, exported) in script.variables.items() if exported}
        for command in script.commands:
            found.update({name: word.text for name, word in command.exports.items()})
        return found
    return _pairs(text.split("\n"))


def _pairs(lines: Sequence[str]) -> dict[str, str]:
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {name.strip(): value.rstrip("\r") for name, _, value in pairs if _NAME.match(name.strip())}


def script(environment: Mapping[str, str], command: Sequence[str] = ()) -> str:
    """Return the environment, and the command of a process, as a shell script without secrets.

    Args:
        environment: Names and values, whatever stands in them.
        command: The words of a command line.
    """
    lines = ["#!/bin/sh", "# environment as npudiag found it; values of other variables are not kept"]
    others = []
    for name in sorted(environment)[:_VARIABLES]:
        if not _NAME.match(name):
            continue
        if not (_KEPT.match(name) or name in _KEPT_WHOLE):
            others.append(name)
            continue
        value = MASK if is_secret_name(name) else mask(_one_line(environment[name])[:_VALUE_CHARS])
        lines.append(f"export {name}={shlex.quote(value)}")
    if others:
        lines.append("# also set: " + " ".join(others))
    if command:
        lines.append(" ".join(shlex.quote(word) for word in _without_secrets(command)))
    return "\n".join(lines) + "\n"


def _without_secrets(command: Sequence[str]) -> list[str]:
    """Return the words of a command line, the value behind ``--token`` and the like masked."""
    out: list[str] = []
    hide = False
    for word in command[:2000]:
        name, sign, _ = word.partition("=")
        if hide and not word.startswith("-"):
            out.append(MASK)
        elif sign and is_secret_name(name.lstrip("-")):
            out.append(f"{name}={MASK}")
        else:
            out.append(mask(_one_line(word)[:_VALUE_CHARS]))
        hide = word.startswith("-") and not sign and is_secret_name(word.lstrip("-"))
    return out


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
