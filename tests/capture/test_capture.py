"""What a compiled call leaves behind is what the eager call would have left behind.

Each test runs with the tape interpreted and with native programs. Where a test compares with
eager, `both` builds the same things twice from the same seed and runs one of them compiled.
"""

from __future__ import annotations

import copy
import dataclasses
import gc
import queue
import re
import threading
import types
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow import config
from contraflow.capture import trace
from contraflow.compiler.passes import optimize
from contraflow.testing import assert_close

F = cf.nn.functional


pytestmark = pytest.mark.usefixtures("mode")


@dataclasses.dataclass
class Setting:
    """A function, what it is called with each time, and the tensors it may change."""

    function: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]
    state: list[Any]


def both(build: Callable[[], Setting], calls: int = 3) -> Any:
    """Call compiled and eager side by side; results, arguments, state and gradients must agree."""
    cf.manual_seed(7)
    expected = build()
    cf.manual_seed(7)
    actual = build()
    compiled = cf.compile(actual.function)
    random = cf.get_rng_state()
    for call in range(calls):
        cf.set_rng_state(random)
        given = expected.arguments(call)
        want = expected.function(*given)
        after = cf.get_rng_state()
        cf.set_rng_state(random)
        passed = actual.arguments(call)
        got = compiled(*passed)
        assert cf.get_rng_state() == after, f"call {call}: the random state"
        random = after
        same(got, want, f"call {call}: result")
        same(passed, given, f"call {call}: argument")
        same(actual.state, expected.state, f"call {call}: state")
    return compiled


def same(actual: Any, expected: Any, place: str) -> None:
    """Equal structures of close tensors with equal gradients."""
    if isinstance(expected, cf.Tensor):
        assert isinstance(actual, cf.Tensor), place
        assert_close(actual.detach(), expected.detach())
        same(actual.grad, expected.grad, f"{place}.grad")
    elif isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected), place
        for i, (a, b) in enumerate(zip(actual, expected)):
            same(a, b, f"{place}[{i}]")
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), place
        for key in expected:
            same(actual[key], expected[key], f"{place}[{key!r}]")
    elif isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(actual, expected, place)
    else:
        assert actual == expected, place


def leaf(*shape: int) -> cf.Tensor:
    return cf.randn(*shape, requires_grad=True)


# --- .grad slots ---------------------------------------------------------------------------------


@pytest.mark.parametrize("zero", ["never", "start", "end", "fill at start", "fill at end"])
@pytest.mark.parametrize("before", ["none", "set"])
def test_gradients_accumulate_as_in_eager(zero: str, before: str) -> None:
    def build() -> Setting:
        w, b = leaf(3, 2), leaf(2)
        if before == "set":
            w.grad, b.grad = cf.ones(3, 2), cf.ones(2)

        def step(x: Any) -> Any:
            if zero.endswith("start"):
                clear(zero, w, b)
            loss = ((x @ w + b) * (x @ w)).sum()
            loss.backward()
            if zero.endswith("end"):
                clear(zero, w, b)
            return loss.detach()

        return Setting(step, lambda _: (cf.randn(4, 3),), [w, b])

    def clear(how: str, *leaves: Any) -> None:
        for x in leaves:
            if how.startswith("fill"):
                if x.grad is not None:
                    x.grad.zero_()
            else:
                x.grad = None

    both(build)


def test_two_micro_steps_are_two_programs_not_a_recording_each() -> None:
    w = leaf(3)
    step = cf.compile(lambda x: (x * w).sum().backward())
    for _ in range(4):
        w.grad = None
        step(cf.ones(3))
        step(cf.ones(3))
        assert_close(w.grad, np.full(3, 2.0, np.float32))
    assert step.captures == 2


def test_the_gradient_of_an_argument_goes_to_this_call_s_argument() -> None:
    @cf.compile
    def step(x: Any) -> None:
        (x * x).sum().backward()

    first, second = leaf(3), leaf(3)
    step(first)
    step(second)
    assert step.captures == 1
    assert_close(first.grad, 2 * first.detach())
    assert_close(second.grad, 2 * second.detach())


def test_a_gradient_that_was_looked_at_stays_what_it_was() -> None:
    w = cf.tensor([1.0, 2.0], requires_grad=True)
    optimizer = cf.optim.SGD([w], lr=0.5)

    @cf.compile
    def step(x: cf.Tensor) -> None:
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    seen = []
    for number in range(6):
        step(cf.full((2,), float(number)))
        if number % 3:  # now and then nobody looks
            assert w.grad is w.grad
            seen.append((number, w.grad, w.grad.numpy()))
            w.grad.mul_(2.0)
    copied = copy.deepcopy(w)
    step(cf.full((2,), 7.0))
    assert copied.grad.tolist() == [10.0, 10.0]
    assert w.grad.tolist() == [7.0, 7.0]
    for number, gradient, array in seen:
        assert gradient.tolist() == array.tolist() == [2.0 * number, 2.0 * number]


def test_a_replay_that_fails_leaves_the_gradient_of_the_last() -> None:
    table = cf.tensor([[1.0], [2.0], [3.0]], requires_grad=True)

    @cf.compile
    def step(i: cf.Tensor, x: cf.Tensor) -> None:
        table.grad = None
        (F.embedding(i, table) * x).sum().backward()

    index = cf.tensor([0, 2])
    step(index, cf.tensor(3.0))
    step(index, cf.tensor(5.0))
    with pytest.raises(IndexError):
        step(cf.tensor([0, 9]), cf.tensor(7.0))
    assert table.grad.tolist() == [[5.0], [0.0], [5.0]]


def test_gradients_of_another_layout_are_recorded_again() -> None:
    w = leaf(2, 3)
    step = cf.compile(lambda: (w * cf.ones(2, 3)).sum().backward())
    w.grad = cf.zeros(2, 3)
    step()
    flat = cf.zeros(3, 2)
    w.grad = flat.permute(1, 0)
    step()
    step()
    assert_close(flat, np.full((3, 2), 2.0, np.float32))
    assert step.captures == 2


def test_a_returned_gradient_is_the_gradient() -> None:
    w = leaf(3)

    @cf.compile
    def step() -> Any:
        w.grad = None
        (w * 2).sum().backward()
        return w.grad

    for _ in range(2):
        returned = step()
        returned.mul_(5)
        assert_close(w.grad, np.full(3, 10.0, np.float32))


def test_a_gradient_may_be_set_to_a_tensor_from_outside() -> None:
    w, buffer = leaf(3), cf.ones(3)

    @cf.compile
    def step() -> None:
        w.grad = buffer
        (w * 2).sum().backward()

    step()
    step()
    assert w.grad is buffer
    assert_close(buffer, np.full(3, 5.0, np.float32))


def test_one_tensor_may_be_two_gradients() -> None:
    a, b = leaf(3), leaf(3)

    @cf.compile
    def step(x: Any) -> None:
        a.grad = b.grad = x * 2

    step(cf.ones(3))
    assert a.grad.storage is b.grad.storage


