"""The settings of a job as one reads them: options by command, variables, values with their defaults.

Rows of table ``launch`` come from scripts, from what a job printed of itself and from configuration files; here they
become jobs, one per command or argument dump, which answer what an option is set to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from npudiag.advice import registry

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_OFF = ("False", "None", "false", "none", "")
_TERM = re.compile(r"(!?)(--[\w-]+)(?:(!=|=|>)(.*))?\Z")


@dataclass(frozen=True, slots=True)
class Setting:
    """One option, variable or key, where it was set.

    Attributes:
        file, line: Where.
        key: As typed.
        value: With variables filled in; empty for an option without a value.
        origin: Line that the value itself stands in.
        known: Whether the value is known.
        sure: Whether nothing else decides it.
        source: ``script``, ``launcher``, ``dump``, ``yaml``, ``trace``, ``log``.
    """

    file: str
    line: int
    key: str
    value: str
    origin: int
    known: bool
    sure: bool
    source: str

    @property
    def number(self) -> float | None:
        """The value as a number, None where it is none or not known."""
        if not self.known:
            return None
        try:
            value = float(self.value)
        except ValueError:
            return None
        return value if value == value and abs(value) < 1e18 else None


@dataclass(slots=True)
class Job:
    """One command, argument dump or configuration file.

    Attributes:
        file: Where it stands.
        entry: Program or module.
        source: ``script``, ``dump``, ``yaml``.
        options: By name as typed (of vLLM with dashes, which it takes for the same); the last one of several counts.
        repeated: Options given before with another value.
        launcher: Options of the launcher.
        words: Words that belong to no option.
        breaks: Options that stand where the shell expects a command.
        env: Variables set in the same file.
        variables: The script's own ones.
        stack: Framework, as far as known.
        versions: Releases it may be, oldest first; empty where not known.
    """

    file: str
    entry: str = ""
    source: str = "script"
    options: dict[str, Setting] = field(default_factory=dict)
    repeated: list[tuple[Setting, Setting]] = field(default_factory=list)
    launcher: dict[str, Setting] = field(default_factory=dict)
    words: list[Setting] = field(default_factory=list)
    breaks: list[Setting] = field(default_factory=list)
    env: dict[str, Setting] = field(default_factory=dict)
    variables: dict[str, Setting] = field(default_factory=dict)
    stack: str | None = None
    versions: tuple[str, ...] = ()

    def find(self, option: str) -> Setting | None:
        """Return where an option is set; a dump's False and None count as not set."""
        setting = self.options.get(option)
        if self.source != "dump":
            return setting
        if setting is None and option.startswith("--no-"):
            positive = self.options.get("--" + option[5:])
            return positive if positive is not None and positive.value == "False" else None
        return setting if setting is not None and setting.value not in _OFF else None

    def text(self, option: str) -> str | None:
        """Return an option's value, or its default; None where neither is known."""
        setting = self.find(option)
        if setting is not None:
            return setting.value if setting.known else None
        entry = registry.lookup(option, self.stack) if self.stack in registry.COMPLETE else None
        return entry.default if entry else None

    def number(self, option: str, default: int | None = None) -> int | None:
        """Return an option as a whole number, `default` where not given; None where given and not known."""
        setting = self.find(option)
        if setting is None:
            return default
        value = setting.number
        return int(value) if value is not None and value == int(value) else None

    def holds(self, term: str) -> bool | None:
        """Say whether a term of a constraint holds; None where that is not known. Alternatives: any of them."""
        answers = [self._holds(part) for part in term.split("|")]
        return True if True in answers else None if None in answers else False

    def _holds(self, term: str) -> bool | None:
        match = _TERM.match(term)
        if match is None:
            return None
        negated, option, sign, wanted = match.groups()
        setting = self.find(option)
        if not sign:
            return (setting is None) == bool(negated)
        value = self.text(option)
        if setting is not None and not setting.known:
            return None
        if value is None:
            return sign == "!="
        if sign == ">":
            try:
                return float(value) > float(wanted)
            except ValueError:
                return None
        return (value == wanted) == (sign == "=")

    def having(self, option: str, value: str) -> Job:
        """Return the job as it would be with an option set to a value."""
        changed = replace(self, options=dict(self.options))
        # A dump writes an option without a value as True.
        text = value or ("True" if self.source == "dump" else "")
        changed.options[option] = Setting(self.file, 0, option, text, 0, True, True, self.source)
        return changed

    def where(self, *terms: str) -> list[Setting]:
        """Return the settings that terms are about."""
        found = [self.find(match[2]) for term in terms for part in term.split("|") if (match := _TERM.match(part))]
        return list({setting.key: setting for setting in found if setting is not None}.values())

    @property
    def tool(self) -> str:
        """``convert`` or ``preprocess`` where it is one of the tools that run before a training, else empty."""
        if re.search(r"convert_ckpt\w*\.py\Z", self.entry):
            return "convert"
        return "preprocess" if self.entry.endswith("preprocess_data.py") else ""

    @property
    def world(self) -> int | None:
        """Number of ranks, None where not known."""
        if self.source == "dump":
            return self.number("--world-size")
        for per_node, nodes in (("--nproc_per_node", "--nnodes"), ("--nproc-per-node", "--nnodes")):
            if per_node in self.launcher:
                each = self.launcher[per_node]
                count = self.launcher.get(nodes)
                # An elastic range (1:4) says nothing definite.
                if each.number is None or not each.sure or (count and (count.number is None or not count.sure)):
                    return None
                return int(each.number * (count.number or 1)) if count and count.number else int(each.number)
        total = self.launcher.get("--worker_num")
        return int(total.number) if total and total.number is not None and total.sure else None

    def all(self) -> Iterator[Setting]:
        """Yield everything that is set."""
        yield from self.options.values()
        yield from self.launcher.values()
        yield from self.env.values()
        yield from self.variables.values()


