"""Signature detectors: which kept log records say what a rule asks for.

The multi-pattern scan has marked, in every kept record, which literals stand in it. That
names the few records a rule has to look at; its regular expression runs on those alone.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from npudiag.engine.hits import Hit
from npudiag.engine.model import Near, Rule, Signature
from npudiag.parsers.scan import Literals
from npudiag.tables.records import LogRecord

_NEAR_CHARS = 60_000
_COMPANION = 10


class LiteralTable:
    """Numbers the literals of all rules; equal ones share a number."""

    def __init__(self, extra: Sequence[str] = ()) -> None:
        self._ids: dict[tuple[str, bool], int] = {}
        for text in extra:
            self.number(text, nocase=False)

    def number(self, text: str, *, nocase: bool) -> int:
        """Return the number of a literal, giving it one if need be."""
        return self._ids.setdefault((text, nocase), len(self._ids))

    def add(self, rules: Iterable[Rule]) -> None:
        """Number everything that `rules` look for."""
        for rule in rules:
            for signature in rule.signatures:
                self._signature(signature)

    def _signature(self, signature: Signature) -> None:
        for text in primary(signature):
            self.number(text, nocase=signature.nocase)
        if signature.near is not None:
            # Companions' records must be kept, whatever their level. Short words stand in half of all lines
            # and would keep those; they are found in the records and the context that are kept anyway.
            for text in (*signature.near.all, *signature.near.any, *signature.near.unless):
                if len(text) >= _COMPANION:
                    self.number(text, nocase=signature.nocase)
        for other in (signature.then, signature.cleared_by):
            if other is not None:
                self._signature(other)

    def literals(self) -> Literals:
        """Return what the scanner is to look for."""
        return Literals(tuple(text for text, _ in self._ids), tuple(nocase for _, nocase in self._ids))


def primary(signature: Signature) -> tuple[str, ...]:
    """Return the literals one of which must stand in a matching record."""
    if signature.all:
        return (max(signature.all, key=len),)
    return signature.any


class Corpus:
    """The kept records, indexed by literal and by place."""

    def __init__(self, records: Sequence[LogRecord], table: LiteralTable) -> None:
        self.records = records
        self.table = table
        self._by_literal: dict[int, list[int]] = defaultdict(list)
        self._by_file: dict[str, tuple[list[int], list[LogRecord]]] = {}
        for index, record in enumerate(records):
            for literal in record.hits:
                self._by_literal[literal].append(index)
            lines, members = self._by_file.setdefault(record.file, ([], []))
            lines.append(record.line)
            members.append(record)

    def candidates(self, signature: Signature) -> list[LogRecord]:
        """Return the records that hold one of the signature's primary literals, in order."""
        found: set[int] = set()
        for text in primary(signature):
            found.update(self._by_literal.get(self.table.number(text, nocase=signature.nocase), ()))
        return [self.records[index] for index in sorted(found)]

    def around(self, record: LogRecord, lines: int) -> list[LogRecord]:
        """Return the kept records of the same file within so many lines of `record`, itself among them."""
        numbers, members = self._by_file[record.file]
        low = bisect_left(numbers, record.line - lines)
        high = bisect_right(numbers, record.line + lines)
        return members[low:high]


@dataclass(frozen=True, slots=True)
class _Match:
    record: LogRecord
    captures: dict[str, Any]
    companions: tuple[LogRecord, ...]
    marks: tuple[str, ...]
    values: tuple[str, ...]


_CASTS: dict[str, Any] = {
    "int": lambda text: int(text.replace(",", "")),
    "float": lambda text: float(text.replace(",", "")),
    "hex": lambda text: int(text, 16),
    "str": str,
}


