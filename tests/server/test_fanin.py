"""FanIn: what is taken at once, what waits, and that neither overtakes the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tenfold.core.errors import EngineError
from tenfold.core.request import Request, RequestOutput
from tenfold.core.sampling_params import SamplingParams
from tenfold.server.errors import ClientGoneError
from tenfold.server.fanin import Batch, FanIn


class Puppet:
    """An engine that says what the test tells it to."""

    def __init__(self) -> None:
        self.hear: Callable[[list[RequestOutput]], None] | None = None
        self.aborted = 0

    def listen(self, request: Request, hear: Callable[[list[RequestOutput]], None]) -> Callable[[], None]:
        self.hear = hear

        def abort() -> None:
            self.aborted += 1

        return abort

    def say(self, text: str, finish: Any = None) -> None:
        assert self.hear is not None
        self.hear([RequestOutput(request_id="r", text=text, finish_reason=finish)])


def run(scenario: Callable[[Puppet, FanIn, asyncio.Event], Awaitable[None]]) -> None:
    async def main() -> None:
        gone, puppet = asyncio.Event(), Puppet()

        async def receive() -> dict[str, str]:
            await gone.wait()
            return {"type": "http.disconnect"}

        request = Request(request_id="r", prompt_token_ids=(1,), sampling=SamplingParams())
        async with FanIn(puppet, [request], receive) as outputs:  # type: ignore[arg-type]
            await scenario(puppet, outputs, gone)

    asyncio.run(asyncio.wait_for(main(), 10))


def texts(batch: Batch) -> list[str]:
    return [output.text for _, output in batch]


def test_what_is_taken_does_not_wake_the_reader() -> None:
    async def scenario(puppet: Puppet, outputs: FanIn, gone: asyncio.Event) -> None:
        taken: list[str] = []

        def take(batch: Batch) -> bool:
            taken.extend(texts(batch))
            return True

        reading = asyncio.ensure_future(outputs.next(take))
        await asyncio.sleep(0)
        for text in ("a", "b"):
            puppet.say(text)
            await asyncio.sleep(0)
        assert taken == ["a", "b"] and not reading.done()
        puppet.say("c", "stop")
        assert await reading == [] and taken == ["a", "b", "c"]

    run(scenario)


def test_what_follows_a_refused_batch_waits_behind_it() -> None:
    async def scenario(puppet: Puppet, outputs: FanIn, gone: asyncio.Event) -> None:
        answers = iter([False, True])
        reading = asyncio.ensure_future(outputs.next(lambda batch: next(answers)))
        await asyncio.sleep(0)
        puppet.say("a")
        puppet.say("b")  # the reader has not woken yet; taken now, it would overtake a
        assert texts(await reading) == ["a", "b"]
        puppet.say("c")  # nobody waits: the reader is busy writing
        assert texts(await outputs.next(lambda batch: False)) == ["c"]

    run(scenario)


def test_what_take_raises_reaches_the_reader_and_aborts() -> None:
    async def scenario(puppet: Puppet, outputs: FanIn, gone: asyncio.Event) -> None:
        def take(batch: Batch) -> bool:
            raise EngineError("broken")

        reading = asyncio.ensure_future(outputs.next(take))
        await asyncio.sleep(0)
        puppet.say("a")
        with pytest.raises(EngineError, match="broken"):
            await reading
        assert puppet.aborted == 1
        puppet.say("late")  # is of no consequence

    run(scenario)


def test_a_client_that_leaves_aborts_once() -> None:
    async def scenario(puppet: Puppet, outputs: FanIn, gone: asyncio.Event) -> None:
        reading = asyncio.ensure_future(outputs.next(lambda batch: True))
        await asyncio.sleep(0)
        gone.set()
        with pytest.raises(ClientGoneError):
            await reading
        await outputs.close()
        assert puppet.aborted == 1

    run(scenario)
