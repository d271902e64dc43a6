"""ModelConfig from a Hugging Face config.json, in the styles of transformers 4 and 5.

Defaults for absent fields are those of transformers' configuration classes.
"""

from __future__ import annotations

import math

import msgspec

from tenfold.checkpoints.checkpoint import ModelConfig, RopeScaling
from tenfold.checkpoints.fields import Fields
from tenfold.checkpoints.layout import MAX_LAYERS
from tenfold.checkpoints.windows import global_every
from tenfold.core.errors import UnsupportedModelError


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """What a transformers model type means here, with its defaults.

    Args:
        architecture: canonical name.
        head_dim: default head size; None computes hidden / heads.
        kv_heads: default number of KV heads; None is the number of heads.
        window: how sliding windows are declared: "none", "always" (Mistral: by `sliding_window` alone),
            "flag" (Qwen: if `use_sliding_window`) or "pattern" (Gemma 3: alternating).
    """

    architecture: str
    head_dim: int | None = None
    kv_heads: int | None = None
    window: str = "none"
    context: int = 2048
    theta: float = 1e4


FAMILIES = {
    "llama": Family(architecture="llama"),
    "mistral": Family(architecture="llama", kv_heads=8, window="always", context=4096 * 32),
    "qwen2": Family(architecture="qwen2", kv_heads=32, window="flag", context=32768),
    "qwen3": Family(architecture="qwen3", kv_heads=32, head_dim=128, window="flag", context=32768),
    "gemma3_text": Family(
        architecture="gemma3", kv_heads=4, head_dim=256, window="pattern", context=131_072, theta=1e6
    ),
}
_GEMMA3_DEFAULTS = {
    "vocab_size": 262_208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 256,
    "tie_word_embeddings": True,
}
_CLASSES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Gemma3ForCausalLM": "gemma3_text",
}
_WINDOWED, _FULL = "sliding_attention", "full_attention"


