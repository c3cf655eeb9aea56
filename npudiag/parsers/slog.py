"""CANN slog and plog files: the fast path for clean ones.

Grammar (the log writer of CANN): ``[LEVEL] MODULE(PID,PNAME):YYYY-MM-DD-HH:MM:SS.mmm.uuu text``, followed by any
number of lines without a header that belong to the record. Such files run to gigabytes and mostly hold lines nobody
asks for, so a block of lines is classified as a whole with NumPy, and only the lines worth keeping are looked at one
by one:

* The first 24 bytes of each line name its level and module; lines with equal 24 bytes form a class, whose first line
  is parsed with a regular expression. It tells where the time stamp stands in every line of the class.
* The 16 bytes there are the minute. Both together give the counts per level, module and minute.
* The multi-pattern scan gives the lines that rules ask for, the class gives those of level WARNING and above.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import islice
from typing import Any

import numpy as np

from npudiag.errors import SourceError
from npudiag.parsers import headers
from npudiag.parsers.base import LEVEL_RANK, WORTH_KEEPING, Context, Partial, Row, Stream
from npudiag.parsers.collector import DIGITS, KEY_BYTES, Collector

_BLOCK = 4 << 20
_LONGEST = 1 << 20
_RECORD_LINES = 256
_PAD = bytes(64)

# "[LEVEL] MODULE(" with the offset of the time stamp behind it.
_HEAD = re.compile(
    rb"\[([A-Z]+|\d+)\] ([A-Z0-9_]+)\([^\n]{1,64}?\): ?"
    rb"(?=\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{1,3})"
)
_START = re.compile(rb"\[(?:[A-Z]+|\d+)\] [A-Z0-9_]+\(-?\d+[:,]")

_MULTIPLY = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)


def _word(text: bytes) -> Any:
    return np.uint64(int.from_bytes(text, "little"))


# The fixed characters of "YYYY-MM-" and "DD-HH:MM" as eight-byte words, and which bytes they are.
_DATE_MASK, _DATE = _word(b"\0\0\0\0\xff\0\0\xff"), _word(b"\0\0\0\0-\0\0-")
_MINUTE_MASK, _MINUTE = _word(b"\0\0\xff\0\0\xff\0\0"), _word(b"\0\0-\0\0:\0\0")

IntArray = np.ndarray[Any, np.dtype[np.int64]]


class SlogParser:
    """Reads slog and plog files that need no normalising."""

    name = "slog"

    def recognise(self, head: bytes, path: str) -> float:
        """Sure when most of the first lines carry the header."""
        lines = [line for line in head[:65536].split(b"\n", 200)[:200] if line.strip()]
        if not lines:
            return 0.0
        # Continuation lines carry no header, so a third is much; but the first line is nearly always one, and a
        # console into which such records are printed begins otherwise.
        enough = max(1, len(lines) // 3 if _START.match(lines[0]) else 2 * len(lines) // 3)
        headed = islice((line for line in lines if _START.match(line)), enough)
        return 0.95 if sum(1 for _ in headed) == enough and b"\r" not in head[:65536] else 0.0

    def parse(self, stream: Stream, head: bytes, context: Context) -> Partial:
        """Read the stream to its end."""
        partial = Partial(context.source, kind=self.name, identity=context.source.identity)
        run = _Run(partial, context)
        pending = [head] if head else []
        size = len(head)
        skipping = False
        try:
            while True:
                piece = stream.read(_BLOCK - size if size < _BLOCK else _BLOCK)
                if piece:
                    partial.bytes += len(piece)
                    if skipping:
                        newline = piece.find(b"\n")
                        if newline < 0:
                            continue
                        piece = piece[newline:]
                        skipping = False
                    pending.append(piece)
                    size += len(piece)
                    if size < _BLOCK:
                        continue
                block = b"".join((*pending, _PAD))
                done = run.take(block, size, last=not piece)
                if not piece:
                    break
                rest = block[done:size]
                if len(rest) > _LONGEST and b"\n" not in rest:
                    # A line without an end in sight: its first part stands for it.
                    partial.note = "a line longer than 1 MiB was cut"
                    rest = rest[:_LONGEST]
                    skipping = True
                pending = [rest]
                size = len(rest)
        except SourceError as exc:
            run.take(b"".join((*pending, _PAD)), size, last=True)
            partial.broke_off(exc, partial.lines)
        partial.bytes += len(head)
        run.finish()
        return partial


class _Run:
    """The state of one parse."""

    def __init__(self, partial: Partial, context: Context) -> None:
        self.partial = partial
        self.context = context
        self.collector = Collector(partial, context.budget)
        self.line = 1
        self.minutes: dict[tuple[int, int], str] = {}
        self.counts: dict[tuple[str, str, int, int], int] = {}

    def take(self, block: bytes, size: int, *, last: bool) -> int:
        """Take in the complete records among the first `size` bytes of `block`; return how many bytes that was.

        `_PAD` follows the bytes, so that eight of them can be looked at anywhere.
        """
        end = size
        if not last:
            end = block.rfind(b"\n", 0, size) + 1
            # The last record may go on in the next block, so it waits for it, unless it is absurdly long.
            at = end
            for _ in range(_RECORD_LINES):
                at = block.rfind(b"\n", 0, max(at - 1, 0)) + 1
                if at == 0 or _START.match(block, at):
                    break
            if _START.match(block, at) and size - at < _LONGEST:
                end = at
        if end:
            self._lines(block, end)
        return end

    def _lines(self, block: bytes, size: int) -> None:
        view = np.frombuffer(block, np.uint8)[:size]
        ends = np.flatnonzero(view == 10)
        if block[size - 1] != 10:
            ends = np.append(ends, size)
        total = len(ends)
        starts = np.empty(total, np.int64)
        starts[0] = 0
        starts[1:] = ends[:-1] + 1
        words: Any = np.ndarray((size + 56,), dtype="<u8", buffer=block, strides=(1,))

        level, module, stamp, header = self._classify(block, size, view, starts, words)
        heads = np.flatnonzero(header)
        self._count(heads, starts, stamp, words, level, module)

        ids, found = self.context.scanner.scan(memoryview(block)[:size])
        at = np.searchsorted(ends, np.asarray(found, np.int64) - 1)
        # A hit belongs to the last header at or above it; one ahead of the first header stands for itself.
        owner = np.searchsorted(heads, at, side="right") - 1
        hits = _Hits(np.where(owner >= 0, heads[np.maximum(owner, 0)], at) if len(heads) else at, ids)
        grave = np.zeros(len(_names), bool)
        for name, number in _numbers.items():
            grave[number] = LEVEL_RANK.get(name, 1) >= WORTH_KEEPING
        self._keep(block, starts, ends, heads, heads[grave[level[heads]]], hits, level, module)

        self.partial.lines += total
        before_first = int(heads[0]) if len(heads) else total
        if self.line == 1 and before_first:
            lead = block[: int(ends[before_first - 1])]
            self.partial.unparsed += sum(1 for text in lead.split(b"\n") if text.strip())
        self.line += total

    def _classify(
        self, block: bytes, size: int, view: Any, starts: IntArray, words: Any
    ) -> tuple[IntArray, IntArray, IntArray, Any]:
        """Return, per line: level number, module number, offset of its time stamp, whether it has a header."""
        total = len(starts)
        level = np.zeros(total, np.int64)
        module = np.zeros(total, np.int64)
        stamp = np.zeros(total, np.int64)
        header = np.zeros(total, bool)
        todo = np.flatnonzero(view[starts] == 91)
        # Small files come by the thousand: tables for 65,536 buckets would cost more than their lines.
        bits = min(16, max(8, total.bit_length() + 1))
        buckets = 1 << bits
        representative = np.zeros(buckets, np.int64)
        # Each round settles every class whose representative was met; two classes in one bucket
        # need a second round, a file of nothing but odd lines stops after a few.
        for _ in range(8):
            if not len(todo):
                break
            at = starts[todo]
            first, second, third = words[at], words[at + 8], words[at + 16]
            with np.errstate(over="ignore"):
                mixed = (first * np.uint64(_MULTIPLY[0])) ^ (second * np.uint64(_MULTIPLY[1]))
                mixed ^= third * np.uint64(_MULTIPLY[2])
                bucket = (mixed >> np.uint64(64 - bits)).astype(np.int64)
            representative[bucket] = np.arange(len(todo))
            chosen = representative[bucket]
            same = (first == first[chosen]) & (second == second[chosen]) & (third == third[chosen])
            used = np.flatnonzero(np.bincount(bucket, minlength=buckets))
            offsets = np.zeros(buckets, np.int64)
            levels = np.zeros(buckets, np.int64)
            modules = np.zeros(buckets, np.int64)
            for number in used.tolist():
                place = int(at[representative[number]])
                match = _HEAD.match(block, place)
                if match:
                    offsets[number] = match.end() - place
                    levels[number] = _number(match.group(1))
                    modules[number] = _number(match.group(2))
            offset = offsets[bucket]
            time = np.minimum(at + offset, size)
            fits = same & (offset > 0)
            fits &= (words[time] & _DATE_MASK) == _DATE
            fits &= (words[np.minimum(time + 8, size)] & _MINUTE_MASK) == _MINUTE
            settled = todo[fits]
            level[settled] = levels[bucket[fits]]
            module[settled] = modules[bucket[fits]]
            stamp[settled] = time[fits]
            header[settled] = True
            # The representatives without a header are settled too: they have none.
            tried = np.arange(len(todo)) == chosen
            todo = todo[~fits & ~(tried & (offset == 0))]
        for index in todo.tolist():
            place = int(starts[index])
            match = _HEAD.match(block, place)
            if match:
                level[index] = _number(match.group(1))
                module[index] = _number(match.group(2))
                stamp[index] = match.end()
                header[index] = True
        return level, module, stamp, header

    def _count(
        self, heads: IntArray, starts: IntArray, stamp: IntArray, words: Any, level: IntArray, module: IntArray
    ) -> None:
        if not len(heads):
            return
        time = stamp[heads]
        date, minute = words[time], words[time + 8]
        change = np.empty(len(heads), bool)
        change[0] = True
        change[1:] = (date[1:] != date[:-1]) | (minute[1:] != minute[:-1])
        runs = np.flatnonzero(change)
        run_of = np.cumsum(change) - 1
        kinds = level[heads] * (1 << 20) + module[heads]
        combined = run_of * (1 << 40) + kinds
        keys, numbers = _tally(combined)
        for key, number in zip(keys, numbers, strict=True):
            run, kind = divmod(key, 1 << 40)
            at = int(runs[run])
            slot = (_names[kind >> 20], _names[kind & 0xFFFFF], int(date[at]), int(minute[at]))
            self.counts[slot] = self.counts.get(slot, 0) + number

    def _keep(
        self,
        block: bytes,
        starts: IntArray,
        ends: IntArray,
        heads: IntArray,
        grave: IntArray,
        hits: _Hits,
        level: IntArray,
        module: IntArray,
    ) -> None:
        wanted = _either(grave, hits.owners) if len(hits.owners) else grave
        if not len(wanted):
            return
        begin = starts[wanted]
        collector = self.collector
        exact, budget = collector.exact, self.context.budget
        base, folded = self.line, 0
        record_starts = heads.tolist()
        # This loop sees every line of a storm: attribute look-ups and calls are kept out of it.
        for index, start, end, hit in zip(
            wanted.tolist(),
            begin.tolist(),
            np.minimum(ends[wanted], begin + KEY_BYTES).tolist(),
            hits.among(wanted).tolist(),
            strict=True,
        ):
            key = block[start:end].translate(DIGITS)
            group = exact.get(key)
            if group is None:
                group = collector.new_key(key, _names[level[index]] or None, _names[module[index]] or None)
            group.count += 1
            group.last_line = base + index
            if group.kept >= (budget.hit_samples if hit else budget.samples) or not collector.room(hit):
                folded += 1
                continue
            following = bisect_right(record_starts, index)
            stop = record_starts[following] if following < len(record_starts) else len(starts)
            collector.keep(group, self._row(block, starts, ends, index, stop, hits.of(index)), hit)
        self.partial.folded += folded

    def _row(self, block: bytes, starts: IntArray, ends: IntArray, index: int, stop: int, hits: tuple[int, ...]) -> Row:
        budget = self.context.budget
        stop = min(stop, index + budget.record_lines)
        text = block[int(starts[index]) : int(ends[stop - 1])][: budget.record_chars]
        lines = text.decode("utf-8", "replace").replace("\0", "").rstrip("\n").split("\n")
        row = headers.slog_row(lines, self.line + index)
        row.hits = hits
        if hits:
            row.before = _excerpt(block, starts, ends, max(index - 2, 0), index)
            row.after = _excerpt(block, starts, ends, stop, min(stop + 2, len(starts)))
        return row

    def finish(self) -> None:
        """Turn what was counted into the partial's counts."""
        partial = self.partial
        for (level, module, date, minute), number in self.counts.items():
            text = (date.to_bytes(8, "little") + minute.to_bytes(8, "little")).decode("ascii", "replace")
            stamp = f"{text[:10]}T{text[11:16]}"
            key = (level, module, stamp)
            partial.counts[key] = partial.counts.get(key, 0) + number
        stamps = sorted({stamp for _, _, stamp in partial.counts if stamp[:4] > "1971"})
        if stamps:
            partial.first_us = headers.minute_us(stamps[0])
            partial.last_us = headers.minute_us(stamps[-1])
        for row in partial.rows:
            if row.time_us is not None and partial.last_us is not None:
                partial.last_us = max(partial.last_us, row.time_us)


