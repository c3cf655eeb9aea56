"""Every extractor reads the samples it carries, through the console parser."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from npudiag.ingest import texts
from npudiag.parsers.base import Partial
from npudiag.parsers.metrics import REGISTRY, Sample, extractor
from npudiag.parsers.scan import Literals

CASES = [
    pytest.param(sample, id=f"{module}-{name}-{number}")
    for module, name, _ in REGISTRY
    for number, sample in enumerate(extractor(module, name).samples)
]


def parse(text: str) -> Partial:
    return texts({"a.log": text}, Literals()).partials[0]


def rows(text: str, table: str) -> list[dict[str, Any]]:
    columns = parse(text).columns.get(table)
    return list(columns.rows()) if columns is not None else []


@pytest.mark.parametrize("sample", CASES)
def test_samples(sample: Sample) -> None:
    found = [row for row in rows(sample.text, sample.table) if row.get("kind") != "silence"]
    assert len(found) == len(sample.rows), found
    for row, expected in zip(found, sample.rows, strict=True):
        for name, value in expected.items():
            got = row[name]
            assert got == (pytest.approx(value) if isinstance(value, float) else value), (name, row)


def test_every_extractor_has_samples() -> None:
    assert all(extractor(module, name).samples for module, name, _ in REGISTRY)


LINE = (
    " iteration {step:8d}/    1000 | consumed samples: {step:12d} | elapsed time per iteration (ms): 500.0 |"
    " learning rate: 1.000E-05 | global batch size:     4 | lm loss: {loss} | loss scale: 1.0 | grad norm: 1.0 |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |"
)


def test_nan_is_a_value_and_missing_is_not() -> None:
    text = "\n".join([LINE.format(step=1, loss="nan"), LINE.format(step=2, loss="1.0").replace("lm loss: 1.0 |", "")])
    first, second = rows(text, "train_steps")
    assert math.isnan(first["loss"]) and second["loss"] is None


def test_half_a_last_line_is_read_as_far_as_it_goes() -> None:
    text = "\n".join([LINE.format(step=1, loss="2.0"), LINE.format(step=2, loss="1.9")[:150]])
    found = rows(text, "train_steps")
    assert [row["step"] for row in found] == [1, 2]
    assert found[1]["loss"] is None and found[1]["step_time_ms"] == 500.0


def test_ranks_may_write_in_between() -> None:
    text = "\n".join(
        f"[default{worker}]:{LINE.format(step=step, loss='1.5')}" for step in (1, 2, 3) for worker in (6, 7)
    )
    found = rows(text, "train_steps")
    assert len(found) == 6 and {row["worker"] for row in found} == {"default6", "default7"}


def test_the_text_of_a_wrapped_line_is_kept_whole() -> None:
    cut = LINE.format(step=7, loss="2.5")
    partial = parse(f"{cut[:120]}\n{cut[120:240]}\n{cut[240:]}\nnext")
    assert partial.quotes[1].split("\n") == [cut[:120], cut[120:240], cut[240:]]


def test_quotes_are_bounded_and_keep_what_stands_out() -> None:
    lines = [LINE.format(step=step, loss="nan" if step == 4321 else "2.0") for step in range(1, 6001)]
    partial = parse("\n".join(lines))
    assert partial.columns["train_steps"].size == 6000
    assert len(partial.quotes) < 1000
    assert {1, 4321, 6000} <= partial.quotes.keys()


def test_lines_in_a_table_are_still_counted() -> None:
    partial = parse("\n".join(LINE.format(step=step, loss="2.0") for step in range(500)))
    assert sum(partial.counts.values()) == 500


def test_progress_bars_give_trainer_lines_their_step() -> None:
    text = (
        "  1%|          | 10/1000 [00:20<33:00,  2.00s/it]\r"
        "{'loss': 2.0, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1}\n"
        "  2%|          | 20/1000 [00:45<33:00,  2.40s/it]\r"
        "{'loss': 1.9, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.2}\n"
    )
    found = [row for row in rows(text, "train_steps") if row["framework"] == "hf"]
    assert [row["step"] for row in found] == [10, 20]
    assert found[1]["step_time_ms"] == 2500.0


NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
EXTREME = ("inf", "9" * 400, "nan", "-1", "1e400", "9" * 5000, "", "None", "1/2", "0")


@pytest.mark.parametrize("module", sorted({module for module, _, _ in REGISTRY}))
def test_no_number_breaks_a_parser(module: str) -> None:
    for other, name, _ in REGISTRY:
        for sample in extractor(other, name).samples if other == module else ():
            for value in EXTREME:
                parse(NUMBER.sub(value, sample.text))
            for value in EXTREME[:2]:
                for match in list(NUMBER.finditer(sample.text))[:40]:
                    parse(sample.text[: match.start()] + value + sample.text[match.end() :])


@pytest.mark.parametrize(
    "text",
    [
        "iteration 1/2 | elapsed time per iteration (ms): | lm loss: x | grad norm: --3 | : |",
        "iteration 99999999999999999999/1 | consumed samples: 9e999 | elapsed time per iteration (ms): 1e400 |",
        "{'loss': ['a'], 'epoch': {}}",
        '{"current_steps": {"a": [1]}, "loss": "x"}',
        '{"current_steps": 1' + "[" * 5000,
        '"log_history": [',
        "step:1 - a:b - :::",
        "| AICore(%) |\n| 0 x | OK | |\n| 0 | 0000:01:00.0 | |",
        "time,dev_id,power\n1,2\n,,,\n9e99,1,1",
        "INFO Avg prompt throughput: .. tokens/s, Running: 99999999999999999999999 reqs",
    ],
)
def test_nonsense_does_no_harm(text: str) -> None:
    parse(text + "\n")
    parse(text)