class Matcher:
    """One signature, compiled."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self._then = Matcher(signature.then) if signature.then else None
        self._cleared = Matcher(signature.cleared_by) if signature.cleared_by else None

    # Most rules never meet a candidate, and compiling all expressions would take longer than a small analysis.

    @cached_property
    def _regex(self) -> re.Pattern[str] | None:
        return self._compile(self.signature.regex)

    @cached_property
    def _near_regex(self) -> re.Pattern[str] | None:
        near = self.signature.near
        return self._compile(near.regex) if near else None

    def _compile(self, expression: str | None) -> re.Pattern[str] | None:
        flags = re.IGNORECASE if self.signature.nocase else 0
        return re.compile(expression, flags) if expression else None

    def find(self, corpus: Corpus) -> list[_Match]:
        """Return every matching record."""
        out = []
        for record in corpus.candidates(self.signature):
            match = self._match(record, corpus)
            if match is not None:
                out.append(match)
        return self._standing(out, corpus) if self._cleared and out else out

    def _standing(self, matches: list[_Match], corpus: Corpus) -> list[_Match]:
        """Return the matches that no later record takes back."""
        assert self._cleared is not None
        clear = self._cleared.signature
        ends = self._cleared.find(corpus)

        def taken_back(match: _Match) -> bool:
            known = [match.captures.get(name) for name in clear.same]
            return any(
                end.record.file == match.record.file
                and [end.captures.get(name) for name in clear.same] == known
                and _follower(match, [end], clear.within_s) is not None
                for end in ends
            )

        return [match for match in matches if not taken_back(match)]

    def _fold(self, text: str) -> str:
        return text.lower() if self.signature.nocase else text

    def _match(self, record: LogRecord, corpus: Corpus) -> _Match | None:
        signature = self.signature
        where = signature.where
        if where.level and record.level is not None and record.level not in where.level:
            return None
        if where.module and record.module is not None and record.module not in where.module:
            return None
        if where.kind and record.kind not in where.kind:
            return None
        text = self._fold(record.text)
        if not all(self._fold(part) in text for part in signature.all):
            return None
        if signature.any and not any(self._fold(part) in text for part in signature.any):
            return None
        if any(self._fold(part) in text for part in signature.unless):
            return None
        captures: dict[str, Any] = {}
        marks = [part for part in (*signature.all, *signature.any) if self._fold(part) in text]
        values: tuple[str, ...] = ()
        if self._regex is not None:
            found = self._regex.search(record.text)
            if found is None:
                return None
            captures.update(self._captured(found))
            values = tuple(value for value in found.groupdict().values() if value)
            marks.extend(values)
        companions: tuple[LogRecord, ...] = ()
        if signature.near is not None:
            beside = self._companions(record, signature.near, corpus)
            if beside is None:
                return None
            companions, more = beside
            captures = {**more, **captures}
        return _Match(record, captures, companions, tuple(marks), values)

    def _companions(
        self, record: LogRecord, near: Near, corpus: Corpus
    ) -> tuple[tuple[LogRecord, ...], dict[str, Any]] | None:
        around = corpus.around(record, near.lines)
        texts = [self._fold(other.text) for other in around]
        # Lines kept as context count as well: they stand in the file, even where no rule asked for them.
        context = self._fold("\n".join((*record.before, *record.after)))
        together = ("\n".join(texts) + "\n" + context)[:_NEAR_CHARS]
        if not all(self._fold(part) in together for part in near.all):
            return None
        if near.any and not any(self._fold(part) in together for part in near.any):
            return None
        if any(self._fold(part) in together for part in near.unless):
            return None
        captures: dict[str, Any] = {}
        chosen: list[LogRecord] = []
        if self._near_regex is not None:
            for other in sorted(around, key=lambda item: abs(item.line - record.line)):
                found = self._near_regex.search(other.text)
                if found is not None:
                    captures = self._captured(found)
                    if other is not record:
                        chosen.append(other)
                    break
            else:
                found = self._near_regex.search("\n".join((*record.before, *record.after)))
                if found is not None:
                    captures = self._captured(found)
                elif not near.optional:
                    return None
        for part in (*near.all, *near.any):
            for other, text in zip(around, texts, strict=True):
                if other is not record and other not in chosen and self._fold(part) in text:
                    chosen.append(other)
                    break
        return tuple(chosen), captures

    def _captured(self, match: re.Match[str]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, value in match.groupdict().items():
            if value is None:
                continue
            try:
                out[name] = _CASTS[self.signature.types.get(name, "str")](value)
            except ValueError:
                # What does not read as a number is shown as it stands.
                out[name] = value
        return out

    def groups(self, corpus: Corpus) -> list[tuple[tuple[Any, ...], Hit]]:
        """Return key and hit of each group of matching records that meets the counts and the sequence."""
        signature = self.signature
        grouped: dict[tuple[Any, ...], list[_Match]] = defaultdict(list)
        for match in self.find(corpus):
            grouped[_group_key(match.record, signature.per)].append(match)
        followers: dict[tuple[Any, ...], list[_Match]] = defaultdict(list)
        if self._then is not None:
            for match in self._then.find(corpus):
                followers[_group_key(match.record, signature.per)].append(match)
        hits = []
        for key, matches in grouped.items():
            matches = _dense(matches, signature)
            if not matches:
                continue
            sequel: _Match | None = None
            if self._then is not None:
                sequel = _follower(matches[0], followers.get(key, []), self._then.signature.within_s)
                if sequel is None:
                    continue
            hits.append((key, _hit(matches, sequel)))
        return hits


def _group_key(record: LogRecord, per: Sequence[str]) -> tuple[Any, ...]:
    return tuple(getattr(record, column) for column in per)


def _occurrences(matches: Sequence[_Match]) -> int:
    """Count the records, folded ones included where a whole message matched."""
    seen: dict[tuple[str, int], tuple[int, int]] = {}
    for match in matches:
        record = match.record
        number, _ = seen.get((record.file, record.group), (0, 0))
        seen[(record.file, record.group)] = (number + 1, record.count)
    return sum(max(number, count) if group >= 0 else number for (_, group), (number, count) in seen.items())


def _dense(matches: list[_Match], signature: Signature) -> list[_Match]:
    """Return the matches, or those inside the first window that holds enough of them, or none."""
    if _occurrences(matches) < signature.count:
        return []
    if signature.within_s is None or signature.count <= 1:
        return matches
    timed = sorted((match for match in matches if match.record.time_us is not None), key=_time)
    if not timed:
        return matches
    window = int(signature.within_s * 1_000_000)
    low = 0
    for high, match in enumerate(timed):
        while _time(match) - _time(timed[low]) > window:
            low += 1
        if high - low + 1 >= signature.count or (high > low and _occurrences(timed[low : high + 1]) >= signature.count):
            return matches
    return []


def _time(match: _Match) -> int:
    return match.record.time_us or 0


def _follower(first: _Match, candidates: Sequence[_Match], within_s: float | None) -> _Match | None:
    record = first.record
    for match in candidates:
        other = match.record
        if record.time_us is not None and other.time_us is not None:
            gap = other.time_us - record.time_us
            if gap < 0 or (within_s is not None and gap > within_s * 1_000_000):
                continue
        elif other.file != record.file or other.line <= record.line:
            continue
        return match
    return None


def _hit(matches: list[_Match], sequel: _Match | None) -> Hit:
    timed = [match for match in matches if match.record.time_us is not None]
    first = min(timed, key=_time) if timed else matches[0]
    # The earliest record decides, but one that says more is shown with it.
    fullest = max(matches, key=lambda match: len(match.captures))
    if len(fullest.captures) > len(first.captures):
        first = fullest
    captures = dict(first.captures)
    if sequel is not None:
        captures.update({name: value for name, value in sequel.captures.items() if name not in captures})
    records = [first.record, *first.companions]
    if sequel is not None:
        records.append(sequel.record)
    records.extend(match.record for match in matches if match.record is not first.record)
    return Hit(
        records=records_by_id(records),
        captures=captures,
        occurrences=_occurrences(matches),
        ranks=_named(matches, "rank"),
        devices=_named(matches, "device"),
        nodes=_named(matches, "node"),
        steps=_named(matches, "step"),
        marks=tuple(dict.fromkeys(mark for match in matches[:20] for mark in match.marks)),
        values=tuple(dict.fromkeys(value for match in matches[:20] for value in match.values)),
    )


def records_by_id(records: Iterable[LogRecord]) -> list[LogRecord]:
    """Return the records without repeats, first ones first."""
    seen: set[int] = set()
    out = []
    for record in records:
        if id(record) not in seen:
            seen.add(id(record))
            out.append(record)
    return out


def _named(matches: Sequence[_Match], name: str) -> list[Any] | None:
    """Return the distinct values captured under `name`; None when no match captured it."""
    values = {match.captures[name] for match in matches if name in match.captures}
    kind = str if name == "node" else int
    values = {value for value in values if isinstance(value, kind)}
    return sorted(values) if values else None


def run(rule: Rule, corpus: Corpus) -> list[Hit]:
    """Return the hits of a signature rule; alternatives that hit the same group are one."""
    grouped: dict[tuple[Any, ...], list[Hit]] = defaultdict(list)
    for signature in rule.signatures:
        for key, hit in Matcher(signature).groups(corpus):
            grouped[(signature.per, *key)].append(hit)
    return [_merged(hits) if len(hits) > 1 else hits[0] for hits in grouped.values()]


def _merged(hits: list[Hit]) -> Hit:
    """Join the hits of alternatives into one finding."""
    hits = sorted(hits, key=lambda hit: (-len(hit.captures), _first(hit)))
    whole = hits[0]
    known = {id(record) for record in whole.records}
    for other in hits[1:]:
        fresh = [record for record in other.records if id(record) not in known]
        known.update(id(record) for record in fresh)
        whole.occurrences += other.occurrences if fresh and len(fresh) == len(other.records) else 0
        whole.records.extend(fresh)
        for name, value in other.captures.items():
            whole.captures.setdefault(name, value)
        for field in ("ranks", "devices", "nodes", "steps"):
            mine, theirs = getattr(whole, field), getattr(other, field)
            if theirs:
                setattr(whole, field, sorted({*(mine or ()), *theirs}))
        whole.marks = (*whole.marks, *other.marks)
        whole.values = (*whole.values, *other.values)
    return whole


def _first(hit: Hit) -> int:
    times = [record.time_us for record in hit.records if record.time_us is not None]
    return min(times, default=2**62)
