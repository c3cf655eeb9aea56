"""Checks of a machine before, during or after a job, each the Python half of one rule in ``rules/preflight``."""
