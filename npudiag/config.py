"""Configuration: ``npudiag.toml`` or ``[tool.npudiag]``, never taken from what is being analysed.

A bundle of logs is untrusted: a configuration planted in it could mute findings. So a
file inside an analysed path is passed over with a note, unless ``--config`` names it.
"""

from __future__ import annotations

import datetime
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import msgspec

from npudiag.budget import Budget
from npudiag.budget import parse as parse_budget
from npudiag.errors import ConfigError, Fault
from npudiag.result import SEVERITIES

if TYPE_CHECKING:
    from npudiag.engine.model import Rule

FILE_NAME = "npudiag.toml"
VARIABLE = "NPUDIAG_CONFIG"
MAX_BYTES = 1 << 20

Language = Literal["en", "zh"]
FailOn = Literal["never", "info", "warning", "error", "critical"]

_SELECTOR = re.compile(r"[A-Z]{1,3}|[A-Z]{3}[0-9]{1,3}|[a-z][a-z0-9]*(?:-[a-z0-9]+)*")


class Suppression(msgspec.Struct, frozen=True, kw_only=True):
    """Findings that are known and accepted.

    Attributes:
        rule: A rule's name, or a prefix of its code.
        reason: Why; shown with every suppressed finding.
        match: A text that must stand in the finding's title or evidence; empty: any.
        ranks: Closed ranges of ranks; all ranks of the finding must lie in them; empty: any.
        until: Last day on which it holds; None: for good.
        line: Where it stands in the configuration file.
    """

    rule: str
    reason: str
    match: str = ""
    ranks: tuple[tuple[int, int], ...] = ()
    until: datetime.date | None = None
    line: int = 0

    def names(self, code: str, name: str) -> bool:
        """Tell whether it is about this rule."""
        return selects(self.rule, code, name)

    def covers(self, ranks: Iterable[int]) -> bool:
        """Tell whether all of `ranks` lie in its ranges; a finding without ranks only where no ranges are given."""
        found = list(ranks)
        if not self.ranks:
            return True
        return bool(found) and all(any(low <= rank <= high for low, high in self.ranks) for rank in found)

    def expired(self, today: datetime.date) -> bool:
        """Tell whether its last day has gone by."""
        return self.until is not None and today > self.until


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What a configuration file says; defaults where there is none.

    Paths of what is read (`rules`, `baseline`) are taken from the configuration file's folder, paths of what is
    written (`html`, ...) from the working directory.
    """

    path: str = ""
    """The file it was read from; empty: none."""
    notes: tuple[str, ...] = ()
    """What the user should know, such as a file that was passed over."""
    lang: Language | None = None
    rules: tuple[Path, ...] = ()
    """Folders with rule packs."""
    select: tuple[str, ...] = ()
    """Prefixes of codes, or names; empty: all rules."""
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: FailOn | None = None
    strict: bool | None = None
    workers: int | None = None
    memory_mb: int | None = None
    """Bound of memory in MiB."""
    params: dict[str, dict[str, Any]] = {}
    """Rule name to its parameters."""
    suppress: tuple[Suppression, ...] = ()
    baseline: Path | None = None
    budgets: tuple[Budget, ...] = ()
    """Bounds for metrics, of ``[gate.metrics]``."""
    html: Path | None = None
    json: Path | None = None
    sarif: Path | None = None
    junit: Path | None = None
    markdown: Path | None = None
    gitlab: Path | None = None

    def wants(self, code: str, name: str) -> bool:
        """Tell whether the selection holds a rule; `ignore` wins."""
        if any(selects(selector, code, name) for selector in self.ignore):
            return False
        chosen = self.select and (*self.select, *self.extend_select)
        return not chosen or any(selects(selector, code, name) for selector in chosen)


def selects(selector: str, code: str, name: str) -> bool:
    """Tell whether `selector`, a prefix of a code or a whole name, stands for a rule."""
    return name == selector or (selector[:1].isupper() and code.startswith(selector))


def load_config(
    *,
    explicit: Path | None = None,
    disabled: bool = False,
    analysed: Sequence[Path] = (),
    start: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Find and read the configuration.

    Args:
        explicit: The file given with ``--config``; taken wherever it lies.
        disabled: Whether ``--no-config`` was given.
        analysed: What is being analysed; a file in or below it is passed over with a note.
        start: Where the search begins; None: the working directory.
        environ: The environment; None: that of the process.

    Returns:
        The configuration of the closest file; files are never merged.

    Raises:
        ConfigError: The file is wrong (all its faults at once) or cannot be read.
    """
    if explicit is not None:
        return _read(explicit)
    if disabled:
        return Config()
    named = (os.environ if environ is None else environ).get(VARIABLE, "")
    roots = [path.resolve() for path in analysed]
    notes: list[str] = []
    if named:
        path = Path(named)
        if not _inside(path, roots):
            return _read(path)
        notes.append(f"{VARIABLE}={named} lies inside the analysed input and was not read; name it with --config")
        return Config(notes=tuple(notes))
    for path in _candidates((start or Path.cwd()).resolve()):
        if path.name != FILE_NAME and not _has_table(path):
            continue
        if _inside(path, roots):
            notes.append(f"{path} lies inside the analysed input and was not read; name it with --config to use it")
            continue
        return msgspec.structs.replace(_read(path), notes=tuple(notes))
    return Config(notes=tuple(notes))


