"""What compiled functions write, whose memory it is, and what outlives the call."""

from __future__ import annotations

import gc
import queue
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.side_by_side import Setting, both, leaf

import contraflow as cf
from contraflow.testing import assert_close

pytestmark = pytest.mark.usefixtures("mode")


# --- writes ------------------------------------------------------------------------------------


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
        cf.CaptureError, match=r"float32\[3\] is given a value that requires grad, without"
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
    @cf.compile
    def step(x: Any) -> Any:
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


# --- aliasing ----------------------------------------------------------------------------------


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


# --- escapes -----------------------------------------------------------------------------------


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
        f"compile(step): `kept.put(x * 2)` at {Path(__file__).name}:{line}: float32[3] that is "
        f"made here outlives the call for the second time without being returned. Return it, or do "
        f"not keep it."
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
