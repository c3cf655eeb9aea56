"""What the page may do: nothing but run its own two scripts and its own style sheet."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable


def source_hash(text: str) -> str:
    """Return the CSP source expression of an inline script or style sheet."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii") + "'"


def content_security_policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return the policy for a page that holds these inline texts and loads nothing."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src " + " ".join(map(source_hash, scripts)),
            "style-src " + " ".join(map(source_hash, styles)),
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
