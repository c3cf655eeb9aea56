"""GitLab's code quality report, as its documentation states it."""

from __future__ import annotations

from typing import Any

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "pattern": r"^[A-Z]{3}\d{3} \S"},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    # A relative path, without ./ in front.
                    "path": {"type": "string", "pattern": r"^(?!\./|/).+"},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                },
            },
            # From CodeClimate's specification, which GitLab's format is a part of.
            "type": {"const": "issue"},
            "categories": {
                "type": "array",
                "items": {
                    "enum": [
                        "Bug Risk", "Clarity", "Compatibility", "Complexity", "Duplication", "Performance", "Security",
                        "Style",
                    ]
                },
            },
            "content": {"type": "object", "required": ["body"], "properties": {"body": {"type": "string"}}},
        },
    },
}  # fmt: skip
