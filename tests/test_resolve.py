"""What is written back: commands, files and manifests, read again by what reads them."""

from __future__ import annotations

import copy
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy.launchers.containers import find_launches
from policy.launchers.json_text import edited_json
from policy.launchers.patching import Wanted, patched
from policy.launchers.patching.manifests import json_patch, manifest_patches
from policy.launchers.rewrite import changes_of, read_words, rewritten
from policy.load import read_pack
from policy.values import Ordered
from tests import score_round_trip
from tests.score_round_trip import SAMPLE, Score, forced, recorded, score_commands, score_files, score_recorded, unlike, wrong_file
from tests.shared import shared_path

ROOT = Path(__file__).resolve().parents[1]
HANG = [
    "--set",
    "engine.version=0.22.1",
    "--set",
    "parallel.tensor_parallel_size=2",
    "--set",
    "parallel.pipeline_parallel_size=2",
    "--set",
    "parallel.nodes=1",
    "--device",
    "h200-sxm8",
]
OFF = ("flag", "-cc.pass_config.fuse_allreduce_rms=false")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def policy(cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": cache}
        done = subprocess.run([sys.executable, "-m", "fusion_policy", *words], capture_output=True, text=True, env=environment, timeout=120, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


# --- commands ---

#: (words, the change, the words after it): the user's own form and spelling, and only one.
FORMS = [
    ("vllm serve m", OFF, "vllm serve m -cc.pass_config.fuse_allreduce_rms=false"),
    ("vllm serve m -cc.pass_config.fuse_allreduce_rms=true -tp 2", OFF, "vllm serve m -cc.pass_config.fuse_allreduce_rms=false -tp 2"),
    ("vllm serve m --compilation_config.pass_config.fuse_allreduce_rms True", OFF, "vllm serve m --compilation_config.pass_config.fuse_allreduce_rms false"),
    ("vllm serve m --compilation-config.mode=3 -tp 2", OFF, "vllm serve m --compilation-config.mode=3 --compilation-config.pass_config.fuse_allreduce_rms=false -tp 2"),
    ("""vllm serve m --compilation-config '{"mode":3,"custom_ops":["all"]}'""", OFF, """vllm serve m --compilation-config '{"mode":3,"custom_ops":["all"],"pass_config":{"fuse_allreduce_rms":false}}'"""),
    ("""vllm serve m -cc='{ "pass_config": {"fuse_allreduce_rms": true, "eliminate_noops": true} }'""", OFF, """vllm serve m '-cc={ "pass_config": {"fuse_allreduce_rms": false, "eliminate_noops": true} }'"""),
    ("""vllm serve m --compilation_conf '{"mode": 3}'""", OFF, """vllm serve m --compilation_conf '{"mode": 3, "pass_config": {"fuse_allreduce_rms": false}}'"""),
    ("""vllm serve m -cc '{"mode": 3}' -tp 2 -cc.pass_config.fuse_norm_quant=true""", OFF, """vllm serve m -tp 2 -cc='{"pass_config": {"fuse_norm_quant": true, "fuse_allreduce_rms": false}}'"""),
    ("vllm serve m -O1", OFF, "vllm serve m -O1 -cc.pass_config.fuse_allreduce_rms=false"),
    ("python -m sglang.launch_server --model-path m --flashinfer-allreduce-fusion-backend auto", ("flag", "--flashinfer-allreduce-fusion-backend trtllm"), "python -m sglang.launch_server --model-path m --flashinfer-allreduce-fusion-backend trtllm"),
    ("python -m sglang.launch_server --flashinfer-allreduce-fusion-backend=auto --model-path m", ("flag", "--flashinfer-allreduce-fusion-backend trtllm"), "python -m sglang.launch_server --flashinfer-allreduce-fusion-backend=trtllm --model-path m"),
    ("python -m sglang.launch_server --model-path m", ("flag", "--enforce-disable-flashinfer-allreduce-fusion"), "python -m sglang.launch_server --model-path m --enforce-disable-flashinfer-allreduce-fusion"),
    ("vllm serve m --no-disable-custom-all-reduce -tp 2", ("flag", "--disable-custom-all-reduce"), "vllm serve m --disable-custom-all-reduce -tp 2"),
    ("vllm serve m --all2all-backend=flashinfer_nvlink_one_sided -tp 2", ("flag", "--all2all-backend allgather_reducescatter"), "vllm serve m --all2all-backend=allgather_reducescatter -tp 2"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "switch", "expected"), FORMS, ids=[str(number) for number in range(len(FORMS))])
def test_the_users_form_is_kept(given: str, switch: tuple[str, str], expected: str) -> None:
    engine, version = ("sglang", "0.5.14") if "sglang" in given else ("vllm", "0.22.1")
    changes = changes_of(engine, version, [switch])
    result = rewritten(engine, version, shlex.split(given), changes)
    assert result.problem == ""
    assert result.words == shlex.split(expected)
    assert unlike(engine, version, shlex.split(given), result.words, {}, changes) == ""


@pytest.mark.parametrize(("engine", "start"), [("vllm", "vllm serve m"), ("sglang", "python -m sglang.launch_server --model-path m")])
def test_every_shipped_switch_can_be_written(engine: str, start: str) -> None:
    """In every release that the pack says has it; variables are read again as what states the fact or the request."""
    product = read_pack().products[engine]
    written = 0
    for switch in product.switches:
        if switch.kind == "none" or switch.turn == "carry":
            continue
        for release in product.releases:
            if not switch.covers(Ordered.exactly(release)):
                continue
            changes = changes_of(engine, str(release), [(switch.kind, switch.text)])
            result = rewritten(engine, str(release), shlex.split(start), changes)
            assert changes, (str(release), switch.text)
            assert result.problem == "", (str(release), switch.text)
            written += 1
    assert written > 100


def test_an_older_name_of_a_key_is_kept() -> None:
    words = ["vllm", "serve", "m", "-cc.pass_config.enable_fi_allreduce_fusion=true"]
    result = rewritten("vllm", "0.12.0", words, changes_of("vllm", "0.12.0", [OFF]))
    assert result.words == ["vllm", "serve", "m", "-cc.pass_config.enable_fi_allreduce_fusion=false"]


def test_what_cannot_be_written_is_said_with_the_words_to_add() -> None:
    for words, told in (
        (["vllm", "serve", "m", "-cc", '{"level": 3}'], "the engine refuses the command as it stands"),
        (["vllm", "serve", "m", "--compilation-config", "$CONFIG"], "the engine refuses the command as it stands"),
        (["vllm", "bench", "m"], "`vllm bench m` is no command of vllm that can be written; add `-cc.pass_config.fuse_allreduce_rms=false` by hand"),
    ):
        result = rewritten("vllm", "0.22.1", words, changes_of("vllm", "0.22.1", [OFF]))
        assert told in result.problem
        assert result.words == words


def test_a_file_named_by_the_command_is_not_lost() -> None:
    files = {"c.yaml": "compilation-config:\n  pass_config:\n    fuse_norm_quant: true\n"}
    words = ["vllm", "serve", "m", "--config", "c.yaml"]
    changes = changes_of("vllm", "0.22.1", [OFF])
    result = rewritten("vllm", "0.22.1", words, changes, files)
    value = read_words("vllm", "0.22.1", result.words, files).values["compilation_config"].value
    assert value == {"pass_config": {"fuse_norm_quant": True, "fuse_allreduce_rms": False}}


def test_the_printed_command_decides_the_same(policy: Any) -> None:
    done = policy("resolve", *HANG, "--", "VLLM_LOGGING_LEVEL=DEBUG", "vllm", "serve", "some model", "-cc", '{"mode": 3}')
    assert done.returncode == 0, done.stderr
    assert done.stdout == """VLLM_LOGGING_LEVEL=DEBUG vllm serve 'some model' -cc '{"mode": 3, "pass_config": {"fuse_allreduce_rms": false}}'\n"""
    assert "allreduce_rms is off because of rendezvous-over-world" in done.stderr
    again = policy("resolve", *HANG, "--", *shlex.split(done.stdout))
    assert (again.returncode, again.stdout) == (0, done.stdout)


#: Launches of vLLM 0.23.0 and 0.24.0 whose quantised patterns alone compute wrong numbers.
GUARDED = ["--set", "packages.flashinfer-python=0.6.15", "--set", "model.quantization=fp8", "--set", "model.dtype=bfloat16", "--set", "parallel.nodes=1"]
FLOAT32 = [*GUARDED, "--set", "model.norm_weight_dtype=float32", "--device", "h200-sxm8"]


def test_a_way_out_is_not_taken_back_by_what_shares_its_setting(policy: Any) -> None:
    """One setting decides the plain and the quantised patterns: where the latter are wrong, both are off."""
    off = "-cc.pass_config.fuse_allreduce_rms=false"
    fusions = ["allreduce_rms", "allreduce_rms_quant"]
    by_itself = policy("resolve", *fusions, *FLOAT32, "--set", "engine.version=0.24.0", "--", "vllm", "serve", "m", "-tp", "2")
    assert by_itself.stdout == f"vllm serve m -tp 2 {off}\n"
    fast = policy("resolve", *fusions, "--posture", "fast", *FLOAT32, "--set", "engine.version=0.23.0", "--", "vllm", "serve", "m", "-tp", "2", "-pp", "2")
    assert (fast.returncode, fast.stdout) == (0, f"vllm serve m -tp 2 -pp 2 {off}\n")
    assert "allreduce_rms is left as it is: one setting decides it and allreduce_rms_quant, which has to be off" in fast.stderr
    assert "allreduce_rms is on" not in fast.stderr


#: (release, fact, fusion, command, what is printed): the words for fusions that are no pass.
WAYS_OUT = [
    ("0.33.0", "device.p2p=false", "moe_all_to_all", "vllm serve m -tp 4 --all2all-backend flashinfer_nvlink_one_sided", "vllm serve m -tp 4 --all2all-backend allgather_reducescatter"),
    ("0.33.0", "device.p2p=false", "nccl_symm_mem", "VLLM_USE_NCCL_SYMM_MEM=1 vllm serve m -tp 4", "VLLM_USE_NCCL_SYMM_MEM=0 vllm serve m -tp 4"),
    ("0.33.0", "device.p2p=false", "custom_allreduce", "vllm serve m -tp 4", "vllm serve m -tp 4 --disable-custom-all-reduce"),
    ("0.5.23", "device.p2p=false", "custom_allreduce", "python -m sglang.launch_server --model-path m --tp 4", "python -m sglang.launch_server --model-path m --tp 4 --disable-custom-all-reduce"),
]  # fmt: skip


@pytest.mark.parametrize(("release", "fact", "fusion", "given", "expected"), WAYS_OUT)
def test_the_way_out_is_written(policy: Any, release: str, fact: str, fusion: str, given: str, expected: str) -> None:
    done = policy("resolve", fusion, "--device", "h200-sxm8", "--set", fact, "--set", f"engine.version={release}", "--", *shlex.split(given))
    assert done.stdout == f"{expected}\n", done.stderr


def test_variables_where_a_release_needs_them(policy: Any) -> None:
    words = ["--set", "engine.version=0.26.0", "--set", "packages.flashinfer-python=0.6.14", "--device", "h200-sxm8", "--", "vllm", "serve", "m", "-tp", "8"]
    done = policy("resolve", "allreduce_rms", *words)
    assert done.stdout == "VLLM_FLASHINFER_ALLREDUCE_BACKEND=trtllm vllm serve m -tp 8\n"
    assert policy("resolve", "allreduce_rms", *words[:-6], "--", *shlex.split(done.stdout)).stdout == done.stdout


def test_modes_and_exit_codes(policy: Any) -> None:
    command = ["--", "vllm", "serve", "m"]
    assert policy("resolve", *HANG, "--mode", "fail", *command).returncode == 1
    safe = ["--set", "engine.version=0.24.0", "--device", "h200-sxm8", "--", "vllm", "serve", "m", "-tp", "2"]
    done = policy("resolve", "allreduce_rms", "--mode", "fail", *safe)
    assert (done.returncode, done.stdout) == (0, "FUSION_POLICY_MODE=fail vllm serve m -tp 2\n")
    on_ray = policy("resolve", "allreduce_rms", "--mode", "enforce", "--set", "engine.executor=ray", *safe)
    assert on_ray.stdout == "FUSION_POLICY_MODE=enforce VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY=FUSION_POLICY_ vllm serve m -tp 2\n"
    carried = policy(
        "resolve", "allreduce_rms", "--mode", "enforce", "--set", "engine.executor=ray", *safe[:5], "VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY=MY_", *safe[5:]
    )
    assert "VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY=MY_,FUSION_POLICY_" in carried.stdout
    data = json.loads(policy("resolve", *HANG, "--format", "json", *command).stdout)
    assert data["changes"] == [{"fusion": "allreduce_rms", "setting": "compilation_config.pass_config.fuse_allreduce_rms", "value": False, "kind": "flag"}]
    assert data["command"][-1] == "-cc.pass_config.fuse_allreduce_rms=false"
    refused = policy("resolve", *HANG, "--", "vllm", "serve", "m", "-cc", '{"level": 3}')
    assert refused.returncode == 2
    assert "the engine refuses the command as it stands" in refused.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["resolve"], "there is no launch to resolve"),
        (["resolve", "--write", "--", "vllm", "serve", "m"], "a command is printed, not patched"),
        (["resolve", "--format", "diff", "--", "vllm", "serve", "m"], "a command is printed, not patched"),
        (["resolve", "a.yaml", "b.yaml"], "resolve takes one file"),
        (["resolve", "a.yaml", "--write", "--format", "kustomize"], "`--write` changes a file in place"),
        (["resolve", "-", "--write"], "`--write` changes a file in place"),
    ],
)
def test_bad_usage(policy: Any, tmp_path: Path, words: list[str], told: str) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("tensor-parallel-size: 2\n")
    done = policy(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


ADAPTER = "FUSION_POLICY_MODE=enforce FUSION_POLICY_BUILDER=adapter "
STAGES = ["--set", "packages.flashinfer-python=0.6.12", "--device", "h200-sxm8", "--set"]


def test_posture_fast_turns_on_what_is_able(policy: Any) -> None:
    words = [*STAGES, "engine.version=0.20.2", "--set", "runtime.builder=adapter", "--", "vllm", "serve", "m", "-tp", "2", "-pp", "2"]
    assert policy("resolve", "allreduce_rms", *words).stdout == f"{ADAPTER}vllm serve m -tp 2 -pp 2\n"
    assert (
        policy("resolve", "allreduce_rms", "--posture", "fast", *words).stdout == f"{ADAPTER}vllm serve m -tp 2 -pp 2 -cc.pass_config.fuse_allreduce_rms=true\n"
    )


@pytest.mark.parametrize(
    ("variables", "state"),
    [("", "off"), (ADAPTER, "on"), ("FUSION_POLICY_BUILDER=adapter ", "on"), ("FUSION_POLICY_MODE=advise FUSION_POLICY_BUILDER=adapter ", "off")],
)
def test_who_builds_is_read_from_the_variables(policy: Any, variables: str, state: str) -> None:
    """The plug-in that only advises leaves the engine to build, over WORLD in this release."""
    words = f"{variables}vllm serve m -tp 2 -pp 2".split()
    assert policy("explain", "-q", "allreduce_rms", *STAGES, "engine.version=0.22.1", "--", *words).stdout.endswith(f"\tallreduce_rms={state}\n")
    if state == "on":
        printed = policy("resolve", "allreduce_rms", *STAGES, "engine.version=0.22.1", "--", *words).stdout
        assert sorted(printed.split()) == sorted(f"{ADAPTER}vllm serve m -tp 2 -pp 2".split())


# --- JSON as it was written ---


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ('{"a":1,"b":[1, 2]}', {"a": 1, "b": [1, 2], "c": True}, '{"a":1,"b":[1, 2],"c":true}'),
        ('{ "a": {"b": true}, "c": "x" }', {"a": {"b": False, "d": {"e": 1}}, "c": "x"}, '{ "a": {"b": false, "d": {"e": 1}}, "c": "x" }'),
        ("{}", {"a": 1}, '{"a": 1}'),
        ('{"a": 1}', {"a": True}, '{"a": true}'),
        ('{\n  "a": 1\n}', {"a": 1, "b": 2}, '{\n  "a": 1, "b": 2\n}'),
    ],
)
def test_json_keeps_its_layout(text: str, value: dict[str, Any], expected: str) -> None:
    assert edited_json(text, value) == expected
    assert json.loads(edited_json(text, value)) == value


