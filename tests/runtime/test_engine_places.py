"""Every place that `rules/products/*/runtime.yaml` names is there in the published releases (those unpacked into .engines)."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from policy.runtime.data import product, valid_at
from policy.runtime.engines.after_import import after_import
from policy.runtime.engines.door import Door, decision_given
from policy.runtime.plan import RuntimeRequestError

ROOT = Path(__file__).resolve().parents[2]
RELEASES = [
    (folder.name.split("-")[0], folder.name.split("-", 1)[1], folder)
    for folder in sorted((ROOT / ".engines").glob("*-*"))
    if folder.name.split("-")[0] in ("vllm", "sglang") and Version(folder.name.split("-", 1)[1]) >= Version(product(folder.name.split("-")[0])["since"])
]


@cache
def tree(folder: Path, module: str) -> ast.Module:
    path = folder.joinpath(*module.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    return ast.parse(file.read_text(encoding="utf-8"))


def names(node: ast.AST) -> set[str]:
    """What a module or class defines or binds at its own level, also inside `try` and `if`."""
    found: set[str] = set()
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.FunctionDef | ast.ClassDef):
            found.add(each.name)
        elif isinstance(each, ast.Assign | ast.AnnAssign):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
        elif isinstance(each, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in each.names}
        elif isinstance(each, ast.Try | ast.If):
            found |= names(each)
    return found


def class_of(module: ast.Module, name: str) -> ast.ClassDef:
    return next(node for node in module.body if isinstance(node, ast.ClassDef) and node.name == name)


@pytest.mark.parametrize(("engine", "version", "folder"), RELEASES or [pytest.param("", "", None, marks=pytest.mark.skip("nothing is unpacked in .engines"))])
def test_places(engine: str, version: str, folder: Path) -> None:
    data = product(engine)
    row = {name: valid_at(data[name], version, data["through"]) for name in ("commit", "library", "unfused", "fused")}
    assert None not in row.values(), f"{engine} {version} has no row"
    commit = tree(folder, row["commit"]["module"])
    holder = class_of(commit, row["commit"]["class"]) if "class" in row["commit"] else commit
    assert row["commit"]["function"] in names(holder)
    assert data["group"]["function"] in names(tree(folder, data["group"]["module"]))
    assert set(row["library"]["names"]) & names(tree(folder, row["library"]["module"]))
    for latch in row["unfused"].get("names", []):
        assert latch["name"] in names(tree(folder, latch["module"]))
    for path in [path for word in ("fused", "unfused") for path in row[word].get("configuration", {})]:
        assert configured(engine, folder, path), f"no `{path}` in {engine} {version}"
    for override in [row[word]["override"] for word in ("fused", "unfused") if "override" in row[word]]:
        context = tree(folder, override["module"])
        assert override["function"] in names(context)
        assert any(override["method"] in names(node) for node in context.body if isinstance(node, ast.ClassDef))
        fields = "".join(file.read_text(encoding="utf-8") for file in (folder / "sglang/srt/arg_groups").rglob("*.py"))
        fields += (folder / "sglang/srt/server_args.py").read_text(encoding="utf-8")
        assert all(f"    {field}:" in fields for field in override["fields"])


def configured(engine: str, folder: Path, path: str) -> bool:
    last = path.split(".")[-1]
    module = {"vllm": "vllm.config.compilation", "sglang": "sglang.srt.server_args"}[engine]
    text = folder.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    return f"{last}:" in text


def test_a_release_beyond_the_horizon_is_refused() -> None:
    with pytest.raises(RuntimeRequestError, match=r"knows vllm 0\.17\.1 to 0\.33\.0, not 0\.40\.0"):
        Door("vllm", "0.40.0").at("commit")


def test_decisions_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FUSION_POLICY_DECISION", raising=False)
    assert decision_given() is None
    monkeypatch.setenv("FUSION_POLICY_DECISION", '{"state": "off", "digest": "d", "reason": "because"}')
    given = decision_given()
    assert given is not None
    assert (given.state, given.reason) == ("off", "because")
    monkeypatch.setenv("FUSION_POLICY_DECISION", str(tmp_path / "absent.json"))
    unread = decision_given()
    assert unread is not None
    assert unread.state == "off", "a rank that cannot read its decision still votes, against"


def test_after_import(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "engine_made_up.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[Any] = []
    after_import("engine_made_up", seen.append)
    assert seen == []
    import engine_made_up

    assert seen == [engine_made_up]
    assert engine_made_up.VALUE == 1
    after_import("engine_made_up", seen.append)
    assert len(seen) == 2, "at once where the module is there already"
