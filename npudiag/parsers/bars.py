"""Progress bars as tqdm draws them: what their parts look like, and which of them are those of a training loop."""

from __future__ import annotations

TRAINING = (
    r"(?:(?:[Tt]raining|[Tt]rain|[Ss]teps?|[Ii]terations?)(?: [Pp]rogress| [Ss]teps?)?"
    r"|(?:(?:[Tt]raining|[Tt]rain) )?[Ee]poch:? [\[(]?(?P<epoch>\d{1,6})(?:/(?P<epochs>\d{1,6}))?[\])]?)"
)
"""What stands in front of a training loop's bar, if anything does; of an epoch's bar its number and how many there are.

A bar that counts whole epochs ("Epoch:  33%") says nothing of steps.
"""

PERCENT = r"\d{1,3}%(?:\|[^|]*\|)?\s*"
"""The drawn part; where there is no room for it, the share alone."""

UNITS = ("it", "iter", "step", "steps", "batch")
"""What a training loop counts."""
