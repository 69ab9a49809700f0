"""The time to compile grows as the recorded lines do, whatever a function repeats.

What is counted is lines of Python that run, which does not depend on the load of the machine. The
slow tests measure seconds as well: loops in C are not counted.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.helpers.scripts import environment

import contraflow as cf
from contraflow import nn, thresholds
from contraflow.autograd.checkpoint import checkpoint

Function = Callable[..., Any]


def weight(*shape: int) -> cf.Tensor:
    """A parameter with small elements."""
    return (cf.arange(cf.ones(shape).numel()).reshape(shape) / 1e3).sin().requires_grad_()


def gradients(loss: cf.Tensor, *weights: cf.Tensor) -> list[Any]:
    """Run backward, and leave no gradient behind."""
    loss.backward()
    found = [w.grad for w in weights]
    for w in weights:
        w.grad = None
    return found


# --- functions that record about as many lines as they are told ----------------------------------


def elementwise(lines: int) -> Function:
    def f(x: cf.Tensor) -> cf.Tensor:
        for _ in range(lines // 2):
            x = (x * 1.001).sin()
        return x

    return f


def products(lines: int) -> Function:
    """Its backward is recorded too, four lines for each, and what the backward needs is found."""
    w = weight(4, 4)

    def f(x: cf.Tensor) -> cf.Tensor:
        for _ in range(lines // 10):
            x = (x @ w).tanh()
        return x

    return f


def shared(lines: int) -> Function:
    """A value made once that everything reads."""
    w = weight(4, 4)

    def f(x: cf.Tensor) -> cf.Tensor:
        mask = (x > 0).float()
        for _ in range(lines // 3):
            x = (x @ w.detach()) * mask + mask
        return x

    return f


def backward(lines: int) -> Function:
    w = weight(4)

    def f(x: cf.Tensor) -> Any:
        for _ in range(lines // 9):
            x = (x * w).sin()
        return gradients(x.sum(), w)

    return f


def gru(lines: int) -> Function:
    cell = nn.GRUCell(4, 4)

    def f(x: cf.Tensor) -> Any:
        h = cf.zeros(3, 4)
        for _ in range(lines // 60):
            h = cell(x, h)
        return gradients(h.sum(), *cell.parameters())

    return f


def rows(lines: int) -> Function:
    """Rows of a parameter, one by one, whose gradients are put side by side again."""
    w = weight(lines // 11, 4)

    def f(x: cf.Tensor) -> Any:
        for i in range(lines // 11):
            x = (x + w[i]).tanh()
        return gradients(x.sum(), w)

    return f


def recomputed(lines: int) -> Function:
    w = weight(4, 4)

    def block(x: cf.Tensor) -> cf.Tensor:
        return (x @ w).tanh()

    def f(x: cf.Tensor) -> Any:
        for _ in range(lines // 12):
            x = checkpoint(block, x)
        return gradients(x.sum(), w)

    return f


def writes(lines: int) -> Function:
    def f(x: cf.Tensor) -> cf.Tensor:
        found = cf.zeros(lines // 3, 4)
        for i in range(lines // 3):
            found[i] = x[0] * i
        return found

    return f


def in_place(lines: int) -> Function:
    def f(x: cf.Tensor) -> cf.Tensor:
        y = x.clone()
        for _ in range(lines // 4):
            y.mul_(1.01)
            y[0].add_(1)
        return y

    return f


def side_by_side(lines: int) -> Function:
    """Many kernels that need not wait for each other."""

    def f(x: cf.Tensor) -> cf.Tensor:
        return cf.cat([x * float(i) for i in range(lines)])

    return f


def results(lines: int) -> Function:
    def f(x: cf.Tensor) -> list[cf.Tensor]:
        return [x * float(i) for i in range(lines)]

    return f


def parameters(lines: int) -> Function:
    weights = [weight(4) for _ in range(lines // 12)]
    optimizer = cf.optim.Adam(weights)

    def f(x: cf.Tensor) -> Any:
        optimizer.zero_grad()
        sum((w * w).sum() for w in weights).backward()
        optimizer.step()
        return x + 1

    return f


def host(lines: int) -> Function:
    """Ops without a kernel."""

    def f(x: cf.Tensor) -> cf.Tensor:
        y = m = cf.eye(3) * 2.0
        for _ in range(lines // 2):
            y = cf.linalg.inv(y) + m
        return y + x.sum()

    return f


FUNCTIONS = {
    f.__name__: f
    for f in (
        elementwise, products, shared, backward, gru, rows, recomputed, writes, in_place,
        side_by_side, results, parameters, host,
    )
}  # fmt: skip


def first_call(function: Function) -> Any:
    """Compile and run; give the compiled function."""
    compiled = cf.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of long tapes
        compiled(cf.ones(3, 4))
    return compiled


def python_lines(run: Callable[[], Any]) -> int:
    """How many lines of Python run in this thread."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("name", FUNCTIONS)
