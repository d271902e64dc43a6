"""AsyncEngine: streams, cancellations, drain, failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from tenfold.config.engine import EngineSettings
from tenfold.core.errors import EngineError, InvalidRequestError, OverloadedError
from tenfold.core.request import Request
from tenfold.core.sampling_params import SamplingParams
from tenfold.engine.async_engine import AsyncEngine
from tenfold.engine.model import Model, load_model
from tests.tiny_models import write_tiny_gguf


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", context=2048)
    settings = EngineSettings(threads=1, kv_cache_memory_bytes=8 << 20, max_num_seqs=8, max_waiting=8)
    return load_model(path, settings)


def request(name: str, **params: object) -> Request:
    values: dict[str, object] = {"temperature": 0.0, "max_tokens": 6, "ignore_eos": True, **params}
    return Request(request_id=name, prompt_token_ids=(5, 6, 7), sampling=SamplingParams(**values))  # type: ignore[arg-type]


def run(model: Model, scenario: Callable[[AsyncEngine], Awaitable[None]]) -> None:
    async def main() -> None:
        engine = AsyncEngine(model)
        await engine.start()
        try:
            await scenario(engine)
        finally:
            await engine.stop()
        engine.check()

    asyncio.run(asyncio.wait_for(main(), 60))


async def idle(engine: AsyncEngine) -> None:
    while engine.stats().num_running or engine.stats().num_waiting:
        await asyncio.sleep(0.005)


def test_streams_do_not_mix(model: Model) -> None:
    async def scenario(engine: AsyncEngine) -> None:
        async def collect(name: str) -> list[tuple[int, ...]]:
            outputs = [output async for output in engine.generate(request(name, seed=3, temperature=1.0))]
            assert {output.request_id for output in outputs} == {name}
            assert outputs[-1].finish_reason == "length"
            return [output.token_ids for output in outputs]

        results = await asyncio.gather(*(collect(f"r{i}") for i in range(8)))
        assert all(result == results[0] for result in results)

    run(model, scenario)


def test_leaving_a_stream_frees_its_sequence(model: Model) -> None:
    async def scenario(engine: AsyncEngine) -> None:
        stream = engine.generate(request("gone", max_tokens=1500))
        async for _ in stream:
            break
        await stream.aclose()  # type: ignore[attr-defined]
        await idle(engine)
        assert engine.stats().kv_usage == 0.0

    run(model, scenario)


def test_many_cancelled_at_once(model: Model) -> None:
    async def scenario(engine: AsyncEngine) -> None:
        async def read(name: str) -> None:
            async for _ in engine.generate(request(name, max_tokens=1500)):
                pass

        tasks = [asyncio.create_task(read(f"r{i}")) for i in range(16)]
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await idle(engine)
        engine.check()
        assert [o.finish_reason async for o in engine.generate(request("after"))][-1] == "length"

    run(model, scenario)


def test_the_door_refuses_before_any_output(model: Model) -> None:
    async def scenario(engine: AsyncEngine) -> None:
        with pytest.raises(InvalidRequestError):
            await anext(engine.generate(request("bad", max_tokens=10**6)))
        streams = [engine.generate(request(f"r{i}", n=8, max_tokens=1500)) for i in range(2)]
        await anext(streams[0])
        waiting = asyncio.ensure_future(anext(streams[1]))
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError):
            await anext(engine.generate(request("too-many")))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await streams[0].aclose()  # type: ignore[attr-defined]
        await idle(engine)

    run(model, scenario)


def test_drain_finishes_what_runs_and_takes_nothing_new(model: Model) -> None:
    async def scenario(engine: AsyncEngine) -> None:
        async def collect() -> str | None:
            return [o.finish_reason async for o in engine.generate(request("last", max_tokens=300))][-1]

        task = asyncio.create_task(collect())
        await asyncio.sleep(0.02)
        drained = asyncio.create_task(engine.drain(30))
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError) as caught:
            await anext(engine.generate(request("late")))
        assert caught.value.shutting_down
        assert await drained and await task == "length"

    run(model, scenario)


def test_a_failing_step_ends_requests_with_an_error(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(engine: AsyncEngine) -> None:
        def broken() -> None:
            raise RuntimeError("the memory is on fire")

        stream = engine.generate(request("victim", max_tokens=500))
        await anext(stream)
        monkeypatch.setattr(engine._core, "step", broken)
        outputs = [output async for output in stream]
        assert outputs[-1].finish_reason == "error" and "on fire" in (outputs[-1].error or "")
        assert "on fire" in (engine.stats().dead or "")
        with pytest.raises(EngineError, match="on fire"):
            await anext(engine.generate(request("next")))

    run(model, scenario)


def test_a_request_that_comes_as_the_engine_stops_gets_an_end(model: Model) -> None:
    async def scenario(engine: AsyncEngine) -> None:
        engine._send = engine._inbox.append  # type: ignore[method-assign]  # the thread is not woken for it
        waiting = asyncio.ensure_future(anext(engine.generate(request("late"))))
        await asyncio.sleep(0.02)
        await engine.stop()
        assert (await asyncio.wait_for(waiting, 5)).finish_reason == "error"

    run(model, scenario)


def test_books_that_do_not_balance_stop_a_checking_engine(model: Model) -> None:
    checking = msgspec.structs.replace(
        model, settings=msgspec.structs.replace(model.settings, debug_checks=True)
    )

    async def scenario() -> None:
        engine = AsyncEngine(checking)
        await engine.start()
        try:
            _ = [output async for output in engine.generate(request("sound"))]
            await idle(engine)
            assert engine.stats().dead is None
            engine._core.kv.lease(999, engine._core.kv.match((), ""), 16)  # a lease that nobody gives back
            _ = [output async for output in engine.generate(request("last"))]
            while engine.stats().dead is None:
                await asyncio.sleep(0.005)
            assert "lease has outlived" in str(engine.stats().dead)
            with pytest.raises(EngineError, match="lease has outlived"):
                _ = [output async for output in engine.generate(request("late"))]
        finally:
            await engine.stop()

    asyncio.run(asyncio.wait_for(scenario(), 30))
