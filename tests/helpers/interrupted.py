"""A program that is interrupted, as by Ctrl-C, at random moments of one kind of work.

`python -m tests.helpers.interrupted WORK SEED FOLDER` does the work of that name over and over
until it has seen COUNT interrupts, each sent when the one before has been seen. It checks after
each of them that all is as it was, or as it should have become, and ends with status 0. An
interrupt that is not seen within SECONDS was swallowed: the status is then 3. After LONGEST seconds
it prints the stacks of its threads and ends. `test_interrupts.py` runs it.
"""

from __future__ import annotations

import _thread
import faulthandler
import gc
import importlib
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

COUNT = 8
SECONDS = 60.0
SWALLOWED = 3
LONGEST = 200

Step = Callable[[], None]
Work = Callable[[random.Random, Path], Step]


def library() -> Any:
    """The package, imported here so that the import itself can be interrupted."""
    return importlib.import_module("contraflow")


# --- what is interrupted -----------------------------------------------------------------------
# Each of these prepares something and gives a step, which is repeated, and interrupted anywhere.


def imports(draw: random.Random, folder: Path) -> Step:
    """Import the package anew; once it is there it works."""

    def step() -> None:
        cf = library()
        assert (cf.ones(3) + 1.0).tolist() == [2.0, 2.0, 2.0]
        for name in [name for name in sys.modules if name.partition(".")[0] == "contraflow"]:
            del sys.modules[name]

    return step


def forget_kernels(folder: Path) -> None:
    """The next call of anything large is the first one again."""
    for name, table in {
        "contraflow.devices.cpu.jit": "_addresses",
        "contraflow.devices.cpu.program": "_entries",
        "contraflow.runtime.eager_programs": "_routines",
    }.items():
        getattr(importlib.import_module(name), table).clear()
    shutil.rmtree(folder / "cache", ignore_errors=True)


UNARY = ["tanh", "exp", "sin", "sigmoid", "cos", "square", "relu", "abs", "neg", "expm1"]


def eager(draw: random.Random, folder: Path) -> Step:
    """First calls of large eager ops."""
    cf = library()
    if draw.random() < 0.5:  # else the first call loads the compiler as well
        (cf.ones(300, 300) @ cf.ones(300, 300)).sum()
    x = np.linspace(-1, 1, 300 * 300, dtype=np.float32).reshape(300, 300)
    tensor, product = cf.tensor(x), (x @ x)[::60, ::60]

    def step() -> None:
        check_modes(cf)
        name = draw.choice(UNARY)
        got = getattr(cf, name)(tensor @ tensor)
        want = getattr(cf, name)(cf.tensor(np.ascontiguousarray(product)))
        np.testing.assert_allclose(got.numpy()[::60, ::60], want.numpy(), rtol=1e-4, atol=1e-4)
        forget_kernels(folder)

    return step


def compiled(draw: random.Random, folder: Path) -> Step:
    """First calls of compiled functions that run backward."""
    cf = library()
    x = cf.tensor(np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8), requires_grad=True)

    def step() -> None:
        check_modes(cf)
        assert x.grad is None or not x.grad.storage.is_recorded
        names = [draw.choice(UNARY) for _ in range(4)]

        def function(x: Any) -> Any:
            y = x
            for name in names:
                y = getattr(cf, name)(y * 0.5)
            (y @ y).sum().backward()
            return y.sum()

        x.grad = None
        want, gradient = function(x).item(), x.grad.numpy().copy()
        x.grad = None
        got = cf.compile(function)(x)
        np.testing.assert_allclose(got.item(), want, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(x.grad.numpy(), gradient, rtol=1e-4, atol=1e-4)
        forget_kernels(folder)

    return step


def check_modes(cf: Any) -> None:
    """Nothing of what was interrupted is left on this thread."""
    state = importlib.import_module("contraflow.operation.context").state()
    assert isinstance(state.context, importlib.import_module("contraflow.runtime.eager").Eager), (
        state
    )
    assert state.grad, state
    assert state.task is None, state
    assert gc.isenabled()


def training(cf: Any, width: int) -> tuple[Any, Any, Any]:
    """A model, its optimizer, and a loss of it."""
    cf.manual_seed(1)
    nn = cf.nn
    model = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
    x, y = cf.randn(16, width), cf.randn(16, 1)

    def loss() -> Any:
        return ((model(x) - y) ** 2).mean()

    return model, cf.optim.Adam(model.parameters(), lr=1e-3), loss


def replay(draw: random.Random, folder: Path) -> Step:
    """Calls of a compiled training step."""
    cf = library()
    model, optimizer, loss = training(cf, draw.choice([8, 256]))

    @cf.compile
    def train() -> Any:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value

    first = train().item()

    def step() -> None:
        check_modes(cf)
        for _ in range(20):
            assert 0 <= train().item() <= 2 * first
        assert all(np.isfinite(p.grad.numpy()).all() for p in model.parameters())

    return step


def backward(draw: random.Random, folder: Path) -> Step:
    """Backward of eager graphs, on one thread and on two."""
    cf = library()
    model, _, loss = training(cf, 300)
    blocks = [cf.randn(400, 400, requires_grad=True) for _ in range(4)]
    loss().backward()
    want = [p.grad.numpy().copy() for p in model.parameters()]

    def step() -> None:
        check_modes(cf)
        model.zero_grad()
        loss().backward()
        for p, g in zip(model.parameters(), want, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), g, rtol=1e-4, atol=1e-5)
        cf.checkpoint(lambda: (blocks[0] @ blocks[0]).sum()).backward()
        sum((b @ b).tanh().sum() for b in blocks).backward(workers=2)

    step()
    return step