@pytest.mark.parametrize(("text", "value"), [("[1]", {"a": 1}), ('{"a": 1', {"a": 1}), ('{"a": 1}', {"b": 1}), ("", {"a": 1}), ('{"a" 1}', {"a": 1})])
def test_json_that_cannot_be_edited_is_refused(text: str, value: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".*"):
        edited_json(text, value)


# --- the corpus ---


def test_recorded_command_lines() -> None:
    rows = list(recorded())
    if not rows:
        pytest.skip("the recorded command lines (1311 changes) are not there; the forms above ran")
    score = Score()
    score_recorded(score, rows[::4])  # `python tests/score_round_trip.py` takes every row
    assert score.failures == []
    assert score.counts["recorded: right"] > 250


@pytest.mark.parametrize("name", ["sample", "corpus"])
def test_commands_of_files_decide_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = SAMPLE if name == "sample" else shared_path("corpus")
    if folder is None:
        pytest.skip("the corpus (158 files) is not there; the sample ran")
    score = Score()
    score_commands(
        score, read_pack(), folder, list(score_round_trip.ASSUMPTIONS) if name == "sample" else ["vLLM: a hang", "SGLang: a hang"], 1 if name == "sample" else 3
    )
    assert [text for text in score.failures if "the engine refuses the command as it stands" not in text] == []
    assert score.counts["commands: wrong"] == 0
    assert sum(count for kind, count in score.counts.items() if kind.endswith(": right")) >= (40 if name == "sample" else 60)


