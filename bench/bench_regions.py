"""Cost of exact analysis: boxes against z3 on the same questions, and every analysis of the pack that ships.

    python bench/bench_regions.py [--questions 30] [--no-z3]

The first table asks, of random packs up to 300 rules over 60 facts and of the pack that ships, whether a part of one rule,
or of the whole space, lies outside all others (`covered` counts those where none does); of the pack that ships, whether a
part of one rule lies outside the others about the same plan, in which the plan is called.
CPU milliseconds, median and largest. z3 is used where it is installed; both answer the same questions in the same run.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
from datetime import date
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any

from policy.analyse.boxes import Box, TooWideError, outside
from policy.analyse.diff import diff, upgrade
from policy.analyse.flips import search
from policy.analyse.report import report
from policy.analyse.whole import Whole
from policy.commands.long_work import long_work
from policy.launch import Launch
from policy.load import read_pack
from policy.pack import Pack
from policy.records import replace

SIZES = [(10, 10), (20, 40), (40, 150), (60, 300)]
#: Engine, library and sizes of the launches whose smallest changes are searched.
LAUNCHES: list[tuple[str, str, dict[str, int]]] = [
    ("0.22.1", "0.6.11.post2", {"pipeline": 2}),
    ("0.20.2", "0.6.8.post1", {"pipeline": 2}),
    ("0.24.0", "0.6.9", {}),
    ("0.23.0", "0.6.12", {"data": 2}),
]
#: Releases that are compared for every launch and fusion.
UPGRADES: list[tuple[dict[str, str], dict[str, str]]] = [
    ({"engine.name": "vllm", "engine.version": "0.23.0"}, {"engine.name": "vllm", "engine.version": "0.24.0"}),
    ({"packages.flashinfer-python": "0.6.9"}, {"packages.flashinfer-python": "0.6.10.post1"}),
]
Question = tuple[dict[str, int], Box, list[Box]]


def random_question(rng: random.Random, facts: int, rules: int) -> Question:
    """Cells of each fact, and boxes of three comparisons each: a range of cells of an ordered fact, or some names."""
    cells = {f"fact{number}": rng.choice((2, 2, 3, 4, 6, 12)) for number in range(facts)}
    boxes = []
    for _ in range(rules + 1):
        box: Box = {}
        for name in rng.sample(sorted(cells), 3):
            count = cells[name]
            if rng.random() < 0.5:
                low = rng.randrange(count)
                high = rng.randrange(low, count)
                mask = ((1 << (high - low + 1)) - 1) << low
            else:
                mask = rng.randrange(1, 1 << count)
            if mask != (1 << count) - 1:
                box[name] = mask
        boxes.append(box)
    return cells, boxes[0] if rng.random() < 0.5 else {}, boxes[1:]


def by_boxes(cells: dict[str, int], region: Box, boxes: list[Box]) -> bool | None:
    full = {name: (1 << count) - 1 for name, count in cells.items()}
    try:
        return outside(region, boxes, full) is not None
    except TooWideError:
        return None


def by_z3(z3: Any, cells: dict[str, int], region: Box, boxes: list[Box]) -> bool:
    variables = {name: z3.Int(name) for name in cells}

    def of(box: Box) -> Any:
        parts = []
        for name, mask in box.items():
            ranges, start = [], None
            for cell in range(cells[name] + 1):
                held = mask >> cell & 1
                if held and start is None:
                    start = cell
                elif not held and start is not None:
                    ranges.append(z3.And(variables[name] >= start, variables[name] < cell))
                    start = None
            parts.append(z3.Or(*ranges))
        return z3.And(*parts)

    solver = z3.Solver()
    solver.add(*(z3.And(variables[name] >= 0, variables[name] < count) for name, count in cells.items()))
    solver.add(of(region), *(z3.Not(of(box)) for box in boxes))
    return bool(solver.check() == z3.sat)


def milliseconds(function: Any, *arguments: Any) -> tuple[float, Any]:
    started = process_time()
    result = function(*arguments)
    return (process_time() - started) * 1e3, result


def real_questions(pack: Pack, questions: int) -> list[Question]:
    """Parts of the rules of the pack that ships, with the other rules about the same plan."""
    whole = Whole(pack)
    space = whole.analysis.space
    cells = {name: len(space.cells(name)) for name in space.full}
    found: list[Question] = []
    for plan in (plan for fusion in pack.fusions.values() for plan in fusion.plans):
        rules = [rule for rule in pack.rules_for(plan) if rule.effect == "exclude"]
        boxes = {rule.id: space.boxes(rule.when) for rule in rules}
        for rule in rules:
            others = [box for name, held in boxes.items() if name != rule.id for box in held]
            found.extend(({**cells}, region, others) for region in whole.analysis.all_of((rule.when, plan.call))[:1])
    chosen = random.Random(1).sample(found, min(questions, len(found)))
    return [(_asked(question), *question[1:]) for question in chosen]


def _asked(question: Question) -> dict[str, int]:
    """The cells of the facts that a question speaks of."""
    cells, region, boxes = question
    return {name: count for name, count in cells.items() if name in region or any(name in box for box in boxes)}


def scaling(pack: Pack, questions: int, z3: Any) -> None:
    print("| facts x rules | covered | boxes median | boxes largest | given up | z3 median | z3 largest | agree |\n|---|---|---|---|---|---|---|---|")
    for facts, rules in SIZES:
        asked = [random_question(random.Random(f"{facts} {rules} {seed}"), facts, rules) for seed in range(questions)]
        row(f"{facts} x {rules}", asked, z3)
    real = real_questions(pack, questions)
    most = max(len(cells) for cells, _, _ in real), max(len(boxes) for _, _, boxes in real)
    row(f"the pack, up to {most[0]} facts x {most[1]} boxes", real, z3)


def row(name: str, questions: list[Question], z3: Any) -> None:
    ours: list[float] = []
    theirs: list[float] = []
    agree = given_up = covered = 0
    for question in questions:
        time, answer = milliseconds(by_boxes, *question)
        ours.append(time)
        given_up += answer is None
        covered += answer is False
        if z3 is not None:
            time, other = milliseconds(by_z3, z3, *question)
            theirs.append(time)
            agree += answer is other
    solver = f"{statistics.median(theirs):.2f} | {max(theirs):.1f} | {agree} of {len(questions) - given_up}" if theirs else "- | - | -"
    print(f"| {name} | {covered} | {statistics.median(ours):.2f} | {max(ours):.2f} | {given_up} | {solver} |")


def real_pack(folder: Path) -> None:
    time, pack = min((milliseconds(lambda: read_pack(folder, compiled=False)) for _ in range(3)), key=lambda one: one[0])
    print(f"\n| the pack: {len(pack.rules)} rules, {len(pack.fusions)} fusions, {len(pack.facts)} facts | CPU ms |\n|---|---|")
    print(f"| load, best of 3 | {time:.0f} |")
    time, found = min((milliseconds(report, pack) for _ in range(3)), key=lambda one: one[0])
    for name, seconds in found.seconds.items():
        print(f"| check: {name} | {seconds * 1e3:.0f} |")
    print(f"| check, together, best of 3 | {time:.0f} |")
    score = found.score
    print(
        f"| mistakes made, of them none, noticed (with {score.cases} generated cases), noticed by written cases, not noticed "
        f"| {score.made}, {score.equivalent}, {score.percent:.1f} %, {score.percent_written:.1f} %, {len(score.survivors)} |"
    )
    print(f"| invariants proved | {sum(proof.status == 'proved' for proof in found.proofs)} of {len(found.proofs)} |")
    time, same = milliseconds(diff, pack, pack)
    print(f"| difference of the pack from itself ({len(same.changes)} changes) | {time:.0f} |")
    rule = "group-argument-missing"
    fewer = replace(pack, rules={name: one for name, one in pack.rules.items() if name != rule}, digest="without")
    time, changed = milliseconds(lambda: diff(fewer, pack))
    print(f"| difference when `{rule}` is added ({len(changed.changes)} regions, complete: {changed.complete}) | {time:.0f} |")
    for before, after in UPGRADES:
        time, changed = milliseconds(upgrade, pack, before, after)
        words = f"{' '.join(before.values())} to {list(after.values())[-1]}"
        print(f"| every fusion, {words} ({len(changed.changes)} regions, complete: {changed.complete}) | {time:.0f} |")
    times = []
    for engine, library, sizes in LAUNCHES:
        facts = {
            "engine.name": "vllm",
            "engine.version": engine,
            "packages.flashinfer-python": library,
            "device.platform": "cuda",
            "device.compute_capability": "9.0",
            "device.interconnect": "nvswitch",
            "device.gpus_per_node": 8,
            "parallel.tensor_parallel_size": 2,
            "model.is_moe": True,
            **{f"parallel.{name}_parallel_size": size for name, size in sizes.items()},
        }
        launch = Launch.of(pack, facts)
        times.append(min(milliseconds(search, pack, launch, "allreduce_rms", "safe", 5.0)[0] for _ in range(5)))
    print(f"| smallest changes of one launch, best of 5: median, largest | {statistics.median(times):.0f}, {max(times):.0f} |")


def machine() -> str:
    """The processor as the system names it, and the interpreter."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, {date.today()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--no-z3", action="store_true")
    options = parser.parse_args()
    try:
        z3 = None if options.no_z3 else import_module("z3")
    except ImportError:
        z3 = None
    folder = Path(__file__).resolve().parent.parent / "rules"
    print(f"# Exact analysis\n\n`python bench/bench_regions.py --questions {options.questions}` on {machine()}.")
    version = f"z3 {z3.get_version_string()}" if z3 is not None else "z3 is not installed: boxes alone"
    print(f"CPU milliseconds; {version}.\n")
    with long_work():
        scaling(read_pack(folder, compiled=False), options.questions, z3)
        real_pack(folder)


if __name__ == "__main__":
    main()
