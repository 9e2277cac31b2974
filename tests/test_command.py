"""The command `policy` as a process: exit codes, streams, formats, and what it imports."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import jsonschema
import pytest

from policy.explain import wants_colour

ROOT = Path(__file__).parents[1]
BASE = "tests/broken/base"
SCHEMA = json.loads((Path(__file__).parent / "decision.schema.json").read_text(encoding="utf-8"))
#: A launch that is on, in the small pack.
ON = ["engine.name=alpha", "engine.version=2.0", "site.size=4", "site.flag=false", "site.level=2", "site.kind=plain", "packages.lib=1.1"]
VLLM = [
    "engine.name=vllm",
    "engine.version=0.22.1",
    "packages.flashinfer-python=0.6.11.post2",
    "parallel.tensor_parallel_size=2",
    "parallel.pipeline_parallel_size=2",
]
H200 = ["device.platform=cuda", "device.compute_capability=9.0", "device.interconnect=nvswitch", "device.gpus_per_node=8"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of compiled packs of its own."""
    return tmp_path_factory.mktemp("cache")


class Command:
    """Runs `policy` with a cache of its own, no colour and no terminal."""

    def __init__(self, cache: Path) -> None:
        self.environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "PYTHONPATH")}
        self.environment.update(XDG_CACHE_HOME=str(cache), PYTHONPATH=str(ROOT), PYTHONIOENCODING="utf-8", FUSION_POLICY_NO_SHIPPED_PACK="1")

    def __call__(self, *words: str, given: str | bytes = "", **environment: str) -> subprocess.CompletedProcess[str]:
        data = given.encode() if isinstance(given, str) else given
        done = subprocess.run(
            [sys.executable, "-m", "fusion_policy", *words],
            input=data,
            capture_output=True,
            cwd=ROOT,
            env={**self.environment, **environment},
            timeout=60,
            check=False,
        )
        out, told = done.stdout.decode(), done.stderr.decode()
        assert "Traceback" not in told, told
        return subprocess.CompletedProcess(done.args, done.returncode, out, told)


@pytest.fixture(scope="module")
def policy(cache: Path) -> Command:
    return Command(cache)


def sets(assignments: Sequence[str], without: Sequence[str] = ()) -> list[str]:
    return [word for assignment in assignments if assignment.partition("=")[0] not in without for word in ("--set", assignment)]


def small(*words: str, assignments: Sequence[str] = ON, without: Sequence[str] = ()) -> list[str]:
    return ["explain", *words, "--pack", BASE, *sets(assignments, without)]


