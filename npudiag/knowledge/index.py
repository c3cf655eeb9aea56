"""The page of all codes, made from the catalogues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from npudiag.knowledge import decode
from npudiag.knowledge.catalogue import Catalogue, shipped
from npudiag.knowledge.model import Entry

MARK = "<!-- Made by `npudiag rules coverage`; edit rules/codes, not this page. -->"


def every_entry(known: Catalogue) -> Iterator[Entry]:
    """Yield every code of the catalogues, those made of fields included."""
    tables: tuple[Mapping[str, Entry], ...] = (
        known.cann,
        known.acl,
        known.hccl,
        known.hccp,
        known.mindie,
        known.bmc,
        known.switch,
        known.bbox,
        known.exits,
        known.health,
    )
    for table in tables:
        yield from table.values()
    yield from known.signals.values()
    for code in known.runtime:
        if (entry := decode.runtime(int(code, 16), known)) is not None:
            yield entry
    for code in known.events:
        if (entry := decode.event(int(code, 16), known)) is not None:
            yield entry
    for module in known.torch_npu["module"]:
        for kind in known.torch_npu["kind"]:
            if (entry := decode.torch_npu(f"ERR{module}{kind}", known)) is not None:
                yield entry
    for module in known.dvpp["module"]:
        for reason in known.dvpp["reason"]:
            if (entry := decode.dvpp(int(f"A0{module}80{reason}", 16), known)) is not None:
                yield entry
    for register, bit in known.aicore:
        values = [0, 0, 0]
        values[register - 1] = 1 << bit
        if (entry := decode.registers(values, known)) is not None:
            yield entry


def page(catalogue: Catalogue | None = None) -> str:
    """Return the index of all codes as Markdown, one table per family."""
    known = catalogue or shipped()
    by_family: dict[str, list[Entry]] = defaultdict(list)
    for entry in every_entry(known):
        by_family[entry.family].append(entry)
    total = sum(map(len, by_family.values()))
    lines = [MARK, "", "# Codes", ""]
    lines += [
        f"{total:,} codes that `npudiag explain CODE` knows one by one. Codes of these families that are not listed",
        "are explained by their family and by their neighbours; error registers, device events, torch_npu and MindIE",
        "codes by the fields they are made of. Causes, what to look at and what to do are in the command's answer.",
        "",
        "| family | codes |",
        "|---|---:|",
    ]
    for family in known.families.values():
        if by_family.get(family.id):
            title = f"{family.title.en} / {family.title.zh}"
            lines.append(f"| [{_cell(title)}](#{_anchor(family.id)}) | {len(by_family[family.id]):,} |")
    for family in known.families.values():
        members = by_family.get(family.id)
        if not members:
            continue
        lines += ["", f'<a id="{_anchor(family.id)}"></a>', "", f"## {family.title.en} / {family.title.zh}", ""]
        lines += [f"{family.means.en}  ", family.means.zh, ""]
        lines += ["| code | severity | meaning | 含义 |", "|---|---|---|---|"]
        for entry in members:
            code = f"`{entry.code}`" + (f" {entry.symbol}" if entry.symbol else "")
            cells = (code, entry.severity, entry.means.en, entry.means.zh)
            lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines) + "\n"


def _anchor(family: str) -> str:
    return f"family-{family.lower()}"


def _cell(text: str) -> str:
    return text.replace("|", "&#124;")
