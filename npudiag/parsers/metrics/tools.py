"""What MindSpeed-LLM's tools print before a training: weight conversion and data preprocessing.

Both tell for what layout, tokenizer and sequence length their output is; a launch that wants another one fails or
trains on something else. So their settings become rows of table ``launch``, and their progress events.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, NamedTuple

from npudiag.parsers.metrics.base import QUOTE_CHARS, Extractor, Sample, Sink
from npudiag.parsers.metrics.base import number as _number
from npudiag.parsers.prefixes import Peeled

CONVERT, PREPROCESS = 9001, 9002
"""Numbers of the tools' commands in table ``launch``: not those of a script, nor of a training in the same log."""

_NAMESPACE = re.compile(r"Arguments: Namespace\((.*)\)\s*\Z", re.DOTALL)
_PAIR = re.compile(r"([a-z_]\w*)=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[[^\[\]]*\]|[^,()]*)(?:, |\Z)")
_PLUGIN = re.compile(r"Loaded \S*\.(loader|saver)(?:_(\w+))? as the (?:loader|saver)\.")
_SAVING = re.compile(r"Saving to (?P<folder>.*?)/iter_\d+/mp_rank_(?P<ranks>\d+(?:_\d+)*)/")
_LAYER = re.compile(r"Converting the weights of (?:mtp )?layer (\d+)")
_TOOK = re.compile(r"time-consuming\uff1a ?([\d.]+)s")
_SAVED = re.compile(r"saved checkpoint from iteration +\d+ to (\S+) +\[ *t \d+/(\d+), p \d+/(\d+) *\]")
_MOST_ROWS = 200
_NEAR = 8

_PREFIX = re.compile(r"Output prefix: (\S.*)")
_INPUT = re.compile(r"building dataset: (\S.*)")
_VOCABULARY = re.compile(r"Vocab size: (\d+)")
_STARTUP = re.compile(r"Time to startup: ?([\d.]+)")
_PROCESSED = re.compile(r"Processed (\d+) documents \(([\d.e+-]+) docs/s(?:, ([\d.e+-]+) MB/s)?\)")
_SKIPPED = re.compile(r"Skip ([\d.]+) sample exceeded seq-length\((\d+|None)\)")
_DROPPED = re.compile(r"(?:Dropped lengthy example with|Sequence) length \d+ >= (\d+)\.")
_VALID = re.compile(r"valid_num = (\d+), total_num = (\d+)")
_PACKED = re.compile(r"new samples num : (\d+)")


class _Told(NamedTuple):
    """A line that was kept."""

    line: int
    raw: str


class _Tool(Extractor):
    """Keeps the settings of one run of a tool; the first time a setting is told counts."""

    entry: ClassVar[str]
    command: ClassVar[int]

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self.told: set[str] = set()

    def setting(self, line: int, key: str, value: str) -> None:
        """Add a row to ``launch`` and keep its line for quoting."""
        if key in self.told or len(self.told) >= _MOST_ROWS:
            return
        self.told.add(key)
        self.sink.quotes.settings[line] = self.sink.raw[:QUOTE_CHARS]
        row: dict[str, Any] = {
            "line": line, "key": key, "value": value[:2000], "kind": "flag", "source": "dump", "entry": self.entry,
            "command": self.command, "origin": line, "known": True, "sure": True, "stack": "MindSpeed-LLM",
        }  # fmt: skip
        self.sink.table("launch").append(row)

    def event(self, at: _Told | int, kind: str, name: str, value: str | float) -> None:
        """Add a row to ``train_events``.

        Args:
            at: Line that tells it: the one being read, or one that was kept.
            kind: Kind of event.
            name: What the value is.
            value: The value, as printed or counted.
        """
        found = _number(value) if isinstance(value, str) else value
        if found is None:
            return
        if isinstance(at, int):
            self.sink.add_event(kind, at, name=name, value=found)
            return
        # The line is quoted as it stood there.
        now, self.sink.raw = self.sink.raw, at.raw
        self.sink.add_event(kind, at.line, name=name, value=found)
        self.sink.raw = now


