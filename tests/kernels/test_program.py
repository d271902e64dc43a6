"""The native interpreter against the reference one: the same Program, within the formats' error."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from tenfold import _native
from tenfold.checkpoints.dequantize import dequantize
from tenfold.checkpoints.open import open_checkpoint
from tenfold.config.engine import EngineSettings
from tenfold.core.plan import ScheduledChunk, StepPlan
from tenfold.engine.model import load_model
from tenfold.kernels import lower
from tenfold.models.build import build_program
from tenfold.program.op import Add, GatedActivation
from tenfold.program.reference import Chunk, ReferenceRunner
from tests.tiny_models import write_tiny_gguf

TOKENS = tuple(int(token) for token in np.random.default_rng(1).integers(3, 300, 100))


def native_logits(path: Path, isa: str) -> np.ndarray:
    """Logits of every token of TOKENS, computed in two chunks."""
    model = load_model(path, EngineSettings(isa=isa, threads=2, kv_cache_memory_bytes=4 << 20))
    blocks = tuple(range(10, 10 + 7))
    parts = []
    for start, stop in ((0, 37), (37, len(TOKENS))):
        chunk = ScheduledChunk(0, start, TOKENS[start:stop], blocks, True)
        parts.append(model.runner.logits(StepPlan(0, (chunk,)), range(stop - start)))
    return np.concatenate(parts)


def reference_logits(path: Path) -> np.ndarray:
    """The same from the dequantized weights in float32."""
    checkpoint = open_checkpoint(path)
    runner = ReferenceRunner(build_program(checkpoint), lambda name: dequantize(checkpoint.tensors[name]))
    (logits,) = runner.forward([Chunk(0, 0, TOKENS, "all")])
    return np.asarray(logits)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gemma3"])
@pytest.mark.parametrize("type", ["Q4_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K", "BF16"])
def test_native_agrees_with_reference(tmp_path: Path, architecture: str, type: str) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", architecture, type, seed=3)
    truth = reference_logits(path)
    for isa in _native.supported_isas():
        guess = native_logits(path, isa)
        assert guess.shape == truth.shape
        # int8 activations cost about two percent of these random models' logits, bf16 ones half a percent.
        error = np.sqrt(np.mean((guess - truth) ** 2)) / truth.std()
        assert error < (0.02 if type == "BF16" else 0.05), f"{isa}: the logits' relative error is {error:.4f}"


@pytest.mark.parametrize("isa", _native.supported_isas())
@pytest.mark.parametrize("architecture", ["qwen2", "gemma3"])
def test_gated_activations_within_linears_change_no_bit(
    tmp_path: Path, architecture: str, isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", architecture)
    joined = native_logits(path, isa)
    monkeypatch.setattr(lower, "_kept", lambda program: set(program.buffers))
    assert joined.tobytes() == native_logits(path, isa).tobytes()


def test_gates_that_others_read_are_kept(tmp_path: Path) -> None:
    program = build_program(open_checkpoint(write_tiny_gguf(tmp_path / "tiny.gguf")))
    (gated, *_) = (op for op in program.ops if isinstance(op, GatedActivation))
    at = program.ops.index(gated)
    assert gated.gate.buffer not in lower._kept(program)
    for reader in (gated, Add(gated.gate, gated.out)):
        ops = (*program.ops[: at + 1], reader, *program.ops[at + 1 :])
        assert gated.gate.buffer in lower._kept(msgspec.structs.replace(program, ops=ops))


def test_steps_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    model = load_model(path, EngineSettings(threads=1, kv_cache_memory_bytes=4 << 20))

    def step(
        tokens: tuple[int, ...] = (5,), blocks: tuple[int, ...] = (0,), rows: tuple[int, ...] = (0,)
    ) -> None:
        model.runner.logits(StepPlan(0, (ScheduledChunk(0, 0, tokens, blocks, True),)), rows)

    step()
    for bad in (
        {"tokens": (300,)},
        {"tokens": (-1,)},
        {"blocks": (10**6,)},
        {"blocks": (-1,)},
        {"blocks": ()},
        {"tokens": tuple([5] * 17)},
        {"tokens": tuple([5] * 600), "blocks": tuple(range(40))},
        {"rows": (1,)},
        {"rows": (-1,)},
    ):
        with pytest.raises(ValueError, match=r"\."):
            step(**bad)


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_profiled_steps_give_the_same_bits(tmp_path: Path, architecture: str) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", architecture)
    model = load_model(path, EngineSettings(threads=2, kv_cache_memory_bytes=4 << 20))
    native, blocks = model.runner.native, tuple(range(7))

    def logits(count: int) -> np.ndarray:
        plan = StepPlan(0, (ScheduledChunk(0, 0, TOKENS[:count], blocks, True),))
        return model.runner.logits(plan, range(count))

    plain = [logits(count) for count in (1, 100)]
    native.profile(True)
    profiled = [logits(count) for count in (1, 100)]
    times = native.step_times()
    native.profile(False)
    for before, after in zip(plain, profiled, strict=True):
        assert before.tobytes() == after.tobytes()
    assert times["steps"] == 2
    assert {kind for kind, _, _ in times["stages"]} == {"rows", "linear", "attention", "logits"}
    inside = times["prepare"] + times["sampling"] + sum(seconds for _, seconds, _ in times["stages"])
    assert 0 < inside <= times["seconds"]
    for _, seconds, parts in times["stages"]:
        assert sum(part[2] for part in parts) == pytest.approx(seconds)
    numbers = [number for _, _, parts in times["stages"] for number, quantizes, _ in parts if not quantizes]
    assert numbers == list(range(len(model.program.ops)))
    assert sum(native.weight_sizes) < native.weight_bytes, "the vectors are missing"
    assert native.step_times()["stages"] == []
