"""The exported JSON schema is current and describes what is written."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from npudiag.result import json_schema

FILE = Path(__file__).parent.parent / "docs" / "result.schema.json"


def test_the_exported_schema_is_current() -> None:
    assert json.loads(FILE.read_text()) == json_schema(), "run: python .ci/result_schema.py"


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
