"""Any text: training and serving console logs, device and host logs with noise in them, excerpts pasted by people.

Lines are cleaned and their launcher prefixes peeled, then put together to records: a header line with what
belongs to it, a Python traceback, a CANN error block. Ranks write into one console line by line, so each
prefix has its own open record.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from dataclasses import dataclass, field

from npudiag.errors import SourceError
from npudiag.parsers import headers
from npudiag.parsers.base import LEVEL_RANK, WORTH_KEEPING, Context, Partial, Row, Stream
from npudiag.parsers.collector import Collector
from npudiag.parsers.metrics import Metrics
from npudiag.parsers.metrics.base import short_time
from npudiag.parsers.normalise import LineStats, Plan, iter_lines, plan
from npudiag.parsers.prefixes import Peeled, behind_bar, peel

_BATCH = 4096
_METRIC_LINES = 64
_TRACEBACK = "Traceback (most recent call last)"
_CANN_BLOCK = re.compile(r"(?:^|[ :(\]])(?:[EW][A-Z0-9]\d{4}(?:: |\[PID|  )|[A-Z]\w+\(E[A-Z0-9]\d{4}\): )")
_CANN_GOES_ON = re.compile(
    r"[EW][A-Z0-9]\d{4}(?:: |\[PID|  )|TraceBack \(most recent call last\)|(?:Possible Cause|Solution|Reason)s?:"
    r"|there are\(is\) |\]|\[Error\]:|\[PID: \d+\]"
)
_EXCEPTION = re.compile(
    r"(?:[\w.]+(?:Error|Exception|Exit|Interrupt|Warning|Failure|Timeout)|[\w.]+\.\w+): ?"
    r"|[A-Z]\w*(?:Error|Exception|Exit|Interrupt)$"
)
_YEARLESS = ("glog", "c10", "syslog")
_DAY_US = 86_400_000_000
_TAILED = ("traceback", "exception", "cann")
_CHAINED = (
    "During handling of the above exception",
    "The above exception was the direct cause",
)
_MARKS = re.compile(
    r"(?i)ascend|torch_npu|\bnpu\b|davinci|\bhccl|hccn|\bcann\b|mindspore|mindspeed|megatron|deepspeed|vllm|llamafactory|verl"
    r"|tensorflow|torch\.|torchrun|transformers|huawei|aclrt|\bacl|\bplog\b|iteration +\d+/|'loss':|kernel:|systemd"
    r"|kubelet|volcano|slurm|traceback \(most recent|mindie|mooncake|nccl|\bpid=\d|grad.?norm|link (?:up|down)"
)

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
        self.open: dict[tuple[str | None, int | None, int | None], _Open] = {}
        self.recent: deque[str] = deque(maxlen=2)
        self.families: Counter[str] = Counter()
        self.marked = False
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
        if not self.marked and _MARKS.search(data[: 1 << 16].decode("utf-8", "replace")):
            self.marked = True
        for index, (number, text) in enumerate(batch):
            self._line(number, text, found.get(index))

    def _line(self, number: int, text: str, hits: list[int] | None) -> None:
        if not text or text.isspace():
            self._after(text)
            self.recent.append(text)
            return
        peeled = peel(text)
        rest = peeled.rest
        key = (peeled.worker, peeled.rank, peeled.pid)
        if hits:
            self.hit = True
        if self.metrics.active and self.metrics.line(number, text, peeled) and self._told(key, hits):
            self.recent.append(text)
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
        header = headers.read(rest, number, self.year) if rest[:1] not in " \t" else None
        if header is not None and header[0].time_us is not None:
            header = self._settle_year(header, rest, number)
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
        self.recent.append(text)

    def _bar(
        self,
        key: tuple[str | None, int | None, int | None],
        number: int,
        text: str,
        peeled: Peeled,
        hits: list[int] | None,
    ) -> None:
        """Count a progress bar that stands alone; keep it where a rule asks for it."""
        current = self.open.pop(key, None)
        if current is not None:
            self._close(current)
        if hits:
            self._start(key, number, text, peeled, None, hits)
        else:
            self.partial.counts["", "", ""] = self.partial.counts.get(("", "", ""), 0) + 1
        self._after(text)
        self.recent.append(text)

    def _told(self, key: tuple[str | None, int | None, int | None], hits: list[int] | None) -> bool:
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
        current = self.open.pop(key, None)
        if current is not None:
            self._close(current)
        us = self.metrics.sink.last_us
        count = ("", "", "" if us is None else _minute(us))
        self.partial.counts[count] = self.partial.counts.get(count, 0) + 1
        if us is not None:
            self._seen(us)
        return True

    def _belongs(self, current: _Open, rest: str, has_header: bool) -> bool:
        mode = current.mode
        first = rest[:1]
        if has_header:
            # Old vLLM prefixes every line of a traceback with the header; those were peeled before.
            return False
        if mode == "traceback":
            if first in " \t" or not rest:
                return True
            if rest.startswith(_CHAINED) or rest.startswith(_TRACEBACK):
                return True
            if _EXCEPTION.match(rest):
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
        key: tuple[str | None, int | None, int | None],
        number: int,
        raw: str,
        peeled: Peeled,
        header: tuple[Row, str] | None,
        hits: list[int] | None,
    ) -> None:
        rest = peeled.rest
        mode = "plain"
        if header is not None:
            row, family = header
            self.families[family] += 1
            mode = "slog" if family == "slog" else "header"
        else:
            row = Row(number, rest)
        if row.level is None and peeled.level:
            row.level = headers.level_name(peeled.level)
            mode = "header"
            self.families["launcher"] += 1
        if row.time_us is None and peeled.time:
            row.time_us = self._short_time(peeled.time)
        row.rank = row.rank if row.rank is not None else peeled.rank
        row.pid = row.pid if row.pid is not None else peeled.pid
        row.device = row.device if row.device is not None else peeled.device
        row.worker = peeled.worker
        row.source = row.source or peeled.source
        if _TRACEBACK in rest:
            mode = "traceback"
        elif mode != "slog" and _CANN_BLOCK.search(rest):
            mode = "cann"
        elif mode == "plain" and _EXCEPTION.match(rest):
            mode = "exception"
        if row.time_us is not None:
            self._seen(row.time_us)
        record = _Open(row, [rest[:8000]], [raw[:8000]], [number], mode, before=tuple(self.recent))
        if hits:
            record.hits.update(hits)
        self.open[key] = record
        if len(self.open) > 512:
            oldest = next(iter(self.open))
            self._close(self.open.pop(oldest))

    def _settle_year(self, header: tuple[Row, str], rest: str, number: int) -> tuple[Row, str]:
        """Learn the year from stamps that have one, and doubt the assumed one where it leads into the future."""
        row, family = header
        if row.time_us is None:
            return header
        if family not in _YEARLESS:
            year = headers.year_of(row.time_us)
            if year > 1971:
                self.year, self.told_year = year, True
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
        self.year -= 1
        return True

    def _assume(self) -> None:
        if not self.told_year:
            self.partial.assumed_year = self.year

    def _seen(self, time_us: int) -> None:
        self.last_us = time_us
        self.metrics.sink.seen(time_us)
        # Clocks that were not set yet say nothing about when the job ran.
        if time_us > 365 * 86_400_000_000:
            partial = self.partial
            if partial.first_us is None or time_us < partial.first_us:
                partial.first_us = time_us
            if partial.last_us is None or time_us > partial.last_us:
                partial.last_us = time_us

    def _close(self, record: _Open) -> None:
        row = record.row
        minute = ""
        if row.time_us is not None:
            minute = _minute(row.time_us)
        key = (row.level or "", row.module or "", minute)
        self.partial.counts[key] = self.partial.counts.get(key, 0) + 1
        if record.mode == "plain" and not row.level and not self.families:
            self.partial.unparsed += 1
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
        for record in self.open.values():
            self._close(record)
        self.open.clear()
        partial = self.partial
        metrics = self.metrics
        metrics.finish()
        if metrics.sink.columns:
            self.hit = True
            partial.columns = metrics.sink.columns
            partial.quotes = metrics.sink.quotes.all()
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

    def _kind(self) -> str:
        total = sum(self.families.values())
        if total:
            family, number = self.families.most_common(1)[0]
            if number * 2 >= total and family in _FAMILY_KIND:
                return _FAMILY_KIND[family]
            return "console"
        return "console" if self.hit or self.marked else "unknown"


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
