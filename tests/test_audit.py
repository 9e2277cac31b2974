"""`policy audit`: many launches at once, for people and for other programs; and workarounds that outlived their reason."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from policy.evaluate import evaluate
from policy.findings import KINDS, Reported, as_github, as_junit, as_sarif, of_launch
from policy.launch import Launch
from policy.launchers.inputs import Request, launches
from policy.load import read_pack
from policy.stale import stale_workaround
from tests.score_round_trip import SAMPLE
from tests.shared import shared_path

ROOT = Path(__file__).resolve().parents[1]
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: server}
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.22.1
        args:
        - --model
        - acme/dense
        - --tensor-parallel-size=2
        - --pipeline-parallel-size=2
"""
H200 = ["--no-probe", "--device", "h200-sxm8", "--set", "parallel.nodes=1"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def audit(cache: str, tmp_path: Path) -> Any:
    def run(*words: str, command: str = "audit", folder: Path = tmp_path, given: str = "") -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": cache}
        full = [sys.executable, "-m", "fusion_policy", command, *words]
        done = subprocess.run(full, capture_output=True, text=True, cwd=folder, env=environment, input=given, timeout=120, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    folder = tmp_path / "fleet"
    (folder / "inner").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / "bad.yaml").write_text(DEPLOYMENT)
    (folder / "inner" / "good.yaml").write_text(DEPLOYMENT.replace("v0.22.1", "v0.24.0"))
    (folder / "inner" / "run.sh").write_text("#!/bin/sh\nvllm serve acme/dense -tp 2\n")
    (folder / "notes.yaml").write_text("title: nothing to see\n")
    (folder / "broken.yaml").write_bytes(b"\xff\xfe\x00")
    (folder / ".hidden" / "bad.yaml").write_text(DEPLOYMENT)
    return folder


def test_a_folder(audit: Any, fleet: Path) -> None:
    done = audit("fleet", *H200)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("fleet/bad.yaml:11: hazard: allreduce_rms is on and hangs because of ")
    assert "rendezvous-over-world" in lines[0] or "early-completion" in lines[0]
    assert not [line for line in lines if "undetermined:" in line], "what is not known is summed up"
    assert re.match(r"3 launches: 1 hazard.*\d+ undetermined", lines[-2])
    assert lines[-1].startswith("undetermined for want of ")
    assert done.stderr == "2 files hold no launch that is known (-v lists them)\n"
    wordy = audit("fleet", *H200, "-v")
    assert "fleet/inner/run.sh:2: undetermined: " in wordy.stdout
    assert "fleet/notes.yaml:1:1: no engine is started in it" in wordy.stderr
    assert "fleet/broken.yaml" in wordy.stderr


def test_images_and_units_of_a_folder_are_launches_and_its_pages_are_not(audit: Any, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text('FROM base\nENTRYPOINT ["vllm", "serve", "acme/one"]\n')
    (tmp_path / "Dockerfile.two").write_text('FROM base\nENTRYPOINT ["vllm", "serve", "acme/two"]\n')
    (tmp_path / "three.service").write_text("[Service]\nExecStart=/usr/bin/vllm serve acme/three\n")
    (tmp_path / "page.md").write_text("# Page\n\n```bash\nvllm serve acme/four\n```\n")
    assert "3 launches" in audit("--no-probe", ".").stdout
    assert "1 launch" in audit("--no-probe", "page.md").stdout


def test_what_fails(audit: Any, fleet: Path) -> None:
    assert audit("fleet/inner", *H200).returncode == 0
    assert audit("fleet", *H200, "--fail-on", "lost-setting,refused").returncode == 0
    undetermined = audit("fleet/inner", *H200, "--fail-on", "undetermined")
    assert undetermined.returncode == 1
    assert "undetermined: " in undetermined.stdout


def test_files_that_are_named_and_cannot_be_read(audit: Any, fleet: Path) -> None:
    alone = audit("fleet/notes.yaml")
    assert (alone.returncode, alone.stdout) == (2, "")
    both = audit("fleet/notes.yaml", "fleet/inner/good.yaml", *H200)
    assert both.returncode == 0
    assert "fleet/notes.yaml:1:1: no engine is started in it" in both.stderr
    assert audit("fleet/nothing.yaml").returncode == 2
    done = audit("fleet/bad.yaml", "--", "vllm", "serve", "m")
    assert (done.returncode, done.stdout) == (2, "")
    assert "audit takes files, or one command after `--`" in done.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--set", "engine.versoin=1"], "no fact is named `engine.versoin`"),
        (["--device", "h20"], "no device is named `h20`"),
        (["--facts", "nothing.yaml"], "nothing.yaml:1:1: cannot be read"),
        (["--require", "norm"], "`norm` is no fusion"),
        (["nothing.yaml"], "there is no file `nothing.yaml`"),
    ],
)
def test_a_wrong_option_is_no_folder_without_launches(audit: Any, fleet: Path, options: list[str], told: str) -> None:
    done = audit("fleet", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_launches_that_cannot_be_as_stated_are_told(audit: Any, fleet: Path) -> None:
    done = audit("fleet", *H200, "--set", "parallel.tensor_parallel_groups=7")
    assert done.returncode == 2
    assert "fleet/bad.yaml: `parallel.tensor_parallel_groups` is given as 7, but" in done.stderr


def test_facts_of_the_standard_input_hold_for_every_file(audit: Any, fleet: Path) -> None:
    done = audit("fleet", *H200, "--facts", "-", "--format", "json", given="engine.version: 0.22.1\n")
    stated = audit("fleet", *H200, "--set", "engine.version=0.22.1", "--format", "json")
    assert done.stdout == stated.stdout != audit("fleet", *H200, "--format", "json").stdout


def test_a_required_fusion(audit: Any) -> None:
    def code(version: str, *words: str) -> int:
        known = ["--set", f"engine.version={version}"] if version else []
        return int(audit(*H200, *known, "--require", "allreduce_rms", "--", "vllm", "serve", "m", "-tp", "2", *words).returncode)

    assert (code("0.24.0"), code("0.24.0", "-cc.pass_config.fuse_allreduce_rms=false"), code("")) == (0, 1, 3)


def test_a_command_and_the_standard_input(audit: Any) -> None:
    done = audit(*H200, "--set", "engine.version=0.22.1", "--", "vllm", "serve", "m", "-tp", "2", "-pp", "2")
    assert done.returncode == 1
    assert done.stdout.startswith("command: hazard: allreduce_rms")
    piped = audit("-", *H200, given=DEPLOYMENT)
    assert (piped.returncode, "hazard: allreduce_rms" in piped.stdout) == (1, True)


def test_a_release_that_is_not_known_is_no_reason_for_remarks(audit: Any, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("#!/bin/sh\npython -m sglang.launch_server --model-path m --tp 2 --enable-flashinfer-allreduce-fusion --no-such-option\n")
    quiet = audit("run.sh", "--no-probe")
    assert quiet.returncode == 0
    assert "warning" not in quiet.stdout
    known = audit("run.sh", "--no-probe", "--set", "engine.version=0.5.23")
    assert "run.sh:2: warning: `--enable-flashinfer-allreduce-fusion` is deprecated; write" in known.stdout
    assert "refused: `--no-such-option` is not an option of sglang 0.5.23" in known.stdout
    assert known.returncode == 1


def test_what_does_no_harm_is_no_hazard(audit: Any) -> None:
    eager = audit(*H200, "--set", "engine.version=0.24.0", "--", "vllm", "serve", "m", "-tp", "2", "-cc.pass_config.fuse_allreduce_rms=true", "--enforce-eager")
    assert eager.returncode == 0, eager.stdout
    assert "hazard" not in eager.stdout
    assert "conflict" not in audit(*H200, "--set", "engine.version=0.24.0", "--", "vllm", "serve", "m", "-cc.pass_config.fuse_allreduce_rms=true").stdout


# --- forms for other programs ---


def check_sarif(text: str) -> dict[str, Any]:
    """The structure that SARIF 2.1.0 asks for, as far as this tool uses it."""
    log = json.loads(text)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    assert set(log) == {"$schema", "version", "runs"}
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "fusion-policy"
    assert driver["version"]
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids))
    for rule in driver["rules"]:
        assert set(rule) <= {"id", "shortDescription", "fullDescription", "help"}
        for name in set(rule) - {"id"}:
            assert rule[name]["text"]
    for result in run["results"]:
        assert set(result) <= {"ruleId", "level", "message", "locations", "properties", "suppressions"}
        assert result["ruleId"] in ids
        assert result["level"] in ("error", "warning", "note", "none")
        assert result["message"]["text"]
        for location in result.get("locations", []):
            place = location["physicalLocation"]
            uri = place["artifactLocation"]["uri"]
            assert uri
            assert not re.search(r"[\\ ]", uri)
            assert place["region"]["startLine"] >= 1
        for suppression in result.get("suppressions", []):
            assert suppression["kind"] in ("inSource", "external")
    return run  # type: ignore[no-any-return]


