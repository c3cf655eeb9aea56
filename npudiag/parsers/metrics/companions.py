"""What Megatron and MindSpeed-LLM print between the iterations: validation, timers, memory, checkpoints, the end."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from npudiag.parsers.metrics.base import Extractor, Sample, short_time
from npudiag.parsers.metrics.base import number as _number
from npudiag.parsers.prefixes import Peeled

_VALIDATION = re.compile(
    r"\b(?:validation|valid|test) loss at (?:iteration (?P<step>\d+)|the end of training[^|]*)[^|]*\|(?P<rest>.*)"
)
_THEORY = re.compile(r"(weight and optimizer|activation|total)=([\d.]+) *MB")
_SIZE = re.compile(r"Total number of parameters in billions: *([\d.]+)")
_SHARD = re.compile(r"number of parameters on \(tensor, pipeline\) model parallel rank \((\d+), (\d+)\): (\d+)")
_VALUE = re.compile(r"([\w -]+?) value: +([-+\w.]+)")
_MEMORY = re.compile(r"\[Rank (?P<rank>\d+)\] \(after (?P<step>\d+) iterations\) memory \(MB\) \|(?P<rest>.*)")
_STEP = re.compile(r"iteration +(\d+)")
_TIMER = re.compile(
    r" {2,}(?P<name>[\w/ .-]*?[\w/]) ?\.*: *(?:\((?P<low>[\d.]+), (?P<high>[\d.]+)\)|(?P<one>[\d.]+))? *$"
)
_RANK_TIME = re.compile(r" +rank +(?P<rank>\d+): +(?P<value>[\d.]+) *$")
_ARGUMENT = re.compile(r"^ *(?P<name>[a-z]\w{1,60}) \.{2,} (?P<value>\S+) *$")
_WANTED = frozenset(
    (
        "padded_vocab_size", "vocab_size", "finetune", "clip_grad", "lr", "min_lr", "lr_warmup_iters", "train_iters",
        "log_interval", "save_interval", "eval_interval", "global_batch_size", "micro_batch_size", "seq_length",
        "world_size", "initial_loss_scale", "min_loss_scale", "stage",
    )
)  # fmt: skip
_PHASE = re.compile(r"\[((?:before|after) [^\]]{3,100})\] datetime: (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
_ENDS = (
    "[after training is done]",
    "exiting program at iteration",
    "exiting program after",
    "[exiting program",
    "Training completed.",
    "training completed",
    "Training finished",
    "train end",
)


class Companions(Extractor):
    """What stands between the iterations: validation, timers, memory, checkpoints, arguments, the end."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            " validation loss at iteration 100 | lm loss value: 8.581882E+00 | lm loss PPL: 5.334132E+03 | ",
            "train_events",
            ({"kind": "validation", "step": 100, "name": "lm loss", "value": 8.581882},),
        ),
        Sample(
            "[default7]:valid loss at iteration 4500 | lm loss value: 2.327E+00 | lm loss PPL: 1.024E+01 |",
            "train_events",
            ({"kind": "validation", "step": 4500, "value": 2.327},),
        ),
        Sample(
            "(min, max) time across ranks (ms):\n    forward-backward ...............................: (902.11, 950.02)"
            "\n    all-grads-sync .................................: (88.50, 130.75)\ndone",
            "train_events",
            (
                {"kind": "timer", "name": "forward-backward", "low": 902.11, "value": 950.02},
                {"kind": "timer", "name": "all-grads-sync", "low": 88.5, "value": 130.75},
            ),
        ),
        Sample(
            "times across ranks (ms):\n  optimizer:\n     rank  0: 12.50\n     rank  1: 14.25\nend",
            "train_events",
            (
                {"kind": "timer", "name": "optimizer", "rank": 0, "value": 12.5},
                {"kind": "timer", "name": "optimizer", "rank": 1, "value": 14.25},
            ),
        ),
        Sample(
            "max time across ranks (ms):\n    optimizer ......................................: 41.07\nx",
            "train_events",
            ({"kind": "timer", "name": "optimizer", "value": 41.07},),
        ),
        Sample(
            "time (ms) | forward-compute: 29189.57 | backward-recv: 15653.89",
            "train_events",
            ({"name": "forward-compute", "value": 29189.57}, {"name": "backward-recv", "value": 15653.89}),
        ),
        Sample(
            "[Rank 43] (after 1 iterations) memory (MB) | allocated: 15492.5 | max allocated: 15493.25 | reserved:"
            " 18738.0 | max reserved: 18740.0",
            "train_events",
            (
                {"kind": "memory", "rank": 43, "name": "max allocated", "value": 15493.25},
                {"kind": "memory", "rank": 43, "name": "max reserved", "value": 18740.0},
            ),
        ),
        Sample(
            " validation loss at the end of training for val data | lm loss value: 5.8E+00 | lm loss PPL: 3.3E+02 |",
            "train_events",
            ({"kind": "validation", "name": "lm loss", "value": 5.8},),
        ),
        Sample(
            "[Rank 3] (after 10 iterations) memory (MB) | allocated: 1.5 | max allocated: 2.5 | reserved: 3.0 |"
            " max reserved: 4.0 | alloc retries: 2",
            "train_events",
            ({"rank": 3, "name": "max allocated", "value": 2.5}, {"name": "max reserved", "value": 4.0}),
        ),
        Sample(
            "Number of parameters in transformer block in billions:  0.08\n"
            "Total number of parameters in billions: 0.12\n"
            "Theoretical memory footprints: weight and optimizer=2121.85 MB, activation=500.50 MB, total=2622.35 MB\n"
            " > number of parameters on (tensor, pipeline) model parallel rank (0, 1): 124439808\n",
            "train_events",
            (
                {"kind": "model", "name": "parameters", "value": 0.12e9},
                {"kind": "theory", "name": "weight and optimizer", "value": 2121.85},
                {"kind": "theory", "name": "activation", "value": 500.5},
                {"kind": "theory", "name": "total", "value": 2622.35},
                {"kind": "model", "name": "parameters of tensor rank 0, pipeline rank 1", "value": 124439808.0},
            ),
        ),
        Sample(
            "[after megatron is initialized] datetime: 2026-01-02 03:04:05 \n"
            "[before the start of training step] datetime: 2026-01-02 03:09:05 \n",
            "train_events",
            (
                {"kind": "phase", "name": "after megatron is initialized", "time": 1767323045000000, "step": None},
                {"kind": "phase", "name": "before the start of training step", "time": 1767323345000000},
            ),
        ),
        Sample(
            "saving checkpoint at iteration     500 to /data/ckpt in torch_dist format\n"
            "  successfully saved checkpoint from iteration     500 to /data/ckpt [ t 1/4, p 1/16 ]",
            "train_events",
            ({"kind": "save", "step": 500}, {"kind": "saved", "step": 500}),
        ),
        Sample(
            "  padded_vocab_size ............................... 152064\n"
            "  finetune ........................................ True",
            "train_events",
            ({"kind": "argument", "name": "padded_vocab_size", "value": 152064.0}, {"name": "finetune", "value": 1.0}),
        ),
    )

    def read(self, number: int, text: str, peeled: Peeled) -> bool:
        """Take what the line says."""
        sink = self.sink
        if " loss at " in text and (match := _VALIDATION.search(text)):
            self._validation(number, match)
        elif "across ranks (ms)" in text:
            sink.follow[(peeled.worker, peeled.rank, peeled.pid)] = self._timers()
        elif "time (ms) |" in text:
            for part in text.partition("time (ms) |")[2].split("|"):
                name, _, value = part.partition(":")
                took = _number(value)
                if took is not None and name.strip():
                    sink.add_event("timer", number, name=name.strip(), value=took)
        elif "memory (MB) |" in text:
            self._memory(number, text)
        elif "umber of parameters" in text or "Theoretical memory" in text:
            self._model(number, text)
        elif "checkpoint" in text:
            self._checkpoint(number, text)
        elif "...." in text:
            self._argument(number, text)
        elif any(end in text for end in _ENDS):
            sink.add_event("end", number)
        elif phase := _PHASE.search(text):
            sink.add_event("phase", number, step=None, name=phase[1], time=short_time(phase[2], None))
        return False

    def _validation(self, number: int, match: re.Match[str]) -> None:
        step = int(match["step"]) if match["step"] else self.sink.step
        for name, value in _VALUE.findall(match["rest"]):
            loss = _number(value)
            if loss is not None:
                self.sink.add_event("validation", number, step=step, name=name.strip(), value=loss)

    def _memory(self, number: int, text: str) -> None:
        match = _MEMORY.search(text)
        if match is None:
            return
        for part in match["rest"].split("|"):
            name, _, value = part.partition(":")
            size = _number(value)
            if size is not None and name.strip() in ("max allocated", "max reserved"):
                rank, step = int(match["rank"]), int(match["step"])
                self.sink.add_event("memory", number, step=step, rank=rank, name=name.strip(), value=size)

    def _model(self, number: int, text: str) -> None:
        """Take the size of the model and the memory that it should need by arithmetic."""
        if size := _SIZE.search(text):
            self.sink.add_event("model", number, name="parameters", value=float(size[1]) * 1e9)
        elif shard := _SHARD.search(text):
            name = f"parameters of tensor rank {shard[1]}, pipeline rank {shard[2]}"
            self.sink.add_event("model", number, name=name, value=float(shard[3]))
        elif "Theoretical memory" in text:
            for name, megabytes in _THEORY.findall(text):
                self.sink.add_event("theory", number, name=name, value=float(megabytes))

    def _checkpoint(self, number: int, text: str) -> None:
        step = _STEP.search(text)
        fields: dict[str, Any] = {"step": int(step[1])} if step else {}
        if "saving checkpoint" in text:
            self.sink.add_event("save", number, **fields)
        elif "saved checkpoint" in text:
            self.sink.add_event("saved", number, **fields)
        elif "loading checkpoint" in text or "loaded checkpoint" in text:
            self.sink.add_event("load", number, **fields)

    def _argument(self, number: int, text: str) -> None:
        match = _ARGUMENT.match(text)
        if match is None or match["name"] not in _WANTED:
            return
        value = {"True": 1.0, "False": 0.0}.get(match["value"], _number(match["value"]))
        if value is not None:
            self.sink.add_event("argument", number, name=match["name"], value=value)

    def _timers(self) -> Callable[[int, str], bool]:
        name = ""

        def line(number: int, text: str) -> bool:
            nonlocal name
            rank = _RANK_TIME.match(text)
            if rank is not None and name:
                self.sink.add_event("timer", number, name=name, rank=int(rank["rank"]), value=float(rank["value"]))
                return True
            match = _TIMER.match(text)
            if match is None:
                return False
            name = match["name"].rstrip(" .")
            high, low = _number(match["high"] or match["one"]), _number(match["low"])
            if high is not None:
                fields = {"low": low} if low is not None else {}
                self.sink.add_event("timer", number, name=name, value=high, **fields)
            return True

        return line
