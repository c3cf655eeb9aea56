"""Any text: training and serving console logs, device and host logs with noise in them, excerpts pasted by people.

Lines are cleaned and their launcher prefixes peeled, then put together to records: a header line with what
belongs to it, a Python traceback, a CANN error block. Ranks write into one console line by line, so each
prefix has its own open record.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from npudiag.errors import SourceError
from npudiag.parsers import headers
from npudiag.parsers.alike import Alike, Beginnings, striking
from npudiag.parsers.base import LEVEL_RANK, WORTH_KEEPING, Context, Partial, Row, Stream
from npudiag.parsers.collector import DIGITS, Collector
from npudiag.parsers.metrics import Metrics
from npudiag.parsers.metrics.base import Key as _Key
from npudiag.parsers.metrics.base import short_time
from npudiag.parsers.normalise import LineStats, Plan, iter_lines, plan
from npudiag.parsers.prefixes import Peeled, behind_bar, peel

_BATCH = 4096
_MANY = 1024
"""Lines from which on a batch is worth looking at as a whole; a short log is over before."""
_METRIC_LINES = 64
_OPEN = 512
_REST = 15
_REMEMBERED = 4096
_DATED = re.compile(r"\d{4}\D\d\d\D\d\d\D\d\d:\d\d:\d\d$")
_NOT_DIGIT = re.compile(r"\D")
_TRACEBACK = "Traceback (most recent call last)"
_PASSED_OVER = ("Exception ignored ", "--- Logging error ---", "Error in atexit._run_exitfuncs")
"""Python's words ahead of a traceback that ends nothing: while it shuts down, or of a message that it cannot format."""
_ASKED = re.compile(r"Received request \S+: prompt: |Receive: obj=GenerateReqInput\(")
"""What servers print ahead of the text that somebody sent them: no words of their own."""
_FRAME = re.compile(r"\s*File \"[^\"]+\", line \d+, in ")
"""A line of a traceback, whose first line was cut off or belongs to another process."""
_MARKED = re.compile(r"[~^]+[~^ ]*$")
_LEAD = 160
_DIGITS = re.compile(r"\d+")
_CANN_BLOCK = re.compile(r"(?:^|[ :(\]])(?:[EW][A-Z0-9]\d{4}(?:: |\[PID|  )|[A-Z]\w+\(E[A-Z0-9]\d{4}\): )")
_CANN_GOES_ON = re.compile(
    r"[EW][A-Z0-9]\d{4}(?:: |\[PID|  )|TraceBack \(most recent call last\)|(?:Possible Cause|Solution|Reason)s?:"
    r"|there are\(is\) |\]|\[Error\]:|\[PID: \d+\]"
)
_DAY_US = 86_400_000_000
_TAILED = ("traceback", "exception", "cann")
_CHAINED = (
    "During handling of the above exception",
    "The above exception was the direct cause",
)
_MARKS = tuple(
    (word.encode(), re.compile(pattern.encode()) if pattern else None)
    for word, pattern in (
        *dict.fromkeys(
            ("ascend", "torch_npu", "davinci", "hccn", "mindspore", "mindspeed", "megatron", "deepspeed", "vllm",
             "llamafactory", "verl", "tensorflow", "torch.", "torchrun", "transformers", "huawei", "aclrt", "'loss':",
             "kernel:", "systemd", "kubelet", "volcano", "slurm", "traceback (most recent", "mindie", "mooncake",
             "nccl", "gradnorm", "grad norm", "grad_norm", "link up", "link down", "link status", "bandwidth tx",
             "alg_bandwidth", "packets transmitted", "overall health", "atc run", "atc start", "server_list",
             "most recent call first", "\"mainthread\"", "aicerror", "ai core", "mssanitizer", "ggml_")
        ).items(),
        ("npu", r"\bnpu\b"),
        ("hccl", r"\bhccl"),
        ("cann", r"\bcann\d?\b|_cann_"),
        ("acl", r"\bacl"),
        ("plog", r"\bplog\b"),
        ("pid=", r"\bpid=\d"),
    )
)  # fmt: skip
"""Words, in lower case, by which a text of no known kind is one of ours all the same, and what they must stand in."""
_TRAINS = tuple(
    (word, re.compile(pattern))
    for word, pattern in (
        (b"iteration ", rb"iteration +\d+[/:]"),
        (b"epoch", rb"\bepoch\W{0,3}\d"),
        (b"loss", rb"\bloss\W{1,4}\d+\.\d"),
    )
)
"""The same of a training, whichever framework runs it."""

