"""The pieces of a decoder layer that architectures share.

Each piece appends ops over these buffers: "x" the residual stream, "h" its normed copy, "qkv" the projections
of attention, "attn" its result, "gate_up" and "act" the feed-forward's. Linears are written one by one; the
pass `pack_linears` joins those of one input.
"""

from __future__ import annotations

from tenfold.models.builder import ProgramBuilder
from tenfold.program.op import (
    Add,
    Attention,
    Embed,
    GatedActivation,
    Linear,
    Logits,
    RmsNorm,
    Rope,
    View,
)
from tenfold.program.program import Program


def embed(b: ProgramBuilder, scale: float = 1.0) -> None:
    """x = the tokens' embeddings * scale."""
    config = b.config
    b.buffer("x", config.hidden_size)
    weight = b.weight("token_embd.weight", config.vocab_size, config.hidden_size)
    b.emit(Embed(out="x", weight=weight, scale=scale))


def norm(b: ProgramBuilder, tensor: str, x: str, out: str) -> None:
    """out = RMS norm of x; both as wide as the residual."""
    width = b.config.hidden_size
    weight = b.norm_weight(tensor, width)
    b.emit(RmsNorm(b.buffer(x, width), b.buffer(out, width), weight, b.config.rms_norm_eps))


def attend(
    b: ProgramBuilder, layer: int, *, rope: str, biases: bool = False, head_norms: bool = False
) -> None:
    """attn = attention of layer over h.

    Args:
        b: collects the ops.
        layer: its number, which names its tensors.
        rope: the rotary table.
        biases: Q, K and V must have biases; otherwise they have those that the checkpoint has.
        head_norms: each head of Q and K is normed before it is rotated.
    """
    config = b.config
    q_width, kv_width = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    h = b.buffer("h", config.hidden_size)
    b.buffer("qkv", q_width + 2 * kv_width)
    q = View("qkv", 0, q_width)
    k = View("qkv", q_width, kv_width)
    v = View("qkv", q_width + kv_width, kv_width)
    for part, view in (("q", q), ("k", k), ("v", v)):
        weight = b.weight(f"blk.{layer}.attn_{part}.weight", view.width, config.hidden_size)
        bias = b.bias(f"blk.{layer}.attn_{part}.bias", view.width, required=biases)
        b.emit(Linear(h, view, (weight,), (bias,)))
    if head_norms:
        for part, view in (("q", q), ("k", k)):
            weight = b.norm_weight(f"blk.{layer}.attn_{part}_norm.weight", config.head_dim)
            b.emit(RmsNorm(view, view, weight, config.rms_norm_eps, head_dim=config.head_dim))
    for view in (q, k):
        b.emit(Rope(view, config.head_dim, rope))
    window = b.window(layer)
    scale = config.head_dim**-0.5 if config.attention_scale is None else config.attention_scale
    b.emit(
        Attention(
            q=q,
            k=k,
            v=v,
            out=b.buffer("attn", q_width),
            layer=b.add_layer_kv(window),
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            scale=scale,
            window=window,
        )
    )


def gate(b: ProgramBuilder, layer: int) -> None:
    """act = activation(gate(h)) * up(h)."""
    width = b.config.intermediate_size
    h = b.buffer("h", b.config.hidden_size)
    b.buffer("gate_up", 2 * width)
    halves = {"gate": View("gate_up", 0, width), "up": View("gate_up", width, width)}
    for part, view in halves.items():
        weight = b.weight(f"blk.{layer}.ffn_{part}.weight", width, b.config.hidden_size)
        b.emit(Linear(h, view, (weight,), (None,)))
    out = b.buffer("act", width)
    b.emit(GatedActivation(halves["gate"], halves["up"], out, b.config.activation))


def project(b: ProgramBuilder, tensor: str, x: str, *, post_norm: str | None = None) -> None:
    """Bring a sublayer's result back to the residual: x += linear(buffer), normed if a norm is named."""
    hidden = b.config.hidden_size
    widths = {"attn": b.config.num_heads * b.config.head_dim, "act": b.config.intermediate_size}
    weight = b.weight(f"{tensor}.weight", hidden, widths[x])
    bias = b.bias(f"{tensor}.bias", hidden)
    source, residual = b.buffer(x, widths[x]), b.buffer("x", hidden)
    if post_norm is None:
        b.emit(Linear(source, residual, (weight,), (bias,), add=True))
        return
    # "h" is free again: the sublayer has read it.
    h = b.buffer("h", hidden)
    b.emit(Linear(source, h, (weight,), (bias,)))
    norm(b, post_norm, "h", "h")
    b.emit(Add(h, residual))


def pre_norm_layer(
    b: ProgramBuilder, layer: int, *, rope: str, biases: bool = False, head_norms: bool = False
) -> None:
    """One layer of the Llama family: norm, attention, residual; norm, gated feed-forward, residual."""
    norm(b, f"blk.{layer}.attn_norm.weight", "x", "h")
    attend(b, layer, rope=rope, biases=biases, head_norms=head_norms)
    project(b, f"blk.{layer}.attn_output", "attn")
    norm(b, f"blk.{layer}.ffn_norm.weight", "x", "h")
    gate(b, layer)
    project(b, f"blk.{layer}.ffn_down", "act")


def logits(b: ProgramBuilder) -> Program:
    """The final norm and the logits, with the embedding's weight if it is tied; finishes the Program."""
    config = b.config
    norm(b, "output_norm.weight", "x", "h")
    tensor = "token_embd.weight" if config.tie_embeddings else "output.weight"
    weight = b.weight(tensor, config.vocab_size, config.hidden_size)
    b.emit(Logits(b.buffer("h", config.hidden_size), weight, config.logit_softcap))
    return b.finish()
