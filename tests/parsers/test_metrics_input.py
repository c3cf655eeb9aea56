"""Numbers are read out of damaged input: cut, glued, wrapped and interleaved lines, stamps without a year."""

from __future__ import annotations

import datetime
import io
from array import array
from typing import Any

import pytest

from npudiag.discover.source import Identity, Source
from npudiag.parsers.base import Context
from npudiag.parsers.console import ConsoleParser
from npudiag.parsers.metrics import years
from npudiag.parsers.metrics.wrapped import width
from npudiag.parsers.scan import Literals, Scanner
from npudiag.reading import texts
from npudiag.tables.columns import Columns

MEGATRON = (
    " [2026-03-02 10:11:{step:02d}] iteration {step:8d}/    1000 | consumed samples: {step:12d} | elapsed time per"
    " iteration (ms): 500.0 | throughput per GPU (TFLOP/s/GPU): 134.0 | learning rate: 1.000000E-05 | global batch"
    " size:     4 | lm loss: 2.5{step:02d}000E+00 | loss scale: 1.0 | grad norm: 1.250 | number of skipped iterations:"
    "   0 | number of nan iterations:   0 |"
)
HF = (
    "{{'loss': 1.{step:02d}, 'grad_norm': 1.25, 'learning_rate': 4.552255167404752e-06, 'rewards/chosen': 0.123456,"
    " 'rewards/rejected': 0.25, 'logps/chosen': -123.5, 'logps/rejected': -200.1, 'epoch': 0.{step:02d}}}"
)
VLLM = (
    "(APIServer pid=1173) INFO 05-06 14:22:{step:02d} [loggers.py:259] Engine 000: Avg prompt throughput: 0.0 tokens/s,"
    " Avg generation throughput: 2.4 tokens/s, Running: {step} reqs, Waiting: 0 reqs, GPU KV cache usage: 82.7%, Prefix"
    " cache hit rate: 2.6%"
)
VERL = (
    "(TaskRunner pid=16) step:{step} - "
    + " - ".join(f"critic/part{number}/mean:{number}.500" for number in range(40))
    + " - actor/grad_norm:0.{step:02d} - timing_s/gen:74.020 - timing_s/step:96.551"
)


def rows(text: str, table: str = "train_steps") -> list[dict[str, Any]]:
    columns = texts({"a.log": text}, Literals()).partials[0].columns.get(table)
    return [] if columns is None else list(columns.rows())


def wrapped(text: str, size: int) -> str:
    return "\n".join(text[at : at + size] for at in range(0, len(text), size))


@pytest.mark.parametrize(
    ("size", "prefix"),
    [(80, ""), (132, ""), (180, ""), (200, ""), (100, "[default7]:"), (180, "[default7]:"), (181, "[rank3]: ")],
)
def test_lines_wrapped_at_a_width_are_whole_again(size: int, prefix: str) -> None:
    found = rows("\n".join(wrapped(prefix + MEGATRON.format(step=step), size) for step in range(1, 6)))
    assert [row["step"] for row in found] == [1, 2, 3, 4, 5]
    assert [row["loss"] for row in found] == [2.501, 2.502, 2.503, 2.504, 2.505]
    assert all(row["grad_norm"] == 1.25 and row["nan_iterations"] == 0 for row in found)


@pytest.mark.parametrize(
    ("line", "table", "column", "values"),
    [
        (HF, "train_steps", "epoch", [0.01, 0.02, 0.03]),
        (VLLM, "serving", "prefix_hit_pct", [2.6, 2.6, 2.6]),
        (VERL, "train_steps", "step_time_ms", [96551.0, 96551.0, 96551.0]),
    ],
    ids=["hf", "vllm", "verl"],
)
def test_other_frameworks_lines_are_whole_again(line: str, table: str, column: str, values: list[float]) -> None:
    found = rows("\n".join(wrapped(line.format(step=step), 180) for step in (1, 2, 3)), table)
    assert [row[column] for row in found] == values


