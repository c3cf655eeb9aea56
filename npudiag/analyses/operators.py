"""What each rank of a communicator was doing when it gave up: same operator, same size, same moment?

A task that fails is reported with the operator it belongs to (``base information``), the communicator
(``groupRank information``), and the operator's number, size and launch time (``opData information``). Where every
rank of a communicator gave up in it, nobody of them died: then they either ran different operators, or one came late.
During link set-up HCCL compares the operators of both ends itself and prints both values (``CMD information``).
"""

from __future__ import annotations

import calendar
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from npudiag.analyses.clocks import Clocks, median
from npudiag.analyses.pattern import Pattern
from npudiag.analyses.waits import Party, People, gave_up
from npudiag.tables.records import LogRecord

LITERALS = ("run failed, base information", "opData information is", "CMD information")
"""Literals whose records this analysis reads; their records are kept for it."""

_TAG = Pattern(r"base information is [^\n]*?\btag\[(?P<op>[A-Za-z]+)")
_GROUP = Pattern(
    r"groupRank information is group:\s?\[(?P<group>[^\]]*)\][^\n]*?rankSize\[(?P<size>\d{1,7})\], ?"
    r"rankId\[(?P<rank>\d{1,7})\]"
)
_DATA = Pattern(
    r"opData information is (?:timeStamp:\[(?P<at>\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3})\], ?)?"
    r"deviceId\[(?P<device>\d{1,4})\], ?index\[(?P<index>\d{1,12})\], ?count\[(?P<count>\d{1,18})\]"
    r"(?:, ?reduceType\[(?P<reduce>\w+)\])?[^\n]*?dataType\[(?P<dtype>\w+)\]"
)
_CHECK = Pattern(
    r"CMD information (?P<what>\w+) check fail\. ?local ?\[(?P<local>[^\]]*)\], ?remote ?\[(?P<remote>[^\]]*)\]"
)
_PEER = Pattern(r"-remoteUserrank\[\d+\]-remoteIpAddr\[(?P<server>[^\]/]+)(?:/(?P<device>\d+))?\]")
_NEAR_LINES = 12
_CHECK_LINES = 40
_UNEVEN = ("alltoall", "send", "recv", "receive", "allgatherv", "scatterv")
"""Words in the names of operators to which ranks may bring different sizes."""
_LATE_S = 30.0
_LATE_SHARE = 0.5
_MOST_SILENT = 2
_MOST_RANKS = 65536


@dataclass(slots=True)
class Op:
    """The operator in which a rank gave up."""

    party: Party
    group: str
    rank: int
    size: int
    failed_us: int | None
    record: LogRecord
    op: str | None = None
    index: int | None = None
    count: int | None = None
    dtype: str | None = None
    launched_us: int | None = None
    data: LogRecord | None = None
    base: LogRecord | None = None


@dataclass(frozen=True, slots=True)
class Odd:
    """Ranks that did something else than the others of their communicator.

    Attributes:
        what: ``op``, ``count``, ``dtype`` or ``index`` (they are at another operator of the sequence); for link
            set-up the parameter as HCCL calls it.
        odd, others: Their value, and that of the others.
        parties: Those that differ; all of them where no value has a majority.
        told: Whether a majority of those compared tells who is odd.
        certain: Whether it would also be one if all others did as the odd ones.
        records: The lines that show it.
        size: Ranks compared.
        linking: Whether HCCL itself compared both ends, during link set-up.
    """

    what: str
    odd: str
    others: str
    parties: tuple[Party, ...]
    told: bool
    records: tuple[LogRecord, ...]
    size: int
    linking: bool = False
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Late:
    """A rank that launched an operator long after the others.

    Attributes:
        seconds: How long after the median of the others.
        others: How many launched it in time.
    """

    party: Party
    seconds: float
    op: str | None
    others: int
    records: tuple[LogRecord, ...]


@dataclass(slots=True)
class Operators:
    """What the comparison showed.

    Attributes:
        ops: The operator in which each rank first gave up, by communicator.
        odd: Differences found.
        late: Ranks that came late.
        silent: Those of the largest communicator that did not give up while all others in it did.
    """

    ops: dict[str, list[Op]] = field(default_factory=dict)
    odd: list[Odd] = field(default_factory=list)
    late: list[Late] = field(default_factory=list)
    silent: list[Party] = field(default_factory=list)


