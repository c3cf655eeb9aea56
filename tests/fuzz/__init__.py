"""Fuzz targets; ``benchmarks/fuzz.py`` runs them for minutes, the tests here on what was found."""
