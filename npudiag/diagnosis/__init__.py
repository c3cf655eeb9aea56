"""Turns matches into findings, links cause and consequence, and states the verdict."""
