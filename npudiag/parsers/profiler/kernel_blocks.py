"""Kernel lists in blocks of many rows: pandas takes apart what is plain, a sixth of the time that row by row takes.

A block is plain where each line is one row with all its cells and each number is one. Whatever else stands in a list
makes :meth:`Blocks.columns` answer None, and the row reader, which can say what is wrong, goes on from there.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npudiag.errors import SourceError
from npudiag.parsers.base import Stream

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BLOCK = 8 << 20
WORTH = 2 << 20
"""Bytes of a list below which to load pandas takes longer than to read the rows."""
_NO_NUMBER = [text for word in ("n/a", "na", "none", "null", "nan") for text in (word, word.upper(), word.title())]
_NO_NUMBER += ["-", "NaN"]
_EMPTY_ROW = re.compile(rb"^[ \t,]*\r?\n", re.MULTILINE)
"""A row without anything is passed over."""


@dataclass(slots=True)
class Columns:
    """The rows of a block, `n` of them.

    Attributes:
        numbers: n x number of figures; NaN where a cell holds none.
        texts: For each text column its distinct texts and, n each, which of them a row has.
        starts: Begin of each kernel as the list writes it.
    """

    numbers: npt.NDArray[np.float64]
    texts: list[tuple[list[str], npt.NDArray[np.int64]]]
    starts: Sequence[str]


class Lines:
    """A stream cut into blocks of whole lines; an error at its end is kept for whoever reads the rest."""

    def __init__(self, head: bytes, stream: Stream) -> None:
        self.rest = head
        """Read and not taken."""
        self.taken = 0
        """Bytes taken."""
        self._stream = stream
        self._error: SourceError | None = None

    def fill(self, size: int) -> bool:
        """Read on until `size` bytes are ready; return whether they are."""
        parts, ready = [self.rest], len(self.rest)
        while ready < size and self._error is None:
            try:
                piece = self._stream.read(size - ready)
            except SourceError as exc:
                self._error = exc
                break
            if not piece:
                break
            parts.append(piece)
            ready += len(piece)
        self.rest = b"".join(parts)
        return ready >= size

    def header(self) -> list[str] | None:
        """Take the first line and return its cells; None, and nothing is taken, where it is no plain one."""
        line, end, _ = self.rest.partition(b"\n")
        if not end or line[:2] in (b"\xff\xfe", b"\xfe\xff") or line.count(b'"') % 2 or b"\0" in line:
            return None
        cells = next(csv.reader([line.decode("utf-8-sig", "replace").rstrip("\r")]), None)
        if cells:
            self.taken = len(line) + 1
            self.rest = self.rest[self.taken :]
        return cells

    def take(self) -> bytes:
        """Return the whole lines that are ready, empty where no line ends."""
        end = self.rest.rfind(b"\n") + 1
        block, self.rest = self.rest[:end], self.rest[end:]
        self.taken += end
        return block

    def give_back(self, block: bytes) -> None:
        """Put back what was taken last."""
        self.rest = block + self.rest
        self.taken -= len(block)

    def read(self, size: int, /) -> bytes:
        """Return what the stream holds behind `rest`.

        Raises:
            SourceError: The rest cannot be read.
        """
        if self._error is not None:
            raise self._error
        return self._stream.read(size)


class Blocks:
    """Takes blocks of a table apart.

    Args:
        width: Cells of a row.
        figures: Indexes of the columns of numbers.
        texts: Indexes of the columns of texts that occur again and again.
        start: Index of the column that holds the begin.
        Indexes from `width` on stand for columns that the table lacks: 0, or an empty text.
    """

    def __init__(self, width: int, figures: Sequence[int], texts: Sequence[int], start: int) -> None:
        self._width = width
        self._figures = figures
        self._texts = texts
        self._start = start
        kinds: dict[int, Any] = dict.fromkeys(texts, "category")
        kinds[start] = object
        kinds.update(dict.fromkeys(figures, "float64"))
        # The last one is always taken, for a row that is cut off lacks it.
        kinds.setdefault(width - 1, "category")
        self._kinds = {index: kind for index, kind in kinds.items() if index < width}

    def columns(self, block: bytes) -> Columns | None:
        """Return the rows of a block of whole lines, None where it is not plain."""
        import numpy as np

        lines = block.count(b"\n")
        frame = self._frame(block)
        if frame is None or len(frame) != lines:
            return None
        numbers = np.zeros((lines, len(self._figures)))
        for place, index in enumerate(self._figures):
            if index < self._width:
                numbers[:, place] = frame[index]
        nowhere = ([""], np.zeros(lines, dtype=np.int64))
        texts = [_texts(frame[index]) if index < self._width else nowhere for index in self._texts]
        starts = frame[self._start].tolist() if self._start < self._width else [""] * lines
        return Columns(numbers, texts, starts)

    def _frame(self, block: bytes) -> Any:
        """Return the columns wanted, None where the block is not plain."""
        last = self._width - 1
        if b"\0" in block:
            return None
        if self._kinds[last] == "float64":
            # An empty cell is refused as number, be it that it is empty or that the row ends ahead of it.
            frame = self._parsed(block, {last: _NO_NUMBER})
            if frame is not None:
                return frame
        frame = self._parsed(block, {last: [*_NO_NUMBER, ""]})
        if frame is None or (self._kinds[last] != "float64" and not (frame[last] == "").any()):
            return frame
        return frame if _fewest_commas(block) >= last and not _EMPTY_ROW.search(block) else None

    def _parsed(self, block: bytes, absent: dict[int, list[str]]) -> Any:
        import pandas as pd

        numbers = [index for index, kind in self._kinds.items() if kind == "float64"]
        values: Any = {index: absent.get(index, [*_NO_NUMBER, ""]) for index in numbers}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                return pd.read_csv(
                    io.BytesIO(block),
                    header=None,
                    names=list(range(self._width)),
                    index_col=False,  # what a row has too much is left away
                    usecols=list(self._kinds),
                    dtype=self._kinds,
                    keep_default_na=False,
                    na_values=values,
                    low_memory=False,
                )
        except (ValueError, OverflowError, Warning):
            return None


def _fewest_commas(block: bytes) -> int:
    """Return the fewest commas of a line, without those inside quotes."""
    import numpy as np

    data = np.frombuffer(block, dtype=np.uint8)
    inside = np.bitwise_xor.accumulate(data == ord('"'))
    ahead = np.cumsum((data == ord(",")) & ~inside, dtype=np.int32)
    return int(np.diff(ahead[data == ord("\n")], prepend=0).min())


def _texts(column: Any) -> tuple[list[str], npt.NDArray[np.int64]]:
    return column.cat.categories.tolist(), column.cat.codes.to_numpy().astype("int64")