def test_a_retained_gradient_is_returned() -> None:
    def build() -> Setting:
        w = leaf(3)

        def step(x: Any) -> Any:
            h = w * x
            h.retain_grad()
            h.tanh().sum().backward()
            return h.grad

        return Setting(step, lambda _: (cf.randn(3),), [w])

    both(build)


def test_gradients_for_some_inputs_only() -> None:
    def build() -> Setting:
        a, b = leaf(3), leaf(3)

        def step(x: Any) -> Any:
            (a * b * x).sum().backward(inputs=[a])
            return cf.autograd.grad((a * b * b).sum(), b)

        return Setting(step, lambda _: (cf.randn(3),), [a, b])

    both(build)


# --- writes --------------------------------------------------------------------------------------


def test_writes_to_arguments_state_and_their_views() -> None:
    def build() -> Setting:
        table, flags = cf.randn(4, 3), cf.zeros(3, dtype=cf.int64)
        row = table[1]

        def step(x: Any, y: Any) -> None:
            x.add_(1)
            x[:, 0] = y
            table[2:].mul_(0.5)
            row.copy_(x[0] * 2)
            table.permute(1, 0)[0].sub_(1)
            flags.add_(1)
            y.fill_(3)

        return Setting(step, lambda _: (cf.randn(2, 3), cf.randn(2)), [table, row, flags])

    both(build)


def test_a_write_raises_versions_as_often_as_a_replay_writes() -> None:
    buffer = cf.zeros(3)

    @cf.compile
    def step() -> None:
        buffer.add_(1)

    versions = []
    for _ in range(3):
        step()
        versions.append(buffer._version)
    assert versions == [1, 2, 3]


def test_setting_a_column_carries_gradients() -> None:
    def build() -> Setting:
        w = leaf(2)

        def step(x: Any) -> Any:
            y = x * 1
            y[:, 0] = w.tanh()
            y[1].add_(w[0])
            loss = (y * y).sum()
            loss.backward()
            return y.detach(), loss.detach()

        return Setting(step, lambda _: (cf.randn(2, 3),), [w])

    both(build)


def test_setting_a_column_of_an_argument_leaves_no_graph_behind() -> None:
    w = leaf(2)

    @cf.compile
    def step(x: Any) -> None:
        x[:, 0] = w * 2
        (x * x).sum().backward()

    for _ in range(2):
        w.grad, x = None, cf.ones(2, 3)
        step(x)
        assert not x.requires_grad
        assert x.grad_fn is None
        assert_close(x[:, 0], 2 * w.detach())
        assert_close(w.grad, 8 * w.detach())


def test_writing_a_graph_into_state_is_refused() -> None:
    w, buffer = leaf(3), cf.zeros(3)

    @cf.compile
    def step() -> None:
        buffer.copy_(w * 2)

    with pytest.raises(
        cf.CaptureError, match=r"float32\[3\] was given a value that requires grad, without"
    ):
        step()
    assert not buffer.requires_grad
    assert buffer.grad_fn is None
    assert buffer._version == 0


def test_swapping_two_buffers() -> None:
    def build() -> Setting:
        a, b = cf.randn(100), cf.randn(100)

        def step() -> None:
            old = a.clone()
            a.copy_(b)
            b.copy_(old)

        return Setting(step, lambda _: (), [a, b])

    both(build)


def test_overlapping_parts_of_one_tensor() -> None:
    def build() -> Setting:
        a = cf.arange(40).float()

        def step() -> Any:
            a[1:] = a[:-1]
            b = a * 2
            a[:20] = b[20:]
            a.reshape(5, 8)[:, 0] = a.reshape(8, 5)[:5, 1]
            return b

        return Setting(step, lambda _: (), [a])

    both(build)


def test_state_overwritten_while_an_older_value_is_still_read() -> None:
    def build() -> Setting:
        s, w = cf.randn(4, 4), cf.randn(4, 4)

        def step(x: Any) -> Any:
            s[0] = x[0]
            z = x.cumsum(0) * 2
            y = s @ w
            s.copy_(z)
            return y

        return Setting(step, lambda _: (cf.randn(4, 4),), [s, w])

    both(build)


def test_writing_to_a_constant_made_inside_is_no_effect() -> None:
    @cf.compile
    def step(x: Any) -> Any:
        total = cf.tensor([1.0, 2.0])
        total.add_(x)
        return total

    for _ in range(3):
        assert_close(step(cf.ones(2)), np.array([2.0, 3.0], np.float32))
    assert step.captures == 1


def test_writing_a_graph_into_a_constant_made_inside(mode: str) -> None:
    w = leaf(3)

    @cf.compile
    def step() -> Any:
        mixed = cf.tensor([0.5, 1.0, 2.0])
        mixed[1:].copy_(w[1:] * 3)
        (w * w).sum().backward()
        return mixed

    for n in range(1, 3):
        mixed = step()
        assert_close(mixed.detach(), np.array([0.5, *w.detach().numpy()[1:] * 3], np.float32))
        assert_close(w.grad, 2 * n * w.detach())


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(enabled: bool) -> None:
    seen = []

    @cf.compile
    def step(x: Any) -> Any:
        seen.append(gc.isenabled())
        return x + 1 if x.numel() > 1 else x.item()

    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        step(cf.ones(2))
        assert gc.isenabled() is enabled
        with pytest.raises(cf.CaptureError):
            step(cf.ones(1))
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [False], "what a refused recording appends is taken back"


# --- aliasing ------------------------------------------------------------------------------------


def test_one_tensor_passed_twice_is_another_program() -> None:
    @cf.compile
    def step(x: Any, y: Any) -> Any:
        x.add_(1)
        return x * y

    a, b = cf.ones(3), cf.ones(3)
    assert_close(step(a, b), np.full(3, 2.0, np.float32))
    assert_close(step(a, a), np.full(3, 9.0, np.float32))
    assert step.captures == 2


def test_views_of_one_storage_as_arguments() -> None:
    def build() -> Setting:
        def step(x: Any, y: Any) -> Any:
            x.mul_(2)
            y.add_(1)
            return x + y

        def arguments(_: int) -> Any:
            base = cf.randn(6)
            return base[:4], base[2:]

        return Setting(step, arguments, [])

    compiled = both(build)
    assert compiled.captures == 1
    compiled(cf.randn(4), cf.randn(4))
    assert compiled.captures == 2


def test_an_argument_that_is_captured_state_is_another_program() -> None:
    w = cf.ones(3)

    @cf.compile
    def step(x: Any) -> Any:
        w.add_(1)
        return x * 10 + w

    assert_close(step(w), np.full(3, 22.0, np.float32))  # recorded as one tensor
    assert_close(step(cf.zeros(3)), np.full(3, 3.0, np.float32))
    assert_close(step(w), np.full(3, 44.0, np.float32))
    assert_close(step(cf.ones(3)), np.full(3, 15.0, np.float32))


def test_a_parameter_of_a_module_as_argument() -> None:
    layer = cf.nn.Linear(3, 3)
    step = cf.compile(cf.no_grad()(lambda x: layer(x)))
    weight = layer.weight.detach()
    other = cf.randn(3, 3)
    for x in (weight, other, weight, other):
        with cf.no_grad():
            assert_close(step(x), layer(x))


