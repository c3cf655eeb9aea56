"""Make the option registry of npudiag/advice/data from collected facts.

usage: python .ci/build_registry.py --flags FLAGS.csv --history HISTORY.json --envvars ENV.json [--out DIR]

FLAGS.csv has one row per option string and source snapshot: flag, aliases, type, action, default, choices, nargs,
repo, snapshot, scope, in_mindspeed_llm. HISTORY.json tells which branches of a repository accept which option.
ENV.json holds environment variables: ``curated`` with values and defaults, ``auto`` with where they are read.
What is written by hand (texts, constraints, serving options, invented names) lies beside the output and is not touched.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PREFERRED = {
    "Megatron-LM": ("core_v0.12.1", "main"),
    "MindSpeed": ("master", "core_r0.18.0"),
    "MindSpeed-LLM": ("master",),
}
"""Snapshots whose type and default count, best first."""
KINDS = {"store_true": "flag", "store_false": "flag", "argparse.BooleanOptionalAction": "switch"}
PLAIN = {"int", "float", "str", "bool"}
OWNERS = {"Megatron": "Megatron-LM", "vLLM": "vllm"}


def kind(row: Mapping[str, str]) -> str:
    """Return the kind of value an option takes."""
    if row["action"] in KINDS:
        return KINDS[row["action"]]
    text = row["type"]
    if "true" in text and "false" in text:
        return "bool"
    if text in PLAIN:
        return text
    return "json" if text == "json.loads" else "str"


def default_of(text: str) -> str | None:
    """Return a default as it would be typed; None where there is none or it is computed."""
    if not text:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if value is None or isinstance(value, bool):
        return None
    return value if isinstance(value, str) else json.dumps(value)


def choices_of(text: str) -> list[str]:
    """Return choices as they would be typed."""
    try:
        values = json.loads(text) if text else []
    except ValueError:
        return []
    return [str(value) for value in values] if isinstance(values, list) else []


def mask(indexes: Iterable[int]) -> int:
    """Return releases, given by index, as bits."""
    return sum(1 << index for index in set(indexes))


def options(rows: list[dict[str, str]], history: dict[str, Any]) -> dict[str, Any]:
    """Return, per repository, its releases and options."""
    out: dict[str, Any] = {}
    added: dict[str, dict[str, list[str]]] = {}
    for place, items in history["choices_added"].items():
        for item in items:
            added.setdefault(place.partition("@")[0], {}).setdefault(item["flag"], []).append(item["value"])
    for repo, known in history["repos"].items():
        refs = known["refs"]
        found: dict[str, list[Any]] = {}
        own = [row for row in rows if row["repo"] == repo]
        own.sort(key=lambda row: PREFERRED[repo].index(row["snapshot"]))
        for row in own:
            seen = mask(known["flags"].get(row["flag"], ()))
            if not seen:
                seen = mask(refs.index(ref) for ref in (row["seen_in"].split() or [row["snapshot"]]) if ref in refs)
            scope = "tool" if row["scope"].startswith("tool") else "train"
            values = choices_of(row["choices"])
            registered = row["in_mindspeed_llm"] == "True"
            for name in (row["flag"], *row["aliases"].split()):
                entry = found.get(name)
                if entry is None:
                    found[name] = [kind(row), seen, default_of(row["default"]), values, row["nargs"], scope, registered]
                    continue
                # Registered again elsewhere: any of its choices may be typed; an option of both is a training option.
                entry[3] = list(dict.fromkeys([*entry[3], *values])) if entry[3] and values else []
                entry[5] = "train" if "train" in (entry[5], scope) else "tool"
                entry[6] = entry[6] or registered
        for name, indexes in known["flags"].items():
            if name not in found:
                found[name] = ["", mask(indexes), None, [], "", "train", False]
        for name, values in added.get(repo, {}).items():
            entry = found.setdefault(name, ["", 0, None, [], "", "train", False])
            entry[3] = list(dict.fromkeys([*entry[3], *values]))
        out[repo] = {"refs": refs, "options": dict(sorted(found.items()))}
    return out


def variables(facts: dict[str, Any]) -> dict[str, Any]:
    """Return environment variables by name."""
    out: dict[str, Any] = {}
    for item in facts["curated"]:
        owner = item["layer"].partition("/")[0]
        out[item["name"]] = [
            OWNERS.get(owner, owner),
            item.get("values", ""),
            item.get("default", ""),
            item.get("since", ""),
        ]
    for item in facts["auto"]:
        if item["name"] not in out:
            readers = sorted({read["repo"] for read in item["reads"]})
            owner = readers[0] if readers else ""
            out[item["name"]] = ["HCCL" if "HCCL" in owner else owner, "", "", ""]
    return dict(sorted(out.items()))


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--flags", type=Path, required=True)
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--envvars", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent.parent / "npudiag/advice/data")
    given = parser.parse_args(argv)
    with given.flags.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    made = {
        "options.json": options(rows, json.loads(given.history.read_text(encoding="utf-8"))),
        "variables.json": variables(json.loads(given.envvars.read_text(encoding="utf-8"))),
    }
    for name, value in made.items():
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
        (given.out / name).write_text(text, encoding="utf-8")
        print(f"{name}: {len(text.encode()):,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
