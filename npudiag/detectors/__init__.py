"""Python detectors: what rules with `detect: {python: ...}` call. Thin; the work is done in `npudiag.analyses`."""
