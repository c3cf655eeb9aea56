"""Protobuf text format, and Triton's configurations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudiag.parsers.pbtxt import read_text_format
from npudiag.parsers.scan import Literals
from npudiag.reading import texts

CONFIG = """\
name: "demo"  # a comment { with a brace
backend: "onnx"
  'runtime'
max_batch_size: 16
input [
  { name: "a" dims: [ -1, 3 ] },
  { name: "b", dims: 4; }
]
instance_group: < count: 2 kind: KIND_CPU >
version_policy: { latest: { num_versions: 1 } }
model_transaction_policy {}
parameters { key: "k" value: { string_value: "a \\"quoted\\" text" } }
"""


def test_every_form_is_read() -> None:
    assert list(read_text_format(CONFIG)) == [
        ("name", "demo", 1),
        ("backend", "onnxruntime", 2),
        ("max_batch_size", "16", 4),
        ("input.0.name", "a", 6),
        ("input.0.dims", "-1,3", 6),
        ("input.1.name", "b", 7),
        ("input.1.dims", "4", 7),
        ("instance_group.0.count", "2", 9),
        ("instance_group.0.kind", "KIND_CPU", 9),
        ("version_policy.0.latest.0.num_versions", "1", 10),
        ("model_transaction_policy.0", "", 11),
        ("parameters.0.key", "k", 12),
        ("parameters.0.value.0.string_value", 'a \\"quoted\\" text', 12),
    ]


@pytest.mark.parametrize("text", ["a {", "a: [", "}", "a: [ [ 1 ] ]", "a { b: ", ": : ;", 'a: "open', "a { " * 200])
def test_what_is_broken_is_read_as_far_as_it_goes(text: str) -> None:
    assert len(list(read_text_format(text))) < 300


@given(st.text(alphabet='ab:{}<>[],; \n"#1.\\', max_size=120))
def test_any_text_ends(text: str) -> None:
    for path, _, line in read_text_format(text):
        assert path
        assert 1 <= line <= text.count("\n") + 1


def kinds(files: dict[str, str]) -> list[tuple[str, list[dict[str, Any]]]]:
    partials = texts(files, Literals()).partials
    return [(one.kind, list(one.columns["launch"].rows()) if "launch" in one.columns else []) for one in partials]


def test_a_configuration_is_told_from_a_graph() -> None:
    ((kind, rows),) = kinds({"models/demo/config.pbtxt": CONFIG})
    assert kind == "triton-config"
    assert (rows[0]["key"], rows[0]["value"], rows[0]["entry"], rows[0]["source"]) == (
        "name", "demo", "config.pbtxt", "yaml",
    )  # fmt: skip
    ((kind, _),) = kinds({"graph.pbtxt": 'node {\n  name: "x"\n  op: "Const"\n  input: "y"\n}\n'})
    assert kind != "triton-config"
