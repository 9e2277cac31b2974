"""Runs inside the engines' environment: makes real vLLM configurations on a machine without a GPU, and prints them.

    python vllm_configuration.py VERSION FLASHINFER_VERSION CAPABILITY '[{"model": FOLDER, "mode": "enforce", "arguments": {"tensor_parallel_size": 2}}, …]'

Only what a CPU cannot have is replaced: compiled extensions, the device's answers, and the inspection of the model's
class. The configuration, its gates and the plug-in loading are the release's own. CAPABILITY `none` stands for a head
node without a GPU.
"""

import importlib.util
import json
import os
import sys
import types
from pathlib import Path

RELEASES = Path(__file__).resolve().parents[2] / ".engines"
version, flashinfer, capability, cases = sys.argv[1:5]
# the folder of this script holds no module that an engine should find
sys.path[:] = [str(RELEASES / f"vllm-{version}"), str(RELEASES / f"flashinfer-python-{flashinfer}"), *sys.path[1:]]
EXTENSIONS = ("vllm._C", "vllm._moe_C", "vllm._C_stable_libtorch", "vllm._moe_C_stable_libtorch", "vllm._qutlass_C", "vllm.cumem_allocator")
for name in EXTENSIONS:
    sys.modules[name] = types.ModuleType(name)
place = importlib.util.spec_from_file_location("stand_ins", Path(__file__).with_name("stand_ins.py"))
stand_ins = importlib.util.module_from_spec(place)
place.loader.exec_module(stand_ins)
stand_ins.install(("xgrammar",))

import torch  # noqa: E402

SPACES = ("_C", "_moe_C", "_C_cache_ops", "_C_custom_ar")


class Operator:
    """Stands for a compiled operator, whatever is asked of it."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *arguments, **keywords):
        return None


class Space:
    """Stands for a namespace of compiled operators."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = Operator()
        object.__setattr__(self, name, made)
        return made


real_register_fake = torch.library.register_fake


def register_fake(operator, function=None, /, **keywords):
    """As torch's, but operators that were never compiled are left alone."""
    if isinstance(operator, str) and operator.split("::")[0] in SPACES:
        return function if function is not None else lambda given: given
    return real_register_fake(operator, function, **keywords) if function is not None else real_register_fake(operator, **keywords)


torch.library.register_fake = register_fake
for name in SPACES:
    setattr(torch.ops, name, Space())

import vllm.platforms  # noqa: E402
from vllm.platforms.cuda import CudaPlatformBase  # noqa: E402
from vllm.platforms.interface import DeviceCapability  # noqa: E402


class Device(CudaPlatformBase):
    """The answers of a CUDA device of the wanted capability."""

    @classmethod
    def get_device_capability(cls, device_id=0):
        if capability == "none":
            return None
        major, minor = capability.split(".")
        return DeviceCapability(int(major), int(minor))

    @classmethod
    def get_device_name(cls, device_id=0):
        return "NVIDIA"

    @classmethod
    def get_device_total_memory(cls, device_id=0):
        return 80 << 30

    @classmethod
    def device_count(cls):
        return 8

    @classmethod
    def is_fully_connected(cls, device_ids):
        return True

    @classmethod
    def log_warnings(cls):
        pass


vllm.platforms._current_platform = Device()

stand_ins.know_model_classes()

import vllm.config.parallel as parallel  # noqa: E402
import vllm.plugins  # noqa: E402
from vllm.engine.arg_utils import EngineArgs  # noqa: E402

if hasattr(parallel, "cuda_device_count_stateless"):
    parallel.cuda_device_count_stateless = lambda: 8
NAMES = ("fuse_allreduce_rms", "fuse_norm_quant", "fuse_act_quant", "enable_fi_allreduce_fusion")
for number, case in enumerate(json.loads(cases)):
    print(f"CASE {number}", flush=True)
    for name, value in {"MODE": case["mode"], "BUILDER": case["builder"], "DECISION": case["decision"]}.items():
        os.environ.pop(f"FUSION_POLICY_{name}", None)
        if value is not None:
            os.environ[f"FUSION_POLICY_{name}"] = value
    vllm.plugins.plugins_loaded = False
    try:
        made = EngineArgs(model=case["model"], skip_tokenizer_init=True, **case["arguments"]).create_engine_config()
        passes = {name: getattr(made.compilation_config.pass_config, name, None) for name in NAMES}
        variables = {name: value for name, value in os.environ.items() if name.startswith(("VLLM_FLASHINFER", "FUSION_POLICY_DECISION"))}
        result = {"pass_config": passes, "environment": variables}
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    print("RESULT " + json.dumps(result), flush=True)
