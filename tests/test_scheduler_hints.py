"""What a scheduler's variables say of the launch that runs here: facts where they fit one launch only, else hints."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from policy.launchers.found import FoundLaunch, Word
from policy.launchers.machine import hints, scheduled
from policy.launchers.read import read_launch
from policy.load import read_pack
from policy.origin import Origin


@pytest.mark.parametrize(
    ("variables", "counted", "facts"),
    [
        ({"LWS_GROUP_SIZE": "2"}, True, {"parallel.nodes": (2, "probe: inferred from LWS_GROUP_SIZE=2")}),
        ({"SLURM_GPUS_ON_NODE": "4"}, False, {"device.gpus_per_node": (4, "probe: inferred from SLURM_GPUS_ON_NODE=4")}),
        ({"SLURM_GPUS_ON_NODE": "4"}, True, {}),
        ({"LWS_GROUP_SIZE": "", "SLURM_GPUS_ON_NODE": "gpu:4"}, False, {}),
        ({"SLURM_NNODES": "4"}, False, {}),
    ],
)
def test_facts_of_a_scheduler(variables: Mapping[str, str], counted: bool, facts: dict[str, tuple[int, str]]) -> None:
    assert {name: (value, str(origin)) for name, value, origin in scheduled(variables, counted)} == facts


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"SLURM_NNODES": "4", "SLURM_STEP_NUM_NODES": "2"}, ["SLURM_STEP_NUM_NODES"]),
        ({"SLURM_NNODES": "1"}, []),
        ({"SLURM_NNODES": "many", "RAY_ADDRESS": "192.0.2.1:6379", "RAY_JOB_ID": "1"}, ["RAY_ADDRESS"]),
        ({"KUBERNETES_SERVICE_HOST": "192.0.2.1"}, ["KUBERNETES_SERVICE_HOST"]),
        ({}, []),
    ],
)
def test_what_fits_several_launches_is_a_hint(variables: Mapping[str, str], named: list[str]) -> None:
    assert [variable for variable, _, _ in hints(variables)] == named


def test_the_command_is_stronger_than_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LWS_GROUP_SIZE", "4")
    monkeypatch.setenv("SLURM_NNODES", "4")
    words = [Word(text, Origin("argument", argument=number)) for number, text in enumerate(["vllm", "serve", "m", "--nnodes", "2"], 1)]
    read = read_launch(read_pack(), FoundLaunch("vllm", tuple(words)), "0.22.1", None, True, {})
    assert str(read.launch.given["parallel.nodes"].origin) == "`--nnodes 2` argument 4"
    assert not [notice for notice in read.notices if notice.kind == "surroundings"]
    monkeypatch.delenv("LWS_GROUP_SIZE")
    alone = read_launch(read_pack(), FoundLaunch("vllm", tuple(words[:3])), "0.22.1", None, True, {})
    assert [(notice.kind, str(notice.origin)) for notice in alone.notices] == [("surroundings", "environment: SLURM_NNODES")]
