"""A pipe to a process: requests and answers, one line of JSON each.

A process that ends, or does not answer in time, raises ChildError in whoever asked.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"


class ChildError(RuntimeError):
    """A process that was measured failed."""


def environment(
    variables: Mapping[str, str] | None = None, source: Path = SOURCE
) -> dict[str, str]:
    """What processes are started with: these benchmarks, the library in `source`, and bytecode
    written whatever is set here."""
    paths = [str(ROOT), str(source), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONDONTWRITEBYTECODE": "",
        **(variables or {}),
    }


def serve(handlers: Mapping[str, Callable[..., Any]]) -> None:
    """Answer requests until there are no more. What libraries print goes to the error stream."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request, *arguments = json.loads(line)
        try:
            answer = {"answer": handlers[request](*arguments)}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


class Child:
    """A process that serves."""

    def __init__(
        self,
        name: str,
        *arguments: str,
        variables: Mapping[str, str] | None = None,
        source: Path = SOURCE,
    ) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, *arguments], env=environment(variables, source), text=True,
            errors="replace", start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._answers: queue.Queue[str] = queue.Queue()
        self._complaints: deque[str] = deque(maxlen=20)
        self._readers = [threading.Thread(target=self._read_answers, daemon=True)]
        self._readers += [threading.Thread(target=self._read_complaints, daemon=True)]
        for reader in self._readers:
            reader.start()

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _read_complaints(self) -> None:
        assert self._process.stderr is not None
        self._complaints.extend(self._process.stderr)

    def ask(self, *request: Any, timeout: float) -> Any:
        """The answer to a request: the name of a handler and its arguments."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # an empty line tells of the end
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        try:
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            self._kill()
            raise ChildError(
                f"{self.name}: no answer to {request[0]!r} within {timeout:.0f} s"
            ) from None
        if not line:
            status = self._process.wait()
            self._readers[1].join()
            last = self._complaints[-1].strip() if self._complaints else "it said nothing"
            raise ChildError(f"{self.name}: ended with status {status}: {last}")
        answer = json.loads(line)
        if "error" in answer:
            raise ChildError(f"{self.name}: {answer['error']}")
        return answer["answer"]

    def _kill(self) -> None:
        """End it and what it started: compilers have processes of their own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End it, gently if it lets us."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self._kill()
        for reader in self._readers:
            reader.join()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