_FAMILY_KIND = {
    "slog": "slog",
    "kernel-ring": "kernel-log",
    "hisi": "device-blackbox",
    "hwlog": "cluster-component",
    "glog": "console",
    "syslog": "host-log",
    "dmesg": "host-log",
    "printk": "host-log",
}


@dataclass(slots=True)
class _Open:
    """A record that may still get lines."""

    row: Row
    texts: list[str]
    raws: list[str]
    numbers: list[int]
    mode: str
    hits: set[int] = field(default_factory=set)
    before: tuple[str, ...] = ()
    chars: int = 0
    launcher: bool = False
    counted: bool = False
    lead: re.Pattern[str] | None = None


class ConsoleParser:
    """Reads every text that no stricter parser claims."""

    name = "console"

    def recognise(self, head: bytes, path: str) -> float:
        """Low but never zero for text: what nobody else wants is read as text."""
        return 0.0 if plan(head[: 1 << 18], complete=False).binary else 0.1

    def parse(self, stream: Stream, head: bytes, context: Context) -> Partial:
        """Read the stream to its end."""
        partial = Partial(context.source, kind=self.name, identity=context.source.identity)
        how = plan(head[: 1 << 18], complete=False)
        run = _Run(partial, context, how)
        if how.binary:
            partial.kind = "unknown"
            partial.note = "binary data"
            partial.bytes = len(head)
            return partial
        try:
            run.read(_Joined(head, stream))
        except SourceError as exc:
            partial.broke_off(exc, run.stats.lines)
        run.finish()
        return partial


class _Joined:
    """A stream that begins with bytes already read, and counts all bytes."""

    def __init__(self, head: bytes, stream: Stream) -> None:
        self._head = head
        self._stream = stream
        self.bytes = 0

    def read(self, size: int = 1 << 20, /) -> bytes:
        if self._head:
            piece, self._head = self._head, b""
        else:
            piece = self._stream.read(size)
        self.bytes += len(piece)
        return piece