def find(records: Sequence[LogRecord], people: People, clocks: Clocks) -> Operators:
    """Compare what the ranks were doing."""
    found = Operators()
    first: dict[tuple[str, Party], Op] = {}
    for op in _reports(records, people):
        first.setdefault((op.group, op.party), op)
    for op in first.values():
        found.ops.setdefault(op.group, []).append(op)
    quitters = gave_up(records)
    for ops in found.ops.values():
        # A rank that gave no report is the better suspect: the others may well have been in different operators
        # when it stopped. One that says on the console that it gave up has a report that is not among the input.
        if len(ops) < 2 or any(op.size != ops[0].size for op in ops) or len(ops) > ops[0].size:
            continue
        unheard = (people.peer(ops[0].group, rank, ops[0].record) for rank in _missing(ops))
        if any(party is None or party.rank not in quitters for party in unheard):
            continue
        odd = _compare(ops)
        if odd is not None:
            found.odd.append(odd)
        else:
            found.late.extend(_late(ops, clocks))
    found.odd.extend(_checked(records, people))
    found.silent = [party for party in _silent(found.ops, people) if party.rank not in quitters]
    return found


def _missing(ops: Sequence[Op]) -> list[int]:
    """Return the ranks of a communicator of which there is no report; one that nobody has where it is too large."""
    told, size = {op.rank for op in ops}, ops[0].size
    return [rank for rank in range(size) if rank not in told] if size <= _MOST_RANKS else [size]


def _silent(groups: Mapping[str, Sequence[Op]], people: People) -> list[Party]:
    """Return who did not give up in the largest communicator in which all others did."""
    reported = {op.party for ops in groups.values() for op in ops}
    for group, ops in sorted(groups.items(), key=lambda item: -len(item[1])):
        size = ops[0].size
        missing = _missing(ops) if size <= _MOST_RANKS else []
        if len(ops) >= 2 and 0 < len(missing) <= _MOST_SILENT and len(ops) > len(missing):
            parties = (people.peer(group, rank, ops[0].record) for rank in missing)
            # Who gave up in another communicator was waiting as well.
            silent = [party for party in parties if party is not None and party not in reported]
            if silent:
                return silent
    return []


def _reports(records: Iterable[LogRecord], people: People) -> Iterable[Op]:
    """Yield the reports of failed tasks, each put together from the lines that it consists of."""
    tags: dict[tuple[str, int | None], tuple[LogRecord, str]] = {}
    open_: dict[tuple[str, int | None], Op] = {}
    done: list[Op] = []
    for record in records:
        text, place = record.text, (record.file, record.pid)
        if "information is" not in text:
            continue
        if tag := _TAG.search(text):
            tags[place] = (record, tag["op"])
        if group := _GROUP.search(text):
            party = people.waiter(record, None, None)
            if party is not None:
                base, name = tags.get(place, (None, None))
                if base is None or not 0 <= record.line - base.line <= _NEAR_LINES:
                    base, name = None, None
                op = Op(
                    party, group["group"], int(group["rank"]), int(group["size"]), record.time_us, record,
                    op=name, base=base,
                )  # fmt: skip
                open_[place] = op
                done.append(op)
        if (data := _DATA.search(text)) and place in open_ and record.line - open_[place].record.line <= _NEAR_LINES:
            op = open_.pop(place)
            op.index, op.count, op.dtype = int(data["index"]), int(data["count"]), data["dtype"]
            op.launched_us, op.data = _stamp_us(data["at"]), record
    return done


def _stamp_us(text: str | None) -> int | None:
    if text is None:
        return None
    year, month, day, rest = text.split("-", 3)
    clock, milli, micro = rest.rsplit(".", 2)
    hour, minute, second = clock.split(":")
    try:
        seconds = calendar.timegm((int(year), int(month), int(day), int(hour), int(minute), int(second)))
    except (ValueError, OverflowError):
        return None
    return seconds * 1_000_000 + int(milli) * 1000 + int(micro)


def _compare(ops: Sequence[Op]) -> Odd | None:
    """Return the first difference that matters, None where all did the same.

    Kinds and sizes are compared at one place of the sequence only: where a link broke, one rank may have got an
    operator further than another. That some are at another place counts only where a majority agrees on one.
    """
    if any(op.index is None for op in ops):
        return None
    if len({op.index for op in ops}) > 1:
        claims = [(op.party, str(op.index), op.data or op.record) for op in ops]
        odd = odd_one_out("index", claims, among=ops[0].size)
        return odd if odd.told else None
    for what in ("op", "dtype", "count"):
        values = [getattr(op, what) for op in ops]
        # The sizes of all-to-all and of point-to-point operators differ by design.
        if None in values or (what == "count" and not _equal_sizes(ops)):
            continue
        if len(set(values)) > 1:
            shown = [(op.base if what == "op" else op.data) or op.record for op in ops]
            claims = [(op.party, str(value), line) for op, value, line in zip(ops, values, shown, strict=True)]
            odd = odd_one_out(what, claims, among=ops[0].size)
            # With a different value on every rank nothing is compared that should be alike.
            return odd if odd.told or len(set(values)) == 2 else None
    return None