def test_sarif(audit: Any, fleet: Path) -> None:
    done = audit("fleet", *H200, "--format", "sarif")
    run = check_sarif(done.stdout)
    hazards = [result for result in run["results"] if result["properties"]["kind"] == "hazard"]
    assert [
        (one["level"], one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], one["locations"][0]["physicalLocation"]["region"]["startLine"])
        for one in hazards
    ] == [("error", "fleet/bad.yaml", 11)]
    rule = next(rule for rule in run["tool"]["driver"]["rules"] if rule["id"] == hazards[0]["ruleId"])
    assert rule["fullDescription"]["text"]
    assert rule["help"]["text"]


def test_github(audit: Any, fleet: Path) -> None:
    done = audit("fleet", *H200, "--format", "github")
    assert done.returncode == 1
    for line in done.stdout.splitlines():
        assert re.fullmatch(r"::(error|warning|notice) file=[^,:]+,line=\d+,title=[^,:\n]+(%3A[^,:\n]+)?::.+", line), line
    assert done.stdout.startswith("::error file=fleet/bad.yaml,line=11,title=hazard%3A ")


def test_github_escapes() -> None:
    found = [Reported("hazard", "an-id", "100 % sure:\nno, really", "a launch", "a,b:c.yaml", 3)]
    assert as_github(found) == "::error file=a%2Cb%3Ac.yaml,line=3,title=hazard%3A an-id::100 %25 sure:%0Ano, really\n"


