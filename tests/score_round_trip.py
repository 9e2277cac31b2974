"""What is written back is read again the same: recorded command lines, the commands of a folder of launch files, and
the files themselves.

    python tests/score_round_trip.py [FOLDER] [--all]

FOLDER holds INDEX.jsonl and the files it names, and may hold commands.jsonl (default: the shared corpus, else the sample
under tests). Prints the numbers and their totals, and with `--all` every launch or file that could not be written and
why; ends with 1 where something was written that reads otherwise."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file as well

from policy.decision import Verdict
from policy.evaluate import evaluate
from policy.launch import Launch
from policy.launchers.containers import find_launches
from policy.launchers.found import FoundLaunch
from policy.launchers.patching import REPORTS, Wanted, patched
from policy.launchers.read import READERS, ReadLaunch, device_facts, from_command, read_launch
from policy.launchers.resolve import Resolution, resolve
from policy.launchers.rewrite import changes_of, leaves, read_words, rewritten
from policy.launchers.rewriting import Change
from policy.load import read_pack
from policy.origin import Origin
from policy.pack import Pack
from tests.shared import shared_path

ARGUMENTS = "VLLM_ADDITIONAL_ARGS"
SAMPLE = Path(__file__).with_name("corpus_sample")


@dataclass(frozen=True, slots=True)
class Assumed:
    """Facts that are stated for every launch of an engine, so that something has to be written."""

    engine: str
    device: str
    posture: str
    facts: dict[str, Any]


#: name -> what is assumed; each makes the engine's own default a hazard, a worse plan, or a missed fusion.
ASSUMPTIONS = {
    "vLLM: a hang": Assumed(
        "vllm",
        "h200-sxm8",
        "safe",
        {
            "engine.version": "0.22.1",
            "packages.flashinfer-python": "0.6.11.post2",
            "parallel.tensor_parallel_size": 2,
            "parallel.pipeline_parallel_size": 2,
            "parallel.nodes": 1,
            "device.gpus_per_node": 8,
        },
    ),
    "vLLM: another plan": Assumed(
        "vllm",
        "h200-sxm8",
        "safe",
        {
            "engine.version": "0.26.0",
            "packages.flashinfer-python": "0.6.14",
            "parallel.tensor_parallel_size": 8,
            "parallel.pipeline_parallel_size": 1,
            "parallel.data_parallel_size": 1,
            "parallel.nodes": 1,
            "device.gpus_per_node": 8,
        },
    ),
    "vLLM: missed": Assumed(
        "vllm",
        "h200-sxm8",
        "fast",
        {
            "engine.version": "0.20.2",
            "packages.flashinfer-python": "0.6.12",
            "parallel.tensor_parallel_size": 2,
            "parallel.pipeline_parallel_size": 2,
            "parallel.nodes": 1,
            "runtime.builder": "adapter",
            "device.gpus_per_node": 8,
        },
    ),
    "SGLang: a hang": Assumed(
        "sglang",
        "h200-sxm8",
        "safe",
        {
            "engine.version": "0.5.10.post1",
            "model.architecture": "Qwen3MoeForCausalLM",
            "parallel.tensor_parallel_size": 4,
            "parallel.pipeline_parallel_size": 2,
            "parallel.nodes": 1,
            "parallel.dp_attention": False,
            "parallel.data_parallel_size": 1,
            "engine.all2all_backend": "none",
            "device.gpus_per_node": 8,
        },
    ),
    "SGLang: another plan": Assumed(
        "sglang",
        "b200-sxm8",
        "safe",
        {
            "engine.version": "0.5.14",
            "model.architecture": "Qwen3MoeForCausalLM",
            "parallel.tensor_parallel_size": 4,
            "parallel.pipeline_parallel_size": 1,
            "parallel.nodes": 1,
            "parallel.dp_attention": False,
            "parallel.data_parallel_size": 1,
            "engine.all2all_backend": "none",
            "device.gpus_per_node": 8,
        },
    ),
    "SGLang: missed": Assumed(
        "sglang",
        "h200-sxm8",
        "fast",
        {
            "engine.version": "0.5.12.post1",
            "model.architecture": "LlamaForCausalLM",
            "parallel.tensor_parallel_size": 4,
            "parallel.pipeline_parallel_size": 1,
            "parallel.nodes": 1,
            "parallel.dp_attention": False,
            "parallel.data_parallel_size": 1,
            "device.gpus_per_node": 8,
        },
    ),
}
#: engine -> the version assumed for files and what is written into each of them, whatever would be decided.
FORCED = {
    "vllm": ("0.22.1", (("flag", "-cc.pass_config.fuse_allreduce_rms=false"),), {"VLLM_FLASHINFER_ALLREDUCE_BACKEND": "trtllm"}),
    "sglang": ("0.5.14", (("flag", "--enforce-disable-flashinfer-allreduce-fusion"),), {"SGLANG_USE_AITER": "0"}),
    "tensorrt_llm": (None, (), {"TRTLLM_DEEPSEEK_EAGER_FUSION_DISABLED": "1"}),
}


@dataclass
class Score:
    """Counts by what happened, and a line for everything that went wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def fail(self, kind: str, text: str) -> None:
        self.counts[kind] += 1
        self.failures.append(f"{kind}: {text}")


