"""The tiny models that other tests stand on are well formed, repeatable and different by seed."""

import gguf
import numpy as np
import pytest
from tokenizers import Tokenizer

from tests.tiny_models import ARCHITECTURES, write_tiny_gguf
from tests.tiny_tokenizer import tokenizer_json, tokens_and_merges

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_has_its_tensors(tmp_path, architecture):
    reader = gguf.GGUFReader(write_tiny_gguf(tmp_path / "m.gguf", architecture, layers=2))
    tensors = {tensor.name for tensor in reader.tensors}
    assert {"token_embd.weight", "output_norm.weight", "blk.1.ffn_down.weight"} <= tensors
    assert ("blk.1.attn_q.bias" in tensors) == (architecture == "qwen2")
    assert ("blk.1.attn_q_norm.weight" in tensors) == (architecture in ("qwen3", "gemma3"))
    assert ("blk.1.post_ffw_norm.weight" in tensors) == (architecture == "gemma3")
    assert ("output.weight" in tensors) == (architecture != "gemma3")
    assert reader.fields["general.architecture"].contents() == architecture


@pytest.mark.parametrize("type", TYPES)
def test_every_type_holds_values_of_the_intended_spread(tmp_path, type):
    reader = gguf.GGUFReader(write_tiny_gguf(tmp_path / "m.gguf", type=type, layers=1))
    (gate,) = (tensor for tensor in reader.tensors if tensor.name == "blk.0.ffn_gate.weight")
    assert gate.tensor_type.name == type
    values = gguf.quants.dequantize(gate.data, gate.tensor_type).astype(np.float64)
    assert values.shape == tuple(reversed(gate.shape))
    assert np.isfinite(values).all()
    assert values.std() == pytest.approx(1.5 / values.shape[1] ** 0.5, rel=0.1)


def test_the_seed_decides_the_bytes(tmp_path):
    paths = [write_tiny_gguf(tmp_path / f"{i}.gguf", seed=seed, layers=1) for i, seed in enumerate((0, 0, 1))]
    files = [path.read_bytes() for path in paths]
    assert files[0] == files[1] != files[2]


def test_a_width_that_blocks_do_not_divide_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no multiple of Q4_K"):
        write_tiny_gguf(tmp_path / "m.gguf", type="Q4_K", hidden=64)


def test_the_tokenizer_is_byte_level_and_merges():
    tokenizer = Tokenizer.from_str(tokenizer_json(300))
    assert tokenizer.get_vocab_size() == 300 == len(tokens_and_merges(300)[0])
    text = "the cat — 你好 🙂\n"
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids) == text
    assert len(ids) < len(text.encode())
    assert tokenizer.encode("<|im_end|>").ids == [2]


def test_a_vocabulary_without_room_for_all_bytes_is_refused():
    with pytest.raises(ValueError, match="too small"):
        tokens_and_merges(100)
