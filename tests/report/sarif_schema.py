"""The part of the SARIF 2.1.0 schema that npudiag's logs use; what it does not name is not allowed."""

from __future__ import annotations

from typing import Any

TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 1}
BAG = {"type": "object", "properties": {"tags": {"type": "array", "items": TEXT, "uniqueItems": True}}}


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/definitions/{name}"}


def listed(items: Any, *, least: int = 0, unique: bool = False) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "uniqueItems": unique}


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {**properties, "properties": BAG},
        "required": list(required),
    }


SCHEMA: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "additionalProperties": False,
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"enum": ["2.1.0"]},
        "runs": listed(ref("run")),
    },
    "definitions": {
        "run": closed(
            {
                "tool": closed({"driver": ref("toolComponent")}, "driver"),
                "language": {"type": "string", "pattern": "^[a-zA-Z]{2}(-[a-zA-Z]{2})?$"},
                "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                "automationDetails": closed({"id": TEXT}),
                "originalUriBaseIds": {"type": "object", "additionalProperties": ref("artifactLocation")},
                "invocations": listed(ref("invocation")),
                "results": listed(ref("result")),
            },
            "tool",
        ),
        "toolComponent": closed(
            {
                "name": TEXT,
                "version": TEXT,
                "semanticVersion": TEXT,
                "rules": listed(ref("reportingDescriptor"), unique=True),
            },
            "name",
        ),
        "reportingDescriptor": closed(
            {
                "id": TEXT,
                "name": TEXT,
                "shortDescription": ref("multiformatMessageString"),
                "fullDescription": ref("multiformatMessageString"),
                "help": ref("multiformatMessageString"),
                "helpUri": {"type": "string", "pattern": "^https?://"},
                "defaultConfiguration": closed({"level": ref("level")}),
            },
            "id",
        ),
        "level": {"enum": ["none", "note", "warning", "error"]},
        "multiformatMessageString": closed({"text": TEXT, "markdown": TEXT}, "text"),
        "message": closed({"text": TEXT, "markdown": TEXT}, "text"),
        "invocation": closed(
            {
                "executionSuccessful": {"type": "boolean"},
                "commandLine": TEXT,
                "arguments": listed(TEXT),
                "endTimeUtc": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"},
                "exitCode": {"type": "integer"},
                "toolExecutionNotifications": listed(ref("notification")),
                "toolConfigurationNotifications": listed(ref("notification")),
            },
            "executionSuccessful",
        ),
        "notification": closed(
            {
                "level": ref("level"),
                "message": ref("message"),
                "locations": listed(ref("location"), unique=True),
                "descriptor": closed({"id": TEXT}),
            },
            "message",
        ),
        "location": closed(
            {
                "id": {"type": "integer", "minimum": -1},
                "physicalLocation": ref("physicalLocation"),
                "logicalLocations": listed(closed({"name": TEXT, "kind": TEXT}), unique=True),
                "message": ref("message"),
            }
        ),
        "physicalLocation": closed(
            {"artifactLocation": ref("artifactLocation"), "region": ref("region")}, "artifactLocation"
        ),
        "artifactLocation": closed(
            {
                # A relative reference without a scheme, and nothing that a URI must not hold.
                "uri": {"type": "string", "pattern": r"^(?![A-Za-z][A-Za-z0-9+.-]*:)[A-Za-z0-9%._~!$&'()*+,;=@/-]+$"},
                "uriBaseId": TEXT,
                "description": ref("message"),
            }
        ),
        "region": closed({"startLine": COUNT, "endLine": COUNT, "snippet": closed({"text": TEXT})}),
        "result": closed(
            {
                "ruleId": TEXT,
                "ruleIndex": {"type": "integer", "minimum": -1},
                "level": ref("level"),
                "message": ref("message"),
                "locations": listed(ref("location"), least=1),
                "relatedLocations": listed(ref("location"), unique=True),
                "codeFlows": listed(
                    closed(
                        {
                            "message": ref("message"),
                            "threadFlows": listed(
                                closed({"locations": listed(ref("threadFlowLocation"), least=1)}, "locations"), least=1
                            ),
                        },
                        "threadFlows",
                    )
                ),
                "partialFingerprints": {"type": "object", "additionalProperties": TEXT},
                "occurrenceCount": COUNT,
                "suppressions": listed(
                    closed(
                        {
                            "kind": {"enum": ["inSource", "external"]},
                            "status": {"enum": ["accepted", "underReview", "rejected"]},
                            "justification": TEXT,
                        },
                        "kind",
                    ),
                    unique=True,
                ),
                "baselineState": {"enum": ["new", "unchanged", "updated", "absent"]},
            },
            "message",
        ),
        "threadFlowLocation": closed(
            {
                "location": ref("location"),
                "executionOrder": {"type": "integer", "minimum": -1},
                "nestingLevel": {"type": "integer", "minimum": 0},
                "importance": {"enum": ["important", "essential", "unimportant"]},
            }
        ),
    },
}