def test_results_that_alias_arguments_state_and_each_other() -> None:
    state = cf.zeros(4)

    @cf.compile
    def step(x: Any) -> Any:
        h = x * 2
        return x, x[0], state, state[1:], state.detach(), h, h[1], h.reshape(-1)

    for _ in range(2):
        x = cf.ones(2, 3)
        same_x, row, same_state, part, detached, h, h_row, h_flat = step(x)
        assert same_x is x
        assert row.storage is x.storage
        assert same_state is state
        assert part.storage is state.storage
        assert part.shape == (3,)
        assert detached.storage is state.storage
        assert h_row.storage is h.storage
        assert h_flat.storage is h.storage
        h_row.fill_(7)
        assert_close(h, np.array([[2, 2, 2], [7, 7, 7]], np.float32))
    assert step.captures == 1


def test_returned_tensors_belong_to_the_caller() -> None:
    @cf.compile
    def step(x: Any) -> Any:
        return x + 1, cf.zeros(2), cf.tensor([1.0, 2.0]), cf.full((), 3.0), x.sum()

    first = step(cf.zeros(3))
    kept = [t.clone() for t in first]
    for t in first:
        t.add_(100)
    second = step(cf.zeros(3))
    assert step.captures == 1
    for t, k in zip(second, kept):
        assert_close(t, k)


# --- escapes -------------------------------------------------------------------------------------


