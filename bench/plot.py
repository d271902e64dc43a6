"""Plots as SVG, readable on light and dark pages: bars of a comparison, lines of a scaling run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

WIDTH, LABELS, RIGHT, LINE, HEAD = 860, 270, 64, 34, 84
STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 16px; font-weight: 600; } .small { font-size: 11px; fill: #6a737d; }
.grid { stroke: #d8dee4; } .met { fill: #2da44e; } .missed { fill: #d4801f; } .plain { fill: #4f7cc4; }
.ceiling { fill: #8250df; } .target { stroke: #24292f; stroke-width: 2; } .frame { fill: #ffffff; }
.line { fill: none; stroke-width: 2; } .a { stroke: #2f6fd0; } .b { stroke: #d4801f; }
.dot-a { fill: #2f6fd0; } .dot-b { fill: #d4801f; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .small { fill: #9198a1; } .grid { stroke: #30363d; } .met { fill: #3fb950; }
.missed { fill: #e3a04a; } .plain { fill: #79a7e8; } .ceiling { fill: #a371f7; } .target { stroke: #e6edf3; }
.frame { fill: #0d1117; } .a { stroke: #79a7e8; } .b { stroke: #e3a04a; }
.dot-a { fill: #79a7e8; } .dot-b { fill: #e3a04a; }
}
</style>"""


def draw(report: dict[str, Any]) -> str:
    """A comparison: of each row the ratio to the best peer with its target, and the share of the ceiling."""
    rows = report["rows"]
    half = (WIDTH - LABELS - 2 * RIGHT) // 2
    second = LABELS + half + RIGHT
    wanted = [_own_target(row) for row in rows]
    top = max([row["ratio_to_best_peer"] or 0.0 for row in rows] + [want or 0.0 for want in wanted] + [1.0])
    ticks = _ticks(top)
    height = HEAD + LINE * len(rows) + 40
    title = (
        f"{report['model']['file']}, {report['threads']} threads on {report['cpu']}, {report['date'][:10]}"
    )
    parts = [_text(16, 26, title, "title")]
    parts += [_text(LABELS, 50, "Tenfold's speed over the best peer's", "")]
    parts += [_text(LABELS, 66, "bars: green reaches its target, the mark", "small")]
    parts += [_text(second, 50, "share of the machine's ceiling", "")]
    parts += _axis(LABELS, half, ticks, ticks[-1], len(rows), "{:g} ×")
    parts += _axis(second, half, [0.0, 0.25, 0.5, 0.75, 1.0], 1.0, len(rows), "{:.0%}")
    for place, (row, want) in enumerate(zip(rows, wanted, strict=True)):
        y = HEAD + place * LINE
        parts.append(_text(LABELS - 12, y + 19, row["title"] or row["row"], "", "end"))
        ratio, share = row["ratio_to_best_peer"], row["share_of_ceiling"]
        kind = "plain" if want is None or ratio is None else "met" if ratio >= want else "missed"
        parts += _bar(LABELS, y, half, ratio, ticks[-1], kind, "{:.2f} ×")
        if want is not None:
            x = LABELS + half * want / ticks[-1]
            parts.append(f'<line class="target" x1="{x:.1f}" x2="{x:.1f}" y1="{y + 2}" y2="{y + 26}"/>')
        parts += _bar(second, y, half, share, 1.0, "ceiling", "{:.0%}")
    return _page(parts, height, title)


def draw_scaling(report: dict[str, Any]) -> str:
    """A scaling run: milliseconds a token against context and against batch, measured and by the roofline."""
    panels = [
        ("ms a token of decode, 1 stream, against context", report["context"], "depth"),
        ("ms a token of prefill (512 tokens), against context", report["context"], "depth"),
        ("ms a token of decode, against batch", report["batch"], "batch"),
    ]
    names = ("decode", "prefill", "decode")
    parts = [
        _text(16, 26, f"{report['model']['file']}, {report['threads']} threads on {report['cpu']}", "title")
    ]
    parts += [
        f'<circle class="dot-a" cx="22" cy="46" r="4"/>{_text(32, 50, "measured", "small")}',
        f'<circle class="dot-b" cx="102" cy="46" r="4"/>{_text(112, 50, "least, by the roofline", "small")}',
    ]
    top = 80
    for (title, points, axis), name in zip(panels, names, strict=True):
        if points:
            parts += _panel(title, points, axis, name, top)
            top += 240
    return _page(parts, top, "Scaling of Tenfold")


def _panel(title: str, points: Sequence[dict[str, Any]], axis: str, name: str, top: int) -> list[str]:
    """One set of axes; positions are on a logarithmic scale with 0 at its left end."""
    left, width, height = 70, WIDTH - 110, 160
    places = [
        math.log2(max(point[axis], 1)) if axis == "batch" else _log_depth(point[axis]) for point in points
    ]
    low, span = min(places), max(max(places) - min(places), 1e-9)
    series = [(f"{name}_ms", "a"), (f"{name}_least_ms", "b")]
    ticks = _ticks(max(point[key] or 0.0 for point in points for key, _ in series))
    parts = [_text(left, top, title, "")]
    for tick in ticks:
        y = top + 20 + height * (1 - tick / ticks[-1])
        parts.append(f'<line class="grid" x1="{left}" x2="{left + width}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(left - 8, y + 4, f"{tick:g}", "small", "end"))
    xs = [left + width * (place - low) / span for place in places]
    parts += [
        _text(x, top + height + 38, f"{point[axis]}", "small", "middle")
        for x, point in zip(xs, points, strict=True)
    ]
    for key, color in series:
        known = [(x, point[key]) for x, point in zip(xs, points, strict=True) if point[key] is not None]
        dots = [(x, top + 20 + height * (1 - value / ticks[-1])) for x, value in known]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        parts.append(f'<polyline class="line {color}" points="{path}"/>')
        parts += [f'<circle class="dot-{color}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in dots]
    return parts


def _log_depth(depth: int) -> float:
    return math.log2(max(depth, 256)) - (1 if depth == 0 else 0)


def _own_target(row: dict[str, Any]) -> float | None:
    """The target against the best of all peers."""
    return next((target["ratio"] for target in row["targets"] if target["against"] is None), None)


def _ticks(top: float) -> list[float]:
    """Round values from 0 to at least `top`, about five steps."""
    rough = max(top, 1e-6) / 5
    unit = 10 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough)
    return [step * number for number in range(max(1, math.ceil(top / step - 1e-9)) + 1)]


def _axis(left: int, width: int, ticks: Sequence[float], top: float, rows: int, form: str) -> list[str]:
    parts = []
    for tick in ticks:
        x = left + width * tick / top
        bottom = HEAD + rows * LINE
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{HEAD - 4}" y2="{bottom}"/>')
        parts.append(_text(x, bottom + 18, form.format(tick), "small", "middle"))
    return parts


def _bar(left: int, y: int, width: int, value: float | None, top: float, kind: str, form: str) -> list[str]:
    if value is None:
        return [_text(left + 6, y + 19, "not measured", "small")]
    length = width * min(value, top) / top
    bar = f'<rect class="{kind}" x="{left}" y="{y + 6}" width="{length:.1f}" height="16" rx="3"/>'
    return [bar, _text(left + length + 6, y + 19, form.format(value), "")]


def _text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _page(parts: Sequence[str], height: int, title: str) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img"><title>{escape(title)}</title>'
    )
    frame = f'<rect class="frame" width="{WIDTH}" height="{height}" rx="8"/>'
    return "\n".join([head, STYLE, frame, *parts, "</svg>"]) + "\n"
