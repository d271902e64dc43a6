"""Tables of `tenfold bench`."""

from __future__ import annotations

import typer

from tenfold.cli.console import print_table
from tenfold.lab.engine_report import EngineReport
from tenfold.lab.load.report import LoadReport
from tenfold.lab.summary import Summary


def print_engine_report(report: EngineReport, shown: str) -> None:
    """Print what `bench engine` measured; `shown` is the model's name for people."""
    formats = ", ".join(f"{number} {name}" for name, number in sorted(report.weight_formats.items()))
    runs = "1 run" if report.repeat == 1 else f"median of {report.repeat} runs"
    title = (
        f"{shown}\n{formats}; {report.weight_bytes / 2**20:.0f} MiB\n"
        f"{report.isa}, threads {report.threads}, batch {report.batch}, depth {report.depth}, {runs}"
    )
    rows = [
        _engine_row(
            f"prefill {report.prompt_len}",
            [each.prefill.tokens_per_s for each in report.repeats],
            report.prefill_tokens_per_s,
            report.prefill_share_of_ceiling,
            report.ttft_ms,
        )
    ]
    if report.decode_tokens_per_s is not None:
        rates = [each.decode.tokens_per_s for each in report.repeats if each.decode is not None]
        rows.append(
            _engine_row(
                f"decode {report.output_len}",
                rates,
                report.decode_tokens_per_s,
                report.decode_share_of_ceiling,
                report.itl_ms,
            )
        )
    columns = ["", "tokens/s", "lowest", "highest", "ceiling", "ms p50", "ms p99"]
    print_table(title, columns, rows, right=tuple(range(1, len(columns))))
    if report.ceilings is not None:
        ceilings = report.ceilings
        print_table(
            "",
            ["measured ceiling", ""],
            [
                [
                    f"memory read ({ceilings.read_bytes / 2**20:.0f} MiB)",
                    f"{ceilings.memory_read_gbs:.1f} GB/s",
                ],
                ["int8 dot products", f"{ceilings.int8_gops:.0f} GOPS"],
                ["bf16 dot products", f"{ceilings.bf16_gflops:.0f} GFLOPS"],
            ],
            right=(1,),
        )


def _engine_row(
    label: str, rates: list[float], rate: float, share: float | None, latency: Summary | None
) -> list[str]:
    spread = [_rate(min(rates)), _rate(max(rates))]
    return [
        label,
        _rate(rate),
        *spread,
        "" if share is None else f"{share:.0%}",
        *_latency_cells(latency)[:3:2],
    ]


def _rate(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def _latency_cells(latency: Summary | None) -> list[str]:
    if latency is None:
        return [""] * 4
    return [f"{value:.2f}" for value in (latency.p50, latency.p90, latency.p99, latency.max)]


def print_load_report(report: LoadReport) -> None:
    """Print what `bench serve` measured."""
    how = (
        f"{report.concurrency} clients"
        if report.concurrency is not None
        else f"{report.request_rate:g} requests/s arriving"
    )
    rows = [
        ["requests completed", f"{report.completed} of {report.num_requests}"],
        ["duration", f"{report.duration_s:.2f} s"],
        ["requests/s", f"{report.requests_per_s:.2f}"],
        ["output tokens/s", f"{report.output_tokens_per_s:.1f}"],
        ["prompt tokens/s", f"{report.prompt_tokens_per_s:.1f}"],
        ["prompt tokens, of them cached", f"{report.prompt_tokens}, {report.cached_tokens}"],
        ["output tokens (counted by)", f"{report.output_tokens} ({report.tokens_counted_by})"],
        ["most requests at once", str(report.peak_concurrency)],
        ["seed", str(report.seed)],
    ]
    if report.goodput_per_s is not None:
        rows.append(["goodput at the SLO", f"{report.goodput_per_s:.2f} requests/s"])
        rows.append(["met the SLO", f"{report.met_slo} of {report.num_requests}"])
    print_table(f"{report.model} at {report.url}, {how}", ["", ""], rows, right=(1,))
    latencies = {
        "time to first token": report.ttft_ms,
        "between tokens": report.itl_ms,
        "mean a token after the first": report.tpot_ms,
        "whole request": report.e2e_ms,
    }
    table = [[label, *_latency_cells(summary)] for label, summary in latencies.items()]
    print_table("", ["ms", "p50", "p90", "p99", "max"], table, right=(1, 2, 3, 4))
    if report.errors:
        print_table(
            "", ["error", "requests"], [[kind, str(n)] for kind, n in report.errors.items()], right=(1,)
        )
        if report.first_failed_reply:
            typer.echo(f"The first of these got: {report.first_failed_reply}")
