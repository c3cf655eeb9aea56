"""From paths to streams of bytes: walks folders, opens archives, reads from paths who wrote a file."""

from npudiag.discover.identity import identify
from npudiag.discover.source import Identity, Limits, Source
from npudiag.discover.streams import Stream, open_range, open_streams
from npudiag.discover.walk import Discovery, discover

__all__ = [
    "Discovery",
    "Identity",
    "Limits",
    "Source",
    "Stream",
    "discover",
    "identify",
    "open_range",
    "open_streams",
]