def _equal_sizes(ops: Sequence[Op]) -> bool:
    names = {(op.op or "").lower() for op in ops}
    return all(name and not any(word in name for word in _UNEVEN) for name in names)


def odd_one_out(
    what: str, claims: Sequence[tuple[Party, str, LogRecord]], *, linking: bool = False, among: int = 0
) -> Odd:
    """Return who has another value than the majority, or all where there is none.

    Args:
        what: What the values are of.
        claims: Party, value and the line that tells it; at least two values differ.
        linking: Whether HCCL itself compared them during link set-up.
        among: How many there are, where some claims may be missing.
    """
    counted = Counter(value for _, value, _ in claims).most_common()
    common, number = counted[0]
    told = number * 2 > len(claims) and len(claims) > 2
    chosen = [(party, value, record) for party, value, record in claims if not told or value != common]
    witness = next(record for _, value, record in claims if value == common)
    odd = next(value for _, value, _ in chosen if value != common)
    shown = [record for _, value, record in chosen if value != common][:3]
    return Odd(
        what=what,
        odd=odd,
        others=common,
        parties=tuple(dict.fromkeys(party for party, _, _ in chosen)),
        told=told,
        records=(*shown, witness),
        size=len(claims),
        linking=linking,
        certain=told and number * 2 > among,
    )


def _late(ops: Sequence[Op], clocks: Clocks) -> list[Late]:
    """Return who launched the operator long after the others."""
    timed = [(op, clocks.corrected(op.party.node, op.launched_us)) for op in ops]
    times = [at for _, at in timed if at is not None]
    if len(times) < 3 or len(times) != len(ops):
        return []
    middle = median(times)
    waited = [(op.failed_us - op.launched_us) / 1e6 for op in ops if op.failed_us and op.launched_us]
    least = max(_LATE_S, _LATE_SHARE * median(waited)) if waited else _LATE_S
    behind = [(op, (at - middle) / 1e6) for op, at in timed if at is not None and (at - middle) / 1e6 >= least]
    if not behind or len(behind) * 2 >= len(ops):
        return []
    witness = next(op for op, at in timed if at is not None and abs(at - middle) / 1e6 < least)
    return [
        Late(
            op.party, seconds, op.op, len(ops) - len(behind), tuple(r for r in (op.data, witness.data) if r is not None)
        )
        for op, seconds in sorted(behind, key=lambda item: -item[1])
    ]


def _checked(records: Sequence[LogRecord], people: People) -> list[Odd]:
    """Return what HCCL's own comparison of both ends showed, by who has the value that the others do not have."""
    peers: dict[tuple[str, int | None], list[tuple[int, Party | None]]] = {}
    for record in records:
        if "-remoteIpAddr[" in record.text and (match := _PEER.search(record.text)):
            device = int(match["device"]) if match["device"] else None
            peer = people.awaited(None, match["server"], device, record.time_us)
            peers.setdefault((record.file, record.pid), []).append((record.line, peer))
    claims: dict[str, dict[Party, tuple[str, LogRecord]]] = {}
    for record in records:
        check = _CHECK.search(record.text) if "CMD information" in record.text else None
        own = people.waiter(record, None, None) if check is not None else None
        if check is None or own is None:
            continue
        values = claims.setdefault(check["what"], {})
        values.setdefault(own, (check["local"], record))
        after = [
            peer
            for line, peer in peers.get((record.file, record.pid), [])
            if 0 <= line - record.line <= _CHECK_LINES and peer is not None
        ]
        if after:
            values.setdefault(after[0], (check["remote"], record))
    # The first parameter that HCCL compares says most: what follows from another operator differs as well.
    found = []
    for what, values in claims.items():
        if len({value for value, _ in values.values()}) > 1:
            sides = [(party, value, record) for party, (value, record) in values.items()]
            found.append(odd_one_out(what, sides, linking=True))
    return found[:1]
