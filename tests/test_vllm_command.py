"""vLLM's command line: the releases' own answers (`cli_cases/`, the shared folder), origins, notices, files and versions."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from policy.launchers.catalogue import catalogue_versions, choose, defaults, read_catalogue
from policy.launchers.found import Word
from policy.launchers.settings import Settings
from policy.launchers.vllm_command import entry_point, pass_config, read_command
from policy.origin import Origin
from tests import make_flag_catalogue, score_cli
from tests.shared import shared_path

CASES = Path(__file__).parent / "cli_cases"


def read(command: str, version: str | None = "0.22.1", files: dict[str, str] | None = None) -> Settings:
    return read_command(score_cli.words_of(shlex.split(command)), version, files or {})


def notices_of(name: str) -> list[Any]:
    lines = (CASES / name).read_text(encoding="utf-8").splitlines()
    return [pytest.param(case, id=f"{case['version']} {case['command'][:70]}") for case in map(json.loads, lines)]


def check_notices(settings: Settings, case: dict[str, Any]) -> None:
    for field in ("errors", "notices"):
        found = [[notice.kind, notice.message, str(notice.origin), notice.remedy] for notice in getattr(settings, field)]
        assert found == case[field], field


def test_a_sample_of_the_releases_own_answers() -> None:
    rows, wrong = score_cli.score(CASES / "vllm.jsonl")
    assert rows == 124
    assert not wrong, "\n".join(wrong[:5])


def test_every_answer_of_the_releases() -> None:
    path = shared_path("conformance/vllm_cli_cases.jsonl")
    if path is None:
        pytest.skip("the shared conformance data is not there: 833 cases not tried")
    rows, wrong = score_cli.score(path)
    assert rows >= 833
    assert not wrong, "\n".join(wrong[:5])


def test_scoring_fails_on_a_disagreement(tmp_path: Path) -> None:
    case = json.loads((CASES / "vllm.jsonl").read_text(encoding="utf-8").splitlines()[0])
    case["argv"] = ["serve", "m", "-tp", "3"]
    case["entry"], case["config_file"], case["config_yaml"] = "serve", None, None
    case["expected"] = {"model": "m", "tensor_parallel_size": 4}
    (tmp_path / "cases.jsonl").write_text(json.dumps(case) + "\n", encoding="utf-8")
    done = subprocess.run([sys.executable, score_cli.__file__, str(tmp_path / "cases.jsonl")], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "{'tensor_parallel_size': 4}" in done.stdout
    assert "{'tensor_parallel_size': 3}" in done.stdout


@pytest.mark.parametrize("case", notices_of("vllm_notices.jsonl"))
def test_notices(case: dict[str, Any]) -> None:
    check_notices(read(case["command"], case["version"], case["files"]), case)


def test_choices_of_an_integer_are_integers() -> None:
    assert read("vllm serve m --max-lora-rank 16 --block-size 32", "0.11.2").values["max_lora_rank"].value == 16
    (error,) = read("vllm serve m --max-lora-rank 3", "0.22.1").errors
    assert error.message == "`--max-lora-rank` does not take `3`: the choices are `1`, `8`, `16`, `32`, `64`, `128`, `256`, `320`, `512`"


def test_a_null_among_the_choices() -> None:
    assert read("vllm serve m --mamba-ssu-algorithm None --dcp-comm-backend a2a", "0.33.0").values["mamba_ssu_algorithm"].value is None
    assert read("vllm serve m --mamba-ssu-algorithm other", "0.33.0").errors


def test_a_setting_knows_its_words() -> None:
    settings = read("vllm serve m --tensor-par=4 -pp 2 -O3 --served-model-name a b", "0.24.0")
    assert {name: (setting.value, setting.spelling, str(setting.origin)) for name, setting in settings.values.items()} == {
        "model": ("m", "", "`m` argument 3"),
        "tensor_parallel_size": (4, "--tensor-par", "`--tensor-par=4` argument 4"),
        "pipeline_parallel_size": (2, "-pp", "`-pp 2` argument 5"),
        "optimization_level": (3, "-O", "`-O3` argument 7"),
        "served_model_name": (["a", "b"], "--served-model-name", "`--served-model-name a b` argument 8"),
    }


def test_each_leaf_of_an_object_knows_the_word_that_set_it() -> None:
    settings = read("vllm serve m -cc.pass_config.fuse_allreduce_rms=false -tp 2 -cc.mode 3 -cc.cudagraph_capture_sizes=[1,2]")
    assert settings.values["compilation_config"].value == {"pass_config": {"fuse_allreduce_rms": False}, "mode": 3, "cudagraph_capture_sizes": [1, 2]}
    leaves = settings.values["compilation_config"].leaves
    assert {path: (leaf.value, str(leaf.origin)) for path, leaf in leaves.items()} == {
        "pass_config.fuse_allreduce_rms": (False, "`-cc.pass_config.fuse_allreduce_rms=false` argument 4"),
        "mode": (3, "`-cc.mode 3` argument 7"),
        "cudagraph_capture_sizes": ([1, 2], "`-cc.cudagraph_capture_sizes=[1,2]` argument 9"),
    }
    leaf = settings.get("compilation_config.pass_config.fuse_allreduce_rms")
    assert leaf is not None
    assert leaf.origin.argument == 4


def test_a_renamed_leaf_keeps_the_origin_of_the_old_key() -> None:
    settings = read("vllm serve m -cc.mode=3 -cc.pass_config.enable_fusion=true", "0.12.0")
    leaves = settings.values["compilation_config"].leaves
    assert set(leaves) == {"mode", "pass_config.fuse_norm_quant", "pass_config.fuse_act_quant"}
    assert leaves["pass_config.fuse_act_quant"].origin.argument == 5


def test_leaves_of_a_file_know_line_and_column() -> None:
    text = "# fleet\nmodel: m\ncompilation-config:\n  pass_config: {fuse_allreduce_rms: false,\n    fuse_norm_quant: yes}\n  mode: 3\n"
    settings = read("vllm serve --config conf/a.yaml", "0.22.1", {"conf/a.yaml": text})
    assert not settings.errors
    places = {path: (leaf.value, leaf.origin.file, leaf.origin.line, leaf.origin.column) for path, leaf in settings.values["compilation_config"].leaves.items()}
    assert places == {
        "pass_config.fuse_allreduce_rms": (False, "conf/a.yaml", 4, 17),
        "pass_config.fuse_norm_quant": (True, "conf/a.yaml", 5, 5),
        "mode": (3, "conf/a.yaml", 6, 3),
    }
    assert str(settings.values["model"].origin) == "conf/a.yaml:2:1 (`model: m`)"


def test_words_of_a_manifest_are_arguments_with_a_place() -> None:
    words = [Word(text, Origin("file", file="deploy.yaml", line=line, column=9)) for line, text in enumerate(["vllm", "serve", "m", "-tp", "2"], 10)]
    settings = read_command(words, "0.22.1")
    origin = settings.values["tensor_parallel_size"].origin
    assert (origin.kind, origin.argument, origin.file, origin.line) == ("argument", 4, "deploy.yaml", 13)
    assert str(origin) == "`-tp 2` argument 4 (deploy.yaml:13:9)"


def test_words_of_a_variable_keep_its_name() -> None:
    words = [*score_cli.words_of(["vllm", "serve", "m"]), Word("-tp", Origin("environment", "VLLM_ADDITIONAL_ARGS")), Word("2", Origin("environment", "X"))]
    assert str(read_command(words, "0.22.1").values["tensor_parallel_size"].origin) == "environment: VLLM_ADDITIONAL_ARGS: -tp 2"


def test_files_may_be_a_callable() -> None:
    asked: list[str] = []

    def give(name: str) -> str | None:
        asked.append(name)
        return "tensor-parallel-size: 4\n"

    settings = read_command(score_cli.words_of(["vllm", "serve", "m", "--config", "c.yml"]), "0.22.1", give)
    assert settings.values["tensor_parallel_size"].value == 4
    assert asked == ["c.yml"]


def test_no_file_is_read_that_the_engine_does_not_read() -> None:
    def refuse(name: str) -> str | None:
        raise AssertionError(name)

    words = score_cli.words_of(["vllm", "serve", "m", "--config=c.yaml", "--chat-template", "x.jinja"])
    assert not read_command(words, "0.22.1", refuse).errors


@pytest.mark.parametrize(
    ("command", "entry", "index"),
    [
        ("vllm serve m", "serve", 2),
        ("/opt/venv/bin/vllm serve m", "serve", 2),
        ("python3 -m vllm.entrypoints.cli.main serve m", "serve", 4),
        ("python -u -m vllm.entrypoints.openai.api_server --model m", "api_server", 4),
        ("python3.12 /srv/vllm/entrypoints/openai/api_server.py --model m", "api_server", 2),
        ("vllm bench latency", None, 1),
        ("vllm", None, 1),
        ("python serve.py", None, 0),
    ],
)
def test_entry_points(command: str, entry: str | None, index: int) -> None:
    assert entry_point(score_cli.words_of(shlex.split(command))) == (entry, index)


def test_nothing_at_all_is_an_error_and_no_exception() -> None:
    assert [notice.kind for notice in read_command([], "0.22.1").errors] == ["not-an-engine-command"]
    assert not read("vllm serve").errors


@pytest.mark.parametrize(
    ("version", "catalogues"),
    [
        ("0.22.1", ("0.22.1",)),
        ("0.22.0", ("0.22.1", "0.20.2")),
        ("0.13.0", ("0.12.0", "0.17.1")),
        ("0.19.1rc1", ("0.20.2", "0.17.1")),
        ("0.10.2", ("0.11.2",)),
        ("0.40.0", ("0.33.0",)),
        ("0.33.0+cu130", ("0.33.0",)),
        (None, ("0.33.0",)),
        ("dev", ("0.33.0",)),
    ],
)
def test_the_nearest_catalogue(version: str | None, catalogues: tuple[str, ...]) -> None:
    assert choose("vllm", version) == catalogues


def test_between_two_catalogues_what_either_takes_is_no_error() -> None:
    older, newer = read_catalogue("vllm", "0.17.1").by_flag, read_catalogue("vllm", "0.20.2").by_flag
    gone = sorted(flag for flag in set(older) - set(newer) if older[flag].action == "boolean" and flag.startswith("--"))
    new = sorted(flag for flag in set(newer) - set(older) if newer[flag].action == "boolean" and flag.startswith("--"))
    assert gone
    assert new
    for flag in (gone[0], new[0]):
        settings = read(f"vllm serve m {flag}", "0.19.0")
        assert not settings.errors
        assert [notice.kind for notice in settings.notices] == ["nearest-catalogue"]


def test_behaviour_follows_the_version_not_the_catalogue() -> None:
    nested = {"c.yaml": "compilation-config:\n  mode: 3\n"}
    assert read("vllm serve m --config c.yaml", "0.15.0", nested).errors
    assert not read("vllm serve m --config c.yaml", "0.16.0", nested).errors
    assert read("vllm serve m -cc.cudagraph_num_of_warmups=1k", "0.19.0").errors
    assert read("vllm serve m -cc.cudagraph_num_of_warmups=1k", "0.20.0").values["compilation_config"].value == {"cudagraph_num_of_warmups": 1000}
    assert read("vllm serve m -O3", "0.11.0").values["compilation_config"].value == {"level": 3}
    assert read("vllm serve --model m", "0.11.0").errors
    assert not read("vllm serve --model m", "0.11.1").errors


def test_defaults_are_the_catalogues() -> None:
    values = defaults("vllm", "0.22.1")
    assert (values["tensor_parallel_size"], values["dtype"], values["enforce_eager"], values["optimization_level"]) == (1, "auto", False, 2)
    assert values["compilation_config"] == {}
    assert defaults("vllm") == defaults("vllm", catalogue_versions("vllm")[-1])


def test_pass_config_depends_on_the_platform() -> None:
    settings = read("vllm serve m -cc.pass_config.fuse_act_padding=true -cc.pass_config.fuse_allreduce_rms=true")
    assert pass_config(settings, "cuda")["fuse_act_padding"] is False
    assert pass_config(settings, "rocm")["fuse_act_padding"] is True
    assert pass_config(settings, "cuda")["fuse_allreduce_rms"] is True
    assert pass_config(read("vllm serve m"))["eliminate_noops"] is True


HOSTILE = {
    "bomb": "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n" + "compilation-config: {k: *c}\n",
    "nested bomb": "\n".join(["x0: &x0 {a: 1, b: 2}", *(f"x{n}: &x{n} {{a: *x{n - 1}, b: *x{n - 1}, c: *x{n - 1}}}" for n in range(1, 14))]),
    "python tag": "a: !!python/object/apply:os.system [echo]\n",
    "deep": "a: " + "[" * 3000,
    "date": "compilation-config: {a: 2024-01-01}\n",
    "number as key": "1: 2\n",
    "list as key": "? [a]\n: 2\n",
    "loop": "a: &a {b: *a}\n",
    "nothing": "",
    "two documents": "a: 1\n---\nb: 2\n",
    "control": "a: \x07\n",
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_hostile_file_is_an_error(name: str) -> None:
    settings = read("vllm serve m --config c.yaml -tp 2", "0.22.1", {"c.yaml": HOSTILE[name]})
    assert settings.errors
    assert settings.values["tensor_parallel_size"].value == 2


@pytest.mark.parametrize(
    "words",
    [["--"], ["-"], [""], ["-cc."], ["-cc.a"], ["--config"], ["--model"], ["=", "-="], ["-O"], ["-O="], ["-cc=" + "[" * 9999], ["\0"], ["-tp="], ["-.5"]],
)
def test_odd_words_raise_nothing(words: list[str]) -> None:
    for version in catalogue_versions("vllm"):
        read_command(score_cli.words_of(["vllm", "serve", "m", *words]), version)
        read_command(score_cli.words_of(["vllm", "serve", *words]), version)


def test_catalogues_are_made_from_the_dumps() -> None:
    for engine in ("vllm", "sglang"):
        folder = shared_path(f"conformance/{engine}_flags")
        if folder is None:
            pytest.skip("the shared conformance data is not there: 14 catalogues not compared")
        for version in catalogue_versions(engine):
            dump = json.loads((folder / f"{version}.json").read_text(encoding="utf-8"))
            made = make_flag_catalogue.catalogue(dump)
            path = Path(__file__).parents[1] / "rules" / "products" / engine / "flags" / f"{version}.json"
            assert path.read_text(encoding="utf-8") == made


def test_a_command_needs_no_yaml_pydantic_or_engine() -> None:
    code = (
        "import sys; from policy.launchers import vllm_command; from policy.launchers.found import Word; from policy.origin import Origin\n"
        "vllm_command.read_command([Word(w, Origin('argument')) for w in 'vllm serve m -tp 2'.split()], '0.22.1')\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'yaml', 'pydantic', 'torch', 'vllm', 'rich', 'difflib'}))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
