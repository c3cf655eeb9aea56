"""What is known of each machine, by what is told of it.

Facts come from npudiag's snapshot, from the vendor's tools and from version files. Files that lie in one folder are
taken to be of one machine; where several tell the same, the last one counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npudiag.tables.store import Store


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact, and where it stands.

    Attributes:
        item: Of which one it is told; empty where there is only one.
        value: Its value as text.
        number: Its value as a number, None where it is none; 1 and 0 for yes and no.
        device: NPU it is about.
        file, line: Where it stands.
        text: The line it stands in, where it was kept.
    """

    item: str
    value: str
    number: float | None
    device: int | None
    file: str
    line: int | None
    text: str | None


@dataclass(slots=True)
class Card:
    """The last reading of one NPU in ``npu-smi info``."""

    device: int
    health: str | None
    hbm_total_mb: float | None
    hbm_used_mb: float | None
    util_pct: float | None


@dataclass(slots=True)
class Host:
    """One machine.

    Attributes:
        node: Its name; None where unknown.
        cards: Last readings of its NPUs, by number.
    """

    node: str | None = None
    cards: dict[int, Card] = field(default_factory=dict)
    _facts: dict[tuple[str, str], dict[tuple[str, int | None], Fact]] = field(default_factory=dict)

    def add(self, area: str, name: str, fact: Fact) -> None:
        """Add a fact; it replaces what was told of the same thing before."""
        key: tuple[str, int | None] = (fact.item, fact.device)
        if name in _EVENTS:
            key = (f"{fact.item} {fact.value}", fact.device)
        self._facts.setdefault((area, name), {})[key] = fact

    def all(self, area: str, name: str) -> list[Fact]:
        """Return all facts of a name, in order."""
        return list(self._facts.get((area, name), {}).values())

    def one(self, area: str, name: str, item: str | None = None) -> Fact | None:
        """Return the last fact of a name, of `item` where given."""
        found = [fact for fact in self.all(area, name) if item is None or fact.item == item]
        return found[-1] if found else None

    def number(self, area: str, name: str, item: str | None = None) -> float | None:
        """Return a fact as a number, None where it is not known or none."""
        fact = self.one(area, name, item)
        return fact.number if fact else None

    def value(self, area: str, name: str, item: str | None = None) -> str | None:
        """Return a fact as text, None where it is not known."""
        fact = self.one(area, name, item)
        return fact.value if fact else None

    def versions(self) -> dict[str, str]:
        """Return every version that is known: of packages, and of driver, firmware and CANN."""
        found = {fact.item: fact.value for fact in self.all("python", "package")}
        python = self.value("python", "version")
        if python is not None:
            found["python"] = python
        for name in ("driver", "firmware", "toolkit", "nnae", "nnal", "kernels"):
            version = self.value("version", name, "version")
            if version is not None:
                found[name] = version
        return dict(sorted(found.items()))

    @property
    def npus(self) -> int | None:
        """Number of NPUs as far as anything tells; None where nothing does."""
        told = [self.number("device", "node_count"), self.number("device", "pci_count"), float(len(self.cards))]
        known = [int(count) for count in told if count]
        if known:
            return max(known)
        return 0 if told[0] is not None else None

    @property
    def before_job(self) -> bool:
        """Whether the snapshot was taken to see if a job can start; a running job is no leftover otherwise."""
        return self.value("snapshot", "purpose") == "preflight"


_EVENTS = ("link_down_s",)
"""Facts that may be told several times of the same thing."""


def hosts(store: Store) -> list[Host]:
    """Return the machines that anything is known of, read once per run."""
    known: list[Host] | None = store.memo.get("hosts")
    if known is not None:
        return known
    found: dict[str, Host] = {}
    for row in store.columns("host_facts").rows():
        file, line = row["file"] or "", row["line"]
        host = found.setdefault(_folder(file), Host())
        host.node = row["node"] or host.node
        fact = Fact(
            row["item"] or "", row["value"] or "", row["number"], row["device"], file, line,
            store.quotes.get(file, {}).get(line) if line is not None else None,
        )  # fmt: skip
        if row["area"] == "snapshot" and row["name"] == "node":
            host.node = row["node"] or fact.value
        if row["area"] and row["name"]:
            host.add(row["area"], row["name"], fact)
    for row in store.columns("npu_samples").rows():
        own = found.get(_folder(row["file"] or ""))
        if own is None or row["device"] is None:
            continue
        own.cards[row["device"]] = Card(
            row["device"], row["health"], row["hbm_total_mb"], row["hbm_used_mb"], row["util_pct"]
        )
    store.memo["hosts"] = list(found.values())
    return list(found.values())


def _folder(file: str) -> str:
    return file.rpartition("/")[0]
