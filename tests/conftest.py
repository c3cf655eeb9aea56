"""Settings of all tests."""

from __future__ import annotations


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name bytes by their kind: packed data hold the time, and workers must agree on the names of tests."""
    return "bytes" if isinstance(val, bytes) else None