@pytest.mark.parametrize("name", ["sample", "corpus"])
def test_files_are_patched_and_read_again(name: str) -> None:
    folder = SAMPLE if name == "sample" else shared_path("corpus")
    if folder is None:
        pytest.skip("the corpus (158 files) is not there; the sample ran")
    score = Score()
    score_files(score, folder, 1 if name == "sample" else 3)  # `python tests/score_round_trip.py` takes every file
    assert [text for text in score.failures if "wrong" in text.split(": ")[0]] == []
    written = {what: score.counts[f"files, {what}: written"] for what in ("flags", "variables")}
    assert written["flags"] >= (15 if name == "sample" else 38)
    assert written["variables"] >= (10 if name == "sample" else 38)


# --- files by hand ---

FILES = {
    "shell": ("run.sh", "#!/bin/bash\n# keep me\nvllm serve m \\\n  -tp 2 \\\n  -pp 2  # and me\n", "#!/bin/bash\n# keep me\nvllm serve m \\\n  -tp 2 \\\n  -pp 2 -cc.pass_config.fuse_allreduce_rms=false  # and me\n"),
    "list": ("pod.yaml", 'apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    image: vllm/vllm-openai:v0.22.1\n    args:\n    - "--model"\n    - "m"  # a model\n', 'apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    image: vllm/vllm-openai:v0.22.1\n    args:\n    - "--model"\n    - "m"  # a model\n    - "-cc.pass_config.fuse_allreduce_rms=false"\n'),
    "flow": ("pod.yaml", 'apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - {name: a, image: "vllm/vllm-openai:v0.22.1", args: ["--model", "m"]}\n', 'apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - {name: a, image: "vllm/vllm-openai:v0.22.1", args: ["--model", "m", "-cc.pass_config.fuse_allreduce_rms=false"]}\n'),
    "configuration": ("c.yaml", "# sizes\ntensor-parallel-size: 2\ncompilation-config:\n  mode: 3  # compile\n", "# sizes\ntensor-parallel-size: 2\ncompilation-config:\n  mode: 3  # compile\n  pass_config:\n    fuse_allreduce_rms: false\n"),
    "json in yaml": ("c.yaml", "tensor-parallel-size: 2\ncompilation-config: '{\"mode\":3}'\n# end\n", "tensor-parallel-size: 2\ncompilation-config: '{\"mode\":3,\"pass_config\":{\"fuse_allreduce_rms\":false}}'\n# end\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_file_changes_in_one_place(name: str, ending: str) -> None:
    file, text, expected = FILES[name]
    wanted = [Wanted("vllm", "0.22.1", tuple(changes_of("vllm", "0.22.1", [OFF])))]
    made, problems = patched(text.replace("\n", ending), file, wanted)
    assert problems == {}
    assert made == expected.replace("\n", ending)
    assert patched(made, file, wanted) == (made, {})


def test_write_and_diff(policy: Any, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    text = FILES["list"][1].replace('- "m"  # a model', '- "m"  # a model\n    - --tensor-parallel-size=2\n    - --pipeline-parallel-size=2')
    file.write_text(text)
    diff = policy("resolve", "pod.yaml", "--device", "h200-sxm8", "--set", "parallel.nodes=1")
    assert diff.returncode == 0, diff.stderr
    assert file.read_text() == text
    added = [line for line in diff.stdout.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert added == ["+    - -cc.pass_config.fuse_allreduce_rms=false"]
    written = policy("resolve", "pod.yaml", "--device", "h200-sxm8", "--set", "parallel.nodes=1", "--write")
    assert (written.returncode, written.stdout) == (0, "")
    applied = subprocess.run(["patch", "-p1", "--dry-run", "-R"], input=diff.stdout, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert applied.returncode == 0, applied.stdout
    again = policy("resolve", "pod.yaml", "--device", "h200-sxm8", "--set", "parallel.nodes=1")
    assert (again.returncode, again.stdout) == (0, "")


def test_a_log_is_not_patched_and_the_command_is_shown(policy: Any, tmp_path: Path) -> None:
    log = next(SAMPLE.glob("log/*vllm*"))
    (tmp_path / "engine.log").write_text(log.read_text())
    done = policy("resolve", "engine.log", *HANG)
    assert done.returncode == 2
    assert "a log tells of a launch and starts none; the command should be:" in done.stderr
    assert "-cc.pass_config.fuse_allreduce_rms=false" in done.stderr


# --- manifests ---

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: server, namespace: prod}
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.22.1
        args: [--model, m, --tensor-parallel-size, "2", --pipeline-parallel-size, "2"]
        env:
        - {name: A, value: "1"}
---
apiVersion: v1
kind: Service
metadata: {name: server}
"""


def apply(document: Any, operations: list[dict[str, Any]]) -> Any:
    """RFC 6902 add, remove and replace."""
    document = copy.deepcopy(document)
    for operation in operations:
        *folders, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        inside = document
        for folder in folders:
            inside = inside[int(folder) if isinstance(inside, list) else folder]
        key: Any = int(last) if isinstance(inside, list) else last
        if operation["op"] == "remove":
            del inside[key]
        elif operation["op"] == "add" and isinstance(inside, list):
            inside.insert(key, operation["value"])
        else:
            inside[key] = operation["value"]
    return document


def test_manifest_patches(policy: Any, tmp_path: Path) -> None:
    file = tmp_path / "deploy.yaml"
    file.write_text(MANIFEST)
    words = ["resolve", "deploy.yaml", "--mode", "enforce", "--device", "h200-sxm8", "--set", "parallel.nodes=1"]
    operations = json.loads(policy(*words, "--format", "json-patch").stdout)
    kustomize = yaml.safe_load(policy(*words, "--format", "kustomize").stdout)
    assert kustomize["patches"][0]["target"] == {"group": "apps", "version": "v1", "kind": "Deployment", "name": "server", "namespace": "prod"}
    assert yaml.safe_load(kustomize["patches"][0]["patch"]) == operations
    before = next(yaml.safe_load_all(MANIFEST))
    assert policy(*words, "--write").returncode == 0
    after = next(yaml.safe_load_all(file.read_text()))
    assert apply(before, operations) == after
    container = after["spec"]["template"]["spec"]["containers"][0]
    assert container["args"][-1] == "-cc.pass_config.fuse_allreduce_rms=false"
    assert container["env"] == [{"name": "A", "value": "1"}, {"name": "FUSION_POLICY_MODE", "value": "enforce"}]


def test_every_manifest_of_the_sample_as_a_patch() -> None:
    patches = 0
    for file in sorted(SAMPLE.glob("*/*.yaml")):
        text = file.read_text()
        wanted = [forced(launch, "flags") for launch in find_launches(text, file.name).launches]
        made, _ = patched(text, file.name, wanted)
        try:
            documents = [list(yaml.safe_load_all(one)) for one in (text, made)]
        except yaml.YAMLError:
            continue
        for before, after in zip(*documents, strict=True):
            assert apply(before, json_patch(before, after)) == after
        patches += len(manifest_patches(text, made, lambda text: list(yaml.safe_load_all(text))))
    assert patches >= 10


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([1, 2, 3], [1, 3]),
        ([1, 2], [1, 5, 2, 7]),
        ([{"a": 1}, {"b": 2}], [{"a": 2}, {"b": 2}, {"c": 3}]),
        ({"a/b": 1, "c~d": [1]}, {"a/b": 2, "c~d": [1, 2]}),
        ([], [1, 2]),
        ([1, 2, 3, 4], [4, 3, 2, 1]),
        ({"a": 1}, {"a": [1]}),
    ],
)
def test_json_patch(old: Any, new: Any) -> None:
    assert apply({"x": old}, json_patch({"x": old}, {"x": new})) == {"x": new}


def test_a_wrong_patch_would_be_seen() -> None:
    """The comparison that the scores rest on tells the usual mistakes."""
    file, text, right = FILES["list"]
    wanted = [Wanted("vllm", "0.22.1", tuple(changes_of("vllm", "0.22.1", [OFF])))]
    assert wrong_file(text, right, file, wanted) == ""
    assert "other settings" in wrong_file(text, text, file, wanted)
    assert "other settings" in wrong_file(text, right.replace('"m"', '"n"'), file, wanted)
    assert wrong_file(text, right.replace("v0.22.1", "v0.24.0"), file, wanted) == "another image"
    commented = "# keep me\n" + text
    assert "a comment is gone" in wrong_file(commented, right, file, wanted)
    changes = list(wanted[0].flags)
    before = ["vllm", "serve", "m", "-cc", '{"mode": 3}']
    assert "changed" in unlike("vllm", "0.22.1", before, ["vllm", "serve", "m", "-cc.pass_config.fuse_allreduce_rms=false"], {}, changes)
    assert "more than one form" in unlike(
        "vllm", "0.22.1", before, [*before, "--compilation-config", '{"mode": 3, "pass_config": {"fuse_allreduce_rms": false}}'], {}, changes
    )