def read_config(fields: Fields) -> ModelConfig:
    """Normalize a config.json.

    Raises:
        UnsupportedModelError: the model type, or a feature it uses, is not built.
        CheckpointError: a field is missing, of a wrong type, absurd, or contradicts another.
    """
    fields, family = _text_fields(fields)
    _refuse_features(fields)
    gemma = family.architecture == "gemma3"
    hidden = fields.integer("hidden_size", low=1, high=1 << 20)
    heads = fields.integer("num_attention_heads", low=1, high=4096)
    kv_heads = fields.integer("num_key_value_heads", family.kv_heads or heads, low=1, high=4096)
    if heads % kv_heads:
        raise fields.error(
            "num_key_value_heads", f"is {kv_heads}, which does not divide the {heads} attention heads"
        )
    if not fields.has("head_dim") and family.head_dim is None and hidden % heads:
        raise fields.error("num_attention_heads", f"is {heads}, which does not divide hidden_size {hidden}")
    head_dim = fields.integer("head_dim", family.head_dim or hidden // heads or None, low=2, high=4096)
    layers = fields.integer("num_hidden_layers", low=1, high=MAX_LAYERS)
    window, every = _sliding_window(fields, family, layers)
    rope, local = _rope_fields(fields, family)
    context = fields.integer("max_position_embeddings", family.context, low=1, high=1 << 24)
    scaling, context = _rope_scaling(rope, context)
    softcap = "final_logit_softcapping"
    return ModelConfig(
        architecture=family.architecture,
        vocab_size=fields.integer("vocab_size", low=1, high=1 << 26),
        hidden_size=hidden,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate_size=fields.integer("intermediate_size", low=1, high=1 << 24),
        context_length=context,
        rms_norm_eps=fields.number("rms_norm_eps", 1e-6, high=1.0),
        rope_theta=rope.number("rope_theta", family.theta),
        rope_theta_local=local,
        rope_scaling=scaling,
        rotary_dim=_rotary_dim(fields, rope, head_dim),
        sliding_window=window,
        global_every=every,
        attention_scale=fields.number("query_pre_attn_scalar") ** -0.5 if gemma else None,
        norm_offset=1.0 if gemma else 0.0,
        tie_embeddings=fields.boolean("tie_word_embeddings", False),
        activation="gelu_tanh" if gemma else "silu",
        logit_softcap=fields.number(softcap) if fields.has(softcap) else None,
    )


def _text_fields(fields: Fields) -> tuple[Fields, Family]:
    """The fields of the text model, with Gemma 3's defaults filled in, and its family."""
    if fields.has("quantization_config"):
        raise UnsupportedModelError(
            f"{fields.file}: the weights are quantized ('quantization_config'), which is not "
            "supported in folders; "
            "use the original F32, F16 or BF16 weights, or a GGUF file"
        )
    outer = fields
    kind = fields.text("model_type")
    classes = fields.values.get("architectures")
    if kind == "gemma3":
        nested = fields.table("text_config")
        if nested is None:
            raise fields.error("text_config", "is missing")
        fields, kind = nested, "gemma3_text"
    elif isinstance(classes, list) and classes and isinstance(classes[0], str):
        kind = _CLASSES.get(classes[0], classes[0])
    family = FAMILIES.get(kind or "")
    if family is None:
        supported = ", ".join([*_CLASSES, "Gemma3ForConditionalGeneration (its text)"])
        raise UnsupportedModelError(
            f"{fields.file}: the architecture {kind!r:.100} is not supported; supported: {supported}"
        )
    if family.architecture == "gemma3":
        given = {key: value for key, value in fields.values.items() if value is not None}
        if outer is not fields and outer.has("tie_word_embeddings"):
            given.setdefault("tie_word_embeddings", outer.values["tie_word_embeddings"])
        fields = Fields(fields.file, {**_GEMMA3_DEFAULTS, **given}, noun=fields.noun)
    return fields, family


def _refuse_features(fields: Fields) -> None:
    """Refuse what would otherwise be ignored and give wrong text."""
    for key, fine in (("hidden_act", ("silu",)), ("hidden_activation", ("gelu_pytorch_tanh",))):
        if (
            fields.has(key)
            and fields.text(key) not in fine
            and not (key == "hidden_act" and fields.has("hidden_activation"))
        ):
            raise UnsupportedModelError(
                f"{fields.file}: the activation {fields.text(key)!r:.60} is not supported"
            )
    for key in ("mlp_bias", "use_bidirectional_attention"):
        if fields.boolean(key, False):
            raise UnsupportedModelError(f"{fields.file}: {key!r} is not supported")
    if fields.has("attn_logit_softcapping"):
        raise UnsupportedModelError(f"{fields.file}: attention logit soft-capping is not supported")


def _sliding_window(fields: Fields, family: Family, layers: int) -> tuple[int | None, int]:
    """The window and which layers go without it: see ModelConfig."""
    if family.window == "none" or (
        family.window == "flag" and not fields.boolean("use_sliding_window", False)
    ):
        return None, 0
    if family.window == "always" and "sliding_window" in fields.values and not fields.has("sliding_window"):
        return None, 0
    window = fields.integer("sliding_window", 4096, low=1)
    kinds = fields.values.get("layer_types")
    if family.window == "always":
        return window, 0
    if kinds is None:
        kinds = _default_layer_types(fields, family, layers)
    if (
        not isinstance(kinds, list)
        or len(kinds) != layers
        or not all(kind in (_WINDOWED, _FULL) for kind in kinds)
    ):
        raise fields.error("layer_types", f"must be {layers} times {_WINDOWED!r} or {_FULL!r}")
    if _WINDOWED not in kinds:
        return None, 0
    return window, global_every(fields, "layer_types", [kind == _FULL for kind in kinds])


def _default_layer_types(fields: Fields, family: Family, layers: int) -> list[str]:
    """What transformers assumes without `layer_types`."""
    if family.window == "pattern":
        pattern = fields.integer("sliding_window_pattern", 6, low=1, high=MAX_LAYERS)
        return [_FULL if (index + 1) % pattern == 0 else _WINDOWED for index in range(layers)]
    first = fields.integer("max_window_layers", 28)
    return [_FULL if index < first else _WINDOWED for index in range(layers)]


def _rope_fields(fields: Fields, family: Family) -> tuple[Fields, float | None]:
    """RoPE fields of full-attention layers, old style or new, and Gemma 3's theta of windowed layers."""
    gemma = family.window == "pattern"
    new = fields.table("rope_parameters")
    old = fields.table("rope_scaling")
    if new is not None and gemma and (_FULL in new.values or _WINDOWED in new.values):
        full, windowed = new.table(_FULL), new.table(_WINDOWED)
        if windowed is not None and windowed.text("rope_type", "default") != "default":
            raise UnsupportedModelError(f"{fields.file}: RoPE scaling of windowed layers is not supported")
        local = windowed.number("rope_theta", 1e4) if windowed is not None else 1e4
        return full if full is not None else Fields(fields.file, {}, noun=fields.noun), local
    merged = dict((new or old or Fields(fields.file, {})).values)
    merged.setdefault("rope_theta", fields.values.get("rope_theta"))
    if not merged.get("original_max_position_embeddings"):
        merged["original_max_position_embeddings"] = fields.values.get("original_max_position_embeddings")
    noun = "field 'rope_parameters'," if new is not None else "field 'rope_scaling',"
    return Fields(fields.file, merged, noun=noun), fields.number(
        "rope_local_base_freq", 1e4
    ) if gemma else None


def _rotary_dim(fields: Fields, rope: Fields, head_dim: int) -> int | None:
    source = rope if rope.has("partial_rotary_factor") else fields
    rotary = int(head_dim * source.number("partial_rotary_factor", 1.0, high=1.0))
    if rotary < 2 or rotary % 2:
        raise fields.error("head_dim", f"gives {rotary} rotated dimensions, which must be even and not 0")
    return None if rotary == head_dim else rotary


def _rope_scaling(rope: Fields, context: int) -> tuple[RopeScaling | None, int]:
    """RoPE scaling and the context length it makes."""
    kind = rope.text("rope_type") or rope.text("type", "default")
    if kind == "default":
        return None, context
    if kind not in ("linear", "llama3", "yarn"):
        raise UnsupportedModelError(
            f"{rope.file}: the RoPE scaling {kind!r:.60} is not supported; supported: linear, llama3, yarn"
        )
    factor = rope.number("factor", high=1e6)
    if kind == "linear":
        return RopeScaling(kind="linear", factor=factor), context
    original = rope.integer("original_max_position_embeddings", context, low=1, high=1 << 24)
    if kind == "llama3":
        return RopeScaling(
            kind="llama3",
            factor=factor,
            original_context=original,
            low_freq_factor=rope.number("low_freq_factor"),
            high_freq_factor=rope.number("high_freq_factor"),
        ), context
    if not rope.boolean("truncate", True):
        raise UnsupportedModelError(f"{rope.file}: yarn RoPE scaling with 'truncate': false is not supported")
    scaling = RopeScaling(
        kind="yarn",
        factor=factor,
        original_context=original,
        beta_fast=rope.number("beta_fast", 32.0),
        beta_slow=rope.number("beta_slow", 1.0),
        attention_factor=_yarn_attention_factor(rope, factor),
    )
    return scaling, min(max(context, int(original * factor)), 1 << 24)


def _yarn_attention_factor(rope: Fields, factor: float) -> float | None:
    if rope.has("attention_factor"):
        return rope.number("attention_factor", high=1e3)
    if rope.has("mscale") and rope.has("mscale_all_dim") and factor > 1:
        mscale, over = rope.number("mscale", zero=True), rope.number("mscale_all_dim", zero=True)
        if mscale > 0 and over > 0:
            return (1 + 0.1 * mscale * math.log(factor)) / (1 + 0.1 * over * math.log(factor))
    return None
