"""Looks at this machine before a job: gathers, judges by the rules, and lists every check with what it measured."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npudiag.errors import UsageError
from npudiag.result import SEVERITIES

if TYPE_CHECKING:
    from npudiag.cli.common import Settings
    from npudiag.engine.model import Rule
    from npudiag.host.gather import Request
    from npudiag.result import Finding, Result
    from npudiag.tables.store import Store

TOGETHER = ("LNT", "DEV", "PRF")
"""Checks that are told as one each: the launch lint, the health of the cards, their temperature and memory."""
_HEALTH = ("DEV018", "DEV028", "DEV034")
_READINGS = ("PRF204", "PRF205", "PRF206")
_NPUS = "npu-smi"
FACTS = "host_facts"


def request(*, paths: Sequence[str], env_file: Path | None, pid: int | None, timeout_s: float) -> Request:
    """Return what to look at: this process's environment unless a file or a process has the job's.

    Raises:
        UsageError: The file or the process cannot be read, or both are given.
    """
    from npudiag.host import environment
    from npudiag.host.gather import Request

    variables, command = dict(os.environ), list[str]()
    if env_file is not None and pid is not None:
        raise UsageError("--env-file and --pid both tell the job's environment", hint="give one of them")
    if env_file is not None:
        variables.update(environment.of_file(env_file))
    elif pid is not None:
        variables, command = environment.of_process(pid)
    # A process that runs already is the job; its cards and ports are no left-overs.
    return Request("preflight" if pid is None else "collect", variables, command, tuple(paths), timeout_s)


def rules_of(chosen: Settings) -> list[Rule]:
    """Return the rules that judge a machine, less what the command line or the configuration leaves out."""
    from npudiag.analyze import Options, choose

    options = Options(select=chosen.select, ignore=chosen.ignore)
    return [
        rule
        for rule in choose(chosen.pack.rules, options)
        if chosen.select or _own(rule) or rule.code.startswith("LNT") or rule.code in (*_HEALTH, *_READINGS)
    ]


def _own(rule: Rule) -> bool:
    """Whether a rule judges what is known of a machine; those of other packs do as well."""
    return FACTS in rule.needs


def judge(texts: dict[str, str], chosen: Settings, command: Sequence[str]) -> Result:
    """Judge what was gathered, and list the checks in ``facts.preflight``."""
    from npudiag.analyses.host import hosts
    from npudiag.analyze import Options, inspect_texts
    from npudiag.report.preflight import verdict

    rules = rules_of(chosen)
    options = Options(
        select=chosen.select, ignore=chosen.ignore, params=chosen.config.params, suppress=chosen.config.suppress,
        command=tuple(command),
    )  # fmt: skip
    result, store = inspect_texts(texts, chosen.pack, rules, options)
    machines = hosts(store)
    result.facts["host"] = next((host.node for host in machines if host.node), "?")
    result.facts["versions"] = {name: version for host in machines for name, version in host.versions().items()}
    result.facts["preflight"] = checks(result, store, rules)
    result.verdict.text = verdict(result, "en") + "."
    result.verdict.i18n["zh"] = {"text": verdict(result, "zh") + "。"}
    return result


def checks(result: Result, store: Store, rules: Sequence[Rule]) -> list[dict[str, Any]]:
    """Return one entry per check: its status, what was measured, what it found, what it missed."""
    from npudiag.detectors.preflight.answer import MEASURED

    measured: dict[str, list[tuple[str, str]]] = store.memo.get(MEASURED, {})
    skipped = {item.code: item.missing for item in result.skipped}
    broken = {item.code: [item.message] for item in result.errors}
    out: list[dict[str, Any]] = []
    for rule in rules:
        if not _own(rule):
            continue
        entry = _entry(rule.code, rule.name, [item for item in result.findings if item.code == rule.code])
        told = measured.get((rule.python or "").rpartition(":")[2])
        missing = broken.get(rule.code) or skipped.get(rule.code)
        if missing is not None and not entry["findings"]:
            entry.update(status="skip", missing=missing)
        elif told:
            entry["measured"] = {"en": "; ".join(en for en, _ in told), "zh": "；".join(zh for _, zh in told)}
        out.append(entry)
    for prefix, name in zip(TOGETHER, ("launch-lint", "npu-health", "npu-readings"), strict=True):
        codes = [rule.code for rule in rules if rule.code.startswith(prefix)]
        found = [item for item in result.findings if item.code.startswith(prefix)]
        if not codes and not found:
            continue
        entry = _entry(prefix, name, found)
        if prefix == "LNT":
            entry["measured"] = {"en": f"{len(codes)} checks", "zh": f"{len(codes)} 项检查"}
        elif store.empty("npu_samples"):
            entry.update(status="skip", missing=[_NPUS])
        else:
            cards = len({row["device"] for row in store.columns("npu_samples").rows()})
            entry["measured"] = {"en": f"{cards} cards", "zh": f"{cards} 张卡"}
        out.append(entry)
    return out


def _entry(code: str, name: str, found: Sequence[Finding]) -> dict[str, Any]:
    live = [item for item in found if item.suppressed is None]
    status: str = max((item.severity for item in live), key=SEVERITIES.index) if live else "pass"
    return {"code": code, "name": name, "status": status, "findings": [item.id for item in live]}


def save(texts: dict[str, str], folder: Path) -> None:
    """Write what was gathered into a folder, where evidence can be looked up and `analyze` read it.

    Raises:
        UsageError: The folder cannot be written.
    """
    try:
        for name, text in texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as exc:
        raise UsageError(f"cannot write to {folder}: {exc.strerror or exc}") from exc


def show(result: Result, lang: str, verbosity: int) -> None:
    """Print the table of checks, and what a gate judged."""
    import shutil
    import sys

    from npudiag.cli.ci import harmless
    from npudiag.report import gate, preflight, terminal

    width = shutil.get_terminal_size((100, 40)).columns if sys.stdout.isatty() else 100
    lines = preflight.render(result, lang=lang, width=width, verbosity=verbosity)
    judged = gate.lines(result, lang)
    if judged and verbosity >= 0:
        lines += [[], *([(line, "strong" if line is judged[0] else "")] for line in judged)]
    with harmless(sys.stdout):
        if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
            terminal.print_rich(lines, sys.stdout)
        else:
            terminal.print_plain(lines, sys.stdout)
