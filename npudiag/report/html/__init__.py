"""The report as one self-contained web page."""

from npudiag.report.html.page import render

__all__ = ["render"]
