"""Megatron-LM and what is built on it: MindSpeed-LLM (mcore and FSDP2), Megatron-DeepSpeed.

A loss is printed only where its average is above zero, so a NaN makes the field vanish. Lines may be wrapped by
terminals and mails, with blanks put in or lost anywhere: keys are compared without blanks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from npudiag.parsers import headers
from npudiag.parsers.metrics.base import Extractor, Key, Sample, Sink, worker_of
from npudiag.parsers.metrics.base import number as _number
from npudiag.parsers.prefixes import Peeled

_HEAD = re.compile(
    r"(?:\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(?P<micro>\d{1,6}))?\] *(?:>>)? *)?"
    r"\biteration:? +(?P<step>\d{1,12})(?: */ *(?P<total>\d{1,12}))? *\|"
)
_MOST_LINES = 4


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        value = _number(text.partition("/")[0])
        if value is None:
            raise
        return int(value)


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        value = _number(text.partition("/")[0])
        if value is None:
            raise
        return value


def _seconds(text: str) -> float:
    return _real(text) * 1000.0


def _gigabytes(text: str) -> float:
    return _real(text) * 1024.0


Take = tuple[str, Callable[[str], Any]]

_FIELDS: dict[str, Take] = {
    "consumedsamples": ("consumed_samples", _whole),
    "consumedtokens": ("consumed_tokens", _whole),
    "elapsedtimeperiteration(ms)": ("step_time_ms", float),
    "elapsedtimeperiteration(s)": ("step_time_ms", _seconds),
    "throughputpergpu(tflop/s/gpu)": ("tflops", float),
    "tflops": ("tflops", float),
    "throughput(samples/s)": ("samples_per_s", float),
    "samplespersecond": ("samples_per_s", float),
    "tokens/s": ("tokens_per_s", float),
    "tokenspersecond": ("tokens_per_s", float),
    "mfu": ("mfu", float),
    "learningrate": ("lr", float),
    "globalbatchsize": ("global_batch_size", int),
    "lossscale": ("loss_scale", float),
    "gradnorm": ("grad_norm", float),
    "numberofskippediterations": ("skipped", int),
    "numberofnaniterations": ("nan_iterations", int),
    "max_memory_reserved(gb)": ("memory_mb", _gigabytes),
    "lmloss": ("loss", float),
}
_SLOW: dict[Callable[[str], Any], Callable[[str], Any]] = {float: _real, int: _whole}
_NOT_THE_LOSS = re.compile(r"balanc|aux|zloss|mtp|indexer|router|scale|samples")


class Iterations(Extractor):
    """The line of an iteration, in every spelling from 2021 on."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            " iteration       20/    1000 | consumed samples:           80 | elapsed time per iteration (ms): 2043.7 |"
            " learning rate: 0.000E+00 | global batch size:     4 | loss scale: 65536.0 | number of skipped iterations:"
            "  10 | number of nan iterations:   0 |",
            "train_steps",
            ({"step": 20, "total_steps": 1000, "loss": None, "skipped": 10, "loss_scale": 65536.0, "lr": 0.0},),
        ),
        Sample(
            "[node7:3]: [2025-05-01 05:54:07] iteration       40/  200000 | consumed samples:        40320 | elapsed"
            " time per iteration (ms): 1502.5 | throughput per GPU (TFLOP/s/GPU): 131.0 | learning rate: 8.000000E-06 |"
            " global batch size:  1008 | lm loss: 6.251111E+00 | loss scale: 1.0 | grad norm: 1.520 | number of skipped"
            " iterations:   0 | number of nan iterations:   0 |",
            "train_steps",
            ({"step": 40, "loss": 6.251111, "tflops": 131.0, "grad_norm": 1.52, "worker": "node7:3"},),
        ),
        Sample(
            "[default7]: iteration     4278/  11531 | consumed samples:     7145566 | consumed tokens:  14634119987 |"
            " elapsed time per iteration (s): 105.16 | learning\n rate: 4.475E-05 | global batch size: 2048 | lm loss:"
            " 2.117073E+00 | grad norm: 0.150 | num zeros: 0.0 | number of skipped iterations:  0 | number of nan\n"
            "iterations:  0 | samples per second: 19.474 | TFLOPs: 149.10 |",
            "train_steps",
            (
                {
                    "line": 1,
                    "step": 4278,
                    "step_time_ms": 105160.0,
                    "lr": 4.475e-05,
                    "loss": 2.117073,
                    "nan_iterations": 0,
                    "samples_per_s": 19.474,
                    "tflops": 149.1,
                },
            ),
        ),
        Sample(
            "[default7]: [2026-09-14 15:08:27.273656] iteration       44/  102400 | consumed samples:  180224 | elapsed"
            " time per iteration (ms): 900.5 | learning rate: 1.0E-05 | global batch size:  4096 | lm loss: 6.45E+00 |"
            " loss scale: 1.0 | grad norm: 4.096 | num zeros: 760881152.0 | params norm: 2241.466 | number of skipped"
            " iterations:   0 | number of nan iterations:   0 |",
            "train_steps",
            ({"step": 44, "grad_norm": 4.096, "loss": 6.45},),
        ),
        Sample(
            " iteration     5426/  250000 | consumed samples:     43408 | elapsed time per iteration (ms): 4248.1 |"
            " learning rate: 2.999E-04 | global batch size:     8 | loss scale: 1.0 | grad norm: nan | actual seqlen: "
            " 2048 | number of skipped iterations:   0 | number of nan iterations:   0 | samples per second: 1.883 |"
            " TFLOPs: 78.36 |",
            "train_steps",
            ({"step": 5426, "loss": None, "skipped": 0, "samples_per_s": 1.883},),
        ),
        Sample(
            "INFO [2026-06-22 19:25:37] >>  iteration        1/    2000 | consumed samples:          8 | consumed"
            " tokens:        564 | elapsed time per iteration (ms): 7827.39 | learning rate: 1.666667E-07 | global"
            " batch size:     8 | lm loss: 3.316887E+00 | grad norm: 70.959 | max_memory_allocated(GB): 19.07 |"
            " max_memory_reserved(GB): 20.90 |",
            "train_steps",
            ({"step": 1, "consumed_tokens": 564, "memory_mb": 20.9 * 1024, "grad_norm": 70.959},),
        ),
        Sample(
            "iteration: 12 | consumed samples: 96 | elapsed time per iteration (ms): 812.5 | throughput(samples/s): 9.8"
            " | learning rate: 1.0E-05 | global batch size: 8 | lm loss: 2.3456 | grad norm: 1.2345",
            "train_steps",
            ({"step": 12, "total_steps": None, "samples_per_s": 9.8, "loss": 2.3456, "grad_norm": 1.2345},),
        ),
        Sample(
            " [2025-09-08 11:37:00] iteration       10/    5000 | consumed samples:          640 | elapsed time per"
            " iteration (ms): 6932.5 | learning rate: 2.500000E-07 | global batch size:    64 | dpo loss: 6.93E-01 |"
            " load_balancing_loss: 1.02E+00 | loss scale: 1.0 | g      rad norm: 56.739 | number of skipped iterations:"
            "   0 | number of nan iterations:   0 |",
            "train_steps",
            ({"loss": 0.693, "grad_norm": 56.739, "time": 1757331420000000},),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._known: dict[str, Take | None] = {}
        self._layout: tuple[re.Pattern[str], tuple[Take, ...]] | None = None
        self._minute = ""
        self._minute_us = 0
        self._pending: dict[Key, tuple[int, str | None, list[str], list[str]]] = {}

    def read(self, number: int, text: str, peeled: Peeled) -> bool:
        """Take the fields of an iteration; a line that stops short is continued by the next ones."""
        match = _HEAD.search(text)
        if match is None:
            return False
        worker = worker_of(peeled)
        if text.rstrip().endswith("|"):
            self._row(number, text, match, worker, self.sink.raw)
            return True
        key = (peeled.worker, peeled.rank, peeled.pid)
        pieces, raws = [text], [self.sink.raw]

        def more(_number: int, line: str) -> bool:
            goes_on = "|" in line and _HEAD.search(line) is None and not line.startswith(("time (ms)", "[Rank"))
            if goes_on:
                pieces.append(line)
                raws.append(self.sink.raw)
                if len(pieces) < _MOST_LINES and not line.rstrip().endswith("|"):
                    return True
            self._wrapped(key)
            return False

        self._pending[key] = (number, worker, pieces, raws)
        self.sink.follow[key] = more
        return False

    def _wrapped(self, key: Key) -> None:
        line, worker, pieces, raws = self._pending.pop(key)
        text = "".join(pieces)
        match = _HEAD.search(text)
        if match is not None:
            self._row(line, text, match, worker, "\n".join(raws))

    def finish(self) -> None:
        """Take rows whose last line never came."""
        for key in list(self._pending):
            self._wrapped(key)

    def _row(self, line: int, text: str, match: re.Match[str], worker: str | None, raw: str) -> None:
        time, micro, step, total = match.groups()
        row: dict[str, Any] = {"line": line, "framework": "megatron", "step": int(step)}
        if worker is not None:
            row["worker"] = worker
        if total:
            row["total_steps"] = int(total)
        if time:
            row["time"] = self._time(time, micro)
        layout = self._layout
        found = layout[0].match(text, match.end()) if layout is not None else None
        if layout is not None and found is not None:
            try:
                for (name, convert), value in zip(layout[1], found.groups(), strict=True):
                    row[name] = convert(value)
            except ValueError:
                self._by_key(text[match.end() :], row)
        else:
            self._by_key(text[match.end() :], row)
        other = row.pop("", None)
        if other is not None and "loss" not in row:
            row["loss"] = other
        time_us = row.get("time")
        if time_us is not None:
            self.sink.last_us = time_us
        self.sink.add_step(row, raw)

    def _by_key(self, body: str, row: dict[str, Any]) -> None:
        """Read the fields one by one, and remember how these lines are built if all went well."""
        known = self._known
        pattern, takes, clean = [], [], True
        for part in body.split("|"):
            key, _, value = part.partition(":")
            try:
                take = known[key]
            except KeyError:
                take = self._learn(key)
            if take is None or not value:
                pattern.append(re.escape(key) + ("[^|]*" if value else re.escape(part[len(key) :])))
                continue
            name, convert = take
            try:
                row[name] = convert(value)
            except ValueError:
                clean = False
                try:
                    row[name] = _SLOW.get(convert, convert)(value)
                except ValueError:
                    continue
            pattern.append(re.escape(key) + ":([^|]*)")
            takes.append(take)
        names = [name for name, _ in takes]
        if clean and takes and len(set(names)) == len(names) and len(pattern) < 40:
            self._layout = (re.compile(r"\|".join(pattern) + r"\Z"), tuple(takes))

    def _learn(self, key: str) -> Take | None:
        """Find out what a key means; the answer is kept by its exact spelling."""
        name = "".join(key.split()).lower()
        take = _FIELDS.get(name)
        if take is None and name.endswith("loss") and not _NOT_THE_LOSS.search(name):
            take = ("", _real)
        if len(self._known) < 4096:
            self._known[key] = take
        return take

    def _time(self, text: str, micro: str | None) -> int:
        minute = text[:16]
        if minute != self._minute:
            found = headers.minute_us(f"{minute[:10]}T{minute[11:]}")
            self._minute, self._minute_us = minute, found or 0
        return self._minute_us + int(text[17:19]) * 1_000_000 + (int(micro.ljust(6, "0")) if micro else 0)


_VALIDATION = re.compile(
    r"\b(?:validation|valid|test) loss at (?:iteration (?P<step>\d+)|the end of training[^|]*)[^|]*\|(?P<rest>.*)"
)
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
        if " loss at iteration " in text and (match := _VALIDATION.search(text)):
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
        elif "checkpoint" in text:
            self._checkpoint(number, text)
        elif "...." in text:
            self._argument(number, text)
        elif any(end in text for end in _ENDS):
            sink.add_event("end", number)
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