# --- exit codes ---


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (small(), 0),
        (small("f"), 0),
        (small("f", "--require", "f"), 0),
        (small("--require", "f"), 0),
        (small("f", "--require", "f", assignments=[*ON, "request.f=off"]), 1),
        (small("f", "--require", "f", without=["site.kind"]), 0),
        (small("f", "--require", "f", without=["engine.version"]), 3),
        (small("g", "--require", "f", assignments=[*ON, "request.f=off"]), 1),
        (small("f", assignments=[*ON, "request.f=off"]), 0),
        (small("f", "--fail-on", "conflict", assignments=[*ON, "packages.lib=1.0", "request.f=on"]), 1),
        (small("f", "--fail-on", "hazard", assignments=[*ON, "packages.lib=1.0", "request.f=on"]), 1),
        (small("f", "--fail-on", "missed,undetermined", assignments=[*ON, "packages.lib=1.0", "request.f=on"]), 0),
        (small("f", "--fail-on", "undetermined", without=["engine.version"]), 1),
        (small("f", "--fail-on", "undetermined"), 0),
        (small("f", "--fail-on", "missed", assignments=[*ON, "engine.version=1.0", "site.size=2"]), 1),
        (small("f", "--fail-on", "conflict,hazard,missed,undetermined,warning,lost-setting,refused"), 0),
        (["check", BASE], 0),
        (["check", "tests/broken/packs/unknown_fact"], 2),
        (["check", "tests/nothing"], 2),
        (["rule", "several-groups", "--pack", BASE], 0),
        (["rule", "--pack", BASE], 0),
        (["--version"], 0),
        (["--help"], 0),
        (["explain", "--help"], 0),
        ([], 0),
    ],
)
def test_exit_codes(policy: Command, words: list[str], code: int) -> None:
    done = policy(*words)
    assert done.returncode == code, done.stderr
    assert done.stdout or code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["explian"], "`explian` is no command\n  help: did you mean `explain`?"),
        (["explain"], "there is no launch to look at"),
        (["explain", "--pack", BASE, "allreduce", *sets(ON)], "`allreduce` is neither a fusion nor a file"),
        (["explain", "--pack", BASE, "ff", *sets(ON)], "did you mean `f`?"),
        (["explain", "--pack", BASE, "fuse_f", *sets(ON)], "did you mean `f`?"),
        (small("--fail-on", "hazzard"), "--fail-on: `hazzard` is no kind of finding\n  help: did you mean `hazard`?"),
        (small("--require", "ff"), "--require: `ff` is no fusion"),
        (small("--posture", "brave"), "invalid choice: 'brave'"),
        (small("--format", "yaml"), "invalid choice: 'yaml'"),
        (small("--fast"), "`--fast` is no option that `policy explain` takes"),
        (small("--devise", "box"), "did you mean `--device`?"),
        (["doctor", "words"], "`words` is no word that `policy doctor` takes\n  help: `policy doctor --help` lists what it takes"),
        (["exec", "words", "--", "vllm", "serve", "m"], "`words` is no word that `policy exec` takes"),
        (["check", "--", "vllm", "serve", "m"], "`policy check` takes no launch"),
        (["vllm", "serve", "m"], "the launch after `--`\n  help: policy explain -- vllm serve m"),
        (["explain", "vllm", "serve", "m", "-tp", "2"], "a launch is written after `--`\n  help: policy explain -- vllm serve m -tp 2"),
        (["explain", "--pack", BASE, "vllm", "serve", "m"], "a launch is written after `--`\n  help: as in `-- vllm serve m`"),
        (["explain", "--pack", BASE, "--", "vllm serve m"], "leave out the quotes: `-- vllm serve m`"),
        (["explain", "--pack", BASE, "--", "docker", "run", "image"], "write the command into one"),
        (["explain", "--pack", BASE, "nothing.yaml"], "there is no file `nothing.yaml`"),
        (["explain", "--pack", BASE, ""], "there is no file ``"),
        (["explain", "--pack", BASE, "tests"], "this is a folder, not a file\n  help: name a file in it; `policy audit` searches folders"),
        (["why-not", "--pack", BASE, "README.md", "f"], "the fusion comes first\n  help: policy why-not FUSION=on README.md"),
        (["explain", "--pack", BASE, "--set", "site.szie=2"], "--set site.szie=2: no fact is named `site.szie`\n  help: did you mean `site.size`?"),
        (
            ["explain", "--pack", BASE, "--set", "site.size=two", "--set", "site.kind=plane"],
            "--set site.kind=plane: `plane` is outside the domain of `site.kind`",
        ),
        (["explain", "--pack", BASE, "--facts", "tests/broken/facts/bad_values.yaml"], "bad_values.yaml:1:12: `9` is outside the domain of `site.size`"),
        (["explain", "--pack", "tests/nothing", "--set", "x=1"], "there is no such folder"),
        (["explain", "--pack", BASE, "--device", "boxx", *sets(ON)], "did you mean `box`?"),
        (["explain", "--pack", BASE, "--", "echo", "hello"], "`echo hello` starts no engine that is known"),
        (["rule", "several-group", "--pack", BASE], "did you mean `several-groups`?"),
        (["schema", "--out", "/dev/null/x", "--pack", BASE], "cannot read or write"),
    ],
)
def test_bad_usage_tells_what_to_do(policy: Command, words: list[str], told: str) -> None:
    done = policy(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert told in done.stderr


@pytest.fixture
def warning_pack(tmp_path: Path) -> str:
    """The small pack with a warning and a refusal."""
    folder = tmp_path / "pack"
    shutil.copytree(ROOT / BASE, folder)
    (folder / "theme/look-twice.yaml").write_text("id: look-twice\ntitle: look twice\nwhen: {site.kind: fancy}\neffect: warn\n")
    (folder / "theme/too-high.yaml").write_text('id: too-high\ntitle: the level is too high\nwhen: {site.level: ">=5"}\neffect: refuse\nconsequence: crash\n')
    return str(folder)


@pytest.mark.parametrize(
    ("assignment", "kind", "code"),
    [
        ("site.kind=fancy", "warning", 1),
        ("site.kind=plain", "warning", 0),
        ("site.level=6", "refused", 1),
        ("site.level=2", "refused", 0),
        ("site.kind=fancy", "refused", 0),
    ],
)
def test_fail_on_what_is_said_of_the_launch(policy: Command, warning_pack: str, assignment: str, kind: str, code: int) -> None:
    done = policy("explain", "f", "--pack", warning_pack, "--fail-on", kind, *sets([*ON, assignment]))
    assert done.returncode == code, done.stderr
    assert ("look-twice" in done.stdout) == (assignment == "site.kind=fancy")


def test_fail_on_what_is_said_of_a_plan(policy: Command, warning_pack: str) -> None:
    rule = "id: unusual\ntitle: the plan is unusual\nplans: {scope: group}\nwhen: {site.names: {contains: q}}\neffect: warn\n"
    (Path(warning_pack) / "theme/unusual.yaml").write_text(rule)
    words = ["explain", "f", "--pack", warning_pack, "--fail-on", "warning"]
    done = policy(*words, *sets([*ON, "site.names=q"]))
    assert done.returncode == 1
    assert "unusual: the plan is unusual" in done.stdout
    assert policy(*words, *sets([*ON, "site.names=p"])).returncode == 0


def test_fail_on_lost_settings(policy: Command) -> None:
    command = [
        "--",
        "vllm",
        "serve",
        "m",
        "-tp",
        "2",
        "--compilation-config",
        '{"pass_config": {"fuse_norm_quant": true}}',
        "-cc.pass_config.fuse_allreduce_rms=false",
    ]
    words = ["explain", "allreduce_rms", *sets(["engine.version=0.22.1"])]
    done = policy(*words, "--fail-on", "lost-setting", *command)
    assert done.returncode == 1
    assert "`pass_config.fuse_norm_quant` is lost" in done.stdout
    assert policy(*words, "--fail-on", "lost-setting", *command[:-1]).returncode == 0


def test_a_conflict_on_the_shipped_pack(policy: Command) -> None:
    words = ["explain", "allreduce_rms", *sets([*VLLM, *H200])]
    done = policy(*words, "--fail-on", "conflict")
    assert done.returncode == 0, done.stderr
    assert "allreduce_rms is off because of rendezvous-over-world" in done.stdout
    done = policy(*words, "--fail-on", "conflict", "--set", "request.allreduce_rms=on")
    assert done.returncode == 1
    assert "(conflict: it was asked for)" in done.stdout
    assert policy(*words, "--require", "allreduce_rms").returncode == 1


# --- formats ---


def test_json_has_exactly_its_keys(policy: Command, warning_pack: str) -> None:
    validator = jsonschema.Draft7Validator(SCHEMA)
    states = set()
    for words in (
        small("--format", "json"),
        small("--format", "json", without=["engine.version", "packages.lib"]),
        small("--format", "json", "--posture", "fast", assignments=[*ON, "engine.version=1.0", "site.size=2"]),
        small("--format", "json", "--posture", "audit", assignments=[*ON, "request.f=on", "packages.lib=absent", "site.flag=true"]),
        ["explain", "--pack", warning_pack, "--format", "json", *sets([*ON, "site.kind=fancy", "site.level=9"])],
        ["explain", "allreduce_rms", "--format", "json", *sets([*VLLM, *H200])],
    ):
        done = policy(*words)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        validator.validate(answer)
        states.update(decision["state"] for decision in answer["decisions"])
    assert states == {"on", "off", "undetermined"}
    assert answer["decisions"][0]["flips"]


def test_the_quiet_line_can_be_cut_and_grepped(policy: Command) -> None:
    done = policy(*small("-q", assignments=[*ON, "packages.lib=absent"]))
    lines = done.stdout.splitlines()
    assert all(re.fullmatch(r"(-|(gate:)?[^\t:]+:\d+:[\w./-]+)\t\w+=(on|off|undetermined)", line) for line in lines), lines
    assert {line.split("\t")[1].split("=")[0] for line in lines} == {"f", "g"}
    (line,) = policy(*small("f", "-q", assignments=[*ON, "site.flag=true", "engine.version=1.0"])).stdout.splitlines()
    assert line == f"{BASE}/theme/several-groups.yaml:1:several-groups\tf=off"
    (line,) = policy(*small("f", "-q")).stdout.splitlines()
    assert line == f"gate:{BASE}/products/alpha/gates/f.yaml:11:alpha-f\tf=on"
    (line,) = policy(*small("f", "-q", without=["engine.name"])).stdout.splitlines()
    assert line == "-\tf=undetermined"


def test_text_and_markdown_say_the_same(policy: Command) -> None:
    text, markdown = (policy(*small("f", "--format", kind, assignments=[*ON, "site.flag=true"])).stdout for kind in ("text", "markdown"))
    assert text.splitlines()[0] == "f is on: b, group"
    assert markdown.splitlines()[0] == "### f is on: b, group"
    for word in ("left alone, the engine", "several-groups", "max_bytes", "level-limits-size"):
        assert word in text
        assert word in markdown
    assert "\033" not in text + markdown


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0"}, False),
        ({"CLICOLOR_FORCE": "1"}, True),
        ({"CLICOLOR_FORCE": "0"}, False),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_colour(policy: Command, environment: dict[str, str], coloured: bool) -> None:
    assert ("\033[" in policy(*small("f"), **environment).stdout) is coloured


def test_data_on_stdout_and_talk_on_stderr(policy: Command) -> None:
    done = policy("check", "tests/broken/packs/unknown_fact")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the folder has no pack.yaml" in done.stderr or "no fact is named" in done.stderr
    assert policy(*small("f")).stderr == ""


# --- streams ---


def test_facts_from_the_standard_input(policy: Command) -> None:
    facts = "\n".join(f'{name}: "{value}"' for name, _, value in (one.partition("=") for one in ON))
    expected = policy(*small("f", "-q")).stdout
    assert policy("explain", "f", "-q", "--pack", BASE, "--facts", "-", given=facts).stdout == expected
    as_json = json.dumps(dict(one.split("=", 1) for one in ON))
    assert policy("explain", "f", "-q", "--pack", BASE, "--facts", "-", given=as_json).stdout == expected
    done = policy("explain", "f", "-q", "--pack", BASE, "--facts", "-", given="site.szie: 2\n")
    assert (done.returncode, done.stderr) == (2, "-:1:1: no fact is named `site.szie`\n    site.szie: 2\n    ^^^^^^^^^\n  help: did you mean `site.size`?\n")
    done = policy("explain", "f", "--pack", BASE, "--facts", "-", given=b"\xff\xfe")
    assert (done.returncode, done.stderr) == (2, "-:1:1: the input is not UTF-8 (byte 0)\n")


def test_a_report_of_the_facts_can_be_given_back(policy: Command, tmp_path: Path) -> None:
    done = policy("facts", "--pack", BASE, "--format", "json", *sets([*ON, "site.names=p,q"]))
    assert done.returncode == 0, done.stderr
    report = tmp_path / "report.json"
    report.write_text(done.stdout)
    again = policy("explain", "f", "-q", "--pack", BASE, "--facts", str(report))
    assert (again.returncode, again.stdout) == (0, policy(*small("f", "-q")).stdout), again.stderr


def test_a_launch_from_the_standard_input(policy: Command) -> None:
    script = "vllm serve meta-llama/Llama-3.1-8B -tp 2\n"
    done = policy("explain", "allreduce_rms", "-q", "-", *sets(["engine.version=0.24.0"]), given=script)
    assert done.returncode == 0, done.stderr
    assert "allreduce_rms=" in done.stdout


def test_a_reader_that_goes_away(policy: Command) -> None:
    """As with `| head -1`: no message, no failure, however little is written."""
    for words in (["rule"], small("f")):
        process = subprocess.Popen(
            [sys.executable, "-m", "fusion_policy", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=policy.environment
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0
        process.stderr.close()


def test_colour_on_a_terminal() -> None:
    for environment, coloured in (({}, True), ({"TERM": "dumb"}, False), ({"CLICOLOR": "0"}, False), ({"NO_COLOR": "1"}, False)):
        assert wants_colour(True, environment) is coloured


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_streams_that_are_closed(policy: Command, closed: str) -> None:
    for words, code in ((small("f"), 0), (["explian"], 2), (["resolve", "--no-probe", "--", "vllm", "serve", "m"], 0)):
        command = shlex.join([sys.executable, "-m", "fusion_policy", *words])
        done = subprocess.run(["sh", "-c", f"{command} {closed}"], capture_output=True, text=True, cwd=ROOT, env=policy.environment, timeout=60, check=False)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_disk(policy: Command) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fusion_policy", *small("f")], stdout=full, stderr=subprocess.PIPE, cwd=ROOT, env=policy.environment, timeout=60, check=False
        )
    assert done.returncode == 2
    assert done.stderr.decode().startswith("policy: cannot read or write: no space left on device")


def test_a_terminal_that_knows_no_unicode(policy: Command, warning_pack: str) -> None:
    done = policy("explain", "f", "--pack", warning_pack, "--set", "site.kind=\u00e9t\u00e9", PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert "\\xe9t\\xe9" in done.stderr


# --- what is imported ---

HEAVY = ("torch", "flashinfer", "rich", "pydantic", "yaml", "vllm", "sglang", "numpy")


def imported(policy: Command, words: list[str], environment: dict[str, str]) -> set[str]:
    """The modules a command has imported at its end."""
    told = "print(' '.join(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr)"
    code = f"import sys, fusion_policy\nsys.argv = ['policy', *sys.argv[1:]]\nfusion_policy.main()\n{told}"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=ROOT, env={**policy.environment, **environment}, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def test_everyday_commands_import_little(policy: Command, tmp_path: Path) -> None:
    """With a warm cache neither YAML nor pydantic; never torch, flashinfer or rich."""
    words = ["explain", "allreduce_rms", *sets([*VLLM, *H200])]
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    cold = imported(policy, words, environment)
    assert {"yaml", "pydantic"} <= cold
    assert not cold & {"torch", "flashinfer", "rich", "numpy"}
    assert list((tmp_path / "fusion-policy").glob("*.json"))
    assert not imported(policy, words, environment) & set(HEAVY)
    assert not imported(policy, ["explain", "-q", *sets([*VLLM, *H200])], environment) & set(HEAVY)
    assert not imported(policy, ["rule", "rendezvous-over-world"], environment) & set(HEAVY)
    assert not imported(policy, ["--version"], environment) & set(HEAVY)


def test_importing_the_package_costs_nothing() -> None:
    code = "import sys, typing; before = set(sys.modules); import policy; print(sorted(name for name in set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, check=True)
    loaded = set(ast.literal_eval(done.stdout)) - {"__future__", "collections.abc"}
    assert loaded == {"policy"}


# --- a name that another module may have ---


def test_another_module_named_policy_is_told(policy: Command, tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text("print('I am somebody else')\n")
    environment = {**policy.environment, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, "-c", "import fusion_policy"], capture_output=True, text=True, cwd="/", env=environment, timeout=60, check=False)
    assert done.returncode == 1
    assert f"the module `policy` at {tmp_path / 'policy.py'} comes before the package `policy` of fusion-policy" in done.stderr
