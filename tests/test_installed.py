"""What is read from files of installed packages: versions, signatures, call keywords; sources overrule tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from policy.evaluate import evaluate
from policy.launchers import installed, read
from policy.launchers.found import FoundLaunch
from policy.launchers.machine import allowed_environment
from policy.load import read_pack

SIGNATURE = "def create_allreduce_fusion_workspace(backend, world_size, rank, max_token_num, comm_backend=None{group}):\n    ...\n"


def install(folder: Path, distribution: str, version: str, files: dict[str, str]) -> None:
    metadata = folder / f"{distribution}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Name: {distribution}\nVersion: {version}\n")
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    installed._versions.cache_clear()
    return tmp_path


def test_versions_without_importing(site: Path) -> None:
    install(site, "flashinfer_python", "0.6.12", {"flashinfer/__init__.py": "raise RuntimeError('imported')\n"})
    assert installed.installed_versions([str(site)])["flashinfer-python"][0] == "0.6.12"
    assert "flashinfer" not in sys.modules


def test_the_source_overrules_the_table_and_the_disagreement_is_reported(site: Path) -> None:
    install(site, "vllm", "0.23.0", {"vllm/__init__.py": ""})
    call = "def make(comm, group):\n    return comm.create_allreduce_fusion_workspace(backend='trtllm', comm_backend=1, group=group)\n"
    (site / "vllm" / "distributed" / "device_communicators").mkdir(parents=True)
    (site / "vllm" / "distributed" / "device_communicators" / "flashinfer_all_reduce.py").write_text(call)
    install(site, "flashinfer_python", "0.6.9", {"flashinfer/__init__.py": "", "flashinfer/comm/allreduce.py": SIGNATURE.format(group=", group=None")})
    found = read.read_launch(read_pack(), FoundLaunch("vllm"), None, None, True, {})
    given = found.launch.given
    assert given["engine.version"].values.single().public == "0.23.0"
    assert given["traits.engine.workspace_call"].values.single() == "group"
    assert given["traits.flashinfer.takes_group"].values.single() is True
    told = [notice.message for notice in found.notices if notice.kind == "trait-disagreement"]
    assert len(told) == 2
    assert any("workspace_call` group, but the table says comm_backend" in message for message in told)


def test_a_source_that_agrees_says_nothing(site: Path) -> None:
    install(site, "vllm", "0.24.0", {"vllm/__init__.py": ""})
    install(site, "flashinfer_python", "0.6.12", {"flashinfer/__init__.py": "", "flashinfer/comm/allreduce.py": SIGNATURE.format(group=", group=None")})
    found = read.read_launch(read_pack(), FoundLaunch("vllm"), None, None, True, {})
    assert not [notice for notice in found.notices if notice.kind == "trait-disagreement"]


def test_a_package_that_is_missing_here_is_absent_only_where_the_machine_is_probed(site: Path) -> None:
    pack = read_pack()
    probed = read.read_launch(pack, FoundLaunch("vllm"), "0.24.0", None, True, {})
    assert probed.launch.given["packages.flashinfer-jit-cache"].values.absent
    elsewhere = read.read_launch(pack, FoundLaunch("vllm"), "0.24.0", None, False, {})
    assert "packages.flashinfer-jit-cache" not in elsewhere.launch.given


def test_secrets_are_never_recorded() -> None:
    kept = allowed_environment(
        {
            "VLLM_DP_SIZE": "2",
            "VLLM_API_KEY": "x",
            "HF_TOKEN": "y",
            "NCCL_DEBUG": "INFO",
            "HOME": "/h",
            "SGLANG_AUTH_TOKEN": "z",
            "RAY_ADDRESS": "ray://user:pw@host",
        }
    )
    assert kept == {"VLLM_DP_SIZE": "2", "NCCL_DEBUG": "INFO"}


@pytest.mark.parametrize(("exempt", "check"), [("", "raises"), (' and version != "0.0.0+unknown"', "skipped")])
def test_sources_without_a_version_beside_versioned_kernels(site: Path, exempt: str, check: str) -> None:
    """FlashInfer compares such a version up to 0.6.9, and only its source says which one it is."""
    text = f"def _get(version, other):\n    if version != other{exempt}:\n        raise RuntimeError('flashinfer-cubin version does not match')\n"
    install(site, "flashinfer_python", "0.0.0+unknown", {"flashinfer/__init__.py": "", "flashinfer/jit/env.py": text})
    install(site, "flashinfer_cubin", "0.6.9", {})
    install(site, "vllm", "0.24.0", {"vllm/__init__.py": ""})
    pack = read_pack()
    launch = read.read_launch(pack, FoundLaunch("vllm"), None, None, True, {}).launch
    assert launch.given["traits.flashinfer.no_version_check"].values.single() == check
    assert (evaluate(pack, launch, fusions=[]).launch.state == "refused") is (check == "raises")


@pytest.mark.parametrize(("release", "check"), [("0.6.8.post1", "raises"), ("0.6.12", "skipped"), ("0.7.2.post1", "skipped")])
def test_published_sources_say_whether_no_version_is_compared(release: str, check: str) -> None:
    folder = Path(__file__).resolve().parents[1] / ".engines" / f"flashinfer-python-{release}"
    if not folder.is_dir():
        pytest.skip(f"not prepared: run `python tests/engines/prepare.py flashinfer-python={release}`")
    found = {fact: value for fact, value, _ in installed.flashinfer_traits([str(folder)])}
    assert found["traits.flashinfer.no_version_check"] == check
