"""A headless Chromium over a pipe: its DevTools protocol in a few lines, no port, no driver, no download."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WHY = f"none of {', '.join(NAMES)} is on PATH"


def found() -> str | None:
    """The program, where there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """A page in the browser, and everything that it said or asked for.

    Attributes:
        said: what went to the console, and what was thrown.
        asked: addresses that were requested, the page's own first.
    """

    def __init__(self, sending: int, receiving: int) -> None:
        self._sending, self._receiving, self._rest, self._last = sending, receiving, b"", 0
        self._session: str | None = None
        self.said: list[str] = []
        self.asked: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, and wait for what it gives."""
        self._last += 1
        call = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            call["sessionId"] = self._session
        os.write(self._sending, json.dumps(call).encode() + b"\0")
        while True:
            message = self._next(30)
            if message.get("id") == self._last:
                assert "error" not in message, message
                return dict(message["result"])

    def _next(self, seconds: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._receiving], [], [], seconds)
            assert ready, "the browser says nothing"
            chunk = os.read(self._receiving, 1 << 20)
            assert chunk, "the browser has gone"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._heard(message.get("method", ""), message.get("params", {}))
        return message

    def _heard(self, method: str, about: dict[str, Any]) -> None:
        if method == "Runtime.consoleAPICalled":
            self.said.append(
                " ".join(str(argument.get("value", argument.get("description"))) for argument in about["args"])
            )
        elif method == "Runtime.exceptionThrown":
            self.said.append(json.dumps(about["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.said.append(about["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(about["request"]["url"])

    def open(self, url: str, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Go to an address and wait until it is loaded, on a screen of this size."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        # From nowhere, so that an address that differs in its last part alone is loaded anew.
        self.send("Page.navigate", url="about:blank")
        self.asked.clear()
        self.said.clear()
        self.send("Page.navigate", url=url)
        self.wait(lambda: self.run("document.readyState === 'complete' && location.protocol !== 'about:'"))

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        message = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in message, message
        return message["result"].get("value")

    def wait(self, holds: Callable[[], object], seconds: float = PATIENCE) -> None:
        """Until something holds."""
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, "it does not come about"
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """Press a key and let it go."""
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path: Path) -> Path:
        """What is on the screen, as PNG."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))
        return path


@contextmanager
def browser(program: str, folder: Path) -> Iterator[Page]:
    """A page of a fresh browser, which is ended when it is left.

    Args:
        folder: where the browser keeps its state.
    """
    to_it, sending = os.pipe()
    receiving, from_it = os.pipe()
    options = (
        "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", f"--user-data-dir={folder}",
    )  # fmt: skip
    # It reads from descriptor 3 and writes to 4; through higher ones, since a pipe may have got one of these two.
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10) for descriptor in (to_it, from_it)]

    def connect() -> None:
        for descriptor, place in zip(high, (3, 4), strict=True):
            os.dup2(descriptor, place)

    process = subprocess.Popen(
        [program, *options], pass_fds=(3, 4), preexec_fn=connect,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for descriptor in high:
        os.close(descriptor)
    os.close(to_it)
    os.close(from_it)
    try:
        yield Page(sending, receiving)
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(sending)
        os.close(receiving)
