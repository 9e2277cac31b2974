"""Log excerpts speak for the hazard that `tests/logs/expected.yaml` names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from policy.cli import main

LOGS = Path(__file__).parent / "logs"
EXPECTED = yaml.safe_load((LOGS / "expected.yaml").read_text())


def diagnosed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main(["diagnose", *words, "--format", "json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("name", EXPECTED)
def test_the_likeliest_hazard_comes_first(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = diagnosed(capsys, str(LOGS / name), *EXPECTED[name]["options"])
    suspects = found["suspects"]
    assert isinstance(suspects, list)
    assert [one["id"] for one in suspects][:1] == [EXPECTED[name]["first"]]
    assert suspects[0]["seen"], "a symptom was seen"
    assert found["launch"] is True


def test_every_log_is_expected() -> None:
    assert sorted(EXPECTED) == sorted(path.name for path in LOGS.glob("*.log"))


def test_a_log_without_a_hazard_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "quiet.log"
    log.write_text("all is well\n")
    assert main(["diagnose", str(log)]) == 0
    output = capsys.readouterr()
    assert "no hazard that is known fits this log" in output.out
    assert "no launch was found in the log" in output.err


def test_what_is_not_known_is_named_with_the_way_to_learn_it(capsys: pytest.CaptureFixture[str]) -> None:
    found = diagnosed(capsys, str(LOGS / "replicas_of_experts_block.log"), "--device", "h100-sxm8")
    first = found["suspects"][0]  # type: ignore[index]
    assert first["id"] == "rendezvous-over-world"
    assert first["launch_satisfies"] is None
    assert "model.is_moe" in [one["fact"] for one in first["learn"]]


def each(prefix: str) -> Callable[[str], str]:
    return lambda text: "".join(prefix + line for line in text.splitlines(keepends=True))


def of_ranks(text: str) -> str:
    return "".join(f"(Worker_TP{rank} pid={100 + rank}) {line}" for line in text.splitlines(keepends=True) for rank in range(4))


def among_others(text: str) -> str:
    other = "node1:17:33 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
    return "".join(line + other for line in text.splitlines(keepends=True))


def coloured(text: str) -> str:
    return "".join(f"\x1b[36m(EngineCore pid=33)\x1b[0;0m \x1b[1m{line.rstrip()}\x1b[0m\n" for line in text.splitlines())


def in_the_middle(text: str) -> str:
    lines = text.splitlines(keepends=True)
    half = len(lines) // 2
    return "".join([*lines[:half], 25_000 * f"INFO {100 * '.'}\n", *lines[half:]])


WAYS = {
    "pod": each("[pod/model-0/engine] 2026-01-01T10:00:00.123456Z "),
    "Ray": each("(RayWorkerWrapper pid=123, ip=192.0.2.2) "),
    "Compose": each("engine-1  | "),
    "journal": each("Dec 01 10:10:10 host serving[1234]: "),
    "srun": each("3: "),
    "Docker": lambda text: "".join(json.dumps({"log": line, "stream": "stderr"}) + "\n" for line in text.splitlines(keepends=True)),
    "ranks": of_ranks,
    "NCCL": among_others,
    "coloured": coloured,
    "Windows": lambda text: text.replace("\n", "\r\n"),
    "cut": lambda text: text.partition("\n")[0][-60:] + "\n" + text,
    "long": in_the_middle,
    "broken bytes": lambda text: "\udcff\udc80 torn\n" + text,
}


@pytest.mark.parametrize("way", WAYS)
def test_however_the_log_was_collected(way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, expected in EXPECTED.items():
        log = tmp_path / name
        log.write_bytes(WAYS[way]((LOGS / name).read_text()).encode(errors="surrogateescape"))
        found = diagnosed(capsys, str(log), *expected["options"])
        suspects = found["suspects"]
        assert isinstance(suspects, list)
        assert (found["launch"], [one["id"] for one in suspects][:1]) == (True, [expected["first"]]), name
        for seen in suspects[0]["seen"]:
            line = log.read_bytes().decode(errors="replace").split("\n")[seen["line"] - 1]
            assert line.strip()[:200] == seen["text"]


def test_the_launch_of_a_long_log_keeps_its_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "long.log"
    log.write_text(30_000 * f"INFO {100 * '.'}\n" + (LOGS / "eager.log").read_text())
    assert main(["facts", str(log)]) == 0
    assert "long.log:3000" in capsys.readouterr().out
    log.with_suffix(".yaml").write_text(700_000 * "a: 1\n")
    assert main(["facts", str(log.with_suffix(".yaml"))]) == 2
