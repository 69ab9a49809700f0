"""Calls that hit, by the function written out for them: what changes after it was written."""

from __future__ import annotations

import copy
import gc
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.hits import warmed

import contraflow as cf
from contraflow import config
from contraflow.capture.hit import MISS
from contraflow.devices.cpu.program import CpuProgram

factor = 2.0


class Holder:
    """An object with attributes that functions read."""

    scale = 3.0

    def __init__(self) -> None:
        self.number, self.weight = 1.5, cf.tensor([1.0, 2.0])
        self.inner: Any = None

    def doubled(self, x: cf.Tensor) -> cf.Tensor:
        return x * 2


def agree(compiled: Any, *args: cf.Tensor) -> None:
    actual, expected = compiled(*args), compiled.eager(*args)
    assert actual.dtype is expected.dtype
    assert actual.requires_grad == expected.requires_grad
    assert actual.tolist() == expected.tolist()


X = cf.tensor([1.0, -2.0])


@pytest.mark.parametrize(
    "other",
    [
        cf.tensor([1.0, 2.0, 3.0]),
        cf.tensor([1, 2]),
        cf.tensor([1.0, 2.0], dtype=cf.float64),
        cf.tensor([[1.0], [2.0]]),
        cf.tensor([1.0, 2.0, 3.0, 4.0])[::2],
        cf.tensor([1.0, 2.0, 3.0, 4.0])[2:],
        cf.tensor([1.0, 2.0]).flip(0),
    ],
    ids=["shape", "dtype", "float64", "dims", "strides", "part", "flipped"],
)
def test_other_arguments(other: cf.Tensor) -> None:
    compiled = warmed(lambda x: x * 2 + 1, X)
    agree(compiled, other)
    agree(compiled, X)
    assert compiled.captures == 2 or compiled(other).shape == (2,)


def test_an_argument_that_requires_grad() -> None:
    compiled = warmed(lambda x: x * 2, X)
    leaf = cf.tensor([1.0, 2.0], requires_grad=True)
    compiled(leaf).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [2.0, 2.0]
    part = cf.tensor([1.0, 2.0, 3.0])[:2]
    for _ in range(3):
        compiled(part)
    part.add_(leaf)  # a view whose base requires grad from now on
    assert compiled(part).requires_grad


def test_another_number_of_arguments_and_other_kinds() -> None:
    compiled = warmed(lambda x, y=1.0: x * y, X)
    agree(compiled, X, cf.tensor([3.0, 4.0]))
    assert compiled(X, 3.0).tolist() == [3.0, -6.0]
    assert compiled(X, y=3.0).tolist() == [3.0, -6.0]
    assert compiled(X, np.array([2.0, 4.0], np.float32)).tolist() == [2.0, -8.0]
    with pytest.raises(cf.CaptureError, match="the function returns a NumPy array"):
        compiled(np.array([2.0, 4.0], np.float32))
    with pytest.raises(TypeError):
        compiled()
    agree(compiled, X)


def test_many_arguments_that_share_memory() -> None:
    def write(*xs: cf.Tensor) -> cf.Tensor:
        xs[2].add_(1)
        return cf.stack(xs).sum(0)

    def arguments(same: tuple[int, int] | None = None) -> list[cf.Tensor]:
        xs = [cf.full((2,), float(i)) for i in range(14)]
        if same:
            xs[same[0]] = xs[same[1]]
        return xs

    compiled = warmed(write, *arguments())
    for same in ((2, 1), (8, 2), (9, 2), (13, 2), (13, 12), None):
        assert compiled(*arguments(same)).tolist() == write(*arguments(same)).tolist()
    assert compiled.captures == 6


def test_the_function_of_a_hit_grows_as_its_arguments_do() -> None:
    def length(count: int) -> int:
        compiled = warmed(lambda *xs: cf.stack(xs).sum(0), *(cf.ones(2) for _ in range(count)))
        return len(compiled._hit.__code__.co_code)

    assert length(80) - length(60) < 1.2 * (length(60) - length(40))


def test_arguments_that_share_memory() -> None:
    def write(x: cf.Tensor, y: cf.Tensor) -> cf.Tensor:
        x.add_(1)
        return x + y

    compiled = warmed(write, cf.zeros(2), cf.zeros(2))
    same = cf.zeros(2)
    assert compiled(same, same).tolist() == [2.0, 2.0]


def test_an_argument_that_is_state() -> None:
    held = Holder()
    compiled = warmed(lambda x: held.weight.mul_(2) + x, cf.zeros(2))
    before = held.weight.tolist()
    assert compiled(held.weight).tolist() == [4 * b for b in before]


def change_global(held: Holder, patch: pytest.MonkeyPatch) -> None:
    patch.setitem(globals(), "factor", 5.0)