def test_wrapped_lines_of_two_ranks() -> None:
    lines = [f"[default{worker}]:{MEGATRON.format(step=step)}" for step in (1, 2, 3) for worker in (6, 7)]
    found = rows("\n".join(wrapped(line, 180) for line in lines))
    assert [(row["worker"], row["step"]) for row in found] == [
        (f"default{worker}", step) for step in (1, 2, 3) for worker in (6, 7)
    ]
    assert all(row["grad_norm"] == 1.25 for row in found)


def test_lines_of_equal_length_are_not_taken_as_wrapped() -> None:
    lines = [MEGATRON.format(step=step) for step in range(1, 30)]
    assert len({len(line) for line in lines}) == 1
    assert len(rows("\n".join(lines))) == 29
    every = [text for line in lines for text in (line, "(min, max) time across ranks (ms):")]
    asked = [("consumed samples", 0), ("across ranks (ms)", 1)]
    for text in (lines, every, [*lines, "something else", *lines, "something else"]):
        assert width(text, asked) == 0


def test_bars_behind_lines_of_equal_length_do_not_belong_to_them() -> None:
    line = "{'loss': 1.2345, 'grad_norm': 0.12345678, 'learning_rate': 1.2345678e-05, 'epoch': 0.12}"
    text = [part for step in range(10) for part in (line, f" 10%|#   | {step}/100 [00:10<00:30, 1.00s/it]")]
    assert width(text, [("'loss': ", 0), ("s/it", 1)]) == 0


def test_tables_are_not_taken_as_wrapped() -> None:
    table = ["+" + "-" * 98 + "+", "| Chip | Bus-Id " + " " * 83 + "|"] * 4
    assert width([*table, "end of it", *table, "end of it"], [("| Bus-Id", 0)]) == 0


@pytest.mark.parametrize("between", [[], ["2026-05-12 09:40:08"], ["Tue May 12 09:40:08 2026"], [""]], ids=str)
def test_rows_as_long_as_their_header_are_not_its_rest(between: list[str]) -> None:
    header = "NpuID(Idx)  ChipId(Idx) Pwr(W)      Temp(C)     AI Core(%)  AI Cpu(%)   Ctrl Cpu(%) Memory(%)   "
    reading = [
        f"{card}           0           111.8       45          33          0           3           71"
        for card in range(8)
    ]
    text = "\n".join(
        line for _ in range(5) for line in [*between, header, *(row.ljust(len(header)) for row in reading)]
    )
    assert len(rows(text, "npu_samples")) == 40


def test_two_iterations_in_one_line() -> None:
    found = rows(MEGATRON.format(step=1)[:-1] + MEGATRON.format(step=2) + "\n" + MEGATRON.format(step=3))
    assert [(row["step"], row["loss"]) for row in found] == [(1, 2.501), (2, 2.502), (3, 2.503)]


@pytest.mark.parametrize("keep", [40, 120, 200, 300])
@pytest.mark.parametrize("line", [MEGATRON, HF, VERL], ids=["megatron", "hf", "verl"])
def test_half_a_last_line_spoils_nothing(line: str, keep: int) -> None:
    whole = [line.format(step=step) for step in (1, 2)]
    found = rows("\n".join([*whole, line.format(step=3)[:keep]]))
    assert found[:2] == rows("\n".join(whole))
    for row in found[2:]:
        assert row["loss"] is None or row["loss"] in (1.03, 1.0, 2.503)


def test_half_a_json_object_is_left_out() -> None:
    whole = '{"current_steps": 10, "total_steps": 100, "loss": 2.0, "lr": 1e-5, "elapsed_time": "0:01:00"}\n'
    assert [row["step"] for row in rows(whole + '{"current_steps": 20, "total_steps": 100, "lo')] == [10]


