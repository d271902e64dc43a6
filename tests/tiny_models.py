"""Tiny random models for tests: GGUF files (without transformers) and Hugging Face folders (with it).

    from tests.tiny_models import write_tiny_gguf
    write_tiny_gguf(tmp_path / "tiny.gguf", architecture="qwen3", type="Q4_0")

Same arguments, same bytes. Their tokenizer is `tests.tiny_tokenizer`; greedy text is gibberish, but varied.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType as Type

from tests import tiny_tokenizer

Array = npt.NDArray[Any]

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3")

# K-quant blocks of 256 elements: bytes a block, byte offsets of the fp16 scale and minimum, and the ratio of
# minimum to scale that centres the values on zero.
_K_BLOCKS = {
    Type.Q2_K: (84, 80, 82, 1.5),
    Type.Q3_K: (110, 108, None, 0.0),
    Type.Q4_K: (144, 0, 2, 7.5),
    Type.Q5_K: (176, 0, 2, 15.5),
    Type.Q6_K: (210, 208, None, 0.0),
}


def write_tiny_gguf(
    path: Path | str,
    architecture: str = "llama",
    type: str = "Q8_0",
    *,
    seed: int = 0,
    vocab: int = 300,
    hidden: int | None = None,
    layers: int | None = None,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int | None = None,
    intermediate: int | None = None,
    context: int = 2048,
    window: int | None = None,
    tied: bool | None = None,
    embedding_type: str | None = None,
    rope_factors: bool = False,
) -> Path:
    """Write a random model as a GGUF file.

    Args:
        path: the file to write.
        architecture: "llama", "qwen2", "qwen3" or "gemma3".
        type: storage of every matrix: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K ... Q6_K.
        seed: of the weights.
        vocab: tokens; at least 259.
        hidden: default 64, or 256 for K-quants (their blocks have 256 elements).
        layers: default 2, or 6 for gemma3, whose sixth layer is its first global one.
        head_dim: default hidden / heads, at least 32.
        intermediate: default 2 * hidden.
        window: sliding window; default 32 for gemma3, none for others.
        tied: no output matrix of its own; default only for gemma3.
        embedding_type: storage of token_embd, when it differs from `type`.
        rope_factors: write a `rope_freqs.weight` that divides the rotary frequencies.

    Raises:
        ValueError: an unknown architecture or type, or a width that the type's blocks do not divide.
    """
    if architecture not in ARCHITECTURES:
        raise ValueError(f"unknown architecture {architecture!r}; there are {', '.join(ARCHITECTURES)}")
    gemma = architecture == "gemma3"
    hidden = hidden or (256 if Type[type] in _K_BLOCKS else 64)
    head_dim = head_dim or max(32, hidden // heads)
    layers = layers or (6 if gemma else 2)
    window = window or (32 if gemma else None)
    intermediate = intermediate or 2 * hidden
    tied = gemma if tied is None else tied

    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_name(f"Tiny {architecture}")
    writer.add_context_length(context)
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(intermediate)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1_000_000.0 if gemma else 10_000.0)
    writer.add_vocab_size(vocab)
    if architecture == "llama":
        writer.add_rope_dimension_count(head_dim)
    if window is not None:
        writer.add_sliding_window(window)
    _add_tokenizer(writer, architecture, vocab)

    rng = np.random.default_rng(seed)
    shapes = _matrices(architecture, layers, hidden, heads, kv_heads, head_dim, intermediate)
    shapes = {"token_embd.weight": (vocab, hidden), **shapes}
    if not tied:
        shapes["output.weight"] = (vocab, hidden)
    for name, shape in shapes.items():
        storage = Type[(embedding_type or type) if name == "token_embd.weight" else type]
        gain = 1.5
        if name in ("token_embd.weight", "output.weight"):
            gain = (0.1 if gemma else 0.5) * hidden**0.5
        _add_matrix(writer, name, storage, rng, shape, gain / shape[1] ** 0.5)
    for name, size in _vectors(architecture, layers, hidden, heads, kv_heads, head_dim).items():
        centre = 0.0 if name.endswith(".bias") else _norm_centre(name, gemma)
        writer.add_tensor(name, (centre + 0.2 * rng.standard_normal(size)).astype(np.float32))
    if rope_factors:
        writer.add_tensor("rope_freqs.weight", np.linspace(1.0, 8.0, head_dim // 2, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(path)


def _norm_centre(name: str, gemma: bool) -> float:
    """Gemma's embedding is scaled up and tied: without larger norms it drowns the layers."""
    if not gemma:
        return 1.0
    return 5.0 if name == "output_norm.weight" else 3.0 if ".post_" in name else 1.0


