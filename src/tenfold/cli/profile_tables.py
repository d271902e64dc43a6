"""Tables of `tenfold profile`."""

from __future__ import annotations

from collections.abc import Iterator

from tenfold.cli.console import print_table
from tenfold.lab.profile.cost import Cost
from tenfold.lab.profile.report import KindLine, Node, PhaseProfile, ProfileReport, Shares

_BAR = 30
_EIGHTHS = " ▏▎▍▌▋▊▉"


def print_profile(report: ProfileReport, shown: str) -> None:
    """Print a profile: each phase by kind of op, then stage by stage."""
    ceilings = report.ceilings
    formats = ", ".join(f"{number} {name}" for name, number in sorted(report.weight_formats.items()))
    title = (
        f"{shown}\n{formats}; {report.weight_bytes / 2**20:.0f} MiB\n{report.isa}, threads {report.threads}, "
        f"batch {report.batch}, depth {report.depth}\n"
        f"ceilings: memory {ceilings.memory_read_gbs:.1f} GB/s, int8 {ceilings.int8_gops:.0f} GOPS, "
        f"bf16 {ceilings.bf16_gflops:.0f} GFLOPS, fp32 {ceilings.fp32_gflops:.0f} GFLOPS"
    )
    for phase in report.phases:
        _print_kinds(phase, title)
        _print_stages(phase)
        title = ""


def _print_kinds(phase: PhaseProfile, title: str) -> None:
    plain = phase.plain_step_seconds
    what = (
        f"{phase.phase}: {phase.steps} steps of {phase.tokens_per_step:g} tokens, {phase.step_seconds * 1e3:.3f} ms "
        f"each ({plain * 1e3:.3f} ms without clocks on the stages, {phase.tokens_per_s:.1f} tokens/s)"
    )
    rows = [_kind_row(line) for line in phase.kinds]
    columns = ["kind", "×", "ms", "share", "", "ceiling", "of"]
    print_table(f"{title}\n\n{what}" if title else what, columns, rows, right=(1, 2, 3, 5))


def _kind_row(line: KindLine) -> list[str]:
    return [
        line.kind,
        str(line.times),
        _milliseconds(line.seconds),
        f"{line.share:.1%}",
        bar(line.share),
        *_bound(line.shares),
    ]


def _print_stages(phase: PhaseProfile) -> None:
    rows = [row for part in phase.tree.parts for row in _tree_rows(part, 0)]
    columns = ["stage", "×", "ms", "share", "MB", "GB/s", "GOPS", "ceiling", "of"]
    print_table("", columns, rows, right=(1, 2, 3, 4, 5, 6, 7))


def _tree_rows(node: Node, depth: int) -> Iterator[list[str]]:
    yield [
        "  " * depth + node.name,
        str(node.times),
        _milliseconds(node.seconds),
        f"{node.share:.1%}",
        _megabytes(node.cost),
        f"{node.gb_per_s:.1f}" if node.cost.total_bytes else "",
        f"{node.gops:.1f}" if node.cost.operations else "",
        *_bound(node.shares),
    ]
    for part in node.parts:
        yield from _tree_rows(part, depth + 1)


def bar(share: float) -> str:
    """A bar for a share of 1, in eighths of characters."""
    eighths = round(max(0.0, min(1.0, share)) * _BAR * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _bound(shares: Shares) -> list[str]:
    return [f"{shares.of_bound:.0%}", shares.bound] if shares.bound else ["", ""]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"


def _megabytes(cost: Cost) -> str:
    return f"{cost.total_bytes / 1e6:.2f}" if cost.total_bytes else ""
