"""Profiler output: Ascend PyTorch Profiler, MindSpore, msprof, and what cluster analysis makes of them."""
