"""A profile as a picture: an icicle, each part as wide as its time, what it is made of beneath it.

The dark line at a part's foot is as long as the share of its ceiling that it reaches: the rest could be saved at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import msgspec

from tenfold.lab.profile.report import Node, PhaseProfile, ProfileReport

_WIDTH, _MARGIN, _ROW, _GAP = 1200.0, 16.0, 26.0, 34.0
_CHARACTER = 6.6  # of the 11 px monospaced text, with some air
_THINNEST = 0.4
_STYLE = """
  svg { font: 11px ui-monospace, Menlo, Consolas, monospace; background: #ffffff; }
  text { fill: #1b1f24; pointer-events: none; }
  .title { font-size: 14px; font-weight: bold; }
  .note { fill: #59636e; }
  rect { stroke: #ffffff; stroke-width: 0.6; }
  .step { fill: #d0d7de; } .place { fill: #bcd5f0; } .outside { fill: #e6d9a8; }
  .linear, .logits { fill: #8fc7a3; } .attention { fill: #e3a7c0; } .rows { fill: #c9b8ea; }
  .quantize { fill: #b3a1de; } .sampling { fill: #f0c08a; }
  .reached { fill: #1b1f24; opacity: 0.55; stroke: none; }
  @media (prefers-color-scheme: dark) {
    svg { background: #0d1117; }
    text { fill: #e6edf3; }
    .note { fill: #9198a1; }
    rect { stroke: #0d1117; }
    .step { fill: #3d444d; } .place { fill: #1f4a78; } .outside { fill: #5c4f1d; }
    .linear, .logits { fill: #1f6b3d; } .attention { fill: #7d2f55; } .rows { fill: #4b3a7a; }
    .quantize { fill: #5e4a94; } .sampling { fill: #7d4e17; }
    .reached { fill: #e6edf3; }
  }
"""


class _Box(msgspec.Struct, frozen=True):
    node: Node
    depth: int
    left: float
    width: float


def draw(report: ProfileReport, shown: str) -> str:
    """The profile as an SVG document; `shown` is the model's name for people."""
    parts: list[str] = []
    top = _MARGIN
    for phase in report.phases:
        parts += _heading(report, phase, shown, top)
        top += _GAP + 8
        boxes = list(_boxes(phase.tree, 0, _MARGIN, _WIDTH - 2 * _MARGIN))
        parts += [_box(box, top) for box in boxes]
        top += _ROW * (1 + max(box.depth for box in boxes)) + _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH:.0f}" height="{top:.0f}" '
        f'viewBox="0 0 {_WIDTH:.0f} {top:.0f}">\n<style>{_STYLE}</style>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _heading(report: ProfileReport, phase: PhaseProfile, shown: str, top: float) -> list[str]:
    title = (
        f"{shown}: {phase.phase}, {phase.step_seconds * 1e3:.2f} ms a step, {phase.tokens_per_s:.0f} tokens/s"
    )
    ceilings = report.ceilings
    note = (
        f"batch {report.batch}, depth {report.depth}, {phase.tokens_per_step:g} tokens a step; {report.isa}, "
        f"{report.threads} threads; ceilings: memory {ceilings.memory_read_gbs:.1f} GB/s, "
        f"int8 {ceilings.int8_gops:.0f} GOPS, bf16 {ceilings.bf16_gflops:.0f} GFLOPS (dark lines: share reached)"
    )
    return [
        f'<text class="title" x="{_MARGIN}" y="{top + 12:.1f}">{escape(title)}</text>',
        f'<text class="note" x="{_MARGIN}" y="{top + 30:.1f}">{escape(note)}</text>',
    ]


def _boxes(node: Node, depth: int, left: float, width: float) -> Iterator[_Box]:
    """The node and what lies beneath it, as far as it can be seen."""
    if width < _THINNEST:
        return
    yield _Box(node, depth, left, width)
    for part in node.parts:
        wide = width * part.seconds / node.seconds if node.seconds > 0 else 0.0
        yield from _boxes(part, depth + 1, left, wide)
        left += wide


def _box(box: _Box, top: float) -> str:
    node, y = box.node, top + box.depth * _ROW
    fits = int((box.width - 6) / _CHARACTER)
    label = f"{node.name} {node.share:.0%}"
    if fits < len(label):
        label = node.name if fits >= len(node.name) else node.name[: fits - 1] + "…" if fits >= 4 else ""
    text = f'<text x="{box.left + 4:.2f}" y="{y + 17:.1f}">{escape(label)}</text>' if label else ""
    return (
        f'<g><title>{escape(_tooltip(node))}</title><rect class="{_colour(node)}" x="{box.left:.2f}" y="{y:.1f}" '
        f'width="{box.width:.2f}" height="{_ROW - 1:.1f}" rx="2"/>{_reached(box, y)}{text}</g>'
    )


def _reached(box: _Box, y: float) -> str:
    """The line at a box's foot, as much of its width as the part reaches of its ceiling."""
    width = box.width * min(1.0, box.node.shares.of_bound)
    if width < _THINNEST:
        return ""
    return f'<rect class="reached" x="{box.left:.2f}" y="{y + _ROW - 4:.1f}" width="{width:.2f}" height="3"/>'


def _tooltip(node: Node) -> str:
    lines = [node.name, f"{node.seconds * 1e3:.4f} ms a step ({node.share:.2%}), {node.times} x"]
    cost, shares = node.cost, node.shares
    if cost.total_bytes:
        lines.append(
            f"weights {cost.weight_bytes / 1e6:.3f} MB, KV {cost.kv_bytes / 1e6:.3f} MB, "
            f"activations {cost.activation_bytes / 1e6:.3f} MB: {node.gb_per_s:.1f} GB/s"
        )
    if cost.operations:
        lines.append(f"{cost.operations / 1e6:.2f} M operations: {node.gops:.1f} GOPS")
    if shares.bound:
        lines.append(f"{shares.of_bound:.1%} of what {shares.bound} allows")
    return "\n".join(lines)


def _colour(node: Node) -> str:
    if node.kind in ("step", "place"):
        return node.kind
    first = node.name.split(" ")[0].rstrip(",:")
    if node.kind == "outside":
        return "sampling" if first == "sampling" else "outside"
    return first if first in ("linear", "logits", "attention", "quantize") else "rows"
