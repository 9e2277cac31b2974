"""The pack is found from a wheel, an editable install and a bare checkout, and a foreign `policy` is named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXPLAIN = [
    "explain",
    "allreduce_rms",
    "-q",
    "--set",
    "engine.name=vllm",
    "--set",
    "engine.version=0.24.0",
    "--device",
    "h200-sxm8",
    "--set",
    "parallel.tensor_parallel_size=4",
]


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    """A pack that is not compiled takes pydantic and YAML to read; an engine's image may lack one."""
    for name, distribution in (("pydantic", "pydantic"), ("yaml", "pyyaml")):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('No module named {name}', name='{name}')\n")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT))),
            "FUSION_POLICY_NO_SHIPPED_PACK": "1",
            "XDG_CACHE_HOME": str(tmp_path),
        }
        done = subprocess.run([sys.executable, "-m", "policy", "explain", "-q"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"policy: the package {distribution}, which this needs, is not installed\n  help: python -m pip install {distribution}\n"
        (tmp_path / f"{name}.py").unlink()


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(
        ROOT,
        source,
        ignore=shutil.ignore_patterns(
            ".git", ".venv*", ".engines", ".fi", "__pycache__", ".mypy_cache", ".ruff_cache", ".hypothesis", ".pytest_cache", "bench"
        ),
    )
    built = run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(source)], folder)
    assert built.returncode == 0, built.stderr
    return next(folder.glob("*.whl"))


def test_wheel_holds_the_pack_and_nothing_foreign(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "policy/rules/pack.yaml" in names
    assert "fusion_policy.py" in names
    assert "policy/compiled_pack.json" in names
    top = {name.split("/")[0] for name in names if "dist-info" not in name}
    assert top == {"policy", "fusion_policy.py"}


def test_from_a_wheel(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(target)
    done = run([sys.executable, "-m", "fusion_policy", *EXPLAIN], tmp_path, PYTHONPATH=str(target))
    assert done.returncode == 0, done.stderr
    assert "allreduce_rms=on" in done.stdout
    assert str(target / "policy" / "rules") in done.stdout or "site/policy/rules" in done.stdout


def test_from_an_editable_install(tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, system_site_packages=True, with_pip=False)
    python = environment / "bin" / "python"
    installed = run([sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "-e", str(ROOT)], tmp_path)
    if installed.returncode != 0 and "no such option" in installed.stderr:
        pytest.skip("this pip cannot install into another environment")
    assert installed.returncode == 0, installed.stderr
    # the packages of this interpreter serve as the dependencies
    paths = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    done = run([str(environment / "bin" / "policy"), *EXPLAIN], tmp_path, PYTHONPATH=paths)
    assert done.returncode == 0, done.stderr
    assert "allreduce_rms=on" in done.stdout


def test_from_a_bare_checkout(tmp_path: Path) -> None:
    done = run([sys.executable, "-m", "policy", *EXPLAIN], ROOT, XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "allreduce_rms=on" in done.stdout


@pytest.mark.parametrize("words", [["-c", "import fusion_policy"], ["-m", "fusion_policy", "explain"]])
def test_a_foreign_policy_is_named_with_the_remedy(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "policy.py").write_text("raise SystemExit('the wrong module ran')\n")
    done = run([sys.executable, *words], tmp_path, PYTHONPATH=str(ROOT))
    assert done.returncode != 0
    assert str(tmp_path / "policy.py") in done.stderr
    assert "rename that file" in done.stderr
    assert "the wrong module ran" not in done.stderr + done.stdout


def test_a_foreign_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "__init__.py").write_text("")
    done = run([sys.executable, "-c", "import fusion_policy"], tmp_path, PYTHONPATH=str(ROOT))
    assert done.returncode != 0
    assert str(tmp_path / "policy" / "__init__.py") in done.stderr