class _Run:
    def __init__(self, partial: Partial, context: Context, how: Plan) -> None:
        self.partial = partial
        self.context = context
        self.how = how
        self.collector = Collector(partial, context.budget)
        self.open: dict[_Key, _Open] = {}
        self.batch: list[tuple[int, str]] = []
        self.at = 0
        self.tail: tuple[str, ...] = ()
        self.rest_batches = 0
        self.beginnings = Beginnings()
        self.processes: dict[str, _Key] = {}
        self.seconds: dict[str, tuple[int, str]] = {}
        self.passed: dict[_Key, tuple[int, Alike]] = {}
        self.families: Counter[str] = Counter()
        self.marked = self.trains = False
        self.hit = False
        self.stats = LineStats()
        self.waiting: list[tuple[Row, int]] = []
        self.last_us: int | None = None
        self.metrics = Metrics(context.year)
        self.year = context.year
        self.told_year = False
        self.metric_hits: Counter[tuple[int, ...]] = Counter()

    def read(self, stream: _Joined) -> None:
        batch: list[tuple[int, str]] = []
        try:
            for item in iter_lines(stream, self.how, self.stats):
                batch.append(item)
                if len(batch) >= _BATCH:
                    self._batch(batch)
                    batch = []
        finally:
            self._batch(batch)
            self.partial.bytes = stream.bytes

    def _batch(self, batch: list[tuple[int, str]]) -> None:
        """Scan a batch of lines in one go, then put its lines together."""
        if not batch:
            return
        data = "\n".join(text for _, text in batch).encode("utf-8", "surrogatepass")
        ids, ends = self.context.scanner.scan(data)
        found: dict[int, list[int]] = {}
        if ids:
            # Both run upwards, so one walk over the line ends is enough.
            stop = -1
            pairs = iter(zip(ids, ends, strict=True))
            pair = next(pairs, None)
            plain = data.isascii()
            for index, (_, text) in enumerate(batch):
                stop += (len(text) if plain else len(text.encode("utf-8", "surrogatepass"))) + 1
                while pair is not None and pair[1] <= stop:
                    found.setdefault(index, []).append(pair[0])
                    pair = next(pairs, None)
                if pair is None:
                    break
        self.metrics.batch(data)
        if not self.marked:
            begin = data[: 1 << 16].lower()
            self.marked = _holds(begin, _MARKS)
            self.trains = self.trains or _holds(begin, _TRAINS)
        self.batch = batch
        marks = self._marks(data, len(batch), found) if len(batch) >= _MANY else None
        if marks is None:
            for at, (number, text) in self._untold(batch, found):
                self.at = at
                self._line(number, text, found.get(at))
        else:
            self._pass_over(data, marks, found)
        self.tail = (*self.tail, *(text for _, text in batch[-2:]))[-2:]

    def _untold(
        self, batch: list[tuple[int, str]], found: dict[int, list[int]]
    ) -> Iterator[tuple[int, tuple[int, str]]]:
        """Yield the lines that must be looked at one by one, and count runs of lines of nothing but numbers."""
        at = 0
        known = self.metric_hits
        asked_for = {index for index, hits in found.items() if known[tuple(hits)] < _METRIC_LINES}
        for first, stop in self.metrics.runs(batch, asked_for):
            yield from enumerate(batch[at:first], at)
            at = first
            # Who waits for a next line must see it, if only to find that it is none of his.
            while self.metrics.sink.follow and at < stop:
                yield at, batch[at]
                at += 1
            if at < stop:
                self._told_run(batch[at:stop])
                at = stop
        yield from enumerate(batch[at:], at)

    def _told_run(self, lines: list[tuple[int, str]]) -> None:
        """Count lines of one process whose numbers are in a table, as `_told` does line by line."""
        for _ in lines[:3]:
            if self.waiting:
                self._after("")
        key: _Key = (None, None, None)
        self.passed.pop(key, None)
        current = self.open.pop(key, None)
        if current is not None:
            self._close(current)
        times = self.metrics.take_run(lines)
        if times is None:
            us = self.metrics.sink.last_us
            minutes = {"" if us is None else _minute(us): len(lines)}
            times = () if us is None else (us,)
        else:
            minutes = Counter(map(_minute, times))
        for minute, number in minutes.items():
            count = ("", "", minute)
            self.partial.counts[count] = self.partial.counts.get(count, 0) + number
        for us in (min(times), max(times)) if times else ():
            self._span(us)

    def _marks(self, data: bytes, size: int, found: dict[int, list[int]]) -> bytearray | None:
        """Mark the lines of a batch that must be looked at one by one; None: all of them."""
        if self.rest_batches:
            self.rest_batches -= 1
            return None
        offsets = striking(data)
        if offsets is None:
            return None
        marks = bytearray(size)
        for index in found:
            marks[index] = 1
        if offsets:
            import numpy as np

            ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
            for index in np.unique(np.searchsorted(ends, np.asarray(offsets))).tolist():
                marks[index] = 1
        if sum(marks) * 4 < size * 3:
            return marks
        # All numbers: looking costs more than the few lines it spares, here and most likely in what follows.
        self.rest_batches = _REST
        return None

    def _pass_over(self, data: bytes, marks: bytearray, found: dict[int, list[int]]) -> None:
        """Go through a batch; lines that begin like others and that nobody asks for are counted and passed over."""
        beginnings = self.beginnings
        masked = data.translate(DIGITS).split(b"\n")
        follow = self.metrics.sink.follow
        for index, (number, text) in enumerate(self.batch):
            if marks[index] or follow:
                self.at = index
                self._line(number, text, found.get(index))
                continue
            alike = beginnings.find(masked[index])
            if alike is not None and self._pass(index, text, alike):
                continue
            self.at = index
            self.last_us = None
            self._line(number, text, None)
            if alike is None:
                beginnings.learn(text, masked[index], self.year)
            else:
                self._remember(text, alike)
        # What was passed over may still get lines in the next batch.
        for process, (index, alike) in list(self.passed.items())[-_OPEN:]:
            self.open[process] = self._taken_up(index, alike)
        self.passed.clear()

    def _pass(self, index: int, text: str, alike: Alike) -> bool:
        """Count a line without making a record of it; not so where it may belong to one, or something is not known."""
        process = self.processes.get(text[: alike.process])
        if process is None:
            return False
        minute = ""
        time_us: int | None = None
        if alike.start >= 0:
            stamp = text[alike.start : alike.stop]
            second = self.seconds.get(stamp) or self._second(stamp)
            if second is None:
                return False
            time_us = second[0] + alike.micro(text)
            minute = second[1]
        current = self.open.get(process)
        if current is not None:
            if current.lead is not None or (not alike.header and current.mode not in ("plain", "header")):
                return False
            del self.open[process]
            self._close(current)
        if time_us is not None:
            self._seen(time_us)
        for family in alike.families:
            self.families[family] += 1
        if not self.families:
            self.partial.unparsed += 1
        key = (alike.level, alike.module, minute)
        counts = self.partial.counts
        counts[key] = counts.get(key, 0) + 1
        self.passed[process] = (index, alike)
        if self.waiting:
            self._after(text)
        self.beginnings.spared += 1
        return True

    def _second(self, stamp: str) -> tuple[int, str] | None:
        """Read a stamp as far as its year is settled; others go the long way."""
        year = self.year
        if year is None:
            return None
        if _DATED.match(stamp):
            if not self.told_year or stamp[:4] != str(year):
                return None
            time_us = headers.stamp_us(*map(int, _NOT_DIGIT.split(stamp)))
        else:
            if not self.told_year and self.partial.assumed_year != year:
                return None
            time_us = short_time(stamp, year)
            written = self.context.written_us
            if time_us is not None and not self.told_year and written is not None and time_us > written + _DAY_US:
                return None
        return None if time_us is None else self._keep_second(stamp, time_us)

    def _keep_second(self, stamp: str, time_us: int) -> tuple[int, str]:
        if len(self.seconds) >= _REMEMBERED:
            self.seconds.clear()
        found = self.seconds[stamp] = (time_us, _minute(time_us))
        return found

    def _remember(self, text: str, alike: Alike) -> None:
        """Keep what the long way found out of a line: its process and its time."""
        if len(self.processes) >= _REMEMBERED:
            self.processes.clear()
        peeled = peel(text)
        self.processes[text[: alike.process]] = (peeled.worker, peeled.rank, peeled.pid)
        if alike.start >= 0 and self.last_us is not None:
            self._keep_second(text[alike.start : alike.stop], self.last_us - alike.micro(text))

    def _taken_up(self, index: int, alike: Alike) -> _Open:
        """Return the record of a line that was passed over, since another line may belong to it."""
        number, text = self.batch[index]
        peeled = peel(text)
        header = headers.read(peeled.rest, number, self.year) if alike.header else None
        record = self._record(number, text, peeled, header, self._before(index))
        record.counted = True
        return record

    def _before(self, index: int) -> tuple[str, ...]:
        """Return the two lines above a line of the batch."""
        if index >= 2:
            return (self.batch[index - 2][1], self.batch[index - 1][1])
        return (*self.tail, *(text for _, text in self.batch[:index]))[-2:]

    def _line(self, number: int, text: str, hits: list[int] | None) -> None:
        if not text or text.isspace():
            self._after(text)
            return
        peeled = peel(text)
        rest = peeled.rest
        key = (peeled.worker, peeled.rank, peeled.pid)
        if hits:
            self.hit = True
        if self.metrics.active and self.metrics.line(number, text, peeled) and self._told(key, hits):
            return
        behind = behind_bar(peeled)
        if behind is not None:
            # A bar belongs to no record; what was printed behind it begins one.
            if not behind.rest:
                self._bar(key, number, text, peeled, hits)
                return
            peeled, rest = behind, behind.rest
            key = (peeled.worker, peeled.rank, peeled.pid)
        current = self.open.get(key)
        passed = self.passed.pop(key, None)
        led = current.lead.match(rest) if current is not None and current.lead is not None else None
        if led is not None:
            rest = rest[led.end() :]
        header = headers.read(rest, number, self.year) if rest[:1] not in " \t" else None
        if header is not None and header[0].time_us is not None:
            header = self._settle_year(header, rest, number)
        if passed is not None and header is None and rest[:1] in " \t" and passed[1].families:
            current = self.open[key] = self._taken_up(*passed)
        if current is not None and header is not None and header[1] == "torch-npu" and current.mode in _TAILED:
            # torch_npu ends the message of its exceptions with a line of its own, which says who it was.
            _adopt(current.row, header[0])
            self._extend(current, number, text, rest, hits)
            current.mode = "cann"
        elif current is not None and self._belongs(current, rest, header is not None):
            self._extend(current, number, text, rest, hits)
        else:
            if current is not None:
                self._close(current)
            self._start(key, number, text, peeled, header, hits)
        self._after(text)

    def _bar(
        self,
        key: _Key,
        number: int,
        text: str,
        peeled: Peeled,
        hits: list[int] | None,
    ) -> None:
        """Count a progress bar that stands alone; keep it where a rule asks for it."""
        self.passed.pop(key, None)
        current = self.open.pop(key, None)
        if current is not None:
            self._close(current)
        if hits:
            self._start(key, number, text, peeled, None, hits)
        else:
            self.partial.counts["", "", ""] = self.partial.counts.get(("", "", ""), 0) + 1
        self._after(text)

    def _told(self, key: _Key, hits: list[int] | None) -> bool:
        """Whether a line that is in a table already need not become a record.

        Rules see the first ones of each kind, as they would see them anyway; a million more would cost minutes.
        """
        if hits:
            kind = tuple(hits)
            self.metric_hits[kind] += 1
            if self.metric_hits[kind] <= _METRIC_LINES:
                return False
        if self.waiting:
            self._after("")
        self.passed.pop(key, None)
        current = self.open.pop(key, None)
        if current is not None:
            self._close(current)
        us = self.metrics.sink.last_us
        count = ("", "", "" if us is None else _minute(us))
        self.partial.counts[count] = self.partial.counts.get(count, 0) + 1
        if us is not None:
            # Not `_seen`: the line may have no stamp, and then an earlier one is no news.
            self._span(us)
        return True

    def _belongs(self, current: _Open, rest: str, has_header: bool) -> bool:
        mode = current.mode
        first = rest[:1]
        if has_header:
            # Old vLLM prefixes every line of a traceback with the header; those were peeled before.
            return False
        if mode == "traceback":
            if first in " \t│╰" or not rest:
                return True
            if rest.startswith(_CHAINED) or rest.startswith(_TRACEBACK):
                return True
            if _unindented(current.texts[-1], rest):
                return True
            if headers.EXCEPTION.match(rest):
                current.mode = "cann" if _CANN_BLOCK.search(rest) else "exception"
                return True
            return False
        if mode == "exception":
            if rest.startswith(_CHAINED):
                current.mode = "traceback"
                return True
            if _CANN_BLOCK.match(rest):
                current.mode = "cann"
                return True
            return first in " \t"
        if mode == "cann":
            return first in " \t" or _CANN_GOES_ON.match(rest) is not None
        if mode == "slog":
            # In a file of CANN's own every line without a header belongs to the record above; in a console
            # other programs write in between.
            return first in " \t" or _CANN_GOES_ON.match(rest) is not None or self._pure_slog()
        if _CANN_BLOCK.match(rest) and mode == "header":
            return False
        return first in " \t" and mode != "plain"

    def _pure_slog(self) -> bool:
        slog = self.families.get("slog", 0)
        return slog > 20 and slog >= 0.9 * sum(self.families.values())

    def _extend(self, current: _Open, number: int, raw: str, rest: str, hits: list[int] | None) -> None:
        if hits:
            current.hits.update(hits)
        budget = self.context.budget
        if len(current.texts) >= budget.record_lines or current.chars > budget.record_chars:
            # The end of a long traceback says what happened; its middle goes.
            if current.mode in ("exception", "cann", "traceback"):
                half = budget.record_lines // 2
                for part in (current.texts, current.raws, current.numbers):
                    del part[half]
            else:
                return
        current.texts.append(rest[:2000])
        current.raws.append(raw[:2000])
        current.numbers.append(number)
        current.chars += min(len(rest), 2000)

    def _start(
        self,
        key: _Key,
        number: int,
        raw: str,
        peeled: Peeled,
        header: tuple[Row, str] | None,
        hits: list[int] | None,
    ) -> None:
        if header is not None:
            self.families[header[1]] += 1
        record = self._record(number, raw, peeled, header, self._before(self.at))
        if record.launcher:
            self.families["launcher"] += 1
        if record.mode == "plain" and not self.families:
            self.partial.unparsed += 1
        if record.row.time_us is not None:
            self._seen(record.row.time_us)
        if hits and not _ASKED.search(peeled.rest):
            record.hits.update(hits)
        self.open[key] = record
        if len(self.open) > _OPEN:
            oldest = next(iter(self.open))
            self._close(self.open.pop(oldest))

    def _record(
        self, number: int, raw: str, peeled: Peeled, header: tuple[Row, str] | None, before: tuple[str, ...]
    ) -> _Open:
        """Return the record that begins with a line."""
        rest = peeled.rest
        mode = "plain"
        launcher = False
        if header is not None:
            row, family = header
            mode = "slog" if family == "slog" else "header"
        else:
            row = Row(number, rest)
        if row.level is None and peeled.level:
            row.level = headers.level_name(peeled.level)
            mode = "header"
            launcher = True
        if row.time_us is None and peeled.time:
            row.time_us = self._short_time(peeled.time)
        row.rank = row.rank if row.rank is not None else peeled.rank
        row.pid = row.pid if row.pid is not None else peeled.pid
        row.device = row.device if row.device is not None else peeled.device
        row.worker = peeled.worker
        row.source = row.source or peeled.source
        if _TRACEBACK in rest or (header is None and _FRAME.match(rest)):
            mode = "traceback"
        elif rest.startswith(_PASSED_OVER):
            row.level = row.level or "WARNING"
            mode = "traceback"
        elif mode != "slog" and _CANN_BLOCK.search(rest):
            mode = "cann"
        elif mode == "plain" and headers.EXCEPTION.match(rest):
            mode = "exception"
        lead = _lead(rest) if mode == "traceback" else None
        return _Open(row, [rest[:8000]], [raw[:8000]], [number], mode, launcher=launcher, before=before, lead=lead)

    def _settle_year(self, header: tuple[Row, str], rest: str, number: int) -> tuple[Row, str]:
        """Learn the year from stamps that have one, and doubt the assumed one where it leads into the future."""
        row, family = header
        if row.time_us is None:
            return header
        if family not in headers.YEARLESS:
            year = headers.year_of(row.time_us)
            if year > 1971:
                self._set_year(year)
                self.told_year = True
            return header
        if self._in_the_future(row.time_us):
            header = headers.read(rest, number, self.year) or header
        self._assume()
        return header

    def _short_time(self, text: str) -> int | None:
        time_us = short_time(text, self.year)
        if time_us is not None:
            if self._in_the_future(time_us):
                time_us = short_time(text, self.year)
            self._assume()
        return time_us

    def _in_the_future(self, time_us: int) -> bool:
        """Whether a stamp is later than the file; the year is then taken to be the one before."""
        written = self.context.written_us
        if self.told_year or self.year is None or written is None or time_us <= written + _DAY_US:
            return False
        self._set_year(self.year - 1)
        return True

    def _set_year(self, year: int) -> None:
        if year != self.year:
            self.year = year
            self.seconds.clear()

    def _assume(self) -> None:
        if not self.told_year:
            self.partial.assumed_year = self.year

    def _seen(self, time_us: int) -> None:
        self.last_us = time_us
        self.metrics.sink.seen(time_us)
        self._span(time_us)

    def _span(self, time_us: int) -> None:
        """Note that the log reaches to a time."""
        # Clocks that were not set yet say nothing about when the job ran.
        if time_us > 365 * 86_400_000_000:
            partial = self.partial
            if partial.first_us is None or time_us < partial.first_us:
                partial.first_us = time_us
            if partial.last_us is None or time_us > partial.last_us:
                partial.last_us = time_us

    def _close(self, record: _Open) -> None:
        row = record.row
        if not record.counted:
            key = (row.level or "", row.module or "", "" if row.time_us is None else _minute(row.time_us))
            self.partial.counts[key] = self.partial.counts.get(key, 0) + 1
        rank = LEVEL_RANK.get(row.level or "", 1)
        if rank < WORTH_KEEPING and not record.hits:
            return
        row.text = "\n".join(record.texts)
        raw = "\n".join(record.raws)
        if raw != row.text:
            row.raw = raw
        numbers = record.numbers
        if numbers[-1] - numbers[0] != len(numbers) - 1:
            row.numbers = tuple(numbers)
        row.hits = tuple(sorted(record.hits))
        row.code = headers.find_code(row.text)
        if row.source is None:
            row.source = headers.find_source(record.texts[0])
        if record.hits:
            row.before = tuple(text[:400] for text in record.before)
        kept = len(self.partial.rows)
        # The header's own numbers must not tell equal messages apart; digits are masked, so they do not.
        self.collector.add(row.text.encode("utf-8", "surrogatepass"), row)
        if record.hits and len(self.partial.rows) > kept:
            self.waiting.append((row, 2))

    def _after(self, text: str) -> None:
        """Hand the line to rows that still want lines behind them."""
        if not self.waiting:
            return
        still: list[tuple[Row, int]] = []
        for row, left in self.waiting:
            row.after = (*row.after, text[:400])
            if left > 1:
                still.append((row, left - 1))
        self.waiting = still

    def finish(self) -> None:
        for record in sorted(self.open.values(), key=lambda record: record.row.line):
            self._close(record)
        self.open.clear()
        partial = self.partial
        metrics = self.metrics
        metrics.finish(self.year if self.told_year else None, self.context.written_us)
        if metrics.sink.columns:
            self.hit = True
            partial.columns = metrics.sink.columns
            partial.quotes = metrics.sink.quotes.all()
            partial.quotes_by_step = metrics.sink.quotes.by_step()
        partial.rows.sort(key=lambda row: row.line)
        stats = self.stats
        partial.lines = stats.lines
        partial.encoding = self.how.encoding
        partial.normalised = tuple(sorted(stats.steps))
        if stats.cut_lines:
            partial.note = partial.note or f"{stats.cut_lines} line(s) longer than 1 MiB were cut"
        partial.kind = self._kind()
        if partial.kind == "unknown" and not partial.note:
            partial.note = "no known kind of text"
        elif not (self.hit or self.marked or partial.note) and partial.kind == "console":
            partial.note = "no known framework: read as plain text"

    def _kind(self) -> str:
        total = sum(self.families.values())
        if total:
            family, number = self.families.most_common(1)[0]
            if number * 2 >= total and family in _FAMILY_KIND:
                return _FAMILY_KIND[family]
            return "console"
        return "console" if self.hit or self.marked or self.trains else "unknown"


