"""GGUF files open as checkpoints, and equal what the gguf package reads of them."""

import struct

import gguf
import numpy as np
import pytest

from tenfold.checkpoints.checkpoint import RopeScaling
from tenfold.checkpoints.dequantize import dequantize
from tenfold.checkpoints.gguf import GgufCheckpoint
from tenfold.core.errors import CheckpointError, UnsupportedModelError
from tests.checkpoints import raw_gguf as raw
from tests.tiny_models import ARCHITECTURES, write_tiny_gguf

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]


def with_keys(path, keys, drop=()):
    """Rewrite a GGUF file with metadata keys replaced, added or dropped; tensors stay."""
    reader = gguf.GGUFReader(path)
    body = {}
    for name, field in reader.fields.items():
        if not name.startswith("GGUF."):
            body[name] = b"".join(bytes(part) for part in field.parts[2:])
    body.update(keys)
    for name in drop:
        del body[name]
    start = int(reader.fields["GGUF.tensor_count"].offset) + 16
    first_tensor = min(int(tensor.field.offset) for tensor in reader.tensors)
    content = path.read_bytes()
    infos_end = max(t.field.offset + sum(p.nbytes for p in t.field.parts) for t in reader.tensors)
    head = content[: start - 8] + struct.pack("<Q", len(body))
    head += b"".join(raw.string(name) + value for name, value in body.items())
    head += content[first_tensor:infos_end]
    path.write_bytes(head + bytes(-len(head) % 32) + content[reader.data_offset :])
    return path


@pytest.fixture
def llama(tmp_path):
    return write_tiny_gguf(tmp_path / "llama.gguf")


@pytest.fixture
def gemma(tmp_path):
    return write_tiny_gguf(tmp_path / "gemma.gguf", "gemma3")


@pytest.mark.parametrize("kind", TYPES)
def test_tensors_equal_the_oracle(tmp_path, kind):
    path = write_tiny_gguf(tmp_path / "m.gguf", type=kind, layers=1)
    checkpoint = GgufCheckpoint(path)
    reader = gguf.GGUFReader(path)
    assert list(checkpoint.tensors) == [tensor.name for tensor in reader.tensors]
    for tensor in reader.tensors:
        ours = checkpoint.tensors[tensor.name]
        assert ours.shape == tuple(tensor.shape[::-1])
        assert ours.offset == tensor.data_offset
        assert ours.data.tobytes() == tensor.data.tobytes()
        assert dequantize(ours).shape == ours.shape


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_config_of_every_architecture(tmp_path, architecture):
    path = write_tiny_gguf(tmp_path / "m.gguf", architecture)
    checkpoint = GgufCheckpoint(path)
    config = checkpoint.config
    gemma = architecture == "gemma3"
    assert checkpoint.name == f"Tiny {architecture}"
    assert config.architecture == architecture
    assert (config.vocab_size, config.hidden_size, config.num_layers) == (300, 64, 6 if gemma else 2)
    assert (config.num_heads, config.num_kv_heads, config.head_dim) == (4, 2, 32)
    assert (config.intermediate_size, config.context_length) == (128, 2048)
    assert config.rope_interleaved == (architecture == "llama")
    assert config.tie_embeddings == gemma
    assert config.activation == ("gelu_tanh" if gemma else "silu")
    assert (config.sliding_window, config.global_every) == ((32, 6) if gemma else (None, 0))
    assert (config.rope_theta, config.rope_theta_local) == ((1e6, 1e4) if gemma else (1e4, None))
    assert config.norm_offset == 0.0
    assert config.rope_scaling is None
    assert config.attention_scale is None


def test_llama_with_a_window_on_every_layer(tmp_path):
    config = GgufCheckpoint(write_tiny_gguf(tmp_path / "m.gguf", window=64)).config
    assert (config.sliding_window, config.global_every) == (64, 0)


def test_llama3_factors_name_their_tensor(tmp_path):
    checkpoint = GgufCheckpoint(write_tiny_gguf(tmp_path / "m.gguf", rope_factors=True))
    assert checkpoint.config.rope_factors == "rope_freqs.weight"
    assert checkpoint.tensors["rope_freqs.weight"].shape == (16,)


