"""Writes the JSON schemas of the result document and of comparisons to docs/."""

from __future__ import annotations

import json
from pathlib import Path

from npudiag.comparison import model
from npudiag.result import json_schema

if __name__ == "__main__":
    docs = Path(__file__).resolve().parent.parent / "docs"
    for name, schema in (("result", json_schema()), ("compare", model.json_schema())):
        (docs / f"{name}.schema.json").write_text(json.dumps(schema, indent=1, sort_keys=True) + "\n")
