"""Runs inside the engines' environment: makes real SGLang arguments on a machine without a GPU, and prints them.

    python sglang_configuration.py VERSION FLASHINFER_VERSION CAPABILITY '[{"model": FOLDER, "mode": "enforce", "arguments": ["--tp-size", "4"]}, …]'

Only what a CPU cannot have is replaced: the device's answers and packages of compiled kernels. The arguments, their
resolution and the loading of plug-ins are the release's own. CAPABILITY `none` stands for a machine without a GPU.
"""

import importlib.util
import json
import os
import sys
import types
from pathlib import Path

RELEASES = Path(__file__).resolve().parents[2] / ".engines"
version, flashinfer, capability, cases = sys.argv[1:5]
sys.path[:] = [str(RELEASES / f"sglang-{version}"), str(RELEASES / f"flashinfer-python-{flashinfer}"), str(RELEASES / "torchvision-0.28.0"), *sys.path[1:]]
#: Packages of kernels, and of what serves and watches, that the arguments never ask anything.
COMPILED = ("flashinfer", "sgl_kernel", "deep_gemm", "deep_ep", "triton", "orjson", "IPython", "sentencepiece", "xgrammar", "tvm_ffi")


place = importlib.util.spec_from_file_location("stand_ins", Path(__file__).with_name("stand_ins.py"))
stand_ins = importlib.util.module_from_spec(place)
place.loader.exec_module(stand_ins)
stand_ins.install(COMPILED, always=("flashinfer", "sgl_kernel"))

import torch  # noqa: E402

there = capability != "none"
major, minor = (int(part) for part in capability.split(".")) if there else (0, 0)
torch.cuda.is_available = lambda: there
torch.cuda.device_count = lambda: 8 if there else 0
torch.cuda.get_device_capability = lambda device=None: (major, minor)
torch.cuda.get_device_name = lambda device=None: "NVIDIA H200"
torch.cuda.current_device = lambda: 0
torch.cuda.mem_get_info = lambda device=None: (140 << 30, 141 << 30)
torch.cuda.get_device_properties = lambda device=None: types.SimpleNamespace(
    major=major, minor=minor, total_memory=141 << 30, name="NVIDIA H200", multi_processor_count=132, gcnArchName=""
)
torch.version.cuda = "12.9" if there else None
# shapes of operators that were never compiled
torch.library.register_fake = lambda operator, function=None, /, **keywords: function if function is not None else lambda given: given

stand_ins.tolerate_known_models()

NAMES = ("enable_flashinfer_allreduce_fusion", "flashinfer_allreduce_fusion_backend", "enforce_disable_flashinfer_allreduce_fusion")
for number, case in enumerate(json.loads(cases)):
    print(f"CASE {number}", flush=True)
    sys.stderr.flush()
    for name, value in {"MODE": case["mode"], "BUILDER": case["builder"], "DECISION": case["decision"]}.items():
        os.environ.pop(f"FUSION_POLICY_{name}", None)
        if value is not None:
            os.environ[f"FUSION_POLICY_{name}"] = value
    try:
        for module in [module for name, module in sys.modules.items() if name.startswith("sglang.srt")]:
            for name in ("get_device_memory_capacity", "get_nvgpu_memory_capacity"):
                if hasattr(module, name):
                    setattr(module, name, lambda *arguments: 141 * 1024)
        try:
            import sglang.srt.plugins as plugins
        except ImportError:
            plugins = None
        else:
            plugins._plugins_loaded = False
            plugins.load_plugins()
        from sglang.srt.server_args import prepare_server_args

        made = prepare_server_args(["--model-path", case["model"], *case["arguments"]])
        if hasattr(made, "resolve_once"):
            made.resolve_once()
        try:
            from sglang.srt.arg_groups.overrides import resolution_result as read
        except ImportError:
            read = getattr
        result = {name: read(made, name) for name in NAMES if hasattr(made, name)}
        result["plugins"] = plugins is not None
        result["decision"] = os.environ.get("FUSION_POLICY_DECISION")
    except BaseException as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    print("RESULT " + json.dumps(result, default=str), flush=True)
