"""One engine used from many threads at once: each result has the bits it has alone.

Threads take turns as often as the interpreter lets them, start together, and end in time or fail.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import refused

import contraflow as cf
from contraflow import thresholds
from contraflow.operation.context import state
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor

THREADS = 12
SECONDS = 60.0


@pytest.fixture(autouse=True)
def quick_turns() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.fixture(params=[3, pytest.param(60, marks=pytest.mark.slow)])
def rounds(request: pytest.FixtureRequest) -> int:
    """How often a test repeats what it does."""
    return int(request.param)


def together(work: Callable[[int], Any], count: int = THREADS) -> list[Any]:
    """`work(0)`, `work(1)`, ... each in a thread of its own, all begun at one moment."""
    start = threading.Barrier(count)
    results: list[Any] = [None] * count
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            start.wait(SECONDS)
            results[number] = work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + SECONDS
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    late = sum(thread.is_alive() for thread in threads)
    assert not late, f"{late} of {count} threads still run after {SECONDS} s"
    if errors:
        raise errors[0]
    return results


def bits(*tensors: Any) -> bytes:
    return b"".join(t.detach().array.tobytes() for t in tensors)


def same_as_alone(work: Callable[[int], bytes], rounds: int, count: int = THREADS) -> None:
    alone = [work(number) for number in range(count)]
    for _ in range(rounds):
        assert together(work, count) == alone


def rows(seed: int, *shape: int) -> Tensor:
    return cf.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def network() -> cf.nn.Sequential:
    cf.manual_seed(7)
    return cf.nn.Sequential(
        cf.nn.Linear(6, 16), cf.nn.Tanh(), cf.nn.LayerNorm(16), cf.nn.Linear(16, 3)
    )


def loss_of(model: Any, number: int) -> Tensor:
    out = model(rows(number, 8, 6))
    return cf.nn.functional.cross_entropy(out, cf.tensor(np.arange(8) % 3))


def test_a_shared_model_with_gradients_as_values(rounds: int) -> None:
    model = network()
    weights = list(model.parameters())

    def work(number: int) -> bytes:
        loss = loss_of(model, number)
        found = cf.autograd.gradients(loss)
        return bits(loss, *(found[w] for w in weights))

    same_as_alone(work, rounds)
    assert all(w.grad is None for w in weights)


def test_a_model_and_an_optimizer_for_each_thread(rounds: int) -> None:
    def work(number: int) -> bytes:
        rng = np.random.default_rng(number)
        w = cf.tensor(rng.standard_normal((6, 6)), requires_grad=True)
        optimizer = cf.optim.Adam([w], lr=0.05)
        for _ in range(5):
            optimizer.zero_grad()
            ((rows(number, 4, 6).double() @ w).tanh() ** 2).mean().backward()
            optimizer.step()
        return bits(w, w.grad)

    same_as_alone(work, rounds)


def test_leaves_that_all_threads_share_lose_no_gradient(rounds: int) -> None:
    for _ in range(rounds):
        x = cf.tensor(np.ones(512), requires_grad=True)
        seen: list[float] = []
        x.register_hook(lambda g, seen=seen: seen.append(float(g.array[0])))

        def work(number: int, x: Tensor = x) -> None:
            for _ in range(10):
                (x * float(number)).sum().backward()

        together(work)
        assert x.grad.array.tolist() == [10.0 * sum(range(THREADS))] * 512
        assert sorted(seen) == sorted(float(n) for n in range(THREADS) for _ in range(10))


def test_one_graph_that_is_kept(rounds: int) -> None:
    x = rows(0, 8, 8).requires_grad_()
    trunk = (x @ x).sin().softmax(-1)

    def work(number: int) -> bytes:
        branch = (trunk * float(number + 1)).tanh().sum()
        (g,) = cf.autograd.grad(branch, x, retain_graph=True)
        (again,) = cf.autograd.grad(branch, x, retain_graph=True)
        return bits(g, again)

    same_as_alone(work, rounds)


def test_one_graph_that_is_freed_is_differentiated_once_or_refused(rounds: int) -> None:
    """Who comes second finds the saved values gone: an error in words, never half a gradient."""
    for _ in range(rounds):
        x = cf.tensor(np.linspace(0.1, 1.0, 64), requires_grad=True)
        loss = x.sin().exp().sqrt().sum()
        whole = bits(*cf.autograd.grad(loss, x, retain_graph=True))

        def work(number: int, x: Tensor = x, loss: Tensor = loss) -> Any:
            try:
                return bits(*cf.autograd.grad(loss, x))
            except cf.GradientError as error:
                return str(error)

        results = together(work)
        assert all(r == whole or "a second time" in r or "freed" in r for r in results), results


def test_modes_stay_in_their_thread(rounds: int) -> None:
    before = state()

    def work(number: int) -> list[bool]:
        x = cf.tensor(np.ones(4), requires_grad=True)
        seen = []
        for turn in range(40):
            mode = [cf.no_grad, cf.enable_grad, cf.inference_mode][(number + turn) % 3]
            with mode():
                y = x * 2.0
                on = mode is cf.enable_grad
                seen.append((y.requires_grad, cf.is_grad_enabled()) == (on, on))
            seen.append((x * 2.0).requires_grad)
        if number % 2:
            cf.set_grad_enabled(False)
            cf.autograd.set_detect_anomaly(True)
        seen.append(cf.is_grad_enabled() == (number % 2 == 0))
        return seen

    for _ in range(rounds):
        assert all(all(seen) for seen in together(work))
        assert state() == before


def test_a_hook_that_raises_ends_its_own_backward_only(rounds: int) -> None:
    def work(number: int) -> Any:
        x = cf.tensor(np.full(16, float(number + 1)), requires_grad=True)

        def hook(g: Tensor) -> Tensor:
            if number % 3 == 0:
                raise KeyError(number)
            return g * 2.0

        for _ in range(5):
            x.grad = None
            y = x.sin()
            y.register_hook(hook)
            loss = (y * y).sum()
            if number % 3:
                loss.backward()
            else:
                with refused(KeyError, str(number)):
                    loss.backward()
                assert x.grad is None
        return b"" if x.grad is None else bits(x.grad)

    same_as_alone(work, rounds)


def test_writing_in_place_to_tensors_of_ones_own(rounds: int) -> None:
    shared = rows(3, 6, 6)

    def work(number: int) -> bytes:
        x = rows(number, 6, 6).requires_grad_()
        y = x * 1.0
        for k in range(6):
            y[k] *= float(number)
            y[:, k].add_(shared[k])
            y.clamp_(-3.0, 3.0)
        y.sum().backward()
        return bits(y, x.grad) + bytes([y._version])

    same_as_alone(work, rounds)
    assert shared._version == 0


def test_checkpoints(rounds: int) -> None:
    w = rows(1, 6, 6).requires_grad_()

    def block(x: Tensor) -> Tensor:
        return ((x @ w).tanh() @ w).sin()

    def work(number: int) -> bytes:
        x = rows(number, 5, 6).requires_grad_()
        out = cf.checkpoint(block, cf.checkpoint(block, x))
        return bits(*cf.autograd.grad(out.sum(), (x, w)))

    same_as_alone(work, rounds)
    assert not cf.is_recomputing()


def test_a_generator_for_each_thread(rounds: int) -> None:
    def work(number: int) -> bytes:
        generator = cf.Generator().manual_seed(number)
        return bits(*(cf.rand(37, generator=generator) for _ in range(20)))

    same_as_alone(work, rounds)


def test_the_common_generator_gives_nothing_twice(rounds: int) -> None:
    """Which thread gets which numbers is chance; together they get what one would have got."""
    for _ in range(rounds):
        cf.manual_seed(11)
        alone = sorted(bits(cf.rand(4)) for _ in range(THREADS * 20))
        cf.manual_seed(11)
        drawn = together(lambda number: [bits(cf.rand(4)) for _ in range(20)])
        assert sorted(b for part in drawn for b in part) == alone


@thresholds.using(parallel_backward=0)
def test_backward_on_several_threads_in_several_threads(rounds: int) -> None:
    w = rows(2, 6, 6)

    def work(number: int) -> bytes:
        x = rows(number, 6, 6).requires_grad_()
        branches = [(x * float(k)) @ w for k in range(8)]
        sum(b.sin().sum() for b in branches).backward(workers=1 + number % 4)
        return bits(x.grad)

    same_as_alone(work, rounds, count=6)


def test_a_compiled_function(rounds: int) -> None:
    """Captured by whoever comes first; every call gets its own results."""
    w = rows(5, 6, 6).requires_grad_()

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        out = ((x @ w).tanh() * x).sum(0)
        return out, cf.autograd.grad(out.sum(), w)[0]

    alone = [bits(*cf.compile(function)(rows(n, 4 + n % 2, 6))) for n in range(THREADS)]
    for _ in range(rounds):
        compiled = cf.compile(function)

        def work(number: int, compiled: Any = compiled) -> bytes:
            results = {bits(*compiled(rows(number, 4 + number % 2, 6))) for _ in range(4)}
            assert len(results) == 1
            return results.pop()

        assert together(work) == alone
        assert compiled.captures <= THREADS


def test_making_and_freeing(rounds: int) -> None:
    """Graphs with cycles of hooks, long chains and views, dropped at once."""

    def work(number: int) -> int:
        for _ in range(4):
            x = cf.tensor(np.ones(32), requires_grad=True)
            y = x
            for _ in range(50):
                y = y * 1.01
            y.register_hook(lambda g, y=y: None)
            views = [y[k : k + 4] for k in range(8)]
            sum(v.sum() for v in views).backward()
            assert x.grad.shape == (32,)
        return number

    def alive() -> int:
        gc.collect()
        # By type: isinstance asks objects of other libraries for __class__, where some warn.
        return sum(issubclass(type(o), Storage) for o in gc.get_objects())

    assert together(work) == list(range(THREADS))
    before = alive()
    for _ in range(rounds):
        assert together(work) == list(range(THREADS))
    assert alive() <= before + THREADS


def test_anomaly_mode_names_the_line_of_its_own_thread() -> None:
    def work(number: int) -> str:
        x = cf.tensor(np.zeros(3), requires_grad=True)
        with cf.autograd.detect_anomaly() if number % 2 else cf.enable_grad():
            try:
                (x.sqrt() * 0.0).sum().backward()
            except cf.GradientError as error:
                return str(error).split(" ", 1)[0]
        return "no error"

    assert together(work) == ["no error", together(work, 2)[1]] * (THREADS // 2)


def test_an_error_in_one_thread_leaves_the_others_alone(rounds: int) -> None:
    x = rows(9, 4, 4)

    def work(number: int) -> Any:
        if number % 2:
            with refused(
                ValueError,
                "matmul: cannot multiply float32[4, 4] by float32[3, 3]: ",
                "inner sizes 4 and 3 differ.",
            ):
                x @ cf.ones(3, 3)
            return b""
        return bits((x @ x).exp())

    same_as_alone(work, rounds)
