"""Canonical (GGUF) tensor names for those of Hugging Face folders."""

from __future__ import annotations

import re

_PREFIX = re.compile(r"model\.language_model\.|language_model\.model\.|model\.")
_LAYER = re.compile(r"layers\.(\d{1,4})\.(.+)\.(weight|bias)")
_SKIPPED = re.compile(r"(model\.)?(vision_tower|multi_modal_projector)\..*|.*\.rotary_emb\.inv_freq")

_TOP = {
    "embed_tokens.weight": "token_embd.weight",
    "norm.weight": "output_norm.weight",
}
_HEADS = frozenset({"lm_head.weight", "language_model.lm_head.weight"})
_PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_NORMS = {"post_attention_layernorm": "ffn_norm"}
_GEMMA_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def is_skipped(name: str) -> bool:
    """Whether a tensor is not needed: of the vision tower, or rotary frequencies, which are computed."""
    return _SKIPPED.fullmatch(name) is not None


def canonical_name(name: str, architecture: str) -> str | None:
    """The canonical name of a Hugging Face tensor name, or None when the architecture has no such tensor.

    Names with and without the prefixes of multimodal models ("language_model.") are understood.
    """
    if name in _HEADS:
        return "output.weight"
    prefix = _PREFIX.match(name)
    if prefix is None:
        return None
    rest = name[prefix.end() :]
    if rest in _TOP:
        return _TOP[rest]
    layer = _LAYER.fullmatch(rest)
    if layer is None:
        return None
    norms = _GEMMA_NORMS if architecture == "gemma3" else _NORMS
    part = _PARTS.get(layer[2]) or norms.get(layer[2])
    return None if part is None else f"blk.{int(layer[1])}.{part}.{layer[3]}"
