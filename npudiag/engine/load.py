"""Loads rule packs: all files of all sources, validated at once, from a cache where nothing changed.

YAML is read only when a file, the validator or npudiag itself changed since the last
run; a cached pack is one JSON document, and the rules' tests lie in a second one that
only ``rules test`` and ``rules show`` read.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from npudiag import cache
from npudiag._version import __version__
from npudiag.engine.model import Rule, RuleTest
from npudiag.errors import Fault, RuleError
from npudiag.plugins import registered

if TYPE_CHECKING:
    from npudiag.engine.validate import RuleFile, Tables

ORIGINS = ("shipped", "installed", "config", "command-line")
"""Where a pack comes from; a rule of a later one replaces one of the same name of an earlier one."""
ENTRY_POINTS = "npudiag.rules"
CODES_DIRECTORY = "codes"
"""Folder of a pack that holds code catalogues, not rules."""

_MAX_FILES = 5_000
_MAX_DEPTH = 4
_PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class PackSource:
    """A folder with rule files.

    Attributes:
        directory: The folder.
        prefix: The three letters its own codes begin with; None: any that no earlier pack uses.
        origin: ``shipped``, ``installed``, ``config`` or ``command-line``.
    """

    directory: Path
    prefix: str | None
    origin: str


class RulePack(msgspec.Struct, frozen=True, dict=True):
    """Validated rules, sorted by code.

    Attributes:
        rules: The rules.
        version: 12 hex digits over the contents of all rule files.
        files: Rule name to its file.
    """

    rules: tuple[Rule, ...]
    version: str
    files: dict[str, str] = {}

    @cached_property
    def by_name(self) -> dict[str, Rule]:
        """Rules by name."""
        return {rule.name: rule for rule in self.rules}

    @cached_property
    def by_code(self) -> dict[str, Rule]:
        """Rules by code."""
        return {rule.code: rule for rule in self.rules}

    def find(self, word: str) -> Rule | None:
        """Return the rule with this code or name."""
        return self.by_code.get(word.upper()) or self.by_name.get(word)


def shipped_rules() -> Path:
    """Return the folder of the shipped pack: inside the package, or next to it in a checkout."""
    inside = _PACKAGE / "rules"
    return inside if inside.is_dir() else _PACKAGE.parent / "rules"


def shipped_pack() -> PackSource:
    """Return the shipped pack."""
    return PackSource(shipped_rules(), None, "shipped")


def pack_sources(
    command_line: Sequence[Path] = (), config: Sequence[Path] = (), *, installed: bool = True
) -> list[PackSource]:
    """Return all packs of a run, the shipped one first.

    Args:
        command_line: Folders given with ``--rules``.
        config: Folders named in the configuration.
        installed: Whether to look for packs of installed distributions.

    Raises:
        RuleError: An installed pack cannot be found.
    """
    sources = [shipped_pack()]
    if installed:
        sources += installed_packs()
    sources += [PackSource(path, None, "config") for path in config]
    sources += [PackSource(path, None, "command-line") for path in command_line]
    return sources


def installed_packs() -> list[PackSource]:
    """Return the packs that installed distributions register.

    An entry point of group ``npudiag.rules`` has the pack's prefix as its name and the
    package that holds the rule files as its value: ``ACM = "acme_rules"``. Nothing of a
    top-level package is imported for it.

    Raises:
        RuleError: A registered package does not exist.
    """
    from importlib.util import find_spec

    sources: list[PackSource] = []
    faults: list[Fault] = []
    for entry in registered(ENTRY_POINTS):
        try:
            spec = find_spec(entry.value)
        except (ImportError, ValueError):
            spec = None
        folders = list(spec.submodule_search_locations or ()) if spec else []
        if not re.fullmatch("[A-Z]{3}", entry.name):
            message = f"entry point {entry.name!r} of {ENTRY_POINTS} must be called after the pack's prefix, like ACM"
            faults.append(Fault(entry.value, 0, 0, message))
        elif folders:
            sources.append(PackSource(Path(folders[0]), entry.name, "installed"))
        else:
            message = f"{entry.value!r} is not an installed package; found in the entry points of {ENTRY_POINTS}"
            faults.append(Fault(entry.name, 0, 0, message))
    if faults:
        raise RuleError(faults)
    return sources


def load_pack(
    sources: Sequence[PackSource] | None = None,
    *,
    use_cache: bool = True,
    with_tests: bool = False,
    tables: frozenset[str] | None = None,
) -> RulePack:
    """Load and validate rule packs.

    Args:
        sources: The packs; None: the shipped one.
        use_cache: Whether the user's cache folder may be read and written.
        with_tests: Whether the rules carry their tests; without, `Rule.tests` is empty.
        tables: Names of the tables that rules may need; None: those npudiag has.

    Returns:
        The rules of all packs; of several with one name that of the last source.

    Raises:
        RuleError: At least one file is wrong; holds all faults of all files.
    """
    ordered = sorted([shipped_pack()] if sources is None else sources, key=lambda source: ORIGINS.index(source.origin))
    files = _list_files(ordered)
    key = _key(ordered, files, tables)
    if use_cache:
        cached = _Cache(key).read(with_tests)
        if cached is not None:
            return cached
    pack = _build(ordered, files, tables)
    if use_cache:
        _Cache(key).write(pack)
    return pack if with_tests else _without_tests(pack)


def _without_tests(pack: RulePack) -> RulePack:
    rules = tuple(msgspec.structs.replace(rule, tests=()) for rule in pack.rules)
    return RulePack(rules, pack.version, pack.files)


# -- files


class _File(msgspec.Struct, frozen=True):
    source: int
    relative: str
    path: str
    size: int
    mtime_ns: int


def _list_files(sources: Sequence[PackSource]) -> list[_File]:
    found: list[_File] = []
    faults: list[Fault] = []
    for number, source in enumerate(sources):
        root = os.path.abspath(source.directory)  # noqa: PTH100  (resolving links costs a call per part)
        try:
            here = [_File(number, *entry) for entry in _walk(root, "", 0)]
        except OSError as error:
            faults.append(Fault(str(source.directory), 0, 0, f"cannot read this rule folder: {error.strerror}"))
            continue
        if not here and source.origin != "shipped":
            faults.append(Fault(str(source.directory), 0, 0, "no rule files (<CODE>-<name>.yaml) in this folder"))
        if len(here) > _MAX_FILES:
            faults.append(Fault(str(source.directory), 0, 0, f"{len(here):,} rule files; at most {_MAX_FILES:,}"))
        found += here
    if faults:
        raise RuleError(faults)
    found.sort(key=lambda file: (file.source, file.relative))
    return found


def _walk(folder: str, relative: str, depth: int) -> Iterator[tuple[str, str, int, int]]:
    """Yield relative path, path, size and modification time in ns of every YAML file."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < _MAX_DEPTH and not (depth == 0 and name == CODES_DIRECTORY):
                    yield from _walk(entry.path, f"{relative}{name}/", depth + 1)
            elif name.endswith((".yaml", ".yml")):
                stat = entry.stat()
                yield f"{relative}{name}", entry.path, stat.st_size, stat.st_mtime_ns