def jobs(store: Store) -> list[Job]:
    """Return the jobs of table ``launch``, read once per run."""
    found = store.memo.get("jobs")
    if found is None:
        found = store.memo["jobs"] = _jobs(store)
    return list(found)


def _jobs(store: Store) -> list[Job]:
    by_key: dict[tuple[str, str, int], Job] = {}
    shared: dict[str, list[tuple[str, Setting]]] = {}
    for row in store.rows("launch"):
        file, kind, source = str(row["file"] or ""), row["kind"], row["source"] or ""
        setting = _setting(row, file)
        if kind in ("env", "variable"):
            shared.setdefault(file, []).append((kind, setting))
            continue
        form = "dump" if source == "dump" else "yaml" if source == "yaml" else "script"
        number = row["command"] if row["command"] is not None else -1
        job = by_key.get((file, form, number))
        if job is None:
            job = by_key[file, form, number] = Job(file, row["entry"] or "", form)
        if kind == "word":
            job.words.append(setting)
        elif kind == "break":
            job.breaks.append(setting)
        elif source == "launcher":
            job.launcher[setting.key] = setting
        else:
            name = _dashed(setting.key) if job.entry.startswith("vllm") else setting.key
            earlier = job.options.get(name)
            if earlier is not None and earlier.value != setting.value and form == "script":
                job.repeated.append((earlier, setting))
            job.options[name] = setting
    for file, settings in shared.items():
        targets = [job for job in by_key.values() if job.file == file]
        if not targets:
            targets = [Job(file, source="script")]
            by_key[file, "env", -1] = targets[0]
        for job in targets:
            for kind, setting in settings:
                (job.env if kind == "env" else job.variables)[setting.key] = setting
    _complete_conversions(list(by_key.values()))
    return list(by_key.values())


_CONVERTED = {
    "--target-tensor-parallel-size": "--tensor-model-parallel-size",
    "--target-pipeline-parallel-size": "--pipeline-model-parallel-size",
    "--target-expert-parallel-size": "--expert-model-parallel-size",
    "--save-dir": "--save",
}
"""Option of a conversion to that of the training whose arguments it prints."""


def _complete_conversions(found: list[Job]) -> None:
    """Give conversions what they print as arguments of the training that they stand in for, and those to nobody else.

    ``convert_ckpt.py`` builds a model as a training would, and prints its arguments. A training that converts its
    weights by itself names no kind of model to load.
    """
    for tool in found:
        if tool.tool != "convert" or tool.source != "dump" or "--load-model-type" not in tool.options:
            continue
        for job in found:
            if job.source != "dump" or job.entry or job.file != tool.file:
                continue
            job.entry = tool.entry
            for option, own in _CONVERTED.items():
                setting = job.find(own)
                if setting is not None:
                    tool.options.setdefault(option, setting)


def _dashed(option: str) -> str:
    """Return an option as vLLM reads it: underscores count as dashes, except in keys behind a dot."""
    name, dot, rest = option.partition(".")
    return name.replace("_", "-") + dot + rest


def _setting(row: dict[str, Any], file: str) -> Setting:
    line = row["line"] or 0
    return Setting(
        file,
        line,
        row["key"] or "",
        row["value"] or "",
        row["origin"] or line,
        row["known"] is not False,
        row["sure"] is not False,
        row["source"] or "",
    )
