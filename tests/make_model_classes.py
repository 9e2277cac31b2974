"""Writes `policy/launchers/model_classes.py`: what the configuration classes of transformers fill in for keys that a
config.json leaves out.

    .venv-engines/bin/python tests/make_model_classes.py [FILE]

`python tests/engines/prepare.py` makes that environment. A class is left out where its values depend on each other in a
way that this does not see.
"""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "policy" / "launchers" / "model_classes.py"
#: Keys whose class default the reading uses, in the order of a row.
KEYS = (
    "hidden_size", "num_attention_heads", "head_dim", "global_head_dim", "swa_head_dim", "num_experts", "moe_num_experts", "n_routed_experts",
    "num_local_experts", "kv_lora_rank", "partial_rotary_factor", "rotary_dim", "rms_norm_eps",
)  # fmt: skip
#: Two shapes, by which a constant is told from a quotient.
SHAPES = ((4800, 30), (2400, 10))
#: Parts of a larger model that are no decoder of text.
OTHER = (
    "vision",
    "audio",
    "encoder",
    "codec",
    "tokenizer",
    "talker",
    "speech",
    "sam2",
    "sam3",
    "depth",
    "timesfm",
    "asr",
    "dit",
    "diffusion",
    "bert",
    "_axial",
)
HEADER = '''"""What the configuration classes of transformers {version} fill in for keys that a config.json leaves out, by model_type.

Made by tests/make_model_classes.py. A type that is not here may fill in anything. Where a row has no head_dim, heads have
hidden_size / num_attention_heads elements; a key of another row that is not here has no default.
"""

from __future__ import annotations

Defaults = dict[str, int | float]

CLASSES: dict[str, Defaults] = {{
'''


def _instance(made: Any, shape: tuple[int, int] | None) -> Any:
    sizes = {} if shape is None else {"hidden_size": shape[0], "num_attention_heads": shape[1], "num_key_value_heads": shape[1]}
    instance = made(**sizes)
    instance.allow_global_per_layer_attribute_access = True
    return instance


def _factor(rope: Any) -> float | None:
    """The smallest partial rotary factor of any kind of layer."""
    if not isinstance(rope, dict):
        return None
    held = [one.get("partial_rotary_factor") for one in (rope, *(part for part in rope.values() if isinstance(part, dict)))]
    factors = [float(one) for one in held if isinstance(one, int | float)]
    return min(factors) if factors else None


def row(made: Any) -> dict[str, int | float] | None:
    """The defaults of one class; None where it is no decoder, or its head size is neither a constant nor the quotient."""
    plain = _instance(made, None)
    rope = getattr(plain, "rope_parameters", None)
    if not isinstance(rope, dict) or not getattr(plain, "num_attention_heads", None):
        return None
    found: dict[str, Any] = {key: getattr(plain, key, None) for key in KEYS}
    found["partial_rotary_factor"] = _factor(rope) or found["partial_rotary_factor"]
    if found["partial_rotary_factor"] == 1:
        found["partial_rotary_factor"] = None
    heads = [getattr(_instance(made, shape), "head_dim", None) for shape in SHAPES]
    if heads[0] == heads[1]:
        found["head_dim"] = heads[0] or None
    elif heads == [size // count for size, count in SHAPES]:
        found["head_dim"] = None
    else:
        return None
    counts = [key for key in KEYS if "experts" in key and found[key] is not None]
    for key in counts[1:]:
        # the same count by the names that other engines' code asks for
        found[key] = None
    if found["kv_lora_rank"] is not None:
        found["head_dim"] = None
    return {key: value for key, value in found.items() if isinstance(value, int | float) and not isinstance(value, bool)}


def main() -> None:
    """Write the table."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    text = HEADER.format(version=transformers.__version__)
    for kind in sorted(CONFIG_MAPPING.keys()):
        if any(word in kind for word in OTHER):
            continue
        try:
            held = row(CONFIG_MAPPING[kind])
        except Exception as error:
            print(f"{kind}: left out ({type(error).__name__})", file=sys.stderr)
            continue
        if held is not None:
            inner = [f'"{key}": {value!r}' for key, value in held.items()]
            line = f'    "{kind}": {{{", ".join(inner)}}},\n'
            # lines stay as short as everywhere
            text += line if len(line) <= 160 else f'    "{kind}": {{\n        {", ".join(inner)},\n    }},\n'
    Path(sys.argv[1] if len(sys.argv) > 1 else TARGET).write_text(text + "}  # fmt: skip\n", encoding="utf-8")


if __name__ == "__main__":
    main()