def test_rope_scalings(llama):
    def scaling(**fields):
        kinds = {str: raw.STRING, int: raw.U32, float: raw.F32}
        keys = {f"llama.rope.{k.replace('__', '.')}": raw.value(kinds[type(v)], v) for k, v in fields.items()}
        return GgufCheckpoint(with_keys(llama, keys, [])).config

    assert scaling(scaling__type="none", scaling__factor=4.0).rope_scaling is None
    linear = RopeScaling(kind="linear", factor=4.0)
    assert scaling(scaling__type="linear", scaling__factor=4.0).rope_scaling == linear
    yarn = scaling(scaling__type="yarn", scaling__original_context_length=1024)
    assert yarn.rope_scaling == RopeScaling(kind="yarn", factor=4.0, original_context=1024)
    assert yarn.context_length == 4096
    assert scaling(scaling__attn_factor=0.5).rope_scaling.attention_factor == pytest.approx(
        0.5 * 1.138629, 1e-6
    )
    with pytest.raises(UnsupportedModelError, match="'longrope' is not supported"):
        scaling(scaling__type="longrope")


def test_old_linear_scaling(llama):
    keys = {"llama.rope.scale_linear": raw.value(raw.F32, 2.0)}
    assert GgufCheckpoint(with_keys(llama, keys)).config.rope_scaling == RopeScaling(
        kind="linear", factor=2.0
    )


def test_gemma_window_patterns(gemma):
    key = "gemma3.attention.sliding_window_pattern"
    with_keys(gemma, {key: raw.value(raw.ARRAY, [1, 1, 0, 1, 1, 0], raw.BOOL)})
    assert GgufCheckpoint(gemma).config.global_every == 3
    with_keys(gemma, {key: raw.value(raw.U32, 2), "gemma3.rope.freq_base_swa": raw.value(raw.F32, 500.0)})
    assert GgufCheckpoint(gemma).config.global_every == 2
    assert GgufCheckpoint(gemma).config.rope_theta_local == 500.0
    with_keys(gemma, {key: raw.value(raw.ARRAY, [1, 0, 0, 1, 1, 0], raw.BOOL)})
    with pytest.raises(UnsupportedModelError, match="without a fixed period"):
        GgufCheckpoint(gemma)


def test_uniform_head_counts_per_layer(llama):
    key = "llama.attention.head_count_kv"
    assert GgufCheckpoint(with_keys(llama, {key: raw.value(raw.ARRAY, [2, 2])})).config.num_kv_heads == 2
    with pytest.raises(CheckpointError, match="different values"):
        GgufCheckpoint(with_keys(llama, {key: raw.value(raw.ARRAY, [2, 4])}))


