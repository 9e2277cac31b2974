"""Scores files of recorded answers against the pack: python tests/score_conformance.py FILE...

Each file holds rows of one format that `tests/conformance/` knows. Prints rows, agreements and the first disagreements;
exits 1 on any disagreement, 2 on a file that is empty, cannot be read or has no known format."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from policy.load import read_pack  # noqa: E402
from tests.conformance import read_rows, scorer_of  # noqa: E402

SHOWN = 10


def main(files: list[str]) -> int:
    """Score every file."""
    if not files:
        print(__doc__, file=sys.stderr)
        return 2
    pack = read_pack(ROOT / "rules", compiled=False)
    worst = 0
    for name in files:
        try:
            rows = read_rows(name)
        except (OSError, ValueError, EOFError) as error:
            print(f"{name}: cannot be read: {error}", file=sys.stderr)
            worst = 2
            continue
        scorer = scorer_of(rows[0]) if rows else None
        if scorer is None:
            print(f"{name}: {'no scorer knows this format: ' + json.dumps(rows[0])[:200] if rows else 'no rows'}", file=sys.stderr)
            worst = 2
            continue
        start = time.perf_counter()
        total, agreements, disagreements = scorer.compare(pack, rows)
        print(f"{name}: {agreements} of {total} rows agree ({time.perf_counter() - start:.1f} s)")
        for text in disagreements[:SHOWN]:
            print(f"  {text}")
        if len(disagreements) > SHOWN:
            print(f"  and {len(disagreements) - SHOWN} more")
        if disagreements or total == 0:
            worst = max(worst, 1)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
