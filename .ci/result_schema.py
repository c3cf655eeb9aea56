"""Writes the JSON schema of the result document to docs/result.schema.json."""

from __future__ import annotations

import json
from pathlib import Path

from npudiag.result import json_schema

if __name__ == "__main__":
    target = Path(__file__).resolve().parent.parent / "docs" / "result.schema.json"
    target.write_text(json.dumps(json_schema(), indent=1, sort_keys=True) + "\n")
