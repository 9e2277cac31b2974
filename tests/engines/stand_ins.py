"""Modules that stand in for packages of compiled kernels: every name is there and does nothing."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from unittest.mock import MagicMock


class Members(type):
    """A class that has every member, for enumerations."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return 0


class Anything(metaclass=Members):
    """A class that takes every argument."""

    def __init__(self, *arguments, **keywords):
        pass

    @classmethod
    def __get_pydantic_core_schema__(cls, *arguments):
        return {"type": "any"}


class Stub(types.ModuleType):
    """A module that has every name."""

    __path__: list[str] = []  # noqa: RUF012 what makes a module a package

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name[:1].isupper():
            made = Members(name, (Anything,), {})
            setattr(self, name, made)
            return made
        made = MagicMock(name=name)
        made.driver.active.get_current_target.return_value.backend = "cuda"
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the packages that are not here, and those that would load a compiled library."""

    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if top in self.names else None

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        module.__version__ = "9.9.9"

    def __init__(self, names):
        self.names = names


def tolerate_known_models():
    """Let an engine bring along models that this transformers knows by itself."""
    from transformers.models.auto.configuration_auto import _LazyConfigMapping as mapping

    register = mapping.register
    mapping.register = lambda self, key, value, exist_ok=False: register(self, key, value, exist_ok=True)


def install(names, always=()):
    """Stand in for those of the packages that are not here, and for some in any case."""
    sys.meta_path.insert(0, Finder({*always, *(name for name in names if importlib.util.find_spec(name) is None)}))


def know_model_classes() -> None:
    """vLLM inspects a model's class by importing it, with all kernels, in a process of its own; here it is a plain decoder."""
    import dataclasses

    from vllm.model_executor.models import registry

    known = {
        "architecture": "LlamaForCausalLM", "is_text_generation_model": True, "supports_pp": True, "default_seq_pooling_type": "LAST", "default_tok_pooling_type": "ALL",
        "default_pooling_type": "LAST", "attn_type": "decoder", "score_type": "bi-encoder",
    }  # fmt: skip
    registry._LazyRegisteredModel.inspect_model_cls = lambda self: registry._ModelInfo(
        **{field.name: known.get(field.name, False) for field in dataclasses.fields(registry._ModelInfo)}
    )
