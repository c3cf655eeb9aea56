"""What a rank table says of the job's ranks, and what is wrong with it.

A table is taken for that of the job where the input holds one only, or several that say the same; it then names
ranks that left no log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npudiag.analyses.topology import Process

Row = Mapping[str, Any]

READY = "completed"
_SUPER_PODS = "1.2"
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a table.

    Attributes:
        kind: ``unreadable``, ``empty``, ``not-ready``, ``ranks``, ``devices``, ``addresses``, ``servers`` or ``pods``.
        en, zh: What it is, in both languages.
        rows: The rows that show it.
        ranks: Whom it is about.
    """

    kind: str
    en: str
    zh: str
    rows: tuple[Row, ...]
    ranks: tuple[int, ...] = ()


def tables(rows: Iterable[Row]) -> dict[tuple[str, str | None], list[Row]]:
    """Return the rows of each table, by file and group."""
    found: dict[tuple[str, str | None], list[Row]] = {}
    for row in rows:
        found.setdefault((str(row["file"]), row["group"]), []).append(row)
    return found


def members(rows: Iterable[Row]) -> list[Process]:
    """Return the ranks that the job's table lists; empty where tables differ or the table is not whole."""
    answers = {tuple(sorted(_places(table))): table for table in tables(rows).values()}
    if len(answers) != 1:
        return []
    places, table = next(iter(answers.items()))
    ranks = [rank for rank, *_ in places]
    if not ranks or ranks != list(range(len(table))) or any(fault.kind != "not-ready" for fault in check(table)):
        return []
    return [
        Process(
            node=None,
            pid=None,
            rank=row["rank"],
            ranks=len(table),
            logic_device=None,
            device=row["device"],
            device_ip=row["device_ip"],
            server=row["host_ip"] or row["server"],
            communicator=None,
            file=row["file"],
            line=row["line"],
            stated=False,
        )
        for row in table
    ]


def _places(table: Iterable[Row]) -> list[tuple[int, int, str, str]]:
    return [
        (row["rank"], -1 if row["device"] is None else row["device"], row["server"] or "", row["device_ip"] or "")
        for row in table
        if row["rank"] is not None
    ]


def check(table: Sequence[Row]) -> list[Fault]:
    """Return what is wrong with one table, in the order in which HCCL would notice it."""
    broken = [row for row in table if row["fault"] is not None]
    if broken:
        why = broken[0]["fault"]
        return [Fault("unreadable", f"it is no valid JSON ({why})", f"不是合法的 JSON（{why}）", tuple(broken))]
    found: list[Fault] = []
    first = table[0]
    status = first["status"]
    if status is not None and status != READY:
        en = f'its status is "{status}", not "{READY}": whoever writes it is not done'
        found.append(Fault("not-ready", en, f"status 为 {status} 而非 {READY}，说明尚未生成完毕", (first,)))
    cards = [row for row in table if row["rank"] is not None or row["device"] is not None]
    if not cards:
        if status in (None, READY):
            found.append(Fault("empty", "it lists no card", "未列出任何卡", (first,)))
        return found
    return [*found, *_ranks(cards), *_devices(cards), *_addresses(cards), *_servers(cards), *_pods(cards)]


def _ranks(cards: Sequence[Row]) -> list[Fault]:
    found: list[Fault] = []
    number = Counter(row["rank"] for row in cards)
    twice = sorted(rank for rank, times in number.items() if rank is not None and times > 1)
    if twice:
        rows = tuple(row for row in cards if row["rank"] in twice)
        named = _named(twice)
        found.append(Fault("ranks", f"rank {named} is listed more than once", f"rank {named} 重复", rows, tuple(twice)))
    none = tuple(row for row in cards if row["rank"] is None)
    if none:
        en = f"{len(none)} of {len(cards)} cards have no rank_id that is a number"
        found.append(Fault("ranks", en, f"{len(cards)} 张卡中有 {len(none)} 张缺少数字形式的 rank_id", none))
    known = {rank for rank in number if rank is not None}
    missing = [rank for rank in range(max(known, default=-1) + 1) if rank not in known]
    if missing and not none and not twice:
        named = _named(missing)
        en = f"rank {named} is missing between 0 and {max(known)}"
        rows = (next(row for row in cards if row["rank"] == max(known)),)
        found.append(Fault("ranks", en, f"0 到 {max(known)} 之间缺少 rank {named}", rows, tuple(missing)))
    return found


def _devices(cards: Sequence[Row]) -> list[Fault]:
    places = Counter((row["server"], row["device"]) for row in cards if row["device"] is not None)
    twice = [place for place, times in places.items() if times > 1]
    if not twice:
        return []
    server, device = twice[0]
    rows = tuple(row for row in cards if (row["server"], row["device"]) == (server, device))
    ranks = _ranks_of(rows)
    en = f"device {device} of server {server} is given to ranks {_named(ranks)}"
    return [Fault("devices", en, f"服务器 {server} 的 device {device} 同时分配给了 rank {_named(ranks)}", rows, ranks)]


def _addresses(cards: Sequence[Row]) -> list[Fault]:
    number = Counter(row["device_ip"] for row in cards if row["device_ip"])
    twice = [address for address, times in number.items() if times > 1]
    if twice:
        rows = tuple(row for row in cards if row["device_ip"] == twice[0])
        ranks = _ranks_of(rows)
        en = f"device_ip {twice[0]} is given to ranks {_named(ranks)}"
        return [Fault("addresses", en, f"device_ip {twice[0]} 同时出现在 rank {_named(ranks)}", rows, ranks)]
    none = tuple(row for row in cards if not row["device_ip"])
    if none and len(none) < len(cards):
        ranks = _ranks_of(none)
        named = _named(ranks)
        return [Fault("addresses", f"rank {named} has no device_ip", f"rank {named} 缺少 device_ip", none, ranks)]
    return []


def _servers(cards: Sequence[Row]) -> list[Fault]:
    stated, real = cards[0]["servers"], len({row["server"] for row in cards})
    if stated is None or stated == real:
        return []
    en = f"server_count is {stated}, but {real} servers are listed"
    return [Fault("servers", en, f"server_count 为 {stated}，实际列出 {real} 台服务器", (cards[0],))]


def _pods(cards: Sequence[Row]) -> list[Fault]:
    if cards[0]["version"] != _SUPER_PODS:
        return []
    none = tuple(row for row in cards if row["super_device"] is None)
    lost = tuple(row for row in cards if row["super_pod"] is None)
    if none:
        named = _named(_ranks_of(none))
        en = f"version {_SUPER_PODS} needs super_device_id, which rank {named} lacks"
        return [Fault("pods", en, f"{_SUPER_PODS} 版本需要 super_device_id，rank {named} 缺失", none, _ranks_of(none))]
    if lost and len(lost) < len(cards):
        server = lost[0]["server"]
        return [Fault("pods", f"server {server} is in no super pod", f"服务器 {server} 不属于任何超节点", lost)]
    return []


def _ranks_of(rows: Iterable[Row]) -> tuple[int, ...]:
    return tuple(sorted({row["rank"] for row in rows if row["rank"] is not None}))


def _named(ranks: Sequence[int]) -> str:
    more = f" … ({len(ranks)})" if len(ranks) > _MOST_NAMED else ""
    return ", ".join(map(str, ranks[:_MOST_NAMED])) + more
