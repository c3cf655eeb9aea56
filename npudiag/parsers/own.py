"""What npudiag itself wrote, left among the logs: it quotes them, and would be taken for a second witness."""

from __future__ import annotations

import re

from npudiag.parsers.base import Context, Partial, Stream

_BEGINNING = re.compile(
    rb'\s*\{\s*"schema":\s*\d+,\s*"tool":\s*\{\s*"name":\s*"npudiag"'  # result document
    rb'|\{"id":"f\d+","code":"[A-Z]{3}\d{3}","name":"[a-z0-9-]+","category":"'  # alert file of a watch
    rb'|<\?xml[^>]*>\s*<testsuites name="npudiag"'  # JUnit
)
_NEAR_IT = re.compile(
    rb'<meta name="generator" content="npudiag [^"]*">'  # report page
    rb'|"driver":\s*\{\s*"name":\s*"npudiag"'  # SARIF
)
_PAGE_OR_SARIF = re.compile(rb'<!doctype html>|\s*\{\s*"\$schema":')
_NEAR = 4096


class OwnOutput:
    """Passes over result documents, report pages, alert files and what is written for pipelines."""

    name = "npudiag-output"

    def recognise(self, head: bytes, path: str) -> float:
        """Certain by how the document begins."""
        if _BEGINNING.match(head):
            return 1.0
        return 1.0 if _PAGE_OR_SARIF.match(head) and _NEAR_IT.search(head, 0, _NEAR) else 0.0

    def parse(self, stream: Stream, head: bytes, context: Context) -> Partial:
        """Leave it unread."""
        source = context.source
        return Partial(
            source, kind="skipped", identity=source.identity, bytes=source.size or len(head), note="written by npudiag"
        )