def test_a_module_that_the_function_makes_is_recorded_once() -> None:
    class Scaled(cf.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.inner = 2.0, cf.nn.Linear(3, 2)

        def forward(self, x: cf.Tensor) -> cf.Tensor:
            return self.inner(x) * self.scale

    def build() -> Setting:
        return Setting(lambda x: Scaled()(x).detach(), lambda _: (cf.ones(4, 3),), [])

    assert both(build).captures == 1


def test_state_created_lazily_works() -> None:
    class Counter:
        total: Any = None

        def __call__(self, x: Any) -> Any:
            if self.total is None:
                self.total = cf.zeros(3)
            self.total.add_(x)
            return self.total * 1

    counter, compiled = Counter(), None
    compiled = cf.compile(counter.__call__)
    for call in range(1, 4):
        assert_close(compiled(cf.ones(3)), np.full(3, float(call), np.float32))
    assert_close(counter.total, np.full(3, 3.0, np.float32))
    assert compiled.captures == 2


def test_a_detached_tensor_that_is_kept_has_its_value() -> None:
    kept: list[Any] = []
    step = cf.compile(lambda x: kept.append((x * 2).detach()))
    step(cf.ones(3))
    assert_close(kept[0], np.full(3, 2.0, np.float32))


def test_the_second_escape_from_a_line_is_an_error_that_names_it() -> None:
    kept: queue.SimpleQueue[Any] = queue.SimpleQueue()  # keeps its state to itself

    def step(x: Any) -> Any:
        kept.put(x * 2)
        return x + 1

    line = step.__code__.co_firstlineno + 1
    compiled = cf.compile(step)
    compiled(cf.ones(3))
    with pytest.raises(cf.CaptureError) as raised:
        compiled(cf.ones(3))
    assert str(raised.value) == (
        f"compile(step): float32[3] made at {Path(__file__).name}:{line} outlives the call for "
        f"the second time without being returned. Return it, or do not keep it."
    )


def test_what_is_appended_to_an_argument_escapes() -> None:
    outs: list[Any] = []

    @cf.compile
    def step(x: Any, where: Any) -> None:
        where.append(x * 2)

    step(cf.ones(3), outs)
    assert_close(outs[0], np.full(3, 2.0, np.float32))


def test_cycles_do_not_escape() -> None:
    class Cell:
        pass

    @cf.compile
    def step(x: Any) -> Any:
        cell: Any = Cell()
        cell.own, cell.value = cell, x * 2
        return cell.value + 1

    gc.disable()
    try:
        step(cf.ones(3))
        step(cf.ones(3))
    finally:
        gc.enable()
    assert step.captures == 1


# --- guards --------------------------------------------------------------------------------------


def test_replacing_data_is_noticed() -> None:
    layer = cf.nn.Linear(2, 2)
    step = cf.compile(cf.no_grad()(lambda x: layer(x)))
    x = cf.randn(3, 2)
    old = layer.weight.data
    for new in (old, cf.randn(2, 2), old):
        layer.weight.data = new
        with cf.no_grad():
            assert_close(step(x), layer(x))


def test_a_tensor_read_through_detach_is_guarded() -> None:
    w = cf.randn(3)
    step = cf.compile(lambda x: x * w.detach())
    step(cf.ones(3))
    old = w.data
    w.data = cf.zeros(3)
    assert_close(step(cf.ones(3)), np.zeros(3, np.float32))
    assert old is not None


def test_a_new_parameter_is_noticed() -> None:
    layer = cf.nn.Linear(2, 2)
    step = cf.compile(cf.no_grad()(lambda x: layer(x)))
    step(cf.ones(1, 2))
    layer.weight = cf.nn.Parameter(cf.zeros(2, 2))
    with cf.no_grad():
        assert_close(step(cf.ones(1, 2)), layer(cf.ones(1, 2)))
    assert step.captures == 2


def test_requires_grad_is_noticed() -> None:
    a, b = leaf(3), leaf(3)
    step = cf.compile(lambda: (a * b).sum().backward())
    step()
    b.requires_grad_(False)
    a.grad = b.grad = None
    step()
    assert b.grad is None
    assert_close(a.grad, b.detach())


@pytest.mark.parametrize("cycle", [False, True])
def test_a_leaf_made_of_captured_state_is_recorded_once(cycle: bool) -> None:
    """Its slot is gone with it, so that nothing of a later call depends on it."""
    w = cf.tensor([1.0, 2.0])

    @cf.compile
    def step(x: cf.Tensor) -> tuple[cf.Tensor, cf.Tensor]:
        leaf = w.detach().requires_grad_()
        other = x.detach().requires_grad_()
        if cycle:
            leaf.register_hook(lambda g: g + 0.0 * leaf.detach())
        assert leaf.grad is None
        (leaf * other * leaf).sum().backward()
        return leaf.grad, other.grad

    for k in range(5):
        x = cf.tensor([1.0 + k, 2.0])
        of_w, of_x = step(x)
        assert of_w.tolist() == [2.0 + 2.0 * k, 8.0]
        assert of_x.tolist() == [1.0, 4.0]
        gc.collect()
        with cf.no_grad():
            w.add_(0.0)
    assert step.captures == 1
    assert not w.requires_grad
    assert w.grad is None


def test_a_leaf_made_of_captured_state_is_returned_as_one() -> None:
    w = cf.tensor([1.0, 2.0])

    @cf.compile
    def f(x: cf.Tensor) -> tuple[cf.Tensor, cf.Tensor]:
        return w.detach().requires_grad_(), x * 1.0

    for _ in range(3):
        leaf, _ = f(cf.ones(2))
        assert leaf.requires_grad
        assert leaf.is_leaf
        assert leaf.storage is w.storage
        (leaf * 3.0).sum().backward()
        assert leaf.grad.tolist() == [3.0, 3.0]
    assert not w.requires_grad
    assert f.captures == 1


def test_requires_grad_inside_a_step() -> None:
    def build() -> Setting:
        w, frozen = cf.randn(3), leaf(3)

        def step(x: Any) -> Any:
            w.requires_grad_()
            frozen.requires_grad_(False)
            x.requires_grad_()
            (w * x * frozen).sum().backward()
            return w.requires_grad, x.grad

        return Setting(step, lambda _: (cf.randn(3),), [w, frozen])

    compiled = both(build)
    assert compiled.captures == 2, "w required no grad at first"
    arguments = [cf.randn(3) for _ in range(2)]
    step = cf.compile(lambda x: x.requires_grad_() * 2)
    for x in arguments:
        out = step(x)
        assert x.requires_grad
        out.sum().backward()
        assert_close(x.grad, np.full(3, 2.0, np.float32))
    assert step.captures == 1


def test_a_failed_capture_puts_requires_grad_back() -> None:
    w = cf.ones(3)

    @cf.compile
    def step() -> None:
        w.requires_grad_()
        raise LookupError

    with pytest.raises(LookupError):
        step()
    assert not w.requires_grad


def test_hooks_added_and_removed_are_noticed() -> None:
    w = leaf(3)

    @cf.compile
    def step() -> None:
        w.grad = None
        (w * 1).sum().backward()

    def check(expected: float, captures: int) -> None:
        step()
        assert_close(w.grad, np.full(3, expected, np.float32))
        assert step.captures == captures

    check(1.0, 1)
    first = w.register_hook(lambda g: g * 2)
    check(2.0, 2)
    check(2.0, 2)
    first.remove()
    second = w.register_hook(lambda g: g * 3)
    check(3.0, 3)
    second.remove()
    third = w.register_post_accumulate_grad_hook(lambda t: t.grad.mul_(5))
    check(5.0, 4)
    third.remove()
    check(1.0, 4)  # as before the first hook, so the first program fits again


def test_module_hooks_and_modes_are_noticed() -> None:
    model = cf.nn.Sequential(cf.nn.Linear(3, 3), cf.nn.Dropout(0.5))
    step = cf.compile(cf.no_grad()(lambda x: model(x)))
    x = cf.ones(2, 3)

    def check(captures: int) -> None:
        state = cf.get_rng_state()
        got = step(x)
        cf.set_rng_state(state)
        with cf.no_grad():
            assert_close(got, model(x))
        assert step.captures == captures

    check(1)
    model.eval()
    check(2)
    check(2)
    handle = model.register_forward_hook(lambda m, args, out: out * 2)
    check(3)
    handle.remove()
    check(4)
    model.train()
    check(5)


@pytest.mark.filterwarnings("ignore:compile:UserWarning")
def test_globals_and_closure_variables_are_noticed() -> None:
    factor = 2.0
    values = []

    @cf.compile
    def step(x: Any) -> Any:
        return sum(factor * t for t in [x, x])  # named by the code of the generator within

    for _ in range(20):
        factor = factor + 1.5
        values.append(step(cf.ones(1)).item() / 2)
    assert values == [2 + 1.5 * (i + 1) for i in range(20)]


@pytest.mark.filterwarnings("ignore:compile:UserWarning")
def test_the_address_of_a_dead_object_is_not_taken_for_another() -> None:
    class Scale:
        def __init__(self, value: float) -> None:
            self.value = value

    scale = Scale(0.0)
    step = cf.compile(lambda x: x * scale.value)
    for i in range(50):
        del scale  # the next one may get its address
        scale = Scale(float(i))
        assert step(cf.ones(1)).item() == i


def test_other_arguments_are_part_of_the_key() -> None:
    @cf.compile
    def step(x: Any, flag: Any, *, name: str = "a") -> Any:
        return x / flag if name == "a" else x * 10

    one = cf.ones(1)
    assert step(one, 0.0).item() == np.inf
    assert step(one, -0.0).item() == -np.inf
    assert step(one, 1).item() == 1
    assert step(one, 1.0).item() == 1
    assert step(one, True).item() == 1
    assert step(one, 1, name="b").item() == 10
    assert step.captures == 4, "for a float, an int, True and another name"
    assert np.isnan(step(one, float("nan")).item())
    assert step.captures == 4


def test_shapes_dtypes_strides_and_modes_are_part_of_the_key() -> None:
    step = cf.compile(lambda x: (x * 2).detach())
    step(cf.ones(3))
    step(cf.ones(4))
    step(cf.ones(3, dtype=cf.float64))
    step(cf.ones(3, 2))
    step(cf.ones(2, 3).permute(1, 0))
    with cf.no_grad():
        step(cf.ones(3))
    step(leaf(3))
    assert step.captures == 7
    step(cf.ones(3))
    assert step.captures == 7


def test_the_cache_is_bounded() -> None:
    @cf.compile(cache_size=3)
    def step(x: Any) -> Any:
        return x + 1

    for n in range(1, 6):
        step(cf.ones(n))
    assert len(step.programs) == 3
    step(cf.ones(5))
    step(cf.ones(3))
    assert step.captures == 5
    step(cf.ones(1))
    assert step.captures == 6


def test_the_eighth_capture_warns_once_and_says_what_changes() -> None:
    @cf.compile
    def step(x: Any) -> Any:
        return x + 1

    for n in range(1, 8):
        step(cf.ones(n))
    with pytest.warns(UserWarning, match="recorded 8 times") as caught:
        step(cf.ones(8))
    assert [str(w.message) for w in caught] == [
        "compile(step): recorded 8 times, the last time because the shape of x was (7,) and is "
        "(8,). Each change records again."
    ]
    assert caught[0].filename == __file__
    step(cf.ones(9))


def test_clear_forgets_everything() -> None:
    step = cf.compile(lambda x: x + 1)
    step(cf.ones(1))
    step.clear()
    assert step.captures == 0
    assert step.programs == []
    with pytest.raises(cf.CaptureError, match="no program is kept"):
        _ = step.tape
    step(cf.ones(1))
    assert step.captures == 1


# --- optimizers ----------------------------------------------------------------------------------


def test_a_learning_rate_changes_without_recording_again() -> None:
    def build() -> Setting:
        w = leaf(3)
        optimizer = cf.optim.Adam([w], lr=0.1)
        scheduler = cf.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        moments = [optimizer.state[w]["exp_avg"], optimizer.state[w]["exp_avg_sq"]]

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (w * x).tanh().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        def arguments(call: int) -> Any:
            if call == 3:
                optimizer.param_groups[0]["lr"] = 0.3
            elif call:
                scheduler.step()
            return (cf.randn(3),)

        return Setting(step, arguments, [w, *moments])

    assert both(build, 6).captures == 1


def test_host_scalars_are_set_by_every_replay() -> None:
    w = leaf(2)
    optimizer = cf.optim.Adam([w])

    @cf.compile
    def step() -> None:
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()

    for call in range(1, 4):
        step()
        assert optimizer.state[w]["step"].value == call
        assert isinstance(optimizer.state[w]["step"].value, int)


# --- random numbers ------------------------------------------------------------------------------


def test_random_numbers_advance_as_in_eager() -> None:
    def build() -> Setting:
        w = leaf(4, 3)

        def step(x: Any) -> Any:
            h = F.dropout(x * w, 0.4)
            noise = cf.randn(4, 3, dtype=cf.float64)
            h.sum().backward()
            return h.detach(), noise, cf.rand(5), F.dropout(x, 0.5)

        return Setting(step, lambda _: (cf.randn(4, 3),), [w])

    assert both(build, 4).captures <= 2


@pytest.mark.parametrize("seed", [0, 5])
def test_seeding_inside_repeats_and_leaves_the_state_as_eager_does(seed: int) -> None:
    def build() -> Setting:
        def step() -> Any:
            before = cf.rand(3)
            cf.manual_seed(seed)
            return before, cf.rand(2), cf.rand(2)

        return Setting(step, lambda _: (), [])

    both(build)
    cf.manual_seed(0)
    both(build)


def test_seeding_first_and_drawing_later() -> None:
    def build() -> Setting:
        def step() -> Any:
            cf.manual_seed(3)
            return cf.rand(2)

        return Setting(step, lambda _: (), [])

    assert both(build).captures == 1


def test_seeding_outside_is_seen() -> None:
    step = cf.compile(lambda: cf.rand(3))
    cf.manual_seed(4)
    first, second = step(), step()
    cf.manual_seed(4)
    assert step().tolist() == first.tolist()
    assert step().tolist() == second.tolist()
    cf.manual_seed(4)
    assert cf.rand(3).tolist() == first.tolist()
    assert step.captures == 1


def test_states_saved_and_restored_inside() -> None:
    def build() -> Setting:
        def step() -> Any:
            saved = cf.get_rng_state()
            first = cf.rand(3)
            cf.set_rng_state(saved)
            return first, cf.rand(3), cf.rand(3)

        return Setting(step, lambda _: (), [])

    assert both(build).captures == 1


def test_generators_of_one_s_own() -> None:
    def build() -> Setting:
        kept = cf.Generator(3)

        def step() -> Any:
            inner = cf.Generator(8)
            return cf.rand(3, generator=kept), cf.rand(3, generator=inner)

        return Setting(step, lambda _: (), [])

    both(build)


# --- checkpoints, hooks, graphs ------------------------------------------------------------------


def block(x: Any) -> Any:
    return F.dropout((x * 1.5).tanh(), 0.3).exp() * x


def test_checkpoints_inside() -> None:
    def build() -> Setting:
        w = leaf(4, 3)

        def step(x: Any) -> Any:
            h = cf.checkpoint(block, x * w)
            h = cf.checkpoint(lambda y: cf.checkpoint(block, y.sin()) + y, h)
            h.sum().backward()
            return h.detach()

        return Setting(step, lambda _: (cf.randn(4, 3),), [w])

    compiled = both(build)
    regions = {line.region for line in compiled.tape.lines}
    assert len(regions) >= 3, "the forward pass and two recomputations"


def test_a_recomputation_is_not_merged_away() -> None:
    w = leaf(4)

    def run(checkpointed: bool) -> int:
        def f(x: Any) -> Any:
            return x.tanh().exp()

        @cf.compile
        def step() -> Any:
            h = cf.checkpoint(f, w * 2) if checkpointed else f(w * 2)
            h.sum().backward()
            return h.detach()

        step()
        return sum(line.op.name == "tanh" for line in optimize(step.tape).lines)

    assert run(False) == 1
    assert run(True) == 2


def test_regions_begin_after_their_first_cotangent() -> None:
    w = leaf(4, 4)

    @cf.compile
    def step(x: Any) -> None:
        h = cf.checkpoint(lambda y: (y @ w).tanh(), x)
        h = cf.checkpoint(lambda y: (y @ w).tanh(), h)
        (h * h).sum().backward()

    step(cf.randn(4, 4))
    regions = [line.region for line in step.tape.lines if line.region]
    assert regions == sorted(regions), "the last block is recomputed first, and whole"


def test_compiled_inside_a_checkpoint() -> None:
    w = leaf(3)
    doubled = cf.compile(lambda x: x.detach() * 2 + F.dropout(x.detach(), 0.5))

    def f(x: Any) -> Any:
        return (x * doubled(x)).tanh() * x

    cf.manual_seed(1)
    f(w * 1).sum().backward()
    want, w.grad = w.grad, None
    for _ in range(2):
        cf.manual_seed(1)
        cf.checkpoint(f, w * 1).sum().backward()
        assert_close(w.grad, want)
        w.grad = None


def test_compiled_functions_nest() -> None:
    inner = cf.compile(lambda x: (x * 2, x.sum()))

    @cf.compile
    def outer(x: Any) -> Any:
        y, total = inner(x)
        return y + total, inner(y)[1]

    for _ in range(2):
        a, b = outer(cf.ones(3))
        assert_close(a, np.full(3, 5.0, np.float32))
        assert b.item() == 6
    assert inner.captures == 0


def test_hooks_inside_the_step() -> None:
    def build() -> Setting:
        w = leaf(3)
        seen = cf.zeros(3)

        def note(g: Any) -> Any:
            seen.copy_(g)
            return g * 2

        def step(x: Any) -> None:
            h = w * x
            h.register_hook(note)
            h.register_hook(lambda g: g + 1)
            h.tanh().sum().backward()

        return Setting(step, lambda _: (cf.randn(3),), [w, seen])

    both(build)


def test_retain_graph_and_several_backwards() -> None:
    def build() -> Setting:
        w = leaf(3)

        def step(x: Any) -> None:
            h = (w * x).exp()
            h.sum().backward(retain_graph=True)
            (h * 2).sum().backward(retain_graph=True)
            h.backward(x)

        return Setting(step, lambda _: (cf.randn(3),), [w])

    both(build)


def test_a_gradient_penalty() -> None:
    def build() -> Setting:
        w, v = leaf(3, 3), leaf(3)

        def step(x: Any) -> Any:
            w.grad = v.grad = None
            out = ((x @ w).tanh() * v).sum()
            (g,) = cf.autograd.grad(out, w, create_graph=True)
            penalty = (g * g).sum()
            (out + 0.1 * penalty).backward()
            return penalty.detach()

        return Setting(step, lambda _: (cf.randn(4, 3),), [w, v])

    assert both(build).captures == 1


def test_backward_into_a_node_from_outside_is_refused() -> None:
    w = leaf(3)
    outside = w.exp()

    @cf.compile
    def step(x: Any) -> None:
        (outside * x).sum().backward()

    with pytest.raises(cf.CaptureError) as raised:
        step(cf.ones(3))
    line = step.eager.__code__.co_firstlineno + 2
    text = str(raised.value)
    assert text.startswith(
        f"compile(step): `(outside * x).sum().backward()` at {Path(__file__).name}:{line}: "
        f"backward reached exp, which was applied at {Path(__file__).name}:"
    )
    assert text.endswith("Apply it in the compiled function too, or detach its result.")
    outside.sum().backward()  # the graph is as it was
    assert_close(w.grad, w.detach().exp())


# --- inputs and outputs --------------------------------------------------------------------------


@dataclasses.dataclass
class Batch:
    x: Any
    extra: dict[str, Any]
    label: str = "batch"


Pair = namedtuple("Pair", "first second")


def test_structures() -> None:
    def build() -> Setting:
        def step(batch: Any, pair: Any, *rest: Any, scale: Any = None, **named: Any) -> Any:
            y = batch.x * pair.first + batch.extra["y"]
            if scale is not None:
                y = y * scale
            for t in rest:
                y = y + t
            out = OrderedDict(b=y, a=[y * 2, None, "text", 3])
            return out, Pair(y, (batch.label, batch.x)), Batch(y, {"z": y[0]})

        def arguments(_: int) -> Any:
            batch = Batch(cf.randn(3), {"y": cf.randn(3)})
            return batch, Pair(cf.randn(3), None), cf.randn(3), cf.randn(1)

        return Setting(step, arguments, [])

    def compare(got: Any, want: Any) -> None:
        (out, pair, batch), (out2, pair2, batch2) = got, want
        assert type(out) is OrderedDict
        assert type(pair) is Pair
        assert type(batch) is Batch
        same(out, out2, "dict")
        same(tuple(pair), tuple(pair2), "pair")
        same(batch.x, batch2.x, "dataclass")
        assert batch.x.storage is out["b"].storage

    setting = build()
    compiled = cf.compile(setting.function)
    for _ in range(2):
        given = setting.arguments(0)
        compare(compiled(*given), setting.function(*given))
    compare(compiled(*given, scale=cf.ones(1)), setting.function(*given, scale=cf.ones(1)))
    assert compiled.captures == 2


def test_numpy_arrays_as_arguments() -> None:
    step = cf.compile(lambda x, y: x * y)
    for value in (1.0, 2.0):
        out = step(cf.ones(3), np.full(3, value, np.float32))
        assert_close(out, np.full(3, value, np.float32))
    assert step.captures == 1
    assert step(cf.ones(2), np.float32(3).reshape(())).shape == (2,)
    assert step(cf.ones(()), np.ones((3, 2), np.float32).T).shape == (2, 3)
    with pytest.raises(TypeError, match="complex64 is not supported"):
        step(cf.ones(2), np.ones(2, np.complex64))


def test_a_generator_is_not_returned() -> None:
    f = cf.compile(lambda x: (x * i for i in range(3)), name="f")
    with pytest.raises(cf.CaptureError) as raised:
        f(cf.ones(1))
    assert str(raised.value) == (
        "compile(f): a generator that the function makes is returned, and every replay would give "
        "the same one. Make it outside."
    )


@pytest.mark.parametrize("size", [0, -1, 2.5])
def test_a_cache_of_no_programs_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match=r"cache_size is .*; it must be a number of programs"):
        cf.compile(lambda x: x, cache_size=size)


