"""Every refusal begins with the compiled function and the user's line.

Most are among the forms of `test_state.py::test_refused`; these are found by the library, or when
the function has returned.
"""

from __future__ import annotations

import queue
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import contraflow as cf

pytestmark = pytest.mark.usefixtures("mode")

REFUSALS: list[tuple[str, str, Callable[[], Iterator[Callable[..., Any]]]]] = []
x = cf.ones(3)


def refused(line: str, problem: str) -> Any:
    """A refusal that names a line, whose text begins so; the function makes what is compiled."""

    def add(make: Any) -> Any:
        REFUSALS.append((line, problem, make))
        return make

    return add


def leaf() -> Any:
    return cf.ones(3, requires_grad=True)


@refused("kept.append(g)", "a hook that runs in backward writes to a tensor or to Python's state")
def hook_that_keeps() -> Any:
    kept, w = [], leaf()

    def keep(g: Any) -> None:
        kept.append(g)

    def f(x: Any) -> Any:
        y = w * x
        y.register_hook(keep)
        return y.exp()

    return f


@refused("state.copy_(g)", "a hook that runs in backward writes to a tensor or to Python's state")
def hook_that_writes() -> Any:
    state, w = cf.zeros(3), leaf()

    def write(g: Any) -> None:
        state.copy_(g)

    def f(x: Any) -> Any:
        y = w * x
        y.register_hook(write)
        return y.exp()

    return f


@refused("return g * cf.rand(3)", "a hook that runs in backward writes to a tensor or to Python's")
def hook_that_draws() -> Any:
    w = leaf()

    def draw(g: Any) -> Any:
        return g * cf.rand(3)

    def f(x: Any) -> Any:
        y = w * x
        y.register_hook(draw)
        return y.exp()

    return f


@refused('return g * group["lr"]', "a hook that runs in backward reads a host scalar such as a")
def hook_that_reads_a_rate() -> Any:
    w = leaf()
    group = cf.optim.SGD([w], lr=0.1).param_groups[0]

    def scale(g: Any) -> Any:
        return g * group["lr"]

    def f(x: Any) -> Any:
        y = w * x
        y.register_hook(scale)
        return y.exp()

    return f


@refused("made = cf.zeros(3).requires_grad_()", "float32[3] is made by the function, requires grad")
def leaf_that_is_returned() -> Any:
    def f(x: Any) -> Any:
        made = cf.zeros(3).requires_grad_()
        return made, made * x

    return f


@refused(
    "with cf.autograd.detect_anomaly():",
    "detect_anomaly looks at values, and there are none while a function is",
)
def anomaly() -> Any:
    w = leaf()

    def f(x: Any) -> Any:
        with cf.autograd.detect_anomaly():
            return x * w

    return f


@refused(
    "scaler.step(optimizer)", "GradScaler.unscale_ was called outside of the compiled function"
)
def scaler() -> Any:
    w = leaf()
    optimizer, scaler = cf.optim.SGD([w], lr=0.1), cf.amp.GradScaler()
    scaler.scale((w * w).sum()).backward()
    scaler.unscale_(optimizer)

    def f(x: Any) -> Any:
        scaler.step(optimizer)

    return f


@refused("queued.put(g * 2)", "a hook keeps float32[3] that is made here, which only backward")
def hook_that_fills_a_queue() -> Any:
    queued: queue.SimpleQueue[Any] = queue.SimpleQueue()
    w = leaf()

    def put(g: Any) -> None:
        queued.put(g * 2)

    def f(x: Any) -> Any:
        y = w * x
        y.register_hook(put)
        return y.exp()

    return f


@pytest.mark.parametrize(
    ("line", "problem", "make"), REFUSALS, ids=[make.__name__ for *_, make in REFUSALS]
)
def test_a_refusal_names_the_line(line: str, problem: str, make: Any) -> None:
    with pytest.raises(cf.CaptureError) as raised:
        cf.compile(make())(x)
    said = str(raised.value)
    place = re.match(r"compile\(f\): `(.*)` at test_refusal_lines\.py:(\d+): (.*)", said)
    assert place is not None, said
    assert (place[1], place[3][: len(problem)]) == (line, problem)
    with open(__file__) as file:
        assert file.readlines()[int(place[2]) - 1].strip() == line


def test_refusals_are_made_in_one_place() -> None:
    """Others are no refusals of what a function does: looking at a program, comparing one, writing
    it for a browser; and a routine of eager mode that is not worth it, which no user sees."""
    root = Path(cf.__file__).parent
    made = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"\bCaptureError\(\s*f?\"", path.read_text())
    }
    assert made == {
        "contexts/record.py",
        "capture/compiled.py",
        "capture/verify.py",
        "capture/web/numbers.py",
        "capture/web/program.py",
        "runtime/array_routines.py",
        "runtime/recorded.py",
        "runtime/routine.py",
    }
