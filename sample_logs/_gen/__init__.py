"""Builds the sample jobs: the shapes are those of real logs, every value is invented."""