def test_unhashable_arguments_are_refused() -> None:
    with pytest.raises(cf.CaptureError, match="an argument or result of type set is neither"):
        cf.compile(lambda x: x)({1, 2})


def test_methods() -> None:
    class Model:
        def __init__(self, value: float) -> None:
            self.w = cf.full((3,), value)

        @cf.compile
        def scale(self, x: Any) -> Any:
            """Multiply."""
            return x * self.w

    two, three = Model(2.0), Model(3.0)
    for _ in range(2):
        assert_close(two.scale(cf.ones(3)), np.full(3, 2.0, np.float32))
        assert_close(three.scale(cf.ones(3)), np.full(3, 3.0, np.float32))
    assert Model.scale.captures == 2
    assert Model.scale.__doc__ == "Multiply."


def test_a_tensor_that_never_had_a_value_is_refused() -> None:
    queued: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @cf.compile
    def failing(x: Any) -> Any:
        queued.put(x * 2)
        raise KeyError

    with pytest.raises(KeyError):
        failing(cf.ones(3))
    kept = [queued.get()]
    with pytest.raises(cf.CaptureError, match=r"argument float32\[3\] was recorded by another"):
        cf.compile(lambda x: x)(kept[0])
    with pytest.raises(cf.CaptureError, match="was recorded by another compiled call and never"):
        cf.compile(lambda: kept[0] + 1)()


