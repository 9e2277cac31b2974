"""Scores files of command-line cases: python tests/score_cli.py FILE...

Each line is one case as `conformance/vllm_cli_cases.jsonl` and `conformance/sglang_cli_cases.jsonl` hold them: `version`,
`argv`, `config_file`, `config_yaml`, `expected` (null where the engine refuses), and for vLLM `entry`. Prints rows,
agreements and the first disagreements; exits 1 on any disagreement."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from policy.launchers import sglang_command, vllm_command
from policy.launchers.catalogue import defaults
from policy.launchers.found import Word
from policy.launchers.settings import Settings
from policy.origin import Origin

SHOWN = 10
PROGRAMS = {"serve": ["vllm"], "api_server": ["python", "-m", "vllm.entrypoints.openai.api_server"], None: ["python", "-m", "sglang.launch_server"]}


def words_of(texts: list[str]) -> list[Word]:
    """The words of a command, counted from 1 for the program."""
    return [Word(text, Origin("argument", argument=number)) for number, text in enumerate(texts, 1)]


def read(case: dict[str, Any]) -> Settings:
    """The case through the parser of its engine."""
    files = {case["config_file"]: case["config_yaml"]} if case.get("config_file") else {}
    words = words_of([*PROGRAMS[case.get("entry")], *case["argv"]])
    if case.get("entry"):
        return vllm_command.read_command(words, case["version"], files)
    return sglang_command.read_command(words, case["version"], files)


def answer(case: dict[str, Any]) -> dict[str, Any] | None:
    """What the case gives in the form of its `expected`; None where the engine refuses the command."""
    settings = read(case)
    if settings.errors:
        return None
    values = {**defaults(settings.engine, case["version"]), **{name: setting.value for name, setting in settings.values.items()}}
    expected = case["expected"] or {}
    if not case.get("entry"):
        return {name: values.get(name) for name in expected}
    compilation = values["compilation_config"]
    passes = vllm_command.pass_config(settings)
    plain = {line["name"]: line.get("default", False if line["type"] == "bool" else None) for line in vllm_fields(case["version"])}
    special = {
        "optimization_level": values.get("optimization_level"),
        "compilation_mode": compilation.get("mode"),
        "fuse_allreduce_rms": passes.get("fuse_allreduce_rms"),
        "pass_config": {name: value for name, value in passes.items() if name != "fuse_allreduce_rms" and value != plain[name]},
    }
    return {name: special[name] if name in special else values.get(name) for name in expected}


def vllm_fields(version: str) -> list[dict[str, Any]]:
    """The keys of `pass_config` in a release."""
    from policy.launchers.vllm_objects import fields_of

    return list(fields_of("pass_config", version).values())


def cases(path: Path) -> Iterator[dict[str, Any]]:
    """The cases of a file, gzipped or not."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    yield from (json.loads(line) for line in text.splitlines() if line.strip())


def disagreement(case: dict[str, Any]) -> str | None:
    """What differs, None where nothing does."""
    got = answer(case)
    if got == case["expected"]:
        return None
    settings = read(case)
    wanted = f"the engine refuses: {case['error']}" if case["expected"] is None else case["expected"]
    found = "refused: " + "; ".join(notice.message for notice in settings.errors) if got is None else got
    if got is not None and case["expected"] is not None:
        wanted = {name: value for name, value in case["expected"].items() if got[name] != value}
        found = {name: got[name] for name in wanted}
    name = f"{settings.engine} {case['version']} {case.get('topic', '')} {json.dumps(case['argv'])} {case.get('config_yaml') or ''}"
    return f"{name}\n    expected {wanted}\n    got      {found}"


def score(path: Path) -> tuple[int, list[str]]:
    """Rows of a file and its disagreements."""
    rows, wrong = 0, []
    for case in cases(path):
        rows += 1
        text = disagreement(case)
        if text is not None:
            wrong.append(text)
    return rows, wrong


def main(names: list[str]) -> int:
    """Scores the files."""
    if not names:
        print(__doc__)
        return 2
    bad = 0
    for name in names:
        rows, wrong = score(Path(name))
        bad += len(wrong)
        print(f"{name}: {rows} rows, {rows - len(wrong)} agree, {len(wrong)} do not")
        for text in wrong[:SHOWN]:
            print("  " + text)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
