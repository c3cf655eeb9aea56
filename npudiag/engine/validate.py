"""One rule file: from YAML to a `Rule`, or to all of its faults."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, cast, get_args

from npudiag.engine import positions
from npudiag.engine.model import Change, Near, Rule, RuleRemedy, RuleTest, Signature, Text, Where
from npudiag.engine.positions import Items, Node, Pairs, Reader, Scalar, describe, one_of, shorten, suggestion
from npudiag.errors import Fault
from npudiag.result import CATEGORIES, SEVERITIES, Confidence, Disposition, RemedyKind, Trust

CODE = re.compile(r"[A-Z]{3}[0-9]{3}")
NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
BUILTINS = ("count", "file", "line")
"""Names that every template knows and that always have a value."""
SCOPE = ("ranks", "devices", "nodes", "steps", "first", "last")
"""Names of the finding's scope; without a value where the input does not tell."""
IDENTITY = ("rank", "device", "node", "process", "pid")
"""Names that the matching record's own identity gives where it is known; a capture of that name wins."""
LEVELS = ("DEBUG", "TRACE", "INFO", "EVENT", "NOTICE", "WARNING", "ERROR", "CRITICAL", "EXCEPTION", "FATAL")
PER = ("rank", "device", "node", "pid", "file")
TYPES = ("int", "float", "hex", "str")
MIN_LITERAL = 5
"""Shortest literal, in UTF-8 bytes, that the multi-pattern scan may be asked to look for."""
MAX_NEAR_LINES = 500

Tables = Mapping[str, Collection[str] | None]

_INTEGER_CAPTURES = ("device", "rank", "step")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_TEMPLATE_NAME = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_RULE_REQUIRED = ("code", "name", "category", "severity", "confidence", "title", "why", "detect", "tests")
_RULE_OPTIONAL = ("trust", "fatal", "fallback", "needs", "params", "caused_by", "remedies", "collect", "references")


@dataclass(frozen=True, slots=True)
class Reference:
    """A rule name that a file mentions, and where."""

    name: str
    what: str
    line: int
    column: int


@dataclass(slots=True)
class RuleFile:
    """What is known of one rule file. `rule` is None where the file has faults."""

    path: str
    code: str
    name: str
    code_at: tuple[int, int] = (1, 1)
    name_at: tuple[int, int] = (1, 1)
    rule: Rule | None = None
    references: list[Reference] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def read_rule(data: bytes, relative: str, *, path: str, tables: Tables, package: Path | None = None) -> RuleFile:
    """Read one rule file.

    Args:
        data: The file's bytes.
        relative: The file, relative to its pack, POSIX form.
        path: How to call the file in faults.
        tables: The tables that exist and their columns; None for columns that are not known.
        package: Folder of the npudiag package where Python hooks are allowed, None where they are not.

    Returns:
        The rule or the faults, all of them.
    """
    code, _, name = PurePosixPath(relative).stem.partition("-")
    root, faults = positions.compose(data, path)
    found = RuleFile(path, code, name, faults=faults)
    if root is not None:
        _RuleReader(found, relative, tables, package).rule(root)
    return found