# --- what goes wrong -----------------------------------------------------------------------------


def snapshot(model: Any, optimizer: Any, buffer: Any) -> Any:
    return (
        [p.detach().tolist() for p in model.parameters()],
        [None if p.grad is None else p.grad.tolist() for p in model.parameters()],
        [p.grad for p in model.parameters()],
        [p._version for p in model.parameters()],
        [p.requires_grad for p in model.parameters()],
        buffer.tolist(), buffer._version, buffer.requires_grad, buffer.grad_fn,
        cf.get_rng_state(),
        [optimizer.state[p]["step"].value for p in model.parameters()],
        optimizer.param_groups[0]["lr"],
        model.training,
    )  # fmt: skip


REFUSALS = {
    "raise": None,
    "item": ("item() needs the value of float32[]", "loss.item()"),
    "if": ("bool(x), or `if x`, needs the value of bool[]", "if loss < 1:"),
    "float": ("float(x) needs the value of float32[]", "float(loss)"),
    "int": ("int(x) needs the value of float32[]", "int(loss)"),
    "index": ("an index or a size needs the value of int64[]", "range(loss.long())"),
    "numpy": ("numpy() needs the value of float32[2, 2]", "buffer.numpy()"),
    "tolist": ("tolist() needs the value of float32[]", "loss.detach().tolist()"),
}


@pytest.mark.parametrize("how", REFUSALS)
@pytest.mark.parametrize("graded", [False, True])
def test_a_failed_capture_changes_nothing(how: str, graded: bool) -> None:
    model = cf.nn.Sequential(cf.nn.Linear(2, 2), cf.nn.Dropout(0.5))
    optimizer = cf.optim.Adam(model.parameters(), lr=0.1)
    buffer = cf.zeros(2, 2)
    if graded:
        model(cf.ones(1, 2)).sum().backward()

    @cf.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        cf.manual_seed(99)
        buffer.add_(model(x).detach())
        loss = model(x).sum()
        loss.backward()
        print("a recorded tensor can be printed:", loss)
        optimizer.param_groups[0]["lr"] = 0.5
        optimizer.step()
        if how == "item":
            loss.item()
        while how == "if":
            if loss < 1:
                pass
        if how == "float":
            float(loss)
        if how == "int":
            int(loss)
        if how == "index":
            range(loss.long())
        if how == "numpy":
            buffer.numpy()
        if how == "tolist":
            loss.detach().tolist()
        if how == "raise":
            raise LookupError("in the middle")

    before = snapshot(model, optimizer, buffer)
    expected = LookupError if how == "raise" else cf.CaptureError
    with pytest.raises(expected) as raised:
        step(cf.ones(2, 2))
    after = snapshot(model, optimizer, buffer)
    for a, b in zip(after[:-1], before[:-1]):
        assert a is b or a == b or all(x is y for x, y in zip(a, b))
    if how != "raise":
        problem, statement = REFUSALS[how]  # type: ignore[misc]
        source = Path(__file__).read_text().splitlines()
        line = next(i for i, row in enumerate(source, 1) if row.strip() == statement)
        assert str(raised.value) == (
            f"compile(step): `{statement}` at {Path(__file__).name}:{line}: {problem}, but nothing "
            f"is computed while a function is being recorded. Use contraflow.where, or move this "
            f"out of the compiled function."
        )
    assert step.captures == 0


