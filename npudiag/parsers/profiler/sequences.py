"""Runs of small kernels that one larger kernel could do: known ones by their fused operator, others by repetition.

No kernel is counted twice: what a known pattern covers is not looked at again, and of repeated runs that overlap the
one that gains most is taken first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_LENGTHS = range(9, 1, -1)
_REPEATS = 5
_FOUND = 4
_MATERIAL = 0.005
"""Share of the time of all kernels below which a run is not looked for."""
_MOST_KERNELS = 500_000
"""Kernels that are searched, the first ones: more of them only repeat what these do."""
_VECTOR = frozenset({"AI_VECTOR_CORE", "MIX_AIV"})
_APART = re.compile(r"Foreach|Apply|TransData|Transpose|TensorMove|Identity")
"""Kernels that take many tensors at once, and conversions of layout, which fusing does not save."""

_LETTERS: tuple[tuple[str, str], ...] = (
    ("B", r"BatchMatMul\w*"),
    ("M", r"MatMul\w*|Gemm\w*|MM"),
    ("P", r"Pows?|Square"),
    ("E", r"ReduceMean\w*"),
    ("A", r"Adds?|AddV2"),
    ("R", r"Rsqrt"),
    ("Q", r"Sqrt"),
    ("X", r"Muls?"),
    ("D", r"(?:Real)?Divs?"),
    ("U", r"Subs?"),
    ("N", r"Neg"),
    ("K", r"Concat\w*|Pack"),
    ("L", r"Slice\w*|StridedSlice\w*|Split\w*"),
    ("W", r"Swish|Silu|SiLU"),
    ("G", r"Sigmoid"),
    ("T", r"Tanh"),
    ("S", r"Softmax\w*"),
    ("F", r"Masked\w*|MaskedFill\w*|SelectV2|Select"),
    ("C", r"Addcmul"),
    ("V", r"Addcdiv"),
    ("H", r"RmsNorm"),
    ("O", r"DropOut\w*|Dropout\w*"),
    ("I", r"LpNorm\w*|L2Norm\w*|ReduceNorm\w*|Lerp"),
)
_LETTER = tuple((letter, re.compile(rf"(?:{pattern})\Z")) for letter, pattern in _LETTERS)
_SKIPPED = re.compile(r"(?:Cast|TensorMove|Identity|AsStrided|ViewCopy|Transpose\w*)\Z")
"""Conversions between the kernels of a pattern."""

PATTERNS: tuple[tuple[str, str], ...] = (
    ("npu_fusion_attention", "B[XDA]?[XFA]{0,2}SO?B"),
    ("npu_layer_norm", "EU[PX]EA(?:R|QD)[XD]?X?A?"),
    ("npu_rms_norm", "[PX]EARX{1,2}"),
    ("npu_rotary_mul", "L{0,2}NK(?:XXA|XAX)|XL{0,2}NKXA"),
    ("npu_swiglu", "L{0,2}(?:W|GX)X"),
    ("npu_fast_gelu", "P?X{0,2}AXTAX{1,2}"),
    ("npu_scaled_masked_softmax", "[XD]FA?S"),
    ("npu_add_rms_norm", "AH"),
    ("NpuFusedAdamW", "X?[XIA]{0,3}X?C[QDAX]{2,5}V"),
)
"""Fused operator (or optimizer) to the kernels that it replaces, one letter each."""
_PATTERNS = tuple((name, re.compile(pattern)) for name, pattern in PATTERNS)


class Kernel(Protocol):
    """What is asked of a kernel's texts."""

    kind: str
    core: str


class Order:
    """The kernels of one file in the order of their start."""

    def __init__(self) -> None:
        self._parts: list[
            tuple[
                npt.NDArray[np.int32],
                npt.NDArray[np.float32],
                npt.NDArray[np.float32],
                npt.NDArray[np.float32] | None,
            ]
        ] = []
        self._size = 0

    def add(
        self,
        texts: Sequence[Kernel],
        code: npt.NDArray[np.int32],
        duration: npt.NDArray[np.float64],
        wait: npt.NDArray[np.float64],
        loads: npt.NDArray[np.float64] | None,
    ) -> None:
        """Add a block: index into `texts`, duration and gap ahead (us), share of loading and storing."""
        import numpy as np

        if self._size >= _MOST_KERNELS:
            return
        self._size += len(code)
        apart = np.array([kernel.core == "COMMUNICATION" for kernel in texts])[code]
        kept = ~apart
        # Communication runs beside the kernels and is no part of their order.
        self._parts.append(
            (
                code[kept],
                duration[kept].astype(np.float32),
                wait[kept].clip(min=0).astype(np.float32),
                None if loads is None else loads[kept].astype(np.float32),
            )
        )

    def rows(self, texts: Sequence[Kernel]) -> list[dict[str, Any]]:
        """Return the rows of ``prof_sequences``."""
        import numpy as np

        if not self._parts:
            return []
        code = np.concatenate([part[0] for part in self._parts])
        loads = [part[3] for part in self._parts if part[3] is not None]
        run = _Run(
            texts,
            code,
            np.concatenate([part[1] for part in self._parts]).astype(np.float64),
            np.concatenate([part[2] for part in self._parts]).astype(np.float64),
            np.concatenate(loads).astype(np.float64) if len(loads) == len(self._parts) else None,
        )
        return [*run.known(), *run.repeated()] if len(code) > 1 else []


