"""`tenfold bench`: measure the engine, or a server under load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tenfold.cli.options import JsonOption, ModelOption, ThreadsOption

app = typer.Typer(
    help="Measure the engine, or a server under load.",
    no_args_is_help=True,
)


@app.command()
def engine(
    model: ModelOption = None,
    prompt_len: int = typer.Option(512, "--prompt-len", "-p", metavar="N", min=1, help="Tokens a prompt."),
    output_len: int = typer.Option(
        128,
        "--output-len",
        "-o",
        metavar="N",
        min=1,
        help="Tokens each sequence generates; 1 measures prefill alone.",
    ),
    batch: int = typer.Option(1, "--batch", "-b", metavar="N", min=1, help="Sequences at once."),
    depth: int = typer.Option(
        0, "--depth", "-d", metavar="N", min=0, help="Tokens each sequence has in its KV before the prompt."
    ),
    threads: ThreadsOption = None,
    repeat: int = typer.Option(3, "--repeat", "-r", metavar="N", min=1, help="Runs; figures are medians."),
    max_num_batched_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Tokens a step.", show_default="512, or the batch")
    ] = None,
    seed: int = typer.Option(0, "--seed", metavar="N", help="Of the random prompts."),
    ceilings: bool = typer.Option(
        True, "--ceilings/--no-ceilings", help="Measure the machine's ceilings too (about 2 seconds)."
    ),
    json: JsonOption = False,
) -> None:
    """Measure prefill and decode, without HTTP.

    Prefill: BATCH cold prompts of PROMPT_LEN random tokens at once. Decode: BATCH sequences, from the moment
    when all have their first token until each has OUTPUT_LEN. The least time of a step is that of reading its
    weights and KV at the measured memory rate, or of its products at the measured dot-product rates,
    whichever is longer.

    \b
    Examples:
      tenfold bench engine
      tenfold bench engine --model model.gguf --prompt-len 2048 --batch 8
    """
    from tenfold.cli.bench_tables import print_engine_report
    from tenfold.cli.console import print_json
    from tenfold.cli.loading import resolve_model, shown_name, stage_progress
    from tenfold.lab.engine_bench import EngineBenchSettings, bench_engine

    settings = EngineBenchSettings(
        prompt_len=prompt_len,
        output_len=output_len,
        batch=batch,
        depth=depth,
        threads=threads,
        repeat=repeat,
        max_num_batched_tokens=max_num_batched_tokens,
        seed=seed,
        ceiling_seconds=0.2 if ceilings else 0.0,
    )
    path = resolve_model(model)
    with stage_progress() as progress:
        report = bench_engine(path, settings, progress)
    if json:
        print_json(report)
    else:
        print_engine_report(report, shown_name(model, path))


@app.command()
def serve(
    url: str = typer.Option("http://127.0.0.1:8000", "--url", metavar="URL", help="The server, without /v1."),
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", metavar="NAME", help="Name in requests.", show_default="the server's first"
        ),
    ] = None,
    endpoint: str = typer.Option("chat", "--endpoint", metavar="NAME", help="chat or completions."),
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            "-c",
            metavar="N",
            min=1,
            help="Closed loop: this many clients.",
            show_default="8",
        ),
    ] = None,
    request_rate: Annotated[
        float | None,
        typer.Option(
            "--request-rate", metavar="X", min=0.001, help="Open loop: Poisson arrivals, this many a second."
        ),
    ] = None,
    num_requests: int = typer.Option(64, "--num-requests", "-n", metavar="N", min=1, help="Requests in all."),
    prompt_len: int = typer.Option(
        256, "--prompt-len", "-p", metavar="N", min=1, help="Words of a random prompt, about a token each."
    ),
    output_len: int = typer.Option(
        64, "--output-len", "-o", metavar="N", min=1, help="max_tokens of a request."
    ),
    dataset: str = typer.Option(
        "random",
        "--dataset",
        metavar="FILE",
        help='random, or a JSONL file of {"prompt": ...} or {"messages": ...} lines.',
    ),
    slo_ttft_ms: Annotated[
        float | None, typer.Option(metavar="MS", min=0.0, help="Goodput: longest time to first token.")
    ] = None,
    slo_itl_ms: Annotated[
        float | None,
        typer.Option(metavar="MS", min=0.0, help="Goodput: longest mean time a token after the first."),
    ] = None,
    ignore_eos: bool = typer.Option(
        True,
        "--ignore-eos/--no-ignore-eos",
        help="Ask for exactly OUTPUT_LEN tokens (not all servers know this).",
    ),
    temperature: float = typer.Option(0.0, "--temperature", metavar="X", min=0.0, help="0 is greedy."),
    timeout: float = typer.Option(
        600.0, "--timeout", metavar="X", min=0.1, help="Seconds a request may take."
    ),
    api_key: Annotated[
        str | None,
        typer.Option(
            "--api-key", metavar="KEY", envvar="TENFOLD_BENCH_API_KEY", help="Sent as the bearer token."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="N",
            help="Of prompts and arrivals; the same again finds prompts cached.",
            show_default="random",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Load any OpenAI-compatible server.

    Sends streaming requests; reports the time to the first token (TTFT), between tokens (ITL), tokens/s and goodput.
    Closed loop (--concurrency): each client sends its next request when the last one ended. Open loop
    (--request-rate): requests arrive whether or not the server keeps up, timed from when they were due.

    \b
    Examples:
      tenfold bench serve --concurrency 16 --num-requests 128
      tenfold bench serve --request-rate 2 --slo-ttft-ms 500 --slo-itl-ms 50
    """
    import secrets

    from tenfold.cli.bench_tables import print_load_report
    from tenfold.cli.console import print_json
    from tenfold.cli.loading import stage_progress
    from tenfold.core.errors import TenfoldError
    from tenfold.lab.load.bench import bench_server
    from tenfold.lab.load.settings import LoadSettings

    if concurrency is not None and request_rate is not None:
        raise TenfoldError("--concurrency and --request-rate exclude each other; give one.")
    wanted: dict[str, Any] = {"concurrency": concurrency, "request_rate": request_rate}
    if concurrency is None and request_rate is None:
        wanted["concurrency"] = 8
    settings = LoadSettings(
        url=url,
        model=model,
        endpoint=endpoint,
        num_requests=num_requests,
        prompt_len=prompt_len,
        output_len=output_len,
        dataset=None if dataset == "random" else Path(dataset),
        slo_ttft_ms=slo_ttft_ms,
        slo_itl_ms=slo_itl_ms,
        ignore_eos=ignore_eos,
        temperature=temperature,
        timeout=timeout,
        seed=secrets.randbelow(2**31) if seed is None else seed,
        **wanted,
    )
    with stage_progress() as progress:
        report = bench_server(settings, api_key, progress)
    if json:
        print_json(report)
    else:
        print_load_report(report)
