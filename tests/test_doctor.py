"""`policy doctor` in environments made for it: what is there, what is missing, and what to do about it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fake_engine import ROOT, FakeEngine

#: What the package imports, so that an environment without the test's own packages can run it.
NEEDED = ("yaml", "_yaml", "pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection", "packaging")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but what the package needs: no engine and no plug-in of the test's own environment."""
    folder = tmp_path_factory.mktemp("bare")
    for name in NEEDED:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        target = origin.parent if origin.name == "__init__.py" else origin
        (folder / target.name).symlink_to(target)
    return folder


@pytest.fixture
def doctor(bare: Path, tmp_path: Path) -> Any:
    def run(engine: FakeEngine | None, folder: Path = tmp_path, code: int | None = None, **variables: str) -> dict[str, tuple[str, str]]:
        """The checks: what was seen -> (ok, fix or note; what to do)."""
        paths = [str(ROOT), str(bare), *([str(engine.site)] if engine is not None else [])]
        start = f"import sys; sys.path[:0] = {paths!r}; sys.argv = ['policy', 'doctor']; from fusion_policy import main; sys.exit(main())"
        kept = {name: value for name, value in os.environ.items() if name in ("HOME", "LANG")}
        environment = {**kept, "PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(bare / "cache"), "PYTHONSAFEPATH": "1", "CUDA_HOME": "/nowhere", **variables}
        environment = {name: value for name, value in environment.items() if value}
        done = subprocess.run([sys.executable, "-S", "-c", start], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        found: dict[str, tuple[str, str]] = {}
        for line in done.stdout.splitlines():
            if line.startswith("     "):
                last = next(reversed(found))
                found[last] = (found[last][0], line.strip())
            else:
                found[line[5:].strip()] = (line[:4].strip(), "")
        assert done.returncode == (1 if any(word == "fix" for word, _ in found.values()) else 0), done.stdout
        assert code is None or done.returncode == code
        return found

    return run


def look(found: dict[str, tuple[str, str]], text: str) -> tuple[str, str]:
    """The one check that says this."""
    matches = [value for key, value in found.items() if text in key]
    assert len(matches) == 1, (text, list(found))
    return matches[0]


def test_no_engine_here(doctor: Any) -> None:
    word, remedy = look(doctor(None), "no engine that is known is installed here")
    assert word == "note"
    assert "run this where the engine is installed" in remedy


def test_all_is_well(doctor: Any, tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path / "engine")
    for name in ("nvcc", "ninja"):
        program = engine.folder / "bin" / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    engine.distribution("flashinfer-python", "0.6.12")
    engine.distribution("flashinfer-cubin", "0.6.12")
    found = doctor(engine, code=0, FUSION_POLICY_MODE="enforce", PATH=f"{engine.folder / 'bin'}:/usr/bin:/bin")
    assert look(found, "the plug-in is installed") == ("ok", "")
    assert look(found, "vLLM can load the plug-in") == ("ok", "")
    assert look(found, "FUSION_POLICY_MODE is enforce") == ("ok", "")
    assert look(found, "`policy` is") == ("ok", "")
    assert look(found, "nvcc is there") == ("ok", "")
    assert look(found, "device.interconnect is not known here")[0] == "note"


def test_the_plugin_is_missing(doctor: Any, tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path / "engine")
    (engine.site / "fusion_policy-0.1.0.dist-info" / "entry_points.txt").unlink()
    word, remedy = look(doctor(engine, code=1), "vLLM 0.24.0: the plug-in is not installed in this environment")
    assert (word, remedy) == ("fix", "python -m pip install fusion-policy, with the engine's own Python")


@pytest.mark.parametrize(("value", "remedy"), [("other", "export VLLM_PLUGINS=other,fusion_policy"), ("a, b", "export VLLM_PLUGINS=a, b,fusion_policy")])
def test_the_list_of_plugins_hides_it(doctor: Any, tmp_path: Path, value: str, remedy: str) -> None:
    engine = FakeEngine(tmp_path / "engine")
    assert look(doctor(engine, code=1, VLLM_PLUGINS=value), f"VLLM_PLUGINS={value} hides the plug-in") == ("fix", remedy)
    assert not [text for text in doctor(engine, VLLM_PLUGINS="other,fusion_policy") if "hides" in text]


def test_a_plugin_that_does_not_load(doctor: Any, tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path / "engine")
    engine.distribution("fusion-policy", "0.1.0", "[vllm.general_plugins]\nfusion_policy = fusion_policy:no_such_function\n")
    word, remedy = look(doctor(engine, code=1), "vLLM cannot load the plug-in")
    assert word == "fix"
    assert "engines log such errors and go on without it" in remedy


def test_a_module_of_the_same_name(doctor: Any, tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path / "engine")
    (tmp_path / "policy.py").write_text("raise SystemExit('the wrong module ran')\n")
    found = doctor(engine, code=1, PYTHONSAFEPATH="")
    word, remedy = look(found, "policy.py has the name of this package")
    assert word == "fix"
    assert "set PYTHONSAFEPATH=1" in remedy
    assert not [text for text in doctor(engine, PYTHONSAFEPATH="1") if "has the name of this package" in text]


@pytest.mark.parametrize(
    ("mode", "text", "word"),
    [
        ("", "FUSION_POLICY_MODE is not set: the plug-in does nothing", "note"),
        ("enforse", "FUSION_POLICY_MODE=enforse is none of advise, enforce, fail", "fix"),
    ],
)
def test_the_mode(doctor: Any, tmp_path: Path, mode: str, text: str, word: str) -> None:
    found = look(doctor(FakeEngine(tmp_path / "engine"), FUSION_POLICY_MODE=mode), text)
    assert found[0] == word
    assert "enforce" in found[1]


def test_a_release_that_was_not_read(doctor: Any, tmp_path: Path) -> None:
    word, remedy = look(doctor(FakeEngine(tmp_path / "engine", "99.0")), "vLLM 99.0 is newer than what was read")
    assert (word, remedy) == ("note", "update fusion-policy")


def test_companions_that_do_not_match(doctor: Any, tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path / "engine", "0.22.1")
    engine.distribution("flashinfer-python", "0.6.8.post1")
    engine.distribution("flashinfer-cubin", "0.6.11.post2")
    found = doctor(engine)
    assert [text for text, (word, _) in found.items() if word in ("fix", "note") and "flashinfer" in text and text.split(":")[0].count("-") >= 2]


def test_no_compiler_and_no_prebuilt_kernels(doctor: Any, tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path / "engine")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert look(doctor(engine, PATH=str(empty)), "ninja is not found")[0] == "fix"
    engine.distribution("flashinfer-jit-cache", "0.6.12")
    assert look(doctor(engine, PATH=str(empty)), "ninja is not found (kernels are prebuilt)")[0] == "note"


def test_a_release_that_loads_no_plugins(doctor: Any, tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path / "engine")
    engine.distribution("sglang", "0.5.10.post1")
    word, remedy = look(doctor(engine), "SGLang 0.5.10.post1 loads no plug-ins")
    assert word == "note"
    assert "policy exec" in remedy
    engine.distribution("sglang", "0.5.14")
    (engine.site / "sglang-0.5.10.post1.dist-info" / "METADATA").unlink()
    (engine.site / "sglang-0.5.10.post1.dist-info").rmdir()
    assert look(doctor(engine), "SGLang 0.5.14: the plug-in is installed") == ("ok", "")