# --- recorded command lines ---


def recorded() -> Iterator[tuple[str, str, list[str], dict[str, str]]]:
    """Engine, version, words and files of every command line that a release accepted."""
    for engine, file in (("vllm", "vllm_cli_cases.jsonl"), ("sglang", "sglang_cli_cases.jsonl")):
        path = shared_path(f"conformance/{file}")
        for line in path.read_text().splitlines() if path is not None else []:
            row = json.loads(line)
            if row["error"] is not None:
                continue
            program = (
                ["vllm"]
                if row.get("entry") == "serve"
                else ["python", "-m", "vllm.entrypoints.openai.api_server" if engine == "vllm" else "sglang.launch_server"]
            )
            yield engine, row["version"], program + row["argv"], {row["config_file"]: row["config_yaml"]} if row["config_file"] else {}


def switches(engine: str, version: str) -> list[tuple[str, str]]:
    """What is written into recorded command lines."""
    if engine == "sglang":
        texts = ["--enforce-disable-flashinfer-allreduce-fusion", "--flashinfer-allreduce-fusion-backend trtllm", "--enable-flashinfer-allreduce-fusion"]
        return [
            ("flag", text)
            for text in texts
            if not read_words(engine, version, ["python", "-m", "sglang.launch_server", "--model-path", "m", *text.split()]).errors
        ]
    if version < "0.12":
        return [("flag", "--compilation-config '" + json.dumps({"pass_config": {"enable_fi_allreduce_fusion": value}}) + "'") for value in (False, True)]
    return [("flag", f"-cc.pass_config.fuse_allreduce_rms={value}") for value in ("false", "true")]


def score_recorded(score: Score, rows: Sequence[tuple[str, str, list[str], dict[str, str]]]) -> None:
    for engine, version, words, files in rows:
        for switch in switches(engine, version):
            score.counts["recorded"] += 1
            changes = changes_of(engine, version, [switch])
            result = rewritten(engine, version, words, changes, files)
            if result.problem:
                score.fail("recorded: not written", f"{version} {shlex.join(words)}: {result.problem}")
                continue
            reason = unlike(engine, version, words, result.words, files, changes)
            if reason:
                score.fail("recorded: wrong", f"{version} {shlex.join(words)} -> {shlex.join(result.words)}: {reason}")
            elif rewritten(engine, version, result.words, changes, files).words != result.words:
                score.fail("recorded: not settled", f"{version} {shlex.join(result.words)}")
            else:
                score.counts["recorded: right"] += 1


def unlike(engine: str, version: str | None, before: Sequence[str], after: Sequence[str], files: dict[str, str], changes: Sequence[Change]) -> str:
    """Why the second command is not the first with the changes, without the help of what wrote it."""
    first, second = (read_words(engine, version, words, files) for words in (before, after))
    if first.catalogue_version != second.catalogue_version:
        first = read_words(engine, second.catalogue_version, before, files)
    old, new = leaves(first), leaves(second)
    for change in changes:
        if new.get(change.path) != change.value:
            return f"{change.path} is {new.get(change.path)}"
    changed = {change.path for change in changes}
    other = sorted(path for path in {*old, *new} - changed if old.get(path) != new.get(path))
    if other:
        return f"{other[0]} changed from {old.get(other[0])} to {new.get(other[0])}"
    objects = [word for word in after if word.partition("=")[0].replace("_", "-") in ("--compilation-config", "-cc")]
    dotted = [word for word in after if word.startswith(("--compilation-config.", "--compilation_config.", "-cc."))]
    if len(objects) > 1 or (objects and dotted) or len({word.partition(".")[0] for word in dotted}) > 1:
        return "the object has more than one form"
    return ""


