"""Chromium without a window, driven through its DevTools protocol over two pipes."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader, FileIO
    from pathlib import Path

#: Bash gives the program the pipes by the numbers that it expects.
_START = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@" 2>/dev/null'
_FLAGS = (
    "--headless=new",
    "--hide-scrollbars",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--remote-debugging-pipe",
)
Answer = dict[str, Any]


class Browser:
    """One page of a browser."""

    def __init__(self, requests: FileIO, answers: BufferedReader) -> None:
        self._requests, self._answers = requests, answers
        self._rest = b""
        self._number = self._loads = 0
        self._session: dict[str, str] = {}
        self.problems: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: object) -> Answer:
        self._number += 1
        number = self._number
        request = {"id": number, "method": method, "params": parameters, **self._session}
        self._requests.write(json.dumps(request).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                return dict(message["result"])

    def open(self, address: str) -> None:
        """Open a page, and wait until its scripts and pictures are there."""
        for place in ("about:blank", address):
            self.problems.clear()
            loads = self._loads
            self.ask("Page.navigate", url=place)
            while self._loads == loads:
                self._next()

    def show_as(self, width: int, mode: str) -> None:
        """Set the width of the window, and light or dark."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": mode}])

    def run(self, script: str) -> Any:
        """Return the value of JavaScript, run as if the user had clicked."""
        answer = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def picture_of(self, place: Answer) -> bytes:
        """Return a part of the page as PNG."""
        picture = self.ask("Page.captureScreenshot", clip=place, captureBeyondViewport=True)
        return base64.b64decode(picture["data"])

    def _next(self) -> Answer:
        while b"\0" not in self._rest:
            part = self._answers.read1()
            assert part, "Chromium ended"
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        answer: Answer = json.loads(message)
        self._note(answer)
        return answer

    def _note(self, message: Answer) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loads += 1
            case "Runtime.exceptionThrown":
                self.problems.append(str(parameters["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in {"error", "warning"}:
                self.problems.append(str(parameters["args"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in {"error", "warning"}:
                self.problems.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Browser]:
    their_requests, our_requests = os.pipe()
    our_answers, their_answers = os.pipe()
    numbers = [str(their_requests), str(their_answers)]
    command = ["bash", "-c", _START, "chromium", *numbers, program, *_FLAGS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(command, pass_fds=(their_requests, their_answers))
    os.close(their_requests)
    os.close(their_answers)
    with os.fdopen(our_requests, "wb", 0) as requests, os.fdopen(our_answers, "rb") as answers:
        try:
            yield Browser(requests, answers)
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    from docs.pictures import screenshots  # takes long to import, and few tests need it

    program = screenshots.chromium()
    if not program:
        pytest.skip("no Chromium here: `apt-get install chromium` brings it")
    with browser(program, tmp_path_factory.mktemp("profile")) as one:
        yield one
