"""Logs of weight conversion and preprocessing."""

from __future__ import annotations

import pytest

from npudiag.parsers.base import Partial
from npudiag.parsers.metrics.base import Sample
from npudiag.parsers.metrics.tools import Conversion, Preprocessing
from npudiag.parsers.scan import Literals
from npudiag.reading import texts


def parse(text: str) -> Partial:
    return texts({"a.log": text}, Literals()).partials[0]


@pytest.mark.parametrize("sample", [*Conversion.samples, *Preprocessing.samples])
def test_what_is_told_at_the_end_quotes_the_line_that_said_it(sample: Sample) -> None:
    partial = parse(sample.text)
    lines = sample.text.split("\n")
    for name in ("launch", "train_events"):
        for row in partial.columns[name].rows() if name in partial.columns else ():
            assert partial.quotes[row["line"]] == lines[row["line"] - 1]


def test_others_tell_a_vocabulary_too() -> None:
    partial = parse("model config:\nVocab size: 32000\n" + "loading\n" * 20 + "Output prefix: /data/x\n")
    kinds = [row["name"] for row in partial.columns["train_events"].rows()] if "train_events" in partial.columns else []
    assert "vocabulary" not in kinds


def test_a_namespace_of_another_program_is_none_of_a_conversion() -> None:
    partial = parse("Arguments: Namespace(model='a', load_dir='/x', tensor_parallel=4)\n")
    assert "launch" not in partial.columns


def test_the_first_conversion_in_a_log_counts() -> None:
    one = "Arguments: Namespace(load_dir='/a', save_dir='/b', save_model_type='mg', target_tensor_parallel_size={})\n"
    rows = parse(one.format(2) + one.format(4)).columns["launch"].rows()
    assert [row["value"] for row in rows if row["key"] == "--target-tensor-parallel-size"] == ["2"]