def change_number(held: Holder, patch: pytest.MonkeyPatch) -> None:
    held.number = 7.0


def change_tensor(held: Holder, patch: pytest.MonkeyPatch) -> None:
    held.weight = cf.tensor([5.0, 6.0])


def hide_class_attribute(held: Holder, patch: pytest.MonkeyPatch) -> None:
    held.scale = 11.0


def change_class_attribute(held: Holder, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Holder, "scale", 11.0)


def change_method(held: Holder, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Holder, "doubled", lambda self, x: x * 20)


@pytest.mark.parametrize(
    "change",
    [
        change_global, change_number, change_tensor, hide_class_attribute, change_class_attribute,
        change_method,
    ],
)  # fmt: skip
def test_what_a_function_names(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Holder()
    compiled = warmed(
        lambda x: held.doubled(x) * factor * held.number * held.scale * held.weight, X
    )
    change(held, monkeypatch)
    agree(compiled, X)
    held = Holder()
    agree(compiled, X)
    del held.number
    with pytest.raises(AttributeError):
        compiled(X)


def test_a_variable_that_is_not_assigned_any_more() -> None:
    offset = 1.0
    compiled = warmed(lambda x: x + offset, X)
    del offset
    with pytest.raises(NameError):
        compiled(X)
    offset = 2.0
    agree(compiled, X)


def test_a_number_that_dies_leaves_its_address_to_no_other() -> None:
    offset = 0.5
    compiled = warmed(lambda x: x + offset, X)
    address = id(offset)
    del offset
    for i in range(1000):
        offset = 1.0 + i
        if id(offset) == address:
            break
    assert compiled(X).tolist() == [1.0 + offset, -2.0 + offset]


def training() -> tuple[Any, cf.nn.Linear, Any]:
    model = cf.nn.Linear(2, 1)
    optimizer = cf.optim.Adam(model.parameters(), lr=0.1)

    def step(x: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, model, optimizer


def test_a_training_step_goes_on_as_eager() -> None:
    x = cf.tensor([[1.0, 2.0]])
    losses = []
    for compiles in (True, False):
        cf.manual_seed(3)
        step, model, optimizer = training()
        run = cf.compile(step) if compiles else step
        values = []
        for i in range(12):
            if i == 5:
                optimizer.param_groups[0]["lr"] = 0.01
            if i == 7:
                model.bias.requires_grad_(False)
            if i == 9:
                model.weight.register_hook(lambda g: g * 2)
            if i == 10:
                model.weight.grad = None
            values.append(run(x).item())
            values += model.weight.grad.flatten().tolist() + model.weight.flatten().tolist()
        losses.append(values)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_gradients_that_are_read() -> None:
    weight = cf.tensor([1.0, 2.0], requires_grad=True)

    def accumulate(x: cf.Tensor) -> cf.Tensor:
        (weight * x).sum().backward()
        return x + 1

    compiled = cf.compile(accumulate)
    for i in range(6):
        if i == 4:
            weight.grad = None
        compiled(X)
    assert weight.grad.tolist() == [2.0, -4.0]  # type: ignore[union-attr]


def gradient_of(weight: cf.Tensor) -> cf.Tensor:
    gradient = weight.grad
    assert gradient is not None
    return gradient


def stepping() -> tuple[Any, cf.Tensor]:
    """A function whose gradient for one weight is what it is called with."""
    weight = cf.tensor([1.0, 2.0], requires_grad=True)

    def step(x: cf.Tensor) -> cf.Tensor:
        weight.grad = None
        (weight * x).sum().backward()
        return x + 1

    return warmed(step, X), weight


def test_a_gradient_that_nobody_looks_at_stays_in_its_memory() -> None:
    compiled, weight = stepping()
    compiled(X)
    block = weight._slot
    for _ in range(3):
        compiled(X)
        assert weight._slot is block
    assert gradient_of(weight).tolist() == [1.0, -2.0]


def test_a_gradient_that_somebody_holds_is_not_overwritten() -> None:
    compiled, weight = stepping()
    held = []
    for i in range(8):
        compiled(X + i)
        if i % 3 != 1:
            held.append((i, gradient_of(weight)))
    for i, gradient in held:
        assert gradient.tolist() == [1.0 + i, -2.0 + i]


def test_a_gradient_comes_back_where_it_was_replaced() -> None:
    compiled, weight = stepping()
    for i in range(6):
        weight.grad = cf.ones(2) if i % 2 else None
        compiled(X + i)
        compiled(X + i)
        assert gradient_of(weight).tolist() == [1.0 + i, -2.0 + i]
    (weight * 2).sum().backward()
    assert gradient_of(weight).tolist() == [8.0, 5.0]
    compiled(X)
    assert gradient_of(weight).tolist() == [1.0, -2.0]


def test_programs_that_share_a_gradient_take_turns() -> None:
    weight = cf.tensor([1.0, 2.0], requires_grad=True)

    def step(x: cf.Tensor) -> cf.Tensor:
        weight.grad = None
        (weight * x.sum(0)).sum().backward()
        return x + 1

    compiled = cf.compile(step)
    for i in range(12):
        x = cf.ones(1 + (i // 2) % 2, 2) * i
        compiled(x)
        compiled(x)
        assert compiled._hit((x,)) is not MISS
        if i % 3:
            assert gradient_of(weight).tolist() == [len(x) * i] * 2
    assert len(compiled.programs) == 2


def test_a_gradient_that_somebody_looks_at_during_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = cf.tensor([1.0, 2.0], requires_grad=True)
    seen: list[Any] = []
    looks: list[Callable[[], Any]] = []
    rerun = CpuProgram.rerun

    def observed(self: CpuProgram, scalars: Any) -> None:
        for look in looks:
            seen.append(look())
        rerun(self, scalars)

    monkeypatch.setattr(CpuProgram, "rerun", observed)

    def step(x: cf.Tensor) -> cf.Tensor:
        weight.grad = None
        (weight * x).sum().backward()
        return x + 1

    compiled = warmed(step, X)
    for i in range(6):
        looks[:] = [lambda: gradient_of(weight)] if i % 2 else []
        compiled(X + i)
        looks.clear()
        compiled(X + 10)
        assert all(held.tolist() != [11.0, 8.0] for held in seen)
    assert len(seen) == 3
    looks[:] = [lambda: setattr(weight, "grad", None)]
    compiled(X + 3)
    looks.clear()
    assert gradient_of(weight).tolist() == [4.0, 1.0]
    compiled(X)
    assert gradient_of(weight).tolist() == [1.0, -2.0]


def test_threads_whose_programs_share_a_gradient() -> None:
    weight = cf.zeros(300, 300, requires_grad=True)

    def short(x: cf.Tensor) -> cf.Tensor:
        weight.grad = None
        (weight * x[:1]).sum().backward()
        return x + 1

    def long(x: cf.Tensor) -> cf.Tensor:
        weight.grad = None
        (((x @ weight) ** 2).sum() + (weight * 2 * x[:1]).sum()).backward()
        return x + 1

    x = cf.ones(200, 300)
    functions = {1.0: warmed(short, x), 2.0: warmed(long, x)}
    until = time.perf_counter() + 0.3

    def work(function: Any) -> None:
        while time.perf_counter() < until:
            function(x)

    threads = [threading.Thread(target=work, args=(f,)) for f in functions.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for expected, function in [*functions.items()] * 2:
        for _ in range(2):
            function(x)
            assert gradient_of(weight)[0, 0].item() == expected
            weight.grad = None


def test_numbers_whose_owner_is_replaced() -> None:
    model = cf.nn.Linear(3, 2)
    optimizers = [cf.optim.SGD(model.parameters(), lr=lr) for lr in (0.1, 0.0)]

    def step(x: cf.Tensor) -> cf.Tensor:
        optimizers[0].zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizers[0].step()
        return loss.detach()

    compiled = warmed(step, cf.ones(4, 3))
    before = model.weight.tolist()
    optimizers[0].param_groups[:] = optimizers[1].param_groups
    compiled(cf.ones(4, 3))
    assert model.weight.tolist() == before


@pytest.mark.parametrize("early", [False, True])
def test_a_wrong_index_leaves_gradients_as_they_were(early: bool) -> None:
    weight, table = cf.tensor([1.0, 2.0], requires_grad=True), cf.arange(3.0)

    def step(i: cf.Tensor) -> cf.Tensor:
        weight.grad = None
        factor = 3.0 if early else table[i]
        (weight * factor).sum().backward()
        return table[i]

    compiled = warmed(step, cf.tensor([0, 2]))
    compiled(cf.tensor([1, 2]))
    with pytest.raises(IndexError, match="index"):
        compiled(cf.tensor([0, 3]))
    assert gradient_of(weight).tolist() == ([3.0, 3.0] if early else [1.0, 2.0])
    compiled(cf.tensor([2, 2]))
    assert gradient_of(weight).tolist() == ([3.0, 3.0] if early else [2.0, 2.0])


@pytest.mark.parametrize(
    "mode",
    [cf.no_grad, cf.inference_mode, lambda: cf.amp.autocast("cpu"), cf.autograd.detect_anomaly],
    ids=["no_grad", "inference", "autocast", "anomaly"],
)
def test_modes(mode: Any) -> None:
    weight = cf.ones(2, 2, requires_grad=True)
    compiled = cf.compile(lambda x: x @ weight)
    x = cf.ones(2, 2)
    for _ in range(4):
        with mode():
            agree(compiled, x)
        agree(compiled, x)


def test_settings() -> None:
    compiled = warmed(lambda x: x + cf.ones(2), X)
    cf.set_default_dtype(cf.float64)
    try:
        agree(compiled, X)
    finally:
        cf.set_default_dtype(cf.float32)
    agree(compiled, X)
    calls: queue.SimpleQueue[int] = queue.SimpleQueue()  # keeps its state to itself
    counted = warmed(lambda x: calls.put(1) or x + 1, X)  # type: ignore[func-returns-value]
    recorded = calls.qsize()
    counted(X)
    assert calls.qsize() == recorded
    counted.enabled = False
    counted(X)
    assert calls.qsize() == recorded + 1
    counted.enabled, counted.verify = True, 1
    counted(X)
    assert calls.qsize() == recorded + 2
    config.compile_mode, before = "off", config.compile_mode
    try:
        counted(X)
    finally:
        config.compile_mode = before
    assert calls.qsize() == recorded + 3


def test_results_that_are_kept_are_not_overwritten() -> None:
    compiled = warmed(lambda x: (x + 1, x * 2), X)
    kept = [compiled(X + i) for i in range(5)]
    for i, (a, b) in enumerate(kept):
        assert a.tolist() == [2.0 + i, -1.0 + i]
        assert b.tolist() == [2.0 + 2 * i, -4.0 + 2 * i]


def test_writes_are_counted_and_named() -> None:
    state = cf.ones(2)
    compiled = warmed(lambda x: state.add_(x) + 1, X)
    x = cf.tensor([1.0, 2.0], requires_grad=True)
    product = (x * state).sum()
    compiled(X)
    with pytest.raises(cf.GradientError, match="add_ overwrote it"):
        product.backward()


def test_versions_count_replays_and_other_writes() -> None:
    state, other = cf.ones(2), cf.ones(2)
    first = warmed(lambda x: state.add_(x) + 1, X)
    second = warmed(lambda x: state.mul_(x) + other, X)
    start, unchanged = state._version, other._version
    for n in range(1, 4):
        first(X)
        second(X)
        state.zero_()
        assert state._version == start + 3 * n
    assert other._version == unchanged
    for write, name in ((first, "add_"), (lambda x: state.sub_(x), "sub_"), (second, "mul_")):
        x = cf.tensor([1.0, 2.0], requires_grad=True)
        product = (x * state).sum()
        write(X)
        with pytest.raises(cf.GradientError, match=f"{name} overwrote it"):
            product.backward()


def test_versions_outlast_programs() -> None:
    state = cf.ones(2)
    for n in range(1, 5):
        compiled = warmed(lambda x: state.add_(x) + 1, X)
        before = state._version
        compiled(X)
        compiled.clear()
        del compiled
        gc.collect()
        assert state._version == before + 1
        assert len(state.storage.log.replays) <= 2, n  # type: ignore[attr-defined]
    assert state.storage.writer[0] == "add_"  # type: ignore[index]
    again = copy.deepcopy(state)
    again.add_(1)
    assert (again._version, state._version) == (1, before + 1)


def test_a_wrong_index_changes_nothing() -> None:
    table, count = cf.arange(3.0), cf.zeros(1)

    def read(i: cf.Tensor) -> cf.Tensor:
        count.add_(1)
        return table[i]

    compiled = warmed(read, cf.tensor([0, 2]))
    before = count.item()
    with pytest.raises(IndexError, match="index"):
        compiled(cf.tensor([0, 3]))
    assert count.item() == before
    assert compiled(cf.tensor([1, 1])).tolist() == [1.0, 1.0]


def test_state_is_not_kept_alive() -> None:
    held = Holder()
    compiled = warmed(lambda x: x + held.weight, X)
    storage, array = weakref.ref(held.weight.storage), weakref.ref(held.weight.storage.data)
    held.weight = cf.tensor([5.0, 6.0])
    assert storage() is None
    assert array() is None
    agree(compiled, X)


def test_memory_of_others_is_not_written_to() -> None:
    compiled = warmed(lambda x: x.add_(1) + 1, cf.zeros(2))
    array = np.zeros(2, np.float32)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        compiled(cf.from_dlpack(array))


def test_threads_hit_one_function() -> None:
    total = cf.zeros(2)
    compiled = warmed(lambda x: total.add_(x) + 1, cf.zeros(2))
    one = cf.ones(2)

    def count() -> None:
        for _ in range(500):
            compiled(one)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total.tolist() == [2000.0, 2000.0]


def test_clear_forgets_it() -> None:
    compiled = warmed(lambda x: x + 1, X)
    compiled.clear()
    assert compiled(X).tolist() == [2.0, -1.0]
    assert compiled.captures == 1
