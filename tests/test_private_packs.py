"""Packs that are added to the main one: what they may say, where they come from, and that they only narrow."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy.evaluate import evaluate
from policy.launch import Launch
from policy.load import read_pack
from policy.private_packs import VARIABLE, added_by_environment, installed_packs, read_packs
from policy.problems import PackError
from tests.fake_engine import ROOT

PRIVATE = Path(__file__).with_name("private_pack")
SHIPPED = Path(__file__).resolve().parents[1] / "rules"
FACTS = {
    "engine.name": "vllm", "engine.version": "0.24.0", "packages.flashinfer-python": "0.6.12", "parallel.tensor_parallel_size": 4, "device.platform": "cuda",
    "device.compute_capability": "9.0", "device.interconnect": "nvswitch", "device.gpus_per_node": 8,
}  # fmt: skip
RULE = "id: {id}\ntitle: something of ours\nplans: {{fusion: allreduce_rms}}\nwhen: {when}\neffect: exclude\nconsequence: {consequence}\n"


@pytest.fixture
def private(tmp_path: Path) -> Path:
    shutil.copytree(PRIVATE, tmp_path / "acme")
    return tmp_path / "acme"


def decided(pack: Any, facts: dict[str, Any], fusion: str = "allreduce_rms") -> Any:
    return evaluate(pack, Launch.of(pack, facts), "safe", [fusion])[fusion]


def test_its_rules_narrow_and_name_their_file() -> None:
    pack = read_packs(None, [PRIVATE])
    assert decided(pack, {**FACTS, "acme.rack_wired": True}).state == "on"
    narrowed = decided(pack, {**FACTS, "acme.rack_wired": False})
    assert (narrowed.state, narrowed.reason.id) == ("off", "half-wired-racks")
    assert narrowed.reason.place is not None
    assert narrowed.reason.place.file == str(PRIVATE / "house" / "half-wired-racks.yaml")
    assert decided(pack, FACTS).state == "undetermined", "what is not known does not lapse"
    assert read_packs(None, [PRIVATE]).digest == pack.digest != read_pack().digest


def test_its_own_fusion_has_a_gate_and_switches() -> None:
    pack = read_packs(None, [PRIVATE])
    launch = Launch.of(pack, FACTS)
    decision = evaluate(pack, launch, "safe", ["acme_router"])["acme_router"]
    assert (decision.state, decision.left_alone.state) == ("on", "on")
    off = evaluate(pack, Launch.of(pack, {**FACTS, "request.acme_router": "off"}), "safe", ["acme_router"])["acme_router"]
    assert off.state == "off"
    assert pack.devices["acme-h200"].facts["acme.rack_wired"] is False


def test_nothing_else_changes() -> None:
    main, pack = read_pack(SHIPPED), read_packs(SHIPPED, [PRIVATE])
    facts = {**FACTS, "parallel.tensor_parallel_size": 2}
    one, other = (evaluate(which, Launch.of(which, facts), "safe") for which in (main, pack))
    for decision in one.decisions:
        if decision.fusion == "allreduce_rms":  # its rule asks for a fact that nobody gave, and is settled by the size
            assert other[decision.fusion].state == decision.state
        else:
            assert {**other[decision.fusion].as_json(), "digest": ""} == {**decision.as_json(), "digest": ""}
    assert {decision.fusion for decision in other.decisions} - {decision.fusion for decision in one.decisions} == {"acme_router"}


# --- what is refused, with its place ---


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("scope/rendezvous-over-world.yaml", RULE.format(id="rendezvous-over-world", when="{parallel.nodes: 7}", consequence="slower"), "the rule `rendezvous-over-world` stands twice"),
        ("fusions/allreduce_rms.yaml", "fusion: allreduce_rms\ntitle: ours\nplans: [{id: ours, library: acme}]\n", "the fusion `allreduce_rms` stands twice"),
        ("devices/h200-sxm8.yaml", "device: h200-sxm8\ntitle: ours\nfacts: {device.platform: cuda}\n", "the device `h200-sxm8` stands twice"),
        ("facts/parallel.yaml", "group: parallel\ndescription: ours\nfacts: {nodes: {type: integer, description: ours, assume: 1}}\n", "the fact `parallel.nodes` is declared twice"),
        ("products/vllm/gates/allreduce_rms.yaml", 'gate: vllm-allreduce-rms\nfusion: allreduce_rms\nsetting: x\nthrough: "0.33.0"\narms: [{since: "0.1.0", unset: true}]\n', "`allreduce_rms` is no fusion of this private pack"),
        ("products/vllm/switches_ours.yaml", 'switches: [{fusion: allreduce_rms, turn: "on", kind: flag, since: "0.1.0", text: --x}]\n', "`allreduce_rms` is no fusion of this private pack"),
        ("products/vllm/traits_ours.yaml", "", "a traits file is a mapping"),
        ("products/vllm/pins.yaml", 'pins: {"0.24.0": {flashinfer-python: "==9.9"}}\n', "a private pack has no pins file"),
        ("products/vllm/defaults.yaml", "defaults: {parallel.nodes: 1}\n", "a private pack has no defaults file"),
        ("products/vllm/product.yaml", 'product: vllm\ntitle: ours\nrole: engine\npackage: vllm\nversion_fact: engine.version\nthrough: "1.0"\nreleases: ["0.1"]\n', "a private pack has no product file"),
        ("stray.yaml", "a: 1\n", "this file belongs to no part of a pack"),
        ("house/wrong.yaml", RULE.format(id="wrong", when="{no.such_fact: 1}", consequence="hang"), "no fact"),
        ("house/misnamed.yaml", RULE.format(id="other", when="{parallel.nodes: 7}", consequence="hang"), "`other` stands in the file `misnamed.yaml`"),
    ],
)  # fmt: skip
def test_what_belongs_to_the_main_pack_is_refused(private: Path, name: str, text: str, told: str) -> None:
    write(private, name, text)
    with pytest.raises(PackError) as error:
        read_packs(None, [private])
    assert told in str(error.value)
    assert str(private / name) in str(error.value) or os.path.relpath(private / name) in str(error.value)
    assert ":" in str(error.value).split(name)[1][:3]


def test_a_condition_of_the_main_pack_is_not_redefined(private: Path) -> None:
    name = next(iter(yaml.safe_load((SHIPPED / "conditions.yaml").read_text())["conditions"]))
    write(private, "conditions_more.yaml", f"conditions:\n  {name}:\n    title: ours\n    when: {{parallel.nodes: 1}}\n")
    with pytest.raises(PackError) as error:
        read_packs(None, [private])
    assert f"the condition `{name}` is declared twice" in str(error.value)


def test_a_trait_of_the_main_pack_is_not_redefined(private: Path) -> None:
    data = yaml.safe_load((SHIPPED / "products" / "vllm" / "traits.yaml").read_text())
    name, rows = next(iter(data["traits"].items()))
    write(
        private,
        "products/vllm/traits_ours.yaml",
        yaml.safe_dump({**{key: value for key, value in data.items() if key != "traits"}, "traits": {name: rows}}, sort_keys=False),
    )
    with pytest.raises(PackError) as error:
        read_packs(None, [private])
    assert f"{name}` stands in another file of the product too" in str(error.value)


def test_two_private_packs_may_not_say_the_same(private: Path, tmp_path: Path) -> None:
    shutil.copytree(private, tmp_path / "second")
    with pytest.raises(PackError) as error:
        read_packs(None, [private, tmp_path / "second"])
    assert "the rule `half-wired-racks` stands twice" in str(error.value)
    assert read_packs(None, [private, private]).digest == read_packs(None, [private]).digest


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="there is no such folder"):
        read_packs(None, [tmp_path / "nothing"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(PackError, match=r"the folder has no pack\.yaml"):
        read_packs(None, [tmp_path / "empty"])


# --- law b: nothing that is off or undetermined is turned on ---


def launches_of_the_tests() -> Iterator[dict[str, Any]]:
    for file in sorted(Path(__file__).with_name("launches").glob("*.yaml")):
        told = yaml.safe_load(file.read_text())
        for view in told["views"]:
            yield {**told["launch"], **view.get("also", {})}


def random_rules(choose: random.Random, folder: Path) -> None:
    """A private pack of random rules about facts of the launches."""
    shutil.rmtree(folder, ignore_errors=True)
    write(folder, "pack.yaml", 'name: random\nversion: "1"\nformat: 1\n')
    facts = ["parallel.tensor_parallel_size: %d", "parallel.pipeline_parallel_size: %d", "device.gpus_per_node: %d", "parallel.nodes: %d"]
    for number in range(choose.randint(1, 3)):
        when = "{" + choose.choice(facts) % choose.choice([1, 2, 4, 8]) + "}"
        when = choose.choice([when, f"{{not: {when}}}", "{device.multicast: false}", '{packages.flashinfer-python: "<0.6.12"}', "{engine.name: vllm}"])
        plans = choose.choice(["{fusion: allreduce_rms}", "{backend: mnnvl}", "{backend: trtllm}", "{library: flashinfer, scope: world}"])
        effect = choose.choice([
            f"effect: exclude\nconsequence: {choose.choice(['hang', 'crash', 'wrong_numbers', 'partly_fused', 'unfused', 'slower'])}",
            "effect: warn", "effect: limit\nlimit: {max_bytes: 1024}", "effect: exclude\nconsequence: unfused\nsettles: true",
        ])  # fmt: skip
        write(folder, f"house/random-{number}.yaml", f"id: random-{number}\ntitle: at random\nplans: {plans}\nwhen: {when}\n{effect}\n")


def test_random_private_rules_only_narrow(tmp_path: Path) -> None:
    choose = random.Random(7)
    main = read_pack(SHIPPED)
    launches = list(launches_of_the_tests())
    before = {
        (number, posture): evaluate(main, Launch.of(main, facts), posture, ["allreduce_rms"])["allreduce_rms"].state
        for number, facts in enumerate(launches)
        for posture in ("safe", "fast")
    }
    changed = 0
    for _ in range(12):
        random_rules(choose, tmp_path / "random")
        pack = read_packs(SHIPPED, [tmp_path / "random"])
        for (number, posture), state in before.items():
            after = evaluate(pack, Launch.of(pack, launches[number]), posture, ["allreduce_rms"])["allreduce_rms"].state
            assert after != "on" or state == "on", (launches[number], posture, state, [file.read_text() for file in (tmp_path / "random" / "house").glob("*")])
            changed += after != state
    assert changed > 20


# --- where they come from ---


def test_by_entry_point_without_importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "acme_policies"
    shutil.copytree(PRIVATE, package / "pack")
    (package / "__init__.py").write_text("raise SystemExit('a pack is data')\n")
    metadata = tmp_path / "site" / "acme_policies-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-policies\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[console_scripts]\nacme = acme:main\n\n[fusion_policy.packs]\nacme = acme_policies.pack\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert installed_packs() == [str(package / "pack")]
    assert "half-wired-racks" in read_packs().rules
    assert "half-wired-racks" not in read_packs(SHIPPED).rules, "a pack that is named stands alone"
    (metadata / "entry_points.txt").write_text("[fusion_policy.packs]\nacme = acme_policies.packs\n")
    with pytest.raises(PackError) as error:
        read_packs()
    assert "entry_points.txt:2:1: the pack `acme` is not at `acme_policies.packs`" in str(error.value)


def test_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert added_by_environment() == []
    monkeypatch.setenv(VARIABLE, os.pathsep.join(["a", "", "b"]))
    assert added_by_environment() == ["a", "b"]


def test_by_option(tmp_path: Path) -> None:
    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path), **variables}
        done = subprocess.run(
            [sys.executable, "-m", "fusion_policy", *words], capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    launch = ["--no-probe", "--set", "engine.version=0.24.0", "--device", "acme-h200", "--", "vllm", "serve", "m", "-tp", "4"]
    done = run("explain", "allreduce_rms", "--add-pack", "tests/private_pack", "-q", *launch)
    assert done.stdout == "tests/private_pack/house/half-wired-racks.yaml:1:half-wired-racks\tallreduce_rms=off\n"
    assert run("explain", "allreduce_rms", "-q", *launch, **{VARIABLE: "tests/private_pack"}).stdout == done.stdout
    without = run("explain", "allreduce_rms", "-q", *launch)
    assert (without.returncode, without.stdout) == (2, "")
    checked = run("check", "--quick", "--add-pack", "tests/private_pack")
    assert checked.returncode == 0, checked.stderr
    assert ", 0 problems" in checked.stdout
    assert run("check", "--compile", "x", "--add-pack", "tests/private_pack").returncode == 2
