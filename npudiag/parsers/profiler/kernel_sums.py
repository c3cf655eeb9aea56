"""Kernels of one capture, whichever export they come from, summed up by operator type and kind of core.

Rows are gathered in columns and folded in blocks, so that memory does not grow with the capture. What can be told from
the texts of a kernel alone (operations of a product, alignment, tokens of experts) is worked out
once per distinct text.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npudiag.parsers.profiler import products
from npudiag.parsers.profiler.raw import Raw
from npudiag.parsers.profiler.sequences import Order
from npudiag.parsers.profiler.text import nanoseconds, number

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SMALL_US = 10.0
_BLOCK = 1 << 15
_MOST_TEXTS = 50_000
_MOST_GROUPS = 5000
_MOST_METRICS = 50
CUBE = frozenset({"AI_CORE", "MIX_AIC"})
VECTOR = frozenset({"AI_VECTOR_CORE", "MIX_AIV"})
COMMUNICATION = "COMMUNICATION"
_GIVEN = 3
"""Numbers of each kernel ahead of its metrics: duration, gap, cores."""
Distinct = tuple[Sequence[str], "npt.NDArray[np.int64]"]
"""A column of texts: those that occur in it, and for each row which of them it has."""
_MOST_US = 1e15
_MOST_NS = 1 << 62
_NONE = float("nan")
_RATIOS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # column: (metrics on cube cores, metrics on vector cores); the first that there is
    "mac_ratio": (("aic_mac_ratio", "mac_ratio", "aic_mac_fp16_ratio"), ()),
    "vec_ratio": (("aiv_vec_ratio", "vec_ratio"), ("aiv_vec_ratio", "vec_ratio")),
    "mte2_ratio": (("aic_mte2_ratio", "mte2_ratio"), ("aiv_mte2_ratio", "mte2_ratio", "aic_mte2_ratio")),
    "mte3_ratio": (("aiv_mte3_ratio", "mte3_ratio"), ("aiv_mte3_ratio", "mte3_ratio")),
    "scalar_ratio": (("aic_scalar_ratio", "scalar_ratio"), ("aiv_scalar_ratio", "scalar_ratio", "aic_scalar_ratio")),
    "cube_pct": (("cube_utilization",), ()),
}


def told_by_ratio(metric: str, metrics: Container[str]) -> bool:
    """Whether a metric is the busy time of a unit whose ratio is there too: that times the kernel's is the same."""
    return metric.endswith("_time") and metric.removesuffix("_time") + "_ratio" in metrics


def core_name(text: str) -> str:
    """Return the kind of core; older profilers call communication HCCL."""
    return COMMUNICATION if text == "HCCL" else text


@dataclass(slots=True)
class Texts:
    """What the texts of a kernel say; one per distinct combination.

    Attributes:
        line: Line of the first kernel.
        flops: Floating point operations of one kernel, None where they cannot be told.
        unaligned: Whether it is a matrix product with an inner dimension that fits no fractal.
        tokens: Rows that a grouped product multiplies.
    """

    kind: str
    core: str
    state: str
    inputs: str
    line: int | None
    device: int | None
    flops: float | None = None
    unaligned: bool = False
    tokens: int | None = None


@dataclass(slots=True)
class _Group:
    """Sums of one operator type on one kind of core."""

    first: Texts
    count: int = 0
    total: float = 0.0
    low: float = float("inf")
    high: float = -1.0
    name: str = ""
    blocks: int | None = None
    wait: float = 0.0
    small: int = 0
    partly: float = 0.0
    dynamic: int = 0
    stated: int = 0
    unaligned: float = 0.0
    unaligned_high: float = -1.0
    unaligned_shape: str | None = None
    flops: float = 0.0
    flops_us: float = 0.0
    tokens: int = 0
    weighted: npt.NDArray[np.float64] | None = None
    highest: npt.NDArray[np.float64] | None = None


