"""Imports go one way, nouns <- verbs <- doors <- commands, and only the doors know engines and accelerators."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "policy").rglob("*.py"))

NOUNS, VERBS, DOORS, COMMANDS = range(4)
NAMES = ("nouns", "verbs", "doors", "commands")
#: Layer of a module by the longest prefix that is listed; what is not listed is a verb.
LAYERS = {
    "policy": COMMANDS,  # the public face
    "policy.__main__": COMMANDS,
    "policy.cli": COMMANDS,
    "policy.commands": COMMANDS,
    "policy.pages": COMMANDS,
    "policy.launchers": DOORS,
    "policy.runtime": DOORS,
    "policy.findings": DOORS,
    "policy.analyse": VERBS,
    "policy.versions": NOUNS,
    "policy.values": NOUNS,
    "policy.facts": NOUNS,
    "policy.conditions": NOUNS,
    "policy.derive": NOUNS,
    "policy.companions": NOUNS,
    "policy.origin": NOUNS,
    "policy.problems": NOUNS,
    "policy.records": NOUNS,
    "policy.pack": NOUNS,
    "policy.launch": NOUNS,
    "policy.decision": NOUNS,
}
#: Modules that only one part of the package may import, at the top or inside a function.
RESERVED = {
    "torch": "policy.runtime",
    "flashinfer": "policy.runtime",
    "vllm": "policy.launchers",
    "sglang": "policy.launchers",
    "rich": "",
}
#: What an everyday command may import from outside the standard library, and which module does it.
HEAVY = {
    "yaml": {"policy.source", "policy.commands.resolve"},
    "pydantic": {"policy.documents", "policy.typed", "policy.load"},
    "packaging": {"policy.versions"},
}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def layer_of(module: str) -> int:
    while module not in LAYERS and module != "policy":
        module = module.rpartition(".")[0]
    # an unlisted module directly below `policy` ends up at `policy` itself
    return LAYERS[module]


def layer(module: str) -> int:
    """The layer of a module; a module below `policy` that is not listed is a verb."""
    listed = any(module == name or module.startswith(f"{name}.") for name in LAYERS if name != "policy")
    return layer_of(module) if listed or module == "policy" else VERBS


@cache
def imports(path: Path) -> tuple[tuple[str, int], ...]:
    """Every imported module with its line, those inside functions too; types that are only named are left out."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {node for test in ast.walk(tree) if isinstance(test, ast.If) and "TYPE_CHECKING" in ast.dump(test.test) for node in ast.walk(test)}
    for node in ast.walk(tree):
        if node in named:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                inside = ROOT / Path(*f"{node.module}.{alias.name}".split("."))
                whole = inside.with_suffix(".py").exists() or (inside / "__init__.py").exists()
                yield f"{node.module}.{alias.name}" if node.module.startswith("policy") and whole else node.module, node.lineno


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_go_one_way(path: Path) -> None:
    module = module_of(path)
    if module == "policy":
        return
    for imported, line in imports(path):
        if imported == "policy" or imported.startswith("policy."):
            assert layer(imported) <= layer(module), f"{module}:{line} ({NAMES[layer(module)]}) imports {imported} ({NAMES[layer(imported)]})"


def test_the_table_of_layers_names_modules_that_exist() -> None:
    modules = {module_of(path) for path in FILES}
    assert set(LAYERS) <= modules


def test_the_evaluation_is_pure() -> None:
    """Nothing that decides reads a file, an environment, a clock or a process."""
    for name in ("values", "versions", "facts", "conditions", "derive", "companions", "launch", "pack", "decision", "evaluate", "engine_outcome"):
        found = {imported.partition(".")[0] for imported, _ in imports(ROOT / "policy" / f"{name}.py")}
        assert not found & {"os", "sys", "pathlib", "io", "time", "datetime", "subprocess", "socket", "random", "yaml", "pydantic", "tempfile", "shutil"}, name


def test_explain_decides_nothing() -> None:
    imported = {name for name, _ in imports(ROOT / "policy" / "explain.py")}
    assert not imported & {"policy.evaluate", "policy.engine_outcome", "policy.conditions", "policy.launch"}


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_who_may_import_what(name: str) -> None:
    for path in FILES:
        module, home = module_of(path), RESERVED[name]
        for imported, line in imports(path):
            if imported == name or imported.startswith(f"{name}."):
                assert home, f"{module}:{line} imports {imported}"
                assert module == home or module.startswith(f"{home}."), f"{module}:{line} imports {imported}"


@pytest.mark.parametrize("name", sorted(HEAVY))
def test_libraries_have_one_home(name: str) -> None:
    """In the spine; doors read other people's formats and have their own parsers."""
    homes = {module_of(path) for path in FILES for imported, _ in imports(path) if imported.partition(".")[0] == name and layer(module_of(path)) != DOORS}
    assert homes <= HEAVY[name], homes - HEAVY[name]


# --- engines ---

ENGINE = re.compile(r"vllm|sglang|tensorrt|trtllm-serve", re.IGNORECASE)


def words_of(path: Path) -> Iterator[tuple[str, int]]:
    """Names and texts of the code; comments, docstrings and the examples of commands are left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
        and isinstance(node.body[0].value, ast.Constant)
    }
    examples = {
        node
        for assigned in ast.walk(tree)
        if isinstance(assigned, ast.Assign) and any(isinstance(target, ast.Name) and target.id == "EXAMPLE" for target in assigned.targets)
        for node in ast.walk(assigned)
    }
    for node in ast.walk(tree):
        if node in documented or node in examples:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, node.lineno
        elif isinstance(node, ast.Name):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.lineno


@pytest.mark.parametrize("path", [path for path in FILES if layer(module_of(path)) != DOORS or module_of(path) == "policy.findings"], ids=module_of)
def test_only_doors_name_engines(path: Path) -> None:
    named = [f"{module_of(path)}:{line} {word[:60]!r}" for word, line in words_of(path) if ENGINE.search(word)]
    assert not named


def test_no_file_names_where_it_was_written() -> None:
    """No path of a machine, and no address of a package registry, in any file of the project's own."""
    forbidden = re.compile("|".join(["/wor" + "k/", "/roo" + "t/", "pypi" + r"\.org", "files" + r"\.pythonhosted", "registry" + r"\.npmjs"]))
    checked = 0
    for path in [*FILES, *(ROOT / "rules").rglob("*.yaml"), *(ROOT / "tests").glob("*.py"), ROOT / "fusion_policy.py", ROOT / "pyproject.toml"]:
        assert not forbidden.search(path.read_text(encoding="utf-8")), path
        checked += 1
    assert checked > 100