def test_junit(audit: Any, fleet: Path) -> None:
    done = audit("fleet", *H200, "--format", "junit")
    suite = ElementTree.fromstring(done.stdout)
    assert (suite.tag, suite.attrib["tests"], suite.attrib["failures"]) == ("testsuite", "3", "1")
    cases = suite.findall("testcase")
    assert len(cases) == 3
    failed = [case for case in cases if case.findall("failure")]
    assert [case.attrib["name"] for case in failed] == ["fleet/bad.yaml: server"]
    assert failed[0].findall("failure")[0].attrib["type"] == "hazard"


def test_junit_takes_every_character() -> None:
    found = [Reported("hazard", "a", 'a < b & "c"\x00\x1b', "one & <two>", "f", 1), Reported("missed", "b", "]]> \x08", "one & <two>", "f", 1)]
    suite = ElementTree.fromstring(as_junit(found, ["one & <two>"], {"hazard"}))
    (case,) = suite.findall("testcase")
    assert case.attrib["name"] == "one & <two>"
    assert case.find("failure") is not None


def test_json_and_markdown(audit: Any, fleet: Path) -> None:
    data = json.loads(audit("fleet", *H200, "--format", "json").stdout)
    assert (data["schema_version"], data["launches"]) == (1, 3)
    assert {one["kind"] for one in data["findings"]} >= {"hazard", "undetermined"}
    assert all(set(one) == {"kind", "id", "message", "launch", "file", "line", "fusion", "waived"} for one in data["findings"])
    assert {one["kind"] for one in data["findings"]} <= set(KINDS)
    markdown = audit("fleet", *H200, "--format", "markdown").stdout
    assert "| hazard | fleet/bad.yaml: server | allreduce_rms is on" in markdown
    assert "| kind | launch | finding |" in markdown


@pytest.mark.parametrize(
    ("title", "place", "message"),
    [
        ("a/b.yaml:3:5: the message: it says", ("a/b.yaml", 3), "the message: it says"),
        ("b.yaml:3:5 (`key: value`): the message", ("b.yaml", 3), "the message"),
        ("`--x 1` argument 4 (a b/c.yaml:12:1): the message", ("a b/c.yaml", 12), "the message"),
        ("argument 4 (c.yaml:12:1): the message", ("c.yaml", 12), "the message"),
        ("`--x: 1` argument 4: the message", ("elsewhere", 7), "`--x: 1` argument 4: the message"),
        ("a rule's title", ("elsewhere", 7), "a rule's title"),
    ],
)
def test_places_of_remarks(title: str, place: tuple[str, int], message: str) -> None:
    from policy.decision import Because

    found = of_launch(Because("some-id", "warn", True, None, (), title), "launch", ("elsewhere", 7))
    assert ((found.file, found.line), found.message) == (place, message)


