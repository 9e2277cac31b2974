"""Packages that belong together: agreement over sets of versions, vendors' builds, product names."""

from __future__ import annotations

import pytest

from policy.evaluate import evaluate
from policy.launch import Facts, Launch
from policy.load import read_pack
from policy.pack import Pack


@pytest.fixture(scope="module")
def pack() -> Pack:
    return read_pack()


@pytest.mark.parametrize(
    ("facts", "agreement"),
    [
        ({"packages.flashinfer-python": "0.6.14", "packages.flashinfer-cubin": "0.6.13"}, {"differs"}),
        ({"packages.flashinfer-python": "0.6.14", "packages.flashinfer-cubin": "0.6.14"}, {"same"}),
        ({"packages.flashinfer-python": "0.6.14+cu130", "packages.flashinfer-cubin": "0.6.14"}, {"same"}),
        ({"packages.flashinfer-python": "0.6.14", "packages.flashinfer-cubin": "absent"}, {"absent"}),
        ({"packages.flashinfer-python": ["0.6.13", "0.6.14"], "packages.flashinfer-cubin": "0.6.14"}, {"same", "differs"}),
        ({"packages.flashinfer-python": ">=0.6.14", "packages.flashinfer-cubin": "0.6.13"}, {"differs"}),
        ({"packages.flashinfer-python": "0.6.14"}, {"same", "differs", "absent"}),
        ({"packages.flashinfer-python": "0.0.0+unknown", "packages.flashinfer-cubin": "0.6.13"}, {"no_version"}),
        ({"packages.flashinfer-python": "0.0.0+unknown", "packages.flashinfer-cubin": "absent"}, {"absent"}),
        ({"engine.name": "vllm", "engine.version": "0.24.0", "packages.flashinfer-python": "0.0.0+unknown"}, {"no_version", "absent"}),
        ({"packages.flashinfer-python": "dev", "packages.flashinfer-cubin": "0.6.13"}, {"same", "differs", "no_version"}),
        ({"engine.name": "vllm", "engine.version": "0.24.0"}, {"same"}),
        ({"engine.name": "vllm", "engine.version": "0.24.0", "packages.flashinfer-python": "0.6.14"}, {"same", "differs", "absent"}),
        ({"engine.name": "vllm", "engine.version": "0.24.0", "packages.flashinfer-cubin": "0.6.11"}, {"differs"}),
    ],
)
def test_agreement_of_the_cubins(pack: Pack, facts: dict[str, object], agreement: set[str]) -> None:
    assert set(Facts(pack, Launch.of(pack, facts)).values("packages_agree.flashinfer_cubin").points() or ()) == agreement


@pytest.mark.parametrize(("version", "vendor"), [("0.6.11", False), ("0.6.11+cu130", False), ("0.6.11+nv26.05", True)])
def test_a_vendor_build_is_told_by_its_local_version(pack: Pack, version: str, vendor: bool) -> None:
    facts = Facts(pack, Launch.of(pack, {"packages.flashinfer-python": version}))
    assert facts.values("packages_agree.vendor_build").single() is vendor


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"device.name": "NVIDIA H20"}, {True}),
        ({"device.name": "NVIDIA H20-3e"}, {True}),
        ({"device.name": "NVIDIA H200"}, {False}),
        ({"device.name": "NVIDIA B200"}, {False}),
        ({"device.name": ["NVIDIA H20", "NVIDIA H100 80GB HBM3"]}, {True, False}),
        ({"device.compute_capability": "10.0"}, {False}),
        ({"device.compute_capability": "9.0"}, {True, False}),
    ],
)
def test_the_name_of_an_h20(pack: Pack, facts: dict[str, object], expected: set[bool]) -> None:
    assert set(Facts(pack, Launch.of(pack, facts)).values("device.name_says_h20").points() or ()) == expected


def test_skew_refuses_the_launch_and_an_override_does_not(pack: Pack) -> None:
    skew = {"engine.name": "vllm", "engine.version": "0.26.0", "packages.flashinfer-python": "0.6.14", "packages.flashinfer-cubin": "0.6.13"}
    refused = evaluate(pack, Launch.of(pack, skew), fusions=[]).launch
    assert refused.state == "refused"
    assert [one.id for one in refused.findings if one.effect == "refuse"] == ["flashinfer-cubin-skew"]
    bypassed = evaluate(pack, Launch.of(pack, {**skew, "engine.flashinfer_version_check": False}), fusions=[]).launch
    assert bypassed.state == "warn"
    assert "flashinfer-check-bypassed" in [one.id for one in bypassed.findings]