def _add_tokenizer(writer: gguf.GGUFWriter, architecture: str, vocab: int) -> None:
    tokens, types, merges = tiny_tokenizer.tokens_and_merges(vocab)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2" if architecture.startswith("qwen") else "smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tiny_tokenizer.BOS)
    writer.add_eos_token_id(tiny_tokenizer.EOS)
    writer.add_add_bos_token(False)
    writer.add_chat_template(tiny_tokenizer.CHAT_TEMPLATE)


def _matrices(
    architecture: str, layers: int, hidden: int, heads: int, kv_heads: int, head_dim: int, intermediate: int
) -> dict[str, tuple[int, int]]:
    shapes = {}
    for i in range(layers):
        shapes[f"blk.{i}.attn_q.weight"] = (heads * head_dim, hidden)
        shapes[f"blk.{i}.attn_k.weight"] = (kv_heads * head_dim, hidden)
        shapes[f"blk.{i}.attn_v.weight"] = (kv_heads * head_dim, hidden)
        shapes[f"blk.{i}.attn_output.weight"] = (hidden, heads * head_dim)
        shapes[f"blk.{i}.ffn_gate.weight"] = (intermediate, hidden)
        shapes[f"blk.{i}.ffn_up.weight"] = (intermediate, hidden)
        shapes[f"blk.{i}.ffn_down.weight"] = (hidden, intermediate)
    return shapes


def _vectors(
    architecture: str, layers: int, hidden: int, heads: int, kv_heads: int, head_dim: int
) -> dict[str, int]:
    sizes = {"output_norm.weight": hidden}
    for i in range(layers):
        sizes[f"blk.{i}.attn_norm.weight"] = hidden
        sizes[f"blk.{i}.ffn_norm.weight"] = hidden
        if architecture == "qwen2":
            sizes[f"blk.{i}.attn_q.bias"] = heads * head_dim
            sizes[f"blk.{i}.attn_k.bias"] = kv_heads * head_dim
            sizes[f"blk.{i}.attn_v.bias"] = kv_heads * head_dim
        if architecture in ("qwen3", "gemma3"):
            sizes[f"blk.{i}.attn_q_norm.weight"] = head_dim
            sizes[f"blk.{i}.attn_k_norm.weight"] = head_dim
        if architecture == "gemma3":
            sizes[f"blk.{i}.post_attention_norm.weight"] = hidden
            sizes[f"blk.{i}.post_ffw_norm.weight"] = hidden
    return sizes


def _add_matrix(
    writer: gguf.GGUFWriter,
    name: str,
    storage: Type,
    rng: np.random.Generator,
    shape: tuple[int, int],
    std: float,
) -> None:
    block, _ = gguf.GGML_QUANT_SIZES[storage]
    if shape[1] % block:
        raise ValueError(f"{name}: rows of {shape[1]} are no multiple of {storage.name}'s block of {block}")
    if storage in _K_BLOCKS:
        writer.add_tensor(name, _random_k_blocks(storage, rng, shape, std), raw_dtype=storage)
        return
    values = (std * rng.standard_normal(shape)).astype(np.float32)
    if storage == Type.F32:
        writer.add_tensor(name, values)
    elif storage == Type.F16:
        writer.add_tensor(name, values.astype(np.float16))
    else:
        writer.add_tensor(name, gguf.quants.quantize(values, storage), raw_dtype=storage)


