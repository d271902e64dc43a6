"""What `bench/fidelity.py` compares: each stage yields a chunk's logits as float32 (CHUNK // 2 - 1, vocab).

A text is cut into chunks of 512 tokens, each computed on its own, and its positions 256 to 510 are looked at:
those that have context, and a next token in the chunk. llama-perplexity does so, and its files are read here.
"""

from __future__ import annotations

import importlib.util
import pydoc_data.topics
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tenfold.checkpoints.dequantize import dequantize
from tenfold.config.engine import EngineSettings
from tenfold.core.plan import ScheduledChunk, StepPlan
from tenfold.engine.model import load_model, load_tokenizer, open_model
from tenfold.program.reference import Chunk, ReferenceRunner

CHUNK = 512
FIRST = CHUNK // 2
ROWS = CHUNK - 1 - FIRST
MIXED_MODULES = ("sched", "bisect", "colorsys", "fnmatch", "linecache", "copy", "queue", "shlex", "textwrap")

Logits = npt.NDArray[np.float32]


def mixed_text(characters: int) -> str:
    """Prose and code in turn: topics of the Python reference, and the standard library."""
    parts, size = [], 0
    topics = [text for _, text in sorted(pydoc_data.topics.topics.items()) if 1500 < len(text) < 6000]
    for module, topic in zip(MIXED_MODULES * 9, topics, strict=False):
        if size >= characters:
            break
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin).read_text(encoding="utf-8")
        at = size % max(1, len(source) - 4000)
        parts += [topic, source[at : at + 4000]]
        size += len(topic) + 4000
    return "\n\n".join(parts)[:characters]


def tokenize(model: Path, text: str, chunks: int) -> tuple[list[list[int]], list[list[int]]]:
    """Tokens of a text in chunks: as they are, and as the model sees them, bos the first if it wants one."""
    source = open_model(model)[0].tokenizer
    tokenizer = load_tokenizer(source)
    tokens = tokenizer.encode(text, parse_special=False)
    if len(tokens) < chunks * CHUNK:
        raise SystemExit(
            f"The text has {len(tokens)} tokens; {chunks * CHUNK} are needed. Give a longer one."
        )
    plain = [tokens[i * CHUNK : (i + 1) * CHUNK] for i in range(chunks)]
    if not tokenizer.add_bos or tokenizer.bos_id is None:
        return plain, plain
    return plain, [[tokenizer.bos_id, *chunk[1:]] for chunk in plain]


def truth(model: Path, chunks: list[list[int]], threads: int) -> Iterator[Logits]:
    """Transformers in float32, from the weights that it dequantizes itself."""
    import torch
    import transformers

    torch.set_num_threads(threads)
    transformers.utils.logging.disable_progress_bar()
    network = transformers.AutoModelForCausalLM.from_pretrained(
        model.parent, gguf_file=model.name, dtype=torch.float32
    )
    network.eval()
    with torch.inference_mode():
        for chunk in chunks:
            logits = network(torch.tensor([chunk]), logits_to_keep=CHUNK - FIRST).logits
            yield logits[0, :-1].numpy()


def reference(model: Path, tokens: list[int]) -> Logits:
    """Logits of all tokens from Tenfold's own slow interpreter: a second opinion of the truth."""
    checkpoint, program = open_model(model)
    runner = ReferenceRunner(program, lambda name: dequantize(checkpoint.tensors[name]))
    return np.asarray(runner.forward([Chunk(0, 0, tokens, "all")])[0], dtype=np.float32)


def tenfold(model: Path, chunks: list[list[int]], threads: int, isa: str | None = None) -> Iterator[Logits]:
    """The native runner, one chunk a step."""
    settings = EngineSettings(
        isa=isa, threads=threads, max_num_batched_tokens=CHUNK, kv_cache_memory_bytes=128 << 20
    )
    runner = load_model(model, settings).runner
    blocks = tuple(range(CHUNK // settings.block_size))
    for number, chunk in enumerate(chunks):
        step = StepPlan(number, (ScheduledChunk(number, 0, tuple(chunk), blocks, True),))
        yield runner.logits(step, range(FIRST, CHUNK - 1))


def run_llama(
    binaries: Path, model: Path, text: Path, chunks: int, threads: int, flash: bool, out: Path
) -> None:
    """Run llama-perplexity, which writes its tokens and log-probabilities to `out`."""
    part = out.with_suffix(".part")
    command: list[Any] = [binaries / "llama-perplexity", "-m", model, "-f", text, "-c", CHUNK, "-b", CHUNK]
    command += ["--chunks", chunks, "-t", threads, "-fa", "on" if flash else "off", "--save-all-logits", part]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"llama-perplexity failed:\n{done.stderr[-2000:]}")
    part.rename(out)


def read_llama(file: Path, chunks: list[list[int]]) -> Iterator[Logits]:
    """Read what llama-perplexity wrote.

    A header ("_logits_", then int32: context, vocabulary, chunks), the tokens as int32, then for each row of
    ROWS a chunk: float32 step, float32 least log-probability, and the vocabulary as uint16 steps above it,
    padded to an even number. What is over 16 below the largest is written as 16 below it.

    Raises:
        SystemExit: its tokens are not these.
    """
    with file.open("rb") as stream:
        if stream.read(8) != b"_logits_":
            raise SystemExit(f"{file} is no file of log-probabilities; delete it.")
        context, vocab, count = struct.unpack("<3i", stream.read(12))
        tokens = np.fromfile(stream, np.int32, context * count).reshape(count, context)
        if tokens.shape != np.shape(chunks):
            raise SystemExit(f"{file} has chunks of shape {tokens.shape}, not {np.shape(chunks)}; delete it.")
        wrong = np.argwhere(tokens != np.asarray(chunks))
        if len(wrong):
            raise SystemExit(
                f"llama.cpp's tokens differ from Tenfold's at {len(wrong)} places, first {wrong[0]}."
            )
        width = (vocab + 1) // 2 * 2
        for _ in range(count):
            rows = np.fromfile(stream, np.uint16, ROWS * (width + 4)).reshape(ROWS, width + 4)
            head = np.ascontiguousarray(rows[:, :4]).view(np.float32)
            yield rows[:, 4 : 4 + vocab] * head[:, :1] + head[:, 1:2]
