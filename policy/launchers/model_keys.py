"""What a model's config.json says about facts, as data: keys and their spellings, schemes of quantisation, and what the
model classes of the engines do for every model of a type."""

from __future__ import annotations

#: Where the language model of a larger one has its own configuration; the first that is there counts.
TEXT_PATHS = (("thinker_config", "text_config"), ("text_config",), ("llm_config",), ("language_config",))
HIDDEN_SIZES = ("hidden_size", "n_embd", "d_model")
#: Keys that count experts; a list has one count a layer.
EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts")
#: Sizes of the experts of a layer that may be lists.
EXPERT_SIZES = ("moe_intermediate_size", "moe_ffn_hidden_size")
#: Types of which the engines disagree with the configuration's own words, or with each other, on whether they are a mixture.
EXPERTS_NOT_TOLD = ("dbrx", "nemotron_h")
DTYPES = {"bfloat16": "bfloat16", "float16": "float16", "half": "float16", "float32": "float32", "float": "float32"}
USUAL_EPSILONS = (1e-5, 1e-6)
#: The key of the RMS norm's epsilon where a type does not call it rms_norm_eps.
EPSILONS = {"nemotron_h": "layer_norm_epsilon", "lfm2": "norm_eps", "lfm2_moe": "norm_eps"}
#: Keys of head sizes. A type that is listed has several and says nothing until all are there.
HEAD_SIZES = ("head_dim", "global_head_dim", "swa_head_dim", "hidden_size_per_head")
SEVERAL_HEAD_SIZES = {
    "gemma4_text": ("head_dim", "global_head_dim"),
    "gemma4_unified_text": ("head_dim", "global_head_dim"),
    "mimo_v2_flash": ("head_dim", "swa_head_dim"),
}
ROPE_TABLES = ("rope_parameters", "rope_scaling")
ROTARY_PARTS = ("partial_rotary_factor", "rotary_pct", "rotary_emb_fraction")
ROTARY_SIZES = ("rotary_dim", "rope_dim")
#: Types that vLLM 0.33.0 serves by latent attention where kv_lora_rank is set (its is_deepseek_mla).
LATENT_TYPES = (
    "axk1", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4", "deepseek_v41", "dots3_note", "deepseek_mtp", "k3_dspark", "glm5_next",
    "glm5_next_text", "glm_moe_dsa", "glm4_moe_lite", "glm4_moe_lite_mtp", "kimi_k2", "kimi_linear", "longcat_flash", "pangu_ultra_moe",
    "pangu_ultra_moe_mtp", "bailing_hybrid", "bailing_hybrid_mtp", "bailing_hybrid_v3_mtp", "hy_v4", "hy_v4_mtp",
)  # fmt: skip
#: Keys by which a latent type without kv_lora_rank compresses its cache.
COMPRESSED = ("compress_ratios", "compress_rates")
#: Types whose norm multiplies by one plus its weight in vLLM 0.33.0 and SGLang 0.5.23.
GEMMA_NORMS = (
    "gemma", "gemma2", "gemma3", "gemma3_text", "minimax_m3", "minimax_m3_vl", "minimax_m3_vl_text", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text",
    "qwen4_exp_text", "step3p5",
)  # fmt: skip
#: The key by which a configuration chooses that norm, or not, for all of its layers.
GEMMA_KEY = "use_gemma_norm"
STANDARD_NORMS = (
    "deepseek_v2", "deepseek_v3", "deepseek_v32", "gemma3n_text", "glm4_moe", "gpt_oss", "kimi_k2", "llama", "llama4_text", "minimax_m2", "mistral",
    "mixtral", "olmo2", "phi3", "qwen2", "qwen2_5_vl_text", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_vl_moe_text", "qwen3_vl_text", "seed_oss",
)  # fmt: skip
#: Types by how rotary positions pair the elements of a head in vLLM 0.33.0.
ROPE_STYLES = {
    "interleaved": (
        "chatglm", "cohere", "cohere2", "cohere2_moe", "deepseek_v2", "deepseek_v3", "deepseek_v32", "ernie4_5", "ernie4_5_moe", "glm4", "gptj",
        "kimi_k2",
    ),
    "neox": (
        "gemma", "gemma2", "gemma3_text", "glm4_moe", "gpt_neox", "gpt_oss", "llama", "mimo_v2_flash", "minimax_m2", "minimax_m3_vl_text", "mistral",
        "mixtral", "nemotron", "olmo2", "persimmon", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe",
        "qwen3_next", "qwen3_vl_moe_text", "qwen3_vl_text", "seed_oss", "stablelm", "step3p5",
    ),
}  # fmt: skip

QUANTISATION_KEYS = ("quantization_config", "compression_config")
#: ModelOpt wrote its scheme into a file of its own before it wrote it into config.json.
QUANTISATION_FILE = "hf_quant_config.json"
#: Scheme by the word of `quant_method`, where the word is enough.
METHODS = {
    "awq": "awq", "awq_marlin": "awq", "gptq": "gptq", "gptq_marlin": "gptq", "bitsandbytes": "bitsandbytes", "fbgemm_fp8": "fp8", "ptpc_fp8": "fp8",
    "mxfp4": "mxfp4", "gpt_oss_mxfp4": "mxfp4", "mxfp8": "mxfp8", "w8a8_int8": "int8", "w8a8_fp8": "fp8",
}  # fmt: skip
#: Scheme by ModelOpt's `quant_algo`.
ALGORITHMS = {
    "FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "NVFP4": "nvfp4", "NVFP4_AWQ": "nvfp4", "MXFP4": "mxfp4", "MXFP8": "mxfp8", "W4A16_AWQ": "awq",
    "W4A8_AWQ": "w4a8", "W8A8_SQ_PER_CHANNEL": "int8", "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN": "int8",
}  # fmt: skip
#: Scheme of a group of compressed-tensors: type, bits and group size of the weights, then type and bits of the
#: activations (none where they stay as they are). `block` is the strategy of weights in blocks, None any other one.
GROUPS = {
    ("float", 8, "block", "float", 8): "fp8_block",
    ("float", 8, None, "float", 8): "fp8",
    ("float", 8, 32, "float", 8): "mxfp8",
    ("float", 4, 16, "float", 4): "nvfp4",
    ("float", 4, 32, "float", 4): "mxfp4",
    ("float", 4, 32, None, None): "mxfp4",
    ("int", 8, None, "int", 8): "int8",
    ("int", 4, None, None, None): "int4",
    ("int", 4, None, "int", 8): "w4a8",
    ("int", 4, None, "float", 8): "w4a8",
    ("int", 4, None, "int", 4): "w4a4",
}
#: Scheme of Quark's global configuration: dtype and scheme of the weights, dtype of the activations.
QUARK = {
    ("fp8_e4m3", "per_tensor", "fp8_e4m3"): "fp8",
    ("fp8_e4m3", "per_channel", "fp8_e4m3"): "fp8",
    ("fp4", "per_group", "fp4"): "mxfp4",
    ("int8", "per_channel", "int8"): "int8",
    ("int8", "per_tensor", "int8"): "int8",
}
#: Format of block scales by the word of `scale_fmt`.
SCALE_FORMATS = {"ue8m0": "ue8m0"}
#: A folder with one of these holds a whole checkpoint, so that a file which is not in it does not exist.
WEIGHTS = (".safetensors", ".bin", ".pt")
#: What a launch line's word for a scheme may be in detail, where the checkpoint says the same word.
GENERAL = {"fp8": ("fp8_block",)}
