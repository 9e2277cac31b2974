"""CPU time of one cold `policy explain` against a bare interpreter and the imports it is made of.

    python bench/bench_explain.py [--runs 9]

Each row is the smallest user + system time of whole processes; ratios are against the bare interpreter in the same run.
Peers are the imports that comparable tools cannot do without.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile

EXPLAIN = [
    "-m",
    "policy",
    "explain",
    "allreduce_rms",
    "--set",
    "engine.version=0.22.1",
    "--device",
    "gb200-nvl72",
    "--",
    "vllm",
    "serve",
    "m",
    "-tp",
    "2",
    "-pp",
    "2",
]
ROWS = {
    "bare interpreter": ["-c", "pass"],
    "import argparse, json": ["-c", "import argparse, json"],
    "import pydantic, one model": ["-c", "import pydantic\nclass M(pydantic.BaseModel):\n a: int = 1\nM()"],
    "import yaml": ["-c", "import yaml"],
    "policy --version": ["-m", "policy", "--version"],
    "policy explain, one fusion": EXPLAIN,
    "policy explain -q, all fusions": ["-m", "policy", "explain", "-q", *EXPLAIN[4:]],
    "policy explain, nothing compiled": EXPLAIN,
}


def cpu(words: list[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as cache:
        for name, words in ROWS.items():
            fresh = name.endswith("nothing compiled")
            samples = []
            for run in range(options.runs):
                folder = os.path.join(cache, str(run)) if fresh else cache
                variables = {**os.environ, "XDG_CACHE_HOME": folder}
                variables.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
                if fresh:
                    variables["FUSION_POLICY_NO_SHIPPED_PACK"] = "1"
                samples.append(cpu(words, variables))
            times[name] = min(samples)
    bare = times["bare interpreter"]
    print("| process | CPU ms | times a bare interpreter |\n|---|---|---|")
    for name, seconds in times.items():
        print(f"| {name} | {seconds * 1000:.0f} | {seconds / bare:.1f} |")


if __name__ == "__main__":
    main()
