"""Hooks on tensors, retained gradients, and who may see the buffer of a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import leaf, refused

import contraflow as cf
from contraflow.autograd import grad
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close

# --- hooks -------------------------------------------------------------------------------------


def test_seed_12_tensor_hooks_run_in_order_and_may_replace_the_gradient() -> None:
    x = leaf(2.0)
    y = x * 3.0
    order = []

    def first(g: Tensor) -> Tensor:
        order.append(("first", g.item()))
        return g * 10.0

    def second(g: Tensor) -> None:
        order.append(("second", g.item()))

    y.register_hook(first)
    y.register_hook(second)
    x.register_hook(lambda g: g + 1.0)
    (y * 1.0).backward()
    assert order == [("first", 1.0), ("second", 10.0)]
    assert x.grad.item() == 31.0


def test_seed_12_handles_remove_hooks() -> None:
    x = leaf(2.0)
    calls = []
    handles = [x.register_hook(lambda g, i=i: calls.append(i)) for i in range(3)]
    handles[1].remove()
    handles[1].remove()
    (x * 1.0).backward()
    assert calls == [0, 2]
    x.register_hook(lambda g: calls.append(3))  # a removed place is not taken over by mistake
    handles[1].remove()
    (x * 1.0).backward()
    assert calls == [0, 2, 0, 2, 3]


def test_seed_12_post_accumulate_hooks_see_the_updated_slot() -> None:
    x = leaf(2.0)
    seen = []
    handle = x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.item()))
    (x * 3.0 + x * 4.0).backward()
    (x * 1.0).backward()
    assert seen == [7.0, 8.0]
    handle.remove()
    (x * 1.0).backward()
    assert seen == [7.0, 8.0]


def test_a_post_accumulate_hook_may_step_and_clear() -> None:
    x = leaf(2.0)

    def step(t: Tensor) -> None:
        with cf.no_grad():
            t.sub_(t.grad * 0.1)
        t.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * x).backward()
    assert x.grad is None
    assert_close(x, np.array([1.6]))


def test_a_hook_that_removes_itself() -> None:
    x = leaf(2.0)
    calls = []

    def once(g: Tensor) -> None:
        calls.append(1)
        handle.remove()

    handle = x.register_hook(once)
    (x * 1.0).backward()
    (x * 1.0).backward()
    assert calls == [1]


def test_a_hook_on_a_leaf_runs_once_per_backward_on_the_sum() -> None:
    x = leaf(2.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.item()))
    (x * 3.0 + x * 4.0).backward()
    assert seen == [7.0]


@pytest.mark.parametrize("through", ["itself", "a view of it"])
def test_a_hook_on_a_view_that_is_written_through_gets_what_the_write_read(through: str) -> None:
    # PyTorch never calls such a hook. It does call one on a tensor that is no view, as here.
    x = cf.ones((2, 2), requires_grad=True)
    t = x * 1.5
    v = t[0]
    seen: list[Any] = []
    v.register_hook(lambda g: seen.append(g.tolist()))
    (v if through == "itself" else v[:1]).mul_(2.0)
    (t * t).sum().backward()
    assert seen == [[12.0, 12.0] if through == "itself" else [12.0, 0.0]]
    assert x.grad is not None
    last = 18.0 if through == "itself" else 4.5
    assert x.grad.tolist() == [[18.0, last], [4.5, 4.5]]


@pytest.mark.parametrize("through", ["the base", "another view", "a copy into it", "it is new"])
def test_a_hook_on_a_view_is_not_called_for_what_others_write(through: str) -> None:
    t = cf.ones((2, 2), requires_grad=True) * 1.5
    v = t[0]
    if through == "it is new":
        v.mul_(2.0)
    seen: list[Any] = []
    v.register_hook(lambda g: seen.append(g.tolist()))
    if through == "the base":
        t.mul_(2.0)
    elif through == "another view":
        t[0:1].mul_(2.0)
    elif through == "a copy into it":
        v.copy_(cf.ones(2))
    (t * t).sum().backward()
    assert seen == []


def test_hooks_are_refused_where_no_gradient_comes() -> None:
    with refused(cf.GradientError, "register_hook: float32[2] does not require grad."):
        cf.ones(2).register_hook(print)
    message = "register_post_accumulate_grad_hook: {} is not a leaf that requires grad."
    with refused(cf.GradientError, message.format("float32[2]")):
        cf.ones(2).register_post_accumulate_grad_hook(print)
    with refused(cf.GradientError, message.format("float64[1]")):
        (leaf(1.0) * 2.0).register_post_accumulate_grad_hook(print)


def test_a_hook_that_returns_another_shape() -> None:
    x = leaf(2.0)
    x.register_hook(lambda g: cf.ones(3, dtype=cf.float64))
    with refused(
        cf.GradientError,
        "hook: returned float64[3] for a gradient float64[1]; it must be a tensor of that shape, ",
        "dtype and device, or None.",
    ):
        (x * 1.0).backward()
    assert x.grad is None


@pytest.mark.parametrize("wrong", [2.0, "g", cf.ones(1, dtype=cf.float32)])
def test_a_hook_that_returns_a_number_or_another_dtype(wrong: Any) -> None:
    x = leaf(2.0)
    for t in (x, x * 1.0):
        handle = t.register_hook(lambda g: wrong)
        with pytest.raises(cf.GradientError, match=r"for a gradient .*; it must be a"):
            t.sum().backward()
        handle.remove()


def test_backward_to_no_inputs_is_refused() -> None:
    with refused(
        ValueError, "backward: inputs is empty. Name tensors, or leave it out for all leaves."
    ):
        leaf(2.0).sum().backward(inputs=[])


def test_retain_grad_keeps_what_leaves_the_last_hook() -> None:
    x = leaf(2.0)
    y = x * 3.0
    y.retain_grad()
    y.retain_grad()
    y.register_hook(lambda g: g * 5.0)
    g = cf.tensor([1.0], dtype=cf.float64)
    y.backward(g, retain_graph=True)
    assert y.grad.item() == 5.0
    y.backward(g)
    assert y.grad.item() == 10.0
    assert x.grad.item() == 30.0
    assert g.item() == 1.0
    with refused(cf.GradientError, "retain_grad: float32[1] does not require grad."):
        cf.ones(1).retain_grad()


def test_retain_grad_follows_a_tensor_through_a_write() -> None:
    x = leaf(2.0)
    y = x * 3.0
    y.retain_grad()
    y.mul_(5.0)
    (y * 7.0).backward()
    assert y.grad.item() == 7.0
    assert x.grad.item() == 105.0


def test_retain_grad_follows_a_view_through_writes() -> None:
    x = leaf(1.0, 2.0, 3.0)
    y = x * 3.0
    base_written, written, unused = y[1:], y[2:], y[2:]
    for view in (base_written, written, unused):
        view.retain_grad()
    unused.mul_(1.0)
    written.mul_(5.0)
    ((base_written**2.0).sum() + written.sum()).backward()
    assert base_written.grad.tolist() == [12.0, 90.0]
    assert written.grad.tolist() == [1.0]
    assert unused.grad is None
    assert x.grad.tolist() == [0.0, 36.0, 15.0 + 1350.0]


def test_what_a_copy_overwrites_has_a_gradient_of_zeros() -> None:
    for write in (lambda t, v: t.copy_(v), lambda t, v: t.__setitem__(..., v)):
        x, source = leaf(1.0, 2.0), leaf(3.0, 4.0)
        y = x * 2.0
        write(y, source)
        of_x, of_source = grad((y * y).sum(), [x, source])
        assert of_x.tolist() == [0.0, 0.0]
        assert of_source.tolist() == [6.0, 8.0]


def test_a_copy_and_its_source_have_hooks_and_gradients_of_their_own() -> None:
    x = leaf(1.0)
    source = x * 2.0
    target = cf.zeros(1, dtype=cf.float64)
    target.copy_(source)
    target.register_hook(lambda g: g * 10.0)
    of_source, of_target = grad(target + source, [source, target], retain_graph=True)
    assert (of_source.item(), of_target.item()) == (11.0, 10.0)
    (target + source).backward()
    assert x.grad.item() == 22.0


# --- who may see a buffer ----------------------------------------------------------------------


def test_seed_14_a_gradient_a_hook_has_seen_is_not_changed_later() -> None:
    x = leaf(1.0, 2.0)
    seen = []
    y = x * 1.0
    y.register_hook(lambda g: seen.append((g, g.array.copy())))
    z = y * 1.0
    z.register_hook(lambda g: seen.append((g, g.array.copy())))
    x.register_hook(lambda g: seen.append((g, g.array.copy())))
    (z * 2.0 + y * 3.0 + x * x + x).sum().backward()
    (x * 7.0).sum().backward()
    assert len(seen) == 4
    for g, copy in seen:
        assert_close(g, copy, 0.0, 0.0)


def test_seed_14_a_gradient_from_grad_is_not_changed_later() -> None:
    x, y = leaf(1.0), leaf(2.0)
    z = x + y
    gx, _, _ = grad(z, [x, y, z], retain_graph=True)
    gx.add_(5.0)
    z.backward()
    assert (x.grad.item(), y.grad.item()) == (1.0, 1.0)
    z = x + y
    z.backward()
    assert (gx.item(), x.grad.item()) == (6.0, 2.0)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("some", [False, True])
def test_seed_14_no_two_slots_share_a_buffer(create_graph: bool, some: bool) -> None:
    x, y = leaf(1.0), leaf(2.0)
    g = cf.tensor([1.0], dtype=cf.float64)
    (x + y).backward(g, create_graph=create_graph, inputs=[x, y] if some else None)
    with cf.no_grad():
        x.grad.add_(1.0)
    assert (x.grad.item(), y.grad.item(), g.item()) == (2.0, 1.0, 1.0)


def test_the_slot_accumulates_in_place() -> None:
    x = leaf(1.0)
    (x * 2.0).backward()
    slot = x.grad
    (x * 2.0).backward()
    assert x.grad is slot
    assert slot.item() == 4.0


@pytest.mark.parametrize("dtype", [cf.float16, cf.bfloat16, cf.float32, cf.float64])
def test_seed_14_gradients_keep_the_dtype_of_their_tensor(dtype: cf.dtype) -> None:
    x = cf.ones(3, dtype=dtype, requires_grad=True)
    (x * cf.ones(3, dtype=cf.float64) + x.float()).sum().backward()
    assert x.grad.dtype is dtype
    assert_close(x.grad, np.full(3, 2.0))


def test_the_slot_takes_only_what_fits() -> None:
    x = leaf(1.0)
    with refused(
        ValueError,
        "grad: float32[1] does not fit float64[1]; shape, dtype and device must be the same.",
    ):
        x.grad = cf.ones(1)
    with refused(TypeError, "grad: must be a Tensor or None, not float."):
        x.grad = 1.0
