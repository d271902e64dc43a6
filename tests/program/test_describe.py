from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tenfold.models.build import build_program
from tenfold.program.describe import describe, describe_lines
from tests.memory_checkpoint import tiny_checkpoint


@pytest.mark.parametrize("architecture", ("llama", "qwen2", "qwen3", "gemma3"))
def test_numbers_add_up(architecture):
    checkpoint = tiny_checkpoint(architecture)
    sizes = {name: array.nbytes for name, array in checkpoint.arrays.items()}
    summary = describe(build_program(checkpoint), sizes)
    assert summary.parameters == sum(array.size for array in checkpoint.arrays.values())
    assert summary.weight_bytes == 4 * summary.parameters == sum(part.bytes for part in summary.parts)
    assert summary.parameters == sum(part.parameters for part in summary.parts)
    c = checkpoint.config
    # Two FLOPs a matrix element, logits included; norms and the like are a small rest.
    matrices = sum(a.size for n, a in checkpoint.arrays.items() if a.ndim == 2)
    matrices -= 0 if c.tie_embeddings else c.vocab_size * c.hidden_size
    assert 2 * matrices < summary.flops_per_token < 2.3 * matrices
    windowed = 5 if architecture == "gemma3" else 0
    assert summary.windowed_layers == windowed
    assert summary.flops_per_position == (c.num_layers - windowed) * 4 * c.num_heads * c.head_dim
    # Keys and values, two bytes each.
    assert summary.kv_bytes_per_token == c.num_layers * 2 * 2 * c.num_kv_heads * c.head_dim


def test_without_sizes_bytes_are_unknown():
    summary = describe(build_program(tiny_checkpoint("llama")))
    assert summary.weight_bytes is None
    assert all(part.bytes is None for part in summary.parts)
    assert not any("weight bytes" in line for line in describe_lines(summary))


def test_alike_layers_are_written_once():
    few, many = (
        describe_lines(describe(build_program(tiny_checkpoint("llama", num_layers=n)))) for n in (2, 30)
    )
    assert len(few) == len(many)
    assert "  2 times:" in few
    assert "  30 times:" in many
    assert sum("ffn_down.weight" in line and "Linear" in line for line in many) == 1


def test_all_ops_are_written_when_asked_for():
    summary = describe(build_program(tiny_checkpoint("llama", num_layers=3)))
    lines = describe_lines(summary, all_ops=True)
    assert len(lines) - lines.index("ops:") - 1 == len(summary.ops)
    assert any("blk.2.ffn_down.weight" in line for line in lines)


def test_alternating_layers_are_nested():
    lines = describe_lines(describe(build_program(tiny_checkpoint("gemma3", num_layers=12))))
    assert "  2 times:" in lines
    assert "    5 times:" in lines
    assert sum("window 5" in line for line in lines) == 1


def test_a_single_layer_is_named_exactly():
    lines = describe_lines(describe(build_program(tiny_checkpoint("llama", num_layers=1))))
    assert any("blk.0.attn_k.weight | blk.0.attn_v.weight -> qkv[64]" in x for x in lines)


def test_a_summary_is_plain_data():
    summary = describe(build_program(tiny_checkpoint("qwen2")), dict.fromkeys(_names("qwen2"), 1))
    assert msgspec.json.decode(msgspec.json.encode(summary), type=type(summary)) == summary
    assert isinstance(summary.parameters, int) and not isinstance(summary.parameters, np.integer)


def _names(architecture: str) -> list[str]:
    return list(tiny_checkpoint(architecture).arrays)
