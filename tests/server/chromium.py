"""A headless Chromium, driven over its debugging pipe: no driver, no web socket."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)


def find() -> str | None:
    """The first Chromium on PATH."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One browser with one tab."""

    def __init__(self, program: str, *, width: int = 1180, height: int = 800) -> None:
        self._profile = tempfile.mkdtemp(prefix="tenfold-chromium-")
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        # Chromium reads commands on descriptor 3 and answers on 4; move ours out of the way first.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20) for fd in (to_read, to_write)]
        self._process = subprocess.Popen(
            [
                program,
                *FLAGS,
                f"--user-data-dir={self._profile}",
                f"--window-size={width},{height}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(3, 4),
            preexec_fn=lambda: (os.dup2(high[0], 3), os.dup2(high[1], 4)),
        )
        for fd in (to_read, to_write, *high):
            os.close(fd)
        self._buffer = b""
        self._next_id = 0
        self.events: list[dict[str, Any]] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.tab(f"{domain}.enable")
        self.tab(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """One command and its result."""
        self._next_id += 1
        message: dict[str, Any] = {"id": self._next_id, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._next_id:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def tab(self, method: str, **params: Any) -> dict[str, Any]:
        """A command to the tab."""
        return self.call(method, self._session, **params)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._from, 1 << 20)
            assert part, "Chromium ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        result = self.tab("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, expression: str, seconds: float = 15) -> None:
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + seconds
        while not self.run(f"Boolean({expression})"):
            assert time.monotonic() < deadline, f"{expression} did not become true; log: {self.text('#log')}"
            time.sleep(0.03)

    def open(self, url: str) -> None:
        """Go to `url`."""
        self.tab("Page.navigate", url=url)
        self.wait(f"location.href.startsWith({url!r}) && document.readyState === 'complete'")

    def text(self, selector: str) -> str:
        """The text that the first match shows."""
        text: str = self.run(f"document.querySelector({selector!r})?.innerText ?? ''")
        return text

    def click(self, selector: str) -> None:
        """Click the middle of the first match, as a mouse would."""
        box = self.run(
            f"(() => {{ const r = document.querySelector({selector!r}).getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.tab("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def type(self, text: str) -> None:
        """Type text where the focus is."""
        self.tab("Input.insertText", text=text)

    def key(self, key: str, *, shift: bool = False) -> None:
        """Press one key."""
        params: dict[str, Any] = {"key": key, "code": key, "modifiers": 8 if shift else 0}
        if key == "Enter":
            params |= {"windowsVirtualKeyCode": 13, "text": "\r"}
        if key == "Escape":
            params |= {"windowsVirtualKeyCode": 27}
        self.tab("Input.dispatchKeyEvent", type="keyDown", **params)
        self.tab("Input.dispatchKeyEvent", type="keyUp", **{k: v for k, v in params.items() if k != "text"})

    def screenshot(self, path: Path) -> None:
        """What the tab shows, as a PNG file."""
        path.write_bytes(base64.b64decode(self.tab("Page.captureScreenshot", format="png")["data"]))

    def complaints(self) -> list[str]:
        """Errors in the page's console, and requests to other hosts than 127.0.0.1."""
        self.run("0")  # takes in what is still under way
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"]["text"])
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"]))
            if event.get("method") == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("http://127.0.0.1:", "about:", "data:")):
                    found.append(f"request to {url}")
        return found
