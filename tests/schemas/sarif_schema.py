"""The SARIF 2.1.0 schema, and what code scanning asks for beyond it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

OFFICIAL: dict[str, Any] = json.loads((Path(__file__).parent / "sarif-2.1.0.schema.json").read_bytes())
"""OASIS' schema 2.1.0-rtm.5 as the npm package @microsoft/jest-sarif ships it, without its descriptions."""

_URI = {
    "type": "object",
    # A relative reference without a scheme, and nothing that a URI must not hold.
    "properties": {"uri": {"pattern": r"^(?![A-Za-z][A-Za-z0-9+.-]*:)[A-Za-z0-9%._~!$&'()*+,;=@/-]+$"}},
}
_PLACE = {
    "type": "object",
    "properties": {"physicalLocation": {"type": "object", "properties": {"artifactLocation": _URI}}},
}
_FLOW = {"properties": {"locations": {"maxItems": 10_000}}}
SCANNING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "runs": {
            "maxItems": 20,
            "items": {
                "required": ["results", "automationDetails"],
                "properties": {
                    "results": {
                        "maxItems": 25_000,
                        "items": {
                            "required": ["ruleId", "ruleIndex", "level", "locations", "partialFingerprints"],
                            "properties": {
                                "locations": {"minItems": 1, "maxItems": 1, "items": _PLACE},
                                "relatedLocations": {"maxItems": 1000, "items": _PLACE},
                                "partialFingerprints": {"required": ["primaryLocationLineHash"]},
                                "codeFlows": {"items": {"properties": {"threadFlows": {"items": _FLOW}}}},
                            },
                        },
                    },
                    "tool": {
                        "properties": {
                            "driver": {
                                "properties": {
                                    "rules": {
                                        "maxItems": 25_000,
                                        "items": {
                                            "required": ["id", "shortDescription", "fullDescription", "help"],
                                            "properties": {"properties": {"properties": {"tags": {"maxItems": 20}}}},
                                        },
                                    }
                                }
                            }
                        }
                    },
                },
            },
        }
    },
}
"""What GitHub's documentation of SARIF support asks for, and its limits."""

_CHECKS = [jsonschema.Draft4Validator(OFFICIAL), jsonschema.Draft202012Validator(SCANNING)]


def validate(log: Any) -> None:
    """Check a log.

    Raises:
        jsonschema.ValidationError: It is no SARIF 2.1.0, or code scanning would refuse it.
    """
    for check in _CHECKS:
        check.validate(log)
