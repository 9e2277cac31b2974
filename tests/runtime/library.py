"""Writes the stand-in kernel library as an installed distribution of a given release."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parent / "standin"


def write_library(folder: Path, version: str, group: bool = True, era: str | None = None) -> Path:
    """Put `flashinfer` of `version` into `folder` (to go first on sys.path). `group`: whether its create function takes it."""
    comm = folder / "flashinfer" / "comm"
    comm.mkdir(parents=True, exist_ok=True)
    era = era or ("symmetric_memory" if version.startswith(("0.6.10", "0.6.11", "0.6.12", "0.6.13", "0.6.14")) else "handles")
    for file in (SOURCE / "flashinfer").rglob("*.py"):
        text = file.read_text(encoding="utf-8").replace("@ERA@", era)
        if not group and file.name == "allreduce.py":
            without = text.replace("    group=None,\n", "").replace("dtype, comm_backend, group)\n", "dtype, comm_backend, None)\n")
            assert without.count("group=None") == text.count("group=None") - 1, "the stand-in's create function has changed"
            text = without
        (folder / file.relative_to(SOURCE)).write_text(text, encoding="utf-8")
    kernels = folder / "flashinfer" / "data" / "aot" / "trtllm_comm"
    kernels.mkdir(parents=True, exist_ok=True)
    (kernels / "trtllm_comm.so").write_bytes(b"")
    metadata = folder / f"flashinfer_python-{version}.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: flashinfer-python\nVersion: {version}\n", encoding="utf-8")
    return folder