def _lead(rest: str) -> re.Pattern[str] | None:
    """Return what matches the text ahead of a traceback, which many programs put ahead of each of its lines."""
    text = rest[: max(rest.find(_TRACEBACK), 0)]
    if not text.strip() or len(text) > _LEAD:
        return None
    return re.compile(_DIGITS.sub(lambda run: r"\d+", re.escape(text)))


def _unindented(last: str, rest: str) -> bool:
    """Whether a line goes on with a traceback that lost its indentation where it was pasted."""
    if rest.startswith('File "') or _MARKED.match(rest):
        return True
    return last.startswith('File "') and headers.EXCEPTION.match(rest) is None


def _holds(text: bytes, marks: Sequence[tuple[bytes, re.Pattern[bytes] | None]]) -> bool:
    return any(word in text and (pattern is None or pattern.search(text)) for word, pattern in marks)


def _adopt(row: Row, tail: Row) -> None:
    """Take over what the last line of a message says of its process."""
    for name in ("rank", "device", "pid", "time_us"):
        if getattr(row, name) is None:
            setattr(row, name, getattr(tail, name))
    row.level = row.level or "ERROR"


def _minute(time_us: int) -> str:
    minutes = time_us // 60_000_000
    cached = _minutes.get(minutes)
    if cached is None:
        if len(_minutes) > 10_000:
            _minutes.clear()
        import datetime

        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(minutes=minutes)
        cached = _minutes[minutes] = moment.isoformat(timespec="minutes")
    return cached


_minutes: dict[int, str] = {}