class _RuleReader(Reader):
    """Reads one rule; `out` receives what was found."""

    def __init__(self, out: RuleFile, relative: str, tables: Tables, package: Path | None) -> None:
        super().__init__(out.path, out.faults)
        self.out = out
        self.relative = relative
        self.tables = tables
        self.package = package
        self.templates: list[tuple[Node, str]] = []

    # -- the whole rule

    def rule(self, root: Node) -> None:
        """Read all of it, and set `out.rule` where nothing is wrong."""
        keys = self.fields(root, "the rule", required=_RULE_REQUIRED, optional=_RULE_OPTIONAL)
        values: dict[str, Any] = {}
        readers: dict[str, Callable[[Node], Any]] = {
            "code": self._code,
            "name": self._name,
            "category": lambda node: self.choice(node, "category", CATEGORIES),
            "severity": lambda node: self.choice(node, "severity", tuple(reversed(SEVERITIES))),
            "confidence": lambda node: self.choice(node, "confidence", get_args(Confidence)),
            "trust": lambda node: self.choice(node, "trust", get_args(Trust)),
            "fatal": lambda node: self.truth(node, "fatal"),
            "fallback": lambda node: self.truth(node, "fallback"),
            "title": lambda node: self._text(node, "title", one_line=True),
            "why": lambda node: self._text(node, "why"),
            "needs": lambda node: self.choices(node, "table in needs", sorted(self.tables)),
            "params": self._params,
            "caused_by": self._caused_by,
            "remedies": lambda node: tuple(self._remedy(item) for item in self.items(node, "remedies")),
            "collect": lambda node: tuple(self._text(item, "collect") for item in self.items(node, "collect")),
            "references": self._references,
        }
        for key, read in readers.items():
            if key in keys:
                values[key] = read(keys[key])
        captures: _Captures | None = None
        if "detect" in keys:
            detect, captures = self._detect(keys["detect"], values)
            values.update(detect)
        if "tests" in keys:
            values["tests"] = self._tests(keys["tests"], captures)
        self._check_file_name(root, keys)
        self._check_templates(captures)
        if not self.faults:
            self.out.rule = Rule(**values, path=self.relative)

    def _code(self, node: Node) -> str:
        code = self.text(node, "code")
        if code and not CODE.fullmatch(code):
            self.fault(node, f"code {shorten(code)} must be 3 capital letters and 3 digits, like HCC104")
        elif code:
            self.out.code, self.out.code_at = code, (node.line, node.column)
        return code

    def _name(self, node: Node) -> str:
        name = self.text(node, "name")
        if name and not NAME.fullmatch(name):
            self.fault(node, f"name {shorten(name)} must be kebab-case: small letters and digits joined by single -")
        elif name:
            self.out.name, self.out.name_at = name, (node.line, node.column)
        return name

    def _check_file_name(self, root: Node, keys: Mapping[str, Node]) -> None:
        if not {"code", "name"} <= keys.keys():
            return
        expected = f"{self.out.code}-{self.out.name}.yaml"
        if PurePosixPath(self.relative).name != expected:
            self.fault(keys["code"], f"the file must be called {expected} after its code and name")

    def _text(self, node: Node, what: str, *, one_line: bool = False) -> Text:
        both = self.fields(node, what, required=("en", "zh"))
        values = {}
        for language, part in both.items():
            text = self.text(part, f"{what}.{language}").strip()
            values[language] = text
            if one_line and "\n" in text:
                self.fault(part, f"{what}.{language} must be one line")
            if language == "zh" and text and not _CHINESE.search(text):
                self.fault(part, f"{what}.zh holds no Chinese character")
            self.templates.append((part, text))
        if len(values) == 2:
            for ours, theirs in (("en", "zh"), ("zh", "en")):
                lost = sorted({*_TEMPLATE_NAME.findall(values[ours])} - {*_TEMPLATE_NAME.findall(values[theirs])})
                if lost:
                    named = ", ".join(f"{{{name}}}" for name in lost)
                    self.fault(both[theirs], f"{what}.{theirs} lacks {named}, which {what}.{ours} names")
        return Text(en=values.get("en", ""), zh=values.get("zh", ""))

    def _params(self, node: Node) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, (key, value) in self.mapping(node, "params").items():
            if not name.isidentifier():
                self.fault(key, f"parameter {shorten(name)} must be an identifier, like min_points")
            plain = self.plain(value)
            scalars = plain if isinstance(plain, list) else [plain]
            if any(scalar is None or isinstance(scalar, (dict, list)) for scalar in scalars):
                self.fault(value, f"parameter {name} must be a number, a text, a truth value or a list of those")
            found[name] = plain
        return found

    def _caused_by(self, node: Node) -> tuple[str, ...]:
        return self._rule_names(node, "caused_by")

    def _rule_names(self, node: Node, what: str) -> tuple[str, ...]:
        names = self.texts(node, what)
        for item in node.items if isinstance(node, Items) else ():
            if isinstance(item, Scalar) and item.text in names:
                self.out.references.append(Reference(item.text, what, item.line, item.column))
        return names

    def _references(self, node: Node) -> tuple[str, ...]:
        found = self.texts(node, "references")
        for item in self.items(node, "references"):
            if isinstance(item, Scalar) and item.text in found and not re.fullmatch(r"https?://\S+", item.text):
                self.fault(item, f"reference {shorten(item.text)} must be a web address, https://...")
        return found

    # -- remedies

    def _remedy(self, node: Node) -> RuleRemedy:
        keys = self.fields(
            node,
            "a remedy",
            required=("kind", "text"),
            optional=("change", "command", "stack", "disposition", "expect", "verify"),
        )
        kind = self.choice(keys["kind"], "remedy kind", get_args(RemedyKind)) if "kind" in keys else "code"
        command = None
        if "command" in keys:
            command = self.text(keys["command"], "command").strip()
            self.templates.append((keys["command"], command))
        return RuleRemedy(
            kind=cast(RemedyKind, kind),
            text=self._text(keys["text"], "text") if "text" in keys else Text("", ""),
            change=self._change(keys["change"], kind) if "change" in keys else None,
            command=command,
            stack=self.texts(keys["stack"], "stack") if "stack" in keys else (),
            disposition=cast(
                Disposition,
                self.choice(keys["disposition"], "disposition", get_args(Disposition))
                if "disposition" in keys
                else "review",
            ),
            expect=self._text(keys["expect"], "expect") if "expect" in keys else None,
            verify=self._text(keys["verify"], "verify") if "verify" in keys else None,
        )

    def _change(self, node: Node, kind: str) -> Change:
        keys = self.fields(node, "change", required=("key", "to"), optional=("from",))
        values = {name: self.text(value, f"change.{name}") for name, value in keys.items() if name != "to"}
        if "from" in keys:
            self.templates.append((keys["from"], values["from"]))
        # An empty value is a real one: it unsets a variable or stands for a flag without a value.
        if "to" in keys:
            target = keys["to"]
            if not isinstance(target, Scalar) or (target.plain and target.value is None):
                self.fault(target, f"change.to must be a text, found {describe(target)}")
            else:
                values["to"] = target.text
                self.templates.append((target, target.text))
        key = values.get("key", "")
        if kind not in ("flag", "env", "config"):
            self.fault(node, f"a remedy of kind {kind} has no change; allowed for: flag, env, config")
        elif re.fullmatch(r"\{[a-z_]+\}", key):
            # A rule of the lint names the setting it found.
            self.templates.append((keys["key"], key))
        elif key and kind == "env" and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
            self.fault(keys["key"], f"environment variable {shorten(key)} must be letters, digits and _")
        elif key and kind == "flag" and not re.fullmatch(r"--?[A-Za-z][A-Za-z0-9_.-]*", key):
            self.fault(keys["key"], f"flag {shorten(key)} must be written as on the command line, like --max-model-len")
        return Change(key=key, to=values.get("to", ""), old=values.get("from"))

    # -- detectors

    def _detect(self, node: Node, values: Mapping[str, Any]) -> tuple[dict[str, Any], _Captures | None]:
        keys = self.fields(node, "detect", optional=("signature", "query", "python"))
        if len(keys) != 1:
            if isinstance(node, Pairs) and (keys or not node.pairs):
                self.fault(node, "detect must have exactly one of: signature, query, python")
            return {}, None
        if "signature" in keys:
            if "log" not in values.get("needs", ("log",)):
                self.fault(keys["signature"], "a signature reads table log; add it to needs or leave needs out")
            if values.get("params"):
                self.fault(keys["signature"], "a signature takes no params; they are for query and python")
            given = keys["signature"]
            parts = given.items if isinstance(given, Items) else [given]
            if not parts:
                self.fault(given, "signature is an empty list")
            signatures = [self._signature(part, "signature") for part in parts]
            captures = _Captures.of([signature for signature in signatures if signature is not None])
            return {"signatures": tuple(signatures)}, captures
        if "query" in keys:
            query = self.strict_text(keys["query"], "query").strip().rstrip(";").strip()
            self._check_query(keys["query"], query, values.get("params", {}))
            return {"query": query}, None
        hook = self.strict_text(keys["python"], "python")
        self._check_hook(keys["python"], hook)
        return {"python": hook}, None

    def _signature(self, node: Node, what: str) -> Signature | None:
        optional: tuple[str, ...] = ("all", "any", "regex", "unless", "where", "near", "types", "within", "nocase")
        if what == "signature":
            optional = (*optional, "count", "per", "then", "cleared_by")
        if what == "cleared_by":
            optional = (*optional, "same")
        if not isinstance(node, Pairs):
            self.fault(node, f"{what} must be a mapping, found {describe(node)}")
            return None
        keys = self.fields(node, what, optional=optional)
        literals = {name: self._literals(keys, name, what) for name in ("all", "any", "unless")}
        self._check_prefilter(node, literals, what)
        near = self._near(keys["near"]) if "near" in keys else None
        regex = self._regex(keys["regex"], f"{what}.regex") if "regex" in keys else None
        groups = {*_groups(regex), *_groups(near.regex if near else None)}
        count = self._count(keys["count"]) if "count" in keys else 1
        within = self._duration(keys["within"]) if "within" in keys else None
        if within is not None and count < 2 and what == "signature":
            self.fault(keys["within"], "within needs a count of at least 2")
        cleared = self._signature(keys["cleared_by"], "cleared_by") if "cleared_by" in keys else None
        if cleared is not None:
            self._check_same(keys["cleared_by"], cleared, groups)
        return Signature(
            any=literals["any"],
            all=literals["all"],
            unless=literals["unless"],
            regex=regex,
            where=self._where(keys["where"]) if "where" in keys else Where(),
            near=near,
            types=self._types(keys.get("types"), groups),
            count=count,
            within_s=within,
            per=self.choices(keys["per"], "column in per", PER) if "per" in keys else (),
            then=self._signature(keys["then"], "then") if "then" in keys else None,
            cleared_by=cleared,
            same=self.texts(keys["same"], "cleared_by.same") if "same" in keys else (),
            nocase=self.truth(keys["nocase"], "nocase") if "nocase" in keys else False,
        )

    def _check_same(self, node: Node, cleared: Signature, groups: Collection[str]) -> None:
        """The captures that tie a record to the one that clears it must be bound by both."""
        own = {*_groups(cleared.regex), *_groups(cleared.near.regex if cleared.near else None)}
        for name in cleared.same:
            if name not in own or name not in groups:
                self.fault(node, f"cleared_by.same names {shorten(name)}, which must be a capture of both signatures")

    def _literals(self, keys: Mapping[str, Node], name: str, what: str) -> tuple[str, ...]:
        if name not in keys:
            return ()
        node = keys[name]
        found = self.texts(node, f"{what}.{name}")
        for item in node.items if isinstance(node, Items) else ():
            if isinstance(item, Scalar) and "\n" in item.text:
                self.fault(item, f"a literal in {what}.{name} must be one line; use regex with [\\s\\S] to span lines")
        if isinstance(node, Items) and not node.items:
            self.fault(node, f"{what}.{name} is an empty list")
        return found

    def _check_prefilter(self, node: Node, literals: Mapping[str, tuple[str, ...]], what: str) -> None:
        def long(text: str) -> bool:
            return len(text.encode()) >= MIN_LITERAL

        if any(long(text) for text in literals["all"]) or (literals["any"] and all(map(long, literals["any"]))):
            return
        short = next((text for text in literals["any"] if not long(text)), None)
        found = f", found {shorten(short)} in any" if short is not None else ""
        self.fault(
            node,
            f"{what} needs a literal of at least {MIN_LITERAL} characters for the scan: "
            f"one in all, or each of any{found}",
        )

    def _near(self, node: Node) -> Near:
        keys = self.fields(node, "near", optional=("lines", "any", "all", "regex", "unless", "optional"))
        if isinstance(node, Pairs) and not keys.keys() & {"any", "all", "regex", "unless"}:
            self.fault(node, "near needs at least one of: any, all, regex, unless")
        return Near(
            lines=self.integer(keys["lines"], "near.lines", low=1, high=MAX_NEAR_LINES) if "lines" in keys else 30,
            any=self._literals(keys, "any", "near"),
            all=self._literals(keys, "all", "near"),
            unless=self._literals(keys, "unless", "near"),
            regex=self._regex(keys["regex"], "near.regex") if "regex" in keys else None,
            optional=self.truth(keys["optional"], "near.optional") if "optional" in keys else False,
        )

    def _where(self, node: Node) -> Where:
        keys = self.fields(node, "where", optional=("level", "module", "kind"))
        return Where(
            level=self.choices(keys["level"], "level", LEVELS) if "level" in keys else (),
            module=self.texts(keys["module"], "where.module") if "module" in keys else (),
            kind=self.texts(keys["kind"], "where.kind") if "kind" in keys else (),
        )

    def _regex(self, node: Node, what: str) -> str | None:
        pattern = self.strict_text(node, what)
        try:
            with warnings.catch_warnings():
                # What Python only warns of today, as "[[", reads otherwise in another release.
                warnings.simplefilter("error", FutureWarning)
                groups = re.compile(pattern).groupindex
        except (re.error, RecursionError, OverflowError, FutureWarning) as error:
            self.fault(node, f"{what} is not a regular expression: {error}")
            return None
        for name in groups:
            if name in BUILTINS or name in SCOPE:
                self.fault(node, f"capture {name!r} hides the built-in {{{name}}}; call it otherwise")
        if re.compile(pattern).search("") is not None:
            self.fault(node, f"{what} matches the empty text, so it matches always")
        return pattern

    def _types(self, node: Node | None, groups: Collection[str]) -> dict[str, str]:
        types = {name: "int" for name in _INTEGER_CAPTURES if name in groups}
        if node is None:
            return types
        for name, (key, value) in self.mapping(node, "types").items():
            if name not in groups:
                self.fault(key, _unknown_capture(name, groups))
            kind = self.choice(value, "type", TYPES)
            if name in types and kind not in ("int", "hex"):
                self.fault(value, f"capture {name} is a number of the finding's scope; allowed: int, hex")
            types[name] = kind
        return types

    def _count(self, node: Node) -> int:
        text = node.text.strip() if isinstance(node, Scalar) else ""
        match = re.fullmatch(r"(?:>=\s*)?([1-9][0-9]{0,6})", text)
        if match is None:
            self.fault(node, f'count must be like ">= 3", found {describe(node)}')
            return 2
        return int(match[1])

    def _duration(self, node: Node) -> float:
        text = node.text.strip() if isinstance(node, Scalar) else ""
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh])", text)
        if match is None or float(match[1]) == 0:
            self.fault(node, f"within must be a time like 60s, 5m or 2h, found {describe(node)}")
            return 1.0
        return float(match[1]) * _SECONDS[match[2]]

    def _check_query(self, node: Node, query: str, params: Mapping[str, Any]) -> None:
        bare = _SQL_NOISE.sub(" ", query)
        first = re.match(r"[\s(]*([A-Za-z]+)", bare)
        if first is None or first[1].upper() not in ("SELECT", "WITH"):
            found = shorten(first[1]) if first else "nothing"
            self.fault(node, f"query must be one SELECT or WITH statement, found {found}")
        elif ";" in bare:
            self.fault(node, "query must be one statement; found a second one after ;")
        used = set(re.findall(r"\$([A-Za-z_][A-Za-z0-9_]*)", bare))
        for name in sorted(used - params.keys()):
            allowed = ", ".join(params) or "none, the rule has no params"
            self.fault(node, f"unknown parameter ${name} in query; allowed: {allowed}{suggestion(name, params)}")
        for name in params:
            if name not in used:
                self.fault(node, f"parameter {name} is not used in query as ${name}")

    def _check_hook(self, node: Node, hook: str) -> None:
        match = re.fullmatch(r"npudiag((?:\.[a-z_][a-z0-9_]*)+):([a-z_][a-z0-9_]*)", hook)
        if self.package is None:
            self.fault(node, "python is only for the rules that npudiag ships; use signature or query")
        elif match is None:
            self.fault(node, f"python must be npudiag.<module>:<function>, found {shorten(hook)}")
        else:
            module = self.package.joinpath(*match[1][1:].split("."))
            places = (module.with_suffix(".py"), module / "__init__.py")
            source = next((path for path in places if path.is_file()), None)
            if source is None:
                self.fault(node, f"no module npudiag{match[1]}")
            elif not re.search(rf"^def {match[2]}\(", source.read_text(encoding="utf-8"), re.MULTILINE):
                self.fault(node, f"module npudiag{match[1]} has no function {match[2]}")

    # -- templates

    def _check_templates(self, captures: _Captures | None) -> None:
        for node, text in self.templates:
            problem = _bracket_problem(text)
            if problem:
                self.fault(node, problem)
            if captures is None:
                continue
            known = (*sorted({*captures.all, *IDENTITY}), *SCOPE, *BUILTINS)
            outside = re.sub(r"\[\[.*?\]\]", "", text, flags=re.DOTALL)
            for name in dict.fromkeys(_TEMPLATE_NAME.findall(text)):
                if name not in known:
                    self.fault(node, one_of(name, "name in braces", known))
                elif f"{{{name}}}" in outside and name not in BUILTINS and name not in captures.sure:
                    self.fault(node, f"{{{name}}} may have no value; put the words around it in [[ ]]")

    # -- tests

    def _tests(self, node: Node, captures: _Captures | None) -> tuple[RuleTest, ...]:
        tests: list[RuleTest] = []
        names: dict[str, Node] = {}
        faulty = False
        for item in self.items(node, "tests"):
            before = len(self.faults)
            test = self._test(item, captures)
            if test.name in names:
                self.fault(item, f"a second test called {shorten(test.name)}; first in line {names[test.name].line}")
            names.setdefault(test.name, item)
            faulty = faulty or len(self.faults) > before
            tests.append(test)
        # What a faulty test was meant to be is not known.
        if not faulty and not any(test.findings and not test.skip for test in tests):
            self.fault(node, "tests lack a positive one (expect.findings of 1 or more)")
        if not faulty and not any(test.findings == 0 and not test.skip for test in tests):
            self.fault(node, "tests lack a near-miss (expect.findings: 0)")
        return tuple(tests)

    def _test(self, node: Node, captures: _Captures | None) -> RuleTest:
        keys = self.fields(node, "a test", required=("name", "expect"), optional=("log", "files", "tables"))
        values: dict[str, Any] = {"name": self.text(keys["name"], "test name") if "name" in keys else ""}
        if "log" in keys and "files" in keys:
            self.fault(keys["files"], "a test has log or files, not both")
        if "log" in keys:
            values["files"] = {"sample.log": self.text(keys["log"], "log")}
        elif "files" in keys:
            values["files"] = self._files(keys["files"])
        if "tables" in keys:
            values["tables"] = self._table_rows(keys["tables"])
        if "expect" in keys:
            values.update(self._expect(keys["expect"], captures))
            if not any(values.get(key) for key in ("skip", "files", "tables")):
                self.fault(node, "a test needs log, files or tables, unless it expects skip")
        return RuleTest(**values, line=node.line)

    def _files(self, node: Node) -> dict[str, str]:
        found = {}
        for name, (key, value) in self.mapping(node, "files").items():
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in name:
                self.fault(key, f"{shorten(name)} must be a relative path with / and without ..")
            found[name] = self.text(value, f"file {name}")
        return found

    def _expect(self, node: Node, captures: _Captures | None) -> dict[str, Any]:
        if isinstance(node, Scalar):
            if node.text != "skip":
                self.fault(node, f"expect must be skip or a mapping, found {describe(node)}")
            return {"skip": True}
        keys = self.fields(
            node, "expect", required=("findings",), optional=("captures", "ranks", "devices", "nodes", "also")
        )
        values: dict[str, Any] = {}
        if "findings" in keys:
            values["findings"] = self.integer(keys["findings"], "findings")
            for name in ("captures", "ranks", "devices", "nodes"):
                if name in keys and values["findings"] == 0:
                    self.fault(keys[name], f"expect.{name} needs findings of at least 1")
        if "captures" in keys:
            values["captures"] = self._expected_captures(keys["captures"], captures)
        for name in ("ranks", "devices"):
            if name in keys:
                values[name] = self.integers(keys[name], f"expect.{name}")
        if "nodes" in keys:
            values["nodes"] = self.texts(keys["nodes"], "expect.nodes")
        if "also" in keys:
            values["also"] = self._rule_names(keys["also"], "also")
        return values

    def _expected_captures(self, node: Node, captures: _Captures | None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, (key, value) in self.mapping(node, "captures").items():
            if captures is not None and name not in captures.all:
                self.fault(key, _unknown_capture(name, captures.all))
            found[name] = self.plain(value)
        return found

    def _table_rows(self, node: Node) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for name, (key, value) in self.mapping(node, "tables").items():
            if name not in self.tables:
                self.fault(key, one_of(name, "table", sorted(self.tables)))
            if isinstance(value, Pairs):
                found[name] = self._columns(value, name)
                continue
            rows = []
            for item in self.items(value, f"rows of {name}"):
                cells = self.mapping(item, "a row")
                self._check_columns(name, cells)
                rows.append({column: self.plain(cell) for column, (_, cell) in cells.items()})
            found[name] = rows
        return found

    def _check_columns(self, table: str, cells: Mapping[str, tuple[Scalar, Node]]) -> None:
        known = self.tables.get(table)
        if known is None:
            return
        for column, (key, _) in cells.items():
            if column not in known:
                self.fault(key, one_of(column, f"column in {table}", known))

    def _columns(self, node: Pairs, table: str) -> list[dict[str, Any]]:
        """Read rows given by column: a list, or values written short (see `expand`)."""
        columns: dict[str, list[Any]] = {}
        given = self.mapping(node, table)
        self._check_columns(table, given)
        for name, (_, value) in given.items():
            if isinstance(value, Items):
                columns[name] = [self.plain(item) for item in value.items]
                continue
            try:
                columns[name] = expand(value.text if isinstance(value, Scalar) else "")
            except ValueError as error:
                self.fault(value, f"column {name}: {error}")
                return []
        longest = max(map(len, columns.values()), default=0)
        for name, cells in columns.items():
            if len(cells) == 1:
                columns[name] = cells * longest
            elif len(cells) != longest:
                self.fault(node, f"column {name} of {table} has {len(cells)} values, the longest column {longest}")
                return []
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


MAX_ROWS = 100_000


def expand(text: str) -> list[Any]:
    """Expand a column written short.

    Words are separated by blanks: ``5`` is one value, ``5x20`` twenty of them, ``1+2x4`` is 1 3 5 7 and
    ``9-2x3`` is 9 7 5, ``_`` is a missing value and ``_x3`` three of them. Anything else is a text.

    Raises:
        ValueError: Nothing is given, or the column is longer than 100,000 values.
    """
    number = r"-?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?"
    found: list[Any] = []
    for word in text.split():
        repeated = re.fullmatch(rf"(_|{number})(?:([+-])({number}))?x([0-9]{{1,6}})", word)
        if repeated is None:
            found.append(None if word == "_" else Scalar(word, True, 0, 0).value)
            continue
        times = int(repeated[4])
        if len(found) + times > MAX_ROWS:
            raise ValueError(f"more than {MAX_ROWS:,} values")
        start = None if repeated[1] == "_" else Scalar(repeated[1], True, 0, 0).value
        step: Any = Scalar(repeated[3], True, 0, 0).value if repeated[3] else 0
        if repeated[2] == "-":
            step = -step
        found.extend(start if start is None else cast(Any, start) + step * index for index in range(times))
    if not found:
        raise ValueError("a list or values like 1+1x32 expected")
    return found


@dataclass(frozen=True, slots=True)
class _Captures:
    """Names that signatures bind: `all` of them, and those that always have a value."""

    all: frozenset[str]
    sure: frozenset[str]

    @classmethod
    def of(cls, signatures: Sequence[Signature]) -> _Captures:
        """Collect the captures of alternatives: only what each of them binds is sure."""
        names: set[str] = set()
        sure: set[str] | None = None
        for signature in signatures:
            bound = set()
            for part in (signature, signature.then):
                for regex in (part.regex, part.near.regex if part.near else None) if part else ():
                    names |= _groups(regex)
                    if part is None or part.near is None or not part.near.optional or regex != part.near.regex:
                        bound |= _groups(regex) - optional_groups(regex or "")
            sure = bound if sure is None else sure & bound
        return cls(frozenset(names), frozenset(sure or ()))


def _unknown_capture(name: str, known: Collection[str]) -> str:
    allowed = ", ".join(sorted(known)) or "none, no regex has a named group"
    return f"unknown capture {shorten(name)}; allowed: {allowed}{suggestion(name, known)}"


def _groups(pattern: str | None) -> set[str]:
    return set(re.compile(pattern).groupindex) if pattern else set()


def optional_groups(pattern: str) -> set[str]:
    """Return the named groups of a valid pattern that may be unset although it matches."""
    optional: set[str] = set()
    # Per open group: its own name, the names inside it, whether it has alternatives or binds nothing.
    stack: list[tuple[str, set[str], list[bool]]] = [("", set(), [False])]
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            index += 2
            continue
        if char == "[":
            index = _class_end(pattern, index)
        elif char == "(":
            named = re.match(r"\(\?P<(\w+)>", pattern[index:])
            stack.append((named[1] if named else "", set(), [pattern.startswith(("(?!", "(?<!"), index)]))
        elif char == "|":
            stack[-1][2][0] = True
        elif char == ")":
            name, inside, unsure = stack.pop()
            if unsure[0]:
                optional |= inside
            inside = inside | {name} - {""}
            if re.match(r"[?*]|\{0?,|\{0\}", pattern[index + 1 :]):
                optional |= inside
            stack[-1][1].update(inside)
        index += 1
    if stack[0][2][0]:
        optional |= stack[0][1]
    return optional


def _class_end(pattern: str, start: int) -> int:
    index = start + 1
    if pattern.startswith("^", index):
        index += 1
    index += 1  # a ] in the first place is a literal
    if pattern[index - 1] == "\\":
        index += 1
    while pattern[index] != "]":
        index += 2 if pattern[index] == "\\" else 1
    return index


def _bracket_problem(text: str) -> str:
    depth = 0
    for token in re.finditer(r"\[\[|\]\]", text):
        depth += 1 if token[0] == "[[" else -1
        if depth not in (0, 1):
            break
    if depth != 0:
        return "[[ and ]] do not pair up, or stand in one another"
    for part in re.findall(r"\[\[(.*?)\]\]", text, flags=re.DOTALL):
        if not _TEMPLATE_NAME.search(part):
            return f"the part [[{part}]] holds no {{name}}, so it would never be dropped"
    return ""


_SQL_NOISE = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*[\s\S]*?\*/")