WRONG = [
    ("llama.attention.head_count", raw.value(raw.U32, 0), "is 0, outside 1 to"),
    ("llama.attention.head_count_kv", raw.value(raw.U32, 3), "does not divide 4 heads"),
    ("llama.attention.head_count", raw.value(raw.STRING, "4"), "must be an integer, not a string"),
    ("llama.attention.head_count", raw.value(raw.BOOL, 1), "must be an integer, not true or false"),
    ("llama.attention.key_length", raw.value(raw.U32, 33), "odd size 33"),
    ("llama.attention.value_length", raw.value(raw.U32, 64), "differs from the key length"),
    ("llama.rope.dimension_count", raw.value(raw.U32, 64), "is 64, outside 2 to 32"),
    ("llama.rope.dimension_count", raw.value(raw.U32, 31), "odd"),
    ("llama.block_count", raw.value(raw.U32, 2**31), "is 2147483648, outside 1 to 1024"),
    ("llama.context_length", raw.value(raw.U64, 2**60), "outside 1 to"),
    ("llama.vocab_size", raw.value(raw.U32, 299), "is 299, but token_embd.weight has 300 rows"),
    ("llama.rope.freq_base", raw.value(raw.F32, float("nan")), "is nan"),
    ("llama.rope.freq_base", raw.value(raw.F32, -1.0), "outside 0 to"),
    ("llama.attention.layer_norm_rms_epsilon", raw.value(raw.F32, 0.0), "outside 0 to"),
    ("tokenizer.ggml.tokens", raw.value(raw.ARRAY, ["a"] * 301, raw.STRING), "only 300 rows"),
    ("tokenizer.ggml.tokens", raw.value(raw.ARRAY, [], raw.STRING), "no tokenizer"),
    ("tokenizer.ggml.tokens", raw.value(raw.STRING, "abc"), "no tokenizer"),
    ("tokenizer.ggml.token_type", raw.value(raw.ARRAY, [1], raw.I32), "has 1 entries for 300 tokens"),
    ("tokenizer.ggml.token_type", raw.value(raw.ARRAY, ["a"], raw.STRING), "must be an array of numbers"),
    ("tokenizer.ggml.scores", raw.value(raw.ARRAY, [1.0], raw.F32), "has 1 entries for 300 tokens"),
    ("tokenizer.ggml.merges", raw.value(raw.U32, 5), "must be an array of strings"),
    ("tokenizer.ggml.eos_token_id", raw.value(raw.U32, 300), "is 300, outside 0 to 299"),
    ("tokenizer.ggml.bos_token_id", raw.value(raw.ARRAY, [1, 2]), "different values"),
    ("tokenizer.chat_template", raw.value(raw.U32, 5), "must be a string"),
    ("tokenizer.ggml.add_bos_token", raw.value(raw.U32, 5), "must be true or false"),
    ("general.name", raw.value(raw.U32, 5), "must be a string"),
]


@pytest.mark.parametrize(("key", "value", "problem"), WRONG)
def test_wrong_metadata_names_its_key_and_place(llama, key, value, problem):
    with_keys(llama, {key: value})
    place = llama.read_bytes().index(raw.string(key) + value)
    with pytest.raises(CheckpointError) as raised:
        GgufCheckpoint(llama)
    assert f"metadata key {key!r} " in str(raised.value)
    assert problem in str(raised.value)
    assert raised.value.offset == place


@pytest.mark.parametrize("key", ["llama.block_count", "llama.embedding_length", "llama.context_length"])
def test_missing_metadata(llama, key):
    with pytest.raises(CheckpointError, match=f"metadata key '{key}' is missing"):
        GgufCheckpoint(with_keys(llama, {}, [key]))


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        (
            "general.architecture",
            raw.value(raw.STRING, "mamba"),
            "'mamba' is not supported; supported: llama, qwen2",
        ),
        ("llama.expert_count", raw.value(raw.U32, 8), "mixture-of-experts"),
        ("llama.attn_logit_softcapping", raw.value(raw.F32, 50.0), "soft-capping"),
        ("split.count", raw.value(raw.U16, 3), "merge the parts"),
    ],
)
def test_what_is_not_built_is_refused(llama, key, value, problem):
    with pytest.raises(UnsupportedModelError, match=problem):
        GgufCheckpoint(with_keys(llama, {key: value}))


def test_shapes_must_fit_the_hyperparameters(llama):
    keys = {"llama.feed_forward_length": raw.value(raw.U32, 256)}
    with pytest.raises(
        CheckpointError, match=r"its shape is \(128, 64\), but .* make it \(256, 64\)"
    ) as raised:
        GgufCheckpoint(with_keys(llama, keys))
    assert raised.value.tensor == "blk.0.ffn_gate.weight"


def test_layers_must_match_the_tensors(llama):
    with pytest.raises(CheckpointError, match="this tensor of llama is missing") as raised:
        GgufCheckpoint(with_keys(llama, {"llama.block_count": raw.value(raw.U32, 3)}))
    assert raised.value.tensor == "blk.2.attn_norm.weight"
    with pytest.raises(CheckpointError, match="no place in the architecture llama with 1 layers"):
        GgufCheckpoint(with_keys(llama, {"llama.block_count": raw.value(raw.U32, 1)}))


