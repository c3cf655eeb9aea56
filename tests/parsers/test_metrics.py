"""Every extractor reads the samples it carries, through the console parser."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from npudiag.parsers.base import Partial
from npudiag.parsers.metrics import REGISTRY, Sample, extractor
from npudiag.parsers.scan import Literals
from npudiag.reading import texts

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


def bars(took: list[float], total: int, label: str = "", loss: bool = False) -> list[str]:
    """Return the bars tqdm draws for steps that took so many seconds."""
    out: list[str] = []
    smooth = weight = spent = 0.0
    for step, seconds in enumerate(took, 1):
        spent += seconds
        smooth, weight = 0.3 * seconds + 0.7 * smooth, 0.3 + 0.7 * weight
        told = f", loss={step}.5" if loss else ""
        clock = f"{int(spent) // 60:02}:{int(spent) % 60:02}<1:00:00, {smooth / weight:5.2f}s/it{told}"
        out.append(f"{label}{100 * step // total:3}%|{'#' * (10 * step // total):<10}| {step}/{total} [{clock}]")
    return out


TOOK = [7.0 + (33.0 if step % 10 == 0 else step % 3 / 10) for step in range(1, 61)]


@pytest.mark.parametrize("label", ["", "Train: ", "Epoch 1/2: ", "Epoch 0: : "])
@pytest.mark.parametrize("loss", [False, True])
def test_bars_of_one_line_give_the_rows_of_bars_on_lines_of_their_own(label: str, loss: bool) -> None:
    drawn = bars(TOOK, 60, label, loss)
    apart = rows("\n".join(drawn), "train_steps")
    for between in ("\r", "\r\r", "\x1b[A\r", "\x1b[1G"):
        together = rows("start\n" + between.join(drawn) + "\nend", "train_steps")
        assert {row.pop("line") for row in together} == {2}
        assert together == [{name: value for name, value in row.items() if name != "line"} for row in apart]
    assert [row["step"] for row in apart] == list(range(1, 61))


def test_the_average_of_a_bar_is_undone() -> None:
    drawn = bars(TOOK, 60)
    found = rows("\n".join(["  0%|          | 0/60 [00:00<?, ?it/s]", *drawn]), "train_steps")
    assert [row["step_time_ms"] / 1000 for row in found] == pytest.approx(TOOK, abs=0.05)
    # An excerpt begins with an average of unknown past, and is right soon.
    later = rows("\n".join(drawn[20:]), "train_steps")
    assert [row["step_time_ms"] / 1000 for row in later[4:]] == pytest.approx(TOOK[24:], abs=0.3)
    # Where bars are missing, or the clock says something else, what is printed stands.
    clock = [re.sub(r"\d\d:\d\d<", "00:10<", bar) for bar in drawn]
    assert rows("\n".join(clock), "train_steps")[20]["step_time_ms"] == pytest.approx(15750, abs=2000)


def test_bars_of_epochs_are_counted_through() -> None:
    text = "\r".join(bar for epoch in (1, 2, 3) for bar in bars([2.0] * 20, 20, f"Epoch {epoch}: "))
    found = rows(text, "train_steps")
    assert [row["step"] for row in found] == list(range(1, 61))
    assert found[-1]["epoch"] == 3.0


def test_bars_of_an_evaluation_are_not_steps() -> None:
    drawn = bars([7.0] * 30, 30)
    evaluation = "\n".join(f"\r{bar}\x1b[A" for bar in bars([1.0] * 12, 12))
    text = "\r".join(drawn[:15]) + "\n" + evaluation + "\r\x1b[A\r{'eval_loss': 1.5}\n" + "\r".join(drawn[15:])
    found = rows(text, "train_steps")
    assert [row["step"] for row in found] == list(range(1, 31))
    assert rows(text, "train_events")[0]["step"] == 15


def test_bars_of_several_nodes_are_told_apart() -> None:
    nodes = [[f"10.0.0.{node}: {bar}" for bar in bars(TOOK, 60)] for node in (1, 2)]
    found = rows("\n".join(bar for pair in zip(*nodes, strict=True) for bar in pair), "train_steps")
    for node in (1, 2):
        mine = [row for row in found if row["worker"] == f"10.0.0.{node}"]
        assert [row["step"] for row in mine] == list(range(1, 61))
        assert [row["step_time_ms"] / 1000 for row in mine[20:]] == pytest.approx(TOOK[20:], abs=0.3)


def test_a_loop_over_data_is_none_of_training() -> None:
    data = [f"{n:3}%|#| {n * 500}/50000 [00:{n // 10:02}<00:05, 5000.00it/s]" for n in range(1, 100)]
    found = rows("\n".join(data + bars([2.0] * 20, 20)), "train_steps")
    assert [row["step"] for row in found] == list(range(1, 21))


def test_a_dictionary_belongs_to_the_step_of_the_bar_it_stands_behind() -> None:
    drawn = bars([7.0] * 12, 12)
    told = "{{'loss': {0}.0, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1}}"
    text = "\r".join([*drawn[:5], drawn[5] + told.format(6), *drawn[6:10], " " * 70, told.format(10), *drawn[10:]])
    found = rows(text, "train_steps")
    assert [(row["step"], row["loss"]) for row in found if row["framework"] == "hf"] == [(6, 6.0), (10, 10.0)]
    assert sum(row["framework"] == "tqdm" for row in found) == 12


def test_long_loops_are_thinned_evenly() -> None:
    total = 1_000_000
    text = "\n".join(f"{step * 100 // total:3}%|#| {step}/{total} [01:00<9:00:00, 20.00it/s]" for step in range(1, 401))
    assert [row["step"] for row in rows(text, "train_steps")] == list(range(1, 401, 4))


def test_each_step_of_a_line_keeps_its_text() -> None:
    drawn = bars(TOOK, 60)
    partial = parse("\r".join(drawn) + "\n")
    assert partial.quotes_by_step[1] == dict(enumerate(drawn, 1))
    apart = parse("\n".join(drawn))
    assert apart.quotes_by_step == {} and list(apart.quotes.values()) == drawn


def test_lines_without_a_time_are_not_as_late_as_the_stamp_before_them() -> None:
    step = "{'loss': 2.0, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1}\n"
    first, last = (f"[2026-01-02 {hour}:00:00,000] [INFO] [a.py:1:b] torch_npu\n" for hour in ("03", "09"))
    partial = texts({"a.log": first + 300 * step + last + last}, Literals(("'loss': ",), (False,))).partials[0]
    assert "train_events" not in partial.columns
    assert partial.last_us is not None and partial.first_us is not None
    assert partial.last_us - partial.first_us == 6 * 3600 * 1_000_000


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
