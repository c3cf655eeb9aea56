"""Partials on disk: what a node's logs and captures come down to, written where they lie and analysed elsewhere."""

MAGIC = b"npudiag partials 1\n"
"""What such a file begins with."""

SUFFIX = ".npd"