class Conversion(_Tool):
    """``convert_ckpt_v2.py`` with its arguments and the parts it saves; ``convert_ckpt.py`` with its plugins."""

    entry = "convert_ckpt.py"
    command = CONVERT

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "Arguments: Namespace(load_model_type='hf', save_model_type='mg', load_dir='/data/hf/demo', "
            "save_dir='/data/mcore/demo', model_type_hf='qwen3', target_tensor_parallel_size=4, "
            "target_pipeline_parallel_size=2, num_layer_list=None, lora_target_modules=[])\n"
            "Converting the weights of layer 0.\nConverting the weights of layer 1.\n"
            "Saving to /data/mcore/demo/iter_0000001/mp_rank_00_000/model_optim_rng.pt\n"
            "Saving to /data/mcore/demo/iter_0000001/mp_rank_01_000/model_optim_rng.pt\nDone!\n"
            "time-consuming\uff1a 123.45s\n",
            "launch",
            (
                {"key": "--load-model-type", "value": "hf", "source": "dump", "entry": "convert_ckpt.py", "line": 1},
                {"key": "--save-model-type", "value": "mg"},
                {"key": "--load-dir", "value": "/data/hf/demo"},
                {"key": "--save-dir", "value": "/data/mcore/demo"},
                {"key": "--model-type-hf", "value": "qwen3"},
                {"key": "--target-tensor-parallel-size", "value": "4", "kind": "flag"},
                {"key": "--target-pipeline-parallel-size", "value": "2"},
            ),
        ),
        Sample(
            "Converting the weights of layer 0.\nConverting the weights of layer 1.\n"
            "Saving to /data/mcore/demo/iter_0000001/mp_rank_00_000/model_optim_rng.pt\n"
            "Saving to /data/mcore/demo/iter_0000001/mp_rank_01_000/model_optim_rng.pt\nDone!\n"
            "time-consuming\uff1a 123.45s\n",
            "train_events",
            (
                {"kind": "convert", "name": "seconds", "value": 123.45, "line": 6},
                {"kind": "convert", "name": "layers", "value": 2.0, "line": 2},
                {"kind": "convert", "name": "parts", "value": 2.0, "line": 4},
            ),
        ),
        Sample(
            "Loaded mindspeed_llm.tasks.checkpoint.loader_hf as the loader.\n"
            "Loaded mindspeed_llm.tasks.checkpoint.saver as the saver.\n"
            "Starting saver...\nStarting loader...\nreceived transformer layer 0\n"
            "saving checkpoint at iteration       1 to /data/mcore/demo in torch format\n"
            "  successfully saved checkpoint from iteration       1 to /data/mcore/demo [ t 1/4, p 2/2 ]\nDone!\n",
            "launch",
            (
                {"key": "--load-model-type", "value": "hf", "line": 1},
                {"key": "--save-dir", "value": "/data/mcore/demo", "line": 7},
                {"key": "--target-tensor-parallel-size", "value": "4"},
                {"key": "--target-pipeline-parallel-size", "value": "2"},
            ),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._layers: set[str] = set()
        self._parts: set[str] = set()
        self._at: dict[str, _Told] = {}
        self._plugins = False

    def read(self, number: int, text: str, peeled: Peeled) -> bool:
        """Take arguments, plugins, layers and parts."""
        if match := _LAYER.search(text):
            self._layers.add(match[0])
            self._at["layers"] = _Told(number, self.sink.raw)
        elif match := _SAVING.search(text):
            if len(self._parts) < 1 << 16:
                self._parts.add(match["ranks"])
            self._at["parts"] = _Told(number, self.sink.raw)
            self.setting(number, "--save-dir", match["folder"])
        elif match := _NAMESPACE.search(text):
            # Other programs print a namespace as well; that of a conversion names what is loaded and saved.
            if "save_model_type=" in text and "load_dir=" in text:
                self._arguments(number, match[1])
        elif match := _PLUGIN.search(text):
            self._plugins = True
            if match[1] == "loader" and match[2]:
                self.setting(number, "--load-model-type", match[2])
        elif match := _TOOK.search(text):
            self.event(number, "convert", "seconds", match[1])
        elif self._plugins and (match := _SAVED.search(text)):
            self.setting(number, "--save-dir", match[1])
            self.setting(number, "--target-tensor-parallel-size", match[2])
            self.setting(number, "--target-pipeline-parallel-size", match[3])
        return False

    def _arguments(self, number: int, body: str) -> None:
        for match in _PAIR.finditer(body):
            value = match[2].strip()
            if value in ("None", "False", "[]", ""):
                continue
            self.setting(
                number, "--" + match[1].replace("_", "-"), value[1:-1] if value[0] in "'\"" else value.strip("[]")
            )

    def finish(self) -> None:
        """Say how much was converted."""
        for name, found in (("layers", self._layers), ("parts", self._parts)):
            if found:
                self.event(self._at[name], "convert", name, float(len(found)))


class Preprocessing(_Tool):
    """``preprocess_data.py``: where its output goes, for which vocabulary and length, how fast, what it left out."""

    entry = "preprocess_data.py"
    command = PREPROCESS

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "INFO:__main__:building dataset: /data/raw/demo.parquet\n"
            "INFO:mindspeed_llm.tasks.preprocess.data_handler:Vocab size: 151643\n"
            "INFO:mindspeed_llm.tasks.preprocess.data_handler:Output prefix: /data/corpus/demo\n"
            "INFO:mindspeed_llm.tasks.preprocess.data_handler:Time to startup:12.5\n"
            "INFO:mindspeed_llm.tasks.preprocess.data_handler:Skip 3.0 sample exceeded seq-length(4096)\n",
            "launch",
            (
                {"key": "--input", "value": "/data/raw/demo.parquet", "entry": "preprocess_data.py", "line": 1},
                {"key": "--output-prefix", "value": "/data/corpus/demo", "kind": "flag", "source": "dump"},
                {"key": "--seq-length", "value": "4096", "line": 5},
            ),
        ),
        Sample(
            "INFO:mindspeed_llm.tasks.preprocess.data_handler:Vocab size: 151643\n"
            "INFO:mindspeed_llm.tasks.preprocess.data_handler:Output prefix: /data/corpus/demo\n"
            "INFO:mindspeed_llm.tasks.preprocess.data_handler:Time to startup:12.5\n"
            "INFO:mindspeed_llm.tasks.preprocess.data_handler:Processed 1000 documents (512.5 docs/s, 1.25 MB/s).\n"
            "INFO:mindspeed_llm.tasks.preprocess.data_handler:Processed 2000 documents (480.5 docs/s, 1.2 MB/s).\n"
            "INFO:mindspeed_llm.tasks.preprocess.data_handler:Skip 3.0 sample exceeded seq-length(4096)\n",
            "train_events",
            (
                {"kind": "preprocess", "name": "vocabulary", "value": 151643.0, "line": 1},
                {"kind": "preprocess", "name": "startup s", "value": 12.5},
                {"kind": "preprocess", "name": "skipped", "value": 3.0, "line": 6},
                {"kind": "preprocess", "name": "documents", "value": 2000.0, "line": 5},
                {"kind": "preprocess", "name": "documents/s", "value": 480.5, "line": 5},
            ),
        ),
        Sample(
            "WARNING:mindspeed_llm.tasks.preprocess.data_handler:Dropped lengthy example with length 9001 >= 8192.\n"
            "INFO:mindspeed_llm.tasks.preprocess.data_handler:valid_num = 990, total_num = 1000, percentage : 99.0%\n"
            "INFO:mindspeed_llm.tasks.preprocess.data_handler:new samples num : 120\n",
            "launch",
            ({"key": "--seq-length", "value": "8192", "line": 1}, {"key": "--pack", "value": "True", "line": 3}),
        ),
        Sample(
            "INFO:mindspeed_llm.tasks.preprocess.data_handler:valid_num = 990, total_num = 1000, percentage : 99.0%\n"
            "INFO:mindspeed_llm.tasks.preprocess.data_handler:new samples num : 120\n",
            "train_events",
            (
                {"kind": "preprocess", "name": "valid", "value": 990.0},
                {"kind": "preprocess", "name": "total", "value": 1000.0},
                {"kind": "preprocess", "name": "packed", "value": 120.0},
            ),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._last: tuple[_Told, str, str] | None = None
        self._vocabulary: tuple[_Told, str] | None = None

    def read(self, number: int, text: str, peeled: Peeled) -> bool:
        """Take a setting or a count."""
        if match := _PROCESSED.search(text):
            self._last = (_Told(number, self.sink.raw), match[1], match[2])
        elif match := _PREFIX.search(text):
            self.setting(number, "--output-prefix", match[1].strip())
            # Others tell a vocabulary, too; what the data have stands right before where they go.
            if self._vocabulary is not None and number - self._vocabulary[0].line <= _NEAR:
                self.event(self._vocabulary[0], "preprocess", "vocabulary", self._vocabulary[1])
        elif match := _INPUT.search(text):
            self.setting(number, "--input", match[1].strip())
        elif match := _VOCABULARY.search(text):
            self._vocabulary = (_Told(number, self.sink.raw), match[1])
        elif match := _STARTUP.search(text):
            self.event(number, "preprocess", "startup s", match[1])
        elif match := _SKIPPED.search(text):
            self.event(number, "preprocess", "skipped", match[1])
            if match[2] != "None":
                self.setting(number, "--seq-length", match[2])
        elif match := _DROPPED.search(text):
            self.setting(number, "--seq-length", match[1])
        elif match := _VALID.search(text):
            self.event(number, "preprocess", "valid", match[1])
            self.event(number, "preprocess", "total", match[2])
        elif match := _PACKED.search(text):
            self.setting(number, "--pack", "True")
            self.event(number, "preprocess", "packed", match[1])
        return False

    def finish(self) -> None:
        """Say how far it came, and how fast."""
        if self._last is not None:
            self.event(self._last[0], "preprocess", "documents", self._last[1])
            self.event(self._last[0], "preprocess", "documents/s", self._last[2])
