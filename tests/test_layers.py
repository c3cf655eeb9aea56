"""Imports run one way only, and nothing heavy is loaded before it is used."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import npudiag

PACKAGE = Path(npudiag.__file__).parent

LAYERS: tuple[tuple[str, ...], ...] = (
    ("npudiag._version", "npudiag.errors", "npudiag.cache", "npudiag.plugins"),
    ("npudiag.result",),
    ("npudiag.comparison.model",),
    ("npudiag.engine.model",),
    ("npudiag.budget",),
    ("npudiag.config",),
    ("npudiag.discover",),
    ("npudiag.tables.schema", "npudiag.tables.columns"),  # parsers fill them
    ("npudiag.parsers",),
    ("npudiag.tables",),
    ("npudiag.host",),  # writes what the parsers read
    ("npudiag.pool",),
    ("npudiag.partials",),
    ("npudiag.reading",),
    ("npudiag.ingest", "npudiag.cluster"),
    ("npudiag.analyses",),
    ("npudiag.advice",),
    ("npudiag.comparison.snapshot",),  # kept in the result document
    ("npudiag.detectors", "npudiag.engine"),
    ("npudiag.knowledge",),
    ("npudiag.diagnosis",),
    ("npudiag.filling",),
    ("npudiag.judging",),
    ("npudiag.account",),
    ("npudiag.analyze", "npudiag.extract"),
    ("npudiag.watch",),
    ("npudiag.engine.testing",),  # the tests in rule files are run through the whole pipeline
    ("npudiag.comparison",),
    ("npudiag.api",),
    ("npudiag.cli",),
    ("npudiag", "npudiag.__main__"),
)
"""From the lowest; a module may import from its own layer and from lower ones. The longest prefix decides."""

REPORT_MAY_IMPORT = ("npudiag.report", "npudiag.result", "npudiag.comparison.model", "npudiag._version")
MAY_IMPORT_REPORT = ("npudiag.report", "npudiag.cli", "npudiag.__main__")

HEAVY = {"pandas", "duckdb", "jinja2", "rich", "typer", "dask", "distributed"}
MAY_LOAD: dict[str, set[str]] = {
    "npudiag.cli": {"typer"},
    "npudiag.report.html.page": {"jinja2"},
    "npudiag.report.html.compare": {"jinja2"},
}
"""Modules that may import something heavy at their top: they are themselves loaded only when it is needed."""


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def layer(module: str) -> int | None:
    """Number of a module's layer: that of the longest name that holds it, except that `npudiag` is only itself."""
    fitting = [
        (len(name), number)
        for number, names in enumerate(LAYERS)
        for name in names
        if (module == name if name == "npudiag" else within(module, name))
    ]
    return max(fitting)[1] if fitting else None


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


DEFERRED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
"""What runs later than the module that holds it."""


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def nodes(tree: ast.AST, *, top_only: bool) -> Iterator[ast.AST]:
    """Every node; with `top_only` those that run when the module is imported."""
    for child in ast.iter_child_nodes(tree):
        if top_only and (
            is_type_checking(child) or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        ):
            continue
        yield child
        yield from nodes(child, top_only=top_only)


def imports(module: str, *, top_only: bool = False) -> Iterator[tuple[int, str]]:
    """Yield line and full name of what a module imports: of ``from a import b``, ``a.b`` where that is a module."""
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in nodes(ast.parse(path.read_text(encoding="utf-8")), top_only=top_only):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                home = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*home, base]) if base else ".".join(home)
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield node.lineno, name if name in MODULES else base


def own_imports(module: str) -> list[tuple[int, str]]:
    return [(line, name) for line, name in imports(module) if within(name, "npudiag")]


@pytest.mark.parametrize("module", [name for name in MODULES if not within(name, "npudiag.report")])
def test_imports_only_from_lower_layers(module: str) -> None:
    own = layer(module)
    assert own is not None, f"{module} belongs to no layer: add it to LAYERS"
    wrong = []
    for line, name in own_imports(module):
        if within(name, "npudiag.report"):
            if not any(within(module, allowed) for allowed in MAY_IMPORT_REPORT):
                wrong.append(f"line {line}: {name} (only the command line renders)")
            continue
        theirs = layer(name)
        assert theirs is not None, f"{name} belongs to no layer: add it to LAYERS"
        if theirs > own:
            wrong.append(f"line {line}: {name} is of a higher layer")
    assert not wrong, f"{module} imports\n" + "\n".join(wrong)


@pytest.mark.parametrize("module", [name for name in MODULES if within(name, "npudiag.report")])
def test_report_knows_the_result_only(module: str) -> None:
    wrong = [
        f"line {line}: {name}"
        for line, name in own_imports(module)
        if not any(within(name, allowed) for allowed in REPORT_MAY_IMPORT)
    ]
    assert not wrong, f"{module} imports\n" + "\n".join(wrong)


@pytest.mark.parametrize("module", [name for name in MODULES if within(name, "npudiag.parsers")])
def test_parsers_know_no_rules(module: str) -> None:
    wrong = [f"line {line}: {name}" for line, name in own_imports(module) if within(name, "npudiag.engine")]
    assert not wrong, f"{module} imports\n" + "\n".join(wrong)


@pytest.mark.parametrize("module", MODULES)
def test_nothing_heavy_at_the_top(module: str) -> None:
    allowed = set().union(*(libraries for package, libraries in MAY_LOAD.items() if within(module, package)))
    wrong = [
        f"line {line}: {name}"
        for line, name in imports(module, top_only=True)
        if name.partition(".")[0] in HEAVY - allowed
    ]
    assert not wrong, f"{module} imports when it is loaded itself\n" + "\n".join(wrong)


def test_rules_hold_data_only() -> None:
    root = PACKAGE / "rules" if (PACKAGE / "rules").is_dir() else PACKAGE.parent / "rules"
    code = [path for path in root.rglob("*") if path.suffix in (".py", ".pyc", ".so", ".sh")]
    assert not code


def loaded_after(program: str) -> set[str]:
    """Top-level names of the modules that a fresh interpreter holds after running `program`."""
    program += "\nimport json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_version_loads_next_to_nothing() -> None:
    loaded = loaded_after("from npudiag.__main__ import main; assert main(['--version']) == 0")
    assert not loaded & (HEAVY | {"numpy", "msgspec", "yaml", "hyperscan", "psutil", "click", "argparse", "asyncio"})


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_after("import npudiag; npudiag.__version__")
    assert not loaded & (HEAVY | {"numpy", "msgspec", "yaml", "hyperscan", "psutil"})


def test_the_command_line_itself_loads_no_engine_libraries() -> None:
    loaded = loaded_after("import npudiag.cli.app")
    assert not loaded & ((HEAVY | {"numpy", "hyperscan"}) - {"typer", "rich"})


def test_load_is_there_when_asked_for() -> None:
    assert "load" in dir(npudiag)
    assert callable(npudiag.load)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        npudiag.nothing  # noqa: B018