# --- the commands of launches in files ---


def entries(folder: Path, every: int = 1) -> Iterator[tuple[str, str, str]]:
    """Kind, name and text of every file (or of every so many), the launch records last."""
    for line in (folder / "INDEX.jsonl").read_text().splitlines()[::every]:
        entry = json.loads(line)
        yield entry["kind"], str(folder / entry["file"]), (folder / entry["file"]).read_text()
    if (folder / "commands.jsonl").exists():
        yield "commands", str(folder / "commands.jsonl"), (folder / "commands.jsonl").read_text()


def read_with(pack: Pack, found: FoundLaunch, assumed: Assumed, files: dict[str, str]) -> ReadLaunch:
    """A launch under what is assumed, the assumed winning."""
    read = read_launch(pack, found, str(assumed.facts["engine.version"]), files.get, False)
    device_facts(pack, read.launch, assumed.device)
    stated = Launch.of(pack, assumed.facts, Origin("set"))
    read.launch.given.update(stated.given)
    return read


def summary(verdict: Verdict) -> dict[str, tuple[str, str | None]]:
    return {
        decision.fusion: (decision.state, decision.chosen.id if decision.chosen is not None and decision.state == "on" else None)
        for decision in verdict.decisions
    }


def score_commands(score: Score, pack: Pack, folder: Path, names: Sequence[str] = tuple(ASSUMPTIONS), every: int = 1) -> None:
    for kind, name, text in entries(folder, every):
        for found in find_launches(text, name).launches:
            score.counts[f"launches: {found.engine}"] += 1
            for title in names:
                assumed = ASSUMPTIONS[title]
                if assumed.engine == found.engine:
                    _one_command(score, pack, found, title, assumed, f"{kind}: {Path(name).name}: {found.name}")


def _one_command(score: Score, pack: Pack, found: FoundLaunch, title: str, assumed: Assumed, label: str) -> None:
    score.counts[f"commands under `{title}`"] += 1
    read = read_with(pack, found, assumed, found.files)
    verdict = evaluate(pack, read.launch, assumed.posture, ["allreduce_rms"])
    resolution = resolve(pack, read, verdict, found.files)
    if not resolution.changed:
        score.counts[f"commands under `{title}`: nothing to change"] += 1
    if resolution.result.problem:
        score.fail("commands: not written", f"{title}: {label}: {resolution.result.problem}")
        return
    reason = read_again(pack, resolution, assumed)
    if reason:
        score.fail("commands: wrong", f"{title}: {label}: {reason}: {resolution.command()}")
    else:
        score.counts[f"commands under `{title}`: right"] += 1


def read_again(pack: Pack, resolution: Resolution, assumed: Assumed) -> str:
    """Why the printed command does not say what was decided; empty where it does."""
    given = resolution.read.found
    assert given is not None
    printed = from_command(shlex.split(resolution.command()))
    before = [word.text for word in given.words]
    reason = unlike(given.engine, resolution.version, before, [word.text for word in printed.words], given.files, resolution.flags)
    if reason:
        return reason
    expected = {**{name: word.text for name, word in given.environment.items()}, **resolution.environment}
    if {name: word.text for name, word in printed.environment.items()} != expected:
        return "the environment differs"
    printed.stated, printed.image, printed.version = given.stated, given.image, given.version
    again = read_with(pack, printed, assumed, given.files)
    verdict = evaluate(pack, again.launch, assumed.posture, ["allreduce_rms"])
    if summary(verdict) != summary(resolution.verdict):
        return f"decided {summary(verdict)} after {summary(resolution.verdict)}"
    second = resolve(pack, again, verdict, given.files)
    left = [change.path for change in second.flags if change not in resolution.flags]
    return f"a second pass changes {left}" if left or second.result.words != [word.text for word in printed.words] else ""


# --- the files ---


