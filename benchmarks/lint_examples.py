"""Hold the option registry against launch options that frameworks' own examples use.

usage: python benchmarks/lint_examples.py EXAMPLES.jsonl[.gz] [--show N]

Each line of the file is one script: ``{"release", "script", "entry", "args": [[option, value], ...]}``. Their own
release accepts their options, so an option called unknown or a refused value shows a fault of the registry. A few
examples do combine what the frameworks' own validation refuses; those were looked up in its source and stand in
`REFUSED`, any other refusal counts as a fault. The same options are then held against every other release: the check
must name exactly those that it lacks.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npudiag.advice import registry
from npudiag.advice.registry import MINDSPEED_LLM

TRAINING = re.compile(r"(?:pre|post)t?rain_\w+\.py$|rlhf_gpt\.py$|train_fsdp2\.py$")
LAUNCHER = frozenset(["--nproc_per_node", "--nnodes", "--node_rank", "--master_addr", "--master_port"])
PREPROCESSING = re.compile(r"preprocess_data\.py$")
REFUSED = {
    "--reuse-fp32-param --swap-optimizer": "MindSpeed SwapOptimizerFeature.validate_args",
    "--moe-fb-overlap --moe-alltoall-overlap-comm": "MindSpeed MoEFwdBwdOverlapFeature.validate_args",
    "--num-layer-list --num-layers-per-virtual-pipeline-stage": "MindSpeed-LLM NumLayerListFeature.validate_args",
    "--neat-pack --reset-attention-mask": "MindSpeed-LLM TrainingBasicFeature.pre_validate_args",
}
"""Combinations that examples have and the source named refuses."""
RULES = ("unknown_options", "options_not_in_release", "conflicts", "missing_companions", "wrong_choices", "wrong_types")


def read(path: Path) -> list[dict[str, Any]]:
    """Return the scripts."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def findings(item: dict[str, Any], release: str, rules: Sequence[str] = RULES) -> list[tuple[str, str]]:
    """Run the checks on one script's options; return check and what it says."""
    from npudiag.detectors import launch, launch_data
    from npudiag.tables.store import Store

    store = Store()
    store.memo["stack_stated"] = (MINDSPEED_LLM, release)
    rows = [
        {
            "file": item["script"], "line": n + 1, "key": key, "value": value.strip("'\""), "kind": "flag",
            "source": "launcher" if key in LAUNCHER else "script", "entry": item["entry"], "command": 0,
            "origin": n + 1, "known": "$" not in value, "sure": "$" not in value,
        }
        for n, (key, value) in enumerate(item["args"])
    ]  # fmt: skip
    store.extend("launch", rows)
    out = []
    for name in rules:
        check = getattr(launch, name, None) or getattr(launch_data, name)
        for hit in check(store, {}):
            captures = hit.captures
            shown = [str(captures[key]) for key in ("option", "needed", "other", "value") if key in captures]
            out.append((name, " ".join(shown)))
    return out


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns 1 where the registry judges an example wrongly."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("examples", type=Path)
    parser.add_argument("--show", type=int, default=20, help="findings shown per check")
    given = parser.parse_args(argv)
    items = read(given.examples)
    chosen = [
        item for item in items
        if TRAINING.search(item["entry"] or "") and "mindspore" not in item["script"] and "grpo" not in item["script"]
    ]  # fmt: skip
    print(f"{len(items)} scripts, {len(chosen)} of training (without MindSpore and GRPO)")
    failed = 0
    for release in sorted({item["release"] for item in chosen}):
        mine = [item for item in chosen if item["release"] == release]
        options = Counter(key for item in mine for key, _ in item["args"] if key not in LAUNCHER)
        counts: dict[str, Counter[str]] = {name: Counter() for name in RULES}
        scripts: dict[str, str] = {}
        for item in mine:
            for name, text in findings(item, release):
                counts[name][text] += 1
                scripts[name + text] = item["script"]
        print(f"\n{MINDSPEED_LLM} {release}: {len(mine)} scripts, {len(options)} options used {options.total()} times")
        for name, counter in counts.items():
            print(f"  {name}: {counter.total()}")
            for text, number in counter.most_common(given.show):
                source = f" (refused by {REFUSED[text]})" if text in REFUSED else ""
                print(f"    {number:4} {text}{source}   e.g. {scripts[name + text]}")
            failed += sum(number for text, number in counter.items() if text not in REFUSED)
        # The FSDP2 program has dotted options of its own, of which no list is complete.
        options = Counter({name: count for name, count in options.items() if "." not in name})
        whole = {"script": "all", "entry": "pretrain_gpt.py", "args": [[name, ""] for name in options]}
        for other in registry.releases(MINDSPEED_LLM):
            if other == release:
                continue
            lacking = {name for name in options if registry.accepts(MINDSPEED_LLM, other, name) == "no"}
            named = {text for _, text in findings(whole, other, ("options_not_in_release",))}
            failed += len(named ^ lacking)
            shown = ", ".join(sorted(named)[:6])
            print(f"  against {other}: {len(lacking)} options lacking, {len(named)} named: {shown}")
    tools = [item for item in items if PREPROCESSING.search(item["entry"] or "")]
    wrong = [text for item in tools for _, text in findings(item, item["release"], ("misspelt_tool_options",))]
    print(f"\n{len(tools)} scripts of preprocessing: {len(wrong)} options called unknown {wrong[:5]}")
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