def save(draw: random.Random, folder: Path) -> Step:
    """A file that is replaced: it is the old one or the new one."""
    cf = library()
    path = folder / "state.safetensors"
    cf.save({"x": cf.zeros(300, 300), "n": 0}, path)
    last = [0]

    def step() -> None:
        found = cf.load(path)
        assert found["n"] in (last[0], last[0] + 1), (found["n"], last)
        assert (found["x"].numpy() == found["n"]).all()
        last[0] = found["n"]
        new = last[0] + 1
        cf.save({"x": cf.full((300, 300), float(new)), "n": new}, path)

    return step


class Squares:
    """Samples for the loaders: the squares of their numbers."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, i: int) -> Any:
        return np.full(50, i * i)


def loop(**options: Any) -> Step:
    cf = library()
    batches = cf.data.DataLoader(Squares(), batch_size=4, **options)

    def step() -> None:
        seen = [int(x) for batch in batches for x in batch[:, 0]]
        assert seen == [i * i for i in range(64)]
        for batch in batches:
            assert int(batch[1, 0]) == 1
            break

    step()
    return step


def threads(draw: random.Random, folder: Path) -> Step:
    """Loops over a loader with threads, left early too."""
    return loop(num_workers=2, persistent_workers=draw.random() < 0.5)


def processes(draw: random.Random, folder: Path) -> Step:
    """Loops over a loader with a process."""
    return loop(num_workers=1, worker_type="process", persistent_workers=draw.random() < 0.5)


def webgpu(draw: random.Random, folder: Path) -> Step:
    """Eager ops, reads and compiled calls of a GPU: what has returned holds what it should."""
    cf = library()
    x = cf.arange(1000, dtype=cf.float32, device="webgpu")
    twice = cf.compile(lambda x: (x * 2).sum())
    made: list[Any] = []

    def step() -> None:
        for y in made:  # of ops that an interrupt came behind
            assert y.sum().item() == 500500.0
        made.clear()
        for _ in range(10):
            made.append(x + 1)
            assert twice(x).item() == 999000.0
            assert made[-1].cpu().numpy()[999] == 1000.0

    step()
    return step


# The work, and the longest time before an interrupt, in seconds.
WORKS: dict[str, tuple[Work, float]] = {
    "imports": (imports, 0.25),
    "eager": (eager, 0.15),
    "compiled": (compiled, 0.3),
    "replay": (replay, 0.03),
    "backward": (backward, 0.06),
    "save": (save, 0.03),
    "threads": (threads, 0.03),
    "processes": (processes, 0.3),
    "webgpu": (webgpu, 0.02),
}


# --- interrupts --------------------------------------------------------------------------------


class Sender:
    """A thread that interrupts the main one. All that it shares is written in C."""

    def __init__(self, draw: random.Random, longest: float, may_lose: bool) -> None:
        self.draw, self.longest, self.may_lose = draw, longest, may_lose
        self.ready: SimpleQueue[None] = SimpleQueue()  # the work goes on
        self.seen: SimpleQueue[int] = SimpleQueue()
        self.sent = 0
        self.over = False

    def start(self) -> None:
        threading.Thread(target=self._send, daemon=True).start()

    def _send(self) -> None:
        while self.sent < COUNT:
            self.ready.get()
            # Short times are as likely as long ones: what is short is interrupted too.
            time.sleep(self.longest * self.draw.random() ** 2)
            self.sent += 1
            if self.draw.random() < 0.25:
                _thread.interrupt_main()
            else:
                os.kill(os.getpid(), signal.SIGINT)
            try:
                self.seen.get(timeout=2.0 if self.may_lose else SECONDS)
            except Empty:
                if not self.may_lose:
                    faulthandler.dump_traceback(all_threads=True)
                    print(f"swallowed: interrupt {self.sent}", file=sys.stderr, flush=True)
                    os._exit(SWALLOWED)
                self.ready.put(None)
        self.over = True


def repeat(step: Step, sender: Sender) -> int:
    """Do the work until all interrupts were sent; how many were seen."""
    seen = 0
    while not sender.over:
        try:
            sender.ready.put(None)
            while not sender.over:
                step()
        except KeyboardInterrupt:
            seen += 1
            sender.seen.put(seen)
    step()
    return seen


def main(name: str, seed: str, folder: str) -> int:
    faulthandler.enable()
    faulthandler.dump_traceback_later(LONGEST, exit=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
    work, longest = WORKS[name]
    draw = random.Random(f"{name} {seed}")
    sender = Sender(draw, longest, may_lose=name == "imports")
    step = work(draw, Path(folder))
    sender.start()
    seen = repeat(step, sender)
    print(sender.sent, seen)
    return 0 if seen == sender.sent or sender.may_lose else SWALLOWED


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