def score_files(score: Score, folder: Path, every: int = 1) -> None:
    """Every file with launches: flags and a variable written into all of its launches, and read again."""
    for kind, name, text in entries(folder, every):
        found = find_launches(text, name)
        if not found.launches or kind == "commands":
            continue
        score.counts[f"files: {kind}"] += 1
        score.counts["files"] += 1
        for what in ("flags", "variables"):
            wanted = [forced(launch, what) for launch in found.launches]
            started = time.monotonic()
            made, problems = patched(text, name, wanted)
            score.counts[f"seconds for {what}"] += round(time.monotonic() - started)
            if not any(one.flags or one.variables for one in wanted):
                score.counts[f"files, {what}: nothing to write"] += 1
            elif problems:
                score.counts[f"files, {what}: {'a log' if found.format in REPORTS else f'not written ({kind})'}"] += 1
                if found.format not in REPORTS:
                    score.failures.extend(
                        f"{what}: {Path(name).name}: {found.launches[number].name or number} ({found.format}, {found.launches[number].engine}): {problem}"
                        for number, problem in problems.items()
                    )
            else:
                reason = wrong_file(text, made, name, wanted)
                if reason:
                    score.fail(f"files, {what}: wrong", f"{name}: {reason}")
                else:
                    score.counts[f"files, {what}: written"] += 1


def forced(launch: FoundLaunch, what: str) -> Wanted:
    version, texts, variables = FORCED[launch.engine]
    if what == "variables":
        return Wanted(launch.engine, version, (), variables)
    return Wanted(launch.engine, version, tuple(changes_of(launch.engine, version, texts)))


def wrong_file(old: str, new: str, name: str, wanted: Sequence[Wanted]) -> str:
    """Why the new file is not the old one with what was wanted, without the help of what wrote it."""
    before, after = find_launches(old, name).launches, find_launches(new, name).launches
    if len(before) != len(after):
        return "other launches"
    for one, other, want in zip(before, after, wanted, strict=True):
        had, has = ({key: word.text for key, word in launch.environment.items()} for launch in (one, other))
        if want.flags and has.get(ARGUMENTS, "") != had.get(ARGUMENTS, "") and has[ARGUMENTS].startswith(had.get(ARGUMENTS, "")):
            had[ARGUMENTS] = has[ARGUMENTS]  # the controller makes words of the command of it
        if has != {**had, **want.variables}:
            return "another environment"
        if one.engine in READERS:
            old_words, new_words = ([word.text for word in launch.words] for launch in (one, other))
            olds, news = (
                leaves(read_words(one.engine, want.version, old_words, one.files)),
                leaves(read_words(one.engine, want.version, new_words, other.files)),
            )
            expected = {**olds, **{change.path: change.value for change in want.flags}}
            if news != expected:
                return f"other settings: {sorted(path for path in {*news, *expected} if news.get(path) != expected.get(path))}"
        if (one.image and one.image.text) != (other.image and other.image.text):
            return "another image"
    removed = [line for line in comments(old) if line not in comments(new)]
    return f"a comment is gone: {removed[0]}" if removed else ""


def comments(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.lstrip().startswith("#")]


def totals(counts: Counter[str]) -> Iterator[str]:
    """A line for commands recorded, commands of files and files: how many were right, of how many."""

    def total(begin: str, end: str = "") -> int:
        return sum(count for name, count in counts.items() if name.startswith(begin) and name.endswith(end))

    yield f"recorded commands: {counts['recorded: right']} of {counts['recorded']} right"
    written = total("commands under", ": right")
    asked = sum(count for name, count in counts.items() if name.startswith("commands under") and name.endswith("`"))
    yield f"commands of files: {written} of {asked} right, {counts['commands: wrong']} wrong, {counts['commands: not written']} not written"
    for what in ("flags", "variables"):
        open_ = total(f"files, {what}: not written")
        done, wrong = counts[f"files, {what}: written"], counts[f"files, {what}: wrong"]
        yield f"files, {what}: {done} of {done + wrong + open_} right, {wrong} wrong, {open_} not written"


def is_wrong(counts: Counter[str]) -> bool:
    return any(count and name.endswith((": wrong", ": not settled", "recorded: not written")) for name, count in counts.items())


def main(arguments: list[str]) -> int:
    names = [one for one in arguments if not one.startswith("--")]
    folder = Path(names[0]) if names else shared_path("corpus") or SAMPLE
    score = Score()
    score_recorded(score, list(recorded()))
    score_commands(score, read_pack(), folder)
    score_files(score, folder)
    for name, count in sorted(score.counts.items()):
        print(f"{count:>6}  {name}")
    if "--all" in arguments:
        print("\n".join(score.failures))
    print("\n".join(totals(score.counts)))
    return 1 if is_wrong(score.counts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
