"""Repack FlashInfer zips made by the shared `pack_flashinfer.py` so that several releases travel together: what is only
needed to compile kernels goes (the all-reduce module is prebuilt), and so do kernels' tables of other operators.

    python tests/gpu/slim_packages.py .fi .fi/slim"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

DROPPED = ("flashinfer/tuning_configs/", "flashinfer/data/")
KEPT = ("flashinfer/data/aot/",)


def wanted(name: str, size: int) -> bool:
    if name.startswith(KEPT):
        return True
    return not name.startswith(DROPPED) and not (name.endswith(".json") and size > 20_000)


def slim(source: Path, target: Path) -> int:
    """Copy the wanted members; returns the size of the new archive in bytes."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_LZMA) as new:
        for member in old.infolist():
            if wanted(member.filename, member.file_size):
                new.writestr(member.filename, old.read(member))
    return target.stat().st_size


if __name__ == "__main__":
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for archive in sorted(folder.glob("flashinfer-*.zip")):
        print(f"{archive.name}: {slim(archive, out / archive.name) / 1e6:.1f} MB")
    for wheel in sorted((folder / "whl").glob("*.whl")):
        (out / wheel.name).write_bytes(wheel.read_bytes())