def test_an_interrupt_changes_nothing() -> None:
    w = leaf(3)
    w.grad = cf.ones(3)
    kept = w.grad

    @cf.compile
    def step() -> None:
        w.grad = None
        cf.rand(5)
        (w * 2).sum().backward()
        raise KeyboardInterrupt

    before = cf.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        step()
    assert w.grad is kept
    assert cf.get_rng_state() == before
    assert not cf.is_compiling()
    assert step.captures == 0


def test_what_python_does_it_does_once(capsys: Any) -> None:
    said: list[str] = []

    @cf.compile
    def step(x: Any) -> Any:
        print("recording" if cf.is_compiling() else "running")
        said.append("said")
        return x * 2

    for _ in range(3):
        step(cf.ones(1))
    assert capsys.readouterr().out == "recording\n"
    step.eager(cf.ones(1))
    assert capsys.readouterr().out == "running\n"
    assert said == ["said"] * 4, "state is written by every call"


def test_switching_compilation_off() -> None:
    runs: list[int] = []

    def step(x: Any) -> Any:
        runs.append(1)
        return x * 2

    disabled = cf.compile(enabled=False)(step)
    disabled(cf.ones(1))
    disabled(cf.ones(1))
    enabled = cf.compile(step)
    before = config.compile_mode
    config.compile_mode = "off"
    try:
        enabled(cf.ones(1))
        enabled(cf.ones(1))
    finally:
        config.compile_mode = before
    with cf.autograd.detect_anomaly():
        enabled(cf.ones(1))
        enabled(cf.ones(1))
    assert len(runs) == 6
    assert disabled.captures == enabled.captures == 0


def test_assigning_through_a_mask() -> None:
    def build() -> Setting:
        w = leaf(4)

        def step(x: Any) -> Any:
            y = x * w
            y[x > 0] = 0.5
            y.square().sum().backward()
            return y.detach()

        return Setting(step, lambda _: (cf.randn(4),), [w])

    both(build)


def test_custom_functions_inside_a_step() -> None:
    class Doubled(cf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.round()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 2 * x

    def build() -> Setting:
        w = leaf(4)

        def step(x: Any) -> Any:
            y = Doubled.apply(x * w)
            (y * x).sum().backward()
            return y.detach()

        return Setting(step, lambda _: (cf.randn(4),), [w])

    both(build)


def test_ops_whose_shape_depends_on_values_are_refused() -> None:
    step = cf.compile(lambda x: x.nonzero())
    with pytest.raises(cf.CaptureError, match="nonzero has a result whose shape depends on values"):
        step(cf.ones(3))


def test_values_of_constants_may_be_read_while_recording() -> None:
    @cf.compile
    def step(x: Any) -> Any:
        table = cf.tensor([1.0, 2.0])
        return x * table.numpy().sum() + table[0].item()

    assert step(cf.ones(1)).item() == 4


def test_an_index_out_of_range_names_op_and_line(mode: str) -> None:
    table, other, state = cf.randn(4, 3), cf.randn(5, 2), cf.zeros(3)

    def step(i: Any, j: Any) -> Any:
        state.add_(1)
        rows = F.embedding(i, table)
        return (rows.exp() * 2).sum(), other.gather(0, j) * 3

    line = step.__code__.co_firstlineno + 2
    compiled = cf.compile(step)
    fine, bad = cf.tensor([0, 3]), cf.tensor([1, 4])
    j = cf.tensor([[0, 1]])
    compiled(fine, j)
    before, random = state.tolist(), cf.get_rng_state()
    size = " for size 4" if mode == "interpret" else ""
    where = f"{Path(__file__).name}:{line}"
    with pytest.raises(IndexError) as raised:
        compiled(bad, j)
    assert str(raised.value) == f"embedding: index 4 is out of range{size}, at {where}."
    with pytest.raises(IndexError, match=f"gather: index -1 is out of range.*:{line + 1}"):
        compiled(fine, cf.tensor([[0, -1]]))
    assert cf.get_rng_state() == random
    assert compiled(fine, j)[0].shape == ()
    assert state.tolist() == [x + 1 for x in before]


def test_an_index_out_of_range_changes_nothing() -> None:
    table, state, other = leaf(4, 3), cf.zeros(3), cf.zeros(2, 3)
    optimizer = cf.optim.Adam([table])

    @cf.compile
    def step(i: Any) -> None:
        state.add_(1)
        optimizer.zero_grad()
        rows = F.embedding(i, table)
        other[1] = rows.detach().sum(0) + F.dropout(state, 0.5)
        rows.tanh().sum().backward()
        optimizer.step()

    def everything() -> Any:
        moments = [t.tolist() for t in optimizer.state[table].values() if isinstance(t, cf.Tensor)]
        count = optimizer.state[table]["step"].value
        tensors = [t.detach().tolist() for t in (table, state, other, table.grad)]
        versions = [t._version for t in (table, state, other)]
        return moments, count, tensors, versions, table.grad, cf.get_rng_state()

    step(cf.tensor([1, 2]))
    before = everything()
    with pytest.raises(IndexError):
        step(cf.tensor([1, 4]))
    after = everything()
    assert after[4] is before[4]
    assert after[:4] == before[:4]
    assert after[5] == before[5]
    step(cf.tensor([3, 3]))
    assert state.tolist() == [2, 2, 2]


def test_threads_may_share_a_compiled_function() -> None:
    w = cf.randn(64, 64)
    step = cf.compile(lambda x: (x @ w).tanh().sum(1))
    inputs = [cf.randn(n, 64) for n in (1, 2, 3, 4)] * 4
    with cf.no_grad():
        want = [(x @ w).tanh().sum(1) for x in inputs]
    failures: list[Exception] = []

    def work() -> None:
        try:
            for x, expected in zip(inputs, want):
                assert_close(step(x), expected, 1e-4, 1e-4)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert step.captures == 4


def test_explain_tells_what_runs(mode: str) -> None:
    buffer, w = cf.zeros(3), leaf(3)
    settings = types.SimpleNamespace(scale=2.0)

    @cf.compile
    def step(x: Any, fails: bool = False) -> Any:
        buffer.add_(x)
        if fails:
            x.item()
        return (cf.linalg.inv(x.diag()).sum(0) * w).tanh() * settings.scale

    out = step(cf.ones(3))
    out.sum().backward()
    with pytest.raises(cf.CaptureError):
        step(cf.ones(3), True)
    rows = [row.strip() for row in step.explain().splitlines()]
    assert rows[0] == "compile(step): 1 programs, 1 captures"
    for expected in (
        "inputs  1 arg, 2 state",
        "guards  0 modules, 2 tensors, step.__defaults__, buffer, w, settings, settings.scale",
        "effects writes 1 inputs",
        "backward: ",
        "from 1 of 1 results to 1 of 1 inputs",
        "refused: compile(step): `x.item()`",
        "interpreted: " if mode == "interpret" else "host    inv",
    ):
        assert any(row.startswith(expected) for row in rows), (expected, rows)
    stages = next(row for row in rows if row.startswith("time"))
    if mode == "native":
        assert re.fullmatch(
            r"time    record \S+ ms, passes \S+ ms, fuse \S+ ms, plan \S+ ms, compile \S+ ms",
            stages,
        )
        assert step.kernels
    assert step.memory.results == 12
    assert step.memory.residuals == 24, "the sum and the tanh"


def test_a_very_long_tape_warns_once_and_names_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "LONG_TAPE", 100)

    @cf.compile
    def step(x: Any) -> Any:
        x = x * 2
        for _ in range(100):
            x = x + 1
        return x

    line = step.eager.__code__.co_firstlineno + 4
    with pytest.warns(UserWarning, match="101 ops were recorded") as caught:
        step(cf.ones(3))
    step(cf.ones(4))
    assert [str(w.message) for w in caught] == [
        f"compile(step): 101 ops were recorded, 100 of them at {Path(__file__).name}:{line}. A "
        f"loop in Python is recorded step by step. Compile what it repeats, or use ops over whole "
        f"tensors."
    ]
    assert caught[0].filename == __file__


