"""HF Trainer and what logs like it: LLaMA-Factory, ms-swift, TRL; their dictionaries and state files."""

from __future__ import annotations

import json
import math
import re
from typing import Any, ClassVar

from npudiag.parsers.metrics.base import Extractor, Sample, Sink, number, worker_of
from npudiag.parsers.prefixes import Peeled

_PAIR = re.compile(r"['\"]([\w()/ .-]{1,60})['\"]: *['\"]?([^,'\"}{\[\]]*)")
_BESIDE = {"epoch", "learning_rate", "global_step/max_steps"}
"""Keys of which one stands beside the loss in a dictionary of the trainer."""
_TRAINED = {"loss", "reward"}
"""Fields of which a step of training has one."""
_LONGEST = 1 << 20


def _clock_ms(text: str) -> float | None:
    """Return ``2:30:48``, ``3 days, 17:51:32``, ``08:13`` or ``1h 2m 3s`` in ms."""
    match = re.fullmatch(r"(?:(\d{1,9}) days?, )?((?:\d{1,9}:)?\d{1,9}:\d{1,9})(\.\d+)?", text.strip())
    if match:
        parts = [int(part) for part in match[2].split(":")]
        seconds = 0
        for part in parts:
            seconds = seconds * 60 + part
        return (int(match[1] or 0) * 86400 + seconds + float(match[3] or 0)) * 1000.0
    found = re.findall(r"\b(\d{1,9}) ?([dhms])\b", text)
    if not found:
        return None
    return sum(int(value) * {"d": 86400, "h": 3600, "m": 60, "s": 1}[unit] for value, unit in found) * 1000.0


def _fields(pairs: dict[str, str]) -> dict[str, Any]:
    """Return the fields of a step from what a dictionary or a JSON object names."""
    row: dict[str, Any] = {}
    for key, name in (
        ("lm loss", "loss"),
        ("loss", "loss"),
        ("grad_norm", "grad_norm"),
        ("learning_rate", "lr"),
        ("lr", "lr"),
        ("epoch", "epoch"),
        ("step", "step"),
        ("current_steps", "step"),
        ("total_steps", "total_steps"),
        ("throughput", "tokens_per_s"),
        ("train_speed(s/it)", "s_per_it"),
        ("train_speed(iter/s)", "it_per_s"),
        ("reward", "reward"),
        ("entropy/mean", "entropy"),
        ("entropy", "entropy"),
        ("completions/clipped_ratio", "cut_pct"),
    ):
        if key in pairs:
            value = number(pairs[key])
            if value is not None:
                row[name] = value
    for key, factor in (("memory(GiB)", 1024.0), ("vram_reserved", 1024.0)):
        value = number(pairs.get(key))
        if value is not None:
            row["memory_mb"] = value * factor
    place = (pairs.get("global_step/max_steps") or pairs.get("iteration", "")).partition("/")
    if place[1] and place[0].isdigit() and place[2].isdigit():
        row["step"], row["total_steps"] = int(place[0]), int(place[2])
    if "cut_pct" in row:
        row["cut_pct"] *= 100.0
    if "reward" in row and math.isfinite(row.get("loss", math.nan)):
        # The loss of a policy says nothing by its value.
        del row["loss"]
    seconds, rate = row.pop("s_per_it", None), row.pop("it_per_s", None)
    if seconds:
        row["step_time_ms"] = seconds * 1000.0
    elif rate:
        row["step_time_ms"] = 1000.0 / rate
    for name in ("step", "total_steps"):
        if name in row and math.isfinite(row[name]):
            row[name] = int(row[name])
        else:
            row.pop(name, None)
    return row