@thresholds.using(best_fit_values=0)  # up to which each temporary is compared with all others
def test_one_more_line_takes_the_same_work(name: str) -> None:
    functions = [FUNCTIONS[name](lines) for lines in (200, 400, 800)]
    # Recorded once before, so that what is found out for all programs is known.
    lines = [len(first_call(f).tape.lines) for f in functions]
    work = [python_lines(partial(first_call, f)) for f in functions]
    steps = [(b - a) / (n - m) for a, b, m, n in zip(work, work[1:], lines, lines[1:])]
    assert steps[1] < 1.25 * steps[0], (lines, work)


# --- the garbage collector -----------------------------------------------------------------------


def collections(text: str) -> list[str]:
    """What a program prints: here the generations that are collected in a first call."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_a_first_call_collects_the_youngest_generation_alone() -> None:
    """Whatever turn it is: of several hundred thousand objects that were imported none is garbage,
    nor are those that it makes. What was made old so is visited when there is much of it."""
    found = collections(
        """
        import gc
        import contraflow as cf
        from contraflow import thresholds

        def note(phase, found):
            if phase == "start":
                print(found["generation"])

        step = cf.compile(lambda x: (x * x).sum())
        x = cf.ones(3, requires_grad=True)
        gc.collect()
        while gc.get_count()[1] <= gc.get_threshold()[1]:  # it is the turn of the second one
            gc.collect(0)
        gc.callbacks.append(note)
        step(x)
        print("old:", gc.get_count()[0] < 700, gc.get_freeze_count())
        thresholds.unvisited_objects = 50  # fewer than any recording makes
        cf.compile(lambda x: (x + x).sum())(x)
        thresholds.unvisited_objects = 100_000
        cf.compile(lambda x: (x - x).sum())(x)
        gc.callbacks.clear()
        """
    )
    first, then = found[: found.index("old:")], found[found.index("old:") + 1 :]
    assert first == ["0"], "before, to know what the function makes"
    assert then == ["True", "0", "0", "2", "0"]


def test_what_was_imported_is_old_at_once() -> None:
    found = collections(
        """
        import gc
        from contraflow import collector, threads

        gc.collect()
        gc.disable()
        young = [[] for _ in range(100)]
        threads.imported("colorsys")
        print(gc.get_count()[0] < 100, gc.get_freeze_count())
        gc.freeze()
        frozen = gc.get_freeze_count()
        threads.imported("filecmp")
        print(gc.get_freeze_count() >= frozen > collector.FROZEN_BY_PYTHON)
        """
    )
    assert found == ["True", "0", "True"]


# --- long tapes ----------------------------------------------------------------------------------


def measured(name: str, lines: int, folder: Path) -> dict[str, float]:
    """Seconds and megabytes of a first call in a process of its own, which keeps no machine code of
    an earlier one."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.compiler.test_compile_time", name, str(lines)],
        env=environment(CONTRAFLOW_CACHE_DIR=str(folder)),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_100_000_lines(name: str, tmp_path: Path) -> None:
    quarter = measured(name, 25_000, tmp_path / "quarter")
    whole = measured(name, 100_000, tmp_path / "whole")
    print(name, quarter, whole)
    assert whole["lines"] > 3.9 * quarter["lines"]
    assert whole["processor"] < 6.5 * quarter["processor"], "a quadratic step would be 16 times"
    assert whole["wall"] < 60
    assert whole["megabytes"] < 4096


def main(name: str, lines: int) -> None:
    """Compile one function, and say what that took."""
    function = FUNCTIONS[name](lines)
    start, processor = time.perf_counter(), time.process_time()
    compiled = first_call(function)
    found = {
        "wall": time.perf_counter() - start,
        "processor": time.process_time() - processor,
        "lines": len(compiled.tape.lines),
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