def test_a_host_scalar_cannot_be_set_from_the_elements_of_a_tensor() -> None:
    w = cf.ones(2, requires_grad=True)
    optimizer = cf.optim.SGD([w], lr=0.5)

    @cf.compile
    def step(x: cf.Tensor) -> None:
        optimizer.param_groups[0]["lr"] = x.sum()

    with pytest.raises(cf.CaptureError, match="a host scalar such as a learning rate was set from"):
        step(cf.ones(3))
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_the_default_dtype_is_part_of_the_key() -> None:
    make = cf.compile(lambda: cf.zeros(2))
    assert make().dtype is cf.float32
    cf.set_default_dtype(cf.float64)
    try:
        assert make().dtype is cf.float64
    finally:
        cf.set_default_dtype(cf.float32)
    assert make().dtype is cf.float32


def test_an_explicit_cast_rounds_in_fused_code() -> None:
    f = cf.compile(lambda x: x.to(cf.bfloat16).to(cf.float32) + 0.0)
    x = cf.tensor([1.001, 1e5, 3.14159])
    assert_close(f(x), x.to(cf.bfloat16).to(cf.float32), rtol=0, atol=0)


def test_state_that_is_gone_is_recorded_again() -> None:
    holder = {"w": cf.full((2,), 1.0)}
    f = cf.compile(lambda x: x + holder["w"])
    assert_close(f(cf.zeros(2)), cf.full((2,), 1.0))
    holder["w"] = cf.full((2,), 5.0)
    assert_close(f(cf.zeros(2)), cf.full((2,), 5.0))


def test_a_global_with_the_name_of_an_attribute_is_not_a_dependency() -> None:
    """`optimizer.step()` in a loop over a global `step` must not record again each time."""
    scope: dict[str, Any] = {"cf": cf, "w": cf.ones(2, requires_grad=True)}
    source = (
        "optimizer = cf.optim.SGD([w], lr=0.1)\n"
        "@cf.compile\n"
        "def train(x):\n"
        "    optimizer.zero_grad()\n"
        "    (w * x).sum().backward()\n"
        "    optimizer.step()\n"
        "for step in range(5):\n"
        "    train(cf.ones(2))\n"
    )
    exec(source, scope)
    assert scope["train"].captures == 1
    assert_close(scope["w"].detach(), np.full(2, 0.5, np.float32))


def test_memory_of_results_is_given_out_again_only_when_nobody_holds_it() -> None:
    @cf.compile
    def double(x: Any) -> Any:
        return x * 2.0

    kept = [double(cf.full((1000,), float(i))) for i in range(6)]
    for i, result in enumerate(kept):
        assert (result == 2.0 * i).all()
    view, array = kept[0][:10], kept[1].numpy()
    alias = kept[2].detach()
    kept.clear()
    for i in range(6):
        double(cf.full((1000,), 100.0 + i))
    assert (view == 0.0).all()
    assert (array == 2.0).all()
    assert (alias == 4.0).all()


def test_dropped_results_leave_their_memory_to_later_ones() -> None:
    double = cf.compile(lambda x: x * 2.0, name="double")
    x = cf.ones(100_000)
    places = {double(x).data_ptr() for _ in range(8)}
    assert len(places) <= 2


@pytest.mark.parametrize("kind", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_left_on_a_tensor_from_outside_is_refused(kind: str) -> None:
    w = cf.ones(2, requires_grad=True)
    seen = []

    @cf.compile
    def leaves_one(x: Any) -> None:
        getattr(w, kind)(lambda g: seen.append(1))
        (w * x).sum().backward()

    @cf.compile
    def removes_it(x: Any) -> None:
        handle = w.register_hook(lambda g: g * 2)
        (w * x).sum().backward()
        handle.remove()

    with pytest.raises(cf.CaptureError, match=r"leaves a hook on float32.2., which is from"):
        leaves_one(cf.ones(2))
    assert w.grad is None
    for _ in range(2):
        removes_it(cf.ones(2))
    assert w.grad.tolist() == [4.0, 4.0]
    w.sum().backward()
    assert w.grad.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("x", [cf.tensor(0.7), cf.tensor(3), cf.tensor([1, 2]), cf.tensor([0.5])])
def test_the_numbers_of_an_optimizer_promote_as_numbers(x: cf.Tensor) -> None:
    optimizer = cf.optim.SGD([cf.zeros(1, requires_grad=True)], lr=0.1)

    def step(x: cf.Tensor) -> Any:
        rate = optimizer.param_groups[0]["lr"]
        return x * rate, 1 - rate / 3 + x, x > rate, x.float().clone().mul_(rate * rate)

    for found, expected in zip(cf.compile(step)(x), step(x)):
        assert found.dtype is expected.dtype
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("optimizer", [cf.optim.Adam, cf.optim.AdamW, cf.optim.NAdam])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_optimizers_give_the_same_bits_compiled(optimizer: Any, shape: Any) -> None:
    def trained(wrap: Any) -> cf.Tensor:
        p = cf.full(shape, 0.3, requires_grad=True)
        optim = optimizer([p], lr=0.013)

        def step(x: cf.Tensor) -> None:
            optim.zero_grad()
            ((p * x) * p).sum().backward()
            optim.step()

        step = wrap(step)
        for x in np.random.default_rng(0).standard_normal(60):
            step(cf.tensor(x, dtype=cf.float32))
        return p

    assert trained(cf.compile).tolist() == trained(lambda f: f).tolist()
