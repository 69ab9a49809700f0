"""Gradients of compiled steps: slots, hooks, checkpoints and graphs are those of eager."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.side_by_side import Setting, both, leaf

import contraflow as cf
from contraflow.compiler.passes import optimize
from contraflow.testing import assert_close

F = cf.nn.functional


pytestmark = pytest.mark.usefixtures("mode")


# --- .grad slots -------------------------------------------------------------------------------


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


# --- checkpoints, hooks, graphs ----------------------------------------------------------------


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


def test_a_result_comes_without_the_graph_that_the_function_has_freed() -> None:
    w = leaf(3)

    @cf.compile
    def step(keep: bool) -> cf.Tensor:
        loss = (w * w).sum()
        loss.backward(retain_graph=keep)
        return loss

    for _ in range(2):
        assert not step(False).requires_grad
        w.grad = None
        kept = step(True)
        kept.backward()
        assert_close(w.grad, 4 * w.detach())
        w.grad = None
