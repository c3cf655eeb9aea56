"""The code catalogues, read from ``rules/codes``.

They are tab-separated tables: one family parses in a few milliseconds, so that a single code is explained without a
cache. A table is read when its family is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import cast

from npudiag.engine.load import CODES_DIRECTORY, shipped_rules
from npudiag.engine.model import Text
from npudiag.errors import RuleError
from npudiag.knowledge.model import Advice, Entry, Family
from npudiag.result import Severity, Trust

PARTS = ("causes", "look", "do")


def codes_folder() -> Path:
    """Return the folder of the shipped catalogues."""
    return shipped_rules() / CODES_DIRECTORY


@lru_cache(maxsize=1)
def shipped() -> Catalogue:
    """Return the shipped catalogues, the same object each time."""
    return Catalogue(codes_folder())


class Catalogue:
    """All tables of a folder, each read when it is first used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def rows(self, table: str) -> Iterator[dict[str, str]]:
        """Yield the rows of a table by column.

        Raises:
            RuleError: The table is missing or a row has another number of cells than the header.
        """
        from npudiag.errors import Fault

        path = self.folder / f"{table}.tsv"
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise RuleError([Fault(str(path), 0, 0, f"cannot read this catalogue: {error}")]) from error
        head = lines[0].split("\t")
        for number, line in enumerate(lines[1:], 2):
            if not line:
                continue
            cells = line.split("\t")
            if len(cells) != len(head):
                message = f"{len(cells)} cells; the header names {len(head)}: {', '.join(head)}"
                raise RuleError([Fault(str(path), number, 0, message)])
            yield dict(zip(head, cells, strict=True))

    # -- what the others refer to

    @cached_property
    def advice(self) -> dict[str, Advice]:
        """Advice by name."""
        found: dict[str, dict[str, Text]] = {}
        for row in self.rows("advice"):
            found.setdefault(row["advice"], {})[row["part"]] = _text(row)
        return {name: Advice(**parts) for name, parts in found.items()}

    @cached_property
    def families(self) -> dict[str, Family]:
        """Families by id."""
        return {
            row["family"]: Family(
                id=row["family"],
                title=Text(en=row["title_en"], zh=row["title_zh"]),
                means=_text(row),
                severity=cast(Severity, row["severity"]),
                advice=row["advice"],
            )
            for row in self.rows("families")
        }

    # -- tables of codes

    def _table(self, table: str, family: str | None, severity: str = "error") -> dict[str, Entry]:
        """Read a table of codes; `family` None: by the first letters of each code."""
        found = {}
        for row in self.rows(table):
            code = row["code"]
            found[code] = Entry(
                code=code,
                family=family if family is not None else self.family_of_row(table, code),
                symbol=row.get("symbol", ""),
                severity=cast(Severity, row.get("severity") or severity),
                trust=cast(Trust, row.get("trust") or "specific"),
                means=_text(row),
                advice=row["advice"],
            )
        return found

    @staticmethod
    def family_of_row(table: str, code: str) -> str:
        """Return the family of a code of the tables that hold several."""
        if table == "acl":
            return f"acl-{code[:3]}"
        if table == "npu_smi":
            return "npu-smi" if code.startswith("Health") else "dcmi"
        return cann_family(code)

    @cached_property
    def cann(self) -> dict[str, Entry]:
        """CANN error codes such as ``EI0006``."""
        return self._table("cann", None)

    @cached_property
    def acl(self) -> dict[str, Entry]:
        """Return codes of ACL and aclnn such as ``507015``."""
        return self._table("acl", None)

    @cached_property
    def hccl(self) -> dict[str, Entry]:
        """Results of HCCL by number."""
        return self._table("hccl", "hccl")

    @cached_property
    def hccp(self) -> dict[str, Entry]:
        """Results of HCCP by number."""
        return self._table("hccp", "hccp")

    @cached_property
    def exits(self) -> dict[str, Entry]:
        """Exit codes that are no signals."""
        return self._table("exit", "exit")

    @cached_property
    def health(self) -> dict[str, Entry]:
        """Health words of npu-smi and return codes of DCMI."""
        return self._table("npu_smi", None)

    @cached_property
    def bbox(self) -> dict[str, Entry]:
        """Exceptions of the black box."""
        return self._table("bbox", "bbox", "critical")

    @cached_property
    def bmc(self) -> dict[str, Entry]:
        """Events of the board controller."""
        return self._table("bmc", "bmc")

    @cached_property
    def switch(self) -> dict[str, Entry]:
        """Faults of switch boards: codes in lower case, alarm names as they are."""
        return self._table("switch", "switch")

    @cached_property
    def mindie(self) -> dict[str, Entry]:
        """MindIE codes known one by one."""
        return self._table("mindie", "mindie")

    @cached_property
    def dvpp(self) -> dict[str, dict[str, dict[str, str]]]:
        """Modules (``module``) and reasons (``reason``) of media codes, by two hex digits."""
        return self._fields("dvpp", "key")

    @cached_property
    def mindie_parts(self) -> dict[str, dict[str, dict[str, str]]]:
        """MindIE components by beginning (``part``) and kinds by ``MIE03:05`` (``kind``)."""
        return self._fields("mindie_parts", "key")

    def _fields(self, table: str, key: str) -> dict[str, dict[str, dict[str, str]]]:
        """Read a table of fields that codes are made of, by what field it is and its value."""
        found: dict[str, dict[str, dict[str, str]]] = {}
        for row in self.rows(table):
            found.setdefault(row["part"], {})[row[key]] = row
        return found

    @cached_property
    def signals(self) -> dict[int, Entry]:
        """Signals by number."""
        return {
            int(row["number"]): Entry(
                code=f"-{row['number']}",
                family="signal",
                symbol=row["symbol"],
                severity=cast(Severity, row["severity"]),
                trust=cast(Trust, row["trust"]),
                means=_text(row),
                advice=row["advice"],
            )
            for row in self.rows("signals")
        }

    @cached_property
    def runtime(self) -> dict[str, tuple[str, str]]:
        """Inner codes of the runtime: symbol and the ACL code they are reported as."""
        return {row["code"]: (row["symbol"], row["acl"]) for row in self.rows("runtime")}

    @cached_property
    def torch_npu(self) -> dict[str, dict[str, dict[str, str]]]:
        """Parts (``module``) and kinds (``kind``) of torch_npu codes, by their digits."""
        return self._fields("torch_npu", "code")

    @cached_property
    def aicore(self) -> dict[tuple[int, int], dict[str, str]]:
        """Rows of error bits by register (1 to 3) and bit."""
        return {(int(row["register"]), int(row["bit"])): row for row in self.rows("aicore")}

    @cached_property
    def event_nodes(self) -> dict[int, Text]:
        """Parts of the chip by node type."""
        return {int(row["node"], 16): _text(row) for row in self.rows("event_nodes")}

    @cached_property
    def event_states(self) -> dict[tuple[int, int], dict[str, str]]:
        """Rows of what happened, by sensor type and state."""
        return {(int(row["sensor"], 16), int(row["state"], 16)): row for row in self.rows("event_states")}

    @cached_property
    def events(self) -> dict[str, dict[str, str]]:
        """Rows of the device events that are known to occur, by code in lower case."""
        return {row["code"].lower(): row for row in self.rows("events")}


def cann_family(code: str) -> str:
    """Return the family of a CANN code: ``W40010`` and ``E40021`` both belong to ``E4``; ``WE0001`` to ``EE``."""
    return f"E{code[1]}"


def _text(row: dict[str, str]) -> Text:
    return Text(en=row["en"], zh=row["zh"])