# --- the corpus ---


@pytest.mark.parametrize("name", ["sample", "corpus"])
def test_every_file_is_audited_without_noise(audit: Any, name: str) -> None:
    folder = SAMPLE if name == "sample" else shared_path("corpus")
    if folder is None:
        pytest.skip("the corpus (158 files) is not there; the sample ran")
    done = audit(str(folder), "--no-probe", "--format", "json")
    data = json.loads(done.stdout)
    assert done.returncode == 0, [one for one in data["findings"] if one["kind"] in ("hazard", "conflict", "refused")]
    loud = [one for one in data["findings"] if one["kind"] != "undetermined"]
    assert len(loud) <= data["launches"] / 10
    assert data["launches"] >= (30 if name == "sample" else 200)
    run = check_sarif(as_sarif([Reported(**one) for one in data["findings"]], read_pack(), "0"))
    assert len(run["results"]) == len(data["findings"])


# --- stale workarounds ---


def decided(facts: dict[str, Any], fusion: str = "allreduce_rms") -> Any:
    pack = read_pack()
    launch = Launch.of(pack, facts)
    return stale_workaround(pack, launch, evaluate(pack, launch, "safe", [fusion])[fusion])


STAGES = {
    "engine.name": "vllm", "engine.version": "0.24.0", "packages.flashinfer-python": "0.6.12", "parallel.tensor_parallel_size": 2, "parallel.pipeline_parallel_size": 2,
    "device.platform": "cuda", "device.compute_capability": "9.0", "device.interconnect": "nvswitch", "device.gpus_per_node": 8, "request.allreduce_rms": "off",
}  # fmt: skip


def test_a_workaround_that_is_no_longer_needed_names_its_reason() -> None:
    stale = decided(STAGES)
    assert stale is not None
    assert (stale.id, stale.effect) == ("stale-workaround", "warn")
    assert stale.title == "allreduce_rms is turned off by hand; rendezvous-over-world justified it until vLLM 0.22.1, and no longer holds"
    assert stale.place is not None
    assert stale.place.file == "scope/rendezvous-over-world.yaml"
    assert [finding.fact for finding in stale.findings] == ["request.allreduce_rms"]


@pytest.mark.parametrize(
    "change",
    [
        {"engine.version": "0.22.1", "packages.flashinfer-python": "0.6.11.post2"},  # the reason holds
        {"request.allreduce_rms": "on"},
        {"request.allreduce_rms": "absent"},
        {"device.compute_capability": "8.0"},  # it would be off anyway
        {"device.compute_capability": ["8.0", "9.0"]},  # not known
        {"engine.enforce_eager": True},
    ],
)
def test_a_workaround_that_is_needed_or_idle_is_none(change: dict[str, Any]) -> None:
    assert decided({**STAGES, **change}) is None


@pytest.mark.parametrize(("command", "words"), [("audit", []), ("explain", ["allreduce_rms"]), ("resolve", ["allreduce_rms"])])
def test_commands_tell_of_it(audit: Any, command: str, words: list[str]) -> None:
    launch = ["--set", "engine.version=0.24.0", "--", "vllm", "serve", "m", "-tp", "2", "-pp", "2", "-cc.pass_config.fuse_allreduce_rms=false"]
    done = audit(*words, *H200, *launch, command=command)
    assert done.returncode == 0, done.stderr
    told = " ".join((done.stdout + done.stderr).split())
    assert "allreduce_rms is turned off by hand; rendezvous-over-world justified it until vLLM 0.22.1" in told
    assert audit(*words, *H200, "--fail-on", "warning", *launch, command=command).returncode == 1


def test_files_of_a_request_are_the_launches_of_the_audit(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(DEPLOYMENT)
    read = launches(read_pack(), Request(files=[str(tmp_path / "a.yaml")], probe=False))
    assert [one.found.name for one in read if one.found is not None] == ["server"]
