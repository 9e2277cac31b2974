"""A small engine in a folder: a `vllm` on the path that loads plug-ins as the real one does and then does what its
model's name says, and a package `vllm` with the one method that the plug-in wraps."""

from __future__ import annotations

import os
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """\
#!{python}
import importlib.metadata, json, os, signal, subprocess, sys, time

model = sys.argv[2]
seen = []


def note(number, frame):
    seen.append(number)
    print("signal", number, flush=True)
    if model == "stubborn" and len(seen) < 3:
        return
    sys.exit(40 + len(seen))


if model in ("polite", "stubborn"):
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1"):
        signal.signal(getattr(signal, name), note)
if os.environ.get("LOAD_PLUGINS"):
    wanted = os.environ.get("VLLM_PLUGINS")
    for point in importlib.metadata.entry_points(group="vllm.general_plugins"):
        if wanted is None or point.name in wanted.split(","):
            try:
                point.load()()
            except Exception as error:
                print("plug-in failed:", error, flush=True)
names = ("FUSION_POLICY_MODE", "VLLM_FLASHINFER_ALLREDUCE_BACKEND", "A")
state = {{name: os.environ[name] for name in names if name in os.environ}}
hangup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
blocked = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
print(json.dumps({{"words": sys.argv[1:], "environment": state, "pid": os.getpid(), "terminal": sys.stdin.isatty(), "hangup_ignored": hangup, "blocked": blocked}}), flush=True)
if model.startswith("exit"):
    sys.exit(int(model[4:]))
if model.startswith("die"):
    os.kill(os.getpid(), int(model[3:]))
if model == "done-settled":
    for number in range(2):
        with open(os.environ["FUSION_POLICY_REPORT"], "a") as stream:
            stream.write(json.dumps({{"outcome": "unfused", "said": "the adapter: allreduce_rms is unfused because rank 1"}}) + "\\n")
if model == "echo":
    sys.stdout.write(sys.stdin.read())
elif model == "descriptor":
    os.write(int(os.environ["A"]), b"through")
elif model == "worker":
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    time.sleep(60)
elif not model.startswith("done"):
    for _ in range(600):
        time.sleep(0.1)
"""

ARGUMENTS = '''\
class PassConfig:
    fuse_allreduce_rms = None


class EngineArgs:
    """Has the method that the plug-in wraps."""

    def create_engine_config(self):
        return None
'''


@dataclass
class FakeEngine:
    """The folder, and the environment in which the engine and `policy` run. `marker` tells its processes from others."""

    folder: Path
    version: str = "0.24.0"
    marker: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        program = self.folder / "bin" / "vllm"
        program.parent.mkdir(parents=True)
        program.write_text(PROGRAM.format(python=sys.executable))
        program.chmod(0o755)
        package = self.site / "vllm" / "engine"
        package.mkdir(parents=True)
        (self.site / "vllm" / "__init__.py").write_text(f"__version__ = {self.version!r}\n")
        (package / "__init__.py").write_text("")
        (package / "arg_utils.py").write_text(ARGUMENTS)
        self.distribution("vllm", self.version)
        self.distribution(
            "fusion-policy",
            "0.1.0",
            "[vllm.general_plugins]\nfusion_policy = fusion_policy:vllm_plugin\n\n[sglang.srt.plugins]\nfusion_policy = fusion_policy:sglang_plugin\n",
        )

    @property
    def site(self) -> Path:
        """The folder of its packages."""
        return self.folder / "site"

    def distribution(self, name: str, version: str, entry_points: str = "") -> None:
        """The metadata of an installed package."""
        folder = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        if entry_points:
            (folder / "entry_points.txt").write_text(entry_points)

    def environment(self, **more: str) -> dict[str, str]:
        """What a shell would hand over."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FUSION_POLICY", "VLLM_", "PYTEST", "SGLANG_"))}
        path = f"{self.folder / 'bin'}{os.pathsep}{kept.get('PATH', '')}"
        return {**kept, "PATH": path, "PYTHONPATH": f"{self.site}{os.pathsep}{ROOT}", "MARKER": self.marker, **more}

    def processes(self) -> dict[int, str]:
        """The processes that carry the marker and are not zombies, with their command lines."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if self.marker.encode() in (folder / "environ").read_bytes() and (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (OSError, UnicodeDecodeError):
                continue
        return found

    def left(self, seconds: float = 5.0) -> dict[int, str]:
        """What still runs after at most so long."""
        end = time.monotonic() + seconds
        while (running := self.processes()) and time.monotonic() < end:
            time.sleep(0.05)
        return running