def _key(sources: Sequence[PackSource], files: Sequence[_File], tables: frozenset[str] | None) -> str:
    """Hash all that a cached pack depends on: the files, and the code that validated them."""
    digest = blake2b(digest_size=16)
    digest.update(repr((__version__, sys.version_info[:2], sorted(tables) if tables is not None else None)).encode())
    for source in sources:
        digest.update(repr((source.prefix, source.origin)).encode())
    for file in files:
        digest.update(f"{file.source}\0{file.path}\0{file.size}\0{file.mtime_ns}\n".encode("utf-8", "surrogateescape"))
    for name in ("engine/load.py", "engine/model.py", "engine/positions.py", "engine/validate.py", "tables/schema.py"):
        try:
            stat = os.stat(f"{_PACKAGE}/{name}")  # noqa: PTH116
        except OSError:
            continue
        digest.update(f"{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


# -- building


def _build(sources: Sequence[PackSource], files: Sequence[_File], tables: frozenset[str] | None) -> RulePack:
    from npudiag.engine.validate import read_rule

    known = _known_tables() if tables is None else dict.fromkeys(tables)
    digest = blake2b(digest_size=6)
    read: list[tuple[int, str, RuleFile]] = []
    faults: list[Fault] = []
    for file in files:
        source = sources[file.source]
        shown = os.path.join(source.directory, file.relative)  # noqa: PTH118
        try:
            data = Path(file.path).read_bytes()
        except OSError as error:
            faults.append(Fault(shown, 0, 0, f"cannot read this file: {error.strerror}"))
            continue
        digest.update(f"{file.relative}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
        package = _PACKAGE if source.origin == "shipped" else None
        found = read_rule(data, file.relative, path=shown, tables=known, package=package)
        read.append((file.source, file.path, found))
        faults += found.faults
    merged = _merge(sources, read, faults)
    _check_names(read, faults)
    if faults:
        raise RuleError(sorted(faults, key=lambda fault: (fault.path, fault.line, fault.column)))
    rules = sorted((found.rule for _, found in merged.values() if found.rule is not None), key=lambda rule: rule.code)
    return RulePack(tuple(rules), digest.hexdigest(), {name: path for name, (path, _) in merged.items()})


def _known_tables() -> Tables:
    from npudiag.tables.schema import TABLES

    return {name: table.names for name, table in TABLES.items()}


def _merge(
    sources: Sequence[PackSource], read: Sequence[tuple[int, str, RuleFile]], faults: list[Fault]
) -> dict[str, tuple[str, RuleFile]]:
    """Let later sources override earlier ones; check that names, codes and prefixes are used once."""
    merged: dict[str, tuple[str, RuleFile]] = {}
    owner: dict[str, int] = {}  # name -> source
    prefixes: dict[str, int] = {}  # first three letters of a code -> first source that uses them
    used: dict[str, set[str]] = {}  # name -> codes it had in earlier sources
    for number, path, found in read:
        line, column = found.name_at
        earlier = merged.get(found.name)
        if earlier is not None and owner[found.name] == number:
            message = f"a second rule called {found.name!r}; the first is {earlier[1].path}"
            faults.append(Fault(found.path, line, column, message))
            continue
        if found.code not in used.setdefault(found.name, set()):
            _check_prefix(sources, number, found, prefixes, faults)
        used[found.name].add(found.code)
        merged[found.name] = (path, found)
        owner[found.name] = number
    codes: dict[str, RuleFile] = {}
    for _, found in merged.values():
        first = codes.setdefault(found.code, found)
        if first is not found:
            message = f"code {found.code} is taken by {first.path}"
            faults.append(Fault(found.path, *found.code_at, message))
    return merged


def _check_prefix(
    sources: Sequence[PackSource], number: int, found: RuleFile, prefixes: dict[str, int], faults: list[Fault]
) -> None:
    letters = found.code[:3]
    own = sources[number].prefix
    user = prefixes.setdefault(letters, number)
    if own is not None and letters != own:
        message = f"code {found.code} must begin with {own}, the prefix of this pack"
    elif user != number:
        message = (
            f"prefix {letters} belongs to {sources[user].directory}; use other letters, "
            "or the name of one of its rules to replace that rule"
        )
    else:
        return
    faults.append(Fault(found.path, *found.code_at, message))


def _check_names(read: Sequence[tuple[int, str, RuleFile]], faults: list[Fault]) -> None:
    names = {found.name for _, _, found in read}
    for _, _, found in read:
        for reference in found.references:
            if reference.name == found.name:
                message = f"{reference.what} names the rule itself"
            elif reference.name not in names:
                from npudiag.engine.positions import shorten, suggestion

                message = f"no rule is called {shorten(reference.name)}{suggestion(reference.name, names)}"
            else:
                continue
            faults.append(Fault(found.path, reference.line, reference.column, message))


# -- cache


class _Cache:
    """Two files in the user's cache folder. Whatever is wrong with them, they count as absent."""

    def __init__(self, key: str) -> None:
        self.key = key

    def read(self, with_tests: bool) -> RulePack | None:
        folder = cache.folder()
        if folder is None:
            return None
        try:
            pack = msgspec.json.decode(cache.load(f"{folder}/rules-{self.key}.json"), type=RulePack)
            if not with_tests:
                return pack
            data = cache.load(f"{folder}/tests-{self.key}.json")
            tests = msgspec.json.decode(data, type=dict[str, tuple[RuleTest, ...]])
            rules = tuple(msgspec.structs.replace(rule, tests=tests[rule.name]) for rule in pack.rules)
        except (OSError, ValueError, KeyError, msgspec.MsgspecError):
            return None
        return RulePack(rules, pack.version, pack.files)

    def write(self, pack: RulePack) -> None:
        folder = cache.folder()
        if folder is None:
            return
        try:
            tests = msgspec.json.encode({rule.name: rule.tests for rule in pack.rules})
            rules = msgspec.json.encode(_without_tests(pack))
            cache.store(folder, f"tests-{self.key}.json", tests)
            cache.store(folder, f"rules-{self.key}.json", rules)
            for kind in ("rules", "tests"):
                cache.prune(folder, f"{kind}-*.json")
        except (OSError, ValueError, msgspec.MsgspecError):
            return
