"""SGLang's command line: the releases' own answers (`cli_cases/`, the shared folder), origins, notices, files and versions."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from policy.launchers.catalogue import catalogue_versions, choose, defaults
from policy.launchers.settings import Settings
from policy.launchers.sglang_command import entry_point, read_command
from tests import score_cli
from tests.shared import shared_path
from tests.test_vllm_command import CASES, HOSTILE, check_notices, notices_of

SERVER = "python -m sglang.launch_server --model-path m"


def read(command: str, version: str | None = "0.5.23", files: dict[str, str] | None = None) -> Settings:
    return read_command(score_cli.words_of(shlex.split(command)), version, files or {})


def test_a_sample_of_the_releases_own_answers() -> None:
    rows, wrong = score_cli.score(CASES / "sglang.jsonl")
    assert rows == 38
    assert not wrong, "\n".join(wrong[:5])


def test_every_answer_of_the_releases() -> None:
    path = shared_path("conformance/sglang_cli_cases.jsonl")
    if path is None:
        pytest.skip("the shared conformance data is not there: 135 cases not tried")
    rows, wrong = score_cli.score(path)
    assert rows >= 135
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.parametrize("case", notices_of("sglang_notices.jsonl"))
def test_notices(case: dict[str, Any]) -> None:
    check_notices(read(case["command"], case["version"], case["files"]), case)


def test_names_are_the_fields_of_the_server_arguments_in_every_release() -> None:
    for version in catalogue_versions("sglang"):
        settings = read(f"{SERVER} --tp 8 --pp-size 2 --dp 2 --ep 4", version)
        assert {name: setting.value for name, setting in settings.values.items()} == {"model_path": "m", "tp_size": 8, "pp_size": 2, "dp_size": 2, "ep_size": 4}
        assert str(settings.values["tp_size"].origin) == "`--tp 8` argument 6"
        assert defaults("sglang", version)["tp_size"] == 1


def test_leaves_of_a_file_know_line_and_column() -> None:
    text = "model-path: m\nmm-process-config:\n  image: {max_pixels: 100}\n"
    settings = read("python -m sglang.launch_server --config c.yaml", "0.5.23", {"c.yaml": text})
    setting = settings.values["mm_process_config"]
    assert setting.value == {"image": {"max_pixels": 100}}
    leaf = setting.leaves["image.max_pixels"]
    assert (leaf.value, leaf.origin.line, leaf.origin.column) == (100, 3, 11)


def test_a_mapping_in_a_file_is_text_before_0_5_14() -> None:
    files = {"c.yaml": "model-path: m\nmm-process-config: {a: 1}\n"}
    assert read("python -m sglang.launch_server --config c.yaml", "0.5.13", files).errors
    assert not read("python -m sglang.launch_server --config c.yaml", "0.5.14", files).errors


@pytest.mark.parametrize(("version", "refused"), [("0.5.14", True), ("0.5.16", False)], ids=["no positional model", "positional model"])
def test_the_positional_model_of_sglang_serve(version: str, refused: bool) -> None:
    assert bool(read("sglang serve m --tp 2", version).errors) is refused


@pytest.mark.parametrize(
    ("command", "entry", "index"),
    [
        ("sglang serve --model-path m", "serve", 2),
        ("python3 -m sglang.launch_server --tp 2", "launch_server", 3),
        ("python /srv/sglang/launch_server.py --tp 2", "launch_server", 2),
        ("sglang generate", None, 1),
        ("vllm serve m", None, 0),
    ],
)
def test_entry_points(command: str, entry: str | None, index: int) -> None:
    assert entry_point(score_cli.words_of(shlex.split(command))) == (entry, index)


@pytest.mark.parametrize(
    ("version", "catalogues"),
    [
        ("0.5.23", ("0.5.23",)),
        ("0.5.13", ("0.5.12.post1", "0.5.14")),
        ("0.5.12", ("0.5.12.post1", "0.5.9")),
        ("0.5.7", ("0.5.9",)),
        ("0.6.0", ("0.5.23",)),
        (None, ("0.5.23",)),
    ],
)
def test_the_nearest_catalogue(version: str | None, catalogues: tuple[str, ...]) -> None:
    assert choose("sglang", version) == catalogues


@pytest.mark.parametrize("name", sorted(set(HOSTILE) - {"nothing", "date", "number as key"}))
def test_a_hostile_file_is_an_error(name: str) -> None:
    settings = read(f"{SERVER} --config c.yaml --tp 2", "0.5.23", {"c.yaml": HOSTILE[name]})
    assert settings.errors
    assert settings.values["tp_size"].value == 2


@pytest.mark.parametrize(
    "words", [["--"], ["-"], [""], ["--config"], ["--config", ""], ["--model-type"], ["="], ["-.5"], ["--tp="], ["\0"], ["--json-model-override-args", "{"]]
)
def test_odd_words_raise_nothing(words: list[str]) -> None:
    for version in catalogue_versions("sglang"):
        read_command(score_cli.words_of([*SERVER.split(), *words]), version)
        read_command(score_cli.words_of(["sglang", "serve", *words]), version)


def test_an_option_whose_value_may_be_left_out() -> None:
    assert read(f"{SERVER} --model-checksum --tp 2").values["model_checksum"].value == ""
    assert read(f"{SERVER} --model-checksum abc").values["model_checksum"].value == "abc"