def test_a_tensor_of_another_architecture_is_not_ignored(tmp_path):
    path = write_tiny_gguf(tmp_path / "m.gguf", "qwen3")
    content = path.read_bytes().replace(b"qwen3", b"llama")
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="no place") as raised:
        GgufCheckpoint(path)
    assert raised.value.tensor == "blk.0.attn_q_norm.weight"


def test_tokenizer(llama):
    source = GgufCheckpoint(llama).tokenizer
    assert source.bos_token_id == 1
    assert source.eos_token_ids == (2, 0)  # <|im_end|> by its key, <|endoftext|> as a control token
    assert not source.add_bos
    assert source.special == {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    assert source.chat_template.startswith("{% for message")
    assert all(name.startswith("tokenizer.") for name in source.gguf)
    assert source.gguf["tokenizer.ggml.tokens"][:2] == ["<|endoftext|>", "<|im_start|>"]
    assert source.gguf["tokenizer.ggml.token_type"][:4] == [3, 3, 3, 1]


@pytest.mark.parametrize(
    ("model", "pre", "adds"),
    [
        ("llama", "default", True),
        ("gpt2", "llama-bpe", True),
        ("gpt2", "qwen2", False),
        ("gpt2", "smollm", False),
    ],
)
def test_bos_when_the_file_does_not_say(llama, model, pre, adds):
    keys = {
        "tokenizer.ggml.model": raw.value(raw.STRING, model),
        "tokenizer.ggml.pre": raw.value(raw.STRING, pre),
    }
    with_keys(llama, keys, ["tokenizer.ggml.add_bos_token"])
    assert GgufCheckpoint(llama).tokenizer.add_bos == adds


def test_end_of_turn_keys_and_ids_that_mean_none(llama):
    keys = {
        "tokenizer.ggml.eot_token_id": raw.value(raw.U32, 7),
        "tokenizer.ggml.eom_token_id": raw.value(raw.U32, 8),
        "tokenizer.ggml.bos_token_id": raw.value(raw.U32, 2**32 - 1),
        "tokenizer.ggml.padding_token_id": raw.value(raw.I32, -1),
    }
    source = GgufCheckpoint(with_keys(llama, keys)).tokenizer
    assert source.eos_token_ids == (2, 7, 8, 0)
    assert source.bos_token_id is None
    assert source.special == {"eos_token": "<|im_end|>"}


def test_generation_defaults(llama):
    keys = {
        "general.sampling.temp": raw.value(raw.F32, 0.5),
        "general.sampling.top_k": raw.value(raw.I32, 40),
        "general.sampling.min_p": raw.value(raw.F32, 0.0),
    }
    assert GgufCheckpoint(llama).generation_defaults == {}
    defaults = GgufCheckpoint(with_keys(llama, keys)).generation_defaults
    assert defaults == {"temperature": 0.5, "top_k": 40, "min_p": 0.0}


def test_name_falls_back_to_the_file(llama):
    assert GgufCheckpoint(with_keys(llama, {}, ["general.name"])).name == "llama"


def test_27b_gemma_has_its_own_scale(tmp_path):
    path = write_tiny_gguf(tmp_path / "m.gguf", "gemma3", "F32", layers=62, hidden=32, intermediate=32)
    assert GgufCheckpoint(path).config.attention_scale == pytest.approx((32 / 4) ** -0.5)


def test_quantized_vectors_are_refused(tmp_path):
    writer = gguf.GGUFWriter(str(tmp_path / "m.gguf"), "llama")
    writer.add_tensor("token_embd.weight", np.zeros((4, 64), np.float32))
    norm = gguf.quants.quantize(np.ones((1, 64), np.float32), gguf.GGMLQuantizationType.Q8_0)[0]
    writer.add_tensor("output_norm.weight", norm, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    for add in (writer.add_embedding_length, writer.add_feed_forward_length):
        add(64)
    for add in (writer.add_block_count, writer.add_head_count, writer.add_context_length):
        add(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(CheckpointError, match="vector of type Q8_0"):
        GgufCheckpoint(tmp_path / "m.gguf")
