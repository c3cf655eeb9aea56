"""Megatron-LM and what is built on it: MindSpeed-LLM (mcore and FSDP2), Megatron-DeepSpeed.

A loss is printed only where its average is above zero, so a NaN makes the field vanish. Lines may be wrapped by
terminals and mails, with blanks put in or lost anywhere: keys are compared without blanks.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from npudiag.parsers import headers
from npudiag.parsers.metrics.base import Extractor, Key, Sample, Sink, worker_of
from npudiag.parsers.metrics.base import number as _number
from npudiag.parsers.metrics.prepared import LEAST, Prepared, striking
from npudiag.parsers.prefixes import Peeled

_HEAD = re.compile(
    r"(?:\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(?P<micro>\d{1,6}))?\] *(?:>>)? *)?"
    r"\biteration:? +(?P<step>\d{1,12})(?: */ *(?P<total>\d{1,12}))? *\|"
)
_AHEAD = (
    r"^([^|\n]{0,120}?(?:\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\] *(?:>>)? *)?"
    r"\biteration:? +(\d{1,12})(?: */ *(\d{1,12}))? *\|"
)
"""The same ahead of the fields of a whole line, for many lines at once."""
_VALUE = r"([^|\n]*)"
_MOST_LINES = 4


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        value = _number(text.partition("/")[0])
        if value is None or not math.isfinite(value):
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


def _column(values: Sequence[str], convert: Callable[[str], Any]) -> array[int] | array[float]:
    """Return values as a column; many fields hold the same in all lines.

    Raises:
        ValueError: A value is no number.
    """
    code = "q" if convert in (int, _whole) else "d"
    if len(set(values)) == 1:
        return array(code, [convert(values[0])]) * len(values)
    return array(code, map(convert, values))


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
        self._many: re.Pattern[str] | None = None
        self._body = ""
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
        layout = self._layout
        found = layout[0].match(text, match.end()) if layout is not None else None
        if found is None and (again := _HEAD.search(text, match.end())) is not None:
            # Two processes, or a restart, wrote into one line.
            self._row(line, text[: again.start()], match, worker, raw)
            self._row(line, text, again, worker, raw)
            return
        time, micro, step, total = match.groups()
        row: dict[str, Any] = {"line": line, "framework": "megatron", "step": int(step)}
        if worker is not None:
            row["worker"] = worker
        if total:
            row["total_steps"] = int(total)
        if time:
            row["time"] = self._time(time, micro)
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
                pattern.append(re.escape(key) + (r"[^|\n]*" if value else re.escape(part[len(key) :])))
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
            pattern.append(re.escape(key) + ":" + _VALUE)
            takes.append(take)
        names = [name for name, _ in takes]
        if clean and takes and len(set(names)) == len(names) and len(pattern) < 40:
            body = r"\|".join(pattern)
            if body != self._body:
                self._body = body
                self._layout = (re.compile(body + r"\Z"), tuple(takes))
                self._many = None

    def prepare(self, lines: str) -> Prepared | None:
        """Read all lines that are built like the last one that was read key by key."""
        if self._layout is None:
            return None
        if self._many is None:
            body = self._body.replace(_VALUE, " *([^|\\n ]*) *")
            self._many = re.compile(_AHEAD + body + ")$", re.MULTILINE)
        found = self._many.findall(lines)
        if len(found) < LEAST:
            return None
        raws, stamps, micros, steps, totals, *fields = zip(*found, strict=True)
        takes = self._layout[1]
        try:
            columns: dict[str, array[int] | array[float]] = {"step": _column(steps, int)}
            if any(totals):
                columns["total_steps"] = _column(totals, int)
            if any(stamps):
                columns["time"] = array("q", map(self._time, stamps, micros))
            for (name, convert), values in zip(takes, fields, strict=True):
                columns[name] = _column(values, convert)
        except (ValueError, OverflowError):
            return None
        other = columns.pop("", None)
        if other is not None:
            columns.setdefault("loss", other)
        flags = striking(columns, len(found), *self.sink.striking_after())
        if flags is None:
            # What is not finite is worth a closer look, line by line.
            return None
        # Of a line that stands there twice, the first row counts: the second one never stands out.
        places = dict(zip(reversed(raws), range(len(raws) - 1, -1, -1), strict=True))
        return Prepared("megatron", places, columns, flags)

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