class _Hits:
    """Which literals stand in which record of a block."""

    def __init__(self, owners: IntArray, ids: list[int]) -> None:
        order = np.argsort(owners, kind="stable")
        owned = owners[order]
        self.owners: IntArray = owned[_firsts(owned)]
        # Few are looked up, one by one: lists are faster than arrays at that.
        self._owners: list[int] = owned.tolist()
        self._numbers: list[int] = np.asarray(ids, np.int64)[order].tolist()

    def among(self, lines: IntArray) -> Any:
        """Return, for each of the sorted `lines`, whether it is hit."""
        mask = np.zeros(len(lines), bool)
        mask[np.searchsorted(lines, self.owners)] = True
        return mask

    def of(self, index: int) -> tuple[int, ...]:
        """Return the literals in the record whose first line has this index."""
        low, high = bisect_left(self._owners, index), bisect_right(self._owners, index)
        return tuple(sorted(set(self._numbers[low:high])))


def _excerpt(block: bytes, starts: IntArray, ends: IntArray, first: int, stop: int) -> tuple[str, ...]:
    return tuple(
        block[int(starts[i]) : min(int(ends[i]), int(starts[i]) + 400)].decode("utf-8", "replace")
        for i in range(first, stop)
    )


def _tally(keys: IntArray) -> tuple[list[int], list[int]]:
    """Return the distinct keys and how often each occurs."""
    ordered = np.sort(keys)
    first = np.flatnonzero(_firsts(ordered))
    return ordered[first].tolist(), np.diff(first, append=len(ordered)).tolist()


def _firsts(ordered: IntArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return where in a sorted array a value stands for the first time; np.unique would load NumPy's masked arrays."""
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def _either(some: IntArray, others: IntArray) -> IntArray:
    """Return what stands in one of two arrays or in both, in order."""
    both: IntArray = np.concatenate((some, others))
    both.sort()
    once: IntArray = both[_firsts(both)]
    return once


_names: list[str] = [""]
_numbers: dict[str, int] = {"": 0}


def _number(name: bytes) -> int:
    """Return a small number for a level or module name."""
    text = name.decode("ascii")
    number = _numbers.get(text)
    if number is None:
        # Hostile files must not grow this table without end.
        if len(_names) >= 4096:
            return 0
        number = _numbers[text] = len(_names)
        _names.append(text)
    return number
