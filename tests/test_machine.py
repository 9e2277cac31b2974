"""What is asked of a machine's GPUs, through the real binding of NVIDIA's management library and a driver that stands in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
ROOT = Path(__file__).parents[1]
ASK = "import json, os\nfrom policy.launchers.machine import gpus\nprint(json.dumps({name: value for name, value, _ in gpus(os.environ)}))"
PLAIN = {
    "device.platform": "cuda",
    "device.gpus_per_node": 2,
    "device.name": "NVIDIA H200",
    "device.compute_capability": ["9.0"],
    "device.mig": False,
    "device.p2p": True,
    "device.interconnect": "nvswitch",
    "device.fabric": False,
    "device.confidential_compute": False,
}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler makes the driver that stands in")
    folder = tmp_path_factory.mktemp("driver")
    source = Path(__file__).parent / "machine" / "driver.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(source)], check=True)
    return folder


def asked(driver: Path, **variables: str) -> dict[str, Any]:
    """The facts that a process of its own is told: a question asked in a wrong way ends it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("STAND_IN", "CUDA_VISIBLE"))}
    environment.update(variables, LD_LIBRARY_PATH=str(driver), PYTHONPATH=str(ROOT))
    done = subprocess.run([sys.executable, "-c", ASK], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr}"
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("variables", "changed"),
    [
        ({}, {}),
        ({"STAND_IN_FABRIC": "3"}, {"device.fabric": True}),
        ({"STAND_IN_FABRIC": "3", "STAND_IN_CLUSTER": "0"}, {"device.fabric": False}),
        ({"STAND_IN_FABRIC": "2"}, {"device.fabric": False}),
        ({"STAND_IN_REMOTE": "0"}, {"device.interconnect": "nvlink"}),
        ({"STAND_IN_NVLINK": "1"}, {"device.interconnect": "pcie"}),
        ({"STAND_IN_READ": "1", "STAND_IN_NVLINK": "1"}, {"device.interconnect": "pcie", "device.p2p": False}),
        ({"STAND_IN_MIG": "1"}, {"device.mig": True}),
        ({"STAND_IN_MAJOR": "10"}, {"device.compute_capability": ["10.0"]}),
        ({"STAND_IN_CONFIDENTIAL": "1"}, {"device.confidential_compute": True}),
        ({"STAND_IN_GPUS": "8", "CUDA_VISIBLE_DEVICES": "3,1,7"}, {"device.gpus_per_node": 3}),
    ],
)
def test_facts_of_the_gpus(driver: Path, variables: dict[str, str], changed: dict[str, Any]) -> None:
    assert asked(driver, **variables) == {**PLAIN, **changed}


@pytest.mark.parametrize("shown", ["0", "GPU-first", "0,-1", "0,9"])
def test_one_visible_gpu_says_nothing_of_links(driver: Path, shown: str) -> None:
    links = ("device.p2p", "device.interconnect")
    assert asked(driver, CUDA_VISIBLE_DEVICES=shown) == {name: value for name, value in {**PLAIN, "device.gpus_per_node": 1}.items() if name not in links}


@pytest.mark.parametrize("variables", [{"STAND_IN_INIT": "9"}, {"STAND_IN_GPUS": "0"}, {"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": "GPU-other"}])
def test_without_a_gpu_nothing_is_said(driver: Path, variables: dict[str, str]) -> None:
    assert asked(driver, **variables) == {}
