"""A headless Chromium for tests: pages are opened, asked and photographed through its pipe."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# WebGPU by SwiftShader, on the processor.
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu-sandbox", "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan", "--no-first-run",
    "--disable-extensions", "--disable-background-networking", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--window-size=920,780", "--remote-debugging-pipe",
)  # fmt: skip


def path() -> str | None:
    """The program, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address under which the files of a folder are found, as long as the block runs."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Page:
    """A page of a browser."""

    def __init__(self, address: str) -> None:
        program = path()
        assert program is not None
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        asks, self._asks = os.pipe()
        answers, told = os.pipe()
        # The browser reads commands from descriptor 3 and answers to descriptor 4.
        start = (
            f"import os, sys; os.dup2({asks}, 3); os.dup2({told}, 4); "
            "os.execv(sys.argv[1], sys.argv[1:])"
        )
        flags = (*FLAGS, f"--user-data-dir={self._profile.name}")
        self._process = subprocess.Popen(
            [sys.executable, "-c", start, program, *flags], pass_fds=(asks, told),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(asks)
        os.close(told)
        self._answers = os.fdopen(answers, "rb")
        self._number, self._session, self._rest = 0, "", b""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        found = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        self._ask("Page.enable")
        self._ask("Page.navigate", url=address)
        while json.loads(self._next()).get("method") != "Page.loadEventFired":
            pass

    def _ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._asks, json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads(self._next())
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(answer["error"]["message"])
                return answer["result"]

    def _next(self) -> bytes:
        while b"\0" not in self._rest:
            data = os.read(self._answers.fileno(), 1 << 16)
            if not data:
                raise RuntimeError("the browser has ended")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return message

    def evaluate(self, expression: str) -> Any:
        """What an expression of JavaScript gives, or what its promise does."""
        found = self._ask(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"]["description"])
        return found["result"].get("value")

    def screenshot(self) -> bytes:
        """The page as it is, as a PNG."""
        found = self._ask("Page.captureScreenshot", format="png")
        return base64.b64decode(found["data"])

    def close(self) -> None:
        """End the browser."""
        os.close(self._asks)
        self._process.terminate()
        self._process.wait()
        self._answers.close()
        self._profile.cleanup()