def _random_k_blocks(storage: Type, rng: np.random.Generator, shape: tuple[int, int], std: float) -> Array:
    """Rows of random valid blocks, as uint8: any bits are valid but for the fp16 fields, which are set."""
    size, scale_at, minimum_at, ratio = _K_BLOCKS[storage]
    blocks = rng.integers(0, 256, (shape[0], shape[1] // 256, size), dtype=np.uint8)

    def set_scale(scale: float) -> None:
        blocks[..., scale_at : scale_at + 2] = np.frombuffer(np.float16(scale).tobytes(), np.uint8)
        if minimum_at is not None:
            minimum = np.float16(scale * ratio)
            blocks[..., minimum_at : minimum_at + 2] = np.frombuffer(minimum.tobytes(), np.uint8)

    set_scale(1.0)
    set_scale(std / float(gguf.quants.dequantize(blocks.reshape(shape[0], -1), storage).std()))
    return blocks.reshape(shape[0], -1)


def write_tiny_folder(
    path: Path | str,
    architecture: str = "llama",
    *,
    seed: int = 0,
    vocab: int = 300,
    dtype: str = "float32",
    max_shard_size: str = "5GB",
    **config: Any,
) -> Path:
    """Write a random model as a Hugging Face folder, with its tokenizer and chat template.

    Args:
        path: the folder.
        architecture: one of ARCHITECTURES, or "mistral".
        seed: of the weights.
        vocab: tokens; at least 259.
        dtype: torch's name of the storage type.
        max_shard_size: as `save_pretrained` takes it; small values give sharded files.
        config: fields of the transformers config that replace the tiny defaults.

    Returns:
        The folder. `transformers.AutoModelForCausalLM.from_pretrained` loads it.
    """
    import torch
    import transformers

    kinds = {
        "llama": "Llama",
        "mistral": "Mistral",
        "qwen2": "Qwen2",
        "qwen3": "Qwen3",
        "gemma3": "Gemma3",
    }
    kind = kinds[architecture]
    config_class = getattr(transformers, f"{kind}TextConfig" if kind == "Gemma3" else f"{kind}Config")
    settings: dict[str, Any] = {
        "vocab_size": vocab,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 6 if kind == "Gemma3" else 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16 if kind == "Qwen2" else 32,  # Qwen2 has no head_dim of its own
        "max_position_embeddings": 2048,
        "bos_token_id": tiny_tokenizer.BOS,
        "eos_token_id": tiny_tokenizer.EOS,
        "pad_token_id": 0,
        **({"sliding_window": 32} if kind == "Gemma3" else {}),
    }
    torch.manual_seed(seed)
    settings.update(config)
    model = getattr(transformers, f"{kind}ForCausalLM")(config_class(**settings))
    # The library's initial weights leave attention flat and norms at one: they would test nothing.
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                gain = 1.5
                if "embed_tokens" in name or "lm_head" in name:
                    gain = (0.1 if kind == "Gemma3" else 0.5) * weight.shape[1] ** 0.5
                weight.normal_(0.0, gain / weight.shape[1] ** 0.5)
            else:
                weight.add_(0.2 * torch.randn_like(weight))
                if kind == "Gemma3":  # as in _norm_centre
                    weight.add_(4.0 if name == "model.norm.weight" else 2.0 if ".post_" in name else 0.0)
    model.to(getattr(torch, dtype)).save_pretrained(path, max_shard_size=max_shard_size)

    folder = Path(path)
    (folder / "tokenizer.json").write_text(tiny_tokenizer.tokenizer_json(vocab))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": tiny_tokenizer.SPECIAL[tiny_tokenizer.BOS],
                "eos_token": tiny_tokenizer.SPECIAL[tiny_tokenizer.EOS],
                "chat_template": tiny_tokenizer.CHAT_TEMPLATE,
            }
        )
    )
    return folder
