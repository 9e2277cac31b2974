"""An environment in which published engine releases can be imported on a machine without a GPU.

    python tests/engines/prepare.py [vllm=0.22.1 …] [flashinfer-python=0.6.11.post2 …]

Makes `.venv-engines` with the light dependencies (no engine is installed) and unpacks the Python files of the named
releases into `.engines/NAME-VERSION`. What is there already is kept. Without names: what the tests always use.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".venv-engines"
RELEASES = ROOT / ".engines"
ALWAYS = ("vllm=0.22.1", "flashinfer-python=0.6.11.post2", "sglang=0.5.14", "flashinfer-python=0.6.12", "torchvision=0.28.0")
#: What the engines import on their way to a configuration.
DEPENDENCIES = (
    "torch==2.13.0", "transformers==5.20.0", "pydantic>=2.12", "pyyaml", "packaging", "cloudpickle", "msgspec", "psutil", "cachetools", "regex", "pyzmq", "openai",
    "fastapi", "prometheus_client", "blake3", "compressed-tensors", "py-cpuinfo", "gguf", "einops", "numpy", "pillow", "tiktoken", "partial-json-parser", "depyf",
    "setproctitle", "pybase64", "cbor2", "aiohttp", "uvloop", "requests", "tqdm", "typing_extensions", "filelock", "prometheus-fastapi-instrumentator",
    "python-json-logger", "openai_harmony", "mcp", "anthropic", "lark", "llguidance", "lm-format-enforcer", "diskcache", "pybind11", "python-multipart", "jinja2",
    "ijson", "watchfiles", "tabulate",
)  # fmt: skip
#: Marks a release of which all files were unpacked.
COMPLETE = "complete"
PLATFORMS = (
    "manylinux_2_35_x86_64",
    "manylinux_2_34_x86_64",
    "manylinux_2_31_x86_64",
    "manylinux_2_28_x86_64",
    "manylinux1_x86_64",
    "manylinux2014_x86_64",
    "any",
)


def environment() -> Path:
    """The environment's Python, installed where it is missing, with this checkout in it."""
    python = ENVIRONMENT / "bin" / "python"
    marker = ENVIRONMENT / "ready"
    if not marker.exists():
        venv.create(ENVIRONMENT, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *DEPENDENCIES], check=True)
        marker.write_text("")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "-e", ROOT], check=True)
    return python


def unpack(name: str, version: str) -> Path:
    """The Python files and metadata of one release; of SGLang all files, since it looks for its own sources."""
    target = RELEASES / f"{name}-{version}"
    if (target / COMPLETE).is_file() if name == "sglang" else target.is_dir():
        return target
    for python_version in ("3.12", "3.11"):
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--only-binary=:all:",
                "--python-version",
                python_version,
                "--implementation",
                "cp",
                "-d",
                folder,
            ]
            for platform in PLATFORMS:
                command += ["--platform", platform]
            if subprocess.run([*command, f"{name}=={version}"], check=False).returncode:
                continue
            with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                wheel.extractall(
                    target, [member for member in wheel.namelist() if name == "sglang" or member.endswith((".py", "/METADATA", "entry_points.txt"))]
                )
            (target / COMPLETE).write_text("")
            return target
    raise SystemExit(f"{name} {version} could not be downloaded")


def main() -> None:
    """Prepare what the arguments name."""
    wanted = sys.argv[1:] or list(ALWAYS)
    environment()
    for one in wanted:
        name, _, version = one.partition("=")
        print(unpack(name, version))


if __name__ == "__main__":
    main()
