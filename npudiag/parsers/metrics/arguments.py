"""What a job prints of its own settings: Megatron's argument dump, variables, the arguments of vLLM."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from npudiag.parsers.metrics.base import QUOTE_CHARS, Extractor, Sample, Sink
from npudiag.parsers.prefixes import Peeled

_ARGUMENT = re.compile(r"\s+([A-Za-z_]\w*) (?:\.+ )?(.*)\Z")
_VARIABLE = re.compile(r"(?:\++ )?(?:export |declare -x )?([A-Z][A-Z0-9_]{3,60})=(.*)\Z")
_ENTRY = re.compile(r"'([a-z_]\w*)': ('[^']*'|\"[^\"]*\"|\{[^{}]*\}|\[[^\[\]]*\]|[^,{}]+)")
_OURS = re.compile(
    r"ASCEND_|HCCL_|ACL_|ACLNN_|TASK_QUEUE|CPU_AFFINITY|PYTORCH_|CUDA_DEVICE_MAX|TORCH_|NPU_|INF_NAN|MULTI_STREAM"
    r"|VLLM_|MINDIE_|P2P_HCCL|STREAMS_PER|COMBINED_|OMP_NUM|MASTER_|GLOO_|RANK_TABLE|PER_STREAM|OOM_SNAPSHOT|LD_PRELOAD"
)
_DUMP_LINES = 3000
_VALUE_LINES = 8
_SETTINGS = 600
_QUOTED = 1500


def _add(
    sink: Sink,
    line: int,
    key: str,
    value: str,
    kind: str,
    source: str,
    *,
    entry: str | None = None,
    raw: str | None = None,
) -> None:
    if len(sink.quotes.settings) < _QUOTED:
        sink.quotes.settings[line] = (sink.raw if raw is None else raw)[:QUOTE_CHARS]
    columns = sink.table("launch")
    columns.append(
        {
            "line": line, "key": key, "value": value[:2000], "kind": kind, "source": source, "origin": line,
            "known": True, "sure": True, "entry": entry,
        }
    )  # fmt: skip


class ArgumentDump(Extractor):
    """The block of dotted lines that Megatron prints at the start; the first one of a log counts."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "------------------------ arguments ------------------------\n"
            "  adam_beta1 ...................................... 0.9\n"
            "  overlap_p2p_communication_warmup_flush_and_some_more ... False\n"
            "  data_path ....................................... ['/data/corpus_text_document']\n"
            "  moe_layer_freq .................................. [0,\n"
            " 1]\n"
            "-------------------- end of arguments ---------------------\n"
            "  adam_beta2 ...................................... 0.95\n",
            "launch",
            (
                {"key": "--adam-beta1", "value": "0.9", "kind": "flag", "source": "dump", "line": 2},
                {"key": "--overlap-p2p-communication-warmup-flush-and-some-more", "value": "False"},
                {"key": "--data-path", "value": "['/data/corpus_text_document']"},
                {"key": "--moe-layer-freq", "value": "[0, 1]", "line": 5},
            ),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._left = _DUMP_LINES
        self._done = False
        self._held: tuple[int, str, list[str], str] | None = None

    def read(self, number: int, text: str, peeled: Peeled) -> bool:
        """Follow the process that prints the block."""
        if not self._done and "end of" not in text:
            self._done = True
            self.sink.follow[(peeled.worker, peeled.rank, peeled.pid)] = self._next
        return False

    def _next(self, number: int, text: str) -> bool:
        self._left -= 1
        if "end of arguments" in text or self._left < 0:
            self.finish()
            return False
        match = _ARGUMENT.match(text)
        if match:
            self.finish()
            self._held = (number, "--" + match[1].replace("_", "-"), [match[2].strip()], self.sink.raw)
        elif self._held is not None and len(self._held[2]) < _VALUE_LINES:
            # A value that is a list or a dictionary may go over several lines.
            self._held[2].append(text.strip())
        return True

    def finish(self) -> None:
        """Take the last argument, whose value is over now."""
        if self._held is not None:
            line, name, parts, raw = self._held
            self._held = None
            _add(self.sink, line, name, " ".join(parts), "flag", "dump", raw=raw)


class Environment(Extractor):
    """Variables as ``env``, ``export -p`` or ``set -x`` print them."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "HCCL_CONNECT_TIMEOUT=1200\n"
            "+ export ASCEND_LAUNCH_BLOCKING=1\n"
            'declare -x TASK_QUEUE_ENABLE="2"\n'
            "set ASCEND_LAUNCH_BLOCKING=1 to find the operator\n"
            "+ export GREETING=hello\n",
            "launch",
            (
                {"key": "HCCL_CONNECT_TIMEOUT", "value": "1200", "kind": "env", "source": "log"},
                {"key": "ASCEND_LAUNCH_BLOCKING", "value": "1", "source": "trace"},
                {"key": "TASK_QUEUE_ENABLE", "value": "2"},
            ),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._seen: set[tuple[str, str]] = set()

    def read(self, number: int, text: str, peeled: Peeled) -> bool:
        """Take a line that is an assignment and nothing else."""
        match = _VARIABLE.match(text.strip())
        if match is None or not _OURS.match(match[1]):
            return False
        value = match[2].strip()
        if value[:1] in "'\"" and value[-1:] == value[:1]:
            value = value[1:-1]
        if (match[1], value) not in self._seen and len(self._seen) < _SETTINGS:
            self._seen.add((match[1], value))
            _add(self.sink, number, match[1], value, "env", "trace" if text.lstrip().startswith("+") else "log")
        return False


class ServeArguments(Extractor):
    """The arguments that a vLLM server was given."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "INFO 05-06 07:08:09 [utils.py:233] non-default args: {'model': '/models/q', 'max_model_len': 8192, "
            "'enforce_eager': True, 'additional_config': {'enable_cpu_binding': True}}\n",
            "launch",
            (
                {"key": "--model", "value": "/models/q", "kind": "flag", "source": "dump"},
                {"key": "--max-model-len", "value": "8192"},
                {"key": "--enforce-eager", "value": "True"},
                {"key": "--additional-config", "value": "{'enable_cpu_binding': True}"},
            ),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._done = False

    def read(self, number: int, text: str, peeled: Peeled) -> bool:
        """Take the first such line."""
        if self._done:
            return False
        self._done = True
        body = text.partition("non-default args: {")[2][:8000]
        found: dict[str, Any] = {}
        for match in _ENTRY.finditer(body):
            value = match[2].strip()
            found.setdefault(match[1], value[1:-1] if value[:1] in "'\"" else value)
        for name, value in list(found.items())[:_SETTINGS]:
            _add(self.sink, number, "--" + name.replace("_", "-"), value, "flag", "dump", entry="vllm serve")
        return False