class _Pace:
    """Works out the time of a step from how much time had passed at two of them."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None

    def take(self, step: int | None, elapsed_ms: float | None) -> float | None:
        if step is None or elapsed_ms is None:
            return None
        last, self._last = self._last, (step, elapsed_ms)
        if last is None or step <= last[0] or elapsed_ms < last[1]:
            return None
        return (elapsed_ms - last[1]) / (step - last[0])


class Dictionaries(Extractor):
    """Python dictionaries with single quotes, printed at every logging step."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            "{'loss': 1.4596, 'grad_norm': nan, 'learning_rate': 4.552255167404752e-06, 'epoch': 0.66}",
            "train_steps",
            ({"framework": "hf", "loss": 1.4596, "epoch": 0.66, "lr": 4.552255167404752e-06},),
        ),
        Sample(
            "{'loss': '1.89', 'grad_norm': '0.5', 'learning_rate': '0.0002', 'epoch': '0.18'}",
            "train_steps",
            ({"loss": 1.89, "grad_norm": 0.5, "lr": 0.0002},),
        ),
        Sample(
            "{'loss': 0.75, 'grad_norm': 1.25, 'learning_rate': 9.1e-05, 'memory(GiB)': 40.5, 'train_speed(s/it)': 6.5,"
            " 'epoch': 0.11, 'global_step/max_steps': '10/93', 'elapsed_time': '1m 2s', 'remaining_time': '8m 41s'}",
            "train_steps",
            ({"step": 10, "total_steps": 93, "step_time_ms": 6500.0, "memory_mb": 40.5 * 1024},),
        ),
        Sample(
            "{'loss': 0.65, 'load_balancing_loss': 1.0, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'iteration':"
            " '10/100', 'elapsed_time': '1m 2s', 'memory(GiB)': 50.25, 'train_speed(iter/s)': 0.16}",
            "train_steps",
            ({"step": 10, "total_steps": 100, "step_time_ms": 6250.0, "memory_mb": 50.25 * 1024},),
        ),
        Sample(
            "  4% 9/200 [03:00<1:04:17, 20.20s/it]{'loss': '-0.0074', 'grad_norm': '0.25', 'learning_rate': '9.6e-07',"
            " 'completions/clipped_ratio': '0.25', 'reward': '0.9688', 'reward_std': '0.17', 'entropy': '0.025',"
            " 'epoch': '0.04'}",
            "train_steps",
            (
                {"framework": "tqdm", "step": 9, "step_time_ms": 20200.0},
                {"step": 9, "loss": None, "reward": 0.9688, "entropy": 0.025, "cut_pct": 25.0, "grad_norm": 0.25},
            ),
        ),
        Sample(
            "[INFO|callbacks.py:310] 2026-01-02 03:04:05,123 >> {'loss': np.float64(0.75), 'learning_rate': 4.8000e-05,"
            " 'epoch': 0.20, 'throughput': 1200.12}",
            "train_steps",
            ({"loss": 0.75, "lr": 4.8e-05, "tokens_per_s": 1200.12, "time": 1767323045123000},),
        ),
        Sample(
            "{'eval_loss': 1.21, 'eval_runtime': 30.2, 'epoch': 1.0}",
            "train_events",
            ({"kind": "validation", "name": "eval_loss", "value": 1.21},),
        ),
        Sample(
            "{'train_runtime': 871.787, 'train_samples_per_second': 1.147, 'train_loss': 1.31, 'epoch': 1.0}",
            "train_events",
            ({"kind": "end"},),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._pace = _Pace()
        self._ends = 0

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Take a dictionary that is one of the trainer's."""
        start = text.find("{'")
        if start < 0:
            return False
        pairs = dict(_PAIR.findall(text, start))
        sink = self.sink
        if "train_runtime" in pairs:
            total = number(pairs.get("train_loss"))
            if total is not None and total != total:
                sink.add_event("validation", number_, name="train_loss", value=total)
            # Every rank prints it.
            self._ends += 1
            if self._ends <= 8:
                sink.add_event("end", number_)
            return False
        if "eval_loss" in pairs:
            value = number(pairs["eval_loss"])
            if value is not None:
                sink.add_event("validation", number_, name="eval_loss", value=value)
        if "loss" not in pairs or not (_BESIDE & pairs.keys()):
            return False
        row = _fields(pairs)
        row["line"] = number_
        row["framework"] = "hf"
        if worker := worker_of(peeled):
            row["worker"] = worker
        bar = sink.bars.get("train")
        if bar is not None and "step" not in row:
            row["step"], row["total_steps"] = bar[0], bar[1]
            took = self._pace.take(bar[0], bar[2])
            if took and "step_time_ms" not in row:
                row["step_time_ms"] = took
        time = sink.time_of(text, peeled, number_)
        if time is not None:
            row["time"] = time
        sink.add_step(row)
        return True


class TrainerLog(Extractor):
    """One JSON object per line: LLaMA-Factory's trainer_log.jsonl, ms-swift's logging.jsonl."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            '{"current_steps": 10, "total_steps": 6750, "loss": 2.219, "lr": 1.3e-06, "epoch": 0.0044, "percentage":'
            ' 0.15, "elapsed_time": "0:00:32", "remaining_time": "6:01:13"}\n'
            '{"current_steps": 20, "total_steps": 6750, "loss": 2.1, "lr": 2.6e-06, "epoch": 0.0089, "percentage":'
            ' 0.3, "elapsed_time": "0:01:02", "remaining_time": "6:01:13"}',
            "train_steps",
            (
                {"step": 10, "total_steps": 6750, "loss": 2.219, "lr": 1.3e-06, "framework": "trainer-log"},
                {"step": 20, "step_time_ms": 3000.0},
            ),
        ),
        Sample(
            '{"current_steps": 5, "total_steps": 8712, "loss": 1.7484, "eval_loss": null, "predict_loss": null,'
            ' "reward": null, "learning_rate": 4.99e-05, "epoch": 0.0, "percentage": 0.06, "elapsed_time": "0:03:29",'
            ' "remaining_time": "4 days, 5:06:09"}',
            "train_steps",
            ({"step": 5, "lr": 4.99e-05, "loss": 1.7484},),
        ),
        Sample(
            '{"loss": 0.75, "grad_norm": 1.25, "learning_rate": 9.1e-05, "memory(GiB)": 40.5, "train_speed(s/it)": 6.5,'
            ' "epoch": 0.11, "global_step/max_steps": "10/93", "percentage": "10.75%", "elapsed_time": "1m 2s"}\n'
            '{"lm loss": 1.5, "grad_norm": 0.5, "learning_rate": 1e-05, "iteration": "20/93", "elapsed_time": "2m 2s",'
            ' "train_speed(s/it)": 6.25, "memory(GiB)": 50.25}',
            "train_steps",
            (
                {"step": 10, "total_steps": 93, "step_time_ms": 6500.0, "grad_norm": 1.25},
                {"step": 20, "total_steps": 93, "loss": 1.5, "step_time_ms": 6250.0},
            ),
        ),
        Sample(
            '{"current_steps": 5, "total_steps": 60, "loss": 0.0123, "reward": 0.75, "lr": 1e-06, "epoch": 0.1,'
            ' "percentage": 8.3, "elapsed_time": "0:01:40", "remaining_time": "0:18:20"}',
            "train_steps",
            ({"step": 5, "loss": None, "reward": 0.75},),
        ),
        Sample(
            '{"current_steps": 500, "total_steps": 5100, "eval_loss": 0.5, "epoch": 0.5, "percentage": 9.8,'
            ' "elapsed_time": "1:00:00", "remaining_time": "9:00:00", "vram_reserved": 30.25}',
            "train_events",
            ({"kind": "validation", "step": 500, "value": 0.5},),
        ),
    )

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._pace = _Pace()

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Take one object."""
        start = text.find("{")
        try:
            found = json.loads(text[start:]) if start >= 0 else None
        except (ValueError, RecursionError):
            return False
        if not isinstance(found, dict):
            return False
        pairs = {key: str(value) for key, value in found.items() if isinstance(value, (str, int, float))}
        row = _fields(pairs)
        value = number(pairs.get("eval_loss"))
        if value is not None:
            self.sink.step = row.get("step", self.sink.step)
            self.sink.add_event("validation", number_, name="eval_loss", value=value)
        if not _TRAINED & row.keys():
            return False
        took = self._pace.take(row.get("step"), _clock_ms(pairs.get("elapsed_time", "")))
        if took and "step_time_ms" not in row:
            row["step_time_ms"] = took
        self.sink.add_step({**row, "line": number_, "framework": "trainer-log"})
        return True


class TrainerState(Extractor):
    """``log_history`` of trainer_state.json, whether on one line or one value per line."""

    samples: ClassVar[tuple[Sample, ...]] = (
        Sample(
            '{\n  "epoch": 2.0,\n  "global_step": 20,\n  "log_history": [\n    {\n      "epoch": 0.5,\n'
            '      "grad_norm": 4.5,\n      "learning_rate": 0.0001,\n      "loss": 2.5,\n      "step": 10\n    },\n'
            '    {\n      "epoch": 1.0,\n      "eval_loss": 2.25,\n      "step": 10\n    }\n  ],\n  "max_steps": 20\n}',
            "train_steps",
            ({"line": 9, "step": 10, "loss": 2.5, "grad_norm": 4.5, "lr": 0.0001, "framework": "trainer-state"},),
        ),
        Sample(
            '{"global_step": 20, "log_history": [{"epoch": 0.5, "learning_rate": 0.0001, "loss": 2.5, "step": 10},'
            ' {"epoch": 1.0, "eval_loss": 2.25, "step": 10}], "max_steps": 20}',
            "train_events",
            ({"kind": "validation", "step": 10, "value": 2.25},),
        ),
    )

    def read(self, number_: int, text: str, peeled: Peeled) -> bool:
        """Take all objects of the history, on this line or on the ones that follow."""
        history = text.partition('"log_history"')[2]
        if "{" in history:
            for found in re.findall(r"\{[^{}]*\}", history[:_LONGEST]):
                self._object(dict(_PAIR.findall(found)), number_, self.sink.raw)
            return False
        held: dict[str, str] = {}
        where: tuple[int, str] = (number_, "")

        def line(at: int, part: str) -> bool:
            nonlocal where
            if part.lstrip().startswith("]"):
                return False
            if part.lstrip().startswith("}"):
                self._object(held, *where)
                held.clear()
                return True
            if len(held) < 100:
                for key, value in _PAIR.findall(part):
                    held[key] = value
                    if key in ("loss", "eval_loss"):
                        where = (at, self.sink.raw)
            return True

        self.sink.follow[(peeled.worker, peeled.rank, peeled.pid)] = line
        return False

    def _object(self, pairs: dict[str, str], line: int, raw: str) -> None:
        row = _fields(pairs)
        value = number(pairs.get("eval_loss"))
        if value is not None:
            self.sink.add_event("validation", line, step=row.get("step"), name="eval_loss", value=value)
        if _TRAINED & row.keys():
            self.sink.add_step({**row, "line": line, "framework": "trainer-state"}, raw)