class _Run:
    def __init__(
        self,
        texts: Sequence[Kernel],
        code: npt.NDArray[np.int32],
        duration: npt.NDArray[np.float64],
        wait: npt.NDArray[np.float64],
        loads: npt.NDArray[np.float64] | None,
    ) -> None:
        import numpy as np

        names: dict[str, int] = {}
        self._texts = texts
        kinds = np.array([names.setdefault(kernel.kind, len(names)) for kernel in texts], dtype=np.int64)
        self._kind = kinds[code]
        self._names = list(names)
        self._duration, self._wait, self._loads = duration, wait, loads
        self._total, self._gaps = _ahead(duration), _ahead(wait)
        vector = np.array([kernel.core in _VECTOR and not _APART.match(kernel.kind) for kernel in texts])
        self._free = vector[code]

    def known(self) -> Iterator[dict[str, Any]]:
        """Find the patterns that a fused operator replaces."""
        import numpy as np

        letters = np.array([ord(_letter(name)) for name in self._names], dtype=np.uint8)
        line = letters[self._kind]
        place = np.flatnonzero(line != ord("-"))
        text = line[place].tobytes().decode("ascii")
        used = np.zeros(len(place), dtype=bool)
        for name, pattern in _PATTERNS:
            spans = [match.span() for match in pattern.finditer(text)]
            spans = [(begin, end) for begin, end in spans if not used[begin:end].any()]
            for begin, end in spans:
                used[begin:end] = True
            whole = [(int(place[begin]), int(place[end - 1]) + 1) for begin, end in spans]
            for begin, end in whole:
                self._free[begin:end] = False
            if whole:
                yield self._row("affinity", name, whole)

    def repeated(self) -> Iterator[dict[str, Any]]:
        """Find runs of vector kernels that come back, those that could gain most first."""
        least = _MATERIAL * float(self._duration.sum() + self._wait.sum())
        for _ in range(_FOUND):
            best: tuple[float, list[tuple[int, int]]] | None = None
            for length in _LENGTHS:
                best = max((best, self._most(length)), key=lambda item: item[0] if item else 0.0)
            if best is None or best[0] < least:
                return
            for begin, end in best[1]:
                self._free[begin:end] = False
            yield self._row("fusible", "", best[1])

    def _most(self, length: int) -> tuple[float, list[tuple[int, int]]] | None:
        """Return the run of this length that could gain most, with its places."""
        import numpy as np

        size = len(self._kind) - length + 1
        if size <= 0:
            return None
        free = _ahead(self._free)
        begins = np.flatnonzero(free[length:] - free[:-length] == length)
        if len(begins) < _REPEATS:
            return None
        mark = np.zeros(len(begins), dtype=np.uint64)
        for offset in range(length):
            mark = mark * np.uint64(1_000_003) + (self._kind[begins + offset] + 1).astype(np.uint64)
        _, group, counts = np.unique(mark, return_inverse=True, return_counts=True)
        total, gaps = self._total, self._gaps
        longest = np.lib.stride_tricks.sliding_window_view(self._duration, length)[begins].max(axis=1)
        gain = total[begins + length] - total[begins] - longest + gaps[begins + length] - gaps[begins + 1]
        sums = np.bincount(group, weights=gain)
        sums[counts < _REPEATS] = 0.0
        for index in map(int, np.argsort(-sums)[:3]):
            places = _apart(begins[group == index], length)
            if sums[index] > 0 and len(places) >= _REPEATS:
                spans = [(int(begin), int(begin) + length) for begin in places]
                return float(gain[np.isin(begins, places)].sum()), spans
        return None

    def _row(self, kind: str, name: str, spans: Sequence[tuple[int, int]]) -> dict[str, Any]:
        import numpy as np

        begins, ends = np.array(spans).T
        total, gaps = self._total, self._gaps
        busy = float((total[ends] - total[begins]).sum())
        idle = float((gaps[ends] - gaps[begins + 1]).sum())
        first = slice(*spans[0])
        row = {
            "kind": kind,
            "name": name or None,
            "sequence": " ".join(self._names[int(index)] for index in self._kind[first])[:300],
            "length": int(spans[0][1] - spans[0][0]),
            "count": len(spans),
            "busy_us": busy,
            "gap_us": idle,
        }
        row["longest_us"] = longest = sum(float(self._duration[begin:end].max()) for begin, end in spans)
        row["whole_us"], row["gain_us"] = busy + idle, busy + idle - longest
        if self._loads is not None:
            moved = _ahead(self._duration * self._loads)
            row["load_us"] = float((moved[ends] - moved[begins]).sum())
        return row


def _ahead(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return, for each place and the end, the sum of the values ahead of it."""
    import numpy as np

    return np.concatenate(([0.0], np.cumsum(values, dtype=np.float64)))


def _apart(begins: npt.NDArray[np.intp], length: int) -> list[int]:
    """Return the places of a run that do not overlap, from the left."""
    out: list[int] = []
    reach = -1
    for begin in map(int, begins):
        if begin >= reach:
            out.append(begin)
            reach = begin + length
    return out


def _letter(kind: str) -> str:
    """Return the letter of an operator type; ``-`` for conversions, which patterns skip."""
    if _SKIPPED.match(kind):
        return "-"
    return next((letter for letter, pattern in _LETTER if pattern.match(kind)), ".")
