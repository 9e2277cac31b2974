"""The first line of every YAML file of a pack, by which editors find its schema.

python -m tests.modelines          says which files lack it
python -m tests.modelines --write  adds or repairs it
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from policy.load import kind_of, pack_files

ROOT = Path(__file__).parents[1]
RULES = ROOT / "rules"
MARK = "# yaml-language-server: $schema="


def expected(path: Path) -> str | None:
    """The modeline of a file of the pack; None for a file that has no schema."""
    kind = kind_of(path.relative_to(RULES))
    if not kind:
        return None
    schema = ROOT / "schemas" / f"{kind}.schema.json"
    return MARK + Path(os.path.relpath(schema, path.parent)).as_posix()


def missing() -> Iterator[Path]:
    """The files whose first line is another one."""
    for path in pack_files(RULES):
        line = expected(path)
        if line is not None and path.read_text(encoding="utf-8").split("\n", 1)[0] != line:
            yield path


def write(path: Path) -> None:
    """Put the modeline first, in place of a wrong one."""
    text = path.read_text(encoding="utf-8")
    first, _, rest = text.partition("\n")
    path.write_text(f"{expected(path)}\n{rest if first.startswith(MARK) else text}", encoding="utf-8")


def main() -> int:
    """Say or repair what is missing; 1 where something is."""
    paths = list(missing())
    for path in paths:
        print(path.relative_to(ROOT))
        if "--write" in sys.argv:
            write(path)
    return 1 if paths and "--write" not in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