def test_starts_appended_to_one_file_are_told_apart() -> None:
    from npudiag.analyses import runs
    from npudiag.tables.store import Store

    lines = [MEGATRON.format(step=step) for step in (1, 2, 3, 4, 3, 4, 5, 1, 2)]
    store = Store()
    columns = texts({"a.log": "\n".join(lines)}, Literals()).partials[0].columns["train_steps"]
    store.take_over(columns)
    runs.number(store)
    assert [row["run"] for row in store.rows("train_steps")] == [0, 0, 0, 0, 1, 1, 1, 2, 2]


def parsed(text: str, year: int, written: datetime.datetime | None) -> list[datetime.datetime]:
    source = Source("a.log", None, None, None, Identity())
    context = Context(source, Scanner(Literals()), year=year)
    if written is not None:
        context.written_us = (written - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    data = text.encode()
    columns = ConsoleParser().parse(io.BytesIO(data), b"", context).columns["serving"]
    epoch = datetime.datetime(1970, 1, 1)
    return [epoch + datetime.timedelta(microseconds=row["time"]) for row in columns.rows()]


def statistic(stamp: str) -> str:
    return VLLM.format(step=1).replace("05-06 14:22:01", stamp) + "\n"


def test_the_year_of_another_stamp_is_that_of_the_metrics() -> None:
    text = statistic("05-06 14:22:01") + "2024-05-06 14:22:05,123 - INFO - something else\n"
    assert parsed(text, 2026, None) == [datetime.datetime(2024, 5, 6, 14, 22, 1)]


def test_nothing_is_later_than_the_file() -> None:
    written = datetime.datetime(2026, 2, 1)
    assert parsed(statistic("11-30 10:00:00"), 2026, written) == [datetime.datetime(2025, 11, 30, 10)]
    assert parsed(statistic("01-30 10:00:00"), 2026, written) == [datetime.datetime(2026, 1, 30, 10)]


def test_a_turn_of_the_year_is_followed() -> None:
    text = statistic("12-31 23:59:50") + statistic("01-01 00:00:00") + statistic("01-01 00:00:10")
    found = parsed(text, 2026, datetime.datetime(2026, 1, 2))
    assert found == [
        datetime.datetime(2025, 12, 31, 23, 59, 50),
        datetime.datetime(2026, 1, 1),
        datetime.datetime(2026, 1, 1, 0, 0, 10),
    ]


def test_a_leap_day_stays_where_it_is() -> None:
    day = (datetime.datetime(2024, 2, 29) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    assert years.moved(day, 2025) == day
    columns = Columns("serving")
    columns.append({"time": day})
    years.settle({"serving": columns}, {"serving": array("q", [0])}, 2025, None)
    assert columns.value("time", 0) == day


@pytest.mark.parametrize(
    "stamp", ["Tue Jan  6 03:04:05 2026", "Tue Jan  6 03:04:05 CST 2026", "2026-01-06 03:04:05"], ids=str
)
def test_readings_have_the_time_that_stands_above_them(stamp: str) -> None:
    table = (
        "| NPU   Name      | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|\n"
        "| Chip            | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |\n"
        "| 0     910B3     | OK            | 93.4        41                0    / 0             |\n"
        "| 0               | 0000:C1:00.0  | 37          0    / 0          53210/ 65536         |\n"
    )
    (row,) = rows(f"{stamp}\n+-----+\n{table}", "npu_samples")
    assert row["time"] == 1767668645000000 and row["util_pct"] == 37.0


def test_a_log_of_no_known_framework_is_read_as_plain_text_and_says_so() -> None:
    text = "".join(f"2026-03-02 10:11:{second:02d},123 INFO trainer: objective 2.5\n" for second in range(20))
    plain = texts({"own.log": text}, Literals()).partials[0]
    assert plain.kind == "console" and "plain text" in plain.note
    assert sum(plain.counts.values()) == 20 and plain.first_us is not None
    known = texts({"known.log": text + MEGATRON.format(step=1)}, Literals()).partials[0]
    assert known.note == ""
    nothing = texts({"odd.log": "Ep 1 | batch 10 | objective 2.5\n" * 3}, Literals()).partials[0]
    assert nothing.kind == "unknown"