class Kernels:
    """Takes kernels one by one, in the order of their start, and hands their sums over.

    Args:
        metrics: Names of the metrics that come with each kernel, as in a table's header, without units.
    """

    def __init__(self, metrics: Sequence[str] = ()) -> None:
        self._metrics = list(metrics)
        self._codes: dict[tuple[str, ...], int] = {}
        self._texts: list[Texts] = []
        self._code = array("i")
        self._numbers = array("d")
        self._width = _GIVEN + len(self._metrics)
        self._names: list[str] = []
        self._groups: dict[tuple[str, str], _Group] = {}
        self._clock: list[npt.NDArray[np.float64]] = []
        self._peak: list[npt.NDArray[np.float64]] = []
        self._order = Order()
        self._products: set[int] = set()
        self._busy = array("q")
        self.bad = 0

    def add(
        self,
        texts: tuple[str, ...],
        name: str,
        start: str | int,
        cells: Iterable[str | float],
        line: int | None,
        device: int | None,
    ) -> None:
        """Add one kernel.

        Args:
            texts: Type, core, operator state, input shapes, input formats, output shapes.
            name: Name of the kernel.
            start: Begin: microseconds as a table writes them, or whole nanoseconds.
            cells: Duration (us), gap ahead of it (us), cores used, and one value per metric; as numbers or as a table
                writes them.
            line: Line in the file.
            device: NPU.
        """
        code = self._codes.get(texts)
        if code is None:
            code = self._new(texts, line, device)
        numbers = self._numbers
        try:
            numbers.extend(map(float, cells))
        except ValueError:
            del numbers[len(self._names) * self._width :]
            numbers.extend(_NONE if (value := number(cell)) is None else value for cell in cells)
        self._code.append(code)
        self._names.append(name)
        if code in self._products:
            self._product(start, numbers[-self._width])
        if len(self._names) >= _BLOCK:
            self._fold()

    def add_columns(
        self,
        texts: Sequence[Distinct],
        names: Distinct,
        devices: Distinct,
        starts: Sequence[str | int],
        numbers: npt.NDArray[np.float64],
        line: int | None,
    ) -> None:
        """Add a block of kernels.

        Args:
            texts: The columns of what :meth:`add` calls texts.
            names: Names of the kernels.
            devices: NPUs as the table writes them.
            starts: Begins, as :meth:`add` takes them.
            numbers: What :meth:`add` calls cells, a row for each kernel; NaN where there is no number.
            line: Line of the first, the others following; None where the file has no lines.
        """
        import numpy as np

        self._fold()  # kernels are summed up in their order
        # One number for each combination of texts; made small again before it gets too large for its type.
        combined = np.zeros(len(starts), dtype=np.int64)
        span = 1
        for known, which in texts:
            if span * len(known) > _MOST_NS:
                kept, combined = np.unique(combined, return_inverse=True)
                span = len(kept)
            combined = combined * len(known) + which
            span *= len(known)
        _, firsts, combined = np.unique(combined, return_index=True, return_inverse=True)
        codes = np.empty(len(firsts), dtype=np.int32)
        for place in np.argsort(firsts):
            first = int(firsts[place])
            combination = tuple(known[which[first]] for known, which in texts)
            code = self._codes.get(combination)
            if code is None:
                device = number(devices[0][devices[1][first]])
                place_of = None if line is None else line + first
                code = self._new(combination, place_of, None if device is None else int(device))
            codes[place] = code
        row_codes = codes[combined]
        for index in np.flatnonzero(np.isin(row_codes, list(self._products))).tolist():
            self._product(starts[index], float(numbers[index, 0]))
        self._sum_up(row_codes, numbers, [names[0][which] for which in names[1].tolist()])

    def _product(self, start: str | int, length: float) -> None:
        """Note when a product, whose operations can be told, ran; its length in us."""
        begin = nanoseconds(start) if isinstance(start, str) else start
        if begin and begin < _MOST_NS and 0 <= length < _MOST_US:
            self._busy.append(begin)
            self._busy.append(begin + int(length * 1000))

    def _new(self, texts: tuple[str, ...], line: int | None, device: int | None) -> int:
        kind, core, state, inputs, formats, outputs = texts
        if len(self._texts) >= _MOST_TEXTS:
            # Shapes that never repeat: what follows is told by its type only.
            short = (kind, core, "", "", "", "")
            if texts != short:
                known = self._codes.get(short)
                return known if known is not None else self._new(short, line, device)
        found = Texts(kind, core_name(core), state, inputs, line, device)
        if found.core in CUBE:
            found.flops = products.flops(kind, inputs, formats, outputs)
            found.unaligned = products.unaligned(kind, inputs)
            found.tokens = products.tokens(kind, inputs)
        code = self._codes[texts] = len(self._texts)
        self._texts.append(found)
        if found.flops is not None:
            self._products.add(code)
        return code

    def _group(self, texts: Texts) -> _Group:
        key = (texts.kind, texts.core)
        if key not in self._groups and len(self._groups) >= _MOST_GROUPS:
            key = ("(others)", texts.core)
        return self._groups.setdefault(key, _Group(texts))

    def _fold(self) -> None:
        """Add the kernels gathered to the sums."""
        import numpy as np

        if not self._names:
            return
        code = np.frombuffer(self._code, dtype=np.int32)
        table = np.frombuffer(self._numbers).reshape(-1, self._width)
        names = self._names
        self._code, self._numbers, self._names = array("i"), array("d"), []
        self._sum_up(code, table, names)

    def _sum_up(self, code: npt.NDArray[np.int32], table: npt.NDArray[np.float64], names: Sequence[str]) -> None:
        """Add kernels to the sums: their texts' codes, a row of numbers and a name for each."""
        import numpy as np

        sound = (table[:, 0] >= 0) & (table[:, 0] < _MOST_US)  # neither is true of what is no number
        if not sound.all():
            self.bad += int((~sound).sum())
            code, table = code[sound], table[sound]
            names = [name for name, kept in zip(names, sound, strict=True) if kept]
        table = np.where(np.abs(table) < _MOST_US, table, 0.0)
        duration, wait, blocks = table[:, :_GIVEN].T
        values = table[:, _GIVEN:]
        order = np.argsort(code, kind="stable")
        ends = np.flatnonzero(np.diff(code[order], append=-1)) + 1
        start = 0
        for end in map(int, ends):
            rows = order[start:end]
            start = end
            self._add_up(self._texts[int(code[rows[0]])], rows, names, duration, wait, blocks, values)
        self._clocks(code, duration, blocks, values)
        self._order.add(self._texts, code, duration, wait, self._loads(code, values))

    def _add_up(
        self,
        texts: Texts,
        rows: npt.NDArray[np.intp],
        names: Sequence[str],
        duration: npt.NDArray[np.float64],
        wait: npt.NDArray[np.float64],
        blocks: npt.NDArray[np.float64],
        values: npt.NDArray[np.float64],
    ) -> None:
        group = self._group(texts)
        times, used = duration[rows], blocks[rows]
        total = float(times.sum())
        longest = int(times.argmax())
        group.count += len(rows)
        group.total += total
        group.low = min(group.low, float(times.min()))
        if times[longest] > group.high:
            group.high = float(times[longest])
            group.name = names[int(rows[longest])]
            group.blocks = int(used[longest]) or None
        group.wait += float(_positive(wait[rows]))
        group.small += int((times < SMALL_US).sum())
        if texts.state in ("dynamic", "static"):
            group.stated += len(rows)
            group.dynamic += len(rows) if texts.state == "dynamic" else 0
        if texts.unaligned:
            group.unaligned += total
            if times[longest] > group.unaligned_high:
                group.unaligned_high = float(times[longest])
                group.unaligned_shape = texts.inputs.strip('"')[:120]
        if texts.flops is not None:
            group.flops += texts.flops * len(rows)
            group.flops_us += total
        group.tokens += (texts.tokens or 0) * len(rows)
        if values.shape[1]:
            part = values[rows]
            weighted, highest = times @ part, part.max(axis=0)
            if group.weighted is None or group.highest is None:
                group.weighted, group.highest = weighted, highest
            else:
                group.weighted += weighted
                group.highest = highest.clip(min=group.highest)

    def _metric(self, *names: str) -> int | None:
        return next((self._metrics.index(name) for name in names if name in self._metrics), None)

    def _loads(self, code: npt.NDArray[np.int32], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
        """Return the share of the time that each kernel loads or stores, None where the capture does not tell."""
        import numpy as np

        load, store = self._metric("aiv_mte2_ratio", "mte2_ratio"), self._metric("aiv_mte3_ratio", "mte3_ratio")
        if load is None and store is None:
            return None
        columns = [values[:, index] for index in (load, store) if index is not None]
        most: npt.NDArray[np.float64] = np.maximum.reduce(columns)
        return most

    def _clocks(
        self,
        code: npt.NDArray[np.int32],
        duration: npt.NDArray[np.float64],
        blocks: npt.NDArray[np.float64],
        values: npt.NDArray[np.float64],
    ) -> None:
        """Note the clock, and clock times number of cores, as the cycles of each kernel tell them.

        Cycles are the sum over the cores used: cycles = core time x clock x cores. Cube utilisation is cycles by
        (clock x cores of the chip x duration).
        """
        import numpy as np

        cycles = self._metric("aic_total_cycles", "total_cycles")
        if cycles is None or not duration.size:
            return
        cube = np.array([texts.core in CUBE for texts in self._texts])[code]
        time, used = self._metric("aicore_time"), self._metric("cube_utilization")
        if time is not None and sum(map(len, self._clock)) < 20_000:
            sound = cube & (values[:, time] > 5.0) & (blocks > 0) & (values[:, cycles] > 0)
            self._clock.append(values[sound, cycles] / values[sound, time] / blocks[sound])
        if used is not None and sum(map(len, self._peak)) < 20_000:
            sound = cube & (values[:, used] > 5.0) & (duration > 5.0) & (values[:, cycles] > 0)
            self._peak.append(values[sound, cycles] / duration[sound] / (values[sound, used] / 100))

    def hand_over(self, raw: Raw, source: str) -> None:
        """Add rows of ``prof_kernels``, ``prof_metrics``, ``prof_sequences`` and ``prof_counters``."""
        self._fold()
        for (kind, core), group in self._groups.items():
            raw.add("prof_kernels", self._row(kind, core, group, source))
        longest = sorted(self._groups.items(), key=lambda item: -item[1].total)[:_MOST_METRICS]
        for (kind, core), group in longest:
            if group.weighted is None or group.highest is None or not group.total or core == COMMUNICATION:
                continue
            for index, metric in enumerate(self._metrics):
                if group.highest[index] > 0:
                    row = {"line": group.first.line, "type": kind, "core": core, "metric": metric}
                    mean = float(group.weighted[index]) / group.total
                    raw.add("prof_metrics", {**row, "mean": mean, "high": float(group.highest[index])})
        for row in self._order.rows(self._texts):
            raw.add("prof_sequences", row)
        self._frequency(raw)
        if self._busy:
            raw.products = _union(self._busy)

    def _row(self, kind: str, core: str, group: _Group, source: str) -> dict[str, Any]:
        first = group.first
        row = {
            "line": first.line,
            "device": first.device,
            "type": kind or group.name,
            "core": core or None,
            "name": group.name[:200],
            "count": group.count,
            "total_us": group.total,
            "avg_us": group.total / group.count,
            "min_us": group.low,
            "max_us": group.high,
            "wait_us": group.wait,
            "small": group.small,
            "dynamic": group.dynamic,
            "stated": group.stated,
            "unaligned_us": group.unaligned,
            "unaligned_shape": group.unaligned_shape,
            "blocks": group.blocks,
            "flops": group.flops or None,
            "flops_us": group.flops_us if group.flops else None,
            "tokens": group.tokens or None,
            "source": source,
        }
        for column, (cube, vector) in _RATIOS.items():
            index = self._metric(*(vector if core in VECTOR else cube))
            if index is not None and group.weighted is not None and core not in ("AI_CPU", COMMUNICATION):
                row[column] = float(group.weighted[index]) / group.total if group.total else None
        return row

    def _frequency(self, raw: Raw) -> None:
        """Add the clock of the cube cores, and their number times it, where kernels agree on them."""
        import numpy as np

        clock = np.sort(np.concatenate(self._clock)) if self._clock else np.empty(0)
        if len(clock) >= 20:
            low, middle, high = (float(clock[int(len(clock) * share)]) for share in (0.05, 0.5, 0.95))
            if 300 <= middle <= 4000 and high <= middle * 1.6:
                row = {"name": "aicore-clock", "unit": "MHz", "samples": len(clock), "low": low, "high": high}
                raw.add("prof_counters", {**row, "mean": float(clock.mean())})
        peak = np.concatenate(self._peak) if self._peak else np.empty(0)
        if len(peak) >= 3:
            middle = float(np.median(peak))
            agree = float((np.abs(peak - middle) <= 0.02 * middle).mean())
            if 1000 <= middle <= 200_000 and agree >= 0.9:
                raw.facts["core_mhz"] = middle


def _positive(values: npt.NDArray[np.float64]) -> float:
    """Return the sum of the values above zero: gaps between streams may be negative."""
    return float(values[values > 0].sum())


def _union(spans: array[int]) -> npt.NDArray[np.int64]:
    """Return disjoint (start, end) in nanoseconds that cover the same time."""
    import numpy as np

    pairs = np.frombuffer(spans, dtype=np.int64).reshape(-1, 2)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    reach = np.maximum.accumulate(pairs[:, 1])
    begins = np.flatnonzero(np.concatenate(([True], pairs[1:, 0] > reach[:-1])))
    closes = np.concatenate((begins[1:] - 1, [len(pairs) - 1]))
    return np.stack((pairs[begins, 0], reach[closes]), axis=1)
