"""The chat page, in a real browser. TENFOLD_SCREENSHOTS, a folder, keeps pictures of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.server import chromium
from tests.server.chromium import Chromium
from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer, wait_until

ANSWER = """A CPU cache is like the **top of your desk**. The books you use most lie there, so you need not
walk to the shelf.

1. The desk is small but close.
2. The shelf is large but far.

```python
def fetch(book):
    return desk.get(book) or walk_to_shelf(book)
```

So `fetch` is quick when the book is on the desk. <img src=x onerror="document.title='harmed'">"""


PageEngine = partial(FakeEngine, max_model_len=4096)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    program = chromium.find()
    if program is None:
        pytest.skip("no Chromium on PATH; install one to test the chat page")
    with Chromium(program) as browser:
        yield browser


@pytest.fixture(autouse=True)
def fresh(browser: Chromium) -> None:
    browser.events.clear()


def keep(browser: Chromium, name: str) -> None:
    folder = os.environ.get("TENFOLD_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.screenshot(Path(folder) / name)


def open_page(browser: Chromium, server: RunningServer) -> None:
    browser.open(server.url + "/")
    browser.wait("document.querySelector('#model').textContent.includes('fake')")


def done(browser: Chromium) -> None:
    browser.wait("document.querySelector('#stop').hidden")


def test_files_are_served_with_their_headers(shared):
    page = shared.client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'self'" in page.headers["content-security-policy"]
    names = [part.split('"')[0] for part in page.text.split('="/web/')[1:]]
    assert {"chat.css", "chat.js", "icon.svg"} <= set(names)
    for name in [*names, "markdown.js", "stream.js", "theme.js", "tokens.js", "monitor.js", "metrics.js"]:
        assert shared.client.get(f"/web/{name}").status_code == 200
    assert shared.client.get("/web/../page.py").status_code == 404


def test_a_chat(browser):
    with RunningServer(PageEngine(ANSWER, delay=0.001)) as server:
        open_page(browser, server)
        keep(browser, "empty.png")
        browser.type("Explain a CPU cache,")
        browser.key("Enter", shift=True)
        browser.type("please")
        assert browser.run("document.querySelector('#input').value") == "Explain a CPU cache,\nplease"
        browser.key("Enter")
        browser.wait("document.querySelector('.figures .ttft')")
        browser.wait("!document.querySelector('#stop').hidden")
        done(browser)
        assert browser.text(".user .text") == "Explain a CPU cache,\nplease"
        assert browser.text(".assistant strong") == "top of your desk"
        assert browser.text(".assistant .code pre") == (
            "def fetch(book):\n    return desk.get(book) or walk_to_shelf(book)"
        )
        assert browser.run("document.querySelectorAll('.assistant ol li').length") == 2
        # What looks like HTML is shown, never run.
        assert "<img src=x" in browser.text(".assistant .text")
        assert browser.run("document.querySelector('.assistant img')") is None
        assert browser.run("document.title") == "Tenfold"
        assert float(browser.text(".figures .speed dd")) > 0
        assert browser.text(".figures .reply dd") == str(len(ANSWER.encode()))
        assert browser.text(".figures .cached dd") == "0"
        first = server.engine.requests[0]
        assert browser.text(".figures .prompt dd") == str(len(first.prompt_token_ids))
        keep(browser, "chat-light.png")

        browser.type("And now in one line")
        browser.click("#send")
        browser.wait("document.querySelectorAll('.assistant').length == 2")
        done(browser)
        asked = server.engine.tokenizer.decode(server.engine.requests[1].prompt_token_ids, skip_special=False)
        assert asked.count("<|im_start|>assistant") == 2
        assert "top of your desk" in asked
        browser.click("#theme")
        keep(browser, "chat-dark.png")
        browser.click("#theme")
        browser.click("#new")
        assert browser.run("document.querySelectorAll('.message').length") == 0
        assert browser.complaints() == []


def test_cached_tokens_are_shown(browser):
    with RunningServer(PageEngine("yes")) as server:
        open_page(browser, server)
        browser.click("#ideas button")
        browser.wait("document.querySelector('.figures .cached')")
        done(browser)
        browser.click("#new")
        browser.click("#ideas button")
        browser.wait("document.querySelector('.figures .cached')")
        done(browser)
        assert browser.text(".figures .cached dd") == str(len(server.engine.requests[0].prompt_token_ids) - 1)


def test_stop_ends_the_request(browser):
    with RunningServer(PageEngine("word " * 1000, delay=0.01)) as server:
        open_page(browser, server)
        browser.type("Talk")
        browser.key("Enter")
        browser.wait("document.querySelector('.assistant .text').innerText.length > 8")
        browser.click("#stop")
        done(browser)
        wait_until(lambda: not server.engine.running)
        assert len(server.engine.aborted) == 1
        assert "You stopped" in browser.text(".remark")
        assert browser.complaints() == []


def test_settings_are_sent(browser):
    with RunningServer(PageEngine("ok")) as server:
        open_page(browser, server)
        browser.click("#toggle")
        for field, value in (("system", "You are a pirate."), ("temperature", "0"), ("max-tokens", "2")):
            browser.run(
                f"(() => {{ const f = document.getElementById({field!r}); f.value = {value!r};"
                " f.dispatchEvent(new Event('input')); })()"
            )
        keep(browser, "settings.png")
        browser.click("#input")
        browser.type("Hi")
        browser.key("Enter")
        browser.wait("document.querySelector('.assistant .figures div')")
        done(browser)
        (request,) = server.engine.requests
        assert (request.sampling.temperature, request.sampling.max_tokens) == (0, 2)
        assert "system\nYou are a pirate." in server.engine.tokenizer.decode(
            request.prompt_token_ids, skip_special=False
        )


def test_errors_are_sentences_and_keys_are_asked_for(browser):
    with RunningServer(PageEngine("ok"), api_keys=("sesame",)) as server:
        browser.open(server.url + "/")
        browser.wait("document.querySelector('#model').textContent.includes('API key')")
        browser.type("Hi")
        browser.key("Enter")
        browser.wait("document.querySelector('.wrong')")
        assert "needs an API key" in browser.text(".wrong")
        assert browser.run("document.activeElement.id") == "key"
        keep(browser, "error.png")
        browser.type("sesame")
        browser.click("#input")
        browser.wait("document.querySelector('#model').textContent.includes('fake')")
        browser.type("Hi")
        browser.key("Enter")
        browser.wait("document.querySelectorAll('.assistant .text').length == 1")
        done(browser)
        assert browser.text(".assistant .text") == "ok"
    browser.click("#input")
    browser.type("Still there?")
    browser.key("Enter")
    browser.wait("document.querySelectorAll('.wrong').length == 2")
    assert "cannot be reached" in browser.run("document.querySelectorAll('.wrong')[1].innerText")


def test_likely_tokens_are_shown_with_their_rivals(browser):
    with RunningServer(PageEngine("naïve 🙂 ok")) as server:
        open_page(browser, server)
        browser.click("#toggle")
        browser.click("#probabilities")
        browser.click("#input")
        browser.type("Hi")
        browser.key("Enter")
        browser.wait("document.querySelector('.tokens .token')")
        done(browser)
        assert server.engine.requests[0].sampling.logprobs == 5
        assert browser.run("document.querySelector('.tokens').textContent") == "naïve 🙂 ok"
        # Tokens of the fake engine are bytes; a character of several is one thing to point at.
        assert browser.run("document.querySelectorAll('.token').length") == len("naïve 🙂 ok")
        browser.run("document.querySelector('.token').focus()")
        assert "%" in browser.text(".rivals")
        assert browser.run("document.querySelectorAll('.rivals .chosen').length") == 1
        keep(browser, "probabilities.png")
        browser.click("#input")
        assert browser.run("document.querySelector('.rivals')") is None
        browser.click("#probabilities")
        assert browser.complaints() == []


def test_a_model_can_be_chosen(browser):
    with RunningServer(PageEngine("ok"), served_model_names=("fake", "other")) as server:
        open_page(browser, server)
        browser.click("#toggle")
        browser.wait("!document.querySelector('#choice').hidden")
        browser.run(
            "(() => { const s = document.querySelector('#models'); s.value = 'other';"
            " s.dispatchEvent(new Event('change')); })()"
        )
        browser.wait("document.querySelector('#model').textContent.includes('other')")
        browser.run("localStorage.removeItem('model')")


def test_the_monitor_shows_what_runs(browser):
    with RunningServer(PageEngine("word " * 400, delay=0.004)) as server:
        browser.open(server.url + "/monitor")
        browser.wait("document.querySelector('#state').textContent === 'live'")
        with server.client.stream(
            "POST",
            "/v1/chat/completions",
            json={"messages": [{"role": "user", "content": "talk"}], "stream": True},
        ) as reply:
            lines = reply.iter_lines()
            next(lines)
            number = "Number(document.querySelectorAll('.graph dd')[{}].textContent.replace(/[^0-9.]/g, ''))"
            browser.wait(number.format(0) + " > 20")  # tokens a second
            browser.wait(number.format(2) + " === 1")  # running
            browser.wait("/ms/.test(document.querySelectorAll('.graph dd')[6].textContent)")  # between tokens
            browser.wait("document.querySelector('.graph path').getAttribute('d').includes('L')")
            keep(browser, "monitor.png")
        wait_until(lambda: not server.engine.running)
        browser.wait(number.format(2) + " === 0")
        assert browser.run("document.querySelectorAll('.graph').length") == 8
        assert browser.complaints() == []


def test_the_monitor_asks_for_a_key(browser):
    with RunningServer(PageEngine("ok"), api_keys=("sesame",)) as server:
        browser.run("sessionStorage.clear()")
        browser.open(server.url + "/monitor")
        browser.wait("!document.querySelector('#ask').hidden")
        browser.click("#key")
        browser.type("sesame")
        browser.key("Enter")
        browser.wait("document.querySelector('#state').textContent === 'live'")
        assert browser.run("document.querySelector('#ask').hidden")


def test_pages_fit_a_phone(browser):
    with RunningServer(PageEngine("word " * 50), served_model_names=("fake-with-a-long-name",)) as server:
        browser.tab(
            "Emulation.setDeviceMetricsOverride", width=360, height=720, deviceScaleFactor=2, mobile=True
        )
        try:
            for path in ("/", "/monitor"):
                browser.open(server.url + path)
                browser.wait("!document.querySelector('header p').textContent.includes('connecting')")
                wide = browser.run("document.documentElement.scrollWidth")
                assert wide <= 360, f"{path} is {wide} pixels wide"
                keep(browser, f"phone{path.replace('/', '-')}.png")
        finally:
            browser.tab(
                "Emulation.setDeviceMetricsOverride",
                width=1180,
                height=800,
                deviceScaleFactor=1,
                mobile=False,
            )