def _candidates(start: Path) -> Iterable[Path]:
    """Yield existing files from `start` upwards to the folder that holds ``.git``, or the root."""
    for folder in (start, *start.parents):
        for name in (FILE_NAME, "pyproject.toml"):
            if (folder / name).is_file():
                yield folder / name
        if (folder / ".git").exists():
            return


def _inside(path: Path, roots: Sequence[Path]) -> bool:
    # Both the name's own place and, where it is a link, that of the file it leads to.
    places = (path.resolve(), path.parent.resolve() / path.name)
    return any(place.is_relative_to(root) for place in places for root in roots)


def _has_table(path: Path) -> bool:
    """Tell whether a pyproject.toml is about npudiag; a broken one that mentions it is."""
    try:
        data = path.read_bytes()[:MAX_BYTES]
    except OSError:
        return False
    return re.search(rb"^\s*\[+\s*tool\s*\.\s*[\"']?npudiag", data, re.MULTILINE) is not None


def _read(path: Path) -> Config:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read configuration {path}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise _error(path, [Fault(str(path), 0, 0, f"more than {MAX_BYTES:,} bytes")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise _error(path, [Fault(str(path), line, column, "not UTF-8; save the file as UTF-8")]) from None
    table, prefix = _parse(path, text)
    reader = _Reader(path, text, prefix)
    config = reader.config(table)
    if reader.faults:
        raise _error(path, reader.faults)
    return config


def _parse(path: Path, text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return npudiag's table of a TOML file and the names that lead to it."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        line, column = (int(place[1]), int(place[2])) if place else (text.count("\n") + 1, 1)
        message = re.sub(r" \(at .*\)$", "", str(error)) or "nested too deeply"
        raise _error(path, [Fault(str(path), line, column, f"not valid TOML: {message}")]) from None
    if path.name != "pyproject.toml":
        return document, ()
    table = document.get("tool")
    table = table.get("npudiag") if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise _error(path, [Fault(str(path), 0, 0, "no table [tool.npudiag] in it")])
    return table, ("tool", "npudiag")


def _error(path: Path, faults: Sequence[Fault]) -> ConfigError:
    ordered = sorted(faults, key=lambda fault: (fault.line, fault.column))
    lines = "\n".join(str(fault) for fault in ordered)
    return ConfigError(f"{len(ordered)} fault(s) in configuration {path}\n{lines}")


def _near(word: str, allowed: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, list(allowed), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


class _Reader:
    """Checks one table; collects every fault. Keys may be written with ``-`` or ``_``."""

    def __init__(self, path: Path, text: str, prefix: tuple[str, ...]) -> None:
        self.path = path
        self.folder = path.resolve().parent
        self.where = _Places(text, prefix)
        self.faults: list[Fault] = []

    def fault(self, at: tuple[str | int, ...], message: str) -> None:
        self.faults.append(Fault(str(self.path), *self.where.find(at), message))

    def config(self, table: Mapping[str, Any]) -> Config:
        readers: dict[str, Callable[[tuple[str | int, ...], Any], Any]] = {
            "lang": lambda at, value: self._choice(at, value, get_args(Language)),
            "rules": lambda at, value: tuple(self.folder / item for item in self._texts(at, value)),
            "select": self._selectors,
            "extend-select": self._selectors,
            "ignore": self._selectors,
            "fail-on": lambda at, value: self._choice(at, value, ("never", *SEVERITIES)),
            "strict": self._truth,
            "workers": lambda at, value: self._integer(at, value, 1, 4096),
            "memory-mb": lambda at, value: self._integer(at, value, 64, 1 << 24),
            "params": self._params,
            "suppress": self._suppressions,
            "baseline": self._file,
            "gate": self._gate,
            **dict.fromkeys(("html", "json", "sarif", "junit", "markdown", "gitlab"), self._output),
        }
        values = self._known((), table, readers, "the configuration")
        return Config(path=str(self.path), budgets=values.pop("gate", ()), **values)

    def _known(
        self,
        at: tuple[str | int, ...],
        table: Mapping[str, Any],
        readers: Mapping[str, Callable[[tuple[str | int, ...], Any], Any]],
        what: str,
    ) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in table.items():
            name = key.replace("_", "-")
            if name not in readers:
                allowed = ", ".join(readers)
                self.fault((*at, key), f"unknown key {key!r} in {what}; allowed: {allowed}{_near(name, readers)}")
            elif (field := name.replace("-", "_")) in values:
                self.fault((*at, key), f"key {name!r} stands twice in {what}")
            else:
                values[field] = readers[name]((*at, key), value)
        return values

    def _text(self, at: tuple[str | int, ...], value: Any) -> str:
        if isinstance(value, str) and value.strip():
            return value
        self.fault(at, f"{at[-1]} must be a text that is not empty, found {value!r}")
        return ""

    def _texts(self, at: tuple[str | int, ...], value: Any) -> tuple[str, ...]:
        if isinstance(value, list) and all(isinstance(item, str) and item for item in value):
            return tuple(value)
        self.fault(at, f"{at[-1]} must be a list of texts, found {value!r}")
        return ()

    def _choice(self, at: tuple[str | int, ...], value: Any, allowed: Collection[str]) -> Any:
        if value in allowed:
            return value
        near = _near(value, allowed) if isinstance(value, str) else ""
        self.fault(at, f"unknown {at[-1]} {value!r}; allowed: {', '.join(allowed)}{near}")
        return None

    def _truth(self, at: tuple[str | int, ...], value: Any) -> bool | None:
        if isinstance(value, bool):
            return value
        self.fault(at, f"{at[-1]} must be true or false, found {value!r}")
        return None

    def _integer(self, at: tuple[str | int, ...], value: Any, low: int, high: int) -> int | None:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        self.fault(at, f"{at[-1]} must be a whole number from {low} to {high}, found {value!r}")
        return None

    def _file(self, at: tuple[str | int, ...], value: Any) -> Path | None:
        text = self._text(at, value)
        return self.folder / text if text else None

    def _output(self, at: tuple[str | int, ...], value: Any) -> Path | None:
        text = self._text(at, value)
        return Path(text) if text else None

    def _gate(self, at: tuple[str | int, ...], value: Any) -> tuple[Budget, ...]:
        if not isinstance(value, dict):
            self.fault(at, f"gate must be a table, [gate.metrics], found {value!r}")
            return ()
        found: tuple[Budget, ...] = self._known(at, value, {"metrics": self._metrics}, "gate").get("metrics", ())
        return found

    def _metrics(self, at: tuple[str | int, ...], value: Any, name: str = "") -> tuple[Budget, ...]:
        """Read ``step_time_ms.p50 = "..."``, which TOML takes for a table in a table, or the same in quotes."""
        if not isinstance(value, dict):
            self.fault(at, f'metrics must be a table of budgets, like step_time_ms.p50 = "<= 410", found {value!r}')
            return ()
        found: list[Budget] = []
        for key, item in value.items():
            metric = f"{name}.{key}" if name else key
            if isinstance(item, dict):
                found += self._metrics((*at, key), item, metric)
                continue
            for text in item if isinstance(item, list) else [item]:
                try:
                    found.append(parse_budget(metric, text if isinstance(text, str) else repr(text)))
                except ValueError as error:
                    self.fault((*at, key), str(error))
        return tuple(found)

    def _selector(self, at: tuple[str | int, ...], value: Any) -> str:
        text = self._text(at, value)
        if text and not _SELECTOR.fullmatch(text):
            self.fault(at, f"{text!r} is neither the beginning of a code, like HCC or HCC1, nor a rule's name")
        return text

    def _selectors(self, at: tuple[str | int, ...], value: Any) -> tuple[str, ...]:
        return tuple(self._selector(at, item) for item in self._texts(at, value))

    def _params(self, at: tuple[str | int, ...], value: Any) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        if not isinstance(value, dict):
            self.fault(at, f"params must be tables, [params.<rule-name>], found {value!r}")
            return found
        for rule, given in value.items():
            if not isinstance(given, dict):
                self.fault((*at, rule), f"params of {rule!r} must be a table, [params.{rule}], found {given!r}")
                continue
            found[rule] = given
            for name, item in given.items():
                scalars = item if isinstance(item, list) else [item]
                if not all(isinstance(scalar, (str, int, float)) for scalar in scalars):
                    self.fault((*at, rule, name), f"{name} must be a number, a text, a truth value or a list of those")
        return found

    def _suppressions(self, at: tuple[str | int, ...], value: Any) -> tuple[Suppression, ...]:
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.fault(at, f"suppress must be tables, [[suppress]], found {value!r}")
            return ()
        return tuple(
            found for number, item in enumerate(value) if (found := self._suppression((*at, number), item)) is not None
        )

    def _suppression(self, at: tuple[str | int, ...], table: Mapping[str, Any]) -> Suppression | None:
        readers: dict[str, Callable[[tuple[str | int, ...], Any], Any]] = {
            "rule": self._selector,
            "reason": self._text,
            "match": self._text,
            "ranks": self._ranks,
            "until": self._until,
        }
        values = self._known(at, table, readers, "suppress")
        missing = [key for key in ("rule", "reason") if key not in values]
        if missing:
            self.fault(at, f"suppress lacks {', '.join(missing)}")
            return None
        return Suppression(**values, line=self.where.find(at)[0])

    def _ranks(self, at: tuple[str | int, ...], value: Any) -> tuple[tuple[int, int], ...]:
        parts = [str(item) for item in value] if isinstance(value, list) else str(value).split(",")
        ranges = []
        for part in parts:
            match = re.fullmatch(r"\s*([0-9]{1,7})(?:\s*-\s*([0-9]{1,7}))?\s*", part)
            if match is None or int(match[2] or match[1]) < int(match[1]):
                self.fault(at, f'ranks must be like 3, [0, 4] or "0-7,12", found {value!r}')
                return ()
            ranges.append((int(match[1]), int(match[2] or match[1])))
        return tuple(ranges)

    def _until(self, at: tuple[str | int, ...], value: Any) -> datetime.date | None:
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            return value
        if isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
            try:
                return datetime.date.fromisoformat(value)
            except ValueError:
                pass
        self.fault(at, f"until must be a day like 2027-03-01, found {value!r}")
        return None


class _Places:
    """Finds where a key stands in TOML text; the nearest known place where the spelling hides it."""

    _HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]#]+?)\s*\]\]?\s*(?:#.*)?$")
    _KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
    _PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")

    def __init__(self, text: str, prefix: tuple[str, ...]) -> None:
        self.prefix = prefix
        self.places: dict[tuple[str | int, ...], tuple[int, int]] = {}
        table: tuple[str | int, ...] = ()
        counts: dict[tuple[str | int, ...], int] = {}
        for number, line in enumerate(text.split("\n"), 1):
            if header := self._HEADER.match(line):
                table = self._parts(header[2])
                self.places.setdefault(table, (number, header.start(1) + 1))
                if header[1] == "[[":
                    counts[table] = counts.get(table, -1) + 1
                    table = (*table, counts[table])
                    self.places.setdefault(table, (number, header.start(1) + 1))
            elif key := self._KEY.match(line):
                self.places.setdefault((*table, *self._parts(key[1])), (number, key.start(1) + 1))

    def _parts(self, text: str) -> tuple[str | int, ...]:
        return tuple(part.strip("\"'") for part in self._PART.findall(text))

    def find(self, at: tuple[str | int, ...]) -> tuple[int, int]:
        """Return line and column, 1-based, of the key `at` or the closest thing around it."""
        path = (*self.prefix, *at)
        while path:
            if path in self.places:
                return self.places[path]
            path = path[:-1]
        return 1, 1


def check_against(config: Config, rules: Sequence[Rule]) -> None:
    """Check that the names in a configuration exist in the loaded rules.

    Raises:
        ConfigError: A selector, suppression or parameter is about no rule, or a
            parameter has another type than the rule's own value; all faults at once.
    """
    if not config.path:
        return
    path = Path(config.path)
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    places = _Places(text, ("tool", "npudiag") if path.name == "pyproject.toml" else ())
    names = {rule.name: rule for rule in rules}
    faults: list[Fault] = []

    def fault(at: tuple[str | int, ...], message: str) -> None:
        faults.append(Fault(config.path, *places.find(at), message))

    def check_selector(at: tuple[str | int, ...], selector: str) -> None:
        if not any(selects(selector, rule.code, rule.name) for rule in rules):
            fault(at, f"no rule is selected by {selector!r}{_near(selector, [*names, *(rule.code for rule in rules)])}")

    for key in ("select", "extend_select", "ignore"):
        for selector in cast("tuple[str, ...]", getattr(config, key)):
            check_selector((key.replace("_", "-"),), selector)
    for number, suppression in enumerate(config.suppress):
        check_selector(("suppress", number, "rule"), suppression.rule)
    for name, given in config.params.items():
        rule = names.get(name)
        if rule is None:
            fault(("params", name), f"no rule is called {name!r}{_near(name, names)}")
            continue
        for param, value in given.items():
            if param not in rule.params:
                allowed = ", ".join(rule.params) or "none, the rule has no parameters"
                message = f"unknown parameter {param!r} of {name}; allowed: {allowed}{_near(param, rule.params)}"
                fault(("params", name, param), message)
            elif not _same_type(value, rule.params[param]):
                message = f"{param} must be like {rule.params[param]!r}, the rule's own value, found {value!r}"
                fault(("params", name, param), message)
    if faults:
        raise _error(path, faults)


def _same_type(value: Any, default: Any) -> bool:
    if isinstance(default, list) or isinstance(value, list):
        return isinstance(value, list) and isinstance(default, list)
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, (int, float)):
        return isinstance(value, (int, float))
    return isinstance(value, type(default))
